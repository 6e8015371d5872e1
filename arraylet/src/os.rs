//! Memory from the operating system: one aligned reservation per heap and zeroed tables.
//!
//! # Safety
//! A [`Mapping`] owns its address range until it is dropped; nothing else unmaps any part of it.

use crate::class::REGION_BYTES;
use std::ops::Range;
use std::ptr::NonNull;

/// Options for the heap's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OsOptions {
    /// Back the regions within the limit by memory before they are used, so that no page fault comes later.
    pub prefault: bool,
    /// Lock the memory (`mlock`), so that it is never swapped out. Implies `prefault`.
    pub lock: bool,
    /// Ask for transparent huge pages. Without it the heap has none, whatever the system's default: a huge page
    /// would bring in more memory than was touched, at a time of the system's choice.
    pub huge_pages: bool,
}

impl OsOptions {
    /// Whether regions are backed by memory before they are used.
    #[must_use]
    pub const fn backs(self) -> bool {
        self.prefault || self.lock
    }
}

/// Why memory could not be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReserveError {
    /// The system refused the address range.
    Map {
        /// Bytes asked for.
        bytes: usize,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The pages are to be touched or locked now, and the system has not that many to give.
    Unavailable {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes that the system says are available.
        available: u64,
    },
    /// The system had the memory, and yet did not back the pages.
    Prefault {
        /// Bytes asked for.
        bytes: usize,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The heap size is below one region or too large to align.
    Size {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The heap is to begin larger than it may become.
    Initial {
        /// Bytes to begin with.
        initial: u64,
        /// Largest size.
        max: u64,
    },
}

impl std::fmt::Display for ReserveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReserveError::Map { bytes, source } => {
                write!(
                    f,
                    "cannot reserve {bytes} bytes of address space for the heap: {source}; choose a smaller heap or raise the limit on virtual memory (ulimit -v, vm.overcommit_memory)"
                )
            }
            ReserveError::Unavailable { bytes, available } => write!(
                f,
                "{bytes} bytes of heap cannot be prefaulted or locked: the system has {available} bytes available; choose a smaller heap, or leave prefault and lock-memory off"
            ),
            ReserveError::Prefault { bytes, source } => write!(
                f,
                "{bytes} bytes of heap cannot be prefaulted: {source}; choose a smaller heap, or leave prefault and lock-memory off"
            ),
            ReserveError::Size { bytes } => {
                write!(f, "a heap of {bytes} bytes is not possible: it has regions of {REGION_BYTES} bytes")
            }
            ReserveError::Initial { initial, max } => write!(
                f,
                "the heap is to begin with {initial} bytes, more than the {max} bytes it may have at most: lower the initial or raise the maximum size"
            ),
        }
    }
}

