//! One request and its response over HTTP, seen from outside the SDK: the head goes out before a stand-by begins, and a
//! delivery is confirmed when the event that carries its result was written.

use super::{cancel::Place, standby::SIGN_OF_LIFE};
use crate::{engine::Delivery, http::receipt::Receipts};
use axum::{
    body::Body,
    http::{HeaderValue, Response, header},
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::Frame;
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use serde::{Deserialize, de::IgnoredAny};
use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};
use tokio::{sync::Notify, time::Interval};
use tokio_util::sync::WaitForCancellationFutureOwned;

/// An event stream's comment: clients ignore it, and it shows that the connection lives.
const COMMENT: &[u8] = b": standing by\n\n";

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Where the handler of a request leaves word for whoever writes the response.
#[derive(Default)]
pub struct Slot {
    deliveries: Mutex<Vec<Arc<Delivery>>>,
    begun: Notify,
}

impl Slot {
    pub fn fill(&self, deliveries: Vec<Arc<Delivery>>) {
        *self.deliveries.lock().unwrap_or_else(PoisonError::into_inner) = deliveries;
    }

    /// The answer may take long: the head shall go out now.
    pub fn begin(&self) {
        self.begun.notify_one();
    }

    fn take(&self) -> Vec<Arc<Delivery>> {
        std::mem::take(&mut *self.deliveries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_empty(&self) -> bool {
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// Ready when the request is cancelled, which is possible for as long as its place is kept.
pub type Cancelled = (Pin<Box<WaitForCancellationFutureOwned>>, Place);

/// What belongs to an exchange besides its answer.
pub struct Exchange {
    pub slot: Arc<Slot>,
    pub receipts: Receipts,
    /// Ends the response when the client cancels the request by another one.
    pub cancelled: Option<Cancelled>,
}

impl Exchange {
    /// The response: the SDK's own, or an event stream begun before the SDK has anything to say.
    pub async fn respond(self, mut answering: BoxFuture<'static, Answer>) -> Response<Body> {
        let slot = self.slot.clone();
        let answer = tokio::select! {
            biased;
            answer = &mut answering => answer,
            () = slot.begun.notified() => return self.early(answering),
        };
        let (parts, body) = answer.into_parts();
        Response::from_parts(parts, Body::new(ExchangeBody { exchange: self, stage: Stage::Answer(body) }))
    }

    fn early(self, answering: BoxFuture<'static, Answer>) -> Response<Body> {
        let signs = tokio::time::interval(SIGN_OF_LIFE);
        let stage = Stage::Waiting { events: Box::pin(events(answering)), signs };
        let mut response = Response::new(Body::new(ExchangeBody { exchange: self, stage }));
        for (name, value) in [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
            (header::HeaderName::from_static("x-accel-buffering"), "no"),
        ] {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// The answer as events, also where the SDK answers with plain JSON.
async fn events(answering: BoxFuture<'static, Answer>) -> BoxBody<Bytes, Infallible> {
    let (parts, body) = answering.await.into_parts();
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.starts_with("text/event-stream") {
        return body;
    }
    let Ok(whole) = body.collect().await;
    Full::new(Bytes::from([b"data: ".as_slice(), &whole.to_bytes(), b"\n\n"].concat())).boxed()
}

struct ExchangeBody {
    exchange: Exchange,
    stage: Stage,
}

enum Stage {
    Waiting { events: BoxFuture<'static, BoxBody<Bytes, Infallible>>, signs: Interval },
    Answer(BoxBody<Bytes, Infallible>),
    Over,
}

impl http_body::Body for ExchangeBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some((cancelled, _)) = &mut self.exchange.cancelled
            && cancelled.as_mut().poll(cx).is_ready()
        {
            self.stage = Stage::Over; // dropping the SDK's answer ends the call behind it
        }
        loop {
            match &mut self.stage {
                Stage::Waiting { events, signs } => match events.as_mut().poll(cx) {
                    Poll::Ready(body) => self.stage = Stage::Answer(body),
                    Poll::Pending => {
                        ready!(signs.poll_tick(cx));
                        return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(COMMENT)))));
                    }
                },
                Stage::Answer(body) => {
                    let frame = ready!(Pin::new(body).poll_frame(cx));
                    match &frame {
                        Some(Ok(frame)) => self.taken(frame),
                        _ => {
                            self.exchange.receipts.taken(self.exchange.slot.take());
                            self.stage = Stage::Over;
                        }
                    }
                    return Poll::Ready(frame);
                }
                Stage::Over => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }
}

impl ExchangeBody {
    /// Progress may still be queued before the result when the deliveries are known.
    fn taken(&self, frame: &Frame<Bytes>) {
        if !self.exchange.slot.is_empty() && frame.data_ref().is_some_and(|bytes| is_result(bytes)) {
            self.exchange.receipts.taken(self.exchange.slot.take());
        }
    }
}

/// Whether these bytes, one event or a whole JSON body, are the response to a request.
fn is_result(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Message {
        #[serde(default)]
        result: Option<IgnoredAny>,
        #[serde(default)]
        error: Option<IgnoredAny>,
    }
    let data = bytes.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data:")).unwrap_or(bytes);
    serde_json::from_slice::<Message>(data).is_ok_and(|message| message.result.is_some() || message.error.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_told_from_progress() {
        for (bytes, expected) in [
            (r#"data: {"jsonrpc":"2.0","id":1,"result":{}}"#, true),
            ("id: 3\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1}}\n\n", true),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, true),
            (r#"data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"result":1}}"#, false),
            (": standing by\n\n", false),
        ] {
            assert_eq!(is_result(bytes.as_bytes()), expected, "{bytes}");
        }
    }
}
