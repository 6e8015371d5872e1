//! Finds tags in bytes of any kind. Not an XML parser: field logs are seldom well-formed.
//!
//! A `<` always begins anew, even inside a tag or a quoted value (XML forbids it there), so nothing torn or
//! foreign can swallow more than itself. Memory is bounded by [`MAX_TAG_BYTES`].

mod quick;

use crate::attrs::{Attrs, excerpt};
use std::io::{self, BufRead};

/// Longest tag that is kept; what is beyond it is reported.
const MAX_TAG_BYTES: usize = 64 * 1024;
/// Kept of foreign text, for the diagnostic and to tell whose it is.
const MAX_TEXT_BYTES: usize = 4096;
/// Longest comment or CDATA section that is passed over as a whole; of a longer one, as of one without an end, only what is
/// before the next tag is.
const MAX_SECTION_BYTES: usize = 256 * 1024;
/// What tells text from other bytes needs so many of them.
const MIN_HEAD_BYTES: usize = 64;

/// A place in the log: line and byte column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Place {
    /// The place behind these bytes.
    fn after(self, bytes: &[u8]) -> Self {
        let lines = quick::lines(bytes);
        if lines == 0 {
            return Self { column: self.column + bytes.len() as u64, ..self };
        }
        let behind = bytes.iter().rev().take_while(|b| **b != b'\n').count();
        Self { line: self.line + lines, column: behind as u64 + 1 }
    }
}

/// Start tag or empty tag.
#[derive(Debug)]
pub(super) struct Tag {
    pub(super) place: Place,
    pub(super) name: String,
    pub(super) attrs: Attrs,
    /// Ended by `/>`.
    pub(super) empty: bool,
    /// The tag has no `>`, or more than attributes in it.
    pub(super) torn: bool,
    /// The tag ends within its name, which may be longer than what is there.
    pub(super) name_torn: bool,
}

#[derive(Debug)]
pub(super) enum Token {
    Tag(Tag),
    End {
        place: Place,
        name: String,
        /// Nothing but the name, and closed.
        clean: bool,
    },
    /// `<?xml ... ?>`.
    Declaration {
        place: Place,
    },
    /// Comments, document types, other instructions.
    Markup {
        place: Place,
        text: String,
    },
    /// Text between tags that is not blank.
    Text {
        place: Place,
        text: String,
        bytes: u64,
        /// More of it, as it is.
        head: String,
    },
    /// The input is not text at all; nothing more will come.
    Unreadable {
        place: Place,
        why: &'static str,
    },
}

/// Tag scanner.
#[derive(Debug)]
pub(super) struct Scanner<R> {
    input: R,
    at: Place,
    started: bool,
    ended: bool,
    /// A `<` that was read while it ended a piece of text.
    open: Option<Place>,
    /// What was looked at in vain and comes again, from `back_at` on, and the error that the input had behind it.
    back: Vec<u8>,
    back_at: usize,
    failed: Option<io::Error>,
    /// There is one or the other.
    held: bool,
    /// Bytes taken.
    offset: u64,
    /// No section that begins before this has its end near enough.
    unended: u64,
}

impl<R: BufRead> Scanner<R> {
    pub(super) const fn new(input: R) -> Self {
        Self {
            input,
            at: Place { line: 1, column: 1 },
            started: false,
            ended: false,
            open: None,
            back: Vec::new(),
            back_at: 0,
            failed: None,
            held: false,
            offset: 0,
            unended: 0,
        }
    }

    pub(super) const fn place(&self) -> Place {
        self.at
    }

    /// The next token; `None` at the end of the input.
    pub(super) fn next(&mut self) -> io::Result<Option<Token>> {
        if let Some(place) = self.open.take() {
            return self.markup(place).map(Some);
        }
        if self.ended {
            return Ok(None);
        }
        if !self.started {
            self.started = true;
            if let Some(why) = unreadable(self.fill()?) {
                self.ended = true;
                return Ok(Some(Token::Unreadable { place: self.at, why }));
            }
        }
        match self.plain()? {
            Some(token) => Ok(Some(token)),
            None => self.text(),
        }
    }

