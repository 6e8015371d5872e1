//! The contract of a run: what the program does and what the collector can do, as the log shows it, and what follows
//! for heap, utilization, quantum and window. The arithmetic is the scheduler's.

use crate::figures::{CycleRow, CycleSums, RunFigures, Writer};
use metronome_scheduler::contract::{Contract, ContractError, heap_for_utilization, utilization_for_heap};

/// The target where the log does not tell: the default of IBM's and OpenJ9's collectors, and ours.
pub const DEFAULT_TARGET_PPM: u32 = 700_000;
/// Whole cycles that a measurement needs.
const CYCLES: u64 = 3;
/// Cycles from which on a single one may be left out.
const MANY_CYCLES: u64 = 20;
/// Allowance for fragmentation where the log does not tell: this project's default.
const FRAGMENTATION_PPM: u32 = 120_000;
/// Utilizations of the curve, in percent.
const CURVE: std::ops::RangeInclusive<u32> = 5..=95;

/// What was measured, and what follows.
#[derive(Clone, Debug, PartialEq)]
pub struct ContractReport {
    /// Live data *m* (the most), allocation rate *a* in mutator time (the highest of a cycle, but for `burst`), trace rate *R*, sweep rate
    /// *S*, fragmentation *f*.
    pub measured: Contract,
    /// Cycles measured.
    pub cycles: u64,
    /// The log does not tell mark from sweep time: *R* holds both, and *S* is as good as infinite.
    pub phases_unknown: bool,
    /// *m* and *a* come from free memory, so *m* includes garbage that a cycle could not find.
    pub from_free_memory: bool,
    /// A cycle that alone allocated more than twice as fast as all others: it is left out of *a*.
    pub burst: Option<Burst>,
    /// The run's heap.
    pub heap_bytes: Option<u64>,
    /// The run's target.
    pub target_ppm: u32,
    /// Smallest heap that keeps the target; `None` if no heap does.
    pub heap_for_target: Option<u64>,
    /// The highest utilization that the run's heap can keep; `None` if it is below what is live, or not known.
    pub utilization_for_heap: Option<u32>,
    /// Utilization in ppm and the smallest heap for it, from 5 to 95 %; `None` where none is large enough.
    pub curve: Vec<(u32, Option<u64>)>,
    /// Utilization of windows for other quanta at the run's target.
    pub what_if: Vec<WhatIf>,
}

/// A cycle that allocated as no other did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Its rate in mutator time, in bytes per second.
    pub rate: u64,
    /// Line of its end.
    pub line: u64,
}

/// What another quantum and window would give, if quanta are spread evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WhatIf {
    /// Length of a quantum: the longest pause as planned.
    pub quantum_ns: u64,
    /// Length of the window.
    pub window_ns: u64,
    /// The least utilization of any such window, in ppm.
    pub mmu_ppm: u32,
}

/// The least utilization of a window if quanta of `quantum_ns` alternate with as much mutator time as keeps the target:
/// `(q_m ⌊w/(q_m+q)⌋ + x) / w`, where `x` is what the last piece of the window leaves beyond one quantum (Bacon, Cheng,
/// Rajan, POPL 2003).
pub fn even_mmu_ppm(quantum_ns: u64, window_ns: u64, target_ppm: u32) -> u32 {
    let left = 1_000_000_u128.saturating_sub(u128::from(target_ppm));
    if window_ns == 0 || quantum_ns == 0 || left == 0 {
        return target_ppm.min(1_000_000);
    }
    let (q, w) = (u128::from(quantum_ns), u128::from(window_ns));
    let mutator = q * u128::from(target_ppm) / left;
    let period = mutator + q;
    let whole = w / period;
    let rest = (w - whole * period).saturating_sub(q);
    u32::try_from((mutator * whole + rest) * 1_000_000 / w).unwrap_or(1_000_000)
}

