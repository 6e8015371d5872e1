//! Pressure stall information: parser of its files, and the triggers that the kernel takes.

use std::fmt;
use std::time::Duration;

/// Time that threads stood still for lack of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stall {
    /// Share of the last 10, 60 and 300 s, in hundredths of a percent.
    pub average: [u32; 3],
    /// Time in all, in microseconds.
    pub total_us: u64,
}

/// The text of a file such as `/proc/pressure/memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    /// At least one thread stood still.
    pub some: Stall,
    /// All threads that were not idle stood still. Older kernels do not tell it of every resource.
    pub full: Option<Stall>,
}

impl Pressure {
    /// Reads the kernel's text. `None` if it is something else.
    pub fn parse(text: &str) -> Option<Pressure> {
        let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let full = match line("full") {
            Some(line) => Some(Stall::parse(line)?),
            None => None,
        };
        Some(Pressure { some: Stall::parse(line("some")?)?, full })
    }
}

impl Stall {
    fn parse(line: &str) -> Option<Stall> {
        let field = |key: &str| {
            line.split_ascii_whitespace().find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
        };
        let average = |key| field(key).and_then(hundredths);
        Some(Stall {
            average: [average("avg10")?, average("avg60")?, average("avg300")?],
            total_us: field("total")?.parse().ok()?,
        })
    }
}

/// `12.34` as 1234.
fn hundredths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.')?;
    if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(part.parse().ok()?)
}

impl fmt::Display for Pressure {
    /// The kernel's form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "some {}", self.some)?;
        self.full.map_or(Ok(()), |full| writeln!(f, "full {full}"))
    }
}

impl fmt::Display for Stall {
    /// The kernel's form, without the word before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (span, average) in [10, 60, 300].into_iter().zip(self.average) {
            write!(f, "avg{span}={}.{:02} ", average / 100, average % 100)?;
        }
        write!(f, "total={}", self.total_us)
    }
}

/// A request to be told when threads stood still for `stall` within a `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trigger {
    /// Threshold, in whole microseconds.
    pub stall: Duration,
    /// Window, in whole microseconds.
    pub window: Duration,
}

/// The kernel takes only multiples of this window from those without CAP_SYS_RESOURCE (since Linux 6.4; before, none).
pub const UNPRIVILEGED_WINDOW: Duration = Duration::from_secs(2);

impl Trigger {
    /// The next longer window that needs no privilege, with a stall of the same share; the same trigger if it needs none.
    #[must_use]
    pub fn unprivileged(self) -> Trigger {
        let unit = UNPRIVILEGED_WINDOW.as_micros();
        let old = self.window.as_micros().max(1);
        let window = old.div_ceil(unit) * unit;
        let stall = self.stall.as_micros().saturating_mul(window) / old;
        Trigger { stall: micros(stall), window: micros(window) }
    }
}

fn micros(us: u128) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX))
}

impl fmt::Display for Trigger {
    /// What is written into the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "some {} {}", self.stall.as_micros(), self.window.as_micros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "some avg10=1.02 avg60=0.00 avg300=100.00 total=4785149\n\
        full avg10=0.00 avg60=0.50 avg300=0.00 total=2249445\n";

    #[test]
    fn the_kernels_text() {
        let read = Pressure::parse(TEXT).expect("a kernel wrote it");
        assert_eq!(read.some, Stall { average: [102, 0, 10_000], total_us: 4_785_149 });
        assert_eq!(read.full, Some(Stall { average: [0, 50, 0], total_us: 2_249_445 }));
        assert_eq!(read.to_string(), TEXT);
        let some_only = TEXT.lines().next().expect("two lines");
        assert_eq!(Pressure::parse(some_only).map(|p| p.full), Some(None));
    }

    #[test]
    fn other_texts_are_refused() {
        for bad in [
            "",
            "some",
            "some \n",
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=0",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=18446744073709551616",
            "some avg10=0.0 avg60=0.00 avg300=0.00 total=0",
            "some avg10=99999999999.00 avg60=0.00 avg300=0.00 total=0",
            "some avg10=0.+1 avg60=0.00 avg300=0.00 total=0",
            "some avg10=0.00 avg60=0.00 total=0",
            "some 150000 1000000\n",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull rubbish",
        ] {
            assert_eq!(Pressure::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn windows_without_privilege() {
        let ms = Duration::from_millis;
        let of = |stall, window| {
            let t = Trigger { stall: ms(stall), window: ms(window) }.unprivileged();
            (t.stall.as_micros(), t.window.as_micros())
        };
        assert_eq!(of(150, 1000), (300_000, 2_000_000));
        assert_eq!(of(150, 2000), (150_000, 2_000_000));
        assert_eq!(of(300, 3000), (400_000, 4_000_000));
        assert_eq!(of(10_000, 10_000), (10_000_000, 10_000_000));
        assert_eq!(Trigger { stall: ms(150), window: ms(1000) }.to_string(), "some 150000 1000000");
    }

    quickcheck::quickcheck! {
        fn any_text_is_survived(text: String) -> bool {
            Pressure::parse(&text).is_none_or(|p| Pressure::parse(&p.to_string()) == Some(p))
        }

        /// Texts near the kernel's: one byte changed, cut anywhere.
        fn damaged_texts_are_survived(at: usize, byte: u8, cut: usize) -> bool {
            let mut bytes = TEXT.as_bytes().to_vec();
            let len = bytes.len();
            bytes[at % len] = byte;
            bytes.truncate(cut % (len + 1));
            let text = String::from_utf8_lossy(&bytes);
            Pressure::parse(&text).is_none_or(|p| Pressure::parse(&p.to_string()) == Some(p))
        }

        fn figures_come_back(a: (u32, u32, u32), some: u64, full: Option<u64>) -> bool {
            let stall = |total_us| Stall { average: [a.0, a.1, a.2], total_us };
            let written = Pressure { some: stall(some), full: full.map(stall) };
            Pressure::parse(&written.to_string()) == Some(written)
        }

        /// The kernel's conditions, for every trigger that the options allow.
        fn triggers_are_taken_without_privilege(stall: u32, window: u32) -> bool {
            let window = 500_000 + u64::from(window) % 9_500_001;
            let stall = 1 + u64::from(stall) % window;
            let t = Trigger { stall: Duration::from_micros(stall), window: Duration::from_micros(window) };
            let u = t.unprivileged();
            let (s, w) = (u.stall.as_micros(), u.window.as_micros());
            w % 2_000_000 == 0 && w <= 10_000_000 && w >= u128::from(window) && s >= u128::from(stall) && s <= w
        }
    }
}
