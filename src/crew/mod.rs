//! Helpers: threads that mark beside the collector's own, and the sharing of work among them.
//!
//! # State
//! Each helper has a [`Seat`] with a mark queue. Work passes through a [`Pool`] of packets: whoever has more than it needs
//! while few packets wait gives some, whoever has none takes one. So grey objects are in the collector's queue, in helpers'
//! queues, in packets, in logs, and have grey bits (INV-MARK-GREY).
//!
//! # Who may touch what
//! The collector invites while the world is stopped and the phase marks (Snapshot, Mark, Finalize), and only while no key
//! of an ephemeron waits to be met: a helper does not look objects up. At the end of a quantum it dismisses
//! those who are not to stay, and does not wait for that: a helper leaves after its step. One that has lost its CPU in the
//! middle of a step is late. Who is late, and who stays, goes on beside running mutators, as if its steps were taken slot by slot in
//! quanta of their own. That is sound because
//!
//! - marks and grey bits are set by atomic instructions, by helpers and mutators alike, and by the collector while any seat
//!   is taken;
//! - slots are read atomically, acquiring what was published with their values;
//! - a value that a mutator removes before the helper has read it is shaded by the deletion barrier, which is on until the
//!   collector ends marking, and it ends marking only when all seats are shut;
//! - arrays are scanned in slices between which mutators run anyway, so half-scanned objects are nothing new.
//!
//! # End of marking
//! The collector shuts seat after seat. A helper that is in keeps its seat from being shut; one that was shut cannot come
//! in, and only those in can give packets. So when all are shut, nobody adds anything, and what is in packets and queues is
//! all there is. As long as a helper is in, the collector waits for packets, but not for ever: after [`PATIENCE`] steps it ends
//! the quantum and lets the program, and with it the helper, have the CPU.
//!
//! # Bounds
//! A helper leaves within one step of its own (see [`mark`](crate::mark)). Inviting and dismissing: O(helpers), a system call for
//! each one that sleeps. Giving and taking: O([`PACKET`](pool::PACKET)), lock-free.

pub(crate) mod helper;
pub(crate) mod pool;
pub(crate) mod seat;

use crate::sync::{AtomicU32, AtomicU64, Ordering::Acquire, spin_loop};
use pool::Pool;
use seat::Seat;

/// Steps that the collector waits for helpers in one go before it ends the quantum.
const PATIENCE: u32 = 256;
/// Looks of such a step.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 32 };
/// Entries taken over from a helper's queue in a step.
const TAKE_OVER: usize = 128;

/// A queue of work that can be shared: the mark queue, or a model of one.
pub(crate) trait Work {
    /// What passes from one queue to another.
    type Entry: Copy;
    /// What a step works on.
    type Heap;
    /// An entry that is none.
    const NONE: Self::Entry;
    /// Whether there is nothing to do.
    fn is_empty(&self) -> bool;
    /// How many entries could be given without running short.
    fn surplus(&self) -> usize;
    /// Gives at most so many as fit; returns how many.
    fn give(&mut self, to: &mut [Self::Entry]) -> usize;
    /// Takes all of these, being empty.
    fn take(&mut self, heap: &Self::Heap, from: &[Self::Entry]);
    /// Takes at most `limit` entries of another queue; whether there were any.
    fn take_over(&mut self, heap: &Self::Heap, other: &mut Self, limit: usize) -> bool;
    /// One step, when not empty. Returns the number of objects scanned.
    fn work(&mut self, heap: &Self::Heap) -> u64;
    /// Forgets everything.
    fn clear(&mut self);
}

/// The helpers of a heap.
#[derive(Debug)]
pub(crate) struct Crew<Q: Work> {
    pub(crate) seats: Box<[Seat<Q>]>,
    pool: Pool<Q::Entry>,
    /// Objects that helpers have scanned in this cycle.
    pub(crate) scanned: AtomicU64,
    by_hand: AtomicU32,
    /// CPU time of the helpers in their seats.
    pub(crate) cpu_ns: AtomicU64,
}

/// What the collector found when it wanted all helpers out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recall {
    /// Nobody is in and nothing is left: no grey object is in a queue or packet.
    Out,
    /// There was work left, which the collector has now; or a helper is in, and the collector has waited for work a while.
    Work,
    /// A helper does not come out: the quantum is to end.
    Late,
}

