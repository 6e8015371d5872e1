//! Threads of a heap: started, joined, named; real-time ones get what they ask for, or say what was refused.
#![forbid(unsafe_code)]

#[allow(dead_code)] // What these programs do not use of it, others do.
#[path = "safety/common.rs"]
mod common;

use common::{check_list, churn, collect, eventually, list};
use metronome_gc::alarm::{affinity, priority};
use metronome_gc::{EnterError, Heap, Mutator, Payload, RealtimeOptions, Root, SpawnError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

fn heap_with(options: &[(&str, &str)]) -> Heap {
    let builder = Heap::builder().heap_bytes(8 << 20).set("cycle-interval", "1ms");
    options.iter().fold(builder, |b, (name, value)| b.set(name, value)).build().unwrap()
}

fn named(name: &str, priority: u8) -> RealtimeOptions {
    RealtimeOptions { name: name.into(), priority, stack_bytes: 256 << 10, ..RealtimeOptions::default() }
}

/// The error of a spawn that must fail.
fn refused<T>(r: Result<T, SpawnError>) -> SpawnError {
    match r {
        Ok(_) => panic!("it was started"),
        Err(e) => e,
    }
}

#[test]
fn threads_work_in_the_heap_and_are_joined_by_a_mutator_while_cycles_run() {
    let heap = heap_with(&[]);
    let sum = heap.enter(|m| {
        let quit = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (1..=4u64)
            .map(|n| {
                let quit = Arc::clone(&quit);
                heap.spawn(&format!("worker-{n}"), move |m| {
                    let root = Root::new(m, m.alloc(Payload(n)).unwrap());
                    while !quit.load(SeqCst) {
                        churn(m, 50);
                        m.safepoint();
                    }
                    root.get(m).0
                })
                .unwrap()
            })
            .collect();
        assert_eq!(threads[2].thread().name(), Some("worker-3"));
        // A fifth ends the others, after cycles that can complete only because this thread waits as native in `join`.
        let watch = heap.clone();
        let last = heap
            .spawn("last", move |m| {
                (0..5).for_each(|_| collect(m));
                quit.store(true, SeqCst);
                watch.glance().cycles
            })
            .unwrap();
        assert!(last.join(m).unwrap() >= 5);
        threads.into_iter().map(|t| t.join(m).unwrap()).sum::<u64>()
    });
    assert_eq!(sum, 10);
}

#[test]
fn a_panic_is_the_joiner_s_to_see() {
    let heap = heap_with(&[]);
    let payload = |e: Box<dyn std::any::Any + Send>| *e.downcast::<&str>().unwrap();
    let boom = |m: &mut Mutator<'_>| {
        let _root = Root::new(m, list(m, 100));
        panic!("on purpose");
    };
    heap.enter(|m| {
        let e = heap.spawn("panics", boom).unwrap().join(m).unwrap_err();
        assert_eq!(payload(e), "on purpose");
        let e =
            m.blocking(|| heap.spawn_realtime(named("panics too", 0), boom).unwrap()).join(m).unwrap_err();
        assert_eq!(payload(e), "on purpose");
        // Neither left anything running behind.
        collect(m);
        collect(m);
    });
    let e = heap.spawn("panics", boom).unwrap().join_outside().unwrap_err();
    assert_eq!(payload(e), "on purpose");
    heap.enter(|m| (0..2).for_each(|_| collect(m)));
    assert_eq!(heap.glance().used_bytes, 0);
}

#[test]
fn a_thread_keeps_its_heap_open() {
    let heap = heap_with(&[]);
    let go = Arc::new(AtomicBool::new(false));
    let wait = Arc::clone(&go);
    let thread = heap
        .spawn("outlives", move |m| {
            m.blocking(|| eventually("the heap's last other clone is gone", || wait.load(SeqCst)));
            collect(m);
            check_list(m, list(m, 100), 100);
        })
        .unwrap();
    drop(heap);
    go.store(true, SeqCst);
    // The thread closes the heap at its end.
    thread.join_outside().unwrap();
}

#[test]
fn a_heap_that_is_full_of_mutators_refuses_another_and_forgets_those_that_ended() {
    let heap = heap_with(&[("max-mutators", "2")]);
    heap.enter(|m| {
        let quit = Arc::new(AtomicBool::new(false));
        let wait = Arc::clone(&quit);
        let first = heap
            .spawn("first", move |m| {
                while !wait.load(SeqCst) {
                    m.safepoint();
                }
            })
            .unwrap();
        for _ in 0..10 {
            let ran = Arc::new(AtomicBool::new(false));
            let runs = Arc::clone(&ran);
            let e = refused(heap.spawn("second", move |_| runs.store(true, SeqCst)));
            assert!(matches!(e, SpawnError::Enter(EnterError::TooManyMutators { max: 2 })), "{e:?}");
            assert!(e.to_string().contains("max-mutators"), "{e}");
            let e = refused(heap.spawn_realtime(named("second", 0), |_| ()));
            assert!(matches!(e, SpawnError::Enter(EnterError::TooManyMutators { max: 2 })), "{e:?}");
            assert!(!ran.load(SeqCst));
        }
        quit.store(true, SeqCst);
        first.join(m).unwrap();
        // Its place is free again, any number of times.
        for i in 0..50 {
            assert_eq!(heap.spawn("next", move |_| i).unwrap().join(m).unwrap(), i);
        }
    });
}

