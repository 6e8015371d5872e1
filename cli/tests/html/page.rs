//! Pages for tests: made by the command, read by a parser, and what every one of them must be.

use crate::common::output;
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

pub(crate) const OPENJ9: &str =
    "<verbosegc xmlns=\"http://www.ibm.com/j9/verbosegc\" version=\"metronome-gc 1\">\n";

/// Only heartbeats: averages, and no curve of windows.
pub(crate) const HEARTBEATS: &str = r#"<?xml version="1.0" ?><verbosegc version="x-Metronome">
<gc type="heartbeat" id="1" timestamp="Tue Mar 13 15:17:46 2007" intervalms="1003.413"> <summary quantumcount="477">
 <quantum minms="0.078" meanms="0.503" maxms="1.909" />
 <heap minfree="262144000" meanfree="300000000" maxfree="433242112" /> <gcthreadpriority max="11" min="11" /> </summary></gc>
<gc type="heartbeat" id="2" timestamp="Tue Mar 13 15:17:47 2007" intervalms="677.316"> <summary quantumcount="363">
 <quantum minms="0.024" meanms="0.474" maxms="1.473" />
 <heap minfree="261767168" meanfree="300000000" maxfree="433242112" /> <gcthreadpriority max="11" min="11" /> </summary></gc>
</verbosegc>
"#;

/// The limit of a page, in bytes.
const PAGE_MAX: usize = 2_000_000;

