//! The watcher of low memory on forged trees of `/proc` and control groups, with the kernel's real eventfds, inotify
//! and triggers; `real` looks at this machine's own files. What it does not have is printed as skipped.

#[path = "pressure/real.rs"]
mod real;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use metronome_gc::pressure::cgroup::MemoryEvents;
use metronome_gc::pressure::psi::Trigger;
use metronome_gc::pressure::{Absence, Cause, Method, Options, Source, State, Wake, Waker, Watcher};

/// Long enough never to be waited for in full unless the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A forged `/`, removed at the end.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[(&str, &str)]) -> Tree {
        let tree =
            Tree(std::env::temp_dir().join(format!("metronome-pressure-{}-{name}", std::process::id())));
        let _ = fs::remove_dir_all(&tree.0);
        fs::create_dir_all(&tree.0).unwrap();
        files.iter().for_each(|(path, text)| tree.put(path, text));
        tree
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap()
    }

    fn watcher(&self) -> Watcher {
        Watcher::new(Options { root: self.0.clone(), ..Options::default() }).unwrap()
    }

    /// The states of all sources, in their order.
    fn states(&self) -> Vec<State> {
        let watcher = self.watcher();
        let sources: Vec<_> = watcher.sources().iter().map(|report| report.source).collect();
        assert_eq!(sources, Source::ALL);
        for report in watcher.sources() {
            assert!(report.file.as_ref().is_none_or(|file| file.starts_with(&self.0)), "{report}");
        }
        watcher.sources().iter().map(|report| report.state.clone()).collect()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 900 kB\n");
const PSI: &str =
    "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
const EVENTS: &str = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n";
const V2_MOUNT: (&str, &str) =
    ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
const V2_GROUP: (&str, &str) = ("proc/self/cgroup", "0::/user.slice/app\n");
const APP: &str = "sys/fs/cgroup/user.slice/app";

fn sampled() -> State {
    State::Watched(Method::Sampled { every: Duration::from_secs(1) })
}

fn trigger() -> State {
    let trigger = Trigger { stall: Duration::from_millis(150), window: Duration::from_secs(1) };
    State::Watched(Method::Trigger { trigger, unprivileged: false })
}

fn changes() -> State {
    State::Watched(Method::Changes { inotify: true })
}

fn absent(why: Absence) -> State {
    State::Absent(why)
}

#[test]
fn an_empty_machine_has_no_source_and_the_waker_works() {
    let tree = Tree::new("empty", &[]);
    let none = || absent(Absence::NoGroup);
    assert_eq!(
        tree.states(),
        [none(), absent(Absence::NoFile), none(), none(), none(), absent(Absence::NoFile)]
    );
    let mut watcher = tree.watcher();
    let waker = watcher.waker();
    let waiting = std::thread::spawn(move || watcher.wait(None));
    waker.wake();
    assert_eq!(waiting.join().unwrap(), Wake { woken: true, low: None });
    // The watcher is gone.
    waker.wake();
}

#[test]
fn a_root_that_does_not_exist_is_an_empty_machine() {
    let options = Options { root: PathBuf::from("/nonexistent/metronome"), ..Options::default() };
    let watcher = Watcher::new(options).unwrap();
    assert!(watcher.sources().iter().all(|report| !report.is_watched()));
}

#[test]
fn version_two() {
    let tree = Tree::new("v2", &[MEMINFO, V2_MOUNT, V2_GROUP, ("proc/pressure/memory", PSI)]);
    for (file, text) in [
        ("memory.pressure", PSI),
        ("memory.events", EVENTS),
        ("memory.max", "max\n"),
        ("memory.current", "4096\n"),
    ] {
        tree.put(&format!("{APP}/{file}"), text);
    }
    let redundant = absent(Absence::Redundant { by: Source::GroupStall });
    assert_eq!(
        tree.states(),
        [trigger(), redundant, changes(), absent(Absence::NoGroup), sampled(), sampled()]
    );
    // What the kernel would have got; the system's file is left alone.
    assert!(tree.text(&format!("{APP}/memory.pressure")).starts_with("some 150000 1000000\n"));
    assert_eq!(tree.text("proc/pressure/memory"), PSI);
}

#[test]
fn version_one_and_hybrid() {
    let v1 = "sys/fs/cgroup/memory/docker/77";
    let hybrid = "5:memory,hugetlb:/docker/77\n2:cpu:/\n0::/docker/77\n";
    let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory,hugetlb\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let tree = Tree::new(
        "hybrid",
        &[
            MEMINFO,
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", hybrid),
            ("proc/pressure/memory", PSI),
        ],
    );
    for (file, text) in [
        ("memory.pressure_level", ""),
        ("cgroup.event_control", ""),
        ("memory.usage_in_bytes", "5\n"),
        ("memory.limit_in_bytes", "9223372036854771712\n"),
    ] {
        tree.put(&format!("{v1}/{file}"), text);
    }
    // The unified hierarchy is there, without the memory controller and without PSI of groups.
    fs::create_dir_all(tree.0.join("sys/fs/cgroup/unified/docker/77")).unwrap();
    let missing = || absent(Absence::NoFile);
    let event_fd = State::Watched(Method::EventFd);
    assert_eq!(tree.states(), [missing(), trigger(), missing(), event_fd.clone(), sampled(), sampled()]);
    assert!(tree.text("proc/pressure/memory").starts_with("some 150000 1000000\n"));

    // Version 1 alone.
    tree.put("proc/self/cgroup", "5:memory,hugetlb:/docker/77\n");
    tree.put("proc/pressure/memory", PSI);
    let none = || absent(Absence::NoGroup);
    assert_eq!(tree.states(), [none(), trigger(), none(), event_fd, sampled(), sampled()]);
}

#[test]
fn a_container_with_a_namespace_of_its_own() {
    let tree = Tree::new(
        "container",
        &[
            MEMINFO,
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", "9 8 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n"),
            ("sys/fs/cgroup/memory.events", EVENTS),
            ("sys/fs/cgroup/memory.pressure", PSI),
        ],
    );
    let states = tree.states();
    assert_eq!((&states[0], &states[2]), (&trigger(), &changes()));
}

#[test]
fn garbage_is_not_understood_and_nothing_is_written_into_it() {
    let garbage = "\u{0}\u{7f}??? 99999999999999999999999 -1 max\n";
    let tree = Tree::new(
        "garbage",
        &[("proc/meminfo", garbage), V2_MOUNT, V2_GROUP, ("proc/pressure/memory", garbage)],
    );
    for file in ["memory.pressure", "memory.events", "memory.max", "memory.current", "memory.stat"] {
        tree.put(&format!("{APP}/{file}"), garbage);
    }
    let odd = || absent(Absence::NotUnderstood);
    // The group's use is read again and again: it may become readable.
    assert_eq!(tree.states(), [odd(), odd(), odd(), absent(Absence::NoGroup), sampled(), odd()]);
    assert_eq!(tree.text(&format!("{APP}/memory.pressure")), garbage);
    assert_eq!(tree.watcher().wait(Some(Duration::ZERO)), Wake::default());
    // Garbage where the groups are named.
    tree.put("proc/self/cgroup", garbage);
    tree.put("proc/self/mountinfo", garbage);
    assert_eq!(tree.states()[0], absent(Absence::NoGroup));
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let tree = Tree::new("unreadable", &[V2_MOUNT, V2_GROUP]);
    // Folders, because root may read any file.
    for file in ["proc/meminfo", "proc/pressure/memory"] {
        fs::create_dir_all(tree.0.join(file)).unwrap();
    }
    for file in ["memory.pressure", "memory.events", "memory.events.local", "memory.current", "memory.max"] {
        fs::create_dir_all(tree.0.join(APP).join(file)).unwrap();
    }
    let states = tree.states();
    for at in [0, 1, 2, 5] {
        assert!(matches!(states[at], State::Absent(Absence::Refused { .. })), "{:?}", states[at]);
    }
    assert_eq!(tree.watcher().wait(Some(Duration::ZERO)), Wake::default());
}

#[test]
fn a_pipe_in_place_of_a_file_does_not_hold_the_watcher_up() {
    let tree = Tree::new("pipe", &[("proc/keep", "")]);
    let made = Command::new("mkfifo").arg(tree.0.join("proc/meminfo")).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: mkfifo does not work here");
        return;
    }
    assert!(matches!(tree.states()[5], State::Absent(_)));
}

