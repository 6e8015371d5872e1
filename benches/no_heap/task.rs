//! The periodic task: the same work every half millisecond, at absolute times.

use hdrhistogram::Histogram;
use metronome_gc::alarm::Clock;
use metronome_gc::queue::{QueueReader, WaitFreeWriteQueue};
use metronome_gc::{Heap, NoHeap};
use std::hint::black_box;
use std::sync::Arc;

/// 2 kHz.
pub(crate) const PERIOD_NS: u64 = 500_000;
const WORK_NS: u64 = 20_000;
const WORDS: usize = 4096;
/// Up to a minute, three digits: a recording never allocates.
const LONGEST_NS: u64 = 60_000_000_000;

pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("valid bounds")
}

/// What a run of the task measured, in nanoseconds.
pub(crate) struct Times {
    /// From the intended start to the completion.
    pub(crate) response: Histogram<u64>,
    /// From the intended start to the start.
    pub(crate) wakeup: Histogram<u64>,
    /// From the start to the completion.
    pub(crate) work: Histogram<u64>,
}

impl Times {
    pub(crate) fn new() -> Times {
        Times { response: histogram(), wakeup: histogram(), work: histogram() }
    }

    pub(crate) fn record(&mut self, intended: u64, start: u64, end: u64) {
        self.response.saturating_record(end.saturating_sub(intended).max(1));
        self.wakeup.saturating_record(start.saturating_sub(intended).max(1));
        self.work.saturating_record(end.saturating_sub(start).max(1));
    }

    pub(crate) fn add(&mut self, other: &Times) {
        for (mine, theirs) in [
            (&mut self.response, &other.response),
            (&mut self.wakeup, &other.wakeup),
            (&mut self.work, &other.work),
        ] {
            mine.add(theirs).expect("the same bounds");
        }
    }
}

/// Where the task leaves its latest result: both ends, of which it uses the wait-free one.
pub(crate) type Mailbox = (WaitFreeWriteQueue<u64>, QueueReader<u64>);

pub(crate) fn mailbox(heap: &Heap) -> Result<Mailbox, String> {
    WaitFreeWriteQueue::new(heap.immortal_area(), 1).map_err(|e| e.to_string())
}

/// The work, of a fixed number of rounds.
#[derive(Clone)]
pub(crate) struct Task {
    table: Arc<[u32]>,
    rounds: u32,
    alone_ns: u64,
}

impl Task {
    /// About 20 µs of work on this machine as it is now.
    pub(crate) fn calibrated() -> Task {
        let table: Arc<[u32]> = (0..WORDS as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
        let mut task = Task { table, rounds: 10_000, alone_ns: 0 };
        let fastest = |task: &Task| {
            let clock = Clock::monotonic();
            let once = |_| {
                let start = clock.now();
                black_box(task.work(1));
                clock.now() - start
            };
            (0..200).map(once).min().unwrap_or(1).max(1)
        };
        let ns = fastest(&task);
        task.rounds = u32::try_from(u64::from(task.rounds) * WORK_NS / ns).unwrap_or(u32::MAX).max(1);
        task.alone_ns = fastest(&task);
        task
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }

    pub(crate) fn alone_us(&self) -> f64 {
        self.alone_ns as f64 / 1e3
    }

    /// One period's work: dependent reads all over the table.
    pub(crate) fn work(&self, seed: u64) -> u64 {
        let mut x = seed | 1;
        for _ in 0..black_box(self.rounds) {
            x = (x ^ u64::from(self.table[x as usize % WORDS]))
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(23);
        }
        x
    }

    /// Runs the task on a no-heap thread. Nothing here allocates, locks or blocks but for the sleep.
    pub(crate) fn measure(&self, n: &NoHeap, (mut mailbox, _reader): Mailbox, seconds: u64) -> Times {
        let mut times = Times::new();
        // The histograms' pages are touched before.
        times.record(1, 1, 1);
        times.response.reset();
        times.wakeup.reset();
        times.work.reset();
        let first = n.now_ns() + PERIOD_NS;
        for k in 0..seconds * 1_000_000_000 / PERIOD_NS {
            let intended = first + k * PERIOD_NS;
            n.sleep_until(intended);
            let start = n.now_ns();
            let _ = mailbox.force(self.work(k));
            times.record(intended, start, n.now_ns());
        }
        times
    }
}