impl<Q: Work> Crew<Q> {
    /// Seats for `threads` − 1 helpers, with a queue by `queue` each, and packets. All of it is allocated now.
    pub(crate) fn new(threads: u32, queue: impl Fn() -> Q) -> Crew<Q> {
        let helpers = threads.saturating_sub(1);
        Crew {
            seats: (0..helpers).map(|_| Seat::new(queue())).collect(),
            pool: Pool::new(helpers * 4, Q::NONE),
            scanned: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
            by_hand: AtomicU32::new(0),
        }
    }

    /// Whether packets are few for so many helpers.
    #[inline]
    fn is_hungry(&self) -> bool {
        self.pool.waiting() < self.seats.len() as u32 * 2
    }

    /// Gives what `queue` has too much of, if packets are few.
    #[inline]
    pub(crate) fn share(&self, queue: &mut Q) -> bool {
        self.is_hungry() && queue.surplus() > 0 && self.pool.give(|to| queue.give(to))
    }

    /// Gives a packet of what `queue` has too much of, whether there are others or not.
    fn pool_give(&self, queue: &mut Q) -> bool {
        queue.surplus() > 0 && self.pool.give(|to| queue.give(to))
    }

    /// Whether no helper is in or may come in: for assertions, by the collector.
    #[cfg_attr(loom, allow(dead_code))]
    pub(crate) fn is_shut(&self) -> bool {
        self.seats.iter().all(|seat| !seat.is_in() && !seat.is_open())
    }

    /// Whether a helper is in: a hint.
    #[cfg_attr(loom, allow(dead_code))]
    pub(crate) fn is_busy(&self) -> bool {
        self.seats.iter().any(Seat::is_in)
    }

    /// Takes a packet into a queue that is empty.
    pub(crate) fn take(&self, heap: &Q::Heap, queue: &mut Q) -> bool {
        self.pool.take(|entries| queue.take(heap, entries))
    }

    /// Shuts the seats; whether nobody is in.
    fn all_out(&self) -> bool {
        // Each of them is asked, so that none comes in once more.
        self.seats.iter().fold(true, |out, seat| seat.withdraw() & out)
    }

    /// Waits until all helpers are out, then shows what waits in packets and in their queues. For the
    /// verifier: not in a quantum that is to be short.
    #[expect(clippy::disallowed_methods, reason = "verifying is not real-time work")]
    pub(crate) fn for_each(&self, heap: &Q::Heap, entry: impl FnMut(&Q::Entry), mut queue: impl FnMut(&Q)) {
        while !self.seats.iter().fold(true, |out, seat| seat.dismiss() & out) {
            self.drive(heap);
            std::thread::yield_now();
        }
        self.pool.for_each(entry);
        for seat in &self.seats {
            // SAFETY: the seat is shut, so its queue is the collector's.
            unsafe { seat.with(|q| queue(q)) };
        }
    }

    /// In a heap that tests drive by hand: one step of each helper, on the collector's thread.
    #[inline]
    pub(crate) fn drive(&self, heap: &Q::Heap) {
        // Acquire: pairs with the Release in `set_by_hand`.
        if self.by_hand.load(Acquire) != 0 {
            for (index, seat) in self.seats.iter().enumerate() {
                if seat.is_in() || seat.enter() {
                    helper::turn(self, index, heap);
                }
            }
        }
    }

    /// There are no threads: [`Crew::drive`] is called instead.
    #[cfg(feature = "hooks")]
    pub(crate) fn set_by_hand(&self, by_hand: bool) {
        use crate::sync::Ordering::Release;
        // Release: pairs with the Acquire in `drive`.
        self.by_hand.store(u32::from(by_hand), Release);
        let change = if by_hand { Seat::come } else { Seat::gone };
        self.seats.iter().for_each(change);
    }

    /// Sleeps until `until_ns` if a helper is in.
    pub(crate) fn nap(&self, until_ns: u64) {
        if let Some(seat) = self.seats.iter().find(|s| s.is_in()) {
            seat.await_move(until_ns);
        }
    }

    /// Ends all helpers' threads and waits for it. Not in a quantum.
    pub(crate) fn end(&self) {
        self.seats.iter().for_each(Seat::end);
        self.seats.iter().for_each(Seat::await_gone);
    }
}

/// The collector's side.
#[derive(Debug, Default)]
pub(crate) struct Foreman {
    /// Seats may be taken: other threads may be marking.
    invited: bool,
    /// Packets or helpers' queues may hold something.
    shared: bool,
    /// The helpers were asked out at the end of a quantum, not because there was no work.
    paused: bool,
    /// Steps spent waiting in one go.
    waited: u32,
}

