//! Opening logs: compressed, rotated, replaced and growing files give what the plain one gives.

use flate2::{Compression, write::GzEncoder};
use metronome_verbosegc::files::{Follow, decompressed, logrotated, open, open_parts, parts};
use metronome_verbosegc::reader::{Item, Log, Reader, read_log};
use std::cell::Cell;
use std::fs::{self, OpenOptions};
use std::io::{BufReader, ErrorKind, Read, Write};
use std::path::PathBuf;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("metronome-verbosegc-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// A log of `n` cycles, large enough for several buffers.
fn log(n: u64) -> String {
    let mut text =
        "<?xml version=\"1.0\" ?>\n<verbosegc xmlns=\"http://www.ibm.com/j9/verbosegc\" version=\"x\">\n"
            .to_owned();
    for i in 0..n {
        let second = i % 60;
        text +=
            &format!("<trigger-start id=\"{}\" timestamp=\"2026-08-31T13:43:{second:02}.916\" />\n", i + 1);
    }
    text + "</verbosegc>\n"
}

fn events(log: &Log) -> usize {
    log.runs.iter().map(|r| r.events.len()).sum()
}

#[test]
fn compressed_logs_read_as_plain_ones_also_several_in_one_and_from_a_pipe() {
    let text = log(9_000);
    let plain = read_log(text.as_bytes()).unwrap();
    let scratch = Scratch::new("gzip");
    let path = scratch.write("gc.log.gz", &gzip(text.as_bytes()));
    assert_eq!(read_log(open(&path).unwrap()).unwrap(), plain);
    let (a, b) = text.split_at(text.len() / 3);
    let members = [gzip(a.as_bytes()), gzip(b.as_bytes())].concat();
    // A pipe gives a byte at a time.
    let pipe = BufReader::with_capacity(1, &members[..]);
    assert_eq!(read_log(decompressed(pipe).unwrap()).unwrap(), plain);
    assert_eq!(read_log(decompressed(text.as_bytes()).unwrap()).unwrap(), plain);
    assert_eq!(read_log(decompressed(&b""[..]).unwrap()).unwrap().runs.len(), 0);
}

#[test]
fn a_compressed_log_that_breaks_off_gives_what_is_there_and_its_error() {
    let text = log(9_000);
    let whole = gzip(text.as_bytes());
    let mut items = Reader::new(decompressed(&whole[..whole.len() / 2]).unwrap());
    let (mut seen, mut errors, mut ended) = (0, 0, false);
    for item in &mut items {
        match item {
            Ok(Item::Event(_)) => seen += 1,
            Ok(Item::RunEnd(end)) => ended = !end.complete,
            Ok(_) => {}
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::UnexpectedEof);
                errors += 1;
            }
        }
    }
    assert!(seen > 1_000 && seen < 9_000 && errors == 1 && ended, "{seen} {errors} {ended}");
}

#[test]
fn rotated_parts_are_joined_in_the_order_of_writing() {
    let text = log(300);
    let plain = read_log(text.as_bytes()).unwrap();
    let scratch = Scratch::new("rotated");
    // The ring has come round: 002 is the oldest. A cut goes through the middle of a tag.
    let cuts = [0, 5_003, 10_021, text.len()];
    let times = [10, 20, 30];
    for (i, name) in ["gc.log.002", "gc.log.003.gz", "gc.log.001"].iter().enumerate() {
        let piece = &text.as_bytes()[cuts[i]..cuts[i + 1]];
        let bytes = if name.ends_with("gz") { gzip(piece) } else { piece.to_vec() };
        let path = scratch.write(name, &bytes);
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(times[i]);
        OpenOptions::new().append(true).open(path).unwrap().set_modified(time).unwrap();
    }
    scratch.write("gc.log.0x1", b"not a part");
    scratch.write("gc.logs.001", b"not a part");
    let found = parts(&scratch.0.join("gc.log")).unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!(read_log(open_parts(found).unwrap()).unwrap(), plain);
    let none = parts(&scratch.0.join("other.log")).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
}

#[test]
fn logrotated_parts_are_joined_oldest_first() {
    let text = log(300);
    let scratch = Scratch::new("logrotate");
    scratch.write("gc.log.2.gz", &gzip(&text.as_bytes()[..4_000]));
    scratch.write("gc.log.1", &text.as_bytes()[4_000..9_000]);
    let now = scratch.write("gc.log", &text.as_bytes()[9_000..]);
    let joined = read_log(open_parts(logrotated(&now).unwrap()).unwrap()).unwrap();
    assert_eq!(joined, read_log(text.as_bytes()).unwrap());
    assert_eq!(parts(&now).unwrap(), [now]);
}

#[test]
fn a_folder_is_refused_in_words() {
    let scratch = Scratch::new("folder");
    let error = open(&scratch.0).err().unwrap().to_string();
    assert!(error.contains("is a directory"), "{error}");
}

#[test]
fn a_file_that_grows_is_read_to_the_end_and_a_new_one_from_its_beginning() {
    let text = log(50);
    let scratch = Scratch::new("follow");
    let path = scratch.write("gc.log", b"");
    let written = Cell::new(0);
    let waits = Cell::new(0);
    let follow = Follow::new(&path, || {
        waits.set(waits.get() + 1);
        let from = written.get();
        if from == text.len() {
            // Another run begins in a new file of that name; then it is enough.
            if waits.get() > 1_000 {
                return false;
            }
            waits.set(1_000);
            fs::rename(&path, scratch.0.join("gc.log.old")).unwrap();
            scratch.write("gc.log", text.as_bytes());
            return true;
        }
        let to = (from + 97).min(text.len());
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(&text.as_bytes()[from..to]).unwrap();
        written.set(to);
        true
    })
    .unwrap();
    let log = read_log(BufReader::new(follow)).unwrap();
    assert_eq!((events(&log), log.runs.len(), log.complete), (100, 2, true), "{:#?}", log.diagnostics);
}

#[test]
fn a_file_that_is_cut_short_or_written_over_is_read_anew_and_that_is_said() {
    let scratch = Scratch::new("cut");
    // Shorter, as long, and longer; under the same number, and as another file.
    for other in ["anew", "other text", "a text that is longer"] {
        for rename in [false, true] {
            let path = scratch.write("gc.log", b"first text");
            let turn = Cell::new(0);
            let mut follow = Follow::new(&path, || {
                turn.set(turn.get() + 1);
                if turn.get() == 1 && rename {
                    fs::rename(scratch.write("new", other.as_bytes()), &path).unwrap();
                } else if turn.get() == 1 {
                    fs::write(&path, other).unwrap();
                } else if turn.get() == 2 {
                    OpenOptions::new().append(true).open(&path).unwrap().write_all(b", more").unwrap();
                }
                turn.get() < 3
            })
            .unwrap();
            let mut all = String::new();
            follow.read_to_string(&mut all).unwrap();
            let rest = all.strip_prefix("first text<!-- ").unwrap_or_else(|| panic!("{all}"));
            let (said, rest) = rest.split_once(" -->").unwrap();
            assert!(said.contains("read from its beginning"), "{said}");
            assert_eq!(rest, format!("{other}, more"), "{rename}");
        }
    }
}
