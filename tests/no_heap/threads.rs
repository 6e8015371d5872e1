//! No-heap threads: what they may, what they are refused, and that no stop touches them.

use crate::common::{collect_twice, eventually, heap, panic_of};
use metronome_gc::alarm::{affinity, priority};
use metronome_gc::queue::{ReadError, WaitFreeReadQueue, WaitFreeWriteQueue};
use metronome_gc::testing::TestHeap;
use metronome_gc::{
    Config, EnterError, Global, Heap, NoHeap, NoHeapOptions, NoHeapThread, Payload, SpawnError,
};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

fn options() -> NoHeapOptions {
    NoHeapOptions::default()
}

/// Runs `f` on a no-heap thread.
fn on_no_heap<R: Send + 'static>(heap: &Heap, f: impl FnOnce(&NoHeap) -> R + Send + 'static) -> R {
    heap.spawn_no_heap(options(), f).unwrap().join().unwrap()
}

#[test]
fn it_runs_on_while_the_world_is_stopped_for_long() {
    let heap = TestHeap::new(Config { heap: 4 << 20, ..Config::default() }).unwrap();
    let quit = Arc::new(AtomicBool::new(false));
    let (free, bound) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (give, given) = std::sync::mpsc::channel();
    let thread = {
        let (quit, free) = (Arc::clone(&quit), Arc::clone(&free));
        heap.spawn_no_heap(options(), move |n| {
            // One end of each queue for the mutator, which will be stopped in the middle of using it.
            let (mut writer, reader) = WaitFreeWriteQueue::new(n.immortal_area(), 4).unwrap();
            let (mut inp, out) = WaitFreeReadQueue::<u64>::new(n.immortal_area(), 4).unwrap();
            give.send((reader, out)).unwrap();
            let (mut kept, mut accepted, mut got) = (0, 0u64, 0u64);
            while !quit.load(Relaxed) {
                free.fetch_add(1, Relaxed);
                // Whether the mutator reads or not: full is an answer, and a forced write always succeeds.
                if free.load(Relaxed) % 2 == 0 {
                    accepted += u64::from(writer.write(1u64).is_ok());
                } else {
                    accepted += 1 - writer.force(1u64).unwrap().unwrap_or(0);
                }
                got += inp.read().unwrap_or(0);
                // Immortal memory, too, is there all the time.
                if kept < 1000 {
                    kept += *n.immortal(1u64).unwrap();
                }
                std::thread::yield_now();
            }
            drop(writer);
            // What the mutator had written before it saw that.
            loop {
                match inp.read() {
                    Ok(v) => got += v,
                    Err(ReadError::Empty) => std::thread::yield_now(),
                    Err(ReadError::Disconnected) => return (kept, accepted, got),
                }
            }
        })
        .unwrap()
    };
    let (reader, out) = given.recv().unwrap();
    let (read, written) = std::thread::scope(|s| {
        // The control: a mutator, which does stop. It waits in the queues too, and comes back from there.
        let mutator = s.spawn(|| {
            heap.enter(|m| {
                let (mut read, mut written) = (0, 0);
                while let Ok(v) = reader.read(m) {
                    read += v;
                    bound.fetch_add(1, Relaxed);
                    out.write(m, 1).unwrap();
                    written += 1;
                    m.safepoint();
                }
                drop(out);
                (read, written)
            })
        });
        eventually("both threads run", || free.load(Relaxed) > 0 && bound.load(Relaxed) > 0);
        for _ in 0..3 {
            heap.while_stopped(|| {
                let (bound_before, free_before) = (bound.load(Relaxed), free.load(Relaxed));
                eventually("the no-heap thread goes on", || free.load(Relaxed) >= free_before + 10_000);
                assert_eq!(bound.load(Relaxed), bound_before, "a mutator ran while the world was stopped");
            });
            let after = bound.load(Relaxed);
            eventually("the mutator goes on", || bound.load(Relaxed) > after);
        }
        quit.store(true, Relaxed);
        mutator.join().unwrap()
    });
    let (kept, accepted, got) = thread.join().unwrap();
    assert_eq!((kept, accepted, written), (1000, read, got));
}

