//! Measures what the contract's arithmetic needs, in this process and on this machine as it is: the live set m, the
//! allocation rate a, and the rates R and S at which the collector marks and sweeps.
//!
//! Two heaps of ample size run the program for some seconds, one without its live set and one with it, while cycles are
//! asked for in a heap that is mostly full. A cycle of the first is a sweep and what every cycle costs; what a cycle of the
//! second takes more is the marking of m. So the fixed costs are part of S, and errors are on the safe side.

use super::{CATCH_UP, Load, Shape};
use crate::quantity::{bytes, time};
use crate::run::env::{Env, Failure};
use metronome_gc::config::{Config, Exhaustion, TriggerMode};
use metronome_gc::scheduler::contract::{Contract, ContractError, heap_for_utilization};
use metronome_gc::{Heap, Mutator, Notification};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Longest time spent on cycles in each heap.
const TIME: Duration = Duration::from_secs(2);
/// Cycles in each heap, at least and at most.
const CYCLES: std::ops::RangeInclusive<usize> = 4..=12;
/// For how long the allocation rate is measured.
const RATE_TIME: Duration = Duration::from_millis(800);
/// Longest wait for one cycle.
const CYCLE_TIME: Duration = Duration::from_secs(30);
/// How often the main thread looks whether something has happened.
const LOOK: Duration = Duration::from_millis(5);
/// Bytes of garbage allocated between looks at the heap.
const FILL_CHUNK: u64 = 64 << 10;
/// Unit of the heap's size.
const REGION: u64 = 64 << 10;
/// Least size of a heap.
const HEAP_MIN: u64 = 1 << 20;

/// What was measured, and the heap that follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calibration {
    contract: Contract,
    utilization_ppm: u32,
    /// T in a heap of the size H.
    cycle_ns: u64,
    /// A in a heap of the size H.
    allocation_bytes: u64,
    /// H = (1+f)(m+2A).
    enough_bytes: u64,
    factor: f64,
}

impl Calibration {
    fn new(contract: Contract, utilization_ppm: u32, factor: f64) -> Result<Calibration, ContractError> {
        let enough_bytes = heap_for_utilization(&contract, utilization_ppm)?;
        Ok(Calibration {
            contract,
            utilization_ppm,
            cycle_ns: contract.cycle_ns(enough_bytes),
            allocation_bytes: contract.cycle_allocation(enough_bytes, utilization_ppm)?,
            enough_bytes,
            factor,
        })
    }

    /// The size of the heap to run in: the factor times H, in whole regions.
    pub(crate) fn heap_bytes(&self) -> u64 {
        // Far below 2^53, beyond which a heap is refused anyway.
        let wanted = (self.enough_bytes as f64 * self.factor) as u64;
        wanted.div_ceil(REGION).saturating_mul(REGION).max(HEAP_MIN)
    }

    /// For people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let c = &self.contract;
        let per_second = |rate| format!("{}/s", bytes(rate));
        vec![
            format!(
                "measured before: live set m {}, allocation rate a {}, trace rate R {}, sweep rate S {}",
                bytes(c.live_bytes),
                per_second(c.allocation_rate),
                per_second(c.trace_rate),
                per_second(c.sweep_rate)
            ),
            format!(
                "at a utilization of {} % a cycle takes T {} and allocates A {}: enough is H = (1+f)(m+2A) = {}, f {} %",
                self.utilization_ppm / 10_000,
                time(self.cycle_ns),
                bytes(self.allocation_bytes),
                bytes(self.enough_bytes),
                c.fragmentation_ppm / 10_000
            ),
            format!("the heap is {} H", self.factor),
        ]
    }

    /// For programs.
    pub(crate) fn to_json(self) -> Value {
        let c = &self.contract;
        json!({
            "live_bytes": c.live_bytes,
            "allocation_bytes_per_second": c.allocation_rate,
            "trace_bytes_per_second": c.trace_rate,
            "sweep_bytes_per_second": c.sweep_rate,
            "fragmentation": f64::from(c.fragmentation_ppm) / 1e6,
            "utilization": f64::from(self.utilization_ppm) / 1e6,
            "cycle_ms": self.cycle_ns as f64 / 1e6,
            "cycle_allocation_bytes": self.allocation_bytes,
            "enough_heap_bytes": self.enough_bytes,
            "heap_factor": self.factor,
        })
    }
}

