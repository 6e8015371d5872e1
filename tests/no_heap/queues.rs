//! Queues between no-heap threads and heap threads, with real threads and a working collector.

use crate::common::{discard, eventually, heap};
use metronome_gc::queue::{
    ForceError, QueueError, ReadError, ReaderGone, WaitFreeReadQueue, WaitFreeWriteQueue, WriteError,
    WriterGone,
};
use metronome_gc::{Global, Heap, Mutator, NoHeapOptions, Payload};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

const VALUES: u64 = 20_000;

/// Notes on which thread it is dropped.
#[derive(Clone)]
struct Drops(Arc<Mutex<Vec<(u32, ThreadId)>>>);

struct Noted(Drops, u32);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().push((self.1, std::thread::current().id()));
    }
}

impl Drops {
    fn new() -> Drops {
        Drops(Arc::new(Mutex::new(Vec::new())))
    }

    fn make(&self, n: u32) -> Noted {
        Noted(self.clone(), n)
    }

    /// Values dropped so far, sorted.
    fn values(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.0.lock().unwrap().iter().map(|d| d.0).collect();
        all.sort_unstable();
        all
    }

    fn threads(&self) -> Vec<ThreadId> {
        self.0.lock().unwrap().iter().map(|d| d.1).collect()
    }
}

/// Makes garbage, so that cycles run.
fn litter(m: &mut Mutator<'_>) {
    for _ in 0..20 {
        if m.alloc(Payload([0u64; 100])).map(discard).is_err() {
            m.safepoint();
        }
    }
}

/// Allocates until a cycle has ended.
fn until_a_cycle(heap: &Heap) {
    let before = heap.glance().cycles;
    heap.enter(|m| {
        eventually("a cycle", || {
            litter(m);
            m.safepoint();
            heap.glance().cycles > before
        })
    });
}

#[test]
fn a_no_heap_thread_writes_what_heap_threads_read() {
    let heap = heap(4);
    let (mut writer, reader) = WaitFreeWriteQueue::<u64>::new(heap.immortal_area(), 16).unwrap();
    let thread = heap
        .spawn_no_heap(NoHeapOptions::default(), move |_| {
            let mut full = 0u64;
            for v in 0..VALUES {
                while let Err(e) = writer.write(v) {
                    assert_eq!(e, WriteError::Full(v));
                    full += 1;
                    std::thread::yield_now();
                }
            }
            full
        })
        .unwrap();
    let mut all: Vec<u64> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..3)
            .map(|k| {
                let (heap, reader) = (&heap, reader.clone());
                s.spawn(move || {
                    heap.enter(|m| {
                        let mut mine = Vec::new();
                        loop {
                            let got = match k {
                                0 => reader.read_timeout(m, Duration::from_micros(50)),
                                _ => reader.read(m).map_err(|WriterGone| ReadError::Disconnected),
                            };
                            match got {
                                Ok(v) => mine.push(v),
                                Err(ReadError::Empty) => {}
                                Err(ReadError::Disconnected) => return mine,
                            }
                            if mine.len() % 64 == 0 {
                                litter(m);
                            }
                        }
                    })
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|t| {
                let mine = t.join().unwrap();
                assert!(mine.is_sorted(), "first in, first out, for each reader");
                mine
            })
            .collect()
    });
    thread.join().unwrap();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..VALUES), "each value is read once");
}

#[test]
fn heap_threads_write_what_a_no_heap_thread_reads() {
    let heap = heap(4);
    let (mut reader, writer) = WaitFreeReadQueue::<(u64, u64)>::new(heap.immortal_area(), 4).unwrap();
    let thread = heap
        .spawn_no_heap(NoHeapOptions::default(), move |_| {
            let mut all = Vec::new();
            loop {
                match reader.read() {
                    Ok(v) => all.push(v),
                    Err(ReadError::Empty) => std::thread::yield_now(),
                    Err(ReadError::Disconnected) => return all,
                }
            }
        })
        .unwrap();
    std::thread::scope(|s| {
        for k in 0..3 {
            let (heap, writer) = (&heap, writer.clone());
            s.spawn(move || {
                heap.enter(|m| {
                    for v in 0..VALUES / 4 {
                        writer.write(m, (k, v)).unwrap();
                        if v % 64 == 0 {
                            litter(m);
                        }
                    }
                });
            });
        }
    });
    drop(writer);
    let all = thread.join().unwrap();
    for k in 0..3 {
        let of_one = all.iter().filter(|v| v.0 == k).map(|v| v.1);
        assert!(of_one.eq(0..VALUES / 4), "each writer's values arrive once and in order");
    }
    assert_eq!(all.len() as u64, 3 * (VALUES / 4));
}

