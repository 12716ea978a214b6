//! What an idle timeout costs per item, on a stream whose items are ready and on one that is pending before each.

use crate::table;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, StreamBody};
use idle_timeout::{IdleBody, IdleStream, IdleTimeout};
use std::{
    convert::Infallible,
    future::Future,
    hint::black_box,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::time::Sleep;
use tower_http::timeout::TimeoutBody;

const ITEMS: u64 = 2_000_000;
const ROUNDS: usize = 5;
const LIMIT: Duration = Duration::from_secs(180);

/// Counts up; pending once before each item if asked to.
struct Source {
    next: u64,
    pauses: bool,
    paused: bool,
}

impl Stream for Source {
    type Item = u64;

    #[inline]
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u64>> {
        if self.pauses && !std::mem::replace(&mut self.paused, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.paused = false;
        self.next += 1;
        Poll::Ready((self.next <= ITEMS).then_some(self.next))
    }
}

/// The usual way: a timer moved with every item.
struct Resetting<S> {
    source: S,
    timer: Pin<Box<Sleep>>,
}

impl<S: Stream + Unpin> Stream for Resetting<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        match Pin::new(&mut self.source).poll_next(cx) {
            Poll::Ready(item) => {
                self.timer.as_mut().reset(tokio::time::Instant::now() + LIMIT);
                Poll::Ready(item)
            }
            Poll::Pending => self.timer.as_mut().poll(cx).map(|()| None),
        }
    }
}

pub async fn run() -> anyhow::Result<()> {
    let mut rows = Vec::new();
    let mut best = [[f64::MAX; 2]; 7];
    for _ in 0..ROUNDS {
        for (column, pauses) in [false, true].into_iter().enumerate() {
            let source = || Source { next: 0, pauses, paused: false };
            let body = || StreamBody::new(source().map(|_| Ok::<_, Infallible>(Frame::data(Bytes::new()))));
            let controller = IdleTimeout::new(LIMIT);
            let times = [
                drain(source()).await,
                drain(IdleStream::new(source(), LIMIT)).await,
                drain(source().inspect(|_| controller.reset())).await,
                drain(Resetting { source: source(), timer: Box::pin(tokio::time::sleep(LIMIT)) }).await,
                drain(tokio_stream::StreamExt::timeout(source(), LIMIT)).await,
                frames(IdleBody::new(body(), LIMIT)).await - frames(body()).await,
                frames(TimeoutBody::new(LIMIT, body())).await - frames(body()).await,
            ];
            for (best, time) in best.iter_mut().zip(times) {
                best[column] = best[column].min(time);
            }
        }
    }
    let names = [
        "nothing",
        "idle-timeout, stream",
        "idle-timeout, reset() by hand",
        "Sleep::reset per item",
        "tokio_stream timeout",
        "idle-timeout, body",
        "tower-http TimeoutBody",
    ];
    for (index, name) in names.into_iter().enumerate() {
        let over = |column: usize| match index {
            0 => format!("({:.1})", best[0][column]),
            // Bodies are measured against a bare body.
            5 | 6 => format!("{:+.1}", best[index][column]),
            _ => format!("{:+.1}", best[index][column] - best[0][column]),
        };
        rows.push([name.to_owned(), over(0), over(1)]);
    }
    let header = ["", "items ready, ns over nothing", "pending before each, ns over nothing"];
    table::print("Idle timeouts: cost per item, best of 5 rounds", header, &rows);
    Ok(())
}

/// Nanoseconds per item.
async fn drain<S: Stream>(stream: S) -> f64 {
    let mut stream = pin!(stream);
    let began = Instant::now();
    while let Some(item) = stream.next().await {
        black_box(item);
    }
    began.elapsed().as_nanos() as f64 / ITEMS as f64
}

async fn frames<B: Body>(body: B) -> f64 {
    let mut body = pin!(body);
    let began = Instant::now();
    while let Some(frame) = body.frame().await {
        let _ = black_box(frame);
    }
    began.elapsed().as_nanos() as f64 / ITEMS as f64
}
