//! Contract: a synthetic program that states what the contract's arithmetic asks for, a fixed live set m and a fixed
//! allocation rate a, and that finds everything it stored.
//!
//! Open loop in mutator time: what is due follows from the time that has passed less what the collector took, whatever
//! came late before. What is late is made up for at little more than the rate, so that the rate is also the most that is
//! allocated in any stretch: the a of the contract. Every second object replaces one of the live set, at a random place; the others die at once. An
//! object's size follows from its place, so that the live set never grows; its contents follow from its serial number. The
//! independent implementation is a plain vector of serial numbers. What is replaced is read first.
//!
//! With `exhaustion = fail` an allocation error is counted and the object left out, as a program would that keeps its
//! deadlines; otherwise the program waits for memory.

pub(crate) mod calibrate;

use super::random::{Random, mix};
use super::{Tally, Workload};
use crate::quantity;
use crate::run::env::{Env, Failure};
use calibrate::Calibration;
use metronome_gc::config::Exhaustion;
use metronome_gc::{AllocError, Gc, GcArray, Mutator, Root, Slot, Trace};
use serde_json::json;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Live set, if not given.
pub(crate) const DEFAULT_LIVE: u64 = 32 << 20;
/// Allocation rate in bytes per second of mutator time, if not given.
pub(crate) const DEFAULT_RATE: u64 = 50 << 20;
/// Largest live set that is measured before the run.
pub(crate) const CALIBRATED_MAX: u64 = 256 << 30;
/// Objects allocated between looks at the clock.
const BATCH: u64 = 32;
/// How far the program runs ahead of its schedule rather than sleep for less.
const AHEAD: Duration = Duration::from_millis(1);
/// What is late is made up for at this times the rate,
pub(crate) const CATCH_UP: f64 = 1.1;
/// but for as much as was due in this time.
const BURST: Duration = Duration::from_millis(2);
/// Longest sleep, so that the end of the run is noticed.
const SLEEP: Duration = Duration::from_millis(20);

/// What each thread keeps and allocates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    mutators: u64,
    /// Places of each thread's live set.
    places: u64,
    /// Bytes per second of mutator time of each thread.
    bytes_per_second: u64,
}

impl Shape {
    /// `live` and `rate` are for all threads together.
    pub(crate) fn new(live: u64, rate: u64, mutators: u32) -> Shape {
        let mutators = u64::from(mutators);
        let (share, mut places, mut bytes) = (live / mutators, 0, 0);
        while bytes < share || places == 0 {
            bytes += cell_bytes(words(places)) + SLOT;
            places += 1;
        }
        Shape { mutators, places, bytes_per_second: (rate / mutators).max(1) }
    }

    /// The most that all threads allocate per second.
    fn most_bytes_per_second(&self) -> u64 {
        ((self.mutators * self.bytes_per_second) as f64 * CATCH_UP) as u64
    }

    fn live_bytes(&self) -> u64 {
        self.mutators * (0..self.places).map(|place| cell_bytes(words(place)) + SLOT).sum::<u64>()
    }
}

/// The workload.
#[derive(Debug)]
pub(crate) struct Program {
    shape: Shape,
    live_bytes: u64,
    calibration: Option<Calibration>,
}

impl Program {
    /// A program of this shape; `calibration` is where its heap's size came from, if it came from one.
    pub(crate) fn new(shape: Shape, calibration: Option<Calibration>) -> Program {
        Program { live_bytes: shape.live_bytes(), shape, calibration }
    }
}

/// An object of the program.
#[derive(Trace)]
struct Block {
    serial: u64,
    words: Slot<GcArray<u64>>,
}

/// Bytes of a slot of the table.
const SLOT: u64 = 8;

/// Words of an object: small ones, and one in 256 whose words lie in several leaves. Few sizes, as each takes a region of
/// each thread, which the contract's arithmetic does not know of.
const WORDS: [usize; 8] = [1, 2, 4, 6, 10, 16, 24, 40];
const WORDS_OF_A_LARGE_ONE: usize = 2048;

