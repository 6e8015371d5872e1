//! Quanta, polls, barriers and allocation paths allocate nothing: counted by a global allocator, per thread, while a heap
//! works through all phases with references, finalizers and arrays.
//!
//! A test-driven heap takes each step on this thread, so that the steps' names are known and a step is all that is
//! counted; a real heap's collector thread is counted over its whole life after it has begun to run.

#[path = "support/allocates.rs"]
mod allocates;

use allocates::Allocates;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use metronome_gc::testing::{Phase, TestHeap};
use metronome_gc::{
    Config, Ephemeron, Finalize, Gc, GcArray, Global, Heap, Mutator, Root, Slot, Soft, Trace, Weak, WeakLong,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Whether the threads that must not allocate are watched, and how often they did.
static WATCHED: AtomicBool = AtomicBool::new(false);
static BY_COLLECTOR: AtomicU64 = AtomicU64::new(0);
static BY_ALARM: AtomicU64 = AtomicU64::new(0);
static BY_OTHERS: AtomicU64 = AtomicU64::new(0);

fn note() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    // Relaxed, here and below: counters.
    if WATCHED.load(Relaxed) {
        let mut name = [0u8; 16];
        // SAFETY: the system writes at most sixteen bytes there.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        let counter = match &name {
            n if n.starts_with(COLLECTOR) => &BY_COLLECTOR,
            n if n.starts_with(b"metronome-tick\0") => &BY_ALARM,
            _ => &BY_OTHERS,
        };
        counter.fetch_add(1, Relaxed);
    }
}

/// The collector thread's name, as the system tells it.
const COLLECTOR: &[u8] = b"metronome-gc\0";

struct Counting;

// SAFETY: every call is passed on unchanged to `System`; counting never allocates: the thread-local is
// `const`-initialised and without destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // Freeing counts too: it takes the same locks.
        note();
        // SAFETY: the caller's promise about `block` and `layout` is passed on; `alloc` got the block from `System`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() -> u64 {
    ALLOCATIONS.get()
}

#[derive(Trace)]
struct Node {
    id: u64,
    next: Slot<Node>,
}

impl Finalize for Node {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        assert!(this.get(m).id < u64::MAX);
    }
}

fn node<'m>(m: &'m Mutator<'_>, id: u64, next: Option<Gc<'m, Node>>) -> Gc<'m, Node> {
    m.alloc(NodeInit { id, next }).expect("the heap is large enough")
}

fn list<'m>(m: &'m Mutator<'_>, n: u64) -> Gc<'m, Node> {
    (1..n).fold(node(m, 0, None), |head, id| node(m, id, Some(head)))
}

fn test_heap() -> TestHeap {
    TestHeap::new(Config { heap: 32 << 20, ..Config::default() }).expect("the configuration is valid")
}

/// What a cycle finds: handles of each kind, to objects that live and that do not.
struct Handles {
    _kept: (Root<Node>, Global<Node>, Root<GcArray<Slot<Node>>>),
    _weaks: Vec<Weak<Node>>,
    _longs: Vec<WeakLong<Node>>,
    _softs: Vec<Soft<Node>>,
    _ephemerons: Vec<Ephemeron<Node, Node>>,
}

fn fill(m: &Mutator<'_>) -> Handles {
    let array = m.alloc_slots::<Node>(20_000).expect("the heap is large enough");
    for i in 0..20_000 {
        array.store(m, i, (i % 3 == 0).then(|| node(m, i as u64, None)));
    }
    let live = list(m, 3_000);
    let ends: Vec<_> = (0..200).map(|i| node(m, i, Some(list(m, 5)))).collect();
    for e in &ends {
        assert!(m.register_finalizer(*e));
    }
    let mut objects: Vec<_> = ends.clone();
    objects.extend((0..200).map(|i| node(m, i, None)));
    objects.push(live);
    Handles {
        _kept: (Root::new(m, live), Global::new(m, live), Root::new(m, array)),
        _weaks: objects.iter().map(|o| Weak::new(m, *o)).collect(),
        _longs: objects.iter().map(|o| WeakLong::new(m, *o)).collect(),
        _softs: objects.iter().map(|o| Soft::new(m, *o)).collect(),
        _ephemerons: objects.iter().map(|o| Ephemeron::new(m, *o, live)).collect(),
    }
}

