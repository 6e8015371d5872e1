//! What the tests of memory, collections and notifications share.
// Each of the test programs uses a part of it.
#![allow(dead_code)]

use metronome_gc::verbosegc::model::{self, CycleReason, Departure, Event, Resize, SyncGc};
use metronome_gc::verbosegc::reader::{Diagnostic, DiagnosticKind, read_log};
use metronome_gc::{AllocError, Collect, Config, Gc, Heap, HeapBuilder, Mutator, Root, Slot, Trace};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// 256 bytes with its header.
#[derive(Trace)]
pub(crate) struct Block {
    pub(crate) next: Slot<Block>,
    pub(crate) id: u64,
    rest: [u64; 29],
}

/// Bytes of a block's cell.
pub(crate) const BLOCK: u64 = 256;

pub(crate) fn block<'m>(
    m: &'m Mutator<'_>,
    id: u64,
    next: Option<Gc<'m, Block>>,
) -> Result<Gc<'m, Block>, AllocError> {
    m.alloc(BlockInit::chained(id, next))
}

impl<'m> BlockInit<'m> {
    /// A block that refers to none.
    pub(crate) fn of(id: u64) -> Self {
        BlockInit::chained(id, None)
    }

    pub(crate) fn chained(id: u64, next: Option<Gc<'m, Block>>) -> Self {
        BlockInit { next, id, rest: [id; 29] }
    }
}

/// A list of blocks with the ids `n - 1` to 0. Waits for memory where it must; others may be faster some times.
pub(crate) fn list(m: &mut Mutator<'_>, n: u64) -> Root<Block> {
    let mut root: Option<Root<Block>> = None;
    for id in 0..n {
        let mut tries = 0;
        let next = loop {
            match block(m, id, root.as_ref().map(|r| r.get(m))) {
                Ok(b) => break Root::new(m, b),
                Err(e) => {
                    tries += 1;
                    assert!(tries < 1000, "block {id} of {n}, after a thousand safepoints: {e}");
                    m.safepoint();
                }
            }
        };
        root = Some(next);
        if id % 64 == 0 {
            m.safepoint();
        }
    }
    root.expect("a list of at least one")
}

/// Checks a list of `list`.
pub(crate) fn check(m: &mut Mutator<'_>, root: &Root<Block>, n: u64) {
    let (mut at, mut id) = (Some(root.get(m)), n);
    while let Some(b) = at {
        id -= 1;
        assert_eq!((b.id, b.rest[28]), (id, id));
        at = b.next.load(m);
        m.poll();
    }
    assert_eq!(id, 0);
}

/// Makes garbage until an allocation fails: always, since without a safepoint no cycle can end.
pub(crate) fn fill_with_garbage(m: &Mutator<'_>) -> AllocError {
    loop {
        if let Err(e) = block(m, 0, None) {
            return e;
        }
    }
}

/// Live data until an allocation fails although the mutator came by a safepoint.
pub(crate) fn fill_with_data(m: &mut Mutator<'_>) -> Root<Block> {
    let mut root = Root::new(m, block(m, 0, None).expect("there is room for one"));
    let mut failed = 0;
    while failed < 2 {
        match block(m, 0, Some(root.get(m))) {
            Ok(b) => {
                root = Root::new(m, b);
                failed = 0;
            }
            Err(_) => {
                failed += 1;
                if failed < 2 {
                    m.safepoint();
                }
            }
        }
    }
    root
}

/// Waits until `done`, with a limit far beyond what any machine needs, so that a failure is one and not a hang.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("never happened: {what}");
}

/// Tells others to end when it goes, also by a panic.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The text of the panic of `f`.
pub(crate) fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(_) => panic!("it did not panic"),
        Err(e) => match e.downcast::<String>() {
            Ok(text) => *text,
            Err(e) => e.downcast_ref::<&str>().map_or_else(String::new, |s| (*s).to_owned()),
        },
    }
}

/// A builder with these settings over the defaults.
pub(crate) fn builder(heap_mib: u64, settings: &[(&str, &str)]) -> HeapBuilder {
    let mut config = Config { heap: heap_mib << 20, memory_watch: false, ..Config::DEFAULT };
    for (name, value) in settings {
        config.set(name, value).expect("the setting is valid");
    }
    Heap::builder().config(config)
}

