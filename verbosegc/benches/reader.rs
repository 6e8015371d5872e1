//! How fast one core reads logs: `cargo bench -p metronome-verbosegc --bench reader [-- FILE...]`.
//!
//! Millions of bytes for each second of CPU time (this thread's, from `/proc`; wall time where there is none), the median
//! of some rounds, beside two controls over the same bytes in memory: counting `<`, and copying them.

use metronome_verbosegc::reader::{Item, Reader};
use std::hint::black_box;
use std::time::{Duration, Instant};

const ROUNDS: usize = 7;
const BYTES: usize = 64 << 20;

/// CPU time of this thread.
fn cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
}

fn speed(bytes: usize, mut work: impl FnMut()) -> f64 {
    let mut took: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let (wall, before) = (Instant::now(), cpu());
            work();
            let cpu = cpu().zip(before).map(|(after, before)| after - before);
            cpu.filter(|c| !c.is_zero()).unwrap_or_else(|| wall.elapsed()).as_secs_f64()
        })
        .collect();
    took.sort_by(f64::total_cmp);
    bytes as f64 / 1e6 / took[ROUNDS / 2]
}

fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let sample = |name: &str| format!("{}/../verbosegc-samples/{name}", env!("CARGO_MANIFEST_DIR"));
    let files = match named.len() {
        0 => ["index-openj9.xml", "index-2007.xml", "trees-degrade.xml"].map(sample).to_vec(),
        _ => named,
    };
    println!("{:<28} {:>9} {:>9} {:>9}  (MB/s of CPU time)", "log", "reader", "count <", "copy");
    for file in files {
        let log = match std::fs::read(&file) {
            Ok(log) if !log.is_empty() => log,
            Ok(_) => continue,
            Err(e) => {
                eprintln!("{file}: {e}");
                std::process::exit(2);
            }
        };
        let bytes = log.repeat(BYTES.div_ceil(log.len()));
        let reader = speed(bytes.len(), || {
            let items = Reader::new(&bytes[..]).map(|item| item.expect("memory can be read"));
            let events = items.filter(|item| matches!(black_box(item), Item::Event(_))).count();
            assert!(black_box(events) > 0, "no event in {file}");
        });
        let count = speed(bytes.len(), || {
            black_box(black_box(&bytes).iter().filter(|b| **b == b'<').count());
        });
        let copy = speed(bytes.len(), || drop(black_box(black_box(&bytes).clone())));
        let name = file.rsplit('/').next().unwrap_or(&file);
        println!("{name:<28} {reader:>9.0} {count:>9.0} {copy:>9.0}");
    }
}
