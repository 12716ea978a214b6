//! Connections to upstreams: TCP and TLS with the system's roots, or whatever a test puts in their place.

use async_trait::async_trait;
use http::Uri;
use hyper::rt::{Read, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use std::{io, sync::Arc, time::Duration};
use tower::{BoxError, ServiceExt};

/// Finds out that a peer is gone without a word, on connections that wait.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// A connection that HTTP can be spoken on.
pub trait Link: Read + Write + Connection + Send + Unpin {}
impl<T: Read + Write + Connection + Send + Unpin> Link for T {}

#[async_trait]
pub trait Dial: Send + Sync {
    async fn dial(&self, to: Uri) -> Result<Box<dyn Link>, BoxError>;
}

/// The network.
pub struct Net(HttpsConnector<HttpConnector>);

impl Net {
    /// Without TLS, for upstreams that need none: reading the system's roots takes a moment.
    pub fn plain() -> Self {
        let provider = rustls::crypto::ring::default_provider();
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .expect("the provider knows the default versions")
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let tls = HttpsConnectorBuilder::new().with_tls_config(config);
        Self(tls.https_or_http().enable_http1().enable_http2().wrap_connector(tcp()))
    }

    /// Trusts what the system trusts.
    pub fn with_system_roots() -> io::Result<Self> {
        let provider = rustls::crypto::ring::default_provider();
        let tls = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider)?;
        Ok(Self(tls.https_or_http().enable_http1().enable_http2().wrap_connector(tcp())))
    }
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(TCP_KEEPALIVE));
    tcp
}

#[async_trait]
impl Dial for Net {
    async fn dial(&self, to: Uri) -> Result<Box<dyn Link>, BoxError> {
        Ok(Box::new(self.0.clone().oneshot(to).await?))
    }
}

/// Dials within the limit of the call that needs a connection. Others may take it later.
pub(crate) struct Connector(pub Arc<dyn Dial>);

/// The connect limit ran out.
#[derive(Debug, thiserror::Error)]
#[error("no connection within {} ms", .0.as_millis())]
pub(crate) struct ConnectTimeout(pub Duration);

impl Connector {
    pub async fn connect(&self, to: Uri, limit: Option<Duration>) -> Result<Box<dyn Link>, BoxError> {
        let dialling = self.0.dial(to);
        match limit {
            Some(limit) => {
                tokio::time::timeout(limit, dialling).await.unwrap_or_else(|_| Err(ConnectTimeout(limit).into()))
            }
            None => dialling.await,
        }
    }
}
