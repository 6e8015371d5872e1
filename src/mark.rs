//! The mark queue: marking without recursion, with prefetching, in bounded steps.
//!
//! # State
//! A reference found in a slot first waits in a small ring while its mark and its object are being fetched
//! (Cher, Hosking, Vitek, *Software prefetching for mark-sweep garbage collection*, ASPLOS 2004; what waits is the
//! reference and not the object, as in Garner, Blackburn, Frampton, *Effective prefetch for mark-sweep garbage
//! collection*, ISMM 2007). When it leaves the ring it is marked; if it was not marked before, it goes on the stack, from
//! which it is scanned at once, while it is in the cache. A full stack spills to grey bits beside the mark bits, so
//! that nothing is ever allocated or lost (INV-MARK-GREY: every marked, unscanned object is in a mark queue or a packet, in
//! a log, or has a grey bit).
//!
//! The oldest entries of the stack may be given away to another queue ([`MarkQueue::give`]): they stand for the most
//! work. Of an array that is being scanned, half of what is left is given.
//!
//! # Who may touch what
//! One thread at a time: the collector's own queue is the collector's, while stopped; for helpers' queues see
//! [`crew`](crate::crew). Marks are set without a locked instruction while [`MarkQueue::alone`] says that no other thread
//! marks: the mutators are stopped (INV-STOP-EXCLUSIVE), and no helper has a seat.
//!
//! # Bound of a step
//! [`STEP_UNITS`] units, where a visited reference, a scanned object and a marked leaf count one each; plus the
//! slots of one object (at most 1023).

use crate::array::{scan_spine, units_of_spine};
use crate::crew::Work;
use crate::header;
use crate::trace::{Kind, Tracer};
use metronome_arraylet::Space;
use metronome_arraylet::marking::MarkPlace;
use metronome_arraylet::space::prefetch;

/// Units of one mark step.
pub(crate) const STEP_UNITS: u32 = if cfg!(metronome_tiny) { 4 } else { 32 };
const RING: usize = if cfg!(metronome_tiny) { 2 } else { 16 };
/// Most objects on the stack, whatever the configuration says: in a tiny build most of them spill to grey bits.
const STACK_MAX: usize = if cfg!(metronome_tiny) { 4 } else { usize::MAX };

/// An object to scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    cell: *mut u8,
    /// For arrays: the slice to go on with, and the first one that is not to be scanned; 0 and 0 for an object that has not
    /// been looked at.
    slice: u32,
    end: u32,
}

impl Entry {
    pub(crate) const NONE: Entry = Entry { cell: std::ptr::null_mut(), slice: 0, end: 0 };

    /// For the verifier.
    pub(crate) fn cell(&self) -> *mut u8 {
        self.cell
    }

    /// Whether two threads could share what is left of this array.
    fn is_divisible(self) -> bool {
        self.end > self.slice + 1 && self.slice > 0
    }
}

/// Objects to scan.
#[derive(Debug)]
pub(crate) struct MarkQueue {
    stack: Box<[Entry]>,
    /// Entries `bottom..top` are in use.
    bottom: usize,
    top: usize,
    ring: [*mut u8; RING],
    ring_head: usize,
    ring_len: usize,
    units: u32,
    /// No other thread marks at present.
    pub(crate) alone: bool,
    /// Objects that went to grey bits because the stack was full.
    pub(crate) spilled: u64,
    /// Objects scanned in this cycle.
    pub(crate) scanned: u64,
}

// SAFETY: the pointers are heap cells, which have no thread affinity; the queue is used by one thread at a time.
unsafe impl Send for MarkQueue {}

// SAFETY: as above; an entry is a value.
unsafe impl Send for Entry {}

