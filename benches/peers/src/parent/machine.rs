//! The circumstances of a measurement: machine, kernel, compiler, commit, command, date.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    // Counted in eras of 400 years that begin on 1 March, so that the leap day is a year's last.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (d, m) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (era * 400 + year + u64::from(m <= 2), m, d)
}

/// Today's date and the time, UTC.
pub(crate) fn date_and_time() -> (String, String) {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (y, m, d) = civil(seconds / 86_400);
    let (h, min) = (seconds / 3_600 % 24, seconds / 60 % 60);
    (format!("{y}-{m:02}-{d:02}"), format!("{h:02}:{min:02}"))
}

/// The first line that a command writes, if it can be run.
pub(crate) fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let bytes = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Some(String::from_utf8_lossy(&bytes).lines().next()?.trim().to_owned())
}

fn field(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with(name)).unwrap_or_default();
    line.split_once(':').map_or("unknown", |(_, value)| value).trim().to_owned()
}

/// Most that this process had resident: the least that is reported of a child, whose count begins with it.
fn own_peak_rss_bytes() -> u64 {
    // SAFETY: all zero bytes are a valid `rusage`; it is only written to.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the place is valid.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    usage.ru_maxrss as u64 * 1024
}

/// All of it, as names and values.
pub(crate) fn head() -> Vec<(String, String)> {
    let sources = env!("CARGO_MANIFEST_DIR");
    let git = |arguments: &[&str]| {
        let mut all = vec!["-C", sources];
        all.extend(arguments);
        first_line("git", &all)
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", "../.."]).is_some();
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    let (date, time) = date_and_time();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let virtual_machine = field("/proc/cpuinfo", "flags").split(' ').any(|f| f == "hypervisor");
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<&str> = load.split(' ').take(3).collect();
    let mut settings: Vec<String> = std::env::vars()
        .filter(|(name, _)| name.starts_with("METRONOME_"))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    settings.sort_unstable();
    // Arguments only: the path of the program is the machine's own.
    let command: Vec<String> = std::env::args().skip(1).collect();
    [
        ("date", format!("{date} {time} UTC")),
        ("cpu", field("/proc/cpuinfo", "model name")),
        ("cpus", format!("{cpus}{}", if virtual_machine { " (virtual machine)" } else { "" })),
        ("memory", field("/proc/meminfo", "MemTotal")),
        ("kernel", first_line("uname", &["-sr"]).unwrap_or_else(|| "unknown".into())),
        ("rustc", first_line("rustc", &["--version"]).unwrap_or_else(|| "unknown".into())),
        ("commit", format!("{commit}{}", if changed { " with changes" } else { "" })),
        ("command", format!("peers {}", command.join(" ")).trim_end().to_owned()),
        ("environment", settings.join(" ")),
        ("rss_floor_bytes", own_peak_rss_bytes().to_string()),
        ("load", load.join(" ")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(11_017), (2000, 3, 1));
        assert_eq!(civil(20_787), (2026, 11, 30));
        assert_eq!(civil(47_540), (2100, 2, 28));
        assert_eq!(civil(47_541), (2100, 3, 1));
    }

    #[test]
    fn the_head_names_what_a_reader_must_know() {
        let head = head();
        for name in ["date", "cpu", "kernel", "rustc", "commit", "command", "rss_floor_bytes"] {
            assert!(head.iter().any(|(n, value)| n == name && !value.is_empty()), "{name}: {head:?}");
        }
    }
}
