//! Bytes per object: `cargo bench --bench space`. Prints a table; measures no time.
//!
//! Ours is measured: the heap's own account of cells before and after allocating, and the side table by the size of its
//! entries. The others are computed by the rules named at each function, which are those of the allocators' sources; nothing
//! here runs them. See README.md in this folder.

use metronome_gc::{Heap, Mutator, Payload, Slot, Trace};

/// Objects allocated of each kind.
const N: u64 = 50_000;

#[derive(Trace)]
struct Pair {
    left: Slot<Pair>,
    right: Slot<Pair>,
}

#[derive(Trace)]
struct Node {
    left: Slot<Node>,
    right: Slot<Node>,
    value: u64,
}

#[derive(Trace)]
struct Link {
    next: Slot<Link>,
    value: u64,
}

/// What an object holds, apart from what any of the allocators adds.
#[derive(Clone, Copy)]
struct Shape {
    references: u64,
    /// Bytes of other fields, each of 8 bytes.
    data: u64,
    /// Elements of 8 bytes, if it is an array.
    elements: Option<u64>,
}

/// Rounds up to a multiple.
fn up(bytes: u64, to: u64) -> u64 {
    bytes.next_multiple_of(to)
}

/// mimalloc 2: multiples of 16 up to 64 bytes, then four classes per doubling (`mi_bin` in page-queue.c); multiples of
/// 4 KiB above 128 KiB (a page of its own; its header is not counted).
fn mimalloc(bytes: u64) -> u64 {
    match bytes {
        0..=8 => 8,
        9..=64 => up(bytes, 16),
        65..=0x2_0000 => up(bytes, 1 << ((bytes - 1).ilog2() - 2)),
        _ => up(bytes, 4096),
    }
}

impl Shape {
    /// The fields alone, with references of 8 bytes.
    fn plain(self) -> u64 {
        8 * self.references + self.data + 8 * self.elements.unwrap_or(0)
    }

    /// `Box` (a `Box<[u64]>` keeps the length beside the pointer, in its owner).
    fn boxed(self) -> u64 {
        mimalloc(self.plain())
    }

    /// gc-arena 0.7: a header of two words (link, and type with colour), in memory of the global allocator. Arrays are boxed
    /// slices: a pointer and a length in the object, the elements beside it.
    fn gc_arena(self) -> u64 {
        match self.elements {
            None => mimalloc(16 + self.plain()),
            Some(n) => mimalloc(16 + 16) + mimalloc(8 * n),
        }
    }

    /// HotSpot, heap below 32 GiB (references of 4 bytes): header 12 bytes, or 8 with compact headers (JEP 519); 16 or 12
    /// for arrays, whose elements are aligned to 8. Objects are multiples of 8.
    fn java(self, compact: bool) -> u64 {
        let header = if compact { 8 } else { 12 };
        match self.elements {
            None => up(up(header + 4 * self.references, if self.data > 0 { 8 } else { 4 }) + self.data, 8),
            Some(n) => up(header + 4, 8) + 8 * n,
        }
    }

    /// The same with references of 8 bytes: ZGC, and heaps above 32 GiB.
    fn java_zgc(self) -> u64 {
        match self.elements {
            None => up(12, 8) + self.plain(),
            Some(n) => 16 + 8 * n,
        }
    }

    /// Go 1.22 and later: the size classes of runtime/sizeclasses.go; a header of 8 bytes on objects with pointers above
    /// 512 bytes; whole pages of 8 KiB above 32 KiB. A slice's length is beside its pointer. Bitmaps of pointers are in the
    /// span (1 bit per word), and so are mark and allocation bits: not counted.
    fn go(self) -> u64 {
        const CLASSES: [u64; 67] = [
            8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352,
            384, 416, 448, 480, 512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048, 2304,
            2688, 3072, 3200, 3456, 4096, 4864, 5376, 6144, 6528, 6784, 6912, 8192, 9472, 9728, 10240, 10880,
            12288, 13568, 14336, 16384, 18432, 19072, 20480, 21760, 24576, 27264, 28672, 32768,
        ];
        let bytes = self.plain();
        let bytes = if bytes > 512 && self.references > 0 { bytes + 8 } else { bytes };
        CLASSES.into_iter().find(|&c| c >= bytes).unwrap_or(up(bytes, 8192))
    }
}

