//! `metronome calibrate`: measures a program once and says which heap gives which utilization, and the other way round.
//!
//! The program is that of the `contract` workload. What is measured is what the contract's arithmetic asks for: the live set m,
//! the allocation rate a, and the rates R and S at which this machine marks and sweeps. The rest is arithmetic.

use crate::args::HeapFlags;
use crate::output::{USAGE, one_line, say, write_out};
use crate::quantity::{bytes, parse_size, time};
use crate::signals::Signals;
use crate::workload::contract::{CALIBRATED_MAX, DEFAULT_LIVE, DEFAULT_RATE, Shape, calibrate};
use metronome_gc::config::Config;
use metronome_gc::scheduler::contract::{
    Contract, ContractError, average_utilization, heap_for_utilization, utilization_for_heap,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Utilizations that are tabled, beside the target.
const UTILIZATIONS: [u32; 6] = [50, 60, 70, 80, 90, 95];
/// Heaps that are tabled, in percent of the live set.
const HEAPS: [u64; 6] = [125, 150, 200, 250, 300, 400];

/// Arguments of `metronome calibrate`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Heap options count as for `metronome run`: --target-utilization and --heap add a row to the tables,\n\
    --fragmentation is f, and the collector is measured with the others."
)]
pub(crate) struct CalibrateArgs {
    /// Bytes kept alive by all threads together
    #[arg(long, value_name = "SIZE", default_value_t = DEFAULT_LIVE, value_parser = parse_size)]
    live: u64,

    /// Bytes per second of mutator time allocated by all threads together
    #[arg(long, value_name = "SIZE", default_value_t = DEFAULT_RATE, value_parser = parse_size)]
    alloc_rate: u64,

    /// Threads of the program [1..=256]
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    mutators: u32,

    /// Also write the results as JSON to this file ("-": to standard output, instead of the text)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    #[command(flatten)]
    heap: HeapFlags,
}

/// Runs the command. Status 0, or 2 for bad flags, a program that cannot be measured, and output that is lost.
pub(crate) fn run(args: &CalibrateArgs) -> ExitCode {
    let signals = Signals::watch();
    match perform(args, &signals) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say(format_args!("metronome calibrate: {}", one_line(&e)));
            ExitCode::from(signals.status().unwrap_or(USAGE))
        }
    }
}

fn perform(args: &CalibrateArgs, signals: &Signals) -> Result<(), String> {
    let mut config = Config::default();
    config.merge_process_env().map_err(|e| e.to_string())?;
    args.heap.apply(&mut config).map_err(|e| format!("--{e}"))?;
    config.validate().map_err(|e| e.to_string())?;
    if args.alloc_rate == 0 || args.live > CALIBRATED_MAX {
        return Err("--alloc-rate must be above 0 and --live at most 256G".into());
    }
    say("metronome calibrate: measuring the program");
    let shape = Shape::new(args.live, args.alloc_rate, args.mutators);
    let contract = calibrate::measure(&config, shape, &signals.interrupted)?;
    let table = Table::of(&contract, &config);
    let as_json = format!("{:#}\n", table.to_json());
    match &args.json {
        Some(path) if path.as_os_str() == "-" => write_out(&as_json),
        Some(path) => write_out(&table.text()).and_then(|()| std::fs::write(path, &as_json)),
        None => write_out(&table.text()),
    }
    .map_err(|e| format!("the results cannot be written: {e}"))
}

/// A heap and the utilization during a cycle that go together; or why there is none.
#[derive(Clone, Copy, Debug)]
struct Row<T> {
    given: T,
    follows: Result<u64, ContractError>,
}

/// All that follows from one measurement.
#[derive(Debug)]
struct Table {
    contract: Contract,
    /// Utilization that the collector keeps during a cycle, in parts per million.
    target_ppm: u32,
    /// Utilizations in percent, with the heap that each needs.
    heaps: Vec<Row<u32>>,
    /// Heaps in bytes, with the utilization in parts per million that each gives.
    utilizations: Vec<Row<u64>>,
}

impl Table {
    fn of(contract: &Contract, config: &Config) -> Table {
        let mut percents = UTILIZATIONS.to_vec();
        percents.push(config.target_utilization);
        percents.sort_unstable();
        percents.dedup();
        let mut sizes = HEAPS.map(|percent| contract.live_bytes / 100 * percent).to_vec();
        sizes.push(config.heap);
        sizes.sort_unstable();
        sizes.dedup();
        let heap = |&given: &u32| Row { given, follows: heap_for_utilization(contract, given * 10_000) };
        let utilization =
            |&given: &u64| Row { given, follows: utilization_for_heap(contract, given).map(u64::from) };
        Table {
            contract: *contract,
            target_ppm: config.target_utilization * 10_000,
            heaps: percents.iter().map(heap).collect(),
            utilizations: sizes.iter().map(utilization).collect(),
        }
    }

    /// Utilization over whole periods of cycle and pause between cycles, at the target during cycles; `None` if the heap does
    /// not allow that.
    fn average(&self, heap_bytes: u64) -> Option<u32> {
        average_utilization(&self.contract, heap_bytes, self.target_ppm).ok().flatten()
    }

