//! The end of a process whose heap cannot be trusted any more.

use super::outcome::Found;
use crate::config::Config;
use crate::shared::Shared;
use std::fmt::Write as _;

/// The whole report as one text.
pub(super) fn text(config: &Config, found: &Found) -> String {
    let mut text = String::from("metronome: the heap verifier found broken invariants:\n");
    for v in &found.violations {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "  {v}");
    }
    if found.more > 0 {
        let _ = writeln!(text, "  and {} more", found.more);
    }
    text.push_str("metronome: to repeat it: ");
    if let Ok(seed) = std::env::var("METRONOME_SEED") {
        let _ = write!(text, "METRONOME_SEED={seed} ");
    }
    let default = Config::default();
    for ((name, value), (_, usual)) in config.pairs().zip(default.pairs()) {
        if value != usual {
            let variable = name.to_ascii_uppercase().replace('-', "_");
            let _ = write!(text, "METRONOME_{variable}={value} ");
        }
    }
    text.push_str("\nmetronome: the heap cannot be trusted any more: aborting\n");
    text
}

/// Prints what was found, in one system call so that nothing comes between, and ends the process. Takes no lock: the
/// mutators are stopped, and one of them may hold that of standard error.
pub(super) fn abort(s: &Shared, found: &Found) -> ! {
    let text = text(&s.config, found);
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        // SAFETY: the buffer is valid for its length.
        let n = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(n) {
            Ok(n) if n > 0 => rest = &rest[n..],
            _ => break,
        }
    }
    std::process::abort();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::Violation;

    #[test]
    fn a_report_names_everything_that_repeats_it() {
        let violation = Violation {
            invariant: "INV-MARK-COMPLETE",
            edge: "weak",
            cycle: 7,
            detail: "not marked".into(),
            path: Some("Global 3 -> Node 0x10".into()),
        };
        let found = Found { violations: vec![violation], more: 5 };
        let config = Config::default().with("heap", "8M").unwrap().with("verify", "heap,every=3").unwrap();
        let text = text(&config, &found);
        for part in [
            "INV-MARK-COMPLETE (cycle 7, edge weak): not marked; path: Global 3 -> Node 0x10\n",
            "and 5 more\n",
            "METRONOME_HEAP=8M ",
            "METRONOME_VERIFY=heap,every=3 ",
        ] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }
}
