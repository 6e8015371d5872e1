#![forbid(unsafe_code)]

use metronome_gc::{
    DeathNotice, Ephemeron, Finalize, Global, Heap, Mutator, Payload, Pinned, ReferenceQueue, Root, Slot,
    Soft, Trace, Weak, WeakLong, WeakMap,
};
use std::sync::{Arc, Mutex};

#[derive(Trace)]
struct Node {
    id: u64,
    next: Slot<Node>,
}

/// Handles may be payload: they refer to the heap without being slots.
#[derive(Trace)]
struct Cache {
    soft: Soft<Node>,
    weak: Option<Weak<Node>>,
    long: Vec<WeakLong<Node>>,
    map: WeakMap<Node, Payload<String>>,
    queue: ReferenceQueue<u64>,
    global: Mutex<Option<Global<Node>>>,
    pinned: Pinned<Node>,
    first: Slot<Node>,
}

static BACK: Mutex<Option<Global<Node>>> = Mutex::new(None);

impl Finalize for Node {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        *BACK.lock().unwrap() = Some(Global::new(m, this.get(m)));
        m.safepoint();
        m.register_finalizer(this.get(m));
    }
}

/// Generic code can be finalized too.
#[derive(Trace)]
struct Wrapper<P: Send + Sync + 'static>(P);

impl<P: Send + Sync + 'static> Finalize for Wrapper<P> {
    fn finalize(_: Root<Self>, _: &mut Mutator<'_>) {}
}

fn shared<T: Send + Sync>(t: T) -> T {
    t
}

fn main() {
    let heap = Heap::builder().heap_bytes(4 << 20).build().unwrap();
    let kept: (Ephemeron<Node, Node>, WeakLong<Node>, DeathNotice, Global<Node>) = heap.enter(|m| {
        let node = m.alloc(NodeInit { id: 1, next: None }).unwrap();
        m.register_finalizer(node);
        m.register_finalizer(m.alloc(Wrapper(1)).unwrap());
        let cache = m
            .alloc(CacheInit {
                soft: Soft::new(m, node),
                weak: Some(Weak::new(m, node)),
                long: vec![WeakLong::new(m, node)],
                map: WeakMap::new(),
                queue: ReferenceQueue::new(),
                global: Mutex::new(None),
                pinned: Pinned::new(m, node),
                first: None,
            })
            .unwrap();
        cache.map.insert(m, node, m.alloc(Payload(String::from("one"))).unwrap());
        cache.first.store(m, cache.soft.get(m));
        assert_eq!(cache.map.get(m, node).unwrap().0, "one");
        let notice = cache.queue.register(m, node, 1);
        let global = Global::new(m, node);
        *cache.global.lock().unwrap() = Some(global.clone());
        (Ephemeron::new(m, node, node), WeakLong::new(m, node), notice, global)
    });
    // Across threads, and shared by them.
    let kept = Arc::new(shared(kept));
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                heap.enter(|m| {
                    let (ephemeron, long, _, global) = &*kept;
                    assert_eq!(ephemeron.key(m).unwrap().id + ephemeron.clone().value(m).unwrap().id, 2);
                    assert_eq!(long.clone().upgrade(m).unwrap().id, global.get(m).id);
                });
            });
        }
    });
}