impl Foreman {
    /// Before a stop is requested: wakes the helpers if they will be invited, so that they are there when it has come about.
    /// Only where they take none of the `cpus` from one of the `running` mutators that are to arrive.
    pub(crate) fn call<Q: Work>(&self, crew: &Crew<Q>, running: u32, cpus: u32) {
        if self.paused && running + 1 < cpus {
            crew.seats.iter().for_each(Seat::call);
        }
    }

    /// Whether no helper marks at present.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        !self.invited
    }

    /// Before a step of marking: invites the helpers again when a new quantum has begun.
    #[inline]
    pub(crate) fn resume<Q: Work>(&mut self, crew: &Crew<Q>) {
        if self.paused {
            self.paused = false;
            self.invite(crew);
        }
    }

    /// After a step of marking: gives a packet if few wait, and invites the helpers.
    #[inline]
    pub(crate) fn share<Q: Work>(&mut self, crew: &Crew<Q>, queue: &mut Q) {
        self.waited = 0;
        if crew.share(queue) {
            self.shared = true;
            self.invite(crew);
        }
    }

    fn invite<Q: Work>(&mut self, crew: &Crew<Q>) {
        for seat in &crew.seats {
            self.invited |= seat.invite();
        }
    }

    /// Takes a packet that nobody has taken.
    pub(crate) fn take_back<Q: Work>(&mut self, crew: &Crew<Q>, heap: &Q::Heap, queue: &mut Q) -> bool {
        self.shared && crew.take(heap, queue)
    }

    /// Wants all helpers out, with nothing left in queues and packets.
    pub(crate) fn recall<Q: Work>(&mut self, crew: &Crew<Q>, heap: &Q::Heap, queue: &mut Q) -> Recall {
        if !self.shared {
            return Recall::Out;
        }
        if crew.seats.iter().any(Seat::is_in) {
            self.waited += 1;
            if self.waited > PATIENCE {
                self.waited = 0;
                return Recall::Late;
            }
            for _ in 0..LOOKS {
                if crew.pool.waiting() > 0 {
                    break;
                }
                spin_loop();
            }
            return Recall::Work;
        }
        if !crew.all_out() {
            return Recall::Work;
        }
        // Nobody is in, and nobody comes in: all of it is this thread's.
        (self.invited, self.paused) = (false, false);
        if crew.take(heap, queue) {
            return Recall::Work;
        }
        for seat in &crew.seats {
            // SAFETY: the seat was shut by this thread, so its queue is this thread's until the next invitation.
            let taken = unsafe { seat.with(|q| queue.take_over(heap, q, TAKE_OVER)) };
            if taken {
                return Recall::Work;
            }
        }
        debug_assert!(crew.pool.is_empty(), "a packet is left when all helpers are out");
        (self.shared, self.waited) = (false, 0);
        Recall::Out
    }

    /// The quantum is over, and helpers in the first `staying` seats go on beside the mutators; the others are asked out, without
    /// waiting. What this thread has too much of it leaves to them, as far as there are packets.
    pub(crate) fn leave<Q: Work>(&mut self, crew: &Crew<Q>, queue: &mut Q, staying: usize) {
        if staying == 0 {
            return self.dismiss(crew);
        }
        while crew.pool_give(queue) {
            self.shared = true;
        }
        if self.shared {
            // The others are invited again by the next quantum.
            self.paused = true;
            self.invited = false;
            for (i, seat) in crew.seats.iter().enumerate() {
                self.invited |= match (i < staying, crew.pool.waiting() > 0) {
                    (true, true) => seat.invite(),
                    // One that works goes on; who has nothing to do need not look out for it.
                    (true, false) => !seat.withdraw(),
                    (false, _) => !seat.dismiss(),
                };
            }
        }
    }

    /// The quantum is over, or was given up: asks the helpers out, without waiting.
    pub(crate) fn dismiss<Q: Work>(&mut self, crew: &Crew<Q>) {
        if self.shared {
            self.paused = true;
            self.invited = false;
            for seat in &crew.seats {
                self.invited |= !seat.dismiss();
            }
        }
    }

    /// Forgets everything: for the teardown of a heap in the middle of a cycle, when all helpers have ended.
    pub(crate) fn clear<Q: Work>(&mut self, crew: &Crew<Q>) {
        while crew.pool.take(|_| ()) {}
        for seat in &crew.seats {
            // SAFETY: there is no helper any more.
            unsafe { seat.with(Q::clear) };
        }
        *self = Foreman::default();
    }
}
