//! A trace made by hand from the format's description, byte by byte: written, and read.

use metronome_tuningfork::{
    Attributes, Error, Event, EventType, FeedletChange, Item, Property, Reader, Writer, read_all,
};

/// Bytes from hexadecimal digits; what follows `#` on a line is a comment.
fn hex(text: &str) -> Vec<u8> {
    let digits: String =
        text.lines().map(|l| l.split('#').next().unwrap()).flat_map(str::split_whitespace).collect();
    assert_eq!(digits.len() % 2, 0);
    (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// The parts that are longer than a line, put together from their rules rather than from the writer.
fn by_hand() -> Vec<u8> {
    let mut out = hex("cafefeed 2bad4dfb 00000001 00000004 00000000");
    // Type space: 4 + 26 + 4 = 34 bytes.
    out.extend(hex("deadbeef cafebabe 00000022 00000003 0000001a"));
    out.extend(b"com.ibm.tuningfork.generic");
    out.extend(hex("00000001"));
    // One property: 4 + (4 + 14) + (4 + 10) = 36 bytes.
    out.extend(hex("deadbeef cafebabe 00000024 00000001 00000001 0000000e"));
    out.extend(b"Tick Frequency");
    out.extend(hex("0000000a"));
    out.extend(b"1000000000");
    // Two operations: add feedlet 7; describe its name as G, U+0000, e acute, euro, and a clef of two surrogates.
    // 4 + 8 + 8 + (4 + 4) + (4 + 1 + 2 + 2 + 3 + 6) = 46 bytes.
    out.extend(hex("deadbeef cafebabe 0000002e 00000002 00000002"));
    out.extend(hex("00000001 00000007"));
    out.extend(hex("00000003 00000007 00000004 6e616d65"));
    out.extend(hex("0000000e 47 c080 c3a9 e282ac eda0b4 edb49e"));
    // One event type: id 3, `Point: f`, `d`, one int, one long, one double, one string, each with a name of one letter and
    // no description: 4 + 4 + (4 + 8) + (4 + 1) + 16 + 4 * (5 + 4) = 77 bytes.
    out.extend(hex("deadbeef cafebabe 0000004d 00000004 00000001 00000003"));
    out.extend(hex("00000008 506f696e743a2066  00000001 64"));
    out.extend(hex("00000001 00000001 00000001 00000001"));
    for letter in ["69", "6c", "64", "73"] {
        out.extend(hex("00000001"));
        out.extend(hex(letter));
        out.extend(hex("00000000"));
    }
    // The string table: 4 + 4 + 4 + 2 = 14 bytes.
    out.extend(hex("deadbeef cafebabe 0000000e 00000006 00000001 00000005 00000002 6f6b"));
    // Two events of feedlet 7, sequence 0: 8 + 2 * (8 + 4 + 4 + 8 + 8 + 4) + 1 = 81 bytes. -2, 2^32, 0.5, "x"; then
    // 1, -1, -0.0, "".
    out.extend(hex("deadbeef cafebabe 00000051 00000005 00000007 00000000"));
    out.extend(hex("00000000000003e8 00000003 fffffffe 0000000100000000 3fe0000000000000 00000001 78"));
    out.extend(hex("00000000000003e9 00000003 00000001 ffffffffffffffff 8000000000000000 00000000"));
    // The feedlet ends: 12 bytes.
    out.extend(hex("deadbeef cafebabe 0000000c 00000002 00000001 00000002 00000007"));
    out
}

fn letter(name: &str) -> metronome_tuningfork::Attribute {
    metronome_tuningfork::Attribute { name: name.into(), description: String::new() }
}

fn the_type() -> EventType {
    EventType {
        id: 3,
        name: "Point: f".into(),
        description: "d".into(),
        ints: vec![letter("i")],
        longs: vec![letter("l")],
        doubles: vec![letter("d")],
        strings: vec![letter("s")],
    }
}

const NAME: &str = "G\0é€\u{1d11e}";

fn attributes(i: i32, l: i64, d: f64, s: &str) -> Attributes {
    Attributes { ints: vec![i], longs: vec![l], doubles: vec![d], strings: vec![s.into()] }
}

#[test]
fn the_writer_writes_these_bytes() {
    let mut w = Writer::new(Vec::new()).unwrap();
    w.properties(&[("Tick Frequency", "1000000000")]).unwrap();
    w.add_feedlet(7, &[("name", NAME)]).unwrap();
    w.event_types(&[the_type()]).unwrap();
    w.strings(&[(5, "ok")]).unwrap();
    w.event(7, 1000, 3, &attributes(-2, 1 << 32, 0.5, "x")).unwrap();
    w.event(7, 1001, 3, &attributes(1, -1, -0.0, "")).unwrap();
    w.remove_feedlet(7).unwrap();
    assert_eq!(w.finish().unwrap(), by_hand());
}

#[test]
fn the_reader_reads_them() {
    let event =
        |time, attributes| Item::Event(Event { feedlet: 7, sequence: 0, time, type_id: 3, attributes });
    let want = [
        Item::Space { name: "com.ibm.tuningfork.generic".into(), version: 1 },
        Item::Property(Property { key: "Tick Frequency".into(), value: "1000000000".into() }),
        Item::Feedlet(FeedletChange::Add { index: 7 }),
        Item::Feedlet(FeedletChange::Describe { index: 7, key: "name".into(), value: NAME.into() }),
        Item::EventType(the_type()),
        Item::String { index: 5, text: "ok".into() },
        event(1000, attributes(-2, 1 << 32, 0.5, "x")),
        event(1001, attributes(1, -1, -0.0, "")),
        Item::Feedlet(FeedletChange::Remove { index: 7 }),
    ];
    assert_eq!(read_all(&by_hand()[..]).unwrap(), want);
}

/// The trace's header and one chunk.
fn with_chunk(chunk: &str) -> Result<Vec<Item>, Error> {
    let mut bytes = hex("cafefeed 2bad4dfb 00000001 00000004 00000000");
    bytes.extend(hex(chunk));
    read_all(&bytes[..])
}

#[test]
fn what_is_no_trace_is_refused_and_damage_is_told_with_its_place() {
    assert!(matches!(Reader::new(&b"<?xml version"[..]), Err(Error::NotATrace)));
    assert!(matches!(Reader::new(&b""[..]), Err(Error::NotATrace)));
    let newer = hex("cafefeed 2bad4dfb 00000002 00000001 00000000");
    assert!(matches!(Reader::new(&newer[..]), Err(Error::Version { major: 2, minor: 1 })));
    // Unknown chunks are passed over; a chunk that is none is told.
    let unknown = with_chunk("deadbeef cafebabe 00000003 00000009 010203").unwrap();
    assert_eq!(unknown, [Item::Unknown { chunk: 9, bytes: 3 }]);
    assert!(matches!(
        with_chunk("deadbeef cafebab0 00000000 00000001"),
        Err(Error::NotAChunk { offset: 20 })
    ));
    assert!(matches!(
        with_chunk("deadbeef cafebabe ffffffff 00000001"),
        Err(Error::NotAChunk { offset: 20 })
    ));
    // A length that no memory is taken for.
    assert!(matches!(with_chunk("deadbeef cafebabe 03ffffff 00000001"), Err(Error::Torn { offset: 20 })));
    for (chunk, at) in [
        // Two properties announced in four bytes.
        ("deadbeef cafebabe 00000004 00000001 00000002", 40),
        // A string that is longer than its chunk.
        ("deadbeef cafebabe 0000000c 00000006 00000001 00000001 00000009", 48),
        // A byte that begins no character.
        ("deadbeef cafebabe 0000000d 00000006 00000001 00000001 00000001 f0", 49),
        // An event of an unknown type.
        ("deadbeef cafebabe 00000014 00000005 00000000 00000000 0000000000000001 00000003", 56),
        // One byte too many.
        ("deadbeef cafebabe 00000005 00000001 00000000 00", 40),
        // No such operation.
        ("deadbeef cafebabe 0000000c 00000002 00000001 00000004 00000000", 48),
    ] {
        match with_chunk(chunk) {
            Err(Error::Malformed { offset, .. }) => assert_eq!(offset, at, "{chunk}"),
            other => panic!("{chunk}: {other:?}"),
        }
    }
}

#[test]
fn the_writer_refuses_what_no_reader_could_read() {
    let mut w = Writer::new(Vec::new()).unwrap();
    w.event_types(&[the_type()]).unwrap();
    assert!(w.event_types(&[the_type()]).unwrap_err().to_string().contains("declared twice"));
    let a = attributes(0, 0, 0.0, "");
    assert!(w.event(1, 0, 3, &a).unwrap_err().to_string().contains("feedlet 1 has not begun"));
    w.add_feedlet(1, &[]).unwrap();
    assert!(w.add_feedlet(1, &[]).is_err());
    assert!(w.event(1, 0, 4, &a).unwrap_err().to_string().contains("type 4 was not declared"));
    assert!(w.event(1, 0, 3, &Attributes::default()).unwrap_err().to_string().contains("other attributes"));
    assert!(w.remove_feedlet(2).is_err());
    let bytes = w.finish().unwrap();
    assert!(!read_all(&bytes[..]).unwrap().iter().any(|i| matches!(i, Item::Event(_))));
}
