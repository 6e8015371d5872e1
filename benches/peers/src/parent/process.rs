//! A child process with a time limit, and what it used.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What became of a child.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Whether it was ended because its time was over.
    pub(crate) timed_out: bool,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// From just before its start to its end.
    pub(crate) wall: Duration,
    /// Of all its threads.
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    /// Most that was resident at once. The kernel counts from the start of the process, so never less than this process
    /// had resident by then: some MiB.
    pub(crate) peak_rss_bytes: u64,
}

/// Runs the command; ends it when `limit` is over. A thread called `task` is given the `SCHED_FIFO` priority, if there
/// is one such and the system allows it: not every language can ask for it.
///
/// # Errors
/// Why it could not be started or waited for.
pub(crate) fn run(mut command: Command, limit: Duration, task: Option<(&str, i32)>) -> Result<Ended, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn().map_err(|e| format!("cannot start {command:?}: {e}"))?;
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let (over, told) = channel::<()>();
    let pid = child.id();
    let wanted = task.map(|(name, priority)| (name.to_owned(), priority));
    let guard = thread::spawn(move || watch(pid, limit, wanted, &told));
    let waited = wait_without_reaping(pid);
    let wall = start.elapsed();
    // The guard ends before the process is reaped: until then the id cannot be another process's.
    drop(over);
    let timed_out = guard.join().unwrap_or(false);
    waited?;
    let (status, usage) = reap(&mut child)?;
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    Ok(Ended {
        timed_out,
        status,
        stdout: text(stdout),
        stderr: text(stderr),
        wall,
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        peak_rss_bytes: usage.ru_maxrss as u64 * 1024,
    })
}

/// Reads a pipe to its end, so that its writer never waits.
fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is kept.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Ends the process when its time is over; gives its task the priority. Whether it had to be ended.
fn watch(pid: u32, limit: Duration, mut task: Option<(String, i32)>, over: &Receiver<()>) -> bool {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let wait = if task.is_some() { left.min(Duration::from_millis(20)) } else { left };
        match over.recv_timeout(wait) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) if Instant::now() >= end => {
                // SAFETY: the process was not reaped yet, so the id is its own.
                unsafe { libc::kill(pid as i32, libc::SIGKILL) };
                return true;
            }
            Err(RecvTimeoutError::Timeout) => {
                if task.as_ref().is_some_and(|(name, priority)| raise(pid, name, *priority)) {
                    task = None;
                }
            }
        }
    }
}

/// Gives the thread of this name the priority; whether there is one.
fn raise(pid: u32, name: &str, priority: i32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    for thread in threads.flatten() {
        let comm = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        if comm.trim_end() == name
            && let Some(id) = thread.file_name().to_str().and_then(|id| id.parse::<i32>().ok())
        {
            let param = libc::sched_param { sched_priority: priority };
            // SAFETY: `param` is valid. A refusal shows in the thread's responses and is said by the Rust children.
            unsafe { libc::sched_setscheduler(id, libc::SCHED_FIFO, &param) };
            return true;
        }
    }
    false
}

/// Waits for the end of the process and leaves its id and usage in place.
fn wait_without_reaping(pid: u32) -> Result<(), String> {
    loop {
        // SAFETY: all zero bytes are a valid `siginfo_t`; it is only written to.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is a valid place for the result.
        if unsafe { libc::waitid(libc::P_PID, pid, &mut info, libc::WEXITED | libc::WNOWAIT) } == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(format!("cannot wait for process {pid}: {error}"));
        }
    }
}

/// The status and usage of a process that has ended.
fn reap(child: &mut Child) -> Result<(ExitStatus, libc::rusage), String> {
    let mut status = 0;
    // SAFETY: all zero bytes are a valid `rusage`; it is only written to.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the places are valid; the process is our child, has ended, and is reaped only here.
    let pid = unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) };
    if pid < 0 {
        return Err(format!("cannot reap process {}: {}", child.id(), std::io::Error::last_os_error()));
    }
    Ok((ExitStatus::from_raw(status), usage))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_end_of_a_child_is_told_with_what_it_wrote() {
        let ended = run(shell("echo out; echo err >&2; exit 3"), Duration::from_secs(60), None).unwrap();
        assert_eq!((ended.status.code(), ended.timed_out), (Some(3), false));
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("out\n", "err\n"));
        assert!(ended.peak_rss_bytes > 100_000 && ended.wall.as_nanos() > 0);
    }

    #[test]
    fn a_child_that_takes_too_long_is_ended() {
        let ended = run(shell("exec sleep 600"), Duration::from_millis(50), None).unwrap();
        assert!(ended.timed_out && ended.status.signal() == Some(libc::SIGKILL));
    }

    #[test]
    fn processor_time_is_the_childs() {
        let busy =
            run(shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"), Duration::from_secs(60), None);
        let idle = run(shell("true"), Duration::from_secs(60), None).unwrap();
        assert!(busy.unwrap().user > 5 * idle.user.max(Duration::from_millis(2)));
    }

    #[test]
    fn the_task_is_found_by_its_name_and_given_its_priority() {
        if !std::thread::spawn(crate::child::clock::become_task).join().unwrap() {
            println!("skipped: the system allows no SCHED_FIFO");
            return;
        }
        // A program is called as its file is.
        let folder = std::env::temp_dir().join(format!("peers-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let own = folder.join("peers-task");
        std::fs::copy("/bin/sh", &own).unwrap();
        let look = "i=0; while [ $i -lt 3000 ]; do policy=$(cut -d' ' -f41 /proc/$$/stat); \
            [ $policy = 1 ] && break; sleep 0.01; i=$((i+1)); done; echo $policy";
        let policy = |name| {
            let mut command = Command::new(&own);
            command.args(["-c", if name == "peers-task" { look } else { "cut -d' ' -f41 /proc/$$/stat" }]);
            run(command, Duration::from_secs(60), Some((name, 5))).unwrap().stdout
        };
        assert_eq!((policy("peers-task").as_str(), policy("another").as_str()), ("1\n", "0\n"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_cannot_be_started_is_an_error() {
        assert!(run(Command::new("/nonexistent"), Duration::from_secs(1), None).is_err());
    }
}
