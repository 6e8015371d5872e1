//! Pacing in a fluid simulation of a heap.

use super::{check, within};
use crate::contract::{Contract, heap_for_utilization};
use crate::pacing::{BASE_MARGIN_PERCENT, CycleFacts, Pacer, PacerConfig, PacerError, Trigger};
use quickcheck::{Arbitrary, Gen};

const BEAT: u64 = 500_000;
const SECOND: u128 = 1_000_000_000;

/// A heap with a program of constant rate and live size, and a snapshot collector that keeps its target.
struct Fluid {
    c: Contract,
    heap: u64,
    target: u64,
    used: u64,
    peak: u64,
    pacer: Pacer,
}

impl Fluid {
    fn allocate(&mut self, mutator_ns: u64) -> u64 {
        let bytes = (u128::from(self.c.allocation_rate) * u128::from(mutator_ns) / SECOND) as u64;
        self.used += bytes;
        self.peak = self.peak.max(self.used);
        self.pacer.allocation_sample(mutator_ns, bytes);
        bytes
    }

    /// Lets the program run until the pacer starts a cycle.
    fn idle(&mut self) {
        while !self.pacer.should_start(self.used) {
            self.allocate(BEAT);
        }
    }

    fn cycle(&mut self) {
        let used_at_start = self.used;
        self.pacer.cycle_started();
        let time = |bytes: u64, rate: u64| (u128::from(bytes) * SECOND / u128::from(rate)) as u64;
        let (mark_ns, sweep_ns) =
            (time(self.c.live_bytes, self.c.trace_rate), time(self.heap, self.c.sweep_rate));
        let mutator_ns = (mark_ns + sweep_ns) * self.target / (100 - self.target);
        let (mut left, mut allocated) = (mutator_ns, 0);
        while left > 0 {
            let slice = left.min(BEAT);
            allocated += self.allocate(slice);
            left -= slice;
        }
        // Everything dead at the snapshot goes, everything allocated since stays.
        self.used = self.c.live_bytes + allocated;
        self.pacer.cycle_finished(CycleFacts {
            mark_ns,
            sweep_ns,
            other_ns: 0,
            elapsed_ns: mutator_ns + mark_ns + sweep_ns,
            allocated_bytes: allocated,
            live_bytes: self.c.live_bytes,
            heap_bytes_swept: self.heap,
            used_at_start,
        });
    }
}

#[derive(Debug, Clone)]
struct Program {
    c: Contract,
    target: u32,
    spare_percent: u64,
}

impl Arbitrary for Program {
    fn arbitrary(g: &mut Gen) -> Self {
        let live_bytes = within(g, 1 << 20, 1 << 30);
        let c = Contract {
            live_bytes,
            allocation_rate: within(g, live_bytes / 4, 1 << 28),
            trace_rate: within(g, 1 << 28, 1 << 32),
            sweep_rate: within(g, 1 << 32, 1 << 36),
            fragmentation_ppm: within(g, 0, 30) as u32 * 10_000,
        };
        let spare_percent = if bool::arbitrary(g) { 0 } else { within(g, 0, 200) };
        let program = Program { c, target: within(g, 1, 95) as u32, spare_percent };
        // Some heap of at most 64 GiB must do.
        if program.least_heap().is_some() { program } else { Program::arbitrary(g) }
    }
}

impl Program {
    fn least_heap(&self) -> Option<u64> {
        heap_for_utilization(&self.c, self.target * 10_000).ok().filter(|&heap| heap <= 1 << 36)
    }
}

fn config(heap_bytes: u64, program: &Program) -> PacerConfig {
    PacerConfig {
        heap_bytes,
        fragmentation_percent: program.c.fragmentation_ppm / 10_000,
        target_percent: program.target,
        trigger: Trigger::Paced,
    }
}

