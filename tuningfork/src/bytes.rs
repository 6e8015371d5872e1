//! Numbers and strings in the trace's encoding.

use crate::Error;

/// Appends to a body.
pub(crate) fn put_i32(out: &mut Vec<u8>, v: i32) {
    out.extend_from_slice(&v.to_be_bytes());
}

/// The length of a list or string; longer ones than the format can hold are the caller's to avoid.
pub(crate) fn put_len(out: &mut Vec<u8>, len: usize) {
    put_i32(out, i32::try_from(len).unwrap_or(i32::MAX));
}

/// A string in modified UTF-8. Strings of more than [`STRING_MAX`] UTF-16 units are cut.
pub(crate) fn put_string(out: &mut Vec<u8>, text: &str) {
    let at = out.len();
    put_i32(out, 0);
    for unit in text.encode_utf16().take(STRING_MAX) {
        match unit {
            1..=0x7f => out.push(unit as u8),
            0 | 0x80..=0x7ff => out.extend([0xc0 | (unit >> 6) as u8, 0x80 | (unit & 0x3f) as u8]),
            _ => out.extend([
                0xe0 | (unit >> 12) as u8,
                0x80 | ((unit >> 6) & 0x3f) as u8,
                0x80 | (unit & 0x3f) as u8,
            ]),
        }
    }
    let len = out.len() - at - 4;
    out[at..at + 4].copy_from_slice(&i32::try_from(len).unwrap_or(i32::MAX).to_be_bytes());
}

/// UTF-16 units of a string that are written: so the longest record fits a chunk.
pub(crate) const STRING_MAX: usize = 1 << 14;

/// Takes from a body.
pub(crate) struct Body<'a> {
    bytes: &'a [u8],
    chunk: i32,
    /// Of the body's first byte in the trace, and how long the body was.
    offset: u64,
    whole: usize,
}

impl<'a> Body<'a> {
    pub(crate) fn new(bytes: &'a [u8], chunk: i32, offset: u64) -> Body<'a> {
        Body { bytes, chunk, offset, whole: bytes.len() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn error(&self, what: &'static str) -> Error {
        let offset = self.offset + (self.whole - self.bytes.len()) as u64;
        Error::Malformed { chunk: self.chunk, offset, what }
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Error> {
        let (head, rest) =
            self.bytes.split_at_checked(n).ok_or_else(|| self.error("the chunk ends within a record"))?;
        self.bytes = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Error> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Error> {
        self.array().map(i64::from_be_bytes)
    }

    pub(crate) fn f64(&mut self) -> Result<f64, Error> {
        self.array().map(f64::from_be_bytes)
    }

    /// A count of things that take at least `least` bytes each.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, Error> {
        let n = self.i32()?;
        let n = usize::try_from(n).map_err(|_| self.error("a count is negative"))?;
        match n.checked_mul(least) {
            Some(bytes) if bytes <= self.bytes.len() => Ok(n),
            _ => Err(self.error("a count is larger than the chunk can hold")),
        }
    }

    pub(crate) fn string(&mut self) -> Result<String, Error> {
        let len = self.count(1)?;
        let bytes = self.take(len)?;
        let units = units(bytes).ok_or_else(|| self.error("a string is not modified UTF-8"))?;
        // A surrogate without its other half cannot be kept in a Rust string.
        Ok(String::from_utf16_lossy(&units))
    }
}

fn units(mut bytes: &[u8]) -> Option<Vec<u16>> {
    let mut out = Vec::with_capacity(bytes.len());
    let more = |b: u8| (b & 0xc0 == 0x80).then_some(u16::from(b & 0x3f));
    while let [first, rest @ ..] = bytes {
        let first = *first;
        (bytes, _) = match (first, rest) {
            (0..=0x7f, _) => (rest, out.push(u16::from(first))),
            (0xc0..=0xdf, [b, rest @ ..]) => (rest, out.push(u16::from(first & 0x1f) << 6 | more(*b)?)),
            (0xe0..=0xef, [b, c, rest @ ..]) => {
                (rest, out.push(u16::from(first & 0x0f) << 12 | more(*b)? << 6 | more(*c)?))
            }
            _ => return None,
        };
    }
    Some(out)
}
