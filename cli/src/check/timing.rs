//! The clock, and how late the alarm is.

use std::io;
use std::time::Duration;

use metronome_gc::alarm::{Alarm, AlarmConfig, Bucket, Clock, LatenessSnapshot};
use nix::time::{ClockId, clock_getres};
use serde_json::{Value, json};

use super::finding::{Finding, Verdict};
use super::host::{Files, Limits};

/// The default beat.
const PERIOD_NS: u64 = 500_000;
/// The alarm's default priority.
const PRIORITY: u8 = 11;
/// Lateness up to which a beat still serves its purpose: a fifth of it.
const GOOD_NS: u64 = PERIOD_NS / 5;

const NS_PER_US: u64 = 1_000;

pub(super) fn clock(files: &Files) -> Vec<Finding> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = match files.read(path) {
        Some(name) => judge_source(name.trim()),
        None => Finding::unknown("clock-source", path),
    };
    let resolution = match clock_getres(ClockId::CLOCK_MONOTONIC) {
        Ok(step) => judge_resolution(Duration::from(step)),
        Err(_) => Finding::unknown("clock-resolution", "clock_getres"),
    };
    vec![source, resolution, judge_cost(cost_of_reading())]
}

fn judge_source(name: &str) -> Finding {
    const TOPIC: &str = "clock-source";
    match name {
        "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page" | "arch_sys_counter" => Finding::new(TOPIC, Verdict::Ok, name),
        "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "pit" => Finding::new(TOPIC, Verdict::Bad, name)
            .advise("see the kernel log for why the TSC was given up, and choose it (clocksource=tsc) if it is reliable"),
        _ => Finding::new(TOPIC, Verdict::Warn, name).advise("not known to be readable without a system call: see clock-cost"),
    }
}

fn judge_resolution(step: Duration) -> Finding {
    const TOPIC: &str = "clock-resolution";
    let found = format!("{} ns", step.as_nanos());
    let remedy = "use a kernel with high-resolution timers (highres=on, CONFIG_HIGH_RES_TIMERS)";
    match step.as_nanos() {
        0..=1_000 => Finding::new(TOPIC, Verdict::Ok, found),
        1_001..=100_000 => Finding::new(TOPIC, Verdict::Warn, found).advise(remedy),
        _ => Finding::new(TOPIC, Verdict::Bad, found).advise(remedy),
    }
}

/// What a thread of the collector's priority that does nothing but read the clock loses at a time: no work step of the
/// collector can be measured finer than that. CPU time counts most of it too, since interrupts run on the thread's account.
pub(super) fn interruptions(for_how_long: Duration) -> Finding {
    let spin = move || {
        // Refused: then the thread competes with others, which is what the collector would do.
        let fifo = metronome_gc::alarm::priority::set_fifo(PRIORITY - 1).is_ok();
        let clock = Clock::monotonic();
        let mut gaps = Vec::with_capacity(1 << 16);
        let mut last = clock.now();
        let end = last.saturating_add(u64::try_from(for_how_long.as_nanos()).unwrap_or(u64::MAX));
        while last < end {
            let now = clock.now();
            if now.saturating_sub(last) >= GAP_NS && gaps.len() < gaps.capacity() {
                gaps.push(now - last);
            }
            last = now;
        }
        (fifo, gaps)
    };
    match std::thread::Builder::new().name("spin".into()).spawn(spin).map(std::thread::JoinHandle::join) {
        Ok(Ok((fifo, gaps))) => judge_interruptions(fifo, gaps, for_how_long),
        _ => Finding::new("interruptions", Verdict::Warn, "could not be measured")
            .advise("see the limit on threads (ulimit -u)"),
    }
}

/// A gap in which something else ran.
const GAP_NS: u64 = 2_000;

fn judge_interruptions(fifo: bool, mut gaps: Vec<u64>, time: Duration) -> Finding {
    gaps.sort_unstable();
    let at =
        |per_mille: usize| gaps.get(gaps.len().saturating_sub(1) * per_mille / 1000).copied().unwrap_or(0);
    let found = format!(
        "{} in {} ms for a busy thread {}: p50 {} us, p99 {} us, max {} us",
        gaps.len(),
        time.as_millis(),
        if fifo { "under SCHED_FIFO" } else { "without real-time priority" },
        at(500) / NS_PER_US,
        at(990) / NS_PER_US,
        at(1000) / NS_PER_US,
    );
    if at(1000) <= GOOD_NS {
        Finding::new("interruptions", Verdict::Ok, found)
    } else {
        Finding::new("interruptions", Verdict::Warn, found).advise(
            "this is lost in the middle of quanta too: give the collector a CPU of its own (isolcpus, nohz_full, --gc-cpu), or a host that is not shared",
        )
    }
}

