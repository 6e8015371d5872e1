//! The table beside the heap: for each region its metadata, its mark bits, and its reciprocal once more.
//!
//! Three parts of one mapping, each with an entry for each region, so that who marks finds what it needs close together: the
//! reciprocals of a gigabyte in 64 KiB, its mark bits in 8 MiB instead of strewn over four times as many pages.
//!
//! # Who may touch what
//! As [`region`](crate::region) says. A mark bit is set by any running mutator or the collector, and cleared by the owner of
//! its cell or the collector while *stopped*.
#![allow(unsafe_code)]

use crate::class::BITMAP_WORDS;
use crate::os::{Mapping, ReserveError};
use crate::region::{Bitmap, RegionMeta};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Side table of a heap.
#[derive(Debug)]
pub(crate) struct SideTable {
    mapping: Mapping,
    /// Where the parts begin.
    metas: NonNull<RegionMeta>,
    marks: NonNull<Bitmap>,
    reciprocals: NonNull<AtomicU32>,
    entries: u32,
}

// SAFETY: the pointers lead into the mapping, which has no thread affinity; what they lead to are atomics.
unsafe impl Send for SideTable {}
// SAFETY: as above.
unsafe impl Sync for SideTable {}

/// An entry of each part, one after the other.
const PARTS: [usize; 3] = [size_of::<RegionMeta>(), size_of::<Bitmap>(), size_of::<AtomicU32>()];

impl SideTable {
    /// A table for so many regions, all zero: every region is Free. Backed by memory when it is touched.
    ///
    /// # Errors
    /// [`ReserveError`] when the address space cannot be had.
    pub(crate) fn new(entries: u32, align: usize) -> Result<SideTable, ReserveError> {
        let bytes = (entries as usize).checked_mul(PARTS.iter().sum());
        let bytes = bytes.ok_or(ReserveError::Size { bytes: usize::MAX })?;
        let mapping = Mapping::new(bytes, align)?;
        let n = entries as usize;
        // SAFETY: the mapping has room for the three parts, one after the other; metadata is a multiple of 64 bytes, so each
        // part is aligned.
        let (metas, marks, reciprocals) = unsafe {
            let metas = mapping.base().cast::<RegionMeta>();
            let marks = metas.add(n).cast::<Bitmap>();
            (metas, marks, marks.add(n).cast::<AtomicU32>())
        };
        Ok(SideTable { mapping, metas, marks, reciprocals, entries })
    }

    /// The metadata of all regions.
    #[inline]
    pub(crate) fn metas(&self) -> &[RegionMeta] {
        // SAFETY: the first part is a zeroed mapping of this many entries; zeroes are a valid RegionMeta, all of its
        // fields are atomics, and the mapping lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.metas.as_ptr(), self.entries as usize) }
    }

    /// The metadata of region `id`, which the table has.
    #[inline(always)]
    pub(crate) fn meta(&self, id: u32) -> &RegionMeta {
        debug_assert!(id < self.entries);
        // SAFETY: ids come from this heap's lists, cursors and addresses, all below `entries` (INV-HEAP-POOL); otherwise as in
        // `metas`.
        unsafe { self.metas.add(id as usize).as_ref() }
    }

    /// The mark bits of region `id`, which the table has.
    #[inline(always)]
    pub(crate) fn marks(&self, id: u32) -> &Bitmap {
        debug_assert!(id < self.entries);
        // SAFETY: as in `meta`, for the second part, in which zeroes are atomics too.
        unsafe { self.marks.add(id as usize).as_ref() }
    }

    /// The word that holds mark bit `index`, counted through all regions, each of which has 64 * [`BITMAP_WORDS`]; the region is
    /// one which the table has.
    #[inline(always)]
    pub(crate) fn mark_word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index / (64 * BITMAP_WORDS) < self.entries as usize);
        // SAFETY: as in `marks`: the bitmaps of all regions follow each other.
        unsafe { self.marks.cast::<AtomicU64>().add(index / 64).as_ref() }
    }

    /// The reciprocal of region `id`, which the table has. Written when the region is taken.
    #[inline(always)]
    pub(crate) fn reciprocal(&self, id: u32) -> &AtomicU32 {
        debug_assert!(id < self.entries);
        // SAFETY: as in `marks`, for the third part.
        unsafe { self.reciprocals.add(id as usize).as_ref() }
    }

    /// Bytes of `n` regions' entries.
    pub(crate) fn bytes_of(n: u32) -> usize {
        n as usize * PARTS.iter().sum::<usize>()
    }

    /// Backs the entries of `n` regions from `first` on by memory; as [`Mapping::back`], with all that was refused.
    ///
    /// # Errors
    /// As [`Mapping::back`].
    pub(crate) fn back(&self, first: u32, n: u32, lock: bool) -> Result<[Option<String>; 3], ReserveError> {
        let mut begin = 0;
        let mut range = |part: usize| -> Range<usize> {
            let range = begin + first as usize * part..begin + (first + n) as usize * part;
            begin += self.entries as usize * part;
            range
        };
        let [metas, marks, reciprocals] = PARTS.map(&mut range);
        let back = |range| self.mapping.back(&range, lock);
        Ok([back(metas)?, back(marks)?, back(reciprocals)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_do_not_overlap_and_fill_the_mapping() {
        for entries in [1, 7, 1000] {
            let t = SideTable::new(entries, 4096).unwrap();
            let mut all = Vec::new();
            for id in 0..entries {
                for (p, bytes) in [
                    (std::ptr::from_ref(t.meta(id)).addr(), size_of::<RegionMeta>()),
                    (std::ptr::from_ref(t.marks(id)).addr(), size_of::<Bitmap>()),
                    (std::ptr::from_ref(t.reciprocal(id)).addr(), 4),
                ] {
                    all.push((p, bytes));
                }
            }
            all.sort_unstable();
            assert_eq!(all[0].0, t.mapping.base().as_ptr().addr());
            assert!(all.windows(2).all(|w| w[0].0 + w[0].1 == w[1].0), "{entries} entries");
            let end = all.last().map_or(0, |&(p, bytes)| p + bytes);
            assert_eq!(end - all[0].0, SideTable::bytes_of(entries));
            assert!(end <= t.mapping.base().as_ptr().addr() + t.mapping.bytes());
        }
    }

    #[test]
    fn all_parts_are_backed() {
        let t = SideTable::new(100, 4096).unwrap();
        assert_eq!(t.back(10, 5, false).unwrap(), [None, None, None]);
        t.back(95, 5, false).unwrap();
    }
}
