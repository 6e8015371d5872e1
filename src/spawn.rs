//! Threads that live inside a heap: ordinary ones, and real-time ones below the collector's priority.
//!
//! Whether a thread can enter the heap is decided before it is started: its attachment is set aside, and the new thread
//! takes it over. So a thread that was started runs its closure, and its caller need not wait for it to come that far.

use crate::error::SpawnError;
use crate::heap::Heap;
use crate::mutator::Mutator;
use crate::thread::Reserved;
use metronome_alarm::{affinity, prefault_stack, priority, set_timer_slack};
use metronome_verbosegc::model::ThreadKind;
use std::sync::atomic::Ordering::Relaxed;

/// The largest stack of a real-time thread.
const STACK_MAX: usize = 1 << 30;
/// A real-time thread's stack besides what is prefaulted: for the frames that start the thread, and the spare that
/// prefaulting leaves.
const STACK_EXTRA: usize = 256 << 10;

/// What a real-time thread asks of the system, for [`Heap::spawn_realtime`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealtimeOptions {
    /// Name of the thread, in reports and for the system (which shows the first 15 bytes).
    pub name: String,
    /// `SCHED_FIFO` priority, below the option `gc-priority`; 0 asks for none.
    pub priority: u8,
    /// CPU that the thread is pinned to.
    pub cpu: Option<usize>,
    /// Bytes of stack that are resident and locked before the thread's closure begins; at most 1 GiB. The stack itself is
    /// larger by 256 KiB.
    pub stack_bytes: usize,
}

impl Default for RealtimeOptions {
    /// No priority, no CPU, 1 MiB of stack, the name `realtime`.
    fn default() -> RealtimeOptions {
        RealtimeOptions { name: "realtime".into(), priority: 0, cpu: None, stack_bytes: 1 << 20 }
    }
}

/// A thread inside a heap, started by [`Heap::spawn`]. Dropped, it lets the thread run on, which keeps the heap open.
#[derive(Debug)]
pub struct JoinHandle<R> {
    inner: std::thread::JoinHandle<R>,
}

impl<R> JoinHandle<R> {
    /// Waits as native for the thread's end; what its closure returned. A safepoint.
    ///
    /// # Errors
    /// The payload of its panic.
    ///
    /// # Panics
    /// If a thread joins itself.
    pub fn join(self, m: &mut Mutator<'_>) -> std::thread::Result<R> {
        m.blocking(|| self.inner.join())
    }

    /// As [`join`](JoinHandle::join), on a thread outside the heap. A mutator that calls it holds up the collector until
    /// the other thread has ended.
    ///
    /// # Errors
    /// As `join`.
    ///
    /// # Panics
    /// As `join`.
    pub fn join_outside(self) -> std::thread::Result<R> {
        self.inner.join()
    }

    /// Whether the closure has ended; then joining takes no longer than the thread's clearing up.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }

    /// The thread, for its name and id.
    #[must_use]
    pub fn thread(&self) -> &std::thread::Thread {
        self.inner.thread()
    }
}

/// A real-time thread inside a heap, started by [`Heap::spawn_realtime`].
#[derive(Debug)]
pub struct RealtimeThread<R> {
    handle: JoinHandle<R>,
    refusals: Vec<String>,
}

impl<R> RealtimeThread<R> {
    /// What the system refused (priority, CPU, locked stack, timer slack), with reasons and remedies; empty if nothing.
    #[must_use]
    pub fn refusals(&self) -> &[String] {
        &self.refusals
    }

    /// See [`JoinHandle::join`].
    ///
    /// # Errors
    /// The payload of the closure's panic.
    ///
    /// # Panics
    /// If a thread joins itself.
    pub fn join(self, m: &mut Mutator<'_>) -> std::thread::Result<R> {
        self.handle.join(m)
    }

    /// See [`JoinHandle::join_outside`].
    ///
    /// # Errors
    /// The payload of the closure's panic.
    ///
    /// # Panics
    /// If a thread joins itself.
    pub fn join_outside(self) -> std::thread::Result<R> {
        self.handle.join_outside()
    }

    /// See [`JoinHandle::is_finished`].
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// The thread, for its name and id.
    #[must_use]
    pub fn thread(&self) -> &std::thread::Thread {
        self.handle.thread()
    }
}

impl Heap {
    /// Starts a thread that runs `f` inside this heap. Keeps the heap open until the thread ends.
    ///
    /// As every thread, it inherits the starting one's scheduling policy and CPUs. Costs a thread's start, of which the
    /// caller waits for the system call.
    ///
    /// ```
    /// use metronome_gc::{Heap, Payload};
    ///
    /// let heap = Heap::builder().heap_bytes(4 << 20).build()?;
    /// let sum = heap.enter(|m| {
    ///     let other = heap.spawn("other", |m| m.alloc(Payload(40)).map_or(0, |n| n.0))?;
    ///     Ok::<i32, metronome_gc::SpawnError>(other.join(m).unwrap_or(0) + 2)
    /// });
    /// assert_eq!(sum?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SpawnError`]: the name has a zero byte, the heap has no room for another mutator, the system for another thread.
    pub fn spawn<R: Send + 'static>(
        &self,
        name: &str,
        f: impl FnOnce(&mut Mutator<'_>) -> R + Send + 'static,
    ) -> Result<JoinHandle<R>, SpawnError> {
        self.start_thread(name, std::thread::Builder::new(), || (), f)
    }

