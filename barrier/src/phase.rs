//! The collector's phases and what each asks of mutators. This table *is* the barrier protocol
//! (INV-BARRIER-RULES in `DESIGN.md`); nothing else decides when to shade.

/// Phase of the collector, as mutators see it. Changed only while all mutators are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// No cycle is active.
    Idle = 0,
    /// From arming until every mutator has passed a safepoint.
    Snapshot = 1,
    /// From then until marking ends.
    Mark = 2,
    /// Marking has ended: unmarked means dead; weak references are being cleared.
    Weak = 3,
    /// Dead cells are being freed.
    Sweep = 4,
}

/// What a running mutator has to shade now. Zero means that no barrier is armed: one load and one branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierFlags(pub u8);

impl BarrierFlags {
    /// Nothing to shade.
    pub const OFF: BarrierFlags = BarrierFlags(0);
    const OVERWRITTEN_AND_READ: u8 = 1;
    const NEW: u8 = 2;

    /// The value that a store, swap or exchange removes from a slot (the Yuasa deletion barrier), and what the
    /// `get` or `clone` of a handle and a weak `upgrade` yield.
    #[inline(always)]
    #[must_use]
    pub const fn shades_overwritten(self) -> bool {
        self.0 & Self::OVERWRITTEN_AND_READ != 0
    }

    /// The value that a store or an initialiser writes, and the object of a new `Global`.
    #[inline(always)]
    #[must_use]
    pub const fn shades_new(self) -> bool {
        self.0 & Self::NEW != 0
    }

    /// Whether anything is to be shaded.
    #[inline(always)]
    #[must_use]
    pub const fn armed(self) -> bool {
        self.0 != 0
    }
}

impl Phase {
    /// All phases in the order of a cycle.
    pub const ALL: [Phase; 5] = [Phase::Idle, Phase::Snapshot, Phase::Mark, Phase::Weak, Phase::Sweep];

    /// The barrier of this phase.
    #[must_use]
    pub const fn barrier(self) -> BarrierFlags {
        match self {
            Phase::Idle | Phase::Weak | Phase::Sweep => BarrierFlags::OFF,
            Phase::Snapshot => BarrierFlags(BarrierFlags::OVERWRITTEN_AND_READ | BarrierFlags::NEW),
            Phase::Mark => BarrierFlags(BarrierFlags::OVERWRITTEN_AND_READ),
        }
    }

    /// Whether new objects are black. (In Sweep they are black only in regions not yet swept, from which no
    /// mutator allocates here; so they are white.)
    #[must_use]
    pub const fn allocates_black(self) -> bool {
        match self {
            Phase::Snapshot | Phase::Mark | Phase::Weak => true,
            Phase::Idle | Phase::Sweep => false,
        }
    }

    /// Whether a weak reference to an unmarked object refuses to be upgraded.
    #[must_use]
    pub const fn unmarked_is_dead(self) -> bool {
        matches!(self, Phase::Weak)
    }

    /// Whether a cycle is active.
    #[must_use]
    pub const fn in_cycle(self) -> bool {
        !matches!(self, Phase::Idle)
    }

    /// The phase that may follow.
    #[must_use]
    pub const fn next(self) -> Phase {
        match self {
            Phase::Idle => Phase::Snapshot,
            Phase::Snapshot => Phase::Mark,
            Phase::Mark => Phase::Weak,
            Phase::Weak => Phase::Sweep,
            Phase::Sweep => Phase::Idle,
        }
    }

    /// The phase with this number.
    #[must_use]
    pub const fn from_u8(v: u8) -> Option<Phase> {
        match v {
            0 => Some(Phase::Idle),
            1 => Some(Phase::Snapshot),
            2 => Some(Phase::Mark),
            3 => Some(Phase::Weak),
            4 => Some(Phase::Sweep),
            _ => None,
        }
    }

    /// Lower-case name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Snapshot => "snapshot",
            Phase::Mark => "mark",
            Phase::Weak => "weak",
            Phase::Sweep => "sweep",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_those_of_the_model() {
        // (phase, overwritten/read, new, black): section "Rules" of DESIGN.md, written out independently.
        let table = [
            (Phase::Idle, false, false, false),
            (Phase::Snapshot, true, true, true),
            (Phase::Mark, true, false, true),
            (Phase::Weak, false, false, true),
            (Phase::Sweep, false, false, false),
        ];
        for (i, (p, over, new, black)) in table.into_iter().enumerate() {
            assert_eq!(Phase::from_u8(i as u8), Some(p));
            assert_eq!(p.barrier().shades_overwritten(), over);
            assert_eq!(p.barrier().shades_new(), new);
            assert_eq!(p.barrier().armed(), over || new);
            assert_eq!(p.allocates_black(), black);
            assert_eq!(p.unmarked_is_dead(), p == Phase::Weak);
            assert_eq!(p.next(), Phase::ALL[(i + 1) % 5]);
        }
        assert_eq!(Phase::from_u8(5), None);
    }
}