#[test]
fn inv_pacing_room_no_allocation_exceeds_the_heap() {
    fn property(program: Program) -> bool {
        let least = program.least_heap().expect("feasible by construction");
        let heap = least + least / 100 * program.spare_percent;
        let pacer = Pacer::new(config(heap, &program)).expect("a valid configuration");
        let target = u64::from(program.target);
        let c = program.c;
        let mut fluid = Fluid { c, heap, target, used: c.live_bytes, peak: 0, pacer };
        for cycle in 0..12 {
            fluid.idle();
            fluid.cycle();
            if fluid.peak > heap {
                println!("cycle {cycle}: {} of {heap} bytes used", fluid.peak);
                return false;
            }
        }
        // A steady program is predicted: within 1 % and a beat.
        let report = fluid.pacer.last_cycle().expect("cycles ran");
        let predicted = report.predicted.expect("not the first").allocation_bytes;
        let actual = report.actual.allocated_bytes;
        let beat = (u128::from(c.allocation_rate) * u128::from(BEAT) / SECOND) as u64;

        predicted.abs_diff(actual) <= actual / 100 + beat
            && report.actual.used_at_start > report.predicted.expect("not the first").trigger_used_bytes
            && fluid.pacer.margin_percent() < 2 * BASE_MARGIN_PERCENT
    }
    check(150, property);
}

#[test]
fn inv_pacing_room_oracle_catches_a_trigger_that_is_too_late() {
    // The same simulation with a static trigger that ignores the need overflows the heap.
    let c = Contract {
        live_bytes: 100 << 20,
        allocation_rate: 100 << 20,
        trace_rate: 500 << 20,
        sweep_rate: 1 << 36,
        fragmentation_ppm: 0,
    };
    let heap = heap_for_utilization(&c, 700_000).expect("feasible");
    let program = Program { c, target: 70, spare_percent: 0 };
    for (trigger, overflows) in [(Trigger::Paced, false), (Trigger::Static { percent: 95 }, true)] {
        let pacer = Pacer::new(PacerConfig { trigger, ..config(heap, &program) }).expect("valid");
        let mut fluid = Fluid { c, heap, target: 70, used: c.live_bytes, peak: 0, pacer };
        for _ in 0..5 {
            fluid.idle();
            fluid.cycle();
        }
        assert_eq!(fluid.peak > heap, overflows, "{trigger:?}");
    }
}

/// A pacer for a heap of 1000 MB that has seen one cycle of 100 MB live, 200 ms and 40 MB.
pub(super) fn measured() -> Pacer {
    let mut pacer = Pacer::new(PacerConfig {
        heap_bytes: 1_000_000_000,
        fragmentation_percent: 0,
        target_percent: 50,
        trigger: Trigger::Paced,
    })
    .expect("valid");
    for _ in 0..3 {
        pacer.cycle_finished(CycleFacts {
            mark_ns: 200_000_000,
            elapsed_ns: 400_000_000,
            allocated_bytes: 40_000_000,
            live_bytes: 100_000_000,
            heap_bytes_swept: 1_000_000_000,
            used_at_start: 500_000_000,
            ..CycleFacts::default()
        });
    }
    pacer
}

#[test]
fn the_first_cycle_starts_at_half() {
    let pacer = Pacer::new(PacerConfig {
        heap_bytes: 1200,
        fragmentation_percent: 20,
        target_percent: 70,
        trigger: Trigger::Paced,
    })
    .expect("valid");
    assert!(!pacer.should_start(500) && pacer.should_start(501));
    assert_eq!(pacer.last_cycle(), None);
}

#[test]
fn a_static_trigger_stays_where_it_is() {
    let mut pacer = Pacer::new(PacerConfig {
        heap_bytes: 1000,
        fragmentation_percent: 0,
        target_percent: 70,
        trigger: Trigger::Static { percent: 60 },
    })
    .expect("valid");
    pacer.allocation_sample(BEAT, 900);
    pacer.cycle_finished(CycleFacts {
        mark_ns: 5,
        live_bytes: 300,
        allocated_bytes: 9,
        ..CycleFacts::default()
    });
    assert!(!pacer.should_start(600) && pacer.should_start(601));
    assert!(pacer.prediction().allocation_bytes > 0, "predictions are made all the same");
}

