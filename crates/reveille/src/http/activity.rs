//! An app that runs its own agent says what happens, and its session's timers follow.

use super::{
    App,
    agents::turn_error,
    body::{JsonBody, Segments, session},
    problem::ApiError,
    sight::Sight,
};
use crate::agents::{turn, view::SessionTimerView};
use axum::{Json, extract::State};
use reveille_core::{AgentId, Call, Command, Reject, Reply, utterance::Role};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// Longest name of a turn, in bytes.
const TURN_BYTES_MAX: usize = 200;
/// Longest text that is kept of what was said, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;

#[derive(Deserialize, ToSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub struct ActivityBody {
    /// `tenant:chatbot`; for a response it may be left out.
    #[schema(example = "acme:support")]
    agent: Option<String>,
    /// `message`: the user said something and the agent works. `working`: it still does. `response`: it has answered.
    /// Without it: a message and its answer.
    #[schema(example = "message")]
    phase: Option<String>,
    /// A name for the turn. A response with another one than the last message's is late, and arms nothing.
    turn: Option<String>,
    /// What was said, to be kept in the conversation.
    text: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct Activity {
    pub session: String,
    pub agent: String,
    pub session_timers: Vec<SessionTimerView>,
}

/// Report what happens in an agent's session. The first message makes the session and its timers.
#[utoipa::path(post, path = "/api/sessions/{session}/activity", tag = "agents", params(("session" = String, Path)),
    request_body(content = ActivityBody), responses(
    (status = 200, body = Activity),
))]
pub async fn report(
    State(app): State<App>,
    Segments(name): Segments<String>,
    mut sight: Sight,
    body: JsonBody,
) -> Result<Json<Activity>, ApiError> {
    let (body, session) = (body.read::<ActivityBody>()?, session(&name)?);
    let (message, response) = match body.phase.as_deref() {
        None => (true, true),
        Some("message") => (true, false),
        Some("working") => (false, false),
        Some("response") => (false, true),
        Some(other) => return Err(invalid("phase", format!("'{other}' is not one of: message, working, response"))),
    };
    if body.turn.as_ref().is_some_and(|turn| turn.is_empty() || turn.len() > TURN_BYTES_MAX) {
        return Err(invalid("turn", format!("must have 1 to {TURN_BYTES_MAX} bytes")));
    }
    if body.text.as_ref().is_some_and(|text| text.len() > TEXT_BYTES_MAX) {
        return Err(invalid("text", format!("is longer than {TEXT_BYTES_MAX} bytes")));
    }
    let agent = body.agent.as_deref().map(AgentId::parse).transpose()?;
    sight.demand_opening(&session, agent.as_ref()).await?;
    let turn: Option<Arc<str>> = body.turn.map(Into::into);
    let said = |role| body.text.iter().map(|text| turn::said(&app.engine, role, text.clone())).collect::<Vec<_>>();
    let mut timers = Vec::new();
    if message {
        let hint = "the agent of this session, tenant:chatbot";
        let agent = agent.as_ref().ok_or(Reject::MissingArgument { field: "agent", hint })?;
        let said = said(Role::User);
        let begun = turn::begin(&app.engine, &app.agents, &session, agent, turn.clone(), said).await;
        timers = begun.map_err(|error| turn_error(error, &app))?.1;
    }
    let failed = |error| ApiError::of(error, app.engine.now());
    let owner = turn::owner(&app.engine, &app.agents, &session).await.map_err(failed)?;
    let (owner, known) = owner.ok_or_else(|| Reject::UnknownSession(name.clone()))?;
    if let Some(asked) = agent.filter(|asked| *asked != owner) {
        return Err(Reject::OtherAgent { agent: owner, asked }.into());
    }
    let further = match (message, response) {
        (true, false) => None,
        (false, false) => Some(Command::Renew { turn }),
        (_, true) => {
            let said = if message { Vec::new() } else { said(Role::Assistant) };
            Some(turn::response(&app.engine, &owner, known.as_deref(), turn, (said, Vec::new())))
        }
    };
    if let Some(command) = further {
        let done = app.engine.execute(&session, Call::new(command)).await.map_err(failed)?;
        if let Reply::Turn { timers: now, .. } = done.reply {
            timers = now;
        }
    }
    let session_timers = timers.iter().map(SessionTimerView::of).collect();
    Ok(Json(Activity { session: name, agent: owner.to_string(), session_timers }))
}

fn invalid(field: &str, why: String) -> ApiError {
    Reject::InvalidArgument { field: field.into(), why }.into()
}
