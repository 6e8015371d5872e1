//! Where the verbose log's bytes go: a bounded buffer, and a thread that writes it to the file.
//!
//! A disk that is slow, full or stuck delays neither the statistics nor anything else: what does not fit into the buffer
//! is lost, counted by the log's writer, and said.

use crate::error::BuildError;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that wait for the disk at the most.
const BUFFER_MAX: usize = 8 << 20;
/// How long a stuck file may hold up a flush or the end.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(10);

enum Message {
    Bytes(Vec<u8>),
    /// Everything before this is in the file (or lost).
    Mark(SyncSender<()>),
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct LogSink {
    buffer: Vec<u8>,
    tx: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
    error: Arc<Mutex<Option<io::Error>>>,
}

impl LogSink {
    /// Creates the file and starts the thread.
    pub(crate) fn create(path: &Path) -> Result<LogSink, BuildError> {
        // Non-blocking, so that a pipe without a reader is an error and not a hang; plain files ignore it.
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .map_err(|source| BuildError::Log { path: path.into(), source })?;
        let (tx, rx) = sync_channel(16);
        let error = Arc::new(Mutex::new(None));
        let told = Arc::clone(&error);
        let thread = crate::hooks::thread_refused()
            .and_then(|()| {
                let builder = std::thread::Builder::new().name("metronome-disk".into());
                builder.spawn(move || write_all(file, &rx, &told))
            })
            .map_err(|source| BuildError::Thread { name: "disk", source })?;
        Ok(LogSink { buffer: Vec::new(), tx: Some(tx), thread: Some(thread), error })
    }

    /// The error that ended the output, if any.
    pub(crate) fn error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(ToString::to_string)
    }

    /// Hands the buffer to the thread if that has room.
    fn pass_on(&mut self) {
        let Some(tx) = &self.tx else { return };
        if self.buffer.is_empty() {
            return;
        }
        if let Err(TrySendError::Full(Message::Bytes(b)) | TrySendError::Disconnected(Message::Bytes(b))) =
            tx.try_send(Message::Bytes(std::mem::take(&mut self.buffer)))
        {
            self.buffer = b;
        }
    }

    /// Waits until everything is in the file, at most for a few seconds.
    pub(crate) fn sync(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.buffer.is_empty() && Instant::now() < deadline && self.error().is_none() {
            self.pass_on();
            if !self.buffer.is_empty() {
                std::thread::sleep(RETRY);
            }
        }
        let (mark, marked) = sync_channel(1);
        if let Some(tx) = &self.tx
            && tx.try_send(Message::Mark(mark)).is_ok()
        {
            let _ = marked.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

impl Write for LogSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(e) = self.error() {
            return Err(io::Error::other(e));
        }
        if self.buffer.len() + bytes.len() > BUFFER_MAX {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "the disk is slower than the log"));
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on();
        Ok(())
    }
}

impl Drop for LogSink {
    fn drop(&mut self) {
        self.sync();
        // Ends the thread, which gives up on a stuck file after a while.
        drop(self.tx.take());
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }
}

/// The thread's body. After an error it only throws away what comes.
fn write_all(mut file: File, rx: &Receiver<Message>, error: &Mutex<Option<io::Error>>) {
    let mut broken = false;
    loop {
        match rx.recv_timeout(Duration::from_secs(3600)) {
            Ok(Message::Bytes(bytes)) if !broken => {
                if let Err(e) = write_patiently(&mut file, &bytes) {
                    broken = true;
                    *error.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                }
            }
            Ok(Message::Bytes(_)) | Err(RecvTimeoutError::Timeout) => {}
            Ok(Message::Mark(done)) => {
                let _ = done.try_send(());
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn write_patiently(file: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    let mut deadline = Instant::now() + PATIENCE;
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                bytes = &bytes[n..];
                deadline = Instant::now() + PATIENCE;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                std::thread::sleep(RETRY);
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_in_order_and_a_full_device_is_told() {
        let path = std::env::temp_dir().join(format!("metronome-sink-{}", std::process::id()));
        let mut sink = LogSink::create(&path).unwrap();
        for i in 0..1000 {
            writeln!(sink, "{i}").unwrap();
            sink.flush().unwrap();
        }
        drop(sink);
        let want: String = (0..1000).map(|i| format!("{i}\n")).collect();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), want);
        std::fs::remove_file(&path).unwrap();

        let mut sink = LogSink::create(Path::new("/dev/full")).unwrap();
        sink.write_all(b"lost").unwrap();
        sink.sync();
        assert!(sink.error().is_some());
        assert!(sink.write_all(b"more").is_err());
    }
}
