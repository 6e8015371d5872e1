//! This project's collector, as a program would use it.

mod cache;
mod lockfree;
mod store;
mod trees;

use super::{Facts, Family, Idle};
use metronome_gc::{AllocError, Heap, Mutator, Stats};
use std::time::{Duration, Instant};

/// A heap of a given size, its other options at their defaults or from the environment (`METRONOME_*`).
pub(crate) struct Metronome;

impl Family for Metronome {
    type Shared = Heap;
    type Memory<'a> = Mutator<'a>;

    fn open(heap: Option<u64>) -> Result<Heap, String> {
        let mut config = metronome_gc::Config::default();
        config.merge_process_env().map_err(|e| e.to_string())?;
        let builder = Heap::builder().config(config).heap_bytes(heap.unwrap_or(1 << 30));
        builder.set("memory-wait", "1s").build().map_err(|e| e.to_string())
    }

    fn enter<R>(heap: &Heap, f: impl FnOnce(&mut Mutator<'_>) -> R) -> R {
        heap.enter(f)
    }

    fn facts(heap: &Heap) -> Facts {
        let mut facts = figures(&heap.stats());
        facts.extend(heap.refusals().iter().map(|r| ("note".to_owned(), format!("refused: {r}"))));
        facts
    }
}

impl Idle for Mutator<'_> {
    fn idle<R>(&mut self, f: impl FnOnce() -> R) -> R {
        self.blocking(f)
    }
}

/// The collector's own account of the run.
fn figures(s: &Stats) -> Facts {
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    let mut facts: Facts = [
        ("cycles", s.cycles.to_string()),
        ("quanta", s.quanta.to_string()),
        ("pause_p50_us", us(s.pause_ns.p50)),
        ("pause_p99_us", us(s.pause_ns.p99)),
        ("pause_p999_us", us(s.pause_ns.p999)),
        ("pause_max_us", us(s.pause_ns.max)),
        ("collector_ms", format!("{:.2}", s.collector_ns as f64 / 1e6)),
        ("synchronous", s.synchronous_collections.to_string()),
        ("departures", s.departures.to_string()),
        ("violations", s.violations.to_string()),
        ("violations_wall", s.violations_wall.to_string()),
        ("stops_cancelled", s.stops_cancelled.to_string()),
        ("allocated_bytes", s.allocated_bytes.to_string()),
        ("live_bytes", s.live_bytes.to_string()),
    ]
    .map(|(name, value)| (format!("gc.{name}"), value))
    .into();
    for m in &s.mmu {
        for (kind, ppm) in [("charged", m.charged_ppm), ("wall", m.wall_ppm)] {
            if let Some(ppm) = ppm {
                facts.push((
                    format!("mmu.{kind}.{}us", m.window_ns / 1000),
                    format!("{:.4}", f64::from(ppm) / 1e6),
                ));
            }
        }
    }
    facts
}

/// How long failed allocations are tried again.
const PATIENCE: Duration = Duration::from_secs(3);

/// Runs `unit`, again after waiting for memory if an allocation failed; a safepoint follows.
///
/// `unit` must leave things as they were if it fails.
#[inline]
fn insist<'h, R>(m: &mut Mutator<'h>, mut unit: impl FnMut(&Mutator<'h>) -> Result<R, AllocError>) -> R {
    if let Ok(r) = unit(m) {
        m.safepoint();
        return r;
    }
    insist_slow(m, &mut unit)
}

#[cold]
fn insist_slow<'h, R>(m: &mut Mutator<'h>, unit: &mut dyn FnMut(&Mutator<'h>) -> Result<R, AllocError>) -> R {
    let first = Instant::now();
    loop {
        // Waits for memory, as an allocation has failed.
        m.safepoint();
        match unit(m) {
            Ok(r) => {
                m.safepoint();
                return r;
            }
            Err(e) if first.elapsed() > PATIENCE => crate::child::too_small(&e),
            Err(_) => m.blocking(|| std::thread::sleep(Duration::from_millis(1))),
        }
    }
}
