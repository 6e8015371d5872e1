//! What the fast paths cost, each beside a control: `cargo bench --bench micro`. See README.md in this folder.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use metronome_gc::{Gc, GcArray, Global, Heap, Mutator, Payload, Root, Slot, Trace};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::time::{Duration, Instant};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn heap(bytes: u64) -> Heap {
    Heap::builder().heap_bytes(bytes).build().expect("a heap of that size")
}

fn pair<'m>(m: &'m Mutator<'_>) -> (Gc<'m, Node>, Gc<'m, Node>) {
    let b = m.alloc(NodeInit { value: 2, next: None }).expect("room");
    (m.alloc(NodeInit { value: 1, next: Some(b) }).expect("room"), b)
}

/// Slots while no cycle is active, beside plain atomics.
fn slots_idle(c: &mut Criterion) {
    let heap = heap(16 << 20);
    let mut target = 2u64;
    let target: *mut u64 = &raw mut target;
    let plain = AtomicPtr::new(target);
    heap.enter(|m| {
        let m: &Mutator<'_> = m;
        let (a, b) = pair(m);
        assert_eq!((heap.glance().phase, a.value, b.value), ("idle", 1, 2));
        let mut g = c.benchmark_group("slot load");
        g.bench_function("slot", |x| x.iter(|| black_box(a).next.load(m)));
        g.bench_function("control: AtomicPtr acquire load", |x| x.iter(|| black_box(&plain).load(Acquire)));
        g.finish();
        let mut g = c.benchmark_group("slot store, idle");
        g.bench_function("slot", |x| x.iter(|| black_box(a).next.store(m, black_box(b))));
        g.bench_function("control: AtomicPtr release store", |x| {
            x.iter(|| black_box(&plain).store(black_box(target), Release));
        });
        g.finish();
        let mut g = c.benchmark_group("slot swap, idle");
        g.bench_function("slot", |x| x.iter(|| black_box(a).next.swap(m, black_box(b))));
        g.bench_function("control: AtomicPtr swap", |x| {
            x.iter(|| black_box(&plain).swap(black_box(target), AcqRel));
        });
        g.finish();
        assert_eq!(heap.glance().phase, "idle", "a cycle started during an idle measurement");
    });
}

/// Slot stores while the barrier is armed. This thread comes by no safepoint, which keeps the cycle in the snapshot:
/// both the removed and the new value are shaded. After the first store both are marked.
fn slots_armed(c: &mut Criterion) {
    let heap = heap(16 << 20);
    let mut target = 2u64;
    let target: *mut u64 = &raw mut target;
    let plain = AtomicPtr::new(target);
    heap.enter(|m| {
        let m: &Mutator<'_> = m;
        let (a, b) = pair(m);
        begin_cycle(&heap, m);
        let mut g = c.benchmark_group("slot store, armed");
        g.bench_function("slot", |x| x.iter(|| black_box(a).next.store(m, black_box(b))));
        g.bench_function("slot, null over null", |x| x.iter(|| black_box(b).next.store(m, None)));
        g.bench_function("control: AtomicPtr swap", |x| {
            x.iter(|| black_box(&plain).swap(black_box(target), AcqRel));
        });
        g.bench_function("control: AtomicPtr release store", |x| {
            x.iter(|| black_box(&plain).store(black_box(target), Release));
        });
        g.finish();
        assert_eq!(heap.glance().phase, "snapshot", "the snapshot ended during the measurement");
    });
}

