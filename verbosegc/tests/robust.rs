//! The reader takes any bytes and says what it did with them (INV-LOG-TOTAL, INV-LOG-NO-SILENCE).

mod common;

use common::{Script, below, write};
use metronome_verbosegc::model::*;
use metronome_verbosegc::reader::{DiagnosticKind, Item, Log, Reader, read_log};
use metronome_verbosegc::writer::Format;
use quickcheck::{Arbitrary, Gen, QuickCheck};
use std::io::{self, BufReader, Read};

fn events(log: &Log) -> impl Iterator<Item = &LoggedEvent> {
    log.runs.iter().flat_map(|r| &r.events)
}

fn read(text: &str) -> Log {
    read_log(text.as_bytes()).unwrap()
}

#[test]
fn any_bytes_at_all() {
    fn total(bytes: Vec<u8>) -> bool {
        spoken_of(&bytes, &read_log(&bytes[..]).unwrap())
    }
    QuickCheck::new().tests(3000).quickcheck(total as fn(Vec<u8>) -> bool);
}

/// Not blank: then something must be said (INV-LOG-NO-SILENCE).
fn spoken_of(bytes: &[u8], log: &Log) -> bool {
    let blank = bytes.iter().all(u8::is_ascii_whitespace) || bytes == b"\xef\xbb\xbf";
    blank || !log.diagnostics.is_empty() || events(log).count() > 0
}

#[test]
fn a_reader_that_keeps_silent_is_found() {
    for bytes in [&b"x"[..], b"<unknown/>", b"\0", b"<gc-op"] {
        let mut log = read_log(bytes).unwrap();
        assert!(spoken_of(bytes, &log));
        log.diagnostics.clear();
        log.runs.clear();
        assert!(!spoken_of(bytes, &log));
    }
}

/// Pieces of the grammar in any order.
#[derive(Clone, Debug)]
struct Soup(Vec<u8>);

impl Arbitrary for Soup {
    fn arbitrary(g: &mut Gen) -> Self {
        let pieces: &[&[u8]] = &[
            b"<",
            b">",
            b"/>",
            b"</",
            b"\"",
            b"'",
            b"=",
            b" ",
            b"\n",
            b"<!--",
            b"-->",
            b"<?xml",
            b"?>",
            b"&#0;",
            b"&#x110000;",
            b"&amp;",
            b"verbosegc",
            b"gc-op",
            b"gc",
            b"type",
            b"heartbeat",
            b"synchgc",
            b"id",
            b"1",
            b"18446744073709551615",
            b"99999999999999999999999",
            b"intervalms",
            b"0.",
            b"timestamp",
            b"2026-08-31T13:43:22.804",
            b"Tue Mar 13 15:17:18 2007",
            b"quanta",
            b"initialized",
            b"attribute",
            b"name",
            b"value",
            b"gcPolicy",
            b"metronome-quanta",
            b"metronome-note",
            b"metronome-references",
            b"<metronome-immortal bytesAfter=\"",
            b"metronome-resize",
            b"direction",
            b"metronome-thread",
            b"metronome-reason",
            b"summary",
            b"heap",
            b"warning",
            b"details",
            b"clock error",
            b"packetCount",
            b"\xff\xfe",
            b"\xc3",
            b"system",
            b"vmarg",
            b"<gc-op type=\"syncgc\" timems=\"18446744073709.551\" timestamp=\"0001-01-01T00:00:00.000\">",
            b"<gc type=\"heartbeat\" id=\"0\" timestamp=\"Dec 31 23:59:60 9999\" intervalms=\"9\">",
            b"<cycle-start id=\"5\" timestamp=\"9999-12-31T23:59:60.999\"/>",
            b"<references type=\"soft\"/>",
        ];
        let count = below(g, 80);
        Self((0..count).flat_map(|_| g.choose(pieces).unwrap().to_vec()).collect())
    }
}

#[test]
fn any_mix_of_pieces() {
    fn total(soup: Soup) -> bool {
        read_log(&soup.0[..]).is_ok()
    }
    QuickCheck::new().tests(20_000).quickcheck(total as fn(Soup) -> bool);
}

/// A valid log with damage in it.
#[derive(Clone, Debug)]
struct Damaged(Vec<u8>);

