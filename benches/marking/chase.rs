//! The limit: marking without a collector.

/// Asks for the cache line of `p`.
#[inline(always)]
fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and has no effect that a program can observe.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// References that are fetched ahead, as in the collector's mark queue.
const AHEAD: usize = 16;

/// The address as a pointer: that of an object that nobody writes to while it is chased.
fn word(address: usize) -> *const usize {
    std::ptr::with_exposed_provenance(address)
}

/// One bit for each 16 bytes from `base` on, and a stack.
#[derive(Debug)]
pub(crate) struct Bits {
    pub(crate) base: usize,
    pub(crate) words: Vec<u64>,
    /// Room for all objects.
    pub(crate) stack: Vec<usize>,
}

/// Chases what the references in `first` (address and number of slots) reach, in objects whose `SLOTS` slots follow their
/// header. Returns the number of objects.
///
/// # Safety
/// All of it is in the heap and unchanged meanwhile; the bitmap covers it.
pub(crate) unsafe fn chase<const SLOTS: usize>(bits: &mut Bits, first: &[(usize, usize)]) -> u64 {
    let mut chaser = Chaser { bits, top: 0, ring: [0; AHEAD], at: 0, len: 0, found: 0 };
    for &(slots, len) in first {
        for i in 0..len {
            // SAFETY: by this function's contract: slot `i` of an array or a local.
            let p = unsafe { *word(slots).add(i) };
            chaser.visit(p);
            // As the collector, which goes on in an array when it has scanned what it found there.
            if i % 64 == 63 {
                // SAFETY: by this function's contract.
                unsafe { chaser.drain::<SLOTS>() };
            }
        }
    }
    // SAFETY: by this function's contract.
    unsafe { chaser.finish::<SLOTS>() };
    chaser.found
}

struct Chaser<'a> {
    bits: &'a mut Bits,
    top: usize,
    ring: [usize; AHEAD],
    at: usize,
    len: usize,
    found: u64,
}

impl Chaser<'_> {
    #[inline(always)]
    fn visit(&mut self, p: usize) {
        if p == 0 {
            return;
        }
        let i = (p - self.bits.base) / 16;
        prefetch(self.bits.words.as_ptr().wrapping_add(i / 64).cast());
        prefetch(word(p).cast());
        if self.len == AHEAD {
            self.settle();
        }
        self.ring[(self.at + self.len) % AHEAD] = p;
        self.len += 1;
    }

    #[inline(always)]
    fn settle(&mut self) {
        let p = self.ring[self.at];
        self.at = (self.at + 1) % AHEAD;
        self.len -= 1;
        let i = (p - self.bits.base) / 16;
        let (w, m) = (&mut self.bits.words[i / 64], 1 << (i % 64));
        if *w & m == 0 {
            *w |= m;
            self.bits.stack[self.top] = p;
            self.top += 1;
        }
    }

    /// # Safety
    /// As for [`chase`].
    #[inline(always)]
    unsafe fn drain<const SLOTS: usize>(&mut self) {
        while self.top > 0 {
            self.top -= 1;
            let p = self.bits.stack[self.top];
            // SAFETY: by this function's contract. Whoever scans an object looks at its header.
            self.found += u64::from(unsafe { *word(p) } != 0);
            for s in 1..=SLOTS {
                // SAFETY: by this function's contract the object has so many slots behind its header.
                let child = unsafe { *word(p).add(s) };
                self.visit(child);
            }
        }
    }

    /// # Safety
    /// As for [`chase`].
    unsafe fn finish<const SLOTS: usize>(&mut self) {
        loop {
            // SAFETY: by this function's contract.
            unsafe { self.drain::<SLOTS>() };
            if self.len == 0 {
                return;
            }
            self.settle();
        }
    }
}
