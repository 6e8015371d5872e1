//! Low memory of the operating system: who says so, and a thread's way to wait for it.
//!
//! A [`Watcher`] asks every source that works on this machine and says of the others why they do not:
//!
//! | source | what it tells | how it is heard |
//! |---|---|---|
//! | pressure stall information (PSI) | threads of the group, or of the system, wait for memory | trigger, `POLLPRI` |
//! | `memory.events` (control groups, version 2) | a limit was met: reclaim, throttling, killing | inotify and `POLLPRI` |
//! | `memory.pressure_level` (version 1) | the kernel reclaims with little success | eventfd |
//! | use of the group against its limit | little is left below the limit | sampled |
//! | `MemAvailable` | little is left of the whole machine | sampled |
//!
//! A file that is missing is normal: kernels, containers and permissions differ. This module knows nothing of a heap;
//! what to do about low memory is for whoever waits.
//!
//! ```
//! use metronome_gc::pressure::{Options, Watcher};
//! use std::time::Duration;
//!
//! let mut watcher = Watcher::new(Options::default())?;
//! for source in watcher.sources() {
//!     println!("{source}");
//! }
//! let waker = watcher.waker();
//! let waiting = std::thread::spawn(move || watcher.wait(Some(Duration::from_secs(60))));
//! waker.wake();
//! let wake = waiting.join().expect("the watcher's thread does not panic");
//! assert!(wake.woken || wake.low.is_some());
//! # Ok::<(), metronome_gc::pressure::WatchError>(())
//! ```
//!
//! # Threads
//!
//! A watcher belongs to one ordinary thread, which may block, allocate and read files: never to a collector's, an
//! alarm's or a no-heap thread. Any thread may use a [`Waker`].
//!
//! # Bounds
//!
//! Groups looked at: [`MAX_GROUPS`], from the process's own towards the root. Files are read up to a stated length.
//! Reports: at most one per source and [`Options::gap`]; of a level that stays low, one per [`Options::repeat`].
//!
//! The groups are those of the time at which the watcher was made: after a move to another group make a new one.
//!
//! # Sources
//!
//! Linux documentation: `accounting/psi.rst`, `admin-guide/cgroup-v2.rst` (memory interface files) and
//! `admin-guide/cgroup-v1/memory.rst` (memory pressure).

pub mod cgroup;
mod events;
mod files;
mod limit;
mod limiter;
pub mod meminfo;
mod options;
pub mod psi;
mod reclaim;
mod report;
mod stall;
mod watcher;

pub use cgroup::MAX_GROUPS;
pub use options::{Options, WatchError};
pub use report::{Absence, Cause, GroupUse, LowMemory, Method, Severity, Size, Source, SourceReport, State};
pub use watcher::{Wake, Waker, Watcher};
