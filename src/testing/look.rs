//! What a test may see of an object that it does not hold.

use super::TestHeap;
use crate::collector::Stopped;

/// What the heap's bitmaps say of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// It holds an object (or is dead, and its drop glue has yet to run).
    pub allocated: bool,
    /// A mutator has reserved it for an object to come.
    pub reserved: bool,
    /// It has a mark.
    pub marked: bool,
    /// It is dead, and its drop glue has yet to run.
    pub condemned: bool,
}

impl TestHeap {
    /// Looks at the cell of the object that has, or had, this [address](crate::Gc::address). No mutator may be running.
    ///
    /// # Panics
    /// If the address is not in this heap.
    #[must_use]
    pub fn look(&self, address: usize) -> Look {
        let (space, cell) = (&self.shared.space, std::ptr::without_provenance::<u8>(address));
        assert!(space.contains(cell), "not in this heap");
        let _collector = self.collector();
        let _stopped =
            Stopped::try_new(&self.shared, None, self.shared.spin, None).expect("a stop without a deadline");
        let mut reserved = false;
        for r in self.shared.records() {
            // SAFETY: the world is stopped (INV-STOP-EXCLUSIVE).
            let cursors = unsafe { &(*r.local.get()).cursors };
            cursors.for_each_rest(|from, to| reserved |= (from.addr()..to.addr()).contains(&address));
        }
        Look {
            allocated: space.is_allocated(cell) && !reserved,
            reserved,
            marked: space.is_marked(cell),
            condemned: space.is_condemned(cell),
        }
    }
}
