//! Which session a call belongs to. Said by the client in one of several places; never guessed from a port, a path or a
//! process.

use super::{Refusal, clients::slug};
use crate::{secret, tools::Tool};
use axum::http::{HeaderMap, request::Parts};
use reveille_core::{SessionId, text};
use rmcp::{ErrorData, RoleServer, service::RequestContext};
use serde_json::{Map, Value};

pub const SESSION_HEADER: &str = "x-reveille-session";
const SESSION_META: &str = "reveille/session";
/// Codex names its conversation so in every call.
const THREAD_META: &str = "threadId";

/// What is known of the session before any call: by flag, environment or connection.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// `--session` or `REVEILLE_SESSION`: goes over all.
    pub given: Option<SessionId>,
    /// `CLAUDE_CODE_SESSION_ID`: after what the call itself says, the argument too, since it is the name of whatever
    /// conversation Claude Code began with and is never told anew. Whatever Claude Code's shell starts has it as well, so
    /// it counts only for a client that is Claude Code or does not say what it is.
    pub inherited: Option<SessionId>,
    /// Made for this connection; for calls that name no other.
    pub connection: Option<SessionId>,
}

/// A call's session, and whether its agent has to hear of it.
#[derive(Debug)]
pub struct Told {
    pub session: SessionId,
    known: KnownTo,
}

#[derive(Debug, PartialEq)]
enum KnownTo {
    /// The client named it.
    Client,
    /// Made for the connection, which remembers it.
    Connection,
    /// Made just now, and only the agent can remember it.
    Nobody,
}

impl Told {
    pub fn to_tell(&self) -> Option<&SessionId> {
        (self.known != KnownTo::Client).then_some(&self.session)
    }

    pub fn must_be_passed_on(&self) -> bool {
        self.known == KnownTo::Nobody
    }
}

impl Identity {
    pub fn resolve(
        &self,
        context: &RequestContext<RoleServer>,
        tool: Tool,
        arguments: &mut Map<String, Value>,
    ) -> Result<Told, Refusal> {
        let named = argument(arguments)?;
        let parts = context.extensions.get::<Parts>();
        if let Some(own) = self.own(context, parts)? {
            return match named {
                Some(named) if named != own => Err(mismatch(&own, &named)),
                _ => Ok(Told { session: own, known: KnownTo::Client }),
            };
        }
        if let Some(session) = named.or_else(|| self.inherited(context)) {
            return Ok(Told { session, known: KnownTo::Client });
        }
        if let Some(session) = self.made(parts) {
            return Ok(Told { session, known: KnownTo::Connection });
        }
        if creates(tool, arguments) {
            return Ok(Told { session: fresh(), known: KnownTo::Nobody });
        }
        let detail = "this connection has no session of its own: pass the `session` that the call which made the timer \
                      answered with, or have your client send the header x-reveille-session";
        Err(Refusal::new("session_required", detail))
    }

    /// The session that this client's window shows, as far as that is known before it calls a tool.
    pub fn at_first(&self, context: &RequestContext<RoleServer>) -> Option<SessionId> {
        self.given.clone().or_else(|| self.inherited(context))
    }

    /// The session that the client itself says this request belongs to.
    pub fn of(&self, context: &RequestContext<RoleServer>) -> Result<Option<SessionId>, Refusal> {
        self.own(context, context.extensions.get::<Parts>())
    }

    /// What the client has to hear of a session that was found otherwise than by its calls.
    pub fn told(&self, context: &RequestContext<RoleServer>, session: SessionId) -> Result<Told, ErrorData> {
        let own = self.of(context).map_err(|refusal| ErrorData::invalid_params(refusal.detail().to_owned(), None))?;
        let made = || self.made(context.extensions.get::<Parts>());
        let known = [own, self.inherited(context), made()].into_iter().flatten().any(|known| known == session);
        let known = if known { KnownTo::Client } else { KnownTo::Nobody };
        Ok(Told { session, known })
    }

    /// The session made for the connection.
    fn made(&self, parts: Option<&Parts>) -> Option<SessionId> {
        self.connection.clone().or_else(|| parts?.extensions.get::<ConnectionSession>()?.0.clone())
    }

    fn own(&self, context: &RequestContext<RoleServer>, parts: Option<&Parts>) -> Result<Option<SessionId>, Refusal> {
        if self.given.is_some() {
            return Ok(self.given.clone());
        }
        let meta = |name| context.meta.get(name).and_then(Value::as_str);
        let header = parts.and_then(|parts| header(&parts.headers));
        match header.as_deref().or_else(|| meta(SESSION_META)).or_else(|| meta(THREAD_META)) {
            Some(name) => parse(name).map(Some),
            None => Ok(None),
        }
    }

    fn inherited(&self, context: &RequestContext<RoleServer>) -> Option<SessionId> {
        let claude = |name: String| slug(&name).starts_with("claude-code");
        self.inherited.clone().filter(|_| super::http::client_name(context).is_none_or(claude))
    }
}

/// The session made for a connection over HTTP, found in the request's extensions.
#[derive(Clone)]
pub struct ConnectionSession(pub Option<SessionId>);

/// A name nobody has and nobody can guess.
pub fn fresh() -> SessionId {
    SessionId::new(format!("{FRESH_PREFIX}{}", secret::fresh()))
}

pub const FRESH_PREFIX: &str = "mcp_";

fn header(headers: &HeaderMap) -> Option<String> {
    let named = headers.get(SESSION_HEADER).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    // Configurations fill it in from a variable, which may be empty.
    named.filter(|name| !name.trim().is_empty())
}

fn argument(arguments: &mut Map<String, Value>) -> Result<Option<SessionId>, Refusal> {
    match arguments.remove("session") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) if name.trim().is_empty() => Ok(None),
        Some(Value::String(name)) => parse(&name).map(Some),
        Some(_) => Err(Refusal::new("invalid_argument", "`session` must be a text")),
    }
}

fn parse(name: &str) -> Result<SessionId, Refusal> {
    SessionId::parse(name).map_err(|reject| Refusal::new(reject.code(), reject.to_string()))
}

fn mismatch(own: &SessionId, named: &SessionId) -> Refusal {
    let detail = format!(
        "this connection belongs to session '{own}'; leave `session` out ('{}' is another one)",
        text::shown(named.as_str())
    );
    Refusal::new("session_mismatch", detail)
}

/// Whether the call makes something new, so that a new session makes sense for it.
fn creates(tool: Tool, arguments: &Map<String, Value>) -> bool {
    let said = |name: &str| arguments.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    match tool.name() {
        "timer" => said("timer_id").is_none(),
        "clock" => said("action") == Some("schedule"),
        _ => false,
    }
}
