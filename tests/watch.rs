//! What a watcher sees is what the heap counts itself.
#![forbid(unsafe_code)]

#[path = "support/churn.rs"]
mod churn;

use churn::churn;
use metronome_gc::watch::{HeapEvent, QuantumEvent, Seen};
use metronome_gc::{Collect, Heap, Watch};

fn heap() -> Heap {
    Heap::builder().set("heap", "8M").build().unwrap()
}

fn all(watch: &mut Watch) -> Vec<Seen> {
    std::iter::from_fn(|| watch.try_next()).collect()
}

fn quanta(seen: &[Seen]) -> Vec<QuantumEvent> {
    seen.iter()
        .filter_map(|s| match s.event {
            HeapEvent::Quantum(q) => Some(q),
            _ => None,
        })
        .collect()
}

#[test]
fn a_watcher_sees_every_quantum_and_cycle_that_the_heap_counts() {
    let heap = heap();
    let mut watch = heap.watch(1 << 16);
    heap.bookmark("begin");
    churn(&heap, 30);
    heap.collect(Collect::Full).unwrap();
    heap.bookmark("end");
    // Closing tells what is left; the figures before it may lack the last quantum, which is told when it is surely over.
    let config = heap.config().clone();
    let (before, start) = (heap.stats(), watch.watched().start_ns);
    drop(heap);
    let seen = all(&mut watch);
    assert!(watch.ended() && watch.lost() == 0);
    assert_eq!(watch.watched().config, config);

    let quanta = quanta(&seen);
    assert!(quanta.len() as u64 >= before.quanta, "{} of {}", quanta.len(), before.quanta);
    let charged: u64 = quanta.iter().map(|q| q.charged_ns).sum();
    assert!(charged >= before.quantum_charged_ns.max && charged >= before.collector_ns * 9 / 10);
    for q in &quanta {
        assert!(start <= q.start_ns && q.start_ns + q.stop_ns <= q.end_ns, "{q:?}");
        assert!(q.charged_ns <= q.end_ns - q.start_ns && q.steps > 0, "{q:?}");
        assert_ne!(q.phase.name(), "unknown");
    }
    for pair in quanta.windows(2) {
        assert!(pair[0].start_ns < pair[1].start_ns, "in order: {pair:?}");
    }
    let count = |is: fn(&HeapEvent) -> bool| seen.iter().filter(|s| is(&s.event)).count() as u64;
    let ends = count(|e| matches!(e, HeapEvent::CycleEnd { .. }));
    assert!(ends >= before.cycles && count(|e| matches!(e, HeapEvent::CycleStart { .. })) >= ends);
    assert_eq!(count(|e| matches!(e, HeapEvent::Synchronous { .. })), before.synchronous_collections);
    let of_cycles: u64 = seen
        .iter()
        .filter_map(|s| match s.event {
            HeapEvent::CycleEnd { quanta, .. } => Some(quanta),
            _ => None,
        })
        .sum();
    assert!(of_cycles <= quanta.len() as u64 && of_cycles * 10 >= quanta.len() as u64 * 9);

    // Memory and how the mutators answered.
    assert!(count(|e| matches!(e, HeapEvent::Memory { heap_bytes, .. } if *heap_bytes == 8 << 20)) > 0);
    let mut answered = 0;
    for s in &seen {
        if let HeapEvent::MutatorStops { mutator, stops, sum_ns, max_ns } = &s.event {
            assert!(max_ns <= sum_ns && *stops > 0);
            assert!(*sum_ns <= stops * max_ns, "{s:?}");
            answered += u64::from(mutator.starts_with("worker-"));
        }
    }
    assert!(answered > 0, "{:?}", before.time_to_stop_ns);
    if count(|e| matches!(e, HeapEvent::StopCancelled { .. })) == 0 {
        // A stop lasts until the last one has arrived.
        let slowest = seen.iter().filter_map(|s| match s.event {
            HeapEvent::MutatorStops { max_ns, .. } => Some(max_ns),
            _ => None,
        });
        assert!(slowest.max() <= quanta.iter().map(|q| q.stop_ns).max());
    }
    let texts: Vec<&str> = seen
        .iter()
        .filter_map(|s| match &s.event {
            HeapEvent::Bookmark { text } => Some(&**text),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["begin", "end"]);
}

#[test]
fn one_who_does_not_look_holds_up_nobody() {
    let heap = heap();
    let mut idle = heap.watch(8);
    let mut busy = heap.watch(1 << 16);
    churn(&heap, 20);
    drop(heap);
    let seen = all(&mut busy);
    assert_eq!(busy.lost(), 0);
    let first = all(&mut idle);
    // Both were offered the same, give or take what came between their beginnings.
    assert_eq!(first.len(), 8);
    assert!(first.len() as u64 + idle.lost() >= seen.len() as u64, "{} {}", idle.lost(), seen.len());
    assert!(quanta(&seen).len() >= 20);
}

#[test]
fn a_mutator_that_answers_late_is_seen_by_its_name() {
    // Stops that wait long enough for it.
    let heap = Heap::builder()
        .set("heap", "8M")
        .set("window", "200ms")
        .set("quantum", "50ms")
        .set("stop-budget", "40ms")
        .build()
        .unwrap();
    let mut watch = heap.watch(1 << 16);
    let done = std::sync::atomic::AtomicBool::new(false);
    // Relaxed, here and below: a flag.
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|s| {
        let late = || {
            heap.enter(|m| {
                while !done.load(relaxed) {
                    // Four milliseconds without a poll.
                    let begin = std::time::Instant::now();
                    while begin.elapsed() < std::time::Duration::from_millis(4) {
                        std::hint::spin_loop();
                    }
                    m.safepoint();
                }
            });
        };
        std::thread::Builder::new().name("late".into()).spawn_scoped(s, late).unwrap();
        churn(&heap, 10);
        done.store(true, relaxed);
    });
    drop(heap);
    let seen = all(&mut watch);
    let longest = |name: &str| {
        let own = seen.iter().filter_map(|s| match &s.event {
            HeapEvent::MutatorStops { mutator, max_ns, .. } if mutator.starts_with(name) => Some(*max_ns),
            _ => None,
        });
        own.max()
    };
    let late = longest("late").expect("it was stopped");
    assert!(late > 500_000, "{late} ns");
    // The stops lasted as long, and say nothing of who it was.
    assert!(quanta(&seen).iter().any(|q| q.stop_ns >= late), "{late}");
}
