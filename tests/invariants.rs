//! Invariants have names: each is defined once in a design document and cited by the code that relies on it or checks
//! it. And every memory ordering has a comment that names it and its partner.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folders of the workspace that hold crates besides the root.
const CRATES: &[&str] =
    &["alarm", "arraylet", "barrier", "cli", "derive", "live", "scheduler", "tuningfork", "verbosegc"];

/// Folders in which every ordering is explained.
const WITH_ATOMICS: &[&str] = &["src", "barrier/src", "arraylet/src", "alarm/src", "cli/src", "live/src"];

/// How far above its ordering a comment may begin.
const COMMENT_REACH: usize = 12;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files below `folder` with this extension.
fn files(folder: &Path, extension: &str, into: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("a folder that opens can be listed").path();
        if path.is_dir() {
            files(&path, extension, into);
        } else if path.extension().is_some_and(|e| e == extension) {
            into.push(path);
        }
    }
    into.sort();
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The text as words of letters, digits and `_`, with the byte after each.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty())
}

/// The ids in a line: `INV-` and words of capitals joined by hyphens.
fn ids(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    for (at, _) in line.match_indices("INV-") {
        if line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '-') {
            continue;
        }
        let end = line[at..].find(|c: char| !c.is_ascii_uppercase() && c != '-');
        let id = line[at..end.map_or(line.len(), |e| at + e)].trim_end_matches('-');
        if id.len() > "INV-".len() {
            out.push(id.to_owned());
        }
    }
    out
}

/// The id that a list item of a design document defines: `- **INV-X** …`, or with back-ticks for the stars.
fn defined(line: &str) -> Option<String> {
    let item = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "))?;
    let item = item.strip_prefix("**").or_else(|| item.strip_prefix('`'))?;
    if !item.starts_with("INV-") {
        return None;
    }
    ids(item).into_iter().next()
}

/// Places at which ids are defined and cited.
#[derive(Debug, Default)]
struct Register {
    defined: BTreeMap<String, Vec<String>>,
    cited: BTreeMap<String, Vec<String>>,
}

impl Register {
    fn document(&mut self, name: &str, text: &str) {
        for (n, line) in text.lines().enumerate() {
            if let Some(id) = defined(line) {
                self.defined.entry(id).or_default().push(format!("{name}:{}", n + 1));
            }
        }
    }

    fn code(&mut self, name: &str, text: &str) {
        for (n, line) in text.lines().enumerate() {
            for id in ids(line) {
                self.cited.entry(id).or_default().push(format!("{name}:{}", n + 1));
            }
        }
    }

    fn faults(&self) -> Vec<String> {
        let mut out = Vec::new();
        for (id, at) in &self.cited {
            if !self.defined.contains_key(id) {
                out.push(format!("{id} is not defined, but cited at {}", at.join(", ")));
            }
        }
        for (id, at) in &self.defined {
            if at.len() > 1 {
                out.push(format!("{id} is defined more than once: {}", at.join(", ")));
            }
            if !self.cited.contains_key(id) {
                out.push(format!("{id} (defined at {}) is cited nowhere in code", at[0]));
            }
        }
        out
    }
}

