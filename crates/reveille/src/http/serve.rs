//! Connections. Driven by hand instead of `axum::serve`, which has no header timeout, no bound on connections and no
//! end for streams: a client that sends half a header must not hold a place for ever.

use super::{
    access::Access,
    cors,
    guard::Guard,
    prompt::prompt,
    receipt::{Flushing, Receipts},
};
use axum::{
    Router,
    http::{Request, StatusCode},
    response::{IntoResponse, Response},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, io, pin::pin, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::Service;

/// A client has this long to send its request head, also between requests on one connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections at once; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 16_384;
/// Open requests have this long to end when the server stops. Stand-bys and streams end at once.
const DRAIN: Duration = Duration::from_secs(10);
/// A timer armed before all others wakes the thread that waits for the earliest one: a system call, and often a switch to
/// another core. One that is always nearer than those of connections and calls spares every request that.
const NEAREST_TIMER: Duration = Duration::from_secs(5);
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
                Ok((stream, _)) => stream,
                Err(error) => {
                    pause(error).await;
                    continue;
                }
            },
        };
        // Boxed, because a future that is moved into another takes its room twice.
        let connection = Box::pin(connection(stream, router.clone(), doorman.clone(), drain.clone()));
        open.spawn(async move {
            prompt(connection).await;
            drop(place);
        });
    }
    drop(listener);
    nearest.abort();
    drain.cancel();
    open.close();
    if tokio::time::timeout(DRAIN, open.wait()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

/// What is asked of every request before anybody sees it.
#[derive(Default)]
pub struct Doorman {
    pub guard: Guard,
    pub access: Arc<Access>,
}

impl Doorman {
    /// The answer to a request that goes no further.
    fn refuse(&self, request: &mut Request<Incoming>) -> Option<Response> {
        if let Err(refused) = self.guard.check(request) {
            return Some(refused.into_response());
        }
        if let Some(answer) = cors::preflight(request) {
            return Some(answer);
        }
        match self.access.admit(request) {
            Ok(caller) => drop(request.extensions_mut().insert(caller)),
            Err(refused) => return Some(refused.into_response()),
        }
        None
    }
}

/// One connection, until the client goes or, once `drain` is cancelled, its open request is answered.
async fn connection(stream: TcpStream, router: Router, doorman: Arc<Doorman>, drain: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let receipts = Receipts::default();
    let io = Flushing::new(TokioIo::new(stream), receipts.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (mut router, other) = (router.clone(), cors::other_origin(&request));
        let refused = doorman.refuse(&mut request);
        request.extensions_mut().insert(receipts.clone());
        async move {
            let (refused, mut response) = match refused {
                Some(refused) => (true, refused),
                None => (false, router.call(request).await?),
            };
            // A page that was refused may not even read why, unless it is one that may ask.
            if let Some(origin) = other.filter(|_| !refused || response.status() != StatusCode::FORBIDDEN) {
                cors::allow(response.headers_mut(), origin);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(io, service)
        // For WebSockets, which then live on their own.
        .with_upgrades();
    let mut connection = pin!(connection);
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
