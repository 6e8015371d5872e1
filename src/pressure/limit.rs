//! Use of the control groups against their limits, and what is left of the machine: the figures that are sampled.

use std::path::PathBuf;

use super::cgroup::{self, Limit};
use super::files::{self, Root};
use super::meminfo;
use super::report::GroupUse;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Where the figures come from.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) meminfo: PathBuf,
    /// Directories of groups with files about use, from the inside out.
    groups: Vec<(PathBuf, Version)>,
}

impl Figures {
    pub(super) fn new(root: &Root, v2: &[PathBuf], v1: &[PathBuf]) -> Figures {
        let with = |file: &'static str, version| {
            move |group: &PathBuf| group.join(file).exists().then(|| (group.clone(), version))
        };
        let two = v2.iter().filter_map(with("memory.current", Version::Two));
        let one = v1.iter().filter_map(with("memory.usage_in_bytes", Version::One));
        Figures { meminfo: root.at("/proc/meminfo"), groups: two.chain(one).collect() }
    }

    /// `MemAvailable` and `MemTotal` in bytes.
    pub(super) fn available(&self) -> std::io::Result<Option<(u64, u64)>> {
        let text = files::read(&self.meminfo, files::VALUES)?;
        Ok(meminfo::bytes(&text, "MemAvailable").zip(meminfo::bytes(&text, "MemTotal")))
    }

    /// The file of the innermost group's use; `None` if no group has one.
    pub(super) fn file(&self) -> Option<PathBuf> {
        self.groups.first().map(|(group, version)| group.join(version.files().used))
    }

    /// The group with the smallest share left, and its directory; `None` if none has a limit.
    pub(super) fn tightest(&self) -> Option<(GroupUse, PathBuf)> {
        let uses = self.groups.iter().filter_map(|(group, version)| Some((read(group, *version)?, group)));
        // free / limit as a fraction; a limit of 0 leaves nothing.
        let less = |a: GroupUse, b: GroupUse| {
            u128::from(a.free()) * u128::from(b.limit.max(1))
                < u128::from(b.free()) * u128::from(a.limit.max(1))
        };
        let tightest = uses.reduce(|best, next| if less(next.0, best.0) { next } else { best });
        tightest.map(|(used, group)| (used, group.clone()))
    }
}

struct Names {
    limits: &'static [&'static str],
    used: &'static str,
    /// Key in `memory.stat` of file pages that have not been used of late, which the kernel drops first.
    inactive: &'static str,
}

impl Version {
    fn files(self) -> Names {
        match self {
            Version::One => Names {
                limits: &["memory.limit_in_bytes"],
                used: "memory.usage_in_bytes",
                inactive: "total_inactive_file",
            },
            // Above `high` threads are slowed down until nothing works any more: a limit like the other.
            Version::Two => Names {
                limits: &["memory.max", "memory.high"],
                used: "memory.current",
                inactive: "inactive_file",
            },
        }
    }

    fn parse(self, text: &str) -> Option<Limit> {
        match self {
            Version::One => Limit::parse_v1(text),
            Version::Two => Limit::parse_v2(text),
        }
    }
}

fn read(group: &std::path::Path, version: Version) -> Option<GroupUse> {
    let text = |name: &str| files::read(&group.join(name), files::VALUES).ok();
    let names = version.files();
    let limit = names.limits.iter().filter_map(|name| version.parse(&text(name)?)?.bytes()).min()?;
    let used: u64 = text(names.used)?.trim().parse().ok()?;
    let inactive = text("memory.stat").and_then(|stat| cgroup::value(&stat, names.inactive)).unwrap_or(0);
    Some(GroupUse { limit, used: used.saturating_sub(inactive) })
}
