//! Faults that the sanitizers must report, so that `scripts/sanitize` shows that they look. Ignored, and nothing
//! without `METRONOME_PLANTED=1`: each test does what a program must not do, and passes unless a sanitizer stops it.
#![cfg_attr(metronome_rtsan, feature(sanitize))]

#[path = "support/allocates.rs"]
mod allocates;

use allocates::Allocates;
use metronome_gc::{Heap, Root};
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Whether the script runs this.
fn wanted() -> bool {
    let wanted = std::env::var_os("METRONOME_PLANTED").is_some();
    if !wanted {
        println!("skipped: METRONOME_PLANTED is not set");
    }
    wanted
}

#[test]
#[ignore = "a fault for AddressSanitizer"]
fn use_after_free() {
    if !wanted() {
        return;
    }
    let p = Box::into_raw(Box::new(7u32));
    // SAFETY: made by `into_raw` above.
    drop(unsafe { Box::from_raw(p) });
    // SAFETY: none, it is freed: that is the fault.
    println!("{}", black_box(unsafe { p.read_volatile() }));
}

#[test]
#[ignore = "a fault for LeakSanitizer"]
fn leak() {
    if !wanted() {
        return;
    }
    // On another thread, on whose stack no copy of the address is left.
    std::thread::spawn(|| {
        black_box(Box::leak(Box::new([7u64; 100])));
    })
    .join()
    .expect("it does not panic");
}

/// A cell that two threads write without order.
struct Shared(std::cell::UnsafeCell<u64>);

// SAFETY: none, that is the fault.
unsafe impl Sync for Shared {}

#[test]
#[ignore = "a fault for ThreadSanitizer"]
fn data_race() {
    static SHARED: Shared = Shared(std::cell::UnsafeCell::new(0));
    static THERE: AtomicU32 = AtomicU32::new(0);
    if !wanted() {
        return;
    }
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                // Relaxed: both are there before either goes on, and that orders nothing: a thread that came when the
                // other had ended would be ordered by the library's own accounts of threads.
                THERE.fetch_add(1, Relaxed);
                while THERE.load(Relaxed) < 2 {
                    std::thread::yield_now();
                }
                for _ in 0..1000 {
                    // SAFETY: none, the other thread writes it too: that is the fault.
                    unsafe { *SHARED.0.get() += 1 };
                }
            });
        }
    });
}

#[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
#[inline(never)]
fn in_real_time(n: usize) -> Vec<u8> {
    Vec::with_capacity(n)
}

#[test]
#[ignore = "a fault for RealtimeSanitizer"]
fn allocation_in_real_time() {
    if !wanted() {
        return;
    }
    println!("{}", black_box(in_real_time(black_box(100))).capacity());
}

#[test]
#[ignore = "a fault for RealtimeSanitizer"]
fn allocation_in_a_quantum() {
    if !wanted() {
        return;
    }
    let heap = Heap::builder().heap_bytes(16 << 20).build().expect("the configuration is valid");
    heap.enter(|m| {
        let object = m.alloc(Allocates(7)).expect("the heap is large enough");
        let _kept = Root::new(m, object);
        let before = heap.stats().cycles;
        while heap.stats().cycles < before + 2 {
            for i in 0..1_000 {
                // An error is for the safepoint to mend.
                let _ = m.alloc(Allocates(i));
            }
            m.safepoint();
        }
    });
}