/// Words of the object at a place.
fn words(place: u64) -> usize {
    let r = mix(place ^ 0xc0_7ac7);
    if r & 0xff == 0 { WORDS_OF_A_LARGE_ONE } else { WORDS[(r >> 8) as usize % WORDS.len()] }
}

/// Word `i` of an object.
fn word(serial: u64, i: usize) -> u64 {
    serial.wrapping_mul(0x9e6d_62d0_6f6a_9a9b) ^ i as u64
}

/// Bytes that an object with so many words takes, about: its two headers, a slot, a serial number, the array's length and shape.
fn cell_bytes(words: usize) -> u64 {
    words as u64 * 8 + 56
}

fn block<'m>(m: &'m Mutator<'_>, serial: u64, len: usize) -> Result<Gc<'m, Block>, AllocError> {
    let words = m.alloc_array(len, |i| word(serial, i))?;
    m.alloc(BlockInit { serial, words: Some(words) })
}

/// Serial and digest of all words.
type Content = (u64, u64);

/// What an object of the heap holds. Polls between leaves.
fn content(m: &Mutator<'_>, block: Gc<'_, Block>) -> Content {
    let mut sum = block.serial;
    if let Some(words) = block.words.load(m) {
        for leaf in words.leaves() {
            sum = leaf.iter().fold(sum, |sum, w| sum.wrapping_mul(31).wrapping_add(*w));
            m.poll();
        }
    }
    (block.serial, sum)
}

/// The same from the serial number alone.
fn content_of(serial: u64, len: usize) -> Content {
    (serial, (0..len).fold(serial, |sum, i| sum.wrapping_mul(31).wrapping_add(word(serial, i))))
}

/// The time that the collector leaves to the program.
#[derive(Clone, Copy, Debug)]
struct MutatorClock {
    start: Instant,
    collector_ns: u64,
}

impl MutatorClock {
    fn start(env: &Env) -> MutatorClock {
        MutatorClock { start: Instant::now(), collector_ns: env.heap.glance().collector_ns }
    }

    fn elapsed(&self, env: &Env) -> Duration {
        let taken = env.heap.glance().collector_ns.saturating_sub(self.collector_ns);
        self.start.elapsed().saturating_sub(Duration::from_nanos(taken))
    }
}

/// One thread's share of the program.
pub(crate) struct Load {
    shape: Shape,
    table: Root<GcArray<Slot<Block>>>,
    /// The model: the serial number at each place; empty if nothing is kept.
    serials: Vec<u64>,
    random: Random,
    serial: u64,
    clock: MutatorClock,
    /// Bytes that were due and allocated, or left out.
    bytes: u64,
    errors: u64,
    /// Time before which the next ones would be more than the rate allows.
    paced: Duration,
    tally: Tally,
}

impl Load {
    /// Builds the live set of thread `i`; with `keep` false, nothing is kept, and all objects die at once.
    ///
    /// # Errors
    /// [`Failure::NoMemory`].
    pub(crate) fn new(
        env: &Env,
        m: &mut Mutator<'_>,
        shape: Shape,
        i: usize,
        keep: bool,
    ) -> Result<Load, Failure> {
        let places = if keep { shape.places } else { 0 };
        let table = env.insist(m, |m| Ok(Root::new(m, m.alloc_slots::<Block>(places as usize)?)))?;
        for place in 0..places {
            env.insist(m, |m| {
                table.get(m).store(m, place as usize, block(m, place, words(place))?);
                Ok(())
            })?;
        }
        Ok(Load {
            shape,
            table,
            serials: (0..places).collect(),
            random: Random::new(0xc0_7ac7 + i as u64),
            serial: places,
            clock: MutatorClock::start(env),
            bytes: 0,
            errors: 0,
            paced: Duration::ZERO,
            tally: Tally::default(),
        })
    }

