//! No-heap threads: threads that no collector ever delays.
//!
//! Such a thread gets a [`NoHeap`] token in place of a mutator. It reaches immortal memory and queues there, and nothing
//! of the collected heap, so it need not stop for a quantum: it is not counted by the gate, has no poll, and runs at a
//! priority above the collector's and the alarm's, if the system grants one. What it is given to run must be `Send` and
//! `'static`, which keeps every `Gc`, `Root`, `Slot` and `Mutator` out at compile time; entering a heap is refused at
//! run time (INV-NO-HEAP).
//!
//! # What is not real-time
//! The promise is about the collector. The program's own calls can still wait for others:
//! - Allocating and freeing ordinary memory (`Box`, `Vec`, a last `Arc`) takes locks of the allocator that any thread may
//!   hold. Preallocate, or use immortal memory.
//! - Making queues, building heaps, `Heap::stats`, joining threads: for the start and the end.
//! - Dropping a [`Global`](crate::Global) or [`Weak`](crate::Weak) is safe at any time and takes no lock: a few atomic
//!   operations, some more if another thread empties an entry at the same moment. The last handle of a *closed* heap
//!   also unmaps its memory, which takes long.
//! - Dropping the last clone of a [`Heap`] tells its threads to end and waits for the alarm only.
//!
//! A no-heap thread that does not sleep can keep the collector from running at all: keep its bursts short against the
//! window, or give it a CPU of its own. Linux takes the CPU from real-time threads that use more than `sched_rt_runtime_us`
//! of a second.

use crate::error::SpawnError;
use crate::heap::Heap;
use crate::immortal::{Immortal, ImmortalArea, ImmortalError, ImmortalValue};
use crate::shared::Shared;
use crate::sync::{AtomicU32, futex_wait};
use crate::thread;
use metronome_alarm::{Clock, affinity, prefault_stack, priority, set_timer_slack};
use metronome_verbosegc::model::ThreadKind;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Smallest and largest stack of a no-heap thread, in bytes.
const STACK_BYTES: std::ops::RangeInclusive<usize> = (16 << 10)..=(64 << 20);
/// What the stack gets besides, for the frames of the thread's start and the spare that prefaulting leaves.
const STACK_EXTRA: usize = 192 << 10;

/// What a no-heap thread asks of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoHeapOptions {
    /// `SCHED_FIFO` priority, above the heap's `gc-priority` and `alarm-priority`, at most 99; 0 (the default) asks for
    /// none, and the thread runs with the policy of its maker.
    pub priority: u8,
    /// CPU that the thread is pinned to; `None` (the default) for any.
    pub cpu: Option<usize>,
    /// Bytes of stack that are touched, and locked in memory where that is allowed, before the thread's work begins:
    /// 16 KiB to 64 MiB; 256 KiB by default. Going deeper than that faults pages in.
    pub stack_bytes: usize,
    /// The thread's name; `metronome-free` by default. Linux shows the first 15 bytes.
    pub name: String,
}

impl Default for NoHeapOptions {
    fn default() -> Self {
        NoHeapOptions { priority: 0, cpu: None, stack_bytes: 256 << 10, name: "metronome-free".into() }
    }
}

impl NoHeapOptions {
    fn check(&self, shared: &Shared) -> Result<(), SpawnError> {
        let (requested, gc_priority, alarm_priority) =
            (self.priority, shared.config.gc_priority, shared.config.alarm_priority);
        if requested > priority::MAX_PRIORITY {
            return Err(SpawnError::PriorityOutOfRange { requested });
        }
        if requested > 0 && requested <= gc_priority.max(alarm_priority) {
            return Err(SpawnError::PriorityNotAbove { requested, gc_priority, alarm_priority });
        }
        if !STACK_BYTES.contains(&self.stack_bytes) {
            return Err(SpawnError::Stack {
                requested_bytes: self.stack_bytes,
                min_bytes: *STACK_BYTES.start(),
                max_bytes: *STACK_BYTES.end(),
            });
        }
        if self.name.contains('\0') {
            return Err(SpawnError::Name);
        }
        Ok(())
    }

    /// Gets the calling thread what these ask for; what was refused. Bounded by the stack's size and five system calls.
    fn take_place(&self) -> Vec<String> {
        let mut refused = Vec::new();
        let mut note = |why: &dyn fmt::Display| refused.push(format!("no-heap thread {}: {why}", self.name));
        if let Some(cpu) = self.cpu
            && let Err(e) = affinity::pin(cpu)
        {
            note(&e);
        }
        if let Err(e) = set_timer_slack(1) {
            note(&e);
        }
        if let Some(e) = prefault_stack(self.stack_bytes).refused {
            note(&e);
        }
        // Last, so that the faults above are taken at the maker's priority.
        if self.priority > 0
            && let Err(e) = priority::set_fifo(self.priority)
        {
            note(&e);
        }
        refused
    }
}

/// What a no-heap thread has in place of a mutator: access to immortal memory, and to no heap.
///
/// Neither `Send` nor `Sync`: it is its thread's.
pub struct NoHeap {
    area: Arc<ImmortalArea>,
    _thread: PhantomData<*mut ()>,
}

impl NoHeap {
    /// Puts a value into the heap's immortal memory. Wait-free; see [`ImmortalArea::immortal`].
    ///
    /// # Errors
    /// [`ImmortalError`] with the value if there is no room.
    pub fn immortal<T: ImmortalValue>(&self, value: T) -> Result<Immortal<T>, ImmortalError<T>> {
        self.area.immortal(value)
    }

