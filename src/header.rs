//! An object's header word: its static type information, and notes about its finalizer in the low bits.
//!
//! # State
//! Zero means "no object" (in regions with drop glue, INV-HEAP-VACANT). Else the address of a [`TypeInfo`], whose
//! alignment leaves three bits free:
//! - [`REGISTERED`]: the finalizer table has an entry for the object;
//! - [`SUPPRESSED`]: that entry is not to be run when it comes due;
//! - [`RENEWED`]: it was taken up again in Weak, by a mutator that holds the object, and is passed over in this cycle.
//!
//! # Who may touch what
//! Written by the allocating mutator before the object is published. The notes are changed by any running mutator; the
//! collector reads while stopped, the reaper when nobody can reach the object.

use crate::trace::TypeInfo;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// The finalizer table has an entry for the object.
pub(crate) const REGISTERED: usize = 1;
/// The object's finalizer is not to be run.
pub(crate) const SUPPRESSED: usize = 2;
/// The finalizer was asked for again while unreachable objects were being found.
pub(crate) const RENEWED: usize = 4;
const NOTES: usize = 7;
const _: () = assert!(align_of::<TypeInfo>() > NOTES);

/// # Safety
/// `cell` is a cell with a header word.
unsafe fn word<'a>(cell: *mut u8) -> &'a AtomicPtr<TypeInfo> {
    // SAFETY: by this function's contract; the header is the cell's first word, and only ever used as an atomic once the
    // object is published.
    unsafe { &*cell.cast::<AtomicPtr<TypeInfo>>() }
}

/// Writes the header of a new object.
///
/// # Safety
/// `cell` is this thread's alone.
#[inline(always)]
pub(crate) unsafe fn write(cell: *mut u8, info: &'static TypeInfo) {
    // SAFETY: by this function's contract.
    unsafe { cell.cast::<&'static TypeInfo>().write(info) }
}

/// Empties the header: no object is here any more.
///
/// # Safety
/// The object is dead and the caller owns the cell.
pub(crate) unsafe fn clear(cell: *mut u8) {
    // SAFETY: by this function's contract.
    unsafe { cell.cast::<usize>().write(0) }
}

/// The type of the object in a cell; `None` if there is no object.
///
/// # Safety
/// `cell` is an allocated cell with a header word that holds a header or zero.
#[inline(always)]
pub(crate) unsafe fn info(cell: *mut u8) -> Option<&'static TypeInfo> {
    // Relaxed: written before the object was published.
    // SAFETY: by this function's contract; without its notes the word is zero or came from a `&'static TypeInfo`.
    unsafe {
        let p = word(cell).load(Relaxed).map_addr(|a| a & !NOTES);
        NonNull::new(p).map(|p| p.as_ref())
    }
}

/// The notes of an object.
///
/// # Safety
/// As for [`info`].
pub(crate) unsafe fn notes(cell: *mut u8) -> usize {
    // Relaxed: mutators' notes are seen by the collector after a stop.
    // SAFETY: by this function's contract.
    unsafe { word(cell).load(Relaxed).addr() & NOTES }
}

/// Changes the notes by `f` (`None`: leave them). Returns the notes before, and whether they were changed. Lock-free.
///
/// # Safety
/// `cell` holds an object that this running mutator can reach.
pub(crate) unsafe fn note(cell: *mut u8, f: impl Fn(usize) -> Option<usize>) -> (usize, bool) {
    let change = |p: *mut TypeInfo| f(p.addr() & NOTES).map(|n| p.map_addr(|a| a & !NOTES | n & NOTES));
    // Relaxed: the notes order nothing else; the table's entry is published by the table.
    // SAFETY: by this function's contract.
    match unsafe { word(cell) }.fetch_update(Relaxed, Relaxed, change) {
        Ok(before) => (before.addr() & NOTES, true),
        Err(before) => (before.addr() & NOTES, false),
    }
}
