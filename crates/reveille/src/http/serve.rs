//! Connections. Driven by hand instead of `axum::serve`, which has no header timeout, no bound on connections and no
//! end for streams: a client that sends half a header must not hold a place for ever.

use super::{
    access::{Access, Caller},
    cors,
    guard::Guard,
    pace::{Pace, Who},
    patience::Patient,
    permit,
    problem::ApiError,
    prompt::prompt,
    receipt::{Flushing, Receipts},
};
use crate::engine::Engine;
use axum::{
    Router,
    http::{Request, StatusCode},
    response::{IntoResponse, Response},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use std::{
    convert::Infallible,
    io,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::Service;

/// A client has this long to send its request head, also between requests on one connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The head of a request; a longer one is refused with 431.
const HEAD_BYTES_MAX: usize = 128 * 1024;
/// Headers of a request; more are refused with 431.
const HEADERS_MAX: usize = 100;
/// Connections at once, WebSockets among them; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 16_384;
/// Open requests have this long to end when the server stops. Stand-bys and streams end at once.
const DRAIN: Duration = Duration::from_secs(10);
/// A timer armed before all others wakes the thread that waits for the earliest one: a system call, and often a switch to
/// another core. One that is always nearer than those of connections and calls spares every request that.
const NEAREST_TIMER: Duration = Duration::from_secs(5);
/// Finds out that a client is gone without a word, on connections that wait.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);
/// Out of descriptors: pause instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop` is cancelled and open requests are answered.
pub async fn serve(listener: TcpListener, router: Router, doorman: Doorman, stop: CancellationToken) {
    let doorman = Arc::new(doorman);
    let (drain, open) = (CancellationToken::new(), TaskTracker::new());
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let nearest = tokio::spawn(async {
        loop {
            tokio::time::sleep(NEAREST_TIMER).await;
        }
    });
    loop {
        let place = tokio::select! {
            () = stop.cancelled() => break,
            place = places.clone().acquire_owned() => place.expect("the semaphore is never closed"),
        };
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => (stream, peer.ip()),
                Err(error) => {
                    pause(error).await;
                    continue;
                }
            },
        };
        let place = Place(Arc::new(place));
        // Boxed, because a future that is moved into another takes its room twice.
        let connection = Box::pin(connection(stream, place, router.clone(), doorman.clone(), drain.clone()));
        open.spawn(prompt(connection));
    }
    drop(listener);
    nearest.abort();
    drain.cancel();
    open.close();
    if tokio::time::timeout(DRAIN, open.wait()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

/// The place of a connection, for as long as anybody has it. Every request carries it: what a request turns its
/// connection into keeps it.
#[derive(Clone)]
pub struct Place(#[allow(dead_code, reason = "held, never looked at")] Arc<OwnedSemaphorePermit>);

/// What is asked of every request before anybody sees it.
#[derive(Default)]
pub struct Doorman {
    pub guard: Guard,
    pub access: Arc<Access>,
    pub pace: Pace,
    /// Says whose things a request is about; without it, tokens have no bounds.
    pub engine: Option<Arc<Engine>>,
}

impl Doorman {
    /// The answer to a request that goes no further.
    fn refuse(&self, request: &mut Request<Incoming>, peer: IpAddr) -> Option<Response> {
        if let Err(refused) = self.guard.check(request) {
            return Some(refused.into_response());
        }
        if let Some(answer) = cors::preflight(request) {
            return Some(answer);
        }
        let admitted = self.access.admit(request);
        if !self.in_time(admitted.as_ref().ok(), peer) {
            let detail = "so many requests at once are not served; wait a second and try again";
            let refused = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "Too fast", "too_many_requests", detail);
            return Some(refused.into_response());
        }
        match admitted {
            Ok(caller) => drop(request.extensions_mut().insert(caller)),
            Err(refused) => return Some(refused.into_response()),
        }
        None
    }

    fn in_time(&self, caller: Option<&Caller>, peer: IpAddr) -> bool {
        let who = match caller {
            None | Some(Caller::Stranger) => Who::Stranger(peer),
            Some(_) if !self.pace.counts_known() => return true,
            Some(Caller::Anybody) => Who::Peer(peer),
            Some(Caller::Known(pass)) => Who::Token(pass.grant.name.clone()),
        };
        self.pace.allows(who, Instant::now())
    }

    /// Whether the caller may ask this of this server.
    async fn permits(&self, request: &Request<Incoming>) -> Result<(), ApiError> {
        match request.extensions().get::<Caller>() {
            Some(caller @ Caller::Known(_)) => permit::check(caller, request, self.engine.as_deref()).await,
            _ => Ok(()),
        }
    }
}

/// One connection, until the client goes or, once `drain` is cancelled, its open request is answered.
async fn connection(
    (stream, peer): (TcpStream, IpAddr),
    place: Place,
    router: Router,
    doorman: Arc<Doorman>,
    drain: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(TCP_KEEPALIVE));
    let receipts = Receipts::default();
    let io = Flushing::new(Patient::new(TokioIo::new(stream)), receipts.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (mut router, other) = (router.clone(), cors::other_origin(&request));
        let refused = doorman.refuse(&mut request, peer);
        let doorman = doorman.clone();
        request.extensions_mut().insert(receipts.clone());
        request.extensions_mut().insert(place.clone());
        // Boxed: hyper keeps the room of a request's future for as long as the connection is open.
        Box::pin(async move {
            let refused = match refused {
                None => doorman.permits(&request).await.err().map(IntoResponse::into_response),
                refused => refused,
            };
            let (refused, mut response) = match refused {
                Some(refused) => (true, refused),
                None => (false, router.call(request).await?),
            };
            // A page that was refused may not even read why, unless it is one that may ask.
            if let Some(origin) = other.filter(|_| !refused || response.status() != StatusCode::FORBIDDEN) {
                cors::allow(response.headers_mut(), origin);
            }
            Ok::<_, Infallible>(response)
        })
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(io, service)
        // For WebSockets, which then live on their own.
        .with_upgrades();
    // Boxed: what is pinned in here would take its room twice, for as long as the connection is open.
    let mut connection = Box::pin(connection);
    // A broken connection is the client's affair; what it interrupted has cleaned up after itself.
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = drain.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

async fn pause(error: io::Error) {
    if !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
        tracing::warn!(%error, "cannot accept a connection");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}