#[test]
fn a_burst_moves_the_trigger_at_once_and_is_remembered() {
    let mut pacer = measured();
    let quiet = pacer.prediction().trigger_used_bytes;
    // 200 MB/s of mutator time were measured; now ten times that, for 10 ms.
    for _ in 0..20 {
        pacer.allocation_sample(BEAT, 1_000_000);
    }
    let rate = pacer.allocation_rate();
    assert!((1_900_000_000..=2_000_000_000).contains(&rate), "{rate}");
    // 2 GB/s during 0.2 s of mutator time, and a quarter more.
    let burst = pacer.prediction().trigger_used_bytes;
    assert!((500_000_000..525_000_000).contains(&burst) && burst < quiet, "{burst} after {quiet}");
    // 50 ms of silence later most of it is still believed, after 5 s nothing.
    for _ in 0..100 {
        pacer.allocation_sample(BEAT, 0);
    }
    assert!(pacer.allocation_rate() > rate / 10 * 8);
    for _ in 0..10_000 {
        pacer.allocation_sample(BEAT, 0);
    }
    assert_eq!(pacer.prediction().trigger_used_bytes, quiet);
}

#[test]
fn bytes_without_time_are_not_lost() {
    let mut pacer = measured();
    for _ in 0..1000 {
        pacer.allocation_sample(0, 1_000_000);
    }
    pacer.allocation_sample(BEAT, 0);
    assert!(pacer.allocation_rate() > 1_000_000_000_000);
    assert!(pacer.should_start(0) || pacer.prediction().trigger_used_bytes == 0);
}

#[test]
fn a_prediction_that_was_too_small_raises_the_margin_and_it_decays() {
    let mut pacer = measured();
    let before = pacer.prediction();
    let mut facts = pacer.last_cycle().expect("measured").actual;
    facts.allocated_bytes = before.allocation_bytes * 3 / 2;
    pacer.cycle_finished(facts);
    assert_eq!(pacer.margin_percent(), BASE_MARGIN_PERCENT + 50);
    let report = pacer.last_cycle().expect("measured");
    assert_eq!((report.predicted, report.actual), (Some(before), facts));
    for _ in 0..20 {
        pacer.cycle_finished(facts);
    }
    assert_eq!(pacer.margin_percent(), BASE_MARGIN_PERCENT);
}

#[test]
fn a_growing_live_set_is_extrapolated() {
    let mut pacer = measured();
    let mut facts = pacer.last_cycle().expect("measured").actual;
    facts.live_bytes = 150_000_000;
    facts.mark_ns = 300_000_000;
    pacer.cycle_finished(facts);
    assert!(pacer.prediction().live_bytes >= 200_000_000);
    let p = pacer.prediction();
    assert_eq!(pacer.heap_needed(), p.live_bytes + 2 * p.allocation_most_bytes);
}

/// INV-DEGRADE for one headroom, with `allowance` of (headroom, collector time still needed, window, base).
pub(super) fn degrades_well(
    pacer: &Pacer,
    allowance: impl Fn(u64, u64, u64, u64) -> u64,
    (headroom, remaining, base): (u64, u64, u64),
) -> bool {
    let window = 10_000_000;
    let headroom = headroom % 2_000_000_000;
    let remaining = 1 + remaining % 1_000_000_000;
    let base = 1 + base % window;
    let g = allowance(headroom, remaining, window, base);
    // With g of every window for the collector, what is allocated until the cycle ends fits.
    let mutator_ns = u128::from(remaining) * u128::from(window - g) / u128::from(g);
    let allocated = u128::from(pacer.allocation_rate()) * mutator_ns / SECOND;
    let less = allowance(headroom - headroom / 10, remaining, window, base);
    // A byte less moves it by at most what one byte is of the need.
    let need = u128::from(pacer.allocation_rate()) * u128::from(remaining) / SECOND;
    let near = allowance(headroom.saturating_sub(1), remaining, window, base);
    let slope = u128::from(window) / need.max(1) + 2;
    (base..=window).contains(&g)
        && allocated <= u128::from(headroom)
        && less >= g
        && near >= g
        && u128::from(near - g) <= slope
}

