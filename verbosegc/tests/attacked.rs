//! Values that cannot be, markup that hides other markup, and files that are no logs of Metronome at all.

use metronome_verbosegc::model::*;
use metronome_verbosegc::reader::{DiagnosticKind, Log, read_log};
use std::fmt::Write as _;
use std::io::BufReader;

const HEADER: &str = r#"<verbosegc xmlns="http://www.ibm.com/j9/verbosegc" version="x">
<initialized id="1" timestamp="2026-01-01T00:00:00.000">
"#;

fn read(text: &str) -> Log {
    // A small buffer: what is put back comes from another one.
    read_log(BufReader::with_capacity(37, text.as_bytes())).unwrap()
}

fn events(log: &Log) -> Vec<&Event> {
    log.runs.iter().flat_map(|r| &r.events).map(|e| &e.event).collect()
}

fn heartbeats(log: &Log) -> Vec<&Heartbeat> {
    let beat = |e: &&Event| matches!(e, Event::Heartbeat(_));
    let all = events(log).into_iter().filter(beat);
    all.map(|e| if let Event::Heartbeat(h) = e { &**h } else { unreachable!() }).collect()
}

#[test]
fn bad_values_of_a_header_are_told_with_their_places() {
    let bad = [
        ("", "maxHeapSize", "0xffffffffffffffffffff"),
        ("", "gcthreads", "-1"),
        ("metronome", "beatsPerMeasure", "-3000"),
        ("metronome", "timeInterval", "NaN"),
        ("metronome", "timeInterval", "18446744073709552"),
        ("metronome", "targetUtilization", "1e400"),
        ("metronome", "targetUtilization", "170"),
        ("metronome", "trigger", "0x"),
    ];
    let mut text = HEADER.to_owned();
    for (section, name, value) in bad {
        let attribute = format!("<attribute name=\"{name}\" value=\"{value}\" />");
        let line = match section {
            "" => format!("  {attribute}\n"),
            s => format!("<{s}>{attribute}</{s}>\n"),
        };
        text.push_str(&line);
    }
    text.push_str(
        "<attribute name=\"maxHeapSize\" value=\"64\" />\n<attribute name=\"maxHeapSize\" value=\"65\" />\n",
    );
    text.push_str("</initialized>\n</verbosegc>\n");
    let log = read(&text);
    assert_eq!(log.diagnostics.len(), bad.len() + 1, "{:#?}", log.diagnostics);
    for (i, (section, name, value)) in bad.iter().enumerate() {
        let d = &log.diagnostics[i];
        let column = if section.is_empty() { 3 } else { section.len() as u64 + 3 };
        assert_eq!((d.line, d.column), (i as u64 + 3, column), "{d}");
        assert!(d.text.contains(&format!("{name}=\"{value}\" is not")), "{d}");
    }
    assert!(log.diagnostics[bad.len()].text.contains("given again"));
    let Event::Initialized(header) = events(&log)[0] else { panic!() };
    assert_eq!((header.heap_max_bytes, header.window_ns, header.target_ppm), (Some(64), None, None));
}

fn beat(id: u64, second: u64, quanta: &str, rest: &str) -> String {
    format!(
        "<gc-op id=\"{id}\" type=\"heartbeat\" contextid=\"2\" timestamp=\"2026-01-01T00:00:{second:02}.000\">\n\
         <quanta {quanta} quantumType=\"mark\" maxTimestampMs=\"0.000\" />\n{rest}</gc-op>\n"
    )
}

