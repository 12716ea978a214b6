//! Connections. Driven by hand instead of `axum::serve`, which has no header timeout, no bound on connections and no
//! end for streams: a client that sends half a header must not hold a place for ever.

use super::receipt::{Flushing, Receipts};
use axum::{Router, body::Body, http::Request};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// A client has this long to send its request head, also between requests on one connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections at once; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 16_384;
/// Open requests have this long to end when the server stops. Stand-bys and streams end at once.
const DRAIN: Duration = Duration::from_secs(10);
/// Out of descriptors: pause instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop` is cancelled and open requests are answered.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
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
        let connection = graceful.watch(connection(stream, router.clone()));
        tokio::spawn(async move {
            // A broken connection is the client's affair; what it interrupted has cleaned up after itself.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

fn connection(stream: TcpStream, router: Router) -> impl hyper_util::server::graceful::GracefulConnection {
    let _ = stream.set_nodelay(true);
    let receipts = Receipts::default();
    let io = Flushing::new(TokioIo::new(stream), receipts.clone());
    let service = router.map_request(move |mut request: Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(receipts.clone());
        request.map(Body::new)
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(io, TowerToHyperService::new(service))
}

async fn pause(error: io::Error) {
    if !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
        tracing::warn!(%error, "cannot accept a connection");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}