    fn text(&self) -> String {
        let c = &self.contract;
        let mut out = format!(
            "Measured: live set m {}, allocation rate a {}/s, trace rate R {}/s, sweep rate S {}/s; fragmentation f {} %\n\n\
             utilization during a cycle -> heap H = (1+f)(m+2A)\n",
            bytes(c.live_bytes),
            bytes(c.allocation_rate),
            bytes(c.trace_rate),
            bytes(c.sweep_rate),
            c.fragmentation_ppm / 10_000
        );
        for row in &self.heaps {
            out += &match row.follows {
                Ok(heap) => format!(
                    "  {:>3} %  {:>12}, {:.2} m; a cycle takes {}\n",
                    row.given,
                    bytes(heap),
                    heap as f64 / c.live_bytes.max(1) as f64,
                    time(c.cycle_ns(heap))
                ),
                Err(e) => format!("  {:>3} %  {e}\n", row.given),
            };
        }
        out += &format!(
            "\nheap -> most utilization during a cycle (and on average over time, with {} % during cycles)\n",
            self.target_ppm / 10_000
        );
        for row in &self.utilizations {
            out += &match row.follows {
                Ok(ppm) => {
                    let average = self.average(row.given);
                    let average = average.map_or("-".into(), |p| format!("{:.1} %", f64::from(p) / 1e4));
                    format!("  {:>12}  {:.1} % ({average})\n", bytes(row.given), ppm as f64 / 1e4)
                }
                Err(e) => format!("  {:>12}  {e}\n", bytes(row.given)),
            };
        }
        out
    }

    fn to_json(&self) -> Value {
        let c = &self.contract;
        let error = |e: ContractError| Value::from(e.to_string());
        let heaps = self.heaps.iter().map(|row| {
            json!({
                "utilization": f64::from(row.given) / 100.0,
                "heap_bytes": row.follows.ok(),
                "cycle_ms": row.follows.ok().map(|heap| c.cycle_ns(heap) as f64 / 1e6),
                "error": row.follows.err().map(error),
            })
        });
        let utilizations = self.utilizations.iter().map(|row| {
            let average = self.average(row.given);
            json!({
                "heap_bytes": row.given,
                "utilization": row.follows.ok().map(|ppm| ppm as f64 / 1e6),
                "average_utilization": average.map(|ppm| f64::from(ppm) / 1e6),
                "error": row.follows.err().map(error),
            })
        });
        json!({
            "schema": "metronome-calibrate/1",
            "live_bytes": c.live_bytes,
            "allocation_bytes_per_second": c.allocation_rate,
            "trace_bytes_per_second": c.trace_rate,
            "sweep_bytes_per_second": c.sweep_rate,
            "fragmentation": f64::from(c.fragmentation_ppm) / 1e6,
            "heap_for_utilization": heaps.collect::<Vec<_>>(),
            "utilization_for_heap": utilizations.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// m 100 MiB, a 100 MiB/s, R 1000 MiB/s, S so fast that it does not count: T = 100 ms, and at 50 % A = 10 MiB.
    fn contract() -> Contract {
        Contract {
            live_bytes: 100 * MIB,
            allocation_rate: 100 * MIB,
            trace_rate: 1000 * MIB,
            sweep_rate: 1 << 60,
            fragmentation_ppm: 0,
        }
    }

    #[test]
    fn both_directions_follow_from_one_measurement_and_agree() {
        let config = Config { heap: 120 * MIB, ..Config::default() };
        let t = Table::of(&contract(), &config);
        let heap =
            |percent| t.heaps.iter().find(|r| r.given == percent).and_then(|r| r.follows.ok()).unwrap();
        // By hand: H = m + 2A, A = a T u / (1-u): 10 MiB at 50 %, 23.3 at 70 %, 90 at 90 %.
        for (percent, expected) in [(50, 120.0), (70, 146.667), (90, 280.0)] {
            let got = heap(percent) as f64 / MIB as f64;
            assert!((got - expected).abs() < 0.01, "{percent} %: {got}");
        }
        // The other way: 120 MiB give 50 %.
        let row = t.utilizations.iter().find(|r| r.given == 120 * MIB).unwrap();
        assert!((499_990..=500_000).contains(&row.follows.unwrap()), "{row:?}");
        let text = t.text();
        assert!(text.contains("50 %") && text.contains("120.0 MiB"), "{text}");
        // 400 MiB at 70 %: T = 100 ms, A = 23.3 MiB; from m = 100 to the trigger at 376.7 MiB in 2.767 s of mutator time, beside
        // 0.1 s of collector time.
        let average = f64::from(t.average(400 * MIB).unwrap()) / 1e6;
        assert!((average - 2.7667 / 2.8667).abs() < 1e-4, "{average}");
        assert_eq!(t.average(130 * MIB), None, "130 MiB do not allow 70 %");
        // Back and forth.
        for row in &t.heaps {
            let back = utilization_for_heap(&t.contract, row.follows.unwrap()).unwrap();
            assert!(back.abs_diff(row.given * 10_000) <= 10, "{row:?}: {back}");
        }
    }

    #[test]
    fn a_heap_below_the_live_set_and_a_rate_that_no_heap_bears_say_so() {
        let small = Config { heap: 10 * MIB, ..Config::default() };
        let slow = Contract { sweep_rate: MIB, ..contract() };
        let (text, json) = (Table::of(&slow, &small).text(), Table::of(&slow, &small).to_json());
        assert!(
            text.contains("no heap is large enough") && text.contains("does not hold the live data"),
            "{text}"
        );
        assert!(json["heap_for_utilization"][0]["heap_bytes"].is_null());
        assert!(json["utilization_for_heap"][0]["error"].is_string());
    }
}
