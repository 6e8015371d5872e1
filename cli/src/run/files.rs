//! The files that a run writes: none is another one, and results replace an older file only when they are complete.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Links followed at most, as the kernel does.
const LINKS_MAX: usize = 40;
/// How long one waits until a full pipe is tried again.
const PIPE_WAIT: Duration = Duration::from_millis(5);

/// What makes two names one file.
#[derive(Debug, PartialEq, Eq)]
enum Identity {
    /// Device and number of what is there.
    There(u64, u64),
    /// Where it would be made.
    Absent(PathBuf),
}

/// The name behind a chain of symbolic links, whether anything is there or not.
fn behind_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(link) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(link);
    }
    path
}

/// `None` for devices: several may write to one.
fn identity(path: &Path) -> Option<Identity> {
    if let Ok(there) = fs::metadata(path) {
        return (!there.file_type().is_char_device()).then(|| Identity::There(there.dev(), there.ino()));
    }
    let path = behind_links(path);
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Without a parent it cannot be made, which is said when that is tried.
    Some(Identity::Absent(fs::canonicalize(parent).ok()?.join(path.file_name()?)))
}

/// Refuses one file for two purposes.
///
/// # Errors
/// Which flags name it.
pub(crate) fn distinct(files: &[(&str, &Path)]) -> Result<(), String> {
    let known: Vec<_> = files.iter().map(|(flag, path)| (flag, path, identity(path))).collect();
    for (i, (flag, path, id)) in known.iter().enumerate() {
        if let Some((other, ..)) = known[..i].iter().find(|(.., other)| id.is_some() && other == id) {
            return Err(format!(
                "{other} and {flag} name the same file {}: choose two files",
                path.display()
            ));
        }
    }
    Ok(())
}

/// A file that the results go into at the end of a run.
#[derive(Debug)]
pub(crate) enum Results {
    /// Written beside it and renamed: for a regular file, and for one that is to be made.
    Renamed { target: PathBuf, temporary: PathBuf },
    /// Written as it is: pipes, devices, files with several names, folders in which none can be made.
    Direct(File),
}

impl Results {
    /// Finds out whether and how the file can be written, so that no run is lost for its name; leaves it as it is.
    ///
    /// # Errors
    /// The system's reason why it cannot be written.
    pub(crate) fn prepare(path: &Path) -> io::Result<Results> {
        let there = match fs::metadata(path) {
            Ok(there) => Some(there),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        // Non-blocking: a pipe that nobody reads is an error at once and not a hang. The results fit into a pipe.
        let open = || {
            let file = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path);
            file.map_err(|e| match e.raw_os_error() {
                Some(libc::ENXIO) => io::Error::other("nobody reads this pipe: start its reader first"),
                _ => e,
            })
        };
        let target = match &there {
            None => behind_links(path),
            Some(there) => {
                // Whether it may be written is its own matter, not its folder's. Links such as /dev/fd/3 lead to what
                // has no name of its own.
                let file = open()?;
                match fs::canonicalize(path) {
                    Ok(target) if there.is_file() && there.nlink() == 1 => target,
                    _ => return Ok(Results::Direct(file)),
                }
            }
        };
        let Some(name) = target.file_name() else { return Err(io::ErrorKind::InvalidInput.into()) };
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}.tmp", std::process::id()));
        let temporary = target.with_file_name(temporary);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(_) => {
                fs::remove_file(&temporary)?;
                Ok(Results::Renamed { target, temporary })
            }
            Err(_) if there.is_some() => Ok(Results::Direct(open()?)),
            Err(e) => Err(e),
        }
    }

    /// Writes the results.
    ///
    /// # Errors
    /// The system's reason; an older regular file is then as it was.
    pub(crate) fn write(self, text: &str) -> io::Result<()> {
        self.write_with(|out| out.write_all(text.as_bytes()))
    }

    /// Writes results that are made as they are written.
    ///
    /// # Errors
    /// As [`Results::write`], and those of `write`.
    pub(crate) fn write_with(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let mut out = self.begin()?;
        write(&mut out)?;
        out.finish()
    }

    /// Begins writing results that come bit by bit; nothing is replaced before [`Begun::finish`].
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn begin(self) -> io::Result<Begun> {
        let (file, rename) = match self {
            Results::Direct(file) => (file, None),
            Results::Renamed { target, temporary } => {
                let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
                (file, Some((target, temporary)))
            }
        };
        Ok(Begun { out: Some(BufWriter::new(Patient { file, begun: rename.is_some() })), rename })
    }
}

