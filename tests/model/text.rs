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
            Step::WeakNew { m, o, e } => write!(f, "M{m} makes weak reference {e} to {}", name(o)),
            Step::Upgrade { m, e } => write!(f, "M{m} upgrades weak reference {e}"),
            Step::UpgradeRefused { m, e } => write!(f, "M{m} is refused by weak reference {e}"),
            Step::WeakDrop { e } => write!(f, "some thread drops weak reference {e}"),
            Step::LongNew { m, o } => write!(f, "M{m} makes a long weak reference to {}", name(o)),
            Step::LongUpgrade { m } => write!(f, "M{m} upgrades the long weak reference"),
            Step::LongDrop => write!(f, "some thread drops the long weak reference"),
            Step::Register { m, o, e } => write!(f, "M{m} makes registration {e} of {}", name(o)),
            Step::Suppress { m, e } => write!(f, "M{m} suppresses registration {e}"),
            Step::TakeFinalizer { m, e } => write!(f, "M{m} takes registration {e} to finalize"),
            Step::EphemeronNew { m, key, value, e } => {
                write!(f, "M{m} makes ephemeron {e} of {} and {}", name(key), name(value))
            }
            Step::EphemeronGet { m, e } => write!(f, "M{m} looks up ephemeron {e}"),
            Step::EphemeronDrop { e } => write!(f, "some thread drops ephemeron {e}"),
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
            Step::TakeQueued { e } => write!(f, "GC takes queued registration {e}"),
            Step::Scan { o } => write!(f, "GC scans {}", name(o)),
            Step::EndMarking => write!(f, "GC ends marking: Weak"),
            Step::ClearWeak { e } => write!(f, "GC clears weak reference {e}"),
            Step::FindDead { e } => write!(f, "GC finds registration {e} dead"),
            Step::BeginFinalize => write!(f, "GC ends Weak: Finalize"),
            Step::MarkDead { e } => write!(f, "GC marks the object of registration {e}"),
            Step::MarkValue { e } => write!(f, "GC marks the value of ephemeron {e}"),
            Step::EndFinalize => write!(f, "GC ends Finalize: Phantom"),
            Step::ClearLong => write!(f, "GC clears the long weak reference"),
            Step::ClearEphemeron { e } => write!(f, "GC clears ephemeron {e}"),
            Step::Queue { e } => write!(f, "GC queues registration {e}"),
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
            Violation::InEphemeronSwept { o } => write!(f, "{} is swept while in an ephemeron", name(o)),
            Violation::RegisteredSwept { o } => write!(f, "{} is swept while registered", name(o)),
            Violation::YieldsAgain { o } => {
                write!(f, "an old weak reference yields {}, found unreachable before", name(o))
            }
            Violation::HeldIsRefused { o } => write!(f, "{} is given up while within reach", name(o)),
            Violation::TakenUnmarked { o } => {
                write!(f, "a finalizer gets {} before all that it reaches is marked", name(o))
            }
            Violation::RunsTwice { o } => {
                write!(f, "a second finalizer of one registration gets {}", name(o))
            }
            Violation::NotQueued { o } => {
                write!(f, "{} was garbage for a whole cycle, its finalizer not queued", name(o))
            }
            Violation::MarkedToUnmarked { o } => write!(f, "a marked object refers to {}, unmarked", name(o)),
            Violation::ReachedUnmarked => {
                write!(f, "an unmarked object is reached when marking or Finalize ends")
            }
            Violation::Kept { o } => write!(f, "{} was garbage for a whole cycle and was not freed", name(o)),
            Violation::Stuck => write!(f, "all mutators have passed and the collector has no step"),
        }
    }
}