/// Armed stores that each remove an object that was not marked yet: the full log rate. Then the same with a log of the
/// least size, so that after 1024 objects each one becomes a grey bit. Both beside a swap that removes the same pointers.
fn slots_logging(c: &mut Criterion) {
    const BATCH: usize = 8192;
    let mut g = c.benchmark_group("slot store, armed, new object each");
    for (name, buffers) in [("logged", "1024"), ("log full: grey bits", "4")] {
        let builder = Heap::builder().heap_bytes(64 << 20).set("log-buffers", buffers);
        let heap = builder.build().expect("a heap of that size");
        heap.enter(|m| {
            let slots = Root::new(m, m.alloc_slots::<Payload<u64>>(BATCH).expect("room"));
            g.bench_function(name, |x| {
                x.iter_custom(|iterations| {
                    in_batches(iterations, BATCH, |n| {
                        end_cycle(&heap, m);
                        let m: &Mutator<'_> = m;
                        let slots = slots.get(m);
                        for i in 0..n {
                            slots.store(m, i, m.alloc(Payload(i as u64)).expect("room"));
                        }
                        begin_cycle(&heap, m);
                        // Over leaves, so that finding the slot costs what it does in the control.
                        let from = Instant::now();
                        for slot in slots.leaves().flatten().take(n) {
                            slot.store(m, None);
                        }
                        from.elapsed()
                    })
                });
            });
            end_cycle(&heap, m);
        });
    }
    let mut target = 2u64;
    let target: *mut u64 = &raw mut target;
    let plain: Vec<AtomicPtr<u64>> = (0..BATCH).map(|_| AtomicPtr::new(target)).collect();
    let control = |iterations, store: fn(&AtomicPtr<u64>)| {
        in_batches(iterations, BATCH, |n| {
            let from = Instant::now();
            black_box(&plain[..n]).iter().for_each(store);
            from.elapsed()
        })
    };
    g.bench_function("control: AtomicPtr swap", |x| {
        x.iter_custom(|n| control(n, |p| _ = black_box(p.swap(std::ptr::null_mut(), AcqRel))));
    });
    g.bench_function("control: AtomicPtr release store", |x| {
        x.iter_custom(|n| control(n, |p| p.store(std::ptr::null_mut(), Release)));
    });
    g.finish();
}

/// Sums up what `batch` says of batches of at most `most` iterations.
fn in_batches(iterations: u64, most: usize, mut batch: impl FnMut(usize) -> Duration) -> Duration {
    let mut left = iterations as usize;
    let mut total = Duration::ZERO;
    while left > 0 {
        let n = left.min(most);
        left -= n;
        total += batch(n);
    }
    total
}

/// Lets a cycle that is under way end.
fn end_cycle(heap: &Heap, m: &mut Mutator<'_>) {
    while heap.glance().phase != "idle" {
        m.blocking(|| std::thread::sleep(Duration::from_micros(100)));
    }
}

/// Starts a cycle and waits for it at pause points, so that it stays in the snapshot.
fn begin_cycle(heap: &Heap, m: &Mutator<'_>) {
    assert_eq!(heap.glance().phase, "idle", "a cycle started while objects were prepared");
    heap.request_cycle();
    while heap.glance().phase != "snapshot" {
        m.poll();
        std::thread::yield_now();
    }
}

/// Polls, safepoints, and leaving the heap for a call.
fn stop_points(c: &mut Criterion) {
    let heap = heap(16 << 20);
    let flag = AtomicU32::new(0);
    let count = AtomicU64::new(0);
    heap.enter(|m| {
        let mut g = c.benchmark_group("poll");
        g.bench_function("poll", |x| x.iter(|| black_box(&*m).poll()));
        g.bench_function("control: relaxed load and branch", |x| {
            x.iter(|| {
                if black_box(&flag).load(Relaxed) & 1 != 0 {
                    cold();
                }
            });
        });
        g.finish();
        let mut g = c.benchmark_group("safepoint");
        g.bench_function("safepoint", |x| x.iter(|| m.safepoint()));
        g.bench_function("blocking(|| ())", |x| x.iter(|| m.blocking(|| ())));
        g.bench_function("control: two atomic read-modify-writes", |x| {
            x.iter(|| {
                black_box(&count).fetch_sub(1, Release);
                black_box(&count).fetch_add(1, Acquire);
            });
        });
        g.finish();
    });
}

#[cold]
#[inline(never)]
fn cold() {
    black_box(());
}

/// A bump allocator that frees everything when it is full: what allocation would cost without memory management.
struct Arena {
    memory: Vec<u64>,
    used: usize,
}

