#![no_main]
#![allow(dead_code, reason = "what only the tests use")]

#[path = "../../tests/programs/arrays.rs"]
mod arrays;
#[path = "../../tests/programs/compare.rs"]
mod compare;
#[path = "../../tests/programs/decode.rs"]
mod decode;
#[path = "../../tests/programs/finalizer.rs"]
mod finalizer;
#[path = "../../tests/programs/operations.rs"]
mod operations;
#[path = "../../tests/programs/oracle.rs"]
mod oracle;
#[path = "../../tests/programs/program.rs"]
mod program;
#[path = "../../tests/programs/references.rs"]
mod references;
#[path = "../../tests/programs/run.rs"]
mod run;
#[path = "../../tests/programs/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let program = decode::decode(data);
    if let Err(found) = run::run(&program, None) {
        panic!("{found}\n{program}");
    }
});
