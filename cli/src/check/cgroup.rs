//! Limits by control groups, versions 1 and 2, also both at once.
//!
//! A limit may be set on any group between the process's own and the root, and the tightest counts. What a container
//! sees of the hierarchy depends on its namespaces: paths that do not exist are passed over. Where the groups are, and
//! what the files about memory say, the library knows.

use metronome_gc::pressure::cgroup::{Hierarchy, Limit, directories};

use super::host::Files;
use super::parse::number;

/// Processor time that a group may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuQuota {
    pub(super) quota_us: u64,
    pub(super) period_us: u64,
}

impl CpuQuota {
    /// Quota in CPUs, times 1000.
    pub(super) fn milli_cpus(self) -> u64 {
        u64::try_from(u128::from(self.quota_us) * 1000 / u128::from(self.period_us.max(1)))
            .unwrap_or(u64::MAX)
    }
}

/// What was found; `None` inside `Some`-like fields is "no limit", `seen` false is "no group seen at all".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct GroupLimits {
    /// Whether any file about processor time was found.
    pub(super) cpu_seen: bool,
    pub(super) cpu: Option<CpuQuota>,
    /// Whether any file about memory was found.
    pub(super) memory_seen: bool,
    pub(super) memory_bytes: Option<u64>,
    /// Real-time run time per period of the process's own group, in microseconds (version 1 only, where the kernel has
    /// group scheduling of real-time threads).
    pub(super) rt_runtime_us: Option<i64>,
}

pub(super) fn limits(files: &Files) -> GroupLimits {
    let membership = files.read("/proc/self/cgroup").unwrap_or_default();
    let mounts = files.read("/proc/self/mountinfo").unwrap_or_default();
    let mut found = GroupLimits::default();
    for directory in directories(&membership, &mounts, Hierarchy::Unified) {
        if let Some(limit) = files.read(directory.join("cpu.max")).as_deref().and_then(cpu_max) {
            found.cpu_seen = true;
            found.cpu = tighter_quota(found.cpu, limit);
        }
        if let Some(limit) = files.read(directory.join("memory.max")).as_deref().and_then(Limit::parse_v2) {
            found.memory_seen = true;
            found.memory_bytes = tighter(found.memory_bytes, limit.bytes());
        }
    }
    for directory in directories(&membership, &mounts, Hierarchy::Controller("cpu")) {
        let quota = files.read(directory.join("cpu.cfs_quota_us"));
        let period = files.read(directory.join("cpu.cfs_period_us"));
        if let Some(limit) = quota.zip(period).and_then(|(quota, period)| cfs_quota(&quota, &period)) {
            found.cpu_seen = true;
            found.cpu = tighter_quota(found.cpu, limit);
        }
        // Of the own group only, the first that exists: run time is handed out from above, not shared.
        if found.rt_runtime_us.is_none() {
            found.rt_runtime_us = files.read(directory.join("cpu.rt_runtime_us")).as_deref().and_then(number);
        }
    }
    for directory in directories(&membership, &mounts, Hierarchy::Controller("memory")) {
        if let Some(limit) =
            files.read(directory.join("memory.limit_in_bytes")).as_deref().and_then(Limit::parse_v1)
        {
            found.memory_seen = true;
            found.memory_bytes = tighter(found.memory_bytes, limit.bytes());
        }
    }
    found
}

fn tighter(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

fn tighter_quota(a: Option<CpuQuota>, b: Option<CpuQuota>) -> Option<CpuQuota> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if a.milli_cpus() <= b.milli_cpus() { a } else { b }),
        (one, other) => one.or(other),
    }
}

/// Version 2: `max 100000` or `50000 100000`. Outer `None`: not understood; inner: no limit.
fn cpu_max(text: &str) -> Option<Option<CpuQuota>> {
    let (quota, period) = text.trim().split_once(' ')?;
    let period_us = number(period)?;
    if quota == "max" {
        return Some(None);
    }
    Some(Some(CpuQuota { quota_us: number(quota)?, period_us }))
}

/// Version 1: a negative quota is no limit.
fn cfs_quota(quota: &str, period: &str) -> Option<Option<CpuQuota>> {
    let (quota, period_us) = (number::<i64>(quota)?, number(period)?);
    Some(u64::try_from(quota).ok().map(|quota_us| CpuQuota { quota_us, period_us }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID_GROUPS: &str = "9:name=systemd:/\n4:memory:/box/7\n2:cpu,cpuacct:/box\n0::/\n";
    const HYBRID_MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn limit_files() {
        assert_eq!(cpu_max("max 100000\n"), Some(None));
        assert_eq!(cpu_max("50000 100000\n"), Some(Some(CpuQuota { quota_us: 50_000, period_us: 100_000 })));
        assert_eq!(cpu_max("50000"), None);
        assert_eq!(cfs_quota("-1\n", "100000\n"), Some(None));
        assert_eq!(cfs_quota("150000", "100000").flatten().map(CpuQuota::milli_cpus), Some(1500));
        assert_eq!(CpuQuota { quota_us: u64::MAX, period_us: 0 }.milli_cpus(), u64::MAX);
    }

    #[test]
    fn the_tightest_limit_of_all_ancestors_counts() {
        let files = Files::scratch(&[
            ("/proc/self/cgroup", "0::/a/b\n"),
            ("/proc/self/mountinfo", "1 2 0:1 / /cg ro - cgroup2 cgroup rw\n"),
            ("/cg/a/b/cpu.max", "200000 100000\n"),
            ("/cg/a/cpu.max", "50000 100000\n"),
            ("/cg/a/b/memory.max", "1000000\n"),
            ("/cg/a/memory.max", "max\n"),
        ]);
        let expected = GroupLimits {
            cpu_seen: true,
            cpu: Some(CpuQuota { quota_us: 50_000, period_us: 100_000 }),
            memory_seen: true,
            memory_bytes: Some(1_000_000),
            rt_runtime_us: None,
        };
        assert_eq!(limits(&files), expected);
        assert_eq!(limits(&Files::scratch(&[])), GroupLimits::default());
    }

    #[test]
    fn version_one_limits() {
        let files = Files::scratch(&[
            ("/proc/self/cgroup", HYBRID_GROUPS),
            ("/proc/self/mountinfo", HYBRID_MOUNTS),
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu/cpu.rt_runtime_us", "950000\n"),
            ("/sys/fs/cgroup/cpu/box/cpu.rt_runtime_us", "0\n"),
            ("/sys/fs/cgroup/memory/box/7/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "268435456\n"),
        ]);
        let found = limits(&files);
        assert_eq!((found.cpu_seen, found.cpu, found.rt_runtime_us), (true, None, Some(0)));
        assert_eq!((found.memory_seen, found.memory_bytes), (true, Some(256 << 20)));
    }
}
