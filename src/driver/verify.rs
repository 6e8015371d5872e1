//! Verification on demand, between two quanta.

use super::Driver;
use crate::collector::Stopped;
use crate::verify::VerifyError;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Driver {
    /// Verifies the heap for those who have asked, with the world stopped for O(heap); told in the log and charged. If the
    /// mutators cannot be stopped now, a later round tries again. Not for real-time use: it allocates and locks.
    pub(super) fn verify_on_demand(&mut self) {
        let shared = Arc::clone(&self.shared);
        let s = &*shared;
        self.beside.come_back(s);
        let start = s.clock.now();
        let budget = s.config.effective_stop_budget_ns();
        let stopped = Stopped::try_new(s, Some(start.saturating_add(budget)), self.spin, None);
        let verified = stopped.map(|stopped| {
            let answer = match self.collector.verify_now(&stopped) {
                None => Err(VerifyError::Absent),
                Some((report, found)) if found.violations.is_empty() => Ok(report),
                Some((_, found)) => {
                    Err(VerifyError::Broken { violations: found.violations, more: found.more })
                }
            };
            // While stopped: nobody can have asked in between for what this answer does not cover.
            s.verify.answer(answer);
        });
        let end = s.clock.now();
        let charged = self.scheduler.record(start, end);
        // Relaxed, both: a report, a counter.
        s.counts.collector_ns.fetch_add(charged, Relaxed);
        match verified {
            Ok(()) => {
                let us = (end - start) / 1000;
                s.note(format!(
                    "verified on demand: the mutators were stopped for {us} us, besides all quanta"
                ));
            }
            Err(_) => {
                self.collector.dismiss_helpers();
                // Relaxed: a counter.
                s.stops_cancelled.fetch_add(1, Relaxed);
            }
        }
    }
}
