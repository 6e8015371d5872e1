//! What is busy beside the task: heap threads that keep the collector at work, or as many threads without a heap.

use crate::task::{PERIOD_NS, Task, Times};
use metronome_gc::alarm::{Clock, priority, set_timer_slack};
use metronome_gc::{AllocError, Gc, GcArray, Heap, Mutator, Root, Slot, Trace};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// Objects that each busy thread keeps, and replaces all the time.
const KEPT: usize = 40_000;
/// Replacements between two stretches of arithmetic.
const BATCH: usize = 64;
/// The contrasting task's: below the collector's (10).
const PRIORITY: u8 = 5;

#[derive(Trace)]
struct Block {
    words: [u64; 12],
    next: Slot<Block>,
}

struct Boxed {
    words: [u64; 12],
    _next: Option<Box<u64>>,
}

#[derive(Default)]
struct Signals {
    quit: AtomicBool,
    measure: AtomicBool,
}

/// The running threads.
pub(crate) struct Load {
    signals: Arc<Signals>,
    busy: Vec<JoinHandle<Result<(), String>>>,
    beside: Option<JoinHandle<Result<Times, String>>>,
}

fn next(x: &mut u64) -> usize {
    *x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*x >> 33) as usize % KEPT
}

/// Allocates, waiting at a safepoint when the heap is full.
fn replace(m: &mut Mutator<'_>, kept: &Root<GcArray<Slot<Block>>>, at: usize) -> Result<(), String> {
    for _ in 0..100 {
        let made = m.alloc(BlockInit { words: [at as u64; 12], next: None });
        match made {
            Ok(block) => {
                kept.get(m).store(m, at, block);
                return Ok(());
            }
            Err(AllocError::Exhausted { .. }) => m.safepoint(),
            Err(e) => return Err(e.to_string()),
        }
    }
    Err("the busy threads' heap stays full".into())
}

fn busy_in_heap(heap: &Heap, task: &Task, signals: &Signals, seed: u64) -> Result<(), String> {
    heap.enter(|m| {
        let kept = m.alloc_slots(KEPT).map_err(|e| e.to_string())?;
        let kept = Root::new(m, kept);
        let mut x = seed;
        while !signals.quit.load(Relaxed) {
            for _ in 0..BATCH {
                replace(m, &kept, next(&mut x))?;
            }
            m.safepoint();
            black_box(task.work(x));
            let at = next(&mut x);
            black_box(
                kept.get(m)
                    .load(m, at)
                    .map_or(0, |b: Gc<'_, Block>| b.words[0] + u64::from(b.next.is_null())),
            );
        }
        Ok(())
    })
}

fn busy_outside(task: &Task, signals: &Signals, seed: u64) {
    let mut kept: Vec<Option<Box<Boxed>>> = (0..KEPT).map(|_| None).collect();
    let mut x = seed;
    while !signals.quit.load(Relaxed) {
        for _ in 0..BATCH {
            let at = next(&mut x);
            kept[at] = Some(Box::new(Boxed { words: [at as u64; 12], _next: None }));
        }
        black_box(task.work(x));
        black_box(kept[next(&mut x)].as_ref().map_or(0, |b| b.words[0]));
    }
}

/// The contrasting task's periods; `wait` sleeps, `work` works.
fn periods(signals: &Signals, mut wait: impl FnMut(u64), mut work: impl FnMut(u64)) -> Times {
    // Refused or not: it is the contrast, and the table says where it ran.
    let _ = (priority::set_fifo(PRIORITY), set_timer_slack(1));
    let clock = Clock::monotonic();
    let mut times = Times::new();
    let first = clock.now() + PERIOD_NS;
    let mut k = 0;
    while !signals.quit.load(Relaxed) {
        let intended = first + k * PERIOD_NS;
        wait(intended);
        let start = clock.now();
        work(k);
        if signals.measure.load(Relaxed) {
            times.record(intended, start, clock.now());
        }
        k += 1;
    }
    times
}

fn sleep_until(deadline_ns: u64) {
    loop {
        let now = Clock::monotonic().now();
        if now >= deadline_ns {
            return;
        }
        std::thread::sleep(Duration::from_nanos(deadline_ns - now));
    }
}

impl Load {
    /// No company.
    pub(crate) fn none() -> Load {
        Load { signals: Arc::default(), busy: Vec::new(), beside: None }
    }

    /// Heap threads, and a task like the no-heap one among them.
    pub(crate) fn in_heap(heap: &Heap, threads: usize, task: &Task) -> Load {
        let signals: Arc<Signals> = Arc::default();
        let busy = (0..threads as u64)
            .map(|seed| {
                let (heap, task, signals) = (heap.clone(), task.clone(), Arc::clone(&signals));
                std::thread::spawn(move || busy_in_heap(&heap, &task, &signals, seed))
            })
            .collect();
        let beside = {
            let (heap, task, signals) = (heap.clone(), task.clone(), Arc::clone(&signals));
            std::thread::spawn(move || {
                heap.enter(|m| {
                    // One at a time in either closure; both need the token.
                    let m = std::cell::RefCell::new(m);
                    let wait = |until| m.borrow_mut().blocking(|| sleep_until(until));
                    let work = |k| {
                        black_box(task.work(k));
                        m.borrow_mut().safepoint();
                    };
                    Ok(periods(&signals, wait, work))
                })
            })
        };
        Load { signals, busy, beside: Some(beside) }
    }

    /// As many threads, as busy, without a heap; and a task among them.
    pub(crate) fn outside(threads: usize, task: &Task) -> Load {
        let signals: Arc<Signals> = Arc::default();
        let busy = (0..threads as u64)
            .map(|seed| {
                let (task, signals) = (task.clone(), Arc::clone(&signals));
                std::thread::spawn(move || {
                    busy_outside(&task, &signals, seed);
                    Ok(())
                })
            })
            .collect();
        let beside = {
            let (task, signals) = (task.clone(), Arc::clone(&signals));
            std::thread::spawn(move || {
                Ok(periods(&signals, sleep_until, |k| {
                    black_box(task.work(k));
                }))
            })
        };
        Load { signals, busy, beside: Some(beside) }
    }

    /// Whether the contrasting task's responses count now.
    pub(crate) fn measure(&self, on: bool) {
        self.signals.measure.store(on, Relaxed);
    }

    /// Ends all threads. What the contrasting task measured, if there was one.
    pub(crate) fn stop(self) -> Result<Option<Times>, String> {
        self.signals.quit.store(true, Relaxed);
        for t in self.busy {
            t.join().map_err(|_| "a busy thread panicked".to_owned())??;
        }
        self.beside.map(|t| t.join().map_err(|_| "the contrasting task panicked".to_owned())?).transpose()
    }
}
