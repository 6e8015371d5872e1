//! Many finalizers and references, several threads, cycles all the time.

use crate::{collect, common, drain};
use metronome_gc::{
    Ephemeron, Finalize, Global, Heap, Mutator, Root, Slot, Soft, Trace, Weak, WeakLong, WeakMap,
};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Counts how often each of some objects was finalized.
#[derive(Trace)]
struct Counted {
    index: usize,
    runs: Arc<Vec<AtomicU8>>,
    next: Slot<Counted>,
}

impl Finalize for Counted {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        let object = this.get(m);
        object.runs[object.index].fetch_add(1, Relaxed);
        // What it refers to is complete, finalized or not.
        let next = object.next.load(m).expect("every object has a next one");
        assert_eq!(next.index + 1, object.index.max(1));
        if object.index.is_multiple_of(64) {
            m.safepoint();
        }
    }
}

#[test]
fn a_hundred_thousand_finalizers_run_once() {
    const N: usize = 100_000;
    const THREADS: usize = 4;
    let heap = Heap::builder().heap_bytes(32 << 20).build().unwrap();
    let runs: Arc<Vec<AtomicU8>> = Arc::new((0..N).map(|_| AtomicU8::new(0)).collect());
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let workers: Vec<_> = (0..THREADS)
            .map(|t| {
                let (heap, runs) = (&heap, &runs);
                s.spawn(move || {
                    heap.enter(|m| {
                        // Each refers to one that is not registered, which its finalizer must find all the same.
                        for index in (t..N).step_by(THREADS) {
                            loop {
                                let one = |index, next| {
                                    m.alloc(CountedInit { index, runs: Arc::clone(runs), next })
                                };
                                let pair = one(index.max(1) - 1, None).and_then(|n| one(index, Some(n)));
                                if let Ok(object) = pair {
                                    assert!(m.register_finalizer(object));
                                    break;
                                }
                                m.safepoint();
                            }
                            if index % 16 == 0 {
                                m.safepoint();
                            }
                        }
                    });
                })
            })
            .collect();
        s.spawn(|| {
            while !done.load(Relaxed) {
                heap.request_cycle();
                std::thread::yield_now();
            }
        });
        // A failed worker must not leave the other thread running.
        let ended: Vec<_> = workers.into_iter().map(|w| w.join()).collect();
        done.store(true, Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    collect(&heap);
    drain(&heap);
    let wrong = runs.iter().filter(|r| r.load(Relaxed) != 1).count();
    assert_eq!(wrong, 0, "finalizers that did not run once");
    let counts = heap.stats().finalizers;
    assert_eq!((counts.enqueued, counts.run, counts.panicked, counts.backlog), (N as u64, N as u64, 0, 0));
    common::eventually("the heap is empty", || {
        collect(&heap);
        heap.glance().used_bytes == 0
    });
}

#[derive(Trace)]
struct Node {
    id: u64,
    check: u64,
    next: Slot<Node>,
}

const SALT: u64 = 0x5bd1_e995_97f4_a7c5;

fn node<'m>(m: &'m Mutator<'_>, id: u64) -> Option<metronome_gc::Gc<'m, Node>> {
    let next = m.alloc(NodeInit { id: id + 1, check: (id + 1) ^ SALT, next: None }).ok()?;
    m.alloc(NodeInit { id, check: id ^ SALT, next: Some(next) }).ok()
}

/// The object is the one it was, and so is what it refers to.
fn check(m: &Mutator<'_>, n: &Node, id: u64) {
    assert_eq!((n.id, n.check), (id, id ^ SALT));
    let next = n.next.load(m).expect("made with the object");
    assert_eq!((next.id, next.check), (id + 1, (id + 1) ^ SALT));
}

/// Objects that finalizers brought back.
static BACK: Mutex<Vec<Global<Node>>> = Mutex::new(Vec::new());

/// Objects are not registered again.
static LAST: AtomicBool = AtomicBool::new(false);

impl Finalize for Node {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        let object = this.get(m);
        check(m, &object, object.id);
        if object.id.is_multiple_of(3) {
            let mut back = BACK.lock().unwrap();
            back.push(Global::new(m, object));
            if back.len() > 100 {
                back.drain(..50);
            }
        }
        m.safepoint();
        let object = this.get(m);
        check(m, &object, object.id);
        if object.id.is_multiple_of(5) && !LAST.load(Relaxed) {
            m.register_finalizer(object);
        }
    }
}

