//! Arraylets: large arrays as a spine and fixed leaves (Bacon, Cheng, Rajan, POPL 2003, section 3.1), so that no
//! contiguous memory larger than a region is ever needed.
//!
//! # Layout
//! An array's spine is an ordinary headed cell. From the cell's start:
//! ```text
//! 0  header (the caller's)
//! 8  length in elements
//! 16 full leaves | depth << 56
//! 24 leaf table: `top` pointers           (depth ≥ 1)
//! …  the elements of the last, partial leaf (all elements when depth = 0), aligned
//! ```
//! *Depth 0*: everything is in the spine. *Depth 1*: the table points to leaves. *Depth 2 and 3*: it points to
//! index leaves of [`INDEX_FAN_OUT`] (512) pointers each; so a spine never outgrows a cell, up to 512 GiB (we differ from the
//! original here, whose spines were contiguous).
//!
//! A leaf holds as many elements as fit ([`LEAF_BYTES`] / size, not rounded to a power of two: the division is by a
//! constant of the element type, and nothing is wasted).

use crate::class::{CELL_ALIGN_MAX, CELL_MAX, LEAF_BYTES};

/// Offset of the length word.
pub const LEN_OFFSET: usize = 8;
/// Offset of the shape word.
pub const SHAPE_OFFSET: usize = 16;
/// Offset of the leaf table.
pub const TABLE_OFFSET: usize = 24;
/// Pointers in an index leaf.
pub const INDEX_FAN_OUT: usize = LEAF_BYTES / size_of::<usize>();
/// Largest spine: a cell; 1 KiB in a tiny build, where about a hundred leaves are enough for index leaves, and some
/// hundred KiB for two levels of them.
pub const SPINE_MAX: usize = if cfg!(metronome_tiny) { 1024 } else { CELL_MAX };
const _: () = assert!(SPINE_MAX <= CELL_MAX && SPINE_MAX > TABLE_OFFSET + CELL_ALIGN_MAX + LEAF_BYTES);
const FULL_MASK: u64 = (1 << 56) - 1;

/// How an array of a given element type and length is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayShape {
    /// Elements.
    pub len: usize,
    /// Elements in a leaf.
    pub per_leaf: usize,
    /// Leaves outside the spine.
    pub full_leaves: usize,
    /// 0: inline, 1: table of leaves, 2 and 3: tables of index leaves.
    pub depth: u8,
    /// Pointers in the spine's table.
    pub top: usize,
    /// Offset of the tail elements from the start of the spine's cell.
    pub tail_offset: usize,
    /// Bytes of the spine including its header word.
    pub spine_bytes: usize,
}

/// Elements that fit into a leaf.
#[must_use]
pub const fn per_leaf(element_bytes: usize) -> usize {
    match LEAF_BYTES.checked_div(element_bytes) {
        Some(n) => n,
        None => usize::MAX,
    }
}

/// Pointers in the spine's table.
#[inline]
#[must_use]
pub const fn top_entries(full_leaves: usize, depth: u8) -> usize {
    match depth {
        0 => 0,
        1 => full_leaves,
        2 => full_leaves.div_ceil(INDEX_FAN_OUT),
        _ => full_leaves.div_ceil(INDEX_FAN_OUT * INDEX_FAN_OUT),
    }
}

/// Offset of the tail for a table of `top` pointers.
#[inline]
#[must_use]
pub const fn tail_offset(top: usize, align: usize) -> usize {
    (TABLE_OFFSET + top * size_of::<usize>()).next_multiple_of(align)
}

impl ArrayShape {
    /// The layout for `len` elements of `size` bytes (≤ [`LEAF_BYTES`]) aligned to `align` (≤ 128); `None` if the
    /// array would be larger than 2^39 bytes (512 GiB), or need more than three levels of tables (in a tiny build, from
    /// about 12 MiB on).
    #[must_use]
    pub const fn new(size: usize, align: usize, len: usize) -> Option<ArrayShape> {
        debug_assert!(size <= LEAF_BYTES && align.is_power_of_two());
        let per_leaf = per_leaf(size);
        let bytes = match len.checked_mul(size) {
            Some(b) if b <= 1 << 39 => b,
            _ => return None,
        };
        if tail_offset(0, align) + bytes <= SPINE_MAX {
            return Some(ArrayShape {
                len,
                per_leaf,
                full_leaves: 0,
                depth: 0,
                top: 0,
                tail_offset: tail_offset(0, align),
                spine_bytes: tail_offset(0, align) + bytes,
            });
        }
        let full_leaves = len / per_leaf;
        let tail_bytes = (len % per_leaf) * size;
        let mut depth = 1;
        while depth <= 3 {
            let top = top_entries(full_leaves, depth);
            if top < SPINE_MAX / size_of::<usize>() && tail_offset(top, align) + tail_bytes <= SPINE_MAX {
                let tail_offset = tail_offset(top, align);
                return Some(ArrayShape {
                    len,
                    per_leaf,
                    full_leaves,
                    depth,
                    top,
                    tail_offset,
                    spine_bytes: tail_offset + tail_bytes,
                });
            }
            depth += 1;
        }
        None
    }

