//! What a watcher is told, and what can be wrong with it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What to watch for. [`Options::default`] suits most programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Folder below which `/proc` and the mount points of the control groups are looked for: `/`, or a forged tree.
    pub root: PathBuf,
    /// How long threads must have waited for memory within [`window`](Options::window) for a report; from 1 us up to
    /// the window.
    pub stall: Duration,
    /// The window of the stall, from 500 ms to 10 s (the kernel's bounds). Without the capability CAP_SYS_RESOURCE the
    /// kernel takes multiples of 2 s only: then the next longer one is used, and the stall is lengthened in proportion.
    pub window: Duration,
    /// Report when no more than this share of the machine's memory is available, in percent below 100; 0: never.
    pub available_percent: u32,
    /// Report when no more than this share of a control group's limit is left, in percent below 100; 0: never.
    pub group_percent: u32,
    /// Time between two looks at the levels (available memory, use of the group); from 10 ms to 1 h.
    pub sample_every: Duration,
    /// Shortest time between two reports of one source.
    pub gap: Duration,
    /// Shortest time between two reports of a level that has stayed low.
    pub repeat: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            root: PathBuf::from("/"),
            stall: Duration::from_millis(150),
            window: Duration::from_secs(1),
            available_percent: 5,
            group_percent: 5,
            sample_every: Duration::from_secs(1),
            gap: Duration::from_secs(1),
            repeat: Duration::from_secs(10),
        }
    }
}

impl Options {
    pub(super) fn validate(&self) -> Result<(), WatchError> {
        let time = |option, value: Duration, min: Duration, max: Duration, range| {
            let fits = (min..=max).contains(&value);
            fits.then_some(()).ok_or(WatchError::OutOfRange { option, value: format!("{value:?}"), range })
        };
        let percent = |option, value: u32| {
            let error = WatchError::OutOfRange { option, value: format!("{value} %"), range: "0 to 99 %" };
            (value < 100).then_some(()).ok_or(error)
        };
        let (tick, half, hour) =
            (Duration::from_micros(1), Duration::from_millis(500), Duration::from_secs(3600));
        time("window", self.window, half, Duration::from_secs(10), "500 ms to 10 s")?;
        time("stall", self.stall, tick, self.window, "1 us up to the window")?;
        time("sample_every", self.sample_every, Duration::from_millis(10), hour, "10 ms to 1 h")?;
        percent("available_percent", self.available_percent)?;
        percent("group_percent", self.group_percent)
    }
}

/// Why there is no watcher. (A source that is missing is no error: see [`Watcher::sources`](super::Watcher::sources).)
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchError {
    /// An option has a value that it does not take.
    OutOfRange {
        /// The field of [`Options`].
        option: &'static str,
        /// The value given.
        value: String,
        /// The values it takes.
        range: &'static str,
    },
    /// The kernel refused the eventfd of the waker.
    NoWaker {
        /// The kernel's reason.
        reason: String,
    },
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchError::OutOfRange { option, value, range } => {
                write!(f, "{option} = {value} is out of range: choose {range}")
            }
            WatchError::NoWaker { reason } => write!(
                f,
                "cannot make an eventfd to wake the watcher of low memory: {reason}; raise the limit of open files (ulimit -n)"
            ),
        }
    }
}

impl std::error::Error for WatchError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(change: impl FnOnce(&mut Options)) -> Option<String> {
        let mut options = Options::default();
        change(&mut options);
        options.validate().err().map(|e| e.to_string())
    }

    #[test]
    fn each_option_has_its_range() {
        assert_eq!(fault(|_| ()), None);
        let ms = Duration::from_millis;
        for (name, error) in [
            ("window", fault(|o| o.window = ms(499))),
            ("window", fault(|o| o.window = ms(10_001))),
            ("stall", fault(|o| o.stall = ms(1001))),
            ("stall", fault(|o| o.stall = Duration::ZERO)),
            ("sample_every", fault(|o| o.sample_every = ms(9))),
            ("sample_every", fault(|o| o.sample_every = ms(3_600_001))),
            ("available_percent", fault(|o| o.available_percent = 100)),
            ("group_percent", fault(|o| o.group_percent = u32::MAX)),
        ] {
            let error = error.unwrap_or_else(|| panic!("{name} was accepted"));
            assert!(error.starts_with(name) && error.contains("choose"), "{error}");
        }
        assert_eq!(fault(|o| (o.window, o.stall) = (ms(500), ms(500))), None);
        assert_eq!(fault(|o| (o.window, o.stall) = (ms(10_000), Duration::from_micros(1))), None);
        assert_eq!(fault(|o| (o.available_percent, o.group_percent) = (0, 99)), None);
    }
}
