//! The real pause points, at which a thread waits by itself (in the other scripts the test waits for it): none of them
//! counts as a safepoint, so that what the thread holds is never taken for let go.

use metronome_gc::config::Config;
use metronome_gc::testing::{Phase, TestHeap};
use metronome_gc::{Mutator, Payload};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

const PAUSE: u8 = 0;
const SAFEPOINT: u8 = 1;
const END: u8 = 2;

fn heap() -> TestHeap {
    TestHeap::new(Config { heap: 4 << 20, max_mutators: 8, ..Config::DEFAULT }).unwrap()
}

/// A thread comes by `pause` again and again, holding an object; then by a safepoint, holding none.
fn is_no_safepoint(pause: impl Fn(&Mutator<'_>) + Send + Sync) {
    let (heap, mode, rounds) = (heap(), AtomicU8::new(PAUSE), AtomicU64::new(0));
    std::thread::scope(|s| {
        let (inside, told) = std::sync::mpsc::channel();
        let (heap, mode, rounds, pause) = (&heap, &mode, &rounds, &pause);
        s.spawn(move || {
            heap.enter(|m| {
                let object = m.alloc(Payload(7)).unwrap();
                inside.send(()).unwrap();
                while mode.load(Relaxed) == PAUSE {
                    pause(m);
                    rounds.fetch_add(1, Relaxed);
                }
                assert_eq!(object.0, 7);
                while mode.load(Relaxed) == SAFEPOINT {
                    m.safepoint();
                }
            });
        });
        told.recv().unwrap();
        // The first stop arms, the others find the thread where it waits, each time after it has run on.
        for _ in 0..5 {
            let steps = heap.run_until(Phase::Mark);
            let phase = heap.phase();
            if !steps.blocked || phase != Phase::Snapshot {
                mode.store(END, Relaxed);
                panic!("a pause point counts as a safepoint: {phase:?}, {steps:?}");
            }
            let before = rounds.load(Relaxed);
            while rounds.load(Relaxed) < before + 2 {
                std::thread::yield_now();
            }
        }
        mode.store(SAFEPOINT, Relaxed);
        // It may still be at its last pause point.
        while heap.run_until(Phase::Mark).blocked {}
        let phase = heap.phase();
        mode.store(END, Relaxed);
        assert_eq!(phase, Phase::Mark);
    });
    heap.run_until(Phase::Idle);
    assert_eq!(heap.violations(), []);
}

#[test]
fn a_poll_is_no_safepoint() {
    is_no_safepoint(|m| m.poll());
}

/// Also one that fails: the heap runs full, since nothing is freed while the thread comes by no safepoint.
#[test]
fn an_allocation_is_no_safepoint() {
    is_no_safepoint(|m| {
        let _ = m.alloc(Payload([0u64; 64]));
    });
}

#[test]
fn bulk_operations_are_no_safepoints() {
    is_no_safepoint(|m| {
        let Ok(array) = m.alloc_slots::<Payload<u64>>(1000) else { return m.poll() };
        array.fill(m, 0..1000, None);
        array.copy_from(m, 0, array, 1, 999);
    });
}
