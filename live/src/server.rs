//! The server: a page and a stream of events, on loopback unless a token is asked for.
//!
//! It runs on one thread of its own. What it sends are records; a client that does not read loses some, and is told.

mod guard;
mod listener;
mod page;
mod stream;

use crate::hub::Hub;
use crate::input::{self, InputError};
use crate::tap::{Output, RING, Tap};
use axum::Router;
use axum::routing::get;
use metronome_gc::Heap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Semaphore, oneshot};

/// Clients that are served a stream at the same time.
const CLIENTS_MAX: u32 = 16;
/// Bytes on their way to a client that the system holds (Linux takes twice as many), and connections that wait to be accepted.
const SEND_BUFFER: u32 = 64 << 10;
const BACKLOG: u32 = 128;
/// How long dropping a server waits for streams to send what there is; how long it waits while no client takes anything; and
/// for the system to take their last bytes.
const FAREWELL: Duration = Duration::from_secs(2);
const STUCK: Duration = Duration::from_millis(200);
const LAST_BYTES: Duration = Duration::from_millis(20);
/// Fewest characters of a token.
const TOKEN_MIN: usize = 16;
const TOKEN_MAX: usize = 256;

/// How a server serves.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Where it listens; port 0 takes a free one.
    pub addr: SocketAddr,
    /// What clients have to know: needed unless `addr` is a loopback address. 16 to 256 letters, digits, `-` and `_`.
    pub token: Option<String>,
    /// Bytes of the past (as JSON) that are kept for clients that come later.
    pub history_bytes: usize,
    /// Records that the ring between heap and server holds.
    pub ring: usize,
}

impl fmt::Debug for Options {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("addr", &self.addr)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("history_bytes", &self.history_bytes)
            .field("ring", &self.ring)
            .finish()
    }
}

impl Options {
    /// Listens at `addr`, with no token, and 16 MiB of the past.
    #[must_use]
    pub fn at(addr: SocketAddr) -> Options {
        Options { addr, token: None, history_bytes: 16 << 20, ring: RING }
    }

    /// With a token.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Options {
        self.token = Some(token.into());
        self
    }

    fn check(&self) -> Result<(), ServeError> {
        match &self.token {
            None if !self.addr.ip().to_canonical().is_loopback() => {
                Err(ServeError::TokenNeeded { addr: self.addr })
            }
            Some(t) if !is_token(t) => Err(ServeError::BadToken),
            _ => Ok(()),
        }
    }
}

fn is_token(t: &str) -> bool {
    (TOKEN_MIN..=TOKEN_MAX).contains(&t.len())
        && t.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

impl From<SocketAddr> for Options {
    fn from(addr: SocketAddr) -> Options {
        Options::at(addr)
    }
}

impl From<([u8; 4], u16)> for Options {
    fn from(addr: ([u8; 4], u16)) -> Options {
        Options::at(addr.into())
    }
}

/// Why a heap or a file cannot be served.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// Others than this host's own programs could connect, and no token was set.
    TokenNeeded {
        /// The address.
        addr: SocketAddr,
    },
    /// The token is too short, too long, or has other characters.
    BadToken,
    /// The address cannot be listened at.
    Bind {
        /// The address.
        addr: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A thread or its event loop could not be had.
    Thread(io::Error),
    /// The file cannot be replayed.
    Input(InputError),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::TokenNeeded { addr } => write!(
                f,
                "{addr} can be reached from outside: set a token, or listen at a loopback address such as 127.0.0.1:{}",
                addr.port()
            ),
            ServeError::BadToken => write!(
                f,
                "a token has {TOKEN_MIN} to {TOKEN_MAX} letters, digits, `-` and `_`; take one of a random source"
            ),
            ServeError::Bind { addr, source } => {
                write!(f, "cannot listen at {addr}: {source}; choose another port, or 0 for a free one")
            }
            ServeError::Thread(e) => write!(f, "cannot start a thread to serve: {e}"),
            ServeError::Input(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServeError::Bind { source, .. } | ServeError::Thread(source) => Some(source),
            ServeError::Input(e) => Some(e),
            _ => None,
        }
    }
}

/// Serving a heap. (A trait, so that the collector's crate does not depend on a server.)
pub trait Serve {
    /// Serves a live view of the heap until the [`Server`] is dropped. It does not keep the heap open, and shows the end
    /// when that is closed. Other outputs can be had beside it: see [`Server::of_heap`].
    ///
    /// # Errors
    /// [`ServeError`].
    fn serve(&self, options: impl Into<Options>) -> Result<Server, ServeError>;
}

impl Serve for Heap {
    fn serve(&self, options: impl Into<Options>) -> Result<Server, ServeError> {
        Server::of_heap(self, options, Vec::new())
    }
}

/// Replays a file of any kind that [`input::open`] reads, on the same page; each client from its beginning.
///
/// # Errors
/// [`ServeError`]; the file is opened once here, so that an unreadable one is refused.
pub fn serve_file(path: &Path, options: impl Into<Options>) -> Result<Server, ServeError> {
    let options = options.into();
    options.check()?;
    match input::open(path).map_err(ServeError::Input)?.next() {
        None => return Err(ServeError::Input(InputError::Unknown)),
        Some(Err(e)) if !e.goes_on() => return Err(ServeError::Input(e)),
        Some(_) => {}
    }
    Server::start(Source::File(path.to_owned()), &options)
}

/// Where a server's records come from.
#[derive(Debug)]
pub(crate) enum Source {
    Hub(Arc<Hub>),
    File(PathBuf),
}

