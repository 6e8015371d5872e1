//! Steps and broken properties in words.

use crate::state::Ref;
use crate::steps::{Step, Violation};
use std::fmt;

/// The name of an object.
pub(crate) fn name(o: usize) -> char {
    char::from(b'A' + o as u8)
}

fn value_name(r: Ref) -> String {
    if r == 0 { "null".into() } else { name(usize::from(r) - 1).to_string() }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Step::Load { m, o, k } => write!(f, "M{m} loads {}.{k}", name(o)),
            Step::Store { m, o, k, value } => {
                write!(f, "M{m} stores {}.{k} = {}", name(o), value_name(value))
            }
            Step::TakeRun { m, o } => write!(f, "M{m} reserves cell {}", name(o)),
            Step::Alloc { m, o, value } => {
                write!(f, "M{m} allocates {} {{ {} }}", name(o), value_name(value))
            }
            Step::RootNew { m, o, e } => write!(f, "M{m} roots {} in its entry {e}", name(o)),
            Step::RootGet { m, e } => write!(f, "M{m} gets its root {e}"),
            Step::RootDuplicate { m, e, to } => write!(f, "M{m} duplicates its root {e} into entry {to}"),
            Step::RootDrop { m, e } => write!(f, "M{m} drops its root {e}"),
            Step::GlobalNew { m, o, e } => write!(f, "M{m} makes global {e} of {}", name(o)),
            Step::GlobalGet { m, e } => write!(f, "M{m} gets global {e}"),
            Step::GlobalClone { e } => write!(f, "some thread clones global {e}"),
            Step::GlobalCloneApart { e, to } => write!(f, "some thread clones global {e} into entry {to}"),
            Step::GlobalDrop { e } => write!(f, "some thread drops a handle of global {e}"),
            Step::WeakNew { m, o } => write!(f, "M{m} makes a weak reference to {}", name(o)),
            Step::Upgrade { m } => write!(f, "M{m} upgrades the weak reference"),
            Step::WeakDrop => write!(f, "some thread drops the weak reference"),
            Step::Safepoint { m } => write!(f, "M{m} comes by a safepoint"),
            Step::PassAtPausePoint { m } => write!(f, "M{m} passes at a pause point"),
            Step::GoNative { m } => write!(f, "M{m} goes native"),
            Step::ComeBack { m } => write!(f, "M{m} comes back from native"),
            Step::Exit { m } => write!(f, "M{m} ends"),
            Step::Birth { m } => write!(f, "M{m} is born"),
            Step::Arm => write!(f, "GC arms: Snapshot"),
            Step::AllPassed => write!(f, "GC sees that all have passed: Mark"),
            Step::TakeRoot { m, e } => write!(f, "GC takes root {e} of M{m}"),
            Step::TakeGlobal { e } => write!(f, "GC takes global {e}"),
            Step::Scan { o } => write!(f, "GC scans {}", name(o)),
            Step::EndMarking => write!(f, "GC ends marking: Weak"),
            Step::ClearWeak => write!(f, "GC looks at the weak reference"),
            Step::BeginSweep => write!(f, "GC begins to sweep: Sweep"),
            Step::Sweep { o } => write!(f, "GC sweeps {}", name(o)),
            Step::EndCycle => write!(f, "GC ends the cycle: Idle"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Violation::Lost { o } => write!(f, "{} is swept while a local or a handle reaches it", name(o)),
            Violation::WeakYieldsSwept { o } => {
                write!(f, "{} is swept while a weak reference yields it", name(o))
            }
            Violation::MarkedToUnmarked { o } => write!(f, "a marked object refers to {}, unmarked", name(o)),
            Violation::ReachedUnmarked => write!(f, "an unmarked object is reached when marking ends"),
            Violation::Kept { o } => write!(f, "{} was garbage for a whole cycle and was not freed", name(o)),
            Violation::Stuck => write!(f, "all mutators have passed and the collector has no step"),
        }
    }
}
