use super::*;

const HYBRID_GROUPS: &str = "9:name=systemd:/\n4:memory:/box/7\n2:cpu,cpuacct:/box\n0::/\n";
const HYBRID_MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
    32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
    35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
    41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

fn paths(list: &[&str]) -> Vec<PathBuf> {
    list.iter().map(PathBuf::from).collect()
}

fn unified(group: &str, mounts: &str) -> Vec<PathBuf> {
    directories(&format!("0::{group}\n"), mounts, Hierarchy::Unified)
}

#[test]
fn directories_lead_from_the_group_to_the_root() {
    let of = |hierarchy| directories(HYBRID_GROUPS, HYBRID_MOUNTS, hierarchy);
    let memory = ["/sys/fs/cgroup/memory/box/7", "/sys/fs/cgroup/memory/box", "/sys/fs/cgroup/memory"];
    assert_eq!(of(Hierarchy::Controller("memory")), paths(&memory));
    assert_eq!(of(Hierarchy::Controller("cpu")), paths(&["/sys/fs/cgroup/cpu/box", "/sys/fs/cgroup/cpu"]));
    assert_eq!(of(Hierarchy::Unified), paths(&["/sys/fs/cgroup/unified"]));
    assert_eq!(of(Hierarchy::Controller("pids")), paths(&[]));
    assert_eq!(directories("", "", Hierarchy::Unified), paths(&[]));
    assert_eq!(directories(HYBRID_GROUPS, "", Hierarchy::Unified), paths(&[]));
}

#[test]
fn a_container_sees_its_part_of_the_hierarchy() {
    let part = "1 2 0:1 /pod/c1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
    assert_eq!(unified("/pod/c1/app", part), paths(&["/sys/fs/cgroup/app", "/sys/fs/cgroup"]));
    assert_eq!(unified("/elsewhere", part), paths(&["/sys/fs/cgroup"]));
    // A name that only begins alike is another group.
    assert_eq!(unified("/pod/c12", part), paths(&["/sys/fs/cgroup"]));
    let whole = "1 2 0:1 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
    assert_eq!(unified("/../../etc", whole), paths(&["/sys/fs/cgroup"]));
    assert_eq!(unified("/", whole), paths(&["/sys/fs/cgroup"]));
}

#[test]
fn of_several_mounts_the_one_that_shows_most_counts() {
    let mounts = "1 2 0:1 /other /a ro - cgroup2 cgroup rw\n\
        3 2 0:1 /pod/c1 /b ro - cgroup2 cgroup rw\n\
        4 2 0:1 /pod /c ro - cgroup2 cgroup rw\n";
    assert_eq!(unified("/pod/c1", mounts), paths(&["/c/c1", "/c"]));
    assert_eq!(unified("/nowhere", mounts), paths(&["/a"]));
    // Mounted over: the later one is what is seen.
    let over = "1 2 0:1 / /cg ro - cgroup2 cgroup rw\n3 1 0:1 /pod /cg ro - cgroup2 cgroup rw\n";
    assert_eq!(unified("/pod/c1", over), paths(&["/cg/c1", "/cg"]));
}

#[test]
fn deep_groups_are_cut() {
    let group = "/a".repeat(50);
    let found = unified(&group, "1 2 0:1 / /cg ro - cgroup2 cgroup rw\n");
    assert_eq!(found.len(), MAX_GROUPS);
    assert_eq!(found[0], PathBuf::from(format!("/cg{group}")));
}

#[test]
fn escapes_in_mount_points() {
    assert_eq!(unescape("/a\\040b\\134c"), PathBuf::from("/a b\\c"));
    assert_eq!(unescape("/a\\"), PathBuf::from("/a\\"));
    assert_eq!(unescape("/ä\\04"), PathBuf::from("/ä\\04"));
    assert_eq!(unescape("\\ää"), PathBuf::from("\\ää"));
}

