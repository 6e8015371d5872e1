//! Each variant, provoked.

use crate::common::{
    BLOCK, Ends, Holder, block, builder, eventually, fill_with_data, fill_with_garbage, full, list,
};
use metronome_gc::testing::low_memory;
use metronome_gc::{
    Collect, CycleReason, DepartureReason, Finalize, Heap, Mutator, Notification, Root, Subscription,
    SyncReason, Trace,
};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// What a listener has heard, and on which threads.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<(String, Notification)>>>);

impl Heard {
    pub(crate) fn at(heap: &Heap) -> (Heard, Subscription) {
        let heard = Heard::default();
        let list = Arc::clone(&heard.0);
        let listener = heap.subscribe(move |n| {
            let thread = std::thread::current().name().unwrap_or("?").to_owned();
            list.lock().unwrap().push((thread, n.clone()));
        });
        (heard, listener)
    }

    pub(crate) fn all(&self) -> Vec<Notification> {
        self.0.lock().unwrap().iter().map(|(_, n)| n.clone()).collect()
    }

    fn count(&self, f: impl Fn(&Notification) -> bool) -> usize {
        self.all().iter().filter(|n| f(n)).count()
    }

    /// Waits until one is as `f` says, and returns it.
    fn wait(&self, what: &str, f: impl Fn(&Notification) -> bool) -> Notification {
        eventually(what, || self.all().iter().any(&f));
        self.all().into_iter().find(|n| f(n)).expect("it was there")
    }
}

#[test]
fn cycles_are_told_in_order_on_the_writer_thread() {
    let heap = builder(16, &[]).build().unwrap();
    let (heard, _listener) = Heard::at(&heap);
    for _ in 0..3 {
        heap.enter(|m| drop(list(m, (1 << 20) / BLOCK)));
        heap.collect(Collect::Cycle).unwrap();
        full(&heap);
    }
    let cycles = heap.stats().cycles as usize;
    assert!(cycles >= 6);
    let is_end = |n: &Notification| matches!(n, Notification::CycleEnd { .. });
    eventually("all ends are told", || heard.count(is_end) == cycles);
    assert!(heard.0.lock().unwrap().iter().all(|(thread, _)| thread == "metronome-log"));
    // Start, what happens in it, end; and again.
    let (mut open, mut starts, mut freed) = (false, 0, 0);
    for n in heard.all() {
        match n {
            Notification::CycleStart { reason, free_bytes } => {
                assert!(!open, "a start in a cycle");
                assert_eq!(reason, CycleReason::Explicit);
                assert!(free_bytes <= 16 << 20);
                (open, starts) = (true, starts + 1);
            }
            Notification::CycleEnd { quanta, collector_ns, elapsed_ns, freed_bytes, .. } => {
                assert!(open, "an end without a start");
                assert!(quanta > 0 && collector_ns > 0 && elapsed_ns > 0);
                (open, freed) = (false, freed + freed_bytes);
            }
            Notification::TargetMissed { reason, enough_heap_bytes } => {
                assert!(open);
                assert_eq!((reason, enough_heap_bytes), (DepartureReason::SystemGc, None));
            }
            Notification::Synchronous { reason, ns } => {
                assert!(open && ns > 0);
                assert_eq!(reason, SyncReason::SystemGc);
            }
            // The machine may be busy.
            Notification::Straggler { .. } => {}
            n => panic!("nobody asked for {n:?}"),
        }
    }
    assert_eq!(starts, cycles);
    assert_eq!(freed, heap.stats().allocated_bytes - heap.stats().live_bytes);
    let departures = heard.count(|n| matches!(n, Notification::TargetMissed { .. }));
    assert_eq!(departures as u64, heap.stats().departures);
    let synchronous = heard.count(|n| matches!(n, Notification::Synchronous { .. }));
    assert_eq!(synchronous as u64, heap.stats().synchronous_collections);
}

#[test]
fn memory_that_runs_out() {
    let heap = builder(8, &[("exhaustion", "synchronous"), ("headroom-low", "20")]).build().unwrap();
    let (heard, _listener) = Heard::at(&heap);
    heap.enter(|m| {
        // Not always at once: a quantum that was under way may have ended the cycle.
        while heap.stats().synchronous_collections == 0 {
            fill_with_garbage(m);
            m.safepoint();
            assert!(block(m, 0, None).is_ok());
        }
    });
    let low = heard.wait("headroom low", |n| matches!(n, Notification::HeadroomLow { .. }));
    let Notification::HeadroomLow { free_bytes, heap_bytes } = low else { unreachable!() };
    assert!(heap_bytes == 8 << 20 && free_bytes < heap_bytes / 5, "{free_bytes}");
    heard.wait("a synchronous collection", |n| {
        matches!(n, Notification::Synchronous { reason: SyncReason::OutOfMemory, .. })
    });
    heard.wait("a departure", |n| {
        matches!(n, Notification::TargetMissed { reason: DepartureReason::OutOfMemory, .. })
    });
    heard.wait("the failure", |n| matches!(n, Notification::AllocationFailed { .. }));
    // With data it fails for good.
    let before = heap.stats();
    heap.enter(|m| drop(fill_with_data(m)));
    let stats = heap.stats();
    assert_eq!(stats.out_of_memory, before.out_of_memory + 1);
    let counted = || {
        let count = |n| if let Notification::AllocationFailed { count, .. } = n { count } else { 0 };
        heard.all().into_iter().map(count).sum::<u64>()
    };
    eventually("all failures are told", || counted() == stats.failed_allocations);
    // After room has been made, headroom may be low once more.
    full(&heap);
    let lows = |h: &Heard| h.count(|n| matches!(n, Notification::HeadroomLow { .. }));
    let told = lows(&heard);
    heap.enter(|m| {
        let kept = list(m, (7 << 20) / BLOCK);
        eventually("low again", || {
            m.safepoint();
            lows(&heard) == told + 1
        });
        drop(kept);
    });
}

