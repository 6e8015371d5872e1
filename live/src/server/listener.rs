//! Connections: a bounded number, so that no client can use up the program's file descriptors, and none that is quiet for
//! ever.
//!
//! A connection begins in the lobby, and leaves it when its request was allowed. Who says nothing, or says it slowly, is
//! shown out after [`HEAD_MAX`], and sooner if the lobby is full and somebody else comes: the longest there goes first. So
//! those who do not know the token cannot keep out those who do.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, Sleep, sleep};

/// Connections in the lobby at the same time.
const LOBBY_MAX: usize = 32;
/// Connections at the same time whose requests were allowed.
const ADMITTED_MAX: usize = 48;
/// How long a request's head may take, and the answer to one that is refused.
const HEAD_MAX: Duration = Duration::from_secs(5);
/// A connection with an allowed request on which nothing moves for this long is closed. (Streams send something every
/// 15 s.)
const QUIET_MAX: Duration = Duration::from_secs(60);
/// One that takes nothing for this long of what waits for it is closed, so that others have its place.
const STALLED_MAX: Duration = Duration::from_secs(10);
/// After an error of accepting, such as no file descriptor to be had.
const BREATH: Duration = Duration::from_millis(200);

/// Those in the lobby, in the order of their coming.
#[derive(Debug, Default)]
struct Lobby {
    waiting: Mutex<VecDeque<(u64, oneshot::Sender<()>)>>,
    next: AtomicU64,
}

impl Lobby {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<(u64, oneshot::Sender<()>)>> {
        // A queue of senders is whole wherever a panic may have happened.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place; who has been here longest makes room. Gives a number, and what resolves when the place is lost.
    fn enter(&self) -> (u64, oneshot::Receiver<()>) {
        // Relaxed: a number for each.
        let id = self.next.fetch_add(1, Relaxed);
        let (stay, lost) = oneshot::channel();
        let mut waiting = self.waiting();
        while waiting.len() >= LOBBY_MAX {
            // Dropping its sender tells it.
            drop(waiting.pop_front());
        }
        waiting.push_back((id, stay));
        (id, lost)
    }