/// The page of some logs.
pub(crate) fn page(logs: &[&str]) -> String {
    let out = output(&[&["report"], logs, &["--html", "-"]].concat());
    assert!(out.status.success(), "{logs:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

pub(crate) fn json(logs: &[&str]) -> Value {
    let out = output(&[&["report"], logs, &["--json", "-"]].concat());
    serde_json::from_slice(&out.stdout).unwrap()
}

pub(crate) fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn elements<'a, 'i>(
    doc: &'a Document<'i>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'i>> {
    doc.descendants().filter(move |n| n.tag_name().name() == name)
}

pub(crate) fn embedded(doc: &Document<'_>) -> Value {
    let data = elements(doc, "script").find(|n| n.attribute("id") == Some("data")).unwrap();
    serde_json::from_str(data.text().unwrap()).unwrap()
}

pub(crate) fn all_text(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|n| n.text()).collect()
}

pub(crate) fn by_id<'a, 'i>(doc: &'a Document<'i>, id: &str) -> Option<Node<'a, 'i>> {
    doc.descendants().find(|n| n.attribute("id") == Some(id))
}

/// What every page must be: self-contained, with pictures whose names are unique and whose numbers are numbers.
pub(crate) fn check_frame(page: &str) {
    assert!(page.len() < PAGE_MAX, "{} bytes", page.len());
    let doc = parse(page);
    let count = |name| elements(&doc, name).count();
    assert_eq!((count("script"), count("style"), count("title")), (2, 1, 1));
    // An HTML parser ends a script at the first of these, whatever stands around it.
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
    assert!(!page.contains("<!--"), "a comment would swallow what follows");
    let mut ids = BTreeSet::new();
    for node in doc.descendants().filter(Node::is_element) {
        for a in node.attributes() {
            assert!(!a.name().starts_with("on"), "{}", a.name());
            assert!(!matches!(a.name(), "src" | "href" | "data" | "action"), "{}={}", a.name(), a.value());
            assert!(!a.value().contains("url(") || a.value().starts_with("url(#"), "{}", a.value());
            if a.name() == "id" {
                assert!(ids.insert(a.value().to_owned()), "twice {}", a.value());
            }
        }
    }
    for svg in elements(&doc, "svg") {
        for shape in svg.descendants().filter(Node::is_element) {
            for a in shape.attributes() {
                assert!(!a.value().contains("NaN") && !a.value().contains("inf"), "{}", a.value());
                if matches!(a.name(), "fill" | "stroke") {
                    let known = a.value() == "none" || a.value().starts_with("var(--");
                    assert!(known, "a colour that no theme has: {}", a.value());
                }
                if let (Some(id), "clip-path") =
                    (a.value().strip_prefix("url(#").and_then(|v| v.strip_suffix(')')), a.name())
                {
                    assert!(ids.contains(id), "{id}");
                }
            }
        }
    }
}

/// Reads a number as a person does: digits in groups, and a unit.
fn read_number(shown: &str, unit: &str) -> (f64, f64) {
    let (number, rest) = shown.split_once(' ').unwrap_or((shown, ""));
    let factor = match (unit, rest.trim_end_matches("/s")) {
        ("ms", "ns") => 1e-6,
        ("ms", "µs") => 1e-3,
        ("ms" | "count", "ms" | "") | ("bytes" | "bytes/s", "B") | ("percent", "%" | "points") => 1.0,
        ("ms", "s") => 1e3,
        ("bytes" | "bytes/s", "KiB") => 1024.0,
        ("bytes" | "bytes/s", "MiB") => 1024.0 * 1024.0,
        ("bytes" | "bytes/s", "GiB") => 1024.0 * 1024.0 * 1024.0,
        ("bytes" | "bytes/s", "TiB") => 1024.0_f64.powi(4),
        other => panic!("{shown}: {other:?}"),
    };
    let digits = number.replace(',', "");
    let places = digits.split_once('.').map_or(0, |(_, d)| d.len() as i32);
    (digits.parse::<f64>().unwrap() * factor, 0.501 * 10_f64.powi(-places) * factor)
}

/// Every number shown is that of the page's own JSON and that of `--json`; the series have the figures' extremes.
pub(crate) fn check_numbers(logs: &[&str]) -> usize {
    let page = page(logs);
    check_frame(&page);
    let doc = parse(&page);
    let (own, full) = (embedded(&doc), json(logs));
    let mut n = 0;
    for data in elements(&doc, "data") {
        let path = data.attribute("data-path").unwrap();
        let expected = full.pointer(path).unwrap_or_else(|| panic!("{path} is not in --json"));
        assert_eq!(own.pointer(path), Some(expected), "{path}");
        let value: Value = serde_json::from_str(data.attribute("value").unwrap()).unwrap();
        assert_eq!(&value, expected, "{path}");
        let shown = all_text(data);
        let (got, half) = read_number(&shown, data.attribute("data-unit").unwrap());
        let value = value.as_f64().unwrap();
        // "missed by 3 points" has no sign.
        let value = if shown.ends_with("points") { value.abs() } else { value };
        assert!((got - value).abs() <= half, "{path}: {shown} for {value}");
        n += 1;
    }
    for s in own["subjects"].as_array().unwrap() {
        let run =
            &full["logs"][s["log"].as_u64().unwrap() as usize]["runs"][s["run"].as_u64().unwrap() as usize];
        let list =
            |name: &str| s["series"][name].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        let most = |v: Vec<f64>| v.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let least = |v: Vec<f64>| v.into_iter().fold(f64::INFINITY, f64::min);
        if run["clock_errors"] == 0 {
            for (name, figure) in [("quantum_max_ms", "quantum_ms"), ("stop_max_ms", "stop_ms")] {
                let expected = run[figure]["max"].as_f64().filter(|ms| *ms > 0.0);
                assert_eq!(most(list(name)), expected.unwrap_or(f64::NEG_INFINITY), "{name}");
            }
        }
        if let Some(free) = run["free_bytes"]["min"].as_f64() {
            assert!(least(list("free_min")) <= free, "the least free heap is in the picture");
        }
    }
    n
}

/// A folder of logs: name and path.
pub(crate) fn logs_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "xml"));
    let mut paths: Vec<_> = paths.map(|p| p.to_str().unwrap().to_owned()).collect();
    paths.sort();
    paths
}