#[test]
fn inv_degrade_smooth_monotone_and_sufficient() {
    let pacer = measured();
    let property = |facts: (u64, u64, u64)| {
        degrades_well(&pacer, |h, r, w, b| pacer.degrade_allowance(h, r, w, b), facts)
    };
    check(2000, property);

    assert_eq!(pacer.degrade_allowance(0, 1, 10_000_000, 3_000_000), 10_000_000);
    assert_eq!(pacer.degrade_allowance(0, 0, 10_000_000, 3_000_000), 3_000_000);
    assert_eq!(pacer.degrade_allowance(u64::MAX, 1_000_000, 10_000_000, 3_000_000), 3_000_000);
}

#[test]
fn nonsense_facts_do_no_harm() {
    let mut pacer = measured();
    let max = u64::MAX;
    pacer.cycle_finished(CycleFacts {
        mark_ns: max,
        sweep_ns: max,
        other_ns: max,
        elapsed_ns: 0,
        allocated_bytes: max,
        live_bytes: max,
        heap_bytes_swept: 1,
        used_at_start: 0,
    });
    pacer.allocation_sample(max, max);
    pacer.allocation_sample(max, 0);
    assert!(pacer.should_start(1), "the pessimistic answer");
    pacer.cycle_finished(CycleFacts::default());
    let _ = (pacer.heap_needed(), pacer.degrade_allowance(max, max, max, max));
}

#[test]
fn bad_settings_are_refused() {
    let good = PacerConfig {
        heap_bytes: 1000,
        fragmentation_percent: 10,
        target_percent: 70,
        trigger: Trigger::Static { percent: 50 },
    };
    let refused = |config| Pacer::new(config).map(|_| ()).expect_err("refused");
    assert_eq!(refused(PacerConfig { heap_bytes: 0, ..good }), PacerError::HeapZero);
    assert_eq!(
        refused(PacerConfig { fragmentation_percent: 101, ..good }),
        PacerError::Fragmentation { percent: 101 }
    );
    assert_eq!(refused(PacerConfig { target_percent: 100, ..good }), PacerError::Target { percent: 100 });
    let trigger = Trigger::Static { percent: 0 };
    assert_eq!(refused(PacerConfig { trigger, ..good }), PacerError::StaticTrigger { percent: 0 });
}

/// A program that allocates in bursts, in mutator time: so many bytes within `burst_ns` of each `period_ns`.
struct Bursty {
    period_ns: u64,
    burst_ns: u64,
    burst_bytes: u64,
    now_ns: u64,
}

impl Bursty {
    const SLICE: u64 = 500_000;

    /// A slice of mutator time.
    fn slice(&mut self) -> u64 {
        let within = self.now_ns % self.period_ns < self.burst_ns;
        self.now_ns += Self::SLICE;
        if within { self.burst_bytes * Self::SLICE / self.burst_ns } else { 0 }
    }
}

/// Runs `cycles` cycles of 60 ms of collector time at 50 %; gives (most likely, to reckon with, actual) of each.
fn bursty_cycles(program: &mut Bursty, pacer: &mut Pacer, cycles: usize) -> Vec<(u64, u64, u64)> {
    let mut seen = Vec::new();
    for _ in 0..cycles {
        // Idle in between, not in step with the bursts.
        for _ in 0..331 {
            pacer.allocation_sample(Bursty::SLICE, program.slice());
        }
        pacer.cycle_started();
        let p = pacer.prediction();
        let mut allocated = 0;
        for _ in 0..120 {
            let bytes = program.slice();
            allocated += bytes;
            pacer.allocation_sample(Bursty::SLICE, bytes);
        }
        pacer.cycle_finished(CycleFacts {
            mark_ns: 60_000_000,
            elapsed_ns: 120_000_000,
            allocated_bytes: allocated,
            live_bytes: 100_000_000,
            heap_bytes_swept: 1_000_000_000,
            ..CycleFacts::default()
        });
        seen.push((p.allocation_bytes, p.allocation_most_bytes, allocated));
    }
    seen
}

