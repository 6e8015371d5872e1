//! Every piece of unsafe code says why it is sound, and their number rises only by a change of the table in
//! `guide/verification/sanitizers.md`.
//!
//! Counted are `unsafe` blocks, functions, implementations, traits and external blocks of the crates' sources, their test
//! modules included. (Clippy's `undocumented_unsafe_blocks` knows blocks and implementations only, and is not asked about
//! code behind a `cfg` that is off.)

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folders with sources, as in the table.
const SOURCES: &[&str] = &[
    "src",
    "alarm/src",
    "arraylet/src",
    "barrier/src",
    "cli/src",
    "derive/src",
    "live/src",
    "scheduler/src",
    "tuningfork/src",
    "verbosegc/src",
];

/// Where the table is.
const TABLE: &str = "guide/verification/sanitizers.md";

/// How far above the code its reason may begin.
const REACH: usize = 14;

/// How far above a function its section `# Safety` may begin.
const DOC_REACH: usize = 40;

/// How the argument for code that a macro writes begins, and how far above it.
const WRITTEN: &str = "SAFETY (of the written code):";
const WRITTEN_REACH: usize = 24;

/// A kind of unsafe code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A block, an implementation or an external block: `SAFETY:` above it or at its line's end.
    Argument,
    /// A function or trait: `# Safety` in its documentation, or, where it implements a trait's, `SAFETY:` above.
    Contract,
}

/// The line without comment and string literals.
fn code(line: &str) -> String {
    let (mut out, mut text, mut escaped) = (String::new(), false, false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            _ if escaped => escaped = false,
            '\\' if text => escaped = true,
            // Not the character literal of a quotation mark.
            '"' if !out.ends_with('\'') => text = !text,
            '/' if !text && chars.peek() == Some(&'/') => break,
            _ if !text => out.push(c),
            _ => {}
        }
    }
    out
}

/// The kinds of unsafe code that begin in a line.
fn kinds(line: &str) -> Vec<Kind> {
    let code = code(line);
    let mut out = Vec::new();
    for (at, _) in code.match_indices("unsafe") {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if code[..at].ends_with(word) {
            continue;
        }
        let rest = &code[at + "unsafe".len()..];
        if rest.starts_with(word) {
            continue;
        }
        let rest = rest.trim_start();
        // A type, `unsafe fn(…)`, is no code.
        let is_type = |rest: &str| rest.strip_prefix("fn").is_some_and(|r| r.trim_start().starts_with('('));
        if rest.starts_with('{') || rest.starts_with("impl") {
            out.push(Kind::Argument);
        } else if let Some(rest) = rest.strip_prefix("extern") {
            // `unsafe extern { … }` (a string after `extern` is gone), else `unsafe extern fn …`.
            match rest.trim_start() {
                rest if rest.starts_with('{') => out.push(Kind::Argument),
                rest if rest.starts_with("fn") && !is_type(rest) => out.push(Kind::Contract),
                _ => {}
            }
        } else if (rest.starts_with("fn ") && !is_type(rest)) || rest.starts_with("trait") {
            out.push(Kind::Contract);
        }
    }
    out
}

/// Number of pieces of unsafe code, and the lines of those without a reason.
fn look(text: &str) -> (usize, Vec<usize>) {
    let lines: Vec<&str> = text.lines().collect();
    let (mut count, mut bare) = (0, Vec::new());
    for (i, line) in lines.iter().enumerate() {
        for kind in kinds(line) {
            count += 1;
            let within = |reach: usize, text: &str| {
                lines[i.saturating_sub(reach)..=i].iter().any(|l| l.contains("//") && l.contains(text))
            };
            let told = match kind {
                // Code that a macro writes has one argument for all of it.
                Kind::Argument => within(REACH, "SAFETY:") || within(WRITTEN_REACH, WRITTEN),
                Kind::Contract => {
                    documented(&lines[..i], "# Safety")
                        || within(REACH, "SAFETY:")
                        || within(WRITTEN_REACH, WRITTEN)
                }
            };
            if !told {
                bare.push(i + 1);
            }
        }
    }
    (count, bare)
}