    /// Starts a real-time thread that runs `f` inside this heap: under `SCHED_FIFO` at a priority below the collector's,
    /// with its stack resident and locked, on one CPU if asked, with a timer slack of 1 ns.
    ///
    /// The thread is a mutator as every other one: quanta pause it, for at most the share of each window that the target
    /// leaves. It must poll and come by safepoints: at its priority it can keep all ordinary threads from a CPU, and by not
    /// polling the collector from its work. A thread at `gc-priority` − 1 has the priority that stragglers borrow.
    ///
    /// What the system refuses is no error: it is in [`RealtimeThread::refusals`] and in the verbose log. If the collector
    /// itself was refused its priority, this thread's is not asked for, as it would be above the collector's.
    ///
    /// Returns when the thread is set up, which takes a page fault for each page of `stack_bytes`: not for real-time
    /// threads, and on a mutator within [`Mutator::blocking`].
    ///
    /// # Errors
    /// [`SpawnError`]: the priority is not below `gc-priority` (if that is 0, only 0 is), `stack_bytes` is beyond 1 GiB, and
    /// as [`spawn`](Heap::spawn).
    pub fn spawn_realtime<R: Send + 'static>(
        &self,
        options: RealtimeOptions,
        f: impl FnOnce(&mut Mutator<'_>) -> R + Send + 'static,
    ) -> Result<RealtimeThread<R>, SpawnError> {
        let (requested, collector) = (options.priority, self.config().gc_priority);
        if requested > 0 && requested >= collector {
            return Err(SpawnError::PriorityNotBelowCollector { requested, collector });
        }
        let stack = options.stack_bytes;
        if stack > STACK_MAX {
            return Err(SpawnError::Stack { requested_bytes: stack, min_bytes: 0, max_bytes: STACK_MAX });
        }
        let builder = std::thread::Builder::new().stack_size(stack + STACK_EXTRA);
        // Relaxed: written while the heap was built.
        let fifo = self.shared().collector_fifo.load(Relaxed);
        let (name, asked, cpu) = (options.name.clone(), options.priority, options.cpu);
        let (tell, told) = std::sync::mpsc::channel();
        let set_up = move || {
            // The one receiver waits for this one message.
            let _ = tell.send(take_place(&options, collector, fifo));
        };
        let handle = self.start_thread(&name, builder, set_up, f)?;
        let refusals = told.recv().unwrap_or_default();
        self.shared().tell_thread(ThreadKind::Realtime, name, asked, cpu, &refusals);
        Ok(RealtimeThread { handle, refusals })
    }

    fn start_thread<R: Send + 'static>(
        &self,
        name: &str,
        builder: std::thread::Builder,
        set_up: impl FnOnce() + Send + 'static,
        f: impl FnOnce(&mut Mutator<'_>) -> R + Send + 'static,
    ) -> Result<JoinHandle<R>, SpawnError> {
        if name.contains('\0') {
            return Err(SpawnError::Name);
        }
        let place = Reserved::new(self.shared())?;
        let heap = self.clone();
        let body = move || {
            place.adopt();
            set_up();
            heap.enter(f)
        };
        builder.name(name.into()).spawn(body).map(|inner| JoinHandle { inner }).map_err(SpawnError::Thread)
    }
}

/// Gives the calling thread its place; what was refused.
fn take_place(options: &RealtimeOptions, collector: u8, collector_fifo: bool) -> Vec<String> {
    let mut refused = Vec::new();
    let name = &options.name;
    let mut refuse = |e: &dyn std::fmt::Display| refused.push(format!("real-time thread {name}: {e}"));
    if let Err(e) = set_timer_slack(1) {
        refuse(&e);
    }
    if let Some(cpu) = options.cpu
        && let Err(e) = affinity::pin(cpu)
    {
        refuse(&e);
    }
    if let Some(e) = prefault_stack(options.stack_bytes).refused {
        refuse(&e);
    }
    // Last: what it takes above is not done at this priority.
    if options.priority > 0 {
        if !collector_fifo {
            refuse(&format_args!(
                "SCHED_FIFO priority {} not asked for, because the collector was refused its own ({collector}) and would \
                 get no CPU beside it: see the collector's refusal",
                options.priority
            ));
        } else if let Err(e) = priority::set_fifo(options.priority) {
            refuse(&e);
        }
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::EnterError;

    #[test]
    fn a_place_that_no_thread_took_is_given_back() {
        let heap = Heap::builder().heap_bytes(4 << 20).set("max-mutators", "1").build().unwrap();
        for _ in 0..10 {
            let place = Reserved::new(heap.shared()).unwrap();
            let second = Reserved::new(heap.shared()).err();
            assert_eq!(second, Some(EnterError::TooManyMutators { max: 1 }));
            // As when the system refuses the thread.
            drop(place);
        }
        assert!(heap.spawn("takes it", |_| ()).unwrap().join_outside().is_ok());
        heap.enter(|_| ());
    }

    #[test]
    fn beside_a_collector_without_its_priority_none_is_asked_for() {
        std::thread::spawn(|| {
            let options = RealtimeOptions { name: "task".into(), priority: 5, ..RealtimeOptions::default() };
            let refused = take_place(&RealtimeOptions { stack_bytes: 0, ..options }, 10, false);
            let said = refused.iter().find(|r| r.contains("SCHED_FIFO")).expect("it is said");
            assert!(said.contains("task") && said.contains("priority 5") && said.contains("(10)"), "{said}");
            assert_eq!(priority::current_fifo(), None);
        })
        .join()
        .unwrap();
    }
}
