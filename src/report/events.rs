//! Each event: into the statistics, the log and the notifications.

use super::Reporter;
use super::state::{State, immortal_free};
use crate::events::Event;
use crate::notice::Notification;
use metronome_verbosegc::model::{self};
use metronome_verbosegc::writer::{CycleStartFacts, SyncGcFacts};

impl Reporter {
    pub(super) fn one(&self, state: &mut State, e: Event) {
        let c = &self.shared.config;
        match e {
            Event::Quantum(q) => state.quantum(&self.shared, q),
            Event::TriggerStart { ns } => state.write(|log| log.trigger_start(ns)),
            Event::TriggerEnd { ns } => state.write(|log| log.trigger_end(ns)),
            Event::CycleStart { ns, reason, free_bytes } => {
                state.notice(Notification::CycleStart { reason, free_bytes });
                let facts = CycleStartFacts { heap_free_bytes: free_bytes, reason: Some(reason.model()) };
                state.write(|log| log.cycle_start(ns, &facts));
            }
            Event::CycleEnd(end) => state.cycle_end(&end),
            Event::Synchronous {
                start_ns,
                end_ns,
                stop_ns,
                cpu_ns,
                free_before,
                free_after,
                references,
                soft_age,
                reason,
                requested_bytes,
            } => {
                let facts = SyncGcFacts {
                    start_ns,
                    end_ns,
                    reason: reason.model(),
                    requested_bytes,
                    free_before_bytes: free_before,
                    free_after_bytes: free_after,
                    exclusive_access_ns: stop_ns,
                    priority: u64::from(c.gc_priority),
                    cpu_ns: Some(cpu_ns),
                    immortal_before_bytes: immortal_free(&self.shared),
                    immortal_after_bytes: immortal_free(&self.shared),
                    work: state.work(&self.shared, references, soft_age),
                };
                state.notice(Notification::Synchronous { reason, ns: end_ns.saturating_sub(start_ns) });
                state.write(|log| log.sync_gc(&facts));
            }
            Event::StopCancelled { ns, waited_ns, budget_ns, running, record } => {
                let name = self.name_of(record);
                state.straggler(&name);
                if c.report_blocked {
                    state.suspect(record);
                }
                let end = ns;
                let start = ns.saturating_sub(waited_ns);
                // Those who had arrived waited for the one who did not.
                state.pause.saturating_record(waited_ns);
                state.interval(start, end, start + waited_ns.min(budget_ns));
                state.notice(Notification::Straggler { mutator: name.clone() });
                let facts = model::StopCancelled {
                    mutator: name,
                    waited_ns,
                    budget_ns,
                    missing_mutators: u64::from(running),
                };
                state.write(|log| log.stop_cancelled(ns, &facts));
            }
            Event::SafepointOverdue { ns, since_ns, record } => {
                let name = self.name_of(record);
                state.straggler(&name);
                let ms = ns.saturating_sub(since_ns) / 1_000_000;
                state.notice(Notification::SafepointOverdue { mutator: name.clone(), ms });
                let text = format!(
                    "safepoint overdue: mutator {name} has polled for {ms} ms without a safepoint; the cycle waits for it"
                );
                state.write(|log| log.note(ns, &model::Note { text }));
            }
            Event::Departure { ns, reason, allowance_ns, enough } => {
                state.sums.last_departure = Some(reason.text());
                let ppm = |gc: u64| {
                    let left = c.window_ns.saturating_sub(gc);
                    u32::try_from(u128::from(left) * 1_000_000 / u128::from(c.window_ns)).unwrap_or(0)
                };
                let facts = model::Departure {
                    reason: reason.text().into(),
                    window_ns: c.window_ns,
                    target_ppm: c.target_utilization * 10_000,
                    achieved_ppm: ppm(allowance_ns),
                    enough_heap_bytes: enough.map(|e| e.heap_bytes),
                    live_bytes: enough.map(|e| e.live_bytes),
                    allocation_bytes: enough.map(|e| e.allocation_bytes),
                    fragmentation_ppm: enough.map(|_| c.fragmentation_percent * 10_000),
                };
                state.notice(Notification::TargetMissed {
                    reason,
                    enough_heap_bytes: enough.map(|e| e.heap_bytes),
                });
                state.write(|log| log.departure(ns, &facts));
            }
            Event::HeadroomLow { free_bytes, heap_bytes } => {
                state.notice(Notification::HeadroomLow { free_bytes, heap_bytes });
            }
            Event::Grown { ns, from_bytes, to_bytes } => {
                let facts = model::Resize {
                    direction: model::ResizeDirection::Grow,
                    from_bytes,
                    to_bytes,
                    reason: "headroom".into(),
                    total_bytes: Some(self.shared.space.resident_bytes()),
                    limit_bytes: Some(self.shared.space.max_bytes()),
                    ..model::Resize::default()
                };
                state.notice(Notification::Resized {
                    from_bytes,
                    to_bytes,
                    returned_bytes: 0,
                    reason: "headroom",
                });
                state.write(|log| log.resize(ns, &facts));
            }
            Event::AllocationFailed { ns, count, total, enough } => {
                let enough_heap_bytes = enough.map(|e| e.heap_bytes);
                state.notice(Notification::AllocationFailed { count, enough_heap_bytes });
                let facts = model::OutOfMemory { space: Some("heap".into()), address: None };
                state.write(|log| log.out_of_memory(ns, &facts));
                // With `exhaustion = fail` the target is kept, and no departure says it.
                let enough = enough_heap_bytes.map_or(String::new(), |bytes| {
                    format!("; by what was measured a heap of {bytes} bytes would have been enough")
                });
                let what = if count == 1 { "allocation" } else { "allocations" };
                let text =
                    format!("{count} {what} returned an error to the program ({total} in all){enough}");
                state.write(|log| log.note(ns, &model::Note { text }));
            }
            Event::ClockStep { ns } => {
                let facts = model::NonMonotonicTime {
                    timer: Some("CLOCK_MONOTONIC".into()),
                    to_ns: Some(ns),
                    ..model::NonMonotonicTime::default()
                };
                state.write(|log| log.clock_error(ns, &facts));
            }
        }
    }
}
