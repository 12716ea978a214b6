//! MCP at `/mcp`, in front of the SDK's streamable HTTP.
//!
//! The SDK is run without sessions of its own in every revision, so that a restart of the daemon is nothing a client
//! notices: the session id that older revisions expect is made here and carries in itself all that is known of the
//! connection. `GET` is refused, as the protocol allows: this server sends nothing unasked, and a result that could be
//! fetched again would be told twice.

use super::{
    Handler, Identity,
    cancel::UnderWay,
    clients::slug,
    exchange::{Cancelled, Exchange, Slot},
    identity::{self, ConnectionSession, FRESH_PREFIX},
    local::Local,
    message::{self, Fault},
    protocol,
    standby::SIGN_OF_LIFE,
};
use crate::{
    http::{App, body, receipt::Receipts},
    secret,
};
use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header, request::Parts},
    response::IntoResponse,
    routing::MethodRouter,
};
use bytes::Bytes;
use http_body_util::Full;
use reveille_core::SessionId;
use rmcp::{
    RoleServer, ServerHandler,
    model::{JsonRpcError, ProtocolVersion},
    service::RequestContext,
    transport::{
        StreamableHttpServerConfig, StreamableHttpService, streamable_http_server::session::never::NeverSessionManager,
    },
};
use serde_json::Value;
use std::sync::Arc;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The engine's own handler.
pub fn handler(app: &App) -> Handler<Local> {
    Handler {
        backend: Local { engine: app.engine.clone(), stop: app.stop.clone() },
        identity: Identity::default(),
        limits: Arc::new(app.standby_limits.clone()),
        // The server's end is answered by the calls themselves; a connection's end drops them.
        stop: Default::default(),
    }
}

/// The route, for any handler of the protocol.
pub fn route<H: ServerHandler + Clone, S>(handler: H) -> MethodRouter<S> {
    axum::routing::any(handle::<H>).with_state(Door::new(handler))
}

/// The door's state, one for all requests.
struct Door<H> {
    service: StreamableHttpService<H, NeverSessionManager>,
    under_way: UnderWay,
}

impl<H> Clone for Door<H> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), under_way: self.under_way.clone() }
    }
}

impl<H: ServerHandler + Clone> Door<H> {
    fn new(handler: H) -> Self {
        // Host and origin were checked before any route; the SDK's own lists would only contradict ours.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_sse_retry(None)
            .with_sse_keep_alive(Some(SIGN_OF_LIFE))
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let service = StreamableHttpService::new(move || Ok(handler.clone()), Default::default(), config);
        Self { service, under_way: UnderWay::default() }
    }
}

async fn handle<H: ServerHandler>(State(door): State<Door<H>>, request: Request) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    if parts.method != Method::POST {
        let answer = door.service.handle(Request::from_parts(parts, Full::<Bytes>::default())).await;
        return answer.map(Body::new);
    }
    let bytes = match body::read(body).await {
        Ok(bytes) => bytes,
        Err(error) => return error.into_response(),
    };
    let message = match message::read(&bytes) {
        Ok((message, _)) => message,
        Err(fault) => return fault_response(*fault),
    };
    let connection = match Connection::of(&parts.headers) {
        Ok(connection) => connection,
        Err(()) => return (StatusCode::NOT_FOUND, "Not Found: Session not found").into_response(),
    };
    let made = Connection::made(&message);
    let cancelled = connection.as_ref().and_then(|connection| door.enter(connection, &message));
    let exchange = Exchange {
        slot: Arc::new(Slot::default()),
        receipts: parts.extensions.get::<Receipts>().cloned().unwrap_or_default(),
        cancelled,
    };
    parts.extensions.insert(exchange.slot.clone());
    parts.extensions.insert(ConnectionSession(connection.as_ref().map(|connection| connection.session.clone())));
    if let Some(connection) = connection {
        parts.extensions.insert(connection);
    }
    let answering = async move { door.service.handle(Request::from_parts(parts, Full::new(bytes))).await };
    let mut response = exchange.respond(Box::pin(answering)).await;
    if let Some(id) = made.and_then(|made| HeaderValue::from_str(&made).ok())
        && response.status() == StatusCode::OK
    {
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}

impl<H> Door<H> {
    /// Notes a request as under way, or cancels the one that this notification names.
    fn enter(&self, connection: &Connection, message: &Value) -> Option<Cancelled> {
        if message["method"] == "notifications/cancelled" {
            self.under_way.cancel(&connection.id, message["params"]["requestId"].to_string());
        }
        let id = message.get("id")?;
        let (token, place) = self.under_way.enter(&connection.id, id.to_string());
        Some((Box::pin(token.cancelled_owned()), place))
    }
}

/// A connection of the older revisions. Its id is `mcp_<random>.<client>`: nothing is kept about it anywhere.
#[derive(Clone)]
struct Connection {
    id: String,
    session: SessionId,
    client: Option<String>,
}

impl Connection {
    /// The id for a client that initializes.
    fn made(message: &Value) -> Option<String> {
        let initializes = message["method"] == "initialize" && message["params"]["protocolVersion"].is_string();
        let client = message["params"]["clientInfo"]["name"].as_str().unwrap_or_default();
        initializes.then(|| format!("{}.{}", identity::fresh(), slug(client)))
    }

    /// The one that these headers name. 2026-07-28 has none. `Err`: an id that was not made here.
    fn of(headers: &HeaderMap) -> Result<Option<Self>, ()> {
        let version = headers.get(VERSION).map(HeaderValue::as_bytes).unwrap_or_default();
        let Some(id) = headers.get(SESSION_ID) else { return Ok(None) };
        if version >= ProtocolVersion::V_2026_07_28.as_str().as_bytes() {
            return Ok(None);
        }
        let id = id.to_str().map_err(|_| ())?;
        let (session, client) = id.split_once('.').ok_or(())?;
        let random = session.strip_prefix(FRESH_PREFIX).ok_or(())?;
        if random.len() != secret::CHARACTERS || !random.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(());
        }
        let client = Some(client.to_owned()).filter(|client| !client.is_empty());
        Ok(Some(Self { id: id.to_owned(), session: SessionId::new(session), client }))
    }
}

/// What the client of an older revision called itself when it initialized.
pub fn client_name(context: &RequestContext<RoleServer>) -> Option<String> {
    match context.extensions.get::<Parts>() {
        Some(parts) if !protocol::is_modern(context) => parts.extensions.get::<Connection>()?.client.clone(),
        _ => protocol::client_name(context),
    }
}

fn fault_response(fault: Fault) -> Response<Body> {
    let body = serde_json::to_vec(&JsonRpcError::new(fault.id, fault.error)).expect("representable as JSON");
    (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
