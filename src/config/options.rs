//! The options table: every option once, with its name, type, range, default and description.

use std::path::PathBuf;

use metronome_scheduler::Spread;

use super::error::ConfigError;
use super::value::{self, Unreadable};
use super::{Config, Exhaustion, TriggerMode, VerboseFormat, Verify};
use crate::stress::Stress;

/// What an option takes. Bounds are inclusive, in the base unit: bytes, nanoseconds, percent, pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionKind {
    /// A size such as `256M`.
    Bytes {
        /// Smallest size.
        min: u64,
        /// Largest size.
        max: u64,
    },
    /// A time such as `500us`.
    Time {
        /// Shortest time in nanoseconds.
        min_ns: u64,
        /// Longest time in nanoseconds.
        max_ns: u64,
    },
    /// A percentage such as `70`.
    Percent {
        /// Smallest percentage.
        min: u64,
        /// Largest percentage.
        max: u64,
    },
    /// `paced`, or a percentage with its sign such as `50%`.
    Trigger {
        /// Smallest percentage.
        min: u64,
        /// Largest percentage.
        max: u64,
    },
    /// A whole number.
    Count {
        /// Smallest number.
        min: u64,
        /// Largest number.
        max: u64,
    },
    /// `true` or `false` (also `on`, `off`, `yes`, `no`, `1`, `0`).
    Bool,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A file name; the empty text is none.
    Path,
    /// Checks of the heap, such as `heap,remark,every=10`.
    Checks,
    /// Stress modes such as `steps=random,seed=7`.
    Stress,
}

/// One row of the options table.
pub struct OptionSpec {
    /// Name in TOML files and, after `--`, on the command line.
    pub name: &'static str,
    /// What it takes.
    pub kind: OptionKind,
    /// The word that stands for "no value of its own", if the option has one: `auto` or `none`.
    pub absent: Option<&'static str>,
    /// Unit of the value, for people; empty if there is none.
    pub unit: &'static str,
    /// The values it takes, for people.
    pub range: &'static str,
    /// Its default, as [`Config::get`] writes it.
    pub default: &'static str,
    /// One or two sentences for people.
    pub doc: &'static str,
    /// Its environment variable.
    pub env: &'static str,
    read: fn(&Config) -> Value,
    write: fn(&mut Config, Value) -> bool,
}

