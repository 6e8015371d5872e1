//! The stream of one client: server-sent events, each a JSON list of records.

use super::{App, Source};
use crate::hub::{Batch, Hub};
use crate::input;
use crate::model::{Event, Record};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// How often a client that has gone away, or the server's end, is looked for while nothing happens.
const LOOK: Duration = Duration::from_millis(100);
/// Records of one message of a replay.
const REPLAY_BATCH: usize = 512;

/// One message: number of the record after it, and its text.
type Message = (u64, String);

pub(super) async fn events(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let Ok(permit) = Arc::clone(&app.clients).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "Too many clients.\n").into_response();
    };
    // Where a browser that lost its connection left off, if that was with this server.
    let last = headers.get("last-event-id").and_then(|h| h.to_str().ok());
    let from = last.and_then(|id| id.split_once('-')).and_then(|(instance, next)| {
        (instance.parse() == Ok(app.instance)).then(|| next.parse::<u64>().ok()).flatten()
    });
    let from = from.unwrap_or(0);
    // One message waits here, some more in the system's buffers; then a client that does not read falls behind.
    let (tx, rx) = channel::<Message>(1);
    match &app.source {
        Source::Hub(hub) => drop(tokio::spawn(follow(Arc::clone(hub), Arc::clone(&app), from, tx))),
        Source::File(path) => replay(path.clone(), from, tx),
    }
    let instance = app.instance;
    let stream = ReceiverStream::new(rx).map(move |(next, text)| {
        let _while_it_lasts = &permit;
        // Relaxed: a counter of this thread.
        app.taken.fetch_add(1, Relaxed);
        Ok::<_, Infallible>(sse::Event::default().id(format!("{instance}-{next}")).data(text))
    });
    Sse::new(stream).keep_alive(KeepAlive::default()).into_response()
}

/// The past and what follows, with what is missing told in its place.
async fn follow(hub: Arc<Hub>, app: Arc<App>, from: u64, tx: Sender<Message>) {
    let (past, mut channel) = hub.join(from);
    let mut next = from;
    for batch in past {
        if !pass(&batch, &mut next, "history", &tx).await {
            return;
        }
    }
    loop {
        match tokio::time::timeout(LOOK, channel.recv()).await {
            Ok(Ok(batch)) => {
                if !pass(&batch, &mut next, "client", &tx).await {
                    return;
                }
            }
            // The next batch's number tells how much was missed.
            Ok(Err(RecvError::Lagged(_))) => {}
            Ok(Err(RecvError::Closed)) => return,
            // Relaxed: a flag; what was published before it was set has been received by now.
            Err(_) if tx.is_closed() || app.closing.load(Relaxed) => return,
            Err(_) => {}
        }
    }
}

/// Sends a batch, and before it what is missing; whether the client is still there.
async fn pass(batch: &Batch, next: &mut u64, place: &'static str, tx: &Sender<Message>) -> bool {
    if batch.first + batch.count <= *next {
        return true;
    }
    if batch.first > *next {
        let event = Event::Lost { count: batch.first - *next, place: place.into() };
        let text = format!("[{}]", Record { ns: batch.ns, event }.json());
        if tx.send((batch.first, text)).await.is_err() {
            return false;
        }
    }
    *next = batch.first + batch.count;
    tx.send((*next, batch.json.clone())).await.is_ok()
}

/// A file from its beginning, as fast as the client takes it.
fn replay(path: PathBuf, from: u64, tx: Sender<Message>) {
    let gone = tx.clone();
    // Keeps the stream open after the end: a browser would begin anew.
    tokio::spawn(async move { gone.closed().await });
    let refused = tx.clone();
    let body = move || {
        let mut batch = Vec::new();
        let mut next = 0u64;
        let send = |batch: &mut Vec<String>, next: u64| {
            let text = format!("[{}]", std::mem::take(batch).join(","));
            tx.blocking_send((next, text)).is_ok()
        };
        let records = match input::open(&path) {
            Ok(records) => records,
            Err(e) => Box::new(std::iter::once(Err(e))),
        };
        let (mut ns, mut ended) = (0, false);
        for record in records {
            let record = record.unwrap_or_else(|e| e.stand_in(ns));
            (ns, ended) = (record.ns, matches!(record.event, Event::End | Event::BreakOff));
            next += 1;
            if next > from {
                batch.push(record.json());
            }
            if batch.len() >= REPLAY_BATCH && !send(&mut batch, next) {
                return;
            }
        }
        if !ended {
            // Where reading broke off.
            batch.push(Record { ns, event: Event::BreakOff }.json());
        }
        send(&mut batch, next);
    };
    let thread = std::thread::Builder::new().name("metronome-replay".into()).spawn(body);
    if let Err(e) = thread {
        let event = Event::Note { text: format!("cannot start a thread to read the file: {e}") };
        let text = format!("[{}]", Record { ns: 0, event }.json());
        let _ = refused.try_send((0, text));
    }
}
