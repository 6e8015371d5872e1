//! The fuzz targets' bodies over the kept corpora, and over random changes to these. `scripts/fuzz` runs the real thing.
//!
//! `METRONOME_SEED` repeats the changes.

#[path = "../fuzz/bodies/config.rs"]
mod config;
#[path = "../fuzz/bodies/log_reader.rs"]
mod log_reader;
#[path = "../fuzz/bodies/tuning_fork.rs"]
mod tuning_fork;

use quickcheck::{Arbitrary, Gen};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Random changes to each file of a corpus.
const CHANGES: usize = 30;

/// Every file of a corpus with its name.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = entries.map(|e| e.expect("the folder can be listed").path()).collect();
    files.sort();
    let read = |p: std::path::PathBuf| {
        let data = std::fs::read(&p).unwrap_or_else(|e| panic!("{}: {e}", p.display()));
        (p.display().to_string(), data)
    };
    files.into_iter().map(read).collect()
}

/// One to four places changed: bytes flipped, cut out, doubled or taken from elsewhere in the data.
fn changed(data: &[u8], g: &mut Gen) -> Vec<u8> {
    let mut out = data.to_vec();
    for _ in 0..1 + usize::arbitrary(g) % 4 {
        let at = usize::arbitrary(g) % (out.len() + 1);
        let end = (at + 1 + usize::arbitrary(g) % 16).min(out.len());
        match u8::arbitrary(g) % 4 {
            0 if at < out.len() => out[at] ^= 1 << (u8::arbitrary(g) % 8),
            1 if at < end => drop(out.drain(at..end)),
            2 if at < end => {
                let piece = out[at..end].to_vec();
                let to = usize::arbitrary(g) % (out.len() + 1);
                out.splice(to..to, piece);
            }
            _ => out.insert(at, u8::arbitrary(g)),
        }
    }
    out
}

/// Runs `body` over the corpus and its changes; returns how many inputs that were.
fn run(target: &str, body: fn(&[u8])) -> usize {
    let seed = match std::env::var_os("METRONOME_SEED") {
        None => u64::arbitrary(&mut Gen::new(64)),
        Some(text) => {
            let number = text.to_str().and_then(|text| text.parse().ok());
            number.unwrap_or_else(|| panic!("METRONOME_SEED={} is not a number", text.display()))
        }
    };
    println!("METRONOME_SEED={seed}");
    let mut g = Gen::from_size_and_seed(64, seed);
    let mut inputs = 0;
    for (name, data) in corpus(target) {
        for n in 0..=CHANGES {
            let input = if n == 0 { data.clone() } else { changed(&data, &mut g) };
            inputs += 1;
            if catch_unwind(AssertUnwindSafe(|| body(&input))).is_err() {
                panic!("{target}: change {n} of {name} with METRONOME_SEED={seed}: {}", input.escape_ascii());
            }
        }
    }
    assert!(inputs > CHANGES, "the corpus of {target} is empty");
    inputs
}

#[test]
fn log_reader() {
    run("log_reader", log_reader::run);
}

#[test]
fn config() {
    run("config", config::run);
}

#[test]
fn tuning_fork() {
    run("tuning_fork", tuning_fork::run);
}

#[test]
fn a_body_that_fails_is_told_with_its_input() {
    fn fails(data: &[u8]) {
        assert!(data.len() > 10_000_000, "too short");
    }
    let error = catch_unwind(|| run("config", fails)).unwrap_err();
    let text = error.downcast_ref::<String>().expect("a formatted message");
    assert!(text.contains("METRONOME_SEED=") && text.contains("fuzz/corpus/config"), "{text}");
}
