//! Channels: against a model, between many threads, at their ends.

use crate::common::{collect, eventually, node};
use crate::{busy_heap, cycles_pass};
use metronome_gc::Global;
use metronome_gc::rendezvous::{
    Receiver, RecvError, RecvTimeoutError, SendTimeoutError, Sender, TryRecvError, TrySendError, channel,
    sync_channel,
};
use quickcheck::quickcheck;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

const CAPACITIES: [Option<usize>; 5] = [None, Some(0), Some(1), Some(7), Some(1000)];

fn ends<T>(capacity: Option<usize>) -> (Sender<T>, Receiver<T>) {
    capacity.map_or_else(channel, sync_channel)
}

/// What one thread sees of a channel that nobody else uses, by the definition.
struct Model {
    values: VecDeque<u32>,
    capacity: Option<usize>,
    sender: bool,
    receiver: bool,
}

quickcheck! {
    fn one_thread_sees_what_the_model_says(capacity: Option<u8>, operations: Vec<u8>) -> bool {
        let capacity = capacity.map(|c| usize::from(c % 5));
        let (sender, receiver) = ends(capacity);
        let (mut sender, mut receiver) = (Some(sender), Some(receiver));
        let mut model = Model { values: VecDeque::new(), capacity, sender: true, receiver: true };
        let heap = busy_heap_once();
        heap.enter(|m| {
            for (i, operation) in operations.into_iter().enumerate() {
                let i = i as u32;
                let full = model.capacity.is_some_and(|c| model.values.len() >= c);
                match (operation % 16, &sender, &receiver) {
                    (0..5, Some(s), _) => {
                        let expected = if !model.receiver {
                            Err(TrySendError::Disconnected(i))
                        } else if full {
                            Err(TrySendError::Full(i))
                        } else {
                            model.values.push_back(i);
                            Ok(())
                        };
                        assert_eq!(s.try_send(i), expected);
                    }
                    (5..7, Some(s), _) => {
                        let expected = if !model.receiver {
                            Err(SendTimeoutError::Disconnected(i))
                        } else if full {
                            Err(SendTimeoutError::Timeout(i))
                        } else {
                            model.values.push_back(i);
                            Ok(())
                        };
                        assert_eq!(s.send_timeout(m, i, Duration::ZERO), expected);
                    }
                    (7..11, _, Some(r)) => {
                        let none = if model.sender { TryRecvError::Empty } else { TryRecvError::Disconnected };
                        assert_eq!(r.try_recv(), model.values.pop_front().ok_or(none));
                    }
                    (11..13, _, Some(r)) => {
                        let none =
                            if model.sender { RecvTimeoutError::Timeout } else { RecvTimeoutError::Disconnected };
                        assert_eq!(r.recv_timeout(m, Duration::ZERO), model.values.pop_front().ok_or(none));
                    }
                    // Clones come and go without consequence.
                    (13, _, _) => drop((sender.clone(), receiver.clone())),
                    (14, _, _) if i.is_multiple_of(8) => {
                        model.sender = false;
                        sender = None;
                    }
                    (15, _, _) if i.is_multiple_of(8) => {
                        model.receiver = false;
                        model.values.clear();
                        receiver = None;
                    }
                    _ => {}
                }
                for len in sender.iter().map(Sender::len).chain(receiver.iter().map(Receiver::len)) {
                    assert_eq!(len, model.values.len());
                }
            }
        });
        true
    }
}

/// One heap for all cases of a property.
fn busy_heap_once() -> &'static metronome_gc::Heap {
    static HEAP: std::sync::OnceLock<metronome_gc::Heap> = std::sync::OnceLock::new();
    HEAP.get_or_init(busy_heap)
}

