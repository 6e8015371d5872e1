//! Figures against sums over what logs were written from; cuts, noise, concatenation and damage.

#[path = "../../verbosegc/tests/common/mod.rs"]
mod common;

use common::{Fact, Script, below, write};
use metronome_analysis::advice::advise;
use metronome_analysis::{Analysis, RunFigures, analyze};
use metronome_scheduler::ledger::Interval;
use metronome_scheduler::mmu::mmu;
use metronome_verbosegc::WallClock;
use metronome_verbosegc::model::{CycleFacts, QuantumPhase, SyncReason};
use metronome_verbosegc::writer::{CycleStartFacts, Format, LogWriter, Options, QuantumFacts, SyncGcFacts};
use quickcheck::{Arbitrary, Gen, QuickCheck};

fn figures(text: &str) -> Analysis {
    analyze(text.as_bytes()).unwrap()
}

/// Whatever was written, and advice for it: nothing panics, and what can be counted is.
#[test]
fn counts_are_those_of_the_facts() {
    fn counted(script: Script) -> bool {
        let a = figures(&write(&script));
        advise(&a);
        let count = |is: fn(&Fact) -> bool| script.facts.iter().filter(|f| is(f)).count() as u64;
        let sum = |of: fn(&RunFigures) -> u64| a.runs.rows.iter().map(of).sum::<u64>();
        a.complete
            && sum(|r| r.quanta) == count(|f| matches!(f, Fact::Quantum(_)))
            && sum(|r| r.cycles) == count(|f| matches!(f, Fact::CycleEnd(..)))
            && sum(|r| r.synchronous.total()) == count(|f| matches!(f, Fact::Sync(_)))
            && sum(|r| r.trouble.out_of_memory) == count(|f| matches!(f, Fact::Oom(..)))
            && sum(|r| r.trouble.tracker_overflows) == count(|f| matches!(f, Fact::Tracker(..)))
            && sum(|r| r.own.stops_cancelled) == count(|f| matches!(f, Fact::Stop(..)))
            && sum(|r| r.own.departures.values().sum()) == count(|f| matches!(f, Fact::Departure(..)))
            && sum(|r| r.resizes.total()) == count(|f| matches!(f, Fact::Resize(..)))
            && sum(|r| r.own.notes.total()) == count(|f| matches!(f, Fact::Note(..)))
    }
    QuickCheck::new().tests(150).quickcheck(counted as fn(Script) -> bool);
}

/// Quanta of a sane run, each with its length in µs and a pause before it.
#[derive(Clone, Debug)]
struct Sane {
    format: Format,
    interval_ns: u64,
    /// Gap, length, time to stop (µs); phase.
    quanta: Vec<(u64, u64, u64, QuantumPhase)>,
    /// A synchronous collection after so many quanta, of so many µs.
    sync: Option<(usize, u64)>,
}

impl Arbitrary for Sane {
    fn arbitrary(g: &mut Gen) -> Self {
        let phases = [QuantumPhase::Precollect, QuantumPhase::Mark, QuantumPhase::Sweep];
        let n = 1 + below(g, 60);
        Self {
            format: if bool::arbitrary(g) { Format::V2007 } else { Format::OpenJ9 },
            interval_ns: below(g, 200) * 1_000_000,
            quanta: (0..n)
                .map(|_| (below(g, 20_000), 1 + below(g, 3_000), below(g, 100), *g.choose(&phases).unwrap()))
                .collect(),
            sync: bool::arbitrary(g).then(|| (below(g, n) as usize, 1 + below(g, 50_000))),
        }
    }
}

impl Sane {
    fn text(&self) -> String {
        let clock = WallClock { monotonic_ns: 0, unix_ns: 1_700_000_000_000_000_000, offset_seconds: 0 };
        let mut options = Options::new("metronome-gc test", clock);
        options.heartbeat_interval_ns = self.interval_ns;
        let mut w = LogWriter::new(Vec::new(), self.format, options);
        let mut now = 0;
        let start = CycleStartFacts { heap_free_bytes: 1 << 20, reason: None };
        w.cycle_start(now, &start).unwrap();
        for (i, (gap, length, stop, phase)) in self.quanta.iter().enumerate() {
            now += gap * 1000;
            let q = QuantumFacts {
                start_ns: now,
                end_ns: now + length * 1000,
                phase: *phase,
                exclusive_access_ns: stop * 1000,
                heap_free_bytes: 1000 + i as u64,
                gc_thread_priority: 10,
                ..QuantumFacts::default()
            };
            now = q.end_ns;
            w.quantum(&q).unwrap();
            if let Some((_, us)) = self.sync.filter(|(at, _)| *at == i) {
                let gc = SyncGcFacts {
                    start_ns: now,
                    end_ns: now + us * 1000,
                    reason: SyncReason::Explicit,
                    free_before_bytes: 1,
                    free_after_bytes: 1 << 30,
                    ..SyncGcFacts::default()
                };
                now = gc.end_ns;
                w.sync_gc(&gc).unwrap();
            }
        }
        w.cycle_end(now, 1 << 20, &CycleFacts::default()).unwrap();
        String::from_utf8(w.finish().unwrap()).unwrap()
    }
}

