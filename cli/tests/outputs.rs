//! Files that `report` and `advise` write and read: good ones are not lost, what cannot be written costs nothing else, and
//! what is no log of Metronome is called by its name.

mod common;

use common::{Scratch, metronome, output, text};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

const LOG: &str = r#"<?xml version="1.0" ?><verbosegc version="x-Metronome">
<gc type="synchgc" id="1" timestamp="Tue Mar 13 15:17:18 2007" intervalms="0.000"> <details reason="system garbage collect" />
 <duration timems="30.023" /> <heap freebytesbefore="5" /> <heap freebytesafter="7" /> <synchronousgcpriority value="11" /></gc>
</verbosegc>
"#;

const GENCON: &str = r#"<verbosegc xmlns="http://www.ibm.com/j9/verbosegc" version="1">
<initialized id="1" timestamp="2026-08-31T13:43:08.754"><attribute name="gcPolicy" value="-Xgcpolicy:gencon" /></initialized>
</verbosegc>
"#;

#[test]
fn a_log_that_is_not_there_costs_no_good_file() {
    let dir = Scratch::new("kept");
    let (none, empty, other) = (dir.path("none"), dir.write("empty", ""), dir.write("gencon.xml", GENCON));
    let log = dir.write("log.xml", LOG);
    dir.write("good", "good");
    symlink("good", dir.path("link")).unwrap();
    dir.write("two", "good");
    std::fs::hard_link(dir.path("two"), dir.path("names")).unwrap();
    for file in ["good", "link", "names"].map(|name| dir.path(name)) {
        for (bad, status) in [(&none, 2), (&empty, 2), (&other, 3)] {
            for flag in ["--json", "--html", "--csv"] {
                for command in ["report", "advise"] {
                    if command == "advise" && flag != "--json" {
                        continue;
                    }
                    let out = output(&[command, bad, flag, &file]);
                    let said = text(&out.stderr);
                    assert_eq!(out.status.code(), Some(status), "{said}");
                    assert!(said.contains(flag) && said.contains("left as it was"), "{said}");
                    assert_eq!(std::fs::read_to_string(&file).unwrap(), "good", "{command} {bad} {flag}");
                }
            }
        }
    }
    let left: Vec<_> = std::fs::read_dir(&dir.0).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 7, "nothing temporary: {left:?}");
    // One that can be read is written.
    for flag in ["--json", "--html", "--csv"] {
        for name in ["good", "names"] {
            let out = output(&["report", &none, &log, flag, &dir.path(name)]);
            assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
            let written = dir.read(name);
            let one = written.contains("30.023");
            assert!(one && !written.starts_with("good"), "{flag} {name}: {written}");
        }
    }
    assert!(dir.read("two").starts_with("file,run,line"), "{}", dir.read("two"));
}

#[test]
fn what_cannot_be_written_is_named_and_costs_no_summary() {
    let dir = Scratch::new("full");
    // So many events that they are written before the end.
    let heart = LOG.lines().skip(1).take(2).collect::<Vec<_>>().join("\n");
    let many = LOG.replace("</verbosegc>", &format!("{}\n</verbosegc>", heart.repeat(500)));
    let log = dir.write("log.xml", many);
    for flag in ["--json", "--html", "--csv"] {
        let rest = dir.path(&format!("rest{flag}"));
        let other = if flag == "--json" { "--csv" } else { "--json" };
        let out = output(&["report", &log, flag, "/dev/full", other, &rest]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(text(&out.stdout).contains("30.023 ms"), "{flag}: {}", text(&out.stdout));
        assert!(said.contains(&format!("{flag} /dev/full: No space left")), "{said}");
        assert!(std::fs::metadata(rest).unwrap().len() > 1000);
    }
    let out = output(&["advise", &log, "--json", "/dev/full"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stdout).contains("R3"), "{}", text(&out.stdout));
    assert!(text(&out.stderr).contains("--json /dev/full: No space left"), "{}", text(&out.stderr));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let dir = Scratch::new("enough");
    let heart = LOG.lines().skip(1).take(2).collect::<Vec<_>>().join("\n");
    let many = LOG.replace("</verbosegc>", &format!("{}\n</verbosegc>", heart.repeat(20_000)));
    let log = dir.write("log.xml", many);
    for flag in ["--csv", "--json"] {
        let mut child = metronome(&["report", &log, flag, "-"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.next().unwrap().is_ok());
        drop(lines);
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{flag}: {}", text(&out.stderr));
        assert!(text(&out.stderr).contains("30.023 ms"), "{flag}: the summary");
    }
}

#[test]
fn what_is_no_whole_log_of_metronome_has_its_status_and_its_name() {
    use std::io::Write as _;
    let dir = Scratch::new("names");
    let g1 = dir
        .write("g1.log", "[0.005s][info][gc] Using G1\n[0.1s][info][gc] GC(0) Pause Young (Normal) 3.5ms\n");
    let own = env!("CARGO_BIN_EXE_metronome").to_owned();
    let recording = dir.write("r.jsonl", "{\"ns\":0,\"kind\":\"begin\",\"version\":1,\"source\":\"x\"}\n");
    let mut gzip = Command::new("gzip").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let torn = gzip.as_mut().ok().map(|child| {
        child.stdin.take().unwrap().write_all(LOG.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut child.stdout.take().unwrap(), &mut bytes).unwrap();
        child.wait().unwrap();
        dir.write("torn.gz", &bytes[..bytes.len() - 6])
    });
    let mut cases =
        vec![(g1, 3, "G1 of HotSpot"), (own, 2, "no text"), (recording, 2, "a recording: metronome live")];
    match torn {
        Some(torn) => cases.push((torn, 2, "reading ended early")),
        None => println!("skipped: no gzip here"),
    }
    for (log, status, words) in cases {
        for command in ["report", "advise"] {
            let out = output(&[command, &log]);
            let said = text(&out.stderr);
            assert_eq!(out.status.code(), Some(status), "{command} {log}: {said}");
            assert!(said.contains(words), "{command} {log}: {said}");
        }
    }
}

#[test]
fn rows_fit_into_eighty_columns_and_hints_say_what_there_is() {
    let dir = Scratch::new("columns");
    let noise: String = (0..12_000).map(|i| format!("noise {i}\n<unknown/>\n")).collect();
    let log = dir.write(
        "log.xml",
        LOG.replace("</verbosegc>", &format!("{noise}</verbosegc>")).replace("system garbage collect", ""),
    );
    let shown = text(&output(&["report", &log]).stdout);
    assert!(shown.contains("1 for no reason that is told"), "{shown}");
    assert!(shown.contains("--verbose shows the first "), "{shown}");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../verbosegc-samples/trees-degrade.xml");
    let shown = text(&output(&["report", sample]).stdout);
    let figures = shown.lines().skip(1).take_while(|l| !l.starts_with("Diagnostics"));
    let long: Vec<&str> = figures.filter(|l| l.chars().count() > 80).collect();
    assert_eq!(long, [""; 0]);
    assert!(!shown.contains(" 1 heartbeats"), "{shown}");
}
