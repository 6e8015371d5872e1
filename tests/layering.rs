//! Who may depend on whom, compared with what Cargo says.
//!
//! Edges point down: the command line tool uses the library, the library uses the leaves, the leaves know nobody. A
//! new edge is a change of architecture: change the table below and ARCHITECTURE.md together.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Normal and build dependencies within the workspace: (from, to).
const EDGES: &[(&str, &str)] = &[
    ("metronome-analysis", "metronome-scheduler"),
    ("metronome-analysis", "metronome-verbosegc"),
    ("metronome-cli", "metronome-analysis"),
    ("metronome-cli", "metronome-gc"),
    ("metronome-cli", "metronome-live"),
    ("metronome-cli", "metronome-verbosegc"),
    ("metronome-gc", "metronome-alarm"),
    ("metronome-gc", "metronome-arraylet"),
    ("metronome-gc", "metronome-barrier"),
    ("metronome-gc", "metronome-derive"),
    ("metronome-gc", "metronome-scheduler"),
    ("metronome-gc", "metronome-verbosegc"),
    ("metronome-live", "metronome-gc"),
    ("metronome-live", "metronome-tuningfork"),
    // Its opening of compressed files.
    ("metronome-live", "metronome-verbosegc"),
];

/// Dependencies within the workspace of tests, examples and benches only.
const DEV_EDGES: &[(&str, &str)] = &[
    // Themselves, with the feature `hooks`.
    ("metronome-arraylet", "metronome-arraylet"),
    ("metronome-gc", "metronome-gc"),
    // The bodies of the fuzz targets.
    ("metronome-gc", "metronome-analysis"),
    ("metronome-gc", "metronome-tuningfork"),
];

/// Crates without any `unsafe`.
const NO_UNSAFE: &[&str] = &[
    "metronome-analysis",
    "metronome-barrier",
    "metronome-cli",
    "metronome-derive",
    "metronome-live",
    "metronome-scheduler",
    "metronome-tuningfork",
    "metronome-verbosegc",
];

type Edges = BTreeSet<(String, String)>;

struct Package {
    name: String,
    folder: PathBuf,
}

fn table(edges: &[(&str, &str)]) -> Edges {
    edges.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect()
}

/// What `cargo metadata` says of the workspace.
fn metadata() -> Value {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("cargo metadata is JSON")
}

fn text<'a>(v: &'a Value, key: &str) -> &'a str {
    v[key].as_str().unwrap_or_else(|| panic!("cargo metadata has no `{key}` in {v}"))
}

fn packages(metadata: &Value) -> Vec<Package> {
    let packages = metadata["packages"].as_array().expect("a list of packages");
    packages
        .iter()
        .map(|p| Package {
            name: text(p, "name").to_owned(),
            folder: Path::new(text(p, "manifest_path"))
                .parent()
                .expect("a manifest is in a folder")
                .to_owned(),
        })
        .collect()
}

/// Edges within the workspace: (normal and build, dev).
fn edges(metadata: &Value) -> (Edges, Edges) {
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let names: BTreeSet<&str> = packages.iter().map(|p| text(p, "name")).collect();
    let (mut normal, mut dev) = (Edges::new(), Edges::new());
    for p in packages {
        for d in p["dependencies"].as_array().expect("a list of dependencies") {
            if names.contains(text(d, "name")) {
                let set = if d["kind"] == "dev" { &mut dev } else { &mut normal };
                set.insert((text(p, "name").to_owned(), text(d, "name").to_owned()));
            }
        }
    }
    (normal, dev)
}

/// Differences between the edges that are and those that the table allows, in words.
fn differences(found: &Edges, allowed: &Edges) -> Vec<String> {
    let new = found.difference(allowed).map(|(a, b)| format!("{a} -> {b} is not in the table"));
    let gone = allowed.difference(found).map(|(a, b)| format!("{a} -> {b} is in the table only"));
    new.chain(gone).collect()
}

/// The file at a package's head.
fn head(p: &Package) -> String {
    let lib = p.folder.join("src/lib.rs");
    let file = if lib.exists() { lib } else { p.folder.join("src/main.rs") };
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

#[test]
fn the_edges_are_those_of_the_table() {
    let (normal, dev) = edges(&metadata());
    assert_eq!(differences(&normal, &table(EDGES)), [""; 0]);
    assert_eq!(differences(&dev, &table(DEV_EDGES)), [""; 0]);
}

#[test]
fn a_forged_edge_is_caught() {
    let mut forged = metadata();
    let leaf = forged["packages"]
        .as_array_mut()
        .and_then(|all| all.iter_mut().find(|p| p["name"] == "metronome-scheduler"))
        .expect("the scheduler is a package");
    let list = leaf["dependencies"].as_array_mut().expect("a list of dependencies");
    list.push(serde_json::json!({ "name": "metronome-alarm", "kind": "build" }));
    list.push(serde_json::json!({ "name": "metronome-barrier", "kind": "dev" }));
    let (normal, dev) = edges(&forged);
    assert_eq!(
        differences(&normal, &table(EDGES)),
        ["metronome-scheduler -> metronome-alarm is not in the table"]
    );
    assert_eq!(
        differences(&dev, &table(DEV_EDGES)),
        ["metronome-scheduler -> metronome-barrier is not in the table"]
    );
    // And an edge that is gone.
    let mut fewer = table(EDGES);
    fewer.retain(|e| e.1 != "metronome-alarm");
    assert_eq!(differences(&fewer, &table(EDGES)), ["metronome-gc -> metronome-alarm is in the table only"]);
}

#[test]
fn every_crate_states_its_architecture_invariant() {
    let silent: Vec<_> = packages(&metadata())
        .into_iter()
        .filter(|p| !head(p).lines().any(|l| l.starts_with("//! **Architecture invariant:** ")))
        .map(|p| p.name)
        .collect();
    assert_eq!(silent, [""; 0], "crates whose head has no line `//! **Architecture invariant:** …`");
}

#[test]
fn crates_without_unsafe_forbid_it() {
    let packages = packages(&metadata());
    for &name in NO_UNSAFE {
        let p = packages.iter().find(|p| p.name == name).unwrap_or_else(|| panic!("no package {name}"));
        let forbids = head(p).lines().any(|l| l == "#![forbid(unsafe_code)]");
        assert!(forbids, "{name} does not forbid unsafe code");
    }
}