    /// Passes over blanks, and takes a whole plain tag from the input's buffer if there is one.
    fn plain(&mut self) -> io::Result<Option<Token>> {
        loop {
            let at = self.at;
            let buffer = self.fill()?;
            let blank = buffer.iter().take_while(|b| b.is_ascii_whitespace()).count();
            let place = at.after(&buffer[..blank]);
            let rest = &buffer[blank..];
            if rest.is_empty() && blank > 0 {
                self.consume(blank);
                continue;
            }
            let (token, len) = match quick::token(rest, place) {
                Some((token, len)) => (Some(token), len),
                None => (None, 0),
            };
            self.at = place.after(&rest[..len]);
            self.advance(blank + len);
            return Ok(token);
        }
    }

    /// Text up to the next markup; blank text is passed over.
    fn text(&mut self) -> io::Result<Option<Token>> {
        let mut text = Vec::new();
        let mut bytes = 0_u64;
        let mut place = self.at;
        loop {
            let at = self.at;
            let buffer = self.fill()?;
            if buffer.is_empty() {
                self.ended = true;
                return Ok(text_token(place, text, bytes));
            }
            let angle = quick::find(b'<', buffer);
            let mut chunk = &buffer[..angle.unwrap_or(buffer.len())];
            let mut len = chunk.len();
            // The next byte tells whether this is markup; it may be in the next buffer.
            let unclear = angle == Some(0) && buffer.len() == 1;
            match angle.and_then(|i| buffer.get(i + 1)) {
                Some(b) if starts_markup(*b) => {
                    if let Some(token) = take_chunk(&mut text, &mut bytes, &mut place, at, chunk, true) {
                        self.consume(len);
                        return Ok(Some(token));
                    }
                    let here = at.after(chunk);
                    self.consume(len + 1);
                    return self.markup(here).map(Some);
                }
                Some(_) => (chunk, len) = (&buffer[..=len], len + 1),
                None if unclear => {
                    self.bump(b'<');
                    if self.peek()?.is_some_and(starts_markup) {
                        if let Some(token) = text_token(place, text, bytes) {
                            self.open = Some(at);
                            return Ok(Some(token));
                        }
                        return self.markup(at).map(Some);
                    }
                    take_chunk(&mut text, &mut bytes, &mut place, at, b"<", false);
                    continue;
                }
                None => {}
            }
            take_chunk(&mut text, &mut bytes, &mut place, at, chunk, false);
            self.consume(len);
        }
    }

    /// One piece of markup; its `<` was taken already.
    fn markup(&mut self, place: Place) -> io::Result<Token> {
        let mut raw = Vec::new();
        let mut lost = 0_u64;
        let mut quote = None;
        // The last byte that is not blank: a quote opens a value only after `=`.
        let mut before = 0_u8;
        let comment_end = |raw: &[u8]| !raw.starts_with(b"!--") || (raw.len() >= 5 && raw.ends_with(b"--"));
        let closed = loop {
            let Some(b) = self.peek()? else { break false };
            if b == b'<' {
                break false;
            }
            self.bump(b);
            match quote {
                Some(q) if b == q => quote = None,
                Some(_) => {}
                None if b == b'>' && comment_end(&raw) => break true,
                None if (b == b'"' || b == b'\'') && before == b'=' => quote = Some(b),
                None => {}
            }
            if !b.is_ascii_whitespace() {
                before = b;
            }
            if raw.len() < MAX_TAG_BYTES {
                raw.push(b);
            } else {
                lost += 1;
            }
            let end = match raw[..] {
                [b'!', b'-', b'-'] => b"-->",
                [b'!', b'[', b'C', b'D', b'A', b'T', b'A', b'['] => b"]]>",
                _ => continue,
            };
            if let Some(inside) = self.section(*end)? {
                let (open, close) = (String::from_utf8_lossy(&raw), String::from_utf8_lossy(&end[..2]));
                return Ok(Token::Markup { place, text: format!("{open}{inside}{close}") });
            }
        };
        if raw.starts_with(b"?xml") && closed {
            return Ok(Token::Declaration { place });
        }
        if let [b'?' | b'!', ..] = raw[..] {
            return Ok(Token::Markup { place, text: excerpt(&String::from_utf8_lossy(&raw)) });
        }
        if let [b'/', rest @ ..] = &raw[..] {
            let name: Vec<u8> = rest.iter().copied().take_while(|b| is_name(*b)).collect();
            let clean = closed && rest[name.len()..].iter().all(u8::is_ascii_whitespace);
            return Ok(Token::End { place, name: String::from_utf8_lossy(&name).into_owned(), clean });
        }
        let mut tag = parse_tag(place, &raw, closed);
        if lost > 0 {
            tag.torn = true;
            tag.attrs.problem(format!("tag longer than {MAX_TAG_BYTES} bytes, {lost} bytes ignored"));
        }
        Ok(Token::Tag(tag))
    }

