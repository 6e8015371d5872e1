//! The pool of free regions, and the count of regions in use against the limit.
//!
//! # State
//! `count` packs the *limit* (high half) and the number of regions *in use* (low half), those that are promised to
//! a mutator among them; in use never exceeds the limit, nor the limit `max` (INV-HEAP-LIMIT). A free region is in
//! one place (INV-HEAP-POOL):
//! * `ready`: resident;
//! * never taken (index ≥ `fresh`): resident when below `backed`;
//! * `returned`: its memory was given back to the system.
//!
//! `resident` counts the regions whose flag of that name is set (INV-HEAP-RESIDENT). In a heap that is backed in
//! advance there are at least as many as the limit allows (INV-HEAP-BACKED).
//!
//! There is one region more than the maximum, the *spare*, so that [`Pool::lend`] never takes one that a mutator
//! may have.
//!
//! # A claim is always good
//! Taking a region is a [`Pool::claim`] of the count, then [`Pool::find`]. Let *out* be the regions in no place of the
//! pool. Who gives a region back pushes it *before* it lowers the count, so at each moment
//! `out ≤ in use − claims that have yet to find + lent ≤ limit − such claims + lent`. There are `max + 1 ≥ limit + 1`
//! regions, and at most one is lent; so the pool holds at least as many regions as claims look for. With backing in
//! advance the same holds of the resident ones: `resident ≥ limit`, and one is lent only while `resident > limit`.
//!
//! A look into one place after the other can fail all the same, if one region is pushed to a place already seen while
//! another is taken from a place not yet seen. So a failed look costs somebody a push since the claim, and `find` looks
//! at most once more than regions are released meanwhile. While mutators run, only flushes (at most one region for
//! each cursor), the reaper (one for each region condemned) and trimming (one for each chunk) release any: the number is
//! bounded between two stops. Nobody waits for a particular thread: a preempted one holds up no other.
//!
//! # Who may touch what
//! Anyone may claim and find, if it may take regions. [`Pool::lend`], [`Pool::back_returned`], [`Pool::back_fresh`] and
//! [`Pool::raise`] belong to the holder of the heap's administration lock.
//!
//! # Ordering
//! What was pushed or backed before a Release on `count` is seen after an Acquire on it. All changes of `count` are
//! read-modify-writes, so a claim synchronizes with every release before it, not only the last (release sequence).

use crate::region::RegionMeta;
use crate::stack::IndexStack;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Regions in use and their limit, of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) in_use: u32,
    pub(crate) limit: u32,
}

impl Count {
    fn unpack(word: u64) -> Count {
        Count { in_use: word as u32, limit: (word >> 32) as u32 }
    }

    fn pack(self) -> u64 {
        u64::from(self.limit) << 32 | u64::from(self.in_use)
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) count: AtomicU64,
    pub(crate) ready: IndexStack,
    pub(crate) returned: IndexStack,
    pub(crate) fresh: AtomicU32,
    pub(crate) backed: AtomicU32,
    pub(crate) resident: AtomicU32,
    /// Part of the regions in use that are promised and not yet taken.
    pub(crate) promised: AtomicU32,
    /// Largest limit.
    pub(crate) max: u32,
    /// Regions are resident before they are within the limit.
    pub(crate) backs: bool,
}

fn link<'a>(metas: &'a [RegionMeta]) -> impl Fn(u32) -> &'a AtomicU32 + Copy {
    |i| &metas[i as usize].link
}

impl Pool {
    /// A pool of `max` regions and the spare one, none of them resident, with a limit of 0.
    pub(crate) const fn new(max: u32, backs: bool) -> Pool {
        Pool {
            count: AtomicU64::new(0),
            ready: IndexStack::new(),
            returned: IndexStack::new(),
            fresh: AtomicU32::new(0),
            backed: AtomicU32::new(0),
            resident: AtomicU32::new(0),
            promised: AtomicU32::new(0),
            max,
            backs,
        }
    }

    /// Regions in use and the limit. Any thread.
    pub(crate) fn count(&self) -> Count {
        // Relaxed: a snapshot; both halves are of one moment.
        Count::unpack(self.count.load(Relaxed))
    }

    /// Regions that memory backs. Any thread.
    pub(crate) fn resident(&self) -> u32 {
        // Relaxed: a counter.
        self.resident.load(Relaxed)
    }

    // ---- taking and giving back (running) -------------------------------------------------------------------

    /// Counts `n` more regions as in use, if the limit allows; each may then be had by [`Pool::find`]. Lock-free.
    #[must_use]
    pub(crate) fn claim(&self, n: u32) -> bool {
        let more = |word| {
            let c = Count::unpack(word);
            (n <= c.limit.saturating_sub(c.in_use)).then(|| word + u64::from(n))
        };
        // Acquire: pairs with the Release in `unclaim` and `raise`: what was pushed or backed before is seen.
        // Relaxed, of the first look: the exchange decides.
        self.count.fetch_update(Acquire, Relaxed, more).is_ok()
    }

