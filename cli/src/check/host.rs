//! What the kernel says about permissions, limits, processors and memory, and what to make of it.

use std::path::{Path, PathBuf};

use metronome_gc::pressure::{Size, meminfo};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::Pid;

use super::cgroup::{self, GroupLimits};
use super::finding::{Finding, Verdict};
use super::parse;

/// The collector's default heap: what the limits are compared with.
const DEFAULT_HEAP: u64 = 256 << 20;
/// Share of a CPU, in percent, that the collector takes at the default target.
const DEFAULT_COLLECTOR_PERCENT: i64 = 30;
/// Number of the capability to lock any amount of memory.
const CAP_IPC_LOCK: u32 = 14;
/// Linux's default for `vm.max_map_count`.
const DEFAULT_MAP_COUNT: u64 = 65_530;

/// Finds the text of a file.
type Reader = Box<dyn Fn(&Path) -> Option<String>>;

/// Where files are read from: the host, or a table in tests.
pub(super) struct Files(Reader);

impl Files {
    /// The files below `root`.
    pub(super) fn new(root: impl Into<PathBuf>) -> Files {
        let root: PathBuf = root.into();
        Files(Box::new(move |path| {
            let bytes = std::fs::read(root.join(path.strip_prefix("/").unwrap_or(path))).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }))
    }

    /// These files and no others.
    #[cfg(test)]
    pub(super) fn scratch(files: &[(&str, &str)]) -> Files {
        let map: std::collections::HashMap<PathBuf, String> =
            files.iter().map(|&(path, text)| (PathBuf::from(path), text.to_owned())).collect();
        Files(Box::new(move |path| map.get(path).cloned()))
    }

    /// The text of a file, if there is one that may be read.
    pub(super) fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        (self.0)(path.as_ref())
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.read(path).as_deref().and_then(parse::number)
    }
}

/// Limits and CPUs of this process; `None` if the kernel does not tell.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits {
    pub(super) memlock_bytes: Option<u64>,
    pub(super) rtprio: Option<u64>,
    pub(super) address_space_bytes: Option<u64>,
    pub(super) allowed_cpus: Option<Vec<usize>>,
}

