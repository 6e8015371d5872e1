//! The mark queue: marking without recursion, with prefetching, in bounded steps.
//!
//! # State
//! A reference found in a slot first waits in a small ring while its mark is being fetched (Garner, Blackburn, Frampton,
//! *Effective prefetch for mark-sweep garbage collection*, ISMM 2007: references wait, not objects). When it leaves the ring it is
//! marked. If it was not marked before, the object is fetched while it waits in a second ring (Cher, Hosking, Vitek, *Software
//! prefetching for mark-sweep garbage collection*, ASPLOS 2004), and goes on the stack, from which it is scanned at once. An object
//! whose type has no slots is only marked, without ever being looked at, unless it may be the key of an ephemeron. A full stack
//! spills to grey bits beside the mark bits, so that nothing is ever allocated or lost (INV-MARK-GREY: every marked, unscanned
//! object is in a mark queue or a packet, in a log, or has a grey bit).
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

use crate::array::{Elements, scan_spine, units_of_spine};
use crate::crew::Work;
use crate::header;
use crate::trace::{Kind, Tracer};
use metronome_arraylet::Space;
use metronome_arraylet::marking::MarkPlace;
use metronome_arraylet::space::prefetch;

/// Units of one mark step.
pub(crate) const STEP_UNITS: u32 = if cfg!(metronome_tiny) { 4 } else { 128 };
/// References whose marks are being fetched, and objects that are. Powers of two.
const MARKS: usize = if cfg!(metronome_tiny) { 2 } else { 8 };
const OBJECTS: usize = if cfg!(metronome_tiny) { 2 } else { 16 };
/// Most objects on the stack, whatever the configuration says: in a tiny build most of them spill to grey bits.
const STACK_MAX: usize = if cfg!(metronome_tiny) { 4 } else { usize::MAX };

/// In the low bit of a reference that waits: the object's type has no slots. Cells are aligned to 8 bytes.
const LEAF: usize = 1;

/// The reference without that note.
#[inline(always)]
fn plain(noted: *mut u8) -> *mut u8 {
    noted.map_addr(|a| a & !LEAF)
}

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

/// Pointers in the order in which they came. `N` is a power of two.
#[derive(Debug)]
struct Ring<T, const N: usize> {
    at: [T; N],
    head: usize,
    len: usize,
}

impl<T: Copy, const N: usize> Ring<T, N> {
    const fn new(none: T) -> Ring<T, N> {
        Ring { at: [none; N], head: 0, len: 0 }
    }

    /// Adds `p`; a full ring returns its oldest entry.
    #[inline(always)]
    fn push(&mut self, p: T) -> Option<T> {
        if self.len == N {
            let old = std::mem::replace(&mut self.at[self.head % N], p);
            self.head += 1;
            return Some(old);
        }
        self.at[(self.head + self.len) % N] = p;
        self.len += 1;
        None
    }

    /// Takes the oldest entry.
    #[inline(always)]
    fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let p = self.at[self.head % N];
        self.head += 1;
        self.len -= 1;
        Some(p)
    }

    fn iter(&self) -> impl Iterator<Item = T> {
        (0..self.len).map(|i| self.at[(self.head + i) % N])
    }
}

/// Objects to scan.
#[derive(Debug)]
pub(crate) struct MarkQueue {
    stack: Box<[Entry]>,
    /// Entries `bottom..top` are in use.
    bottom: usize,
    top: usize,
    /// References that are to be marked.
    marks: Ring<(*mut u8, MarkPlace), MARKS>,
    /// Marked objects on their way to the stack.
    objects: Ring<*mut u8, OBJECTS>,
    units: u32,
    /// No other thread marks at present.
    pub(crate) alone: bool,
    /// Objects without slots are scanned too: each may be the key of an ephemeron.
    pub(crate) scan_leaves: bool,
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
            marks: Ring::new((std::ptr::null_mut(), MarkPlace::NONE)),
            objects: Ring::new(std::ptr::null_mut()),
            units: 0,
            alone: false,
            scan_leaves: false,
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
        self.top == self.bottom && self.marks.len == 0 && self.objects.len == 0
    }

    /// A reference to mark, or null.
    #[inline]
    pub(crate) fn visit(&mut self, space: &Space, cell: *mut u8) {
        self.enqueue(space, cell, 0);
    }

    /// A reference to an object whose type has no slots, or null: there is nothing in it to look at.
    #[inline]
    pub(crate) fn visit_leaf(&mut self, space: &Space, cell: *mut u8) {
        self.enqueue(space, cell, LEAF);
    }

    #[inline(always)]
    fn enqueue(&mut self, space: &Space, cell: *mut u8, note: usize) {
        self.units += 1;
        if cell.is_null() {
            return;
        }
        let place = space.mark_place(cell);
        space.prefetch_mark(place);
        if let Some((oldest, place)) = self.marks.push((cell.map_addr(|a| a | note), place)) {
            self.settle(space, oldest, place);
        }
    }

    /// Marks a reference whose mark has been fetched; fetches the object if it was not marked before.
    #[inline(always)]
    fn settle(&mut self, space: &Space, noted: *mut u8, place: MarkPlace) {
        if self.mark(space, place) {
            let cell = plain(noted);
            if noted != cell && !self.scan_leaves {
                self.scanned += 1;
                return;
            }
            prefetch(cell);
            if let Some(oldest) = self.objects.push(cell) {
                self.push_marked(space, oldest);
            }
        }
    }

    /// Lets one of those that wait in the rings go on; false when there is none.
    #[inline]
    fn advance(&mut self, space: &Space) -> bool {
        if let Some((cell, place)) = self.marks.pop() {
            self.settle(space, cell, place);
        } else if let Some(cell) = self.objects.pop() {
            self.push_marked(space, cell);
        } else {
            return false;
        }
        true
    }

    #[inline(always)]
    fn mark(&self, space: &Space, place: MarkPlace) -> bool {
        if self.alone { space.set_mark_alone(place) } else { space.set_mark(place) }
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
        let _ = self.mark(space, space.mark_place(leaf));
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
            } else if self.advance(space) {
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
            Kind::Values => self.scan_array(space, e, Elements::Values),
            Kind::Slots => self.scan_array(space, e, Elements::Slots),
            Kind::LeafSlots => self.scan_array(space, e, Elements::LeafSlots),
        }
    }

    /// Scans one slice; what is left of the array stays below what was found in it.
    fn scan_array(&mut self, space: &Space, e: Entry, elements: Elements) {
        // SAFETY: the header says that the cell is a complete spine.
        let end = if e.end == 0 { unsafe { units_of_spine(e.cell, elements) } } else { e.end };
        if e.slice + 1 < end {
            // Popping made room, so this always fits.
            self.stack[self.top] = Entry { slice: e.slice + 1, end, ..e };
            self.top += 1;
        }
        if e.slice < end {
            // SAFETY: as above, and the array has that slice.
            unsafe { scan_spine(e.cell, e.slice, elements, self, space) };
        }
    }

    /// Calls `f` with each reference that waits here: for the verifier.
    pub(crate) fn for_each(&self, mut f: impl FnMut(*mut u8)) {
        self.stack[self.bottom..self.top].iter().for_each(|e| f(e.cell));
        self.marks.iter().map(|(noted, _)| plain(noted)).chain(self.objects.iter()).for_each(f);
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
        other.scan_leaves = self.scan_leaves;
        while other.advance(space) {}
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
        (self.marks.len, self.objects.len) = (0, 0);
    }
}