/// Results being written. Dropped, they leave an older regular file as it was, unless it had to be written directly and they
/// were long.
pub(crate) struct Begun {
    /// `None` when finished.
    out: Option<BufWriter<Patient>>,
    rename: Option<(PathBuf, PathBuf)>,
}

impl Write for Begun {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.as_mut().map_or_else(|| Err(io::ErrorKind::BrokenPipe.into()), |out| out.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Begun {
    /// The results are complete.
    ///
    /// # Errors
    /// The system's reason; an older regular file is then as it was.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let Some(mut out) = self.out.take() else { return Ok(()) };
        out.flush()?;
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.begin()?;
        let Some((target, temporary)) = &self.rename else { return Ok(()) };
        let file = file.file;
        if let Ok(old) = fs::metadata(target) {
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()?;
        fs::rename(temporary, target)?;
        self.rename = None;
        Ok(())
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(out) = self.out.take() {
            // Without writing what it still holds.
            drop(out.into_parts());
        }
        if let Some((_, temporary)) = &self.rename {
            // The error that led here is the one to tell.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Waits for the reader of a pipe, which is opened so that nobody hangs who only looks at it. Empties a regular file before
/// its first byte.
struct Patient {
    file: File,
    begun: bool,
}

impl Patient {
    fn begin(&mut self) -> io::Result<()> {
        if !self.begun && self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.begun = true;
        Ok(())
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begin()?;
        loop {
            match self.file.write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PIPE_WAIT),
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("metronome-files-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn names(&self) -> Vec<String> {
            let name = |e: io::Result<fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
            let mut names: Vec<String> = fs::read_dir(&self.0).unwrap().map(name).collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn one_file_under_two_names_is_found_out() {
        let dir = Scratch::new("same");
        let at = |name: &str| dir.0.join(name);
        fs::write(at("there"), "x").unwrap();
        fs::write(at("other"), "x").unwrap();
        fs::hard_link(at("there"), at("hard")).unwrap();
        fs::create_dir(at("sub")).unwrap();
        symlink("there", at("soft")).unwrap();
        symlink("absent", at("dangling")).unwrap();
        symlink("sub", at("way")).unwrap();
        for (a, b, same) in [
            ("there", "there", true),
            ("there", "hard", true),
            ("there", "soft", true),
            ("there", "sub/../there", true),
            ("absent", "absent", true),
            ("absent", "sub/../absent", true),
            ("absent", "dangling", true),
            ("sub/new", "way/new", true),
            ("there", "other", false),
            ("absent", "sub/absent", false),
            ("no/folder", "no/folder", false),
        ] {
            let (a, b) = (at(a), at(b));
            let result = distinct(&[("--a", &a), ("--b", &b)]);
            assert_eq!(result.is_err(), same, "{a:?} {b:?}: {result:?}");
        }
        assert!(distinct(&[("--a", Path::new("/dev/null")), ("--b", Path::new("/dev/null"))]).is_ok());
    }

    #[test]
    fn results_replace_a_file_at_the_end_and_leave_nothing_else() {
        let dir = Scratch::new("replace");
        let path = dir.0.join("out.json");
        let results = Results::prepare(&path).unwrap();
        assert!(dir.names().is_empty(), "nothing is made before there are results");
        results.write("one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("out.json", dir.0.join("link")).unwrap();
        let results = Results::prepare(&dir.0.join("link")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        results.write("two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(dir.names(), ["link", "out.json"]);
        assert!(fs::symlink_metadata(dir.0.join("link")).unwrap().is_symlink());
        // A file with two names keeps both.
        fs::hard_link(&path, dir.0.join("second")).unwrap();
        Results::prepare(&path).unwrap().write("3").unwrap();
        assert_eq!(fs::read_to_string(dir.0.join("second")).unwrap(), "3");
    }

    #[test]
    fn what_cannot_be_written_is_known_beforehand() {
        let dir = Scratch::new("cannot");
        assert!(Results::prepare(&dir.0.join("no/folder")).is_err());
        assert!(Results::prepare(&dir.0).is_err());
        assert!(matches!(Results::prepare(Path::new("/dev/null")), Ok(Results::Direct(_))));
    }
}
