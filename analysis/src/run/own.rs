//! What only this project's logs tell.

use super::{MAX_ROWS, RunBuilder, Spot, named};
use crate::figures::{Low, Straggler};
use crate::series::Amount;
use metronome_verbosegc::model::{CycleFacts, Departure, Event, StopCancelled};

/// How notes tell of failed allocations, and of the heap that they would not have failed in.
const FAILED: &str = " returned an error to the program";
const ENOUGH: &str = " bytes would have been enough";
/// How they tell of a mutator that a cycle waits for.
const OVERDUE: &str = "safepoint overdue: mutator ";
const POLLED: &str = " has polled for ";
/// Windows kept of those whose utilization the run measured.
const MAX_WINDOWS: usize = 64;

impl RunBuilder {
    pub(super) fn own_event(&mut self, spot: Spot, event: &Event) {
        self.own = true;
        match event {
            Event::Cycle(c) => self.facts(c),
            Event::StopCancelled(s) => self.cancelled(spot, s),
            Event::Departure(d) => self.departure(spot, d),
            Event::LostRecords(l) => {
                self.f.trouble.lost_records = self.f.trouble.lost_records.saturating_add(l.count);
                self.gap();
                self.mark(spot, "lost", || format!("{} event records lost", l.count));
            }
            Event::OutputLost(l) => {
                self.f.trouble.output_lost = self.f.trouble.output_lost.saturating_add(l.elements);
                self.gap();
                self.mark(spot, "lost", || format!("{} elements of this log lost", l.elements));
            }
            Event::Resize(r) => {
                self.f.heap_bytes = Some(self.f.heap_bytes.unwrap_or(0).max(r.to_bytes));
                let most = self.most(MAX_ROWS);
                self.f.resizes.push((spot.line, r.clone()), most);
                self.mark(spot, "resize", || {
                    format!("the heap went from {} to {} bytes: {}", r.from_bytes, r.to_bytes, r.reason)
                });
            }
            Event::Thread(t) => {
                let most = self.most(MAX_ROWS);
                self.f.own.threads.push((spot.line, t.clone()), most);
                self.mark(spot, "thread", || match &t.refused {
                    Some(why) => format!("thread {} began; refused: {why}", t.name),
                    None => format!("thread {} began", t.name),
                });
            }
            Event::Mmu(m) => {
                let mmu = &mut self.f.own.mmu;
                if let Some(old) = mmu.iter_mut().find(|old| old.window_ns == m.window_ns) {
                    old.clone_from(m);
                } else if mmu.len() < MAX_WINDOWS {
                    mmu.push(m.clone());
                }
            }
            Event::Summary(s) => self.f.own.summary = Some(s.clone()),
            Event::Note(n) => {
                self.failed(spot, &n.text);
                self.overdue(spot, &n.text);
                let most = self.most(MAX_ROWS);
                self.f.own.notes.push((spot.line, n.text.clone()), most);
                self.mark(spot, "note", || n.text.clone());
            }
            // The model may come to know more.
            _ => {}
        }
    }

    fn facts(&mut self, c: &CycleFacts) {
        self.f.own.allocated.add(c.allocated_bytes);
        if let Some(ns) = c.handles_ns {
            self.f.own.handles_ns += u128::from(ns);
            self.f.own.stepped_ns += u128::from(c.cpu_ns.unwrap_or(c.collector_ns));
        }
        if let Some(live) = c.live_bytes {
            self.f.own.live.add(live);
        }
        let Some(row) = &mut self.ended_cycle else { return };
        row.quanta = c.quanta;
        row.collector_ns = c.collector_ns;
        row.allocated_bytes = Some(c.allocated_bytes);
        row.live_bytes = c.live_bytes;
        if let Some(start) = row.start_ns {
            self.f.series.spread(start, row.end_ns, c.allocated_bytes, Amount::Allocated);
        }
    }

    /// `3 allocations returned an error to the program (5 in all): 28007168 bytes would have been enough ...`
    fn failed(&mut self, spot: Spot, text: &str) {
        let Some((count, rest)) = text.split_once(FAILED) else { return };
        let count = count.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(1);
        let o = &mut self.f.own;
        if o.failed == 0 {
            o.failed_line = spot.line;
        }
        o.failed = o.failed.saturating_add(count);
        let enough = rest
            .split_once(ENOUGH)
            .and_then(|(before, _)| before.rsplit([' ', '=']).next()?.parse::<u64>().ok());
        if let Some(bytes) = enough {
            o.enough_heap.add(bytes, spot.line, spot.at_ns);
        }
    }

    /// `safepoint overdue: mutator trees-1 has polled for 250 ms without a safepoint; the cycle waits for it`
    fn overdue(&mut self, spot: Spot, text: &str) {
        // A name may hold anything: the last of these words are the note's.
        let Some((name, rest)) = text.strip_prefix(OVERDUE).and_then(|text| text.rsplit_once(POLLED)) else {
            return;
        };
        let ms = rest.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        named(&mut self.f.own.overdue, name).add(ms, spot.line, spot.at_ns);
    }

    fn cancelled(&mut self, spot: Spot, s: &StopCancelled) {
        self.f.own.stops_cancelled += 1;
        let Straggler { cancelled, wait } = named(&mut self.f.own.stragglers, &s.mutator);
        *cancelled += 1;
        wait.add(s.waited_ns, spot.line, spot.at_ns);
        self.mark(spot, "stop-cancelled", || {
            format!("stop given up after {:.3} ms: {} did not arrive", s.waited_ns as f64 / 1e6, s.mutator)
        });
    }

    fn departure(&mut self, spot: Spot, d: &Departure) {
        let o = &mut self.f.own;
        *named(&mut o.departures, &d.reason) += 1;
        if o.departure_low.is_none_or(|low| u64::from(d.achieved_ppm) < low.value) {
            o.departure_low =
                Some(Low { value: u64::from(d.achieved_ppm), line: spot.line, at_ns: spot.at_ns });
        }
        if let Some(enough) = d.enough_heap_bytes {
            o.enough_heap.add(enough, spot.line, spot.at_ns);
        }
        self.mark(spot, "departure", || {
            format!(
                "the target was left ({}): {:.1} % to the mutators",
                d.reason,
                f64::from(d.achieved_ppm) / 1e4
            )
        });
    }
}
