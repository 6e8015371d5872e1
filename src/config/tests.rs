use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::*;

/// For each option a value that is not the default, and three that are refused.
fn samples() -> Vec<(&'static str, &'static str, [&'static str; 3])> {
    vec![
        ("heap", "64M", ["1048575", "2T", "lots"]),
        ("target-utilization", "85", ["0", "100", "70.5"]),
        ("window", "20ms", ["999999ns", "10.000000001s", "10"]),
        ("quantum", "250us", ["49999ns", "101ms", "1.5"]),
        ("beat", "1ms", ["99us", "1s", "fast"]),
        ("spread", "even", ["", "odd", "1"]),
        ("exhaustion", "fail", ["panic", "true", ""]),
        ("trigger", "50%", ["50", "0%", "100%"]),
        ("stop-budget", "200us", ["9us", "1s", "none"]),
        ("resume-margin", "25us", ["999ns", "11ms", "-1us"]),
        ("fragmentation", "0", ["101", "-1", "12.5"]),
        ("memory-wait", "250ms", ["0ns", "3601s", "forever"]),
        ("verbose-gc", "logs/gc 1.xml", ["\0", "a\0b", "\0\0"]),
        ("verbose-format", "2007", ["2006", "json", ""]),
        ("verbose-interval", "100ms", ["9ms", "3601s", ""]),
        ("gc-priority", "0", ["100", "-1", "high"]),
        ("alarm-priority", "99", ["100", "256", "1.0.0"]),
        ("gc-threads", "2", ["0", "65", "none"]),
        ("concurrent", "false", ["2", "", "maybe"]),
        ("gc-cpu", "1", ["1024", "auto", ""]),
        ("alarm-cpu", "0", ["99999999999999999999", "all", "0,1"]),
        ("boost", "false", ["2", "", "maybe"]),
        ("suppress-idle-ticks", "true", ["2", "", "maybe"]),
        ("prefault", "true", ["2", "", "maybe"]),
        ("lock-memory", "true", ["2", "", "maybe"]),
        ("huge-pages", "true", ["2", "", "maybe"]),
        ("log-buffers", "4", ["3", "1048577", "1k"]),
        ("max-mutators", "65536", ["0", "65537", "4294967297"]),
        ("event-ring", "64", ["63", "16777217", "8k"]),
        ("cycle-interval", "5s", ["1us", "86401s", "auto"]),
        ("initial-heap", "16M", ["1048575", "2T", "none"]),
        ("idle-trim", "1s", ["9ms", "86401s", "auto"]),
        ("immortal", "64k", ["65G", "-1", "none"]),
        ("soft-age", "0", ["1000001", "-1", "old"]),
        ("finalizer-backlog", "5", ["0", "2147483649", "many"]),
        ("finalizer-watchdog", "none", ["9ms", "86401s", "auto"]),
        ("finalizer-drain", "500ms", ["999us", "3601s", "auto"]),
        ("external-memory", "64M", ["1023", "1025T", "none"]),
        ("memory-watch", "false", ["2", "", "maybe"]),
        ("memory-low", "10", ["91", "-1", "low"]),
        ("headroom-low", "20", ["91", "-1", "low"]),
        ("report-blocked", "true", ["2", "", "maybe"]),
        ("verify", "heap,remark,every=10", ["satb", "heap,every=0", "2"]),
        ("stress", "steps=random,seed=7", ["", "steps=0", "pace=1"]),
    ]
}

#[test]
fn every_option_has_a_sample_and_names_are_unique_and_systematic() {
    let names: Vec<_> = OPTIONS.iter().map(|spec| spec.name).collect();
    let sampled: Vec<_> = samples().iter().map(|sample| sample.0).collect();
    assert_eq!(names, sampled);
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    for spec in OPTIONS {
        assert_eq!(spec.env, format!("{ENV_PREFIX}{}", spec.name.to_uppercase().replace('-', "_")));
        assert!(!FOREIGN_VARIABLES.contains(&spec.env));
        assert!(spec.doc.ends_with('.') && !spec.doc.contains('\n'), "{}", spec.name);
    }
}

#[test]
fn table_defaults_are_the_structs_defaults_and_read_back() {
    let mut config = Config::default();
    for spec in OPTIONS {
        assert_eq!(config.get(spec.name), spec.default, "{}", spec.name);
    }
    for spec in OPTIONS {
        config.set(spec.name, spec.default).unwrap();
    }
    assert_eq!(config, Config::default());
    assert_eq!(config.validate(), Ok(()));
}

#[test]
fn every_option_changes_exactly_its_own_value_and_reads_back() {
    for (name, value, _) in samples() {
        let mut config = Config::default();
        config.set(name, value).unwrap();
        assert_ne!(config, Config::default(), "{name}");
        assert_eq!(config.get(name), value, "{name}");
        for spec in OPTIONS.iter().filter(|spec| spec.name != name) {
            assert_eq!(config.get(spec.name), spec.default, "{name} changed {}", spec.name);
        }
        let copy =
            config.pairs().try_fold(Config::default(), |copy, (name, text)| copy.with(name, &text)).unwrap();
        assert_eq!(copy, config);
        config.set(name, OptionSpec::find(name).unwrap().default).unwrap();
        assert_eq!(config, Config::default());
    }
}

#[test]
fn refused_values_change_nothing_and_the_message_is_one_line_with_the_option() {
    for (name, _, refused) in samples() {
        for value in refused {
            let mut config = Config::default();
            let error = config.set(name, value).expect_err(&format!("{name} = {value:?}"));
            assert_eq!(config, Config::default());
            let text = error.to_string();
            assert!(text.contains(name) && !text.contains('\n'), "{text}");
        }
    }
}

/// The range for people and the bounds for the machine: the ends are accepted, their neighbours refused.
#[test]
fn range_texts_say_what_is_enforced() {
    for spec in OPTIONS {
        let text = match spec.absent {
            Some(word) if !word.is_empty() => {
                assert_eq!(Config::default().with(spec.name, word).unwrap().get(spec.name), word);
                spec.range.strip_suffix(&format!(" or {word}")).unwrap()
            }
            _ => spec.range,
        };
        match spec.kind {
            OptionKind::Path | OptionKind::Stress => continue,
            OptionKind::Checks => {
                for word in text.split([' ', ',']).filter(|w| !["", "|", "and", "with", "commas"].contains(w))
                {
                    let value = if word == "every=N" { "heap,every=7" } else { word };
                    assert!(Config::default().set(spec.name, value).is_ok(), "{word}");
                }
            }
            OptionKind::Bool => assert_eq!(text, "true | false"),
            OptionKind::Choice(words) => {
                assert_eq!(text, words.join(" | "));
                for word in words {
                    let config = Config::default().with(spec.name, &word.to_uppercase()).unwrap();
                    assert_eq!(config.get(spec.name), *word);
                }
            }
            _ => {
                let (low, high) = text.split_once("..=").unwrap();
                let (min, max) = spec.bounds().unwrap();
                let unit = match spec.kind {
                    OptionKind::Time { .. } => "ns",
                    OptionKind::Trigger { .. } => "%",
                    _ => "",
                };
                for (end, number) in [(low, min), (high, max)] {
                    let by_text = Config::default().with(spec.name, end).unwrap();
                    let by_number = Config::default().with(spec.name, &format!("{number}{unit}")).unwrap();
                    assert_eq!(by_text, by_number, "{}: {end} is not {number}", spec.name);
                }
                let outside = [min.checked_sub(1), max.checked_add(1)];
                for number in outside.into_iter().flatten() {
                    let error = Config::default().with(spec.name, &format!("{number}{unit}")).unwrap_err();
                    assert!(matches!(error, ConfigError::OutOfRange { .. }), "{error}");
                }
            }
        }
    }
}

#[test]
fn too_large_numbers_are_overflows() {
    for (name, value) in
        [("heap", "99999999999999T"), ("window", "99999999999s"), ("log-buffers", "18446744073709551616")]
    {
        assert!(matches!(Config::default().with(name, value), Err(ConfigError::Overflow { .. })), "{name}");
    }
}

#[test]
fn unknown_names_lead_to_the_nearest() {
    for (name, nearest) in [
        ("hep", "heap"),
        ("target_utilisation", "target-utilization"),
        ("QUANTUM", "quantum"),
        ("cpu", "gc-cpu"),
    ] {
        let expected = ConfigError::UnknownOption { name: name.into(), nearest };
        assert_eq!(Config::default().set(name, "1"), Err(expected));
    }
    assert_eq!(Config::default().get("hep"), "");
}

#[test]
fn flags_of_the_command_are_told_from_misspelt_options() {
    let flag_of_run = |name: &str, flag| ConfigError::FlagOfRun { name: name.into(), flag };
    assert_eq!(Config::default().set("alloc-rate", "1"), Err(flag_of_run("alloc-rate", "alloc-rate")));
    let error = Config::default().merge_env([("METRONOME_ALLOC_RATE", "1")]).unwrap_err();
    assert_eq!(error, flag_of_run("METRONOME_ALLOC_RATE", "alloc-rate"));
    let error = Config::from_toml("heap = '64M'\nseconds = 3").unwrap_err();
    assert!(error.to_string().contains("line 2") && error.to_string().contains("--seconds"), "{error}");
    assert_eq!(error.innermost(), &flag_of_run("seconds", "seconds"));
}

#[test]
fn environment_sets_options_and_refuses_misspelt_ones() {
    let mut config = Config::default();
    let variables = [
        ("METRONOME_HEAP", "1G"),
        ("PATH", "/bin"),
        ("METRONOME_SEED", "7"),
        ("METRONOME_VERIFY", "1"),
        ("METRONOME_SPREAD", "even"),
    ];
    config.merge_env(variables).unwrap();
    assert_eq!(
        config,
        Config { heap: 1 << 30, spread: Spread::Even, verify: Some(Verify::HEAP), ..Config::default() }
    );

    // Empty is not set: what a file has set stays.
    let before = config.clone();
    let named = Config { verbose_gc: Some("gc.xml".into()), ..before.clone() };
    let mut emptied = named.clone();
    let all_but_paths = OPTIONS.iter().filter(|spec| spec.kind != OptionKind::Path);
    emptied.merge_env(all_but_paths.flat_map(|spec| [(spec.env, ""), (spec.env, " ")])).unwrap();
    assert_eq!(emptied, named);
    emptied.merge_env([("METRONOME_VERBOSE_GC", "")]).unwrap();
    assert_eq!(emptied, before, "the empty text is no file");
    let error = config.merge_env([("METRONOME_QUANTUN", "")]).unwrap_err();
    assert!(matches!(error, ConfigError::UnknownVariable { .. }), "{error}");

    let error = config.merge_env([("METRONOME_HEAP", "2G"), ("METRONOME_QUANTUN", "1ms")]).unwrap_err();
    let expected =
        ConfigError::UnknownVariable { variable: "METRONOME_QUANTUN".into(), nearest: "METRONOME_QUANTUM" };
    assert_eq!((error, &config), (expected, &before));

    let error = config.merge_env([(String::from("METRONOME_BEAT"), String::from("soon"))]).unwrap_err();
    assert!(error.to_string().starts_with("METRONOME_BEAT: beat = \"soon\""), "{error}");
    assert_eq!(config, before);
}

#[test]
fn the_process_environment_may_hold_anything_elsewhere() {
    let garbage = || OsString::from_vec(vec![0xff, b'x']);
    let mut config = Config::default();
    let variables = vec![
        (OsString::from("METRONOME_HEAP"), OsString::from("2M")),
        (OsString::from("OTHER"), garbage()),
        (garbage(), garbage()),
    ];
    config.merge_os_env(variables.into_iter()).unwrap();
    assert_eq!(config.heap, 2 << 20);
    let error = config.merge_os_env([(OsString::from("METRONOME_HEAP"), garbage())].into_iter()).unwrap_err();
    assert_eq!(error, ConfigError::NotUnicode { variable: "METRONOME_HEAP".into() });
}

#[test]
fn toml_takes_strings_numbers_and_booleans() {
    let text = "heap = '64M'\n\n# comment\ntarget-utilization = 80\nprefault = true\nverbose-gc = \"gc.xml\"\ngc-cpu = 1\n";
    let expected = Config {
        heap: 64 << 20,
        target_utilization: 80,
        prefault: true,
        verbose_gc: Some("gc.xml".into()),
        gc_cpu: Some(1),
        ..Config::default()
    };
    assert_eq!(Config::from_toml(text), Ok(expected));
    assert_eq!(Config::from_toml(""), Ok(Config::default()));
}

#[test]
fn toml_errors_have_their_line_and_change_nothing() {
    for (text, line, word) in [
        ("heap = '1G'\nbeat = '1h'", 2, "beat"),
        ("heap = '1G'\n\nwindw = '10ms'", 3, "window"),
        ("heap = \n", 1, ""),
        ("heap = '1G'\nheap = '2G'\n", 2, "duplicate"),
        ("heap = '1G'\nquantum = 500", 2, "unit"),
        ("heap = '1G'\n[window]\nsize = 3\n", 2, "window"),
        ("heap = '1G'\nspread = ['even']\n", 2, "spread"),
        ("target-utilization = 70.5", 1, "target-utilization"),
        ("fragmentation = -3", 1, "fragmentation"),
    ] {
        let mut config = Config::default();
        let error = config.merge_toml(text).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(&format!("line {line}")), "{message} for {text:?}");
        assert!(message.contains(word) && !message.contains('\n'), "{message}");
        assert_eq!(config, Config::default());
    }
}

