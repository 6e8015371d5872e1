//! Side metadata of a region: kept in a table beside the heap, never inside regions or objects.
//!
//! # State
//! ```text
//! Free ── take ──▶ Owned ── release ──▶ Listed | Full ── take (Listed) ──▶ Owned
//!   ▲                                    │
//!   └──────── sweep, nothing alive ◀─────┤
//!                                        └─ sweep finds dead drop glue ─▶ Reaping ─ reaper done ─▶ Listed | Full | Free
//! ```
//! # Who may touch what
//! A region that is Owned belongs to one mutator's [`Cursors`](crate::Cursors): only that mutator allocates in
//! it and releases it (access rule *running*). The collector sweeps regions of any state while *stopped*.
//! A Reaping region is released by the reaper, which is a mutator too.
//!
//! # Ordering
//! All accesses are Relaxed: a region passes from one thread to another only through an
//! [`IndexStack`](crate::IndexStack) (release/acquire) or through a stop (the caller's handshake).

use crate::class::{BITMAP_WORDS, Class};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Index of a region in its heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegionId(pub u32);

/// Where a region is in its life; see the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RegionState {
    /// In the pool (or never used).
    Free = 0,
    /// A mutator allocates in it.
    Owned = 1,
    /// Has free cells and waits in a list of its class.
    Listed = 2,
    /// In use, in no list.
    Full = 3,
    /// Holds condemned objects whose drop glue has yet to run; not allocated from.
    Reaping = 4,
}

/// One bit for each cell.
pub type Bitmap = [AtomicU64; BITMAP_WORDS];

/// Metadata of one region, but for its mark bits (see `side.rs`). All-zero bytes are a valid Free region, so a fresh mapping
/// is a valid table.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct RegionMeta {
    /// `ceil(2^32 / cell size)`.
    pub(crate) reciprocal: AtomicU32,
    pub(crate) cell_size: AtomicU32,
    pub(crate) cells: AtomicU32,
    /// Sweep (counted by the heap) in which the region was last swept or taken.
    pub(crate) swept: AtomicU32,
    /// Link of one of the pool's places, of a class list, or of the reap list.
    pub(crate) link: AtomicU32,
    /// Link of the list of regions with grey cells.
    pub(crate) grey_link: AtomicU32,
    pub(crate) class: AtomicU8,
    state: AtomicU8,
    /// Objects in this region have drop glue.
    pub(crate) drop_glue: AtomicBool,
    /// In the list of regions with grey cells.
    pub(crate) grey_listed: AtomicBool,
    /// Owned, with drop glue, when it was last swept: its dead objects are yet to be condemned.
    pub(crate) passed_over: AtomicBool,
    /// Memory backs the region: it was touched or prefaulted, and not given back since.
    pub(crate) resident: AtomicBool,
    /// In use, or reserved by its owner's cursor.
    pub(crate) alloc: Bitmap,
    /// To be scanned: marked where the mark queue had no room, or not marked where shading is deferred.
    pub(crate) grey: Bitmap,
    /// Dead, drop glue not yet run.
    pub(crate) condemned: Bitmap,
}

/// Bytes of side metadata for each region: 3.2 % of it.
pub const ENTRY_BYTES: usize = size_of::<RegionMeta>() + size_of::<Bitmap>();
const _: () = assert!(ENTRY_BYTES == 64 + 4 * 8 * BITMAP_WORDS);

impl RegionMeta {
    /// Current state.
    #[must_use]
    pub fn state(&self) -> RegionState {
        // Relaxed: see the module's documentation.
        match self.state.load(Relaxed) {
            0 => RegionState::Free,
            1 => RegionState::Owned,
            2 => RegionState::Listed,
            3 => RegionState::Full,
            _ => RegionState::Reaping,
        }
    }

    pub(crate) fn set_state(&self, s: RegionState) {
        // Relaxed: see the module's documentation.
        self.state.store(s as u8, Relaxed);
    }

    /// Whether memory backs the region: it was touched or prefaulted, and not given back since.
    #[must_use]
    pub fn is_resident(&self) -> bool {
        // Relaxed: see the module's documentation.
        self.resident.load(Relaxed)
    }

    /// Size class of the region's cells.
    #[must_use]
    pub fn class(&self) -> Class {
        // Relaxed: see the module's documentation.
        Class(self.class.load(Relaxed))
    }

    /// Words in use of each bitmap.
    #[must_use]
    pub fn words(&self) -> usize {
        // Relaxed: see the module's documentation.
        self.cells.load(Relaxed).div_ceil(64) as usize
    }

    /// Prepares a free region for cells of `class`; `marks` are its mark bits. Clears the bitmaps in use: at most 2 KiB.
    pub(crate) fn init(&self, marks: &Bitmap, class: Class, drop_glue: bool, sweep: u32) {
        // Relaxed: the taker is the only user of the region.
        self.class.store(class.0, Relaxed);
        self.cell_size.store(class.size_dynamic() as u32, Relaxed);
        self.cells.store(class.cells() as u32, Relaxed);
        self.reciprocal.store(class.reciprocal(), Relaxed);
        self.drop_glue.store(drop_glue, Relaxed);
        self.passed_over.store(false, Relaxed);
        self.swept.store(sweep, Relaxed);
        for (i, mark) in marks.iter().enumerate().take(self.words()) {
            mark.store(0, Relaxed);
            self.alloc[i].store(0, Relaxed);
            self.grey[i].store(0, Relaxed);
            self.condemned[i].store(0, Relaxed);
        }
        self.set_state(RegionState::Owned);
    }

    /// Cells whose allocation bit is set. At most 64 words are read.
    #[must_use]
    pub fn allocated_cells(&self) -> u32 {
        // Relaxed: see the module's documentation.
        self.alloc[..self.words()].iter().map(|w| w.load(Relaxed).count_ones()).sum()
    }
}
