//! Pacing: when a cycle must start, and how much of a window it may take when it started too late.
//!
//! The contract arithmetic is that of [`contract`](crate::contract): predict the collector time T and the
//! allocation A of the next cycle from what was measured, and start when less than A is free. Metronome
//! (POPL 2003) lets the user state live size and allocation rate; here both are measured, and a margin
//! covers what the prediction misses. [`Trigger::Static`] is the plain alternative.

use crate::arith::{PPM, SECOND_NS, mul_div, mul_div_ceil};
use crate::contract::usable_bytes;
use crate::forecast::{Bursts, Forecast};
use std::fmt;

/// Margin on the predicted allocation, in percent. It grows when a prediction was too small by more, and
/// decays back.
pub const BASE_MARGIN_PERCENT: u64 = 25;
/// Largest margin that mispredictions can build up, in percent.
pub const MAX_MARGIN_PERCENT: u64 = 200;
/// Allocation samples are collected until they cover this much mutator time: shorter ones are noise.
pub const MIN_SAMPLE_NS: u64 = 100_000;
/// Shortest time constant with which the rate estimate follows a rise; otherwise an eighth of the mutator time of a
/// cycle: what a burst adds to a cycle's allocation depends on how long it lasts beside the cycle.
const ATTACK_NS: u64 = 2_000_000;
/// Longest such constant.
const ATTACK_MAX_NS: u64 = 50_000_000;
/// Longest time constant with which it follows a fall (a burst is remembered for about half a second); otherwise four
/// times the mutator time of a cycle.
const DECAY_NS: u64 = 500_000_000;
/// Shortest such constant.
const DECAY_MIN_NS: u64 = 50_000_000;
/// Costs per byte are kept per this many bytes.
const MIB: u64 = 1 << 20;

/// What decides that a cycle starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trigger {
    /// Start when free memory falls to the predicted need of a cycle.
    #[default]
    Paced,
    /// Start when this share of the heap is used, whatever the program does.
    Static {
        /// Percent of the heap, 1 to 99.
        percent: u32,
    },
}

/// Settings of a [`Pacer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacerConfig {
    /// Size of the heap, in bytes (H).
    pub heap_bytes: u64,
    /// What fragmentation may take on top, in percent (f), at most 100.
    pub fragmentation_percent: u32,
    /// Mutator utilization during a cycle, in percent, 1 to 99 (u).
    pub target_percent: u32,
    /// What starts a cycle.
    pub trigger: Trigger,
}

/// Why a [`PacerConfig`] is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PacerError {
    /// `heap_bytes` is 0.
    HeapZero,
    /// `fragmentation_percent <= 100` fails.
    Fragmentation {
        /// The value given.
        percent: u32,
    },
    /// `1 <= target_percent <= 99` fails.
    Target {
        /// The value given.
        percent: u32,
    },
    /// `1 <= percent <= 99` of [`Trigger::Static`] fails.
    StaticTrigger {
        /// The value given.
        percent: u32,
    },
}

impl fmt::Display for PacerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PacerError::HeapZero => write!(f, "heap_bytes is 0: give the size of the heap in bytes"),
            PacerError::Fragmentation { percent } => {
                write!(f, "fragmentation_percent is {percent}: set it to a value from 0 to 100")
            }
            PacerError::Target { percent } => {
                write!(f, "target_percent is {percent}: set it to a value from 1 to 99")
            }
            PacerError::StaticTrigger { percent } => {
                write!(f, "the static trigger is {percent} percent: set it to a value from 1 to 99")
            }
        }
    }
}

impl std::error::Error for PacerError {}

/// What one finished cycle did. Collector times are those charged, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CycleFacts {
    /// Collector time spent marking.
    pub mark_ns: u64,
    /// Collector time spent sweeping.
    pub sweep_ns: u64,
    /// Collector time spent on anything else (roots, weak references, stops).
    pub other_ns: u64,
    /// Time from the start of the cycle to its end, collector and mutators together.
    pub elapsed_ns: u64,
    /// Bytes allocated meanwhile.
    pub allocated_bytes: u64,
    /// Bytes marked, without those allocated during the cycle.
    pub live_bytes: u64,
    /// Bytes of heap that the sweep went over.
    pub heap_bytes_swept: u64,
    /// Bytes used when the cycle started.
    pub used_at_start: u64,
}

