//! Loom model of the wait-free queues: every interleaving of some small programs.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom_queue`
//!
//! The ring's and the ends' own sources are compiled here with loom's atomics, lock and cells. An element's value is a loom
//! cell without any ordering of its own, so an access that the states do not order is reported (INV-RING-OWNER,
//! INV-RING-ORDER). A sleeper that nobody wakes is a deadlock, which loom reports (and the process aborts).
#![cfg(loom)]
#![allow(dead_code, unreachable_pub, reason = "the models use a part of the library's own files")]

#[path = "../src/queue/ends.rs"]
mod ends;
#[path = "../src/queue/error.rs"]
mod error;
#[path = "../src/queue/ring.rs"]
mod ring;
#[path = "loom/sync.rs"]
mod sync;

use ends::{FreeReader, FreeWriter, SharedReader, SharedWriter};
use error::{ReadError, ReaderGone, WriteError, WriterGone};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use ring::{Element, Ring};

/// Explores all interleavings with at most `preemptions` switches of thread that nobody waits for.
fn explore(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(preemptions);
    }
    builder.check(f);
}

/// The two sides of a ring for `capacity` values. Its memory is leaked, as immortal memory is.
fn ring<T: Send>(capacity: usize) -> (ring::Producer<T>, ring::Consumer<T>) {
    let elements: Box<[Element<T>]> = (0..=capacity).map(|_| Element::new()).collect();
    Ring::split(Box::leak(Box::new(Ring::new(Box::leak(elements)))))
}

fn write_queue<T: Send>(capacity: usize) -> (FreeWriter<T>, Arc<SharedReader<T>>) {
    let (producer, consumer) = ring(capacity);
    (FreeWriter::new(producer), Arc::new(SharedReader::new(consumer)))
}

fn read_queue<T: Send>(capacity: usize) -> (FreeReader<T>, Arc<SharedWriter<T>>) {
    let (producer, consumer) = ring(capacity);
    (FreeReader::new(consumer), Arc::new(SharedWriter::new(producer)))
}

/// A value that counts itself, so that none is lost or dropped twice.
struct Counted(Arc<AtomicUsize>, u32);

impl Drop for Counted {
    fn drop(&mut self) {
        // Relaxed: read after the threads were joined.
        self.0.fetch_sub(1, Relaxed);
    }
}

struct Count(Arc<AtomicUsize>);

impl Count {
    fn new() -> Count {
        Count(Arc::new(AtomicUsize::new(0)))
    }

    fn make(&self, n: u32) -> Counted {
        // Relaxed: as in `drop`.
        self.0.fetch_add(1, Relaxed);
        Counted(Arc::clone(&self.0), n)
    }

    fn left(&self) -> usize {
        // Relaxed: as in `drop`.
        self.0.load(Relaxed)
    }
}

/// A writer that gives up when the queue is full, and a reader that sleeps: what was accepted arrives, in order, and
/// the end of the writer ends the reader.
#[test]
fn what_is_written_is_read_in_order() {
    explore(3, || {
        let (mut writer, reader) = write_queue(1);
        let writing =
            thread::spawn(move || (1..=3).filter(|&v| writer.write(v).is_ok()).collect::<Vec<u32>>());
        let mut got = Vec::new();
        while let Ok(v) = reader.read() {
            got.push(v);
        }
        assert_eq!(writing.join().unwrap(), got);
    });
}

/// Two readers sleep, two values come: each gets one, and none sleeps for ever.
#[test]
fn each_sleeping_reader_is_woken() {
    explore(2, || {
        let (mut writer, reader) = write_queue(2);
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let reader = Arc::clone(&reader);
                thread::spawn(move || reader.read().unwrap())
            })
            .collect();
        writer.write(1u32).unwrap();
        writer.write(2).unwrap();
        let got: u32 = readers.into_iter().map(|r| r.join().unwrap()).sum();
        assert_eq!(got, 3);
    });
}

