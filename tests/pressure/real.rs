//! The kernel's own files.

use super::*;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;

use metronome_gc::pressure::SourceReport;
use metronome_gc::pressure::psi::Pressure;

/// Whether the kernel takes this trigger from this process.
fn takes(file: &Path, text: &str) -> bool {
    let opened = fs::OpenOptions::new().read(true).write(true).open(file);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).is_ok()
}

/// Compares the trigger that a watcher placed in the real file with what the kernel takes from this process directly.
fn check_the_real_trigger() {
    let mut watcher = Watcher::new(Options::default()).unwrap();
    for report in watcher.sources() {
        println!("{report}");
    }
    let [group, system] = [&watcher.sources()[0], &watcher.sources()[1]];
    let used: &SourceReport = if group.is_watched() { group } else { system };
    let file = used.file.clone().expect("the place of the system's file is known");
    let read = fs::read_to_string(&file);
    if read.is_err() {
        println!("skipped: {} cannot be read here ({used})", file.display());
        assert!(!used.is_watched());
        return;
    }
    let expected = match (takes(&file, "some 150000 1000000\n"), takes(&file, "some 300000 2000000\n")) {
        (true, _) => Some((1, false)),
        (false, true) => Some((2, true)),
        (false, false) => None,
    };
    let placed = match &used.state {
        State::Watched(Method::Trigger { trigger, unprivileged }) => {
            Some((trigger.window.as_secs(), *unprivileged))
        }
        State::Absent(why) => {
            println!("skipped: no trigger here: {why}");
            None
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(placed, expected, "{used}");
    // The real files can be polled: the waker ends the wait, and no file that is lost makes it spin.
    watcher.waker().wake();
    assert!(watcher.wait(Some(PATIENCE)).woken);
    assert!(watcher.sources().iter().all(|report| report.state != absent(Absence::Lost)));
}

#[test]
fn the_real_files_of_this_machine() {
    check_the_real_trigger();
}

#[test]
fn the_real_files_without_privilege() {
    const CHILD: &str = "METRONOME_TEST_UNPRIVILEGED";
    const NOBODY: u32 = 65_534;
    if std::env::var_os(CHILD).is_some() {
        check_the_real_trigger();
        return;
    }
    // SAFETY: no arguments, no effect.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can give up its privileges (then the other test is the one without)");
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "real::the_real_files_without_privilege", "--nocapture"])
        .env(CHILD, "1")
        .current_dir("/")
        .gid(NOBODY)
        .uid(NOBODY)
        .output();
    let output = match child {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: cannot run this test as nobody: {error}");
            return;
        }
    };
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// File pages that are mapped, dropped and read again, over and over: the thread waits for memory that it had, which
/// the kernel counts as a stall.
struct Thrash {
    at: *mut libc::c_void,
    file: PathBuf,
}

impl Thrash {
    const BYTES: usize = 16 << 20;

    fn new() -> Thrash {
        // On a disk, which the temporary folder may not be.
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("thrash-{}", std::process::id()));
        fs::write(&file, vec![1; Self::BYTES]).unwrap();
        let open = fs::File::open(&file).unwrap();
        open.sync_all().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&open);
        // SAFETY: a new mapping of an open file that nobody changes; unmapped in `drop` only.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), Self::BYTES, libc::PROT_READ, libc::MAP_SHARED, fd, 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        Thrash { at, file }
    }

    fn once(&self) {
        // SAFETY: the mapping is of this size, and nobody writes to the file.
        let bytes = unsafe { std::slice::from_raw_parts(self.at.cast::<u8>(), Self::BYTES) };
        // Twice, so that the pages count as in use.
        let sum = |_| bytes.iter().step_by(4096).map(|&b| usize::from(b)).sum::<usize>();
        assert_eq!((0..2).map(sum).sum::<usize>(), 2 * Self::BYTES / 4096);
        // SAFETY: the pages of the mapping; their content comes back from the file. An error leaves them.
        unsafe { libc::madvise(self.at, Self::BYTES, libc::MADV_PAGEOUT) };
    }
}

impl Drop for Thrash {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size, and no slice of it is alive.
        unsafe { libc::munmap(self.at, Self::BYTES) };
        let _ = fs::remove_file(&self.file);
    }
}

#[test]
fn a_real_stall_ends_the_wait() {
    let stall = Duration::from_micros(500);
    let options = Options { stall, available_percent: 0, group_percent: 0, ..Options::default() };
    let probe = Watcher::new(options.clone()).unwrap();
    let Some(report) = probe.sources()[..2].iter().find(|report| report.is_watched()).cloned() else {
        println!("skipped: {}; {}", probe.sources()[0], probe.sources()[1]);
        return;
    };
    drop(probe);
    let file = report.file.clone().expect("what is watched is a file");
    let total = || {
        let text = fs::read_to_string(&file).unwrap();
        Pressure::parse(&text).expect("a kernel wrote it").some.total_us
    };
    let before = total();
    let mut watcher = Watcher::new(options).unwrap();
    let (thrash, begun) = (Thrash::new(), Instant::now());
    let waiting = std::thread::spawn(move || {
        loop {
            let wake = watcher.wait(Some(PATIENCE));
            match wake.low {
                Some(low) if !matches!(low.cause, Cause::Stalled { .. }) => println!("also: {low}"),
                other => return other,
            }
        }
    });
    while !waiting.is_finished() {
        thrash.once();
        if begun.elapsed() > PATIENCE / 6 && total() - before < 10_000 {
            // Perhaps no window had enough: the folder is in memory, or the kernel does not page out.
            println!("skipped: {} us of stall could be made on this machine", total() - before);
            return;
        }
    }
    let low = waiting.join().unwrap().expect("the wait ends by the trigger, not by its time");
    println!("{low}");
    assert_eq!((low.source, &low.file), (report.source, &file));
    let Cause::Stalled { trigger, pressure: Some(pressure) } = low.cause else { panic!("{low}") };
    assert!(trigger.stall >= stall);
    assert!(pressure.some.total_us >= before + u64::try_from(trigger.stall.as_micros()).unwrap(), "{low}");
}
