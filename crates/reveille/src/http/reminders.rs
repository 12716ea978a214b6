//! Reminders for people and programs that look after them, across sessions.

use super::{
    App,
    body::{Params, Segments},
    items::{ListParams, page},
    problem::ApiError,
};
use crate::tools::{Problem, ReminderView};
use axum::{Json, extract::State, http::StatusCode};
use reveille_core::{Call, Command, ItemId, Kind, Reply, reminder::Status, text};
use serde::Serialize;
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
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
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

/// Reminders of all sessions.
#[utoipa::path(get, path = "/api/reminders", tag = "reminders", params(ListParams), responses(
    (status = 200, body = ReminderPage),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
))]
pub async fn list(State(app): State<App>, Params(params): Params<ListParams>) -> Result<Json<ReminderPage>, ApiError> {
    let states = Status::ALL.map(|status| (status.as_str(), status.is_live()));
    let (found, next) = page(&app, &params, Kind::Reminder, &states).await?;
    let owned = found.iter().filter_map(|found| {
        let reminder = ReminderView::of(found.item.as_reminder()?);
        Some(OwnedReminder { session: found.session.to_string(), reminder })
    });
    Ok(Json(ReminderPage { reminders: owned.collect(), next }))
}
