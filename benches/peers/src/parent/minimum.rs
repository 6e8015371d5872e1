//! The smallest heap in which a contestant finishes a program, by bisection. Heaps are then given as multiples of it, so
//! that collectors are compared at the same tightness, not at sizes that suit one of them.

use super::runner::{Job, Runner};
use crate::child::params::Params;
use crate::contestant::{JavaGc, Memory};
use crate::program::ProgramName;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where the search begins; and its grain, to which the VM rounds.
const START: u64 = 2 << 20;
/// Where it begins when anything that is enough will do.
const ROUGH_START: u64 = 16 << 20;
const GRAIN: u64 = 1 << 20;
/// Heaps beyond this are not tried.
const LIMIT: u64 = 32 << 30;

/// The smallest size, in steps of `grain`, for which `enough` holds, to within one part in `1 / precision`; sizes
/// above one that is enough are taken to be enough.
///
/// # Errors
/// The first error of `enough`, or that none up to `limit` is.
fn bisect(
    start: u64,
    limit: u64,
    grain: u64,
    precision: f64,
    mut enough: impl FnMut(u64) -> Result<bool, String>,
) -> Result<u64, String> {
    let (mut below, mut at) = (0, start);
    while !enough(at)? {
        below = at;
        at *= 2;
        if at > limit {
            return Err(format!("no heap up to {below} bytes is enough"));
        }
    }
    while at - below > grain.max((at as f64 * precision) as u64) {
        let middle = (below + (at - below) / 2).next_multiple_of(grain);
        if middle >= at {
            break;
        }
        if enough(middle)? { at = middle } else { below = middle }
    }
    Ok(at)
}

/// The contestant that is searched for: one for all of the VM's collectors, which share the layout of objects as far as
/// it matters here.
fn representative(memory: Memory) -> Memory {
    match memory {
        Memory::Java(_) => Memory::Java(JavaGc::Parallel),
        other => other,
    }
}

/// Minima by program and contestant.
#[derive(Debug, Default)]
pub(crate) struct Minima(BTreeMap<(ProgramName, Memory), u64>);

impl Minima {
    /// The minimum, if it is known.
    pub(crate) fn get(&self, program: ProgramName, memory: Memory) -> Option<u64> {
        self.0.get(&(program, representative(memory))).copied()
    }

    /// Searches for it if it is not known.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn find(
        &mut self,
        runner: &Runner,
        program: ProgramName,
        memory: Memory,
        params: &Params,
        precision: f64,
    ) -> Result<u64, String> {
        let memory = representative(memory);
        if let Some(known) = self.get(program, memory) {
            return Ok(known);
        }
        let params = shortened(program, params);
        // A heap that is enough only with a collection at every turn is not: ten times the first success is too slow.
        let mut limit = runner.limit;
        let start = if precision < 1.0 { START } else { ROUGH_START };
        let found = bisect(start, LIMIT, GRAIN, precision, |heap| {
            let own = Runner { limit, ..runner.clone() };
            let record =
                own.run(&Job { program, memory, heap: Some(heap), no_cycle: false, params: &params })?;
            let (mib, status) = (heap >> 20, record.text("status"));
            println!(
                "minimum {} {}: {mib} MiB: {status}, {} s",
                program.name(),
                memory.name(),
                record.text("wall_s")
            );
            if record.ok() && limit == runner.limit {
                let took = record.number("wall_s").unwrap_or(0.0);
                limit = limit.min(Duration::from_secs_f64(10.0 * took + 2.0));
            }
            Ok(record.ok())
        })?;
        self.0.insert((program, memory), found);
        Ok(found)
    }

    /// As lines for the head of the results.
    pub(crate) fn head(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().map(|((p, m), bytes)| (format!("minimum {} {}", p.name(), m.name()), bytes.to_string()))
    }

    /// From the head of earlier results; lines of other names are passed over.
    ///
    /// # Errors
    /// A line that names no program or contestant of today.
    pub(crate) fn of_head(head: &[(String, String)]) -> Result<Minima, String> {
        let mut minima = Minima::default();
        for (name, value) in head {
            let words: Vec<&str> = name.split(' ').collect();
            if let ["minimum", program, memory] = words[..] {
                let bytes = value.parse().map_err(|_| format!("{name}: {value:?} is no number of bytes"))?;
                minima.0.insert((ProgramName::parse(program)?, Memory::parse(memory)?), bytes);
            }
        }
        Ok(minima)
    }
}

/// The same live set for a shorter time, where a program runs for a given time.
fn shortened(program: ProgramName, params: &Params) -> Params {
    match params.get("ms") {
        Ok(ms) if program.is_timed() => params.clone().with("ms", ms.min(4_000)),
        _ => params.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bisection_finds_the_smallest_that_is_enough() {
        for needed in [1_u64, 2 << 20, (2 << 20) + 1, 77_000_000, 1 << 30] {
            let mut tries = 0;
            let found = bisect(START, LIMIT, GRAIN, 0.0, |heap| {
                tries += 1;
                Ok(heap >= needed)
            });
            assert_eq!(found, Ok(needed.next_multiple_of(GRAIN)), "{needed}");
            assert!(tries < 40, "{tries}");
        }
        let rough = bisect(START, LIMIT, GRAIN, 0.1, |heap| Ok(heap >= 1_000_000_000)).unwrap();
        assert!((1_000_000_000..1_120_000_000).contains(&rough), "{rough}");
    }

    #[test]
    fn what_is_never_enough_is_an_error() {
        assert!(bisect(1, 1 << 20, 1, 0.0, |_| Ok(false)).is_err());
        assert_eq!(bisect(1, 1 << 20, 1, 0.0, |_| Err("stop".into())), Err("stop".into()));
    }

    #[test]
    fn minima_go_through_the_head_of_a_file() {
        let mut minima = Minima::default();
        minima.0.insert((ProgramName::Churn, Memory::Metronome), 5 << 20);
        minima.0.insert((ProgramName::Lru, Memory::Java(JavaGc::Parallel)), 9 << 20);
        let head: Vec<_> = minima.head().chain([("cpu".to_owned(), "x".to_owned())]).collect();
        let read = Minima::of_head(&head).unwrap();
        assert_eq!(read.0, minima.0);
        assert_eq!(read.get(ProgramName::Lru, Memory::Java(JavaGc::Zgc)), Some(9 << 20));
        assert!(Minima::of_head(&[("minimum churn perl".into(), "1".into())]).is_err());
    }
}
