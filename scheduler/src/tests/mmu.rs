//! MMU and BMU against brute force over every nanosecond.

use super::{Dice, check, within};
use crate::ledger::Interval;
use crate::mmu::{MmuTracker, bmu, max_pause, mmu};
use quickcheck::{Arbitrary, Gen};

#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) pauses: Vec<Interval>,
    pub(super) run: Interval,
    pub(super) window: u64,
}

impl Arbitrary for Run {
    fn arbitrary(g: &mut Gen) -> Self {
        let mut dice = Dice::new(u64::arbitrary(g));
        let start = within(g, 0, 500);
        let (gap, length) = (within(g, 1, 40), within(g, 1, 40));
        let mut at = start + dice.within(0, 20);
        let mut pauses = Vec::new();
        for _ in 0..within(g, 0, 12) {
            let from = at + dice.within(0, gap);
            at = from + dice.within(1, length);
            pauses.push(Interval::new(from, at));
        }
        let run = Interval::new(start, at + dice.within(0, 30));
        Run { pauses, run, window: within(g, 1, 150) }
    }
}

/// GC time of every window of the length, slid by single nanoseconds.
pub(super) fn every_window(run: &Run, window: u64, until: u64) -> Vec<u64> {
    let gc = |t: u64| run.pauses.iter().any(|p| p.start_ns <= t && t < p.end_ns);
    let starts = run.run.start_ns..(until + 1).saturating_sub(window).max(run.run.start_ns);
    starts.map(|from| (from..from + window).filter(|&t| gc(t)).count() as u64).collect()
}

fn naive_ppm(used: u64, window: u64) -> u32 {
    ((window - used) * 1_000_000 / window) as u32
}

#[test]
fn inv_mmu_edges_batch_equals_brute_force() {
    fn property(run: Run) -> bool {
        let worst = every_window(&run, run.window, run.run.end_ns).into_iter().max();
        mmu(&run.pauses, run.run, run.window) == worst.map(|used| naive_ppm(used, run.window))
    }
    check(1000, property);
}

#[test]
fn inv_mmu_edges_streaming_equals_brute_force() {
    fn property((run, allowance): (Run, u64)) -> bool {
        let allowance = allowance % (run.window + 1);
        let mut tracker = MmuTracker::with_allowance(run.window, allowance);
        tracker.start_at(run.run.start_ns);
        let mut broken = 0;
        for pause in &run.pauses {
            tracker.record(pause.start_ns, pause.end_ns);
            // Everything up to the end of this pause, by brute force.
            let so_far = every_window(&run, run.window, pause.end_ns);
            if tracker.max_used_ns() != so_far.iter().copied().max() {
                return false;
            }
            broken += u64::from(so_far.last().is_some_and(|&used| used > allowance));
        }
        let longest = max_pause(&run.pauses);
        tracker.violations() == broken && tracker.disordered() == 0 && tracker.longest_pause_ns() == longest
    }
    check(1000, property);
}

#[test]
fn bmu_equals_brute_force() {
    fn property(run: Run) -> bool {
        let longer = run.window..=run.run.len_ns();
        let naive = longer
            .filter_map(|w| {
                every_window(&run, w, run.run.end_ns).into_iter().max().map(|used| naive_ppm(used, w))
            })
            .min();
        bmu(&run.pauses, run.run, run.window) == naive
    }
    check(60, property);
}

#[test]
fn bmu_looks_beyond_the_first_long_enough_window() {
    // From the first pause the second one is far enough, but the worst window reaches to the third.
    let pauses = [Interval::new(0, 50), Interval::new(98, 100), Interval::new(105, 155)];
    let run = Interval::new(0, 1000);
    assert_eq!(mmu(&pauses, run, 100), Some(480_000));
    assert_eq!(bmu(&pauses, run, 100), Some(naive_ppm(102, 155)));
}

#[test]
fn order_and_overlap_do_not_matter_in_batch() {
    fn property((run, extra): (Run, Vec<(u8, u8)>)) -> bool {
        let mut messy = run.clone();
        messy.pauses.extend(extra.iter().take(5).map(|&(at, len)| {
            let from = run.run.start_ns + u64::from(at);
            Interval::new(from, from + u64::from(len) / 8)
        }));
        messy.pauses.reverse();
        let worst = every_window(&messy, run.window, run.run.end_ns).into_iter().max();
        mmu(&messy.pauses, run.run, run.window) == worst.map(|used| naive_ppm(used, run.window))
    }
    check(500, property);
}

#[test]
fn strict_alternation_matches_the_published_formula() {
    // u_T(w) of alternating mutator quanta Q and collector quanta C.
    let formula = |q: u64, c: u64, w: u64| {
        let whole = w / (q + c);
        whole * q + (w - whole * (q + c)).saturating_sub(c)
    };
    for (q, c) in [(12, 10), (35, 15), (90, 10)] {
        let pauses: Vec<_> = (0..200).map(|i| Interval::new(i * (q + c) + q, (i + 1) * (q + c))).collect();
        let run = Interval::new(0, 200 * (q + c));
        for w in 1..5 * (q + c) {
            let expected = (formula(q, c, w) * 1_000_000 / w) as u32;
            assert_eq!(mmu(&pauses, run, w), Some(expected), "Q={q} C={c} w={w}");
        }
    }
}

#[test]
fn edge_cases_of_the_tracker() {
    let mut tracker = MmuTracker::with_allowance(100, 30);
    tracker.start_at(1000);
    tracker.record(1010, 1060);
    assert_eq!((tracker.mmu_ppm(), tracker.violations()), (None, 0), "no whole window yet");
    tracker.record(1095, 1100);
    assert_eq!((tracker.mmu_ppm(), tracker.violations()), (Some(450_000), 1));
    tracker.record(1200, 1350);
    assert_eq!((tracker.mmu_ppm(), tracker.longest_pause_ns()), (Some(0), 150), "longer than the window");
    tracker.record(1340, 1340);
    tracker.record(1300, 1360);
    assert_eq!((tracker.disordered(), tracker.longest_pause_ns()), (2, 160), "a covered part counts once");

    let mut late = MmuTracker::new(100);
    late.record(500, 550);
    assert_eq!(late.mmu_ppm(), None);
    late.record(590, 600);
    assert_eq!((late.mmu_ppm(), late.violations()), (Some(400_000), 0), "the run began with the first pause");
}

#[test]
fn windows_that_do_not_fit_have_no_answer() {
    let run = Interval::new(10, 110);
    assert_eq!((mmu(&[], run, 0), mmu(&[], run, 101), bmu(&[], run, 101)), (None, None, None));
    assert_eq!(
        (mmu(&[], run, 100), bmu(&[], run, 100), max_pause(&[])),
        (Some(1_000_000), Some(1_000_000), 0)
    );
}
