//! Sums quanta into a heartbeat.

use super::facts::{QuantumFacts, WorkFacts};
use crate::model::{ByteStats, DurationStats, QuantaDetail, QuantumPhase};

/// Least, sum and most of a series.
#[derive(Clone, Copy, Debug)]
struct Series {
    min: u64,
    max: u64,
    sum: u128,
    count: u64,
}

impl Series {
    const EMPTY: Self = Self { min: u64::MAX, max: 0, sum: 0, count: 0 };

    fn add(&mut self, value: u64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += u128::from(value);
        self.count += 1;
    }

    fn mean(&self) -> u64 {
        // A mean of u64 values fits.
        (self.sum / u128::from(self.count.max(1))) as u64
    }

    fn sum(&self) -> u64 {
        u64::try_from(self.sum).unwrap_or(u64::MAX)
    }

    fn durations(&self) -> DurationStats {
        DurationStats { min_ns: self.min, mean_ns: self.mean(), max_ns: self.max }
    }

    fn bytes(&self) -> ByteStats {
        ByteStats { min_bytes: self.min, mean_bytes: self.mean(), max_bytes: self.max }
    }
}

/// Quanta since the last heartbeat.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) count: u64,
    pub(super) phase: QuantumPhase,
    pub(super) clock_error: bool,
    pub(super) work: WorkFacts,
    pub(super) overflow_packets: u64,
    pub(super) overflow_objects: u64,
    pub(super) priority_min: u64,
    pub(super) priority_max: u64,
    first_start_ns: u64,
    last_end_ns: u64,
    longest_end_ns: u64,
    first_end_ns: u64,
    quantum: Series,
    exclusive: Series,
    wakeup: Series,
    free: Series,
    immortal: Series,
    cpu: Series,
    cpu_wall: Series,
    work_wall: Series,
    collector: Series,
    resume: Series,
    detail: QuantaDetail,
}

impl Pending {
    pub(super) fn new(first: &QuantumFacts) -> Self {
        let mut new = Self {
            count: 0,
            phase: first.phase,
            clock_error: false,
            work: WorkFacts::default(),
            overflow_packets: 0,
            overflow_objects: 0,
            priority_min: u64::MAX,
            priority_max: 0,
            first_start_ns: first.start_ns,
            last_end_ns: first.end_ns,
            longest_end_ns: first.end_ns,
            first_end_ns: first.end_ns,
            quantum: Series::EMPTY,
            exclusive: Series::EMPTY,
            wakeup: Series::EMPTY,
            free: Series::EMPTY,
            immortal: Series::EMPTY,
            cpu: Series::EMPTY,
            cpu_wall: Series::EMPTY,
            work_wall: Series::EMPTY,
            collector: Series::EMPTY,
            resume: Series::EMPTY,
            detail: QuantaDetail::default(),
        };
        new.add(first);
        new
    }

    pub(super) fn add(&mut self, q: &QuantumFacts) {
        // A clock that went back yields length 0 and a warning, never a wrapped number.
        self.clock_error |= q.end_ns < q.start_ns || (self.count > 0 && q.start_ns < self.last_end_ns);
        let wall = q.end_ns.saturating_sub(q.start_ns);
        if wall > self.quantum.max {
            self.longest_end_ns = q.end_ns;
        }
        self.count += 1;
        self.last_end_ns = q.end_ns;
        self.quantum.add(wall);
        self.exclusive.add(q.exclusive_access_ns);
        self.wakeup.add(q.wakeup_ns);
        self.free.add(q.heap_free_bytes);
        if let Some(immortal) = q.immortal_free_bytes {
            self.immortal.add(immortal);
        }
        if let Some(cpu) = q.cpu_ns {
            self.cpu.add(cpu);
            self.cpu_wall.add(wall);
            if let Some(work) = q.work_ns {
                self.work_wall.add(work);
            }
        }
        // What released mutators wait for is no matter of the collector's plan.
        let released = q.released_ns.map(|ns| ns.clamp(q.start_ns, q.end_ns.max(q.start_ns)));
        let took = released.map_or(wall, |ns| ns - q.start_ns);
        if let Some(released) = released {
            self.collector.add(took);
            self.resume.add(q.end_ns.saturating_sub(released));
        }
        self.work.add(&q.work);
        self.overflow_packets = self.overflow_packets.saturating_add(q.overflow_packets);
        self.overflow_objects = self.overflow_objects.saturating_add(q.overflow_objects);
        self.priority_min = self.priority_min.min(q.gc_thread_priority);
        self.priority_max = self.priority_max.max(q.gc_thread_priority);
        let d = &mut self.detail;
        d.planned_max_ns = d.planned_max_ns.max(q.planned_ns);
        if took > q.planned_ns {
            d.over_plan += 1;
            d.over_plan_max_ns = d.over_plan_max_ns.max(took - q.planned_ns);
        }
        if q.longest_step_ns > d.longest_step_ns || d.longest_step.is_empty() {
            d.longest_step_ns = d.longest_step_ns.max(q.longest_step_ns);
            d.longest_step.clear();
            d.longest_step.push_str(q.longest_step);
        }
    }

    pub(super) const fn last_end_ns(&self) -> u64 {
        self.last_end_ns
    }

    /// From the first quantum's end to the longest one's: 0 says that the first was the longest.
    pub(super) const fn longest_after_ns(&self) -> u64 {
        self.longest_end_ns.saturating_sub(self.first_end_ns)
    }

    pub(super) fn quantum(&self) -> DurationStats {
        self.quantum.durations()
    }

    pub(super) fn exclusive(&self) -> DurationStats {
        self.exclusive.durations()
    }

    pub(super) fn free(&self) -> ByteStats {
        self.free.bytes()
    }

    /// Free immortal memory, of the quanta that told it.
    pub(super) fn immortal(&self) -> Option<ByteStats> {
        (self.immortal.count > 0).then(|| self.immortal.bytes())
    }

    pub(super) fn detail(&self) -> QuantaDetail {
        let wakeup = self.wakeup.durations();
        // What only some quanta tell would not go with the other sums.
        let all = |series: &Series, of: u64| (of > 0 && series.count == of).then_some(*series);
        let collector = all(&self.collector, self.count).map(|s| s.durations());
        let resume = all(&self.resume, self.count).map(|s| s.durations());
        QuantaDetail {
            first_start_ns: self.first_start_ns,
            last_end_ns: self.last_end_ns,
            wakeup_min_ns: wakeup.min_ns,
            wakeup_mean_ns: wakeup.mean_ns,
            wakeup_max_ns: wakeup.max_ns,
            cpu_quanta: self.cpu.count,
            cpu_ns: self.cpu.sum(),
            cpu_wall_ns: self.cpu_wall.sum(),
            work_wall_ns: all(&self.work_wall, self.cpu.count).map(|s| s.sum()),
            collector_min_ns: collector.map(|d| d.min_ns),
            collector_mean_ns: collector.map(|d| d.mean_ns),
            collector_max_ns: collector.map(|d| d.max_ns),
            resume_mean_ns: resume.map(|d| d.mean_ns),
            resume_max_ns: resume.map(|d| d.max_ns),
            ..self.detail.clone()
        }
    }
}
