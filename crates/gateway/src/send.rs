//! One call to one upstream, tried again only while nothing of an answer has come.

use crate::{
    dial::{ConnectTimeout, Connector, Dial},
    fault::Fault,
    headers,
    limits::Limit,
    protocol::Protocol,
    upstream::Upstream,
};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, Error},
    rt::{TokioExecutor, TokioTimer},
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout_at};

/// Idle connections are let go before most servers do it themselves.
const POOL_IDLE: Duration = Duration::from_secs(50);
/// What one read from an HTTP/1 upstream takes at most. Every open stream has such a buffer.
const READ_BYTES: usize = 4 * 1024;
/// The first wait before another try; doubles.
const BACKOFF: Duration = Duration::from_millis(300);
/// An upstream that asks for more patience than this gets its answer passed on instead.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(15);
/// Finds out that an HTTP/2 peer is gone.
const HTTP2_PING: Duration = Duration::from_secs(30);

/// An upstream and its connections.
pub(crate) struct Route {
    pub upstream: Upstream,
    client: Client<Connector, Full<Bytes>>,
}

/// What is sent.
#[derive(Clone)]
pub(crate) struct Call {
    pub protocol: Protocol,
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Until when the answer must have begun, and which limit says so.
pub(crate) type Deadline = Option<(Instant, Limit, Duration)>;

impl Route {
    pub fn new(upstream: Upstream, dial: Arc<dyn Dial>) -> Self {
        let connector = Connector { dial, limit: upstream.limits.connect };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .http2_keep_alive_interval(HTTP2_PING)
            .http1_read_buf_exact_size(READ_BYTES)
            .build(connector);
        Self { upstream, client }
    }

    /// Sends, and gives the head of the answer. `attempts` counts the tries.
    pub async fn send(
        &self,
        call: Call,
        deadline: Deadline,
        retries: u32,
        attempts: &mut u32,
    ) -> Result<Response<Incoming>, Fault> {
        let request = self.request(call)?;
        loop {
            *attempts += 1;
            let sent = self.once(request.clone(), deadline).await;
            let left = *attempts <= retries;
            let wait = match &sent {
                Ok(response) if left => retry_after(response, *attempts),
                Err(Fault::Unreachable { .. }) if left => Some(backoff(*attempts)),
                _ => None,
            };
            match wait.filter(|wait| deadline.is_none_or(|(end, ..)| Instant::now() + *wait < end)) {
                Some(wait) => sleep(wait).await,
                None => return sent,
            }
        }
    }

    fn request(&self, call: Call) -> Result<Request<Full<Bytes>>, Fault> {
        let Call { protocol, method, uri, mut headers, body } = call;
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

    async fn once(&self, request: Request<Full<Bytes>>, deadline: Deadline) -> Result<Response<Incoming>, Fault> {
        let sending = self.client.request(request);
        let sent = match deadline {
            Some((end, limit, after)) => timeout_at(end, sending).await.map_err(|_| Fault::Limit { limit, after })?,
            None => sending.await,
        };
        sent.map_err(|error| self.fault(&error))
    }

    fn fault(&self, error: &Error) -> Fault {
        let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
        for cause in causes.clone() {
            if let Some(ConnectTimeout(after)) = cause.downcast_ref() {
                return Fault::Limit { limit: Limit::Connect, after: *after };
            }
        }
        let upstream = self.upstream.name.clone();
        let why = causes.last().map_or_else(|| error.to_string(), ToString::to_string);
        match error.is_connect() {
            true => Fault::Unreachable { upstream, why },
            false => Fault::Broken { upstream, why },
        }
    }
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
        (None, None) => Some(backoff(attempt)),
    };
    asked.filter(|wait| *wait <= RETRY_AFTER_MAX)
}

/// Doubles, and is spread so that many do not come back at once.
fn backoff(attempt: u32) -> Duration {
    (BACKOFF * 2u32.saturating_pow(attempt.saturating_sub(1).min(5))).mul_f64(rand::random_range(0.75..1.25))
}
