//! What `metronome top` shows.

use crate::output::one_line;
use metronome_live::Figures;
use std::fmt::Write as _;

/// Mutators that have a line.
const MUTATORS: usize = 12;
const BAR: u32 = 50;

fn percent(ppm: Option<u32>) -> String {
    ppm.map_or_else(|| "-".into(), |p| format!("{:.1} %", f64::from(p) / 10_000.0))
}

fn us(ns: u64) -> String {
    format!("{}.{}", ns / 1000, ns % 1000 / 100)
}

fn bytes(n: u64) -> String {
    let (mut n, mut unit) = (n as f64, 0);
    while n >= 1024.0 && unit < 4 {
        (n, unit) = (n / 1024.0, unit + 1);
    }
    let unit = ["B", "KiB", "MiB", "GiB", "TiB"][unit];
    if n >= 10.0 || unit == "B" { format!("{n:.0} {unit}") } else { format!("{n:.1} {unit}") }
}

fn mean(sum: u64, count: u64) -> u64 {
    sum.checked_div(count).unwrap_or(0)
}

/// One line, for what is no terminal.
pub(super) fn line(f: &Figures) -> String {
    let (charged, wall) = f.mmu_ppm();
    format!(
        "{:.1} s: utilization {}, least {} charged {} wall; heap {} of {}; {} cycles, {} quanta, longest pause {} us; {} \
         synchronous, {} departures, {} stops cancelled, {} records lost{}\n",
        f.now_ns as f64 / 1e9,
        percent(f.recent_ppm()),
        percent(charged),
        percent(wall),
        bytes(f.used_bytes),
        bytes(f.heap_bytes),
        f.cycles,
        f.quanta,
        us(f.pause_max_ns),
        f.synchronous,
        f.departures,
        f.cancelled,
        f.lost,
        if f.broken_off { "; broken off here: what followed is not known" } else { "" }
    )
}

/// A share as a bar, with the target in it.
fn bar(ppm: Option<u32>, target: Option<u32>) -> String {
    let cells = |p: u32| (u64::from(p) * u64::from(BAR) / 1_000_000) as u32;
    let filled = ppm.map_or(0, cells);
    let mark = target.map(|t| cells(t).min(BAR - 1));
    (0..BAR)
        .map(|i| match (mark == Some(i), i < filled) {
            (true, _) => '|',
            (false, true) => '#',
            (false, false) => '.',
        })
        .collect()
}

/// A whole screen, from its top left corner on; what was there before goes.
pub(super) fn picture(f: &Figures) -> String {
    let mut out = String::from("\x1b[H");
    for l in lines(f) {
        let _ = write!(out, "{l}\x1b[K\r\n");
    }
    out.push_str("\x1b[J");
    out
}

fn lines(f: &Figures) -> Vec<String> {
    let (charged, wall) = f.mmu_ppm();
    let b = &f.begin;
    let state = match (f.ended, f.in_cycle) {
        _ if f.broken_off => "broken off",
        (true, _) => "closed",
        (false, true) => "a cycle is under way",
        (false, false) => "no cycle",
    };
    let mut out = vec![
        format!("{}, process {}: {:.1} s, {state}", one_line(&b.source), b.pid, f.now_ns as f64 / 1e9),
        String::new(),
        format!(
            "utilization  [{}] {} of the last second, target {}",
            bar(f.recent_ppm(), b.target_ppm),
            percent(f.recent_ppm()),
            percent(b.target_ppm)
        ),
        format!(
            "             least of every {} ms: {} charged, {} wall; {} windows below the target",
            b.window_ns.unwrap_or(0) as f64 / 1e6,
            percent(charged),
            percent(wall),
            f.violations()
        ),
        format!(
            "heap         [{}] {} of {}, {} allocated per second",
            bar(share(f.used_bytes, f.heap_bytes), None),
            bytes(f.used_bytes),
            bytes(f.heap_bytes),
            f.allocation_rate().map_or_else(|| "-".into(), bytes)
        ),
        format!(
            "collector    {} cycles, {} quanta, longest pause {} us",
            f.cycles,
            f.quanta,
            us(f.pause_max_ns)
        ),
        format!(
            "trouble      {} synchronous, {} departures, {} stops cancelled, {} records lost",
            f.synchronous, f.departures, f.cancelled, f.lost
        ),
        String::new(),
        format!("{:<24}{:>10}{:>12}{:>14}", "phase", "quanta", "mean us", "longest us"),
    ];
    for (name, p) in &f.phases {
        let name = if name.is_empty() { "unknown" } else { name };
        out.push(format!(
            "{:<24}{:>10}{:>12}{:>14}",
            one_line(name),
            p.quanta,
            us(mean(p.sum_ns, p.quanta)),
            us(p.max_ns)
        ));
    }
    out.push(String::new());
    out.push(format!(
        "{:<24}{:>10}{:>12}{:>14}{:>12}",
        "mutator", "stops", "mean us", "longest us", "cancelled"
    ));
    let mut mutators: Vec<_> = f.mutators.iter().collect();
    mutators.sort_by_key(|(_, m)| std::cmp::Reverse((m.cancelled, m.max_ns)));
    for (name, m) in mutators.iter().take(MUTATORS) {
        let name: String = one_line(name).chars().take(23).collect();
        out.push(format!(
            "{name:<24}{:>10}{:>12}{:>14}{:>12}",
            m.stops,
            us(mean(m.sum_ns, m.stops)),
            us(m.max_ns),
            m.cancelled
        ));
    }
    if mutators.len() > MUTATORS {
        out.push(format!("and {} more", mutators.len() - MUTATORS));
    }
    if let Some(text) = &f.bookmark {
        out.push(String::new());
        out.push(format!("bookmark: {}", one_line(text)));
    }
    out
}

