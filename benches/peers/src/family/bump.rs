//! A bump arena for each thread, from which nothing is ever freed: the least that allocation can cost, and no collector.

use super::Family;
use super::raw::{Pointers, Raw};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ptr::NonNull;

/// Bytes taken from the system's allocator at a time.
const CHUNK: usize = 4 << 20;

/// What is left of the latest chunk.
pub(crate) struct Arena {
    at: NonNull<u8>,
    left: usize,
}

/// Bump arenas.
pub(crate) struct Bump;

impl Family for Bump {
    type Shared = ();
    type Memory<'a> = Pointers<Arena>;

    fn open(_heap: Option<u64>) -> Result<(), String> {
        Ok(())
    }

    fn enter<R>((): &(), f: impl FnOnce(&mut Pointers<Arena>) -> R) -> R {
        f(&mut Pointers(Arena { at: NonNull::dangling(), left: 0 }))
    }
}

impl Arena {
    #[cold]
    fn chunk(&mut self, bytes: usize) {
        let size = bytes.max(CHUNK);
        let Ok(layout) = Layout::from_size_align(size, 8) else { panic!("{size} bytes are too many") };
        // SAFETY: not empty.
        let Some(at) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        *self = Arena { at, left: size };
    }
}

// SAFETY: each piece is handed out once, from chunks that are zeroed, aligned and never freed; pieces are whole words.
unsafe impl Raw for Arena {
    #[inline]
    fn get(&mut self, layout: Layout, _references: bool) -> NonNull<u8> {
        let bytes = layout.size().next_multiple_of(8);
        if bytes > self.left {
            self.chunk(bytes);
        }
        let place = self.at;
        // SAFETY: at most `left` bytes further in the same chunk.
        self.at = unsafe { place.add(bytes) };
        self.left -= bytes;
        place
    }
}
