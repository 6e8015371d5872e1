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

/// The collector that writes such lines, of those whose logs are no XML, and the evidence.
pub(super) fn of_text(text: &str) -> Option<(&'static str, &'static str)> {
    text.lines().find_map(of_line)
}

/// How the evidence of a log that is no XML begins.
const BY_TEXT: [&str; 2] = ["lines of ", A_LINE];
/// The evidence of a line that names a collector and nothing else: another program may have printed it before a log.
pub(super) const A_LINE: &str = "the line that names it";

/// True for the evidence that [`of_text`] gives.
pub(super) fn is_by_text(evidence: &str) -> bool {
    BY_TEXT.iter().any(|begin| evidence.starts_with(begin))
}

/// What stands in the lines of HotSpot's logs, unified logging and the older form.
const HOTSPOT: [(&str, &str); 28] = [
    ("Using G1", "G1"),
    ("Using Parallel", "Parallel"),
    ("Using Serial", "Serial"),
    ("Using The Z Garbage Collector", "ZGC"),
    ("Initializing The Z Garbage Collector", "ZGC"),
    ("Using Shenandoah", "Shenandoah"),
    ("Using Epsilon", "Epsilon"),
    ("Using Concurrent Mark Sweep", "CMS"),
    ("G1 Evacuation Pause", "G1"),
    ("G1 Humongous Allocation", "G1"),
    ("G1 Preventive Collection", "G1"),
    ("Pause Remark", "G1"),
    ("Pause Cleanup", "G1"),
    ("Eden regions:", "G1"),
    ("[GC pause (", "G1"),
    ("PSYoungGen", "Parallel"),
    ("ParOldGen", "Parallel"),
    ("DefNew", "Serial"),
    ("ParNew", "CMS"),
    ("CMS-", "CMS"),
    ("Pause Mark Start", "ZGC"),
    ("Pause Relocate Start", "ZGC"),
    ("Garbage Collection (", "ZGC"),
    ("Pause Init Mark", "Shenandoah"),
    ("Pause Final Mark", "Shenandoah"),
    ("Trigger: Free", "Shenandoah"),
    ("Pause Young", "Parallel or Serial"),
    ("Pause Full", "Parallel or Serial"),
];

fn of_line(line: &str) -> Option<(&'static str, &'static str)> {
    let line = line.trim();
    let hotspot = |evidence| {
        let (_, name) = HOTSPOT.iter().find(|(words, _)| line.contains(words))?;
        let name = match *name {
            "G1" => "G1 of HotSpot",
            "Parallel" => "Parallel of HotSpot",
            "Serial" => "Serial of HotSpot",
            "ZGC" => "ZGC of HotSpot",
            "Shenandoah" => "Shenandoah of HotSpot",
            "Epsilon" => "Epsilon of HotSpot",
            "CMS" => "Concurrent Mark Sweep of HotSpot",
            _ => "Parallel or Serial of HotSpot",
        };
        Some((name, evidence))
    };
    // Decorations: time, level and tags, in any number, such as [0.005s][info][gc,init].
    let unified =
        line.starts_with('[') && (line.contains("[gc]") || line.contains("[gc,") || line.contains("[gc "));
    // -XX:+PrintGC: [GC (Allocation Failure) [PSYoungGen: ..., 0.0023 secs], after a date, a time or both.
    let older = (line.contains("[GC ") || line.contains("[Full GC "))
        && (line.contains("K->") || line.contains("M->"))
        || line.contains("[GC pause (");
    if unified {
        return hotspot("lines of unified logging").or_else(|| {
            line.contains("GC(").then_some(("a collector of HotSpot", "lines of unified logging"))
        });
    }
    if older {
        return hotspot("lines of -XX:+PrintGC")
            .or(Some(("a collector of HotSpot", "lines of -XX:+PrintGC")));
    }
    let bare =
        HOTSPOT.iter().take_while(|(words, _)| words.starts_with("Using")).any(|(words, _)| line == *words);
    if bare {
        return hotspot(A_LINE);
    }
    // gc 1 @0.012s 2%: 0.026+0.39+0.10 ms clock, ...
    let go = line.strip_prefix("gc ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if go && line.contains(" ms clock") {
        return Some(("Go", "lines of gctrace"));
    }
    // [12345:0x...]   55 ms: Scavenge 2.3 (3.0) -> 1.9 (4.0) MB, ...
    let v8 = [" ms: Scavenge ", " ms: Mark-sweep ", " ms: Mark-Compact "].iter().any(|w| line.contains(w));
    v8.then_some(("V8", "lines of --trace-gc"))
}

#[cfg(test)]
mod tests {
    use super::of_text;

    #[test]
    fn lines_name_their_collector() {
        for (line, name) in [
            ("[0.005s][info][gc] Using G1", "G1 of HotSpot"),
            ("[2026-01-01T00:00:00.000+0000][0.006s][info][gc     ] Using Parallel", "Parallel of HotSpot"),
            ("[0.010s][info][gc] Using Serial", "Serial of HotSpot"),
            ("[0.010s][info][gc,init] Initializing The Z Garbage Collector", "ZGC of HotSpot"),
            ("[0.010s][info][gc] Using Shenandoah", "Shenandoah of HotSpot"),
            ("Using G1", "G1 of HotSpot"),
            (
                "[1.2s][info][gc] GC(3) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.5ms",
                "G1 of HotSpot",
            ),
            (
                "[1.2s][info][gc] GC(3) Pause Young (Allocation Failure) 24M->4M(256M) 3.5ms",
                "Parallel or Serial of HotSpot",
            ),
            ("[1.2s][info][gc] GC(3) Something new 3.5ms", "a collector of HotSpot"),
            (
                "1.234: [GC (Allocation Failure) [PSYoungGen: 33280K->5088K(38400K)] 33280K->5096K(125952K), 0.0051 secs]",
                "Parallel of HotSpot",
            ),
            (
                "[GC (Allocation Failure) [DefNew: 8K->1K(9K), 0.0021 secs] 8K->1K(30K), 0.0021 secs]",
                "Serial of HotSpot",
            ),
            (
                "2026-01-01T00:00:00.000+0000: 1.2: [GC pause (G1 Evacuation Pause) (young), 0.0023 secs]",
                "G1 of HotSpot",
            ),
            ("[GC (Allocation Failure)  33280K->5096K(125952K), 0.0051 secs]", "a collector of HotSpot"),
            (
                "gc 1 @0.012s 2%: 0.026+0.39+0.10 ms clock, 0.21+0.88/0.52/0+0.82 ms cpu, 4->4->0 MB, 5 MB goal",
                "Go",
            ),
            ("[44:0x5581]       55 ms: Scavenge 2.3 (3.0) -> 1.9 (4.0) MB, 1.2 / 0.0 ms", "V8"),
        ] {
            let told = of_text(&format!("OpenJDK warning: something\r\n{line}\r\n"));
            assert_eq!(told.map(|t| t.0), Some(name), "{line}");
        }
        for other in [
            "Using G1 for the answer",
            "[2026] INFO Garbage collected 5K->3K",
            "gc 1 of 2 is done",
            "Exception in thread \"main\" java.lang.OutOfMemoryError: Pause Young",
            "DefNew",
        ] {
            assert_eq!(of_text(other), None, "{other}");
        }
    }
}
