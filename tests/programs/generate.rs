//! Random programs, and smaller ones made of one that fails.

use crate::program::{Act, Kind, Length, Op, Program, Quantum};
use crate::random::Random;
use quickcheck::{Arbitrary, Gen};

/// Operations of a program; more than this finds little that several programs do not.
const MOST: usize = 360;
/// One program in so many has room for arrays behind index leaves, which take long to fill.
const LARGE_EVERY: usize = 64;

fn quantum(r: &mut Random, most: usize) -> Quantum {
    if r.one_in(3) {
        // Some more, so that the phase is seen half-done.
        Quantum::To(r.below(7) as u8, r.below(3) as u8)
    } else {
        Quantum::Steps(1 + r.below(most) as u8)
    }
}

fn kind(r: &mut Random) -> Kind {
    [Kind::Short, Kind::Short, Kind::Long, Kind::Soft][r.below(4)]
}

fn length(r: &mut Random, large: bool) -> Length {
    match r.below(8) {
        0 | 1 if large => Length::Index,
        0..3 => Length::Leaves(r.below(30) as u8),
        _ => Length::Short([0, 1, 3, 40, 200][r.below(5)]),
    }
}

impl Op {
    fn random(r: &mut Random, large: bool) -> Op {
        let (x, y, slot) = (r.pick(), r.pick(), r.below(2) as u8);
        let index = |r: &mut Random| r.below(2000) as u16;
        match r.below(128) {
            0..14 => Op::Alloc { a: x, b: y },
            14..22 => Op::Load { x, slot },
            22..27 => Op::Store { x, slot, y },
            27..33 => Op::Swap { x, slot, y, keep: r.one_in(2) },
            33..36 => Op::Exchange { x, slot, hit: r.one_in(2), y },
            36..40 => Op::Forget { x },
            40..44 => Op::Root { x },
            44..48 => Op::RootGet { r: x },
            48 => Op::RootDuplicate { r: x },
            49..53 => Op::RootDrop { r: x },
            53..56 => Op::Global { x },
            56..59 => Op::GlobalGet { g: x },
            59 => Op::GlobalClone { g: x },
            60..63 => Op::GlobalDrop { g: x },
            63..67 => Op::Weak { kind: kind(r), x },
            67..75 => Op::WeakAsk { kind: kind(r), w: x },
            75 => Op::WeakDrop { kind: kind(r), w: x },
            76..80 => Op::Ephemeron { key: x, value: y },
            80..83 => Op::EphemeronAsk { e: x, value_first: r.one_in(2) },
            83 => Op::EphemeronDrop { e: x },
            84 | 85 => Op::MapInsert { key: x, value: y },
            86 => Op::MapGet { key: x },
            87 if r.one_in(2) => Op::MapRemove { key: x },
            87 => Op::MapEach,
            88 | 89 => Op::OnDeath { x, queue: r.one_in(2), handle: !r.one_in(3) },
            90 => Op::CancelDeath { n: x },
            91..95 => Op::Register { x },
            95 | 96 => Op::Suppress { x },
            97 | 98 => Op::Array { x, length: length(r, large) },
            99 => Op::ArrayLoad { x, i: index(r) },
            100 | 101 => Op::ArrayStore { x, i: index(r), y },
            102 => Op::ArrayFill { x, from: index(r), n: r.below(700) as u16, y },
            103 => {
                let (to, from, n) = (index(r), index(r), r.below(700) as u16);
                Op::ArrayCopy { x, to, source: y, from, n }
            }
            104 => Op::ArrayShare { x, y },
            105 => Op::Values { x, length: length(r, large), quantum: quantum(r, 6) },
            106 => Op::ValuesCheck { x },
            107 if r.one_in(3) => Op::FailRefill { n: r.below(5) as u8 },
            107 => Op::SoftAge { n: r.below(4) as u8 },
            108 => Op::Compare,
            109..117 => Op::Pause(quantum(r, 10)),
            117..123 => Op::Safepoint(quantum(r, 30)),
            123 => Op::Native,
            124 if r.one_in(2) => Op::Reserve { n: x, quantum: quantum(r, 6) },
            124 => Op::Reap,
            125 => Op::Leave(quantum(r, 30)),
            _ => Op::Finalize,
        }
    }
}

impl Act {
    fn random(r: &mut Random) -> Act {
        match r.below(10) {
            0 => Act::Revive,
            1 | 2 => Act::Hang { g: r.pick(), slot: r.below(2) as u8 },
            3 => Act::Register,
            4 => Act::Alloc,
            5 => Act::Panic,
            6 | 7 => Act::Pause(quantum(r, 12)),
            _ => Act::Safepoint(quantum(r, 30)),
        }
    }
}

