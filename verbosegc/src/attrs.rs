//! The attributes of one tag, taken out by name and type; what is left over or malformed is reported.

use crate::time::LogTime;

/// Most attributes kept of one tag; no element of any writer has half as many.
const MAX_ATTRIBUTES: usize = 64;
/// Most problems told of one tag.
const MAX_PROBLEMS: usize = 16;

/// Attributes of one tag as a reader found them. Names and values lie in one text: reading should not be a matter of
/// allocation.
#[derive(Debug, Default)]
pub(crate) struct Attrs {
    text: String,
    list: Vec<Entry>,
    /// Behind the attribute that was taken last: where the next one is most likely.
    next: usize,
    problems: Vec<String>,
    more_problems: usize,
}

/// Where an attribute stands in the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    name: (u32, u32),
    value: (u32, u32),
    taken: bool,
}

impl Entry {
    /// An attribute whose name and value begin and end there. Tags are far shorter than 4 GiB.
    pub(crate) const fn new(name: (usize, usize), value: (usize, usize)) -> Self {
        Self { name: (name.0 as u32, name.1 as u32), value: (value.0 as u32, value.1 as u32), taken: false }
    }

    /// Compares lengths first: most names differ there.
    fn is(self, text: &str, name: &[u8]) -> bool {
        let (start, end) = (self.name.0 as usize, self.name.1 as usize);
        end - start == name.len() && text.as_bytes()[start..end] == *name
    }

    fn name(self, text: &str) -> &str {
        &text[self.name.0 as usize..self.name.1 as usize]
    }

    fn value(self, text: &str) -> &str {
        &text[self.value.0 as usize..self.value.1 as usize]
    }
}

impl Attrs {
    /// The attributes of a tag that is kept as it is.
    pub(crate) fn of_tag(tag: &str, entries: Vec<Entry>) -> Self {
        let unlike = |(i, e): (usize, &Entry)| {
            let name = e.name(tag).as_bytes();
            entries[..i].iter().all(|o| !o.is(tag, name))
        };
        if entries.len() <= MAX_ATTRIBUTES && entries.iter().enumerate().all(unlike) {
            return Self { text: tag.to_owned(), list: entries, ..Self::default() };
        }
        let mut attrs = Self::default();
        entries.iter().for_each(|e| attrs.push(e.name(tag), e.value(tag)));
        attrs
    }

    pub(crate) fn push(&mut self, name: &str, value: &str) {
        if self.list.len() == MAX_ATTRIBUTES {
            self.problem(format!("attribute {} is one too many, ignored", excerpt(name)));
        } else if self.list.iter().any(|e| e.name(&self.text) == name && !e.taken) {
            let (name, value) = (excerpt(name), excerpt(value));
            self.problem(format!("attribute {name} given twice, \"{value}\" ignored"));
        } else {
            let start = self.text.len();
            self.text.push_str(name);
            let middle = self.text.len();
            self.text.push_str(value);
            self.list.push(Entry::new((start, middle), (middle, self.text.len())));
        }
    }

    fn find(&self, name: &str) -> Option<usize> {
        let is = |e: &Entry| e.is(&self.text, name.as_bytes());
        if self.list.get(self.next).is_some_and(is) { Some(self.next) } else { self.list.iter().position(is) }
    }

    pub(crate) fn peek(&self, name: &str) -> Option<&str> {
        let e = self.list[self.find(name)?];
        (!e.taken).then(|| e.value(&self.text))
    }

    /// Takes a value's place in the text.
    fn take(&mut self, name: &str) -> Option<Entry> {
        let i = self.find(name)?;
        self.next = i + 1;
        let e = &mut self.list[i];
        if std::mem::replace(&mut e.taken, true) { None } else { Some(*e) }
    }

    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        Some(self.take(name)?.value(&self.text).to_owned())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.peek(name).is_some()
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
        for i in 0..self.list.len() {
            let e = self.list[i];
            if !e.taken {
                let (name, value) = (excerpt(e.name(&self.text)), excerpt(e.value(&self.text)));
                self.problem(format!("attribute {name}=\"{value}\" not understood"));
            }
        }
        if self.more_problems > 0 {
            self.problems.push(format!("and {} more", self.more_problems));
        }
        if self.problems.is_empty() { None } else { Some(self.problems.join("; ")) }
    }

    fn typed<T>(&mut self, name: &str, what: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let e = self.take(name)?;
        let value = parse(e.value(&self.text).trim());
        if value.is_none() {
            let text = excerpt(e.value(&self.text));
            self.problem(format!("attribute {name}=\"{text}\" is not {what}"));
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
            a.push(n, v);
        }
        assert_eq!(a.u64("ok"), Some(7));
        assert_eq!(a.u64("id"), None);
        let said = a.verdict().unwrap();
        assert!(
            said.contains("given twice") && said.contains("whole number") && said.contains("left=\"over\"")
        );
    }
}
