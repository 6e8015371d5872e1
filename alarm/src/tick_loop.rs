//! The loop of the tick thread, written against [`Timer`] so that tests run it in virtual time.
//!
//! *State*: [`Shared`]. *Who may touch what*: `command` is written by controllers (any thread) and read by the tick
//! thread; the counters are written by the tick thread and read by anyone; the [`Ticker`] belongs to the loop alone.
//! *Ordering*: beside each access. *Safety*: no `unsafe`.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crossbeam_utils::CachePadded;

use crate::grid::{Tick, Ticker, Wake};
use crate::lateness::LatenessHistogram;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// What the controllers want of the tick thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Command {
    Run = 0,
    Pause = 1,
    /// Final: no transition leads out of it.
    Stop = 2,
}

/// What tick thread and controllers share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// A `Command`. Controllers write it seldom; on its own line because the tick thread writes the counters each beat.
    command: CachePadded<AtomicU32>,
    /// Grid points from one tick to the next, less one. Written by controllers, seldom.
    passed_over: AtomicU32,
    counters: CachePadded<Counters>,
    pub(crate) lateness: LatenessHistogram,
}

#[derive(Debug, Default)]
struct Counters {
    ticks: AtomicU64,
    panics: AtomicU64,
    early: AtomicU64,
}

impl Shared {
    pub(crate) fn new(command: Command) -> Shared {
        Shared {
            command: CachePadded::new(AtomicU32::new(command as u32)),
            passed_over: AtomicU32::new(0),
            counters: CachePadded::default(),
            lateness: LatenessHistogram::new(),
        }
    }

    pub(crate) fn command(&self) -> Command {
        // Acquire: pairs with the Release in `transition` and `transition_to_stop`: what a controller did before it
        // paused or resumed is visible to the ticks after.
        match self.command.load(Ordering::Acquire) {
            0 => Command::Run,
            1 => Command::Pause,
            // Only `Command` values are stored.
            _ => Command::Stop,
        }
    }