#[test]
fn wakes_are_kept_and_count_as_one() {
    let mut watcher = Tree::new("wakes", &[]).watcher();
    assert_eq!(watcher.wait(Some(Duration::ZERO)), Wake::default());
    let threads: Vec<_> = (0..4)
        .map(|_| watcher.waker())
        .map(|waker| std::thread::spawn(move || (0..1000).for_each(|_| waker.wake())))
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert!(watcher.wait(None).woken);
    assert!(!watcher.wait(Some(Duration::ZERO)).woken);
    let begun = Instant::now();
    assert_eq!(watcher.wait(Some(Duration::from_millis(30))), Wake::default());
    assert!(begun.elapsed() >= Duration::from_millis(30), "the wait ended before its time");
    // Beyond what the clock can count: for ever, until somebody wakes.
    watcher.waker().wake();
    assert!(watcher.wait(Some(Duration::MAX)).woken);
}

static IN_HANDLER: OnceLock<Waker> = OnceLock::new();

extern "C" fn wake_in_handler(_: libc::c_int) {
    if let Some(waker) = IN_HANDLER.get() {
        waker.wake();
    }
}

extern "C" fn do_nothing(_: libc::c_int) {}

#[test]
fn a_signal_does_not_end_the_wait_but_its_handler_may() {
    let install = |signal, handler: extern "C" fn(libc::c_int)| {
        // SAFETY: both handlers only do what a signal handler may: one reads an initialised static and makes a system
        // call, the other does nothing.
        let old = unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
        assert_ne!(old, libc::SIG_ERR);
    };
    let mut watcher = Tree::new("signal", &[]).watcher();
    IN_HANDLER.set(watcher.waker()).expect("set once");
    install(libc::SIGUSR1, do_nothing);
    install(libc::SIGUSR2, wake_in_handler);
    let (tell, told) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        // SAFETY: no arguments, no effect.
        tell.send(unsafe { libc::gettid() }).expect("the test waits for it");
        watcher.wait(Some(PATIENCE))
    });
    let thread = told.recv().expect("the thread says its number");
    let signal = |signal: libc::c_int| {
        // SAFETY: sends a signal with a handler to a thread of this process; an error (the thread is gone) is looked at.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
        assert_eq!(sent, 0);
    };
    for _ in 0..20 {
        signal(libc::SIGUSR1);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!waiting.is_finished(), "a signal ended the wait");
    signal(libc::SIGUSR2);
    assert_eq!(waiting.join().unwrap(), Wake { woken: true, low: None });
}