/// Bringing back what marking has not come to, and referring to it anew: by chance alone programs seldom get there.
fn late(r: &mut Random) -> [Op; 7] {
    let again = if r.one_in(2) {
        Op::Register { x: r.pick() }
    } else {
        Op::Weak { kind: if r.one_in(2) { Kind::Short } else { Kind::Soft }, x: r.pick() }
    };
    [
        Op::Alloc { a: 0, b: r.pick() },
        Op::Weak { kind: Kind::Long, x: r.pick() },
        Op::Safepoint(Quantum::To(3, r.below(2) as u8)),
        Op::WeakAsk { kind: Kind::Long, w: r.pick() },
        again,
        Op::Global { x: r.pick() },
        Op::Safepoint(quantum(r, 30)),
    ]
}

/// Leaves few arrays with index leaves: each has half a million slots, at which the verifier looks many times in each cycle.
fn few_large(steps: &mut [(u8, Op)]) {
    const LARGE: usize = 2;
    let lengths = steps.iter_mut().filter_map(|(_, op)| match op {
        Op::Array { length, .. } | Op::Values { length, .. } => Some(length),
        _ => None,
    });
    lengths.filter(|l| **l == Length::Index).skip(LARGE).for_each(|l| *l = Length::Leaves(29));
}

impl Program {
    /// The program of a seed.
    pub(crate) fn of_seed(seed: u64) -> Program {
        let r = &mut Random(seed);
        let mutators = 1 + r.below(4);
        let (glue, large) = (r.one_in(3), r.one_in(LARGE_EVERY));
        let acts = (0..r.below(5)).map(|_| (0..1 + r.below(3)).map(|_| Act::random(r)).collect()).collect();
        let mut by = 0;
        let mut steps = Vec::with_capacity(MOST);
        while steps.len() < MOST {
            // A mutator does some operations at a time: many faults need that, and switching threads is slow.
            if r.one_in(5) {
                by = r.below(mutators) as u8;
            }
            if r.one_in(60) {
                steps.extend(late(r).map(|op| (by, op)));
            } else {
                steps.push((by, Op::random(r, large)));
            }
        }
        few_large(&mut steps);
        Program { mutators: mutators as u8, glue, large, acts, steps }
    }

    /// Without `n` steps from the `i`-th.
    fn without(&self, i: usize, n: usize) -> Program {
        let mut p = self.clone();
        p.steps.drain(i..self.steps.len().min(i + n));
        p
    }

    fn with_mutators(&self, n: u8) -> Program {
        let steps = self.steps.iter().map(|&(by, op)| (by % n, op)).collect();
        Program { mutators: n, steps, ..self.clone() }
    }

    /// One step replaced.
    fn with_op(&self, i: usize, op: Op) -> Program {
        let mut p = self.clone();
        p.steps[i].1 = op;
        p
    }
}

/// Smaller quanta that may do.
fn smaller_quanta(q: Quantum) -> Vec<Quantum> {
    match q {
        Quantum::Steps(n) if n > 0 => vec![Quantum::Steps(n / 2), Quantum::Steps(n - 1)],
        Quantum::To(phase, more) if more > 0 => vec![Quantum::To(phase, 0), Quantum::To(phase, more - 1)],
        _ => vec![],
    }
}

