//! Runs the built command: workloads end verified, bad input ends in one line. No wall-clock assertions.

mod common;

use common::{Scratch, metronome, output, text};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Runs a workload with JSON to standard output; it must end verified.
fn verified(args: &[&str]) -> Value {
    let seconds: &[&str] = if args.contains(&"--seconds") { &[] } else { &["--seconds", "1"] };
    let all = [&["run", "--json", "-"], seconds, args].concat();
    let out = output(&all);
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    let json: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&out.stdout)));
    assert_eq!(json["verified"], true, "{args:?}: {json:#}");
    assert!(text(&out.stderr).contains("verified: true"), "the summary goes to standard error then");
    json
}

/// Runs until a machine that others use lets happen what is waited for.
const ATTEMPTS: usize = 20;

#[test]
fn every_workload_ends_verified_with_all_fields() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    for args in [
        &["--workload", "index", "--heap", "24M", "--input", source][..],
        &["--workload", "index", "--heap", "24M", "--input", source, "--mutators", "1"],
        &["--workload", "index", "--heap", "24M", "--input", source, "--mutators", "4"],
        &["--workload", "trees", "--heap", "16M", "--live", "2M"],
        &["--workload", "gcbench", "--heap", "16M"],
        &["--workload", "churn", "--heap", "16M", "--live", "4M", "--alloc-rate", "16M"],
        &["--workload", "contract", "--heap", "16M", "--live", "4M", "--alloc-rate", "16M"],
    ] {
        let json = verified(args);
        assert_eq!(json["schema"], "metronome-run/1");
        assert_eq!(json["workload"], args[1]);
        assert_eq!(json["config"]["heap"], args[3]);
        assert_eq!(json["checksum"], json["expected_checksum"]);
        for name in [
            "pause_us",
            "quantum_cpu_us",
            "time_to_stop_us",
            "task_response_us",
            "alarm_lateness_us",
            "resume_us",
            "step_us",
        ] {
            for field in ["count", "p50", "p99", "p999", "max"] {
                assert!(json[name][field].is_number(), "{name}.{field}: {json:#}");
            }
        }
        for name in [
            "elapsed_s",
            "cycles",
            "quanta",
            "task_missed",
            "target_utilization",
            "utilization_violations",
            "utilization_violations_wall",
            "stops_cancelled",
            "synchronous_collections",
            "allocated_bytes",
            "live_bytes",
            "heap_bytes",
            "max_heap_bytes",
            "resident_bytes",
            "external_bytes",
            "out_of_memory",
            "peak_rss_bytes",
        ] {
            assert!(json[name].is_number(), "{name}: {json:#}");
        }
        assert!(json["floating"].is_null(), "{json:#}");
        assert!(json["verbose_log_error"].is_null() && json["nothing"].is_null(), "{json:#}");
        // Whether the target is kept on this machine is not this test's matter, nor whether a quantum ran at all: a
        // collector that gets no CPU has nothing to be measured by.
        let window = json["mmu"].as_array().unwrap().iter().find(|m| m["window_ms"] == json["window_ms"]);
        let charged = window.map(|m| m["charged"].as_f64());
        let (broken, lost) = (json["utilization_violations"] != 0, json["lost_events"] != 0);
        let contract = match (broken, lost, charged) {
            (true, ..) => "broken",
            (_, true, _) => "unknown",
            (.., None) => panic!("the window's utilization is missing: {json:#}"),
            (.., Some(None)) => "not measured",
            (.., Some(Some(_))) => "kept",
        };
        assert_eq!(json["contract"], contract, "{json:#}");
        if let ("kept", Some(Some(charged))) = (contract, charged) {
            assert!(Some(charged) >= json["target_utilization"].as_f64(), "{json:#}");
        }
        if contract == "not measured" {
            // At most what fits into the first window.
            assert!(json["quanta"].as_u64() < Some(200), "{json:#}");
        }
        for name in ["references", "finalizers", "heap_resized", "low_memory", "departure_reasons"] {
            assert!(json[name].is_object(), "{name}: {json:#}");
        }
        assert!(json["longest_step"]["name"].is_string() && json["longest_step"]["cpu_us"].is_number());
        assert!(json["task_response_us"]["count"].as_u64() > Some(0));
        assert!(json["allocated_bytes"].as_u64() > Some(0));
        assert!(json["counts"].as_object().is_some_and(|c| c.values().any(|n| n.as_u64() > Some(0))));
        for m in json["mmu"].as_array().unwrap() {
            assert!(m["window_ms"].is_number());
            for clock in ["charged", "wall"] {
                let share = &m[clock];
                assert!(share.is_null() || share.as_f64().is_some_and(|x| (0.0..=1.0).contains(&x)), "{m}");
            }
        }
    }
}