/// Forced writes beside a reader: what is read and what was replaced are together what was written, what is read is in
/// order, and the last value is always read.
#[test]
fn forced_values_are_read_or_returned() {
    for capacity in [1, 2] {
        explore(2, move || {
            let (mut writer, reader) = write_queue(capacity);
            let writing =
                thread::spawn(move || (1..=4).filter_map(|v| writer.force(v).unwrap()).collect::<Vec<u32>>());
            let mut got = Vec::new();
            while let Ok(v) = reader.read() {
                got.push(v);
            }
            let mut all = writing.join().unwrap();
            assert!(got.is_sorted() && got.last() == Some(&4), "{got:?}");
            all.extend(got);
            all.sort_unstable();
            assert_eq!(all, [1, 2, 3, 4]);
        });
    }
}

/// The bare ring, whose steps have no fence between them that could stand in for an ordering of its own.
#[test]
fn what_is_pushed_is_popped_in_order() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(|| {
        let (mut producer, mut consumer) = ring(1);
        let taking = thread::spawn(move || {
            let taken = [consumer.pop(), consumer.pop()];
            (consumer, taken)
        });
        let pushed: Vec<u32> = (1..=4).filter(|&v| producer.push(v).is_ok()).collect();
        let (mut consumer, taken) = taking.join().unwrap();
        let taken: Vec<u32> = taken.into_iter().flatten().chain(consumer.pop()).collect();
        assert_eq!(taken, pushed);
    });
}

/// Forced values in the bare ring, short enough for more preemptions: the producer comes twice just when the consumer has
/// claimed the only value, and fills an element of which it knows by those claims only that it is free.
#[test]
fn a_claim_tells_what_was_freed_before() {
    let mut builder = loom::model::Builder::new();
    // What `LOOM_MAX_PREEMPTIONS` says is too few here.
    builder.preemption_bound = Some(5);
    builder.check(|| {
        let (mut producer, mut consumer) = ring(1);
        assert_eq!(producer.force(1u32), None);
        let taking = thread::spawn(move || {
            let taken = [consumer.pop(), consumer.pop()];
            (consumer, taken)
        });
        let replaced = [producer.force(2), producer.force(3)];
        let (mut consumer, taken) = taking.join().unwrap();
        let taken: Vec<u32> = taken.into_iter().flatten().chain(consumer.pop()).collect();
        assert!(taken.is_sorted() && taken.last() == Some(&3) && consumer.pop().is_none(), "{taken:?}");
        let mut all: Vec<u32> = replaced.into_iter().flatten().chain(taken).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    });
}

/// The reader goes while values are being written or forced: each is read, given back, or dropped once, and none by the
/// writer's end.
#[test]
fn a_reader_that_goes_loses_nothing() {
    explore(3, || {
        let count = Count::new();
        let (mut writer, reader) = write_queue(1);
        let (one, two) = (count.make(1), count.make(2));
        let reading = thread::spawn(move || {
            let got = reader.try_read().is_ok();
            drop(reader);
            got
        });
        let first = writer.write(one).map_err(WriteError::into_value);
        let second = writer.force(two);
        reading.join().unwrap();
        // What was given back is all there is.
        let back = first.is_err() as usize
            + match &second {
                Ok(replaced) => replaced.is_some() as usize,
                Err(e) => 1 + e.replaced.is_some() as usize,
            };
        assert_eq!(count.left(), back);
        assert!(matches!(writer.write(count.make(3)), Err(WriteError::Disconnected(_))));
        drop(writer);
        assert_eq!(count.left(), back);
        drop((first, second));
        assert_eq!(count.left(), 0);
    });
}

/// Two writers wait for room, one reader makes it: all arrives, each writer's values in order.
#[test]
fn blocked_writers_are_woken() {
    explore(2, || {
        let (mut reader, writer) = read_queue(1);
        writer.write(5).unwrap();
        let writers: Vec<_> = (0..2)
            .map(|k| {
                let writer = Arc::clone(&writer);
                thread::spawn(move || {
                    writer.write(10 * k).unwrap();
                    drop(writer);
                })
            })
            .collect();
        drop(writer);
        let mut got: Vec<u32> = Vec::new();
        loop {
            match reader.read() {
                Ok(v) => got.push(v),
                Err(ReadError::Empty) => thread::yield_now(),
                Err(ReadError::Disconnected) => break,
            }
        }
        writers.into_iter().for_each(|w| w.join().unwrap());
        got.sort_unstable();
        assert_eq!(got, [0, 5, 10]);
    });
}