impl Limits {
    pub(super) fn of_this_process() -> Limits {
        let soft = |resource| getrlimit(resource).ok().map(|(soft, _)| soft);
        let allowed = sched_getaffinity(Pid::from_raw(0))
            .ok()
            .map(|set| (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect());
        Limits {
            memlock_bytes: soft(Resource::RLIMIT_MEMLOCK),
            rtprio: soft(Resource::RLIMIT_RTPRIO),
            address_space_bytes: soft(Resource::RLIMIT_AS),
            allowed_cpus: allowed,
        }
    }
}

pub(super) fn findings(files: &Files, limits: &Limits) -> Vec<Finding> {
    let groups = cgroup::limits(files);
    let mut findings = vec![
        rt_throttling(files),
        lock_memory(files, limits),
        cpus(files, limits),
        isolated_cpus(files, limits),
        kernel(files),
        cpu_frequency(files),
        transparent_huge_pages(files),
        static_huge_pages(files),
        swap(files),
        cpu_quota(&groups),
        memory_limit(files, &groups),
        address_space(limits),
        overcommit(files),
        max_map_count(files),
    ];
    findings.extend(rt_group(&groups));
    findings
}

fn rt_throttling(files: &Files) -> Finding {
    const TOPIC: &str = "rt-throttling";
    let read =
        |name: &str| files.read(format!("/proc/sys/kernel/{name}")).as_deref().and_then(parse::number::<i64>);
    let (Some(runtime), Some(period)) = (read("sched_rt_runtime_us"), read("sched_rt_period_us")) else {
        return Finding::unknown(TOPIC, "/proc/sys/kernel/sched_rt_runtime_us");
    };
    if runtime < 0 {
        return Finding::new(TOPIC, Verdict::Ok, "off: real-time threads are never held back")
            .advise("mind that a spinning real-time thread then keeps its CPU for ever");
    }
    if period <= 0 {
        return Finding::unknown(TOPIC, "/proc/sys/kernel/sched_rt_period_us");
    }
    let percent = runtime.saturating_mul(100) / period;
    let found = format!("real-time threads may use {runtime} of every {period} us ({percent} %)");
    if percent < DEFAULT_COLLECTOR_PERCENT {
        return Finding::new(TOPIC, Verdict::Bad, found)
            .advise("raise kernel.sched_rt_runtime_us above the collector's share, to its default 950000");
    }
    Finding::new(TOPIC, Verdict::Ok, found)
}

fn rt_group(groups: &GroupLimits) -> Option<Finding> {
    // Only kernels with group scheduling of real-time threads have it: elsewhere there is nothing to say.
    let runtime = groups.rt_runtime_us?;
    let found = format!("real-time threads of this control group may use {runtime} us of each period");
    Some(if runtime == 0 {
        Finding::new("rt-group", Verdict::Bad, found)
            .advise("give the group run time (cpu.rt_runtime_us); without it SCHED_FIFO is refused whatever the limits say")
    } else {
        Finding::new("rt-group", Verdict::Ok, found)
    })
}

/// Whether the process may lock any amount of memory.
fn locks_without_limit(files: &Files) -> bool {
    let status = files.read("/proc/self/status");
    status.as_deref().and_then(|text| parse::has_capability(text, CAP_IPC_LOCK)) == Some(true)
}

/// How much memory may be locked, `u64::MAX` if any amount; `None` if the kernel does not tell.
pub(super) fn lockable_bytes(files: &Files, limits: &Limits) -> Option<u64> {
    if locks_without_limit(files) { Some(u64::MAX) } else { limits.memlock_bytes }
}

fn lock_memory(files: &Files, limits: &Limits) -> Finding {
    const TOPIC: &str = "lock-memory";
    if locks_without_limit(files) {
        return Finding::new(TOPIC, Verdict::Ok, "permitted without limit (CAP_IPC_LOCK)");
    }
    match limits.memlock_bytes {
        None => Finding::unknown(TOPIC, "RLIMIT_MEMLOCK"),
        Some(u64::MAX) => Finding::new(TOPIC, Verdict::Ok, "permitted without limit (RLIMIT_MEMLOCK)"),
        Some(limit) if limit >= DEFAULT_HEAP => {
            Finding::new(TOPIC, Verdict::Ok, format!("permitted up to {} (RLIMIT_MEMLOCK)", Size(limit)))
        }
        Some(limit) => Finding::new(
            TOPIC,
            Verdict::Warn,
            format!("permitted up to {} (RLIMIT_MEMLOCK), less than the default heap of {}", Size(limit), Size(DEFAULT_HEAP)),
        )
        .advise("raise it above the heap (ulimit -l, memlock in limits.conf, LimitMEMLOCK= in systemd) to use lock-memory"),
    }
}

fn cpus(files: &Files, limits: &Limits) -> Finding {
    const TOPIC: &str = "cpus";
    let online = files.read("/sys/devices/system/cpu/online").as_deref().and_then(parse::cpu_list);
    let Some(allowed) = limits.allowed_cpus.as_ref().filter(|cpus| !cpus.is_empty()) else {
        return Finding::unknown(TOPIC, "the affinity mask");
    };
    let online = online.map_or_else(|| String::from("unknown"), |cpus| cpus.len().to_string());
    let found = format!("{} may be used ({}), {online} online", allowed.len(), ranges(allowed));
    match allowed.len() {
        1 => Finding::new(TOPIC, Verdict::Warn, found).advise(
            "give the process a second CPU: on one, each quantum also waits for the switch between threads",
        ),
        _ => Finding::new(TOPIC, Verdict::Ok, found),
    }
}

/// A sorted list of CPUs as `0-3,8`.
fn ranges(cpus: &[usize]) -> String {
    cpus.chunk_by(|a, b| a + 1 == *b)
        .map(|run| match run {
            [one] => one.to_string(),
            // `chunk_by` yields no empty chunk.
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        })
        .collect::<Vec<_>>()
        .join(",")
}

fn isolated_cpus(files: &Files, limits: &Limits) -> Finding {
    const TOPIC: &str = "isolated-cpus";
    let Some(isolated) = files.read("/sys/devices/system/cpu/isolated").as_deref().and_then(parse::cpu_list)
    else {
        return Finding::unknown(TOPIC, "/sys/devices/system/cpu/isolated");
    };
    if isolated.is_empty() {
        return Finding::new(TOPIC, Verdict::Ok, "none")
            .advise("for the least noise boot with isolcpus= and nohz_full= and pin alarm, collector and mutators there");
    }
    let reachable =
        limits.allowed_cpus.as_ref().is_some_and(|allowed| isolated.iter().any(|cpu| allowed.contains(cpu)));
    let found = format!(
        "{}{}",
        ranges(&isolated),
        if reachable { "" } else { ", none of them in the affinity mask" }
    );
    Finding::new(TOPIC, Verdict::Ok, found).advise("pin alarm and collector there with alarm-cpu and gc-cpu")
}

fn kernel(files: &Files) -> Finding {
    const TOPIC: &str = "kernel";
    let Some(version) = files.read("/proc/version") else { return Finding::unknown(TOPIC, "/proc/version") };
    match parse::preemption(&version) {
        Some(model) => Finding::new(TOPIC, Verdict::Ok, format!("preemption model {model}")),
        None => Finding::new(
            TOPIC,
            Verdict::Warn,
            "the kernel is not preemptible: long system calls delay the alarm",
        )
        .advise("use a kernel with PREEMPT_DYNAMIC (boot with preempt=full), PREEMPT or PREEMPT_RT"),
    }
}

fn cpu_frequency(files: &Files) -> Finding {
    const TOPIC: &str = "cpu-frequency";
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let Some(governor) = files.read(path) else { return Finding::unknown(TOPIC, path) };
    let governor = governor.trim();
    let found = format!("governor {governor}");
    if governor == "performance" {
        return Finding::new(TOPIC, Verdict::Ok, found);
    }
    Finding::new(TOPIC, Verdict::Warn, found)
        .advise("choose the governor performance: a CPU that is clocked down makes a quantum do less work in its time")
}

fn transparent_huge_pages(files: &Files) -> Finding {
    const TOPIC: &str = "huge-pages";
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = files.read(path);
    let Some(mode) = text.as_deref().and_then(parse::chosen) else { return Finding::unknown(TOPIC, path) };
    let found = format!("transparent huge pages: {mode}");
    match mode {
        "madvise" => Finding::new(TOPIC, Verdict::Ok, found),
        "always" => Finding::new(TOPIC, Verdict::Warn, found).advise(
            "choose madvise: with always the kernel may stop any thread at a page fault to make a huge page",
        ),
        _ => Finding::new(TOPIC, Verdict::Ok, found).advise("the option huge-pages will have no effect"),
    }
}

fn static_huge_pages(files: &Files) -> Finding {
    const TOPIC: &str = "static-huge-pages";
    let Some(text) = files.read("/proc/meminfo") else { return Finding::unknown(TOPIC, "/proc/meminfo") };
    let count = |key| meminfo::field(&text, key).and_then(parse::number::<u64>);
    let (Some(total), Some(free)) = (count("HugePages_Total"), count("HugePages_Free")) else {
        return Finding::unknown(TOPIC, "HugePages_Total in /proc/meminfo");
    };
    let page = meminfo::bytes(&text, "Hugepagesize")
        .map_or_else(|| String::from("unknown size"), |bytes| Size(bytes).to_string());
    Finding::new(TOPIC, Verdict::Ok, format!("{free} of {total} free, {page} each"))
}

fn swap(files: &Files) -> Finding {
    const TOPIC: &str = "swap";
    let Some((areas, bytes)) = files.read("/proc/swaps").as_deref().and_then(parse::swaps) else {
        return Finding::unknown(TOPIC, "/proc/swaps");
    };
    if areas == 0 {
        return Finding::new(TOPIC, Verdict::Ok, "none");
    }
    Finding::new(TOPIC, Verdict::Warn, format!("{areas} in use as swap, {} in all", Size(bytes)))
        .advise("swapoff, or keep the heap in memory with lock-memory: a page read from disk costs more than a quantum")
}

fn cpu_quota(groups: &GroupLimits) -> Finding {
    const TOPIC: &str = "cpu-quota";
    let Some(quota) = groups.cpu else {
        return if groups.cpu_seen {
            Finding::new(TOPIC, Verdict::Ok, "none")
        } else {
            Finding::unknown(TOPIC, "cpu.max or cpu.cfs_quota_us")
        };
    };
    let milli = quota.milli_cpus();
    let found = format!(
        "{} of every {} us ({}.{:03} CPUs) by control group",
        quota.quota_us,
        quota.period_us,
        milli / 1000,
        milli % 1000
    );
    // A group that has used up its quota stands still until the next period, collector and all.
    let verdict = if milli < 1000 { Verdict::Bad } else { Verdict::Warn };
    Finding::new(TOPIC, verdict, found).advise(
        "remove the quota (cpu.max, docker --cpus, limits.cpu in Kubernetes) and use a cpuset: a group out of quota is stopped for the rest of the period",
    )
}

fn memory_limit(files: &Files, groups: &GroupLimits) -> Finding {
    const TOPIC: &str = "memory";
    let total = files.read("/proc/meminfo").as_deref().and_then(|text| meminfo::bytes(text, "MemTotal"));
    let (found, bytes) = match (groups.memory_bytes, total) {
        (Some(limit), Some(total)) if limit < total => (format!("{} by control group", Size(limit)), limit),
        (Some(limit), None) => (format!("{} by control group", Size(limit)), limit),
        (_, Some(total)) => {
            let limit = if groups.memory_seen { "not limited" } else { "limit unknown" };
            (format!("{} in all, {limit} by control group", Size(total)), total)
        }
        (None, None) => return Finding::unknown(TOPIC, "/proc/meminfo"),
    };
    if bytes < DEFAULT_HEAP {
        return Finding::new(TOPIC, Verdict::Bad, found).advise(format!(
            "set heap below it: the default of {} would end the process when it fills",
            Size(DEFAULT_HEAP)
        ));
    }
    if bytes < DEFAULT_HEAP * 2 {
        return Finding::new(TOPIC, Verdict::Warn, found)
            .advise(format!("mind that the default heap of {} is more than half of it", Size(DEFAULT_HEAP)));
    }
    Finding::new(TOPIC, Verdict::Ok, found)
}

fn address_space(limits: &Limits) -> Finding {
    const TOPIC: &str = "address-space";
    /// The smallest heap, and as much again for everything else.
    const LEAST: u64 = 2 << 20;
    match limits.address_space_bytes {
        None => Finding::unknown(TOPIC, "RLIMIT_AS"),
        Some(u64::MAX) => Finding::new(TOPIC, Verdict::Ok, "not limited"),
        Some(limit) => {
            let found = format!("limited to {} (RLIMIT_AS)", Size(limit));
            let remedy =
                "lift the limit (ulimit -v unlimited): the heap reserves address space up to a power of two";
            match limit {
                0..LEAST => Finding::new(TOPIC, Verdict::Bad, found).advise(remedy).impossible(),
                _ if limit < DEFAULT_HEAP * 2 => Finding::new(TOPIC, Verdict::Bad, found).advise(remedy),
                _ => Finding::new(TOPIC, Verdict::Warn, found).advise(remedy),
            }
        }
    }
}

fn overcommit(files: &Files) -> Finding {
    const TOPIC: &str = "overcommit";
    let path = "/proc/sys/vm/overcommit_memory";
    match files.number(path) {
        None => Finding::unknown(TOPIC, path),
        Some(mode @ (0 | 1)) => Finding::new(TOPIC, Verdict::Ok, format!("vm.overcommit_memory is {mode}")),
        Some(mode) => Finding::new(TOPIC, Verdict::Warn, format!("vm.overcommit_memory is {mode}: memory is accounted in advance"))
            .advise("the heap counts in full against the commit limit: see CommitLimit in /proc/meminfo, or set vm.overcommit_memory to 0"),
    }
}

fn max_map_count(files: &Files) -> Finding {
    const TOPIC: &str = "max-map-count";
    let path = "/proc/sys/vm/max_map_count";
    match files.number(path) {
        None => Finding::unknown(TOPIC, path),
        Some(count) if count >= DEFAULT_MAP_COUNT => {
            Finding::new(TOPIC, Verdict::Ok, format!("{count} mappings"))
        }
        Some(count) => Finding::new(
            TOPIC,
            Verdict::Warn,
            format!("{count} mappings, less than the usual {DEFAULT_MAP_COUNT}"),
        )
        .advise("raise vm.max_map_count: returning memory to the system may split the heap's mapping"),
    }
}

/// Time that the hypervisor took, between two readings of `/proc/stat`.
pub(super) fn steal(before: Option<&str>, after: Option<&str>) -> Finding {
    const TOPIC: &str = "steal";
    let times = before.and_then(parse::cpu_times).zip(after.and_then(parse::cpu_times));
    let Some((before, after)) = times else { return Finding::unknown(TOPIC, "/proc/stat") };
    // Counters of some virtual machines go back now and then; no time, no share.
    let total = after.total.saturating_sub(before.total);
    if total == 0 {
        return Finding::new(
            TOPIC,
            Verdict::Unknown,
            "no processor time passed between two readings of /proc/stat",
        );
    }
    let steal = after.steal.saturating_sub(before.steal);
    let per_mille = u128::from(steal) * 1000 / u128::from(total);
    let found = format!("{}.{} % of the time during the check", per_mille / 10, per_mille % 10);
    match per_mille {
        0..10 => Finding::new(TOPIC, Verdict::Ok, found),
        10..50 => Finding::new(TOPIC, Verdict::Warn, found)
            .advise("the hypervisor runs others on this CPU: ask for dedicated CPUs"),
        _ => Finding::new(TOPIC, Verdict::Bad, found)
            .advise("the hypervisor runs others on this CPU: ask for dedicated CPUs"),
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
