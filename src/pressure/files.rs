//! Reading and writing files of the kernel, or of a forged tree.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Longest text taken from a file of values.
pub(super) const VALUES: u64 = 64 << 10;
/// Longest text taken from the list of mounts.
pub(super) const MOUNTS: u64 = 4 << 20;

/// The folder that stands for `/`.
#[derive(Debug, Clone)]
pub(super) struct Root(pub(super) PathBuf);

impl Root {
    /// Where an absolute path is below this root.
    pub(super) fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// Opens without waiting (a forged tree may hold a pipe) and without leaving the file to child processes.
pub(super) fn open(path: &Path, write: bool) -> io::Result<File> {
    options().read(true).write(write).open(path)
}

/// The same for a file that cannot be read.
pub(super) fn open_to_write(path: &Path) -> io::Result<File> {
    options().write(true).open(path)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    options
}

/// The first `limit` bytes of a file as text; bytes that are not UTF-8 are replaced.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<String> {
    text(&mut open(path, false)?, limit)
}

/// The same from the beginning of an open file.
pub(super) fn reread(file: &mut File, limit: u64) -> io::Result<String> {
    file.rewind()?;
    text(file, limit)
}

fn text(file: &mut File, limit: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes a command in one piece, as the kernel wants it.
pub(super) fn command(file: &mut File, text: &str) -> io::Result<()> {
    match file.write(text.as_bytes())? {
        n if n == text.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}
