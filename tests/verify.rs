//! Verification of heaps with threads of their own: on demand while mutators run, by the option, and the end of a process
//! whose heap is damaged.
#![forbid(unsafe_code)]

use metronome_gc::testing::corrupt_used_while;
use metronome_gc::{Collect, Global, Heap, Slot, Trace, VerifyError};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
}

fn heap(verify: &str) -> Heap {
    Heap::builder().heap_bytes(8 << 20).set("verify", verify).build().unwrap()
}

#[test]
fn on_demand_while_mutators_run_and_cycles_pass() {
    let heap = heap("off");
    let quit = AtomicBool::new(false);
    std::thread::scope(|t| {
        for _ in 0..2 {
            t.spawn(|| {
                heap.enter(|m| {
                    let list = Global::new(m, m.alloc(NodeInit { next: None }).unwrap());
                    while !quit.load(Relaxed) {
                        for _ in 0..50 {
                            let head = list.get(m);
                            let more = head.next.load(m);
                            if let Ok(n) = m.alloc(NodeInit { next: more }) {
                                head.next.store(m, n);
                            }
                        }
                        // Half of the time the list is let go.
                        if m.alloc_array(2000, |i| i).is_err() || list.get(m).next.load(m).is_some() {
                            list.get(m).next.store(m, None);
                        }
                        m.safepoint();
                    }
                });
            });
        }
        let mut cycles = 0;
        for _ in 0..40 {
            heap.request_cycle();
            cycles = heap.verify().unwrap_or_else(|e| panic!("{e}")).cycles;
        }
        quit.store(true, Relaxed);
        assert!(cycles <= heap.glance().cycles);
    });
    heap.collect(Collect::Full).unwrap();
    assert_eq!(heap.verify().unwrap().reachable, 0);
}

#[test]
fn not_from_inside() {
    let heap = heap("off");
    heap.enter(|m| {
        assert_eq!(heap.verify(), Err(VerifyError::Inside));
        assert_eq!(m.blocking(|| heap.verify()), Err(VerifyError::Inside));
    });
    assert!(VerifyError::Inside.to_string().contains("after `enter`"));
    heap.verify().unwrap();
}

#[test]
fn damage_is_an_error_on_demand() {
    let heap = heap("off");
    match corrupt_used_while(&heap, || heap.verify()) {
        Err(VerifyError::Broken { violations, more: 0 }) => {
            let found: Vec<_> = violations.iter().map(|v| (v.invariant, v.edge)).collect();
            assert_eq!(found, [("INV-HEAP-USED", "demand")]);
        }
        other => panic!("{other:?}"),
    }
    heap.verify().unwrap();
}

#[test]
fn floating_garbage_is_in_the_figures() {
    let heap = heap("remark");
    assert_eq!(heap.config().get("verify"), "remark");
    for _ in 0..3 {
        heap.collect(Collect::Full).unwrap();
    }
    let stats = heap.stats();
    assert_eq!(stats.remarked_cycles, stats.cycles);
    assert!(stats.remarked_cycles >= 3);
    assert_eq!((stats.floating.objects, stats.floating_total.objects), (0, 0));
}

/// Not a test of its own: what the next one runs as another process.
#[test]
#[ignore = "ends the process"]
fn child_with_a_damaged_heap() {
    let heap = Heap::builder().heap_bytes(8 << 20).build().unwrap();
    metronome_gc::testing::corrupt_used(&heap);
    let collected = heap.collect(Collect::Full);
    println!("the process goes on: {collected:?}");
}

#[test]
fn a_damaged_heap_ends_the_process_with_all_that_repeats_it() {
    let run = |verify: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child_with_a_damaged_heap", "--ignored", "--nocapture"]);
        command.env("METRONOME_VERIFY", verify).env("METRONOME_SEED", "77").output().unwrap()
    };
    let out = run("all");
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.signal(), Some(6), "{err}");
    assert!(!String::from_utf8_lossy(&out.stdout).contains("goes on"));
    for part in
        ["INV-HEAP-USED (cycle 1, edge arm): ", "METRONOME_SEED=77 METRONOME_HEAP=8M METRONOME_VERIFY=all"]
    {
        assert!(err.contains(part), "{part:?} is missing in: {err}");
    }
    let out = run("satb");
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && out.status.signal().is_none(), "{err}");
    assert!(err.contains("BadValue") && err.contains("satb"), "{err}");
}
