//! A test in a process of its own: this binary once more, with one test and one thread, limits and another user.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Set in the child: which of a test's parts it is to play.
const PART: &str = "METRONOME_TEST_PART";
/// A user without rights, who owns no process.
const NOBODY: u32 = 65_534;

/// The part that this process is to play, in a child.
pub(crate) fn part() -> Option<String> {
    std::env::var(PART).ok()
}

/// Runs the test `name` of this binary with limits; what it printed. As an unprivileged user if this process may choose one.
pub(crate) fn run(name: &str, part: &str, limits: &[(libc::__rlimit_resource_t, u64)]) -> String {
    let limits = limits.to_vec();
    let exe = std::env::current_exe().unwrap();
    let mut command = Command::new(exe);
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(PART, part).current_dir("/");
    // Each arena of glibc reserves 64 MiB at whichever moment threads compete, and large blocks leave holes in it once the
    // first of them has been freed: memory that no heap left behind.
    command.env("MALLOC_ARENA_MAX", "1").env("MALLOC_MMAP_THRESHOLD_", "65536");
    // SAFETY: between fork and exec only system calls that are safe there.
    unsafe {
        if libc::geteuid() == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.pre_exec(move || {
            for &(resource, n) in &limits {
                let limit = libc::rlimit { rlim_cur: n, rlim_max: n };
                if libc::setrlimit(resource, &raw const limit) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    let out = match command.output() {
        Ok(out) => out,
        Err(e) => {
            println!("skipped: no such child here: {e}");
            return String::new();
        }
    };
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "part {part} of {name}: {}\n{text}", out.status);
    text
}

/// Threads, mapped lines and bytes, open files of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Census {
    pub(crate) threads: usize,
    pub(crate) maps: usize,
    pub(crate) kib: u64,
    pub(crate) files: usize,
}

pub(crate) fn census() -> Census {
    let count = |p: &str| std::fs::read_dir(p).map_or(0, Iterator::count);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|l| l.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    Census {
        threads: field("Threads:") as usize,
        maps: std::fs::read_to_string("/proc/self/maps").unwrap().lines().count(),
        kib: field("VmSize:"),
        files: count("/proc/self/fd"),
    }
}

/// Does `f` many times, and finds the same threads and files as before and no more memory than the allocator's whims.
pub(crate) fn leaves_nothing(what: &str, mut f: impl FnMut()) {
    const ROUNDS: usize = 40;
    // Stacks that the C library keeps for later threads, and its arenas.
    (0..8).for_each(|_| f());
    let before = census();
    (0..ROUNDS).for_each(|_| f());
    let mut after = census();
    // A thread that was joined may be about to leave the system's list.
    for _ in 0..1000 {
        if after.threads <= before.threads {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        after = census();
    }
    assert_eq!((after.threads, after.files), (before.threads, before.files), "{what}: {before:?} {after:?}");
    assert!(after.maps < before.maps + ROUNDS / 2, "{what}: {before:?} {after:?}");
    assert!(after.kib < before.kib + (4 << 10), "{what}: {before:?} {after:?}");
}
