//! Steps of the wall clock, found by what a log tells beside its printed times, and taken out of them.
//!
//! The OpenJ9 form prints local wall time, which NTP, a person or daylight saving may set at any moment. Two things in it
//! come from a clock that is never set: the interval of a cycle start (since the start before), and in this project's
//! logs the monotonic ends of heartbeats and collections. Where printed times disagree with these, the clock was set.

use metronome_verbosegc::LogTime;
use metronome_verbosegc::model::{Event, LoggedEvent};
use std::collections::VecDeque;

/// Printed times that go back by more than this were set back; below, two writers overtook each other.
const BACK_MS: i64 = -2;
/// Other events may be written so much later than their time.
const LATE_MS: i64 = 1_500;
/// Within a cycle events follow each other faster: after such a gap they are held until it is known whether it is true.
const LONG_MS: i64 = 5_000;
/// No gap within a run is as long as this (ten years).
const ABSURD_MS: i64 = 10 * 366 * 86_400_000;
/// A clock that is slewed, and writers that are late, differ by less.
const GRAIN_MS: i64 = 50;
/// A clock that is slewed runs wrong by a two-thousandth at most.
const SLEW_PARTS: i64 = 1_000;
/// Disagreeing so often in a row, the log's intervals are wrong, and not its clock.
const WRONG_IN_A_ROW: u32 = 4;
/// Events held at most.
const MOST_HELD: usize = 512;

/// What is known of an event's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timing {
    /// Its time on a clock that was not set.
    pub(crate) time: Option<LogTime>,
    /// The clock was set by this much right before it.
    pub(crate) step_ms: Option<i64>,
    /// The clock was set here by an unknown amount: intervals over this place are not to be taken.
    pub(crate) unsure: bool,
    /// The clock was set somewhere since the last cycle start: no interval since is to be taken.
    pub(crate) unplaced: bool,
    /// Events are missing before it, by its number.
    pub(crate) missing: bool,
}

/// An event that waits for the next one that tells whether its time is true.
#[derive(Clone, Debug)]
struct Held {
    event: LoggedEvent,
    time: LogTime,
    gap_ms: Option<i64>,
    missing: bool,
}

/// Follows printed times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    /// What the clock was set by, in sum; taken from every printed time.
    shift_ms: i64,
    last: Option<LogTime>,
    /// The last cycle start; `None` if events are missing since.
    start: Option<LogTime>,
    last_id: Option<u64>,
    /// How often in a row the clock seemed to be set, by intervals and by monotonic times.
    in_a_row: [u32; 2],
    /// The longest gap since what told last.
    longest_ms: i64,
    /// A time on both clocks.
    anchor: Option<(LogTime, u64)>,
    held: VecDeque<Held>,
    /// By how much monotonic times say that the clock was set, until the next number shows that no lines are missing: what
    /// is left of two heartbeats may be one with the stamp of the first and the monotonic times of the second.
    told: Option<i64>,
}