impl CycleFacts {
    /// Collector time of the cycle, in nanoseconds.
    #[must_use]
    pub fn collector_ns(&self) -> u64 {
        self.mark_ns.saturating_add(self.sweep_ns).saturating_add(self.other_ns)
    }
}

/// What the next cycle is expected to need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prediction {
    /// Collector time (T) that is most likely, in nanoseconds; 0 before the first cycle was measured.
    pub collector_ns: u64,
    /// Allocation during the cycle (A) that is most likely, in bytes; 0 before the first cycle.
    pub allocation_bytes: u64,
    /// Collector time to reckon with, in nanoseconds; 0 before the first cycle.
    pub collector_most_ns: u64,
    /// Allocation to reckon with, in bytes, without the margin; 0 before the first cycle. What the trigger leaves room for.
    pub allocation_most_bytes: u64,
    /// The cycle starts when more than this is used.
    pub trigger_used_bytes: u64,
    /// Live bytes (m); 0 before the first cycle.
    pub live_bytes: u64,
}

/// The last cycle, predicted and actual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CycleReport {
    /// The prediction in force when the cycle started; `None` for the first cycle.
    pub predicted: Option<Prediction>,
    /// What it did.
    pub actual: CycleFacts,
}

/// Decides when a cycle starts. Owned by one thread at a time; never allocates; every call is O(1).
#[derive(Debug, Clone)]
pub struct Pacer {
    config: PacerConfig,
    usable_bytes: u64,
    pending_ns: u64,
    pending_bytes: u64,
    /// Longest recent distance between looks at the trigger.
    beat_ns: u64,
    sampled: bool,
    sample_rate: u64,
    cycle_rate: u64,
    mark_ns_per_mib: u64,
    sweep_ns_per_mib: u64,
    other_ns: u64,
    /// Live bytes expected at the next cycle.
    live_bytes: u64,
    last_live_bytes: u64,
    /// Live bytes measured, forgotten slowly when they fall.
    held_live_bytes: u64,
    /// Mutator time per million of collector time during a cycle, measured.
    mutator_ppm: u64,
    /// Mutator time expected during the next cycle; 0 before the first.
    mutator_ns: u64,
    cycle_allocation: u64,
    forecast: Forecast,
    bursts: Bursts,
    margin_percent: u64,
    prediction: Prediction,
    at_start: Option<Prediction>,
    last: Option<CycleReport>,
}

impl Pacer {
    /// A pacer that has measured nothing: with [`Trigger::Paced`] the first cycle starts when half of what
    /// the heap holds without fragmentation is used.
    ///
    /// # Errors
    /// The setting that is out of range.
    pub fn new(config: PacerConfig) -> Result<Pacer, PacerError> {
        if config.heap_bytes == 0 {
            return Err(PacerError::HeapZero);
        }
        if config.fragmentation_percent > 100 {
            return Err(PacerError::Fragmentation { percent: config.fragmentation_percent });
        }
        if !(1..=99).contains(&config.target_percent) {
            return Err(PacerError::Target { percent: config.target_percent });
        }
        if let Trigger::Static { percent } = config.trigger
            && !(1..=99).contains(&percent)
        {
            return Err(PacerError::StaticTrigger { percent });
        }
        let mut pacer = Pacer {
            config,
            usable_bytes: usable_bytes(config.heap_bytes, config.fragmentation_percent * 10_000),
            pending_ns: 0,
            pending_bytes: 0,
            beat_ns: 0,
            sampled: false,
            sample_rate: 0,
            cycle_rate: 0,
            mark_ns_per_mib: 0,
            sweep_ns_per_mib: 0,
            other_ns: 0,
            live_bytes: 0,
            last_live_bytes: 0,
            held_live_bytes: 0,
            mutator_ppm: 0,
            mutator_ns: 0,
            cycle_allocation: 0,
            forecast: Forecast::default(),
            bursts: Bursts::default(),
            margin_percent: BASE_MARGIN_PERCENT,
            prediction: Prediction::default(),
            at_start: None,
            last: None,
        };
        pacer.predict();
        Ok(pacer)
    }

