//! What each route asks of a token: which act it is, and whose things it touches. Asked before the route is called, and only
//! of tokens that may not do everything. A route that is not listed here is for operators without bounds.
//!
//! What is in a body, and which rows of a list may be seen, only the handler knows; it asks [`super::sight`].

use super::{access::Caller, problem::ApiError, sight};
use crate::{
    access::{Act, Grant},
    engine::Engine,
};
use axum::http::{Method, Request, StatusCode};
use percent_encoding::percent_decode_str;
use reveille_core::{ItemId, SessionId};
use std::borrow::Cow;

/// Whose things a request touches.
#[derive(Debug, PartialEq, Eq)]
enum About<'a> {
    /// Nobody's.
    Nobody,
    /// Rows of many, or what the body names: the handler asks for each.
    Handler,
    Session(&'a str),
    /// A session that this request may begin, for an agent of this tenant if it says so.
    Opening(&'a str, Option<&'a str>),
    /// A timer, a reminder or a call: the session it belongs to.
    Item(&'a str),
    /// A task: the session that the query says it must belong to, else that of its timer.
    Task(&'a str),
    Tenant(&'a str),
    /// Everybody's at once.
    Everybody,
}

fn rule<'a>(method: &Method, path: &'a str, names_session: bool) -> Option<(Act, About<'a>)> {
    let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let look_list = if names_session { Act::LookAtSession } else { Act::Look };
    Some(match *segments.as_slice() {
        ["" | "favicon.ico" | "openapi.json" | "healthz" | "readyz"] | ["ui", ..] => (Act::Any, About::Nobody),
        ["api", "sign-in" | "tools"] => (Act::Any, About::Nobody),
        ["v1", ..] | ["mcp"] => (Act::Use, About::Handler),
        ["metrics"] | ["api", "stats"] | ["api", "stats", "hours"] if reads => (Act::Look, About::Everybody),
        ["api", "timers" | "reminders" | "session_timers" | "calls" | "history" | "events" | "deliveries"] if reads => {
            (look_list, About::Handler)
        }
        ["api", "clock"] if reads => (Act::Any, About::Nobody),
        ["api", "clock", _] => (Act::Operate, About::Everybody),
        ["api", "agents" | "sessions"] if reads => (Act::Look, About::Handler),
        ["api", "timers" | "reminders"] | ["api", "timers", "stop"] | ["api", "calls", "replay"] => {
            (Act::Operate, About::Handler)
        }
        ["api", "timers", id] if reads => (Act::Look, About::Item(id)),
        ["api", "timers", id, _] | ["api", "reminders", id, "cancel"] | ["api", "calls", id, "replay"] => {
            (Act::Operate, About::Item(id))
        }
        ["api", "tasks", id] => (Act::Use, About::Task(id)),
        ["api", "sessions", session] if reads => (Act::LookAtSession, About::Session(session)),
        ["api", "sessions", session] => (Act::Use, About::Session(session)),
        ["api", "sessions", session, "inbox" | "socket" | "quiet"] if reads => {
            (Act::LookAtSession, About::Session(session))
        }
        ["api", "sessions", session, "presence"]
        | ["api", "sessions", session, "tools", _]
        | ["api", "sessions", session, "inbox", _] => (Act::Use, About::Session(session)),
        ["api", "sessions", session, "activity"] => (Act::Use, About::Opening(session, None)),
        ["api", "sessions", session, "wake" | "quiet"] => (Act::Operate, About::Session(session)),
        ["api", "agents", tenant, _] if reads => (Act::Look, About::Tenant(tenant)),
        ["api", "agents", tenant, _] => (Act::Operate, About::Tenant(tenant)),
        ["api", "agents", tenant, _, "sessions", session, "query"] => (Act::Use, About::Opening(session, Some(tenant))),
        _ => return None,
    })
}

/// Nothing, or the answer that refuses the request.
pub async fn check<B>(caller: &Caller, request: &Request<B>, engine: Option<&Engine>) -> Result<(), ApiError> {
    let Caller::Known(pass) = caller else { return Ok(()) };
    let grant = &*pass.grant;
    if grant.scope == crate::access::Scope::Operator && !grant.is_bound() {
        return Ok(());
    }
    let named = query_session(request.uri().query().unwrap_or_default());
    let (act, about) =
        rule(request.method(), request.uri().path(), named.is_some()).unwrap_or((Act::Operate, About::Everybody));
    if !grant.scope.allows(act) {
        let detail =
            format!("the token '{}' has the scope {}, which does not allow this", grant.name, grant.scope.name());
        return Err(ApiError::new(StatusCode::FORBIDDEN, "Forbidden", "out_of_scope", detail));
    }
    let Some(engine) = engine.filter(|_| grant.is_bound()) else { return Ok(()) };
    if within(grant, engine, about, named).await? { Ok(()) } else { Err(sight::out_of_bounds(grant)) }
}

async fn within(grant: &Grant, engine: &Engine, about: About<'_>, named: Option<String>) -> Result<bool, ApiError> {
    Ok(match about {
        About::Nobody | About::Handler => true,
        About::Everybody => false,
        About::Tenant(tenant) => grant.sessions.is_empty() && grant.may_serve(&decoded(tenant)),
        About::Session(name) => match SessionId::parse(&decoded(name)) {
            Ok(session) => sight::covers(engine, grant, &session).await?,
            Err(_) => true, // and the handler says why
        },
        About::Opening(name, tenant) => match SessionId::parse(&decoded(name)) {
            _ if tenant.is_some_and(|tenant| !grant.may_serve(&decoded(tenant))) => false,
            Ok(session) => sight::covers_or_new(engine, grant, &session).await?,
            Err(_) => true,
        },
        About::Item(id) => match engine.store().load_items(vec![ItemId::new(&*decoded(id))]).await?.pop() {
            Some((session, _)) => sight::covers(engine, grant, &session).await?,
            None => true,
        },
        About::Task(id) => {
            let session = match named.as_deref().map(SessionId::parse) {
                Some(session) => session.ok(),
                // Clients of MCP ask by the task's name alone.
                None => engine.owner_of_task(&decoded(id)).await?,
            };
            match session {
                Some(session) => sight::covers(engine, grant, &session).await?,
                None => true,
            }
        }
    })
}

fn decoded(segment: &str) -> Cow<'_, str> {
    percent_decode_str(segment).decode_utf8_lossy()
}

/// As the handler will read it.
fn query_session(query: &str) -> Option<String> {
    url::form_urlencoded::parse(query.as_bytes())
        .find(|(name, _)| name == "session")
        .map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::openapi;

    #[test]
    fn every_documented_route_has_a_rule() {
        let document: serde_json::Value = serde_json::from_str(&openapi()).expect("JSON");
        let paths = document["paths"].as_object().expect("an object");
        let mut unruled = Vec::new();
        for (path, methods) in paths {
            for method in methods.as_object().expect("an object").keys() {
                let method: Method = method.to_uppercase().parse().expect("a method");
                if rule(&method, path, false).is_none() {
                    unruled.push(format!("{method} {path}"));
                }
            }
        }
        assert!(unruled.is_empty(), "these are for operators without bounds, since no rule says more: {unruled:?}");
    }

    #[test]
    fn looking_is_told_from_using_and_using_from_operating() {
        let act = |method: Method, path: &str| rule(&method, path, path.contains("session=")).map(|(act, _)| act);
        for (method, path, expected) in [
            (Method::GET, "/", Some(Act::Any)),
            (Method::GET, "/ui/app.js", Some(Act::Any)),
            (Method::GET, "/api/timers", Some(Act::Look)),
            (Method::POST, "/api/timers", Some(Act::Operate)),
            (Method::POST, "/api/timers/stop", Some(Act::Operate)),
            (Method::POST, "/api/timers/timer_1/stop", Some(Act::Operate)),
            (Method::GET, "/api/sessions/s", Some(Act::LookAtSession)),
            (Method::DELETE, "/api/sessions/s", Some(Act::Use)),
            // Reading these changes something: who holds the session, what counts as told.
            (Method::GET, "/api/sessions/s/presence", Some(Act::Use)),
            (Method::GET, "/api/tasks/t", Some(Act::Use)),
            (Method::POST, "/api/sessions/s/tools/timer", Some(Act::Use)),
            (Method::POST, "/v1/messages", Some(Act::Use)),
            (Method::POST, "/mcp", Some(Act::Use)),
            (Method::PUT, "/api/agents/t/c", Some(Act::Operate)),
            (Method::GET, "/metrics", Some(Act::Look)),
            (Method::GET, "/api//timers", None),
            (Method::GET, "/api/timers/", Some(Act::Look)),
            (Method::POST, "/api/something/new", None),
        ] {
            assert_eq!(act(method.clone(), path), expected, "{method} {path}");
        }
        assert_eq!(rule(&Method::GET, "/api/history", true).map(|(act, _)| act), Some(Act::LookAtSession));
    }

    #[test]
    fn names_are_read_as_the_handler_reads_them() {
        assert_eq!(decoded("a%2Fb+c%20%E4%BC%9A"), "a/b+c 会");
        assert_eq!(query_session("limit=1&session=a%20b+c"), Some("a b c".into()));
        assert_eq!(query_session("limit=1"), None);
    }
}
