//! Reminders for people and programs that look after them, across sessions.

use super::{
    App,
    body::{IdempotencyKey, JsonBody, Params, Segments, session},
    items::{ListParams, page},
    problem::ApiError,
    sight::Sight,
};
use crate::{
    engine::EngineError,
    tools::{IDS_TRIED_MAX, ReminderView, new_reminder, request_key},
};
use axum::{Json, extract::State, http::StatusCode};
use reveille_core::{
    Call, Command, Item, ItemId, Kind, Reply, SessionId,
    reminder::{Ask, Status},
    text,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// A reminder and the session it belongs to.
#[derive(Serialize, ToSchema)]
pub struct OwnedReminder {
    pub session: String,
    #[serde(flatten)]
    pub reminder: ReminderView,
}

#[derive(Serialize, ToSchema)]
pub struct ReminderPage {
    pub reminders: Vec<OwnedReminder>,
    /// Ask again with `after` set to this; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// Cancel a reminder from outside. A message of it that nobody has delivered is withdrawn.
#[utoipa::path(post, path = "/api/reminders/{id}/cancel", tag = "reminders", params(("id" = String, Path)), responses(
    (status = 200, body = OwnedReminder),
))]
pub async fn cancel(State(app): State<App>, Segments(id): Segments<String>) -> Result<Json<OwnedReminder>, ApiError> {
    let id = ItemId::new(id);
    let Some((session, _)) = app.engine.store().load_items(vec![id.clone()]).await?.pop() else {
        let detail = format!("there is no reminder '{}'; GET /api/reminders lists them", text::shown(id.as_str()));
        return Err(ApiError::new(StatusCode::NOT_FOUND, "Unknown reminder", "unknown_reminder", detail));
    };
    let done = app.engine.execute(&session, Call::new(Command::CancelReminder { id })).await;
    match done.map_err(|error| ApiError::of(error, app.engine.now()))?.reply {
        Reply::Reminder(reminder) => {
            Ok(Json(OwnedReminder { session: session.to_string(), reminder: ReminderView::of(&reminder) }))
        }
        _ => unreachable!("cancelling answers with the reminder"),
    }
}

/// For the schema only: what is read by the rules of the `clock` tool.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code, reason = "read by tools::new_reminder, which takes what models send")]
pub struct NewReminder {
    /// The conversation whose agent is to be reminded.
    session: String,
    /// What it is to be reminded of.
    task: String,
    /// ISO 8601 with offset; or `in`.
    #[schema(example = "2026-01-21T20:30:00-08:00")]
    due_at: Option<String>,
    /// Seconds from now, or text such as "10m".
    r#in: Option<String>,
    tool: Option<String>,
    arguments: Option<Map<String, Value>>,
}

/// Set a reminder for an agent, from outside. No message of the session is taken along.
#[utoipa::path(
    post,
    path = "/api/reminders",
    tag = "reminders",
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeating a creation with the same key makes nothing a second time")),
    request_body(content = NewReminder),
    responses(
        (status = 200, body = OwnedReminder),
    )
)]
pub async fn create(
    State(app): State<App>,
    IdempotencyKey(key): IdempotencyKey,
    mut sight: Sight,
    JsonBody(body): JsonBody,
) -> Result<Json<OwnedReminder>, ApiError> {
    let session = session(body["session"].as_str().unwrap_or_default())?;
    sight.demand(&session).await?;
    let (due, content) = new_reminder(body, app.engine.limits())?;
    let key = key.map(|key| request_key(key, json!(["reminder", due, content]).to_string())).transpose()?;
    for _ in 0..IDS_TRIED_MAX {
        let ask = Ask::New { id: app.engine.fresh_task(), due, content: content.clone() };
        let command = Command::Schedule { asks: vec![ask], key: key.clone() };
        match app.engine.execute(&session, Call::new(command)).await {
            Err(EngineError::IdTaken) => {}
            Err(error) => return Err(ApiError::of(error, app.engine.now())),
            Ok(done) => {
                let Reply::Scheduled(made) = done.reply else { unreachable!("scheduling answers with what it made") };
                let id = made.into_iter().next().map(|made| made.id);
                return owned(&app, &session, id).await.map(Json);
            }
        }
    }
    Err(ApiError::of(EngineError::IdTaken, app.engine.now()))
}

/// A reminder that is known to be there.
async fn owned(app: &App, session: &SessionId, id: Option<ItemId>) -> Result<OwnedReminder, ApiError> {
    let found = app.engine.store().load_items(id.into_iter().collect()).await?.pop();
    let items = found.map(|(_, state)| state.items).unwrap_or_default();
    match items.iter().find_map(Item::as_reminder) {
        Some(reminder) => Ok(OwnedReminder { session: session.to_string(), reminder: ReminderView::of(reminder) }),
        None => Err(ApiError::new(StatusCode::NOT_FOUND, "Gone", "unknown_reminder", "it was removed in the meantime")),
    }
}

/// Reminders of all sessions.
#[utoipa::path(get, path = "/api/reminders", tag = "reminders", params(ListParams), responses(
    (status = 200, body = ReminderPage),
))]
pub async fn list(
    State(app): State<App>,
    Params(params): Params<ListParams>,
    mut sight: Sight,
) -> Result<Json<ReminderPage>, ApiError> {
    let states = Status::ALL.map(|status| (status.as_str(), status.is_live()));
    let (found, next) = page(&app, &mut sight, &params, Kind::Reminder, &states).await?;
    let owned = found.iter().filter_map(|found| {
        let reminder = ReminderView::of(found.item.as_reminder()?);
        Some(OwnedReminder { session: found.session.to_string(), reminder })
    });
    Ok(Json(ReminderPage { reminders: owned.collect(), next }))
}