#[test]
fn any_folder_is_indexed_or_skipped_with_its_reason() {
    let dir = Scratch::new("folder");
    std::fs::write(dir.0.join("a.txt"), "one two two").unwrap();
    std::fs::write(dir.0.join("latin.txt"), b"caf\xe9").unwrap();
    std::fs::write(dir.0.join("image"), b"\0\0\0").unwrap();
    std::fs::write(dir.0.join("empty"), b"").unwrap();
    std::os::unix::fs::symlink(&dir.0, dir.0.join("loop")).unwrap();
    std::fs::create_dir(dir.0.join(".git")).unwrap();
    let input = dir.0.to_str().unwrap();
    let json = verified(&["--heap", "8M", "--input", input, "-v"]);
    let facts = &json["input"];
    assert_eq!((&facts["files_indexed"], &facts["terms"]), (&2.into(), &3.into()), "{facts}");
    assert_eq!(facts["files_invalid_utf8"], 1);
    for why in ["binary", "empty", "symbolic links", "version control directories"] {
        assert_eq!(facts["files_skipped"][why], 1, "{why}: {facts}");
    }
    let out = output(&["run", "--seconds", "0.2", "--heap", "8M", "--input", input, "-v"]);
    for line in ["skipped (binary): ", "/image", "indexed as bytes (not valid UTF-8): ", "/latin.txt"] {
        assert!(text(&out.stderr).contains(line), "{line}: {}", text(&out.stderr));
    }
}

#[test]
fn the_checksum_of_a_folder_is_the_same_however_long_and_by_how_many() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let sums: Vec<Value> = [["0.5", "1"], ["1", "2"], ["1.5", "4"]]
        .iter()
        .map(|[seconds, mutators]| {
            let args = ["--heap", "24M", "--input", source, "--seconds", seconds, "--mutators", mutators];
            let json = verified(&args);
            assert!(json["counts"]["rounds"].as_u64() > Some(0), "{json:#}");
            json["checksum"].clone()
        })
        .collect();
    assert!(sums.iter().all(|sum| *sum == sums[0]) && sums[0] != "0x0000000000000000", "{sums:?}");
}

