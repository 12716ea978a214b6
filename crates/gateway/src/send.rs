//! One call to one upstream, tried again only while nothing of an answer has come.

use crate::{
    dial::{ConnectTimeout, Connector, Dial},
    fault::Fault,
    flow::{Flow, causes, why},
    headers,
    lanes::{Lanes, Lost},
    limits::Limit,
    protocol::Protocol,
    upstream::Upstream,
};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use std::{io, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout_at};

/// The first wait before another try; doubles.
const BACKOFF: Duration = Duration::from_millis(300);
/// An upstream that asks for more patience than this gets its answer passed on instead.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(15);

/// An upstream and its connections.
pub(crate) struct Route {
    pub upstream: Upstream,
    lanes: Lanes,
}

/// What is sent.
#[derive(Clone)]
pub(crate) struct Call {
    pub protocol: Protocol,
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// How long it may wait for a connection of its own.
    pub connect: Option<Duration>,
}

/// Until when the answer must have begun, and which limit says so.
pub(crate) type Deadline = Option<(Instant, Limit, Duration)>;

/// Why there is no answer, and whether another try may bring one.
struct Miss {
    fault: Fault,
    again: Again,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    Never,
    Later,
    /// The connection had come to its end: another will do.
    AtOnce,
}

impl Route {
    pub fn new(upstream: Upstream, dial: Arc<dyn Dial>) -> Self {
        Self { upstream, lanes: Lanes::new(Connector(dial)) }
    }

    /// Sends, and gives the head of the answer. `attempts` counts the tries.
    pub async fn send(
        &self,
        call: Call,
        deadline: Deadline,
        retries: u32,
        attempts: &mut u32,
    ) -> Result<Response<Flow>, Fault> {
        let connect = call.connect;
        let request = self.request(call)?;
        let mut at_once = true;
        loop {
            *attempts += 1;
            let sent = self.once(request.clone(), connect, deadline).await;
            let wait = match &sent {
                _ if *attempts > retries => None,
                Ok(response) => retry_after(response, *attempts),
                Err(Miss { again: Again::AtOnce, .. }) if std::mem::take(&mut at_once) => Some(Duration::ZERO),
                Err(Miss { again: Again::AtOnce | Again::Later, .. }) => Some(backoff(*attempts)),
                Err(Miss { again: Again::Never, .. }) => None,
            };
            match wait.filter(|wait| deadline.is_none_or(|(end, ..)| Instant::now() + *wait < end)) {
                Some(Duration::ZERO) => {}
                Some(wait) => sleep(wait).await,
                None => return sent.map_err(|miss| miss.fault),
            }
        }
    }

    fn request(&self, call: Call) -> Result<Request<Full<Bytes>>, Fault> {
        let Call { protocol, method, uri, mut headers, body, .. } = call;
        headers::to_upstream(&mut headers);
        if let Some(key) = &self.upstream.key {
            let (name, value) = key.header(protocol);
            headers::set_key(&mut headers, name, value);
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }

    async fn once(
        &self,
        request: Request<Full<Bytes>>,
        connect: Option<Duration>,
        deadline: Deadline,
    ) -> Result<Response<Flow>, Miss> {
        let sending = self.lanes.send(request, connect);
        let sent = match deadline {
            Some((end, limit, after)) => timeout_at(end, sending)
                .await
                .map_err(|_| Miss { fault: Fault::Limit { limit, after }, again: Again::Never })?,
            None => sending.await,
        };
        sent.map_err(|lost| self.miss(&lost))
    }

    fn miss(&self, lost: &Lost) -> Miss {
        let upstream = self.upstream.name.clone();
        match lost {
            Lost::Dialling(error) => match causes(&**error).find_map(|cause| cause.downcast_ref()) {
                Some(ConnectTimeout(after)) => {
                    Miss { fault: Fault::Limit { limit: Limit::Connect, after: *after }, again: Again::Never }
                }
                None => Miss { fault: Fault::Unreachable { upstream, why: why(&**error) }, again: Again::Later },
            },
            Lost::Calling { error, answered } => match end(error, *answered) {
                Some(again) => Miss { fault: Fault::Unanswered { upstream, why: why(error) }, again },
                None => Miss { fault: Fault::Broken { upstream, why: why(error) }, again: Again::Never },
            },
        }
    }
}

/// The connection ended before anything of an answer came.
fn end(error: &hyper::Error, answered: bool) -> Option<Again> {
    // The peer says itself that it did not look at the request.
    let refused = causes(error).filter_map(|cause| cause.downcast_ref::<h2::Error>()).any(|error| {
        let reason = if error.is_go_away() { h2::Reason::NO_ERROR } else { h2::Reason::REFUSED_STREAM };
        error.is_remote() && error.reason() == Some(reason)
    });
    if refused || error.is_canceled() {
        return Some(Again::AtOnce);
    }
    let broken = causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|error| {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
        matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof)
    });
    if !broken && !error.is_incomplete_message() {
        return None;
    }
    // One that had carried answers is often closed by its server just as it is used again. A new one is not.
    Some(if answered { Again::AtOnce } else { Again::Never })
}

/// How long to wait before asking again; `None` if the answer is to be taken as it is.
fn retry_after<B>(response: &Response<B>, attempt: u32) -> Option<Duration> {
    const OVERLOADED: u16 = 529;
    let again = matches!(
        response.status(),
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    ) || response.status().as_u16() == OVERLOADED;
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    if !again || text("x-should-retry") == Some("false") {
        return None;
    }
    let asked = match (text("retry-after-ms"), text("retry-after")) {
        (Some(ms), _) => ms.trim().parse().ok().map(Duration::from_millis),
        (None, Some(seconds)) => seconds.trim().parse().ok().map(Duration::from_secs),
        (None, None) => Some(Duration::ZERO),
    };
    // At once is never meant, whatever is said.
    asked.filter(|wait| *wait <= RETRY_AFTER_MAX).map(|wait| wait.max(backoff(attempt)))
}

/// Doubles, and is spread so that many do not come back at once.
fn backoff(attempt: u32) -> Duration {
    (BACKOFF * 2u32.saturating_pow(attempt.saturating_sub(1).min(5))).mul_f64(rand::random_range(0.75..1.25))
}