#[test]
fn every_invariant_is_defined_once_and_cited() {
    let root = root();
    let (mut documents, mut code) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(&root).expect("the root can be listed") {
        let path = entry.expect("the root can be listed").path();
        if path.extension().is_some_and(|e| e == "md") {
            documents.push(path);
        }
    }
    for name in CRATES {
        let folder = root.join(name);
        assert!(folder.is_dir(), "no folder {name}");
        files(&folder, "md", &mut documents);
        files(&folder, "rs", &mut code);
    }
    for name in ["src", "tests", "benches", "examples"] {
        files(&root.join(name), "rs", &mut code);
    }
    // Ids in this file, and in the one that reads the table of teeth, are examples.
    code.retain(|p| !p.ends_with("tests/invariants.rs") && !p.ends_with("tests/teeth_table.rs"));

    let mut register = Register::default();
    let name = |p: &Path| p.strip_prefix(&root).unwrap_or(p).display().to_string();
    documents.iter().for_each(|p| register.document(&name(p), &read(p)));
    code.iter().for_each(|p| register.code(&name(p), &read(p)));
    assert!(register.defined.len() >= 30, "the documents were not found: {register:#?}");
    let faults = register.faults();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_register_finds_every_fault() {
    let mut r = Register::default();
    r.document(
        "a.md",
        "- **INV-ONE** fine\n- **INV-TWICE** here\nINV-ONE is only mentioned\n* `INV-IDLE`: unused",
    );
    r.document("b.md", "- **INV-TWICE**: and here");
    r.code("c.rs", "// (INV-ONE), INV-TWICE-\nfault(\"INV-FORGED\") xINV-NO INV- INV-x");
    assert_eq!(
        r.faults(),
        [
            "INV-FORGED is not defined, but cited at c.rs:2",
            "INV-IDLE (defined at a.md:4) is cited nowhere in code",
            "INV-TWICE is defined more than once: a.md:2, b.md:1",
        ]
    );
}

/// Code and comment of a line. (No line of this project has `//` inside a string before an ordering.)
fn split(line: &str) -> (&str, &str) {
    line.split_once("//").unwrap_or((line, ""))
}

const ORDERINGS: &[&str] = &["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// The orderings that a line names, each once.
fn orderings(text: &str) -> Vec<&str> {
    let mut out: Vec<_> = words(text).filter(|w| ORDERINGS.contains(w)).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Whether a comment says with what an ordering pairs, or where that is said.
fn names_partner(comment: &str) -> bool {
    let said = |phrases: &[&str]| phrases.iter().any(|p| comment.contains(p));
    said(&["pairs with", "pair with", "paired with", "with the ", "as above", "as in ", "as its ", "see `"])
}

/// The comment that line `i` belongs to: it and the comment lines around it, as one text.
fn whole_comment(lines: &[&str], i: usize) -> String {
    let is_comment = |l: &&str| l.trim_start().starts_with("//");
    let above = lines[..i].iter().rev().take_while(|l| is_comment(l)).count();
    let below = lines[i + 1..].iter().take_while(|l| is_comment(l)).count();
    let (above, below) = if is_comment(&lines[i]) { (above, below) } else { (0, 0) };
    let texts = lines[i - above..=i + below].iter().map(|l| split(l).1.trim());
    texts.collect::<Vec<_>>().join(" ")
}

/// Orderings that no comment names: on the line, or within [`COMMENT_REACH`] lines above in the same function. Each of those
/// in a line (an exchange has two) needs one, and the comment on any but `Relaxed` a partner. A file's trailing test module
/// is not looked at.
fn unexplained(text: &str) -> Vec<(usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let tests = |i: usize| {
        lines[i].starts_with("#[cfg(")
            && words(lines[i]).any(|w| w == "test")
            && lines.get(i + 1).is_some_and(|l| l.starts_with("mod "))
    };
    let end = (0..lines.len()).find(|&i| tests(i)).unwrap_or(lines.len());
    let mut out = Vec::new();
    let mut import = false;
    for (i, line) in lines[..end].iter().enumerate() {
        let (code, _) = split(line);
        import |= matches!(words(code).find(|w| !["pub", "crate"].contains(w)), Some("use"));
        if import {
            import = !code.contains(';');
            continue;
        }
        // The lines whose comments count: up to the one that begins the function.
        let first = i.saturating_sub(COMMENT_REACH);
        let begins = |l: &&str| words(split(l).0).any(|w| w == "fn");
        let first = lines[first..i].iter().rposition(begins).map_or(first, |at| first + at);
        let explains = |ordering: &str| {
            (first..=i).any(|at| {
                words(split(lines[at]).1).any(|w| w == ordering)
                    && (ordering == "Relaxed" || names_partner(&whole_comment(&lines, at)))
            })
        };
        if !orderings(code).into_iter().all(explains) {
            out.push((i + 1, line.trim()));
        }
    }
    out
}

#[test]
fn every_ordering_is_explained() {
    let root = root();
    let mut found = Vec::new();
    let mut sites = 0;
    for folder in WITH_ATOMICS {
        let mut all = Vec::new();
        files(&root.join(folder), "rs", &mut all);
        assert!(!all.is_empty(), "no source in {folder}");
        // Files of a test module.
        let tests = |p: &Path| p.ends_with("tests.rs") || p.iter().any(|c| c == "tests");
        all.retain(|p| !tests(p.strip_prefix(&root).unwrap_or(p)));
        for p in all {
            let text = read(&p);
            sites += text.lines().filter(|l| !orderings(split(l).0).is_empty()).count();
            for (n, line) in unexplained(&text) {
                found.push(format!("{}:{n}: {line}", p.strip_prefix(&root).unwrap_or(&p).display()));
            }
        }
    }
    println!("{sites} lines with an ordering");
    assert!(sites > 100, "the source was not found: {sites} orderings");
    assert!(
        found.is_empty(),
        "{} lines with an ordering that no comment names, or names without a partner:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn an_unexplained_ordering_is_found() {
    let source = "\
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed},
};
fn a() {
    // Relaxed: a hint.
    x.load(Relaxed);
    y.load(Acquire); // Acquire: pairs with b.
    z.swap(1, AcqRel);
}
fn b() {
    x.load(Relaxed);
    // Acquire: it is safer.
    y.load(Acquire);
}
fn c() {
    // Release: published; it pairs
    // with the Acquire in a.
    y.store(1, Release);
    // AcqRel: pairs with itself.
    z.compare_exchange(0, 1, AcqRel, Relaxed);
    // Relaxed, on failure: nothing is read.
    z.compare_exchange(0, 1, AcqRel, Relaxed);
}
#[cfg(test)]
mod tests {
    fn c() {
        x.load(Relaxed);
    }
}
";
    let found: Vec<_> = unexplained(source).into_iter().map(|(n, _)| n).collect();
    assert_eq!(found, [9, 12, 14, 21]);
    let far = format!("fn a() {{\n// Relaxed: far.\n{}x.load(Relaxed);\n}}", "\n".repeat(COMMENT_REACH));
    assert_eq!(unexplained(&far).len(), 1);
    assert_eq!(unexplained(&far.replacen("\n\n", "\n", 1)).len(), 0);
}
