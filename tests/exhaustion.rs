//! What happens when memory runs out, in each of the three modes, and that collection makes room again.
#![forbid(unsafe_code)]

#[path = "memory/stressed.rs"]
mod stressed;

use metronome_gc::config::Exhaustion;
use metronome_gc::{AllocError, Config, Gc, Heap, Mutator, Root, Slot, Trace};
use stressed::begins_cycles;

#[derive(Trace)]
struct Block {
    next: Slot<Block>,
    bytes: [u64; 30],
}

fn heap(mode: Exhaustion) -> Heap {
    // Cycles start late, so that garbage outruns them.
    let config = Config { heap: 8 << 20, exhaustion: mode, ..Config::DEFAULT }.with("trigger", "95%");
    Heap::builder().config(config.unwrap()).build().unwrap()
}

fn block<'m>(m: &'m Mutator<'_>, next: Option<Gc<'m, Block>>) -> Result<Gc<'m, Block>, AllocError> {
    m.alloc(BlockInit { next, bytes: [7; 30] })
}

/// Allocates garbage of four heaps, with a safepoint at each `every`-th object; how often an allocation failed at first.
fn churn(m: &mut Mutator<'_>, every: usize) -> usize {
    let mut failures = 0;
    for i in 0..4 * (8 << 20) / 256 {
        if block(m, None).is_err() {
            failures += 1;
            m.safepoint();
            assert!(block(m, None).is_ok(), "a safepoint did not make room for garbage's successor ({i})");
        }
        if i % every == 0 {
            m.safepoint();
        }
    }
    failures
}

#[test]
fn degrade_waits_at_safepoints_and_says_so() {
    if begins_cycles("degrade waits at safepoints and says so") {
        return;
    }
    // No cycle can end before the mutator comes by a safepoint, and it does not until memory has run out. (What the cycle
    // does then may fit into the plan; not every time.)
    for _ in 0..20 {
        let heap = heap(Exhaustion::Degrade);
        let failures = heap.enter(|m| churn(m, usize::MAX));
        assert!(failures > 0);
        let stats = heap.stats();
        assert!(stats.cycles > 0);
        assert_eq!((stats.out_of_memory, stats.synchronous_collections), (0, 0));
        if stats.departures > 0 {
            return;
        }
    }
    panic!("memory ran out again and again, and the collector never said that it left its plan");
}

#[test]
fn synchronous_finishes_the_cycle_at_once() {
    if begins_cycles("synchronous finishes the cycle at once") {
        return;
    }
    // A cycle may happen to end by itself just when memory does; then there is nothing to finish. Not every time.
    let mut seen = 0;
    for _ in 0..20 {
        let heap = heap(Exhaustion::Synchronous);
        heap.enter(|m| churn(m, 64));
        let stats = heap.stats();
        assert_eq!(stats.out_of_memory, 0);
        seen += stats.synchronous_collections;
        if seen > 0 {
            return;
        }
    }
    panic!("memory ran out again and again, and no cycle was finished synchronously");
}

#[test]
fn fail_returns_an_error_and_keeps_the_plan() {
    let heap = heap(Exhaustion::Fail);
    heap.enter(|m| {
        // Live data until the heap is full: nothing could free it.
        let mut root = Root::new(m, block(m, None).unwrap());
        let error = loop {
            match block(m, Some(root.get(m))) {
                Ok(b) => root = Root::new(m, b),
                Err(e) => break e,
            }
            m.safepoint();
        };
        assert!(matches!(error, AllocError::Exhausted { .. }), "{error}");
        assert!(m.reserve(1 << 20).is_err());
        drop(root);
        assert!((0..2).all(|_| m.collect(metronome_gc::Collect::Cycle).is_ok()));
        assert!(block(m, None).is_ok());
    });
    let stats = heap.stats();
    assert_eq!((stats.departures, stats.synchronous_collections), (0, 0));
}

#[test]
fn a_full_heap_of_live_data_is_an_error_in_every_mode_and_never_hangs() {
    for mode in [Exhaustion::Degrade, Exhaustion::Synchronous, Exhaustion::Fail] {
        let heap = heap(mode);
        heap.enter(|m| {
            let mut root = Root::new(m, block(m, None).unwrap());
            let mut last = None;
            let mut tries = 0;
            while tries < 3 {
                match block(m, Some(root.get(m))) {
                    Ok(b) => {
                        root = Root::new(m, b);
                        tries = 0;
                    }
                    Err(e) => {
                        last = Some(e);
                        tries += 1;
                        m.safepoint();
                    }
                }
            }
            let Some(AllocError::Exhausted { used_bytes, heap_bytes, .. }) = last else {
                panic!("{mode:?}: {last:?}")
            };
            assert!(used_bytes > heap_bytes / 10 * 9, "{mode:?}: {used_bytes} of {heap_bytes}");
            assert_eq!(root.get(m).bytes, [7; 30]);
        });
    }
}

#[test]
fn an_array_larger_than_the_heap_is_refused_at_once() {
    let heap = heap(Exhaustion::Degrade);
    heap.enter(|m| {
        assert!(matches!(m.alloc_array(9 << 20, |_| 0u8), Err(AllocError::TooLarge { .. })));
        assert!(matches!(m.alloc_slots::<Block>(usize::MAX), Err(AllocError::TooLarge { .. })));
    });
}
