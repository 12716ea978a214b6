//! The connections to one upstream, and which of them takes a call. Over HTTP/1 a call has one to itself. Over HTTP/2 many share
//! one; but a peer lets only so many go on at once, and the others would wait for it unseen, so each is given only as many as
//! any peer takes.

use crate::{
    dial::{Connector, Link},
    flow::Flow,
    line::{HEAD_BYTES_MAX, Line},
};
use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::Full;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};
use tower::BoxError;

/// Calls on one HTTP/2 connection; more open another. Peers are asked to allow 100 at least (RFC 9113, 6.5.2).
const CALLS_MAX: usize = 64;
/// What an HTTP/2 peer may send of one answer that nobody reads; then it has to wait.
const STREAM_WINDOW: u32 = 256 * 1024;
/// The same for all answers of a connection. Less would let a few that nobody reads hold up the others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * CALLS_MAX as u32;
/// Connections without a call are let go before most servers do it themselves.
const REST: Duration = Duration::from_secs(50);
/// HTTP/1 connections that wait for another call; more are closed after theirs.
const RESTING_MAX: usize = 512;
/// Finds out that an HTTP/2 peer is gone.
const HTTP2_PING: Duration = Duration::from_secs(30);

pub(crate) struct Lanes {
    connector: Connector,
    pool: Arc<Pool>,
}

/// Why a call has no answer.
#[derive(Debug)]
pub(crate) enum Lost {
    /// There was no connection.
    Dialling(BoxError),
    /// It failed. `answered`: answers had come before by the same connection.
    Calling { error: hyper::Error, answered: bool },
}

/// Open connections that may take another call.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Open>);

#[derive(Default)]
struct Open {
    /// HTTP/1, without a call since then; the one that rests shortest comes last, and is taken first.
    resting: Vec<(Line, Instant)>,
    /// HTTP/2.
    shared: Vec<Shared>,
    /// Somebody lets them go in time.
    watched: bool,
}

struct Shared {
    sender: SendRequest<Full<Bytes>>,
    /// Every call under way has a clone.
    calls: Arc<()>,
    answered: bool,
    taken_at: Instant,
}

/// A call under way on a shared connection, for as long as anybody has this.
pub(crate) struct Place(#[allow(dead_code, reason = "held, and counted")] Arc<()>);

enum Lane {
    Own(Line),
    Shared { sender: SendRequest<Full<Bytes>>, place: Place, answered: bool },
}

impl Lanes {
    pub fn new(connector: Connector) -> Self {
        Self { connector, pool: Arc::default() }
    }

    /// Makes a call by a connection that has room for it, or a new one, which must be there within `connect`.
    pub async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        connect: Option<Duration>,
    ) -> Result<Response<Flow>, Lost> {
        let lane = match self.pool.take() {
            Some(lane) => lane,
            None => self.open(&request, connect).await?,
        };
        match lane {
            Lane::Own(line) => {
                let answered = line.has_answered();
                let sent = line.send(request).await.map_err(|error| Lost::Calling { error, answered })?;
                Ok(sent.map(|source| Flow::own(source, self.pool.clone())))
            }
            Lane::Shared { mut sender, place, answered } => {
                *request.version_mut() = Version::HTTP_2;
                let lost = |error| Lost::Calling { error, answered };
                sender.ready().await.map_err(lost)?;
                let sent = sender.send_request(request).await.map_err(lost)?;
                Ok(sent.map(|body| Flow::shared(body, place)))
            }
        }
    }

    async fn open(&self, request: &Request<Full<Bytes>>, connect: Option<Duration>) -> Result<Lane, Lost> {
        let link = self.connector.connect(request.uri().clone(), connect).await.map_err(Lost::Dialling)?;
        let lost = |error| Lost::Calling { error, answered: false };
        match link.connected().is_negotiated_h2() {
            true => self.share(link).await.map_err(lost),
            false => Ok(Lane::Own(Line::new(link))),
        }
    }

    async fn share(&self, link: Box<dyn Link>) -> hyper::Result<Lane> {
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_header_list_size(HEAD_BYTES_MAX as u32)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(HTTP2_PING)
            .handshake(link)
            .await?;
        // Ends when nobody can send by it any more. Its calls are told how.
        tokio::spawn(connection);
        let calls = Arc::new(());
        let place = Place(calls.clone());
        self.pool.add(Shared { sender: sender.clone(), calls, answered: false, taken_at: Instant::now() });
        Ok(Lane::Shared { sender, place, answered: false })
    }
}

impl Pool {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Lane> {
        let (mut open, now) = (self.open(), Instant::now());
        open.shared.retain(|shared| !shared.sender.is_closed());
        if let Some(shared) = open.shared.iter_mut().find(|shared| shared.has_room()) {
            shared.taken_at = now;
            let answered = std::mem::replace(&mut shared.answered, true);
            return Some(Lane::Shared { sender: shared.sender.clone(), place: Place(shared.calls.clone()), answered });
        }
        while let Some((mut line, since)) = open.resting.pop() {
            if now.duration_since(since) < REST && line.is_free() {
                return Some(Lane::Own(line));
            }
        }
        None
    }

    /// A call is over: its line may take another.
    pub fn give_back(self: &Arc<Self>, mut line: Line) {
        if !line.is_free() {
            return;
        }
        let mut open = self.open();
        if open.resting.len() < RESTING_MAX {
            open.resting.push((line, Instant::now()));
            self.watch(&mut open);
        }
    }

    fn add(self: &Arc<Self>, shared: Shared) {
        let mut open = self.open();
        open.shared.push(shared);
        self.watch(&mut open);
    }

    /// One task, for as long as there is anything to let go.
    fn watch(self: &Arc<Self>, open: &mut Open) {
        if !open.watched
            && let Ok(runtime) = Handle::try_current()
        {
            open.watched = true;
            runtime.spawn(watch(Arc::downgrade(self)));
        }
    }
}

async fn watch(pool: Weak<Pool>) {
    loop {
        sleep(REST).await;
        let Some(pool) = pool.upgrade() else { return };
        let (mut open, now) = (pool.open(), Instant::now());
        open.resting.retain(|(_, since)| now.duration_since(*since) < REST);
        open.shared.retain(|shared| shared.has_calls() || now.duration_since(shared.taken_at) < REST);
        if open.resting.is_empty() && open.shared.is_empty() {
            open.watched = false;
            return;
        }
    }
}

impl Shared {
    fn has_calls(&self) -> bool {
        Arc::strong_count(&self.calls) > 1
    }

    fn has_room(&self) -> bool {
        Arc::strong_count(&self.calls) <= CALLS_MAX
    }
}