impl Clock {
    /// Takes an event and gives those whose times are known, in order.
    pub(crate) fn push(&mut self, e: &LoggedEvent, out: &mut dyn FnMut(&LoggedEvent, Timing)) {
        let missing = self.missing(e);
        if let Some(step) = self.told.take_if(|_| e.id.is_some()) {
            if missing { self.tear(out) } else { self.release(step, out) }
        }
        let Some(printed) = e.timestamp.filter(|t| t.has_millis()) else {
            if self.held.is_empty() {
                out(e, Timing { time: e.timestamp, missing, ..Timing::default() });
            } else if let Some(time) = self.last {
                self.hold(Held { event: e.clone(), time, gap_ms: None, missing }, out);
            }
            return;
        };
        let ordered = is_ordered(&e.event);
        let time = earlier(printed, self.shift_ms);
        // Events that nothing is measured by do not set the time back.
        let time = self.last.filter(|last| !ordered && time.ms_since(*last) < -LATE_MS).unwrap_or(time);
        let before = self.held.iter().rev().find(|h| h.gap_ms.is_some()).map(|h| h.time).or(self.last);
        let gap_ms = before.filter(|_| ordered).map(|last| time.ms_since(last)).or(ordered.then_some(0));
        let source = usize::from(!matches!(e.event, Event::CycleStart(_)));
        let often = self.in_a_row[source];
        let told = self.step(e, time).filter(|_| often < WRONG_IN_A_ROW);
        if let Some(step) = told {
            let often = if step == 0 { 0 } else { often + 1 };
            self.in_a_row[source] = often;
        }
        let suspicious = gap_ms.is_some_and(|gap| !(BACK_MS..=LONG_MS).contains(&gap));
        if self.held.is_empty() && told.is_none_or(|step| step == 0) && !(suspicious && told.is_none()) {
            self.longest_ms = self.longest_ms.max(gap_ms.unwrap_or(0));
            self.take(e, time, ordered);
            return out(e, Timing { time: Some(time), missing, ..Timing::default() });
        }
        let is_start = matches!(e.event, Event::CycleStart(_));
        self.held.push_back(Held { event: e.clone(), time, gap_ms, missing });
        match told {
            Some(step) if step != 0 && source == 1 && e.id.is_some() => self.told = Some(step),
            Some(step) => self.release(step, out),
            // In this project's logs a heartbeat follows that tells.
            None if is_start && self.anchor.is_none() => self.give_up(out),
            None if self.held.len() >= MOST_HELD => self.give_up(out),
            None => {}
        }
    }

    /// Gives what is held still.
    pub(crate) fn finish(&mut self, out: &mut dyn FnMut(&LoggedEvent, Timing)) {
        match self.told.take() {
            Some(step) => self.release(step, out),
            None => self.give_up(out),
        }
    }

    /// Lines are missing right after the event whose monotonic times told: it is of two.
    fn tear(&mut self, out: &mut dyn FnMut(&LoggedEvent, Timing)) {
        self.in_a_row[1] = 0;
        if let Some(h) = self.held.iter_mut().rev().find(|h| monotonic_end(&h.event.event).is_some()) {
            h.event.partial = true;
            h.missing = true;
            match &mut h.event.event {
                Event::Heartbeat(beat) => beat.detail = None,
                Event::SyncGc(gc) => gc.detail = None,
                _ => {}
            }
        }
        self.give_up(out);
        self.anchor = None;
    }

    fn hold(&mut self, held: Held, out: &mut dyn FnMut(&LoggedEvent, Timing)) {
        self.held.push_back(held);
        if self.held.len() >= MOST_HELD {
            self.give_up(out);
        }
    }

    /// Whether numbers are missing before an event. Own elements have none.
    fn missing(&mut self, e: &LoggedEvent) -> bool {
        let numbered =
            is_ordered(&e.event) || matches!(e.event, Event::Initialized(_) | Event::OutOfMemory(_));
        let gap = match (self.last_id, e.id) {
            (Some(last), Some(id)) => id != last.saturating_add(1),
            // A torn event may have lost its number, and those before it.
            (_, None) => numbered && e.partial,
            (None, Some(_)) => false,
        };
        self.last_id = e.id.or(self.last_id);
        if gap {
            self.start = None;
            self.anchor = None;
        }
        gap
    }

    /// By how much the clock was set since the last time that is known on two clocks; `None` if this event does not tell.
    fn step(&self, e: &LoggedEvent, time: LogTime) -> Option<i64> {
        let (wall, true_ms) = match (&e.event, monotonic_end(&e.event)) {
            _ if e.clock_error => return None,
            (_, Some(end_ns)) => {
                let (at, ns) = self.anchor?;
                (
                    time.ms_since(at),
                    i64::try_from(end_ns.checked_sub(ns).filter(|d| *d > 0)? / 1_000_000).ok()?,
                )
            }
            (Event::CycleStart(edge), None) => {
                let told = edge.interval_ns.filter(|ns| *ns > 0)?;
                (time.ms_since(self.start?), i64::try_from(told / 1_000_000).ok()?)
            }
            _ => return None,
        };
        let step = wall.saturating_sub(true_ms);
        let grain = GRAIN_MS + true_ms / SLEW_PARTS;
        Some(if step.abs() <= grain { 0 } else { step })
    }

