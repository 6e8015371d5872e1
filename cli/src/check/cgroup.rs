//! Limits by control groups, versions 1 and 2, also both at once.
//!
//! A limit may be set on any group between the process's own and the root, and the tightest counts. What a container
//! sees of the hierarchy depends on its namespaces: paths that do not exist are passed over.

use std::path::{Path, PathBuf};

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
    for directory in directories(&membership, &mounts, None) {
        if let Some(limit) = files.read(directory.join("cpu.max")).as_deref().and_then(cpu_max) {
            found.cpu_seen = true;
            found.cpu = tighter_quota(found.cpu, limit);
        }
        if let Some(limit) = files.read(directory.join("memory.max")).as_deref().and_then(memory_max) {
            found.memory_seen = true;
            found.memory_bytes = tighter(found.memory_bytes, limit);
        }
    }
    for directory in directories(&membership, &mounts, Some("cpu")) {
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
    for directory in directories(&membership, &mounts, Some("memory")) {
        if let Some(limit) =
            files.read(directory.join("memory.limit_in_bytes")).as_deref().and_then(limit_in_bytes)
        {
            found.memory_seen = true;
            found.memory_bytes = tighter(found.memory_bytes, limit);
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

/// The directories of the process's group and its ancestors, from the inside out, for one controller of version 1 or, if
/// `None`, for version 2. Takes the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn directories(membership: &str, mounts: &str, controller: Option<&str>) -> Vec<PathBuf> {
    let Some(group) = group_path(membership, controller) else { return Vec::new() };
    let Some((root, mount_point)) = mounts.lines().find_map(|line| group_mount(line, controller)) else {
        return Vec::new();
    };
    // The mount shows the hierarchy from `root` down. A group elsewhere (other namespace) is not visible in it.
    let inside = Path::new(group).strip_prefix(&root).unwrap_or(Path::new(""));
    // `..` leads out of the namespace: nothing to see there.
    let inside =
        if inside.components().any(|part| part.as_os_str() == "..") { Path::new("") } else { inside };
    inside.ancestors().map(|part| mount_point.join(part)).collect()
}

/// The group of the process: lines such as `4:memory:/a/b`, and `0::/a/b` for version 2.
fn group_path<'a>(membership: &'a str, controller: Option<&str>) -> Option<&'a str> {
    membership.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let matches = match controller {
            Some(wanted) => controllers.split(',').any(|one| one == wanted),
            None => controllers.is_empty(),
        };
        matches.then_some(path)
    })
}

/// Root and mount point, if this line of mountinfo is the wanted hierarchy:
/// `id parent major:minor root mount-point options [optional…] - type source super-options`.
fn group_mount(line: &str, controller: Option<&str>) -> Option<(PathBuf, PathBuf)> {
    let (mount, system) = line.split_once(" - ")?;
    let mut system = system.split(' ');
    let kind = system.next()?;
    let options = system.nth(1)?;
    let matches = match controller {
        Some(wanted) => kind == "cgroup" && options.split(',').any(|one| one == wanted),
        None => kind == "cgroup2",
    };
    if !matches {
        return None;
    }
    let mut mount = mount.split(' ').skip(3);
    Some((unescape(mount.next()?), unescape(mount.next()?)))
}

/// Undoes the octal escapes of mountinfo (`\040` for a blank).
fn unescape(text: &str) -> PathBuf {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            // The kernel escapes blank, tab, newline, backslash and hash only.
            Some(code) if code.is_ascii() => {
                plain.push(char::from(code));
                rest = &rest[at + 4..];
            }
            _ => {
                plain.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    plain.push_str(rest);
    PathBuf::from(plain)
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

/// Version 2: `max` or bytes.
fn memory_max(text: &str) -> Option<Option<u64>> {
    if text.trim() == "max" { Some(None) } else { number(text).map(Some) }
}

/// Version 1: no limit is written as the largest number of whole pages.
fn limit_in_bytes(text: &str) -> Option<Option<u64>> {
    let limit: u64 = number(text)?;
    Some((limit < 1 << 62).then_some(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID_GROUPS: &str = "9:name=systemd:/\n4:memory:/box/7\n2:cpu,cpuacct:/box\n0::/\n";
    const HYBRID_MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    fn paths(list: &[&str]) -> Vec<PathBuf> {
        list.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn directories_lead_from_the_group_to_the_root() {
        let of = |controller| directories(HYBRID_GROUPS, HYBRID_MOUNTS, controller);
        let memory = ["/sys/fs/cgroup/memory/box/7", "/sys/fs/cgroup/memory/box", "/sys/fs/cgroup/memory"];
        assert_eq!(of(Some("memory")), paths(&memory));
        assert_eq!(of(Some("cpu")), paths(&["/sys/fs/cgroup/cpu/box", "/sys/fs/cgroup/cpu"]));
        assert_eq!(of(None), paths(&["/sys/fs/cgroup/unified"]));
        assert_eq!(of(Some("pids")), paths(&[]));
        assert_eq!(directories("", "", None), paths(&[]));
    }

    #[test]
    fn a_container_sees_its_part_of_the_hierarchy() {
        let mounts = "1 2 0:1 /pod/c1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(
            directories("0::/pod/c1/app", mounts, None),
            paths(&["/sys/fs/cgroup/app", "/sys/fs/cgroup"])
        );
        assert_eq!(directories("0::/elsewhere", mounts, None), paths(&["/sys/fs/cgroup"]));
        let whole = "1 2 0:1 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(directories("0::/../../etc", whole, None), paths(&["/sys/fs/cgroup"]));
    }

    #[test]
    fn escapes_in_mount_points() {
        assert_eq!(unescape("/a\\040b\\134c"), PathBuf::from("/a b\\c"));
        assert_eq!(unescape("/a\\"), PathBuf::from("/a\\"));
        assert_eq!(unescape("/ä\\04"), PathBuf::from("/ä\\04"));
        assert_eq!(unescape("\\ää"), PathBuf::from("\\ää"));
    }

    #[test]
    fn limit_files() {
        assert_eq!(cpu_max("max 100000\n"), Some(None));
        assert_eq!(cpu_max("50000 100000\n"), Some(Some(CpuQuota { quota_us: 50_000, period_us: 100_000 })));
        assert_eq!(cpu_max("50000"), None);
        assert_eq!(cfs_quota("-1\n", "100000\n"), Some(None));
        assert_eq!(cfs_quota("150000", "100000").flatten().map(CpuQuota::milli_cpus), Some(1500));
        assert_eq!(CpuQuota { quota_us: u64::MAX, period_us: 0 }.milli_cpus(), u64::MAX);
        assert_eq!(memory_max("max\n"), Some(None));
        assert_eq!(memory_max("1048576\n"), Some(Some(1 << 20)));
        assert_eq!(memory_max("lots"), None);
        assert_eq!(limit_in_bytes("9223372036854771712\n"), Some(None));
        assert_eq!(limit_in_bytes("4096\n"), Some(Some(4096)));
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