#[test]
fn figures_that_cannot_be_are_told_and_left_out() {
    let times = |n: u64, min: &str, mean: &str, max: &str| {
        format!("quantumCount=\"{n}\" minTimeMs=\"{min}\" meanTimeMs=\"{mean}\" maxTimeMs=\"{max}\"")
    };
    let free = |min: u64, mean: u64, max: u64| {
        format!("<free-mem type=\"heap\" minBytes=\"{min}\" meanBytes=\"{mean}\" maxBytes=\"{max}\" />\n")
    };
    // What is wrong, and whether the quanta and the free memory are left.
    let cases = [
        (times(10, "1.000", "2.000", "3.000"), free(1, 2, 3), 0, true, true),
        (times(3, "1.000", "1.000", "1.000"), free(2, 2, 2), 0, true, true),
        // Rounded each by itself.
        (times(2, "1.001", "1.000", "1.001"), free(0, 0, 0), 0, true, true),
        (times(10, "3.000", "2.000", "1.000"), free(1, 2, 3), 1, false, true),
        (times(10, "1.000", "9.000", "3.000"), free(1, 2, 3), 1, false, true),
        (times(10, "1.000", "0.500", "3.000"), free(1, 2, 3), 1, false, true),
        // The mean may be wrong: what was longest is kept.
        (times(2, "0.100", "1.000", "3.000"), free(1, 2, 3), 1, true, true),
        (times(0, "1.000", "2.000", "3.000"), free(1, 2, 3), 1, false, true),
        (times(0, "0.000", "0.000", "0.000"), free(1, 2, 3), 0, true, true),
        (times(10, "1.000", "2.000", "3.000"), free(3, 2, 1), 1, true, false),
        // Of free memory the mean is used for nothing, and rounded by some (a log of 2007 has these).
        (times(10, "1.000", "2.000", "3.000"), free(14_570_208, 14_530_069, 14_570_208), 0, true, true),
        (times(10, "1.000", "2.000", "3.000"), free(1, 9, 3), 1, true, true),
    ];
    for (quanta, rest, said, has_quanta, has_free) in cases {
        let body = beat(2, 2, &quanta, &rest);
        let log = read(&format!("{HEADER}</initialized>\n{body}</verbosegc>\n"));
        assert_eq!(log.diagnostics.len(), said, "{body}{:#?}", log.diagnostics);
        assert!(log.diagnostics.iter().all(|d| d.kind == DiagnosticKind::Attributes && d.line > 4));
        let h = heartbeats(&log)[0];
        assert_eq!((h.quantum.is_some(), h.heap_free.is_some()), (has_quanta, has_free), "{body}");
    }
    // 500 quanta of 3 ms do not fit into a second; 333 do.
    for (n, fits) in [(333, true), (500, false)] {
        let quanta = times(n, "3.000", "3.000", "3.000");
        let log = read(&format!(
            "{HEADER}</initialized>\n{}{}</verbosegc>\n",
            beat(2, 2, &quanta, ""),
            beat(3, 3, &quanta, "")
        ));
        let share = heartbeats(&log)[1].collector_share_ppm();
        assert_eq!(
            (share.is_some(), log.diagnostics.is_empty()),
            (fits, fits),
            "{share:?} {:#?}",
            log.diagnostics
        );
    }
    let old = "<gc type=\"heartbeat\" id=\"1\" timestamp=\"Mar 13 15:17:46 2007\" intervalms=\"100.000\">\
               <summary quantumcount=\"400\"><quantum minms=\"1.000\" meanms=\"1.000\" maxms=\"1.000\" /></summary></gc>";
    let log = read(old);
    assert_eq!((heartbeats(&log)[0].interval_ns, heartbeats(&log)[0].collector_share_ppm()), (None, None));
}

#[test]
fn comments_and_character_data_hide_what_is_in_them() {
    let quanta = "quantumCount=\"10\" minTimeMs=\"1.000\" meanTimeMs=\"1.000\" maxTimeMs=\"1.000\"";
    let (first, second) = (beat(2, 2, quanta, ""), beat(3, 3, quanta, ""));
    let hidden = format!("{HEADER}</initialized>\n{}</verbosegc> -- > ]] >\n", beat(9, 9, quanta, ""));
    for (open, close) in [("<!--", "-->"), ("<![CDATA[", "]]>")] {
        let log =
            read(&format!("{HEADER}</initialized>\n{first}{open}{hidden}{close}{second}</verbosegc>\n"));
        assert_eq!(
            (log.runs.len(), heartbeats(&log).len(), log.complete),
            (1, 2, true),
            "{:#?}",
            log.diagnostics
        );
        assert_eq!(log.diagnostics.len(), 1, "{:#?}", log.diagnostics);
        assert!(log.diagnostics[0].text.starts_with(&format!("markup {open}<verbosegc")));
        // Lines go on being counted.
        assert_eq!(log.runs[0].events.last().unwrap().line, 7 + hidden.lines().count() as u64);
        // Without an end it hides nothing, many of them neither, and places stay right.
        let torn = format!("{HEADER}</initialized>\n{first}{}\n{second}</verbosegc>\n", open.repeat(50));
        let log = read(&torn);
        assert_eq!(
            (log.runs.len(), heartbeats(&log).len(), log.complete),
            (1, 2, true),
            "{:#?}",
            log.diagnostics
        );
        assert_eq!(log.runs[0].events.last().unwrap().line, 8);
        // Nor if its end is too far away.
        let far = format!("{open}\n{}{close}", second.replace("id=\"3\"", "").repeat(3000));
        let log = read(&format!("{HEADER}</initialized>\n{first}{far}</verbosegc>\n"));
        assert_eq!(heartbeats(&log).len(), 3001);
        assert_eq!(log.runs[0].events[3001].line, 4 + 3 + 1 + 3 * 2999);
    }
}