impl Op {
    /// Simpler operations that may do instead.
    fn simpler(self) -> Vec<Op> {
        // Operands one after the other: first null or the first there is, then half.
        macro_rules! operands {
            ($op:ident { $($field:ident),+ }, $all:tt) => {{
                let mut out = vec![];
                $(
                    if $field > 0 {
                        let mut halves = vec![0, $field / 2, $field - 1];
                        halves.dedup();
                        out.extend(halves.into_iter().map(|$field| operands!(@build $op $all)));
                    }
                )+
                out
            }};
            (@build $op:ident { $($all:tt)+ }) => { Op::$op { $($all)+ } };
        }
        match self {
            Op::Alloc { a, b } => operands!(Alloc { a, b }, { a, b }),
            Op::Load { x, slot } => operands!(Load { x, slot }, { x, slot }),
            Op::Store { x, slot, y } => operands!(Store { x, slot, y }, { x, slot, y }),
            Op::Swap { x, slot, y, keep } => {
                let mut out = vec![Op::Store { x, slot, y }];
                out.extend(operands!(Swap { x, slot, y }, { x, slot, y, keep }));
                out
            }
            Op::Exchange { x, slot, hit, y } => {
                let mut out = vec![Op::Store { x, slot, y }];
                out.extend(operands!(Exchange { x, slot, y }, { x, slot, hit, y }));
                out
            }
            Op::Root { x } => operands!(Root { x }, { x }),
            Op::RootGet { r } => operands!(RootGet { r }, { r }),
            Op::Global { x } => operands!(Global { x }, { x }),
            Op::GlobalGet { g } => operands!(GlobalGet { g }, { g }),
            Op::Weak { kind, x } => operands!(Weak { x }, { kind, x }),
            Op::WeakAsk { kind, w } => operands!(WeakAsk { w }, { kind, w }),
            Op::Ephemeron { key, value } => operands!(Ephemeron { key, value }, { key, value }),
            Op::Register { x } => operands!(Register { x }, { x }),
            Op::Array { x, length } if length != Length::Short(1) => {
                vec![Op::Array { x, length: Length::Short(1) }, Op::Array { x, length: Length::Leaves(1) }]
            }
            Op::ArrayStore { x, i, y } => {
                let mut out = operands!(ArrayStore { x, y }, { x, i, y });
                out.extend([0, i / 2].into_iter().filter(|&j| j < i).map(|i| Op::ArrayStore { x, i, y }));
                out
            }
            Op::ArrayFill { x, from, n, y } => {
                vec![Op::ArrayStore { x, i: from, y }, Op::ArrayFill { x, from, n: n / 2, y }]
            }
            Op::Values { x, length, quantum } => {
                let smaller = smaller_quanta(quantum).into_iter();
                let mut out = vec![Op::Pause(quantum)];
                out.extend(smaller.map(|quantum| Op::Values { x, length, quantum }));
                out
            }
            Op::Pause(q) => smaller_quanta(q).into_iter().map(Op::Pause).collect(),
            Op::Safepoint(q) => {
                let mut out = vec![Op::Pause(q)];
                out.extend(smaller_quanta(q).into_iter().map(Op::Safepoint));
                out
            }
            Op::Native => vec![Op::Safepoint(Quantum::Steps(0))],
            Op::Leave(q) => vec![Op::Safepoint(q)],
            Op::Reserve { n, quantum } => vec![Op::Safepoint(quantum), Op::Reserve { n: n / 2, quantum }],
            _ => vec![],
        }
        .into_iter()
        .filter(|op| *op != self)
        .collect()
    }
}

impl Arbitrary for Program {
    fn arbitrary(g: &mut Gen) -> Program {
        Program::of_seed(u64::arbitrary(g))
    }

    /// Smaller programs, the much smaller ones first: without some steps, with fewer mutators, of simpler steps.
    fn shrink(&self) -> Box<dyn Iterator<Item = Program>> {
        let len = self.steps.len();
        let sizes = std::iter::successors(Some(len / 2), |n| Some(n / 2)).take_while(|&n| n > 0);
        let p = self.clone();
        let fewer_steps = sizes.flat_map(move |n| {
            let p = p.clone();
            // From the end: what comes last is needed least often.
            (0..len.div_ceil(n)).rev().map(move |i| p.without(i * n, n))
        });
        let p = self.clone();
        let fewer_mutators = (1..self.mutators).map(move |n| p.with_mutators(n));
        let plain = (self.glue || self.large).then(|| Program { glue: false, large: false, ..self.clone() });
        let no_acts = (!self.acts.is_empty()).then(|| Program { acts: vec![], ..self.clone() });
        let p = self.clone();
        let fewer_acts = (0..self.acts.len()).map(move |i| {
            let mut p = p.clone();
            if p.acts[i].pop().is_none() {
                p.acts.remove(i);
            }
            p
        });
        let p = self.clone();
        let simpler = (0..len).rev().flat_map(move |i| {
            let p = p.clone();
            p.steps[i].1.simpler().into_iter().map(move |op| p.with_op(i, op)).collect::<Vec<_>>()
        });
        Box::new(
            fewer_steps.chain(fewer_mutators).chain(plain).chain(no_acts).chain(fewer_acts).chain(simpler),
        )
    }
}

/// A smallest program of those that `fails` finds on the way down, and how many were tried: none of the ways of
/// [`Program::shrink`] makes it smaller and fail. Steps are taken away in passes over the whole program first (Zeller and
/// Hildebrandt, *Simplifying and isolating failure-inducing input*, TSE 2002), which tries far fewer programs.
pub(crate) fn minimize(program: Program, fails: impl Fn(&Program) -> bool) -> (Program, usize) {
    let (mut smallest, mut tried) = (program, 0);
    'smaller: loop {
        let mut n = smallest.steps.len().div_ceil(2);
        while n > 0 {
            let mut end = smallest.steps.len();
            while end > 0 {
                let from = end.saturating_sub(n);
                let candidate = smallest.without(from, end - from);
                tried += 1;
                if fails(&candidate) {
                    smallest = candidate;
                }
                end = from;
            }
            n = if n == 1 { 0 } else { n.div_ceil(2) };
        }
        for candidate in smallest.shrink() {
            tried += 1;
            if fails(&candidate) {
                smallest = candidate;
                continue 'smaller;
            }
        }
        return (smallest, tried);
    }
}
