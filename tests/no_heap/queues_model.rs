//! Both queues against a plain queue of the standard library: scripts of operations, on one thread.

use crate::common::heap;
use metronome_gc::queue::{ReadError, WaitFreeReadQueue, WaitFreeWriteQueue, WriteError};
use quickcheck::{Arbitrary, Gen, QuickCheck};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum Op {
    Write,
    Force,
    Read,
    TryRead,
    Timed,
}

impl Arbitrary for Op {
    fn arbitrary(g: &mut Gen) -> Op {
        *g.choose(&[Op::Write, Op::Write, Op::Force, Op::Read, Op::TryRead, Op::Timed]).expect("not empty")
    }
}

/// A value of its own, so that a copy or a loss shows in the counts.
type Value = Arc<usize>;

fn write_queue(capacity: u8, script: Vec<Op>) -> bool {
    let capacity = usize::from(capacity % 5) + 1;
    let heap = heap(1);
    let (mut writer, reader) = WaitFreeWriteQueue::<Value>::new(heap.immortal_area(), capacity).unwrap();
    let mut model: VecDeque<Value> = VecDeque::new();
    heap.enter(|m| {
        for (n, op) in script.into_iter().enumerate() {
            let value = Arc::new(n);
            match op {
                Op::Write => {
                    let got = writer.write(Arc::clone(&value));
                    if model.len() == capacity {
                        assert_eq!(got, Err(WriteError::Full(value)));
                    } else {
                        assert_eq!(got, Ok(()));
                        model.push_back(value);
                    }
                }
                Op::Force => {
                    let replaced = if model.len() == capacity { model.pop_back() } else { None };
                    assert_eq!(writer.force(Arc::clone(&value)), Ok(replaced));
                    model.push_back(value);
                }
                Op::Read if !model.is_empty() => {
                    assert_eq!(reader.read(m).ok(), model.pop_front());
                }
                Op::Timed if !model.is_empty() => {
                    assert_eq!(reader.read_timeout(m, Duration::MAX).ok(), model.pop_front());
                }
                Op::Read | Op::TryRead | Op::Timed => {
                    assert_eq!(reader.try_read(m), model.pop_front().ok_or(ReadError::Empty));
                }
            }
            assert_eq!(writer.is_full(), model.len() == capacity);
            // One owner is the model, the other one the queue.
            assert!(model.iter().all(|v| Arc::strong_count(v) == 2));
        }
    });
    drop((reader, writer));
    model.iter().all(|v| Arc::strong_count(v) == 1)
}

fn read_queue(capacity: u8, script: Vec<Op>, writer_first: bool) -> bool {
    let capacity = usize::from(capacity % 5) + 1;
    let heap = heap(1);
    let (mut reader, writer) = WaitFreeReadQueue::<Value>::new(heap.immortal_area(), capacity).unwrap();
    let mut model: VecDeque<Value> = VecDeque::new();
    heap.enter(|m| {
        for (n, op) in script.into_iter().enumerate() {
            let value = Arc::new(n);
            match op {
                Op::Write | Op::Force if model.len() == capacity => {
                    assert_eq!(writer.try_write(m, Arc::clone(&value)), Err(WriteError::Full(value)));
                }
                Op::Write => {
                    writer.write(m, Arc::clone(&value)).unwrap();
                    model.push_back(value);
                }
                Op::Force => {
                    writer.try_write(m, Arc::clone(&value)).unwrap();
                    model.push_back(value);
                }
                Op::Read | Op::TryRead | Op::Timed => {
                    assert_eq!(reader.is_empty(), model.is_empty());
                    assert_eq!(reader.read(), model.pop_front().ok_or(ReadError::Empty));
                }
            }
            assert!(model.iter().all(|v| Arc::strong_count(v) == 2));
        }
    });
    if writer_first {
        drop(writer);
        // What was written is still there.
        if let Some(value) = model.pop_front() {
            assert_eq!(reader.read(), Ok(value));
        } else {
            assert_eq!(reader.read(), Err(ReadError::Disconnected));
        }
        drop(reader);
    } else {
        drop((reader, writer));
    }
    model.iter().all(|v| Arc::strong_count(v) == 1)
}

#[test]
fn a_write_queue_is_a_bounded_queue() {
    QuickCheck::new().tests(60).quickcheck(write_queue as fn(u8, Vec<Op>) -> bool);
}

#[test]
fn a_read_queue_is_a_bounded_queue() {
    QuickCheck::new().tests(60).quickcheck(read_queue as fn(u8, Vec<Op>, bool) -> bool);
}
