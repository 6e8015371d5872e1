//! What an end of a queue answers when it cannot do what was asked.

use std::fmt;

/// The queue holds nothing and its writing end is gone: nothing will come any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterGone;

/// The reading end of the queue is gone: nobody would read the value, which is given back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReaderGone<T>(
    /// The value.
    pub T,
);

/// Why a value was not written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WriteError<T> {
    /// The queue holds as many values as it can. The value is given back.
    Full(T),
    /// The reading end is gone. The value is given back.
    Disconnected(T),
}

/// Why nothing was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The queue holds nothing now (or did not within the time given).
    Empty,
    /// The queue holds nothing, and the writing end is gone.
    Disconnected,
}

/// The reading end is gone, so a value could not be put into the queue by force.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ForceError<T> {
    /// The value, given back.
    pub value: T,
    /// The value that it had replaced already, if the other end went away just then.
    pub replaced: Option<T>,
}

const NO_READER: &str = "the reading end of the queue is gone: stop writing, or keep a reader";
const NO_WRITER: &str = "the writing end of the queue is gone and nothing is left in it: stop reading";

impl<T> WriteError<T> {
    /// The value that was not written.
    pub fn into_value(self) -> T {
        match self {
            WriteError::Full(value) | WriteError::Disconnected(value) => value,
        }
    }
}

impl<T> fmt::Debug for WriteError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WriteError::Full(_) => "Full(..)",
            WriteError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Display for WriteError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WriteError::Full(_) => "the queue is full: read faster, or make it with a larger capacity",
            WriteError::Disconnected(_) => NO_READER,
        })
    }
}

impl<T> std::error::Error for WriteError<T> {}

impl fmt::Display for WriterGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NO_WRITER)
    }
}

impl std::error::Error for WriterGone {}

impl<T> fmt::Debug for ReaderGone<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReaderGone(..)")
    }
}

impl<T> fmt::Display for ReaderGone<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NO_READER)
    }
}

impl<T> std::error::Error for ReaderGone<T> {}

impl<T> fmt::Debug for ForceError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForceError").field("replaced", &self.replaced.is_some()).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for ForceError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NO_READER)
    }
}

impl<T> std::error::Error for ForceError<T> {}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadError::Empty => "the queue is empty",
            ReadError::Disconnected => NO_WRITER,
        })
    }
}

impl std::error::Error for ReadError {}
