//! The attributes of one tag, taken out by name and type; what is left over or malformed is reported.

use crate::time::LogTime;

/// Most attributes kept of one tag; no element of any writer has half as many.
const MAX_ATTRIBUTES: usize = 64;
/// Most problems told of one tag.
const MAX_PROBLEMS: usize = 16;

/// Attributes of one tag as a reader found them.
#[derive(Debug, Default)]
pub(crate) struct Attrs {
    list: Vec<(String, Option<String>)>,
    problems: Vec<String>,
    more_problems: usize,
}

impl Attrs {
    pub(crate) fn push(&mut self, name: String, value: String) {
        let name_excerpt = excerpt(&name);
        if self.list.len() == MAX_ATTRIBUTES {
            self.problem(format!("attribute {name_excerpt} is one too many, ignored"));
        } else if self.list.iter().any(|(n, v)| *n == name && v.is_some()) {
            self.problem(format!("attribute {name_excerpt} given twice, \"{}\" ignored", excerpt(&value)));
        } else {
            self.list.push((name, Some(value)));
        }
    }

    pub(crate) fn peek(&self, name: &str) -> Option<&str> {
        self.list.iter().find(|(n, _)| n == name).and_then(|(_, v)| v.as_deref())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.peek(name).is_some()
    }

    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.list.iter_mut().find(|(n, _)| n == name).and_then(|(_, v)| v.take())
    }

    /// A decimal or `0x` hexadecimal number.
    pub(crate) fn u64(&mut self, name: &str) -> Option<u64> {
        self.typed(name, "a whole number", parse_u64)
    }

    /// A hexadecimal number, with or without `0x`.
    pub(crate) fn hex(&mut self, name: &str) -> Option<u64> {
        self.typed(name, "a hexadecimal number", |t| {
            u64::from_str_radix(t.strip_prefix("0x").unwrap_or(t), 16).ok()
        })
    }

    /// Milliseconds with up to three (or more) decimals, as nanoseconds.
    pub(crate) fn ms(&mut self, name: &str) -> Option<u64> {
        self.typed(name, "a time in ms", parse_ms)
    }

    /// A percentage with up to four decimals, as parts per million.
    pub(crate) fn percent(&mut self, name: &str) -> Option<u32> {
        self.typed(name, "a percentage", |t| u32::try_from(parse_fixed(t, 4)?).ok())
    }

    pub(crate) fn time(&mut self, name: &str) -> Option<LogTime> {
        self.typed(name, "a date and time", LogTime::parse)
    }

    /// Notes an attribute that the element cannot do without.
    pub(crate) fn missing(&mut self, name: &str) {
        self.problem(format!("attribute {name} missing"));
    }

    pub(crate) fn problem(&mut self, text: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(text);
        } else {
            self.more_problems += 1;
        }
    }

    /// One sentence about everything malformed, missing or not understood; `None` if all is well.
    pub(crate) fn verdict(mut self) -> Option<String> {
        for (name, value) in std::mem::take(&mut self.list) {
            if let Some(value) = value {
                let (name, value) = (excerpt(&name), excerpt(&value));
                self.problem(format!("attribute {name}=\"{value}\" not understood"));
            }
        }
        if self.more_problems > 0 {
            self.problems.push(format!("and {} more", self.more_problems));
        }
        if self.problems.is_empty() { None } else { Some(self.problems.join("; ")) }
    }

    fn typed<T>(&mut self, name: &str, what: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.text(name)?;
        let value = parse(text.trim());
        if value.is_none() {
            self.problem(format!("attribute {name}=\"{}\" is not {what}", excerpt(&text)));
        }
        value
    }
}

/// The first characters of something, for a diagnostic.
pub(crate) fn excerpt(text: &str) -> String {
    let mut out: String = text.chars().take(80).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(80).is_some() {
        out.push_str("...");
    }
    out
}

pub(crate) fn parse_u64(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u64::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        None => None,
    }
}

/// Decimal fixed point to an integer of `places` decimals; further digits are cut.
fn parse_fixed(text: &str, places: u32) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if whole.is_empty() || fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut value = 0_u64;
    for digit in fraction.bytes().chain(std::iter::repeat(b'0')).take(places as usize) {
        value = value * 10 + u64::from(digit - b'0');
    }
    // u64 itself refuses a sign other than '+', which nobody prints.
    parse_u64(whole).filter(|_| !whole.starts_with("0x"))?.checked_mul(10_u64.pow(places))?.checked_add(value)
}

fn parse_ms(text: &str) -> Option<u64> {
    parse_fixed(text, 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_all_forms() {
        assert_eq!(parse_ms("1003.413"), Some(1_003_413_000));
        assert_eq!(parse_ms("0.0000019"), Some(1));
        assert_eq!(parse_ms("18446744073709.551"), Some(18_446_744_073_709_551_000));
        assert_eq!(parse_ms("18446744073710.000"), None);
        assert_eq!(parse_u64("0x7c050000"), Some(0x7c05_0000));
        for bad in ["", ".", "1.", ".5", "-1.0", "+1", "1,5", "0x1.0", "1e3"] {
            assert_eq!(parse_ms(bad), None, "{bad}");
        }
        for bad in ["", "0x", "-1", "+1", "0x+1", "18446744073709551616"] {
            assert_eq!(parse_u64(bad), None, "{bad}");
        }
    }

    #[test]
    fn nothing_is_left_unsaid() {
        let mut a = Attrs::default();
        for (n, v) in [("id", "x"), ("id", "2"), ("left", "over"), ("ok", "7")] {
            a.push(n.into(), v.into());
        }
        assert_eq!(a.u64("ok"), Some(7));
        assert_eq!(a.u64("id"), None);
        let said = a.verdict().unwrap();
        assert!(
            said.contains("given twice") && said.contains("whole number") && said.contains("left=\"over\"")
        );
    }
}