/// A full collection; a slow machine may need several times `memory-wait`.
pub(crate) fn full(heap: &Heap) {
    assert!((0..20).any(|_| heap.collect(Collect::Full).is_ok()), "the collection does not end");
}

/// A mutator on a thread of its own that polls without a safepoint, so that no cycle can end, until it is let go.
pub(crate) struct Holder {
    go: std::sync::Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Holder {
    pub(crate) fn new(heap: &Heap, name: &str) -> Holder {
        let (heap, go) = (heap.clone(), std::sync::Arc::new(AtomicBool::new(false)));
        let (told, inside) = std::sync::mpsc::channel();
        let body = {
            let go = std::sync::Arc::clone(&go);
            move || {
                heap.enter(|m| {
                    told.send(()).expect("the test waits for it");
                    while !go.load(Relaxed) {
                        m.poll();
                        std::thread::yield_now();
                    }
                });
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(body).expect("a thread can be had");
        inside.recv().expect("the thread is inside");
        Holder { go, thread: Some(thread) }
    }

    pub(crate) fn let_go(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.go.store(true, Relaxed);
        if let Some(t) = self.thread.take() {
            t.join().expect("it does not panic");
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.end();
    }
}

/// A verbose log in the system's folder for temporary files.
pub(crate) struct Log(PathBuf);

impl Log {
    pub(crate) fn new() -> Log {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("metronome-memory-{}-{}.xml", std::process::id(), NEXT.fetch_add(1, Relaxed));
        Log(std::env::temp_dir().join(name))
    }

    /// A builder with these settings, that writes here.
    pub(crate) fn builder(&self, heap_mib: u64, settings: &[(&str, &str)]) -> HeapBuilder {
        builder(heap_mib, settings).set("verbose-gc", self.0.to_str().expect("a path in UTF-8"))
    }

    /// Closes the heap and reads what it has written.
    pub(crate) fn read(self, heap: Heap) -> Events {
        let (events, mut diagnostics) = self.read_torn(heap);
        // A cycle may be under way when the heap is closed.
        diagnostics.retain(|d| d.text != "the run ends inside a cycle");
        // What other threads tell the writer comes after the collector's events of that time.
        if events.events.iter().any(|e| matches!(e, Event::Note(_) | Event::Resize(_))) {
            diagnostics.retain(|d| d.kind != DiagnosticKind::Clock);
        }
        assert_eq!(diagnostics, []);
        events
    }

    /// The same for a heap that has lost events; what the reader finds missing besides.
    pub(crate) fn read_torn(self, heap: Heap) -> (Events, Vec<Diagnostic>) {
        drop(heap);
        let text = std::fs::read_to_string(&self.0).expect("the log is there");
        let log = read_log(text.as_bytes()).expect("it can be read");
        assert!(log.complete, "the log has no end");
        let events = log.runs.into_iter().flat_map(|r| r.events).map(|e| e.event).collect();
        (Events { text, events }, log.diagnostics)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A log's content.
pub(crate) struct Events {
    pub(crate) text: String,
    pub(crate) events: Vec<Event>,
}

impl Events {
    fn all<T>(&self, f: impl FnMut(&Event) -> Option<T>) -> Vec<T> {
        self.events.iter().filter_map(f).collect()
    }

    /// Why cycles began.
    pub(crate) fn cycles(&self) -> Vec<CycleReason> {
        self.all(|e| match e {
            Event::CycleStart(edge) => Some(edge.reason.clone().expect("every cycle has a reason")),
            _ => None,
        })
    }

    /// Synchronous collections.
    pub(crate) fn syncs(&self) -> Vec<SyncGc> {
        self.all(|e| if let Event::SyncGc(s) = e { Some((**s).clone()) } else { None })
    }

    /// Their reasons.
    pub(crate) fn sync_reasons(&self) -> Vec<model::SyncReason> {
        self.syncs().into_iter().map(|s| s.reason.expect("every collection has a reason")).collect()
    }

    pub(crate) fn departures(&self) -> Vec<Departure> {
        self.all(|e| if let Event::Departure(d) = e { Some(d.clone()) } else { None })
    }

    pub(crate) fn resizes(&self) -> Vec<Resize> {
        self.all(|e| if let Event::Resize(r) = e { Some(r.clone()) } else { None })
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        self.all(|e| if let Event::Note(n) = e { Some(n.text.clone()) } else { None })
    }
}
