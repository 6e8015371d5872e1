//! Packets of work on their way from one mark queue to another: a fixed pool, two lock-free stacks.
//!
//! # State
//! A packet is in exactly one place: in the stack of empty ones, in that of full ones, or in the hands of a thread that fills
//! or empties it, which takes O([`PACKET`]) instructions and nothing that waits. Work packets: Ossia,
//! Ben-Yitzhak, Goft, Kolodner, Leikehman, Owshanko, *A parallel, incremental and concurrent GC for servers*, PLDI 2002;
//! ours are small, and carry only what one queue has too much of, not all work.
//!
//! # Who may touch what
//! Whoever popped a packet has its content until it is pushed. The collector and helpers that are in push and pop; so once the
//! collector has shut all seats, the stacks stand still and [`Pool::is_empty`] is exact.
//!
//! # Ordering
//! The stacks' pushes release and pops acquire.

use crate::sync::{AtomicU32, IndexStack, Ordering::Relaxed, UnsafeCell};

/// Entries of a packet.
pub(crate) const PACKET: usize = if cfg!(any(loom, metronome_tiny)) { 2 } else { 32 };

#[derive(Debug)]
struct Packet<E> {
    link: AtomicU32,
    content: UnsafeCell<(usize, [E; PACKET])>,
}

/// A pool of packets.
#[derive(Debug)]
pub(crate) struct Pool<E> {
    packets: Box<[Packet<E>]>,
    empty: IndexStack,
    full: IndexStack,
    /// Packets in `full`: a hint.
    waiting: AtomicU32,
}

// SAFETY: a packet's content is one thread's at a time, and passes on by the stacks.
unsafe impl<E: Send> Sync for Pool<E> {}

impl<E: Copy> Pool<E> {
    /// A pool of `packets`, allocated now.
    pub(crate) fn new(packets: u32, none: E) -> Pool<E> {
        let packet = || Packet { link: AtomicU32::new(0), content: UnsafeCell::new((0, [none; PACKET])) };
        let pool = Pool {
            packets: (0..packets).map(|_| packet()).collect(),
            empty: IndexStack::default(),
            full: IndexStack::default(),
            waiting: AtomicU32::new(0),
        };
        (0..packets).rev().for_each(|i| pool.push(&pool.empty, i));
        pool
    }

    fn push(&self, stack: &IndexStack, i: u32) {
        stack.push(i, |i| &self.packets[i as usize].link);
    }

    fn pop(&self, stack: &IndexStack) -> Option<u32> {
        stack.pop(|i| &self.packets[i as usize].link)
    }

    /// Full packets: a hint. One load.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        // Relaxed: a hint.
        self.waiting.load(Relaxed)
    }

    /// Has `fill` put entries into a packet, and hands it over; false if all packets are full, or there was nothing. Lock-free.
    pub(crate) fn give(&self, fill: impl FnOnce(&mut [E]) -> usize) -> bool {
        let Some(i) = self.pop(&self.empty) else { return false };
        // SAFETY: the packet was popped, so it is this thread's.
        let n = self.packets[i as usize].content.with_mut(|c| unsafe {
            let (len, entries) = &mut *c;
            *len = fill(entries);
            *len
        });
        if n == 0 {
            self.push(&self.empty, i);
            return false;
        }
        // Relaxed: a hint, counted up first so that it never falls below zero.
        self.waiting.fetch_add(1, Relaxed);
        self.push(&self.full, i);
        true
    }

    /// Has `empty` take the entries of a full packet; false if there is none. Lock-free.
    pub(crate) fn take(&self, empty: impl FnOnce(&[E])) -> bool {
        let Some(i) = self.pop(&self.full) else { return false };
        // Relaxed: a hint.
        self.waiting.fetch_sub(1, Relaxed);
        // SAFETY: as in `give`.
        self.packets[i as usize].content.with_mut(|c| unsafe {
            let (len, entries) = &*c;
            empty(&entries[..*len]);
        });
        self.push(&self.empty, i);
        true
    }

    /// Whether no packet is full. Exact while the stacks stand still.
    pub(crate) fn is_empty(&self) -> bool {
        self.full.is_empty()
    }

    /// Calls `f` with each entry of the full packets: for the verifier, while the stacks stand still.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&E)) {
        let mut at = self.full.peek();
        while let Some(i) = at {
            let packet = &self.packets[i as usize];
            // SAFETY: nobody pops or pushes meanwhile.
            packet.content.with_mut(|c| unsafe {
                let (len, entries) = &*c;
                entries[..*len].iter().for_each(&mut f);
            });
            // Relaxed: as above.
            at = packet.link.load(Relaxed).checked_sub(1);
        }
    }
}