    /// The shape word stored in the spine.
    #[must_use]
    pub const fn word(&self) -> u64 {
        self.full_leaves as u64 | (self.depth as u64) << 56
    }

    /// Index leaves needed besides the data leaves.
    #[must_use]
    pub const fn index_leaves(&self) -> usize {
        match self.depth {
            0 | 1 => 0,
            2 => self.top,
            _ => self.top + self.full_leaves.div_ceil(INDEX_FAN_OUT),
        }
    }
}

/// Full leaves and depth from a shape word.
#[inline]
#[must_use]
pub const fn unpack(word: u64) -> (usize, u8) {
    ((word & FULL_MASK) as usize, (word >> 56) as u8)
}

/// The way from the spine to the table entry of leaf `k`: index into the spine's table, then into index leaves.
/// `path[0]` is the spine's entry; entries up to `path[depth - 1]` are used.
#[inline]
#[must_use]
pub const fn path(k: usize, depth: u8) -> [usize; 3] {
    match depth {
        0 | 1 => [k, 0, 0],
        2 => [k / INDEX_FAN_OUT, k % INDEX_FAN_OUT, 0],
        _ => [k / (INDEX_FAN_OUT * INDEX_FAN_OUT), k / INDEX_FAN_OUT % INDEX_FAN_OUT, k % INDEX_FAN_OUT],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickcheck::quickcheck;

    /// Bytes that three levels hold for sure: a table that leaves room for any tail, leaves of elements that half fill them.
    const SURE_MAX: usize = {
        let top = (SPINE_MAX - TABLE_OFFSET - LEAF_BYTES) / size_of::<usize>();
        let bytes = top * INDEX_FAN_OUT * INDEX_FAN_OUT * LEAF_BYTES / 2;
        if bytes < 1 << 39 { bytes } else { 1 << 39 }
    };

    #[test]
    fn known_shapes() {
        let inline = (SPINE_MAX - TABLE_OFFSET) / 8;
        let s = ArrayShape::new(8, 8, 0).unwrap();
        assert_eq!((s.depth, s.spine_bytes), (0, 24));
        let s = ArrayShape::new(8, 8, inline).unwrap();
        assert_eq!((s.depth, s.spine_bytes), (0, SPINE_MAX));
        let s = ArrayShape::new(8, 8, inline + 1).unwrap();
        assert_eq!((s.depth, s.full_leaves), (1, (inline + 1) / INDEX_FAN_OUT));
        assert_eq!(s.top, s.full_leaves);
        // The first array that has no room for a table of its leaves.
        let s = ArrayShape::new(8, 8, (inline + 1) * INDEX_FAN_OUT).unwrap();
        assert_eq!((s.depth, s.full_leaves, s.top), (2, inline + 1, (inline + 1).div_ceil(INDEX_FAN_OUT)));
        assert_eq!(s.index_leaves(), s.top);
        let s = ArrayShape::new(1, 1, SURE_MAX).unwrap();
        assert_eq!(s.depth, 3);
        assert_eq!(ArrayShape::new(LEAF_BYTES, 8, usize::MAX / LEAF_BYTES), None);
        assert_eq!(ArrayShape::new(0, 1, usize::MAX).unwrap().depth, 0);
    }

    #[test]
    #[cfg(not(metronome_tiny))] // Lengths by hand, for the usual leaves.
    fn usual_shapes() {
        let s = ArrayShape::new(8, 8, 1022).unwrap();
        assert_eq!((s.depth, s.full_leaves, s.top), (1, 1, 1));
        let s = ArrayShape::new(8, 8, 100_000_000).unwrap();
        assert_eq!((s.depth, s.full_leaves), (2, 195_312));
        assert_eq!(s.index_leaves(), 382);
        let s = ArrayShape::new(1, 1, 1 << 39).unwrap();
        assert_eq!(s.depth, 3);
    }

    quickcheck! {
        fn every_element_has_one_place(size: u16, len: u32) -> bool {
            let size = usize::from(size) % LEAF_BYTES + 1;
            let len = len as usize % (SURE_MAX / size);
            let s = ArrayShape::new(size, 1, len).unwrap();
            let tail = len - s.full_leaves * if s.depth == 0 { 0 } else { s.per_leaf };
            let fits = s.spine_bytes <= SPINE_MAX && s.spine_bytes == s.tail_offset + tail * size;
            let tail_small = s.depth == 0 || tail < s.per_leaf;
            let paths = [0, s.full_leaves / 2, s.full_leaves.saturating_sub(1)].iter().filter(|&&k| k < s.full_leaves).all(|&k| {
                let p = path(k, s.depth);
                let fan = INDEX_FAN_OUT;
                let back = match s.depth { 0 | 1 => p[0], 2 => p[0] * fan + p[1], _ => (p[0] * fan + p[1]) * fan + p[2] };
                back == k && p[0] < s.top
            });
            fits && tail_small && paths && unpack(s.word()) == (s.full_leaves, s.depth)
        }
    }
}
