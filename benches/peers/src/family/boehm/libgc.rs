//! Calls into libgc.

use crate::family::raw::{Pointers, Raw};
use crate::family::{Facts, Family};
use std::alloc::Layout;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// `struct GC_stack_base` of gc.h, on machines with one stack.
#[repr(C)]
struct StackBase {
    mem_base: *mut c_void,
}

#[link(name = "gc")]
unsafe extern "C" {
    fn GC_init();
    fn GC_allow_register_threads();
    fn GC_thread_is_registered() -> c_int;
    fn GC_get_stack_base(base: *mut StackBase) -> c_int;
    fn GC_register_my_thread(base: *const StackBase) -> c_int;
    fn GC_unregister_my_thread() -> c_int;
    fn GC_malloc(bytes: usize) -> *mut c_void;
    fn GC_malloc_atomic(bytes: usize) -> *mut c_void;
    fn GC_get_gc_no() -> usize;
    fn GC_get_heap_size() -> usize;
}

/// Boehm's collector: one heap for the process.
pub(crate) struct Boehm;

/// A registered thread's access.
pub(crate) struct Access;

/// Takes the thread out of the collector's list again, also after a panic.
struct Registered(bool);

impl Drop for Registered {
    fn drop(&mut self) {
        if self.0 {
            // SAFETY: this thread registered itself and uses nothing of the heap any more.
            unsafe { GC_unregister_my_thread() };
        }
    }
}

impl Family for Boehm {
    type Shared = ();
    type Memory<'a> = Pointers<Access>;

    fn open(_heap: Option<u64>) -> Result<(), String> {
        // SAFETY: the first calls, on the main thread, before others run.
        unsafe {
            GC_init();
            GC_allow_register_threads();
        }
        Ok(())
    }

    fn enter<R>((): &(), f: impl FnOnce(&mut Pointers<Access>) -> R) -> R {
        let mut base = StackBase { mem_base: std::ptr::null_mut() };
        // SAFETY: the library is initialised; `base` is a valid place for the result.
        let _registered = unsafe {
            let new = GC_thread_is_registered() == 0;
            if new {
                GC_get_stack_base(&mut base);
                GC_register_my_thread(&base);
            }
            Registered(new)
        };
        f(&mut Pointers(Access))
    }

    fn facts((): &()) -> Facts {
        // SAFETY: plain queries.
        let (cycles, heap) = unsafe { (GC_get_gc_no(), GC_get_heap_size()) };
        vec![("gc.cycles".into(), cycles.to_string()), ("gc.heap_bytes".into(), heap.to_string())]
    }
}

// SAFETY: the collector aligns to 16 bytes, zeroes what may hold references, and frees only what no registered thread's
// stack, and no memory that may hold references, refers to.
unsafe impl Raw for Access {
    #[inline]
    fn get(&mut self, layout: Layout, references: bool) -> NonNull<u8> {
        // SAFETY: the library is initialised and this thread registered.
        let place =
            unsafe { if references { GC_malloc(layout.size()) } else { GC_malloc_atomic(layout.size()) } };
        NonNull::new(place.cast()).unwrap_or_else(|| crate::child::too_small(&"libgc gives no memory"))
    }
}
