//! The collector's side of verification: where it happens, and what only the collector knows.

use super::{Collector, Marking, Stopped, Work};
use crate::verify::{Edge, Found, Verifier, VerifyReport, View};
use std::sync::atomic::Ordering::Relaxed;

impl Collector {
    /// Verifies the heap if this edge of this cycle is to be verified. O(heap) then, else a branch.
    #[inline]
    pub(super) fn check(&mut self, edge: Edge, stopped: &Stopped<'_>) {
        if self.verifier.is_some() {
            crate::rtsan::excluded(|| self.check_now(edge, stopped));
        }
    }

    /// Counts a cycle that is about to be done as verified, if it was. A branch.
    #[inline]
    pub(super) fn count_verified(&self) {
        if self.verifier.as_ref().is_some_and(Verifier::is_active) {
            // Relaxed: ordered by the cycle's end, which follows.
            self.shared.counts.verified.fetch_add(1, Relaxed);
        }
    }

    #[cold]
    fn check_now(&mut self, edge: Edge, stopped: &Stopped<'_>) {
        let Some(mut verifier) = self.verifier.take() else { return };
        // Relaxed: changed by this thread.
        let cycle = self.shared.cycle.load(Relaxed) + u64::from(edge == Edge::Arm);
        if verifier.wants(edge, cycle) {
            self.verified = true;
            let view = View { cycle, ..self.view() };
            let floating = verifier.at(edge, &self.shared, stopped, &view);
            self.counts.floating = floating.or(self.counts.floating);
        }
        self.verifier = Some(verifier);
    }

    /// Verifies the heap now, between two steps: what was looked at, and what was found. `None` where no verifier is
    /// compiled in. O(heap).
    pub(crate) fn verify_now(&self, stopped: &Stopped<'_>) -> Option<(VerifyReport, Found)> {
        Verifier::demand(&self.shared, stopped, &self.view())
    }

    /// What the verifier cannot see by itself.
    fn view(&self) -> View {
        let s = &*self.shared;
        // Relaxed, both: changed by this thread.
        let mut view = View { cycle: s.cycle.load(Relaxed), ..View::default() };
        let done = s.cycles_done.load(Relaxed);
        let kept = (0..s.softs.len()).filter(|&i| s.softs.extra(i).keeps(done, self.soft_age));
        view.softs.extend(kept.map(|i| s.softs.get(i)));
        let greys = &mut view.greys;
        self.queue.for_each(|p| greys.push(p));
        let (mut packets, mut queues) = (Vec::new(), Vec::new());
        s.crew.for_each(&s.space, |e| packets.push(e.cell()), |q| q.for_each(|p| queues.push(p)));
        greys.append(&mut packets);
        greys.append(&mut queues);
        s.logs.for_each_full(|p| greys.push(p));
        for r in s.records() {
            // SAFETY: the world is stopped, so the mutator does not touch its local state (INV-STOP-EXCLUSIVE).
            unsafe { (*r.local.get()).log.for_each(&s.logs, |p| greys.push(p)) };
        }
        s.space.for_each_grey(|p| greys.push(p.as_ptr()));
        match &self.work {
            Work::Marking(m) => self.untaken(m, greys),
            // What is due, and has not been visited, is no more than what is visited too early.
            Work::Clearing(_) => greys.extend((0..s.finalizers.len()).map(|i| s.finalizers.root(i))),
            Work::Reviving { next, end } => greys.extend((*next..*end).map(|i| s.finalizers.root(i))),
            Work::Sweeping { next, end } => view.unswept = *next..*end,
            Work::Idle | Work::Burying(_) => {}
        }
        view
    }

    /// Handles that marking has yet to take. Those made after their table was begun are not among them (rule 3).
    fn untaken(&self, m: &Marking, greys: &mut Vec<*mut u8>) {
        let s = &*self.shared;
        for table in m.table..m.mutators {
            let Some(r) = s.record(table) else { continue };
            let begun = if table == m.table { (m.entry, m.entries) } else { (0, None) };
            let end = begun.1.unwrap_or_else(|| r.roots.len());
            greys.extend((begun.0..end).map(|i| r.roots.get(i)));
        }
        let Some(tables) = m.shared else { return };
        for table in tables.table..3 {
            let next = if table == tables.table { tables.next } else { 0 };
            for i in next..tables.lens[table] {
                greys.push(match table {
                    0 => s.globals.get(i),
                    // Relaxed: counted by this thread.
                    1 if s.softs.extra(i).keeps(s.cycles_done.load(Relaxed), self.soft_age) => s.softs.get(i),
                    1 => continue,
                    _ => s.finalizers.root(i),
                });
            }
        }
    }
}
