//! Reminders for people and programs that look after them, across sessions.

use super::{
    App,
    body::Params,
    items::{ListParams, page},
    problem::ApiError,
};
use crate::tools::{Problem, ReminderView};
use axum::{Json, extract::State};
use reveille_core::{Kind, reminder::Status};
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
