//! Heartbeats: quanta in sum.

use super::edges::PRINTED_GRAIN_NS;
use super::{RunBuilder, Since, Spot};
use crate::contract::DEFAULT_TARGET_PPM;
use crate::figures::{HeartbeatRow, Low, Range};
use crate::series::Amount;
use metronome_verbosegc::model::{Heartbeat, LongestAt, QuantaDetail, QuantumPhase};

/// Shares of shorter intervals say little: printed times have a millisecond's grain, and a window may be full.
const LONG_INTERVAL_NS: u64 = 200_000_000;
/// Heartbeats shorter than this (or than the window of the target) tell no utilization of their own in pictures.
const SHORT_INTERVAL_NS: u64 = 10_000_000;
/// Windows that a heartbeat must span for its share to be compared with the target.
const LONG_WINDOWS: u64 = 10;
/// A share above what the target leaves by this much, in parts per million, breaks it; less is rounding.
const ABOVE_PPM: u32 = 30_000;

impl RunBuilder {
    pub(super) fn heartbeat(&mut self, spot: Spot, h: &Heartbeat) {
        self.in_a_row = 0;
        let count = h.quantum_count.unwrap_or(0);
        // Of a torn heartbeat with lengths but no count there was at least one quantum.
        let measured = h.quantum.filter(|_| !spot.clock_error);
        let known = if h.quantum_count.is_some() { count } else { u64::from(measured.is_some()) };
        self.f.quanta = self.f.quanta.saturating_add(known);
        let phase = h.phase.unwrap_or_default();
        if let Some(q) = measured {
            let n = known;
            self.quantum.add_group(n, q.min_ns, q.mean_ns, q.max_ns);
            self.f.quantum_peak.add(q.max_ns, spot.line, spot.at_ns);
            let p = &mut self.phases[phase as usize];
            p.quantum.add_group(n, q.min_ns, q.mean_ns, q.max_ns);
            p.peak.add(q.max_ns, spot.line, spot.at_ns);
            p.growth.add(spot.at_ns as f64 / 1e9, q.max_ns as f64);
            p.longest_is_first += u64::from(h.longest_at == Some(LongestAt::InHeartbeat(0)));
        }
        if let Some((mark, interval)) = self.mark_ns.zip(h.interval_ns)
            && mark.checked_add(interval) != Some(spot.at_ns)
        {
            // Only the second is known: this quantum has no place among those before it.
            self.gap();
        }
        match measured {
            Some(q) if known == 1 => self.single(spot.at_ns, q.max_ns, true),
            _ => self.singles.unknown(spot.at_ns),
        }
        if let Some(stop) = h.exclusive_access.filter(|_| !spot.clock_error) {
            self.stop.add_group(known.max(1), stop.min_ns, stop.mean_ns, stop.max_ns);
            self.f.stop_peak.add(stop.max_ns, spot.line, spot.at_ns);
        }
        if let Some(free) = h.heap_free {
            Range::add(&mut self.f.free, free.min_bytes, free.max_bytes);
            self.free_low(free.min_bytes, spot);
        }
        if let Some(free) = h.immortal_free {
            self.immortal(spot.at_ns, free.min_bytes, free.max_bytes);
        }
        if let (Some(min), Some(max)) = (h.priority_min, h.priority_max) {
            self.priority(spot.at_ns, min, max);
        }
        self.work(spot, &h.work, h.soft_cleared());
        if let Some(ns) = h.allocator_sweep.and_then(|s| s.max_ns) {
            self.f.work.allocator_sweep.add(ns, spot.line, spot.at_ns);
        }
        let interval = self.interval(spot, h).filter(|_| !spot.clock_error);
        // More than all of the time: one of the two is wrong, and nobody knows which.
        let impossible = interval.zip(h.collector_ns()).is_some_and(|(interval, ns)| {
            let grain =
                PRINTED_GRAIN_NS.saturating_add(interval / 1_000).saturating_add(count.saturating_mul(1_000));
            ns > interval.saturating_add(grain)
        });
        let interval = interval.filter(|_| !impossible);
        if let Some(cycle) = self.cycle.as_mut().filter(|_| impossible) {
            cycle.torn = true;
        }
        let share = interval.and_then(|interval| {
            let ppm = (u128::from(h.collector_ns()?) * 1_000_000).checked_div(u128::from(interval))?;
            // Beyond all of the time it can be by the grain of exact times and cut means only.
            let most = if h.detail.is_some() { 1_000_000 } else { u128::from(u32::MAX) };
            u32::try_from(ppm.min(most)).ok()
        });
        self.follow(spot, h);
        self.picture(spot, h, interval, impossible);
        let lasted = measured.filter(|_| !impossible);
        let fell =
            !spot.partial & self.in_cycle(h, interval, lasted.map(|q| q.mean_ns.saturating_mul(known)));
        if let (Some(interval), Some(share)) = (interval, share) {
            self.share(spot, h, interval, share, fell);
        }
        if let Some(detail) = &h.detail {
            self.detail(spot, detail, known);
        }
        self.mark_ns = Some(spot.at_ns);
        let row = HeartbeatRow {
            line: spot.line,
            at_ns: spot.at_ns,
            quanta: h.quantum_count,
            phase: h.phase,
            mean_ns: measured.map(|q| q.mean_ns),
            max_ns: measured.map(|q| q.max_ns),
            stop_max_ns: h.exclusive_access.map(|s| s.max_ns),
            free_min_bytes: h.heap_free.map(|b| b.min_bytes),
            share_ppm: share,
        };
        self.keep_heartbeat(row);
    }

