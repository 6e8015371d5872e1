//! Passes what a heap does to sinks, on a thread of its own.

use crate::model::{Event, Record};
use crate::sink::Sink;
use metronome_gc::{Heap, Watch};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the ring is emptied; the heap fills it every 50 ms.
const LOOK: Duration = Duration::from_millis(20);

/// Records that the ring between heap and tap holds: some seconds of a busy collector.
pub const RING: usize = 8192;

/// A named output of a [`Tap`].
pub type Output = (String, Box<dyn Sink + Send>);

/// A thread that takes what a heap does and gives it to sinks. It ends with the heap; dropping it ends it before.
///
/// It does not keep the heap open. What it cannot take in time is lost, and said by a record [`Event::Lost`].
#[derive(Debug)]
pub struct Tap {
    thread: Option<JoinHandle<Vec<(String, io::Error)>>>,
    quit: Option<Sender<()>>,
    /// The process that has the thread: a forked child does not.
    process: u32,
}

impl Tap {
    /// Taps a heap from now on; `ring` records may wait ([`RING`] is a good number).
    ///
    /// # Errors
    /// That of starting a thread.
    pub fn start(heap: &Heap, ring: usize, outputs: Vec<Output>) -> io::Result<Tap> {
        let watch = heap.watch(ring);
        let (quit, asked) = channel();
        let thread = std::thread::Builder::new()
            .name("metronome-tap".into())
            .spawn(move || pump(watch, &asked, outputs))?;
        Ok(Tap { thread: Some(thread), quit: Some(quit), process: std::process::id() })
    }

    /// Waits until the heap is closed and everything has been passed on. Gives the outputs that failed, with their errors:
    /// each ends there, the others go on.
    #[must_use]
    pub fn finish(mut self) -> Vec<(String, io::Error)> {
        self.join()
    }

    fn join(&mut self) -> Vec<(String, io::Error)> {
        if self.process != std::process::id() {
            std::mem::forget(self.thread.take());
        }
        let panicked = |_| vec![("tap".to_owned(), io::Error::other("an output panicked"))];
        self.thread.take().map_or_else(Vec::new, |t| t.join().unwrap_or_else(panicked))
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.quit = None;
        self.join();
    }
}

fn pump(mut watch: Watch, quit: &Receiver<()>, outputs: Vec<Output>) -> Vec<(String, io::Error)> {
    let mut outputs = Outputs { good: outputs, failed: Vec::new() };
    let start = watch.watched().start_ns;
    outputs.take(&Record::begin(watch.watched()));
    let (mut last_ns, mut lost) = (0, 0);
    loop {
        // In this order: what comes in between is taken in the next round.
        let ended = watch.ended();
        while let Some(seen) = watch.try_next() {
            let record = Record::of(seen, start);
            last_ns = record.ns;
            outputs.take(&record);
        }
        let missing = watch.lost() - lost;
        if missing > 0 {
            lost += missing;
            let event = Event::Lost { count: missing, place: "watch".into() };
            outputs.take(&Record { ns: last_ns, event });
        }
        outputs.each(|s| s.flush());
        if ended {
            outputs.take(&Record { ns: last_ns, event: Event::End });
            break;
        }
        if quit.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    outputs.each(|s| s.end());
    outputs.failed
}

struct Outputs {
    good: Vec<Output>,
    failed: Vec<(String, io::Error)>,
}

impl Outputs {
    fn take(&mut self, record: &Record) {
        self.each(|s| s.take(record));
    }

    /// Calls each; one that fails is called no more.
    fn each(&mut self, mut f: impl FnMut(&mut (dyn Sink + Send)) -> io::Result<()>) {
        let failed = &mut self.failed;
        self.good.retain_mut(|(name, sink)| match f(&mut **sink) {
            Ok(()) => true,
            Err(e) => {
                failed.push((name.clone(), e));
                false
            }
        });
    }
}
