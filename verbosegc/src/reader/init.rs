//! Gathers the `initialized` element.

use super::scan::Place;
use crate::attrs::{Attrs, excerpt, parse_u64};
use crate::model::{Attribute, Initialized, Section};
use crate::time::LogTime;

/// Bytes of options and further attributes kept of one header; more are reported and dropped, to bound memory.
const MAX_BYTES: usize = 1 << 20;
/// What an entry costs besides its text.
const ENTRY_BYTES: usize = 96;

/// An `initialized` element being read.
#[derive(Debug)]
pub(super) struct OpenHeader {
    pub(super) place: Place,
    pub(super) id: Option<u64>,
    pub(super) time: Option<LogTime>,
    pub(super) partial: bool,
    pub(super) section: Section,
    pub(super) facts: Initialized,
    bytes: usize,
}

impl OpenHeader {
    pub(super) fn new(place: Place, partial: bool) -> Self {
        Self {
            place,
            id: None,
            time: None,
            partial,
            section: Section::Main,
            facts: Initialized::default(),
            bytes: 0,
        }
    }

    pub(super) fn vmarg(&mut self, attrs: &mut Attrs) {
        let value = attrs.text("value");
        match attrs.text("name") {
            None => attrs.missing("name"),
            Some(name) if self.fits(name.len() + value.as_ref().map_or(0, String::len)) => {
                self.facts.vmargs.push((name, value));
            }
            Some(_) => attrs.problem(format!("more than {MAX_BYTES} bytes of options, this one ignored")),
        }
    }

    /// Takes an `attribute` element; gives the policy if that is what it names.
    pub(super) fn attribute(&mut self, attrs: &mut Attrs) -> Option<String> {
        let (Some(name), Some(value)) = (attrs.text("name"), attrs.text("value")) else {
            attrs.problem("an attribute needs name and value".into());
            return None;
        };
        match self.set(&name, &value) {
            Set::Done => return (name == "gcPolicy").then_some(value),
            Set::Bad(why) => attrs.problem(format!("{}=\"{}\" {why}", excerpt(&name), excerpt(&value))),
            Set::Other => {}
        }
        if self.fits(name.len() + value.len()) {
            self.facts.attributes.push(Attribute { section: self.section, name, value });
        } else {
            attrs.problem(format!("more than {MAX_BYTES} bytes of attributes, this one ignored"));
        }
        None
    }

    fn fits(&mut self, bytes: usize) -> bool {
        let sum = self.bytes + bytes + ENTRY_BYTES;
        let fits = sum <= MAX_BYTES;
        if fits {
            self.bytes = sum;
        }
        fits
    }

    /// Sets a typed field.
    fn set(&mut self, name: &str, value: &str) -> Set {
        let f = &mut self.facts;
        let number = |slot: &mut Option<u64>, scale: u64| {
            first(
                slot,
                parse_u64(value).and_then(|v| v.checked_mul(scale)),
                "is not a whole number that fits",
            )
        };
        let text = |slot: &mut Option<String>| first(slot, Some(value.to_owned()), "");
        let microseconds = |slot: &mut Option<u64>| {
            let ns = parse_u64(value).and_then(|v| v.checked_mul(1000));
            first(slot, ns, "is not a time in us")
        };
        match (self.section, name) {
            (Section::Main, "gcPolicy") => text(&mut f.policy),
            (Section::Main, "maxHeapSize") => number(&mut f.heap_max_bytes, 1),
            (Section::Main, "initialHeapSize") => number(&mut f.heap_initial_bytes, 1),
            (Section::Main, "gcthreads") => number(&mut f.gc_threads, 1),
            (Section::Region, "regionSize") => number(&mut f.region_bytes, 1),
            (Section::Region, "regionCount") => number(&mut f.region_count, 1),
            (Section::Region, "arrayletLeafSize") => number(&mut f.leaf_bytes, 1),
            (Section::Metronome, "beatsPerMeasure") => microseconds(&mut f.beat_ns),
            (Section::Metronome, "timeInterval") => microseconds(&mut f.window_ns),
            (Section::Metronome, "targetUtilization") => {
                let percent = value.parse::<u32>().ok().filter(|v| *v <= 100);
                first(&mut f.target_ppm, percent.map(|p| p * 10_000), "is not a percentage")
            }
            (Section::Metronome, "trigger") => number(&mut f.trigger_bytes, 1),
            (Section::Metronome, "headRoom") => number(&mut f.headroom_bytes, 1),
            (Section::System, "physicalMemory") => number(&mut f.physical_memory_bytes, 1),
            (Section::System, "numCPUs") => number(&mut f.cpus, 1),
            (Section::System, "architecture") => text(&mut f.architecture),
            (Section::System, "os") => text(&mut f.os),
            (Section::System, "osVersion") => text(&mut f.os_version),
            // The exact values override the old attributes' rounded ones.
            (Section::Own, "beatNs") => exact(&mut f.beat_ns, parse_u64(value)),
            (Section::Own, "windowNs") => exact(&mut f.window_ns, parse_u64(value)),
            (Section::Own, "targetUtilizationPercent") => {
                let mut a = Attrs::default();
                a.push("v", value);
                exact(&mut f.target_ppm, a.percent("v"))
            }
            _ => Set::Other,
        }
    }
}

/// What became of a header's attribute.
enum Set {
    Done,
    /// No typed field has this name here.
    Other,
    /// The field stays as it was.
    Bad(&'static str),
}

/// The first value of a field counts.
fn first<T>(slot: &mut Option<T>, value: Option<T>, bad: &'static str) -> Set {
    match value {
        None => Set::Bad(bad),
        Some(_) if slot.is_some() => Set::Bad("is given again: the first one counts"),
        value => {
            *slot = value;
            Set::Done
        }
    }
}

fn exact<T>(slot: &mut Option<T>, value: Option<T>) -> Set {
    if value.is_none() {
        return Set::Bad("is not a number that fits");
    }
    *slot = value;
    Set::Done
}
