//! Immortal memory: a fixed area per heap that no collection looks at and nothing is ever given back to.
//!
//! # State
//! One mapping, made and touched when the heap is built, and one counter: the bytes handed out so far. The first
//! allocation makes the mapping permanent: it outlives the heap, so that an [`Immortal`] is a `&'static`.
//!
//! # Who may touch what
//! Any thread may allocate, at any time, a no-heap thread too. A range belongs to whoever it was handed to
//! (INV-IMMORTAL-DISJOINT); what is written there is published by whoever shares the reference.
//!
//! # Bound
//! An allocation is wait-free: at most [`TRIES`] exchanges of the counter and one addition, then the writes of the
//! value. No lock, no system call, and no page fault where the area could be touched at the start.

use metronome_arraylet::ReserveError;
use metronome_arraylet::os::Mapping;
use std::alloc::Layout;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Largest alignment of an immortal value, in bytes.
const ALIGN_MAX: usize = 4096;
/// Exchanges that an allocation loses to others before it takes its range by one addition.
const TRIES: u32 = 16;

/// What may be put into immortal memory.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be put into immortal memory",
    label = "not `Send + Sync + 'static`",
    note = "immortal values are shared between all threads and never collected, so they hold no `Slot`, `Gc` or `Root`: refer to heap objects by `Global`"
)]
pub trait ImmortalValue: Send + Sync + 'static {}
#[diagnostic::do_not_recommend]
impl<T: Send + Sync + 'static> ImmortalValue for T {}

/// A value in immortal memory: never moved, never collected, never dropped. Free to copy; a plain reference inside.
///
/// Made by [`Heap::immortal`](crate::Heap::immortal), [`NoHeap::immortal`](crate::NoHeap::immortal) or
/// [`ImmortalArea::immortal`]. It outlives its heap. Heap objects may hold one as payload; an immortal value refers to
/// heap objects only by [`Global`](crate::Global), which then keeps the object and the heap's memory for ever.
pub struct Immortal<T: 'static>(&'static T);

impl<T> Immortal<T> {
    /// The value, borrowed for ever.
    #[inline]
    #[must_use]
    pub fn as_static(this: Immortal<T>) -> &'static T {
        this.0
    }

    /// Whether both are the same value in memory.
    #[inline]
    #[must_use]
    pub fn ptr_eq(a: Immortal<T>, b: Immortal<T>) -> bool {
        std::ptr::eq(a.0, b.0)
    }
}

impl<T> Clone for Immortal<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Immortal<T> {}

impl<T> std::ops::Deref for Immortal<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Immortal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: fmt::Display> fmt::Display for Immortal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The immortal area has no room for what was asked. Nothing that is in it will ever be freed.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImmortalError<T = ()> {
    /// What was to be put there, given back.
    pub value: T,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Size of the area.
    pub size_bytes: u64,
}

impl<T> ImmortalError<T> {
    fn with<U>(self, value: U) -> ImmortalError<U> {
        let ImmortalError { requested_bytes, used_bytes, size_bytes, .. } = self;
        ImmortalError { value, requested_bytes, used_bytes, size_bytes }
    }
}

impl<T> fmt::Debug for ImmortalError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImmortalError")
            .field("requested_bytes", &self.requested_bytes)
            .field("used_bytes", &self.used_bytes)
            .field("size_bytes", &self.size_bytes)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for ImmortalError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the immortal area has no room for {} bytes ({} of {} bytes are in use, for ever): raise the option immortal",
            self.requested_bytes, self.used_bytes, self.size_bytes
        )
    }
}

impl<T> std::error::Error for ImmortalError<T> {}

/// A heap's immortal memory: of fixed size, never collected, shared by all threads.
#[derive(Debug)]
pub struct ImmortalArea {
    /// `None` for an area of no bytes.
    memory: Option<ManuallyDrop<Mapping>>,
    size: usize,
    /// Bytes handed out from the start; more than `size` once an addition has failed.
    used: AtomicUsize,
}

impl ImmortalArea {
    /// An area of `bytes` (0: nothing fits), touched page by page, and locked in memory if `lock`. Also what the
    /// system refused of that, in words. Cost: O(bytes).
    ///
    /// # Errors
    /// [`ReserveError`] if the address range cannot be had, or the system has not that much memory to touch.
    pub(crate) fn new(bytes: u64, lock: bool) -> Result<(ImmortalArea, Vec<String>), ReserveError> {
        let size = usize::try_from(bytes).map_err(|_| ReserveError::Size { bytes: usize::MAX })?;
        let (mut memory, mut refused) = (None, Vec::new());
        if size > 0 {
            Mapping::check_available(size)?;
            let mapping = Mapping::new(size, ALIGN_MAX)?;
            let not_locked = mapping.back(&(0..mapping.bytes()), lock)?;
            refused = not_locked.into_iter().map(|why| format!("immortal memory: {why}")).collect();
            memory = Some(ManuallyDrop::new(mapping));
        }
        Ok((ImmortalArea { memory, size, used: AtomicUsize::new(0) }, refused))
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size as u64
    }