impl std::fmt::Debug for OptionSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OptionSpec")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl OptionSpec {
    /// The row with this name.
    pub fn find(name: &str) -> Option<&'static OptionSpec> {
        OPTIONS.iter().find(|spec| spec.name == name)
    }

    /// The row whose name (or other text chosen by `key`) is nearest to `name` by edit distance.
    pub(super) fn nearest(name: &str, key: fn(&OptionSpec) -> &'static str) -> &'static str {
        let wanted = name.to_ascii_lowercase();
        OPTIONS
            .iter()
            .map(key)
            .min_by_key(|known| distance(&wanted, &known.to_ascii_lowercase()))
            .unwrap_or("")
    }

    /// The option's value in `config` as text.
    pub(super) fn get(&self, config: &Config) -> String {
        match (self.kind, (self.read)(config)) {
            (_, Value::Absent) => self.absent.unwrap_or("").to_owned(),
            (OptionKind::Bytes { .. }, Value::Number(n)) => value::format_bytes(n),
            (OptionKind::Time { .. }, Value::Number(n)) => value::format_time(n),
            (OptionKind::Trigger { .. }, Value::Number(n)) => format!("{n}%"),
            (_, Value::Number(n)) => n.to_string(),
            (_, Value::Bool(b)) => b.to_string(),
            (_, Value::Word(word)) => word.to_owned(),
            (_, Value::Path(path)) => path.display().to_string(),
            (_, Value::Checks(checks)) => checks.to_string(),
            (_, Value::Stress(stress)) => stress.to_string(),
        }
    }

    /// Reads `text` into `config`, which is left alone on errors.
    pub(super) fn set(&self, config: &mut Config, text: &str) -> Result<(), ConfigError> {
        let value = self.parse(text)?;
        if (self.write)(config, value) { Ok(()) } else { Err(self.bad(text)) }
    }

    /// Whether the field itself, however it was set, is within the option's range.
    pub(super) fn check(&self, config: &Config) -> Result<(), ConfigError> {
        match (self.bounds(), (self.read)(config)) {
            (Some((min, max)), Value::Number(n)) if n < min || n > max => {
                Err(self.out_of_range(&self.get(config)))
            }
            _ => Ok(()),
        }
    }

    fn parse(&self, text: &str) -> Result<Value, ConfigError> {
        let trimmed = text.trim();
        if self.absent.is_some_and(|word| word.eq_ignore_ascii_case(trimmed)) {
            return Ok(Value::Absent);
        }
        let number = match self.kind {
            OptionKind::Bytes { .. } => value::parse_bytes(trimmed),
            OptionKind::Time { .. } => value::parse_time(trimmed),
            OptionKind::Percent { .. } => value::parse_percent(trimmed),
            // The sign is required: `trigger = 50` might as well mean megabytes.
            OptionKind::Trigger { .. } if !trimmed.ends_with('%') => Err(Unreadable::Malformed),
            OptionKind::Trigger { .. } => value::parse_percent(trimmed),
            OptionKind::Count { .. } => value::parse_count(trimmed),
            OptionKind::Bool => {
                return match trimmed.to_ascii_lowercase().as_str() {
                    "true" | "on" | "yes" | "1" => Ok(Value::Bool(true)),
                    "false" | "off" | "no" | "0" => Ok(Value::Bool(false)),
                    _ => Err(self.bad(text)),
                };
            }
            OptionKind::Choice(words) => {
                let word = words.iter().find(|word| word.eq_ignore_ascii_case(trimmed));
                return word.map(|word| Value::Word(word)).ok_or_else(|| self.bad(text));
            }
            OptionKind::Checks => {
                return Verify::parse(trimmed).map(Value::Checks).ok_or_else(|| self.bad(text));
            }
            // Not trimmed: blanks may be part of a file name.
            OptionKind::Path if text.contains('\0') => return Err(self.bad(text)),
            OptionKind::Path => return Ok(Value::Path(PathBuf::from(text))),
            OptionKind::Stress => return trimmed.parse().map(Value::Stress).map_err(|()| self.bad(text)),
        };
        let number = number.map_err(|why| match why {
            Unreadable::Malformed => self.bad(text),
            Unreadable::Overflow => {
                ConfigError::Overflow { option: self.name, value: text.to_owned(), range: self.range }
            }
        })?;
        match self.bounds() {
            Some((min, max)) if number < min || number > max => Err(self.out_of_range(text)),
            _ => Ok(Value::Number(number)),
        }
    }

    pub(super) fn bounds(&self) -> Option<(u64, u64)> {
        match self.kind {
            OptionKind::Bytes { min, max }
            | OptionKind::Time { min_ns: min, max_ns: max }
            | OptionKind::Percent { min, max }
            | OptionKind::Trigger { min, max }
            | OptionKind::Count { min, max } => Some((min, max)),
            OptionKind::Bool
            | OptionKind::Choice(_)
            | OptionKind::Path
            | OptionKind::Checks
            | OptionKind::Stress => None,
        }
    }

    fn out_of_range(&self, value: &str) -> ConfigError {
        ConfigError::OutOfRange { option: self.name, value: value.to_owned(), range: self.range }
    }

    fn bad(&self, value: &str) -> ConfigError {
        let form = match self.kind {
            OptionKind::Bytes { .. } => "a size such as 64k, 256M, 1.5G or plain bytes",
            OptionKind::Time { .. } => {
                "a whole number of nanoseconds with a unit, such as 500us, 1.5ms, 1s or 100ns"
            }
            OptionKind::Percent { .. } => "a whole percentage",
            OptionKind::Trigger { .. } => "a whole percentage with its sign, such as 50%",
            OptionKind::Count { .. } => "a whole number",
            OptionKind::Bool => "true or false",
            OptionKind::Choice(_) => "one of the words",
            OptionKind::Path => "a file name",
            OptionKind::Checks => "checks with commas between",
            OptionKind::Stress => {
                "stress modes with commas between them, each once, such as steps=random,seed=7"
            }
        };
        let expected = match (self.kind, self.absent) {
            (OptionKind::Bool, _) => form.to_owned(),
            _ => format!("{form}, within {}", self.range),
        };
        ConfigError::BadValue { option: self.name, value: value.to_owned(), expected }
    }
}