/// Measures the program of this shape, to run in `factor` times the heap that is enough by `config`.
///
/// # Errors
/// What to change, in one line.
pub(crate) fn calibrate(
    config: &Config,
    shape: Shape,
    factor: f64,
    interrupted: &Arc<AtomicBool>,
) -> Result<Calibration, String> {
    let contract = measure(config, shape, interrupted)?;
    Calibration::new(contract, config.target_utilization * 10_000, factor)
        .map_err(|e| format!("{e} (lower --alloc-rate, --live or --target-utilization)"))
}

/// Measures the program of this shape.
///
/// # Errors
/// What to change, in one line.
pub(crate) fn measure(
    config: &Config,
    shape: Shape,
    interrupted: &Arc<AtomicBool>,
) -> Result<Contract, String> {
    let ample = Config {
        heap: shape.live_bytes().saturating_mul(3).saturating_add(16 << 20).div_ceil(REGION) * REGION,
        initial_heap: None,
        exhaustion: Exhaustion::Degrade,
        trigger: TriggerMode::Static { percent: 99 },
        cycle_interval_ns: None,
        verbose_gc: None,
        ..config.clone()
    };
    let without = observe(&ample, shape, false, interrupted)?;
    let with = observe(&ample, shape, true, interrupted)?;
    let mut contract = contract_of(&without, &with, config.fragmentation_percent * 10_000);
    // A program that did not get the CPU while it was measured may get it later.
    contract.allocation_rate = contract.allocation_rate.max(shape.most_bytes_per_second());
    Ok(contract)
}

/// What was seen in one heap.
#[derive(Clone, Copy, Debug)]
struct Observed {
    /// Bytes allocated when the live set was complete.
    live_bytes: u64,
    /// Bytes in use when the cycles began (the least).
    used_bytes: u64,
    /// Charged collector time of the slowest cycle.
    cycle_ns: u64,
    /// Bytes per second of mutator time.
    allocation_rate: u64,
}

fn contract_of(without: &Observed, with: &Observed, fragmentation_ppm: u32) -> Contract {
    const SECOND: u128 = 1_000_000_000;
    let narrow = |x: u128| u64::try_from(x).unwrap_or(u64::MAX);
    let rate = |bytes: u64, ns: u64| narrow(u128::from(bytes) * SECOND / u128::from(ns.max(1))).max(1);
    let sweep_rate = rate(without.used_bytes, without.cycle_ns);
    // Sweeping in the second heap; where noise makes that all there was, nothing is subtracted.
    let swept_ns = narrow(u128::from(with.used_bytes) * SECOND / u128::from(sweep_rate));
    let marked_ns = with.cycle_ns.checked_sub(swept_ns).filter(|&ns| ns > 0).unwrap_or(with.cycle_ns);
    Contract {
        live_bytes: with.live_bytes,
        allocation_rate: with.allocation_rate,
        trace_rate: rate(with.live_bytes, marked_ns),
        sweep_rate,
        fragmentation_ppm,
    }
}

/// What the threads of one heap share.
struct Shared {
    env: Env,
    shape: Shape,
    keep: bool,
    /// Threads whose live set is complete.
    built: AtomicUsize,
    /// Whether the schedule has begun.
    go: AtomicBool,
}

