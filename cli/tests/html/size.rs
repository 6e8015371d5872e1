//! Hostile and endless words, and long logs: the page stays whole and small.

use crate::common::{Scratch, output};
use crate::page::{OPENJ9, all_text, check_frame, check_numbers, elements, embedded, page, parse};
use std::fmt::Write as _;

#[test]
fn hostile_words_stay_words() {
    let dir = Scratch::new("hostile");
    let evil =
        "</script><script>alert(1)</script><!-- \"'> ]]> <img src=x onerror=alert(2)> \u{202e}\u{2028}";
    let escaped: String = evil.chars().fold(String::new(), |mut s, c| {
        let _ = write!(s, "&#{};", u32::from(c));
        s
    });
    let mut log = format!(
        "{OPENJ9}<gc-op id=\"1\" type=\"syncgc\" timems=\"30.023\" timestamp=\"2026-08-31T13:43:29.821\">\
         <syncgc-info reason=\"{escaped}\" /></gc-op>\n<metronome-note timestamp=\"2026-08-31T13:43:29.822\" text=\"{escaped}\" />\n"
    );
    for i in 0..30 {
        let _ = writeln!(
            log,
            "<metronome-stop-cancelled timestamp=\"2026-08-31T13:43:29.9{i:02}\" contextid=\"2\" mutator=\"{escaped}{i}\" \
             waitedMs=\"0.494\" budgetMs=\"0.450\" missingMutators=\"1\" />"
        );
    }
    log += "noise </script><script>alert(3)</script>\u{7}\u{1b}[31m <!--\n</verbosegc>\n";
    let log = dir.write("a\"><script>alert(4)</script>'&.xml".replace('/', "\u{2215}").as_str(), log);
    let page = page(&[&log]);
    check_frame(&page);
    let doc = parse(&page);
    assert_eq!(elements(&doc, "img").count(), 0);
    let body = all_text(elements(&doc, "body").next().unwrap());
    assert!(body.contains("</script><script>alert(1)</script>"), "the words are shown as words");
    assert!(!body.contains(['\u{202e}', '\u{2028}', '\u{7}', '\u{1b}']), "signs that hide others are not");
    let names = embedded(&doc)["logs"][0]["runs"][0]["stragglers"].as_object().unwrap().clone();
    assert!(names.keys().any(|k| k.contains("</script><script>alert(1)")), "{names:?}");
}

#[test]
fn words_without_end_are_cut() {
    let dir = Scratch::new("long");
    let long = "ä<".repeat(200_000).replace('<', "&lt;");
    let mut log = String::from(OPENJ9);
    for i in 0..10 {
        let _ =
            writeln!(log, "<metronome-note timestamp=\"2026-08-31T13:43:29.82{i}\" text=\"{i}{long}\" />");
    }
    check_frame(&page(&[&dir.write("long.xml", log + "</verbosegc>\n")]));
}

/// Rounds of seven heartbeats in a cycle and a collection, ten events each, with one extreme of each kind.
fn long_log(rounds: u64) -> String {
    let mut log = OPENJ9.replace("metronome-gc 1", "11");
    let (mut id, mut ms) = (0_u64, 0_u64);
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut op = |log: &mut String, kind: &str, more: &str, inside: &str| {
        id += 1;
        ms += 137;
        let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        let _ = writeln!(
            log,
            "<{kind} id=\"{id}\" {more} timestamp=\"2026-08-31T{h:02}:{m:02}:{s:02}.{:03}\">{inside}</{}>",
            ms % 1_000,
            kind.split(' ').next().unwrap()
        );
    };
    for round in 0..rounds {
        op(&mut log, "cycle-start", "type=\"global\" contextid=\"1\" intervalms=\"1370.0\"", "");
        for beat in 0..7 {
            let max = if (round, beat) == (rounds / 2, 3) { 77_777 } else { 1_000 + random(2_500) };
            let free =
                if (round, beat) == (rounds / 3, 5) { 12_345 } else { 20_000_000 + random(20_000_000) };
            let inside = format!(
                "<quanta quantumCount=\"9\" quantumType=\"mark\" minTimeMs=\"0.010\" meanTimeMs=\"0.9{:02}\" maxTimeMs=\"{}.{:03}\" />\
                 <exclusiveaccess-info minTimeMs=\"0.001\" meanTimeMs=\"0.003\" maxTimeMs=\"0.0{:02}\" />\
                 <free-mem type=\"heap\" minBytes=\"{free}\" meanBytes=\"{}\" maxBytes=\"{}\" />",
                random(100),
                max / 1_000,
                max % 1_000,
                10 + random(90),
                free + 10,
                free + 1_000_000
            );
            op(&mut log, "gc-op", "type=\"heartbeat\"", &inside);
        }
        op(&mut log, "cycle-end", "type=\"global\" contextid=\"1\"", "");
        let inside = "<syncgc-info reason=\"out of memory\" /><free-mem-delta type=\"heap\" bytesBefore=\"9\" bytesAfter=\"99999\" />";
        let took = if round == rounds - 1 { "333.333".into() } else { format!("1.{:03}", random(1_000)) };
        op(&mut log, "gc-op", &format!("type=\"syncgc\" timems=\"{took}\""), inside);
    }
    log + "</verbosegc>\n"
}

#[test]
fn a_page_stays_small_and_keeps_the_extremes_of_a_hundred_thousand_events() {
    let dir = Scratch::new("long-log");
    let log = dir.write("long.xml", long_log(10_000));
    check_numbers(&[&log]);
    let page = page(&[&log]);
    let doc = parse(&page);
    let data = embedded(&doc);
    let run = &data["logs"][0]["runs"][0];
    assert_eq!(run["events"], 100_000, "{:#}", data["logs"][0]["diagnostics"]);
    assert_eq!(run["quantum_ms"]["max"], 77.777);
    let subject = &data["subjects"][0];
    let series = |name: &str| subject["series"][name].as_array().unwrap().clone();
    assert!(series("quantum_max_ms").contains(&77.777.into()));
    assert!(series("free_min").contains(&9.into()), "free heap at the collections");
    let rows = subject["events"].as_array().unwrap();
    let told = |words: &str| rows.iter().any(|r| r[3].as_str().unwrap().contains(words));
    assert!(
        told("77.78 ms") && told("333.33 ms"),
        "the longest quantum and the longest collection have their lines"
    );
    assert!(subject["events_omitted"].as_u64().unwrap() > 0);
    // Eight on one page, each with more of everything than a page takes.
    let log = dir.write("shorter.xml", long_log(1_000));
    let many: Vec<&str> = std::iter::repeat_n(log.as_str(), 8).collect();
    let out = output(&[&["report"], &many[..], &["--html", "-"]].concat());
    check_frame(&String::from_utf8(out.stdout).unwrap());
}