/// A value between text and field.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Absent,
    Number(u64),
    Bool(bool),
    Word(&'static str),
    Path(PathBuf),
    Checks(Verify),
    Stress(Stress),
}

/// Fields that an option can stand for.
trait Field: Sized {
    fn to_value(&self) -> Value;
    /// `None` if the value does not fit, which a correct row makes impossible.
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! number_field {
    ($($int:ty),*) => {$(
        impl Field for $int {
            fn to_value(&self) -> Value {
                // The integers here are at most 64 bits wide.
                Value::Number(u64::try_from(*self).unwrap_or(u64::MAX))
            }

            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::Number(n) => n.try_into().ok(),
                    _ => None,
                }
            }
        }
    )*};
}

number_field!(u8, u32, u64, usize);

impl<T: Field> Field for Option<T> {
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Absent, T::to_value)
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Absent => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl Field for bool {
    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Bool(b) => Some(b),
            _ => None,
        }
    }
}

impl Field for PathBuf {
    fn to_value(&self) -> Value {
        Value::Path(self.clone())
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Path(path) => Some(path),
            _ => None,
        }
    }
}

impl Field for Verify {
    fn to_value(&self) -> Value {
        Value::Checks(*self)
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Checks(checks) => Some(checks),
            _ => None,
        }
    }
}

impl Field for Stress {
    fn to_value(&self) -> Value {
        if self.is_on() { Value::Stress(*self) } else { Value::Absent }
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Absent => Some(Stress::default()),
            Value::Stress(stress) => Some(stress),
            _ => None,
        }
    }
}

impl Field for TriggerMode {
    fn to_value(&self) -> Value {
        match *self {
            TriggerMode::Paced => Value::Absent,
            TriggerMode::Static { percent } => Value::Number(percent.into()),
        }
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Absent => Some(TriggerMode::Paced),
            value => u32::from_value(value).map(|percent| TriggerMode::Static { percent }),
        }
    }
}

macro_rules! word_field {
    ($type:ty, $words:ident: $($variant:path => $word:literal),*) => {
        const $words: &[&str] = &[$($word),*];

        impl Field for $type {
            fn to_value(&self) -> Value {
                match self {
                    $($variant => Value::Word($word),)*
                }
            }

            fn from_value(value: Value) -> Option<Self> {
                match value {
                    $(Value::Word($word) => Some($variant),)*
                    _ => None,
                }
            }
        }
    };
}

word_field!(Spread, SPREADS: Spread::Eager => "eager", Spread::Even => "even");
word_field!(Exhaustion, EXHAUSTIONS: Exhaustion::Degrade => "degrade", Exhaustion::Synchronous => "synchronous", Exhaustion::Fail => "fail");
word_field!(VerboseFormat, FORMATS: VerboseFormat::V2007 => "2007", VerboseFormat::OpenJ9 => "openj9");

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

const fn time(min_ns: u64, max_ns: u64) -> OptionKind {
    OptionKind::Time { min_ns, max_ns }
}

const fn count(min: u64, max: u64) -> OptionKind {
    OptionKind::Count { min, max }
}