    /// The beginning of what is inside a comment or a CDATA section, which is passed over up to its end. `None` if that is
    /// too far away: then what is inside is read as if it were not.
    #[cold]
    fn section(&mut self, end: [u8; 3]) -> io::Result<Option<String>> {
        if self.offset < self.unended {
            return Ok(None);
        }
        let at = self.at;
        let mut seen = Vec::new();
        while seen.len() < MAX_SECTION_BYTES {
            match self.peek() {
                Ok(Some(b)) => {
                    self.bump(b);
                    seen.push(b);
                    if b == end[2] && seen.ends_with(&end) {
                        let inside = String::from_utf8_lossy(&seen[..seen.len() - end.len()]);
                        return Ok(Some(excerpt(inside.trim())));
                    }
                }
                Ok(None) => break,
                Err(e) => {
                    self.failed = Some(e);
                    break;
                }
            }
        }
        self.unended = self.offset;
        self.offset -= seen.len() as u64;
        self.at = at;
        seen.extend_from_slice(&self.back[self.back_at..]);
        (self.back, self.back_at, self.held) = (seen, 0, true);
        Ok(None)
    }

    /// What the input has at hand; empty at its end.
    fn fill(&mut self) -> io::Result<&[u8]> {
        if self.held {
            return self.fill_again();
        }
        loop {
            match self.input.fill_buf() {
                Ok(_) => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        // Asked again because a borrow cannot leave the loop; the buffer is full or at its end, so nothing is read.
        self.input.fill_buf()
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.fill()?.first().copied())
    }

    /// What was put back, and then the error that was behind it.
    #[cold]
    fn fill_again(&mut self) -> io::Result<&[u8]> {
        if self.back_at < self.back.len() {
            return Ok(&self.back[self.back_at..]);
        }
        self.held = false;
        match self.failed.take() {
            Some(e) => Err(e),
            None => self.input.fill_buf(),
        }
    }

    /// Takes what is at hand.
    fn consume(&mut self, len: usize) {
        let at = self.at;
        // Filled just before: this reads nothing and cannot fail.
        if let Ok(place) = self.fill().map(|buffer| at.after(&buffer[..len])) {
            self.at = place;
        }
        self.advance(len);
    }

    /// [`Scanner::consume`] where the place is known.
    fn advance(&mut self, len: usize) {
        self.offset += len as u64;
        if self.held && self.back_at < self.back.len() {
            self.advance_again(len);
        } else {
            self.input.consume(len);
        }
    }

    #[cold]
    fn advance_again(&mut self, len: usize) {
        self.back_at += len;
        if self.back_at >= self.back.len() {
            (self.back, self.back_at) = (Vec::new(), 0);
            self.held = self.failed.is_some();
        }
    }

    fn bump(&mut self, b: u8) {
        self.advance(1);
        if b == b'\n' {
            self.at = Place { line: self.at.line + 1, column: 1 };
        } else {
            self.at.column += 1;
        }
    }
}

/// Why an input that begins so cannot be read at all.
fn unreadable(head: &[u8]) -> Option<&'static str> {
    const MAGIC: [(&[u8], &str); 9] = [
        (b"\x1f", "the input looks compressed (gzip): decompress it first"),
        (b"BZh", "the input looks compressed (bzip2): decompress it first"),
        (b"\xfd7zXZ", "the input looks compressed (xz): decompress it first"),
        (b"\x28\xb5\x2f\xfd", "the input looks compressed (zstd): decompress it first"),
        (b"\xff", "the input looks like UTF-16: convert it to UTF-8 first"),
        (b"\xfe", "the input looks like UTF-16: convert it to UTF-8 first"),
        (
            b"\xca\xfe\xfe\xed",
            "the input is a Tuning Fork trace: metronome live shows it, metronome export turns it into other traces",
        ),
        (b"Nettrace", "the input is a trace of the .NET runtime (nettrace)"),
        (
            b"{\"ns\":",
            "the input is a recording: metronome live shows it, metronome export turns it into traces",
        ),
    ];
    if let Some((_, why)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Some(why);
    }
    // Control characters that no text has; zeros do not count, as file systems put them where a write was lost.
    let is_odd = |b: u8| (b < b'\t' || (b > b'\r' && b < b' ')) && b != 0x1b;
    let bytes = head.iter().filter(|b| **b != 0).count();
    let odd = head.iter().filter(|b| **b != 0 && is_odd(**b)).count();
    (bytes >= MIN_HEAD_BYTES && odd * 20 > bytes).then_some(
        "the input is no text: an executable, a trace, or compressed in a way that is not known here",
    )
}