    /// Counts `n` regions less as in use: claims that were not used, or regions pushed before.
    pub(crate) fn unclaim(&self, n: u32) {
        // Release: pairs with the Acquire in `claim`.
        let before = self.count.fetch_sub(u64::from(n), Release);
        debug_assert!(before as u32 >= n, "fewer regions are in use than are given back");
    }

    /// A free region for a claim, a resident one if there is any. For the bound see the module's documentation.
    pub(crate) fn find(&self, metas: &[RegionMeta]) -> u32 {
        loop {
            if let Some(id) = self.look(metas) {
                return id;
            }
            std::hint::spin_loop();
        }
    }

    fn look(&self, metas: &[RegionMeta]) -> Option<u32> {
        if let Some(id) = self.lend(metas) {
            return Some(id);
        }
        if self.backs {
            // A resident one is there, or on its way.
            return None;
        }
        let id = self.returned.pop(link(metas)).or_else(|| self.next_fresh(metas.len() as u32))?;
        self.set_resident(metas, id);
        Some(id)
    }

    fn next_fresh(&self, end: u32) -> Option<u32> {
        // Relaxed: hands out each index once; what is below `backed` was seen by its Acquire.
        self.fresh.fetch_update(Relaxed, Relaxed, |f| (f < end).then(|| f + 1)).ok()
    }

    /// Puts a region that is in use back. Its state is Free by now.
    pub(crate) fn put(&self, metas: &[RegionMeta], id: u32) {
        // Before the count, so that a claim is always good.
        self.ready.push(id, link(metas));
        self.unclaim(1);
    }

    // ---- the size (holder of the administration lock) -------------------------------------------------------

    /// A resident free region without a claim, if one is seen at once. At most one may be lent at a time; it goes
    /// back by [`Pool::put_returned`] or [`Pool::put_ready`].
    pub(crate) fn lend(&self, metas: &[RegionMeta]) -> Option<u32> {
        self.ready.pop(link(metas)).or_else(|| {
            // Acquire: pairs with the Release in `back_fresh`, so that the flags of the backed ones are seen.
            self.next_fresh(self.backed.load(Acquire))
        })
    }

    /// Puts back a lent region whose memory was given back to the system.
    pub(crate) fn put_returned(&self, metas: &[RegionMeta], id: u32) {
        // Relaxed: published by the push.
        metas[id as usize].resident.store(false, Relaxed);
        // Relaxed: a counter.
        self.resident.fetch_sub(1, Relaxed);
        self.returned.push(id, link(metas));
    }

    /// Puts back a lent region as it was.
    pub(crate) fn put_ready(&self, metas: &[RegionMeta], id: u32) {
        self.ready.push(id, link(metas));
    }

    /// Backs one region whose memory was given back by `back`; false if there is none.
    pub(crate) fn back_returned<E>(
        &self,
        metas: &[RegionMeta],
        back: impl FnOnce(u32) -> Result<(), E>,
    ) -> Result<bool, E> {
        let Some(id) = self.returned.pop(link(metas)) else { return Ok(false) };
        if let Err(e) = back(id) {
            self.returned.push(id, link(metas));
            return Err(e);
        }
        self.set_resident(metas, id);
        self.ready.push(id, link(metas));
        Ok(true)
    }

    /// Backs the next `n` regions that were never taken, of those that are not resident, by `back(first)`. Only where
    /// regions are backed in advance, so that nobody takes any of them meanwhile.
    pub(crate) fn back_fresh<E>(
        &self,
        metas: &[RegionMeta],
        n: u32,
        back: impl FnOnce(u32) -> Result<(), E>,
    ) -> Result<(), E> {
        debug_assert!(self.backs);
        // Relaxed: written by the holder of the lock only.
        let first = self.backed.load(Relaxed);
        back(first)?;
        (first..first + n).for_each(|id| self.set_resident(metas, id));
        // Release: pairs with the Acquire in `lend`.
        self.backed.store(first + n, Release);
        Ok(())
    }

    fn set_resident(&self, metas: &[RegionMeta], id: u32) {
        // Relaxed: the region is this thread's alone; passed on by way of a stack, `backed`, or a stop.
        metas[id as usize].resident.store(true, Relaxed);
        // Relaxed: a counter.
        self.resident.fetch_add(1, Relaxed);
    }

    /// Raises the limit to `to`; returns the limit. What it admits was backed before, if it must be.
    pub(crate) fn raise(&self, to: u32) -> u32 {
        let up = |word| {
            let c = Count::unpack(word);
            Count { limit: c.limit.max(to), ..c }.pack()
        };
        // Release: pairs with the Acquire in `claim`: who claims under the new limit sees the regions backed for it.
        Count::unpack(up(self.update(Release, up))).limit
    }

    /// Lowers the limit to `to`, or to what is in use; returns the limit. Any thread.
    pub(crate) fn lower(&self, to: u32) -> u32 {
        let down = |word| {
            let c = Count::unpack(word);
            Count { limit: c.limit.min(to.max(c.in_use)), ..c }.pack()
        };
        // Relaxed: admits nothing, so there is nothing to publish.
        Count::unpack(down(self.update(Relaxed, down))).limit
    }