    /// What the quanta of a heartbeat are a share of: as written, else from what was before, in exact times where the log
    /// has them.
    fn interval(&self, spot: Spot, h: &Heartbeat) -> Option<u64> {
        let Some(d) = h.detail.as_deref().filter(|d| d.first_start_ns < d.last_end_ns) else {
            return h
                .interval_ns
                .or_else(|| self.since.filter(|_| spot.fine).map(|since| spot.at_ns - since.at_ns));
        };
        let span = d.last_end_ns - d.first_start_ns;
        let since = self.since.and_then(|s| s.mono_ns).filter(|ns| *ns <= d.first_start_ns);
        let known = h.interval_ns.or_else(|| Some(d.last_end_ns - since?)).unwrap_or(span).max(span);
        if since.is_some() {
            return Some(known);
        }
        // The first quantum may be what the time counts from: then a pause before it counts as long as those between. A
        // single quantum has none, and its own length is no time that it is a share of.
        let lead = known - span;
        match h.quantum_count?.checked_sub(1).filter(|n| *n > 0) {
            None => (lead >= span / 10).then_some(known),
            Some(between) => {
                let pause = span.saturating_sub(h.collector_ns()?) / between;
                span.checked_add(lead.max(pause))
            }
        }
    }

    /// The exact times of a heartbeat of this project's.
    fn follow(&mut self, spot: Spot, h: &Heartbeat) {
        let exact = h.detail.as_deref().map(|d| (d.first_start_ns, d.last_end_ns));
        let exact = exact.filter(|(from, to)| from < to && !spot.clock_error);
        let since = Since { at_ns: spot.at_ns, mono_ns: exact.map(|e| e.1) };
        self.since = spot.fine.then_some(since);
        let Some(cycle) = &mut self.cycle else { return };
        let Some((from, to)) = exact else { return };
        if cycle.mono.is_none()
            && let Some(end) = self.last_cycle_mono_ns
            && let Some(printed) = cycle.gap_ns
        {
            // The wait before the first quantum is the cycle's, and not the gap's.
            let exact = from.saturating_sub(end);
            if exact.abs_diff(printed) < PRINTED_GRAIN_NS {
                cycle.gap_ns = None;
                self.cycle_gap.add(exact);
            }
        }
        cycle.mono = Some((cycle.mono.map_or(from, |m| m.0), to));
    }