#[test]
fn between_many_threads_every_value_arrives_once_and_in_its_sender_s_order() {
    const SENDERS: usize = 4;
    const VALUES: usize = 2000;
    for capacity in CAPACITIES {
        let heap = busy_heap();
        let (sender, receiver) = ends::<(usize, usize)>(capacity);
        let mut seen = vec![0u8; SENDERS * VALUES];
        std::thread::scope(|s| {
            // At least one cycle runs beside them, whatever the machine.
            s.spawn(|| heap.enter(collect));
            for t in 0..SENDERS {
                let (heap, sender) = (&heap, sender.clone());
                s.spawn(move || {
                    heap.enter(|m| {
                        for i in 0..VALUES {
                            // Of all the ways, the one that may refuse, until it does not.
                            match i % 3 {
                                0 => sender.send(m, (t, i)).unwrap(),
                                1 => {
                                    let mut value = (t, i);
                                    while let Err(e) =
                                        sender.send_timeout(m, value, Duration::from_micros(50))
                                    {
                                        let SendTimeoutError::Timeout(v) = e else { panic!("{e:?}") };
                                        value = v;
                                    }
                                }
                                _ => {
                                    if sender.try_send((t, i)).is_err() {
                                        sender.send(m, (t, i)).unwrap();
                                    }
                                }
                            }
                        }
                    });
                });
            }
            drop(sender);
            let receivers: Vec<_> = (0..4)
                .map(|r| {
                    let (heap, receiver) = (&heap, receiver.clone());
                    s.spawn(move || {
                        let mut got = Vec::new();
                        match r {
                            0 => got.extend(receiver.iter_outside()),
                            1 => heap.enter(|m| receiver.for_each(m, |_, v| got.push(v))),
                            2 => heap.enter(|m| {
                                loop {
                                    match receiver.recv_timeout(m, Duration::from_micros(50)) {
                                        Ok(v) => got.push(v),
                                        Err(RecvTimeoutError::Timeout) => m.safepoint(),
                                        Err(RecvTimeoutError::Disconnected) => break,
                                    }
                                }
                            }),
                            _ => heap.enter(|m| {
                                while let Ok(v) = receiver.recv(m) {
                                    got.push(v);
                                    got.extend(receiver.try_iter());
                                }
                            }),
                        }
                        got
                    })
                })
                .collect();
            for r in receivers {
                let mut last = [None; SENDERS];
                for (t, i) in r.join().unwrap() {
                    seen[t * VALUES + i] += 1;
                    assert!(last[t] < Some(i), "{capacity:?}: {i} after {:?}", last[t]);
                    last[t] = Some(i);
                }
            }
        });
        assert!(seen.iter().all(|&n| n == 1), "{capacity:?}: lost or doubled");
    }
}

#[test]
fn cycles_complete_while_threads_wait_in_send_and_recv() {
    let heap = busy_heap();
    let (sender, empty) = channel::<u32>();
    let (full, receiver) = sync_channel(1);
    full.try_send(1).unwrap();
    let (hand, taken) = sync_channel(0);
    let waiting = AtomicBool::new(false);
    std::thread::scope(|s| {
        let got = s.spawn(|| heap.enter(|m| (empty.recv(m), empty.recv(m))));
        s.spawn(|| heap.enter(|m| full.send(m, 2).unwrap()));
        s.spawn(|| {
            heap.enter(|m| {
                waiting.store(true, SeqCst);
                hand.send(m, 3).unwrap();
                waiting.store(false, SeqCst);
            });
        });
        eventually("the value is offered", || taken.len() == 1);
        let passed = cycles_pass(&heap, 5);
        assert!(waiting.load(SeqCst), "with a capacity of 0, sending waits until the value is taken");
        assert_eq!(full.try_send(9), Err(TrySendError::Full(9)));
        assert_eq!((receiver.recv_outside(), receiver.recv_outside()), (Ok(1), Ok(2)));
        assert_eq!(taken.recv_outside(), Ok(3));
        sender.send_outside(4).unwrap();
        sender.send_outside(5).unwrap();
        assert_eq!(got.join().unwrap(), (Ok(4), Ok(5)));
        assert!(passed, "no cycle ends while some wait in send and recv");
    });
}

