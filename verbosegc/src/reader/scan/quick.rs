//! The fast path: a plain tag that lies whole in the input's buffer is taken in one pass. Whatever is unusual (torn,
//! escaped, quoted otherwise, too long) is left to the careful scanner, which gives the same for what is plain.

use super::{MAX_TAG_BYTES, Place, Tag, Token, is_name};
use crate::attrs::{Attrs, Entry};

/// The plain tag or end tag that `bytes` begin with, and its length.
pub(super) fn token(bytes: &[u8], place: Place) -> Option<(Token, usize)> {
    match bytes {
        [b'<', b'/', rest @ ..] => {
            let len = name_len(rest);
            // `>` right behind the name; a name of nothing is the careful scanner's.
            if len == 0 || rest.get(len) != Some(&b'>') {
                return None;
            }
            Some((Token::End { place, name: text(&rest[..len])?.to_owned(), clean: true }, len + 3))
        }
        [b'<', first, ..] if first.is_ascii_alphabetic() => tag(bytes, place),
        _ => None,
    }
}

fn tag(bytes: &[u8], place: Place) -> Option<(Token, usize)> {
    let name_end = 1 + name_len(&bytes[1..]);
    let mut entries = Vec::with_capacity(8);
    let mut at = name_end;
    let (empty, len) = loop {
        let blank = match bytes[at..] {
            // One blank is what writers put between attributes.
            [b' ', b, ..] if is_name(b) => 1,
            ref rest => rest.iter().take_while(|b| b.is_ascii_whitespace()).count(),
        };
        at += blank;
        match *bytes.get(at)? {
            b'>' => break (false, at + 1),
            b'/' => {
                if bytes.get(at + 1) != Some(&b'>') {
                    return None;
                }
                break (true, at + 2);
            }
            // Attributes that stick together are rare enough to be left alone.
            _ if blank == 0 => return None,
            _ => {}
        }
        let attr = &bytes[at..];
        let len = name_len(attr);
        if len == 0 || attr.get(len) != Some(&b'=') || attr.get(len + 1) != Some(&b'"') {
            return None;
        }
        let body = &attr[len + 2..];
        let value = body.iter().position(|b| ENDS_VALUE[usize::from(*b)])?;
        if body[value] != b'"' {
            return None;
        }
        // A quote behind `=` may open the next value: a lost quote.
        if value > 0 && body[value - 1] == b'=' {
            return None;
        }
        let start = at + len + 2;
        entries.push(Entry::new((at, at + len), (start, start + value)));
        at = start + value + 1;
    };
    if len - 2 > MAX_TAG_BYTES {
        return None;
    }
    // One check for all: the pieces begin and end at characters of ASCII.
    let tag = text(&bytes[..len])?;
    let (name, attrs) = (tag[1..name_end].to_owned(), Attrs::of_tag(tag, entries));
    Some((Token::Tag(Tag { place, name, attrs, empty, torn: false, name_torn: false }), len))
}

/// Bytes of names, and those at which a plain value ends or is not plain, as tables: one load each.
const NAME: [bool; 256] = names();
const ENDS_VALUE: [bool; 256] = ends();

const fn names() -> [bool; 256] {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 256 {
        table[b] = is_name(b as u8);
        b += 1;
    }
    table
}

const fn ends() -> [bool; 256] {
    let mut table = [false; 256];
    table[b'"' as usize] = true;
    table[b'<' as usize] = true;
    table[b'&' as usize] = true;
    table
}

fn name_len(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| NAME[usize::from(**b)]).count()
}

/// `None` where there is anything to repair.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Line ends; counted in bytes, of which many go into one register.
pub(super) fn lines(bytes: &[u8]) -> u64 {
    let chunk = |c: &[u8]| u64::from(c.iter().map(|b| u8::from(*b == b'\n')).sum::<u8>());
    bytes.chunks(u8::MAX as usize).map(chunk).sum()
}

/// The first place of a byte, eight at a time.
pub(super) fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (words, _) = bytes.as_chunks::<8>();
    let hit = |w: &[u8; 8]| {
        let x = u64::from_ne_bytes(*w) ^ (LOW * u64::from(byte));
        // Some byte of x is 0 exactly if this is not.
        x.wrapping_sub(LOW) & !x & HIGH != 0
    };
    let skip = words.iter().take_while(|w| !hit(w)).count() * 8;
    bytes[skip..].iter().position(|b| *b == byte).map(|i| skip + i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickcheck::quickcheck;

    quickcheck! {
        fn lines_are_as_counted_one_by_one(bytes: Vec<u8>) -> bool {
            let many: Vec<u8> = bytes.iter().cycle().take(bytes.len() * 40).map(|b| b % 16).collect();
            lines(&many) == many.iter().filter(|b| **b == b'\n').count() as u64
        }

        fn finding_is_as_looking_at_each(bytes: Vec<u8>, byte: u8) -> bool {
            let few: Vec<u8> = bytes.iter().map(|b| b % 8).collect();
            find(byte, &bytes) == bytes.iter().position(|b| *b == byte)
                && find(byte % 8, &few) == few.iter().position(|b| *b == byte % 8)
        }
    }

    #[test]
    fn plain_tags_are_taken_and_others_left() {
        let place = Place { line: 1, column: 1 };
        for plain in ["<a>", "<a />", "<a\n b=\"1\"\tc=\"x>y'\"/>", "</gc-op>", "<a b=\"\" >"] {
            let (_, len) = token(plain.as_bytes(), place).unwrap();
            assert_eq!(len, plain.len(), "{plain}");
        }
        for odd in [
            "",
            "<",
            "<a",
            "<a b=\"1\"",
            "<a b=1>",
            "<a b='1'>",
            "<a b =\"1\">",
            "<a b=\"&lt;\">",
            "<a b=\"<c>\">",
            "<a b>",
            "<a /b>",
            "<a/ >",
            "</a >",
            "</>",
            "<!-- -->",
            "<?xml?>",
            "<a b=\"1\"c=\"2\">",
            "<a b=\"c=\"d\">",
        ] {
            assert!(token(odd.as_bytes(), place).is_none(), "{odd}");
        }
    }
}
