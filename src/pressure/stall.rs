//! Pressure stall information as a source: one trigger, in the group's file or else in the system's.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::files::{self, Root};
use super::limiter::Gate;
use super::options::Options;
use super::psi::{Pressure, Trigger};
use super::report::{Absence, Cause, Method, Source, SourceReport};

/// A trigger that the kernel took; it lives as long as its file is open.
#[derive(Debug)]
pub(super) struct Stalls {
    pub(super) source: Source,
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) gate: Gate,
    trigger: Trigger,
}

impl Stalls {
    pub(super) fn cause(&self) -> Cause {
        let text = files::read(&self.path, files::VALUES).ok();
        Cause::Stalled { trigger: self.trigger, pressure: text.as_deref().and_then(Pressure::parse) }
    }
}

/// The group's file first: the system's also counts threads of others, who may be short of memory by a limit of theirs.
pub(super) fn find(
    root: &Root,
    groups: &[PathBuf],
    options: &Options,
) -> (Option<Stalls>, [SourceReport; 2]) {
    let candidates: Vec<_> = groups.iter().map(|group| group.join("memory.pressure")).collect();
    let own = candidates.iter().find(|path| path.exists()).or(candidates.first());
    let (mut stalls, group) = match own {
        Some(path) => arm(Source::GroupStall, path, options),
        None => (None, SourceReport::absent(Source::GroupStall, None, Absence::NoGroup)),
    };
    let path = root.at("/proc/pressure/memory");
    let system = if stalls.is_some() {
        SourceReport::absent(Source::SystemStall, Some(path), Absence::Redundant { by: Source::GroupStall })
    } else {
        let (found, report) = arm(Source::SystemStall, &path, options);
        stalls = found;
        report
    };
    (stalls, [group, system])
}

fn arm(source: Source, path: &Path, options: &Options) -> (Option<Stalls>, SourceReport) {
    // Nothing is written into a file that is not what it is called.
    match files::read(path, files::VALUES) {
        Err(error) => return (None, SourceReport::refused(source, path.to_owned(), &error)),
        Ok(text) if Pressure::parse(&text).is_none() => {
            return (None, SourceReport::absent(source, Some(path.to_owned()), Absence::NotUnderstood));
        }
        Ok(_) => {}
    }
    match place(Trigger { stall: options.stall, window: options.window }, |trigger| write(path, trigger)) {
        Err(error) => (None, SourceReport::refused(source, path.to_owned(), &error)),
        Ok((file, trigger, unprivileged)) => {
            let report = SourceReport::watched(source, path, Method::Trigger { trigger, unprivileged });
            (
                Some(Stalls { source, path: path.to_owned(), file, gate: Gate::new(options.gap), trigger }),
                report,
            )
        }
    }
}

/// Places the trigger, or the one that needs no privilege. The error is the last one's.
fn place<T>(wanted: Trigger, write: impl Fn(Trigger) -> io::Result<T>) -> io::Result<(T, Trigger, bool)> {
    let fallback = wanted.unprivileged();
    match write(wanted) {
        Ok(file) => Ok((file, wanted, false)),
        Err(error) if fallback == wanted => Err(error),
        Err(_) => write(fallback).map(|file| (file, fallback, true)),
    }
}

fn write(path: &Path, trigger: Trigger) -> io::Result<File> {
    let mut file = files::open(path, true)?;
    // The kernel puts its end of text in place of the last byte.
    files::command(&mut file, &format!("{trigger}\n"))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::time::Duration;

    fn place_on(kernel: impl Fn(Trigger) -> bool, wanted: Trigger) -> (Option<(Trigger, bool)>, Vec<String>) {
        let tried = RefCell::new(Vec::new());
        let placed = place(wanted, |t| {
            tried.borrow_mut().push(t.to_string());
            kernel(t).then_some(()).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
        });
        (placed.ok().map(|((), t, unprivileged)| (t, unprivileged)), tried.into_inner())
    }

    #[test]
    fn the_window_without_privilege_is_the_second_try() {
        let wanted = Trigger { stall: Duration::from_millis(150), window: Duration::from_secs(1) };
        let (placed, tried) = place_on(|_| true, wanted);
        assert_eq!((placed, tried.len()), (Some((wanted, false)), 1));
        // A kernel since 6.4, without the capability.
        let (placed, tried) = place_on(|t| t.window.as_micros() % 2_000_000 == 0, wanted);
        assert_eq!(placed, Some((wanted.unprivileged(), true)));
        assert_eq!(tried, ["some 150000 1000000", "some 300000 2000000"]);
        // An older one.
        assert_eq!(place_on(|_| false, wanted).0, None);
        // A window that needs none is tried once.
        let (placed, tried) = place_on(|_| false, wanted.unprivileged());
        assert_eq!((placed, tried.len()), (None, 1));
    }
}
