//! Runs the built command: outputs of a run, export, replay, top. No bound on time: counts only.

mod common;

use common::{Scratch, metronome, output, text};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

/// Ends a command that runs for ever.
struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn count(recording: &str, kind: &str) -> u64 {
    let records = recording.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    records.filter(|r| r["kind"] == kind).count() as u64
}

fn slices(trace: &str, tid: u64) -> u64 {
    let trace: Value = serde_json::from_str(trace).unwrap();
    let all = trace["traceEvents"].as_array().unwrap();
    all.iter().filter(|e| e["ph"] == "X" && e["tid"] == tid && e["name"] != "stop").count() as u64
}

const CHURN: &[&str] =
    &["run", "--workload", "churn", "--heap", "32M", "--live", "2M", "--alloc-rate", "64M", "--seconds", "1"];

/// Between the statistics and the heap's closing a cycle that is under way goes on, and is told too.
fn or_few_more(found: u64, counted: u64, what: &str) {
    assert!(counted <= found && found <= counted + 10, "{what}: {found}, the run counted {counted}");
}

#[test]
fn a_run_s_outputs_hold_what_it_counted_and_export_turns_one_into_the_other() {
    let s = Scratch::new("outputs");
    let [lines, fork, chrome, json, log] =
        ["r.jsonl", "r.trace", "r.json", "out.json", "gc.xml"].map(|n| s.path(n));
    let outputs = ["--record", &lines, "--tuning-fork", &fork, "--chrome", &chrome];
    let more = ["--json", &json, "--verbose-gc", &log];
    let out = output(&[CHURN, &outputs, &more].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let result: Value = serde_json::from_str(&s.read("out.json")).unwrap();
    let (quanta, cycles) = (result["quanta"].as_u64().unwrap(), result["cycles"].as_u64().unwrap());
    assert!(quanta > 0 && cycles > 0);
    let recording = s.read("r.jsonl");
    or_few_more(count(&recording, "quantum"), quanta, "quanta");
    or_few_more(count(&recording, "cycle_end"), cycles, "cycles");
    assert_eq!((count(&recording, "begin"), count(&recording, "end"), count(&recording, "lost")), (1, 1, 0));
    assert_eq!(count(&recording, "bookmark"), 2);
    assert_eq!(slices(&s.read("r.json"), 1), count(&recording, "quantum"));

    // Of the recording and of the trace: the same files again.
    for from in [&lines, &fork] {
        let [again, trace, picture] = ["a.jsonl", "a.trace", "a.json"].map(|n| s.path(n));
        let out =
            output(&["export", from, "--record", &again, "--tuning-fork", &trace, "--chrome", &picture]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert_eq!(s.read("a.jsonl"), recording);
        assert_eq!(s.read("a.json"), s.read("r.json"));
    }
    // Of the log: sums of as many quanta.
    let out = output(&["export", &log, "--record", &s.path("log.jsonl"), "--chrome", &s.path("log.json")]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let of_log = s.read("log.jsonl");
    let sums = of_log.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    let of_sums: u64 = sums.filter_map(|r| r["quanta"].as_u64().filter(|_| r["kind"] == "heartbeat")).sum();
    or_few_more(of_sums, quanta, "quanta of the log");
    assert_eq!(slices(&s.read("log.json"), 1), count(&of_log, "heartbeat"));
    assert_eq!(count(&of_log, "bookmark"), 2);
}

/// The address that a run or a replay tells.
fn address(input: impl Read) -> (String, impl BufRead) {
    let mut input = BufReader::new(input);
    let mut line = String::new();
    while !line.contains("http://") {
        line.clear();
        assert!(input.read_line(&mut line).unwrap() > 0, "no address");
    }
    let rest = line.split("http://").nth(1).unwrap();
    (rest[..rest.find('/').unwrap()].to_owned(), input)
}

#[test]
fn top_follows_a_run_to_its_end() {
    let s = Scratch::new("top");
    let token = s.path("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    let [json, recording] = ["out.json", "top.jsonl"].map(|n| s.path(n));
    let args = [CHURN, &["--serve", "localhost:0", "--token-file", &token, "--json", &json]].concat();
    let mut run = Kill(metronome(&args).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
    let (addr, mut rest) = address(run.0.stderr.take().unwrap());
    let top = output(&["top", &addr, "--token-file", &token, "--record", &recording]);
    let mut stderr = String::new();
    rest.read_to_string(&mut stderr).unwrap();
    assert!(run.0.wait().unwrap().success(), "{stderr}");
    assert!(top.status.success(), "{}", text(&top.stderr));
    let shown = text(&top.stdout);
    assert!(!shown.contains('\x1b') && shown.lines().all(|l| l.contains("utilization")), "{shown}");
    let recording = s.read("top.jsonl");
    assert_eq!(count(&recording, "begin"), 1, "the past is shown too");
    let result: Value = serde_json::from_str(&s.read("out.json")).unwrap();
    or_few_more(count(&recording, "quantum"), result["quanta"].as_u64().unwrap(), "quanta");
    let last = shown.lines().last().unwrap();
    assert!(last.contains(&format!("{} quanta", count(&recording, "quantum"))), "{last}");
}

#[test]
fn live_replays_a_file_and_asks_for_the_token() {
    let s = Scratch::new("live");
    let [token, other, file] = ["token", "other", "r.jsonl"].map(|n| s.path(n));
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    std::fs::write(&other, "fedcba9876543210\n").unwrap();
    let begin = r#"{"ns":0,"kind":"begin","version":1,"source":"test"}"#;
    let quantum = r#"{"ns":9,"kind":"quantum","start_ns":5,"end_ns":9}"#;
    std::fs::write(&file, format!("{begin}\n{quantum}\n")).unwrap();
    let mut live =
        Kill(metronome(&["live", &file, "--token-file", &token]).stdout(Stdio::piped()).spawn().unwrap());
    let (addr, _rest) = address(live.0.stdout.take().unwrap());
    let top = output(&["live", &format!("http://{addr}/?token=0123456789abcdef")]);
    assert!(top.status.success(), "by the page's address: {}", text(&top.stderr));
    let top = output(&["live", &addr, "--token-file", &token]);
    assert!(top.status.success(), "{}", text(&top.stderr));
    assert!(text(&top.stdout).contains(" 1 quanta, longest pause 0.0 us"), "{}", text(&top.stdout));
    assert!(
        text(&top.stdout).contains("; broken off here"),
        "the recording has no end: {}",
        text(&top.stdout)
    );
    for wrong in [&["top", &addr, "--token-file", &other][..], &["top", &addr]] {
        let out = output(wrong);
        assert_eq!(out.status.code(), Some(2));
        assert!(
            text(&out.stderr).contains("401") && text(&out.stderr).contains("oken"),
            "{}",
            text(&out.stderr)
        );
    }
    let mut page = TcpStream::connect(&addr).unwrap();
    let request =
        format!("GET /?token=0123456789abcdef HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
    page.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    page.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("</html>\n"));
}

#[test]
fn bad_input_ends_in_one_line_and_overwrites_nothing() {
    let s = Scratch::new("bad");
    let [plain, other, old, good] = ["plain", "gencon.xml", "old.json", "good.jsonl"].map(|n| s.path(n));
    std::fs::write(&plain, "neither this nor that").unwrap();
    std::fs::write(&old, "old").unwrap();
    std::fs::write(&good, "{\"ns\":0,\"kind\":\"trigger_start\"}\n").unwrap();
    let gencon = "<?xml version=\"1.0\" ?>\n<verbosegc version=\"1\">\n<initialized id=\"1\">\n\
         <attribute name=\"gcPolicy\" value=\"-Xgcpolicy:gencon\" />\n</initialized>\n</verbosegc>\n";
    std::fs::write(&other, gencon).unwrap();
    let missing = s.path("missing");
    let same = s.path("./good.jsonl");
    for (args, status, words) in [
        (&["export", &missing, "--chrome", &old][..], 2, "cannot open"),
        (&["export", &plain, "--chrome", &old], 2, "no verbose GC log"),
        (&["export", &other, "--chrome", &old], 3, "gencon"),
        (&["export", &good, &other, "--chrome", &old], 3, "gencon"),
        (&["export", &good], 2, "--chrome, --tuning-fork or --record"),
        (&["export", &good, "--record", &same], 2, "name the same file"),
        (&["export", &good, "--record", &old, "--chrome", &old], 2, "name the same file"),
        (&["live", &good, "--token-file", "/dev/zero"], 2, "16 to 256"),
        (&["live", &missing], 2, "cannot open"),
        (&["live", &other], 3, "gencon"),
        (&["live", &good, "--listen", "0.0.0.0:0"], 2, "set a token"),
        (&["live", &good, "--token-file", &plain], 2, "16 to 256"),
        (&["top", "127.0.0.1:1"], 2, "cannot connect"),
        (&["top", "nowhere"], 2, "cannot connect"),
        (&["run", "--serve", "0.0.0.0:0", "--seconds", "1", "--workload", "churn"], 2, "set a token"),
        (&["run", "--serve", "somewhere"], 2, "--serve"),
        (&["run", "--record", &old, "--chrome", &old], 2, "name the same file"),
        (
            &["run", "--record", "/nowhere/x", "--seconds", "1", "--workload", "churn"],
            2,
            "--record /nowhere/x",
        ),
    ] {
        let out = output(args);
        let stderr = text(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{args:?}: {stderr}");
        assert!(stderr.contains(words) && stderr.lines().count() == 1, "{args:?}: {stderr}");
        assert_eq!(s.read("old.json"), "old", "{args:?}");
    }
    // A full disk is told at the end, and the run's results are not lost.
    let out = output(&[CHURN, &["--record", "/dev/full"]].concat());
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("--record /dev/full is not complete"), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("Minimum utilization"));
}

#[test]
fn recordings_that_break_off_or_are_damaged_are_exported_as_far_as_they_go() {
    let s = Scratch::new("torn");
    let begin = r#"{"ns":0,"kind":"begin","version":1,"source":"test"}"#;
    let bookmarks: Vec<String> =
        (1..=200).map(|i| format!("{{\"ns\":{i},\"kind\":\"bookmark\",\"text\":\"b{i}\"}}")).collect();
    let end = r#"{"ns":201,"kind":"end"}"#;
    let whole = format!("{begin}\n{}\n{end}\n", bookmarks.join("\n"));
    let out = s.path("out.jsonl");
    let export = |name: &str, bytes: &[u8]| {
        let file = s.write(name, bytes);
        let o = output(&["export", &file, "--record", &out, "--chrome", &s.path("out.json")]);
        let written = s.read("out.jsonl");
        (o.status.code(), text(&o.stderr), count(&written, "bookmark"), written)
    };
    let mut with_mark = b"\xef\xbb\xbf".to_vec();
    with_mark.extend(whole.as_bytes());
    for bytes in [whole.as_bytes(), &with_mark] {
        let (status, said, n, written) = export("whole.jsonl", bytes);
        assert_eq!((status, &*said, n), (Some(0), "", 200));
        assert!(written.ends_with("\"kind\":\"end\"}\n"), "{written}");
    }
    let cut = &whole.as_bytes()[..whole.find("b101").unwrap()];
    let (status, said, n, written) = export("cut.jsonl", cut);
    assert_eq!((status, n), (Some(2), 100), "{said}");
    assert!(said.contains("breaks off after line 102"), "{said}");
    assert!(written.ends_with("{\"ns\":100,\"kind\":\"break_off\"}\n"), "{written}");
    let damaged = whole.replace("{\"ns\":50,", "\u{1}ns\":50,").replace("{\"ns\":77,", "{\"ns\":--,");
    let (status, said, n, written) = export("damaged.jsonl", damaged.as_bytes());
    assert_eq!((status, n, said.lines().count()), (Some(2), 198, 1), "{said}");
    assert!(
        said.contains("line 51 ") && said.contains("line 78 ") && said.contains("2 lines in all"),
        "{said}"
    );
    assert_eq!(count(&written, "lost"), 2, "in their places");
}