fn pacer_at_50() -> Pacer {
    Pacer::new(PacerConfig {
        heap_bytes: 1_000_000_000,
        fragmentation_percent: 0,
        target_percent: 50,
        trigger: Trigger::Paced,
    })
    .expect("valid")
}

/// Median of |predicted - actual| in percent of the actual.
fn median_error(pairs: impl Iterator<Item = (u64, u64)>) -> u64 {
    let mut errors: Vec<u64> = pairs.map(|(p, a)| p.abs_diff(a) * 100 / a.max(1)).collect();
    errors.sort_unstable();
    errors[errors.len() / 2]
}

#[test]
fn bursts_shorter_than_a_cycle_count_by_what_they_add_up_to() {
    // 1 MB within 2 ms of each 10 ms: 100 MB/s on average, 500 MB/s in bursts. A cycle of 60 ms allocates 6 MB.
    for (period_ns, burst_ns, burst_bytes) in [
        (10_000_000, 2_000_000, 1_000_000),
        (20_000_000, 4_000_000, 2_000_000),
        (30_000_000, 3_000_000, 3_000_000),
    ] {
        let mut program = Bursty { period_ns, burst_ns, burst_bytes, now_ns: 0 };
        let mut pacer = pacer_at_50();
        let seen = bursty_cycles(&mut program, &mut pacer, 40);
        let late = &seen[10..];
        assert!(median_error(late.iter().map(|s| (s.0, s.2))) <= 10, "{late:?}");
        for &(_, most, actual) in late {
            // Enough, with the margin of a quarter, and no more than half again above the most of a stretch.
            assert!(most + most / 4 >= actual, "{most} for {actual}");
            let worst = burst_bytes * (60_000_000u64.div_ceil(period_ns) + 1);
            assert!(most <= worst + worst / 2, "{most}, at worst {worst}");
        }
    }
}

#[test]
fn a_burst_of_an_unknown_rate_is_reckoned_with_for_the_whole_cycle() {
    let mut program =
        Bursty { period_ns: 10_000_000, burst_ns: 2_000_000, burst_bytes: 1_000_000, now_ns: 0 };
    let mut pacer = pacer_at_50();
    bursty_cycles(&mut program, &mut pacer, 20);
    let before = pacer.prediction().allocation_most_bytes;
    // Four times the rate of the bursts, and it does not end.
    for _ in 0..60 {
        pacer.allocation_sample(Bursty::SLICE, 1_000_000);
    }
    let p = pacer.prediction().allocation_most_bytes;
    // 2 GB/s through 60 ms.
    assert!((100_000_000..=125_000_000).contains(&p), "{p} after {before}");
}

#[test]
fn a_steady_program_with_noise_is_predicted_within_a_tenth() {
    // Collector time and allocation of each cycle vary by up to a fifth, independently, around fixed values.
    let mut noise = 0x1234_5678_9abc_def1u64;
    let mut vary = |x: u64| {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        x / 100 * (90 + noise % 21)
    };
    let mut pacer = pacer_at_50();
    let (mut collector, mut allocation) = (Vec::new(), Vec::new());
    for cycle in 0..200 {
        for _ in 0..100 {
            pacer.allocation_sample(1_000_000, vary(200_000));
        }
        pacer.cycle_started();
        let p = pacer.prediction();
        let facts = CycleFacts {
            mark_ns: vary(40_000_000),
            sweep_ns: vary(2_000_000),
            other_ns: vary(1_000_000),
            elapsed_ns: 90_000_000,
            allocated_bytes: vary(9_000_000),
            live_bytes: vary(64 << 20),
            heap_bytes_swept: 256 << 20,
            ..CycleFacts::default()
        };
        pacer.cycle_finished(facts);
        if cycle >= 10 {
            collector.push((p.collector_ns, facts.collector_ns()));
            allocation.push((p.allocation_bytes, facts.allocated_bytes));
        }
    }
    assert!(median_error(collector.into_iter()) <= 10);
    assert!(median_error(allocation.into_iter()) <= 10);
}