fn share(part: u64, whole: u64) -> Option<u32> {
    u32::try_from((u128::from(part) * 1_000_000).checked_div(u128::from(whole))?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use metronome_live::{Begin, Event, Quantum, Record};

    fn figures() -> Figures {
        let mut f = Figures::new();
        let begin = Begin {
            version: 1,
            source: "test\x1b[2J".into(),
            pid: 7,
            heap_bytes: Some(64 << 20),
            window_ns: Some(10_000_000),
            target_ppm: Some(700_000),
            ..Begin::default()
        };
        f.take(&Record { ns: 0, event: Event::Begin(begin) });
        // Half of the window from 20 ms on.
        for start_ns in [20_000_000, 24_000_000] {
            let q = Quantum {
                start_ns,
                end_ns: start_ns + 2_500_000,
                charged_ns: 2_000_000,
                phase: "mark".into(),
                free_bytes: 48 << 20,
                ..Quantum::default()
            };
            f.take(&Record { ns: q.end_ns, event: Event::Quantum(q) });
        }
        for (stops, sum_ns, max_ns) in [(3, 6_000, 4_000), (1, 6_000, 6_000)] {
            let event = Event::MutatorStops { mutator: "worker".into(), stops, sum_ns, max_ns };
            f.take(&Record { ns: 30_000_000, event });
        }
        let cancelled = Event::StopCancelled {
            mutator: "late".into(),
            waited_ns: 400_000,
            budget_ns: 250_000,
            missing: 1,
        };
        f.take(&Record { ns: 1_030_000_000, event: cancelled });
        f
    }

    #[test]
    fn the_screen_says_what_the_records_add_up_to() {
        let text = lines(&figures()).join("\n");
        for part in [
            "test?[2J, process 7: 1.0 s, no cycle",
            // 5 ms and 4 ms of 10 ms.
            "least of every 10 ms: 60.0 % charged, 50.0 % wall",
            "16 MiB of 64 MiB",
            "0 cycles, 2 quanta, longest pause 2500.0 us",
            "1 stops cancelled, 0 records lost",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let row = |name: &str| {
            let line = text.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{name}\n{text}"));
            line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("mark"), ["2", "2500.0", "2500.0"]);
        assert_eq!(row("worker"), ["4", "3.0", "6.0", "0"]);
        assert_eq!(row("late"), ["0", "0.0", "0.0", "1"]);
        // Of the second from 30 ms on, only the cancelled stop.
        assert!(text.contains("100.0 % of the last second, target 70.0 %"), "{text}");
        assert!(!line(&figures()).contains('\x1b'));
    }

    #[test]
    fn bars_show_share_and_target() {
        assert_eq!(bar(Some(500_000), None), format!("{}{}", "#".repeat(25), ".".repeat(25)));
        let b = bar(Some(1_000_000), Some(700_000));
        assert_eq!((b.len(), b.find('|')), (50, Some(35)));
        assert_eq!(bar(None, Some(1_000_000)), format!("{}|", ".".repeat(49)));
    }
}
