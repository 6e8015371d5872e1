//! The record of one run, and a file of records: CSV with the circumstances in comment lines at its head.

use super::percentiles::Responses;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// Columns that every record has; more follow by name, as the contestants report them.
const COLUMNS: [&str; 20] = [
    "round",
    "program",
    "contestant",
    "heap_bytes",
    "status",
    "wall_s",
    "work_s",
    "user_s",
    "system_s",
    "peak_rss_bytes",
    "checksum",
    "responses",
    "p50_us",
    "p90_us",
    "p99_us",
    "p999_us",
    "p9999_us",
    "max_us",
    "missed",
    "note",
];

/// One run. Figures that it does not have are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record(BTreeMap<String, String>);

impl Record {
    /// Sets a figure; commas and line ends become semicolons and blanks.
    pub(crate) fn set(&mut self, name: &str, value: impl ToString) {
        let value = value.to_string().replace(',', ";").replace(['\n', '\r'], " ");
        self.0.insert(name.to_owned(), value);
    }

    /// Adds a remark.
    pub(crate) fn note(&mut self, note: &str) {
        let so_far = self.text("note").to_owned();
        self.set("note", if so_far.is_empty() { note.to_owned() } else { format!("{so_far}; {note}") });
    }

    /// Sets the figures of the responses.
    pub(crate) fn set_responses(&mut self, r: &Responses) {
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        self.set("responses", r.count);
        for (name, ns) in [
            ("p50_us", r.p50),
            ("p90_us", r.p90),
            ("p99_us", r.p99),
            ("p999_us", r.p999),
            ("p9999_us", r.p9999),
            ("max_us", r.max),
        ] {
            self.set(name, us(ns));
        }
        self.set("missed", r.missed);
    }

    /// A figure as text; empty if absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// A figure as a number.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.text(name).parse().ok()
    }

    /// Whether the run ended well.
    pub(crate) fn ok(&self) -> bool {
        self.text("status") == "ok"
    }

    /// Names and values of all figures.
    pub(crate) fn figures(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Records with their circumstances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Records {
    /// Names and values: machine, commit, command and so on.
    pub(crate) head: Vec<(String, String)>,
    pub(crate) all: Vec<Record>,
}

impl Records {
    /// The first circumstance of this name.
    pub(crate) fn head(&self, name: &str) -> &str {
        self.head.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }

    /// As CSV.
    pub(crate) fn csv(&self) -> String {
        let mut names: Vec<&str> = COLUMNS.to_vec();
        let more: BTreeSet<&str> = self
            .all
            .iter()
            .flat_map(Record::figures)
            .map(|(n, _)| n)
            .filter(|n| !COLUMNS.contains(n))
            .collect();
        names.extend(more);
        let mut out = String::new();
        for (name, value) in &self.head {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(out, "# {name}: {}", value.replace('\n', " "));
        }
        let _ = writeln!(out, "{}", names.join(","));
        for record in &self.all {
            let fields: Vec<&str> = names.iter().map(|name| record.text(name)).collect();
            let _ = writeln!(out, "{}", fields.join(","));
        }
        out
    }

    /// From CSV that [`Records::csv`] wrote.
    ///
    /// # Errors
    /// The line that is not of that form.
    pub(crate) fn parse(text: &str) -> Result<Records, String> {
        let mut records = Records::default();
        let mut names: Option<Vec<&str>> = None;
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(head) = line.strip_prefix("# ") {
                let (name, value) = head.split_once(": ").unwrap_or((head, ""));
                records.head.push((name.to_owned(), value.to_owned()));
                continue;
            }
            let fields: Vec<&str> = line.split(',').collect();
            let Some(names) = &names else {
                names = Some(fields);
                continue;
            };
            if fields.len() != names.len() {
                return Err(format!("line {number} has {} fields instead of {}", fields.len(), names.len()));
            }
            let present = names.iter().zip(fields).filter(|(_, value)| !value.is_empty());
            records.all.push(Record(present.map(|(n, v)| ((*n).to_owned(), v.to_owned())).collect()));
        }
        if names.is_none() {
            return Err("there is no line with the columns' names".into());
        }
        Ok(records)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file and what is wrong with it.
    pub(crate) fn read(path: &Path) -> Result<Records, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Records::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Writes a file.
    ///
    /// # Errors
    /// The file and why it cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        std::fs::write(path, self.csv()).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// The runs of a program that ended well, by contestant, in the order of their first run.
    pub(crate) fn of(&self, program: &str) -> Vec<(&str, Vec<&Record>)> {
        let mut found: Vec<(&str, Vec<&Record>)> = Vec::new();
        for record in self.all.iter().filter(|r| r.text("program") == program && r.ok()) {
            let name = record.text("contestant");
            match found.iter_mut().find(|(n, _)| *n == name) {
                Some((_, runs)) => runs.push(record),
                None => found.push((name, vec![record])),
            }
        }
        found
    }

    /// Programs, in the order of their first run.
    pub(crate) fn programs(&self) -> Vec<&str> {
        let mut found = Vec::new();
        for name in self.all.iter().map(|r| r.text("program")) {
            if !found.contains(&name) {
                found.push(name);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back_as_they_were_written() {
        let mut a = Record::default();
        a.set("program", "churn");
        a.set("contestant", "go");
        a.set("status", "ok");
        a.set("gc.cycles", 7);
        a.note("one, two\nthree");
        a.note("four");
        a.set_responses(&Responses::of(vec![1_500, 2_000_000], 1_000_000).unwrap());
        let mut b = Record::default();
        b.set("program", "queue");
        b.set("status", "out of memory");
        let records = Records { head: vec![("cpu".into(), "a: b".into())], all: vec![a, b] };
        let read = Records::parse(&records.csv()).unwrap();
        assert_eq!(read, records);
        assert_eq!(read.all[0].text("note"), "one; two three; four");
        assert_eq!((read.all[0].number("p50_us"), read.all[0].number("missed")), (Some(1.5), Some(1.0)));
        assert_eq!((read.head("cpu"), read.programs()), ("a: b", vec!["churn", "queue"]));
        assert_eq!((read.of("churn").len(), read.of("queue").len()), (1, 0));
    }

    #[test]
    fn a_damaged_file_is_refused_with_the_line() {
        assert!(Records::parse("# a: b\nx,y\n1\n").unwrap_err().contains("line 3"));
        assert!(Records::parse("# a: b\n").is_err());
    }
}