    /// `bytes` were allocated during `elapsed_mutator_ns` of mutator time; call it about every beat.
    ///
    /// The estimate rises within a few milliseconds and falls within about a second, so a burst counts at
    /// once and is remembered. Bytes reported with no time (a clock that stands still) are added to the
    /// next sample, not lost.
    pub fn allocation_sample(&mut self, elapsed_mutator_ns: u64, bytes: u64) {
        self.pending_ns = self.pending_ns.saturating_add(elapsed_mutator_ns);
        self.pending_bytes = self.pending_bytes.saturating_add(bytes);
        if self.pending_ns < MIN_SAMPLE_NS {
            return;
        }
        let elapsed = self.pending_ns;
        let rate = mul_div_ceil(self.pending_bytes, SECOND_NS, elapsed);
        let (low, high) = (rate.min(self.sample_rate), rate.max(self.sample_rate));
        let rises = rate > self.sample_rate;
        let constant = if rises {
            (self.mutator_ns / 8).clamp(ATTACK_NS, ATTACK_MAX_NS)
        } else if self.mutator_ns == 0 {
            DECAY_NS
        } else {
            self.mutator_ns.saturating_mul(4).clamp(DECAY_MIN_NS, DECAY_NS)
        };
        let step = mul_div_ceil(high - low, elapsed, elapsed.saturating_add(constant));
        self.sample_rate = match (self.sampled, rises) {
            (false, _) => rate,
            (true, true) => low.saturating_add(step),
            (true, false) => high - step,
        };
        self.sampled = true;
        self.bursts.sample(elapsed, self.pending_bytes, self.sample_rate, self.mutator_ns);
        self.beat_ns = falling(self.beat_ns, elapsed);
        (self.pending_ns, self.pending_bytes) = (0, 0);
        self.predict();
    }

    /// A cycle starts now: keeps the present prediction for the report. Without this call the report shows
    /// the prediction made when the previous cycle ended or the last sample came.
    pub fn cycle_started(&mut self) {
        self.at_start = Some(self.prediction);
    }

    /// A cycle ended. Costs per byte rise to what was measured at once and fall by a quarter of the
    /// difference per cycle.
    pub fn cycle_finished(&mut self, facts: CycleFacts) {
        let predicted = self.at_start.take().unwrap_or(self.prediction);
        let predicted = self.last.map(|_| predicted);
        self.learn_margin(predicted, &facts);

        let mut other_ns = facts.other_ns;
        if facts.live_bytes > 0 {
            self.mark_ns_per_mib =
                falling(self.mark_ns_per_mib, mul_div_ceil(facts.mark_ns, MIB, facts.live_bytes));
        } else {
            other_ns = other_ns.saturating_add(facts.mark_ns);
        }
        if facts.heap_bytes_swept > 0 {
            let cost = mul_div_ceil(facts.sweep_ns, MIB, facts.heap_bytes_swept);
            self.sweep_ns_per_mib = falling(self.sweep_ns_per_mib, cost);
        } else {
            other_ns = other_ns.saturating_add(facts.sweep_ns);
        }
        self.other_ns = falling(self.other_ns, other_ns);

        let collector_ns = facts.collector_ns();
        let mutator_ns = facts.elapsed_ns.saturating_sub(collector_ns);
        self.mutator_ppm = falling(self.mutator_ppm, mul_div_ceil(mutator_ns, PPM, collector_ns.max(1)));
        if mutator_ns >= MIN_SAMPLE_NS {
            let rate = mul_div_ceil(facts.allocated_bytes, SECOND_NS, mutator_ns);
            self.cycle_rate = falling(self.cycle_rate, rate);
        }
        self.cycle_allocation = falling(self.cycle_allocation, facts.allocated_bytes);

        // A live set that grew is assumed to grow once more by as much; after the first cycle too, which
        // may have caught the program while it was still loading.
        let growth = facts.live_bytes.saturating_sub(self.last_live_bytes);
        self.held_live_bytes = falling(self.held_live_bytes, facts.live_bytes);
        let expected = facts.live_bytes.saturating_add(growth).max(self.held_live_bytes);
        self.live_bytes = expected.min(self.usable_bytes);
        self.last_live_bytes = facts.live_bytes;

        self.forecast.cycle(&facts);
        self.last = Some(CycleReport { predicted, actual: facts });
        self.predict();
    }

