//! The option `verify`: which checkers a heap runs, and how often.

use super::Config;
use super::error::ConfigError;
use std::ffi::OsString;
use std::fmt;

/// Checks of the heap at the edges of phases. Each costs O(heap) with the world stopped; the default is none.
///
/// As text: `off`, `on` (the same as `heap`), `all`, or a list of `heap`, `snapshot` and `remark` with commas between,
/// with `every=N` if only each N-th cycle is to be verified: `heap,remark,every=10`. `1` and `0` are `on` and `off`. No check
/// is named twice. The option takes `auto` besides, which stands for [`Config::verify`] being `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Verify {
    /// The heap's invariants, at every edge.
    pub heap: bool,
    /// The graph at arming, against the marks when marking has ended.
    pub snapshot: bool,
    /// A second mark when marking has ended; measures floating garbage.
    pub remark: bool,
    /// Each how many-th cycle is verified; at least 1.
    pub every: u32,
}

impl Verify {
    /// No checks.
    pub const OFF: Verify = Verify { heap: false, snapshot: false, remark: false, every: 1 };
    /// The heap's invariants, in each cycle.
    pub const HEAP: Verify = Verify { heap: true, ..Verify::OFF };
    /// All checks, in each cycle.
    pub const ALL: Verify = Verify { heap: true, snapshot: true, remark: true, every: 1 };

    /// Whether anything is checked.
    #[must_use]
    pub const fn is_on(self) -> bool {
        self.heap || self.snapshot || self.remark
    }

    /// Reads the text form; `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Verify> {
        let text = text.trim().to_ascii_lowercase();
        match text.as_str() {
            "off" | "0" => return Some(Verify::OFF),
            _ => {}
        }
        let mut out = Verify::OFF;
        let mut every = None;
        // Sets a check that nothing has set before.
        let once = |check: &mut bool| (!std::mem::replace(check, true)).then_some(());
        for word in text.split(',').map(str::trim) {
            match word {
                "on" | "1" | "heap" => once(&mut out.heap)?,
                "snapshot" => once(&mut out.snapshot)?,
                "remark" => once(&mut out.remark)?,
                "all" if !out.is_on() => out = Verify::ALL,
                _ => {
                    let n = word.strip_prefix("every=").filter(|_| every.is_none())?;
                    // No sign, no blanks.
                    let digits = n.bytes().all(|b| b.is_ascii_digit());
                    every = Some(n.parse().ok().filter(|&n| n > 0 && digits)?);
                }
            }
        }
        out.every = every.unwrap_or(1);
        out.is_on().then_some(out)
    }
}

impl Default for Verify {
    fn default() -> Verify {
        Verify::OFF
    }
}

impl fmt::Display for Verify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_on() {
            return f.write_str("off");
        }
        let checks = [(self.heap, "heap"), (self.snapshot, "snapshot"), (self.remark, "remark")];
        let chosen: Vec<&str> = checks.into_iter().filter_map(|(on, name)| on.then_some(name)).collect();
        f.write_str(if chosen.len() == checks.len() { "all" } else { "" })?;
        if chosen.len() < checks.len() {
            f.write_str(&chosen.join(","))?;
        }
        if self.every > 1 { write!(f, ",every={}", self.every) } else { Ok(()) }
    }
}

impl Config {
    /// The checks in force: as set, or what the environment variable of the option says, or none. So a program that does
    /// not read its environment can be verified too.
    pub(crate) fn verify_in_force(&self, variable: Option<OsString>) -> Result<Verify, ConfigError> {
        let variable = variable.filter(|_| self.verify.is_none());
        let mut config = self.clone();
        config.merge_os_env(variable.into_iter().map(|value| ("METRONOME_VERIFY".into(), value)))?;
        Ok(config.verify.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        let heap = Verify::HEAP;
        for (text, verify, back) in [
            ("off", Verify::OFF, "off"),
            ("0", Verify::OFF, "off"),
            ("1", heap, "heap"),
            ("ON", heap, "heap"),
            ("all", Verify::ALL, "all"),
            ("heap, every=10", Verify { every: 10, ..heap }, "heap,every=10"),
            ("every=3,all", Verify { every: 3, ..Verify::ALL }, "all,every=3"),
            ("snapshot,remark", Verify { heap: false, ..Verify::ALL }, "snapshot,remark"),
        ] {
            assert_eq!(Verify::parse(text), Some(verify), "{text}");
            assert_eq!(verify.to_string(), back);
            assert_eq!(Verify::parse(back), Some(verify));
        }
        let unreadable = [
            "",
            "satb",
            "2",
            "heap,",
            "off,heap",
            "every=3",
            "heap,every=0",
            "heap,every=+1",
            "heap remark",
            "heap,heap",
            "on,heap",
            "heap,all",
            "all,remark",
            "all,all",
            "remark,heap,remark",
            "every=2,every=3,heap",
            "every=1,every=1,heap",
        ];
        for text in unreadable {
            assert_eq!(Verify::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_environment_counts_where_nothing_is_set() {
        let var = |v: &str| Some(OsString::from(v));
        let config = Config::default();
        assert_eq!(config.verify_in_force(None), Ok(Verify::OFF));
        assert_eq!(config.verify_in_force(var("1")), Ok(Verify::HEAP));
        assert_eq!(config.verify_in_force(var("")), Ok(Verify::OFF));
        assert_eq!(config.verify_in_force(var("auto")), Ok(Verify::OFF));
        let error = config.verify_in_force(var("satb")).unwrap_err().to_string();
        assert!(error.starts_with("METRONOME_VERIFY: verify = \"satb\""), "{error}");
        let set = Config { verify: Some(Verify::OFF), ..config };
        assert_eq!(set.verify_in_force(var("1")), Ok(Verify::OFF));
    }
}
