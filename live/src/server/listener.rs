//! Connections: a bounded number, so that no client can use up the program's file descriptors, and none that is quiet for
//! ever.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Connections at the same time; others wait with the system.
const CONNECTIONS_MAX: usize = 64;
/// A connection on which nothing moves for this long is closed. (Streams send something every 15 s.)
const QUIET_MAX: Duration = Duration::from_secs(60);
/// After an error of accepting, such as no file descriptor to be had.
const BREATH: Duration = Duration::from_millis(200);

pub(super) struct Listener {
    inner: TcpListener,
    places: Arc<Semaphore>,
}

impl Listener {
    pub(super) fn new(inner: TcpListener) -> Listener {
        Listener { inner, places: Arc::new(Semaphore::new(CONNECTIONS_MAX)) }
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            // Before accepting: who waits takes no descriptor of this process. The semaphore is never closed.
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
                sleep(BREATH).await;
                continue;
            };
            match self.inner.accept().await {
                Ok((stream, addr)) => return (Connection::new(stream, place), addr),
                Err(_) => sleep(BREATH).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

pub(super) struct Connection {
    stream: TcpStream,
    /// When something moved last.
    moved: Instant,
    timer: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    fn new(stream: TcpStream, place: OwnedSemaphorePermit) -> Connection {
        Connection { stream, moved: Instant::now(), timer: Box::pin(sleep(QUIET_MAX)), _place: place }
    }

    /// Whether nothing has moved for too long; else the task is woken when that may be so.
    fn is_quiet(&mut self, cx: &mut Context<'_>) -> bool {
        while self.timer.as_mut().poll(cx).is_ready() {
            let end = self.moved + QUIET_MAX;
            if Instant::now() >= end {
                return true;
            }
            self.timer.as_mut().reset(end);
        }
        false
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_read(cx, buf) {
            Poll::Ready(r) => {
                this.moved = Instant::now();
                Poll::Ready(r)
            }
            // The server always waits for what a client sends, or for its going away: this is polled in any state.
            Poll::Pending if this.is_quiet(cx) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let out = Pin::new(&mut this.stream).poll_write(cx, buf);
        match out {
            Poll::Ready(_) => this.moved = Instant::now(),
            Poll::Pending if this.is_quiet(cx) => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => {}
        }
        out
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