    /// Starts the schedule now.
    pub(crate) fn begin(&mut self, env: &Env) {
        self.clock = MutatorClock::start(env);
    }

    /// Allocates what is due, or sleeps until something is.
    ///
    /// # Errors
    /// [`Failure::NoMemory`], but with `exhaustion = fail` errors are counted only.
    pub(crate) fn step(&mut self, env: &Env, m: &mut Mutator<'_>) -> Result<(), Failure> {
        let rate = self.shape.bytes_per_second as f64;
        let due = Duration::from_secs_f64(self.bytes as f64 / rate);
        let now = self.clock.elapsed(env);
        let ahead = due.max(self.paced).saturating_sub(now);
        if ahead > AHEAD {
            m.blocking(|| std::thread::sleep(ahead.min(SLEEP)));
            return Ok(());
        }
        let before = self.bytes;
        for _ in 0..BATCH {
            self.allocate(env, m)?;
        }
        let least = Duration::from_secs_f64((self.bytes - before) as f64 / (rate * CATCH_UP));
        self.paced = self.paced.max(now.saturating_sub(BURST)) + least;
        // Relaxed: a figure for people.
        env.counters.rounds.fetch_add(BATCH, Relaxed);
        Ok(())
    }

    /// Allocates one object without regard to the schedule, and drops it.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub(crate) fn garbage(&mut self, env: &Env, m: &mut Mutator<'_>) -> Result<u64, Failure> {
        let place = self.random.below(self.shape.places);
        self.one(env, m, place, false)?;
        Ok(cell_bytes(words(place)))
    }

    fn allocate(&mut self, env: &Env, m: &mut Mutator<'_>) -> Result<(), Failure> {
        let place = self.random.below(self.shape.places);
        let keep = self.serial.is_multiple_of(2) && !self.serials.is_empty();
        self.bytes += cell_bytes(words(place));
        self.one(env, m, place, keep)
    }

    fn one(&mut self, env: &Env, m: &mut Mutator<'_>, place: u64, keep: bool) -> Result<(), Failure> {
        let (serial, len) = (self.serial, words(place));
        self.serial += 1;
        let table = &self.table;
        let unit = |m: &Mutator<'_>| {
            let new = block(m, serial, len)?;
            if !keep {
                m.poll();
                return Ok(Some(content(m, new)));
            }
            let table = table.get(m);
            let old = table.load(m, place as usize).map(|old| content(m, old));
            table.store(m, place as usize, new);
            Ok(old)
        };
        let found = if env.heap.config().exhaustion == Exhaustion::Fail {
            let found = unit(m);
            m.safepoint();
            match found {
                Ok(found) => found,
                Err(AllocError::Exhausted { .. }) => {
                    self.errors += 1;
                    return Ok(());
                }
                Err(e) => return Err(Failure::NoMemory(e)),
            }
        } else {
            env.insist(m, unit)?
        };
        let expected =
            if keep { std::mem::replace(&mut self.serials[place as usize], serial) } else { serial };
        self.compare(place, found, expected);
        Ok(())
    }

    fn compare(&mut self, place: u64, found: Option<Content>, serial: u64) {
        let expected = content_of(serial, words(place));
        self.tally.add(mix(found.map_or(0, |f| f.1)), mix(expected.1));
        if found != Some(expected) {
            self.tally.differs(|| format!("place {place}: {found:?} instead of {expected:?}"));
        }
    }

    /// Compares all of the live set with the model.
    fn finish(mut self, env: &Env, m: &mut Mutator<'_>) -> Tally {
        let elapsed = self.clock.elapsed(env).as_secs_f64().max(1e-9);
        for place in 0..self.serials.len() {
            let found = self.table.get(m).load(m, place).map(|block| content(m, block));
            self.compare(place as u64, found, self.serials[place]);
            m.safepoint();
        }
        let mut tally = self.tally;
        tally.count("objects kept", self.serials.len() as u64);
        tally.count("allocations", self.serial - self.serials.len() as u64);
        tally.count("bytes per second of mutator time", (self.bytes as f64 / elapsed) as u64);
        tally.count("allocation errors", self.errors);
        tally
    }
}