const fn starts_markup(b: u8) -> bool {
    b.is_ascii_alphabetic() || matches!(b, b'/' | b'?' | b'!')
}

const fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':')
}

/// Adds a piece of text that begins at `at`; the token if it is the last piece and there is any text.
fn take_chunk(
    text: &mut Vec<u8>,
    bytes: &mut u64,
    place: &mut Place,
    at: Place,
    mut chunk: &[u8],
    last: bool,
) -> Option<Token> {
    if *bytes == 0 {
        let blank = chunk.iter().take_while(|b| b.is_ascii_whitespace()).count();
        *place = at.after(&chunk[..blank]);
        chunk = &chunk[blank..];
    }
    *bytes += chunk.len() as u64;
    let room = MAX_TEXT_BYTES - text.len();
    text.extend_from_slice(&chunk[..chunk.len().min(room)]);
    if last { text_token(*place, std::mem::take(text), *bytes) } else { None }
}

/// `None` for blank text and for a lone byte-order mark.
fn text_token(place: Place, text: Vec<u8>, bytes: u64) -> Option<Token> {
    let (text, bytes) = match text.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) => (rest, bytes - 3),
        None => (&text[..], bytes),
    };
    if text.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    let head = String::from_utf8_lossy(text).into_owned();
    Some(Token::Text { place, text: excerpt(head.trim()), bytes, head })
}

/// Parses a start tag without its angle brackets. Anything between the attributes makes it torn.
fn parse_tag(place: Place, raw: &[u8], closed: bool) -> Tag {
    let name_len = raw.iter().take_while(|b| is_name(**b)).count();
    let mut tag = Tag {
        place,
        name: String::from_utf8_lossy(&raw[..name_len]).into_owned(),
        attrs: Attrs::default(),
        empty: false,
        torn: !closed,
        name_torn: !closed && name_len == raw.len(),
    };
    let mut junk = Vec::new();
    let mut at = name_len;
    while let Some(&b) = raw.get(at) {
        let name_start = at;
        at += raw[at..].iter().take_while(|b| is_name(**b)).count();
        let name = &raw[name_start..at];
        let equals = at + blanks(&raw[at..]);
        if !name.is_empty() && raw.get(equals) == Some(&b'=') {
            let start = equals + 1 + blanks(&raw[equals + 1..]);
            let (value, next, whole) = parse_value(raw, start);
            at = next;
            tag.torn |= !whole;
            tag.attrs.push(&String::from_utf8_lossy(name), &unescape(&String::from_utf8_lossy(value)));
        } else if !name.is_empty() {
            junk.extend_from_slice(name);
            junk.push(b' ');
        } else {
            at += 1;
            if b == b'/' && raw[at..].iter().all(u8::is_ascii_whitespace) {
                tag.empty = true;
            } else if !b.is_ascii_whitespace() {
                junk.push(b);
            }
        }
    }
    if !junk.is_empty() {
        tag.torn = true;
        tag.attrs.problem(format!("\"{}\" in the tag", excerpt(String::from_utf8_lossy(&junk).trim())));
    }
    if !closed {
        tag.attrs.problem("the tag has no end".into());
    }
    tag
}

fn blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| b.is_ascii_whitespace()).count()
}