/// Heartbeats of one quantum each tell the least utilization of windows: exactly where times are printed in microseconds
/// (2007), to the grain of two milliseconds where they are not.
#[test]
fn windows_of_single_quanta_are_those_of_an_oracle() {
    fn as_the_oracle(run: Sane) -> bool {
        let run = Sane { interval_ns: 0, ..run };
        let a = figures(&run.text());
        let r = &a.runs.rows[0];
        let (mut now, mut all) = (0, Vec::new());
        for (i, (gap, length, ..)) in run.quanta.iter().enumerate() {
            let sync = run.sync.filter(|(at, _)| *at == i).map_or(0, |(_, us)| us * 1000);
            let start = now + gap * 1000;
            now = start + length * 1000 + sync;
            all.push(Interval::new(start, now));
        }
        let n = run.quanta.len() as u64;
        let in_2007 = run.format == Format::V2007;
        let grain = if in_2007 { 0 } else { 2_000_000 };
        let right = |window: u64| {
            // The 2007 form tells nothing of the time before its first heartbeat.
            let start = if in_2007 { all[0].start_ns } else { 0 };
            let expected = mmu(&all, Interval::new(start, now), window);
            let got = r.least_ppm(window);
            let off = (grain * 1_000_000 / window) as u32;
            match (got, expected) {
                // The 2007 form tells the second of a collection: windows over it are not judged.
                (got, Some(e)) if in_2007 && run.sync.is_some() => got.is_none_or(|got| got >= e),
                (Some(got), Some(e)) => got.abs_diff(e) <= off,
                // Of a window about as long as the run the grain decides.
                (got, expected) => got == expected || (grain > 0 && now.abs_diff(window) <= grain),
            }
        };
        let windows = [1, 2, 5, 10, 20, 50, 60, 100, 200, 500, 1000].map(|ms| ms * 1_000_000);
        r.single.quanta == n && if n < 20 { r.windows().is_empty() } else { windows.into_iter().all(right) }
    }
    QuickCheck::new().tests(200).quickcheck(as_the_oracle as fn(Sane) -> bool);
}

/// Extremes are exact; a mean is cut to a µs for each heartbeat.
#[test]
fn figures_of_a_run_are_those_of_its_quanta() {
    fn exact(run: Sane) -> bool {
        let a = figures(&run.text());
        let r = &a.runs.rows[0];
        let us =
            |of: fn(&(u64, u64, u64, QuantumPhase)) -> u64| run.quanta.iter().map(of).collect::<Vec<u64>>();
        let (lengths, stops) = (us(|q| q.1), us(|q| q.2));
        let n = lengths.len() as u64;
        let extremes = |v: &[u64]| (v.iter().min().unwrap() * 1000, v.iter().max().unwrap() * 1000);
        let sum: u64 = lengths.iter().sum::<u64>() * 1000;
        let q = &r.quantum.stat;
        let sync = run.sync.map(|(_, us)| us * 1000);
        let series: u64 = r.series.buckets.iter().map(|b| b.synchronous_ns).sum();
        assert_eq!((q.count, (q.min, q.max)), (n, extremes(&lengths)));
        assert_eq!((r.stop.stat.min, r.stop.stat.max), extremes(&stops));
        assert!(q.sum <= u128::from(sum) && q.sum + u128::from(n) * 1000 > u128::from(sum));
        assert_eq!(r.synchronous.rows.iter().filter_map(|s| s.ns).next(), sync);
        // One that began with the run began before its first time stamp, which is cut to a millisecond.
        let all = sync.unwrap_or(0);
        assert!(series <= all && series + 1_000_000 > all, "{series} of {all}");
        assert_eq!(r.free.map(|f| (f.min, f.max)), Some((1000, 999 + n)));
        assert_eq!((r.cycles, r.cycles_incomplete, r.cycle_open), (1, 0, false));
        assert_eq!(r.series.buckets.iter().map(|b| b.quanta).sum::<u64>(), n);
        assert_eq!(r.series.buckets.iter().map(|b| b.quantum_max_ns).max(), Some(q.max));
        if run.format == Format::OpenJ9 {
            for p in &r.phases {
                let of: Vec<u64> = run.quanta.iter().filter(|q| q.3 == p.phase).map(|q| q.1).collect();
                assert_eq!((p.quantum.stat.count, p.peak.value), (of.len() as u64, extremes(&of).1));
            }
        }
        // Each heartbeat of one quantum: then percentiles are exact, and of a value that there is.
        if run.interval_ns == 0 {
            let near = |ns: u64| lengths.iter().any(|us| (us * 1000).abs_diff(ns) <= us + 1000);
            assert!(r.quantum.exact && near(r.quantum.p50) && near(r.quantum.p99));
        }
        true
    }
    QuickCheck::new().tests(150).quickcheck(exact as fn(Sane) -> bool);
}

