//! `metronome report` and `metronome advise`: what they write, what they refuse, and that a run's own figures come back.

mod common;
#[path = "report/first_screen.rs"]
mod first_screen;
#[path = "report/memory.rs"]
mod memory;

use common::{Scratch, metronome, output, text};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

fn json(args: &[&str]) -> Value {
    let out = output(&[args, &["--json", "-"]].concat());
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&out.stdout)))
}

const OLD: &str = r#"<?xml version="1.0" ?><verbosegc version="x-Metronome">
<gc type="synchgc" id="1" timestamp="Tue Mar 13 15:17:18 2007" intervalms="0.000"> <details reason="system garbage collect" />
 <duration timems="30.023" /> <heap freebytesbefore="5" /> <heap freebytesafter="7" /> <synchronousgcpriority value="11" /></gc>
<gc type="trigger start" id="1" timestamp="Tue Mar 13 15:17:45 2007" intervalms="0.000" />
<gc type="heartbeat" id="1" timestamp="Tue Mar 13 15:17:46 2007" intervalms="1000.000"> <summary quantumcount="400">
 <quantum minms="0.100" meanms="0.500" maxms="1.900" /> <finalization objectsqueued="9" />
 <heap minfree="1000" meanfree="2000" maxfree="3000" /> <gcthreadpriority max="11" min="11" /> </summary></gc>
Exception in thread "main"
<gc type="trigger end" id="1" timestamp="Tue Mar 13 15:17:47 2007" intervalms="1682.816"/></verbosegc>
"#;

const GENCON: &str = r#"<verbosegc xmlns="http://www.ibm.com/j9/verbosegc" version="1">
<initialized id="1" timestamp="2026-08-31T13:43:08.754"><attribute name="gcPolicy" value="-Xgcpolicy:gencon" /></initialized>
<exclusive-start id="2" timestamp="2026-08-31T13:43:08.754" />
</verbosegc>
"#;

#[test]
fn the_fields_of_the_json_are_the_logs() {
    let dir = Scratch::new("json");
    let log = dir.write("old.xml", OLD);
    let all = json(&["report", &log]);
    let l = &all["logs"][0];
    assert_eq!(
        (&l["file"], &l["generation"], &l["complete"]),
        (&log.clone().into(), &"2007".into(), &true.into())
    );
    let d = &l["diagnostics"][0];
    assert_eq!((&d["line"], &d["column"]), (&8.into(), &1.into()), "{d}");
    assert!(d["text"].as_str().unwrap().contains("Exception in thread"));
    let r = &l["runs"][0];
    for (field, expected) in [
        ("quanta", serde_json::json!(400)),
        ("quantum_ms", serde_json::json!({ "min": 0.1, "mean": 0.5, "max": 1.9 })),
        ("cycles", 0.into()),
        ("cycles_incomplete", 0.into()),
        ("triggers_ms", serde_json::json!([1682.816])),
        ("free_bytes", serde_json::json!({ "min": 1000, "max": 3000 })),
        ("finalization_enqueued", 9.into()),
        ("priority", serde_json::json!({ "min": 11, "max": 11 })),
    ] {
        assert_eq!(r[field], expected, "{field}");
    }
    let (s, h) = (&r["synchronous"][0], &r["heartbeats"][0]);
    assert_eq!((&s["reason"], &s["ms"]), (&"system garbage collect".into(), &30.023.into()));
    assert_eq!((&h["quanta"], &h["phase"], &h["share_percent"]), (&400.into(), &Value::Null, &20.0.into()));
    let advice = json(&["advise", &log]);
    let f = &advice["findings"][0];
    assert_eq!((&f["rule"], &f["severity"]), (&"R3".into(), &2.into()), "{advice:#}");
    assert!(f["evidence"].as_str().unwrap().contains("30.023 ms"));
    assert!(f["advice"].as_str().unwrap().contains("-Xdisableexplicitgc"));
}