#[test]
fn limits() {
    assert_eq!(Limit::parse_v2("max\n"), Some(Limit::Unlimited));
    assert_eq!(Limit::parse_v2("1048576\n"), Some(Limit::Bytes(1 << 20)));
    assert_eq!(Limit::parse_v2("lots"), None);
    assert_eq!(Limit::parse_v2("99999999999999999999"), None);
    assert_eq!(Limit::parse_v1("9223372036854771712\n"), Some(Limit::Unlimited));
    assert_eq!(Limit::parse_v1("4096\n"), Some(Limit::Bytes(4096)));
    assert_eq!(Limit::parse_v1("-1\n"), None);
    assert_eq!((Limit::Unlimited.bytes(), Limit::Bytes(7).bytes()), (None, Some(7)));
}

#[test]
fn events_and_values() {
    // From the documentation of the kernel, with a key of a later version.
    let text = "low 0\nhigh 12\nmax 3\noom 1\noom_kill 18446744073709551615\noom_group_kill 0\n";
    let read = MemoryEvents::parse(text).expect("a kernel wrote it");
    assert_eq!(read, MemoryEvents { low: 0, high: 12, max: 3, oom: 1, oom_kill: u64::MAX });
    let later = MemoryEvents { high: 15, max: 2, ..read };
    assert_eq!(later.since(read), MemoryEvents { high: 3, ..MemoryEvents::default() });
    assert!(read.since(read).is_zero() && !read.is_zero());
    assert_eq!(read.plus(read).oom_kill, u64::MAX);
    for bad in ["", "low", "low x\n", "low -1\n", "low 1\nmax 18446744073709551616\n", "swap 3\n"] {
        assert_eq!(MemoryEvents::parse(bad), None, "{bad:?}");
    }
    assert_eq!(value("inactive_file 5\nfile 6\n", "file"), Some(6));
    assert_eq!(value("inactive_file 5\n", "file"), None);
}

quickcheck::quickcheck! {
    fn any_text_is_survived(a: String, b: String) -> bool {
        let _ = (Limit::parse_v1(&a), Limit::parse_v2(&a), value(&a, &b));
        let _ = MemoryEvents::parse(&a);
        directories(&a, &b, Hierarchy::Unified).len() <= MAX_GROUPS
            && directories(&a, &b, Hierarchy::Controller("memory")).len() <= MAX_GROUPS
    }

    /// Texts near the kernel's: one byte changed, cut anywhere. No path leads out of the mounts.
    fn damaged_texts_are_survived(at: usize, byte: u8, cut: usize) -> bool {
        let damage = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            let len = bytes.len();
            bytes[at % len] = byte;
            bytes.truncate(cut % (len + 1));
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (groups, mounts) = (damage(HYBRID_GROUPS), damage(HYBRID_MOUNTS));
        [Hierarchy::Unified, Hierarchy::Controller("memory"), Hierarchy::Controller("cpu")]
            .into_iter()
            .flat_map(|h| directories(&groups, HYBRID_MOUNTS, h).into_iter().chain(directories(HYBRID_GROUPS, &mounts, h)))
            .all(|d| !d.components().any(|part| part.as_os_str() == ".."))
    }

    fn counters_come_back(a: (u64, u64, u64), b: (u64, u64)) -> bool {
        let events = MemoryEvents { low: a.0, high: a.1, max: a.2, oom: b.0, oom_kill: b.1 };
        MemoryEvents::parse(&events.to_string()) == Some(events)
    }

    fn limits_come_back(bytes: u64) -> bool {
        Limit::parse_v2(&format!("{bytes}\n")) == Some(Limit::Bytes(bytes))
            && Limit::parse_v1(&format!("{bytes}\n")).and_then(Limit::bytes).is_none_or(|b| b == bytes)
    }

    /// A mount point of any name is found again, written as the kernel writes it.
    fn mount_points_come_back(name: String) -> bool {
        let name: String = name.chars().filter(|&c| c != '\0' && c != '/').collect();
        if name.is_empty() || name == "." || name == ".." {
            return true;
        }
        let written: String = name
            .chars()
            .map(|c| if " \t\n\\#".contains(c) { format!("\\{:03o}", u32::from(c)) } else { c.to_string() })
            .collect();
        // Line ends that are not the kernel's (a carriage return at the end) are in the middle of the line here.
        let mounts = format!("1 2 0:1 / /mnt/{written} ro - cgroup2 cgroup rw\n");
        unified("/", &mounts) == [PathBuf::from(format!("/mnt/{name}"))]
    }
}
