//! The page's script, in a Chromium without a display where there is one.

use crate::common::{Scratch, browser};
use crate::page::{embedded, page, parse};
use roxmltree::Document;
use serde_json::Value;
use std::path::Path;

/// The same with all numbers of one kind: a script has no other.
fn plain(value: Value) -> Value {
    match value {
        Value::Number(n) => n.as_f64().into(),
        Value::Array(all) => all.into_iter().map(plain).collect(),
        Value::Object(all) => all.into_iter().map(|(k, v)| (k, plain(v))).collect(),
        other => other,
    }
}

/// What a reader does to the page, as events, and what becomes of it; put before the page's end.
const ACTIONS: &str = r##"<script>
window.onload = async () => {
  const told = { errors };
  const texts = [];
  URL.createObjectURL = (blob) => { texts.push(blob.text()); return "#"; };
  const $ = (s) => document.querySelector(s);
  const svg = $("#p-heap svg");
  const key = (k) => svg.dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true }));
  const count = () => $("#count").textContent;
  told.all = count();
  key("+");
  told.zoomed = $("#p-utilization .plotted").getAttribute("transform");
  told.marks = $("#p-utilization .x-axis").textContent;
  key("0");
  told.again = [$("#p-utilization .plotted").getAttribute("transform"), count()];
  $("#kind").value = "cycle";
  $("#kind").dispatchEvent(new Event("change"));
  told.cycles = count();
  $("#filter").value = "no such words";
  $("#filter").dispatchEvent(new Event("input"));
  told.none = [count(), $("#event-table tbody").children.length];
  $("#filter").value = "";
  $("#filter").dispatchEvent(new Event("input"));
  for (const b of ["[data-export=json]", "[data-export=csv]", "[data-export=events]", "#p-mmu [data-save=svg]"]) $(b).click();
  const box = svg.getBoundingClientRect();
  svg.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width / 2, clientY: box.top + 20 }));
  told.reading = $("#p-heap .reading").textContent;
  told.files = await Promise.all(texts);
  const out = document.createElement("pre");
  out.id = "told";
  out.textContent = JSON.stringify(told);
  document.body.append(out);
};
</script>"##;

/// Where there is a Chromium: the script zooms, filters and exports what the page's JSON holds.
#[test]
fn the_script_zooms_filters_and_exports() {
    let dir = Scratch::new("script");
    let sample =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../verbosegc-samples/trees-synchronous-openj9.xml");
    let page = page(&[sample.to_str().unwrap()]);
    let data = embedded(&parse(&page));
    let Some(told) = browser::told(&dir, &page, ACTIONS) else { return };
    let told: Value = serde_json::from_str(&told).unwrap();
    let events = data["subjects"][0]["events"].as_array().unwrap();
    let cycles = events.iter().filter(|e| e[2] == "cycle").count();
    let n = events.len();
    let begins = |v: &Value, words: String| assert!(v.as_str().unwrap().starts_with(&words), "{v} {words}");
    assert_eq!(told["errors"], serde_json::json!([]));
    begins(&told["all"], format!("{n} of {n}"));
    assert!(told["zoomed"].as_str().unwrap().contains("scale(2 1)"), "{}", told["zoomed"]);
    assert!(told["marks"].as_str().unwrap().contains("600 ms"), "finer marks: {}", told["marks"]);
    assert_eq!(told["again"][0], Value::Null);
    begins(&told["again"][1], format!("{n} of {n}"));
    begins(&told["cycles"], format!("{cycles} of {n}"));
    assert_eq!(told["none"], serde_json::json!([format!("0 of {n}"), 0]));
    let reading = told["reading"].as_str().unwrap();
    assert!(reading.contains("least free") && reading.contains("iB"), "{reading}");
    let file = |i: usize| told["files"][i].as_str().unwrap();
    assert_eq!(plain(serde_json::from_str(file(0)).unwrap()), plain(data.clone()));
    let series = data["subjects"][0]["series"]["at_ms"].as_array().unwrap().len();
    assert_eq!(file(1).lines().count(), series + 1);
    assert_eq!(file(2).lines().count(), cycles + 1);
    let picture = Document::parse(file(3)).unwrap();
    assert!(picture.root_element().has_tag_name(("http://www.w3.org/2000/svg", "svg")));
    assert!(!file(3).contains("var("), "a picture by itself has its own colours");
}
