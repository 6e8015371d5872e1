//! Whether the system can say that memory is low, and by whom.

use std::path::PathBuf;

use metronome_gc::pressure::{Absence, Method, Options, SourceReport, State, Watcher};

use super::finding::{Finding, Verdict};

const TOPIC: &str = "low-memory";

/// Makes a watcher for a moment, triggers and all: what the kernel takes now it takes from any program's watcher.
pub(super) fn finding(root: impl Into<PathBuf>) -> Finding {
    match Watcher::new(Options { root: root.into(), ..Options::default() }) {
        Ok(watcher) => judge(watcher.sources()),
        Err(error) => Finding::new(TOPIC, Verdict::Warn, format!("cannot be watched for: {error}"))
            .advise("raise the limit of open files (ulimit -n)"),
    }
}

fn judge(sources: &[SourceReport]) -> Finding {
    let heard: Vec<_> =
        sources.iter().filter(|s| s.is_watched()).map(|s| format!("{} ({})", s.source, s.state)).collect();
    // A source that another one replaces is not missed.
    let replaced = |s: &SourceReport| matches!(s.state, State::Absent(Absence::Redundant { .. }));
    let missing: Vec<_> =
        sources.iter().filter(|s| !s.is_watched() && !replaced(s)).map(SourceReport::to_string).collect();
    let (heard, missing) = (heard.join(", "), missing.join("; "));
    if heard.is_empty() {
        return Finding::new(TOPIC, Verdict::Unknown, format!("nobody says when memory is low: {missing}"));
    }
    let found = match missing.is_empty() {
        true => format!("told by {heard}"),
        false => format!("told by {heard}. Absent: {missing}"),
    };
    let sampled = |source: &SourceReport| matches!(source.state, State::Watched(Method::Sampled { .. }));
    if sources.iter().all(|source| !source.is_watched() || sampled(source)) {
        return Finding::new(TOPIC, Verdict::Warn, found).advise(
            "boot with psi=1 (CONFIG_PSI), or run in a control group with the memory controller: what is only sampled may come too late",
        );
    }
    Finding::new(TOPIC, Verdict::Ok, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metronome_gc::pressure::Source;

    fn report(source: Source, state: State) -> SourceReport {
        SourceReport { source, file: Some(PathBuf::from("/f")), state }
    }

    fn absent(source: Source) -> SourceReport {
        report(source, State::Absent(Absence::NoFile))
    }

    #[test]
    fn the_kernels_word_is_better_than_samples_and_these_than_nothing() {
        let every = std::time::Duration::from_secs(1);
        let sampled = || report(Source::Available, State::Watched(Method::Sampled { every }));
        let told = || report(Source::GroupReclaim, State::Watched(Method::EventFd));

        let nothing = judge(&[absent(Source::SystemStall), absent(Source::Available)]);
        assert_eq!(nothing.verdict, Verdict::Unknown);
        assert!(nothing.found.contains("system-stall: /f, no such file"), "{}", nothing.found);

        let late = judge(&[absent(Source::SystemStall), sampled()]);
        assert_eq!(late.verdict, Verdict::Warn);
        assert!(late.advice.is_some());
        assert_eq!(
            late.found,
            "told by available (sampled every 1s). Absent: system-stall: /f, no such file"
        );

        let redundant = State::Absent(Absence::Redundant { by: Source::GroupStall });
        let good = judge(&[report(Source::SystemStall, redundant), told(), sampled()]);
        assert_eq!((good.verdict, good.advice), (Verdict::Ok, None));
        assert_eq!(good.found, "told by group-reclaim (eventfd), available (sampled every 1s)");
    }

    #[test]
    fn a_machine_without_any_file_is_unknown() {
        let finding = finding("/nonexistent/metronome");
        assert_eq!((finding.verdict, finding.impossible), (Verdict::Unknown, false));
        for source in Source::ALL {
            assert!(finding.found.contains(source.name()), "{}", finding.found);
        }
    }
}