    /// What the next cycle is expected to need.
    #[must_use]
    pub fn prediction(&self) -> Prediction {
        self.prediction
    }

    /// Predicted against actual for the last cycle; `None` before the first one ended.
    #[must_use]
    pub fn last_cycle(&self) -> Option<CycleReport> {
        self.last
    }

    /// Must a cycle start with `used_bytes` in use?
    #[must_use]
    pub fn should_start(&self, used_bytes: u64) -> bool {
        used_bytes > self.prediction.trigger_used_bytes
    }

    /// Allocation rate assumed, in bytes per second of mutator time.
    #[must_use]
    pub fn allocation_rate(&self) -> u64 {
        self.sample_rate.max(self.cycle_rate)
    }

    /// Margin on the predicted allocation in force, in percent.
    #[must_use]
    pub fn margin_percent(&self) -> u64 {
        self.margin_percent
    }

    /// The heap that the present predictions call for, in bytes: `(1+f)(m + 2A)`. More than the heap there
    /// is means that the target cannot be kept for long.
    /// With a static trigger no less than what holds `(1+f)A` above it.
    #[must_use]
    pub fn heap_needed(&self) -> u64 {
        self.heap_needed_with(0)
    }

    /// The same, if a cycle is known to allocate at least `allocation_bytes`.
    #[must_use]
    pub fn heap_needed_with(&self, allocation_bytes: u64) -> u64 {
        let allocation = self.prediction.allocation_most_bytes.max(allocation_bytes);
        let held = self.prediction.live_bytes.saturating_add(allocation.saturating_mul(2));
        let held = match self.config.trigger {
            Trigger::Paced => held,
            Trigger::Static { percent } => {
                let rest = 100u64.saturating_sub(percent.into()).max(1);
                held.max(mul_div_ceil(allocation, 100, rest))
            }
        };
        mul_div_ceil(held, 100 + u64::from(self.config.fragmentation_percent), 100)
    }

    /// The heap has grown or shrunk to `heap_bytes` (at least 1).
    pub fn set_heap_bytes(&mut self, heap_bytes: u64) {
        self.config.heap_bytes = heap_bytes.max(1);
        self.usable_bytes = usable_bytes(self.config.heap_bytes, self.config.fragmentation_percent * 10_000);
        self.predict();
    }

    /// GC time per window with which the running cycle ends before `headroom_bytes` are used up, if it needs
    /// `remaining_collector_ns` more: `W * x / (headroom + x)` with `x` the allocation (with margin) that fits
    /// into so much mutator time, within `base_allowance_ns..=window_ns`.
    ///
    /// It is the base while the headroom covers the need, rises continuously as headroom shrinks, and is the
    /// whole window when there is none. Give the result to
    /// [`Scheduler::set_allowance`](crate::Scheduler::set_allowance).
    #[must_use]
    pub fn degrade_allowance(
        &self,
        headroom_bytes: u64,
        remaining_collector_ns: u64,
        window_ns: u64,
        base_allowance_ns: u64,
    ) -> u64 {
        let base = base_allowance_ns.min(window_ns);
        if remaining_collector_ns == 0 {
            return base;
        }
        let plain = mul_div_ceil(self.allocation_rate(), remaining_collector_ns, SECOND_NS);
        // At least one byte, so that no headroom means the whole window even if no rate is known.
        let need = self.with_margin(plain).max(1);
        // INV-DEGRADE: with g of every W for the collector the mutators run (W - g) / g times the collector's time.
        mul_div_ceil(window_ns, need, headroom_bytes.saturating_add(need)).clamp(base, window_ns)
    }

