//! The progress line: redrawn on a terminal, a plain line every few seconds otherwise; on standard error.

use super::env::Env;
use super::picture::bar;
use crate::quantity;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const REDRAW_EVERY: Duration = Duration::from_millis(200);
const LINE_EVERY: Duration = Duration::from_secs(4);

/// Shows how a run goes.
pub(super) struct Progress {
    workload: &'static str,
    rounds: &'static str,
    terminal: bool,
    start: Instant,
    next: Instant,
    drawn: bool,
}

impl Progress {
    pub(super) fn new(workload: &'static str, rounds: &'static str) -> Progress {
        let now = Instant::now();
        let terminal = io::stderr().is_terminal();
        let next = if terminal { now } else { now + LINE_EVERY };
        Progress { workload, rounds, terminal, start: now, next, drawn: false }
    }

    /// Shows the present, if it is time.
    pub(super) fn show(&mut self, env: &Env) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + if self.terminal { REDRAW_EVERY } else { LINE_EVERY };
        let line = self.line(env);
        // Errors: nobody is watching.
        let mut err = io::stderr().lock();
        if self.terminal {
            self.drawn = true;
            let _ = write!(err, "\r{line}\x1b[K");
            let _ = err.flush();
        } else {
            let _ = writeln!(err, "{line}");
        }
    }

    /// Leaves the terminal's line to others.
    pub(super) fn end(&mut self) {
        if self.drawn {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }

    fn line(&self, env: &Env) -> String {
        let glance = env.heap.glance();
        let stats = env.heap.stats();
        let kept = stats
            .mmu
            .iter()
            .find(|m| m.window_ns == stats.window_ns)
            .and_then(|m| m.charged_ppm)
            .map_or("-".into(), |ppm| format!("{:.1}%", f64::from(ppm) / 10_000.0));
        // Relaxed: figures for people.
        let rounds = env.counters.rounds.load(Relaxed);
        let queries = env.counters.queries.load(Relaxed);
        let queries =
            if queries > 0 { format!(", {} queries", quantity::grouped(queries)) } else { String::new() };
        let used = glance.used_bytes as f64 / glance.heap_bytes.max(1) as f64;
        format!(
            "{:6.1} s {}: kept {kept} of every {} (target {}%), heap {} {:.0}%, {:8} cycle {}, {} {}{queries}",
            self.start.elapsed().as_secs_f64(),
            self.workload,
            quantity::time(stats.window_ns),
            stats.target_ppm / 10_000,
            bar(used, 10),
            used * 100.0,
            glance.phase,
            glance.cycles,
            quantity::grouped(rounds),
            self.rounds,
        )
    }
}
