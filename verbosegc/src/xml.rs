//! The buffer that elements are written into: escaping, number forms, indentation.

use std::fmt::{Display, Write as _};

/// Longest attribute value written, in bytes; a longer one is cut at a character and ends in `...`.
/// Keeps every tag within what a reader with bounded memory accepts.
pub(crate) const MAX_VALUE_BYTES: usize = 4096;

/// Text of one or more whole elements, not yet handed to the output.
#[derive(Debug, Default)]
pub(crate) struct Xml {
    pub(crate) text: String,
    /// Top-level elements in `text`; kept by the callers that close one.
    pub(crate) elements: u64,
}

impl Xml {
    /// `<name` at a nesting depth; attributes, then [`Self::empty`] or [`Self::body`], must follow.
    pub(crate) fn open(&mut self, depth: usize, name: &str) -> &mut Self {
        self.indent(depth);
        self.text.push('<');
        self.text.push_str(name);
        self
    }

    /// ` name="value"` with the value escaped.
    pub(crate) fn attr(&mut self, name: &str, value: &str) -> &mut Self {
        self.start_attr(name);
        push_escaped(&mut self.text, value);
        self.text.push('"');
        self
    }

    /// ` name="value"` for values that need no escaping (numbers).
    pub(crate) fn num(&mut self, name: &str, value: impl Display) -> &mut Self {
        self.start_attr(name);
        let _ = write!(self.text, "{value}\"");
        self
    }

    /// Nanoseconds as milliseconds with three decimals, cut, not rounded.
    pub(crate) fn ms(&mut self, name: &str, ns: u64) -> &mut Self {
        let us = ns / 1000;
        self.start_attr(name);
        let _ = write!(self.text, "{}.{:03}\"", us / 1000, us % 1000);
        self
    }

    pub(crate) fn hex(&mut self, name: &str, value: u64) -> &mut Self {
        self.num(name, format_args!("{value:#x}"))
    }

    /// ` />` and a line end.
    pub(crate) fn empty(&mut self) {
        self.text.push_str(" />\n");
    }

    /// `>` and a line end.
    pub(crate) fn body(&mut self) {
        self.text.push_str(">\n");
    }

    pub(crate) fn close(&mut self, depth: usize, name: &str) {
        self.indent(depth);
        let _ = writeln!(self.text, "</{name}>");
    }

    /// `<attribute name="" value="" />`.
    pub(crate) fn attribute(&mut self, depth: usize, name: &str, value: impl Display) {
        self.open(depth, "attribute").attr("name", name);
        let value = value.to_string();
        self.attr("value", &value).empty();
    }

    pub(crate) fn start_attr(&mut self, name: &str) {
        self.text.push(' ');
        self.text.push_str(name);
        self.text.push_str("=\"");
    }

    fn indent(&mut self, depth: usize) {
        for _ in 0..depth {
            self.text.push_str("  ");
        }
    }
}

/// What a value looks like after it was written and read again: cut to [`MAX_VALUE_BYTES`], with characters
/// that XML 1.0 cannot hold (and C1 controls, which terminals act upon) replaced by U+FFFD.
pub(crate) fn representable(value: &str) -> String {
    // A replacement is three bytes, so the length counts after it.
    let bytes: usize = value.chars().map(|c| clean(c).len_utf8()).sum();
    if bytes <= MAX_VALUE_BYTES {
        return value.chars().map(clean).collect();
    }
    let mut out = String::with_capacity(MAX_VALUE_BYTES);
    for c in value.chars().map(clean) {
        if out.len() + c.len_utf8() > MAX_VALUE_BYTES - 3 {
            break;
        }
        out.push(c);
    }
    out.push_str("...");
    out
}

const fn clean(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' => c,
        '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => char::REPLACEMENT_CHARACTER,
        _ => c,
    }
}

fn push_escaped(out: &mut String, value: &str) {
    for c in representable(value).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Unescaped, an XML parser would turn these into blanks.
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            _ => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_and_say_so() {
        for c in ["a", "\u{20ac}", "\u{1F600}", "\0"] {
            let cut = representable(&c.repeat(10_000));
            assert!(cut.len() <= MAX_VALUE_BYTES, "{}", cut.len());
            assert!(cut.ends_with("..."));
        }
        assert_eq!(representable("short"), "short");
        assert_eq!(representable(&representable(&"\0".repeat(9000))), representable(&"\0".repeat(9000)));
    }

    #[test]
    fn times_are_cut_to_microseconds() {
        let mut x = Xml::default();
        x.ms("a", 1_003_413_999).ms("b", u64::MAX).hex("c", 255).attr("d", "<&\"\u{1}\n>");
        assert_eq!(
            x.text,
            " a=\"1003.413\" b=\"18446744073709.551\" c=\"0xff\" d=\"&lt;&amp;&quot;\u{fffd}&#10;&gt;\""
        );
    }
}