/// A value from `start`, where to go on, and whether it was whole.
fn parse_value(raw: &[u8], start: usize) -> (&[u8], usize, bool) {
    let rest = &raw[start..];
    let Some(&quote @ (b'"' | b'\'')) = rest.first() else {
        // Unquoted: up to a blank, or the `/` of an empty tag.
        let mut len = rest.iter().take_while(|b| !b.is_ascii_whitespace()).count();
        if len > 0 && len == rest.len() && rest[len - 1] == b'/' {
            len -= 1;
        }
        return (&rest[..len], start + len, len > 0);
    };
    let body = &rest[1..];
    match body.iter().position(|b| *b == quote) {
        Some(len) => {
            // `a="1 b="2"`: what follows the quote is not what may follow a value, and what is before it looks
            // like the next attribute. Then the quote belongs to that one.
            let follower = body.get(len + 1);
            let lost_quote = follower.is_some_and(|b| !b.is_ascii_whitespace() && *b != b'/')
                && body[..len].ends_with(b"=");
            if lost_quote && let Some(cut) = body[..len].iter().rposition(u8::is_ascii_whitespace) {
                return (&body[..cut], start + 1 + cut, false);
            }
            (&body[..len], start + len + 2, true)
        }
        None => {
            let len = body.iter().take_while(|b| !b.is_ascii_whitespace()).count();
            (&body[..len], start + 1 + len, false)
        }
    }
}

/// Resolves character references; one that is not understood stays as it is.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = rest.find(';').filter(|end| *end <= 10).and_then(|end| {
            let c = match &rest[1..end] {
                "amp" => '&',
                "lt" => '<',
                "gt" => '>',
                "quot" => '"',
                "apos" => '\'',
                other => {
                    let digits = other.strip_prefix('#')?;
                    let code = match digits.strip_prefix('x') {
                        Some(hex) => u32::from_str_radix(hex, 16),
                        None => digits.parse(),
                    };
                    char::from_u32(code.ok()?)?
                }
            };
            Some((c, end + 1))
        });
        let (c, len) = known.unwrap_or(('&', 1));
        out.push(c);
        rest = &rest[len..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Tag {
        match Scanner::new(text.as_bytes()).next().unwrap() {
            Some(Token::Tag(tag)) => tag,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_lost_quote_costs_one_value_at_most() {
        let mut t = one("<quanta quantumCount=\"9 quantumType=\"mark\" minTimeMs=\"3.008\" />");
        assert!(t.torn && t.empty);
        assert_eq!(t.attrs.u64("quantumCount"), Some(9));
        assert_eq!(t.attrs.text("quantumType").as_deref(), Some("mark"));
        assert_eq!(t.attrs.ms("minTimeMs"), Some(3_008_000));
    }

    #[test]
    fn values_in_every_dress() {
        let mut t = one("<a b='x>y' c = \"1\n2\"\r\n d=7 e=\"&lt;&#65;&#x42;&bogus;&\" f=z/>");
        assert!(!t.torn && t.empty, "{t:?}");
        assert_eq!(t.attrs.text("b").as_deref(), Some("x>y"));
        assert_eq!(t.attrs.text("c").as_deref(), Some("1\n2"));
        assert_eq!(t.attrs.text("d").as_deref(), Some("7"));
        assert_eq!(t.attrs.text("e").as_deref(), Some("<AB&bogus;&"));
        assert_eq!(t.attrs.text("f").as_deref(), Some("z"));
        assert_eq!(t.attrs.verdict(), None);
    }

    #[test]
    fn a_torn_tag_does_not_swallow_the_next() {
        let mut s = Scanner::new(&b"a < b\n<x y=\"<z k=\"1\">text<!-- c <end/></z\xff>&"[..]);
        let mut seen = Vec::new();
        while let Some(t) = s.next().unwrap() {
            seen.push(match t {
                Token::Tag(t) => format!("{}{}", t.name, if t.torn { "!" } else { "" }),
                Token::End { name, clean, .. } => format!("/{name}{}", if clean { "" } else { "!" }),
                Token::Text { text, bytes, .. } => format!("{text}:{bytes}"),
                Token::Markup { text, .. } => text,
                other => panic!("{other:?}"),
            });
        }
        assert_eq!(seen, ["a < b:6", "x!", "z", "text:4", "!-- c ", "end", "/z!", "&:1"]);
    }
}