    fn picture(&mut self, spot: Spot, h: &Heartbeat, interval: Option<u64>, impossible: bool) {
        let window = self.f.config.as_deref().and_then(|c| c.window_ns).unwrap_or(0);
        let s = &mut self.f.series;
        let from = spot.at_ns.saturating_sub(interval.unwrap_or(0));
        if interval.is_some() {
            if let Some(ns) = h.collector_ns().filter(|_| !spot.clock_error) {
                s.spread(from, spot.at_ns, ns, Amount::Collector);
            }
            s.spread(from, spot.at_ns, spot.at_ns - from, Amount::Covered);
        } else if let (Some(ns), true) =
            (h.collector_ns(), h.detail.is_some() && !spot.clock_error && !impossible)
        {
            // What it took of the target's window.
            let from = spot.at_ns.saturating_sub(ns.max(window).max(SHORT_INTERVAL_NS));
            s.spread(from, spot.at_ns, ns, Amount::Collector);
        }
        let b = s.at(spot.at_ns);
        b.quanta = b.quanta.saturating_add(h.quantum_count.unwrap_or(0));
        if !spot.clock_error {
            b.quantum_max_ns = b.quantum_max_ns.max(h.quantum.map_or(0, |q| q.max_ns));
            b.stop_max_ns = b.stop_max_ns.max(h.exclusive_access.map_or(0, |q| q.max_ns));
        }
        if let Some(free) = h.heap_free {
            // Marking uses memory up, and sweeping frees.
            let uses = matches!(h.phase, Some(QuantumPhase::Mark | QuantumPhase::Precollect));
            let (first, last) =
                if uses { (free.max_bytes, free.min_bytes) } else { (free.min_bytes, free.max_bytes) };
            s.free(spot.at_ns, Some(first));
            s.free(spot.at_ns, Some(last));
        }
    }

    /// Adds to the cycle under way; true if free memory fell in it.
    fn in_cycle(&mut self, h: &Heartbeat, interval: Option<u64>, collector_ns: Option<u64>) -> bool {
        let Some(cycle) = &mut self.cycle else { return false };
        let row = &mut cycle.row;
        row.quanta = row.quanta.saturating_add(h.quantum_count.unwrap_or(0));
        row.quantum_max_ns = row.quantum_max_ns.max(h.quantum.map_or(0, |q| q.max_ns));
        let ns = collector_ns.unwrap_or(0);
        row.collector_ns = row.collector_ns.saturating_add(ns);
        match h.phase {
            Some(QuantumPhase::Mark) => row.mark_ns = row.mark_ns.saturating_add(ns),
            Some(QuantumPhase::Sweep) => row.sweep_ns = row.sweep_ns.saturating_add(ns),
            _ => {}
        }
        let Some(free) = h.heap_free else { return false };
        row.free_min_bytes = Some(row.free_min_bytes.map_or(free.min_bytes, |b| b.min(free.min_bytes)));
        cycle.last_free_max = Some(free.max_bytes);
        // Sweeping makes memory free: only what is less than before fell.
        let before = cycle.last_free_min.replace(free.min_bytes);
        let sweeps = h.phase == Some(QuantumPhase::Sweep);
        let fell = match before {
            Some(before) if sweeps => free.min_bytes < before,
            None if sweeps => false,
            _ => free.min_bytes < free.max_bytes || before.is_some_and(|before| free.min_bytes < before),
        };
        let marks = matches!(h.phase, Some(QuantumPhase::Mark | QuantumPhase::Precollect));
        if marks {
            let start = row.free_start_bytes.unwrap_or(free.max_bytes).max(free.max_bytes);
            let (highest, lowest) = cycle.mark_free.get_or_insert((start, free.min_bytes));
            *highest = (*highest).max(free.max_bytes);
            let before = *lowest;
            *lowest = before.min(free.min_bytes);
            if let (Some(interval), false) = (interval, self.own) {
                let lost = free.max_bytes.saturating_sub(free.min_bytes);
                let end = self.axis.now_ns();
                self.f.series.spread(end.saturating_sub(interval), end, lost, Amount::Allocated);
            }
        }
        fell
    }