#[test]
fn bad_names_and_stacks_are_errors_that_cost_no_place() {
    let heap = heap_with(&[("max-mutators", "1")]);
    for _ in 0..10 {
        let e = refused(heap.spawn("zero\0byte", |_| ()));
        assert!(matches!(&e, SpawnError::Name), "{e:?}");
        let options = RealtimeOptions { stack_bytes: usize::MAX, ..named("deep", 0) };
        let e = refused(heap.spawn_realtime(options, |_| ()));
        assert!(
            matches!(e, SpawnError::Stack { requested_bytes: usize::MAX, max_bytes, .. } if max_bytes == 1 << 30),
            "{e:?}"
        );
        assert_eq!(heap.spawn("fits", |_| 7).unwrap().join_outside().unwrap(), 7);
    }
}

#[test]
fn a_priority_that_is_not_below_the_collector_s_is_an_error_with_both() {
    for (collector, alarm, asked, accepted) in [
        ("10", "11", 10, false),
        ("10", "11", 99, false),
        ("10", "11", 255, false),
        ("10", "11", 9, true),
        ("10", "11", 0, true),
        ("1", "2", 1, false),
        ("0", "0", 1, false),
        ("0", "0", 0, true),
    ] {
        let heap = heap_with(&[("gc-priority", collector), ("alarm-priority", alarm)]);
        match heap.spawn_realtime(named("task", asked), |_| 1) {
            Ok(t) => {
                assert!(accepted, "{asked} beside {collector}");
                assert_eq!(t.join_outside().unwrap(), 1);
            }
            Err(SpawnError::PriorityNotBelowCollector { requested, collector: c }) => {
                assert!(!accepted, "{asked} beside {collector}");
                assert_eq!((requested, c.to_string().as_str()), (asked, collector));
                let text = SpawnError::PriorityNotBelowCollector { requested, collector: c }.to_string();
                assert!(text.contains(&asked.to_string()) && text.contains("gc-priority"), "{text}");
                assert!(text.contains(collector) && !text.contains('\n'), "{text}");
            }
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn a_real_time_thread_has_what_was_not_refused() {
    let heap = heap_with(&[]);
    let cpu = affinity::allowed().last().copied();
    let options = RealtimeOptions { cpu, ..named("task", 5) };
    let thread = heap
        .spawn_realtime(options, |m| {
            // Deep into the stack that was asked for: a level takes up to 4.2 KiB without optimisation.
            fn dive(levels: u32) -> u32 {
                let page = std::hint::black_box([1u8; 1024]);
                if levels == 0 { 0 } else { dive(levels - 1) + u32::from(std::hint::black_box(page)[0]) }
            }
            assert_eq!(dive(50), 50);
            check_list(m, list(m, 50), 50);
            (priority::current_fifo(), affinity::allowed(), std::thread::current().name().map(str::to_owned))
        })
        .unwrap();
    let refusals = thread.refusals().to_vec();
    let (fifo, allowed, name) = thread.join_outside().unwrap();
    let was_refused = |what: &str| refusals.iter().any(|r| r.contains(what));
    assert_eq!(fifo, (!was_refused("SCHED_FIFO")).then_some(5), "{refusals:?}");
    if let Some(cpu) = cpu
        && !was_refused("pinning")
    {
        assert_eq!(allowed, [cpu]);
    }
    assert_eq!(name.as_deref(), Some("task"));
    if !refusals.is_empty() {
        println!("refused here: {refusals:#?}");
    }
}

#[test]
fn what_the_system_refuses_is_told_and_is_in_the_log() {
    let log = std::env::temp_dir().join(format!("metronome-realtime-{}.xml", std::process::id()));
    let heap = heap_with(&[("verbose-gc", log.to_str().unwrap())]);
    // No machine that these tests run on has it.
    let cpu = 1023;
    if affinity::allowed().contains(&cpu) {
        println!("skipped: this machine has CPU {cpu}");
        return;
    }
    let before = affinity::allowed();
    let thread = heap
        .spawn_realtime(RealtimeOptions { cpu: Some(cpu), ..named("far away", 0) }, |_| affinity::allowed())
        .unwrap();
    let said = thread.refusals().iter().find(|r| r.contains("CPU 1023")).cloned().expect("it is refused");
    assert!(said.starts_with("real-time thread far away: pinning"), "{said}");
    assert_eq!(thread.join_outside().unwrap(), before, "the thread runs on where it may");
    drop(heap);
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    assert!(text.contains("<metronome-thread") && text.contains("far away: pinning to CPU 1023"), "{text}");
}

#[test]
fn a_real_time_mutator_and_the_collector_both_come_forward() {
    let heap = heap_with(&[]);
    let rounds = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&rounds);
    let watch = heap.clone();
    let thread = heap
        .spawn_realtime(named("task", 5), move |m| {
            let kept = Root::new(m, list(m, 100));
            // By counts: until enough cycles have completed beside it.
            while watch.glance().cycles < 20 {
                churn(m, 50);
                counted.fetch_add(1, SeqCst);
                // A periodic task sleeps between its jobs; without it, this thread could keep all others from a CPU.
                m.blocking(|| std::thread::sleep(std::time::Duration::from_micros(200)));
            }
            check_list(m, kept.get(m), 100);
        })
        .unwrap();
    thread.join_outside().unwrap();
    assert!(rounds.load(SeqCst) > 0);
    // A quantum is counted some time after its release, when its last mutator has run on.
    let counted = (0..10_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        heap.stats().quanta >= 20
    });
    assert!(counted, "{:?}", heap.glance());
}