#[test]
fn toml_files_are_named_in_errors() {
    let directory = std::env::temp_dir().join(format!("metronome-config-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("metronome.toml");
    let mut config = Config::default();
    let error = config.merge_toml_file(&path).unwrap_err();
    assert!(matches!(&error, ConfigError::File { path: of, .. } if *of == path), "{error}");

    std::fs::write(&path, "window = '20ms'\nbeat = 'x'\n").unwrap();
    let error = config.merge_toml_file(&path).unwrap_err();
    assert!(error.to_string().contains("metronome.toml: line 2: beat"), "{error}");
    assert!(matches!(error.innermost(), ConfigError::BadValue { option: "beat", .. }));
    assert_eq!(config, Config::default());

    for (bad, word) in [(&directory, "regular"), (&std::path::PathBuf::from("/dev/zero"), "regular")] {
        let error = config.merge_toml_file(bad).unwrap_err();
        assert!(matches!(&error, ConfigError::File { reason, .. } if reason.contains(word)), "{error}");
    }
    std::fs::write(&path, " ".repeat((1 << 20) + 1)).unwrap();
    let error = config.merge_toml_file(&path).unwrap_err();
    assert!(
        matches!(&error, ConfigError::File { reason, .. } if reason.contains("1048577 bytes")),
        "{error}"
    );
    std::fs::write(&path, " ".repeat(1 << 20)).unwrap();
    config.merge_toml_file(&path).unwrap();

    std::fs::write(&path, "window = '20ms'\n").unwrap();
    config.merge_toml_file(&path).unwrap();
    assert_eq!(config, Config { window_ns: 20_000_000, ..Config::default() });
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn serde_round_trips_through_toml() {
    let config = samples()
        .iter()
        .try_fold(Config::default(), |config, (name, value, _)| config.with(name, value))
        .unwrap();
    let text = toml::to_string(&config).unwrap();
    assert_eq!(text.lines().count(), OPTIONS.len());
    assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
    assert_eq!(Config::from_toml(&text), Ok(config));
    assert_eq!(
        toml::from_str::<Config>("target-utilization = 55\nprefault = true").unwrap().target_utilization,
        55
    );
    assert!(
        toml::from_str::<Config>("heap = [1]")
            .unwrap_err()
            .to_string()
            .contains("a string, a number or a boolean")
    );
    assert!(toml::from_str::<Config>("hepa = 1").unwrap_err().to_string().contains("did you mean \"heap\""));
}

fn infeasible(change: impl FnOnce(&mut Config)) -> (&'static str, String) {
    let mut config = Config::default();
    change(&mut config);
    match config.validate() {
        Err(error @ ConfigError::Infeasible { .. }) => {
            let text = error.to_string();
            assert!(!text.contains('\n'), "{text}");
            let ConfigError::Infeasible { inequality, .. } = error else { unreachable!() };
            (inequality, text)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn infeasible_combinations_name_inequality_numbers_and_remedy() {
    let (inequality, text) = infeasible(|config| config.quantum_ns = 4_000_000);
    assert_eq!(inequality, "quantum <= window * (100 - target-utilization) / 100");
    for part in [
        "4ms > 10ms * 30 / 100 = 3ms",
        "quantum to at most 3ms",
        "target-utilization to at most 60",
        "at least 13333334ns",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let (_, text) = infeasible(|config| (config.window_ns, config.target_utilization) = (1_000_000, 99));
    // 10us of allowance is no quantum that could be set.
    assert!(
        !text.contains("quantum to at most") && text.contains("target-utilization to at most 50"),
        "{text}"
    );

    let (inequality, text) = infeasible(|config| config.beat_ns = 20_000_000);
    assert!(
        inequality == "beat <= window"
            && text.contains("20ms > 10ms")
            && text.contains("beat to at most 10ms"),
        "{text}"
    );

    let (inequality, text) = infeasible(|config| config.stop_budget_ns = Some(600_000));
    assert!(inequality == "stop-budget <= quantum" && text.contains("at most 500us"), "{text}");

    let (inequality, text) = infeasible(|config| config.resume_margin_ns = Some(500_000));
    assert!(inequality == "resume-margin < quantum" && text.contains("at most 499999ns"), "{text}");

    let (inequality, text) = infeasible(|config| config.gc_priority = 11);
    assert!(inequality == "alarm-priority > gc-priority" && text.contains("at least 12"), "{text}");
    let (_, text) = infeasible(|config| (config.gc_priority, config.alarm_priority) = (99, 99));
    assert!(text.contains("gc-priority to at most 98"), "{text}");

    let (inequality, text) = infeasible(|config| (config.heap, config.huge_pages) = (1 << 20, true));
    assert!(inequality == "heap >= one huge page" && text.contains("at least 2M"), "{text}");
}

/// The nearest values of the first remedy work, and one step further does not.
#[test]
fn proposed_values_are_the_nearest_that_work() {
    for (window_ns, target_utilization) in
        [(10_000_000, 70), (9_999_999, 67), (1_000_003, 50), (10_000_000_000, 99)]
    {
        let base = Config {
            window_ns,
            target_utilization,
            quantum_ns: 50_000,
            beat_ns: 100_000,
            ..Config::default()
        };
        let allowance = window_ns * (100 - u64::from(target_utilization)) / 100;
        assert_eq!(base.allowance_ns(), allowance);
        let quantum_ns = allowance.min(100_000_000);
        assert_eq!(Config { quantum_ns, ..base.clone() }.validate(), Ok(()));
        if quantum_ns == allowance && allowance < 100_000_000 {
            let error = Config { quantum_ns: allowance + 1, ..base.clone() }.validate().unwrap_err();
            let ConfigError::Infeasible { remedy, .. } = &error else { panic!("{error}") };
            let value = |after: &str| {
                let text = remedy.split(after).nth(1)?.split(',').next()?;
                Some(text.to_owned())
            };
            let works = |name: &str, text: &str| {
                let config = Config { quantum_ns: allowance + 1, ..base.clone() };
                config.with(name, text).unwrap().validate()
            };
            assert_eq!(works("quantum", &value("quantum to at most ").unwrap()), Ok(()));
            let target: u32 = value("target-utilization to at most ").unwrap().parse().unwrap();
            assert_eq!(works("target-utilization", &target.to_string()), Ok(()));
            assert!(works("target-utilization", &(target + 1).to_string()).is_err());
            if let Some(window) = value("window to at least ") {
                assert_eq!(works("window", &window), Ok(()));
                let shorter = Config::default().with("window", &window).unwrap().window_ns - 1;
                assert!(works("window", &format!("{shorter}ns")).is_err());
            }
        }
    }
}

#[test]
fn fields_set_by_hand_are_checked_too() {
    for (config, option) in [
        (Config { heap: 0, ..Config::default() }, "heap"),
        (Config { target_utilization: 100, ..Config::default() }, "target-utilization"),
        (Config { window_ns: u64::MAX, ..Config::default() }, "window"),
        (Config { quantum_ns: 0, ..Config::default() }, "quantum"),
        (Config { gc_priority: 100, ..Config::default() }, "gc-priority"),
        (Config { trigger: TriggerMode::Static { percent: 0 }, ..Config::default() }, "trigger"),
        (Config { cycle_interval_ns: Some(0), ..Config::default() }, "cycle-interval"),
        (Config { event_ring: 1, ..Config::default() }, "event-ring"),
    ] {
        match config.validate() {
            Err(ConfigError::OutOfRange { option: found, .. }) => assert_eq!(found, option),
            other => panic!("{option}: {other:?}"),
        }
    }
}

#[test]
fn feasible_edges_are_accepted() {
    let edges = [
        Config { quantum_ns: 3_000_000, ..Config::default() },
        Config { beat_ns: 10_000_000, ..Config::default() },
        Config { stop_budget_ns: Some(500_000), resume_margin_ns: Some(499_999), ..Config::default() },
        Config { gc_priority: 0, alarm_priority: 5, ..Config::default() },
        Config { gc_priority: 50, alarm_priority: 0, ..Config::default() },
        Config { heap: 1 << 20, ..Config::default() },
        Config { heap: 2 << 20, huge_pages: true, ..Config::default() },
    ];
    for config in edges {
        assert_eq!(config.validate(), Ok(()), "{config:?}");
    }
}

#[test]
fn automatic_values_follow_the_quantum() {
    for (quantum_ns, margin) in [(50_000, 10_000), (500_000, 50_000), (2_000_000, 100_000)] {
        let config = Config { quantum_ns, ..Config::default() };
        assert_eq!(
            (config.effective_stop_budget_ns(), config.effective_resume_margin_ns()),
            (quantum_ns, margin)
        );
    }
    let set = Config { stop_budget_ns: Some(70_000), resume_margin_ns: Some(5_000), ..Config::default() };
    assert_eq!((set.effective_stop_budget_ns(), set.effective_resume_margin_ns()), (70_000, 5_000));
}

#[test]
fn the_markdown_table_has_one_well_formed_row_for_each_option() {
    let text = options_markdown();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), OPTIONS.len() + 2);
    for (line, spec) in lines[2..].iter().zip(OPTIONS) {
        let cells = line.replace("\\|", "").matches('|').count() - 1;
        assert_eq!(cells, 6, "{line}");
        assert!(
            line.starts_with(&format!("| `{}` |", spec.name))
                && line.contains(spec.env)
                && line.contains(spec.default)
        );
    }
}
