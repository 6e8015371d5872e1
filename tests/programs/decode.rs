//! Bytes as programs, for the fuzzer: every byte string is one, and a change of a byte changes about one operation.

use crate::program::{Act, Kind, Length, Op, Program, Quantum};

/// Operations of a program at most.
const STEPS_MAX: usize = 300;

/// Takes bytes; 0 when there are no more.
struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    fn bit(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    fn kind(&mut self) -> Kind {
        [Kind::Short, Kind::Long, Kind::Soft][usize::from(self.byte() % 3)]
    }

    fn quantum(&mut self) -> Quantum {
        match self.byte() {
            n @ 0..=127 => Quantum::Steps(n % 32),
            n => Quantum::To(n % 7, self.byte() % 16),
        }
    }

    /// No arrays behind index leaves: they take a second each.
    fn length(&mut self) -> Length {
        match self.byte() {
            n @ 0..=127 => Length::Short(n % 64),
            n => Length::Leaves(n % 64),
        }
    }

    fn act(&mut self) -> Act {
        match self.byte() % 7 {
            0 => Act::Revive,
            1 => Act::Hang { g: self.byte(), slot: self.byte() },
            2 => Act::Register,
            3 => Act::Alloc,
            4 => Act::Pause(self.quantum()),
            5 => Act::Safepoint(self.quantum()),
            _ => Act::Panic,
        }
    }

    fn op(&mut self) -> Op {
        match self.byte() % 47 {
            0 | 1 => Op::Alloc { a: self.byte(), b: self.byte() },
            2 => Op::Load { x: self.byte(), slot: self.byte() },
            3 => Op::Store { x: self.byte(), slot: self.byte(), y: self.byte() },
            4 => Op::Swap { x: self.byte(), slot: self.byte(), y: self.byte(), keep: self.bit() },
            5 => Op::Exchange { x: self.byte(), slot: self.byte(), hit: self.bit(), y: self.byte() },
            6 => Op::Forget { x: self.byte() },
            7 => Op::Root { x: self.byte() },
            8 => Op::RootGet { r: self.byte() },
            9 => Op::RootDuplicate { r: self.byte() },
            10 => Op::RootDrop { r: self.byte() },
            11 => Op::Global { x: self.byte() },
            12 => Op::GlobalGet { g: self.byte() },
            13 => Op::GlobalClone { g: self.byte() },
            14 => Op::GlobalDrop { g: self.byte() },
            15 => Op::Weak { kind: self.kind(), x: self.byte() },
            16 => Op::WeakAsk { kind: self.kind(), w: self.byte() },
            17 => Op::WeakDrop { kind: self.kind(), w: self.byte() },
            18 => Op::Ephemeron { key: self.byte(), value: self.byte() },
            19 => Op::EphemeronAsk { e: self.byte(), value_first: self.bit() },
            20 => Op::EphemeronDrop { e: self.byte() },
            21 => Op::MapInsert { key: self.byte(), value: self.byte() },
            22 => Op::MapGet { key: self.byte() },
            23 => Op::MapRemove { key: self.byte() },
            24 => Op::MapEach,
            25 => Op::OnDeath { x: self.byte(), queue: self.bit(), handle: self.bit() },
            26 => Op::CancelDeath { n: self.byte() },
            27 => Op::Register { x: self.byte() },
            28 => Op::Suppress { x: self.byte() },
            29 => Op::Array { x: self.byte(), length: self.length() },
            30 => Op::ArrayLoad { x: self.byte(), i: self.word() },
            31 => Op::ArrayStore { x: self.byte(), i: self.word(), y: self.byte() },
            32 => Op::ArrayFill { x: self.byte(), from: self.word(), n: self.word(), y: self.byte() },
            33 => {
                let (x, to, source) = (self.byte(), self.word(), self.byte());
                Op::ArrayCopy { x, to, source, from: self.word(), n: self.word() }
            }
            34 => Op::ArrayShare { x: self.byte(), y: self.byte() },
            35 => Op::Values { x: self.byte(), length: self.length(), quantum: self.quantum() },
            36 => Op::ValuesCheck { x: self.byte() },
            37 => Op::FailRefill { n: self.byte() },
            38 => Op::SoftAge { n: self.byte() },
            39 => Op::Compare,
            40 => Op::Pause(self.quantum()),
            41 => Op::Safepoint(self.quantum()),
            42 => Op::Native,
            43 => Op::Reserve { n: self.byte() % 16, quantum: self.quantum() },
            44 => Op::Leave(self.quantum()),
            45 => Op::Finalize,
            _ => Op::Reap,
        }
    }
}

/// The program that these bytes are: one of how many mutators, the finalizers' acts, then operations.
pub(crate) fn decode(data: &[u8]) -> Program {
    let mut bytes = Bytes(data.iter());
    let head = bytes.byte();
    let acts = (0..head >> 4 & 3).map(|_| (0..bytes.byte() % 4).map(|_| bytes.act()).collect()).collect();
    let mutators = 1 + head % 4;
    let mut steps = Vec::new();
    while !bytes.is_empty() && steps.len() < STEPS_MAX {
        let by = if mutators == 1 { 0 } else { bytes.byte() % mutators };
        steps.push((by, bytes.op()));
    }
    Program { mutators, glue: head & 4 != 0, large: false, acts, steps }
}