#[test]
fn an_empty_folder_ends_at_once_with_a_clear_result() {
    let dir = Scratch::new("nothing");
    for mutators in ["1", "2"] {
        let args = ["run", "--seconds", "3600", "--heap", "8M", "--mutators", mutators, "--input"];
        let out = output(&[&args[..], &[dir.0.to_str().unwrap()]].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        let summary = text(&out.stdout);
        let why = format!("nothing to index: no text files below {}", dir.0.display());
        assert!(summary.contains(&why) && summary.contains("verified: nothing was compared"), "{summary}");
    }
}

#[test]
fn a_text_larger_than_the_heap_allows_is_capped_and_still_verified() {
    let dir = Scratch::new("large");
    // Every word is new: the worst that an index can meet.
    for file in 0..4 {
        let words: String = (0..100_000).map(|i| format!("word{file}x{i}\n")).collect();
        std::fs::write(dir.0.join(format!("{file}.txt")), words).unwrap();
    }
    let json = verified(&["--heap", "8M", "--input", dir.0.to_str().unwrap()]);
    let facts = &json["input"];
    assert!(facts["files_cut"].as_u64() > Some(0), "{facts}");
    assert!(facts["files_skipped"]["over the budget"].as_u64() > Some(0), "{facts}");
    assert!(facts["terms"].as_u64() > Some(1000), "{facts}");
}

#[test]
fn a_heap_in_proportion_to_the_contract_follows_from_what_was_measured() {
    let args = ["--workload", "contract", "--live", "2M", "--alloc-rate", "4M", "--heap-factor", "4"];
    let json = verified(&args);
    let of = |name: &str| json["input"]["calibration"][name].as_f64().unwrap();
    let (m, a) = (of("live_bytes"), of("cycle_allocation_bytes"));
    assert!((1.8..2.2).contains(&(m / f64::from(1 << 20))), "{json:#}");
    assert!(of("allocation_bytes_per_second") >= f64::from(4 << 20), "{json:#}");
    // T and A by the definitions, from the rates; then H.
    let t = m / of("trace_bytes_per_second") + of("enough_heap_bytes") / of("sweep_bytes_per_second");
    assert!((t * 1e3 - of("cycle_ms")).abs() < 1e-3, "{t} s: {json:#}");
    assert!((of("allocation_bytes_per_second") * t * 7.0 / 3.0 - a).abs() < 100.0, "{json:#}");
    let enough = 1.12 * (m + 2.0 * a);
    assert!((of("enough_heap_bytes") - enough).abs() < 1000.0, "{enough}: {json:#}");
    let heap = json["heap_bytes"].as_f64().unwrap();
    assert!((heap - 4.0 * of("enough_heap_bytes")).abs() <= 65_536.0, "{json:#}");
    // So large a heap cannot fill up in this time at this rate, even if no cycle runs.
    assert_eq!((&json["failed_allocations"], &json["synchronous_collections"]), (&0.into(), &0.into()));
}

#[test]
fn a_heap_below_the_contract_does_what_its_mode_says_and_names_one_that_is_enough() {
    for mode in ["degrade", "synchronous", "fail"] {
        let args = ["--workload", "contract", "--live", "4M", "--alloc-rate", "4G", "--heap", "6M"];
        let args = [&args[..], &["--exhaustion", mode, "--seconds", "2"]].concat();
        // On a busy machine the program may get too little of it to be short of memory.
        let short = |json: &Value| match mode {
            "degrade" => json["departures"].as_u64() > Some(0),
            "synchronous" => json["synchronous_collections"].as_u64() > Some(0),
            _ => json["counts"]["allocation errors"].as_u64() > Some(0),
        };
        let json = (0..ATTEMPTS).map(|_| verified(&args)).find(short);
        let json = json.unwrap_or_else(|| panic!("{mode}: memory was never short"));
        let n = |name: &str| json[name].as_u64().unwrap();
        let reasons: Vec<&str> =
            json["departure_reasons"].as_object().unwrap().keys().map(|k| &k[..]).collect();
        assert_eq!(n("synchronous_collections") > 0, mode == "synchronous", "{mode}: {json:#}");
        assert_eq!(n("departures") > 0, mode != "fail", "{mode}: {json:#}");
        assert_eq!(reasons.is_empty(), mode == "fail", "{mode}: {reasons:?}");
        assert!(reasons.iter().all(|r| ["headroom low", "out of memory"].contains(r)), "{reasons:?}");
        let why = json["synchronous_reasons"].as_object().unwrap();
        assert_eq!(why.contains_key("out of memory"), mode == "synchronous", "{mode}: {why:?}");
        assert!(n("enough_heap_bytes") > n("heap_bytes"), "{mode}: {json:#}");
        assert_eq!(
            json["counts"]["allocation errors"].as_u64() > Some(0),
            mode == "fail",
            "{mode}: {json:#}"
        );
    }
}

#[test]
fn later_settings_win_over_earlier_ones() {
    let dir = Scratch::new("precedence");
    std::fs::write(dir.0.join("c.toml"), "heap = '9M'\nwindow = '20ms'\nquantum = '300us'\n").unwrap();
    let config = dir.path("c.toml");
    let json = dir.path("out.json");
    let args = ["run", "--workload", "trees", "--seconds", "0.2", "--config", &config, "--json", &json];
    let out = metronome(&args)
        .args(["--quantum", "250us"])
        .env("METRONOME_QUANTUM", "400us")
        .env("METRONOME_WINDOW", "30ms")
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let json: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let get = |name: &str| json["config"][name].as_str().unwrap().to_owned();
    assert_eq!((get("heap"), get("window"), get("quantum")), ("9M".into(), "30ms".into(), "250us".into()));
    assert_eq!(get("beat"), "500us");
}

#[test]
fn verbose_logs_of_both_generations_are_written() {
    let dir = Scratch::new("verbose");
    for (format, mark) in [("2007", "<verbosegc"), ("openj9", "<verbosegc")] {
        let log = dir.path(format);
        verified(&["--workload", "trees", "--heap", "8M", "--verbose-gc", &log, "--verbose-format", format]);
        let written = std::fs::read_to_string(&log).unwrap();
        assert!(written.contains(mark) && written.trim_end().ends_with("</verbosegc>"), "{format}");
    }
}

#[test]
fn a_straggler_is_named() {
    // Silent nine tenths of the time, over many cycles: some stop must meet it.
    let args = ["--workload", "trees", "--heap", "8M", "--straggler", "900", "--seconds", "3"];
    let json = verified(&args);
    let named = json["stragglers"].as_array().unwrap().iter().any(|s| s["name"] == "straggler-0");
    assert!(named && json["stops_cancelled"].as_u64() > Some(0), "{json:#}");
}

#[test]
fn bad_input_ends_with_status_2_and_one_line_that_says_what_to_do() {
    let dir = Scratch::new("bad");
    let toml = dir.path("bad.toml");
    std::fs::write(&toml, "heap = '256M'\nbeta = 3\n").unwrap();
    let (fresh, fresh_again) = (dir.path("fresh"), dir.path("./fresh"));
    let good = dir.path("good.toml");
    std::fs::write(&good, "heap = '64M'\n").unwrap();
    let (link, fifo, huge) = (dir.path("link"), dir.path("fifo"), dir.path("huge"));
    std::os::unix::fs::symlink("good.toml", &link).unwrap();
    nix::unistd::mkfifo(fifo.as_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::fs::write(&huge, " ".repeat((1 << 20) + 1)).unwrap();
    let (absent, inside) = (dir.path("absent"), dir.path("absent/out"));
    for (args, word) in [
        (&["--heap", "fast"][..], "size"),
        (&["--heap", "1k"], "1M"),
        (&["--heap", "99999999T"], "range"),
        (&["--heap"], "value"),
        (&["--heap", "64M", "--heap", "32M"], "multiple"),
        (&["--quantum", "500"], "unit"),
        (&["--quantum", "9ms"], "quantum to at most"),
        (&["--target-utilization", "100"], "1..=99"),
        (&["--target-utilization", "-1"], "percentage"),
        (&["--window", "0ms"], "1ms"),
        (&["--beat", "50ms"], "beat"),
        (&["--spread", "wide"], "eager"),
        (&["--exhaustion", "panic"], "degrade"),
        (&["--prefault", "perhaps"], "true or false"),
        (&["--gc-priority", "50"], "alarm-priority"),
        (&["--seconds", "0"], "0.1"),
        (&["--seconds", "-3"], "-3"),
        (&["--seconds", "soon"], "seconds"),
        (&["--mutators", "0"], "1..=256"),
        (&["--mutators", "many"], "many"),
        (&["--max-mutators", "2"], "--max-mutators"),
        (&["--workload", "chess"], "index"),
        (&["--workload", "churn", "--live", "1G"], "--heap"),
        (&["--workload", "trees", "--live", "1G"], "--heap"),
        (&["--workload", "contract", "--live", "1G"], "--heap"),
        (&["--workload", "contract", "--heap-factor", "0"], "0.05"),
        (&["--workload", "contract", "--heap-factor", "two"], "factor"),
        (&["--workload", "contract", "--heap-factor", "1", "--heap", "64M"], "cannot be used with"),
        (&["--live", "12 parsecs"], "size"),
        (&["--verbose-format", "2019"], "openj9"),
        (&["--verbose-gc", &inside, "--workload", "trees"], "verbose-gc"),
        (&["--json", &inside, "--workload", "trees"], "--json"),
        (&["--config", &absent], "absent"),
        (&["--config", &toml], "beat"),
        (&["--input", &absent], "directory"),
        (&["--input", &toml], "directory"),
        (&["--quantm", "1ms"], "--quantum"),
        (&["stray"], "stray"),
        (&["--straggler", "10001"], "10000"),
        (&["--verbose-gc", "-"], "needs a file"),
        (&["--json", &fresh, "--verbose-gc", &fresh_again], "same file"),
        (&["--json", &good, "--config", &good], "same file"),
        (&["--verbose-gc", &link, "--config", &good], "same file"),
        (&["--config", &fifo], "regular"),
        (&["--config", "/dev/zero"], "regular"),
        (&["--config", &huge], "1048577 bytes"),
        (&["--seconds", "a\nb"], "seconds"),
    ] {
        let out = output(&[&["run"], args].concat());
        let err = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {err}");
        assert_eq!(err.trim_end().lines().count(), 1, "{args:?}: {err}");
        assert!(err.contains(word), "{args:?} should mention {word:?}: {err}");
        assert!(out.stdout.is_empty(), "{args:?}");
    }
    for args in [&[][..], &["fly"], &["--fast"], &["check", "--seconds", "0"], &["options", "x"]] {
        let out = output(args);
        assert_eq!((out.status.code(), text(&out.stderr).lines().count()), (Some(2), 1), "{args:?}");
    }
    let out = metronome(&["run"]).env("METRONOME_HEEP", "1M").output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("METRONOME_HEAP"));
    for (name, value, word) in [
        ("METRONOME_SECONDS", "3", "--seconds"),
        ("METRONOME_ALLOC_RATE", "3", "--alloc-rate"),
        ("METRONOME_VERIFY", "satb", "snapshot"),
    ] {
        let out = metronome(&["run"]).env(name, value).output().unwrap();
        assert_eq!((out.status.code(), text(&out.stderr).lines().count()), (Some(2), 1), "{name}");
        assert!(text(&out.stderr).contains(word), "{}", text(&out.stderr));
    }
    std::fs::write(&toml, "mutators = 3\n").unwrap();
    let out = output(&["run", "--config", &toml]);
    assert!(text(&out.stderr).contains("line 1") && text(&out.stderr).contains("--mutators"));
    assert_eq!(std::fs::read_to_string(&toml).unwrap(), "mutators = 3\n", "no run has written to it");
}

#[test]
fn a_heap_that_is_too_small_ends_with_status_1_and_a_size_that_works() {
    let args = ["run", "--workload", "churn", "--heap", "4M", "--live", "3800k", "--memory-wait", "100ms"];
    let out = output(&[&args[..], &["--seconds", "1"]].concat());
    let err = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{err}");
    let advice = err
        .split("set --heap to ")
        .nth(1)
        .and_then(|s| s.split(' ').next())
        .unwrap_or_else(|| panic!("{err}"));
    assert!(text(&out.stdout).contains("verified: false"));
    verified(&["--workload", "churn", "--live", "3800k", "--heap", advice]);
}

#[test]
fn many_threads_without_memory_are_told_once() {
    let args = ["run", "--workload", "churn", "--heap", "2M", "--mutators", "8", "--memory-wait", "100ms"];
    let mut errors = (0..ATTEMPTS).map(|_| {
        let out = output(&[&args[..], &["--seconds", "1"]].concat());
        let err = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{err}");
        assert_eq!(err.matches("set --heap to ").count(), 1, "{err}");
        err
    });
    // On a busy machine the first may fail before others have begun.
    let err = errors.find(|e| e.contains("more threads: ")).expect("several threads without memory");
    let advice = err.split("set --heap to ").nth(1).and_then(|s| s.split(' ').next()).unwrap();
    verified(&["--workload", "churn", "--mutators", "8", "--heap", advice]);
}

#[test]
fn results_are_kept_when_the_summary_cannot_be_printed() {
    let dir = Scratch::new("full");
    let json = dir.path("out.json");
    std::fs::write(&json, "of an older run").unwrap();
    let args = ["run", "--workload", "trees", "--heap", "8M", "--seconds", "0.2", "--json", &json];
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let out =
        metronome(&args).stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("standard output"), "{}", text(&out.stderr));
    let written: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(written["verified"], true);
    assert_eq!(std::fs::read_dir(&dir.0).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn results_go_to_pipes_too_but_not_into_the_summary() {
    let dir = Scratch::new("pipe");
    let args = ["run", "--workload", "trees", "--heap", "8M", "--seconds", "0.2", "--json"];
    // Standard error is a pipe here, which has no name in any folder.
    let out = output(&[&args[..], &["/dev/stderr"]].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let json: Value = serde_json::from_slice(&out.stderr).unwrap();
    assert_eq!(json["verified"], true);
    let both = dir.path("both");
    let file = std::fs::File::create(&both).unwrap();
    let child = metronome(&args).arg(&both).stdout(file).stderr(Stdio::piped()).spawn().unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("standard output and --json name the same file"));
}

#[test]
fn a_verbose_log_that_meets_the_file_size_limit_is_told_and_ends_nothing() {
    let dir = Scratch::new("limit");
    let log = dir.path("gc.log");
    // One block of 512 or 1024 bytes: not even the log's header.
    let line = "ulimit -f 1; exec \"$0\" \"$@\"";
    let bin = env!("CARGO_BIN_EXE_metronome");
    let args =
        ["run", "--workload", "trees", "--heap", "8M", "--seconds", "1", "--json", "-", "--verbose-gc", &log];
    let out = Command::new("sh").args(["-c", line, bin]).args(args).output().unwrap();
    let err = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{err}");
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(json["verbose_log_error"].is_string() && json["verified"] == true, "{json:#}");
    assert!(err.contains("verbose log ") && err.contains("log is not complete"), "{err}");
}

#[test]
fn help_version_options_and_a_closed_pipe() {
    for args in [&["--help"][..], &["run", "--help"], &["--version"], &["options"], &["check", "--help"]] {
        let out = output(args);
        assert!(out.status.success() && out.stderr.is_empty() && !out.stdout.is_empty(), "{args:?}");
    }
    assert!(text(&output(&["options"]).stdout).contains("| `target-utilization` |"));
    assert!(text(&output(&["options"]).stdout).contains("| `METRONOME_VERIFY` |"));
    assert!(text(&output(&["run", "--help"]).stdout).contains("--verify <CHECKS>"));
    for args in [&["options"][..], &["run", "--workload", "trees", "--heap", "8M", "--seconds", "0.2"]] {
        let mut child = metronome(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The reader is gone before anything is written.
        drop(child.stdout.take());
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success() && !text(&out.stderr).contains("panicked"), "{}", text(&out.stderr));
    }
}

#[test]
fn a_signal_ends_the_run_early_with_its_summary_and_its_status() {
    use nix::sys::signal::{Signal, kill};
    // The straggler's bout does not hold up the end.
    let args = ["run", "--workload", "trees", "--heap", "16M", "--seconds", "3600", "--json", "-"];
    for (signal, status) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let mut command = metronome(&args);
        command.args(["--straggler", "1000"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        // Until it catches the last of the signals: before, it would just end.
        let path = format!("/proc/{pid}/status");
        let catches = || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let mask = text.lines().find_map(|l| l.strip_prefix("SigCgt:\t")).unwrap_or("0").to_owned();
            u64::from_str_radix(&mask, 16).unwrap_or(0) & 1 << (libc::SIGHUP - 1) != 0
        };
        while !catches() {
            std::thread::yield_now();
        }
        kill(pid, signal).unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(status), "{}", text(&out.stderr));
        let json: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!((&json["interrupted"], &json["verified"]), (&true.into(), &true.into()), "{json:#}");
    }
}

#[test]
fn verification_is_an_option_and_its_figure_is_shown() {
    let args = ["run", "--workload", "trees", "--heap", "8M", "--seconds", "0.5", "--verify", "all"];
    let out = output(&[&args[..], &["--json", "-"]].concat());
    let err = text(&out.stderr);
    assert!(out.status.success(), "{err}");
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    let (cycles, floating) = (json["cycles"].as_u64().unwrap(), &json["floating"]);
    // One may end between the readings of the two counts.
    assert!(floating["cycles"].as_u64().unwrap_or(0).abs_diff(cycles) <= 1, "{json:#}");
    assert!(cycles <= 1 || floating["total"]["bytes"].is_u64(), "{json:#}");
    assert_eq!(json["config"]["verify"], "all");
    assert_eq!(json["verified_cycles"], json["cycles"]);
    // More cycles are asked for than there will be: that nothing was verified is said.
    let rare = [&args[..8], &["all,every=4294967295"]].concat();
    let summary = text(&output(&rare).stdout);
    let said = "cycles (all,every=4294967295)";
    assert!(summary.contains("verified in 0 of ") && summary.contains(said), "{summary}");
    let quiet = metronome(&args).env("METRONOME_VERIFY", "satb").output().unwrap();
    assert_eq!(
        quiet.status.code(),
        Some(2),
        "a malformed variable is an error, also where a flag replaces it"
    );
}
