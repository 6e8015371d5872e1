//! Combinations of options that cannot be kept, each with the inequality that fails and the nearest value that works.

use super::error::ConfigError;
use super::options::{OPTIONS, OptionSpec};
use super::value::{format_bytes, format_time};
use super::{Config, MIN_HEAP_REGIONS, REGION_BYTES};

const HUGE_PAGE_BYTES: u64 = 2 << 20;

pub(super) fn validate(config: &Config) -> Result<(), ConfigError> {
    // Fields are public, so that any number may be in them.
    OPTIONS.iter().try_for_each(|spec| spec.check(config))?;
    quantum_fits_the_allowance(config)?;
    beat_fits_the_window(config)?;
    stop_budget_fits_the_quantum(config)?;
    resume_margin_fits_the_quantum(config)?;
    alarm_outranks_collector(config)?;
    heap_has_regions(config)?;
    initial_heap_fits_the_heap(config)
}

/// Whether `value` is in the range of the option; a remedy must not propose what would be refused next.
fn allowed(option: &str, value: u64) -> bool {
    OptionSpec::find(option)
        .and_then(OptionSpec::bounds)
        .is_some_and(|(min, max)| (min..=max).contains(&value))
}

fn quantum_fits_the_allowance(config: &Config) -> Result<(), ConfigError> {
    let allowance = config.allowance_ns();
    if config.quantum_ns <= allowance {
        return Ok(());
    }
    let collector_percent = 100 - u64::from(config.target_utilization);
    let mut ways = Vec::new();
    if allowed("quantum", allowance) {
        ways.push(format!("quantum to at most {}", format_time(allowance)));
    }
    // The largest target whose allowance holds the quantum.
    let needed_percent = (u128::from(config.quantum_ns) * 100).div_ceil(u128::from(config.window_ns));
    if needed_percent < 100 {
        ways.push(format!("target-utilization to at most {}", 100 - needed_percent));
    }
    let window = (u128::from(config.quantum_ns) * 100).div_ceil(u128::from(collector_percent));
    if let Ok(window) = u64::try_from(window)
        && allowed("window", window)
    {
        ways.push(format!("window to at least {}", format_time(window)));
    }
    // Never empty: the longest quantum, 100ms, fits the longest window, 10s, at every target.
    Err(ConfigError::Infeasible {
        options: &["quantum", "window", "target-utilization"],
        inequality: "quantum <= window * (100 - target-utilization) / 100",
        numbers: format!(
            "{} > {} * {collector_percent} / 100 = {}",
            format_time(config.quantum_ns),
            format_time(config.window_ns),
            format_time(allowance)
        ),
        remedy: format!("set {}", ways.join(", or ")),
    })
}

fn beat_fits_the_window(config: &Config) -> Result<(), ConfigError> {
    if config.beat_ns <= config.window_ns {
        return Ok(());
    }
    Err(ConfigError::Infeasible {
        options: &["beat", "window"],
        inequality: "beat <= window",
        numbers: format!("{} > {}", format_time(config.beat_ns), format_time(config.window_ns)),
        remedy: format!(
            "set beat to at most {}, or window to at least {}",
            format_time(config.window_ns),
            format_time(config.beat_ns)
        ),
    })
}

fn stop_budget_fits_the_quantum(config: &Config) -> Result<(), ConfigError> {
    let budget = config.effective_stop_budget_ns();
    if budget <= config.quantum_ns {
        return Ok(());
    }
    Err(ConfigError::Infeasible {
        options: &["stop-budget", "quantum"],
        inequality: "stop-budget <= quantum",
        numbers: format!("{} > {}", format_time(budget), format_time(config.quantum_ns)),
        remedy: format!("set stop-budget to at most {}, or to auto", format_time(config.quantum_ns)),
    })
}

fn resume_margin_fits_the_quantum(config: &Config) -> Result<(), ConfigError> {
    let margin = config.effective_resume_margin_ns();
    if margin < config.quantum_ns {
        return Ok(());
    }
    Err(ConfigError::Infeasible {
        options: &["resume-margin", "quantum"],
        inequality: "resume-margin < quantum",
        numbers: format!("{} >= {}", format_time(margin), format_time(config.quantum_ns)),
        remedy: format!("set resume-margin to at most {}, or to auto", format_time(config.quantum_ns - 1)),
    })
}

fn alarm_outranks_collector(config: &Config) -> Result<(), ConfigError> {
    let (alarm, gc) = (config.alarm_priority, config.gc_priority);
    if alarm == 0 || gc == 0 || alarm > gc {
        return Ok(());
    }
    let remedy = if gc < 99 {
        format!("set alarm-priority to at least {}, or gc-priority to at most {}", gc + 1, alarm - 1)
    } else {
        // There is nothing above 99.
        String::from("set gc-priority to at most 98 and alarm-priority to 99")
    };
    Err(ConfigError::Infeasible {
        options: &["alarm-priority", "gc-priority"],
        inequality: "alarm-priority > gc-priority",
        numbers: format!("{alarm} <= {gc}"),
        remedy,
    })
}

fn heap_has_regions(config: &Config) -> Result<(), ConfigError> {
    let regions = config.heap / REGION_BYTES;
    if regions < MIN_HEAP_REGIONS {
        return Err(ConfigError::Infeasible {
            options: &["heap"],
            inequality: "regions of 64k in heap >= 16",
            numbers: format!("{} / 64k = {regions} < {MIN_HEAP_REGIONS}", format_bytes(config.heap)),
            remedy: format!("set heap to at least {}", format_bytes(MIN_HEAP_REGIONS * REGION_BYTES)),
        });
    }
    if config.huge_pages && config.heap < HUGE_PAGE_BYTES {
        return Err(ConfigError::Infeasible {
            options: &["heap", "huge-pages"],
            inequality: "heap >= one huge page",
            numbers: format!("{} < {}", format_bytes(config.heap), format_bytes(HUGE_PAGE_BYTES)),
            remedy: format!("set heap to at least {}, or huge-pages to false", format_bytes(HUGE_PAGE_BYTES)),
        });
    }
    Ok(())
}

fn initial_heap_fits_the_heap(config: &Config) -> Result<(), ConfigError> {
    let initial = config.effective_initial_heap();
    if initial <= config.heap {
        return Ok(());
    }
    Err(ConfigError::Infeasible {
        options: &["initial-heap", "heap"],
        inequality: "initial-heap <= heap",
        numbers: format!("{} > {}", format_bytes(initial), format_bytes(config.heap)),
        remedy: format!(
            "set initial-heap to at most {}, or heap to at least {}",
            format_bytes(config.heap),
            format_bytes(initial)
        ),
    })
}
