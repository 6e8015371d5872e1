//! What is known about the run being read: numbering, order of events, policy.

use super::policy::Policy;
use super::scan::Place;
use crate::model::{Event, Generation};
use crate::time::LogTime;

/// Kinds of numbers; the OpenJ9 form has one counter for all, the 2007 form one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    Global = 0,
    Heartbeat,
    SyncGc,
    Trigger,
    Cycle,
}

/// How a number compares with the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Fine,
    Missing { from: u64, to: u64 },
    Repeated,
    Restarted,
}

/// State of one run.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) generation: Option<Generation>,
    pub(super) policy: Policy,
    /// Elements passed over because the run is another policy's.
    pub(super) skipped: u64,
    last_id: [Option<u64>; 5],
    /// Printed time of the last event whose time is that of its writing.
    last_time: Option<LogTime>,
    /// Where a heartbeat's interval counts from.
    span_start: Option<LogTime>,
    trigger_open: bool,
    pub(super) cycle_open: bool,
    /// A clock warning stood before the next event.
    pub(super) clock_error: bool,
}

impl Run {
    pub(super) fn new(generation: Option<Generation>) -> Self {
        Self { generation, ..Self::default() }
    }

    /// Compares a number with the last one of its counter, without taking it.
    pub(super) fn order(&self, counter: Counter, id: u64) -> Order {
        match self.last_id[counter as usize] {
            None => Order::Fine,
            // In the 2007 form a trigger's and a cycle's start and end share a number.
            Some(last) if id == last => match counter {
                Counter::Trigger | Counter::Cycle => Order::Fine,
                _ => Order::Repeated,
            },
            Some(last) if id < last => Order::Restarted,
            Some(last) if id - last > 1 => Order::Missing { from: last + 1, to: id - 1 },
            Some(_) => Order::Fine,
        }
    }

    pub(super) fn take_id(&mut self, counter: Counter, id: u64) {
        self.last_id[counter as usize] = Some(id);
    }

    /// Since the preceding heartbeat, synchronous collection or cycle start; only where milliseconds are printed.
    pub(super) fn derived_interval_ns(&self, time: Option<LogTime>) -> Option<u64> {
        let (time, since) = (time?, self.span_start?);
        if !time.has_millis() || !since.has_millis() {
            return None;
        }
        u64::try_from(time.ms_since(since)).ok()?.checked_mul(1_000_000)
    }

    /// Follows the grammar; gives what is wrong with the event's place in it.
    pub(super) fn follow(&mut self, event: &Event, time: Option<LogTime>) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut paired = |open: &mut bool, start: bool, what: &str| {
            if *open == start {
                let (word, before) = if start { ("start", "an end") } else { ("end", "its start") };
                wrong.push(format!("{what} {word} without {before} before it"));
            }
            *open = start;
        };
        match event {
            Event::TriggerStart { .. } => paired(&mut self.trigger_open, true, "trigger"),
            Event::TriggerEnd { .. } => paired(&mut self.trigger_open, false, "trigger"),
            Event::CycleStart(_) => paired(&mut self.cycle_open, true, "cycle"),
            Event::CycleEnd(_) => paired(&mut self.cycle_open, false, "cycle"),
            Event::Heartbeat(_) | Event::SyncGc(_) => {}
            // These are written at once, while a heartbeat bears the time of its last quantum: no order to check.
            _ => return wrong,
        }
        let Some(time) = time else { return wrong };
        if let Some(last) = self.last_time.filter(|last| time.ms_since(*last) < 0) {
            wrong.push(format!(
                "the printed time goes back by {} ms, from {last}: clock set, or end of daylight saving",
                last.ms_since(time)
            ));
        }
        self.last_time = Some(time);
        if matches!(event, Event::Heartbeat(_) | Event::CycleStart(_)) {
            self.span_start = Some(time);
        } else if let Event::SyncGc(gc) = event {
            self.span_start = gc.end;
        }
        wrong
    }

    /// A tag of a run that is another policy's.
    pub(super) fn skip(&mut self) -> bool {
        let other = self.policy == Policy::Other;
        self.skipped += u64::from(other);
        other
    }
}

/// An event's place and identity before it is known to be whole.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) place: Place,
    pub(super) id: Option<u64>,
    pub(super) context_id: Option<u64>,
    pub(super) time: Option<LogTime>,
    pub(super) partial: bool,
    pub(super) clock_error: bool,
}