#[test]
fn a_heap_that_may_grow_has_headroom() {
    let heap = builder(64, &[("initial-heap", "2M"), ("headroom-low", "20")]).build().unwrap();
    let (heard, _listener) = Heard::at(&heap);
    heap.enter(|m| drop(list(m, (16 << 20) / BLOCK)));
    let grown = heard.wait("growth", |n| matches!(n, Notification::Resized { .. }));
    let Notification::Resized { from_bytes, to_bytes, returned_bytes, reason } = grown else {
        unreachable!()
    };
    assert!((from_bytes, returned_bytes, reason) == (2 << 20, 0, "headroom") && to_bytes > from_bytes);
    full(&heap);
    let ends = |n: &Notification| matches!(n, Notification::CycleEnd { .. });
    eventually("all is told", || heard.count(ends) as u64 == heap.stats().cycles);
    assert_eq!(heard.count(|n| matches!(n, Notification::HeadroomLow { .. })), 0);
}

#[test]
fn memory_given_back_and_memory_that_the_system_lacks() {
    let heap = builder(16, &[("memory-watch", "true"), ("memory-low", "0")]).build().unwrap();
    let (heard, _listener) = Heard::at(&heap);
    heap.enter(|m| drop(list(m, (4 << 20) / BLOCK)));
    low_memory(&heap);
    heard.wait("low memory", |n| *n == Notification::LowMemory { text: "a test says so".into() });
    heard.wait("its cycle", |n| matches!(n, Notification::CycleStart { reason: CycleReason::LowMemory, .. }));
    let trimmed = heard.wait("memory given back", |n| matches!(n, Notification::Resized { .. }));
    let Notification::Resized { from_bytes, to_bytes, returned_bytes, reason } = trimmed else {
        unreachable!()
    };
    assert_eq!((from_bytes, to_bytes, reason), (16 << 20, 16 << 20, "low memory"));
    assert!(returned_bytes >= 4 << 20, "{returned_bytes}");
}

#[test]
fn mutators_that_do_not_poll_and_that_only_poll() {
    let heap = builder(16, &[("memory-wait", "100ms")]).build().unwrap();
    let (heard, _listener) = Heard::at(&heap);
    let holder = Holder::new(&heap, "polls only");
    heap.request_cycle();
    let overdue = heard.wait("overdue", |n| matches!(n, Notification::SafepointOverdue { .. }));
    let Notification::SafepointOverdue { mutator, ms } = overdue else { unreachable!() };
    assert!(mutator == "polls only" && ms >= 250, "{mutator} {ms}");
    holder.let_go();
    let go = AtomicBool::new(false);
    std::thread::scope(|s| {
        let _end = Ends(&go);
        let spin = || {
            heap.enter(|_| {
                while !go.load(Relaxed) {
                    std::thread::yield_now();
                }
            });
        };
        std::thread::Builder::new().name("does not poll".into()).spawn_scoped(s, spin).unwrap();
        eventually("it is named", || {
            heap.request_cycle();
            heard.count(|n| *n == Notification::Straggler { mutator: "does not poll".into() }) > 0
        });
    });
    full(&heap);
    let stragglers = heard.count(|n| matches!(n, Notification::Straggler { .. }));
    eventually("as many as were counted", || stragglers as u64 <= heap.stats().stops_cancelled);
}

static HOLD: AtomicBool = AtomicBool::new(true);

/// The first to be finalized waits, a third of the rest panics.
#[derive(Trace)]
struct Slow {
    id: u64,
}

impl Finalize for Slow {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        m.blocking(|| {
            while HOLD.load(Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let id = this.get(m).id;
        assert!(!id.is_multiple_of(3), "{id}");
    }
}

#[test]
fn finalizers_that_wait_that_do_not_end_and_that_panic() {
    let settings = [("finalizer-backlog", "10"), ("finalizer-watchdog", "50ms")];
    let heap = builder(16, &settings).build().unwrap();
    let (heard, _listener) = Heard::at(&heap);
    heap.enter(|m| {
        for id in 0..30 {
            let object = m.alloc(Slow { id }).unwrap();
            assert!(m.register_finalizer(object));
        }
    });
    full(&heap);
    let backlog = heard.wait("a backlog", |n| matches!(n, Notification::FinalizerBacklog { .. }));
    let Notification::FinalizerBacklog { waiting } = backlog else { unreachable!() };
    assert!((11..=30).contains(&waiting), "{waiting}");
    let stuck = heard.wait("a stuck one", |n| matches!(n, Notification::FinalizerStuck { .. }));
    let Notification::FinalizerStuck { type_name, ms } = stuck else { unreachable!() };
    assert!(type_name.ends_with("Slow") && ms >= 50, "{type_name} {ms}");
    assert_eq!(heap.stats().finalizers.stuck, 1);
    HOLD.store(false, Relaxed);
    heap.drain_finalizers(std::time::Duration::from_secs(60)).unwrap();
    let panicked = || {
        let count = |n| if let Notification::FinalizerPanicked { count } = n { count } else { 0 };
        heard.all().into_iter().map(count).sum::<u64>()
    };
    eventually("all panics are told", || panicked() == 10);
    // Each was told once.
    assert_eq!(heard.count(|n| matches!(n, Notification::FinalizerBacklog { .. })), 1);
    assert_eq!(heard.count(|n| matches!(n, Notification::FinalizerStuck { .. })), 1);
    let stats = heap.stats().finalizers;
    assert_eq!((stats.run, stats.panicked, stats.backlog, stats.stuck), (30, 10, 0, 1));
}