    /// Goes from one command to another if the former is in force; `true` if this call did it.
    #[must_use]
    pub(crate) fn transition(&self, from: Command, to: Command) -> bool {
        debug_assert_ne!(from, Command::Stop, "INV-ALARM-STOP: stop is final");
        // Release: pairs with the Acquire in `command`. Relaxed on failure: the value read is not used.
        self.command.compare_exchange(from as u32, to as u32, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn transition_to_stop(&self) {
        // Release: pairs with the Acquire in `command`.
        self.command.store(Command::Stop as u32, Ordering::Release);
    }

    /// From the tick after next on, only every `points`-th grid point gets one.
    pub(crate) fn tick_each(&self, points: u32) {
        // Relaxed: a number on which nothing else rests.
        self.passed_over.store(points.saturating_sub(1), Ordering::Relaxed);
    }

    fn passed_over(&self) -> u32 {
        // Relaxed: as above.
        self.passed_over.load(Ordering::Relaxed)
    }

    pub(crate) fn ticks(&self) -> u64 {
        // Relaxed, as in the next two: statistics, no other data is read on their strength.
        self.counters.ticks.load(Ordering::Relaxed)
    }

    pub(crate) fn panics(&self) -> u64 {
        // Relaxed: as above.
        self.counters.panics.load(Ordering::Relaxed)
    }

    pub(crate) fn early(&self) -> u64 {
        // Relaxed: as above.
        self.counters.early.load(Ordering::Relaxed)
    }
}

/// Raises a counter that has one writer.
fn bump(counter: &AtomicU64) {
    // Relaxed: statistics with a single writer; nothing is published through them.
    counter.store(counter.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
}

/// Time as the loop sees it.
pub(crate) trait Timer {
    fn now(&mut self) -> u64;
    /// Sleeps until `deadline_ns`; may return early (signal, long wait cut into pieces).
    fn sleep_until(&mut self, deadline_ns: u64);
    /// Sleeps until a controller changed the command; may return early.
    fn park(&mut self);
}

/// Ticks until told to stop. No allocation, lock or I/O of its own on the tick path.
pub(crate) fn run(timer: &mut impl Timer, shared: &Shared, period_ns: u64, mut tick: impl FnMut(Tick)) {
    let mut ticker = Ticker::new(timer.now(), period_ns);
    loop {
        match shared.command() {
            Command::Stop => return,
            Command::Pause => {
                timer.park();
                // Also after a spurious wake-up, where it only looks at the clock.
                ticker.resume(timer.now());
                continue;
            }
            Command::Run => {}
        }
        timer.sleep_until(ticker.deadline_ns());
        // A pause or stop that came during the sleep suppresses this tick already.
        if shared.command() != Command::Run {
            continue;
        }
        match ticker.wake(timer.now()) {
            Wake::Early { .. } => bump(&shared.counters.early),
            Wake::Due(due) => {
                shared.lateness.record(due.lateness_ns(), due.missed);
                if !call(&mut tick, due) {
                    bump(&shared.counters.panics);
                }
                bump(&shared.counters.ticks);
                ticker.pass_over(shared.passed_over());
            }
        }
    }
}

/// Calls the closure; `false` if it panicked. INV-ALARM-SURVIVES: no panic ends the thread.
fn call(tick: &mut impl FnMut(Tick), due: Tick) -> bool {
    // AssertUnwindSafe: the closure's own state after its panic is the closure's business, as documented on `spawn`;
    // nothing of ours is lent to it.
    match catch_unwind(AssertUnwindSafe(|| tick(due))) {
        Ok(()) => true,
        Err(payload) => {
            // The payload's destructor is foreign code too. If it panics, its own payload is leaked: that ends the chain.
            if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                mem::forget(second);
            }
            false
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;

    use quickcheck::quickcheck;

    use super::*;

    /// What the scripted timer does at one call of `sleep_until` or `park`.
    #[derive(Debug, Clone, Copy)]
    enum Act {
        /// Wake this much after the deadline.
        Late(u64),
        /// Wake this much before it (a signal).
        Early(u64),
        /// The clock shows this, whatever was asked.
        Jump(u64),
        /// A controller pauses during this sleep.
        Pause,
        /// A controller resumes during this park, after that long.
        ResumeAfter(u64),
        /// `park` returns for no reason.
        Spurious,
    }

    struct Script<'a> {
        now: u64,
        acts: VecDeque<Act>,
        shared: &'a Shared,
        sleeps: Vec<u64>,
        parks: usize,
    }

    impl<'a> Script<'a> {
        fn new(now: u64, shared: &'a Shared, acts: impl IntoIterator<Item = Act>) -> Script<'a> {
            Script { now, acts: acts.into_iter().collect(), shared, sleeps: Vec::new(), parks: 0 }
        }
    }

    impl Timer for Script<'_> {
        fn now(&mut self) -> u64 {
            self.now
        }

        fn sleep_until(&mut self, deadline_ns: u64) {
            self.sleeps.push(deadline_ns);
            match self.acts.pop_front() {
                None => self.shared.transition_to_stop(),
                Some(Act::Late(by)) => self.now = self.now.max(deadline_ns + by),
                Some(Act::Early(by)) => self.now = self.now.max(deadline_ns - by),
                Some(Act::Jump(to)) => self.now = to,
                Some(Act::Pause) => {
                    assert!(self.shared.transition(Command::Run, Command::Pause));
                    self.now = self.now.max(deadline_ns);
                }
                Some(act) => panic!("{act:?} while sleeping"),
            }
        }

        fn park(&mut self) {
            self.parks += 1;
            match self.acts.pop_front() {
                None => self.shared.transition_to_stop(),
                Some(Act::Spurious) => self.now += 1,
                Some(Act::ResumeAfter(ns)) => {
                    self.now += ns;
                    assert!(self.shared.transition(Command::Pause, Command::Run));
                }
                Some(act) => panic!("{act:?} while parked"),
            }
        }
    }

    fn ticks_of(acts: impl IntoIterator<Item = Act>) -> (Vec<Tick>, Shared, Vec<u64>, usize) {
        let shared = Shared::new(Command::Run);
        let mut ticks = Vec::new();
        let mut script = Script::new(1_000, &shared, acts);
        run(&mut script, &shared, 100, |tick| ticks.push(tick));
        let (sleeps, parks) = (script.sleeps, script.parks);
        (ticks, shared, sleeps, parks)
    }

    fn tick(sequence: u64, deadline_ns: u64, now_ns: u64, missed: u64) -> Tick {
        Tick { sequence, deadline_ns, now_ns, missed }
    }

    #[test]
    fn late_wake_ups_neither_shift_the_grid_nor_burst() {
        let (ticks, shared, sleeps, _) = ticks_of([Act::Late(0), Act::Late(7), Act::Late(250), Act::Late(0)]);
        assert_eq!(
            ticks,
            [tick(0, 1100, 1100, 0), tick(1, 1200, 1207, 0), tick(2, 1300, 1550, 2), tick(3, 1600, 1600, 0)]
        );
        assert_eq!(sleeps, [1100, 1200, 1300, 1600, 1700]);
        let shot = shared.lateness.snapshot();
        assert_eq!((shot.count, shot.max, shot.missed), (4, 250, 2));
        assert_eq!((shared.ticks(), shared.early(), shared.panics()), (4, 0, 0));
    }

    #[test]
    fn a_signal_during_the_sleep_is_not_a_tick() {
        let (ticks, shared, sleeps, _) = ticks_of([Act::Early(99), Act::Early(1), Act::Late(0)]);
        assert_eq!(ticks, [tick(0, 1100, 1100, 0)]);
        assert_eq!(sleeps, [1100, 1100, 1100, 1200]);
        assert_eq!(shared.early(), 2);
    }

    #[test]
    fn a_clock_that_goes_back_neither_silences_nor_floods() {
        let (ticks, ..) = ticks_of([Act::Late(0), Act::Jump(333), Act::Late(0), Act::Late(0)]);
        assert_eq!(ticks, [tick(0, 1100, 1100, 0), tick(1, 400, 400, 0), tick(2, 500, 500, 0)]);
    }

    #[test]
    fn a_paused_loop_parks_and_misses_nothing() {
        let acts = [Act::Late(0), Act::Pause, Act::Spurious, Act::ResumeAfter(5_000), Act::Late(3)];
        let (ticks, shared, sleeps, parks) = ticks_of(acts);
        // Paused during the sleep until 1200; awake again at 6201.
        assert_eq!(ticks, [tick(0, 1100, 1100, 0), tick(1, 6300, 6303, 0)]);
        assert_eq!(sleeps, [1100, 1200, 6300, 6400]);
        assert_eq!((parks, shared.lateness.snapshot().missed), (2, 0));
    }

    #[test]
    fn a_stretched_loop_wakes_for_each_nth_point_and_misses_none() {
        let shared = Shared::new(Command::Run);
        let mut ticks = Vec::new();
        let mut script =
            Script::new(1_000, &shared, [Act::Late(0), Act::Late(3), Act::Late(250), Act::Late(0)]);
        run(&mut script, &shared, 100, |t| {
            shared.tick_each(if t.sequence < 2 { 5 } else { 1 });
            ticks.push(t);
        });
        // 1100; then each fifth: 1600, 2100 (250 late: that is two points missed, of a stretch that is no more); 2400.
        assert_eq!(
            ticks,
            [tick(0, 1100, 1100, 0), tick(1, 1600, 1603, 0), tick(2, 2100, 2350, 2), tick(3, 2400, 2400, 0)]
        );
        assert_eq!(script.sleeps, [1100, 1600, 2100, 2400, 2500]);
    }

    #[test]
    fn a_paused_loop_can_be_stopped() {
        let (ticks, shared, _, parks) = ticks_of([Act::Pause]);
        assert_eq!((ticks.len(), parks, shared.command()), (0, 1, Command::Stop));
    }

    // INV-ALARM-STOP.
    #[test]
    fn stop_is_final() {
        let shared = Shared::new(Command::Run);
        shared.transition_to_stop();
        assert!(!shared.transition(Command::Run, Command::Pause));
        assert!(!shared.transition(Command::Pause, Command::Run));
        assert_eq!(shared.command(), Command::Stop);
    }

    // A controller that would leave the state after a stop is found at its first try.
    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "INV-ALARM-STOP")]
    fn leaving_stop_is_found() {
        let shared = Shared::new(Command::Run);
        shared.transition_to_stop();
        let _ = shared.transition(Command::Stop, Command::Run);
    }

    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("in the payload's destructor");
        }
    }

    // INV-ALARM-SURVIVES.
    #[test]
    fn a_panic_is_counted_and_the_loop_goes_on() {
        let shared = Shared::new(Command::Run);
        let mut seen = Vec::new();
        let mut script = Script::new(0, &shared, [Act::Late(0); 5]);
        run(&mut script, &shared, 10, |tick| {
            seen.push(tick.sequence);
            match tick.sequence {
                1 => panic!("in the tick"),
                3 => std::panic::panic_any(PanicsOnDrop),
                _ => {}
            }
        });
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        assert_eq!((shared.ticks(), shared.panics()), (5, 2));
        assert_eq!(shared.lateness.snapshot().count, 5);
    }

    // Without the catching call the same closure ends whoever runs it.
    #[test]
    fn a_panic_that_is_not_caught_ends_the_caller() {
        let mut tick = |_: Tick| panic!("in the tick");
        assert!(!call(&mut tick, tick_at_zero()));
        let bare = catch_unwind(AssertUnwindSafe(|| tick(tick_at_zero())));
        assert!(bare.is_err());
    }

    fn tick_at_zero() -> Tick {
        tick(0, 0, 0, 0)
    }

    quickcheck! {
        // Any script of wake-ups: the loop's ticks are those of a walk over the grid point by point.
        fn loop_agrees_with_a_walk_over_the_grid(script: Vec<(bool, u16)>) -> bool {
            let acts: Vec<Act> = script
                .iter()
                .map(|&(late, by)| if late { Act::Late(u64::from(by) % 1_000) } else { Act::Early(u64::from(by) % 100) })
                .collect();
            let (ticks, shared, ..) = ticks_of(acts);
            let mut expected = Vec::new();
            let (mut now, mut deadline) = (1_000_u64, 1_100_u64);
            for (late, by) in script {
                let by = u64::from(by);
                now = now.max(if late { deadline + by % 1_000 } else { deadline - by % 100 });
                if now < deadline {
                    continue;
                }
                let mut missed = 0;
                let mut next = deadline + 100;
                while next <= now {
                    missed += 1;
                    next += 100;
                }
                expected.push(tick(expected.len() as u64, deadline, now, missed));
                deadline = next;
            }
            assert_eq!(shared.lateness.snapshot().missed, expected.iter().map(|tick| tick.missed).sum::<u64>());
            ticks == expected
        }
    }
}
