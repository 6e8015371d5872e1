//! Verification of heaps with threads of their own: on demand while mutators run, by the option, and the end of a process
//! whose heap is damaged.
#![forbid(unsafe_code)]

use metronome_gc::config::{Config, Verify};
use metronome_gc::testing::{TestHeap, corrupt_used_while};
use metronome_gc::{Collect, Global, Heap, Payload, Root, Slot, Trace, VerifyError};
use std::collections::HashMap;
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
    assert_eq!((stats.remarked_cycles, stats.verified_cycles), (stats.cycles, stats.cycles));
    assert!(stats.remarked_cycles >= 3);
    assert_eq!((stats.floating.objects, stats.floating_total.objects), (0, 0));
}

/// Not tests of their own: what the test of variables runs as another process.
#[test]
#[ignore = "depends on the environment"]
fn child_that_reads_no_environment() {
    match Heap::builder().heap_bytes(4 << 20).build() {
        Ok(heap) => println!("built: {} {}", heap.config().get("verify"), heap.config().get("stress")),
        Err(e) => println!("not built: {e}"),
    }
}

/// Variables of a program that reads none: empty is not set, and an error names the variable.
#[test]
fn variables_that_are_empty_or_wrong() {
    let child = |variable: &str, value: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "child_that_reads_no_environment", "--nocapture"]);
        command.env_remove("METRONOME_VERIFY").env_remove("METRONOME_STRESS").env(variable, value);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    for variable in ["METRONOME_VERIFY", "METRONOME_STRESS"] {
        for empty in ["", " "] {
            let out = child(variable, empty);
            assert!(out.contains("built: off none"), "{variable}: {out}");
        }
        let out = child(variable, "often");
        assert!(out.contains(&format!("not built: {variable}: ")), "{out}");
    }
    assert!(child("METRONOME_VERIFY", "all").contains("built: all none"));
    assert!(child("METRONOME_STRESS", "steps=3,seed=5").contains("built: off steps=3,seed=5"));
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

/// Between any two steps of a cycle, while the program goes on allocating, a sound heap is found to be sound.
#[test]
fn after_each_step_of_a_cycle() {
    let config = Config { heap: 16 << 20, verify: Some(Verify::OFF), ..Config::default() };
    let heap = TestHeap::new(config).unwrap();
    let mut phases: HashMap<&str, u32> = HashMap::new();
    for _ in 0..3 {
        heap.enter(|m| {
            // Regions of several classes, with and without drop glue, that keep a part of their cells.
            let kept: Vec<_> = (0..600)
                .filter_map(|i| {
                    let node = m.alloc(NodeInit { next: None }).unwrap();
                    let _dropped = m.alloc(Payload(String::new())).unwrap();
                    let array = m.alloc_array(600 + i % 7, |i| i).unwrap();
                    (i % 20 == 0).then(|| (Root::new(m, node), Root::new(m, array)))
                })
                .collect();
            loop {
                let steps = heap.at_safepoint(m, |heap| {
                    let steps = heap.steps(1);
                    let found = heap.verify();
                    assert!(found.is_ok(), "after {:?} in {}: {found:?}", steps.names, heap.phase().name());
                    steps
                });
                *phases.entry(heap.phase().name()).or_default() += 1;
                if steps.done {
                    break;
                }
                // The program takes regions from lists and from the pool meanwhile.
                for i in 0..20 {
                    let _ = m.alloc(NodeInit { next: None }).unwrap();
                    let _ = m.alloc_array(i, |i| i).unwrap();
                }
            }
            drop(kept);
        });
        heap.reap();
    }
    assert!(phases["sweep"] > 10, "{phases:?}");
}