impl Arena {
    #[inline]
    fn alloc(&mut self, value: [u64; 4]) -> &mut [u64; 4] {
        if self.used + 4 > self.memory.len() {
            self.used = 0;
        }
        let cell = &mut self.memory[self.used..self.used + 4];
        self.used += 4;
        let cell: &mut [u64; 4] = cell.try_into().expect("four words");
        *cell = value;
        cell
    }
}

/// 32-byte objects, all garbage at once. Cycles run as they come, and their quanta are part of the time; the thread
/// comes by a safepoint at every 256th allocation. Both controls write the same 32 bytes.
fn allocation(c: &mut Criterion) {
    const SAFEPOINT_EVERY: u32 = 256;
    let heap = heap(256 << 20);
    let cycles_before = heap.glance().cycles;
    heap.enter(|m| {
        let mut g = c.benchmark_group("alloc 32 bytes");
        g.bench_function("alloc", |x| {
            let mut n = 0u32;
            x.iter(|| {
                n = n.wrapping_add(1);
                if n.is_multiple_of(SAFEPOINT_EVERY) {
                    m.safepoint();
                }
                m.alloc(Payload([black_box(1u64), 2, 3])).map(Gc::address).expect("the heap is large enough")
            });
        });
        g.bench_function("control: Box::new and drop", |x| {
            x.iter(|| black_box(Box::new([black_box(1u64), 2, 3, 4])).len());
        });
        g.bench_function("control: 256 boxes, then their drops, per 256", |x| {
            x.iter_batched(
                || Vec::with_capacity(256),
                |mut v: Vec<Box<[u64; 4]>>| {
                    for _ in 0..256 {
                        v.push(Box::new([black_box(1u64), 2, 3, 4]));
                    }
                    v.clear();
                    v
                },
                BatchSize::SmallInput,
            );
        });
        let mut arena = Arena { memory: vec![0; 1 << 20], used: 0 };
        g.bench_function("control: bump arena of 8 MiB", |x| {
            x.iter(|| std::ptr::from_mut(arena.alloc([black_box(1u64), 2, 3, 4])).addr());
        });
        g.finish();
    });
    println!("cycles during `alloc 32 bytes`: {}", heap.glance().cycles - cycles_before);
}

/// 32-byte objects in regions of which every other cell is in use, so that a run of free cells is one cell; then every
/// other 16 cells. No cycle runs meanwhile.
fn allocation_in_gaps(c: &mut Criterion) {
    const CELLS: usize = 400_000;
    let heap = heap(256 << 20);
    heap.enter(|m| {
        let mut g = c.benchmark_group("alloc 32 bytes, in gaps");
        for gap in [1, 16] {
            g.bench_function(format!("{gap} free, {gap} in use"), |x| {
                // Some gaps are left, so that no fresh region is taken.
                x.iter_custom(|iterations| {
                    in_batches(iterations, CELLS * 4 / 10, |n| {
                        let kept = keep_every_other(&heap, m, CELLS, gap);
                        let from = Instant::now();
                        for i in 0..n {
                            if i % 256 == 0 {
                                m.safepoint();
                            }
                            black_box(m.alloc(Payload([1u64, 2, 3])).map(Gc::address).expect("room"));
                        }
                        let took = from.elapsed();
                        drop(kept);
                        took
                    })
                });
            });
        }
        g.finish();
    });
}

/// Fills regions with `cells` objects, and lets a cycle free every other `gap` of them.
fn keep_every_other(
    heap: &Heap,
    m: &mut Mutator<'_>,
    cells: usize,
    gap: usize,
) -> Root<GcArray<Slot<Payload<[u64; 3]>>>> {
    let kept = Root::new(m, m.alloc_slots(cells).expect("room"));
    for i in 0..cells {
        if i % 256 == 0 {
            m.safepoint();
        }
        let object = m.alloc(Payload([1u64, 2, 3])).expect("room");
        if (i / gap).is_multiple_of(2) {
            kept.get(m).store(m, i, object);
        }
    }
    let cycles = heap.glance().cycles;
    heap.request_cycle();
    while heap.glance().cycles == cycles {
        m.blocking(|| std::thread::sleep(Duration::from_micros(100)));
    }
    end_cycle(heap, m);
    kept
}

