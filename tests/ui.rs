//! What must not compile, and what must.
//!
//! Each file in `tests/ui` is one way to break memory safety that the types refuse, with the compiler's message. To
//! renew the messages after a change: `TRYBUILD=overwrite cargo test --test ui`, and read the difference.
#![forbid(unsafe_code)]

#[test]
fn what_must_not_compile() {
    let t = trybuild::TestCases::new();
    t.pass("tests/ui/pass/*.rs");
    for folder in ["lifetime", "thread", "payload", "slot", "derive", "rendezvous", "no_heap"] {
        t.compile_fail(format!("tests/ui/{folder}/*.rs"));
    }
}
