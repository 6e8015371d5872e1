//! Parsers of kernel text: pure, and never surprised, because the text may come from any kernel or sandbox.

use metronome_gc::pressure::meminfo::field;

/// A whole number alone in a file.
pub(super) fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.trim().parse().ok()
}

/// A list of CPUs such as `0-3,8,10-11`; the empty list is a list.
pub(super) fn cpu_list(text: &str) -> Option<Vec<usize>> {
    /// More CPUs than any kernel supports: a longer range is nonsense and must not use up the memory.
    const MAX_CPUS: usize = 1 << 16;
    let text = text.trim();
    if text.is_empty() {
        return Some(Vec::new());
    }
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number::<usize>(first)?, number::<usize>(last)?);
        if first > last || last >= MAX_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// The chosen word of a line such as `always [madvise] never`.
pub(super) fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    Some(word)
}

/// Whether a capability (by its number) is in a set of `/proc/self/status`.
pub(super) fn has_capability(status: &str, capability: u32) -> Option<bool> {
    let set = u64::from_str_radix(field(status, "CapEff")?, 16).ok()?;
    Some(set.checked_shr(capability)? & 1 == 1)
}

/// Processor time of the whole machine in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuTimes {
    pub(super) total: u64,
    pub(super) steal: u64,
}

/// The first line of `/proc/stat`: user nice system idle iowait irq softirq steal …; the guest times that follow are
/// already within user and nice.
pub(super) fn cpu_times(stat: &str) -> Option<CpuTimes> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let times: Vec<u64> = line.split_ascii_whitespace().take(8).map(number).collect::<Option<_>>()?;
    // Kernels without the column know of no steal: not known, rather than none.
    let steal = *times.get(7)?;
    let total = times.iter().try_fold(0_u64, |sum, &time| sum.checked_add(time))?;
    Some(CpuTimes { total, steal })
}

/// Number and size in bytes of the swap areas in `/proc/swaps`.
pub(super) fn swaps(text: &str) -> Option<(usize, u64)> {
    let mut lines = text.lines();
    lines.next().filter(|header| header.starts_with("Filename"))?;
    let mut areas = (0, 0_u64);
    for line in lines.filter(|line| !line.trim().is_empty()) {
        // From the right: a file name may hold anything but a newline. Columns: type, size, used, priority.
        let size: u64 = number(line.split_ascii_whitespace().rev().nth(2)?)?;
        areas = (areas.0 + 1, areas.1.checked_add(size.checked_mul(1024)?)?);
    }
    Some(areas)
}

/// Preemption model in the kernel's version text.
pub(super) fn preemption(version: &str) -> Option<&'static str> {
    // The longest first: one is the beginning of another.
    ["PREEMPT_RT", "PREEMPT_DYNAMIC", "PREEMPT_LAZY", "PREEMPT"]
        .into_iter()
        .find(|model| version.contains(model))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_list("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(cpu_list("5"), Some(vec![5]));
        assert_eq!(cpu_list("2,0-2"), Some(vec![0, 1, 2]));
        assert_eq!(cpu_list("\n"), Some(vec![]));
        for bad in ["a", "1-", "3-1", "0-99999999999", "-", ",", "0,,1", "(null)"] {
            assert_eq!(cpu_list(bad), None, "{bad}");
        }
    }

    #[test]
    fn chosen_words() {
        assert_eq!(chosen("always [madvise] never\n"), Some("madvise"));
        assert_eq!(chosen("[always] madvise never"), Some("always"));
        assert_eq!(chosen("always"), None);
        assert_eq!(chosen("al[ways"), None);
    }

    #[test]
    fn capabilities() {
        let status = "Name:\tx\nCapPrm:\t0\nCapEff:\t0000000000804000\nCapBnd:\tffff\n";
        assert_eq!(has_capability(status, 14), Some(true));
        assert_eq!(has_capability(status, 23), Some(true));
        assert_eq!(has_capability(status, 0), Some(false));
        assert_eq!(has_capability(status, 64), None);
        assert_eq!(has_capability("CapEff:\tzz", 1), None);
        assert_eq!(has_capability("", 1), None);
    }

    #[test]
    fn stat_line() {
        let stat = "cpu  10 1 5 100 2 0 3 7 4 0\ncpu0 9 9 9 9 9 9 9 9 9 9\nintr 5\n";
        assert_eq!(cpu_times(stat), Some(CpuTimes { total: 128, steal: 7 }));
        assert_eq!(cpu_times("cpu  10 1 5 100 2 0 3\n"), None);
        assert_eq!(cpu_times("cpu0 1 1 1 1 1 1 1 1\n"), None);
        assert_eq!(cpu_times("cpu  1 2 x 4 5 6 7 8\n"), None);
        assert_eq!(cpu_times("cpu  18446744073709551615 1 0 0 0 0 0 0\n"), None);
    }

    #[test]
    fn swap_areas() {
        let header = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        assert_eq!(swaps(header), Some((0, 0)));
        let two = format!("{header}/dev/sda2   partition\t1000\t0\t-2\n/swap\\040file  file\t24\t0\t-3\n");
        assert_eq!(swaps(&two), Some((2, 1024 * 1024)));
        assert_eq!(swaps(""), None);
        assert_eq!(swaps(&format!("{header}/dev/sda2 partition\n")), None);
    }

    #[test]
    fn preemption_models() {
        assert_eq!(preemption("Linux version 6.1 (x) #1 SMP PREEMPT_RT Thu"), Some("PREEMPT_RT"));
        assert_eq!(preemption("#1 SMP PREEMPT_DYNAMIC @0"), Some("PREEMPT_DYNAMIC"));
        assert_eq!(preemption("#1 SMP PREEMPT Thu"), Some("PREEMPT"));
        assert_eq!(preemption("#1 SMP Debian"), None);
    }

    #[test]
    fn numbers() {
        assert_eq!(number::<i64>("-1\n"), Some(-1));
        assert_eq!(number::<u64>("max"), None);
    }
}