/// What handlers share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) source: Source,
    pub(crate) token: Option<String>,
    pub(crate) clients: Arc<Semaphore>,
    /// The server is being dropped: streams send what there is, and end.
    pub(crate) closing: AtomicBool,
    /// Messages that clients' connections took.
    pub(crate) taken: AtomicU64,
    /// Tells this server's streams from those of others before it at the same address.
    pub(crate) instance: u64,
}

/// A server; dropping it ends it and closes its connections. Clients get what was published before, as far as they take it
/// within two seconds; where none takes anything for 200 ms, the rest is not sent.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    token: Option<String>,
    tap: Option<Tap>,
    quit: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread: a forked child does not.
    process: u32,
}

impl Server {
    /// Serves a heap, and passes what it does to `outputs` too.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn of_heap(
        heap: &Heap,
        options: impl Into<Options>,
        mut outputs: Vec<Output>,
    ) -> Result<Server, ServeError> {
        let options = options.into();
        let hub = Hub::new(options.history_bytes);
        let mut server = Server::of_hub(Arc::clone(&hub), options.clone())?;
        outputs.push(("live view".into(), Box::new(hub)));
        server.tap = Some(Tap::start(heap, options.ring, outputs).map_err(ServeError::Thread)?);
        Ok(server)
    }

    /// Serves what is published at a hub.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn of_hub(hub: Arc<Hub>, options: impl Into<Options>) -> Result<Server, ServeError> {
        let options = options.into();
        options.check()?;
        Server::start(Source::Hub(hub), &options)
    }

    fn start(source: Source, options: &Options) -> Result<Server, ServeError> {
        let bind = |source| ServeError::Bind { addr: options.addr, source };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(ServeError::Thread)?;
        let listener = {
            let _entered = runtime.enter();
            listen(options.addr).map_err(bind)?
        };
        let addr = listener.local_addr().map_err(bind)?;
        let app = Arc::new(App {
            source,
            token: options.token.clone(),
            clients: Arc::new(Semaphore::new(CLIENTS_MAX as usize)),
            closing: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            instance: instance(),
        });
        let (quit, asked) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("metronome-live".into())
            .spawn(move || {
                runtime.block_on(async move {
                    let serving = tokio::spawn(std::future::IntoFuture::into_future(axum::serve(
                        listener::Listener::new(listener),
                        router(Arc::clone(&app)).into_make_service_with_connect_info::<listener::Peer>(),
                    )));
                    let _ = asked.await;
                    serving.abort();
                    // Relaxed: a flag that each stream looks at on this same thread.
                    app.closing.store(true, Relaxed);
                    // A replay has no end to wait for: its clients go when they have seen enough.
                    if matches!(app.source, Source::Hub(_)) {
                        let _ = tokio::time::timeout(FAREWELL, farewell(&app)).await;
                        tokio::time::sleep(LAST_BYTES).await;
                    }
                });
                // Streams never end by themselves: their tasks are dropped with the runtime.
                runtime.shutdown_background();
            })
            .map_err(ServeError::Thread)?;
        let token = options.token.clone();
        Ok(Server {
            addr,
            token,
            tap: None,
            quit: Some(quit),
            thread: Some(thread),
            process: std::process::id(),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The page's address, with the token if there is one: as secret as that.
    #[must_use]
    pub fn url(&self) -> String {
        let token = self.token.as_ref().map_or(String::new(), |t| format!("?token={t}"));
        format!("http://{}/{token}", self.addr)
    }

    /// Waits until the served heap is closed and everything has been passed on; gives the outputs that failed. The page
    /// stays.
    pub fn finish_outputs(&mut self) -> Vec<(String, io::Error)> {
        self.tap.take().map_or_else(Vec::new, Tap::finish)
    }
}

/// Listens as the standard library does, with connections whose send buffers are small: that a client takes nothing is seen
/// only when they are full.
fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Until all streams have ended, or none of them moves.
async fn farewell(app: &App) {
    let moved = || (app.clients.available_permits(), app.taken.load(Relaxed)); // Relaxed: a counter of this thread.
    let mut before = moved();
    loop {
        let all = app.clients.acquire_many(CLIENTS_MAX);
        if tokio::time::timeout(STUCK, all).await.is_ok() {
            return;
        }
        let now = moved();
        if now == before {
            return;
        }
        before = now;
    }
}

/// Different for each server, as far as the clock tells.
fn instance() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(0)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tap = None;
        if self.process != std::process::id() {
            // Whoever wakes the other side would touch what belongs to the parent.
            std::mem::forget((self.quit.take(), self.thread.take()));
            return;
        }
        drop(self.quit.take());
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }
}

fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(page::page))
        .route("/events", get(stream::events))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&app), guard::guard))
        .with_state(app)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_take_nothing_are_not_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let app = Arc::new(App {
                source: Source::Hub(Hub::new(1 << 10)),
                token: None,
                clients: Arc::new(Semaphore::new(CLIENTS_MAX as usize)),
                closing: AtomicBool::new(true),
                taken: AtomicU64::new(0),
                instance: 1,
            });
            let stuck = Arc::clone(&app.clients).try_acquire_owned().unwrap();
            let begin = tokio::time::Instant::now();
            // In virtual time: one takes a message every 150 ms, seven times, and then nothing more.
            let other = Arc::clone(&app);
            tokio::spawn(async move {
                for _ in 0..7 {
                    tokio::time::sleep(Duration::from_millis(150)).await;
                    other.taken.fetch_add(1, Relaxed); // Relaxed: a counter.
                }
            });
            farewell(&app).await;
            let ms = begin.elapsed().as_millis();
            assert!((1050..=1450).contains(&ms), "{ms}");
            // And none is waited for when all have gone.
            drop(stuck);
            let begin = tokio::time::Instant::now();
            farewell(&app).await;
            assert_eq!(begin.elapsed().as_millis(), 0);
        });
    }
}
