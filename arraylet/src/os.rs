//! Memory from the operating system: one aligned reservation per heap and zeroed tables.
//!
//! # Safety
//! A [`Mapping`] owns its address range until it is dropped; nothing else unmaps any part of it.

use std::ptr::NonNull;

/// Options for the heap's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OsOptions {
    /// Touch every page before use, so that no page fault comes later.
    pub prefault: bool,
    /// Lock the memory (`mlock`), so that it is never swapped out. Implies `prefault`.
    pub lock: bool,
    /// Ask for transparent huge pages.
    pub huge_pages: bool,
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
    /// The heap size is zero or too large to align.
    Size {
        /// Bytes asked for.
        bytes: usize,
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
                "a heap of {bytes} bytes cannot be prefaulted or locked: the system has {available} bytes available; choose a smaller heap, or leave prefault and lock-memory off"
            ),
            ReserveError::Size { bytes } => write!(f, "a heap of {bytes} bytes is not possible"),
        }
    }
}

impl std::error::Error for ReserveError {}

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
        let page = 4096;
        let bytes =
            bytes.checked_next_multiple_of(page).filter(|&b| b > 0).ok_or(ReserveError::Size { bytes })?;
        let padded = bytes.checked_add(align).ok_or(ReserveError::Size { bytes })?;
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

    /// Gives the memory back to the system; the content becomes zero. Nobody may rely on the content any more.
    pub(crate) fn discard(&self) {
        // SAFETY: our own mapping; by this function's contract its content is dead.
        unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes, libc::MADV_DONTNEED) };
    }

    /// Applies the options; returns what was refused, in words. Cost: O(bytes) when prefaulting.
    pub fn apply(&self, options: OsOptions) -> Vec<String> {
        let mut refused = Vec::new();
        let at = self.base.as_ptr().cast();
        if options.huge_pages {
            // SAFETY: advice on our own mapping; it changes no content.
            if unsafe { libc::madvise(at, self.bytes, libc::MADV_HUGEPAGE) } != 0 {
                refused.push(format!("huge pages: {}", std::io::Error::last_os_error()));
            }
        }
        if options.prefault || options.lock {
            // SAFETY: populating our own mapping keeps its content.
            if unsafe { libc::madvise(at, self.bytes, libc::MADV_POPULATE_WRITE) } != 0 {
                refused.push(format!("prefault: {}", std::io::Error::last_os_error()));
            }
        }
        if options.lock {
            // SAFETY: locking our own mapping keeps its content.
            if unsafe { libc::mlock(at, self.bytes) } != 0 {
                refused.push(format!(
                    "mlock of {} bytes: {} (raise RLIMIT_MEMLOCK)",
                    self.bytes,
                    std::io::Error::last_os_error()
                ));
            }
        }
        refused
    }
}

/// `MemAvailable` of `/proc/meminfo`; `None` where that cannot be read.
fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

impl Drop for Mapping {
    fn drop(&mut self) {
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
    fn impossible_sizes_are_errors() {
        assert!(matches!(Mapping::new(0, 4096), Err(ReserveError::Size { .. })));
        assert!(matches!(Mapping::new(usize::MAX - 5, 4096), Err(ReserveError::Size { .. })));
        assert!(matches!(Mapping::new(1 << 60, 4096), Err(ReserveError::Map { .. })));
    }
}
