//! The command behind which all checks are: its parts are those that the guide lists, and only they are taken.
#![forbid(unsafe_code)]

use std::process::{Command, Output};

/// What `scripts/prove` says; nothing where there is no shell for it.
fn prove(args: &[&str]) -> Option<Output> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/prove");
    let out = Command::new("bash").arg(script).args(args).output();
    if out.is_err() {
        println!("skipped: there is no bash");
    }
    out.ok()
}

#[test]
fn the_guide_lists_the_parts() {
    let Some(out) = prove(&["list"]) else { return };
    assert!(out.status.success());
    let list = String::from_utf8(out.stdout).unwrap();
    assert!(list.starts_with("part ") && list.lines().count() > 10, "{list}");
    let guide = include_str!("../guide/verification/README.md");
    assert!(
        guide.contains(&format!("```text\n{list}```")),
        "scripts/prove list prints another table:\n{list}"
    );
}

#[test]
fn names_are_no_patterns() {
    for name in ["f.*", "forma", "ormat", ".*", ""] {
        let Some(out) = prove(&[name]) else { return };
        let error = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{name}: {error}");
        assert!(error.contains(&format!("no part \"{name}\"")), "{error}");
    }
}
