//! The gateway's door: everything under `/v1/`.

use super::{App, sight::ModelCalls};
use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue},
    response::Response,
};
use reveille_core::AgentId;
use reveille_gateway::Admitted;
use std::sync::Arc;

/// Says, to whoever names an agent, why no timers run for the session.
const TIMERS: HeaderName = HeaderName::from_static("x-reveille-timers");

pub async fn relay(State(app): State<App>, mut request: Request) -> Response {
    if let Some(calls) = ModelCalls::of(&app.engine, request.extensions()) {
        request.extensions_mut().insert(Admitted(Arc::new(calls)));
    }
    let without_timers = without_timers(&app, request.headers()).await;
    let mut response = app.gateway.handle(request).await.map(Body::new);
    response.headers_mut().extend(without_timers.map(|why| (TIMERS, HeaderValue::from_static(why))));
    response
}

/// A model call is never refused for its agent's sake; but who misspelt its name should not have to read the log.
async fn without_timers(app: &App, headers: &HeaderMap) -> Option<&'static str> {
    let named = headers.get("x-reveille-agent")?;
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
