//! The gateway's door: everything under `/v1/`.

use super::{App, sight::ModelCalls};
use crate::agents::session_named;
use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue},
    response::Response,
};
use reveille_core::AgentId;
use reveille_gateway::{Admitted, Whose};
use std::sync::Arc;

/// Says, to whoever names an agent, why no timers run for the session.
const TIMERS: HeaderName = HeaderName::from_static("x-reveille-timers");

const AGENT: HeaderName = HeaderName::from_static("x-reveille-agent");

pub async fn relay(State(app): State<App>, mut request: Request) -> Response {
    if let Some(calls) = ModelCalls::of(&app.engine, request.extensions()) {
        request.extensions_mut().insert(Admitted(Arc::new(calls)));
    }
    let named = request.headers().contains_key(AGENT);
    let without_timers = without_timers(&app, request.headers()).await;
    let mut response = app.gateway.handle(request).await.map(Body::new);
    let without_timers = without_timers.or_else(|| without_session(named, response.extensions().get()?));
    response.headers_mut().extend(without_timers.map(|why| (TIMERS, HeaderValue::from_static(why))));
    response
}

/// A model call is never refused for its agent's sake; but who misspelt its name should not have to read the log.
async fn without_timers(app: &App, headers: &HeaderMap) -> Option<&'static str> {
    let named = headers.get(AGENT)?;
    let Some(agent) = named.to_str().ok().and_then(|name| AgentId::parse(name).ok()) else {
        return Some("none; the agent is not named tenant:chatbot");
    };
    match app.engine.briefly(app.agents.get(&agent)).await {
        // Nobody knows while the store is away.
        None | Some(Ok(Some(_))) => None,
        Some(Ok(None)) => Some("none; unknown agent"),
        Some(Err(_)) => Some("none; the agent does not work, see GET /api/agents"),
    }
}

/// `named`: whether it names an agent.
fn without_session(named: bool, Whose(hint): &Whose) -> Option<&'static str> {
    let known = matches!(session_named(hint.as_ref()), Some(Ok(_)));
    (named && !known).then_some("none; no session, name it with x-reveille-session")
}
