//! The root and the `initialized` element.

use super::facts::Format;
use crate::model::{Initialized, Section};
use crate::time::LogTime;
use crate::xml::Xml;

pub(super) const POLICY: &str = "-Xgcpolicy:metronome";
const NAMESPACE: &str = "http://www.ibm.com/j9/verbosegc";

pub(super) fn root(x: &mut Xml, format: Format, version: &str) {
    x.text.push_str("<?xml version=\"1.0\" ?>\n\n");
    x.open(0, "verbosegc");
    match format {
        Format::V2007 if !version.ends_with("-Metronome") => {
            x.attr("version", &format!("{version}-Metronome")).body();
        }
        Format::V2007 => x.attr("version", version).body(),
        Format::OpenJ9 => x.attr("xmlns", NAMESPACE).attr("version", version).body(),
    }
    x.text.push('\n');
}

/// The header's attributes in the reference's order; `id` in the OpenJ9 form only.
pub(super) fn initialized(x: &mut Xml, format: Format, id: Option<u64>, time: LogTime, i: &Initialized) {
    x.elements += 1;
    x.open(0, "initialized");
    if let Some(id) = id {
        x.num("id", id);
    }
    x.time(format, "timestamp", time).body();
    x.attribute(1, "gcPolicy", i.policy.as_deref().unwrap_or(POLICY));
    hex(x, 1, "maxHeapSize", i.heap_max_bytes);
    hex(x, 1, "initialHeapSize", i.heap_initial_bytes);
    decimal(x, 1, "gcthreads", i.gc_threads);
    rest(x, 1, i, Section::Main);
    section(x, i, Section::Region, |x| {
        decimal(x, 2, "regionSize", i.region_bytes);
        decimal(x, 2, "regionCount", i.region_count);
        decimal(x, 2, "arrayletLeafSize", i.leaf_bytes);
    });
    section(x, i, Section::Metronome, |x| {
        decimal(x, 2, "beatsPerMeasure", i.beat_ns.map(|ns| ns / 1000));
        decimal(x, 2, "timeInterval", i.window_ns.map(|ns| ns / 1000));
        decimal(x, 2, "targetUtilization", i.target_ppm.map(|ppm| u64::from(ppm / 10_000)));
        hex(x, 2, "trigger", i.trigger_bytes);
        hex(x, 2, "headRoom", i.headroom_bytes);
    });
    section(x, i, Section::System, |x| {
        decimal(x, 2, "physicalMemory", i.physical_memory_bytes);
        decimal(x, 2, "numCPUs", i.cpus);
        text(x, 2, "architecture", i.architecture.as_deref());
        text(x, 2, "os", i.os.as_deref());
        text(x, 2, "osVersion", i.os_version.as_deref());
    });
    x.open(1, "vmargs").body();
    for (name, value) in &i.vmargs {
        x.open(2, "vmarg").attr("name", name);
        if let Some(value) = value {
            x.attr("value", value);
        }
        x.empty();
    }
    x.close(1, "vmargs");
    section(x, i, Section::Own, |x| {
        // The old attributes hold whole microseconds and whole percents only.
        decimal(x, 2, "beatNs", i.beat_ns);
        decimal(x, 2, "windowNs", i.window_ns);
        if let Some(ppm) = i.target_ppm {
            x.attribute(2, "targetUtilizationPercent", format_args!("{}.{:04}", ppm / 10_000, ppm % 10_000));
        }
    });
    x.close(0, "initialized");
    x.text.push('\n');
}

fn section(x: &mut Xml, i: &Initialized, section: Section, known: impl FnOnce(&mut Xml)) {
    let Some(element) = section.element() else { return };
    x.open(1, element).body();
    known(x);
    rest(x, 2, i, section);
    x.close(1, element);
}

fn rest(x: &mut Xml, depth: usize, i: &Initialized, section: Section) {
    for a in i.attributes.iter().filter(|a| a.section == section) {
        x.attribute(depth, &a.name, &a.value);
    }
}

fn hex(x: &mut Xml, depth: usize, name: &str, value: Option<u64>) {
    if let Some(value) = value {
        x.attribute(depth, name, format_args!("{value:#x}"));
    }
}

fn decimal(x: &mut Xml, depth: usize, name: &str, value: Option<u64>) {
    if let Some(value) = value {
        x.attribute(depth, name, value);
    }
}

fn text(x: &mut Xml, depth: usize, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        x.attribute(depth, name, value);
    }
}
