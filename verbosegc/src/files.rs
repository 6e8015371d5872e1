//! Opening what people have: plain and compressed files, standard input, rotated parts, files still being written.
//!
//! Needs the feature `files`. Each function gives an input for [`Reader`](crate::reader::Reader), which takes bytes from
//! anywhere.

use flate2::bufread::MultiGzDecoder;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

/// Bytes read at once.
const BUFFER_BYTES: usize = 256 << 10;
/// The first byte of gzip, which no text begins with.
const GZIP: u8 = 0x1f;

/// An input that is decompressed if it is gzip (several members one after the other, too), and itself otherwise.
///
/// # Errors
/// Those of the input's first bytes. A compressed input that breaks off fails when its end is read.
pub fn decompressed<'a>(mut input: impl BufRead + Send + 'a) -> io::Result<Box<dyn BufRead + Send + 'a>> {
    let first = loop {
        match input.fill_buf() {
            Ok(bytes) => break bytes.first().copied(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    };
    Ok(match first {
        Some(GZIP) => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(input))),
        _ => Box::new(input),
    })
}

/// Opens a file, a named pipe, or standard input for `-`.
///
/// # Errors
/// The system's.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    if path == Path::new("-") {
        return decompressed(BufReader::with_capacity(BUFFER_BYTES, io::stdin()));
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::other("is a directory; name the log files in it"));
    }
    decompressed(BufReader::with_capacity(BUFFER_BYTES, file))
}

/// Opens a log of one or more parts, read one after the other. Lines are counted through all of them.
///
/// # Errors
/// The system's, of the first part; of the others when they are read.
pub fn open_parts(parts: Vec<PathBuf>) -> io::Result<Box<dyn BufRead + Send>> {
    let mut rest = VecDeque::from(parts);
    let Some(first) = rest.pop_front() else { return Ok(Box::new(io::empty())) };
    let first = open(&first)?;
    if rest.is_empty() {
        return Ok(first);
    }
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, Parts { now: first, rest })))
}

struct Parts {
    now: Box<dyn BufRead + Send>,
    rest: VecDeque<PathBuf>,
}

impl Read for Parts {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.now.read(buf)?;
            if n > 0 || buf.is_empty() {
                return Ok(n);
            }
            let Some(next) = self.rest.pop_front() else { return Ok(0) };
            self.now =
                open(&next).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", next.display())))?;
        }
    }
}

/// The parts of a log, oldest first. A file that is there is its own only part; if it is not, `NAME.001`, `NAME.002`
/// and so on are (as the J9 machines rotate, in a ring: by the time of writing), each with or without `.gz`.
///
/// # Errors
/// Not found, if there is nothing of either kind; the system's otherwise.
pub fn parts(path: &Path) -> io::Result<Vec<PathBuf>> {
    let missing = match fs::metadata(path) {
        _ if path == Path::new("-") => return Ok(vec![path.to_owned()]),
        Ok(_) => return Ok(vec![path.to_owned()]),
        Err(e) => e,
    };
    let numbered = |digits: &str| digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit());
    let mut found = siblings(path, numbered).unwrap_or_default();
    if found.is_empty() {
        return Err(missing);
    }
    found.sort();
    Ok(found.into_iter().map(|(_, _, path)| path).collect())
}

/// The parts of a log that `logrotate` keeps: `NAME.2.gz`, `NAME.1`, `NAME`, oldest first.
///
/// # Errors
/// As [`parts`].
pub fn logrotated(path: &Path) -> io::Result<Vec<PathBuf>> {
    let now = parts(path)?;
    let numbered = |digits: &str| digits.len() <= 4 && digits.bytes().all(|b| b.is_ascii_digit());
    let mut found = siblings(path, numbered)?;
    // The highest number is the oldest.
    found.sort_by_key(|(_, number, _)| std::cmp::Reverse(*number));
    let older = found.into_iter().map(|(_, _, path)| path).filter(|p| !now.contains(p));
    Ok(older.chain(now.iter().cloned()).collect())
}

