//! Reading the files: in pieces, within a budget, counting what is left out and why.

use super::Budget;
use super::oracle::Oracle;
use super::walk::{BINARY, EMPTY, Found, OVER_BUDGET, UNREADABLE, walk};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A file with a zero byte among its first this many is binary.
const SNIFF: usize = 8 << 10;
const PIECE: u64 = 64 << 10;

/// A file's text, or the part of it that is indexed.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) bytes: Vec<u8>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) indexed: u64,
    pub(super) indexed_bytes: u64,
    /// Indexed only in part.
    pub(super) cut: u64,
    /// Indexed, though no valid UTF-8.
    pub(super) invalid_utf8: u64,
    /// By reason.
    pub(super) skipped: BTreeMap<&'static str, u64>,
}

/// What is said of a file that was not indexed as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// Left out, and why.
    Skipped(&'static str),
    /// Indexed up to the budget.
    Cut,
    /// Indexed as bytes.
    InvalidUtf8,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Skipped(why) => write!(f, "skipped ({why})"),
            Note::Cut => f.write_str("cut (larger than the budget)"),
            Note::InvalidUtf8 => f.write_str("indexed as bytes (not valid UTF-8)"),
        }
    }
}

/// The documents of a run.
#[derive(Debug, Default)]
pub(super) struct Corpus {
    pub(super) documents: Vec<Document>,
    pub(super) counts: Counts,
}

/// A file as far as it was read.
enum Content {
    Text { bytes: Vec<u8>, cut: bool },
    Binary,
}

/// Reads at most `limit` bytes of a file.
fn load(path: &Path, limit: u64, stop: &dyn Fn() -> bool) -> io::Result<Content> {
    let file = File::open(path)?;
    // It may have been replaced since it was listed.
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    // One byte more, to see whether that was all.
    let mut source = file.take(limit + 1);
    loop {
        let before = bytes.len();
        source.by_ref().take(PIECE).read_to_end(&mut bytes)?;
        if before == 0 && bytes[..bytes.len().min(SNIFF)].contains(&0) {
            return Ok(Content::Binary);
        }
        if bytes.len() == before || stop() {
            break;
        }
    }
    let cut = bytes.len() as u64 > limit;
    bytes.truncate(limit as usize);
    Ok(Content::Text { bytes, cut })
}

/// Whether this is UTF-8, apart from a character cut off at the end.
fn is_utf8(bytes: &[u8], cut: bool) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(e) => cut && e.error_len().is_none(),
    }
}

/// Reads the files below `dir` and adds them to the independent index, both within the budget.
///
/// # Errors
/// What to do, if the directory cannot be read or `stop` said so.
pub(super) fn read(
    dir: &Path,
    budget: Budget,
    oracle: &mut Oracle,
    stop: &dyn Fn() -> bool,
    noted: &mut dyn FnMut(&Path, Note),
) -> Result<Corpus, String> {
    let mut corpus = Corpus::default();
    let mut left = budget.text_bytes;
    let mut full = false;
    let mut one = |found: Found<'_>| {
        let (path, why) = match found {
            Found::Skipped(path, why) => (path, Some(why)),
            Found::File(path) if full => (path, Some(OVER_BUDGET)),
            Found::File(path) => match load(path, budget.file_bytes.min(left), stop) {
                Err(_) => (path, Some(UNREADABLE)),
                Ok(Content::Binary) => (path, Some(BINARY)),
                Ok(Content::Text { bytes, .. }) if bytes.is_empty() => (path, Some(EMPTY)),
                Ok(Content::Text { mut bytes, mut cut }) => {
                    // At most `text_bytes` documents, as each has a byte.
                    let number = corpus.documents.len() as u32;
                    let taken = oracle.add(number, &bytes, budget.index_bytes);
                    if taken < bytes.len() {
                        full = true;
                        cut = true;
                        bytes.truncate(taken);
                    }
                    left -= bytes.len() as u64;
                    full |= left == 0;
                    bytes.shrink_to_fit();
                    if bytes.is_empty() {
                        (path, Some(OVER_BUDGET))
                    } else {
                        let c = &mut corpus.counts;
                        c.indexed += 1;
                        c.indexed_bytes += bytes.len() as u64;
                        c.cut += u64::from(cut);
                        let invalid = !is_utf8(&bytes, cut);
                        c.invalid_utf8 += u64::from(invalid);
                        for note in [cut.then_some(Note::Cut), invalid.then_some(Note::InvalidUtf8)] {
                            note.into_iter().for_each(|note| noted(path, note));
                        }
                        corpus.documents.push(Document { bytes });
                        (path, None)
                    }
                }
            },
        };
        if let Some(why) = why {
            *corpus.counts.skipped.entry(why).or_default() += 1;
            noted(path, Note::Skipped(why));
        }
        !stop()
    };
    walk(dir, &mut one)
        .map_err(|e| format!("--input {}: {e}; give a directory that can be read", dir.display()))?;
    if stop() {
        return Err("interrupted while reading the input".into());
    }
    Ok(corpus)
}