impl std::error::Error for ReserveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReserveError::Map { source, .. } | ReserveError::Prefault { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(feature = "hooks")]
thread_local! {
    /// Mappings that this thread will still be given, and then one that it is refused; 0: none is.
    static REFUSE_MAP: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    /// The same for locking.
    static REFUSE_LOCK: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Counts a test's switch down; whether this call is the one to be refused.
#[cfg(feature = "hooks")]
fn refuses(switch: &'static std::thread::LocalKey<std::cell::Cell<u32>>) -> bool {
    let n = switch.get();
    switch.set(n.saturating_sub(1));
    n == 1
}

/// Refuses this thread the `n`-th mapping from now (0: none); returns what was left of the last such wish.
#[cfg(feature = "hooks")]
#[doc(hidden)]
pub fn refuse_mapping(n: u32) -> u32 {
    REFUSE_MAP.replace(n)
}

/// Refuses this thread the `n`-th locking of memory from now (0: none); returns what was left of the last such wish.
#[cfg(feature = "hooks")]
#[doc(hidden)]
pub fn refuse_locking(n: u32) -> u32 {
    REFUSE_LOCK.replace(n)
}

/// A private anonymous mapping, zeroed, unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a Mapping is an address range without thread affinity; access to its content is governed by its users.
unsafe impl Send for Mapping {}
// SAFETY: as above; the methods read only `base` and `bytes`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` (rounded up to pages) readable and writable, aligned to `align` (a power of two ≥ a page).
    /// Pages are not backed by memory before they are touched.
    pub fn new(bytes: usize, align: usize) -> Result<Mapping, ReserveError> {
        let page = page_bytes();
        let bytes =
            bytes.checked_next_multiple_of(page).filter(|&b| b > 0).ok_or(ReserveError::Size { bytes })?;
        let padded = bytes.checked_add(align).ok_or(ReserveError::Size { bytes })?;
        #[cfg(feature = "hooks")]
        if refuses(&REFUSE_MAP) {
            return Err(ReserveError::Map { bytes, source: std::io::Error::from_raw_os_error(libc::ENOMEM) });
        }
        // SAFETY: an anonymous mapping at an address of the system's choice touches no memory of ours.
        let raw = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                padded,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if raw == libc::MAP_FAILED {
            return Err(ReserveError::Map { bytes, source: std::io::Error::last_os_error() });
        }
        let raw: *mut u8 = raw.cast();
        let head = raw.addr().next_multiple_of(align) - raw.addr();
        let base = raw.wrapping_add(head);
        let tail = padded - head - bytes;
        if head > 0 {
            // SAFETY: the head of the mapping made above, in use by nobody.
            unsafe { libc::munmap(raw.cast(), head) };
        }
        if tail > 0 {
            // SAFETY: the tail of the mapping made above, in use by nobody.
            unsafe { libc::munmap(base.wrapping_add(bytes).cast(), tail) };
        }
        let base = NonNull::new(base).ok_or(ReserveError::Size { bytes })?;
        Ok(Mapping { base, bytes })
    }

    /// First byte.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether prefaulting `bytes` is reasonable: touching more than there is would have the system kill processes.
    pub fn check_available(bytes: usize) -> Result<(), ReserveError> {
        let Some(available) = available_bytes() else { return Ok(()) };
        if bytes as u64 > available {
            return Err(ReserveError::Unavailable { bytes, available });
        }
        Ok(())
    }

    /// The pages that hold `range`, as address and length.
    fn pages(&self, range: &Range<usize>) -> (*mut u8, usize) {
        debug_assert!(range.start <= range.end && range.end <= self.bytes);
        let page = page_bytes();
        let start = range.start / page * page;
        let end = range.end.next_multiple_of(page).min(self.bytes);
        (self.base.as_ptr().wrapping_add(start), end - start)
    }

    /// Asks for huge pages, or for none; returns what was refused, in words. The content stays.
    pub(crate) fn advise_huge(&self, wanted: bool) -> Vec<String> {
        let advice = if wanted { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: advice on our own mapping; it changes no content.
        let done = unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes, advice) } == 0;
        // A system that refuses to go without huge pages knows of none.
        if done || !wanted {
            return Vec::new();
        }
        vec![format!("huge pages: {}", std::io::Error::last_os_error())]
    }

    /// Backs `range` by memory, which nobody may use at the same time, and locks it if asked. The content stays.
    /// Returns why it is not locked as asked, if so. Cost: O(bytes).
    ///
    /// # Errors
    /// [`ReserveError`] if the system has not that much memory.
    pub fn back(&self, range: &Range<usize>, lock: bool) -> Result<Option<String>, ReserveError> {
        let (at, bytes) = self.pages(range);
        crate::poison::usable(at, bytes);
        if bytes == 0 {
            return Ok(None);
        }
        // SAFETY: populating our own mapping keeps its content.
        if unsafe { libc::madvise(at.cast(), bytes, libc::MADV_POPULATE_WRITE) } != 0 {
            let source = std::io::Error::last_os_error();
            // Systems before Linux 5.14 do not know the advice.
            if source.raw_os_error() != Some(libc::EINVAL) {
                return Err(ReserveError::Prefault { bytes, source });
            }
            self.touch(range);
        }
        #[cfg(feature = "hooks")]
        if lock && refuses(&REFUSE_LOCK) {
            let source = std::io::Error::from_raw_os_error(libc::EPERM);
            return Ok(Some(format!("mlock of the heap: {source} (raise RLIMIT_MEMLOCK)")));
        }
        // SAFETY: locking our own mapping keeps its content.
        if lock && unsafe { libc::mlock(at.cast(), bytes) } != 0 {
            let source = std::io::Error::last_os_error();
            return Ok(Some(format!("mlock of the heap: {source} (raise RLIMIT_MEMLOCK)")));
        }
        Ok(None)
    }

    /// Writes to each page of `range` without changing it, so that it is backed. Nobody may use the range.
    fn touch(&self, range: &Range<usize>) {
        let page = page_bytes();
        let mut at = range.start;
        while at < range.end {
            let p = self.base.as_ptr().wrapping_add(at);
            // SAFETY: `at` is below `bytes`, the mapping is writable, and by this function's contract nobody else
            // uses these bytes. Volatile, so that the write takes place though it changes nothing.
            unsafe { p.write_volatile(p.read_volatile()) };
            at = (at / page + 1) * page;
        }
    }

    /// Makes `range` (whole pages) inaccessible, or accessible again. The content stays.
    pub(crate) fn protect(&self, range: &Range<usize>, on: bool) -> std::io::Result<()> {
        let (at, bytes) = self.pages(range);
        let access = if on { libc::PROT_NONE } else { libc::PROT_READ | libc::PROT_WRITE };
        // SAFETY: our own mapping; who uses the range meanwhile is to fault, which is no access.
        if unsafe { libc::mprotect(at.cast(), bytes, access) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(())
    }

    /// Gives the memory of `range` (whole pages) back to the system; its content becomes zero. Nobody may rely on
    /// the content any more. Locked memory is unlocked first.
    pub(crate) fn give_back(&self, range: &Range<usize>, locked: bool) -> std::io::Result<()> {
        let (at, bytes) = self.pages(range);
        // SAFETY: unlocking our own mapping keeps its content; what is not locked stays so.
        if locked && unsafe { libc::munlock(at.cast(), bytes) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: our own mapping; by this function's contract the content of the range is dead.
        if unsafe { libc::madvise(at.cast(), bytes, libc::MADV_DONTNEED) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(())
    }

    /// Bytes of the mapping that the system holds in memory, by mincore(2). O(bytes), with system calls.
    ///
    /// # Errors
    /// What mincore says.
    pub(crate) fn resident_bytes(&self) -> std::io::Result<u64> {
        const CHUNK: usize = 1 << 28;
        let page = page_bytes();
        let mut flags = vec![0u8; (CHUNK.min(self.bytes)).div_ceil(page)];
        let (mut at, mut resident) = (0, 0u64);
        while at < self.bytes {
            let bytes = CHUNK.min(self.bytes - at);
            let p = self.base.as_ptr().wrapping_add(at);
            // SAFETY: the range lies in our mapping, and `flags` has a byte for each of its pages.
            if unsafe { libc::mincore(p.cast(), bytes, flags.as_mut_ptr()) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
            let pages = flags[..bytes.div_ceil(page)].iter().filter(|&&f| f & 1 != 0).count();
            resident += (pages * page) as u64;
            at += bytes;
        }
        Ok(resident)
    }
}

/// Bytes of a page of the system.
fn page_bytes() -> usize {
    // SAFETY: sysconf has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(page).ok().filter(|p| p.is_power_of_two()).unwrap_or(4096)
}

/// `MemAvailable` of `/proc/meminfo`; `None` where that cannot be read.
fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Under AddressSanitizer this makes the addresses usable for whoever gets them next: the sanitizer's own
        // `munmap` does, without touching its shadow of them, which for terabytes would need all memory.
        // SAFETY: the range is ours (see the module's documentation) and its owner is being dropped.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_is_aligned_and_zeroed() {
        let m = Mapping::new(100_000, 1 << 20).unwrap();
        assert_eq!(m.base().as_ptr().addr() % (1 << 20), 0);
        assert!(m.bytes() >= 100_000);
        // SAFETY: the mapping is readable for its whole length.
        let s = unsafe { std::slice::from_raw_parts(m.base().as_ptr(), m.bytes()) };
        assert!(s.iter().all(|&b| b == 0));
    }

    #[test]
    fn what_is_backed_is_resident_until_it_is_given_back() {
        let m = Mapping::new(16 * REGION_BYTES, REGION_BYTES).unwrap();
        m.advise_huge(false);
        assert_eq!(m.resident_bytes().unwrap(), 0);
        m.back(&(REGION_BYTES..4 * REGION_BYTES), false).unwrap();
        assert_eq!(m.resident_bytes().unwrap(), 3 * REGION_BYTES as u64);
        // As where the system cannot populate.
        m.touch(&(8 * REGION_BYTES..9 * REGION_BYTES));
        assert_eq!(m.resident_bytes().unwrap(), 4 * REGION_BYTES as u64);
        // SAFETY: a byte of the mapping.
        unsafe { m.base().as_ptr().add(2 * REGION_BYTES).write(1) };
        m.give_back(&(2 * REGION_BYTES..3 * REGION_BYTES), false).unwrap();
        assert_eq!(m.resident_bytes().unwrap(), 3 * REGION_BYTES as u64);
        // SAFETY: as above.
        assert_eq!(unsafe { m.base().as_ptr().add(2 * REGION_BYTES).read() }, 0);
    }

    #[test]
    fn locked_memory_is_given_back_too() {
        let m = Mapping::new(2 * REGION_BYTES, REGION_BYTES).unwrap();
        m.advise_huge(false);
        if let Some(refused) = m.back(&(0..2 * REGION_BYTES), true).unwrap() {
            println!("skipped: {refused}");
            return;
        }
        assert!(m.give_back(&(0..REGION_BYTES), false).is_err(), "locked memory was given back");
        m.give_back(&(0..REGION_BYTES), true).unwrap();
        assert_eq!(m.resident_bytes().unwrap(), REGION_BYTES as u64);
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(matches!(Mapping::new(0, 4096), Err(ReserveError::Size { .. })));
        assert!(matches!(Mapping::new(usize::MAX - 5, 4096), Err(ReserveError::Size { .. })));
        assert!(matches!(Mapping::new(1 << 60, 4096), Err(ReserveError::Map { .. })));
    }
}