/// Files beside `path` whose names go on with a number, and perhaps `.gz`: time of writing, number, path.
fn siblings(
    path: &Path,
    numbered: impl Fn(&str) -> bool,
) -> io::Result<Vec<(std::time::SystemTime, u64, PathBuf)>> {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else { return Ok(Vec::new()) };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let file = entry.file_name();
        let Some(rest) = file.to_str().and_then(|f| f.strip_prefix(name)?.strip_prefix('.')) else {
            continue;
        };
        let digits = rest.strip_suffix(".gz").unwrap_or(rest);
        let Some(number) = Some(digits).filter(|d| !d.is_empty() && numbered(d)) else { continue };
        let (Ok(number), Ok(about)) = (number.parse(), entry.metadata()) else { continue };
        if about.is_file() {
            found.push((about.modified()?, number, folder.join(&file)));
        }
    }
    Ok(found)
}

/// Bytes remembered of what was read last, to find out whether they are still there.
const TAIL_BYTES: usize = 256;
/// Stands in the input where a file begins anew; a reader tells of it as of any comment.
const ANEW: &[u8] =
    b"<!-- the file was cut short, rewritten or replaced by another: read from its beginning -->";

/// A plain file that is still being written: at its end `wait` is asked, and if it says so, reading goes on. A file
/// that was cut short, rewritten, or replaced by another of its name is read anew from its beginning; a comment in the
/// input says so.
#[derive(Debug)]
pub struct Follow<F> {
    path: PathBuf,
    file: File,
    wait: F,
    /// The last bytes that were read.
    tail: Vec<u8>,
    /// What is left to give of [`ANEW`].
    notice: &'static [u8],
    /// All that was there has been read.
    at_end: bool,
}

impl<F: FnMut() -> bool> Follow<F> {
    /// Follows `path`. `wait` pauses for as long as it likes and returns whether to look again; it may end the input at
    /// any time by `false`.
    ///
    /// # Errors
    /// The system's, from opening.
    pub fn new(path: &Path, wait: F) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(Self { path: path.to_owned(), file, wait, tail: Vec::new(), notice: &[], at_end: false })
    }

    /// True if there may be more to read at once.
    fn begin_anew(&mut self) -> io::Result<bool> {
        let here = self.file.metadata()?;
        let position = self.file.stream_position()?;
        if here.len() < position || !holds(&self.file, position, &self.tail)? {
            self.file.rewind()?;
        } else {
            // Another file of that name; none yet is as good as no change.
            let Ok(file) = File::open(&self.path) else { return Ok(false) };
            if same(&here, &file.metadata()?) {
                return Ok(false);
            }
            self.file = file;
        }
        (self.notice, self.at_end) = (ANEW, false);
        self.tail.clear();
        Ok(true)
    }

    fn remember(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
        let over = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..over);
    }
}

/// Whether these bytes are still before a position.
#[cfg(unix)]
fn holds(file: &File, position: u64, tail: &[u8]) -> io::Result<bool> {
    use std::os::unix::fs::FileExt;
    // A pipe has no places.
    if !file.metadata()?.is_file() {
        return Ok(true);
    }
    let mut now = vec![0; tail.len()];
    match file.read_exact_at(&mut now, position.saturating_sub(tail.len() as u64)) {
        Ok(()) => Ok(now == tail),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(not(unix))]
fn holds(_: &File, _: u64, _: &[u8]) -> io::Result<bool> {
    Ok(true)
}

#[cfg(unix)]
fn same(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn same(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

impl<F: FnMut() -> bool> Read for Follow<F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.notice.is_empty() || buf.is_empty() {
                return self.notice.read(buf);
            }
            // What was rewritten may be longer than what was read.
            if self.at_end && self.begin_anew()? {
                continue;
            }
            let n = self.file.read(buf)?;
            if n > 0 {
                self.at_end = false;
                self.remember(&buf[..n]);
                return Ok(n);
            }
            if !self.begin_anew()? {
                self.at_end = true;
                if !(self.wait)() {
                    return Ok(0);
                }
            }
        }
    }
}
