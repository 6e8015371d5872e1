//! Tables of objects, of nodes that refer to each other, and of large arrays.

use super::insist;
use crate::program::churn::{digest, length, word};
use crate::program::storm::{NONE, Step};
use crate::program::{arrays, churn, storm};
use metronome_gc::{AllocError, Gc, GcArray, Mutator, Root, Slot, Trace};

/// An object: its serial number and its words.
#[derive(Trace)]
pub(crate) struct Block {
    serial: u64,
    words: Slot<GcArray<u64>>,
}

fn block<'m>(m: &'m Mutator<'_>, serial: u64) -> Result<Gc<'m, Block>, AllocError> {
    let words = m.alloc_array(length(serial), |i| word(serial, i))?;
    m.alloc(BlockInit { serial, words: Some(words) })
}

impl churn::Store for Mutator<'_> {
    type Table = Root<GcArray<Slot<Block>>>;

    fn table(&mut self, n: usize) -> Self::Table {
        insist(self, |m| Ok(Root::new(m, m.alloc_slots::<Block>(n)?)))
    }

    fn put(&mut self, table: &mut Self::Table, place: usize, serial: u64) {
        insist(self, |m| {
            table.get(m).store(m, place, block(m, serial)?);
            Ok(())
        });
    }

    fn digest(&mut self, table: &Self::Table, place: usize) -> u64 {
        self.safepoint();
        let m = &*self;
        let Some(block) = table.get(m).load(m, place) else { return 0 };
        block.words.load(m).map_or(0, |words| digest(block.serial, words.leaves().flatten()))
    }
}

/// A node of the storm.
#[derive(Trace)]
pub(crate) struct Node {
    id: u64,
    a: Slot<Node>,
    b: Slot<Node>,
}

fn step(m: &Mutator<'_>, table: Gc<'_, GcArray<Slot<Node>>>, step: Step) -> Result<(), AllocError> {
    let node = |place| table.load(m, place);
    match step {
        Step::Replace(i, j, id) => {
            let new = m.alloc(NodeInit { id, a: node(j), b: None })?;
            if let Some(old) = node(i) {
                old.a.store(m, None);
                old.b.store(m, None);
            }
            table.store(m, i, new);
        }
        Step::Copy(i, j) => {
            if let (Some(to), Some(from)) = (node(i), node(j)) {
                to.a.store(m, from.b.load(m));
            }
        }
        Step::Link(i, j) => {
            if let (Some(to), to_be) = (node(i), node(j)) {
                to.b.store(m, to_be);
            }
        }
    }
    Ok(())
}

impl storm::Graph for Mutator<'_> {
    type Graph = Root<GcArray<Slot<Node>>>;

    fn graph(&mut self, n: usize) -> Self::Graph {
        let table = insist(self, |m| Ok(Root::new(m, m.alloc_slots::<Node>(n)?)));
        for place in 0..n {
            insist(self, |m| {
                table.get(m).store(m, place, m.alloc(NodeInit { id: place as u64, a: None, b: None })?);
                Ok(())
            });
        }
        table
    }

    fn steps(&mut self, graph: &mut Self::Graph, steps: impl Iterator<Item = Step>) {
        let mut steps = steps.peekable();
        while steps.peek().is_some() {
            // A step that found no memory is taken again after the safepoint.
            insist(self, |m| {
                let table = graph.get(m);
                while let Some(&next) = steps.peek() {
                    step(m, table, next)?;
                    steps.next();
                }
                m.poll();
                Ok(())
            });
        }
    }

    fn node(&mut self, graph: &Self::Graph, place: usize) -> [u64; 3] {
        self.safepoint();
        let m = &*self;
        let id = |n: Option<Gc<'_, Node>>| n.map_or(NONE, |n| n.id);
        let node = graph.get(m).load(m, place);
        [
            id(node),
            id(node.and_then(|n| Gc::object(n).a.load(m))),
            id(node.and_then(|n| Gc::object(n).b.load(m))),
        ]
    }
}

impl arrays::Arrays for Mutator<'_> {
    type Table = Vec<Option<Root<GcArray<u64>>>>;

    fn arrays(&mut self, n: usize) -> Self::Table {
        (0..n).map(|_| None).collect()
    }

    fn make(&mut self, table: &mut Self::Table, place: usize, len: usize, seed: u64) {
        table[place] = None;
        table[place] = Some(insist(self, |m| Ok(Root::new(m, m.alloc_array(len, |i| seed + i as u64)?))));
    }

    fn total(&mut self, table: &Self::Table, place: usize) -> u64 {
        let m = &*self;
        let leaf = |sum: u64, leaf: &[u64]| {
            m.poll();
            leaf.iter().fold(sum, |sum, x| sum.wrapping_add(*x))
        };
        table[place].as_ref().map_or(0, |array| array.get(m).leaves().fold(0, leaf))
    }
}