impl Workload for Program {
    fn name(&self) -> &'static str {
        "contract"
    }

    fn round_name(&self) -> &'static str {
        "allocations"
    }

    fn size_classes(&self) -> u64 {
        // The arrays, the spines of the large ones, leaves, and blocks.
        WORDS.len() as u64 + 3
    }

    fn live_estimate(&self) -> u64 {
        self.live_bytes
    }

    fn tells_all_departures(&self) -> bool {
        true
    }

    fn plan(&self) -> Vec<String> {
        let s = &self.shape;
        let mut lines = vec![format!(
            "each thread keeps {} objects (about {}) and allocates {} per second of mutator time",
            quantity::grouped(s.places),
            quantity::bytes(self.live_bytes / s.mutators),
            quantity::bytes(s.bytes_per_second)
        )];
        lines.extend(self.calibration.iter().flat_map(Calibration::lines));
        lines
    }

    fn facts(&self) -> serde_json::Value {
        json!({
            "objects_per_thread": self.shape.places,
            "bytes_per_second_per_thread": self.shape.bytes_per_second,
            "calibration": self.calibration.map(Calibration::to_json),
        })
    }

    fn run(&self, env: &Env, i: usize, m: &mut Mutator<'_>) -> Result<Tally, Failure> {
        let mut load = Load::new(env, m, self.shape, i, true)?;
        load.begin(env);
        // At least once, so that there is something to compare.
        loop {
            load.step(env, m)?;
            if env.stopping() {
                return Ok(load.finish(env, m));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metronome_gc::Heap;
    use std::sync::Arc;

    fn with_load(keep: bool, test: impl FnOnce(&Env, &mut Mutator<'_>, Load)) {
        let env = Env::new(Heap::builder().heap_bytes(16 << 20).build().unwrap(), Arc::default());
        env.heap.enter(|m| {
            let load = Load::new(&env, m, Shape::new(2 << 20, 1 << 40, 1), 0, keep).unwrap();
            test(&env, m, load);
        });
    }

    #[test]
    fn the_live_set_is_as_large_as_asked_and_stays_so() {
        with_load(true, |env, m, mut load| {
            let built = env.heap.glance().allocated_bytes;
            let asked = 2 << 20;
            assert!(built.abs_diff(asked) < asked / 20, "{built} of {asked}");
            while env.heap.glance().cycles < 5 {
                load.step(env, m).unwrap();
            }
            m.collect(metronome_gc::Collect::Full).unwrap();
            let live = env.heap.glance().used_bytes;
            assert!(live.abs_diff(built) < built / 20, "{live} instead of {built}");
            let tally = load.finish(env, m);
            assert_eq!(tally.differences(), Vec::<String>::new());
            assert!(
                tally.counts["allocations"] > 1000 && tally.counts["allocation errors"] == 0,
                "{tally:?}"
            );
        });
    }

    #[test]
    fn an_object_that_is_not_what_was_stored_is_noticed() {
        with_load(true, |env, m, mut load| {
            let wrong = block(m, 7_777_777, words(3)).unwrap();
            load.table.get(m).store(m, 3, wrong);
            m.safepoint();
            load.begin(env);
            let tally = load.finish(env, m);
            assert!(tally.differences()[0].starts_with("place 3: "), "{:?}", tally.differences());
        });
    }

    #[test]
    fn what_is_not_kept_dies() {
        with_load(false, |env, m, mut load| {
            for _ in 0..1000 {
                load.garbage(env, m).unwrap();
            }
            m.collect(metronome_gc::Collect::Full).unwrap();
            assert!(env.heap.glance().used_bytes < 128 << 10);
            assert_eq!(load.finish(env, m).counts["objects kept"], 0);
        });
    }
}
