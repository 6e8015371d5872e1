//! What records add up to: for the terminal, and to hold against a heap's own statistics.

use crate::model::{Begin, Event, Quantum, Record};
use metronome_gc::scheduler::MmuTracker;
use std::collections::{BTreeMap, VecDeque};

/// Mutators and phases that are kept by name.
const NAMES_MAX: usize = 256;
/// Quanta of which the last second's share is made; more than that in one second is no plan of any collector.
const RECENT_MAX: usize = 1 << 16;
const SECOND_NS: u64 = 1_000_000_000;

/// How a mutator answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MutatorFigures {
    /// Stops that it answered.
    pub stops: u64,
    /// Their times in sum.
    pub sum_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Stops that were given up because of it.
    pub cancelled: u64,
}

/// Figures of one phase's quanta.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseFigures {
    /// How many.
    pub quanta: u64,
    /// Their wall time in sum.
    pub sum_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Figures of the run that the last [`Event::Begin`] began. Bounded memory.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Figures {
    /// The run's beginning.
    pub begin: Begin,
    /// Time of the last record.
    pub now_ns: u64,
    /// Quanta, those in sums included.
    pub quanta: u64,
    /// Charged collector time of quanta.
    pub charged_ns: u64,
    /// Cycles that have ended.
    pub cycles: u64,
    /// A cycle is under way.
    pub in_cycle: bool,
    /// Synchronous collections.
    pub synchronous: u64,
    /// Departures from the target.
    pub departures: u64,
    /// Cancelled stops.
    pub cancelled: u64,
    /// Records that are missing.
    pub lost: u64,
    /// Longest pause.
    pub pause_max_ns: u64,
    /// Memory, as last seen.
    pub used_bytes: u64,
    /// Size of the heap, as last seen.
    pub heap_bytes: u64,
    /// Bytes allocated, as last seen.
    pub allocated_bytes: u64,
    /// By phase.
    pub phases: BTreeMap<String, PhaseFigures>,
    /// By mutator.
    pub mutators: BTreeMap<String, MutatorFigures>,
    /// The last bookmark.
    pub bookmark: Option<String>,
    /// The heap was closed, or [`Figures::broken_off`].
    pub ended: bool,
    /// What is known of the run breaks off.
    pub broken_off: bool,
    charged: Option<MmuTracker>,
    wall: Option<MmuTracker>,
    recent: VecDeque<(u64, u64)>,
    memory: VecDeque<(u64, u64)>,
}

impl Figures {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Figures {
        Figures::default()
    }

    /// Takes a record.
    pub fn take(&mut self, r: &Record) {
        if let Event::Begin(b) = &r.event {
            *self = Figures { begin: b.clone(), lost: self.lost, ..Figures::default() };
            self.heap_bytes = b.heap_bytes.unwrap_or(0);
            self.charged = b.window_ns.map(|w| {
                let target = u64::from(b.target_ppm.unwrap_or(0));
                let kept = u128::from(w) * u128::from(target) / 1_000_000;
                let mut t = MmuTracker::with_allowance(w, w - u64::try_from(kept).unwrap_or(w).min(w));
                t.start_at(0);
                t
            });
            self.wall = self.charged.clone();
        }
        self.now_ns = self.now_ns.max(r.ns);
        match &r.event {
            Event::Quantum(q) => self.quantum(q),
            Event::Heartbeat(h) => {
                self.quanta += h.quanta;
                self.pause_max_ns = self.pause_max_ns.max(h.max_ns);
                self.phase(&h.phase, h.quanta, h.quanta.saturating_mul(h.mean_ns), h.max_ns);
                self.used_bytes = self.heap_bytes.saturating_sub(h.free_min_bytes.unwrap_or(self.heap_bytes));
            }
            Event::CycleStart { .. } => self.in_cycle = true,
            Event::CycleEnd { .. } => {
                self.in_cycle = false;
                self.cycles += 1;
            }
            Event::Synchronous { .. } => self.synchronous += 1,
            Event::Departure { .. } => self.departures += 1,
            Event::StopCancelled { mutator, waited_ns, budget_ns, .. } => {
                self.cancelled += 1;
                self.pause_max_ns = self.pause_max_ns.max(*waited_ns);
                let start = r.ns.saturating_sub(*waited_ns);
                self.pause(start, start + waited_ns.min(budget_ns), r.ns);
                if let Some(m) = self.mutator(mutator) {
                    m.cancelled += 1;
                }
            }
            Event::Memory { used_bytes, heap_bytes, allocated_bytes, .. } => {
                (self.used_bytes, self.heap_bytes) = (*used_bytes, *heap_bytes);
                self.allocated_bytes = *allocated_bytes;
                self.memory.push_back((r.ns, *allocated_bytes));
                while self.memory.front().is_some_and(|(ns, _)| r.ns.saturating_sub(*ns) > SECOND_NS) {
                    self.memory.pop_front();
                }
            }
            Event::MutatorStops { mutator, stops, sum_ns, max_ns } => {
                if let Some(m) = self.mutator(mutator) {
                    m.stops += stops;
                    m.sum_ns += sum_ns;
                    m.max_ns = m.max_ns.max(*max_ns);
                }
            }
            Event::Bookmark { text } => self.bookmark = Some(text.clone()),
            Event::Lost { count, .. } => self.lost += count,
            Event::End => self.ended = true,
            Event::BreakOff => (self.ended, self.broken_off) = (true, true),
            _ => {}
        }
    }

