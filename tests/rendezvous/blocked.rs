//! A mutator that sleeps in the kernel without saying so is named; one that computes is not.

use crate::common::eventually;
use metronome_gc::{Heap, Stats};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

static RUNS: AtomicU32 = AtomicU32::new(0);

/// Runs `f` as the mutator `name` in a heap whose collector has work all the time, until `enough` of its statistics;
/// then `end`. The last statistics and the log.
fn run(
    name: &str,
    f: impl FnOnce() + Send + 'static,
    enough: impl Fn(&Stats) -> bool,
    end: impl FnOnce(),
) -> (Stats, String) {
    let n = RUNS.fetch_add(1, SeqCst);
    let log = std::env::temp_dir().join(format!("metronome-blocked-{}-{n}.xml", std::process::id()));
    let heap = Heap::builder()
        .heap_bytes(8 << 20)
        .set("report-blocked", "true")
        .set("cycle-interval", "1ms")
        .set("verbose-gc", log.to_str().unwrap())
        .build()
        .unwrap();
    let thread = heap.spawn(name, move |_| f()).unwrap();
    eventually("the collector noticed it", || enough(&heap.stats()));
    end();
    thread.join_outside().unwrap();
    let stats = heap.stats();
    drop(heap);
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    (stats, text)
}

#[test]
fn a_mutator_that_sleeps_in_the_kernel_is_named() {
    if std::fs::read_to_string("/proc/thread-self/stat").is_err() {
        println!("skipped: no /proc here");
        return;
    }
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let (stats, log) = run(
        "reads a (pipe)",
        move || reader.read_exact(&mut [0u8]).unwrap(),
        |stats| !stats.blocked_in_kernel.is_empty(),
        move || writer.write_all(&[1]).unwrap(),
    );
    assert!(
        stats.blocked_in_kernel.iter().all(|(name, n)| name == "reads a (pipe)" && *n >= 1),
        "{stats:#?}"
    );
    let notes = log.matches("mutator reads a (pipe) is blocked in the kernel").count() as u64;
    assert_eq!(notes, stats.blocked_in_kernel[0].1, "{log}");
    assert!(notes <= stats.elapsed_ns / 1_000_000_000 + 1, "at most one each second");
}

#[test]
fn a_mutator_that_computes_is_a_straggler_but_not_blocked() {
    static QUIT: AtomicBool = AtomicBool::new(false);
    let (stats, log) = run(
        "spins",
        || {
            while !QUIT.load(SeqCst) {
                std::hint::spin_loop();
            }
        },
        |stats| stats.stragglers.iter().any(|(name, n)| name == "spins" && *n >= 10),
        || QUIT.store(true, SeqCst),
    );
    assert_eq!(stats.blocked_in_kernel, []);
    assert!(!log.contains("blocked in the kernel"), "{log}");
}