/// All references to one object.
struct All {
    id: u64,
    short: Weak<Node>,
    long: WeakLong<Node>,
    soft: Soft<Node>,
    ephemeron: Ephemeron<Node, Node>,
}

#[test]
fn references_are_used_by_several_threads_while_cycles_run() {
    let heap = Heap::builder().heap_bytes(16 << 20).set("soft-age", "1").build().unwrap();
    let map = WeakMap::<Node, Node>::new();
    let cycles = AtomicUsize::new(0);
    let (seen, gone) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let all: Mutex<Vec<Arc<All>>> = Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for t in 0..3 {
            let (heap, map, cycles, all, seen, gone) = (&heap, &map, &cycles, &all, &seen, &gone);
            s.spawn(move || {
                let mut id = t << 32;
                heap.enter(|m| {
                    while cycles.load(Relaxed) < 30 {
                        if let (Some(n), Some(value)) = (node(m, id), node(m, id ^ 1 << 60)) {
                            value.next.load(m).expect("made with it").next.store(m, n);
                            m.register_finalizer(n);
                            map.insert(m, n, value);
                            let one = All {
                                id,
                                short: Weak::new(m, n),
                                long: WeakLong::new(m, n),
                                soft: Soft::new(m, n),
                                ephemeron: Ephemeron::new(m, n, value),
                            };
                            let mut all = all.lock().unwrap();
                            all.push(Arc::new(one));
                            if all.len() > 400 {
                                all.swap_remove(id as usize % 400);
                            }
                        }
                        id += 2;
                        for k in 0..8 {
                            let one = {
                                let all = all.lock().unwrap();
                                all.get((id as usize * 31 + k * 97) % all.len().max(1)).cloned()
                            };
                            let Some(one) = one else { continue };
                            let value = one.ephemeron.value(m);
                            let found = match k % 4 {
                                0 => one.short.upgrade(m),
                                1 => one.long.upgrade(m),
                                2 => one.soft.get(m),
                                _ => one.ephemeron.key(m),
                            };
                            m.poll();
                            if let Some(v) = value {
                                check(m, &v, one.id ^ 1 << 60);
                            }
                            match found {
                                Some(n) => {
                                    check(m, &n, one.id);
                                    if let Some(v) = map.get(m, n) {
                                        check(m, &v, one.id ^ 1 << 60);
                                    }
                                    // Brought back, it may be kept, whatever the phase.
                                    let root = Root::new(m, n);
                                    m.safepoint();
                                    check(m, &root.get(m), one.id);
                                    seen.fetch_add(1, Relaxed);
                                }
                                None => {
                                    gone.fetch_add(1, Relaxed);
                                }
                            }
                        }
                        m.safepoint();
                    }
                });
            });
        }
        for _ in 0..30 {
            heap.enter(common::collect);
            cycles.fetch_add(1, Relaxed);
        }
    });
    // How many were gone when they were asked for is up to the threads' pace.
    assert!(seen.load(Relaxed) > 0);
    println!("{seen:?} yielded, {gone:?} were gone");
    // Nobody asks for them any more: all go.
    let all = std::mem::take(&mut *all.lock().unwrap());
    LAST.store(true, Relaxed);
    common::eventually("all references are cleared", || {
        collect(&heap);
        drain(&heap);
        BACK.lock().unwrap().clear();
        all.iter().all(|a| {
            a.short.is_cleared() && a.long.is_cleared() && a.soft.is_cleared() && a.ephemeron.is_cleared()
        })
    });
    // They are let go of: nothing is left.
    drop(all);
    common::eventually("the heap is empty", || {
        collect(&heap);
        drain(&heap);
        BACK.lock().unwrap().clear();
        map.prune();
        heap.glance().used_bytes == 0
    });
    map.prune();
    assert!(map.is_empty());
    assert_eq!(heap.stats().finalizers.panicked, 0);
}
