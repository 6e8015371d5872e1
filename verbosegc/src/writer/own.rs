//! The project's own elements at top level, one method for each.

use super::LogWriter;
use crate::model::{Departure, LostRecords, Mmu, Note, Resize, StopCancelled, Summary, Thread};
use crate::xml::Xml;
use std::io;

impl<W: io::Write> LogWriter<W> {
    /// A stop was cancelled because a mutator did not arrive.
    ///
    /// # Errors
    /// Those of the output.
    pub fn stop_cancelled(&mut self, ns: u64, facts: &StopCancelled) -> io::Result<()> {
        self.own(ns, StopCancelled::ELEMENT, |x| facts.put(x))
    }

    /// Event records were lost.
    ///
    /// # Errors
    /// Those of the output.
    pub fn lost_records(&mut self, ns: u64, facts: &LostRecords) -> io::Result<()> {
        self.own(ns, LostRecords::ELEMENT, |x| facts.put(x))
    }

    /// The utilization target was left.
    ///
    /// # Errors
    /// Those of the output.
    pub fn departure(&mut self, ns: u64, facts: &Departure) -> io::Result<()> {
        self.own(ns, Departure::ELEMENT, |x| facts.put(x))
    }

    /// The heap grew, shrank, or gave memory back.
    ///
    /// # Errors
    /// Those of the output.
    pub fn resize(&mut self, ns: u64, facts: &Resize) -> io::Result<()> {
        self.own(ns, Resize::ELEMENT, |x| facts.put(x))
    }

    /// What a real-time or no-heap thread asked for, and what it has; call it when the thread starts.
    ///
    /// # Errors
    /// Those of the output.
    pub fn thread(&mut self, ns: u64, facts: &Thread) -> io::Result<()> {
        self.own(ns, Thread::ELEMENT, |x| facts.put(x))
    }

    /// Minimum mutator utilization over one window length, after the heartbeat that is under way; call it for 1, 10 and
    /// 100 ms.
    ///
    /// # Errors
    /// Those of the output.
    pub fn mmu(&mut self, ns: u64, facts: &Mmu) -> io::Result<()> {
        self.begin();
        self.flush_pending();
        self.own_in(ns, Mmu::ELEMENT, |x| facts.put(x));
        self.send()
    }

    /// Totals of the run, after the heartbeat that is under way.
    ///
    /// # Errors
    /// Those of the output.
    pub fn summary(&mut self, ns: u64, facts: &Summary) -> io::Result<()> {
        self.begin();
        self.flush_pending();
        self.own_in(ns, Summary::ELEMENT, |x| facts.put(x));
        self.send()
    }

    /// Anything else worth saying.
    ///
    /// # Errors
    /// Those of the output.
    pub fn note(&mut self, ns: u64, facts: &Note) -> io::Result<()> {
        self.own(ns, Note::ELEMENT, |x| facts.put(x))
    }

    fn own(&mut self, ns: u64, element: &str, put: impl FnOnce(&mut Xml)) -> io::Result<()> {
        self.begin();
        self.own_in(ns, element, put);
        self.send()
    }
}
