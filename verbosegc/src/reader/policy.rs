//! Logs of other collectors' policies: to be named, not to be read as "no pauses at all".

/// What the run is known to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Policy {
    #[default]
    Unknown,
    Metronome,
    Other,
}

const STOP_THE_WORLD: &str = "optthruput, optavgpause or gencon";

/// The policy that writes an element which Metronome never writes; `None` for all other elements.
pub(super) fn of_element(name: &str) -> Option<&'static str> {
    Some(match name {
        "af"
        | "sys"
        | "af-start"
        | "af-end"
        | "sys-start"
        | "sys-end"
        | "gc-start"
        | "gc-end"
        | "exclusive-start"
        | "exclusive-end"
        | "mem-info"
        | "allocation-stats"
        | "tenured"
        | "soa"
        | "loa"
        | "allocation-unsatisfied"
        | "percolate-collect" => STOP_THE_WORLD,
        "con" | "concurrent-kickoff" | "concurrent-aborted" | "concurrent-halted" | "concurrent-start"
        | "concurrent-end" => "optavgpause or gencon",
        "nursery" | "scavenger-info" | "copy-failed" => "gencon",
        "eden" | "allocation-taxation" | "remembered-set-cleared" => "balanced",
        _ => return None,
    })
}

/// The policy that a `type` of `gc`, `gc-op` or `cycle-start` belongs to, where it is none of Metronome's.
pub(super) fn of_type(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "scavenger" | "scavenge" | "nursery" => "gencon",
        "partial gc" | "global mark phase" | "global garbage collect" | "copy forward" => "balanced",
        "mark" | "sweep" | "compact" | "global" | "tenured" | "mark increment" | "rs-scan"
        | "card-cleaning" | "classunload" | "tracing" => STOP_THE_WORLD,
        _ => return None,
    })
}

/// `gencon` from `-Xgcpolicy:gencon`; `None` for Metronome.
pub(super) fn of_attribute(value: &str) -> Option<String> {
    if value.to_ascii_lowercase().contains("metronome") {
        None
    } else {
        Some(value.rsplit(':').next().unwrap_or(value).to_owned())
    }
}

/// True for elements that only Metronome writes.
pub(super) fn is_metronome(name: &str, kind: &str) -> bool {
    match name {
        "trigger-start" | "trigger-end" => true,
        "gc-op" => matches!(kind, "heartbeat" | "syncgc"),
        "gc" => matches!(
            kind,
            "heartbeat" | "synchgc" | "trigger start" | "trigger end" | "cycle start" | "cycle end"
        ),
        _ => false,
    }
}