impl Arbitrary for Damaged {
    fn arbitrary(g: &mut Gen) -> Self {
        let mut bytes = write(&Script::arbitrary(g)).into_bytes();
        for _ in 0..=below(g, 6) {
            let at = below(g, bytes.len() as u64) as usize;
            let len = (below(g, 200) as usize).min(bytes.len() - at);
            match below(g, 4) {
                0 => bytes[at] = u8::arbitrary(g),
                1 => drop(bytes.drain(at..at + len)),
                2 => {
                    let copy = bytes[at..at + len].to_vec();
                    bytes.splice(at..at, copy);
                }
                _ => drop(bytes.splice(at..at, *b"\nJVMDUMP039I <dump> & \"quote\nExample: a < b\n")),
            }
            if bytes.is_empty() {
                bytes.push(b' ');
            }
        }
        Self(bytes)
    }
}

#[test]
fn any_damage() {
    fn total(damaged: Damaged) -> bool {
        let whole = read_log(&damaged.0[..]).unwrap();
        // The size of the chunks in which the bytes come makes no difference.
        let tiny = read_log(BufReader::with_capacity(1, &damaged.0[..])).unwrap();
        whole == tiny
    }
    QuickCheck::new().tests(300).quickcheck(total as fn(Damaged) -> bool);
}

const OPENJ9: &str = r#"<?xml version="1.0" ?>

<verbosegc xmlns="http://www.ibm.com/j9/verbosegc" version="build">

<trigger-start id="1" timestamp="2026-08-31T13:43:28.916" />
<cycle-start id="2" type="global" contextid="0" timestamp="2026-08-31T13:43:28.918" intervalms="8277.292" />
<gc-op id="3" type="heartbeat" contextid="2" timestamp="2026-08-31T13:43:29.821">
  <quanta quantumCount="9" quantumType="mark" minTimeMs="3.008" meanTimeMs="3.145" maxTimeMs="3.368" maxTimestampMs="164.839" />
  <thread-priority maxPriority="11" minPriority="11" />
</gc-op>
<cycle-end id="4" type="global" contextid="2" timestamp="2026-08-31T13:43:30.804" />
<trigger-end id="5" timestamp="2026-08-31T13:43:30.804" />

</verbosegc>
"#;

const V2007: &str = r#"<?xml version="1.0" ?>

<verbosegc version="200702_15-Metronome">

<gc type="trigger start" id="1" timestamp="Tue Mar 13 15:17:45 2007" intervalms="0.000" />

<gc type="heartbeat" id="1" timestamp="Tue Mar 13 15:17:46 2007" intervalms="1003.413">
  <summary quantumcount="477">
    <quantum minms="0.078" meanms="0.503" maxms="1.909" />
    <gcthreadpriority max="11" min="11" />
  </summary>
</gc>

<gc type="trigger end" id="1" timestamp="Tue Mar 13 15:17:47 2007" intervalms="1682.816" />

</verbosegc>
"#;

/// Cut anywhere: the events before the cut are there, and the log says that it has no end.
#[test]
fn cut_at_every_byte() {
    for text in [OPENJ9, V2007] {
        let whole: Vec<LoggedEvent> = events(&read(text)).cloned().collect();
        let end = text.rfind("</verbosegc>").unwrap() + "</verbosegc>".len();
        for cut in 0..text.len() {
            let log = read(&text[..cut]);
            assert_eq!(log.complete, cut >= end, "{cut}");
            let seen: Vec<&LoggedEvent> = events(&log).collect();
            let intact = seen.iter().take_while(|e| !e.partial).count();
            assert!(seen.len() - intact <= 1, "only the last event can be torn: {cut} {log:#?}");
            for (a, b) in seen.iter().zip(&whole).take(intact) {
                assert_eq!(*a, b, "{cut}");
            }
            // An event whose end lies before the cut is not lost.
            let ended = |e: &LoggedEvent| {
                let start = text.match_indices('\n').nth(e.line as usize - 2).unwrap().0 + 1;
                let rest = &text[start..];
                let last = rest.find("/>").unwrap();
                let long =
                    ["</gc-op>", "</gc>"].iter().filter_map(|t| rest.find(t).map(|i| i + t.len())).min();
                let open = rest[..last].contains(">\n");
                start + if open { long.unwrap() } else { last + 2 }
            };
            let due = whole.iter().filter(|e| ended(e) <= cut).count();
            assert!(intact >= due, "{cut}: {intact} of {due}");
            if !seen.is_empty() && !log.complete {
                assert!(log.diagnostics.iter().any(|d| d.kind == DiagnosticKind::Truncated), "{cut}");
            }
        }
    }
}

