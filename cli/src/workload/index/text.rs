//! The tokenizer of the heap's index: a state machine over bytes, without allocation.
//!
//! A token is a run of ASCII letters and digits, `_`, and bytes above 127 (so text in any encoding that extends ASCII
//! has tokens, valid UTF-8 or not); ASCII letters are made small, and only the first [`TOKEN_MAX`] bytes count.

/// Bytes of a token that count.
pub(super) const TOKEN_MAX: usize = 64;

/// What a byte becomes in a token; 0: it separates tokens.
const FOLD: [u8; 256] = {
    let mut table = [0; 256];
    let mut b = 0;
    while b < 256 {
        let byte = b as u8;
        table[b] = match byte {
            b'A'..=b'Z' => byte + 32,
            b'a'..=b'z' | b'0'..=b'9' | b'_' | 0x80..=0xff => byte,
            _ => 0,
        };
        b += 1;
    }
    table
};

/// One token, folded and cut.
#[derive(Clone, Debug)]
pub(super) struct Token {
    bytes: [u8; TOKEN_MAX],
    len: usize,
}

impl Token {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The tokens of a text, one after the other.
#[derive(Debug)]
pub(super) struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
    /// What comes next belongs to a token that was cut.
    tail: bool,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a [u8]) -> Tokens<'a> {
        Tokens { text, at: 0, tail: false }
    }

    /// The next token. Passes over at most `bytes` bytes before it, and pauses after these: so that a mutator can poll
    /// in a text without tokens.
    pub(super) fn next(&mut self, bytes: usize) -> Next {
        let limit = self.text.len().min(self.at.saturating_add(bytes));
        let word = |at: usize| FOLD[usize::from(self.text[at])] != 0;
        while self.at < limit && (self.tail || !word(self.at)) {
            self.tail &= word(self.at);
            self.at += 1;
        }
        if self.at == limit {
            return if limit == self.text.len() { Next::End } else { Next::Pause };
        }
        let mut token = Token { bytes: [0; TOKEN_MAX], len: 0 };
        while let Some(&byte) = self.text.get(self.at) {
            let folded = FOLD[usize::from(byte)];
            self.tail = folded != 0 && token.len == TOKEN_MAX;
            if folded == 0 || self.tail {
                break;
            }
            token.bytes[token.len] = folded;
            token.len += 1;
            self.at += 1;
        }
        Next::Token(token)
    }
}

/// What comes next in a text.
#[derive(Debug)]
pub(super) enum Next {
    Token(Token),
    /// Nothing but separators so far.
    Pause,
    End,
}

#[cfg(test)]
pub(super) fn all(text: &[u8]) -> Vec<Vec<u8>> {
    let mut tokens = Tokens::new(text);
    let mut out = Vec::new();
    loop {
        match tokens.next(16) {
            Next::Token(t) => out.push(t.as_bytes().to_vec()),
            Next::Pause => {}
            Next::End => return out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(text: &str) -> Vec<String> {
        all(text.as_bytes()).into_iter().map(|t| String::from_utf8(t).unwrap()).collect()
    }

    #[test]
    fn words_are_folded_and_separated() {
        assert_eq!(strings("Hello, WORLD_1! fn(x)->y"), ["hello", "world_1", "fn", "x", "y"]);
        assert_eq!(strings("Grüße Ünter"), ["grüße", "Ünter"]);
        assert!(strings("").is_empty() && strings(" \n\t.,;").is_empty());
        assert_eq!(strings(&format!("a{}b", " ".repeat(1000))), ["a", "b"]);
    }

    #[test]
    fn invalid_utf8_is_a_token_like_any_other() {
        assert_eq!(all(b"a \xff\xfe b\x80"), [&b"a"[..], b"\xff\xfe", b"b\x80"]);
    }

    #[test]
    fn long_runs_are_one_token_that_is_cut() {
        for len in [63, 64, 65, 80, 1000] {
            let text = format!("{} tail", "X".repeat(len));
            assert_eq!(strings(&text), ["x".repeat(len.min(TOKEN_MAX)), "tail".into()], "{len}");
        }
    }
}