/// Adds a cycle to a run's sums.
pub(crate) fn sum_up(sums: &mut CycleSums, row: &CycleRow, heap: Option<u64>, own: bool) {
    let live = row.live_bytes.or_else(|| if own { None } else { heap?.checked_sub(row.free_end_bytes?) });
    // What was live when a collection ended a cycle was live as well.
    sums.live_max_bytes = sums.live_max_bytes.max(live.filter(|_| !row.torn).unwrap_or(0));
    if row.synchronous || row.torn {
        return;
    }
    sums.cycles += 1;
    sums.collector_ns += u128::from(row.collector_ns);
    sums.mark_ns += u128::from(row.mark_ns);
    sums.sweep_ns += u128::from(row.sweep_ns);
    let (Some(allocated), Some(wall)) = (row.allocated_bytes, allocating_ns(row, own)) else { return };
    sums.allocated_bytes = sums.allocated_bytes.saturating_add(allocated);
    sums.allocated_ns = sums.allocated_ns.saturating_add(wall);
    let collector = if own { row.collector_ns } else { row.mark_ns };
    // Printed times have a millisecond's grain; shorter mutator times say nothing.
    let mutator = wall.checked_sub(collector).filter(|ns| *ns >= 1_000_000);
    let (Some(live), Some(mutator), true) = (live, mutator, row.collector_ns > 0) else { return };
    let rate = u128::from(allocated) * 1_000_000_000 / u128::from(mutator);
    sums.measured += 1;
    sums.live_bytes += u128::from(live);
    let rate = u64::try_from(rate).unwrap_or(u64::MAX);
    if sums.rate_line == 0 || rate > sums.rate_max {
        (sums.rate_next, sums.rate_max, sums.rate_line) = (sums.rate_max, rate, row.line);
    } else {
        sums.rate_next = sums.rate_next.max(rate);
    }
}

/// Measures a run's contract.
///
/// # Errors
/// What is missing, in words.
pub fn measure(run: &RunFigures) -> Result<ContractReport, String> {
    let own = run.writer == Some(Writer::MetronomeGc);
    let sums = &run.cycle_sums;
    if sums.measured < CYCLES {
        return Err(format!(
            "{} of the {CYCLES} whole cycles that are needed tell live data, allocation and collector time",
            sums.measured
        ));
    }
    let phases_unknown = sums.mark_ns == 0;
    let mark_ns = if phases_unknown {
        sums.collector_ns
    } else {
        sums.collector_ns - sums.sweep_ns.min(sums.collector_ns)
    };
    let sweep_ns = sums.sweep_ns;
    let per_second = |bytes: u128, ns: u128| {
        bytes
            .saturating_mul(1_000_000_000)
            .checked_div(ns)
            .map_or(u64::MAX, |r| u64::try_from(r).unwrap_or(u64::MAX))
    };
    // Rows that tell no live data took collector time, too.
    let trace_rate =
        per_second(sums.live_bytes * u128::from(sums.cycles) / u128::from(sums.measured), mark_ns);
    let heap = run.heap_bytes;
    let sweep_rate = match heap {
        Some(h) if sweep_ns > 0 => per_second(u128::from(h) * u128::from(sums.cycles), sweep_ns),
        _ => u64::MAX,
    };
    let fragmentation_ppm = fragmentation(run);
    // One cycle among many is no habit of the program.
    let alone = sums.measured >= MANY_CYCLES && sums.rate_max / 2 > sums.rate_next;
    let alone = alone.then_some(Burst { rate: sums.rate_max, line: sums.rate_line });
    let contract = Contract {
        live_bytes: sums.live_max_bytes,
        allocation_rate: if alone.is_some() { sums.rate_next } else { sums.rate_max },
        trace_rate,
        sweep_rate,
        fragmentation_ppm,
    };
    let config = run.config.as_deref();
    let target_ppm = config.and_then(|c| c.target_ppm).unwrap_or(DEFAULT_TARGET_PPM);
    let at = |ppm: u32| match heap_for_utilization(&contract, ppm) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ContractError::NoHeapSuffices | ContractError::TooLarge) => Ok(None),
        Err(e) => Err(format!("the measured rates give no contract: {e}")),
    };
    let curve = CURVE.map(|p| Ok((p * 10_000, at(p * 10_000)?))).collect::<Result<_, String>>()?;
    Ok(ContractReport {
        measured: contract,
        cycles: sums.measured,
        phases_unknown,
        from_free_memory: !own,
        burst: alone,
        heap_bytes: heap,
        target_ppm,
        heap_for_target: at(target_ppm.min(999_999))?,
        utilization_for_heap: heap.and_then(|h| utilization_for_heap(&contract, h).ok()),
        curve,
        what_if: what_if(run, target_ppm),
    })
}

