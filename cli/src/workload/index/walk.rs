//! Finding the files below a directory: any directory, with links, loops, sockets and what may not be read.
//!
//! Symbolic links are not followed, so that there are no loops and each file is found once.

use std::fs;
use std::path::{Path, PathBuf};

/// Names of directories in which version control systems keep their data.
const VCS: [&str; 7] = [".git", ".hg", ".svn", ".bzr", ".jj", "_darcs", "CVS"];

// Reasons for which something is skipped.
pub(super) const VCS_DIRECTORY: &str = "version control directories";
pub(super) const TARGET_DIRECTORY: &str = "target directories";
pub(super) const UNREADABLE_DIRECTORY: &str = "unreadable directories";
pub(super) const UNREADABLE: &str = "unreadable";
pub(super) const LINK: &str = "symbolic links";
pub(super) const SPECIAL: &str = "not regular files";
pub(super) const BINARY: &str = "binary";
pub(super) const EMPTY: &str = "empty";
pub(super) const OVER_BUDGET: &str = "over the budget";

/// What a walk comes across.
pub(super) enum Found<'a> {
    /// A regular file.
    File(&'a Path),
    /// Something that is skipped, and why.
    Skipped(&'a Path, &'static str),
}

/// Visits everything below `root`, in an order that depends on the names only. Ends when `visit` returns false.
///
/// # Errors
/// If `root` itself cannot be read.
pub(super) fn walk(root: &Path, visit: &mut dyn FnMut(Found<'_>) -> bool) -> std::io::Result<()> {
    // Descending order of names in each directory: the last is taken first.
    let mut waiting = entries(root)?;
    while let Some((path, kind)) = waiting.pop() {
        let on = match kind {
            Kind::File => visit(Found::File(&path)),
            Kind::Skip(why) => visit(Found::Skipped(&path, why)),
            Kind::Directory => match entries(&path) {
                Ok(inside) => {
                    waiting.extend(inside);
                    true
                }
                Err(_) => visit(Found::Skipped(&path, UNREADABLE_DIRECTORY)),
            },
        };
        if !on {
            break;
        }
    }
    Ok(())
}

enum Kind {
    File,
    Directory,
    Skip(&'static str),
}

fn entries(directory: &Path) -> std::io::Result<Vec<(PathBuf, Kind)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        // An entry that cannot be read tells no name; what could be read counts.
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        let kind = match entry.file_type() {
            Err(_) => Kind::Skip(UNREADABLE),
            Ok(t) if t.is_symlink() => Kind::Skip(LINK),
            Ok(t) if t.is_dir() && VCS.iter().any(|v| name == *v) => Kind::Skip(VCS_DIRECTORY),
            Ok(t) if t.is_dir() && name == "target" => Kind::Skip(TARGET_DIRECTORY),
            Ok(t) if t.is_dir() => Kind::Directory,
            Ok(t) if t.is_file() => Kind::File,
            Ok(_) => Kind::Skip(SPECIAL),
        };
        found.push((entry.path(), kind));
    }
    found.sort_unstable_by(|a, b| b.0.cmp(&a.0));
    Ok(found)
}
