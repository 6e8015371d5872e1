//! The verbose log's disk: full, of limited size, slow.

use crate::child;
use metronome_gc::{Collect, Heap, Payload};
use std::path::Path;

/// Runs cycles whose events go to `log`; what the statistics say of the log.
fn cycles(log: &Path, n: u64) -> Option<String> {
    let path = log.to_str().unwrap();
    let heap = Heap::builder().heap_bytes(8 << 20).set("verbose-gc", path).build().unwrap();
    heap.enter(|m| {
        for i in 0..n {
            assert_eq!(m.alloc(Payload(i)).unwrap().0, i);
            m.collect(Collect::Cycle).unwrap();
        }
    });
    // A disk that is stuck is given up after some seconds, for which each of these waits.
    let mut stats = heap.stats();
    for _ in 0..4 {
        if stats.log_error.is_none() {
            stats = heap.stats();
        }
    }
    assert!(stats.cycles >= n && stats.quanta >= n, "{stats:?}");
    stats.log_error
}

#[test]
fn a_full_disk_ends_the_log_and_nothing_else() {
    let error = cycles(Path::new("/dev/full"), 5).expect("the error is told");
    assert!(error.contains("No space left"), "{error}");
}

#[test]
fn a_limit_on_the_files_size_ends_the_log_where_it_is() {
    const LIMIT: u64 = 4096;
    if child::part().is_none() {
        child::run(
            "disk::a_limit_on_the_files_size_ends_the_log_where_it_is",
            "all",
            &[(libc::RLIMIT_FSIZE, LIMIT)],
        );
        return;
    }
    // SAFETY: ignoring a signal.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let path = std::env::temp_dir().join(format!("metronome-limited-{}", std::process::id()));
    let error = cycles(&path, 30).expect("the error is told");
    assert!(error.contains("File too large"), "{error}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), LIMIT);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_pipe_that_nobody_reads_ends_the_log_and_holds_up_nobody_for_ever() {
    let path = std::env::temp_dir().join(format!("metronome-pipe-{}", std::process::id()));
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a path that ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0, "{}", std::io::Error::last_os_error());
    // A reader that does not read: opened for both, so that opening waits for nobody. A page is all that it holds.
    let pipe = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    // SAFETY: a descriptor of ours.
    unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&pipe), libc::F_SETPIPE_SZ, 4096) };
    let error = cycles(&path, 60);
    std::fs::remove_file(&path).unwrap();
    drop(pipe);
    println!("{error:?}");
    assert!(error.is_some(), "a log that is not written is not said");
}
