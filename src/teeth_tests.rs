//! Protections inside the crate that no verifier looks at: each kept, and each removed, when its check must fail.

use crate::config::Config;
use crate::gate::{Cancelled, Gate, Spin};
use crate::table::Table;
use metronome_alarm::Clock;
use metronome_barrier::Phase;
use std::cell::Cell;
use std::ptr::without_provenance_mut;

/// Goes through these phases in a heap of its own.
fn switch_through(phases: &[Phase]) {
    let config = Config { heap: 4 << 20, ..Config::DEFAULT };
    let (shared, _) = crate::heap::build_shared(config, Clock::manual().clock()).unwrap();
    phases.iter().for_each(|&p| shared.phase.switch(p));
}

#[test]
fn phases_in_order_are_accepted() {
    switch_through(&Phase::ALL[1..]);
    switch_through(&[Phase::ALL[1..].as_ref(), &[Phase::Idle]].concat());
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "INV-PHASE-WRITER")]
fn a_phase_left_out_is_found() {
    switch_through(&[Phase::Snapshot, Phase::Weak]);
}

/// INV-TABLE-EMPTY for entries in use: one is not empty, or another's, before its last owner has gone. An owner that was
/// not counted finds its entry recycled.
#[test]
fn an_entry_recycled_while_referenced_is_found() {
    for counted in [true, false] {
        let table = <Table>::new();
        let (first, second) = (without_provenance_mut(8), without_provenance_mut(16));
        let clone = table.insert(first);
        if counted {
            table.retain(clone);
        }
        assert_eq!(table.release(clone), !counted);
        assert_eq!(table.get(clone).is_null(), !counted, "empty with its last owner");
        table.insert(second);
        let found = table.get(clone);
        assert_eq!(found, if counted { first } else { second });
    }
}

/// How often a stop looks at the clock before it ends, and how, when the one mutator comes at the look `answer`.
fn looks(deadline: Option<u64>, answer: u64) -> (u64, Result<(), Cancelled>) {
    let gate = Gate::default();
    gate.enter_running(Spin(0), || 0);
    let looks = Cell::new(0);
    let now = || {
        looks.set(looks.get() + 1);
        if looks.get() == answer {
            gate.leave_running();
        }
        looks.get()
    };
    // A virtual clock: each look takes a nanosecond. It never sleeps, because nobody would wake it.
    let out = gate.stop(deadline, now, Spin(u32::MAX), false, None);
    (looks.get(), out)
}

/// A stop is bounded by its deadline; one without would wait for as long as the mutator likes.
#[test]
fn a_stop_that_ignores_its_deadline_is_found() {
    assert_eq!(looks(Some(20), 5_000), (20, Err(Cancelled { running: 1 })));
    assert_eq!(looks(None, 5_000), (5_000, Ok(())));
    assert_eq!(looks(Some(20), 10), (10, Ok(())));
}

/// What was emitted was read or is counted as lost; a record that goes without being counted is found.
#[test]
fn a_lost_record_that_is_not_counted_is_found() {
    use crate::events::{Event, ring};
    for forgotten in [0, 1] {
        let (mut recorder, mut drain) = ring(4);
        let emitted = 10u64;
        for ns in 0..emitted - forgotten {
            recorder.emit(Event::ClockStep { ns });
        }
        let mut read = 0;
        while drain.next().is_some() {
            read += 1;
        }
        assert_eq!(read, 4);
        assert_eq!(read + drain.lost() == emitted, forgotten == 0);
    }
}