/// Nanoseconds that one reading takes: the best of several rounds, so that an interruption does not count.
fn cost_of_reading() -> u64 {
    const ROUNDS: usize = 20;
    const READINGS: u64 = 500;
    let clock = Clock::monotonic();
    (0..ROUNDS)
        .map(|_| {
            let start = clock.now();
            let end = (0..READINGS).fold(start, |_, _| std::hint::black_box(clock.now()));
            end.saturating_sub(start) / READINGS
        })
        .min()
        .unwrap_or(0)
}

fn judge_cost(ns: u64) -> Finding {
    const TOPIC: &str = "clock-cost";
    let found = format!("{ns} ns per reading");
    if ns <= 200 {
        Finding::new(TOPIC, Verdict::Ok, found)
    } else {
        Finding::new(TOPIC, Verdict::Warn, found)
            .advise("readings go through a system call: choose a clock source that the vDSO serves; quanta will be less exact")
    }
}

/// One measurement.
pub(super) struct Lateness {
    policy: &'static str,
    snapshot: LatenessSnapshot,
    buckets: Vec<Bucket>,
}

/// Measures ordinary and real-time alarms for `each` long.
pub(super) fn alarm(each: Duration, limits: &Limits) -> (Vec<Finding>, Vec<Lateness>) {
    let mut findings = Vec::new();
    let mut measured = Vec::new();
    match measure("ordinary priority", None, each) {
        Ok((lateness, _)) => {
            findings.push(judge_ordinary(&lateness.snapshot));
            measured.push(lateness);
        }
        Err(error) => findings.push(no_alarm(&error)),
    }
    let config = AlarmConfig { priority: Some(PRIORITY), ..AlarmConfig::with_period(PERIOD_NS) };
    match measure("SCHED_FIFO", config.priority, each) {
        Ok((lateness, None)) => {
            findings.push(Finding::new("real-time-priority", Verdict::Ok, permitted(limits)));
            findings.push(judge_real_time(&lateness.snapshot));
            measured.push(lateness);
        }
        Ok((_, Some(refusal))) => {
            let finding = Finding::new("real-time-priority", Verdict::Warn, "SCHED_FIFO is refused");
            findings.push(finding.advise(refusal));
        }
        Err(error) => {
            findings.push(Finding::new("real-time-priority", Verdict::Unknown, format!("no thread: {error}")))
        }
    }
    (findings, measured)
}

fn permitted(limits: &Limits) -> String {
    let limit = limits.rtprio.map_or_else(|| String::from("unknown"), |limit| limit.to_string());
    format!("SCHED_FIFO {PRIORITY} is granted (RLIMIT_RTPRIO is {limit})")
}

fn no_alarm(error: &io::Error) -> Finding {
    Finding::new("lateness", Verdict::Bad, format!("the alarm cannot be started: {error}"))
        .advise("raise the limit of threads (ulimit -u, pids.max)")
        .impossible()
}

