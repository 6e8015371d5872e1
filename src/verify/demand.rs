//! Verification on demand: a mailbox between the thread that asks and the collector's, which does it between two rounds,
//! so that it cannot race with a quantum.
//!
//! # Ordering
//! `asked` is a hint that wakes the collector; everything else is behind the lock.

use super::{VerifyError, VerifyReport};
use crate::shared::Shared;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type Answer = Result<VerifyReport, VerifyError>;

#[derive(Debug, Default)]
struct Mail {
    /// Requests made, and answered.
    made: u64,
    answered: u64,
    answer: Option<Answer>,
}

/// Requests to verify, and the last answer.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    asked: AtomicBool,
    mail: Mutex<Mail>,
    changed: Condvar,
}

/// How often one who waits looks whether the heap is being closed.
const LOOK: Duration = Duration::from_millis(20);

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody waits for a verification. A load.
    pub(crate) fn is_asked(&self) -> bool {
        // Relaxed: a hint; who asks wakes the collector afterwards, whose Acquire on `wake` makes it seen.
        self.asked.load(Relaxed)
    }

    /// Answers all who have asked before the world was stopped; the caller still holds the stop. The collector thread.
    pub(crate) fn answer(&self, answer: Answer) {
        let mut mail = self.lock();
        // Relaxed: ordered by the lock.
        self.asked.store(false, Relaxed);
        mail.answered = mail.made;
        mail.answer = Some(answer);
        self.changed.notify_all();
    }
}

/// Asks the collector thread to verify the heap, and waits for it, at most `memory-wait`. A thread outside the heap.
pub(crate) fn ask(s: &Shared) -> Answer {
    if !cfg!(feature = "verify") {
        return Err(VerifyError::Absent);
    }
    if crate::thread::is_inside(s) {
        return Err(VerifyError::Inside);
    }
    if s.forked() {
        return Err(VerifyError::Forked);
    }
    let deadline = s.clock.now().saturating_add(s.config.memory_wait_ns);
    let mut mail = s.verify.lock();
    mail.made += 1;
    let mine = mail.made;
    // Relaxed: see `is_asked`.
    s.verify.asked.store(true, Relaxed);
    s.wake_collector();
    loop {
        if mail.answered >= mine {
            // Set with `answered`; a later answer is as good.
            return mail.answer.clone().unwrap_or(Err(VerifyError::Closed));
        }
        // Relaxed: looked at again and again.
        if s.shutdown.load(Relaxed) {
            return Err(VerifyError::Closed);
        }
        if s.clock.now() >= deadline {
            return Err(VerifyError::TimedOut);
        }
        mail = s.verify.changed.wait_timeout(mail, LOOK).unwrap_or_else(PoisonError::into_inner).0;
    }
}