#[test]
fn no_heap_lets_it_in() {
    // INV-NO-HEAP: neither its own heap nor another one, neither at once nor from a destructor.
    let (own, other) = (heap(4), heap(4));
    let (a, b) = (own.clone(), other.clone());
    let text = on_no_heap(&own, move |_| {
        assert_eq!(a.try_enter(|_| ()), Err(EnterError::NoHeapThread));
        assert_eq!(b.try_enter(|_| ()), Err(EnterError::NoHeapThread));
        panic_of(|| a.enter(|_| ()))
    });
    assert!(text.contains("no-heap thread") && text.contains("WaitFreeWriteQueue"), "{text}");

    struct EnterAtExit(Heap, Arc<AtomicU32>);
    impl Drop for EnterAtExit {
        fn drop(&mut self) {
            if self.0.try_enter(|_| ()).is_err() {
                self.1.fetch_add(1, Relaxed);
            }
        }
    }
    thread_local! {
        static LATE: RefCell<Option<EnterAtExit>> = const { RefCell::new(None) };
    }
    let refused = Arc::new(AtomicU32::new(0));
    let late = EnterAtExit(own.clone(), Arc::clone(&refused));
    on_no_heap(&own, move |_| LATE.set(Some(late)));
    assert_eq!(refused.load(Relaxed), 1);
    // The maker is what it was.
    own.enter(|_| ());
}

