//! How much memory writing the figures takes.

use crate::common::{Scratch, metronome};
use std::fmt::Write as _;
use std::io::Read;
use std::process::Stdio;

/// Heartbeats of the log: each is an object of its own in the JSON.
const HEARTBEATS: u64 = 20_000;
/// More than a pipe holds: with that to come, its writer is still there.
const PIPE_BYTES: usize = 128 << 10;

/// The most memory that the command had, in bytes, when nearly all that it writes to standard output was read; and how
/// much it wrote. `None` where the system does not tell.
fn most(args: &[&str]) -> Option<(usize, usize)> {
    let whole = metronome(args).output().unwrap().stdout.len();
    assert!(whole > 4 * PIPE_BYTES, "{args:?} writes {whole} bytes");
    let mut child = metronome(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut seen = vec![0; whole - 2 * PIPE_BYTES];
    out.read_exact(&mut seen).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    assert!(child.wait().unwrap().success());
    let status = status.ok()?;
    let kib = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?.trim().trim_end_matches(" kB");
    Some((kib.parse::<usize>().ok()? << 10, whole))
}

/// One row of the lists at a time becomes JSON: writing it takes hardly more memory than reading the log did, which the
/// lines of the CSV show, as they are written while it is read.
#[test]
fn json_is_written_without_being_held() {
    let dir = Scratch::new("memory");
    let mut log = String::from("<verbosegc xmlns=\"http://www.ibm.com/j9/verbosegc\" version=\"1\">\n");
    for i in 0..HEARTBEATS {
        let s = i / 2;
        let _ = writeln!(
            log,
            "<gc-op id=\"{i}\" type=\"heartbeat\" timestamp=\"2026-08-31T{:02}:{:02}:{:02}.{:03}\"><quanta quantumCount=\"9\" \
             quantumType=\"mark\" minTimeMs=\"0.010\" meanTimeMs=\"0.9{:02}\" maxTimeMs=\"1.234\" /></gc-op>",
            s / 3_600,
            s / 60 % 60,
            s % 60,
            i % 2 * 500,
            i % 100
        );
    }
    let log = dir.write("long.xml", log + "</verbosegc>\n");
    let Some((reading, _)) = most(&["report", &log, "--csv", "-"]) else {
        println!("skipped: /proc does not tell the most memory of a process");
        return;
    };
    let Some((writing, text)) = most(&["report", &log, "--json", "-"]) else { return };
    println!("reading {reading}, writing {writing}, text {text} bytes");
    assert!(writing < reading + text / 4, "{reading} for reading, {writing} for writing {text}");
}
