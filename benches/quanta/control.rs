//! The same without a collector: a thread at the collector's priority that stops as many threads in the plainest way, does
//! steps of arithmetic for as long as a quantum, and lets them run on. What it measures is the machine's.

use crate::Args;
use crate::report::{Figure, Segment};
use metronome_gc::alarm::{Clock, priority, set_timer_slack, thread_cpu_ns};
use std::hint::black_box;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

/// As the collector's.
const PRIORITY: u8 = 10;
/// A step longer than this is measured in CPU time.
const SUSPICIOUS_NS: u64 = 5_000;

#[derive(Default)]
struct Words {
    quit: AtomicBool,
    stop: AtomicU64,
    running: AtomicUsize,
    resumed_ns: AtomicU64,
    resumed: AtomicUsize,
    controller: OnceLock<Thread>,
}

/// About a microsecond of arithmetic.
fn step(x: u64) -> u64 {
    (0..700).fold(x, |x, i| black_box(x.rotate_left(7) ^ i))
}

/// A thread that looks at the word in a loop, leaves when it is odd, and spins until it is even.
fn obey(w: &Words, clock: &Clock) {
    let mut x = 1u64;
    // Relaxed: a flag that carries no data.
    while !w.quit.load(Relaxed) {
        x = black_box(x.rotate_left(5) ^ 7);
        // Acquire: pairs with the Release of the controller.
        let now = w.stop.load(Acquire);
        if now & 1 == 0 {
            continue;
        }
        // SeqCst: the last one to arrive wakes the controller.
        if w.running.fetch_sub(1, SeqCst) == 1 {
            w.controller.get().into_iter().for_each(Thread::unpark);
        }
        // Acquire, Relaxed: as above.
        while w.stop.load(Acquire) == now && !w.quit.load(Relaxed) {
            std::hint::spin_loop();
        }
        w.running.fetch_add(1, SeqCst);
        // Relaxed: figures, published by the count.
        w.resumed_ns.fetch_max(clock.now(), Relaxed);
        w.resumed.fetch_add(1, Release);
    }
}

/// One stop after the other, for a segment.
pub(crate) fn segment(args: &Args) -> Result<Segment, String> {
    let clock = Clock::monotonic();
    let args = *args;
    let w = Arc::new(Words::default());
    // SeqCst, as everywhere: the count.
    w.running.store(args.threads, SeqCst);
    let threads: Vec<_> = (0..args.threads)
        .map(|_| {
            let (w, clock) = (Arc::clone(&w), clock.clone());
            std::thread::spawn(move || obey(&w, &clock))
        })
        .collect();
    let controlled = Arc::clone(&w);
    let controller = std::thread::spawn(move || {
        let w = controlled;
        let refused = priority::set_fifo(PRIORITY).err().map(|e| format!("control: {e}"));
        let _ = set_timer_slack(1);
        let _ = w.controller.set(std::thread::current());
        let (mut stop, mut resume, mut steps, mut over) = <(Figure, Figure, Figure, Figure)>::default();
        let quantum = args.quantum_us * 1_000;
        let end = clock.now() + args.seconds * 1_000_000_000;
        let mut x = 0;
        while clock.now() < end {
            std::thread::sleep(Duration::from_nanos(quantum * 7 / 3));
            // Relaxed: of the last stop, which is over.
            w.resumed.store(0, Relaxed);
            w.resumed_ns.store(0, Relaxed);
            let start = clock.now();
            // Release: pairs with the threads' Acquire.
            w.stop.fetch_add(1, Release);
            while w.running.load(SeqCst) > 0 {
                std::thread::park();
            }
            let work = clock.now();
            stop.add(work - start);
            let cpu_start = thread_cpu_ns();
            let (mut now, mut cpu) = (work, cpu_start);
            while now < start + quantum.saturating_sub(10_000) {
                x = step(x);
                let after = clock.now();
                let mut took = after - now;
                if took > SUSPICIOUS_NS {
                    let c = thread_cpu_ns();
                    took = took.min(c - cpu);
                    cpu = c;
                }
                steps.add(took);
                now = after;
            }
            w.stop.fetch_add(1, Release);
            let end = clock.now();
            let charged = (work - start) + (thread_cpu_ns() - cpu_start);
            over.add(charged.min(end - start).saturating_sub(quantum));
            let limit = end + quantum;
            // Acquire: pairs with the threads' Release.
            while w.resumed.load(Acquire) < args.threads && clock.now() < limit {
                std::thread::sleep(Duration::from_micros(20));
            }
            let last = w.resumed_ns.load(Relaxed);
            let all = w.resumed.load(Acquire) == args.threads;
            resume.add(if all { last.saturating_sub(end) } else { clock.now() - end });
        }
        black_box(x);
        Segment::of_control(stop, resume, steps, over, refused)
    });
    let segment = controller.join().map_err(|_| "the control panicked".to_owned());
    // Relaxed: a flag that carries no data.
    w.quit.store(true, Relaxed);
    threads.into_iter().for_each(|t| drop(t.join()));
    segment
}
