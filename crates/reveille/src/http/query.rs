//! A turn of an agent that Reveille runs, asked for over HTTP: the answer as JSON, or what happens as it happens.

use super::{
    App,
    agents::turn_error,
    body::{JsonBody, Segments, session},
    problem::ApiError,
};
use crate::agents::query::{Asker, Progress, Query, QueryError};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream;
use reveille_core::{AgentId, Reject};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use tokio::sync::mpsc;
use utoipa::ToSchema;

/// Longest message of a user, in bytes.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

#[derive(Deserialize, ToSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub struct QueryBody {
    /// What the user says.
    message: String,
    /// `true`, or `Accept: text/event-stream`: tell what happens as it happens.
    stream: bool,
}

#[derive(Serialize, ToSchema)]
pub struct QueryAnswer {
    pub session: String,
    /// Of the answer, as in the conversation.
    pub id: String,
    pub content: String,
    /// The agent has closed the session.
    pub closed: bool,
    /// The tools that were called, in the order in which that ended.
    pub tools: Vec<ToolDone>,
}

#[derive(Serialize, ToSchema)]
pub struct ToolDone {
    pub name: String,
    pub ok: bool,
}

/// Say something to an agent and get its answer. One turn at a time in a session: a second one waits as long as the
/// agent's `turn_wait_seconds` says, then gets 409.
#[utoipa::path(post, path = "/api/agents/{tenant}/{chatbot}/sessions/{session}/query", tag = "agents",
    params(("tenant" = String, Path), ("chatbot" = String, Path), ("session" = String, Path)),
    request_body(content = QueryBody), responses(
    (status = 200, body = QueryAnswer, description = "As `text/event-stream`: a `Progress` in each event"),
))]
pub async fn query(
    State(app): State<App>,
    Segments((tenant, chatbot, name)): Segments<(String, String, String)>,
    headers: HeaderMap,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let (body, session) = (body.read::<QueryBody>()?, session(&name)?);
    if body.message.trim().is_empty() {
        return Err(Reject::MissingArgument { field: "message", hint: "what the user says" }.into());
    }
    if body.message.len() > MESSAGE_BYTES_MAX {
        let why = format!("is longer than {MESSAGE_BYTES_MAX} bytes");
        return Err(Reject::InvalidArgument { field: "message".into(), why }.into());
    }
    let id = AgentId::of(&tenant, &chatbot)?;
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let stream = body.stream || accepts.contains("text/event-stream");
    let query = Query {
        engine: app.engine.clone(),
        registry: app.agents.clone(),
        executor: app.executor.clone(),
        gateway: app.gateway.clone(),
        turns: app.turns.clone(),
    };
    let asker = Asker { keys: headers, stream };
    let progress = query.begin(&id, session, body.message, asker).await.map_err(|error| refused(error, &app))?;
    if stream {
        return Ok(events(progress).into_response());
    }
    answer(name, progress).await.map(IntoResponse::into_response)
}

async fn answer(
    session: String,
    mut progress: mpsc::UnboundedReceiver<Progress>,
) -> Result<Json<QueryAnswer>, ApiError> {
    let mut tools = Vec::new();
    while let Some(step) = progress.recv().await {
        match step {
            Progress::Delta { .. } | Progress::ToolCall { .. } => {}
            Progress::ToolResult { name, ok, .. } => tools.push(ToolDone { name, ok }),
            Progress::Message { id, content, closed } => {
                return Ok(Json(QueryAnswer { session, id, content, closed, tools }));
            }
            Progress::Failed { status: upstream, code, detail, retry_after } => {
                // Whatever the upstream answered, it is not this server's answer to its client's request; but who asked
                // too often, or too early, is to ask again later, as the upstream says.
                let status = match upstream {
                    404 | 429 | 503 => StatusCode::from_u16(upstream).unwrap_or(StatusCode::BAD_GATEWAY),
                    _ => StatusCode::BAD_GATEWAY,
                };
                let failed = ApiError::new(status, "The model failed", &code, detail);
                return Err(failed.upstream(upstream, retry_after));
            }
        }
    }
    Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Broken", "turn_broke", "the turn ended without an answer"))
}

fn events(progress: mpsc::UnboundedReceiver<Progress>) -> Sse<impl stream::Stream<Item = Result<Event, Infallible>>> {
    let events = stream::unfold(progress, |mut progress| async move {
        let step = progress.recv().await?;
        let name = match &step {
            Progress::Delta { .. } => "delta",
            Progress::ToolCall { .. } => "tool_call",
            Progress::ToolResult { .. } => "tool_result",
            Progress::Message { .. } => "message",
            Progress::Failed { .. } => "failed",
        };
        let event = Event::default().event(name).json_data(&step);
        Some((Ok(event.unwrap_or_else(|_| Event::default().comment("unrepresentable"))), progress))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

fn refused(error: QueryError, app: &App) -> ApiError {
    match error {
        QueryError::Busy => ApiError::new(StatusCode::CONFLICT, "Busy", "turn_in_progress", error.to_string()),
        QueryError::Full => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "Too many turns", "too_many_turns", error.to_string())
        }
        QueryError::Stopping => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "Stopping", "stopping", error.to_string())
        }
        QueryError::NoModel(_) => {
            ApiError::new(StatusCode::CONFLICT, "No model", "agent_without_model", error.to_string())
        }
        QueryError::Turn(error) => turn_error(error, app),
    }
}