    fn share(&mut self, spot: Spot, h: &Heartbeat, interval: u64, share: u32, fell: bool) {
        let config = self.f.config.as_deref();
        let target = config.and_then(|c| c.target_ppm).unwrap_or(DEFAULT_TARGET_PPM);
        let window = config.and_then(|c| c.window_ns).unwrap_or(0);
        if interval >= window.max(SHORT_INTERVAL_NS) {
            self.worst(spot.at_ns, share.min(1_000_000));
        }
        let s = &mut self.f.share;
        s.rough |= h.interval_ns.is_none() && h.detail.is_none();
        s.heartbeats += 1;
        s.collector_ns = s.collector_ns.saturating_add(h.collector_ns().unwrap_or(0));
        s.interval_ns = s.interval_ns.saturating_add(interval);
        s.peak_of_all_ppm = s.peak_of_all_ppm.max(share);
        if interval < LONG_INTERVAL_NS.max(window.saturating_mul(LONG_WINDOWS)) {
            return;
        }
        s.long_heartbeats += 1;
        s.peak_ppm.add(u64::from(share), spot.line, spot.at_ns);
        if s.low_ppm.is_none_or(|low| u64::from(share) < low.value) {
            s.low_ppm = Some(Low { value: u64::from(share), line: spot.line, at_ns: spot.at_ns });
        }
        let left = 1_000_000_u32.saturating_sub(target);
        s.above_target += u64::from(share > left.saturating_add(ABOVE_PPM));
        if fell && share < left / 2 {
            super::first(&mut s.starved, &mut s.starved_line, spot.line);
            if s.starved_low.is_none_or(|low| u64::from(share) < low.value) {
                s.starved_low = Some(Low { value: u64::from(share), line: spot.line, at_ns: spot.at_ns });
            }
        }
    }

    fn detail(&mut self, spot: Spot, d: &QuantaDetail, quanta: u64) {
        self.own = true;
        let o = &mut self.f.own;
        let (line, at) = (spot.line, spot.at_ns);
        // Where the log tells the collector's own end, what released mutators wait for is not in it.
        let wall = d.work_wall_ns.unwrap_or(d.cpu_wall_ns);
        o.cpu_quanta = o.cpu_quanta.saturating_add(d.cpu_quanta);
        o.cpu_ns = o.cpu_ns.saturating_add(d.cpu_ns);
        o.cpu_wall_ns = o.cpu_wall_ns.saturating_add(d.cpu_wall_ns);
        if let Some(lost) = wall.saturating_sub(d.cpu_ns).checked_div(d.cpu_quanta) {
            o.preempted.add(lost, line, at);
        }
        if let Some(work) = d.work_wall_ns {
            o.work_cpu_ns = o.work_cpu_ns.saturating_add(d.cpu_ns);
            o.work_wall_ns = o.work_wall_ns.saturating_add(work);
        }
        let own = d.collector_min_ns.zip(d.collector_mean_ns).zip(d.collector_max_ns);
        if let Some(((min, mean), max)) = own {
            o.collector.add_group(quanta, min, mean, max);
            o.collector_peak.add(max, line, at);
        }
        if let Some((mean, max)) = d.resume_mean_ns.zip(d.resume_max_ns) {
            o.resume.add_group(quanta, 0, mean, max);
            o.resume_peak.add(max, line, at);
        }
        o.over_plan = o.over_plan.saturating_add(d.over_plan);
        o.over_plan_peak.add(d.over_plan_max_ns, line, at);
        o.wakeup_peak.add(d.wakeup_max_ns, line, at);
        if d.longest_step_ns > o.step_peak.value || o.step_peak.line == 0 {
            o.step_name.clone_from(&d.longest_step);
        }
        o.step_peak.add(d.longest_step_ns, line, at);
    }
}