    /// The prediction (and so the trigger) from everything learned. Constant time.
    fn predict(&mut self) {
        let trigger = match (self.config.trigger, self.last) {
            (Trigger::Static { percent }, _) => mul_div(self.config.heap_bytes, percent.into(), 100),
            (Trigger::Paced, None) => self.usable_bytes / 2,
            (Trigger::Paced, Some(_)) => 0, // Set below.
        };
        self.prediction = Prediction { trigger_used_bytes: trigger, ..Prediction::default() };
        if self.last.is_none() {
            return;
        }
        let mark = mul_div_ceil(self.mark_ns_per_mib, self.live_bytes, MIB);
        let sweep = mul_div_ceil(self.sweep_ns_per_mib, self.config.heap_bytes, MIB);
        let collector_ns = mark.saturating_add(sweep).saturating_add(self.other_ns);
        let target = u64::from(self.config.target_percent);
        let planned_ppm = (target * PPM).div_ceil(100 - target);
        // Cycles take longer than planned when safepoints are late. Believed up to twice the plan: a program
        // that mostly sleeps stretches a cycle without allocating.
        let ratio_ppm = self.mutator_ppm.clamp(planned_ppm, 2 * planned_ppm);
        let mutator_ns = mul_div_ceil(collector_ns, ratio_ppm, PPM);
        self.mutator_ns = mutator_ns;
        let rate = self.allocation_rate();
        let at_this_rate = mul_div_ceil(rate, mutator_ns, SECOND_NS);
        // Bursts shorter than a cycle that have been seen before count by what they add up to.
        let bursts = self.bursts.most(rate, mutator_ns).unwrap_or(u64::MAX);
        let allocation = at_this_rate.min(bursts).max(self.cycle_allocation);
        self.prediction.collector_most_ns = collector_ns;
        self.prediction.allocation_most_bytes = allocation;
        self.prediction.collector_ns = self.forecast.collector_ns();
        self.prediction.allocation_bytes = self.forecast.allocation_bytes();
        self.prediction.live_bytes = self.live_bytes;
        if self.config.trigger == Trigger::Paced {
            // INV-PACING-ROOM. The trigger is looked at once per beat, so two beats of allocation are the least margin.
            let beats = mul_div_ceil(rate, self.beat_ns.saturating_mul(2), SECOND_NS);
            let reserve = self.with_margin(allocation).max(allocation.saturating_add(beats));
            // Never later than 7/8: a program that starts to allocate out of silence needs room too.
            let reserve = reserve.max(self.usable_bytes / 8);
            self.prediction.trigger_used_bytes = self.usable_bytes.saturating_sub(reserve);
        }
    }

    fn with_margin(&self, bytes: u64) -> u64 {
        mul_div_ceil(bytes, 100 + self.margin_percent, 100)
    }

    /// A cycle that allocated more than predicted raises the margin by the relative error.
    fn learn_margin(&mut self, predicted: Option<Prediction>, facts: &CycleFacts) {
        let relaxed = self.margin_percent - (self.margin_percent - BASE_MARGIN_PERCENT).div_ceil(4);
        let missed = predicted.map_or(0, |p| {
            let missing = facts.allocated_bytes.saturating_sub(p.allocation_most_bytes);
            mul_div_ceil(missing, 100, p.allocation_most_bytes.max(1))
        });
        let raised = if missed > 0 { missed.saturating_add(BASE_MARGIN_PERCENT) } else { 0 };
        self.margin_percent = relaxed.max(raised).min(MAX_MARGIN_PERCENT);
    }
}

/// Follows a rise at once and a fall by a quarter of the difference.
fn falling(estimate: u64, measured: u64) -> u64 {
    if measured >= estimate { measured } else { estimate - (estimate - measured).div_ceil(4) }
}
