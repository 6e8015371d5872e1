//! The mark queue: marking without recursion, with prefetching, in bounded steps.
//!
//! # State
//! A reference found in a slot first waits in a small ring while its mark word and its object are being fetched
//! (Cher, Hosking, Vitek, *Software prefetching for mark-sweep garbage collection*, ASPLOS 2004). When it leaves
//! the ring it is marked; if it was not marked before, it goes on the stack to be scanned. A full stack spills to
//! grey bits beside the mark bits, so that nothing is ever allocated or lost (INV-MARK-GREY: every marked,
//! unscanned object is in the stack, in a log, or has a grey bit).
//!
//! # Who may touch what
//! The collector only, while stopped.
//!
//! # Bound of a step
//! [`STEP_UNITS`] units, where a visited reference, a scanned object and a marked leaf count one each; plus the
//! slots of one object (at most 1023).

use crate::array::scan_spine;
use crate::header;
use crate::trace::{Kind, Tracer};
use metronome_arraylet::Space;
use metronome_arraylet::space::prefetch;

/// Units of one mark step.
pub(crate) const STEP_UNITS: u32 = if cfg!(metronome_tiny) { 4 } else { 64 };
const RING: usize = if cfg!(metronome_tiny) { 2 } else { 8 };
/// Most objects on the stack, whatever the configuration says: in a tiny build most of them spill to grey bits.
const STACK_MAX: usize = if cfg!(metronome_tiny) { 4 } else { usize::MAX };

#[derive(Clone, Copy, Debug)]
struct Entry {
    cell: *mut u8,
    /// For arrays: where to go on.
    position: usize,
}

/// Objects to scan.
#[derive(Debug)]
pub(crate) struct MarkQueue {
    stack: Box<[Entry]>,
    top: usize,
    ring: [*mut u8; RING],
    ring_head: usize,
    ring_len: usize,
    units: u32,
    /// Objects that went to grey bits because the stack was full.
    pub(crate) spilled: u64,
    /// Objects scanned in this cycle.
    pub(crate) scanned: u64,
}

// SAFETY: the pointers are heap cells, which have no thread affinity; the queue is used by one thread at a time.
unsafe impl Send for MarkQueue {}

impl MarkQueue {
    /// A queue with room for `entries` objects (at least 2, at most [`STACK_MAX`]), allocated now.
    pub(crate) fn new(entries: usize) -> MarkQueue {
        // Not zero, so that the pages are touched now and not in a quantum.
        let empty = Entry { cell: std::ptr::null_mut(), position: usize::MAX };
        MarkQueue {
            stack: vec![empty; entries.clamp(2, STACK_MAX)].into_boxed_slice(),
            top: 0,
            ring: [std::ptr::null_mut(); RING],
            ring_head: 0,
            ring_len: 0,
            units: 0,
            spilled: 0,
            scanned: 0,
        }
    }

    /// Begins to count the units of a step of any kind.
    #[inline]
    pub(crate) fn begin_units(&mut self) {
        self.units = 0;
    }

    /// Counts what a step does besides marking: a table's entries looked at, a chunk's entries, regions swept.
    #[inline]
    pub(crate) fn add_units(&mut self, units: u32) {
        self.units += units;
    }

    /// References visited, objects scanned and leaves marked in this step, and what was counted besides.
    #[cfg(feature = "hooks")]
    pub(crate) fn units(&self) -> u32 {
        self.units
    }

    /// Nothing waits here (grey bits are the heap's to know).
    pub(crate) fn is_empty(&self) -> bool {
        self.top == 0 && self.ring_len == 0
    }

    /// A reference to mark, or null.
    #[inline]
    pub(crate) fn visit(&mut self, space: &Space, cell: *mut u8) {
        self.units += 1;
        if cell.is_null() {
            return;
        }
        space.prefetch_mark(cell);
        prefetch(cell);
        if self.ring_len == RING {
            self.settle(space);
        }
        self.ring[(self.ring_head + self.ring_len) % RING] = cell;
        self.ring_len += 1;
    }

