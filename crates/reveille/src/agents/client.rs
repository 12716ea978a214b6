//! One request to somebody else's server, within bounds: where it may go, how long it may take, how much may come back.
//! Redirects are not followed, since they would lead where nobody has looked.

use super::reach::{Forbidden, Reach, Resolver};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use reveille_core::Millis;
use std::{error::Error, io, net::IpAddr, sync::OnceLock, time::Duration};

/// Of an answer, so much is kept; a larger one is cut off and the connection closed.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle connections are kept this long.
const IDLE: Duration = Duration::from_secs(30);

type Wire = Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>;

/// Made when first used: reading the system's certificates takes a moment.
#[derive(Default)]
pub struct Outgoing {
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

impl Outgoing {
    pub async fn send(&self, request: Request<Full<Bytes>>, reach: Reach) -> Result<Answered, Fault> {
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
                let fresh = wire(reach).map_err(|error| Fault::Unreachable(format!("certificates: {error}")))?;
                made.get_or_init(|| fresh)
            }
        };
        let response = wire.request(request).await.map_err(|error| fault(&error))?;
        let (head, body) = response.into_parts();
        let seconds = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let (text, cut) = read(body).await?;
        Ok(Answered { status: head.status, text, cut, retry_after: seconds.map(Millis::from_secs) })
    }
}

fn fault(error: &hyper_util::client::legacy::Error) -> Fault {
    let causes = std::iter::successors(Error::source(error), |cause| (**cause).source());
    for cause in causes.clone() {
        let inner = cause.downcast_ref::<io::Error>().and_then(|io| io.get_ref()?.downcast_ref());
        if let Some(forbidden) = cause.downcast_ref::<Forbidden>().or(inner) {
            return Fault::Forbidden(*forbidden);
        }
    }
    let why = causes.last().map_or_else(|| error.to_string(), ToString::to_string);
    if error.is_connect() { Fault::Unreachable(why) } else { Fault::Broken(why) }
}

/// As much of the body as is kept.
async fn read(body: hyper::body::Incoming) -> Result<(String, bool), Fault> {
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

fn wire(reach: Reach) -> io::Result<Wire> {
    let mut tcp = HttpConnector::new_with_resolver(Resolver(reach));
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let provider = rustls::crypto::ring::default_provider();
    let tls = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider)?;
    let connector = tls.https_or_http().enable_http1().wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).build(connector))
}