/// Ends the threads of a heap: a scope waits for them, whatever happens in it.
struct StopAtEnd<'a>(&'a Env);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs the program in a heap, with cycles.
fn observe(
    config: &Config,
    shape: Shape,
    keep: bool,
    interrupted: &Arc<AtomicBool>,
) -> Result<Observed, String> {
    let heap = Heap::builder().config(config.clone()).build().map_err(|e| {
        format!("the program is measured in a heap of {}: {e}; lower --live", bytes(config.heap))
    })?;
    let (send, ended) = mpsc::channel();
    let _subscription = heap.subscribe(move |n| {
        if let Notification::CycleEnd { collector_ns, .. } = n {
            // Nobody listens any more once all has been measured.
            let _ = send.send(*collector_ns);
        }
    });
    let mutators = u32::try_from(shape.mutators).unwrap_or(u32::MAX);
    let shared = Shared {
        env: Env::new(heap, Arc::clone(interrupted)).with_threads(mutators),
        shape,
        keep,
        built: AtomicUsize::new(0),
        go: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let env = &shared.env;
        let _stop = StopAtEnd(env);
        let threads =
            (0..shape.mutators as usize).map(|i| start(scope, &shared, i)).collect::<Result<Vec<_>, _>>()?;
        // Relaxed, here and below: counters and flags that carry no data.
        while shared.built.load(Relaxed) < threads.len() && !env.stopping() {
            std::thread::sleep(LOOK);
        }
        let live_bytes = env.heap.glance().allocated_bytes;
        shared.go.store(true, Relaxed);
        let allocation_rate = allocation_rate(env);
        let seen = cycles(env, shape, &ended);
        env.stop();
        for thread in threads {
            match thread.join() {
                Ok(result) => result.map_err(cannot)?,
                Err(_) => return Err(cannot("a thread panicked")),
            }
        }
        let (used_bytes, cycle_ns) = seen?;
        Ok(Observed { live_bytes, used_bytes, cycle_ns, allocation_rate })
    })
}

fn cannot(why: impl std::fmt::Display) -> String {
    format!("the program cannot be measured: {why}")
}

/// Starts thread `i` of the program, which stops the others if it fails.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared,
    i: usize,
) -> Result<ScopedJoinHandle<'scope, Result<(), Failure>>, String> {
    let body = move || {
        let result = shared.env.heap.enter(|m| program(shared, m, i));
        if result.is_err() {
            shared.env.stop();
        }
        result
    };
    std::thread::Builder::new()
        .name(format!("contract-{i}"))
        .spawn_scoped(scope, body)
        .map_err(|e| format!("cannot start a thread: {e}; lower --mutators or raise the limit (ulimit -u)"))
}

/// A thread of the program: builds its live set, waits for the others, then keeps to its schedule.
fn program(shared: &Shared, m: &mut Mutator<'_>, i: usize) -> Result<(), Failure> {
    let env = &shared.env;
    let mut load = Load::new(env, m, shared.shape, i, shared.keep)?;
    // Relaxed, both: as in `observe`.
    shared.built.fetch_add(1, Relaxed);
    while !shared.go.load(Relaxed) && !env.stopping() {
        m.blocking(|| std::thread::sleep(LOOK));
    }
    load.begin(env);
    while !env.stopping() {
        load.step(env, m)?;
    }
    Ok(())
}

/// The most bytes allocated per second of mutator time: the rate, and what is added to it to make up for delays.
fn allocation_rate(env: &Env) -> u64 {
    let (start, before) = (Instant::now(), env.heap.glance());
    while start.elapsed() < RATE_TIME && !env.stopping() {
        std::thread::sleep(LOOK);
    }
    let (elapsed, after) = (start.elapsed(), env.heap.glance());
    let mutator = elapsed.saturating_sub(Duration::from_nanos(after.collector_ns - before.collector_ns));
    let allocated = after.allocated_bytes - before.allocated_bytes;
    (allocated as f64 / mutator.as_secs_f64().max(1e-9) * CATCH_UP).ceil() as u64
}

/// Lets cycles run in a heap that is mostly full: bytes in use at their start (the least), and the time of the slowest.
fn cycles(env: &Env, shape: Shape, ended: &mpsc::Receiver<u64>) -> Result<(u64, u64), String> {
    let start = Instant::now();
    let (mut used, mut times) = (u64::MAX, Vec::new());
    while times.len() < *CYCLES.end() && (start.elapsed() < TIME || times.len() < *CYCLES.start()) {
        if env.stopping() {
            return Err(cannot("ended early"));
        }
        fill(env, shape).map_err(cannot)?;
        used = used.min(env.heap.glance().used_bytes);
        // What has ended until now was not asked for here.
        while ended.try_recv().is_ok() {}
        env.heap.request_cycle();
        let time = ended.recv_timeout(CYCLE_TIME).map_err(|_| {
            cannot(format_args!("no cycle ended within {} s; is a CPU free?", CYCLE_TIME.as_secs()))
        })?;
        times.push(time);
    }
    Ok((used, times.into_iter().max().unwrap_or(0)))
}