#[test]
fn forced_values_are_read_in_order_or_returned() {
    let heap = heap(4);
    for capacity in [1, 2, 7] {
        let (mut writer, reader) = WaitFreeWriteQueue::<u64>::new(heap.immortal_area(), capacity).unwrap();
        let thread = heap
            .spawn_no_heap(NoHeapOptions::default(), move |_| {
                (0..VALUES).filter_map(|v| writer.force(v).unwrap()).collect::<Vec<u64>>()
            })
            .unwrap();
        let read = heap.enter(|m| {
            let mut read = Vec::new();
            while let Ok(v) = reader.read(m) {
                read.push(v);
                m.safepoint();
            }
            read
        });
        assert!(read.is_sorted());
        assert_eq!(read.last(), Some(&(VALUES - 1)), "the latest value is never replaced");
        let mut all = thread.join().unwrap();
        assert!(all.is_sorted());
        all.extend(read);
        all.sort_unstable();
        assert!(all.into_iter().eq(0..VALUES));
    }
}

#[test]
fn one_that_waits_counts_as_stopped() {
    let heap = heap(4);
    let (mut out, reader) = WaitFreeWriteQueue::<u32>::new(heap.immortal_area(), 1).unwrap();
    let (mut inp, writer) = WaitFreeReadQueue::<u32>::new(heap.immortal_area(), 1).unwrap();
    let waiting = AtomicU32::new(0);
    std::thread::scope(|s| {
        s.spawn(|| {
            heap.enter(|m| {
                waiting.fetch_add(1, Relaxed);
                assert_eq!(reader.read(m), Ok(5));
            });
        });
        s.spawn(|| {
            heap.enter(|m| {
                writer.try_write(m, 1).unwrap();
                assert_eq!(writer.try_write(m, 2), Err(WriteError::Full(2)));
                waiting.fetch_add(1, Relaxed);
                writer.write(m, 3).unwrap();
            });
        });
        eventually("both are inside", || waiting.load(Relaxed) == 2);
        // They hold up neither a stop nor the end of a cycle, which needs everybody's safepoint.
        until_a_cycle(&heap);
        until_a_cycle(&heap);
        out.write(5).unwrap();
        assert_eq!(inp.read(), Ok(1));
        let mut got = Err(ReadError::Empty);
        eventually("the writer was woken", || {
            got = inp.read();
            got.is_ok()
        });
        assert_eq!(got, Ok(3));
    });
}

#[test]
fn a_read_with_a_limit_ends_without_a_value() {
    let heap = heap(4);
    let (mut writer, reader) = WaitFreeWriteQueue::<u32>::new(heap.immortal_area(), 2).unwrap();
    heap.enter(|m| {
        assert_eq!(reader.try_read(m), Err(ReadError::Empty));
        for ms in [0, 1, 5] {
            assert_eq!(reader.read_timeout(m, Duration::from_millis(ms)), Err(ReadError::Empty));
        }
        writer.write(1).unwrap();
        writer.write(2).unwrap();
        assert!(writer.is_full() && writer.capacity() == 2);
        assert_eq!(reader.read_timeout(m, Duration::ZERO), Ok(1));
        assert_eq!(reader.read_timeout(m, Duration::MAX), Ok(2));
        drop(writer);
        assert_eq!(reader.read_timeout(m, Duration::MAX), Err(ReadError::Disconnected));
        assert_eq!(reader.try_read(m), Err(ReadError::Disconnected));
        assert_eq!(reader.read(m), Err(WriterGone));
    });
}

