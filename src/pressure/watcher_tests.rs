//! Reports in virtual time, on forged trees.

use super::*;
use std::path::Path;

/// A folder of its own below the temporary one, removed at the end.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[(&str, &str)]) -> Tree {
        let tree =
            Tree(std::env::temp_dir().join(format!("metronome-watcher-{}-{name}", std::process::id())));
        let _ = std::fs::remove_dir_all(&tree.0);
        std::fs::create_dir_all(&tree.0).unwrap();
        files.iter().for_each(|(path, text)| tree.put(path, text));
        tree
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn watcher(&self) -> Watcher {
        Watcher::new(Options { root: self.0.clone(), ..Options::default() }).unwrap()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const V2: &[(&str, &str)] = &[
    ("proc/self/cgroup", "0::/box/app\n"),
    ("proc/self/mountinfo", "1 2 0:1 / /cg rw - cgroup2 cgroup rw\n"),
];

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn meminfo(available_kib: u64) -> String {
    format!("MemTotal: 1000000 kB\nMemFree: 1 kB\nMemAvailable: {available_kib} kB\n")
}

#[test]
fn available_memory_reports_on_entering_then_every_ten_seconds() {
    let tree = Tree::new("available", &[("proc/meminfo", &meminfo(50_001))]);
    let mut w = tree.watcher();
    assert_eq!(w.examine(s(0)), None);
    tree.put("proc/meminfo", &meminfo(50_000));
    // Not looked at before its time.
    assert_eq!(w.examine(s(1) - Duration::from_nanos(1)), None);
    let low = w.examine(s(1)).expect("5 % are left");
    assert_eq!((low.source, low.available, low.group), (Source::Available, Some(50_000 << 10), None));
    assert_eq!(low.cause, Cause::Available { available: 50_000 << 10, total: 1_000_000 << 10 });
    assert_eq!(low.file, tree.0.join("proc/meminfo"));
    let reports: Vec<_> = (2..42).filter(|&t| w.examine(s(t)).is_some()).collect();
    assert_eq!(reports, [11, 21, 31, 41]);
    // Garbage says nothing, neither that it is low nor that it is over.
    tree.put("proc/meminfo", "MemAvailable: lots kB\n");
    assert_eq!(w.examine(s(60)), None);
    tree.put("proc/meminfo", &meminfo(900_000));
    assert_eq!(w.examine(s(61)), None);
    tree.put("proc/meminfo", &meminfo(0));
    assert!(w.examine(s(62)).is_some(), "it was over, and is low again");
}

#[test]
fn the_group_nearest_its_limit_counts_without_idle_pages() {
    let mut files = V2.to_vec();
    files.extend([
        ("cg/box/app/memory.max", "max\n"),
        ("cg/box/app/memory.high", "1000000\n"),
        ("cg/box/app/memory.current", "960000\n"),
        ("cg/box/app/memory.stat", "anon 1\ninactive_file 500000\n"),
        ("cg/box/memory.max", "2000000\n"),
        ("cg/box/memory.current", "1800000\n"),
    ]);
    let tree = Tree::new("limit", &files);
    let mut w = tree.watcher();
    assert_eq!(
        w.figures.tightest(),
        Some((GroupUse { limit: 2_000_000, used: 1_800_000 }, tree.0.join("cg/box")))
    );
    assert_eq!(w.examine(s(0)), None);
    tree.put("cg/box/memory.current", "1900000\n");
    let low = w.examine(s(1)).expect("5 % of the outer group are left");
    assert_eq!(low.source, Source::GroupLimit);
    assert_eq!(low.file, tree.0.join("cg/box"));
    assert_eq!(low.cause, Cause::NearLimit { group: GroupUse { limit: 2_000_000, used: 1_900_000 } });
    // The limit is lifted while running; then the inner group fills.
    tree.put("cg/box/memory.max", "max\n");
    assert_eq!(w.examine(s(20)), None);
    tree.put("cg/box/app/memory.stat", "inactive_file 0\n");
    let low = w.examine(s(21)).expect("4 % of the inner group are left");
    assert_eq!(low.cause, Cause::NearLimit { group: GroupUse { limit: 1_000_000, used: 960_000 } });
    // Neither a limit of 0 nor numbers beyond 64 bits do harm.
    tree.put("cg/box/app/memory.high", "0\n");
    assert_eq!(w.figures.tightest().map(|(group, _)| group.free()), Some(0));
    tree.put("cg/box/app/memory.high", "99999999999999999999999\n");
    assert_eq!(w.figures.tightest(), None);
}

#[test]
fn version_one_limits_count_too() {
    let tree = Tree::new(
        "limit-v1",
        &[
            ("proc/self/cgroup", "4:memory:/box\n0::/\n"),
            (
                "proc/self/mountinfo",
                "1 2 0:1 / /cg/memory rw - cgroup cgroup rw,memory\n3 2 0:2 / /cg/unified rw - cgroup2 cgroup2 rw\n",
            ),
            ("cg/memory/box/memory.limit_in_bytes", "1000000\n"),
            ("cg/memory/box/memory.usage_in_bytes", "990000\n"),
            ("cg/memory/box/memory.stat", "inactive_file 900000\ntotal_inactive_file 10000\n"),
            ("cg/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("cg/memory/memory.usage_in_bytes", "5000000\n"),
        ],
    );
    let low = tree.watcher().examine(s(0)).expect("2 % are left");
    assert_eq!(low.cause, Cause::NearLimit { group: GroupUse { limit: 1_000_000, used: 980_000 } });
}

#[test]
fn counters_of_the_own_group_and_local_ones_of_its_ancestors() {
    let mut files = V2.to_vec();
    files.extend([
        ("cg/box/app/memory.events", "low 0\nhigh 1\nmax 5\noom 0\noom_kill 0\n"),
        ("cg/box/memory.events", "max 100\n"),
        ("cg/box/memory.events.local", "low 0\nhigh 0\nmax 7\noom 0\noom_kill 0\n"),
    ]);
    let tree = Tree::new("events", &files);
    let mut w = tree.watcher();
    let at = |w: &mut Watcher, now| {
        let here = w.events.as_mut().map(Events::update);
        assert_eq!(here, Some(true));
        w.examine(now).map(|low| match low.cause {
            Cause::Events { added } => added,
            other => panic!("{other:?}"),
        })
    };
    // What was before the watcher is not news, and what other groups below the ancestor did never is.
    tree.put("cg/box/memory.events", "max 900\n");
    assert_eq!(at(&mut w, s(0)), None);
    tree.put("cg/box/app/memory.events", "low 0\nhigh 1\nmax 8\noom 0\noom_kill 0\n");
    let added = at(&mut w, s(1)).expect("three more");
    assert_eq!(added, cgroup::MemoryEvents { max: 3, ..Default::default() });
    // Within the gap they add up, over both groups.
    tree.put("cg/box/app/memory.events", "low 0\nhigh 1\nmax 8\noom 1\noom_kill 0\n");
    assert_eq!(at(&mut w, s(1) + s(1) / 2), None);
    tree.put("cg/box/memory.events.local", "low 0\nhigh 0\nmax 9\noom 0\noom_kill 2\n");
    assert_eq!(at(&mut w, s(2) - Duration::from_nanos(1)), None);
    assert_eq!(w.due(), Some(s(2)), "the wait ends with the gap");
    let added = at(&mut w, s(2)).expect("the gap is over");
    assert_eq!(added, cgroup::MemoryEvents { max: 2, oom: 1, oom_kill: 2, ..Default::default() });
    // Garbage and counters that go back are no news.
    for text in ["", "low", "\u{0}\u{1}", "max 18446744073709551616\n", "max 0\n"] {
        tree.put("cg/box/app/memory.events", text);
        assert_eq!(at(&mut w, s(9)), None, "{text:?}");
    }
}

#[test]
fn what_woke_is_silent_once_it_was_looked_at() {
    let mut files = V2.to_vec();
    files.push(("cg/box/app/memory.events", "max 0\n"));
    let tree = Tree::new("silent", &files);
    let mut w = tree.watcher();
    let parts = |w: &Watcher| -> Vec<Part> {
        w.poll_files(Some(Duration::ZERO)).into_iter().map(|(part, _)| part).collect()
    };
    assert_eq!(parts(&w), []);
    w.waker().wake();
    assert_eq!(parts(&w), [Part::Waker]);
    if w.sources()[2].state != State::Watched(Method::Changes { inotify: true }) {
        eprintln!("skipped: {}", w.sources()[2]);
        return;
    }
    (0..100).for_each(|n| tree.put("cg/box/app/memory.events", &format!("max {n}\n")));
    assert_eq!(parts(&w), [Part::Waker, Part::Events]);
    let wake = w.wait(None);
    assert!(wake.woken && wake.low.is_some(), "{wake:?}");
    assert_eq!(parts(&w), [], "a wait would not sleep");
}

#[test]
fn sources_report_one_after_the_other() {
    let mut files = V2.to_vec();
    let full = meminfo(0);
    files.extend([
        ("proc/meminfo", full.as_str()),
        ("cg/box/app/memory.max", "1000\n"),
        ("cg/box/app/memory.current", "1000\n"),
        ("cg/box/app/memory.events", "max 0\n"),
    ]);
    let tree = Tree::new("several", &files);
    let mut w = tree.watcher();
    tree.put("cg/box/app/memory.events", "max 1\n");
    w.events.as_mut().unwrap().update();
    let said: Vec<_> = (0..4).map_while(|_| w.examine(s(0))).map(|low| low.source).collect();
    assert_eq!(said, [Source::GroupEvents, Source::GroupLimit, Source::Available]);
}

#[test]
fn pressure_levels_report_the_worst() {
    let tree = Tree::new(
        "level",
        &[
            ("proc/self/cgroup", "4:memory:/box\n"),
            ("proc/self/mountinfo", "1 2 0:1 / /cg rw - cgroup cgroup rw,memory\n"),
            ("cg/box/memory.pressure_level", ""),
            ("cg/box/cgroup.event_control", ""),
            ("cg/memory.pressure_level", ""),
            ("cg/cgroup.event_control", ""),
        ],
    );
    let mut w = tree.watcher();
    // What the kernel would have read: our eventfd, the file's descriptor, the level.
    let written = |path: &str| std::fs::read_to_string(tree.0.join(path)).unwrap();
    let own = written("cg/box/cgroup.event_control");
    let outer = written("cg/cgroup.event_control");
    let critical = std::os::fd::AsRawFd::as_raw_fd(&w.reclaim.as_ref().unwrap().critical);
    assert!(own.starts_with(&format!("{critical} ")) && own.ends_with(" critical"), "{own}");
    assert!(outer.starts_with(&format!("{critical} ")) && outer.ends_with(" critical,local"), "{outer}");

    let tell = |w: &mut Watcher, severity, now| {
        let reclaim = w.reclaim.as_ref().unwrap();
        // As the kernel does: a level's listener also hears of the worse ones.
        reclaim.medium.write(1).unwrap();
        if severity == super::super::report::Severity::Critical {
            reclaim.critical.write(1).unwrap();
        }
        w.poll(Some(Duration::ZERO));
        w.examine(now).map(|low| low.cause)
    };
    use super::super::report::Severity::{Critical, Medium};
    assert_eq!(tell(&mut w, Medium, s(0)), Some(Cause::Reclaim { severity: Medium }));
    assert_eq!(tell(&mut w, Critical, s(0)), None);
    assert_eq!(tell(&mut w, Medium, s(1)), Some(Cause::Reclaim { severity: Critical }));
    assert_eq!(tell(&mut w, Medium, s(2)), Some(Cause::Reclaim { severity: Medium }));
    // The group is removed, which the kernel signals in the same way.
    std::fs::remove_dir_all(tree.0.join("cg/box")).unwrap();
    assert_eq!(tell(&mut w, Medium, s(9)), None);
    assert!(w.reclaim.is_none());
    let state = &w.sources()[3];
    assert_eq!((state.source, &state.state), (Source::GroupReclaim, &State::Absent(Absence::Lost)));
}

#[test]
fn timeouts_are_rounded_up_and_cut() {
    let ms = |d| i32::from(milliseconds(d));
    assert_eq!(ms(None), -1);
    assert_eq!(ms(Some(Duration::ZERO)), 0);
    assert_eq!(ms(Some(Duration::from_nanos(1))), 1);
    assert_eq!(ms(Some(Duration::from_millis(7))), 7);
    assert_eq!(ms(Some(Duration::MAX)), i32::MAX);
}

#[test]
fn paths_stay_below_the_root() {
    let root = Root(PathBuf::from("/forged"));
    assert_eq!(root.at("/proc/x"), Path::new("/forged/proc/x"));
    assert_eq!(root.at("proc/x"), Path::new("/forged/proc/x"));
}