#[test]
fn a_global_may_be_dropped_there() {
    struct Dropped(Arc<AtomicU32>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let heap = heap(4);
    let drops = Arc::new(AtomicU32::new(0));
    let global = heap.enter(|m| Global::new(m, m.alloc(Payload(Dropped(Arc::clone(&drops)))).unwrap()));
    let clone = global.clone();
    collect_twice(&heap);
    assert_eq!(drops.load(Relaxed), 0);
    on_no_heap(&heap, move |_| {
        let again = clone.clone();
        drop((clone, again));
    });
    collect_twice(&heap);
    assert_eq!(drops.load(Relaxed), 0, "one owner is left");
    let there = Arc::clone(&drops);
    on_no_heap(&heap, move |_| {
        drop(global);
        // Only a reference went; the object's drop glue is the reaper's.
        assert_eq!(there.load(Relaxed), 0);
    });
    collect_twice(&heap);
    eventually("the object is dropped", || drops.load(Relaxed) == 1);
}

#[test]
fn priorities_that_would_not_help_are_errors() {
    let heap = heap(4);
    let (gc, alarm) = (heap.config().gc_priority, heap.config().alarm_priority);
    assert!(gc > 0 && alarm > gc);
    for priority in 1..=alarm {
        let e = heap.spawn_no_heap(NoHeapOptions { priority, ..options() }, |_| ()).unwrap_err();
        match e {
            SpawnError::PriorityNotAbove { requested, gc_priority, alarm_priority } => {
                assert_eq!((requested, gc_priority, alarm_priority), (priority, gc, alarm));
            }
            e => panic!("{e}"),
        }
        assert!(e.to_string().contains("alarm-priority 11"), "{e}");
    }
    for priority in [100, 255] {
        let e = heap.spawn_no_heap(NoHeapOptions { priority, ..options() }, |_| ()).unwrap_err();
        assert!(matches!(e, SpawnError::PriorityOutOfRange { requested } if requested == priority), "{e}");
    }
    // With heap threads that ask for no priority, any is above theirs.
    let modest = Heap::builder()
        .heap_bytes(4 << 20)
        .set("gc-priority", "0")
        .set("alarm-priority", "0")
        .build()
        .unwrap();
    modest.spawn_no_heap(NoHeapOptions { priority: 1, ..options() }, |_| ()).unwrap().join().unwrap();
}

#[test]
fn granted_or_refused_it_has_what_the_answer_says() {
    let heap = heap(4);
    let cpu = *affinity::allowed().last().unwrap();
    for (priority, cpu) in [(0, None), (12, Some(cpu)), (99, Some(100_000))] {
        let wanted = NoHeapOptions { priority, cpu, name: "placed".into(), ..options() };
        let thread = heap
            .spawn_no_heap(wanted, |_| {
                (
                    priority::current_fifo(),
                    affinity::allowed(),
                    std::thread::current().name().map(str::to_owned),
                )
            })
            .unwrap();
        let refused = thread.refusals().join("\n");
        let (fifo, cpus, name) = thread.join().unwrap();
        assert_eq!(name.as_deref(), Some("placed"));
        match fifo {
            Some(p) => assert_eq!(p, priority),
            None => assert!(priority == 0 || refused.contains(&format!("SCHED_FIFO priority {priority}"))),
        }
        match cpu {
            Some(cpu) if cpus == [cpu] => {}
            Some(cpu) => assert!(refused.contains(&format!("CPU {cpu}")), "{refused}"),
            None => assert!(!refused.contains("CPU"), "{refused}"),
        }
        assert!(refused.lines().all(|l| l.starts_with("no-heap thread placed: ")), "{refused}");
    }
}

#[test]
fn options_out_of_range_are_errors() {
    let heap = heap(4);
    for stack_bytes in [0, 16_383, (64 << 20) + 1, usize::MAX] {
        let e = heap.spawn_no_heap(NoHeapOptions { stack_bytes, ..options() }, |_| ()).unwrap_err();
        assert!(e.to_string().contains("16384 to 67108864"), "{e}");
        assert!(matches!(e, SpawnError::Stack { requested_bytes, .. } if requested_bytes == stack_bytes));
    }
    let e = heap.spawn_no_heap(NoHeapOptions { name: "a\0b".into(), ..options() }, |_| ()).unwrap_err();
    assert!(matches!(e, SpawnError::Name));
    for stack_bytes in [16 << 10, 1 << 20] {
        let thread = heap.spawn_no_heap(NoHeapOptions { stack_bytes, ..options() }, |_| ()).unwrap();
        // All of it was there to touch, whether or not it could be locked.
        assert!(thread.refusals().iter().all(|r| !r.contains("room for")), "{:?}", thread.refusals());
        thread.join().unwrap();
    }
}

#[test]
fn its_panic_is_its_joiners() {
    let heap = heap(4);
    let thread: NoHeapThread<()> = heap.spawn_no_heap(options(), |_| panic!("by design")).unwrap();
    let payload = thread.join().unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"by design"));
    // The heap has not noticed.
    collect_twice(&heap);
}

#[test]
fn it_may_outlive_its_heap_and_close_it() {
    let heap = heap(4);
    let go = Arc::new(AtomicBool::new(false));
    let thread = {
        let go = Arc::clone(&go);
        heap.spawn_no_heap(options(), move |n| {
            while !go.load(Acquire) {
                std::thread::yield_now();
            }
            *n.immortal(7u32).unwrap()
        })
        .unwrap()
    };
    // The last clone goes on a no-heap thread: its threads end by themselves, and nobody waits for them.
    let there = heap.clone();
    let closer = heap.spawn_no_heap(options(), move |_| drop(there)).unwrap();
    drop(heap);
    closer.join().unwrap();
    go.store(true, Release);
    assert_eq!(thread.join().unwrap(), 7);
}

#[test]
fn it_sleeps_until_its_deadline() {
    let heap = heap(4);
    on_no_heap(&heap, |n| {
        let mut next = n.now_ns();
        for _ in 0..20 {
            next += 200_000;
            n.sleep_until(next);
            // Later is the system's affair, earlier would be ours.
            assert!(n.now_ns() >= next);
        }
        n.sleep_until(0);
    });
}
