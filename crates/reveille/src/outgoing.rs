//! One request to somebody else's server, within bounds: where it may go, how long it may take, how much may come back.
//! Redirects are not followed, since they would lead where nobody has looked.

use crate::reach::{Forbidden, Reach, Resolver};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use jiff::fmt::rfc2822;
use reveille_core::Millis;
use std::{error::Error, io, net::IpAddr, sync::OnceLock, time::Duration};

/// Of an answer, so much is kept; a larger one is cut off and the connection closed.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle connections are kept this long.
const IDLE: Duration = Duration::from_secs(30);

/// Nobody is heard who wants to be left alone for longer, in seconds.
const RETRY_AFTER_MAX: u64 = 24 * 3600;

type Wire = Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>;

/// How a call leaves the house: over the network, or over whatever is put in its place.
#[async_trait]
pub trait Carrier: Send + Sync + 'static {
    async fn carry(&self, request: Request<Full<Bytes>>, reach: Reach) -> Result<Answered, Fault>;
}

#[async_trait]
impl Carrier for Outgoing {
    async fn carry(&self, request: Request<Full<Bytes>>, reach: Reach) -> Result<Answered, Fault> {
        self.send(request, reach).await
    }
}

/// Made when first used: reading the system's certificates takes a moment.
pub struct Outgoing {
    /// Connections that are kept open for the next call, to each host.
    idle_max: usize,
    private: OnceLock<Wire>,
    public: OnceLock<Wire>,
}

pub struct Answered {
    pub status: StatusCode,
    pub text: String,
    /// It was longer.
    pub cut: bool,
    pub retry_after: Option<Millis>,
}

#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("it may not be called: {0}")]
    Forbidden(Forbidden),
    #[error("no connection: {0}")]
    Unreachable(String),
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl Default for Outgoing {
    fn default() -> Self {
        Self { idle_max: usize::MAX, private: OnceLock::new(), public: OnceLock::new() }
    }
}

impl Outgoing {
    /// Every call by a connection of its own, closed after it: for many hosts, each called now and then.
    pub fn one_by_one() -> Self {
        Self { idle_max: 0, ..Self::default() }
    }

    pub async fn send(&self, request: Request<Full<Bytes>>, reach: Reach) -> Result<Answered, Fault> {
        let response = self.begin(request, reach).await?;
        let (head, body) = response.into_parts();
        let (text, cut) = read(body).await?;
        Ok(Answered { status: head.status, text, cut, retry_after: retry_after(&head.headers) })
    }

    /// The head of the answer; its body is the caller's to read, within bounds.
    pub async fn begin(&self, request: Request<Full<Bytes>>, reach: Reach) -> Result<Response<Incoming>, Fault> {
        // A resolver is not asked about addresses.
        let host = request.uri().host().unwrap_or_default().trim_matches(['[', ']']);
        if let Ok(ip) = host.parse::<IpAddr>() {
            reach.check(ip).map_err(Fault::Forbidden)?;
        }
        let made = match reach {
            Reach::Private => &self.private,
            Reach::Public => &self.public,
        };
        let wire = match made.get() {
            Some(wire) => wire,
            None => {
                let fresh =
                    wire(reach, self.idle_max).map_err(|error| Fault::Unreachable(format!("certificates: {error}")))?;
                made.get_or_init(|| fresh)
            }
        };
        wire.request(request).await.map_err(|error| fault(&error))
    }
}

/// Seconds, or a date, which is taken by the clock of whoever says so.
fn retry_after(headers: &HeaderMap) -> Option<Millis> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let date = |text: &str| rfc2822::parse(text).ok().map(|date| date.timestamp().as_second());
    let asked = text(header::RETRY_AFTER)?;
    let seconds = asked.parse().ok().or_else(|| {
        let (then, now) = (date(asked)?, date(text(header::DATE)?)?);
        Some(u64::try_from(then - now).unwrap_or(0))
    })?;
    Some(Millis::from_secs(seconds.min(RETRY_AFTER_MAX)))
}

fn fault(error: &hyper_util::client::legacy::Error) -> Fault {
    let causes = std::iter::successors(Error::source(error), |cause| (**cause).source());
    for cause in causes.clone() {
        let inner = cause.downcast_ref::<io::Error>().and_then(|io| io.get_ref()?.downcast_ref());
        if let Some(forbidden) = cause.downcast_ref::<Forbidden>().or(inner) {
            return Fault::Forbidden(*forbidden);
        }
    }
    let untrusted = causes.clone().find_map(|cause| innermost(cause).downcast_ref());
    if let Some(rustls::Error::InvalidCertificate(why)) = untrusted {
        let why = match why {
            rustls::CertificateError::UnknownIssuer => "nobody this machine trusts has issued it".to_owned(),
            other => other.to_string(),
        };
        return Fault::Unreachable(format!("its certificate is not accepted: {why}"));
    }
    let why = causes.last().map_or_else(|| error.to_string(), ToString::to_string);
    if error.is_connect() { Fault::Unreachable(why) } else { Fault::Broken(why) }
}

/// What an error of input and output was made of; such are no causes of each other.
fn innermost<'a>(cause: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => innermost(inner),
        None => cause,
    }
}

/// As much of the body as is kept.
async fn read(body: Incoming) -> Result<(String, bool), Fault> {
    let mut body = Limited::new(body, ANSWER_BYTES_MAX);
    let mut kept = Vec::new();
    let mut cut = false;
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => kept.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                cut = true;
                break;
            }
            Err(error) => return Err(Fault::Broken(error.to_string())),
        }
    }
    Ok((String::from_utf8_lossy(&kept).into_owned(), cut))
}

fn wire(reach: Reach, idle_max: usize) -> io::Result<Wire> {
    let mut tcp = HttpConnector::new_with_resolver(Resolver(reach));
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let provider = rustls::crypto::ring::default_provider();
    let tls = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider)?;
    let connector = tls.https_or_http().enable_http1().wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).pool_max_idle_per_host(idle_max).build(connector))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_asked_for_in_seconds_or_by_a_date() {
        let now = "Wed, 18 Nov 2026 08:00:00 GMT";
        for (asked, date, expected) in [
            ("7", None, Some(7)),
            ("18446744073709551615", None, Some(RETRY_AFTER_MAX)),
            ("Wed, 18 Nov 2026 08:02:00 GMT", Some(now), Some(120)),
            ("Wed, 18 Nov 2026 07:00:00 GMT", Some(now), Some(0)),
            ("Wed, 18 Nov 2026 08:02:00 GMT", None, None),
            ("soon", Some(now), None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, asked.parse().expect("a value"));
            headers.extend(date.map(|date| (header::DATE, date.parse().expect("a value"))));
            assert_eq!(retry_after(&headers), expected.map(Millis::from_secs), "{asked}");
        }
    }
}