    fn quantum(&mut self, q: &Quantum) {
        self.quanta += 1;
        self.charged_ns += q.charged_ns;
        let wall = q.end_ns.saturating_sub(q.start_ns);
        self.pause_max_ns = self.pause_max_ns.max(wall);
        self.phase(&q.phase, 1, wall, wall);
        self.pause(q.start_ns, q.start_ns.saturating_add(q.charged_ns), q.end_ns);
        self.used_bytes = self.heap_bytes.saturating_sub(q.free_bytes);
    }

    /// A pause, charged until `charged`, in wall time until `end`.
    fn pause(&mut self, start: u64, charged: u64, end: u64) {
        if let Some(t) = &mut self.charged {
            t.record(start, charged);
        }
        if let Some(t) = &mut self.wall {
            t.record(start, end);
        }
        self.recent.push_back((start, end));
        let from = end.saturating_sub(SECOND_NS);
        while self.recent.front().is_some_and(|(_, e)| *e < from) || self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
    }

    fn phase(&mut self, phase: &str, quanta: u64, sum_ns: u64, max_ns: u64) {
        if self.phases.len() < NAMES_MAX || self.phases.contains_key(phase) {
            let p = self.phases.entry(phase.to_owned()).or_default();
            p.quanta += quanta;
            p.sum_ns = p.sum_ns.saturating_add(sum_ns);
            p.max_ns = p.max_ns.max(max_ns);
        }
    }

    fn mutator(&mut self, name: &str) -> Option<&mut MutatorFigures> {
        if self.mutators.len() >= NAMES_MAX && !self.mutators.contains_key(name) {
            return None;
        }
        Some(self.mutators.entry(name.to_owned()).or_default())
    }

    /// Minimum utilization of the configured window so far, charged and in wall time, in parts per million.
    #[must_use]
    pub fn mmu_ppm(&self) -> (Option<u32>, Option<u32>) {
        let of = |t: &Option<MmuTracker>| t.as_ref().and_then(MmuTracker::mmu_ppm);
        (of(&self.charged), of(&self.wall))
    }

    /// Windows below the target, in charged time.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.charged.as_ref().map_or(0, MmuTracker::violations)
    }

    /// The mutators' share of the last second in wall time, in parts per million; `None` in the first one.
    #[must_use]
    pub fn recent_ppm(&self) -> Option<u32> {
        let from = self.now_ns.checked_sub(SECOND_NS)?;
        let used: u64 = self.recent.iter().map(|(s, e)| e.saturating_sub((*s).max(from))).sum();
        u32::try_from(SECOND_NS.saturating_sub(used) / 1000).ok()
    }

    /// Bytes allocated per second, of about the last second.
    #[must_use]
    pub fn allocation_rate(&self) -> Option<u64> {
        let ((t0, a0), (t1, a1)) = (self.memory.front()?, self.memory.back()?);
        let bytes = u128::from(a1.saturating_sub(*a0)) * u128::from(SECOND_NS);
        u64::try_from(bytes.checked_div(u128::from(t1.saturating_sub(*t0)))?).ok()
    }
}
