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
mod tests {
    use super::*;

    fn area(bytes: u64) -> ImmortalArea {
        ImmortalArea::new(bytes, false).unwrap().0
    }

    /// Address and end of a value.
    fn range<T>(v: Immortal<T>) -> (usize, usize) {
        let at = std::ptr::from_ref(Immortal::as_static(v)).addr();
        (at, at + size_of::<T>())
    }

    #[repr(align(4096))]
    struct Page(#[expect(dead_code, reason = "its size counts")] u8);
    #[repr(align(64))]
    struct Line(u8);

    #[test]
    fn values_are_aligned_disjoint_and_keep_their_content() {
        let a = area(64 << 10);
        let byte = a.immortal(7u8).unwrap();
        let line = a.immortal(Line(8)).unwrap();
        let page = a.immortal(Page(9)).unwrap();
        let text = a.immortal(String::from("for ever")).unwrap();
        assert_eq!(range(line).0 % 64, 0);
        assert_eq!(range(page).0 % 4096, 0);
        let mut all = [range(byte), range(line), range(page), range(text)];
        all.sort_unstable();
        assert!(all.windows(2).all(|w| w[0].1 <= w[1].0), "{all:?}");
        assert_eq!((*byte, Immortal::as_static(line).0, text.as_str()), (7, 8, "for ever"));
        assert_eq!(a.used_bytes(), 8192 + size_of::<String>() as u64);
        // The values outlive the area.
        drop(a);
        assert_eq!((*byte, Immortal::as_static(line).0, text.as_str()), (7, 8, "for ever"));
    }

    #[test]
    fn an_exhausted_area_says_so_and_gives_the_value_back() {
        let a = area(4096);
        a.immortal([0u8; 4000]).unwrap();
        a.immortal(String::from("24 bytes")).unwrap();
        let e = a.immortal([5u8; 100]).unwrap_err();
        assert_eq!(e.value, [5u8; 100]);
        assert_eq!((e.requested_bytes, e.used_bytes, e.size_bytes), (100, 4024, 4096));
        assert!(
            e.to_string().contains("100 bytes (4024 of 4096") && e.to_string().contains("option immortal"),
            "{e}"
        );
        // What still fits is still to be had.
        a.immortal([0u8; 72]).unwrap();
        assert_eq!(a.immortal(1u8).unwrap_err().used_bytes, 4096);
        assert!(a.immortal(()).is_ok());
    }

    #[test]
    fn an_area_of_nothing_holds_nothing() {
        let a = area(0);
        assert_eq!((a.size_bytes(), a.used_bytes()), (0, 0));
        assert!(a.immortal(1u8).is_err());
        assert!(a.immortal(()).is_ok());
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(ImmortalArea::new(u64::MAX, false).is_err());
        assert!(ImmortalArea::new(1 << 60, false).is_err());
    }

    /// INV-IMMORTAL-DISJOINT, by the exchange and by the addition, up to the last byte.
    #[test]
    fn threads_get_disjoint_ranges() {
        for tries in [TRIES, 1, 0] {
            let a = area(256 << 10);
            let mut all: Vec<(usize, usize)> = std::thread::scope(|s| {
                let threads: Vec<_> = (0..4u32)
                    .map(|k| {
                        let a = &a;
                        s.spawn(move || {
                            let mut mine = Vec::new();
                            for i in 0.. {
                                let layout =
                                    Layout::from_size_align(1 + (i * 7 + k as usize) % 90, 1 << (i % 7))
                                        .unwrap();
                                let Ok(c) = a.claim_within(layout, tries) else { break };
                                assert_eq!(c.at.addr() % layout.align(), 0);
                                mine.push((c.at.addr(), c.at.addr() + layout.size()));
                            }
                            mine
                        })
                    })
                    .collect();
                threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
            });
            all.sort_unstable();
            assert!(all.windows(2).all(|w| w[0].1 <= w[1].0));
            let base = a.memory.as_ref().unwrap().base().as_ptr().addr();
            assert!(all[0].0 >= base && all[all.len() - 1].1 <= base + a.size);
            assert!(all.len() > 1000 && a.used_bytes() <= a.size_bytes());
        }
    }

    #[test]
    fn a_claim_is_filled_in_order() {
        let a = area(4096);
        let (layout, _) = Layout::new::<u8>().extend(Layout::array::<u64>(3).unwrap()).unwrap();
        let mut claim = a.claim(layout).unwrap();
        let first = claim.place(1u8);
        let mut n = 0;
        let rest = claim.place_all(3, || {
            n += 1;
            n as u64
        });
        assert_eq!((*first, &*rest), (1, &[1u64, 2, 3][..]));
        assert_eq!(a.used_bytes(), 32);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| claim.place(1u8))).is_err());
    }
}