/// Bytes in cells for each of `n` objects, by the heap's own account.
fn measured(heap: &Heap, n: u64, mut alloc: impl FnMut(&Mutator<'_>)) -> f64 {
    // Outside of `enter` no cell is set aside for this thread, so the account is of objects alone.
    let before = heap.glance().allocated_bytes;
    heap.enter(|m| {
        for _ in 0..n {
            alloc(m);
            m.safepoint();
        }
    });
    (heap.glance().allocated_bytes - before) as f64 / n as f64
}

fn main() {
    // The side table: an entry for each region of 64 KiB.
    let side = metronome_arraylet::region::ENTRY_BYTES as f64 / metronome_arraylet::REGION_BYTES as f64;
    let heap = Heap::builder().heap_bytes(256 << 20).build().expect("a heap of that size");
    let shape = |references, data, elements| Shape { references, data, elements };
    println!("Bytes per object; ours measured over {N} objects, the others by rule.");
    println!();
    println!(
        "| object | fields | ours: cell | with side table | Box, mimalloc | gc-arena | Java | Java, compact headers | ZGC | Go |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let row = |name: &str, s: Shape, cell: f64| {
        println!(
            "| {name} | {} | {cell:.1} | {:.1} | {} | {} | {} | {} | {} | {} |",
            s.plain(),
            cell * (1.0 + side),
            s.boxed(),
            s.gc_arena(),
            s.java(false),
            s.java(true),
            s.java_zgc(),
            s.go(),
        );
    };
    let ok = "the heap is large enough";
    let cell = measured(&heap, N, |m| _ = m.alloc(PairInit { left: None, right: None }).expect(ok));
    row("two references", shape(2, 0, None), cell);
    let cell = measured(&heap, N, |m| _ = m.alloc(NodeInit { left: None, right: None, value: 1 }).expect(ok));
    row("two references, one word", shape(2, 8, None), cell);
    let cell = measured(&heap, N, |m| _ = m.alloc(LinkInit { next: None, value: 1 }).expect(ok));
    row("one reference, one word", shape(1, 8, None), cell);
    let cell = measured(&heap, N, |m| _ = m.alloc(Payload(1u64)).expect(ok));
    row("one word", shape(0, 8, None), cell);
    let cell = measured(&heap, N, |m| _ = m.alloc(Payload([1u64; 3])).expect(ok));
    row("three words", shape(0, 24, None), cell);
    let cell = measured(&heap, N, |m| _ = m.alloc(Payload([1u64; 4])).expect(ok));
    row("four words", shape(0, 32, None), cell);
    let cell = measured(&heap, N, |m| _ = m.alloc(Payload([1u64; 12])).expect(ok));
    row("twelve words", shape(0, 96, None), cell);
    let cell = measured(&heap, N, |m| _ = m.alloc(Payload([1u64; 100])).expect(ok));
    row("a hundred words", shape(0, 800, None), cell);
    for (n, elements) in [(N, 4), (N, 100), (N / 20, 1000), (N / 200, 10_000), (20, 1_000_000)] {
        let cell = measured(&heap, n, |m| {
            // A large array may fail while the one before has not been collected: a safepoint waits for that.
            _ = m.alloc_array::<u64, _>(elements, |i| i as u64).expect(ok);
        });
        row(&format!("array of {elements} words"), shape(0, 0, Some(elements as u64)), cell);
    }
    println!();
    println!(
        "Side table: {:.2} % of the heap in use: bitmaps for marks, cells in use, grey and condemned cells.",
        side * 100.0
    );
}