/// Bytes allocated in cycles and the wall time that they were allocated in, as far as the log tells: logs of others tell
/// what was allocated while marking, by how free memory fell.
pub fn allocation(run: &RunFigures) -> Option<(u64, u64)> {
    let sums = &run.cycle_sums;
    (sums.allocated_ns > 0).then_some((sums.allocated_bytes, sums.allocated_ns))
}

/// The wall time of a cycle for which the log tells allocation.
fn allocating_ns(row: &CycleRow, own: bool) -> Option<u64> {
    let wall = row.length_ns?;
    if own {
        return Some(wall);
    }
    // Free memory tells allocation while marking only: that part of the cycle's wall time, by collector time.
    let part = (u128::from(wall) * u128::from(row.mark_ns)).checked_div(u128::from(row.collector_ns))?;
    u64::try_from(part).ok()
}

fn fragmentation(run: &RunFigures) -> u32 {
    let config = run.config.as_deref();
    let told = config.and_then(|c| c.vmargs.iter().find(|(name, _)| name == "--fragmentation"));
    let percent = told.and_then(|(_, value)| value.as_deref()?.parse::<u32>().ok());
    percent.filter(|p| *p <= 100).map_or(FRAGMENTATION_PPM, |p| p * 10_000)
}

/// Half, same and double quantum, in half, same and double windows.
fn what_if(run: &RunFigures, target_ppm: u32) -> Vec<WhatIf> {
    let config = run.config.as_deref();
    let own = run.writer == Some(Writer::MetronomeGc);
    let (quantum, window) = if own { (500_000, 10_000_000) } else { (3_000_000, 60_000_000) };
    let quantum = config.and_then(|c| c.beat_ns).unwrap_or(quantum);
    let window = config.and_then(|c| c.window_ns).unwrap_or(window);
    let sizes = |ns: u64| [ns / 2, ns, ns.saturating_mul(2)];
    let pairs = sizes(quantum).into_iter().flat_map(|q| sizes(window).map(|w| (q, w)));
    let pairs = pairs.filter(|(q, w)| *q > 0 && *w > 0);
    pairs
        .map(|(quantum_ns, window_ns)| WhatIf {
            quantum_ns,
            window_ns,
            mmu_ppm: even_mmu_ppm(quantum_ns, window_ns, target_ppm),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_quanta_against_a_search_over_all_windows() {
        for (quantum, window, target) in
            [(3_u64, 60_u64, 700_000_u32), (5, 10, 500_000), (2, 7, 500_000), (4, 3, 200_000)]
        {
            // Units of 20, so that rounding the mutator's part matters little and the search is short.
            let (q, w) = (quantum * 20, window * 20);
            let mutator = q * u64::from(target) / u64::from(1_000_000 - target);
            let period = mutator + q;
            let used = |from: u64| (from..from + w).filter(|t| t % period < q).count() as u64;
            let worst = (0..period).map(used).max().unwrap();
            let expected = (w - worst) * 1_000_000 / w;
            let got = u64::from(even_mmu_ppm(q, w, target));
            assert!(got.abs_diff(expected) <= 20_000, "{quantum} {window} {target}: {got} {expected}");
        }
    }
}