#[test]
fn values_of_a_write_queue_are_never_dropped_by_the_no_heap_thread() {
    let heap = heap(4);
    let drops = Drops::new();
    let (mut writer, reader) = WaitFreeWriteQueue::<Noted>::new(heap.immortal_area(), 3).unwrap();
    let reader_too = reader.clone();
    let values: Vec<Noted> = (0..3).map(|n| drops.make(n)).collect();
    let late = drops.make(9);
    let (gone, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (g, w) = (Arc::clone(&gone), Arc::clone(&written));
    let thread = heap
        .spawn_no_heap(NoHeapOptions::default(), move |_| {
            for v in values {
                writer.write(v).unwrap();
            }
            w.store(true, Relaxed);
            while !g.load(Relaxed) {
                std::thread::yield_now();
            }
            // Given back, not dropped; and the writer's end, the last one, has nothing to drop.
            let late = match writer.write(late) {
                Err(WriteError::Disconnected(late)) => late,
                other => panic!("{other:?}"),
            };
            let Err(ForceError { value, replaced: None }) = writer.force(late) else { panic!("not refused") };
            drop(writer);
            value
        })
        .unwrap();
    eventually("all are written", || written.load(Relaxed));
    drop(reader);
    assert_eq!(drops.values(), [0u32; 0], "a clone is left");
    drop(reader_too);
    assert_eq!(drops.values(), [0, 1, 2]);
    gone.store(true, Relaxed);
    let back = thread.join().unwrap();
    assert_eq!((back.1, drops.values()), (9, vec![0, 1, 2]));
    let here = std::thread::current().id();
    assert!(drops.threads().iter().all(|t| *t == here));
}

#[test]
fn values_of_a_read_queue_are_dropped_by_the_last_end() {
    let heap = heap(4);
    // The reader goes first: the writer's end drops what is left, and gets later values back.
    let drops = Drops::new();
    let (mut reader, writer) = WaitFreeReadQueue::<Noted>::new(heap.immortal_area(), 3).unwrap();
    heap.enter(|m| {
        for n in 0..3 {
            writer.write(m, drops.make(n)).unwrap();
        }
    });
    let first = heap
        .spawn_no_heap(NoHeapOptions::default(), move |_| reader.read().unwrap())
        .unwrap()
        .join()
        .unwrap();
    assert_eq!((first.1, drops.values()), (0, vec![]));
    heap.enter(|m| {
        let Err(ReaderGone(back)) = writer.write(m, drops.make(7)) else { panic!("not refused") };
        assert!(matches!(writer.try_write(m, back), Err(WriteError::Disconnected(v)) if v.1 == 7));
    });
    assert_eq!(drops.values(), [7]);
    drop(writer);
    assert_eq!(drops.values(), [1, 2, 7]);
    let here = std::thread::current().id();
    assert!(drops.threads().iter().all(|t| *t == here));

    // The writers go first: what they wrote is still read, and the rest goes with the reader.
    let drops = Drops::new();
    let (mut reader, writer) = WaitFreeReadQueue::<Noted>::new(heap.immortal_area(), 3).unwrap();
    heap.enter(|m| {
        for n in 0..3 {
            writer.clone().try_write(m, drops.make(n)).unwrap();
        }
    });
    drop(writer);
    assert!(!reader.is_empty() && reader.capacity() == 3);
    assert_eq!(reader.read().map(|v| v.1).unwrap(), 0);
    assert_eq!(drops.values(), [0]);
    drop(reader);
    assert_eq!(drops.values(), [0, 1, 2]);
}

#[test]
fn a_blocked_end_is_woken_when_the_other_one_goes() {
    let heap = heap(4);
    for _ in 0..20 {
        let (out, reader) = WaitFreeWriteQueue::<u32>::new(heap.immortal_area(), 1).unwrap();
        let (inp, writer) = WaitFreeReadQueue::<u32>::new(heap.immortal_area(), 1).unwrap();
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| heap.enter(|m| assert_eq!(reader.read(m), Err(WriterGone))));
            }
            s.spawn(|| {
                heap.enter(|m| {
                    writer.write(m, 1).unwrap();
                    assert_eq!(writer.write(m, 2), Err(ReaderGone(2)));
                });
            });
            s.spawn(|| {
                // Not before the first value is there, or that would be refused already.
                eventually("a first value", || !inp.is_empty());
                drop((out, inp));
            });
        });
    }
}

#[test]
fn objects_cross_by_globals() {
    let heap = heap(4);
    let (mut out, reader) =
        WaitFreeWriteQueue::<Global<Payload<String>>>::new(heap.immortal_area(), 2).unwrap();
    let (mut inp, writer) =
        WaitFreeReadQueue::<Global<Payload<String>>>::new(heap.immortal_area(), 2).unwrap();
    let echo = heap
        .spawn_no_heap(NoHeapOptions::default(), move |_| {
            loop {
                match inp.read() {
                    Ok(object) => out.write(object).unwrap(),
                    Err(ReadError::Empty) => std::thread::yield_now(),
                    Err(ReadError::Disconnected) => return,
                }
            }
        })
        .unwrap();
    for n in 0..50 {
        heap.enter(|m| {
            let object = m.alloc(Payload(n.to_string())).unwrap();
            let object = Global::new(m, object);
            writer.write(m, object).unwrap();
        });
        if n % 10 == 0 {
            until_a_cycle(&heap);
        }
        heap.enter(|m| {
            let object = reader.read(m).unwrap();
            assert_eq!(object.get(m).0, n.to_string());
        });
    }
    drop(writer);
    echo.join().unwrap();
}

#[test]
fn a_queue_needs_room_in_immortal_memory() {
    let heap = heap(4);
    let area = heap.immortal_area();
    assert!(matches!(WaitFreeWriteQueue::<u64>::new(area, 0), Err(QueueError::NoCapacity)));
    assert!(matches!(WaitFreeReadQueue::<u64>::new(area, 0), Err(QueueError::NoCapacity)));
    for capacity in [usize::MAX, usize::MAX / 2, 1 << 20] {
        let Err(QueueError::Memory(e)) = WaitFreeWriteQueue::<u64>::new(area, capacity) else {
            panic!("{capacity} elements in {} bytes", area.size_bytes());
        };
        assert!(e.requested_bytes > e.size_bytes, "{e}");
    }
    // Nothing was taken for those.
    assert_eq!(area.used_bytes(), 0);
    let queue = WaitFreeReadQueue::<[u64; 16]>::new(area, 100).unwrap();
    let used = area.used_bytes();
    assert!(used >= 100 * 128, "{used}");
    drop(queue);
    assert_eq!(area.used_bytes(), used, "nothing is ever given back");
    let e = WaitFreeWriteQueue::<u64>::new(area, 1 << 20).unwrap_err().to_string();
    assert!(e.contains("option immortal") && e.contains("smaller capacity"), "{e}");
}