/// The figures without what tells where in the file they stand.
fn lineless(a: &Analysis) -> String {
    let text = format!("{:?}", a.runs);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("line: ") {
        let digits = rest[at + 6..].bytes().take_while(u8::is_ascii_digit).count();
        out.push_str(&rest[..at]);
        rest = &rest[at + 6 + digits..];
    }
    out + rest
}

#[test]
fn noise_between_elements_changes_no_figure() {
    const NOISE: [&str; 6] = [
        "0 / 200 complete.\n",
        "JVMDUMP039I Processing dump event \"systhrow\", detail \"java/lang/OutOfMemoryError\"\n",
        "a < b && c > d; it's \"so\n",
        "\r\n\t\r\n",
        "<debug>text</debug>\n",
        "\u{feff}\0\u{1b}[31mred\n",
    ];
    fn same(run: Sane, places: Vec<(u16, u8)>) -> bool {
        let text = run.text();
        let plain = figures(&text);
        let mut noisy = String::new();
        for (i, line) in text.lines().enumerate() {
            for (_, n) in places.iter().filter(|(p, _)| usize::from(*p) % text.lines().count() == i) {
                noisy += NOISE[usize::from(*n) % NOISE.len()];
            }
            noisy += line;
            noisy += "\n";
        }
        lineless(&figures(&noisy)) == lineless(&plain)
    }
    QuickCheck::new().tests(40).quickcheck(same as fn(Sane, Vec<(u16, u8)>) -> bool);
    assert_ne!(
        lineless(&figures("<trigger-start id=\"1\"/>")),
        lineless(&figures("<trigger-end id=\"1\"/>"))
    );
}

/// What lies whole before a cut, counted by its spelling.
fn counted(text: &str, tag: &str) -> u64 {
    text.split('<').filter(|piece| piece.starts_with(tag) && piece.contains('>')).count() as u64
}

#[test]
fn a_cut_anywhere_loses_nothing_before_it() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../verbosegc-samples/churn-even.xml");
    let text = std::fs::read_to_string(sample).unwrap();
    let mut quanta_seen = 0;
    // Every place of the last part, each 29th before it: the reader's own tests cut at every byte.
    let cuts = (0..=text.len()).filter(|cut| cut % 29 == 0 || cut + 150 > text.len());
    for cut in cuts {
        let before = &text[..cut];
        let a = analyze(before.as_bytes()).unwrap();
        let sum = |of: fn(&RunFigures) -> u64| a.runs.rows.iter().map(of).sum::<u64>();
        let quanta: u64 = before
            .split("quantumCount=\"")
            .skip(1)
            .filter_map(|rest| rest.split_once('"')?.0.parse::<u64>().ok())
            .sum();
        assert!(sum(|r| r.quanta) >= quanta, "{cut}");
        assert!(sum(|r| r.cycles) >= counted(before, "cycle-end "), "{cut}");
        assert!(sum(|r| r.synchronous.total()) >= counted(before, "metronome-sync "), "{cut}");
        assert_eq!(a.complete, before.contains("</verbosegc>"), "{cut}");
        advise(&a);
        quanta_seen = quanta;
    }
    assert_eq!(quanta_seen, 81, "the sample's own summary says so");
}