    /// Bytes in use, with what alignment took. Never sinks.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        // Relaxed: a report.
        self.used.load(Relaxed).min(self.size) as u64
    }

    /// Bytes left, but for alignment.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.size_bytes() - self.used_bytes()
    }

    /// Puts a value there for ever. Any thread; wait-free (see the module's bound). The value's `drop` never runs.
    ///
    /// A type with an alignment above 4096 bytes does not compile.
    ///
    /// # Errors
    /// [`ImmortalError`] if there is no room; it gives the value back.
    pub fn immortal<T: ImmortalValue>(&self, value: T) -> Result<Immortal<T>, ImmortalError<T>> {
        const { assert!(align_of::<T>() <= ALIGN_MAX, "an immortal value's alignment may be at most 4096 bytes") };
        match self.claim(Layout::new::<T>()) {
            Ok(mut claim) => Ok(Immortal(claim.place(value))),
            Err(e) => Err(e.with(value)),
        }
    }

    /// Takes a range of this layout.
    pub(crate) fn claim(&self, layout: Layout) -> Result<Claim, ImmortalError> {
        self.claim_within(layout, TRIES)
    }

    fn claim_within(&self, layout: Layout, tries: u32) -> Result<Claim, ImmortalError> {
        let (size, align) = (layout.size(), layout.align());
        let shortage = || self.shortage(size as u64);
        if align > ALIGN_MAX {
            return Err(shortage());
        }
        let Some(memory) = self.memory.as_ref().filter(|_| size > 0) else {
            // What has no size needs no memory.
            let at = std::ptr::without_provenance_mut(align);
            return if size == 0 { Ok(Claim { at, left: 0 }) } else { Err(shortage()) };
        };
        // Base and end of the range that starts at the first aligned byte from `from` on.
        let fit = |from: usize| {
            let start = from.checked_next_multiple_of(align)?;
            let end = start.checked_add(size)?;
            (end <= self.size).then_some((start, end))
        };
        let claim = |start: usize| Claim { at: memory.base().as_ptr().wrapping_add(start), left: size };
        // Relaxed, here and below: the counter orders nothing; a range is used by the one who got it, and published
        // by that thread's own means.
        let mut used = self.used.load(Relaxed);
        for _ in 0..tries {
            let (start, end) = fit(used).ok_or_else(shortage)?;
            match self.used.compare_exchange_weak(used, end, Relaxed, Relaxed) {
                Ok(_) => return Ok(claim(start)),
                Err(now) => used = now,
            }
        }
        // Others were first each time. An addition cannot lose; it takes room for any alignment, and if others
        // took the last room meanwhile the rest of the area is lost. Never taken back: the bytes behind it may have
        // been handed out on the strength of it (INV-IMMORTAL-DISJOINT).
        let room = size.checked_add(align - 1).ok_or_else(shortage)?;
        if used.checked_add(room).is_none_or(|end| end > self.size) {
            return Err(shortage());
        }
        // No overflow: at most one `room` (≤ size) per thread lies beyond `size`.
        // Relaxed: see above.
        let from = self.used.fetch_add(room, Relaxed);
        fit(from).map(|(start, _)| claim(start)).ok_or_else(shortage)
    }

    #[cold]
    fn shortage(&self, requested_bytes: u64) -> ImmortalError {
        let (used_bytes, size_bytes) = (self.used_bytes(), self.size_bytes());
        ImmortalError { value: (), requested_bytes, used_bytes, size_bytes }
    }

    /// The error of a request that is larger than any layout.
    pub(crate) fn too_large(&self) -> ImmortalError {
        self.shortage(u64::MAX)
    }
}

impl Drop for ImmortalArea {
    fn drop(&mut self) {
        // Once something lies in it, it stays for as long as the process.
        if *self.used.get_mut() == 0
            && let Some(mut memory) = self.memory.take()
        {
            // SAFETY: taken out of its place, so it is dropped once; nothing was handed out, so nobody refers to it.
            unsafe { ManuallyDrop::drop(&mut memory) };
        }
    }
}

/// A range of immortal memory that belongs to its holder alone, to be filled from the front.
#[derive(Debug)]
pub(crate) struct Claim {
    at: *mut u8,
    left: usize,
}

impl Claim {
    /// The next place for `layout`.
    ///
    /// # Panics
    /// If it does not fit: the range was claimed for other contents.
    fn take(&mut self, layout: Layout) -> NonNull<u8> {
        let pad = self.at.addr().next_multiple_of(layout.align()) - self.at.addr();
        let taken = pad + layout.size();
        assert!(taken <= self.left, "a claim of immortal memory is filled as it was laid out");
        let place = self.at.wrapping_add(pad);
        self.at = self.at.wrapping_add(taken);
        self.left -= taken;
        NonNull::new(place).expect("neither a mapping nor an alignment is at address 0")
    }

    /// Moves `value` to the front.
    pub(crate) fn place<T: 'static>(&mut self, value: T) -> &'static mut T {
        let place = self.take(Layout::new::<T>()).cast::<T>();
        // SAFETY: `take` gives aligned room for a `T` that was handed to this claim alone (INV-IMMORTAL-DISJOINT) and
        // that is never given back or unmapped (`ImmortalArea::drop`), so the reference is valid for ever and unique.
        unsafe {
            place.write(value);
            &mut *place.as_ptr()
        }
    }

    /// Fills the front with `n` values. If `make` panics, those made so far are leaked.
    pub(crate) fn place_all<T: 'static>(
        &mut self,
        n: usize,
        mut make: impl FnMut() -> T,
    ) -> &'static mut [T] {
        let layout = Layout::array::<T>(n).expect("the claim's layout held this array");
        let place = self.take(layout).cast::<T>();
        for i in 0..n {
            // SAFETY: as in `place`, for `n` values; `i < n`.
            unsafe { place.add(i).write(make()) };
        }
        // SAFETY: as in `place`; all `n` values have been written.
        unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), n) }
    }
}

#[cfg(test)]
mod tests;