    fn take(&mut self, e: &LoggedEvent, time: LogTime, ordered: bool) {
        if ordered {
            self.last = Some(time);
        }
        if matches!(e.event, Event::CycleStart(_)) {
            self.start = Some(time);
            self.longest_ms = 0;
        }
        if let Some(ns) = monotonic_end(&e.event) {
            self.anchor = Some((time, ns));
            self.longest_ms = 0;
        }
    }

    /// The clock was set by `step` before one of the events that are held, or before what is released already.
    fn release(&mut self, step: i64, out: &mut dyn FnMut(&LoggedEvent, Timing)) {
        if step == 0 {
            return self.emit(None, 0, false, out);
        }
        // The longest gap for a step forward, the one that goes back the most for a step back.
        let gaps = self.held.iter().enumerate().filter_map(|(i, h)| Some((i, h.gap_ms?)));
        let places = gaps.clone().filter(|(_, gap)| *gap >= step - GRAIN_MS).count();
        let place = if step > 0 { gaps.max_by_key(|g| g.1) } else { gaps.min_by_key(|g| g.1) };
        let (at, gap) = place.unwrap_or((0, 0));
        let rest = gap.saturating_sub(step);
        // What is left of the gap must be one; a step back that hides in a longer gap may be elsewhere as well.
        let only = if step > 0 { places == 1 && step > self.longest_ms + GRAIN_MS } else { gap < BACK_MS };
        let sure = rest >= -GRAIN_MS && only;
        self.emit(Some(at), step, !sure, out);
    }

    /// Nothing tells what was long or went back.
    fn give_up(&mut self, out: &mut dyn FnMut(&LoggedEvent, Timing)) {
        self.told = None;
        while let Some(at) =
            self.held.iter().position(|h| h.gap_ms.is_some_and(|gap| !(BACK_MS..=ABSURD_MS).contains(&gap)))
        {
            let rest = self.held.split_off(at);
            self.emit(None, 0, false, out);
            self.held = rest;
            let step = self.held[0].gap_ms.unwrap_or(0);
            let later = self.held.split_off(1);
            self.emit(Some(0), step, true, out);
            self.held = later;
            for h in &mut self.held {
                h.time = earlier(h.time, step);
            }
        }
        self.emit(None, 0, false, out);
    }

    fn emit(
        &mut self,
        at: Option<usize>,
        step: i64,
        unsure: bool,
        out: &mut dyn FnMut(&LoggedEvent, Timing),
    ) {
        // Of time that goes back the place is seen.
        let unplaced = at
            .and_then(|at| self.held.get(at)?.gap_ms)
            .is_some_and(|gap| (BACK_MS..=ABSURD_MS).contains(&gap));
        let mut shift = 0;
        for (i, h) in std::mem::take(&mut self.held).into_iter().enumerate() {
            let here = at == Some(i);
            if here {
                shift = step;
                self.shift_ms = self.shift_ms.saturating_add(step);
            }
            let time = earlier(h.time, shift);
            self.take(&h.event, time, h.gap_ms.is_some());
            let printed = h.event.timestamp.map(|t| if t.has_millis() { time } else { t });
            let timing = Timing {
                time: printed,
                step_ms: here.then_some(step),
                unsure: unsure && (here || unplaced),
                unplaced: unsure && unplaced,
                missing: h.missing,
            };
            out(&h.event, timing);
        }
    }
}

fn earlier(time: LogTime, ms: i64) -> LogTime {
    if ms == 0 { time } else { time.offset_ns(-i128::from(ms) * 1_000_000) }
}

/// These are written in the order of their times.
const fn is_ordered(e: &Event) -> bool {
    matches!(
        e,
        Event::TriggerStart { .. }
            | Event::TriggerEnd { .. }
            | Event::CycleStart(_)
            | Event::CycleEnd(_)
            | Event::Heartbeat(_)
            | Event::SyncGc(_)
    )
}

/// The monotonic time that belongs to an event's printed one.
pub(crate) fn monotonic_end(e: &Event) -> Option<u64> {
    match e {
        Event::Heartbeat(h) => h.detail.as_ref().map(|d| d.last_end_ns).filter(|ns| *ns > 0),
        Event::SyncGc(gc) => gc.detail.as_ref().map(|d| d.end_ns).filter(|ns| *ns > 0),
        _ => None,
    }
}
