//! Every protection has a check, and every check is seen to bite: the table of `guide/verification/teeth.md` has one
//! row for each invariant of the design documents and each fault that tests can switch on, and each row names tests
//! that exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Folders of the workspace that hold crates besides the root.
const CRATES: &[&str] = &["alarm", "arraylet", "barrier", "cli", "derive", "scheduler", "verbosegc"];

const TABLE: &str = "guide/verification/teeth.md";
const FAULTS: &str = "src/hooks.rs";

/// How the third column begins where no test can remove a protection.
const BY_CONSTRUCTION: &str = "By construction: ";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The id that a list item of a design document defines: `- **INV-X** …`, or with back-ticks for the stars.
fn invariant(line: &str) -> Option<&str> {
    let item = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "))?;
    let item = item.strip_prefix("**").or_else(|| item.strip_prefix('`'))?;
    let end = item.find(|c: char| !c.is_ascii_uppercase() && c != '-')?;
    item[..end].starts_with("INV-").then_some(&item[..end])
}

/// The variants of `enum Fault` in this source, as rows name them.
fn faults(source: &str) -> Vec<String> {
    let mut lines = source.lines().map(str::trim).skip_while(|l| !l.ends_with("enum Fault {"));
    lines.next();
    let variants = lines.take_while(|l| *l != "}");
    let names = variants.filter(|l| l.starts_with(|c: char| c.is_ascii_uppercase()));
    names.map(|l| format!("Fault::{}", l.split([' ', ',', '=']).next().unwrap_or(l))).collect()
}

/// What is between back-ticks, in order.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// One row: what is protected, and the tests that are named, as (file, function).
#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    line: usize,
    of: &'a str,
    checker: &'a str,
    by_construction: bool,
    tests: Vec<(&'a str, &'a str)>,
}

/// The rows of a page whose first cell is an invariant or a fault.
fn rows(page: &str) -> Vec<Row<'_>> {
    let mut out = Vec::new();
    for (n, line) in page.lines().enumerate() {
        let Some(cells) = line.strip_prefix('|') else { continue };
        let cells: Vec<&str> = cells.trim_end().trim_end_matches('|').split('|').map(str::trim).collect();
        let Some(of) = quoted(cells[0]).next() else { continue };
        let last = cells.get(2).copied().unwrap_or("");
        out.push(Row {
            line: n + 1,
            of,
            checker: cells.get(1).copied().unwrap_or(""),
            by_construction: last.starts_with(BY_CONSTRUCTION),
            tests: quoted(last)
                .filter_map(|q| q.rsplit_once("::"))
                .filter(|(f, _)| f.contains('/'))
                .collect(),
        });
    }
    out
}

/// Whether a source has a function of this name.
fn has_function(source: &str, name: &str) -> bool {
    source.match_indices("fn ").any(|(at, found)| {
        source[at + found.len()..].strip_prefix(name).is_some_and(|rest| rest.starts_with(['(', '<']))
    })
}

/// What is wrong with a page, given what has to have a row, and sources by name.
fn wrong(page: &str, wanted: &BTreeSet<String>, source: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let (rows, mut out) = (rows(page), Vec::new());
    for id in wanted {
        match rows.iter().filter(|r| r.of == id).count() {
            0 => out.push(format!("{id} has no row")),
            1 => {}
            n => out.push(format!("{id} has {n} rows")),
        }
    }
    for row in &rows {
        let (at, of) = (row.line, row.of);
        if !wanted.contains(of) {
            out.push(format!("line {at}: {of} is neither an invariant nor a fault"));
        }
        if row.checker.is_empty() {
            out.push(format!("line {at}: {of} does not say what checks it"));
        }
        if row.tests.is_empty() && !row.by_construction {
            out.push(format!("line {at}: {of} names no test"));
        }
        for (file, name) in &row.tests {
            match source(file) {
                None => out.push(format!("line {at}: there is no file {file}")),
                Some(text) if !has_function(&text, name) => {
                    out.push(format!("line {at}: {file} has no function {name}"));
                }
                Some(_) => {}
            }
        }
    }
    out
}

#[test]
fn every_protection_has_a_row_and_every_row_a_test() {
    let root = root();
    let mut documents = vec![root.join("ARCHITECTURE.md")];
    documents.extend(CRATES.iter().map(|c| root.join(c).join("DESIGN.md")).filter(|p| p.is_file()));
    let mut wanted = BTreeSet::new();
    for document in &documents {
        wanted.extend(read(document).lines().filter_map(invariant).map(str::to_owned));
    }
    let invariants = wanted.len();
    assert!(invariants >= 50, "the documents were not read: {wanted:?}");
    wanted.extend(faults(&read(&root.join(FAULTS))));
    assert!(wanted.len() - invariants >= 20, "the faults were not read: {wanted:?}");
    let found = wrong(&read(&root.join(TABLE)), &wanted, |f| std::fs::read_to_string(root.join(f)).ok());
    assert!(found.is_empty(), "{TABLE}:\n{}", found.join("\n"));
}

/// A fault that no test switches on is a check that was never seen to bite.
#[test]
fn every_fault_is_used_by_the_tests_of_its_row() {
    let root = root();
    let page = read(&root.join(TABLE));
    for row in rows(&page).iter().filter(|r| r.of.starts_with("Fault::")) {
        let used = row.tests.iter().any(|(f, _)| read(&root.join(f)).contains(row.of));
        assert!(used, "{TABLE}:{}: none of the files named uses {}", row.line, row.of);
    }
}

#[test]
fn what_is_wrong_with_a_table_is_found() {
    let wanted = ["INV-A", "INV-B", "INV-C", "INV-D", "Fault::E"].map(str::to_owned).into();
    let page = "\
| Protection | Check | Test |
|---|---|---|
| `INV-A` | an oracle | `x/y.rs::there`, `x/y.rs::gone` |
| `INV-A` | again | By construction: one thread |
| `INV-B` | it | `no/file.rs::there` |
| `INV-C` | | words only, with `code` |
| `Fault::F` | it | `x/y.rs::generic` |";
    let source =
        |f: &str| (f == "x/y.rs").then(|| "fn there() {}\nfn generic<T>() {}\nfn gone_by() {}".to_owned());
    assert_eq!(
        wrong(page, &wanted, source),
        [
            "Fault::E has no row",
            "INV-A has 2 rows",
            "INV-D has no row",
            "line 3: x/y.rs has no function gone",
            "line 5: there is no file no/file.rs",
            "line 6: INV-C does not say what checks it",
            "line 6: INV-C names no test",
            "line 7: Fault::F is neither an invariant nor a fault",
        ]
    );
}

#[test]
fn invariants_and_faults_are_read_as_they_are_written() {
    assert_eq!(invariant("- **INV-A-B** text (INV-C)"), Some("INV-A-B"));
    assert_eq!(invariant("* `INV-A`: text"), Some("INV-A"));
    assert_eq!(invariant("- [ ] INV-A"), None);
    assert_eq!(invariant("- **INVARIANT** text"), None);
    let source = "enum Other {\n  X,\n}\npub enum Fault {\n  /// Words.\n  A = 1,\n  #[doc(hidden)]\n  Bc = 1 << 3,\n  D,\n}\nenum More {\n  E,\n}";
    assert_eq!(faults(source), ["Fault::A", "Fault::Bc", "Fault::D"]);
}
