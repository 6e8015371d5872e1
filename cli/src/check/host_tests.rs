use super::*;

fn find(findings: &[Finding], topic: &str) -> Finding {
    findings.iter().find(|finding| finding.topic == topic).unwrap_or_else(|| panic!("no {topic}")).clone()
}

fn verdict(files: &[(&str, &str)], limits: &Limits, topic: &str) -> Verdict {
    find(&findings(&Files::scratch(files), limits), topic).verdict
}

#[test]
fn a_host_that_says_nothing_is_unknown_throughout() {
    for finding in findings(&Files::scratch(&[]), &Limits::default()) {
        assert_eq!((finding.verdict, finding.impossible), (Verdict::Unknown, false), "{finding:?}");
    }
    assert_eq!(steal(None, None).verdict, Verdict::Unknown);
}

#[test]
fn a_host_that_says_nonsense_is_unknown_too() {
    let files = Files(Box::new(|_| Some(String::from("??? :-1\n[\u{0}"))));
    for finding in findings(&files, &Limits::default()) {
        // Any text is a governor's name or a kernel without preemption.
        if !["cpu-frequency", "kernel"].contains(&finding.topic) {
            assert_eq!(finding.verdict, Verdict::Unknown, "{finding:?}");
        }
    }
}

#[test]
fn a_well_kept_host_is_ok_throughout() {
    let files = Files::scratch(&[
        ("/proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
        ("/proc/sys/kernel/sched_rt_period_us", "1000000\n"),
        ("/proc/self/status", "CapEff:\t0\n"),
        ("/sys/devices/system/cpu/online", "0-7\n"),
        ("/sys/devices/system/cpu/isolated", "6-7\n"),
        ("/proc/version", "Linux version 6.12 #1 SMP PREEMPT_RT\n"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        (
            "/proc/meminfo",
            "MemTotal: 8388608 kB\nHugePages_Total: 0\nHugePages_Free: 0\nHugepagesize: 2048 kB\n",
        ),
        ("/proc/swaps", "Filename Type Size Used Priority\n"),
        ("/proc/self/cgroup", "0::/\n"),
        ("/proc/self/mountinfo", "1 2 0:1 / /cg ro - cgroup2 cgroup rw\n"),
        ("/cg/cpu.max", "max 100000\n"),
        ("/cg/memory.max", "max\n"),
        ("/proc/sys/vm/overcommit_memory", "0\n"),
        ("/proc/sys/vm/max_map_count", "65530\n"),
    ]);
    let limits = Limits {
        memlock_bytes: Some(u64::MAX),
        rtprio: Some(99),
        address_space_bytes: Some(u64::MAX),
        allowed_cpus: Some((0..8).collect()),
    };
    for finding in findings(&files, &limits) {
        assert_eq!(finding.verdict, Verdict::Ok, "{finding:?}");
    }
}

#[test]
fn real_time_throttling() {
    let of = |runtime, period| {
        let files = [
            ("/proc/sys/kernel/sched_rt_runtime_us", runtime),
            ("/proc/sys/kernel/sched_rt_period_us", period),
        ];
        verdict(&files, &Limits::default(), "rt-throttling")
    };
    assert_eq!(of("-1", "1000000"), Verdict::Ok);
    assert_eq!(of("300000", "1000000"), Verdict::Ok);
    assert_eq!(of("299999", "1000000"), Verdict::Bad);
    assert_eq!(of("0", "1000000"), Verdict::Bad);
    assert_eq!(of("950000", "0"), Verdict::Unknown);
    let group = |runtime| rt_group(&GroupLimits { rt_runtime_us: runtime, ..GroupLimits::default() });
    assert_eq!(group(None), None);
    assert_eq!(group(Some(0)).map(|finding| finding.verdict), Some(Verdict::Bad));
    assert_eq!(group(Some(1)).map(|finding| finding.verdict), Some(Verdict::Ok));
}

#[test]
fn memory_locking_is_by_capability_or_by_limit() {
    let of = |status, limit| {
        let limits = Limits { memlock_bytes: limit, ..Limits::default() };
        verdict(&[("/proc/self/status", status)], &limits, "lock-memory")
    };
    assert_eq!(of("CapEff:\t4000\n", Some(0)), Verdict::Ok);
    assert_eq!(of("CapEff:\t8000\n", Some(8 << 20)), Verdict::Warn);
    assert_eq!(of("CapEff:\t0\n", Some(256 << 20)), Verdict::Ok);
    assert_eq!(of("", Some(u64::MAX)), Verdict::Ok);
    assert_eq!(of("", None), Verdict::Unknown);
}

#[test]
fn processors() {
    let with = |cpus: &[usize]| Limits { allowed_cpus: Some(cpus.to_vec()), ..Limits::default() };
    assert_eq!(verdict(&[], &with(&[3]), "cpus"), Verdict::Warn);
    let files = Files::scratch(&[
        ("/sys/devices/system/cpu/online", "0-3\n"),
        ("/sys/devices/system/cpu/isolated", "2-3\n"),
    ]);
    let seen = findings(&files, &with(&[0, 1, 3]));
    assert_eq!(find(&seen, "cpus").found, "3 may be used (0-1,3), 4 online");
    assert_eq!(find(&seen, "isolated-cpus").found, "2-3");
    let seen = findings(&files, &with(&[0, 1]));
    assert_eq!(find(&seen, "isolated-cpus").found, "2-3, none of them in the affinity mask");
    assert_eq!(ranges(&[0, 2, 3, 4, 9]), "0,2-4,9");
}

#[test]
fn quotas_and_memory_limits() {
    use super::super::cgroup::CpuQuota;
    let quota = |quota_us| {
        let cpu = Some(CpuQuota { quota_us, period_us: 100_000 });
        cpu_quota(&GroupLimits { cpu_seen: true, cpu, ..GroupLimits::default() })
    };
    assert_eq!(quota(50_000).verdict, Verdict::Bad);
    assert_eq!(quota(150_000).verdict, Verdict::Warn);
    assert!(quota(150_000).found.contains("1.500 CPUs"));

    let memory = |limit| {
        let groups = GroupLimits { memory_seen: true, memory_bytes: limit, ..GroupLimits::default() };
        memory_limit(&Files::scratch(&[("/proc/meminfo", "MemTotal: 8388608 kB\n")]), &groups)
    };
    assert_eq!(memory(Some(128 << 20)).verdict, Verdict::Bad);
    assert_eq!(memory(Some(300 << 20)).verdict, Verdict::Warn);
    assert_eq!(memory(Some(1 << 30)).verdict, Verdict::Ok);
    assert!(memory(Some(1 << 30)).found.contains("1.0 GiB by control group"));
    // A limit above what the machine has is none.
    assert!(memory(Some(1 << 40)).found.contains("8.0 GiB in all"));
}

#[test]
fn address_space_too_small_to_run_is_the_only_impossible_limit() {
    let of = |limit| address_space(&Limits { address_space_bytes: Some(limit), ..Limits::default() });
    assert!(of((2 << 20) - 1).impossible);
    assert_eq!((of(2 << 20).impossible, of(2 << 20).verdict), (false, Verdict::Bad));
    assert_eq!(of(1 << 32).verdict, Verdict::Warn);
    assert_eq!(of(u64::MAX).verdict, Verdict::Ok);
}

#[test]
fn memory_settings() {
    let of = |path, text, topic| verdict(&[(path, text)], &Limits::default(), topic);
    assert_eq!(of("/proc/sys/vm/overcommit_memory", "2", "overcommit"), Verdict::Warn);
    assert_eq!(of("/proc/sys/vm/max_map_count", "1000", "max-map-count"), Verdict::Warn);
    assert_eq!(
        of("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never", "huge-pages"),
        Verdict::Warn
    );
    assert_eq!(
        of("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]", "huge-pages"),
        Verdict::Ok
    );
    let swaps = "Filename Type Size Used Priority\n/dev/sda2 partition 2097148 0 -2\n";
    assert_eq!(of("/proc/swaps", swaps, "swap"), Verdict::Warn);
    assert_eq!(of("/proc/version", "Linux version 6.1 #1 SMP", "kernel"), Verdict::Warn);
    let governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    assert_eq!(of(governor, "powersave\n", "cpu-frequency"), Verdict::Warn);
}

#[test]
fn stolen_time_is_a_share_of_the_time_between() {
    let stat = |idle: u64, steal: u64| format!("cpu  0 0 0 {idle} 0 0 0 {steal} 0 0\n");
    let of = |before: &str, after: &str| steal(Some(before), Some(after));
    assert_eq!(of(&stat(100, 5), &stat(1100, 5)).verdict, Verdict::Ok);
    let some = of(&stat(100, 5), &stat(1080, 25));
    assert_eq!((some.verdict, some.found.as_str()), (Verdict::Warn, "2.0 % of the time during the check"));
    assert_eq!(of(&stat(0, 0), &stat(90, 10)).verdict, Verdict::Bad);
    assert_eq!(of(&stat(7, 7), &stat(7, 7)).verdict, Verdict::Unknown);
    // Going back: nothing stolen, no panic.
    assert_eq!(of(&stat(0, 50), &stat(1000, 40)).verdict, Verdict::Ok);
}