impl MarkQueue {
    /// A queue with room for `entries` objects (at least 2, at most [`STACK_MAX`]), allocated now.
    pub(crate) fn new(entries: usize) -> MarkQueue {
        // Not zero, so that the pages are touched now and not in a quantum.
        let empty = Entry { end: u32::MAX, ..Entry::NONE };
        MarkQueue {
            stack: vec![empty; entries.clamp(2, STACK_MAX)].into_boxed_slice(),
            bottom: 0,
            top: 0,
            ring: [std::ptr::null_mut(); RING],
            ring_head: 0,
            ring_len: 0,
            units: 0,
            alone: false,
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
        self.top == self.bottom && self.ring_len == 0
    }

    /// A reference to mark, or null.
    #[inline]
    pub(crate) fn visit(&mut self, space: &Space, cell: *mut u8) {
        self.units += 1;
        if cell.is_null() {
            return;
        }
        space.mark_place(cell).prefetch();
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
        if self.mark(space.mark_place(cell)) {
            self.push_marked(space, cell);
        }
    }

    #[inline(always)]
    fn mark(&self, place: MarkPlace<'_>) -> bool {
        if self.alone { place.set_alone() } else { place.set() }
    }

    /// An object that is marked already and must be scanned.
    #[inline]
    pub(crate) fn push_marked(&mut self, space: &Space, cell: *mut u8) {
        match self.stack.get_mut(self.top) {
            Some(e) => {
                *e = Entry { cell, ..Entry::NONE };
                self.top += 1;
            }
            None => {
                self.spilled += 1;
                space.push_grey(cell);
            }
        }
    }

    /// The same for many of them at a time, which nothing has fetched.
    #[inline]
    pub(crate) fn take_marked(&mut self, space: &Space, cell: *mut u8) {
        prefetch(cell);
        self.push_marked(space, cell);
    }

    /// Marks the leaf of an array.
    #[inline]
    pub(crate) fn mark_leaf(&mut self, space: &Space, leaf: *mut u8) {
        self.units += 1;
        let _ = self.mark(space.mark_place(leaf));
    }

    /// One step; false when nothing is left here. `scanned` is called with each object that was scanned: it may be the key
    /// of an ephemeron.
    #[inline]
    pub(crate) fn step(&mut self, space: &Space, mut scanned: impl FnMut(*mut u8)) -> bool {
        self.units = 0;
        while self.units < STEP_UNITS {
            if self.top > self.bottom {
                self.top -= 1;
                let e = self.stack[self.top];
                if self.top == self.bottom {
                    (self.top, self.bottom) = (0, 0);
                }
                self.scan(space, e);
                // Every object that gets its mark while marking is scanned, leaves and spines included.
                if e.slice == 0 {
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
        self.scanned += u64::from(e.slice == 0);
        match info.kind {
            Kind::Leaf => {}
            Kind::Object(trace) => {
                let mut tracer = Tracer { queue: self, space, children: None };
                // SAFETY: the header says that the cell holds the type that this function traces.
                unsafe { trace(e.cell, &mut tracer) };
            }
            Kind::Values => self.scan_array(space, e, false),
            Kind::Slots => self.scan_array(space, e, true),
        }
    }

    /// Scans one slice; what is left of the array stays below what was found in it.
    fn scan_array(&mut self, space: &Space, e: Entry, slots: bool) {
        // SAFETY: the header says that the cell is a complete spine.
        let end = if e.end == 0 { unsafe { units_of_spine(e.cell, slots) } } else { e.end };
        if e.slice + 1 < end {
            // Popping made room, so this always fits.
            self.stack[self.top] = Entry { slice: e.slice + 1, end, ..e };
            self.top += 1;
        }
        if e.slice < end {
            // SAFETY: as above, and the array has that slice.
            unsafe { scan_spine(e.cell, e.slice, slots, self, space) };
        }
    }

    /// Calls `f` with each reference that waits here: for the verifier.
    pub(crate) fn for_each(&self, mut f: impl FnMut(*mut u8)) {
        self.stack[self.bottom..self.top].iter().for_each(|e| f(e.cell));
        (0..self.ring_len).for_each(|i| f(self.ring[(self.ring_head + i) % RING]));
    }
}

impl Work for MarkQueue {
    type Entry = Entry;
    type Heap = Space;
    const NONE: Entry = Entry::NONE;

    fn is_empty(&self) -> bool {
        MarkQueue::is_empty(self)
    }

    /// What another queue could be given without this one running short.
    #[inline]
    fn surplus(&self) -> usize {
        let len = self.top - self.bottom;
        match len {
            0 => 0,
            // An array may be large enough for two.
            1 => usize::from(self.stack[self.bottom].is_divisible()),
            _ => len / 2,
        }
    }

    /// Moves the oldest entries to `to`, at most [`MarkQueue::surplus`] and what fits; returns how many. O(`to.len()`).
    fn give(&mut self, to: &mut [Entry]) -> usize {
        let n = self.surplus().min(to.len());
        // Entries that stay are moved up to the place where the others were.
        let mut keep = self.bottom + n;
        for i in (0..n).rev() {
            let mut e = self.stack[self.bottom + i];
            if e.is_divisible() {
                let middle = e.slice + (e.end - e.slice).div_ceil(2);
                keep -= 1;
                self.stack[keep] = Entry { end: middle, ..e };
                e.slice = middle;
            }
            to[i] = e;
        }
        self.bottom = keep;
        n
    }

    /// Takes entries that another queue gave. They must fit: for a queue that is empty. O(`from.len()`).
    fn take(&mut self, space: &Space, from: &[Entry]) {
        for e in from {
            match self.stack.get_mut(self.top) {
                Some(place) => {
                    *place = *e;
                    self.top += 1;
                }
                // Of an array the whole is scanned once more.
                None => {
                    self.spilled += 1;
                    space.push_grey(e.cell);
                }
            }
        }
    }

    /// Takes everything of another queue, at most `limit` entries at a time; whether there was anything. O(`limit` + ring).
    fn take_over(&mut self, space: &Space, other: &mut Self, limit: usize) -> bool {
        if other.is_empty() {
            return false;
        }
        self.spilled += std::mem::take(&mut other.spilled);
        while other.ring_len > 0 {
            other.settle(space);
        }
        let n = (other.top - other.bottom).min(limit);
        self.take(space, &other.stack[other.bottom..other.bottom + n]);
        other.bottom += n;
        if other.bottom == other.top {
            (other.top, other.bottom) = (0, 0);
        }
        true
    }

    #[inline]
    fn work(&mut self, space: &Space) -> u64 {
        let before = self.scanned;
        self.step(space, |_| ());
        self.scanned - before
    }

    fn clear(&mut self) {
        (self.top, self.bottom) = (0, 0);
        self.ring_len = 0;
    }
}