/// Runs an alarm for a while; with the refusal instead of ticks if the priority cannot be had.
fn measure(
    policy: &'static str,
    priority: Option<u8>,
    time: Duration,
) -> io::Result<(Lateness, Option<String>)> {
    let config = AlarmConfig {
        priority,
        name: "metronome-check".into(),
        paused: true,
        ..AlarmConfig::with_period(PERIOD_NS)
    };
    let alarm = Alarm::spawn(config, |_| {})?;
    let refusal = match &alarm.report().priority {
        Some(Err(refused)) => Some(refused.to_string()),
        _ => None,
    };
    let control = alarm.control();
    if refusal.is_none() {
        alarm.resume();
        std::thread::sleep(time);
        // A short measurement on a busy host may see no beat; only patience tells that from timers that do not work.
        for _ in 0..50 {
            if control.ticks() > 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let snapshot = alarm.stop().lateness;
    Ok((Lateness { policy, snapshot, buckets: control.lateness_buckets() }, refusal))
}

fn describe(shot: &LatenessSnapshot) -> String {
    let us = |ns: u64| format!("{}.{}", ns / NS_PER_US, ns % NS_PER_US / 100);
    format!(
        "half of {} beats within {} us, 99 % {} us, 99.9 % {} us, latest {} us, {} missed",
        shot.count,
        us(shot.p50),
        us(shot.p99),
        us(shot.p999),
        us(shot.max),
        shot.missed
    )
}

/// The verdict on beats: good, late but within their beat, or later than that.
fn verdict(shot: &LatenessSnapshot) -> Verdict {
    if shot.p99 <= GOOD_NS && shot.missed == 0 {
        Verdict::Ok
    } else if shot.p99 <= PERIOD_NS {
        Verdict::Warn
    } else {
        Verdict::Bad
    }
}

fn judge_ordinary(shot: &LatenessSnapshot) -> Finding {
    if shot.count == 0 {
        return Finding::new("lateness", Verdict::Bad, "the alarm never came")
            .advise("measure again for longer (--seconds); if it stays so, timers do not work here")
            .impossible();
    }
    let finding = Finding::new("lateness", verdict(shot), format!("ordinary priority: {}", describe(shot)));
    match finding.verdict {
        Verdict::Ok | Verdict::Unknown => finding,
        _ => finding.advise(
            "use real-time priority, or leave CPUs idle; late beats make for late quanta, not for long ones",
        ),
    }
}

fn judge_real_time(shot: &LatenessSnapshot) -> Finding {
    const TOPIC: &str = "real-time-lateness";
    if shot.count == 0 {
        return Finding::new(TOPIC, Verdict::Bad, "the alarm never came")
            .advise("see rt-throttling and rt-group");
    }
    let finding = Finding::new(TOPIC, verdict(shot), format!("SCHED_FIFO: {}", describe(shot)));
    match finding.verdict {
        Verdict::Ok | Verdict::Unknown => finding,
        _ => finding.advise("something above the scheduler is late: see steal, cpu-quota, cpu-frequency and the BIOS (SMI, C-states)"),
    }
}

impl Lateness {
    #[cfg(test)]
    pub(super) fn count(&self) -> u64 {
        self.snapshot.count
    }

    /// A histogram with a line for each power of two microseconds.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("Lateness of a beat of {} us, {}:\n", PERIOD_NS / NS_PER_US, self.policy);
        let rows = rows(&self.buckets);
        let most = rows.iter().map(|&(_, count)| count).max().unwrap_or(0);
        for (below_us, count) in rows {
            let line = format!("  < {below_us:>8} us {count:>9} {}", bar(count, most));
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    pub(super) fn to_json(&self) -> Value {
        let shot = &self.snapshot;
        let buckets: Vec<Value> = self
            .buckets
            .iter()
            .map(|bucket| json!({ "low_ns": bucket.low, "high_ns": bucket.high, "count": bucket.count }))
            .collect();
        json!({
            "policy": self.policy,
            "period_ns": PERIOD_NS,
            "count": shot.count,
            "p50_ns": shot.p50,
            "p99_ns": shot.p99,
            "p999_ns": shot.p999,
            "max_ns": shot.max,
            "missed": shot.missed,
            "buckets": buckets,
        })
    }
}

/// Counts below each power of two microseconds (and not below the one before), from the first row that is not empty to
/// the last, those between included.
fn rows(buckets: &[Bucket]) -> Vec<(u64, u64)> {
    // A bucket that straddles a bound, which is no power of two nanoseconds, goes where its low end is.
    let row = |ns: u64| (ns / NS_PER_US).checked_ilog2().map_or(0, |exponent| exponent + 1);
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else { return Vec::new() };
    (row(first.low)..=row(last.low))
        .map(|at| {
            let count =
                buckets.iter().filter(|bucket| row(bucket.low) == at).map(|bucket| bucket.count).sum();
            (1 << at, count)
        })
        .collect()
}

/// At most 40 characters, at least one for what is not nothing.
fn bar(count: u64, most: u64) -> String {
    const WIDTH: u128 = 40;
    let length = (u128::from(count) * WIDTH).div_ceil(u128::from(most.max(1)));
    "#".repeat(usize::try_from(length).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shot(count: u64, p99: u64, missed: u64) -> LatenessSnapshot {
        let mut shot = LatenessSnapshot::default();
        (shot.count, shot.p50, shot.p99, shot.p999, shot.max, shot.missed) =
            (count, p99 / 2, p99, p99, 2 * p99, missed);
        shot
    }

    #[test]
    fn clock_sources() {
        assert_eq!(judge_source("tsc").verdict, Verdict::Ok);
        assert_eq!(judge_source("hpet").verdict, Verdict::Bad);
        assert_eq!(judge_source("sundial").verdict, Verdict::Warn);
    }

    #[test]
    fn interruptions_are_summed_up_and_judged_by_the_longest() {
        let time = Duration::from_millis(300);
        let calm = judge_interruptions(true, vec![9_000, 3_000, 5_000], time);
        assert_eq!(calm.verdict, Verdict::Ok);
        assert!(
            calm.found.contains("3 in 300 ms")
                && calm.found.contains("p50 5 us")
                && calm.found.contains("max 9 us")
        );
        let noisy = judge_interruptions(false, vec![3_000, 2_000_000], time);
        assert_eq!(noisy.verdict, Verdict::Warn);
        assert!(noisy.found.contains("max 2000 us"));
        assert!(judge_interruptions(true, vec![], time).found.starts_with("0 in"));
    }

    #[test]
    fn resolutions_and_costs() {
        for (ns, expected) in
            [(1, Verdict::Ok), (1_000, Verdict::Ok), (1_001, Verdict::Warn), (4_000_000, Verdict::Bad)]
        {
            assert_eq!(judge_resolution(Duration::from_nanos(ns)).verdict, expected);
        }
        assert_eq!((judge_cost(25).verdict, judge_cost(201).verdict), (Verdict::Ok, Verdict::Warn));
    }

    #[test]
    fn lateness_is_judged_by_its_99th_percentile_and_misses() {
        for (p99, missed, expected) in [
            (100_000, 0, Verdict::Ok),
            (100_001, 0, Verdict::Warn),
            (10, 1, Verdict::Warn),
            (500_000, 9, Verdict::Warn),
            (500_001, 0, Verdict::Bad),
        ] {
            assert_eq!(judge_ordinary(&shot(1000, p99, missed)).verdict, expected);
            assert_eq!(judge_real_time(&shot(1000, p99, missed)).verdict, expected);
        }
        let text = judge_ordinary(&shot(1000, 60_250, 0)).found;
        assert_eq!(
            text,
            "ordinary priority: half of 1000 beats within 30.1 us, 99 % 60.2 us, 99.9 % 60.2 us, latest 120.5 us, 0 missed"
        );
    }

    #[test]
    fn an_alarm_that_never_comes_makes_running_impossible() {
        assert!(judge_ordinary(&shot(0, 0, 0)).impossible);
        // Without ticks at real-time priority there are still the ordinary ones.
        assert_eq!(
            (judge_real_time(&shot(0, 0, 0)).verdict, judge_real_time(&shot(0, 0, 0)).impossible),
            (Verdict::Bad, false)
        );
    }

    fn bucket(low: u64, count: u64) -> Bucket {
        Bucket { low, high: low, count }
    }

    #[test]
    fn histogram_rows_are_powers_of_two_without_gaps() {
        let buckets = [
            bucket(999, 1),
            bucket(1_000, 2),
            bucket(1_999, 3),
            bucket(2_000, 4),
            bucket(3_999, 5),
            bucket(16_000, 6),
        ];
        assert_eq!(rows(&buckets), [(1, 1), (2, 5), (4, 9), (8, 0), (16, 0), (32, 6)]);
        assert_eq!(rows(&buckets[4..]), [(4, 5), (8, 0), (16, 0), (32, 6)]);
        assert_eq!(rows(&[]), []);
        assert_eq!(rows(&[bucket(u64::MAX, 1)]).len(), 1);
    }

    #[test]
    fn bars_show_what_is_not_nothing() {
        assert_eq!(
            (bar(0, 9).len(), bar(1, 1_000_000).len(), bar(9, 9).len(), bar(0, 0).len()),
            (0, 1, 40, 0)
        );
        assert_eq!(bar(u64::MAX, u64::MAX).len(), 40);
    }

    #[test]
    fn the_text_counts_every_beat() {
        let lateness = Lateness {
            policy: "test",
            snapshot: shot(30, 1_000, 0),
            buckets: vec![bucket(500, 10), bucket(5_000, 20)],
        };
        let text = lateness.to_text();
        let counted: u64 = text
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().nth(3).unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!((text.lines().count(), counted), (1 + 4, 30));
        assert_eq!(lateness.to_json()["buckets"][1]["count"], 20);
    }
}