#[test]
fn logs_one_after_the_other_have_the_figures_of_each() {
    fn each(a: Sane, b: Sane) -> bool {
        let (one, two) = (a.text(), b.text());
        let both = figures(&format!("{one}{two}"));
        let apart = lineless(&figures(&one)) + &lineless(&figures(&two));
        let squeeze =
            |s: &str| s.replace("Kept { rows: [", "").replace("], omitted: 0 }", "").replace(", ", "");
        both.runs.total() == 2 && squeeze(&lineless(&both)) == squeeze(&apart)
    }
    QuickCheck::new().tests(20).quickcheck(each as fn(Sane, Sane) -> bool);
}

/// The run's own totals are the reader's.
#[test]
fn samples_of_our_own_runs_agree_with_their_summaries() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../verbosegc-samples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "xml") {
            continue;
        }
        let a = analyze(&std::fs::read(&path).unwrap()[..]).unwrap();
        let name = path.display();
        assert!(a.complete && a.diagnostics.total() == 0, "{name}: {:?}", a.diagnostics);
        let r = &a.runs.rows[0];
        let s = r.own.summary.as_ref().unwrap();
        assert_eq!((r.cycles, r.synchronous.total()), (s.cycles, s.sync_gcs), "{name}");
        assert_eq!(r.quanta + r.synchronous.total(), s.quanta, "{name}");
        assert_eq!(r.own.stops_cancelled, s.stops_cancelled, "{name}");
        assert_eq!(r.own.departures.values().sum::<u64>(), s.departures, "{name}");
        let sync = r.synchronous.rows.iter().filter_map(|s| s.ns).max().unwrap_or(0);
        let longest = r.quantum.stat.max.max(sync);
        // Ends are cut to a microsecond each.
        assert!(longest.abs_diff(s.longest_quantum_ns) <= 2_000, "{name}: {longest} {s:?}");
        assert!(r.stop.stat.max.abs_diff(s.longest_stop_ns) <= 2_000, "{name}");
        seen += 1;
    }
    assert!(seen >= 7, "{seen}");
}

/// INV-ANALYSIS-BOUNDED: lists keep their first rows, count the others, and exact figures include them.
#[test]
fn lists_are_bounded_and_figures_are_not_cut() {
    const N: u64 = 12_000;
    let mut text = String::from("<verbosegc xmlns=\"x\" version=\"metronome-gc\">\n");
    for i in 0..N {
        let time = format!("timestamp=\"2026-08-31T13:{:02}:{:02}.{:03}\"", i / 1000 % 60, i % 60, i % 1000);
        text += &format!("<trigger-start {time} /><unknown />\n<cycle-start type=\"global\" {time} />\n");
        text += &format!(
            "<gc-op type=\"syncgc\" timems=\"{i}.000\" {time}><syncgc-info reason=\"reason {i}\" /></gc-op>\n"
        );
        text += &format!(
            "<metronome-stop-cancelled {time} mutator=\"m{i}\" waitedMs=\"1.000\" budgetMs=\"1.000\" "
        );
        text += &format!(
            "missingMutators=\"1\" />\n<cycle-end type=\"global\" {time} /><trigger-end {time} />\n"
        );
    }
    let a = figures(&text);
    let r = &a.runs.rows[0];
    assert_eq!((r.cycles, r.synchronous.total(), r.own.stops_cancelled, r.triggers_ns.total()), (N, N, N, N));
    assert_eq!([r.triggers_ns.rows.len(), r.marks.rows.len()], [10_000; 2]);
    for kept in [r.cycle_rows.rows.len(), r.synchronous.rows.len()] {
        assert!((5_000..=10_001).contains(&kept), "{kept}");
    }
    assert_eq!(r.synchronous.rows.last().and_then(|s| s.ns), Some((N - 1) * 1_000_000));
    assert!(r.synchronous_by_reason.len() <= 65 && r.own.stragglers.len() <= 65);
    // What has no name of its own any more is still counted.
    let longest = r.synchronous_by_reason.values().map(|s| s.max).max();
    assert_eq!(longest, Some((N - 1) * 1_000_000));
    assert_eq!(r.own.stragglers.values().map(|s| s.cancelled).sum::<u64>(), N);
    assert_eq!(a.diagnostics.rows.len(), 10_000);
    assert!(a.diagnostics.total() >= N);
    let many = "<verbosegc version=\"x-Metronome\"></verbosegc>\n".repeat(1_500);
    let a = figures(&many);
    assert_eq!((a.runs.rows.len(), a.runs.total()), (1_000, 1_500));
}