/// Allocations by name of the step, over a whole cycle; after each step a mutator works, with the barrier armed.
fn cycle(heap: &TestHeap, work: impl Fn(&mut Mutator<'_>)) -> BTreeMap<&'static str, u64> {
    let mut by_step = BTreeMap::new();
    loop {
        let (name, allocations, more) = heap.counted_step(count);
        *by_step.entry(name).or_default() += allocations;
        if heap.phase() == Phase::Idle {
            return by_step;
        }
        assert!(more, "blocked in {name}");
        heap.enter(&work);
    }
}

#[test]
fn no_step_allocates_and_no_barrier_does() {
    let heap = test_heap();
    let handles = heap.enter(|m| fill(m));
    let in_barriers = Cell::new(0);
    let global = heap.enter(|m| Global::new(m, list(m, 50)));
    let by_step = cycle(&heap, |m| {
        // Tables may grow when a handle is made, which is said there; not when it is used.
        let before = count();
        for id in 0..20 {
            let head = global.get(m);
            let new = node(m, id, head.next.load(m));
            head.next.store(m, Some(new));
            m.poll();
        }
        in_barriers.set(in_barriers.get() + count() - before);
        m.safepoint();
    });
    println!("{by_step:?}");
    for name in [
        "arm",
        "mark",
        "roots",
        "globals",
        "softs",
        "ephemerons",
        "terminate",
        "weak",
        "finalizers",
        "revive",
        "bury",
        "sweep",
        "end",
    ] {
        assert!(by_step.contains_key(name), "no step {name} was taken: {by_step:?}");
    }
    assert!(by_step.values().all(|&n| n == 0), "{by_step:?}");
    assert_eq!(in_barriers.get(), 0);
    drop(handles);
    heap.finalize();
    assert_eq!(heap.violations(), []);
}

#[test]
fn an_allocation_in_a_step_is_seen() {
    let heap = test_heap();
    let root = heap.enter(|m| Root::new(m, m.alloc(Allocates(7)).expect("the heap is large enough")));
    let by_step = cycle(&heap, |m| m.safepoint());
    assert_eq!(by_step["mark"], 2, "{by_step:?}");
    assert_eq!(by_step.values().sum::<u64>(), 2, "{by_step:?}");
    drop(root);
}

/// The collector's and the alarm's threads, over many cycles of a heap with all its threads.
#[test]
fn the_collector_and_the_alarm_allocate_nothing() {
    let heap = Heap::builder()
        .heap_bytes(16 << 20)
        .set("verify", "off")
        .build()
        .expect("the configuration is valid");
    // Watched by one whose ring is soon full: that is the writer's business alone.
    let watch = heap.watch(64);
    let work = || {
        heap.enter(|m| {
            let handles = fill(m);
            let before = heap.stats().cycles;
            let mut rounds = 0u64;
            // Statistics are looked at seldom: they cost more than the work.
            while !rounds.is_multiple_of(64) || heap.stats().cycles < before + 2 {
                for id in 0..1_000 {
                    // An error is for the safepoint to mend.
                    let _ = m.alloc(NodeInit { id, next: None });
                }
                m.safepoint();
                rounds += 1;
                assert!(rounds < 10_000_000, "no cycle came about");
            }
            drop(handles);
        });
    };
    // The first cycles are the threads' beginning.
    work();
    WATCHED.store(true, Relaxed);
    work();
    // A fast machine takes few quanta for a round.
    for round in 0..1_000 {
        work();
        if round > 0 && watch.lost() > 0 {
            break;
        }
    }
    WATCHED.store(false, Relaxed);
    let counts = [&BY_COLLECTOR, &BY_ALARM, &BY_OTHERS].map(|c| c.load(Relaxed));
    println!("collector, alarm, others: {counts:?}");
    assert_eq!(counts[..2], [0, 0]);
    assert!(watch.lost() > 0, "the watcher's ring was full all the time");
    assert!(counts[2] > 0, "the counter counts: making handles and writing reports allocates");
}