/// The reader goes while a writer waits for room, or writes: the writer gets its value back, or the last end drops it.
#[test]
fn a_wait_free_reader_that_goes_frees_blocked_writers() {
    explore(3, || {
        let count = Count::new();
        let (mut reader, writer) = read_queue(1);
        let values = [count.make(1), count.make(2), count.make(3)];
        let writing = thread::spawn(move || {
            let mut back = 0;
            for value in values {
                if let Err(ReaderGone(value)) = writer.write(value) {
                    back += 1;
                    drop(value);
                }
            }
            back
        });
        let got = reader.read().map(|v| v.1);
        assert!(got == Ok(1) || got == Err(ReadError::Empty));
        drop(reader);
        // The queue has room for one, so not all three were accepted.
        assert!(writing.join().unwrap() >= 1);
        assert_eq!(count.left(), 0);
    });
}

/// Both ends of a read queue go at once: what was not read is dropped by one of them.
#[test]
fn the_last_end_drops_what_is_left() {
    explore(3, || {
        let count = Count::new();
        let (reader, writer) = read_queue(2);
        let value = count.make(1);
        let writing = thread::spawn(move || drop(writer.try_write(value)));
        drop(reader);
        writing.join().unwrap();
        assert_eq!(count.left(), 0);
    });
}

/// A writer that goes while a reader is about to sleep.
#[test]
fn a_writer_that_goes_wakes_all_readers() {
    explore(3, || {
        let (writer, reader) = write_queue::<u32>(1);
        let other = Arc::clone(&reader);
        let reading = thread::spawn(move || other.read());
        drop(writer);
        assert_eq!(reader.read(), Err(WriterGone));
        assert_eq!(reading.join().unwrap(), Err(WriterGone));
    });
}

/// The same properties of protocols that break them: the model must notice.
mod broken {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicU32;
    use loom::sync::atomic::Ordering::{Acquire, Release, SeqCst};

    /// A producer that sees that the last value was claimed, but not what was freed before: the claim does not release.
    #[test]
    #[should_panic(expected = "Causality violation")]
    fn a_claim_that_releases_nothing() {
        struct Shared {
            state: AtomicU32,
            earlier: UnsafeCell<u32>,
        }
        // SAFETY: loom checks every access to the cell; that is what this test is for.
        unsafe impl Sync for Shared {}
        // SAFETY: as above.
        unsafe impl Send for Shared {}
        loom::model(|| {
            let s = Arc::new(Shared { state: AtomicU32::new(1), earlier: UnsafeCell::new(7) });
            let c = Arc::clone(&s);
            let consumer = thread::spawn(move || {
                // SAFETY: checked by loom. Moves the earlier value out, then claims the last one.
                c.earlier.with_mut(|p| unsafe { *p = 0 });
                let _ = c.state.compare_exchange(1, 2, Acquire, Relaxed);
            });
            if s.state.compare_exchange(1, 2, Acquire, Acquire).is_err() {
                // SAFETY: checked by loom. Fills the earlier element.
                s.earlier.with_mut(|p| unsafe { *p = 8 });
            }
            consumer.join().unwrap();
        });
    }

    /// Whether a sleeper was left asleep by a notifier. (It does not really sleep: see `loom_gate.rs`.)
    fn left_asleep(fenced: bool) -> bool {
        let sleepers = Arc::new(AtomicU32::new(0));
        let full = Arc::new(AtomicU32::new(0));
        let (n, f) = (Arc::clone(&sleepers), Arc::clone(&full));
        let sleeper = thread::spawn(move || {
            n.fetch_add(1, Relaxed);
            if fenced {
                loom::sync::atomic::fence(SeqCst);
            }
            f.load(Acquire) == 0
        });
        full.store(1, Release);
        if fenced {
            loom::sync::atomic::fence(SeqCst);
        }
        let woken = sleepers.load(Relaxed) > 0;
        sleeper.join().unwrap() && !woken
    }

    /// Without the fences both sides can miss the other.
    #[test]
    #[should_panic(expected = "left asleep")]
    fn sleeping_without_fences() {
        loom::model(|| assert!(!left_asleep(false), "left asleep"));
    }

    /// With them one sees the other.
    #[test]
    fn sleeping_with_fences() {
        loom::model(|| assert!(!left_asleep(true), "left asleep"));
    }
}