#[test]
fn other_files_are_no_logs() {
    let mut random = 1_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        random.to_be_bytes()[0]
    })
    .take(100_000)
    .collect();
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    for (bytes, word) in [
        (&noise[..], "no text"),
        (&program, "no text"),
        (b"BZh91AY&SY", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd$", "zstd"),
        (b"{\"ns\":0,\"kind\":\"begin\"}", "metronome live"),
        (b"Nettrace\x14\0\0\0", ".NET"),
    ] {
        let log = read_log(bytes).unwrap();
        assert!(log.runs.is_empty() && log.diagnostics.len() == 1, "{word}: {:#?}", log.runs);
        let d = &log.diagnostics[0];
        assert!(d.kind == DiagnosticKind::Unreadable && d.text.contains(word), "{d}");
    }
    // Blocks of zeros and colours of a terminal are found in logs.
    let quanta = "quantumCount=\"10\" minTimeMs=\"1.000\" meanTimeMs=\"1.000\" maxTimeMs=\"1.000\"";
    let log = read(&format!("\x1b[31mred\x1b[0m{}{}", "\0".repeat(5000), beat(2, 2, quanta, "")));
    assert_eq!(heartbeats(&log).len(), 1);
}

#[test]
fn logs_of_other_machines_are_refused_by_name() {
    let mut g1 = String::from("OpenJDK 64-Bit Server VM warning: something\n");
    let mut parallel = String::from("Java HotSpot(TM) 64-Bit Server VM (25.202-b08) for linux-amd64 JRE\n");
    for i in 0..500 {
        let _ = writeln!(
            g1,
            "[{i}.0s][info][gc] GC({i}) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.5ms"
        );
        let _ = writeln!(
            parallel,
            "{i}.5: [GC (Allocation Failure) [PSYoungGen: 33280K->5088K(38400K)] 33280K->5096K(125952K), 0.0051 secs]"
        );
    }
    for (text, name) in [(&g1, "G1 of HotSpot"), (&parallel, "Parallel of HotSpot")] {
        let log = read(text);
        let refused = log.runs[0].refused.as_ref().unwrap();
        assert_eq!((log.runs.len(), &*refused.policy, refused.line), (1, name, 1), "{refused}");
        assert!(events(&log).is_empty());
    }
    // Such lines inside or after a log of Metronome are another program's output; before one they are another run.
    let quanta = "quantumCount=\"10\" minTimeMs=\"1.000\" meanTimeMs=\"1.000\" maxTimeMs=\"1.000\"";
    let ours = format!("{HEADER}</initialized>\n{}</verbosegc>\n", beat(2, 2, quanta, ""));
    let log = read(&ours.replace("</initialized>\n", &format!("</initialized>\n{g1}")));
    assert!(log.runs.len() == 1 && log.runs[0].refused.is_none());
    assert!(read(&format!("{ours}{g1}")).runs.iter().all(|r| r.refused.is_none()));
    let log = read(&format!("{g1}{ours}"));
    assert_eq!(log.runs.iter().map(|r| r.refused.is_some()).collect::<Vec<_>>(), [true, false]);
    assert_eq!(heartbeats(&log).len(), 1);
}