macro_rules! options {
    ($($field:ident, $name:literal, $env:literal, $kind:expr, $absent:expr, $unit:literal, $range:literal, $default:literal, $doc:literal;)*) => {
        /// The table behind the builder, TOML files, the environment and the command line, in the order of the documentation.
        pub const OPTIONS: &[OptionSpec] = &[$(OptionSpec {
            name: $name,
            kind: $kind,
            absent: $absent,
            unit: $unit,
            range: $range,
            default: $default,
            doc: $doc,
            env: $env,
            read: |config| config.$field.to_value(),
            write: |config, value| Field::from_value(value).map(|value| config.$field = value).is_some(),
        }),*];

        /// Every field of [`Config`], without `..`: a field that has no row does not compile.
        #[allow(dead_code)]
        fn every_field_has_a_row(config: Config) {
            let Config { $($field: _),* } = config;
        }
    };
}

options! {
    heap, "heap", "METRONOME_HEAP", OptionKind::Bytes { min: 1 << 20, max: 1 << 40 }, None, "bytes", "1M..=1T", "256M",
    "Size of the heap, used in whole regions of 64 KiB.";

    target_utilization, "target-utilization", "METRONOME_TARGET_UTILIZATION", OptionKind::Percent { min: 1, max: 99 }, None, "%", "1..=99", "70",
    "Share of every window that belongs to the mutators.";

    window_ns, "window", "METRONOME_WINDOW", time(MS, 10 * S), None, "time", "1ms..=10s", "10ms",
    "Length of the sliding window in which the target utilization is kept.";

    quantum_ns, "quantum", "METRONOME_QUANTUM", time(50 * US, 100 * MS), None, "time", "50us..=100ms", "500us",
    "Longest slice of collector work, from the stop request to the release of the mutators.";

    beat_ns, "beat", "METRONOME_BEAT", time(100 * US, 100 * MS), None, "time", "100us..=100ms", "500us",
    "Period of the alarm, which asks on each beat whether a quantum may start.";

    spread, "spread", "METRONOME_SPREAD", OptionKind::Choice(SPREADS), None, "", "eager | even", "eager",
    "Where quanta lie in a window: at its front, as early as allowed, or spaced evenly for the best utilization in short windows.";

    exhaustion, "exhaustion", "METRONOME_EXHAUSTION", OptionKind::Choice(EXHAUSTIONS), None, "", "degrade | synchronous | fail", "degrade",
    "What happens when memory runs out before the cycle ends: utilization sinks smoothly, the cycle is finished at once, or the allocation fails.";

    trigger, "trigger", "METRONOME_TRIGGER", OptionKind::Trigger { min: 1, max: 99 }, Some("paced"), "% of the heap", "1%..=99% or paced", "paced",
    "When a cycle starts: paced by the measured rates, or when this share of the heap is in use.";

    stop_budget_ns, "stop-budget", "METRONOME_STOP_BUDGET", time(10 * US, 100 * MS), Some("auto"), "time", "10us..=100ms or auto", "auto",
    "How long a stop waits for the mutators before it is cancelled; auto is one quantum.";

    resume_margin_ns, "resume-margin", "METRONOME_RESUME_MARGIN", time(US, 10 * MS), Some("auto"), "time", "1us..=10ms or auto", "auto",
    "Part of a quantum kept for its last step and for waking the mutators; auto is a tenth of the quantum within 10us..=100us.";

    fragmentation_percent, "fragmentation", "METRONOME_FRAGMENTATION", OptionKind::Percent { min: 0, max: 100 }, None, "%", "0..=100", "12",
    "Allowance for fragmentation in the contract arithmetic: the heap must hold this much more than live data and allocation.";

    memory_wait_ns, "memory-wait", "METRONOME_MEMORY_WAIT", time(MS, 3600 * S), None, "time", "1ms..=3600s", "10s",
    "Longest wait for memory at a safepoint (again after before_failure has let go of something), and at a pause point where the collector is about to free some.";

    verbose_gc, "verbose-gc", "METRONOME_VERBOSE_GC", OptionKind::Path, Some(""), "file", "a file name, or empty for none", "",
    "File that the verbose GC log is written to.";

    verbose_format, "verbose-format", "METRONOME_VERBOSE_FORMAT", OptionKind::Choice(FORMATS), None, "", "2007 | openj9", "openj9",
    "Generation of the verbose GC log.";

    verbose_interval_ns, "verbose-interval", "METRONOME_VERBOSE_INTERVAL", time(10 * MS, 3600 * S), None, "time", "10ms..=3600s", "1s",
    "Time that one summary of quanta in the verbose GC log covers.";

    gc_priority, "gc-priority", "METRONOME_GC_PRIORITY", count(0, 99), None, "SCHED_FIFO", "0..=99", "10",
    "Real-time priority of the collector's threads; 0 does not ask for one.";

    alarm_priority, "alarm-priority", "METRONOME_ALARM_PRIORITY", count(0, 99), None, "SCHED_FIFO", "0..=99", "11",
    "Real-time priority of the alarm thread, above the collector's; 0 does not ask for one.";

    gc_threads, "gc-threads", "METRONOME_GC_THREADS", count(1, 64), Some("auto"), "threads", "1..=64 or auto", "auto",
    "Threads that mark, the collector's own among them. auto is one for each CPU, at most 4.";

    concurrent, "concurrent", "METRONOME_CONCURRENT", OptionKind::Bool, None, "", "true | false", "true",
    "Whether helpers go on marking between quanta on CPUs that no mutator uses; quanta that become needless are left out.";

    gc_cpu, "gc-cpu", "METRONOME_GC_CPU", count(0, 1023), Some("none"), "CPU", "0..=1023 or none", "none",
    "CPU that the collector thread is pinned to.";

    alarm_cpu, "alarm-cpu", "METRONOME_ALARM_CPU", count(0, 1023), Some("none"), "CPU", "0..=1023 or none", "none",
    "CPU that the alarm thread is pinned to.";

    boost, "boost", "METRONOME_BOOST", OptionKind::Bool, None, "", "true | false", "true",
    "Whether a mutator that is ready but has no CPU gets the priority below the collector's until it arrives at a stop.";

    suppress_idle_ticks, "suppress-idle-ticks", "METRONOME_SUPPRESS_IDLE_TICKS", OptionKind::Bool, None, "", "true | false", "false",
    "Whether the alarm sleeps while no cycle is active.";

    prefault, "prefault", "METRONOME_PREFAULT", OptionKind::Bool, None, "", "true | false", "false",
    "Whether the heap's pages are touched at the start, so that none is faulted in during a quantum.";

    lock_memory, "lock-memory", "METRONOME_LOCK_MEMORY", OptionKind::Bool, None, "", "true | false", "false",
    "Whether the heap and the immortal area are locked in memory (mlock), which prefaults the heap.";

    huge_pages, "huge-pages", "METRONOME_HUGE_PAGES", OptionKind::Bool, None, "", "true | false", "false",
    "Whether the heap asks for huge pages.";

    log_buffers, "log-buffers", "METRONOME_LOG_BUFFERS", count(4, 1_048_576), None, "buffers", "4..=1048576", "1024",
    "Number of barrier log buffers, of 256 entries each, allocated at the start.";

    max_mutators, "max-mutators", "METRONOME_MAX_MUTATORS", count(1, 65_536), None, "threads", "1..=65536", "1024",
    "Most threads that can be mutators at the same time.";

    event_ring, "event-ring", "METRONOME_EVENT_RING", count(64, 16_777_216), None, "records", "64..=16777216", "8192",
    "Capacity of a ring of events waiting for the writer; when it is full the newest are lost and counted.";

    cycle_interval_ns, "cycle-interval", "METRONOME_CYCLE_INTERVAL", time(MS, 86_400 * S), Some("none"), "time", "1ms..=86400s or none", "none",
    "Longest time from the end of a cycle to the start of the next; none leaves it to the trigger.";

    initial_heap, "initial-heap", "METRONOME_INITIAL_HEAP", OptionKind::Bytes { min: 1 << 20, max: 1 << 40 }, Some("auto"), "bytes", "1M..=1T or auto", "auto",
    "Size that the heap starts with; it grows up to heap between quanta as the contract needs; auto is heap, a fixed size.";

    idle_trim_ns, "idle-trim", "METRONOME_IDLE_TRIM", time(10 * MS, 86_400 * S), Some("none"), "time", "10ms..=86400s or none", "10s",
    "Each time that no cycle has run for this long, a heap that has grown gives half of what it has grown by back to the system, down to initial-heap.";

    immortal, "immortal", "METRONOME_IMMORTAL", OptionKind::Bytes { min: 0, max: 1 << 36 }, None, "bytes", "0..=64G", "1M",
    "Size of the immortal area, which is prefaulted and never collected.";

    soft_age, "soft-age", "METRONOME_SOFT_AGE", count(0, 1_000_000), None, "cycles", "0..=1000000", "32",
    "Cycles for which a soft reference that is not used keeps its object while the whole heap is free; the fuller the heap, the fewer.";

    finalizer_backlog, "finalizer-backlog", "METRONOME_FINALIZER_BACKLOG", count(1, 1 << 31), None, "objects", "1..=2147483648", "10000",
    "Finalizers waiting above which the backlog is reported.";

    finalizer_watchdog_ns, "finalizer-watchdog", "METRONOME_FINALIZER_WATCHDOG", time(10 * MS, 86_400 * S), Some("none"), "time", "10ms..=86400s or none", "10s",
    "A finalizer that runs longer is reported as stuck.";

    finalizer_drain_ns, "finalizer-drain", "METRONOME_FINALIZER_DRAIN", time(MS, 3600 * S), Some("none"), "time", "1ms..=3600s or none", "2s",
    "Longest time for which closing the heap waits for finalizers that are due; none leaves them.";

    external_memory, "external-memory", "METRONOME_EXTERNAL_MEMORY", OptionKind::Bytes { min: 1 << 10, max: 1 << 50 }, Some("auto"), "bytes", "1k..=1024T or auto", "auto",
    "Memory outside the heap, announced by add_memory_pressure since the last cycle, that starts a cycle; auto is a quarter of the heap.";

    memory_watch, "memory-watch", "METRONOME_MEMORY_WATCH", OptionKind::Bool, None, "", "true | false", "true",
    "Whether the system is watched for low memory (PSI, cgroups, MemAvailable), which starts a cycle and returns empty regions.";

    memory_low_percent, "memory-low", "METRONOME_MEMORY_LOW", OptionKind::Percent { min: 0, max: 90 }, None, "%", "0..=90", "5",
    "Share of the system's or cgroup's memory below which what is available counts as low.";

    headroom_low_percent, "headroom-low", "METRONOME_HEADROOM_LOW", OptionKind::Percent { min: 0, max: 90 }, None, "%", "0..=90", "10",
    "Share of the heap below which free memory is notified as low.";

    report_blocked, "report-blocked", "METRONOME_REPORT_BLOCKED", OptionKind::Bool, None, "", "true | false", "false",
    "Debugging: whether a mutator that made a stop fail is looked up in /proc, to report one that sleeps in the kernel outside blocking.";

    verify, "verify", "METRONOME_VERIFY", OptionKind::Checks, Some("auto"), "", "off | on | all | heap, snapshot, remark and every=N with commas or auto", "auto",
    "Debugging: the checks that the collector does at the edges of phases, slowly, with the mutators stopped, and in each how many-th cycle; a violation ends the process. auto is what the environment variable says, also in a program that does not read its environment, else off.";
    stress, "stress", "METRONOME_STRESS", OptionKind::Stress, Some("none"), "", "steps=N, steps=random, alloc=N, poll, yield, yield=PHASE, zap, protect, seed=S or none", "none",
    "Stress modes for tests, with commas between them; see the guide.";
}

/// Edit distance (insertions, deletions, replacements), for messages only.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn edit_distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("beat", "bear", 1),
            ("heap", "heap", 0),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }
}
