//! Reminders for people and programs that look after them, across sessions.

use super::{
    App,
    body::{Params, session},
    problem::ApiError,
};
use crate::tools::{Problem, ReminderView};
use axum::{Json, extract::State};
use reveille_core::{Kind, Reject, reminder::Status};
use reveille_store::{ItemFilter, Order};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// A reminder and the session it belongs to.
#[derive(Serialize, ToSchema)]
pub struct OwnedReminder {
    pub session: String,
    #[serde(flatten)]
    pub reminder: ReminderView,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Only this session's.
    session: Option<String>,
    /// States, separated by commas; `live` stands for `scheduled` and `due`.
    status: Option<String>,
    /// `newest` (by creation, the default) or `soonest` (by what happens to them next, live ones only).
    order: Option<String>,
    /// At most 1000; 100 unless given.
    limit: Option<usize>,
    /// `next` of the page before; with the order `newest`.
    after: Option<i64>,
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
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
    let order = match params.order.as_deref() {
        None | Some("newest") => Order::Newest,
        Some("soonest") => Order::Soonest,
        Some(other) => return Err(invalid("order", format!("'{other}' is not one of: newest, soonest"))),
    };
    if order == Order::Soonest && params.after.is_some() {
        return Err(invalid("after", "goes with the order newest; soonest has one page".to_owned()));
    }
    let filter = ItemFilter {
        kind: Some(Kind::Reminder),
        session: params.session.as_deref().map(session).transpose()?,
        statuses: statuses(params.status.as_deref().unwrap_or_default())?,
        order,
        after: params.after,
        limit,
        id: None,
    };
    let found = app.engine.store().items(filter).await?;
    let next = found.last().filter(|_| found.len() == limit && order == Order::Newest).map(|last| last.seq);
    let owned = found.iter().filter_map(|found| {
        let reminder = ReminderView::of(found.item.as_reminder()?);
        Some(OwnedReminder { session: found.session.to_string(), reminder })
    });
    Ok(Json(ReminderPage { reminders: owned.collect(), next }))
}

fn statuses(text: &str) -> Result<Vec<String>, ApiError> {
    let mut wanted = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let known: Vec<Status> = match name {
            "live" => Status::ALL.into_iter().filter(|status| status.is_live()).collect(),
            _ => Status::ALL.into_iter().filter(|status| status.as_str() == name).collect(),
        };
        if known.is_empty() {
            let names = Status::ALL.map(Status::as_str).join(", ");
            return Err(invalid("status", format!("'{name}' is not one of: live, {names}")));
        }
        wanted.extend(known.into_iter().map(|status| status.as_str().to_owned()));
    }
    Ok(wanted)
}

fn invalid(field: &str, why: String) -> ApiError {
    Reject::InvalidArgument { field: field.to_owned(), why }.into()
}