/// Whether the documentation that ends above contains `text`.
fn documented(above: &[&str], text: &str) -> bool {
    above
        .iter()
        .rev()
        .take(DOC_REACH)
        .map(|l| l.trim_start())
        // Attributes may have several lines.
        .take_while(|l| !l.is_empty() && !l.ends_with(['}', ';']))
        .any(|l| l.contains(text))
}

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("a folder that opens can be listed").path();
        if path.is_dir() {
            files(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
    into.sort();
}

/// The table's rows `` | `folder` | number | ``.
fn table(text: &str) -> BTreeMap<String, usize> {
    text.lines()
        .filter_map(|l| {
            let mut cells = l.strip_prefix("| `")?.split('|');
            let folder = cells.next()?.trim().strip_suffix('`')?;
            Some((folder.to_owned(), cells.next()?.trim().parse().ok()?))
        })
        .collect()
}

/// What is said of folders whose count differs from the table's.
fn differences(counted: &BTreeMap<String, usize>, table: &BTreeMap<String, usize>) -> Vec<String> {
    let mut out = Vec::new();
    for (folder, n) in counted {
        match table.get(folder) {
            Some(m) if m == n => {}
            Some(m) => {
                out.push(format!("{folder}: {n} pieces of unsafe code, the table in {TABLE} says {m}"))
            }
            None => out.push(format!("{folder}: {n} pieces of unsafe code, but no row in {TABLE}")),
        }
    }
    out
}

#[test]
fn unsafe_code_is_explained_and_counted() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let (mut counted, mut bare) = (BTreeMap::new(), Vec::new());
    for folder in SOURCES {
        let mut all = Vec::new();
        files(&root.join(folder), &mut all);
        let mut sum = 0;
        for path in all {
            let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let (n, without) = look(&text);
            sum += n;
            let name = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
            bare.extend(without.iter().map(|line| format!("{name}:{line}")));
        }
        println!("{folder:<16} {sum}");
        counted.insert((*folder).to_owned(), sum);
    }
    assert!(counted.values().sum::<usize>() > 100, "the sources were not found: {counted:?}");
    assert!(bare.is_empty(), "unsafe code without SAFETY or # Safety:\n{}", bare.join("\n"));
    let text = std::fs::read_to_string(root.join(TABLE)).unwrap_or_else(|e| panic!("{TABLE}: {e}"));
    let differ = differences(&counted, &table(&text));
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn unexplained_unsafe_code_is_found() {
    let source = "\
// unsafe { in a comment }
let s = \"unsafe { in a text }\";
let f: unsafe fn(*mut u8) = g;
unsafe { one() };
// SAFETY: fine.
unsafe { two() };
";
    assert_eq!(look(source), (2, vec![4]));
    let far = format!("// SAFETY: far.\n{}unsafe impl Send for X {{}}", "\n".repeat(REACH));
    assert_eq!(look(&far), (1, vec![REACH + 2]));
    let source = "\
/// Documented.
///
/// # Safety
/// Never.
#[inline]
pub unsafe fn a() {}
/// Documented.
pub(crate) unsafe fn b() {}
unsafe extern \"C\" {}
pub unsafe extern \"C\" fn c() {}
unsafe trait T {}
#![deny(unsafe_code)]
";
    assert_eq!(look(source), (5, vec![8, 9, 10, 11]));
}

#[test]
fn a_count_that_differs_is_found() {
    let counted = BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1), ("c".to_owned(), 3)]);
    let table = table("| folder | count |\n|---|---|\n| `a` | 2 |\n| `b` | 4 |\n");
    let found = differences(&counted, &table);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("b: 1 ") && found[1].starts_with("c: 3 "), "{found:?}");
}