#[test]
fn line_ends_marks_and_layout_make_no_difference() {
    for text in [OPENJ9, V2007] {
        let plain: Vec<Event> = events(&read(text)).map(|e| e.event.clone()).collect();
        for other in [
            text.replace('\n', "\r\n"),
            format!("\u{feff}{text}"),
            text.replace(" />", "/>"),
            text.replace("\" ", "\"\n\t"),
            text.replace("> ", "><").replace("><", ">\n<"),
        ] {
            let log = read(&other);
            assert_eq!(events(&log).map(|e| e.event.clone()).collect::<Vec<_>>(), plain, "{other}");
            assert!(log.complete && log.diagnostics.is_empty(), "{:#?}", log.diagnostics);
        }
        // Values without quotes, where they hold no blank.
        let mut bare = String::new();
        for (i, part) in text.split('"').enumerate() {
            let keep = i % 2 == 1 && (part.contains(' ') || part.ends_with('/'));
            bare += &if keep { format!("\"{part}\"") } else { part.to_owned() };
        }
        let log = read(&bare);
        assert_eq!(events(&log).map(|e| e.event.clone()).collect::<Vec<_>>(), plain, "{bare}");
    }
}

#[test]
fn several_runs_and_both_generations_in_one_file() {
    let log = read(&[OPENJ9, OPENJ9, "console text\n", V2007, V2007].concat());
    assert!(log.complete && log.generation.is_none());
    assert_eq!(log.runs.iter().map(|r| r.events.len()).collect::<Vec<_>>(), [5, 5, 3, 3]);
    assert_eq!(log.diagnostics.len(), 1);
    // Without headers: the ids, and the other generation, tell them apart.
    let body = |text: &str| {
        let start = text.find("<verbosegc").unwrap();
        let from = start + text[start..].find('>').unwrap() + 1;
        text[from..text.rfind("</").unwrap()].to_owned()
    };
    let log = read(&[body(OPENJ9), body(OPENJ9), body(V2007)].concat());
    assert_eq!(log.runs.iter().map(|r| r.events.len()).collect::<Vec<_>>(), [5, 5, 3]);
    assert!(log.runs.iter().all(|r| r.start.fragment && !r.complete));
}

#[test]
fn lost_lines_are_missed() {
    let lines: Vec<&str> = OPENJ9.lines().collect();
    let without = |n: usize| {
        let kept: Vec<&str> = lines.iter().enumerate().filter(|(i, _)| *i != n).map(|(_, l)| *l).collect();
        read(&kept.join("\n"))
    };
    let said = |log: &Log, text: &str| log.diagnostics.iter().any(|d| d.text.contains(text));
    let trigger = lines.iter().position(|l| l.contains("<trigger-start")).unwrap();
    assert!(said(&without(trigger), "trigger end without its start"));
    let cycle = lines.iter().position(|l| l.contains("<cycle-start")).unwrap();
    let log = without(cycle);
    assert!(said(&log, "cycle end without its start") && said(&log, "id 2 is missing"), "{log:#?}");
    let start = lines.iter().position(|l| l.contains("<gc-op")).unwrap();
    let log = without(start);
    assert!(said(&log, "<quanta> without the element"), "{log:#?}");
    assert_eq!(events(&log).count(), 5);
    let end = lines.iter().position(|l| l.contains("</gc-op")).unwrap();
    let log = without(end);
    assert!(said(&log, "has no end") && events(&log).count() == 5, "{log:#?}");
    let both = read(&[&lines[..end], &lines[start + 1..]].concat().join("\n"));
    let counts: Vec<_> = events(&both)
        .filter_map(|e| {
            if let Event::Heartbeat(h) = &e.event { Some((h.quantum_count, h.priority_max)) } else { None }
        })
        .collect();
    assert_eq!(counts, [(Some(9), Some(11)); 2], "an end and a start lost together: two heartbeats still");
}

