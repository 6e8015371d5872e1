//! `metronome check`: can this host keep the contract?
//!
//! Looks at the clock, measures how late the alarm is with and without real-time priority, and reads what the kernel
//! says about permissions, limits and memory. Each finding has a verdict and, where something can be done, says what. A
//! file that does not exist is normal (other kernel, container) and makes a finding *unknown*.

mod cgroup;
mod finding;
mod host;
mod low_memory;
mod parse;
mod threads;
mod timing;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use finding::{Finding, Verdict};
use host::{Files, Limits};
use timing::Lateness;

/// How long the interruptions of a busy thread are counted.
const INTERRUPTIONS: std::time::Duration = std::time::Duration::from_millis(300);

/// Arguments of `metronome check`.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct CheckArgs {
    /// Seconds to measure the alarm's lateness, shared between ordinary and real-time priority
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,

    /// Also write the findings as JSON to this file ("-": to standard output, instead of the text)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Examines the host and prints the findings.
///
/// Succeeds unless something makes running impossible (status 1) or the findings could not be written (status 2). That
/// the host is unfit for tight targets is a finding, not a failure.
pub(crate) fn run(args: &CheckArgs) -> ExitCode {
    let report = examine(Duration::from_secs(args.seconds));
    let written = match &args.json {
        Some(path) if path.as_os_str() == "-" => print(&pretty(&report.to_json())),
        Some(path) => print(&report.to_text()).and_then(|()| {
            std::fs::write(path, pretty(&report.to_json()))
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        }),
        None => print(&report.to_text()),
    };
    match written {
        // Whoever closed the pipe has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("metronome check: cannot write the findings: {error}");
            ExitCode::from(2)
        }
        _ if report.impossible() => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn pretty(value: &Value) -> String {
    // The alternate form of a JSON value is indented JSON.
    format!("{value:#}\n")
}

struct Report {
    findings: Vec<Finding>,
    lateness: Vec<Lateness>,
}

fn examine(measure: Duration) -> Report {
    let files = Files::new("/");
    let limits = Limits::of_this_process();
    let mut findings = timing::clock(&files);
    findings.push(timing::interruptions(INTERRUPTIONS));
    let before = files.read("/proc/stat");
    let (measured, lateness) = timing::alarm(measure / 2, &limits);
    let after = files.read("/proc/stat");
    findings.extend(measured);
    findings.push(host::steal(before.as_deref(), after.as_deref()));
    findings.extend(host::findings(&files, &limits));
    findings.extend(threads::findings(&files, &limits));
    findings.push(low_memory::finding("/"));
    Report { findings, lateness }
}

impl Report {
    fn worst(&self) -> Verdict {
        self.findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Unknown)
    }

    fn impossible(&self) -> bool {
        self.findings.iter().any(|finding| finding.impossible)
    }

    fn to_text(&self) -> String {
        let width = self.findings.iter().map(|finding| finding.topic.len()).max().unwrap_or(0);
        let mut text = String::new();
        for finding in &self.findings {
            text.push_str(&format!(
                "{:<7} {:<width$}  {}\n",
                finding.verdict.word(),
                finding.topic,
                finding.found
            ));
            if let Some(advice) = &finding.advice {
                text.push_str(&format!("{:<7} {:<width$}  -> {advice}\n", "", ""));
            }
        }
        for lateness in &self.lateness {
            text.push('\n');
            text.push_str(&lateness.to_text());
        }
        text.push('\n');
        text.push_str(&self.conclusion());
        text.push('\n');
        text
    }

    fn conclusion(&self) -> String {
        let count = |verdict| self.findings.iter().filter(|finding| finding.verdict == verdict).count();
        let sentence = if self.impossible() {
            "The collector cannot run here."
        } else {
            match self.worst() {
                Verdict::Bad => "The collector runs here, but the contract will be broken now and then.",
                Verdict::Warn => "The collector runs here; see the warnings for what may break the contract.",
                Verdict::Ok | Verdict::Unknown => "Nothing found that would break the contract.",
            }
        };
        format!(
            "{} ok, {} warn, {} bad, {} unknown. {sentence} Measured on this host as it was loaded during the check.",
            count(Verdict::Ok),
            count(Verdict::Warn),
            count(Verdict::Bad),
            count(Verdict::Unknown)
        )
    }

    fn to_json(&self) -> Value {
        json!({
            "version": 1,
            "verdict": self.worst().word(),
            "impossible": self.impossible(),
            "findings": self.findings.iter().map(Finding::to_json).collect::<Vec<_>>(),
            "lateness": self.lateness.iter().map(Lateness::to_json).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(findings: Vec<Finding>) -> Report {
        Report { findings, lateness: Vec::new() }
    }

    #[test]
    fn the_worst_verdict_counts_and_unknown_is_not_bad() {
        let ok = || Finding::new("clock", Verdict::Ok, "fine");
        let unknown = || Finding::unknown("swap", "/proc/swaps");
        assert_eq!(report(vec![unknown(), ok()]).worst(), Verdict::Ok);
        assert_eq!(report(vec![unknown()]).worst(), Verdict::Unknown);
        let bad = report(vec![ok(), Finding::new("cpu", Verdict::Bad, "none").advise("buy one"), unknown()]);
        assert_eq!((bad.worst(), bad.impossible()), (Verdict::Bad, false));
        assert!(report(vec![ok(), Finding::new("alarm", Verdict::Bad, "none").impossible()]).impossible());
    }

    #[test]
    fn text_and_json_carry_every_finding() {
        let report = report(vec![
            Finding::new("swap", Verdict::Warn, "2 areas").advise("swapoff -a"),
            Finding::unknown("steal", "/proc/stat"),
        ]);
        let text = report.to_text();
        assert!(text.contains("warn    swap   2 areas\n"), "{text}");
        assert!(text.contains("-> swapoff -a\n") && text.contains("unknown steal"), "{text}");
        assert!(text.contains("0 ok, 1 warn, 0 bad, 1 unknown."), "{text}");
        let json: Value = serde_json::from_str(&pretty(&report.to_json())).unwrap();
        assert_eq!(json["verdict"], "warn");
        assert_eq!(json["findings"][0]["advice"], "swapoff -a");
        assert_eq!(json["findings"][1]["verdict"], "unknown");
    }

    #[test]
    fn this_host_can_be_examined() {
        let report = examine(Duration::from_millis(40));
        assert!(!report.impossible(), "{}", report.to_text());
        let topics: std::collections::HashSet<_> =
            report.findings.iter().map(|finding| finding.topic).collect();
        assert_eq!(topics.len(), report.findings.len(), "a topic occurs once");
        for finding in &report.findings {
            assert!(!finding.found.contains('\n'), "{}", finding.found);
            // What is not fine comes with something to do.
            assert!(
                finding.advice.is_some() || matches!(finding.verdict, Verdict::Ok | Verdict::Unknown),
                "{}",
                finding.topic
            );
        }
        assert!(report.lateness[0].count() > 0);
    }
}
