//! Where records go: recordings and traces.

mod chrome;
mod fork;
mod lines;

pub use chrome::Chrome;
pub use fork::TuningFork;
pub(crate) use fork::{QUANTUM, RECORD, quantum};
pub use lines::Lines;

use crate::model::Record;
use std::io;

/// Something that takes records in order.
pub trait Sink {
    /// Takes a record.
    ///
    /// # Errors
    /// Those of the output; nothing more should be given to it then.
    fn take(&mut self, record: &Record) -> io::Result<()>;

    /// Passes on what waits in buffers.
    ///
    /// # Errors
    /// Those of the output.
    fn flush(&mut self) -> io::Result<()>;

    /// Ends the output: nothing follows.
    ///
    /// # Errors
    /// Those of the output.
    fn end(&mut self) -> io::Result<()>;
}