/// No second child overwrites the first: each of these is two events.
#[test]
fn nothing_is_overwritten() {
    for child in [
        r#"<quanta quantumCount="1" quantumType="mark" minTimeMs="1.0" meanTimeMs="1.0" maxTimeMs="1.0" />"#,
        r#"<exclusiveaccess-info minTimeMs="1.0" meanTimeMs="1.0" maxTimeMs="1.0" />"#,
        r#"<classunload-info classloadersunloaded="1" classesunloaded="2" />"#,
        r#"<references type="soft" cleared="1" />"#,
        r#"<references type="weak" cleared="1" />"#,
        r#"<references type="phantom" cleared="1" />"#,
        r#"<finalization enqueued="1" />"#,
        r#"<work-packet-overflow packetCount="1" directObjectCount="1" />"#,
        r#"<nondeterministic-sweep maxTimeMs="1.0" totalRegions="1" maxRegions="1" />"#,
        r#"<free-mem type="heap" minBytes="1" meanBytes="1" maxBytes="1" />"#,
        r#"<thread-priority maxPriority="1" minPriority="1" />"#,
        r#"<syncgc-info reason="unknown" exclusiveaccessTimeMs="1.0" threadPriority="1" />"#,
        r#"<free-mem-delta type="heap" bytesBefore="1" bytesAfter="1" />"#,
        r#"<summary quantumcount="1">"#,
        r#"<quantum minms="1.0" meanms="1.0" maxms="1.0" />"#,
        r#"<exclusiveaccess minms="1.0" meanms="1.0" maxms="1.0" />"#,
        r#"<classunloading classloaders="1" classes="1" />"#,
        r#"<refs_cleared soft="1" threshold="1" maxThreshold="1" weak="1" phantom="1" />"#,
        r#"<nondeterministicsweep maxms="1.0" totalregions="1" maxregions="1" />"#,
        r#"<heap minfree="1" meanfree="1" maxfree="1" />"#,
        r#"<heap freebytesbefore="1" />"#,
        r#"<immortal freebytesafter="1" />"#,
        r#"<immortal minfree="1" meanfree="1" maxfree="1" />"#,
        r#"<gcthreadpriority max="1" min="1" />"#,
        r#"<metronome-references weakLongCleared="1" ephemeronsCleared="1" finalizersRun="1" finalizersSuppressed="1" finalizersPanicked="1" finalizerBacklog="1" />"#,
        r#"<metronome-immortal minBytes="1" meanBytes="1" maxBytes="1" />"#,
        r#"<metronome-immortal bytesBefore="1" />"#,
        r#"<metronome-immortal bytesAfter="1" />"#,
        r#"<metronome-immortal bytesBefore="1" bytesAfter="1" />"#,
        r#"<details reason="unknown" />"#,
        r#"<duration timems="1.0" />"#,
        r#"<synchronousgcpriority value="1" />"#,
    ] {
        let log = read(&format!("{child}\n{child}\n"));
        assert_eq!(events(&log).count(), 2, "{child}: {log:#?}");
        assert!(events(&log).all(|e| e.partial));
    }
}

#[test]
fn a_torn_name_is_not_taken_for_a_shorter_one() {
    let cut = V2007.find("<gcthread").unwrap() + 3;
    let log = read(&V2007[..cut]);
    assert!(log.diagnostics.iter().any(|d| d.text.contains("unknown element <gc>, torn")), "{log:#?}");
    assert_eq!(events(&log).count(), 2);
    let log = read("<af");
    assert!(log.runs.is_empty(), "too little to refuse a log for: {log:#?}");
    let log = read("<af type=\"nursery\" id=\"1\">");
    assert!(log.runs[0].refused.is_some());
}

#[test]
fn fragments_of_other_policies_are_named() {
    for (text, policy) in [
        ("<gc type=\"scavenger\" id=\"1\" totalid=\"1\">", "gencon"),
        ("<gc-op id=\"1\" type=\"scavenge\" timems=\"1.0\">", "gencon"),
        ("<cycle-start id=\"1\" type=\"partial gc\" contextid=\"0\">", "balanced"),
        ("<sys id=\"1\">", "optthruput"),
        (
            "<initialized id=\"1\"><attribute name=\"gcPolicy\" value=\"-Xgcpolicy:optavgpause\" />",
            "optavgpause",
        ),
    ] {
        let log = read(text);
        let refused = log.runs[0].refused.as_ref().unwrap_or_else(|| panic!("{text}: {log:#?}"));
        assert!(refused.policy.contains(policy) && log.runs[0].events.is_empty(), "{refused}");
    }
    // What is known to be Metronome's stays so: then such an element is only unknown.
    let log = read(&OPENJ9.replace("<cycle-end", "<exclusive-end id=\"9\" />\n<cycle-end"));
    assert!(log.runs[0].refused.is_none());
    assert!(log.diagnostics.iter().any(|d| d.kind == DiagnosticKind::UnknownElement));
}

