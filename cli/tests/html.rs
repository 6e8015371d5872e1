//! `metronome report --html`: the page is well-formed, holds nothing that breaks out of its place, loads nothing, shows no
//! number that is not the analysis' own, and stays small however long the log.

mod common;
#[path = "html/page.rs"]
mod page;
#[path = "html/script.rs"]
mod script;
#[path = "html/size.rs"]
mod size;

use common::{Scratch, output};
use page::{HEARTBEATS, OPENJ9, all_text, by_id, check_frame, check_numbers, elements, logs_in, page, parse};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[test]
fn numbers_are_those_of_the_analysis_in_our_own_samples() {
    let samples = logs_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../verbosegc-samples"));
    assert!(!samples.is_empty());
    for log in &samples {
        assert!(check_numbers(&[log]) > 20, "{log}");
    }
    let three: Vec<&str> = samples.iter().take(3).map(String::as_str).collect();
    assert!(check_numbers(&three) > 60);
}

/// Real logs, beside the repository or in the folder that FIELD_LOGS names.
#[test]
fn real_logs_give_pages() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/logs");
    let folder = std::env::var_os("FIELD_LOGS").map_or(beside, PathBuf::from);
    let logs = logs_in(&folder);
    if logs.is_empty() {
        println!("skipped: no real logs at {}", folder.display());
    }
    for log in &logs {
        let out = output(&["report", log, "--html", "-"]);
        check_frame(&String::from_utf8(out.stdout).unwrap());
        if !log.contains("rootscan") {
            check_numbers(&[log]);
        }
    }
    for (name, policy) in [
        ("SampleIBMJ9_5_0af-global-200811_07.txt", "optthruput"),
        ("SampleIBMJ9_R27_SR1_full_header.txt", "gencon"),
        ("SampleIBMJ9_R28_af_global.txt", "optthruput"),
        ("SampleIBMJ9_R28_concurrentMinimal.txt", "optavgpause"),
    ] {
        let path = folder.join("other-policy").join(name);
        let Some(log) = path.to_str().filter(|_| path.exists()) else { continue };
        let out = output(&["report", log, "--html", "-"]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(said.contains(policy) && output(&["advise", log]).status.code() == Some(3), "{name}: {said}");
        let page = String::from_utf8(out.stdout).unwrap();
        check_frame(&page);
        assert_eq!(out.status.code(), Some(3), "{log}");
        assert!(all_text(by_id(&parse(&page), "verdict").unwrap()).contains("other collectors"), "{log}");
    }
}

#[test]
fn heartbeats_alone_are_judged_as_averages_and_no_curve_is_invented() {
    let dir = Scratch::new("beats");
    let log = dir.write("beats.xml", HEARTBEATS);
    check_numbers(&[&log]);
    let page = page(&[&log]);
    let doc = parse(&page);
    let verdict = all_text(by_id(&doc, "verdict").unwrap());
    assert!(
        verdict.contains("Target kept") && verdict.contains("shorter windows cannot be judged"),
        "{verdict}"
    );
    // 100 - 363 * 0.474 / 677.316 in percent.
    assert!(verdict.contains("74.6 %"), "{verdict}");
    assert!(by_id(&doc, "p-mmu").is_none() && by_id(&doc, "p-utilization").is_some());
    assert!(page.contains("holds heartbeats only"));
}

/// Quanta of 2.9 ms each 10 ms, later each 6 ms, with a heartbeat each: the worst 60 ms have ten of them.
#[test]
fn quanta_that_are_told_one_by_one_give_a_curve_and_the_verdict() {
    let dir = Scratch::new("singles");
    let mut log = OPENJ9.replace("metronome-gc 1", "11");
    for i in 1..=60 {
        let ms = if i <= 30 { i * 10 } else { 300 + (i - 30) * 6 };
        let _ = writeln!(
            log,
            "<gc-op id=\"{i}\" type=\"heartbeat\" timestamp=\"2026-08-31T13:43:00.{ms:03}\"><quanta quantumCount=\"1\" \
             quantumType=\"mark\" minTimeMs=\"2.900\" meanTimeMs=\"2.900\" maxTimeMs=\"2.900\" /></gc-op>"
        );
    }
    let log = dir.write("singles.xml", log + "</verbosegc>\n");
    check_numbers(&[&log]);
    let page = page(&[&log]);
    let doc = parse(&page);
    let verdict = all_text(by_id(&doc, "verdict").unwrap());
    // 10 * 2.9 ms of 60 ms: 51.7 % are left.
    assert!(verdict.contains("Target missed by 18.3 points") && verdict.contains("51.7 %"), "{verdict}");
    assert!(by_id(&doc, "p-mmu").is_some());
    assert!(
        all_text(by_id(&doc, "figures").unwrap())
            .contains("Least utilization of any 60.00 ms, by single quanta")
    );
    let out = output(&["report", &log]);
    assert!(String::from_utf8_lossy(&out.stdout).contains("51.7 % of 60.00 ms"));
}

