//! What real-time and no-heap threads would get here: priorities, and locked memory for their stacks.

use metronome_gc::Config;
use metronome_gc::alarm::priority::{MAX_PRIORITY, MIN_PRIORITY, PriorityRefused, set_fifo};
use metronome_gc::pressure::Size;

use super::finding::{Finding, Verdict};
use super::host::{Files, Limits, lockable_bytes};

/// The standard library's default for a thread's stack, to have a number.
const STACK_BYTES: u64 = 2 << 20;

pub(super) fn findings(files: &Files, limits: &Limits) -> Vec<Finding> {
    let config = Config::default();
    let highest = match std::thread::Builder::new().spawn(|| highest(set_fifo)).map(|t| t.join()) {
        Ok(Ok(highest)) => Some(highest),
        // The collector needs threads too: that is said elsewhere.
        Ok(Err(_)) | Err(_) => None,
    };
    let mut findings = match highest {
        Some(highest) => {
            vec![real_time(&highest, config.gc_priority), no_heap(&highest, config.alarm_priority)]
        }
        None => Vec::new(),
    };
    findings.push(locked_stacks(lockable_bytes(files, limits), config.immortal));
    findings
}

/// The highest priority that is granted, or why the lowest is refused. At most 99 system calls.
fn highest(grant: impl Fn(u8) -> Result<(), PriorityRefused>) -> Result<u8, PriorityRefused> {
    let granted = (MIN_PRIORITY..=MAX_PRIORITY).rev().find(|&priority| grant(priority).is_ok());
    granted.ok_or(()).or_else(|()| grant(MIN_PRIORITY).map(|()| MIN_PRIORITY))
}

/// They run below the collector, which stops them.
fn real_time(highest: &Result<u8, PriorityRefused>, gc_priority: u8) -> Finding {
    const TOPIC: &str = "real-time-threads";
    let below = gc_priority.saturating_sub(1);
    match highest {
        Ok(highest) if *highest >= below => {
            let found = format!("priorities 1 to {below}, below the collector's {gc_priority}");
            Finding::new(TOPIC, Verdict::Ok, found)
        }
        Ok(highest) => {
            let found =
                format!("priorities 1 to {highest} only, and the collector does not get its {gc_priority}");
            Finding::new(TOPIC, Verdict::Warn, found).advise(format!(
                "raise RLIMIT_RTPRIO (ulimit -r) to {gc_priority} or more: threads above their collector starve it"
            ))
        }
        Err(refused) => {
            Finding::new(TOPIC, Verdict::Warn, "no real-time priority: they run as ordinary threads")
                .advise(refused.remedy())
        }
    }
}

/// They run above the collector and the alarm, which never stop them.
fn no_heap(highest: &Result<u8, PriorityRefused>, alarm_priority: u8) -> Finding {
    const TOPIC: &str = "no-heap-threads";
    match highest {
        Ok(highest) if *highest > alarm_priority => {
            let lowest = alarm_priority + 1;
            let found = format!("priorities {lowest} to {highest}, above the alarm's {alarm_priority}");
            Finding::new(TOPIC, Verdict::Ok, found)
        }
        Ok(highest) => {
            let found = format!("no priority above the alarm's {alarm_priority} (the highest is {highest})");
            Finding::new(TOPIC, Verdict::Warn, found).advise(format!(
                "raise RLIMIT_RTPRIO (ulimit -r) above {alarm_priority}, or lower gc-priority and alarm-priority: each \
                 quantum delays a thread below them that shares their CPU"
            ))
        }
        Err(refused) => {
            Finding::new(TOPIC, Verdict::Warn, "no real-time priority: any quantum may delay them on its CPU")
                .advise(refused.remedy())
        }
    }
}

/// Whether the immortal area and at least one stack can be locked.
fn locked_stacks(lockable: Option<u64>, immortal: u64) -> Finding {
    const TOPIC: &str = "locked-stacks";
    match lockable {
        None => Finding::unknown(TOPIC, "RLIMIT_MEMLOCK"),
        Some(u64::MAX) => Finding::new(TOPIC, Verdict::Ok, "permitted without limit"),
        Some(limit) => {
            let stacks = limit.saturating_sub(immortal) / STACK_BYTES;
            let found = format!(
                "{} may be locked: beside an immortal area of {}, {stacks} stacks of {}",
                Size(limit),
                Size(immortal),
                Size(STACK_BYTES)
            );
            match stacks {
                0 => Finding::new(TOPIC, Verdict::Warn, found).advise(
                    "raise RLIMIT_MEMLOCK (ulimit -l): a page of a real-time thread's stack that was swapped out costs it a disk access",
                ),
                _ => Finding::new(TOPIC, Verdict::Ok, found),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> PriorityRefused {
        PriorityRefused::NotPermitted { requested: 1, rtprio_limit: Some(0) }
    }

    #[test]
    fn the_highest_priority_is_the_limit_whatever_it_is() {
        for limit in 0..=MAX_PRIORITY {
            let grant = |priority| if priority <= limit { Ok(()) } else { Err(refused()) };
            assert_eq!(highest(grant), if limit == 0 { Err(refused()) } else { Ok(limit) });
        }
    }

    #[test]
    fn priorities_are_judged_by_those_of_the_collector_and_the_alarm() {
        for (highest, real_time_verdict, no_heap_verdict) in [
            (Ok(99), Verdict::Ok, Verdict::Ok),
            (Ok(12), Verdict::Ok, Verdict::Ok),
            (Ok(11), Verdict::Ok, Verdict::Warn),
            (Ok(9), Verdict::Ok, Verdict::Warn),
            (Ok(8), Verdict::Warn, Verdict::Warn),
            (Err(refused()), Verdict::Warn, Verdict::Warn),
        ] {
            let (real_time, no_heap) = (real_time(&highest, 10), no_heap(&highest, 11));
            assert_eq!(
                (real_time.verdict, no_heap.verdict),
                (real_time_verdict, no_heap_verdict),
                "{highest:?}"
            );
            for finding in [real_time, no_heap] {
                assert_eq!(finding.advice.is_some(), finding.verdict == Verdict::Warn, "{finding:?}");
            }
        }
        assert_eq!(real_time(&Ok(99), 10).found, "priorities 1 to 9, below the collector's 10");
        assert_eq!(no_heap(&Ok(50), 11).found, "priorities 12 to 50, above the alarm's 11");
    }

    #[test]
    fn a_limit_is_told_in_stacks() {
        let of = |limit| locked_stacks(limit, 1 << 20);
        assert_eq!(of(None).verdict, Verdict::Unknown);
        assert_eq!(of(Some(u64::MAX)).verdict, Verdict::Ok);
        let eight = of(Some(8 << 20));
        assert!(eight.verdict == Verdict::Ok && eight.found.contains(", 3 stacks of"), "{}", eight.found);
        for little in [0, 64 << 10, (3 << 20) - 1] {
            assert_eq!(of(Some(little)).verdict, Verdict::Warn, "{little}");
        }
        assert_eq!(of(Some(3 << 20)).verdict, Verdict::Ok);
    }
}