    fn leave(&self, id: u64) -> Option<oneshot::Sender<()>> {
        let mut waiting = self.waiting();
        let at = waiting.iter().position(|(other, _)| *other == id)?;
        waiting.remove(at).map(|(_, stay)| stay)
    }
}

pub(super) struct Listener {
    inner: TcpListener,
    lobby: Arc<Lobby>,
    admitted: Arc<Semaphore>,
}

impl Listener {
    pub(super) fn new(inner: TcpListener) -> Listener {
        Listener { inner, lobby: Arc::default(), admitted: Arc::new(Semaphore::new(ADMITTED_MAX)) }
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = Peer;

    async fn accept(&mut self) -> (Connection, Peer) {
        loop {
            match self.inner.accept().await {
                Ok((stream, _)) => {
                    // Those that were shown out go before more are let in.
                    tokio::task::yield_now().await;
                    let (id, lost) = self.lobby.enter();
                    let ticket =
                        Arc::new(Ticket { id, lobby: Arc::clone(&self.lobby), place: Mutex::default() });
                    let peer = Peer { ticket: Arc::clone(&ticket), admitted: Arc::clone(&self.admitted) };
                    return (Connection::new(stream, ticket, lost), peer);
                }
                Err(_) => sleep(BREATH).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        // Asked by nobody: the server knows its address from the socket.
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Where a connection is: in the lobby, or admitted.
#[derive(Debug)]
struct Ticket {
    id: u64,
    lobby: Arc<Lobby>,
    /// Of one that is admitted, with what keeps its connection from being told to go.
    place: Mutex<Option<(OwnedSemaphorePermit, oneshot::Sender<()>)>>,
}

impl Ticket {
    fn is_admitted(&self) -> bool {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// Who asks, for the guard.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    ticket: Arc<Ticket>,
    admitted: Arc<Semaphore>,
}

impl Peer {
    /// Lets a connection whose request is allowed out of the lobby; false if there is no place for it.
    pub(super) fn admit(&self) -> bool {
        let mut place = self.ticket.place.lock().unwrap_or_else(PoisonError::into_inner);
        if place.is_some() {
            return true;
        }
        let Ok(permit) = Arc::clone(&self.admitted).try_acquire_owned() else { return false };
        let Some(stay) = self.ticket.lobby.leave(self.ticket.id) else { return false };
        *place = Some((permit, stay));
        true
    }
}

impl axum::extract::connect_info::Connected<axum::serve::IncomingStream<'_, Listener>> for Peer {
    fn connect_info(stream: axum::serve::IncomingStream<'_, Listener>) -> Peer {
        stream.remote_addr().clone()
    }
}

pub(super) struct Connection<S = TcpStream> {
    stream: S,
    ticket: Arc<Ticket>,
    /// Resolves when its place in the lobby is another's.
    lost: oneshot::Receiver<()>,
    came: Instant,
    /// When something moved last.
    moved: Instant,
    /// Since when something has waited for the client to take what is before it.
    stalled: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl<S> Connection<S> {
    fn new(stream: S, ticket: Arc<Ticket>, lost: oneshot::Receiver<()>) -> Connection<S> {
        let now = Instant::now();
        Connection {
            stream,
            ticket,
            lost,
            came: now,
            moved: now,
            stalled: None,
            timer: Box::pin(sleep(HEAD_MAX)),
        }
    }

    fn end(&self, admitted: bool) -> Instant {
        let end = if admitted { self.moved + QUIET_MAX } else { self.came + HEAD_MAX };
        self.stalled.map_or(end, |since| end.min(since + STALLED_MAX))
    }

    /// Whether its time is over; else the task is woken when that may be so.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        let admitted = self.ticket.is_admitted();
        // An admitted one's sender is kept until the connection is gone.
        if !admitted && Pin::new(&mut self.lost).poll(cx).is_ready() {
            return true;
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            let end = self.end(admitted);
            if Instant::now() >= end {
                return true;
            }
            self.timer.as_mut().reset(end);
        }
        false
    }
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        drop(self.ticket.lobby.leave(self.ticket.id));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // The server always waits for what a client sends, or for its going away: this is polled in any state. It is asked
        // first, as one that sends a byte now and then is ready each time.
        if this.is_over(cx) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let out = Pin::new(&mut this.stream).poll_read(cx, buf);
        if out.is_ready() {
            this.moved = Instant::now();
        }
        out
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let out = Pin::new(&mut this.stream).poll_write(cx, buf);
        if out.is_pending() && this.stalled.is_none() {
            this.stalled = Some(Instant::now());
            let end = this.end(this.ticket.is_admitted());
            this.timer.as_mut().reset(end);
        }
        match out {
            Poll::Ready(_) => (this.moved, this.stalled) = (Instant::now(), None),
            Poll::Pending if this.is_over(cx) => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A byte at every poll, and no end.
    struct Drip;

    impl AsyncRead for Drip {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            buf.put_slice(b"x");
            Poll::Ready(Ok(()))
        }
    }

    fn connection(lobby: &Arc<Lobby>) -> (Connection<Drip>, Peer) {
        let (id, lost) = lobby.enter();
        let ticket = Arc::new(Ticket { id, lobby: Arc::clone(lobby), place: Mutex::default() });
        let peer = Peer { ticket: Arc::clone(&ticket), admitted: Arc::new(Semaphore::new(1)) };
        (Connection::new(Drip, ticket, lost), peer)
    }

    /// In a time that passes by itself while everybody waits.
    fn in_virtual_time(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn bytes_now_and_then_do_not_stretch_the_time_of_a_head() {
        in_virtual_time(async {
            let (mut slow, _peer) = connection(&Arc::default());
            let mut bytes = 0;
            while slow.read_u8().await.is_ok() {
                bytes += 1;
                assert!(bytes < 100, "still here");
                sleep(Duration::from_secs(1)).await;
            }
            assert_eq!(bytes, HEAD_MAX.as_secs());
            // One that is admitted has its time counted from what moved last.
            let (mut known, peer) = connection(&Arc::default());
            assert!(peer.admit());
            for _ in 0..100 {
                known.read_u8().await.unwrap();
                sleep(Duration::from_secs(1)).await;
            }
        });
    }

    /// Takes so many writes, and then one every so often, or none.
    struct Full(usize, Option<(Duration, Pin<Box<Sleep>>)>);

    impl AsyncRead for Full {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Full {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            let this = self.get_mut();
            if this.0 > 0 {
                this.0 -= 1;
                return Poll::Ready(Ok(buf.len()));
            }
            let Some((every, timer)) = &mut this.1 else { return Poll::Pending };
            std::task::ready!(timer.as_mut().poll(cx));
            timer.as_mut().reset(Instant::now() + *every);
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn who_takes_nothing_loses_its_place_and_who_is_slow_does_not() {
        in_virtual_time(async {
            let place = |stream: Full| {
                let lobby: Arc<Lobby> = Arc::default();
                let (id, lost) = lobby.enter();
                let ticket = Arc::new(Ticket { id, lobby, place: Mutex::default() });
                let peer = Peer { ticket: Arc::clone(&ticket), admitted: Arc::new(Semaphore::new(1)) };
                assert!(peer.admit());
                (Connection::new(stream, ticket, lost), peer)
            };
            let (mut stuck, _peer) = place(Full(3, None));
            for _ in 0..3 {
                stuck.write_all(b"x").await.unwrap();
                sleep(Duration::from_secs(30)).await;
            }
            let begin = Instant::now();
            assert_eq!(stuck.write_all(b"x").await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert_eq!(begin.elapsed().as_secs(), STALLED_MAX.as_secs());
            let every = STALLED_MAX - Duration::from_secs(1);
            let (mut slow, _peer) = place(Full(0, Some((every, Box::pin(sleep(every))))));
            for _ in 0..20 {
                slow.write_all(b"x").await.unwrap();
            }
        });
    }

    #[test]
    fn the_longest_in_a_full_lobby_goes_and_the_admitted_stay() {
        in_virtual_time(async {
            let lobby = Arc::default();
            let (mut first, peer) = connection(&lobby);
            assert!(peer.admit());
            let mut rest: Vec<_> = (0..=LOBBY_MAX).map(|_| connection(&lobby).0).collect();
            assert!(first.read_u8().await.is_ok());
            let over: Vec<bool> =
                poll_fn(|cx| Poll::Ready(rest.iter_mut().map(|c| c.is_over(cx)).collect())).await;
            let want: Vec<bool> = (0..=LOBBY_MAX).map(|i| i == 0).collect();
            assert_eq!(over, want);
            drop(rest);
            assert_eq!(lobby.waiting().len(), 0);
        });
    }
}