    /// The heap's immortal memory, for its figures and for making queues.
    #[must_use]
    pub fn immortal_area(&self) -> &ImmortalArea {
        &self.area
    }

    /// The monotonic time in nanoseconds, as [`sleep_until`](NoHeap::sleep_until) counts it. About 25 ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        Clock::monotonic().now()
    }

    /// Sleeps until the monotonic time `deadline_ns`; returns at once if it is over. For periodic work: add the period to
    /// the deadline and not to the time of waking, so that lateness does not add up. One system call.
    pub fn sleep_until(&self, deadline_ns: u64) {
        let never = AtomicU32::new(0);
        while self.now_ns() < deadline_ns {
            futex_wait(&never, 0, Some(deadline_ns));
        }
    }
}

impl fmt::Debug for NoHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoHeap").field("area", &self.area).finish_non_exhaustive()
    }
}

/// A running no-heap thread. Dropping this lets it run on by itself.
#[derive(Debug)]
pub struct NoHeapThread<R> {
    handle: JoinHandle<R>,
    refusals: Vec<String>,
}

impl<R> NoHeapThread<R> {
    /// What the system refused (priority, CPU, locked stack, timer slack), with reasons and remedies; empty if nothing.
    #[must_use]
    pub fn refusals(&self) -> &[String] {
        &self.refusals
    }

    /// Whether the thread's work is done.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Waits for the thread's end and returns what its closure returned. Inside a heap, call it in
    /// [`Mutator::blocking`](crate::Mutator::blocking).
    ///
    /// # Errors
    /// The payload of the closure's panic.
    pub fn join(self) -> std::thread::Result<R> {
        self.handle.join()
    }
}

/// Starts a no-heap thread that uses this heap's immortal memory.
pub(crate) fn spawn<R: Send + 'static>(
    shared: &Shared,
    options: NoHeapOptions,
    f: impl FnOnce(&NoHeap) -> R + Send + 'static,
) -> Result<NoHeapThread<R>, SpawnError> {
    options.check(shared)?;
    let area = Arc::clone(&shared.immortal);
    let (name, asked, cpu) = (options.name.clone(), options.priority, options.cpu);
    let (tell, told) = mpsc::channel();
    let handle = std::thread::Builder::new()
        .name(options.name.clone())
        .stack_size(options.stack_bytes + STACK_EXTRA)
        .spawn(move || {
            thread::set_no_heap();
            // The receiver waits for this one message.
            let _ = tell.send(options.take_place());
            drop((tell, options));
            f(&NoHeap { area, _thread: PhantomData })
        })
        .map_err(SpawnError::Thread)?;
    // An error means that the thread has ended before it could tell: `join` will say why.
    let refusals = told.recv().unwrap_or_default();
    shared.tell_thread(ThreadKind::NoHeap, name, asked, cpu, &refusals);
    Ok(NoHeapThread { handle, refusals })
}

impl Heap {
    /// Puts a value into this heap's immortal memory. Any thread, inside the heap or not; wait-free.
    ///
    /// ```
    /// let heap = metronome_gc::Heap::builder().build()?;
    /// let limits: metronome_gc::Immortal<[u32; 2]> = heap.immortal([3, 8])?;
    /// drop(heap);
    /// assert_eq!(limits[1], 8); // it outlives even the heap
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ImmortalError`] with the value if there is no room.
    pub fn immortal<T: ImmortalValue>(&self, value: T) -> Result<Immortal<T>, ImmortalError<T>> {
        self.immortal_area().immortal(value)
    }

    /// This heap's immortal memory, for its figures and for making queues.
    #[must_use]
    pub fn immortal_area(&self) -> &ImmortalArea {
        &self.shared().immortal
    }

    /// Starts a no-heap thread: one that no collector delays, with access to immortal memory only (see
    /// [`no_heap`](crate::no_heap)). Returns when the thread has asked the system for its place and touched its stack.
    ///
    /// It may outlive the heap. Inside a heap, call this in [`Mutator::blocking`](crate::Mutator::blocking).
    ///
    /// ```
    /// use metronome_gc::{Heap, no_heap::NoHeapOptions, queue::WaitFreeWriteQueue};
    ///
    /// let heap = Heap::builder().build()?;
    /// let (mut samples, reader) = WaitFreeWriteQueue::<u64>::new(heap.immortal_area(), 64)?;
    /// let options = NoHeapOptions { name: "sampler".into(), priority: 20, ..NoHeapOptions::default() };
    /// let sampler = heap.spawn_no_heap(options, move |n| {
    ///     let mut next = n.now_ns();
    ///     for sample in 0..10 {
    ///         next += 500_000;
    ///         n.sleep_until(next);
    ///         let _ = samples.write(sample); // full: this sample is lost, and nobody waits
    ///     }
    /// })?;
    /// for refusal in sampler.refusals() {
    ///     eprintln!("running without: {refusal}");
    /// }
    /// let sum = heap.enter(|m| {
    ///     let mut sum = 0;
    ///     while let Ok(sample) = reader.read(m) {
    ///         sum += sample;
    ///     }
    ///     sum
    /// });
    /// assert_eq!(sum, 45);
    /// sampler.join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SpawnError`] for options that are out of range, or if the thread cannot be started. What the system refuses of
    /// them is no error: see [`NoHeapThread::refusals`].
    pub fn spawn_no_heap<R: Send + 'static>(
        &self,
        options: NoHeapOptions,
        f: impl FnOnce(&NoHeap) -> R + Send + 'static,
    ) -> Result<NoHeapThread<R>, SpawnError> {
        spawn(self.shared(), options, f)
    }
}