/// Fills three quarters of the heap, with garbage.
fn fill(env: &Env, shape: Shape) -> Result<(), Failure> {
    let goal = env.heap.glance().heap_bytes / 4 * 3;
    env.heap.enter(|m| {
        let mut load = Load::new(env, m, shape, usize::MAX >> 1, false)?;
        while env.heap.glance().used_bytes < goal && !env.stopping() {
            let mut chunk = 0;
            while chunk < FILL_CHUNK {
                chunk += load.garbage(env, m)?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the scheduler's documentation: 1.95 times the live data.
    #[test]
    fn the_heap_is_the_factor_times_the_contract() {
        let contract = Contract {
            live_bytes: 100_000_000,
            allocation_rate: 100_000_000,
            trace_rate: 500_000_000,
            sweep_rate: 100_000_000_000,
            fragmentation_ppm: 0,
        };
        let c = Calibration::new(contract, 700_000, 0.5).unwrap();
        assert!((194_000_000..196_000_000).contains(&c.enough_bytes));
        // H = m + 2A, which the parts must give again.
        assert!(c.enough_bytes.abs_diff(100_000_000 + 2 * c.allocation_bytes) < 1000, "{c:?}");
        assert_eq!(c.heap_bytes() % REGION, 0);
        assert!(c.heap_bytes().abs_diff(c.enough_bytes / 2) <= REGION);
        assert_eq!(Calibration { factor: 1e-9, ..c }.heap_bytes(), HEAP_MIN);
        let lines = c.lines().join("\n");
        for part in ["m 95.4 MiB", "a 95.4 MiB/s", "R 476.8 MiB/s", "of 70 %", "0.5 H"] {
            assert!(lines.contains(part), "{part}: {lines}");
        }
        let impossible = Contract { sweep_rate: 1_000_000, ..contract };
        assert_eq!(Calibration::new(impossible, 700_000, 1.0).unwrap_err(), ContractError::NoHeapSuffices);
    }

    #[test]
    fn rates_follow_from_two_heaps() {
        let seen = |used_bytes, cycle_ns| Observed {
            live_bytes: 20_000_000,
            used_bytes,
            cycle_ns,
            allocation_rate: 7,
        };
        // 1 ms sweeps 30 MB; of 44 ms for 60 MB, 2 ms are sweeping and 42 ms marking.
        let c = contract_of(&seen(30_000_000, 1_000_000), &seen(60_000_000, 44_000_000), 5);
        assert_eq!((c.sweep_rate, c.trace_rate), (30_000_000_000, 476_190_476));
        assert_eq!((c.live_bytes, c.allocation_rate, c.fragmentation_ppm), (20_000_000, 7, 5));
        // A cycle that is no longer than its sweep should be: all of it counts as marking.
        let c = contract_of(&seen(30_000_000, 1_000_000), &seen(60_000_000, 1_500_000), 5);
        assert_eq!(c.trace_rate, 13_333_333_333);
    }

    #[test]
    fn a_small_program_is_measured() {
        let shape = Shape::new(1 << 20, 4 << 20, 2);
        let c = calibrate(&Config::default(), shape, 1.0, &Arc::default()).unwrap();
        let m = c.contract.live_bytes;
        assert!((15 << 16..=18 << 16).contains(&m), "{m} of 1 MiB");
        assert!(
            c.contract.allocation_rate >= 4 << 20 && c.contract.trace_rate > 0 && c.contract.sweep_rate > 0
        );
        assert!(c.enough_bytes > m / 100 * 112, "{c:?}");
    }

    #[test]
    fn an_interrupted_calibration_says_so() {
        let interrupted = Arc::new(AtomicBool::new(true));
        let error = calibrate(&Config::default(), Shape::new(1 << 20, 1 << 20, 1), 1.0, &interrupted);
        assert!(error.unwrap_err().contains("ended early"));
    }
}