/// What the issue of a report asks for is on the page and in the summary, where a log tells it.
#[test]
fn priorities_references_finalization_and_immortal_memory_are_shown() {
    let dir = Scratch::new("details");
    let changed = HEARTBEATS
        .replacen("min=\"11\"", "min=\"7\"", 1)
        .replacen(
            "<heap ",
            "<immortal minfree=\"14570208\" meanfree=\"14570208\" maxfree=\"14580000\" /> <heap ",
            1,
        )
        .replacen(
            "<quantum ",
            "<refs_cleared soft=\"3\" threshold=\"16\" maxThreshold=\"32\" weak=\"41\" phantom=\"5\" /> \
                   <finalization objectsqueued=\"2525\" /> <quantum ",
            1,
        );
    let log = dir.write("details.xml", &changed);
    check_numbers(&[&log]);
    let page = page(&[&log]);
    let doc = parse(&page);
    for id in ["p-priority", "p-work", "p-immortal"] {
        assert!(by_id(&doc, id).is_some(), "{id}");
    }
    let figures = all_text(by_id(&doc, "figures").unwrap());
    for words in [
        "Priority of the collector7 to 11",
        "Objects handed to finalization2,525",
        "Weak references cleared41",
        "Soft references cleared3",
        "Phantom references cleared5",
        "Free immortal memory",
    ] {
        assert!(figures.contains(words), "{words}: {figures}");
    }
    let out = output(&["report", &log]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    for words in [
        "GC priority       7 to 11",
        "  over time       |",
        "free immortal",
        "41 weak, 3 soft, 5 phantom, 2,525 objects to finalization",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Where nothing is told, a sentence says so.
    let log = dir.write(
        "plain.xml",
        OPENJ9.replace("metronome-gc 1", "11")
            + "<trigger-start id=\"1\" \
        timestamp=\"2026-08-31T13:43:28.916\" /></verbosegc>\n",
    );
    let page = self::page(&[&log]);
    assert!(page.contains("does not tell the priority") && page.contains("tells of references cleared"));
}

#[test]
fn logs_that_hold_nothing_say_so() {
    let dir = Scratch::new("empty");
    let gencon = r#"<verbosegc xmlns="http://www.ibm.com/j9/verbosegc" version="1"><initialized id="1" timestamp="2026-08-31T13:43:08.754">
        <attribute name="gcPolicy" value="-Xgcpolicy:gencon" /></initialized></verbosegc>"#;
    for (name, content, status, words) in [
        ("empty.xml", "", 2, "no event of a Metronome"),
        ("gencon.xml", gencon, 3, "logs of other collectors"),
    ] {
        let log = dir.write(name, content);
        let html = dir.path(&format!("{name}.html"));
        let out = output(&["report", &log, "--html", &html]);
        assert_eq!(out.status.code(), Some(status), "{name}");
        let page = std::fs::read_to_string(&html).unwrap();
        check_frame(&page);
        let doc = parse(&page);
        let verdict = all_text(by_id(&doc, "verdict").unwrap());
        assert!(verdict.contains("Nothing to judge") && verdict.contains(words), "{name}: {verdict}");
        assert_eq!(elements(&doc, "svg").count(), 0, "{name}");
    }
}

#[test]
fn several_logs_have_a_column_each_and_share_their_pictures() {
    let dir = Scratch::new("several");
    let one = dir.write("one.xml", HEARTBEATS);
    let two = dir.write("two.xml", HEARTBEATS.replace("0.503", "0.603"));
    assert!(check_numbers(&[&one, &two]) > 0);
    let page = page(&[&one, &two]);
    let doc = parse(&page);
    let table = elements(&doc, "table").find(|t| t.attribute("class") == Some("figures")).unwrap();
    let heads = table.descendants().filter(|n| n.attribute("scope") == Some("col")).map(all_text);
    assert_eq!(heads.collect::<Vec<_>>(), ["Figure", "one.xml", "two.xml"]);
    let picture = by_id(&doc, "p-utilization").unwrap();
    let curves: BTreeSet<&str> = picture.descendants().filter_map(|n| n.attribute("stroke")).collect();
    assert!(curves.contains("var(--c0)") && curves.contains("var(--c1)"), "{curves:?}");
    let verdicts =
        doc.descendants().filter(|n| n.attribute("class").is_some_and(|c| c.starts_with("verdict ")));
    assert_eq!(verdicts.count(), 2);
    // More than curves could be told apart.
    let many: Vec<&str> = std::iter::repeat_n(one.as_str(), 12).collect();
    let page = self::page(&many);
    check_frame(&page);
    assert!(page.contains("4 more runs are not shown"));
}

/// Of ten quanta's wall time the collector had a fifth, and the heap that it computed to be enough is larger.
#[test]
fn a_preempted_collector_or_a_small_heap_is_named_in_the_verdict() {
    let dir = Scratch::new("preempted");
    let mut log = String::from(OPENJ9);
    log += "<initialized id=\"1\" timestamp=\"2026-08-31T13:43:29.000\"><attribute name=\"maxHeapSize\" value=\"0x1000000\" />\
            </initialized>\n";
    for i in 0..5 {
        let _ = writeln!(
            log,
            "<gc-op id=\"4\" type=\"heartbeat\" timestamp=\"2026-08-31T13:43:3{i}.808\">\
             <quanta quantumCount=\"10\" quantumType=\"mark\" minTimeMs=\"0.062\" meanTimeMs=\"0.269\" maxTimeMs=\"0.476\" />\
             <metronome-quanta firstStartNs=\"1\" lastEndNs=\"2\" minWakeupMs=\"0.000\" meanWakeupMs=\"0.000\" \
             maxWakeupMs=\"4.000\" maxPlannedMs=\"0.500\" overPlan=\"0\" maxOverPlanMs=\"0.000\" cpuQuanta=\"10\" \
             cpuMs=\"0.538\" cpuWallMs=\"2.690\" longestStepMs=\"0.035\" longestStep=\"mark\" /></gc-op>"
        );
    }
    log += "<metronome-departure timestamp=\"2026-08-31T13:43:35.000\" contextid=\"10\" reason=\"out of memory\" windowMs=\"10.000\" \
            targetPercent=\"70.0000\" achievedPercent=\"12.5000\" enoughHeapBytes=\"50331648\" />\n</verbosegc>\n";
    let log = dir.write("preempted.xml", log);
    check_numbers(&[&log]);
    let page = page(&[&log]);
    let doc = parse(&page);
    let verdict = all_text(by_id(&doc, "verdict").unwrap());
    for words in ["Target missed", "Look first at: the collector's thread is preempted"] {
        assert!(verdict.contains(words), "{words}: {verdict}");
    }
    assert!(!verdict.contains("the heap is small"), "no heap helps a collector that does not run: {verdict}");
    // Where it runs, the heap is what to look at.
    let ran = std::fs::read_to_string(&log).unwrap().replace("cpuMs=\"0.538\"", "cpuMs=\"2.600\"");
    let log = dir.write("small.xml", ran);
    let page = self::page(&[&log]);
    let verdict = all_text(by_id(&parse(&page), "verdict").unwrap());
    assert!(verdict.contains("the heap is small: it has 16.0 MiB, and 48.0 MiB would"), "{verdict}");
}

#[test]
fn the_page_is_written_beside_the_other_outputs_and_over_no_log() {
    let dir = Scratch::new("outputs");
    let log = dir.write("beats.xml", HEARTBEATS);
    let (html, json) = (dir.path("page.html"), dir.path("figures.json"));
    let out = output(&["report", &log, "--html", &html, "--json", &json]);
    assert!(out.status.success() && String::from_utf8_lossy(&out.stdout).contains("840 in 2 heartbeats"));
    check_frame(&std::fs::read_to_string(&html).unwrap());
    for (args, word) in [
        (vec!["report", &log, "--html", &log], "same file"),
        (vec!["report", &log, "--html", &html, "--json", &html], "same file"),
        (vec!["report", &log, "--html", "-", "--json", "-"], "both"),
        (vec!["report", &log, "--html", "/no/such/folder/page.html"], "--html"),
    ] {
        let out = output(&args);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && said.contains(word), "{args:?}: {said}");
    }
    assert_eq!(std::fs::read_to_string(&log).unwrap(), HEARTBEATS);
}

/// A page is more than a pipe holds: its reader is waited for.
#[test]
fn a_page_goes_through_a_pipe_that_is_read_slowly() {
    let dir = Scratch::new("pipe");
    let sample =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../verbosegc-samples/trees-synchronous-openj9.xml");
    let fifo = dir.path("pipe");
    nix::unistd::mkfifo(fifo.as_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let name = fifo.clone();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        let mut file = std::fs::File::open(name).unwrap();
        let mut part = [0; 4096];
        loop {
            match std::io::Read::read(&mut file, &mut part).unwrap() {
                0 => return all,
                n => all.extend_from_slice(&part[..n]),
            }
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    });
    // The command refuses a pipe that nobody has opened yet.
    let report = || output(&["report", sample.to_str().unwrap(), "--html", &fifo]);
    let mut out = report();
    while !out.status.success() && String::from_utf8_lossy(&out.stderr).contains("nobody reads") {
        out = report();
    }
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let read = reader.join().unwrap();
    assert!(read.len() > 100_000);
    check_frame(&String::from_utf8(read).unwrap());
}