#[test]
fn several_logs_and_standard_input() {
    let dir = Scratch::new("several");
    let log = dir.write("old.xml", OLD);
    let mut child = metronome(&["report", &log, "-", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(OLD.replace("400", "200").as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    let all: Value = serde_json::from_slice(&out.stdout).unwrap();
    let quanta = |i: usize| all["logs"][i]["runs"][0]["quanta"].clone();
    assert_eq!((quanta(0), quanta(1), out.status.code()), (400.into(), 200.into(), Some(0)));
}

#[test]
fn logs_of_other_collectors_are_refused_by_name() {
    let dir = Scratch::new("other");
    let (gencon, old) = (dir.write("gencon.xml", GENCON), dir.write("old.xml", OLD));
    for command in ["report", "advise"] {
        let out = output(&[command, &gencon]);
        assert_eq!(out.status.code(), Some(3), "{command}");
        assert!(text(&out.stderr).contains("gencon"), "{command}: {}", text(&out.stderr));
        // What can be read still is.
        let out = output(&[command, &gencon, &old]);
        assert_eq!(out.status.code(), Some(3));
        assert!(text(&out.stdout).contains("30.023 ms"), "{}", text(&out.stdout));
    }
}

#[test]
fn what_cannot_be_read_is_refused_in_one_line() {
    let dir = Scratch::new("refused");
    let log = dir.write("old.xml", OLD);
    let (empty, words) = (dir.write("empty", ""), dir.write("words", "just words\n"));
    let utf16 = dir.write("utf16", b"\xff\xfe<\0v\0");
    let gzip = dir.write("torn.gz", b"\x1f\x8b\x08\0\0");
    let none = dir.path("none");
    let folder = dir.0.to_str().unwrap();
    let cases: Vec<(Vec<&str>, &str)> = vec![
        (vec!["report", &none], "No such file"),
        (vec!["report", folder], "is a directory"),
        (vec!["report", &empty], "no event"),
        (vec!["report", &words], "no event"),
        (vec!["report", &utf16], "UTF-16"),
        (vec!["advise", &none], "No such file"),
        (vec!["advise", &empty], "no event"),
        (vec!["report"], "LOG"),
        (vec!["report", &log, "--json", &log], "same file"),
        (vec!["report", &log, "--csv", &log], "same file"),
        (vec!["advise", &log, "--json", &log], "same file"),
        (vec!["report", &log, "--json", "-", "--csv", "-"], "both"),
        (vec!["report", &log, &log, "--follow"], "one"),
        (vec!["report", &log, "--json", folder], "--json"),
    ];
    for (args, word) in cases {
        let out = output(&args);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.lines().count() == 1 && said.contains(word), "{args:?}: {said}");
    }
    let out = output(&["report", &gzip]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert_eq!(std::fs::read_to_string(&log).unwrap(), OLD, "no log was written over");
}

#[test]
fn csv_has_one_line_for_each_event() {
    let dir = Scratch::new("csv");
    let (log, csv) = (dir.write("old.xml", OLD), dir.path("out.csv"));
    assert!(output(&["report", &log, "--csv", &csv]).status.success());
    let table = std::fs::read_to_string(&csv).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + 4, "{table}");
    assert!(rows.iter().all(|r| r.len() == rows[0].len()), "{table}");
    let column = |name: &str| rows[0].iter().position(|c| *c == name).unwrap();
    let events: Vec<&str> = rows[1..].iter().map(|r| r[column("event")]).collect();
    assert_eq!(events, ["synchronous", "trigger-start", "heartbeat", "trigger-end"]);
    assert_eq!(rows[3][column("share_percent")], "20.0000");
    assert_eq!(rows[1][column("max_ms")], "30.023000");
}

#[test]
fn a_log_that_grows_is_followed_until_a_signal() {
    use nix::sys::signal::{Signal, kill};
    let dir = Scratch::new("follow");
    let (first, rest) = OLD.split_at(OLD.find("<gc type=\"trigger start\"").unwrap());
    let log = dir.write("grows.xml", first);
    let mut child = metronome(&["report", &log, "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().contains("synchronous collection of 30.023 ms"));
    let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
    file.write_all(rest.as_bytes()).unwrap();
    assert!(next().contains("trigger-start"));
    let pid = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    kill(pid, Signal::SIGINT).unwrap();
    let summary: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(summary.iter().any(|l| l.contains("400 in 1 heartbeat")), "{summary:#?}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A number after a name and `="` in the last element of a kind.
fn told(log: &str, element: &str, name: &str) -> f64 {
    let tag = &log[log.rfind(&format!("<{element} ")).unwrap()..];
    let value = tag.split(&format!(" {name}=\"")).nth(1).unwrap();
    value.split('"').next().unwrap().parse().unwrap()
}

/// What the run measured, what it wrote as its summary, and what the report makes of the heartbeats.
#[test]
fn the_figures_of_our_own_logs_are_those_the_run_measured() {
    for format in ["openj9", "2007"] {
        let dir = Scratch::new(&format!("own-{format}"));
        let (log, measured) = (dir.path("gc.xml"), dir.path("run.json"));
        let args = [
            "run",
            "--workload",
            "churn",
            "--heap",
            "16M",
            "--live",
            "4M",
            "--alloc-rate",
            "64M",
            "--seconds",
            "1.5",
        ];
        let out = output(
            &[&args[..], &["--verbose-gc", &log, "--verbose-format", format, "--json", &measured]].concat(),
        );
        assert!(out.status.success(), "{}", text(&out.stderr));
        let run: Value = serde_json::from_str(&std::fs::read_to_string(measured).unwrap()).unwrap();
        let all = json(&["report", &log]);
        let l = &all["logs"][0];
        assert_eq!((&l["generation"], &l["complete"]), (&"metronome-gc".into(), &true.into()), "{format}");
        assert_eq!(l["diagnostics"].as_array().unwrap().len(), 0, "{format}: {}", l["diagnostics"]);
        let r = &l["runs"][0];
        let log = std::fs::read_to_string(&log).unwrap();
        let summary = |name| told(&log, "metronome-summary", name);
        let n = |v: &Value| v.as_f64().unwrap();
        let synchronous = r["synchronous"].as_array().unwrap();
        assert!(summary("cycles") > 0.0, "the run collected");
        assert_eq!(n(&r["cycles"]), summary("cycles"));
        assert_eq!(n(&r["quanta"]) + synchronous.len() as f64, summary("quanta"));
        assert_eq!(synchronous.len() as f64, summary("syncGcs"));
        assert_eq!(n(&r["stops_cancelled"]), summary("stopsCancelled"));
        assert_eq!(n(&r["departures"]), summary("departures"));
        let longest = synchronous.iter().map(|s| n(&s["ms"])).fold(n(&r["quantum_ms"]["max"]), f64::max);
        assert!((longest - summary("longestQuantumMs")).abs() < 0.002, "{format}");
        assert!((n(&r["stop_ms"]["max"]) - summary("longestStopMs")).abs() < 0.002, "{format}");
        // The run's own JSON was taken before the heap closed: nothing is missing in the log, and little came after.
        assert!(
            n(&r["cycles"]) >= n(&run["cycles"]) && n(&r["cycles"]) <= n(&run["cycles"]) + 2.0,
            "{format}"
        );
        assert!(summary("quanta") >= n(&run["quanta"]));
        // Both histograms have three digits.
        assert!(longest * 1.002 + 0.002 >= n(&run["pause_us"]["max"]) / 1e3, "{format}: {longest} {run:#}");
        assert_eq!(n(&r["heap_bytes"]), n(&run["heap_bytes"]));
        if summary("quanta") == n(&run["quanta"]) {
            assert!((longest - n(&run["pause_us"]["max"]) / 1e3).abs() < 0.002 + longest * 0.002, "{format}");
            for (ours, theirs) in r["mmu"].as_array().unwrap().iter().zip(run["mmu"].as_array().unwrap()) {
                assert_eq!(ours["window_ms"], theirs["window_ms"]);
                assert!(
                    (n(&ours["charged_percent"]) - n(&theirs["charged"]) * 100.0).abs() < 0.001,
                    "{ours} {theirs}"
                );
            }
        }
    }
}

#[test]
fn runs_beyond_the_first_thousand_are_judged_and_counted() {
    let dir = Scratch::new("many-runs");
    let run = "<?xml version=\"1.0\" ?>\n<verbosegc xmlns=\"x\" version=\"abc_CMPRSS\">\n<trigger-start id=\"1\" \
               timestamp=\"2026-03-29T01:30:00.000\" />\n";
    let sick = "<gc-op id=\"2\" type=\"syncgc\" timems=\"30.000\" contextid=\"0\" timestamp=\"2026-03-29T01:30:00.500\">\n\
                <syncgc-info reason=\"out of memory\" exclusiveaccessTimeMs=\"0.010\" threadPriority=\"11\" />\n</gc-op>\n";
    let text = format!("{run}</verbosegc>\n").repeat(1_100) + run + sick + "</verbosegc>\n";
    let out = output(&["report", &dir.write("many.xml", text), "--json", "-"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let log = &json["logs"][0];
    assert_eq!((&log["runs_omitted"], &log["runs_beyond_with_findings"]), (&101.into(), &1.into()));
    let findings = log["findings"].as_array().unwrap();
    assert!(findings.iter().any(|f| f["rule"] == "R1" && f["run"] == 1_100), "{findings:#?}");
    let text = String::from_utf8(output(&["report", &dir.path("many.xml")]).stdout).unwrap();
    assert!(text.contains("1 of the 101 runs beyond have findings") && text.contains("(run 1101)"), "{text}");
}
