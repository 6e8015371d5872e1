//! Marking: the mark bits, and the grey bits beside them.

use crate::class::{BITMAP_WORDS, REGION_BYTES};
use crate::region::{Bitmap, RegionId, RegionState};
use crate::space::Space;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

/// Where the mark of one cell is: found once, used when it has been fetched. Its number among all of the heap's mark bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkPlace(usize);

impl MarkPlace {
    /// No place of any heap.
    pub const NONE: MarkPlace = MarkPlace(usize::MAX);
}

impl Space {
    /// Marks the cell that holds `p`; true if this call marked it. Any running mutator or the collector. `p` must
    /// point into an allocated cell of this heap. O(1).
    #[inline]
    pub fn mark(&self, p: *const u8) -> bool {
        self.set_mark(self.mark_place(p))
    }

    /// Where the mark of the cell that holds `p` is. As [`Space::mark`]: `p` must point into an allocated cell of this heap, or
    /// one that is not free before the place is used. O(1); reads one dense word for each region and not the mark itself.
    #[inline(always)]
    #[must_use]
    pub fn mark_place(&self, p: *const u8) -> MarkPlace {
        debug_assert!(self.contains(p));
        let id = self.region_of(p);
        let offset = (p.addr() & (REGION_BYTES - 1)) as u64;
        // Relaxed: fixed while the region is in use.
        let i = ((offset * u64::from(self.table.reciprocal(id).load(Relaxed))) >> 32) as usize;
        // Relaxed: the bit was set before the reference could reach this thread.
        debug_assert!(self.meta(id).alloc[i / 64].load(Relaxed) >> (i % 64) & 1 != 0, "marking a free cell");
        MarkPlace(id as usize * (64 * BITMAP_WORDS) + i % (64 * BITMAP_WORDS))
    }

    /// Hints the processor to load the mark.
    #[inline(always)]
    pub fn prefetch_mark(&self, place: MarkPlace) {
        prefetch(std::ptr::from_ref(self.table.mark_word(place.0)).cast());
    }

    /// Sets the mark; true if this call did. Any running mutator or the collector.
    #[inline(always)]
    #[must_use]
    pub fn set_mark(&self, place: MarkPlace) -> bool {
        let (word, mask) = (self.table.mark_word(place.0), 1 << (place.0 % 64));
        // Relaxed: marks are read by the collector after a stop, whose handshake orders them.
        word.load(Relaxed) & mask == 0 && word.fetch_or(mask, Relaxed) & mask == 0
    }

    /// The same without a locked instruction: for a collector that is the only one to mark. *Stopped*.
    #[inline(always)]
    #[must_use]
    pub fn set_mark_alone(&self, place: MarkPlace) -> bool {
        let (word, mask) = (self.table.mark_word(place.0), 1 << (place.0 % 64));
        // Relaxed: nobody else writes marks meanwhile; the next stop or hand-over orders them.
        let old = word.load(Relaxed);
        if old & mask != 0 {
            return false;
        }
        word.store(old | mask, Relaxed);
        true
    }

    /// Whether the cell that holds `p` is marked. O(1).
    #[inline]
    #[must_use]
    pub fn is_marked(&self, p: *const u8) -> bool {
        self.bit(p, |id| self.table.marks(id))
    }

    /// Whether the cell that holds `p` is allocated. O(1).
    #[must_use]
    pub fn is_allocated(&self, p: *const u8) -> bool {
        self.contains(p)
            && self.meta(self.region_of(p)).state() != RegionState::Free
            && self.bit(p, |id| &self.meta(id).alloc)
    }

    /// Whether `p` lies in a region of leaves, whose cells have no header. O(1).
    #[must_use]
    pub fn is_leaf(&self, p: *const u8) -> bool {
        self.contains(p) && self.meta(self.region_of(p)).class() == crate::class::LEAF_CLASS
    }

    /// Whether the cell that holds `p` is condemned. O(1).
    #[must_use]
    pub fn is_condemned(&self, p: *const u8) -> bool {
        self.bit(p, |id| &self.meta(id).condemned)
    }

    fn bit<'a>(&self, p: *const u8, map: impl Fn(u32) -> &'a Bitmap) -> bool {
        debug_assert!(self.contains(p));
        let id = self.region_of(p);
        let i = self.cell_index(self.meta(id), p);
        // Relaxed: see `mark`.
        map(id)[i / 64].load(Relaxed) >> (i % 64) & 1 != 0
    }

    /// Remembers an allocated cell that is yet to be scanned: a marked one when the mark queue or a log is full, or
    /// an unmarked one where shading is deferred (marks are frozen while weak references are cleared; whoever takes
    /// it by [`Space::pop_grey`] marks it). The collector while *stopped*, or mutators while *running*. O(1),
    /// lock-free.
    pub fn push_grey(&self, p: *const u8) {
        let id = self.region_of(p);
        let meta = self.meta(id);
        let i = self.cell_index(meta, p);
        // Relaxed: the bit was set before the reference could reach this thread.
        debug_assert!(meta.alloc[i / 64].load(Relaxed) >> (i % 64) & 1 != 0, "a free cell becomes grey");
        // Relaxed: read by the collector after a stop; whoever flips the flag lists the region, once.
        meta.grey[i / 64].fetch_or(1 << (i % 64), Relaxed);
        if !meta.grey_listed.swap(true, Relaxed) {
            self.grey.push(id, |i| &self.meta(i).grey_link);
        }
    }

    /// Takes grey cells of one region: calls `f` with the first byte of each, at most 64 (one bitmap word), marked or
    /// not. They must all be taken, and marked, before the sweep begins. False when there are none in the heap. Collector, *stopped*. Reads ≤ 64 words.
    pub fn pop_grey(&self, mut f: impl FnMut(NonNull<u8>)) -> bool {
        let Some(id) = self.grey.peek() else { return false };
        let meta = self.meta(id);
        for w in 0..meta.words() {
            // Relaxed: collector only.
            let mut bits = meta.grey[w].swap(0, Relaxed);
            if bits != 0 {
                while bits != 0 {
                    f(self.cell_ptr(RegionId(id), (w * 64) as u32 + bits.trailing_zeros()));
                    bits &= bits - 1;
                }
                return true;
            }
        }
        // Relaxed: collector only.
        meta.grey_listed.store(false, Relaxed);
        self.grey.pop(|i| &self.meta(i).grey_link);
        true
    }

    /// Whether any grey cell is remembered.
    #[must_use]
    pub fn has_grey(&self) -> bool {
        !self.grey.is_empty()
    }
}

/// Hints the processor to load the cache line at `p`. Harmless for any address.
#[inline]
#[allow(unsafe_code)]
pub fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and has no effect that a program can observe.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(p.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{0}]", in(reg) p, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}