#[test]
fn a_change_of_memory_events_ends_the_wait() {
    let tree = Tree::new("inotify", &[V2_MOUNT, V2_GROUP]);
    let file = format!("{APP}/memory.events");
    tree.put(&file, EVENTS);
    let mut watcher = tree.watcher();
    if watcher.sources()[2].state != changes() {
        eprintln!("skipped: {}", watcher.sources()[2]);
        return;
    }
    let waker = watcher.waker();
    let waiting = std::thread::spawn(move || (watcher.wait(Some(PATIENCE)), watcher));
    // Not news: the same figures, and half a file.
    tree.put(&file, EVENTS);
    tree.put(&file, "low");
    tree.put(&file, "low 0\nhigh 2\nmax 0\noom 0\noom_kill 1\n");
    let (wake, mut watcher) = waiting.join().unwrap();
    let low = wake.low.expect("the wait ends by the change, not by its time");
    assert_eq!((wake.woken, low.source, &low.file), (false, Source::GroupEvents, &tree.0.join(&file)));
    assert_eq!(
        low.cause,
        Cause::Events { added: MemoryEvents { high: 2, oom_kill: 1, ..Default::default() } }
    );
    assert!(low.to_string().contains("2 high") && low.to_string().contains("1 processes killed"), "{low}");
    // Told once.
    waker.wake();
    assert_eq!(watcher.wait(Some(PATIENCE)), Wake { woken: true, low: None });
}

#[test]
fn low_available_memory_ends_the_wait_at_a_sample() {
    let tree = Tree::new("sample", &[MEMINFO]);
    let every = Duration::from_millis(10);
    let mut watcher =
        Watcher::new(Options { root: tree.0.clone(), sample_every: every, ..Options::default() }).unwrap();
    let waiting = std::thread::spawn(move || watcher.wait(Some(PATIENCE)));
    tree.put("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 49 kB\n");
    let low = waiting.join().unwrap().low.expect("the wait ends by the sample, not by its time");
    assert_eq!(low.cause, Cause::Available { available: 49 << 10, total: 1000 << 10 });
}

#[test]
fn levels_are_switched_off_by_zero() {
    let tree = Tree::new("off", &[("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 0 kB\n")]);
    let options =
        Options { root: tree.0.clone(), available_percent: 0, group_percent: 0, ..Options::default() };
    let mut watcher = Watcher::new(options).unwrap();
    let states: Vec<_> = watcher.sources()[4..].iter().map(|report| &report.state).collect();
    assert_eq!(states, [&absent(Absence::SwitchedOff); 2]);
    assert_eq!(watcher.wait(Some(Duration::ZERO)), Wake::default());
}