#[test]
fn clock_errors_are_told_from_long_idle_times() {
    let log = read(
        r#"<gc type="trigger start" id="1" timestamp="Mar 25 22:40:24 2010" intervalms="18446744073709.551" />
<gc type="cycle start" id="1" timestamp="Mar 25 22:40:24 2010" intervalms="86400000.000" />
<gc type="synchgc" id="1" timestamp="Mar 25 22:40:20 2010" intervalms="5.000">
  <details reason="out of memory" requested_bytes="1024" />
  <warning details="clock error detected, following timing may be inaccurate" />
  <duration timems="0.000" />
</gc>
"#,
    );
    let bad: Vec<bool> = events(&log).map(|e| e.clock_error).collect();
    assert_eq!(bad, [true, false, true]);
    let said = log.diagnostics.iter().filter(|d| d.kind == DiagnosticKind::Clock).count();
    assert_eq!(said, 2, "a wrapped interval and a printed time that goes back: {log:#?}");
}

#[test]
fn what_is_not_text_is_refused() {
    for bytes in [&[0x1f, 0x8b, 8, 0][..], &[0xff, 0xfe, b'<', 0], &[0xfe, 0xff, 0, b'<']] {
        let log = read_log(bytes).unwrap();
        assert!(log.runs.is_empty() && log.diagnostics.len() == 1);
        assert_eq!(log.diagnostics[0].kind, DiagnosticKind::Unreadable);
    }
}

#[test]
fn long_tags_and_long_text_are_cut_not_kept() {
    let tag = format!(
        "<gc-op id=\"1\" type=\"heartbeat\" junk=\"{}\"><quanta quantumCount=\"3\"/>",
        "x".repeat(1 << 20)
    );
    let log = read(&(tag + &"y".repeat(1 << 20)));
    let said: usize = log.diagnostics.iter().map(|d| d.text.len()).sum();
    assert!(said < 2000, "{said}");
    assert_eq!(events(&log).count(), 1);
    let text = log.diagnostics.iter().find(|d| d.kind == DiagnosticKind::ForeignText).unwrap();
    assert!(text.text.starts_with("1048576 bytes"), "{text}");
}

#[test]
fn errors_of_the_input_come_through_and_interruptions_do_not() {
    struct Bad<'a>(&'a [u8], u8);
    impl Read for Bad<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.1 = self.1.wrapping_add(1);
            if self.1.is_multiple_of(2) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if self.0.is_empty() {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            let n = self.0.len().min(buf.len()).min(5);
            buf[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }
    let items: Vec<io::Result<Item>> = Reader::new(BufReader::new(Bad(OPENJ9.as_bytes(), 0))).collect();
    let failed = items.iter().position(Result::is_err).unwrap();
    assert_eq!(items[failed].as_ref().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(items.iter().filter(|i| matches!(i, Ok(Item::Event(_)))).count(), 5);

    // In the middle of an element: what was read of it still comes, marked as partial, and then the end.
    let cut = OPENJ9.find("<thread-priority").unwrap() + 20;
    let items: Vec<io::Result<Item>> =
        Reader::new(BufReader::new(Bad(&OPENJ9.as_bytes()[..cut], 0))).collect();
    let failed = items.iter().position(Result::is_err).unwrap();
    let after: Vec<&Item> = items[failed + 1..].iter().map(|i| i.as_ref().unwrap()).collect();
    assert!(after.iter().any(|i| matches!(i, Item::Event(e) if e.partial)), "{after:#?}");
    assert!(after.iter().any(|i| matches!(i, Item::Diagnostic(d) if d.text.contains("input failed"))));
    assert!(matches!(after.last(), Some(Item::RunEnd(e)) if !e.complete));
}

/// Neither form is taken for the other's, and none for another policy's.
#[test]
fn own_logs_are_never_refused() {
    fn accepted(script: Script) -> bool {
        let log = read(&write(&script));
        let generation = match script.format {
            Format::V2007 => Generation::V2007,
            Format::OpenJ9 => Generation::OpenJ9,
        };
        log.runs.len() == 1 && log.runs[0].refused.is_none() && log.generation == Some(generation)
    }
    QuickCheck::new().tests(200).quickcheck(accepted as fn(Script) -> bool);
}

#[test]
fn what_cannot_be_told_is_not_made_up() {
    let log = read("<gc-op id=\"5\" contextid=\"1\">\n</gc-op>\n");
    assert_eq!(events(&log).count(), 0, "nothing says that this was a heartbeat");
    assert!(log.diagnostics.iter().any(|d| d.text.contains("id 5") && d.text.contains("passed over")));
    let log =
        read("<gc-op id=\"5\" contextid=\"1\">\n<references type=\"weak\" cleared=\"3\" />\n</gc-op>\n");
    let all: Vec<&LoggedEvent> = events(&log).collect();
    assert!(
        matches!(&all[..], [e] if e.partial && matches!(&e.event, Event::Heartbeat(h) if h.work.weak_cleared == Some(3)))
    );
}
