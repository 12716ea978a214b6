//! Agents by the API: what there is, and setting, replacing and removing those that are not the operator's.

use super::{
    App,
    body::{JsonBody, Segments},
    problem::ApiError,
    sight::Sight,
};
use crate::{
    agents::{
        AgentConfig, AgentError, Origin, hidden,
        registry::{Listed, Shown},
        turn::TurnError,
    },
    tools::Problem,
};
use axum::{Json, extract::State, http::StatusCode};
use reveille_core::{AgentId, Reject};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
pub struct AgentList {
    pub agents: Vec<AgentLine>,
    /// Which of the operator's files, as they are now, are not in force, and why; what they had before is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

#[derive(Serialize, ToSchema)]
pub struct AgentLine {
    #[schema(example = "acme:support")]
    pub agent: String,
    /// `file` or `api`.
    pub origin: &'static str,
    /// Why it does not work any more; its sessions go on, and none begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What may be a mistake in its configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// All agents.
#[utoipa::path(get, path = "/api/agents", tag = "agents", responses((status = 200, body = AgentList)))]
pub async fn list(State(app): State<App>, sight: Sight) -> Result<Json<AgentList>, ApiError> {
    let all = app.agents.list().await?.into_iter().filter(|listed| sight.sees_agent(&listed.id));
    let agents = all.map(|Listed { id, origin, problem, warnings }| {
        let (agent, origin) = (id.to_string(), name(origin));
        AgentLine { agent, origin, problem, warnings }
    });
    let problems = if sight.has_bounds() { Vec::new() } else { app.agents.problems() };
    Ok(Json(AgentList { agents: agents.collect(), problems }))
}

#[derive(Serialize, ToSchema)]
pub struct AgentView {
    #[schema(example = "acme:support")]
    pub agent: String,
    /// `file` or `api`.
    pub origin: &'static str,
    /// Why it does not work any more; its sessions go on, and none begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What may be a mistake in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    #[serde(flatten)]
    pub config: AgentConfig,
}

/// One agent's configuration, which may be changed and set again. Secrets are not shown; those that stay hidden are kept.
#[utoipa::path(get, path = "/api/agents/{tenant}/{chatbot}", tag = "agents",
    params(("tenant" = String, Path), ("chatbot" = String, Path)), responses(
    (status = 200, body = AgentView),
    (status = 404, body = Problem, content_type = "application/problem+json"),
))]
pub async fn read(
    State(app): State<App>,
    Segments((tenant, chatbot)): Segments<(String, String)>,
) -> Result<Json<AgentView>, ApiError> {
    let id = AgentId::of(&tenant, &chatbot)?;
    let Some(shown) = app.agents.show(&id).await.map_err(agent_error)? else {
        return Err(Reject::UnknownAgent { agent: id }.into());
    };
    let Shown { origin, mut config, problem, warnings } = shown;
    hidden::hide(&mut config);
    Ok(Json(AgentView { agent: id.to_string(), origin: name(origin), problem, warnings, config }))
}

#[derive(Serialize, ToSchema)]
pub struct AgentSet {
    #[schema(example = "acme:support")]
    pub agent: String,
    /// There was none of this name before.
    pub created: bool,
    /// What may be a mistake in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Set an agent, in the original's form. Sessions that run keep their timers; new ones get these.
#[utoipa::path(put, path = "/api/agents/{tenant}/{chatbot}", tag = "agents",
    params(("tenant" = String, Path), ("chatbot" = String, Path)), request_body(content = AgentConfig), responses(
    (status = 200, body = AgentSet),
))]
pub async fn put(
    State(app): State<App>,
    Segments((tenant, chatbot)): Segments<(String, String)>,
    JsonBody(mut body): JsonBody,
) -> Result<Json<AgentSet>, ApiError> {
    let id = AgentId::of(&tenant, &chatbot)?;
    let Some(fields) = body.as_object_mut() else {
        return Err(invalid("the body must be the agent's configuration, a JSON object".into()));
    };
    // What reading adds may come back.
    if fields.remove("agent").is_some_and(|agent| agent != id.as_str()) {
        return Err(invalid("`agent` is another than the path's; leave it out".into()));
    }
    ["origin", "problem", "warnings"].iter().for_each(|added| drop(fields.remove(*added)));
    let config = parse(body)?;
    for (field, given, named) in [("tenant", &config.tenant, &tenant), ("chatbot", &config.chatbot, &chatbot)] {
        if given.as_ref().is_some_and(|given| given != named) {
            return Err(invalid(format!("`{field}` is another than the path's; leave it out")));
        }
    }
    let (created, warnings) = app.agents.put(&id, config, app.engine.now()).await.map_err(agent_error)?;
    Ok(Json(AgentSet { agent: id.to_string(), created, warnings }))
}

#[derive(Serialize, ToSchema)]
pub struct AgentRemoved {
    pub agent: String,
}

/// Remove an agent. Its sessions and their timers go on; calls of its tools fail.
#[utoipa::path(delete, path = "/api/agents/{tenant}/{chatbot}", tag = "agents",
    params(("tenant" = String, Path), ("chatbot" = String, Path)), responses(
    (status = 200, body = AgentRemoved),
))]
pub async fn remove(
    State(app): State<App>,
    Segments((tenant, chatbot)): Segments<(String, String)>,
) -> Result<Json<AgentRemoved>, ApiError> {
    let id = AgentId::of(&tenant, &chatbot)?;
    match app.agents.remove(&id).await.map_err(agent_error)? {
        true => Ok(Json(AgentRemoved { agent: id.to_string() })),
        false => Err(Reject::UnknownAgent { agent: id }.into()),
    }
}

fn parse(body: Value) -> Result<AgentConfig, ApiError> {
    serde_path_to_error::deserialize(body).map_err(|error: serde_path_to_error::Error<serde_json::Error>| {
        let path = error.path().to_string();
        invalid(format!("`{path}`: {}", error.into_inner()))
    })
}

fn name(origin: Origin) -> &'static str {
    match origin {
        Origin::File => "file",
        Origin::Api => "api",
    }
}

fn invalid(detail: String) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "Invalid agent", "invalid_agent_config", detail)
}

pub fn agent_error(error: AgentError) -> ApiError {
    match error {
        AgentError::Reject(reject) => reject.into(),
        AgentError::Store(error) => error.into(),
        AgentError::Invalid(invalid_field) => invalid(invalid_field.to_string()),
        AgentError::OfFile(_) => {
            ApiError::new(StatusCode::CONFLICT, "Defined elsewhere", "agent_of_file", error.to_string())
        }
    }
}

pub fn turn_error(error: TurnError, app: &App) -> ApiError {
    match error {
        TurnError::Agent(error) => agent_error(error),
        TurnError::Engine(error) => ApiError::of(error, app.engine.now()),
    }
}