#[cfg(test)]
mod tests {
    use super::super::walk::{LINK, SPECIAL, TARGET_DIRECTORY, UNREADABLE_DIRECTORY, VCS_DIRECTORY};
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    /// A directory of a test's own, removed at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("metronome-corpus-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn write(&self, name: &str, content: &[u8]) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            path
        }

        fn read(&self, budget: Budget) -> (Corpus, Oracle, Vec<(String, Note)>) {
            let mut oracle = Oracle::new(1);
            let mut names = Vec::new();
            let corpus = read(&self.0, budget, &mut oracle, &|| false, &mut |path, note| {
                let name = path.strip_prefix(&self.0).unwrap().to_string_lossy().into_owned();
                names.push((name, note));
            })
            .unwrap();
            oracle.finish();
            (corpus, oracle, names)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn large() -> Budget {
        Budget::for_heap(256 << 20)
    }

    #[test]
    fn every_kind_of_file_is_indexed_or_counted_with_its_reason() {
        let dir = Scratch::new("kinds");
        dir.write("b/text.txt", b"hello world");
        dir.write("latin1.txt", b"caf\xe9 au lait");
        dir.write("empty", b"");
        dir.write("image", b"\x89PNG\0\0");
        dir.write(".git/config", b"secret");
        dir.write("target/out.d", b"built");
        dir.write("sub/target", b"a file of that name is a file");
        dir.write(".hidden", b"hidden files count");
        symlink(&dir.0, dir.0.join("loop")).unwrap();
        symlink("loop2", dir.0.join("loop2")).unwrap();
        symlink("nowhere", dir.0.join("dangling")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.0.join("socket")).unwrap();
        let (corpus, oracle, names) = dir.read(large());
        let c = &corpus.counts;
        assert_eq!((c.indexed, c.invalid_utf8, c.cut), (4, 1, 0), "{names:?}");
        for (why, n) in
            [(LINK, 3), (EMPTY, 1), (BINARY, 1), (SPECIAL, 1), (VCS_DIRECTORY, 1), (TARGET_DIRECTORY, 1)]
        {
            assert_eq!(c.skipped.get(why), Some(&n), "{why}: {names:?}");
        }
        let skipped = names.iter().filter(|(_, note)| matches!(note, Note::Skipped(_))).count();
        assert_eq!(c.skipped.values().sum::<u64>(), skipped as u64);
        assert!(names.contains(&("image".into(), Note::Skipped(BINARY))));
        assert!(names.contains(&("latin1.txt".into(), Note::InvalidUtf8)));
        assert_eq!(names.len(), skipped + 1, "{names:?}");
        let known = |t: &str| oracle.vocabulary().iter().any(|v| **v == *t.as_bytes());
        assert!(known("hello") && known("hidden") && !known("secret") && !known("built"));
    }

    #[test]
    fn an_empty_directory_is_an_empty_corpus_and_a_missing_one_an_error() {
        let dir = Scratch::new("empty");
        let (corpus, oracle, _) = dir.read(large());
        assert_eq!((corpus.documents.len(), oracle.terms(), corpus.counts), (0, 0, Counts::default()));
        let mut oracle = Oracle::new(1);
        for bad in [dir.0.join("absent"), dir.write("file", b"x")] {
            let error = read(&bad, large(), &mut oracle, &|| false, &mut |_, _| {}).unwrap_err();
            assert!(error.contains("give a directory") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn what_may_not_be_read_is_counted() {
        let dir = Scratch::new("permissions");
        let file = dir.write("locked", b"text");
        dir.write("closed/inside", b"text");
        let closed = dir.0.join("closed");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        let (corpus, _, _) = dir.read(large());
        // Whether permissions bind us (they do not bind root) shows in the same way to everybody.
        let bound = File::open(&file).is_err();
        let skipped = |why| corpus.counts.skipped.get(why).copied().unwrap_or(0);
        let expected = if bound { (1, 1, 0) } else { (0, 0, 2) };
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!((skipped(UNREADABLE), skipped(UNREADABLE_DIRECTORY), corpus.counts.indexed), expected);
    }

    #[test]
    fn budgets_cut_and_skip_and_say_so() {
        let dir = Scratch::new("budget");
        dir.write("a", &b"word ".repeat(100));
        dir.write("b", &b"word ".repeat(100));
        dir.write("c", b"word");
        let budget = Budget { text_bytes: 600, file_bytes: 400, index_bytes: 1 << 20 };
        let (corpus, _, names) = dir.read(budget);
        let sizes: Vec<usize> = corpus.documents.iter().map(|d| d.bytes.len()).collect();
        assert_eq!((sizes, corpus.counts.cut), (vec![400, 200], 2));
        let note = |name: &str, note| (name.to_owned(), note);
        assert_eq!(
            names,
            [note("a", Note::Cut), note("b", Note::Cut), note("c", Note::Skipped(OVER_BUDGET))]
        );

        // A text of different words fills the index before the text's budget.
        let words: String = (0..1000).map(|i| format!("w{i} ")).collect();
        dir.write("a", words.as_bytes());
        let (corpus, oracle, _) =
            dir.read(Budget { text_bytes: 1 << 20, file_bytes: 1 << 20, index_bytes: 20_000 });
        assert!((50..200).contains(&oracle.terms()) && oracle.index_bytes() <= 20_000);
        assert_eq!((corpus.counts.indexed, corpus.counts.cut, corpus.counts.skipped[OVER_BUDGET]), (1, 1, 2));
        assert_eq!(super::super::text::all(&corpus.documents[0].bytes).len() as u64, oracle.terms());
    }

    #[test]
    fn a_sparse_file_of_a_gigabyte_is_neither_read_whole_nor_kept() {
        let dir = Scratch::new("sparse");
        let path = dir.write("big.txt", &b"words and words\n".repeat(1000));
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 30).unwrap();
        let budget = Budget::for_heap(4 << 20);
        let (corpus, _, _) = dir.read(budget);
        assert_eq!((corpus.counts.indexed, corpus.counts.cut), (1, 1));
        assert!(corpus.documents[0].bytes.len() as u64 <= budget.file_bytes);
    }
}