    fn update(&self, set: std::sync::atomic::Ordering, f: impl Fn(u64) -> u64) -> u64 {
        // Relaxed: a failed exchange is tried again with the value found.
        match self.count.fetch_update(set, Relaxed, |w| Some(f(w))) {
            Ok(before) | Err(before) => before,
        }
    }
}

#[allow(unsafe_code)]
#[cfg(test)]
mod tests {
    use crate::os::OsOptions;
    use crate::space::{Space, SpaceOptions};
    use std::sync::atomic::{
        AtomicBool, AtomicU32,
        Ordering::{AcqRel, Relaxed},
    };

    const TAKERS: u32 = 3;
    /// The takers' regions, and one claim that is never used.
    const LEAST: u32 = TAKERS + 1;
    const MAX: u32 = 8;
    const ROUNDS: u32 = 5_000;
    const ATTEMPTS: u32 = 1_000_000;

    fn region(space: &Space, id: u32) -> *mut u64 {
        space.heap.base().as_ptr().wrapping_add((id as usize) << 16).cast()
    }

    /// Takes and gives back a region again and again, at least until enough were trimmed; the limit allows it at all
    /// times.
    #[allow(unsafe_code)]
    fn take_and_give_back(space: &Space, owners: &[AtomicU32], me: u32, enough: &AtomicBool) {
        for round in 0.. {
            if round > ROUNDS && enough.load(Relaxed) {
                return;
            }
            assert!(space.pool.claim(1), "the limit was reached");
            let id = space.pool.find(space.metas());
            assert_eq!(owners[id as usize].fetch_add(1, AcqRel), 0, "region {id} has two owners");
            assert!(space.metas()[id as usize].is_resident(), "region {id} has no memory");
            let value = u64::from(round) << 32 | u64::from(me + 1);
            let p = region(space, id);
            // SAFETY: the first word of a region that is this thread's alone.
            unsafe { p.write_volatile(value) };
            if round % 64 == 0 {
                std::thread::yield_now();
            }
            // SAFETY: as above.
            assert_eq!(unsafe { p.read_volatile() }, value, "region {id} was trimmed while it was in use");
            owners[id as usize].fetch_sub(1, AcqRel);
            space.pool.put(space.metas(), id);
        }
    }

    fn churn(os: OsOptions) {
        let options =
            SpaceOptions { max_bytes: u64::from(MAX) << 16, initial_bytes: u64::from(LEAST) << 16, os };
        // SAFETY: the test keeps the access rules.
        let (space, refused) = unsafe { Space::new(options) }.unwrap();
        println!("{refused:?}");
        let owners: Vec<AtomicU32> = (0..=MAX).map(|_| AtomicU32::new(0)).collect();
        let left = AtomicU32::new(TAKERS);
        let enough = AtomicBool::new(false);
        let done = AtomicBool::new(false);
        std::thread::scope(|t| {
            let (space, owners, left, done, enough) = (&space, &owners, &left, &done, &enough);
            for me in 0..TAKERS {
                t.spawn(move || {
                    let end = End(left, done);
                    take_and_give_back(space, owners, me, enough);
                    drop(end);
                });
            }
            t.spawn(move || {
                let mut trimmed = 0;
                for attempt in 0.. {
                    trimmed += space.trim(2);
                    if trimmed > 20 || attempt > ATTEMPTS {
                        enough.store(true, Relaxed);
                    }
                    if done.load(Relaxed) {
                        break;
                    }
                    std::thread::yield_now();
                }
                assert!(trimmed > 20, "only {trimmed} regions could be trimmed");
            });
            t.spawn(move || {
                let mut round = 0;
                while !done.load(Relaxed) {
                    let to = LEAST + round % (MAX - LEAST + 1);
                    round += 1;
                    assert!(space.grow(to).unwrap().0 >= to);
                    assert!(space.pool.claim(1), "a promise was refused");
                    space.pool.unclaim(1);
                    assert!(space.shrink(LEAST) >= LEAST);
                    std::thread::yield_now();
                }
            });
        });
        assert_eq!(space.verify(), Ok(()));
        assert_eq!(space.free_regions(), space.limit_regions());
        // All that was lent came back: the whole heap can be taken, and no more.
        space.grow(MAX).unwrap();
        for _ in 0..MAX {
            assert!(space.pool.claim(1));
            let id = space.pool.find(space.metas());
            assert_eq!(owners[id as usize].fetch_add(1, Relaxed), 0);
        }
        assert!(!space.pool.claim(1));
    }

    /// Also where a taker fails, so that the test ends.
    struct End<'a>(&'a AtomicU32, &'a AtomicBool);

    impl Drop for End<'_> {
        fn drop(&mut self) {
            if self.0.fetch_sub(1, AcqRel) == 1 {
                self.1.store(true, Relaxed);
            }
        }
    }

    #[test]
    fn a_claim_is_always_good_while_others_trim_and_resize() {
        churn(OsOptions::default());
    }

    #[test]
    fn a_claim_is_always_good_where_regions_are_backed() {
        churn(OsOptions { prefault: true, ..OsOptions::default() });
    }
}
