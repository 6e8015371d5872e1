//! What a program is, and what all of them need: objects, allocation that waits for memory, garbage.

use crate::{graphs, large, references, threads};
use metronome_arraylet::Class;
use metronome_gc::{Global, Heap, Mutator, Root, Slot, Trace};

/// A program and the memory that it gets.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Heap in MiB: full and `--sample`.
    pub(crate) heap_mib: [u64; 2],
    /// Heap in MiB in which no cycle runs: more than the program ever allocates.
    pub(crate) control_mib: [u64; 2],
    pub(crate) run: fn(&Heap, Size) -> Result<Done, String>,
}

/// Which of two sizes is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) sample: bool,
    /// Nothing is collected, and nothing must be asked to be.
    pub(crate) control: bool,
}

impl Size {
    pub(crate) fn of<T>(self, full: T, sample: T) -> T {
        if self.sample { sample } else { full }
    }
}

/// What a program has done; that its results are right has been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// Operations, for the comparison with the control.
    pub(crate) operations: u64,
    /// The most bytes that were reachable at once, as the program counts them.
    pub(crate) live_bytes: u64,
}

const fn program(
    name: &'static str,
    what: &'static str,
    heap_mib: [u64; 2],
    control_mib: [u64; 2],
    run: fn(&Heap, Size) -> Result<Done, String>,
) -> Program {
    Program { name, what, heap_mib, control_mib, run }
}

pub(crate) const PROGRAMS: &[Program] = &[
    program(
        "fragmentation",
        "rounds that keep one object in each region and switch the size class",
        [256, 24],
        [1024, 96],
        graphs::fragmentation,
    ),
    program(
        "storm",
        "four threads swap random references of a graph while it is marked",
        [192, 24],
        [1536, 128],
        graphs::storm,
    ),
    program(
        "bursts",
        "quiet and bursts by turns, sizes and survival switch",
        [192, 32],
        [3072, 192],
        graphs::bursts,
    ),
    program("list", "a list of 10^7 nodes", [448, 24], [1536, 96], large::list),
    program("array", "an array of 10^8 slots", [1280, 32], [2560, 96], large::array),
    program("handles", "10^6 handles to objects", [96, 16], [640, 96], large::handles),
    program("mutators", "64 threads that allocate", [256, 64], [2048, 256], threads::mutators),
    program("threads", "threads that come and go, four at a time", [64, 16], [1536, 128], threads::churn),
    program(
        "finalizers",
        "a chain in which each finalizer brings back the next object",
        [64, 16],
        [640, 96],
        references::finalizers,
    ),
    program(
        "weak",
        "10^6 weak references, upgraded and dropped while they are cleared",
        [128, 16],
        [640, 96],
        references::weak,
    ),
    program(
        "soft",
        "soft references used by turns in a heap that fills up",
        [128, 16],
        [768, 96],
        references::soft,
    ),
    program(
        "ephemerons",
        "a chain of 10^5 ephemerons, the last first in the table",
        [64, 16],
        [640, 96],
        references::ephemerons,
    ),
];

/// A list's node.
#[derive(Trace)]
pub(crate) struct Node {
    pub(crate) value: u64,
    pub(crate) next: Slot<Node>,
}

/// An object of which a region has few.
#[derive(Trace)]
pub(crate) struct Fat<const N: usize> {
    pub(crate) value: u64,
    pub(crate) rest: [u64; N],
}

/// Bytes of the cell of a `T`.
pub(crate) fn cell<T>() -> u64 {
    Class::of(8 + size_of::<T>(), 8).map_or(0, |c| c.size() as u64)
}

/// Calls `f` until it has done `n` things; it says how many of at most those asked for it did, and stops when memory ran out.
/// A safepoint between the calls, where memory is waited for.
pub(crate) fn patiently(
    m: &mut Mutator<'_>,
    n: u64,
    mut f: impl FnMut(&Mutator<'_>, u64, u64) -> u64,
) -> Result<(), String> {
    let (mut done, mut dry) = (0, 0);
    while done < n {
        m.safepoint();
        let more = f(m, done, (n - done).min(128));
        done += more;
        dry = if more == 0 { dry + 1 } else { 0 };
        if dry > 1_000 {
            return Err(format!("no memory after {done} of {n}, though waited for a thousand times"));
        }
    }
    Ok(())
}

/// Puts `n` nodes in front of a list; the values count on from `first`.
pub(crate) fn push(
    m: &mut Mutator<'_>,
    head: &mut Option<Root<Node>>,
    n: u64,
    first: u64,
) -> Result<(), String> {
    patiently(m, n, |m, done, most| {
        let mut at = head.as_ref().map(|h| h.get(m));
        let mut count = 0;
        while count < most {
            let Ok(node) = m.alloc(NodeInit { value: first + done + count, next: at }) else { break };
            (at, count) = (Some(node), count + 1);
        }
        *head = at.map(|at| Root::new(m, at));
        count
    })
}

/// Length and sum of the values of a list.
pub(crate) fn walk(m: &mut Mutator<'_>, head: &Root<Node>) -> (u64, u64) {
    let (mut count, mut sum) = (0, 0u64);
    let mut at = head.duplicate(m);
    loop {
        m.safepoint();
        let mut node = at.get(m);
        for _ in 0..128 {
            (count, sum) = (count + 1, sum.wrapping_add(node.value));
            match node.next.load(m) {
                Some(next) => node = next,
                None => return (count, sum),
            }
        }
        at = Root::new(m, node);
    }
}

/// Allocates and lets go of `bytes` in short lists.
pub(crate) fn garbage(m: &mut Mutator<'_>, bytes: u64) -> Result<(), String> {
    patiently(m, bytes / cell::<Node>(), |m, _, most| {
        let (mut at, mut count) = (None, 0);
        while count < most {
            let Ok(node) = m.alloc(NodeInit { value: count, next: at }) else { break };
            (at, count) = (Some(node), count + 1);
        }
        count
    })
}

/// An error unless both are the same.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, is: T, should: T) -> Result<(), String> {
    if is == should { Ok(()) } else { Err(format!("{what}: {is:?} instead of {should:?}")) }
}

/// A generator of pseudo-random numbers (xorshift).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Handles to `n` new nodes whose values count from 0.
pub(crate) fn nodes(m: &mut Mutator<'_>, n: u64) -> Result<Vec<Global<Node>>, String> {
    let mut all = Vec::with_capacity(n as usize);
    patiently(m, n, |m, done, most| {
        let mut count = 0;
        while count < most {
            let Ok(node) = m.alloc(NodeInit { value: done + count, next: None }) else { break };
            all.push(Global::new(m, node));
            count += 1;
        }
        count
    })?;
    Ok(all)
}
