//! Loom model of a slot that several mutators write while a cycle is active: every interleaving of some small programs.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom_slot`
//!
//! The slot's own source is compiled here with loom's atomics. A mutator notes what it is told to shade. Each value that was
//! ever in the slot and is not there in the end must have been shaded, by whoever removed it and by nobody else (rule 1
//! of the barrier); and what was written must be shaded too, as in Snapshot. An object is a loom cell without any ordering
//! of its own: a reader that the slot does not order after the object's maker is reported.
#![cfg(loom)]

#[path = "loom/explore.rs"]
mod explore;

#[path = "../src/slot.rs"]
mod slot;

#[path = "loom/sync.rs"]
mod sync;

use explore::explore;
use loom::sync::Arc;
use loom::thread;
use slot::{Barrier, SlotWord};
use std::cell::RefCell;
use sync::UnsafeCell;

/// Object `n`; 0 is null. Never read.
fn object(n: usize) -> *mut u8 {
    std::ptr::without_provenance_mut(n)
}

/// A mutator of an active cycle: what it has shaded, removed values and written ones.
#[derive(Default)]
struct Notes {
    removed: RefCell<Vec<usize>>,
    written: RefCell<Vec<usize>>,
}

impl Barrier for Notes {
    fn armed(&self) -> bool {
        true
    }

    fn shade_new(&self, cell: *mut u8) {
        self.written.borrow_mut().push(cell.addr());
    }

    fn shade_overwritten(&self, cell: *mut u8) {
        self.removed.borrow_mut().push(cell.addr());
    }
}

/// A mutator while no cycle is active.
struct Idle;

impl Barrier for Idle {
    fn armed(&self) -> bool {
        false
    }

    fn shade_new(&self, _: *mut u8) {
        panic!("nothing is to be shaded");
    }

    fn shade_overwritten(&self, _: *mut u8) {
        panic!("nothing is to be shaded");
    }
}

type Program = fn(&SlotWord, &Notes);

/// Runs two programs on one slot that holds object 1; all that was removed and shaded, sorted, and what is there in the
/// end.
fn race(programs: [Program; 2]) -> (Vec<usize>, usize) {
    let slot = Arc::new(SlotWord::new(object(1)));
    let run = |program: Program| {
        let slot = Arc::clone(&slot);
        thread::spawn(move || {
            let notes = Notes::default();
            program(&slot, &notes);
            notes.removed.into_inner()
        })
    };
    let threads = programs.map(run);
    let mut removed: Vec<_> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
    removed.sort_unstable();
    (removed, slot.peek().addr())
}

/// All of `written` and object 1, but the one that is there in the end, were removed and shaded, each once.
fn assert_each_once(programs: [Program; 2], written: &'static [usize]) {
    explore(3, move || {
        let (mut seen, left) = race(programs);
        seen.push(left);
        seen.sort_unstable();
        let all: Vec<_> = std::iter::once(1).chain(written.iter().copied()).collect();
        assert_eq!(seen, all);
    });
}

#[test]
fn stores_shade_each_removed_value_once() {
    assert_each_once(
        [
            |slot, m| slot.store(m, object(2)),
            |slot, m| {
                slot.store(m, object(3));
                slot.store(m, object(4));
            },
        ],
        &[2, 3, 4],
    );
}

#[test]
fn a_store_and_a_swap_shade_each_removed_value_once() {
    assert_each_once(
        [
            |slot, m| slot.store(m, object(2)),
            |slot, m| {
                let old = slot.swap(m, object(3));
                assert_eq!(m.removed.borrow()[..], [old.addr()], "what is returned was shaded");
            },
        ],
        &[2, 3],
    );
}

/// An exchange that fails removes nothing; what it would have written was shaded all the same.
#[test]
fn an_exchange_shades_what_it_removes() {
    explore(3, || {
        let (mut seen, left) = race([
            |slot, m| slot.store(m, object(2)),
            |slot, m| {
                let out = slot.compare_exchange(m, object(1), object(3));
                let removed = m.removed.borrow();
                assert_eq!(removed[..], out.map(|old| vec![old.addr()]).unwrap_or_default());
                assert_eq!(m.written.borrow()[..], [3]);
            },
        ]);
        seen.push(left);
        seen.sort_unstable();
        // It came first, or found object 2.
        assert!(seen == [1, 2, 3] || (seen == [1, 2] && left == 2), "{seen:?} {left}");
    });
}

#[test]
fn what_is_written_is_shaded_first() {
    loom::model(|| {
        let notes = Notes::default();
        let slot = SlotWord::new(object(0));
        slot.store(&notes, object(2));
        slot.swap(&notes, object(3));
        let _ = slot.compare_exchange(&notes, object(3), object(4));
        assert_eq!(notes.written.take(), [2, 3, 4]);
        assert_eq!(notes.removed.take(), [0, 2, 3]);
    });
}

/// Whoever finds an object in a slot sees it complete, by whichever operation it was written and found.
#[test]
fn what_is_found_is_complete() {
    let writes: [fn(&SlotWord); 4] = [
        |slot| slot.store(&Idle, object(2)),
        |slot| slot.store(&Notes::default(), object(2)),
        |slot| assert!(slot.swap(&Idle, object(2)).is_null()),
        |slot| assert!(slot.compare_exchange(&Idle, object(0), object(2)).is_ok()),
    ];
    let finds: [fn(&SlotWord) -> *mut u8; 3] = [
        |slot| slot.load(),
        |slot| slot.swap(&Idle, object(0)),
        |slot| slot.compare_exchange(&Idle, object(0), object(0)).unwrap_or_else(|found| found),
    ];
    for write in writes {
        for find in finds {
            explore(3, move || {
                let shared = Arc::new((SlotWord::new(object(0)), UnsafeCell::new(0)));
                let maker = Arc::clone(&shared);
                let t = thread::spawn(move || {
                    // SAFETY: checked by loom.
                    maker.1.with_mut(|p| unsafe { *p = 7 });
                    write(&maker.0);
                });
                if !find(&shared.0).is_null() {
                    // SAFETY: checked by loom.
                    shared.1.with(|p| assert_eq!(unsafe { *p }, 7));
                }
                t.join().unwrap();
            });
        }
    }
}

/// The check has teeth.
mod broken {
    use super::*;
    use loom::sync::atomic::{
        AtomicPtr,
        Ordering::{Acquire, Release},
    };

    /// A store that looks and writes apart: of two that look at one value, the first one's own is lost.
    #[test]
    #[should_panic(expected = "a removed value was not shaded")]
    fn a_store_by_load_and_store() {
        loom::model(|| {
            let slot = Arc::new(AtomicPtr::new(object(1)));
            let store = |n| {
                let slot = Arc::clone(&slot);
                thread::spawn(move || {
                    let old = slot.load(Acquire).addr();
                    slot.store(object(n), Release);
                    old
                })
            };
            let threads = [2, 3].map(store);
            let mut seen: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
            seen.push(slot.load(Acquire).addr());
            seen.sort_unstable();
            assert_eq!(seen, [1, 2, 3], "a removed value was not shaded");
        });
    }
}
