//! How many regions a promise needs, in the worst case.
//!
//! # Argument
//! Let cells of one cursor (a class, with or without drop glue) be allocated while a promise lasts. A region of the
//! promise is taken by that cursor only when it has no free cell at hand: free cells that it owned before, or finds in
//! listed regions, only put this off. From then on it hands out all cells of the region, one after the other, before
//! it takes the next, unless it is flushed in between. So between two flushes `k` cells cost at most `ceil(k / c)`
//! regions of `c` cells.
//!
//! At a flush the region goes to a list, where another mutator may take it: what was left of it is lost. Cursors are
//! flushed when the colour of new objects changes: at arming and at the start of the sweep. A cycle that begins cannot
//! end its marking before the mutator comes by a safepoint, so a section without one sees at most [`FLUSHES_MAX`]
//! changes, and the cells fall into at most `FLUSHES_MAX + 1` = 3 stretches, `k = k1 + k2 + k3`. The sum of
//! `ceil(ki / c)` is largest when two stretches have one cell each:
//!
//! * `k ≤ 3`: `k` regions; else `3 + floor((k − 3) / c)`.
//!
//! (`ceil(x / c) ≤ (x + c − 1) / c` gives `(k + 3(c − 1)) / c` for the sum, which rounded down is the same number.)
//!
//! For bytes in any mix: a cursor's first three cells cost a region each; from then on a region costs `c` cells of its
//! class. All regions count the same, so what makes the most of the bytes is to buy the cheapest first: three cells of
//! each cursor, smallest class first, and then whole regions of the class that wastes most of one (cells of 6656
//! bytes: 9 of them, 59904 bytes). No class's first cells (at most 8192 bytes) are dearer than any whole region, so the
//! order of buying is one that a cursor can follow, and the bound is reached.

use crate::class::{CLASSES, Class, LEAF_BYTES, LEAF_CLASS};

/// Flushes of its cursors that a mutator may see while a promise lasts.
pub const FLUSHES_MAX: u32 = 2;

/// Cells of one cursor that may cost a region each.
const SINGLES: u64 = FLUSHES_MAX as u64 + 1;

/// Bytes of all cells of a region of `class`.
const fn cells_bytes(class: Class) -> u64 {
    (class.cells() * class.size()) as u64
}

/// The fewest bytes that fill a region.
const FILL_MIN: u64 = {
    let (mut least, mut i) = (cells_bytes(LEAF_CLASS), 0);
    while i < CLASSES {
        let bytes = cells_bytes(Class(i as u8));
        if bytes < least {
            least = bytes;
        }
        i += 1;
    }
    least
};
const _: () = assert!(FILL_MIN >= Class(CLASSES as u8 - 1).size() as u64);

const fn saturated(regions: u64) -> u32 {
    if regions > u32::MAX as u64 { u32::MAX } else { regions as u32 }
}

/// Regions that a promise needs so that `count` cells of `class`, all with or all without drop glue, can be allocated
/// whatever other mutators do, if the cursors are flushed at most [`FLUSHES_MAX`] times. No fewer suffice. O(1). For
/// both kinds together add the two numbers. More than `u32::MAX` is given as that: no heap has them.
#[must_use]
pub const fn regions_for_cells(class: Class, count: u64) -> u32 {
    if count <= SINGLES {
        return count as u32;
    }
    saturated(SINGLES + (count - SINGLES) / class.cells() as u64)
}

/// Regions that a promise needs so that any allocations can be made whose cells sum up to at most `bytes`, in any mix of
/// classes, with and without drop glue, and leaves, whatever other mutators do, if the cursors are flushed at most
/// [`FLUSHES_MAX`] times. No fewer suffice for all such mixes. O(classes); a constant where `bytes` is one. More than
/// `u32::MAX` is given as that: no heap has them.
///
/// A cell is larger than its object: by the header, and by rounding up to its class.
#[must_use]
pub const fn regions_for_bytes(bytes: u64) -> u32 {
    let (mut left, mut regions, mut i) = (bytes, 0, 0);
    while i < CLASSES {
        let size = Class(i as u8).size();
        // With and without drop glue; and leaves, which have none.
        let cursors = if size == LEAF_BYTES { 3 } else { 2 };
        let (all, size) = (cursors * SINGLES, size as u64);
        if left < all * size {
            return saturated(regions + left / size);
        }
        left -= all * size;
        regions += all;
        i += 1;
    }
    saturated(regions + left / FILL_MIN)
}

const _: () = {
    // Leaves are counted with the headed class of their size.
    let Some(class) = Class::of(LEAF_BYTES, 8) else { panic!("leaves are no larger than cells") };
    assert!(class.size() == LEAF_BYTES);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::CLASSES_ALL;

    /// Regions that `k` cells of a region of `c` cost when cut into three stretches in the worst way.
    fn worst_cut(k: u64, c: u64) -> u64 {
        let cost = |a: u64, b: u64| a.div_ceil(c) + b.div_ceil(c) + (k - a - b).div_ceil(c);
        (0..=k).flat_map(|a| (0..=k - a).map(move |b| (a, b))).map(|(a, b)| cost(a, b)).max().unwrap()
    }

    #[test]
    fn cells_agree_with_all_cuts() {
        for i in 0..CLASSES_ALL {
            let class = Class(i as u8);
            let c = class.cells() as u64;
            // All cuts where a region holds few cells, else near the edges by the three that matter.
            if c <= 20 {
                for k in 0..=70 {
                    assert_eq!(u64::from(regions_for_cells(class, k)), worst_cut(k, c), "{k} of {class:?}");
                }
            }
            for k in [0, 1, 2, 3, 4, c + 2, c + 3, 2 * c + 2, 2 * c + 3] {
                let rest = k.saturating_sub(2);
                let worst = k.min(2) + rest.div_ceil(c);
                assert_eq!(u64::from(regions_for_cells(class, k)), worst, "{k} of {class:?}");
            }
        }
        assert_eq!(regions_for_cells(Class(0), u64::MAX), u32::MAX);
    }

    /// A 0/1 knapsack over the marginal costs of all regions of all 127 cursors finds, for every number of bytes up to
    /// some whole regions, as many as buying the cheapest first.
    #[test]
    fn bytes_agree_with_a_knapsack() {
        // The first three cells of all cursors are 623568 of it.
        let units = 800_000 / 8;
        let mut best = vec![0u32; units + 1];
        for i in 0..2 * CLASSES + 1 {
            let class = if i == 2 * CLASSES { LEAF_CLASS } else { Class((i % CLASSES) as u8) };
            let (cell, region) = (class.size() / 8, class.cells() * class.size() / 8);
            // Each of the three once (downwards), whole regions as often as the bytes allow (upwards).
            for _ in 0..3 {
                for u in (cell..=units).rev() {
                    best[u] = best[u].max(best[u - cell] + 1);
                }
            }
            for u in region..=units {
                best[u] = best[u].max(best[u - region] + 1);
            }
        }
        assert!(best[units] > 3 * 127, "no whole region was bought");
        for (u, &regions) in best.iter().enumerate() {
            assert_eq!(regions_for_bytes(u as u64 * 8), regions, "{} bytes", u * 8);
            assert_eq!(regions_for_bytes(u as u64 * 8 + 7), regions, "{} bytes", u * 8 + 7);
        }
        assert_eq!(regions_for_bytes(u64::MAX), u32::MAX);
    }
}
