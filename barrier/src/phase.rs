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
    /// Marking has ended; marks stand still while short weak references to unmarked objects are cleared and finalizable
    /// objects among them are found.
    Weak = 3,
    /// What those objects reach is being marked.
    Finalize = 4,
    /// Unmarked means dead: long weak references and ephemerons are cleared, deaths are noted, finalizers handed out.
    Phantom = 5,
    /// Dead cells are being freed.
    Sweep = 6,
}

/// What a running mutator has to shade now. Zero means that no barrier is armed: one load and one branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierFlags(pub u8);

impl BarrierFlags {
    /// Nothing to shade.
    pub const OFF: BarrierFlags = BarrierFlags(0);
    const OVERWRITTEN_AND_READ: u8 = 1;
    const NEW: u8 = 2;
    const DEFERRED: u8 = 4;

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

    /// Whether shading only remembers the object: marks stand still, so that it sets the grey bit without the mark bit.
    #[inline(always)]
    #[must_use]
    pub const fn deferred(self) -> bool {
        self.0 & Self::DEFERRED != 0
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
    pub const ALL: [Phase; 7] = [
        Phase::Idle,
        Phase::Snapshot,
        Phase::Mark,
        Phase::Weak,
        Phase::Finalize,
        Phase::Phantom,
        Phase::Sweep,
    ];

    /// The barrier of this phase.
    #[must_use]
    pub const fn barrier(self) -> BarrierFlags {
        match self {
            Phase::Idle | Phase::Phantom | Phase::Sweep => BarrierFlags::OFF,
            Phase::Snapshot => BarrierFlags(BarrierFlags::OVERWRITTEN_AND_READ | BarrierFlags::NEW),
            Phase::Mark | Phase::Finalize => BarrierFlags(BarrierFlags::OVERWRITTEN_AND_READ),
            Phase::Weak => BarrierFlags(BarrierFlags::OVERWRITTEN_AND_READ | BarrierFlags::DEFERRED),
        }
    }

    /// Whether new objects are black. (In Sweep they are black only in regions not yet swept, from which no
    /// mutator allocates here; so they are white.)
    #[must_use]
    pub const fn allocates_black(self) -> bool {
        match self {
            Phase::Snapshot | Phase::Mark | Phase::Weak | Phase::Finalize | Phase::Phantom => true,
            Phase::Idle | Phase::Sweep => false,
        }
    }

    /// Whether a short weak reference to an unmarked object refuses to be upgraded. (Later such references have been
    /// cleared.)
    #[must_use]
    pub const fn unmarked_is_unreachable(self) -> bool {
        matches!(self, Phase::Weak)
    }

    /// Whether a long weak reference to an unmarked object refuses too: finalizers cannot bring it back any more.
    #[must_use]
    pub const fn unmarked_is_dead(self) -> bool {
        matches!(self, Phase::Phantom)
    }

    /// Whether marking has ended in this cycle. A reference made from here on is to an object that a mutator holds,
    /// whatever its mark says.
    #[must_use]
    pub const fn after_marking(self) -> bool {
        matches!(self, Phase::Weak | Phase::Finalize | Phase::Phantom)
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
            Phase::Weak => Phase::Finalize,
            Phase::Finalize => Phase::Phantom,
            Phase::Phantom => Phase::Sweep,
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
            4 => Some(Phase::Finalize),
            5 => Some(Phase::Phantom),
            6 => Some(Phase::Sweep),
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
            Phase::Finalize => "finalize",
            Phase::Phantom => "phantom",
            Phase::Sweep => "sweep",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_those_of_the_model() {
        // (phase, overwritten/read, new, deferred, black): section "Rules" of DESIGN.md, written out independently.
        let table = [
            (Phase::Idle, false, false, false, false),
            (Phase::Snapshot, true, true, false, true),
            (Phase::Mark, true, false, false, true),
            (Phase::Weak, true, false, true, true),
            (Phase::Finalize, true, false, false, true),
            (Phase::Phantom, false, false, false, true),
            (Phase::Sweep, false, false, false, false),
        ];
        for (i, (p, over, new, deferred, black)) in table.into_iter().enumerate() {
            assert_eq!(Phase::from_u8(i as u8), Some(p));
            assert_eq!(p.barrier().shades_overwritten(), over);
            assert_eq!(p.barrier().shades_new(), new);
            assert_eq!(p.barrier().deferred(), deferred);
            assert_eq!(p.barrier().armed(), over || new);
            assert_eq!(p.allocates_black(), black);
            assert_eq!(p.unmarked_is_unreachable(), p == Phase::Weak);
            assert_eq!(p.unmarked_is_dead(), p == Phase::Phantom);
            assert_eq!(p.after_marking(), (3..=5).contains(&i));
            assert_eq!(p.next(), Phase::ALL[(i + 1) % 7]);
        }
        assert_eq!(Phase::from_u8(7), None);
    }
}
