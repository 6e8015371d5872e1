//! Reading and writing of the modes; cycles counted under `alloc`, steps counted under `poll`.

use super::*;
use crate::Heap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

#[test]
fn lists_are_read_and_written_back() {
    for text in [
        "steps=1",
        "steps=random",
        "seed=0",
        "steps=4294967295,seed=18446744073709551615",
        "alloc=1",
        "poll",
        "yield",
        "yield=sweep",
        "steps=1,alloc=18446744073709551615,poll,yield=idle,zap,protect,seed=1",
    ] {
        assert_eq!(text.parse::<Stress>().unwrap().to_string(), text);
    }
    assert_eq!(" seed=3 , steps=2 ".parse::<Stress>().unwrap().to_string(), "steps=2,seed=3");
    for text in [
        "",
        ",",
        "steps",
        "steps=",
        "steps=0",
        "steps=-1",
        "steps=1,steps=2",
        "steps=4294967296",
        "seed=x",
        "seed",
        "pace=1",
        "alloc",
        "alloc=0",
        "alloc=1,alloc=1",
        "poll=1",
        "poll,poll",
        "zap=1",
        "zap,zap",
        "protect=",
        "yield=",
        "yield=never",
        "yield=snapshot",
    ] {
        assert_eq!(text.parse::<Stress>(), Err(()), "{text:?}");
    }
}

#[test]
fn a_seed_repeats_its_numbers_and_all_numbers_occur() {
    let draw = |seed| {
        let mut plan =
            StepPlan::new(Stress { steps: Some(StepLimit::Random), seed: Some(seed), ..Stress::NONE });
        (0..1000).map(|_| plan.next()).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    let mut seen = draw(3);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, (1..=RANDOM_STEPS_MAX).collect::<Vec<_>>());
}

fn heap(stress: &str) -> Heap {
    Heap::builder()
        .heap_bytes(64 << 20)
        .set("stress", stress) // Steps in which the heap is verified are not counted.
        .set("verify", "off")
        // On a busy machine its threads wait for memory, which starts one cycle more than are counted.
        .set("memory-watch", "false")
        .build()
        .unwrap()
}

/// Waits until all cycles that were asked for have ended; how many those are.
fn settle(heap: &Heap) -> u64 {
    let s = heap.shared();
    // Acquire, Relaxed: as where the collector compares the two.
    while s.requested.load(Acquire) > s.cycles_done.load(Relaxed) {
        std::thread::yield_now();
    }
    // Acquire: pairs with the Release at a cycle's end.
    s.cycles_done.load(Acquire)
}

#[test]
fn every_n_allocations_ask_for_exactly_one_cycle() {
    let heap = heap("alloc=100");
    heap.enter(|m| {
        for i in 0..1099u64 {
            m.alloc_array(4, |_| i).unwrap();
            m.safepoint();
        }
    });
    assert_eq!(settle(&heap), 10);
    heap.enter(|m| {
        // No safepoint between: none of the cycles that are asked for here can end before the last one is asked for.
        for i in 0..501u64 {
            m.alloc_array(4, |_| i).unwrap();
        }
    });
    assert_eq!(settle(&heap), 16);
}

#[test]
fn allocations_of_several_threads_are_counted_together() {
    const LEN: usize = 3000;
    // The spine and its leaves.
    let shape = metronome_arraylet::ArrayShape::new(8, 8, LEN).unwrap();
    let cells = 1 + (shape.full_leaves + shape.index_leaves()) as u64;
    assert!(cells > 3);
    let heap = heap("alloc=250");
    std::thread::scope(|t| {
        for _ in 0..4 {
            t.spawn(|| {
                heap.enter(|m| {
                    for i in 0..500u64 {
                        m.alloc_array(LEN, |_| i).unwrap();
                        m.safepoint();
                    }
                });
            });
        }
    });
    assert_eq!(settle(&heap), 4 * 500 * cells / 250);
}

#[test]
fn every_poll_and_safepoint_is_one_step() {
    let heap = heap("poll");
    let s = heap.shared();
    let steps = || s.step_times.snapshot().count;
    // The heap's own threads have asked for some.
    heap.enter(|m| {
        for i in 0..300 {
            let before = (steps(), s.stress.asked.counts());
            if i % 2 == 0 {
                m.poll()
            } else {
                m.safepoint()
            }
            let after = (steps(), s.stress.asked.counts());
            assert_eq!(after.1, (before.1.0 + 1, before.1.1 + 1));
            // A cycle that waits for a safepoint, which a poll is not, takes no step.
            let taken = after.0 - before.0;
            assert!(taken == 1 || taken == 0 && i % 2 == 0, "{i}: {taken}");
        }
        let before = steps();
        for _ in 0..300 {
            m.safepoint();
        }
        assert_eq!(steps() - before, 300);
    });
    // Nobody polls: the cycle that polls began stands still.
    let before = steps();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(steps(), before);
    // Somebody waits: it goes on.
    heap.collect(crate::Collect::Cycle).unwrap();
    assert!(steps() > before);
}

#[test]
fn polling_threads_that_also_block_and_do_not_poll_come_to_an_end() {
    let heap = heap("poll,yield,steps=random,seed=1");
    std::thread::scope(|t| {
        for me in 0..3 {
            let heap = &heap;
            t.spawn(move || {
                heap.enter(|m| {
                    for i in 0..200u64 {
                        let a = m.alloc_array(8, |_| i).unwrap();
                        m.poll();
                        assert_eq!(a.get(7), Some(&i));
                        m.safepoint();
                        match (me, i % 50) {
                            (0, 1) => m.blocking(std::thread::yield_now),
                            // Longer than a stop waits.
                            (1, 1) => std::thread::sleep(std::time::Duration::from_millis(2)),
                            (2, 1) => drop(m.collect(crate::Collect::Cycle).unwrap()),
                            _ => {}
                        }
                    }
                });
            });
        }
    });
    drop(heap);
}
