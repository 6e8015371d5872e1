//! Size classes of cells.
//!
//! Sizes are multiples of 8 bytes from 16 to 64, then eight classes per doubling up to [`CELL_MAX`], so that a
//! class is at most 1/8 larger than the one before (internal waste ≤ 12.5 %). Segregated fit as in the original
//! Metronome (Bacon, Cheng, Rajan, POPL 2003), which used the same ratio.

/// Bytes of a region, the unit in which the heap takes and gives back memory. Regions are aligned to it.
pub const REGION_BYTES: usize = 64 * 1024;
/// log2 of [`REGION_BYTES`].
pub const REGION_SHIFT: u32 = REGION_BYTES.trailing_zeros();
/// Bytes of an arraylet leaf: 4096; 256 in a tiny build. Leaves are cells of a class of their own, without a header.
pub const LEAF_BYTES: usize = if cfg!(metronome_tiny) { 256 } else { 4096 };
const _: () = assert!(LEAF_BYTES.is_power_of_two() && LEAF_BYTES >= CELL_ALIGN_MAX && LEAF_BYTES <= CELL_MAX);
/// Largest cell. Larger data goes into arraylets.
pub const CELL_MAX: usize = 8192;
/// Largest alignment of a payload.
pub const CELL_ALIGN_MAX: usize = 128;
/// Number of size classes for headed cells.
pub const CLASSES: usize = 63;
/// Index of the leaf class, which follows the headed ones.
pub const LEAF_CLASS: Class = Class(CLASSES as u8);
/// Classes including the leaf class.
pub const CLASSES_ALL: usize = CLASSES + 1;
/// Most cells that a region can hold (the smallest class).
pub const CELLS_MAX: usize = REGION_BYTES / 16;
/// Words of a bitmap with one bit for each of [`CELLS_MAX`] cells.
pub const BITMAP_WORDS: usize = CELLS_MAX / 64;

/// Index of a size class, below [`CLASSES_ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(pub u8);

const fn size_table() -> [u32; CLASSES_ALL] {
    let mut t = [0; CLASSES_ALL];
    let mut i = 0;
    let mut size = 16u32;
    while i < CLASSES {
        t[i] = size;
        i += 1;
        size += if size < 128 { 8 } else { 1 << (31 - size.leading_zeros() - 3) };
    }
    t[CLASSES] = LEAF_BYTES as u32;
    t
}

static SIZES: [u32; CLASSES_ALL] = SIZES_CONST;
const SIZES_CONST: [u32; CLASSES_ALL] = size_table();
const _: () = assert!(SIZES_CONST[CLASSES - 1] as usize == CELL_MAX);

impl Class {
    /// The smallest class whose cells hold `bytes` and are multiples of `align`; `None` if there is none.
    ///
    /// `align` must be a power of two. Usable in constants, so that the class of a type is known at compile time.
    #[must_use]
    pub const fn of(bytes: usize, align: usize) -> Option<Class> {
        let mut i = 0;
        while i < CLASSES {
            let size = SIZES_CONST[i] as usize;
            if size >= bytes && size.is_multiple_of(align) {
                return Some(Class(i as u8));
            }
            i += 1;
        }
        None
    }

    /// The same as [`Class::of`] for `align` ≤ 8 in a few instructions, for sizes known at run time only.
    #[must_use]
    pub const fn of_dynamic(bytes: usize) -> Option<Class> {
        if bytes > CELL_MAX {
            return None;
        }
        if bytes <= 128 {
            let i = if bytes <= 16 { 0 } else { (bytes - 9) / 8 };
            return Some(Class(i as u8));
        }
        // Above 128 the class is found from the exponent and the three bits below the leading one.
        let b = bytes - 1;
        let exponent = (usize::BITS - 1 - b.leading_zeros()) as usize;
        let eighth = (b >> (exponent - 3)) & 7;
        Some(Class((15 + (exponent - 7) * 8 + eighth) as u8))
    }

    /// Bytes of a cell.
    #[must_use]
    pub const fn size(self) -> usize {
        SIZES_CONST[self.0 as usize] as usize
    }

    /// Bytes of a cell, by table look-up.
    #[must_use]
    pub fn size_dynamic(self) -> usize {
        SIZES[self.0 as usize] as usize
    }

    /// Cells in a region.
    #[must_use]
    pub const fn cells(self) -> usize {
        REGION_BYTES / self.size()
    }

    /// `ceil(2^32 / size)`: `(offset * reciprocal) >> 32` is the cell index for each offset in a region.
    #[must_use]
    pub const fn reciprocal(self) -> u32 {
        let s = self.size() as u64;
        (1u64 << 32).div_ceil(s) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_at_most_nine_eighths_above_64_bytes() {
        for i in 1..CLASSES {
            let (a, b) = (SIZES_CONST[i - 1] as f64, SIZES_CONST[i] as f64);
            assert!(b > a && b % 8.0 == 0.0);
            if a >= 64.0 {
                assert!(b / a <= 1.125, "{a} -> {b}");
            }
        }
    }

    #[test]
    fn reciprocal_is_exact_for_every_offset() {
        for i in 0..CLASSES_ALL {
            let c = Class(i as u8);
            for off in 0..REGION_BYTES as u64 {
                assert_eq!((off * u64::from(c.reciprocal())) >> 32, off / c.size() as u64);
            }
        }
    }

    #[test]
    fn class_lookup_agrees_with_a_linear_search() {
        for bytes in 0..=CELL_MAX {
            assert_eq!(Class::of_dynamic(bytes), Class::of(bytes, 8), "{bytes}");
            for align in [1, 8, 16, 64, 128] {
                let c = Class::of(bytes, align).unwrap();
                assert!(c.size() >= bytes && c.size().is_multiple_of(align));
            }
        }
        assert_eq!(Class::of_dynamic(CELL_MAX + 1), None);
        assert_eq!(Class::of(CELL_MAX + 1, 1), None);
    }
}