/// Handles, beside `Arc`.
fn handles(c: &mut Criterion) {
    let heap = heap(16 << 20);
    let shared = Arc::new(1u64);
    heap.enter(|m| {
        let m: &Mutator<'_> = m;
        let (a, _) = pair(m);
        let mut g = c.benchmark_group("handle, make and drop");
        g.bench_function("Root::new", |x| x.iter(|| Root::new(m, black_box(a))));
        g.bench_function("Global::new", |x| x.iter(|| Global::new(m, black_box(a))));
        g.bench_function("control: Arc::clone", |x| x.iter(|| Arc::clone(black_box(&shared))));
        g.finish();
        let (root, global) = (Root::new(m, a), Global::new(m, a));
        let plain = AtomicPtr::new(Arc::as_ptr(&shared).cast_mut());
        let mut g = c.benchmark_group("handle, get");
        g.bench_function("Root::get", |x| x.iter(|| black_box(&root).get(m)));
        g.bench_function("Global::get", |x| x.iter(|| black_box(&global).get(m)));
        g.bench_function("control: AtomicPtr acquire load", |x| x.iter(|| black_box(&plain).load(Acquire)));
        g.finish();
    });
}

#[inline(never)]
fn sum_of(slice: &[u64]) -> u64 {
    slice.iter().sum()
}

/// A sum over an arraylet array of 65,536 words (128 leaves), beside a slice.
fn arrays(c: &mut Criterion) {
    const LEN: usize = 1 << 16;
    let heap = heap(16 << 20);
    heap.enter(|m| {
        let m: &Mutator<'_> = m;
        let array = m.alloc_array::<u64, _>(LEN, |i| i as u64).expect("room");
        let slice: Vec<u64> = (0..LEN as u64).collect();
        let sum: u64 = slice.iter().sum();
        let by_leaves = |a: Gc<'_, metronome_gc::GcArray<u64>>| a.leaves().flatten().sum::<u64>();
        assert_eq!(by_leaves(array), sum);
        let mut g = c.benchmark_group("array sum");
        g.throughput(Throughput::Elements(LEN as u64));
        // One function for both, so that they run the same loop; what is left is the going from leaf to leaf.
        g.bench_function("leaves", |x| x.iter(|| black_box(array).leaves().map(sum_of).sum::<u64>()));
        g.bench_function("control: slice", |x| x.iter(|| sum_of(black_box(&slice[..]))));
        g.bench_function("control: slice in pieces of 4 KiB", |x| {
            x.iter(|| black_box(&slice[..]).chunks(512).map(sum_of).sum::<u64>());
        });
        g.bench_function("elements of leaves", |x| x.iter(|| black_box(array).iter().sum::<u64>()));
        g.bench_function("by index", |x| {
            x.iter(|| {
                let a = black_box(array);
                (0..LEN).map(|i| *a.at(i)).sum::<u64>()
            });
        });
        g.finish();
        // Every index once, in an order without a pattern that the compiler knows.
        let order: Vec<u32> = (0..LEN as u32).map(|i| i.wrapping_mul(40_503) % LEN as u32).collect();
        let mut g = c.benchmark_group("array, scattered reads");
        g.throughput(Throughput::Elements(LEN as u64));
        g.bench_function("by index", |x| {
            x.iter(|| {
                let a = black_box(array);
                order.iter().map(|&i| *a.at(i as usize)).sum::<u64>()
            });
        });
        g.bench_function("control: slice, bounds checked", |x| {
            x.iter(|| {
                let s = black_box(&slice[..]);
                order.iter().map(|&i| s[i as usize]).sum::<u64>()
            });
        });
        g.finish();
    });
}

criterion_group!(
    micro,
    slots_idle,
    slots_armed,
    slots_logging,
    stop_points,
    allocation,
    allocation_in_gaps,
    handles,
    arrays
);
criterion_main!(micro);
