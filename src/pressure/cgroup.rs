//! Control groups, versions 1 and 2, also both at once: where a process's groups are, and what their files say.
//!
//! Pure functions of text. What a container sees of a hierarchy depends on its namespaces: a path that comes out of
//! here need not exist.

use std::fmt;
use std::path::{Path, PathBuf};

/// Groups that are looked at, from the process's own towards the root.
pub const MAX_GROUPS: usize = 16;

/// Which of the hierarchies of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hierarchy<'a> {
    /// Version 2: one for all controllers.
    Unified,
    /// Version 1: that of one controller, such as `memory`.
    Controller(&'a str),
}

/// The directories of a process's group and its ancestors, from the inside out, at most [`MAX_GROUPS`]. Takes the texts
/// of `/proc/self/cgroup` and `/proc/self/mountinfo`; empty if these do not name a group and a mount of the hierarchy.
///
/// A hierarchy may be mounted more than once, and in part. Of the mounts that show the group the one counts that shows
/// most of its ancestors. If none shows it (another namespace), the mount itself stands for the group.
pub fn directories(membership: &str, mounts: &str, hierarchy: Hierarchy<'_>) -> Vec<PathBuf> {
    let Some(group) = group_path(membership, hierarchy) else { return Vec::new() };
    let group = Path::new(group);
    let all: Vec<_> = mounts.lines().filter_map(|line| group_mount(line, hierarchy)).collect();
    // A later mount at the same place hides an earlier one.
    let visible = |at: usize| !all[at + 1..].iter().any(|(_, point)| *point == all[at].1);
    let seen = (0..all.len()).filter(|&at| visible(at)).map(|at| &all[at]);
    let showing = seen.clone().filter(|(root, _)| inside(group, root).is_some());
    let Some((root, point)) =
        showing.min_by_key(|(root, _)| root.components().count()).or_else(|| seen.clone().next())
    else {
        return Vec::new();
    };
    let inside = inside(group, root).unwrap_or(Path::new(""));
    inside.ancestors().take(MAX_GROUPS).map(|part| point.join(part)).collect()
}

/// The group's path below the root of a mount. `..` leads out of the namespace: nothing to see there.
fn inside<'a>(group: &'a Path, root: &Path) -> Option<&'a Path> {
    let inside = group.strip_prefix(root).ok()?;
    (!inside.components().any(|part| part.as_os_str() == "..")).then_some(inside)
}

/// The group of the process: lines such as `4:memory:/a/b`, and `0::/a/b` for version 2.
fn group_path<'a>(membership: &'a str, hierarchy: Hierarchy<'_>) -> Option<&'a str> {
    membership.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let matches = match hierarchy {
            Hierarchy::Controller(wanted) => controllers.split(',').any(|one| one == wanted),
            Hierarchy::Unified => controllers.is_empty(),
        };
        matches.then_some(path)
    })
}

/// Root and mount point, if this line of mountinfo is the wanted hierarchy:
/// `id parent major:minor root mount-point options [optional…] - type source super-options`.
fn group_mount(line: &str, hierarchy: Hierarchy<'_>) -> Option<(PathBuf, PathBuf)> {
    let (mount, system) = line.split_once(" - ")?;
    let mut system = system.split(' ');
    let kind = system.next()?;
    let options = system.nth(1)?;
    let matches = match hierarchy {
        Hierarchy::Controller(wanted) => kind == "cgroup" && options.split(',').any(|one| one == wanted),
        Hierarchy::Unified => kind == "cgroup2",
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

/// A limit of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The group has none of its own.
    Unlimited,
    /// So many bytes.
    Bytes(u64),
}

impl Limit {
    /// Reads `memory.max` or `memory.high` of version 2: `max` or bytes. `None` if it is something else.
    pub fn parse_v2(text: &str) -> Option<Limit> {
        let text = text.trim();
        if text == "max" { Some(Limit::Unlimited) } else { text.parse().ok().map(Limit::Bytes) }
    }

    /// Reads `memory.limit_in_bytes` of version 1, where no limit is written as the largest number of whole pages.
    /// `None` if it is something else.
    pub fn parse_v1(text: &str) -> Option<Limit> {
        let limit: u64 = text.trim().parse().ok()?;
        Some(if limit < 1 << 62 { Limit::Bytes(limit) } else { Limit::Unlimited })
    }

    /// The bytes, if there is a limit.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Limit::Unlimited => None,
            Limit::Bytes(bytes) => Some(bytes),
        }
    }
}

/// The value of a line `key value`, as in `memory.stat`.
pub fn value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?.trim().parse().ok()
}

/// How often a group met its limits: `memory.events` of version 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryEvents {
    /// Reclaim although the group was below its low boundary.
    pub low: u64,
    /// Threads throttled because the group was above `memory.high`.
    pub high: u64,
    /// The group was about to go beyond `memory.max`.
    pub max: u64,
    /// An allocation was about to fail at the limit.
    pub oom: u64,
    /// Processes killed for lack of memory.
    pub oom_kill: u64,
}

impl MemoryEvents {
    /// Reads the kernel's text; keys that are not known are passed over. `None` if none is known or one is no number.
    pub fn parse(text: &str) -> Option<MemoryEvents> {
        let mut events = MemoryEvents::default();
        let mut known = false;
        for line in text.lines() {
            let Some((key, value)) = line.split_once(' ') else { continue };
            let field = match key {
                "low" => &mut events.low,
                "high" => &mut events.high,
                "max" => &mut events.max,
                "oom" => &mut events.oom,
                "oom_kill" => &mut events.oom_kill,
                _ => continue,
            };
            *field = value.trim().parse().ok()?;
            known = true;
        }
        known.then_some(events)
    }

    /// What came since `earlier`; a counter that went back counts as 0.
    #[must_use]
    pub fn since(self, earlier: MemoryEvents) -> MemoryEvents {
        MemoryEvents {
            low: self.low.saturating_sub(earlier.low),
            high: self.high.saturating_sub(earlier.high),
            max: self.max.saturating_sub(earlier.max),
            oom: self.oom.saturating_sub(earlier.oom),
            oom_kill: self.oom_kill.saturating_sub(earlier.oom_kill),
        }
    }

    /// The sum of two groups' counters.
    #[must_use]
    pub fn plus(self, other: MemoryEvents) -> MemoryEvents {
        MemoryEvents {
            low: self.low.saturating_add(other.low),
            high: self.high.saturating_add(other.high),
            max: self.max.saturating_add(other.max),
            oom: self.oom.saturating_add(other.oom),
            oom_kill: self.oom_kill.saturating_add(other.oom_kill),
        }
    }

    /// Whether all counters are 0.
    pub fn is_zero(self) -> bool {
        self == MemoryEvents::default()
    }
}

impl fmt::Display for MemoryEvents {
    /// The kernel's form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryEvents { low, high, max, oom, oom_kill } = self;
        write!(f, "low {low}\nhigh {high}\nmax {max}\noom {oom}\noom_kill {oom_kill}\n")
    }
}

#[cfg(test)]
#[path = "cgroup_tests.rs"]
mod tests;