    /// Takes the oldest reference out of the ring and marks it.
    #[inline]
    fn settle(&mut self, space: &Space) {
        let cell = self.ring[self.ring_head];
        self.ring_head = (self.ring_head + 1) % RING;
        self.ring_len -= 1;
        if space.mark(cell) {
            self.push_marked(space, cell);
        }
    }

    /// An object that is marked already and must be scanned (from a log, a grey bit).
    #[inline]
    pub(crate) fn push_marked(&mut self, space: &Space, cell: *mut u8) {
        match self.stack.get_mut(self.top) {
            Some(e) => {
                *e = Entry { cell, position: 0 };
                self.top += 1;
            }
            None => {
                self.spilled += 1;
                space.push_grey(cell);
            }
        }
    }

    /// Marks the leaf of an array.
    #[inline]
    pub(crate) fn mark_leaf(&mut self, space: &Space, leaf: *mut u8) {
        self.units += 1;
        space.mark(leaf);
    }

    /// One step; false when nothing is left here. `scanned` is called with each object that was scanned: it may be the key
    /// of an ephemeron.
    #[inline]
    pub(crate) fn step(&mut self, space: &Space, mut scanned: impl FnMut(*mut u8)) -> bool {
        self.units = 0;
        while self.units < STEP_UNITS {
            if self.top > 0 {
                self.top -= 1;
                let e = self.stack[self.top];
                self.scan(space, e);
                // Every object that gets its mark while marking is scanned, leaves and spines included.
                if e.position == 0 {
                    scanned(e.cell);
                }
            } else if self.ring_len > 0 {
                self.settle(space);
                self.units += 1;
            } else {
                return false;
            }
        }
        true
    }

    #[inline]
    fn scan(&mut self, space: &Space, e: Entry) {
        self.units += 1;
        // SAFETY: marked cells that reach the queue hold complete objects (INV-PUBLISH: a reference is stored
        // only after its object was written).
        let Some(info) = (unsafe { header::info(e.cell) }) else {
            debug_assert!(false, "a marked cell without an object");
            return;
        };
        match info.kind {
            Kind::Leaf => {}
            Kind::Object(trace) => {
                let mut tracer = Tracer { queue: self, space, children: None };
                // SAFETY: the header says that the cell holds the type that this function traces.
                unsafe { trace(e.cell, &mut tracer) };
            }
            kind @ (Kind::Values | Kind::Slots) => {
                // Popping made room, so the continuation always fits; it goes below the array's children.
                let slot = self.top;
                self.top += 1;
                self.stack[slot] = Entry { cell: e.cell, position: usize::MAX };
                let slots = matches!(kind, Kind::Slots);
                // SAFETY: the header says that the cell is a complete spine.
                let next = unsafe { scan_spine(e.cell, e.position, slots, self, space) };
                match next {
                    Some(position) => self.stack[slot].position = position,
                    // The array is done: its placeholder is dropped, or passed over when children lie above it.
                    None if self.top == slot + 1 => self.top = slot,
                    None => self.stack[slot] = self.pop_onto(slot),
                }
                return self.count(e.position == 0);
            }
        }
        self.count(true);
    }

    fn pop_onto(&mut self, slot: usize) -> Entry {
        debug_assert!(self.top > slot + 1);
        self.top -= 1;
        self.stack[self.top]
    }

    #[inline]
    fn count(&mut self, first: bool) {
        self.scanned += u64::from(first);
    }

    /// Calls `f` with each reference that waits here: for the verifier.
    pub(crate) fn for_each(&self, mut f: impl FnMut(*mut u8)) {
        self.stack[..self.top].iter().for_each(|e| f(e.cell));
        (0..self.ring_len).for_each(|i| f(self.ring[(self.ring_head + i) % RING]));
    }

    /// Forgets everything: only for the teardown of a heap in the middle of a cycle.
    pub(crate) fn clear(&mut self) {
        self.top = 0;
        self.ring_len = 0;
    }
}