#[test]
fn an_offer_is_accepted_where_a_receiver_waits() {
    let heap = busy_heap();
    let (sender, receiver) = sync_channel(0);
    std::thread::scope(|s| {
        let got = s.spawn(|| heap.enter(|m| receiver.recv(m)));
        let mut refused = 0u64;
        eventually("the receiver waits", || {
            let sent = sender.try_send(7);
            refused += u64::from(sent.is_err());
            sent.is_ok()
        });
        assert_eq!(got.join().unwrap(), Ok(7));
        assert_eq!(sender.try_send(8), Err(TrySendError::Full(8)));
    });
}

#[test]
fn values_come_back_when_the_other_end_is_gone() {
    let heap = busy_heap();
    for capacity in [0, 1] {
        let (sender, receiver) = sync_channel(capacity);
        let inside = sender.try_send("fills").is_ok();
        assert_eq!(inside, capacity == 1);
        std::thread::scope(|s| {
            let heap = &heap;
            let senders: Vec<_> = ["one", "two", "three"]
                .into_iter()
                .map(|text| {
                    let sender = sender.clone();
                    s.spawn(move || heap.enter(|m| (sender.send(m, text).unwrap_err().0, text)))
                })
                .collect();
            if capacity == 0 {
                eventually("all wait", || sender.len() == 3);
            }
            drop(receiver);
            for t in senders {
                let (came_back, sent) = t.join().unwrap();
                assert_eq!(came_back, sent);
            }
        });
        assert_eq!(sender.len(), 0);
        heap.enter(|m| {
            assert_eq!(sender.send_timeout(m, "x", Duration::MAX), Err(SendTimeoutError::Disconnected("x")));
        });
    }
    let (sender, receiver) = channel();
    std::thread::scope(|s| {
        let heap = &heap;
        let waits = s.spawn(move || heap.enter(|m| (receiver.recv(m), receiver.recv(m), receiver.recv(m))));
        sender.send_outside(1).unwrap();
        drop(sender);
        assert_eq!(waits.join().unwrap(), (Ok(1), Err(RecvError), Err(RecvError)));
    });
}

#[test]
fn what_is_left_is_dropped_once_by_the_last_end() {
    let alive = Arc::new(());
    for capacity in [None, Some(8)] {
        for sender_first in [true, false] {
            let (sender, receiver) = ends(capacity);
            let other = receiver.clone();
            (0..5).for_each(|_| sender.try_send(Arc::clone(&alive)).unwrap());
            assert_eq!(Arc::strong_count(&alive), 6);
            drop(receiver);
            assert_eq!((Arc::strong_count(&alive), other.try_iter().take(2).count()), (6, 2));
            if sender_first {
                drop(sender);
                assert_eq!(Arc::strong_count(&alive), 4, "receivable as long as there is a receiver");
                drop(other);
            } else {
                drop(other);
                assert_eq!(Arc::strong_count(&alive), 1, "dropped with the last receiver");
                drop(sender);
            }
            assert_eq!(Arc::strong_count(&alive), 1);
        }
    }
}

#[test]
fn objects_travel_as_globals() {
    let heap = busy_heap();
    let (sender, receiver) = sync_channel(4);
    std::thread::scope(|s| {
        let heap = &heap;
        s.spawn(move || {
            heap.enter(|m| {
                for id in 0..500 {
                    let object = node(m, id);
                    let global = Global::new(m, object.get(m));
                    drop(object);
                    sender.send(m, global).unwrap();
                }
            });
        });
        let sum = heap.enter(|m| {
            let mut sum = 0;
            receiver.for_each(m, |m, global| {
                m.safepoint();
                sum += global.get(m).id;
            });
            sum
        });
        assert_eq!(sum, (0..500).sum());
    });
}

#[test]
fn a_huge_capacity_allocates_no_huge_room() {
    let (sender, receiver) = sync_channel::<[u64; 1000]>(usize::MAX);
    sender.try_send([1; 1000]).unwrap();
    assert_eq!((receiver.try_recv().map(|v| v[999]), sender.capacity()), (Ok(1), Some(usize::MAX)));
}
