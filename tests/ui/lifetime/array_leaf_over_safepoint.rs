#![forbid(unsafe_code)]

// The same for slices of arrays.
use metronome_gc::Heap;

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let array = m.alloc_array(10_000, |i| i).unwrap();
        let leaf: &[usize] = array.leaves().next().unwrap();
        m.safepoint();
        println!("{}", leaf[0]);
    });
}
