//! What happened: every change, newest first, or onwards from a point.

use super::{
    App,
    body::{Params, session},
    problem::ApiError,
    sight::Sight,
};
use axum::{Json, extract::State};
use reveille_store::{HistoryFilter, Recorded};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct HistoryParams {
    /// Only this session's.
    session: Option<String>,
    /// Only what concerns this timer, reminder or message.
    id: Option<String>,
    /// Only of this name, such as `wake.ended`.
    event: Option<String>,
    /// Only entries after this `seq`, oldest first.
    after: Option<i64>,
    /// Only entries before this `seq`.
    before: Option<i64>,
    /// At most 1000; 100 unless given.
    limit: Option<usize>,
}

/// One change. The same object is the data of a server-sent event.
#[derive(Serialize, ToSchema)]
pub struct Entry {
    pub seq: i64,
    pub at: i64,
    pub session: String,
    /// `timer`, `reminder`, `message` or `session`.
    pub kind: &'static str,
    /// Of the timer, reminder or message; the session's name.
    pub id: String,
    #[schema(example = "timer.completed")]
    pub event: String,
    #[schema(value_type = Option<Object>)]
    pub data: Value,
}

impl Entry {
    pub fn of(recorded: &Recorded) -> Self {
        Self {
            seq: recorded.seq,
            at: recorded.entry.at.as_millis(),
            session: recorded.session.to_string(),
            kind: recorded.entry.kind.as_str(),
            id: recorded.entry.subject.to_string(),
            event: recorded.entry.event.to_string(),
            data: recorded.entry.data.clone(),
        }
    }
}

#[derive(Serialize, ToSchema)]
pub struct History {
    pub entries: Vec<Entry>,
}

/// The history of all sessions, one or one timer.
#[utoipa::path(get, path = "/api/history", tag = "history", params(HistoryParams), responses((status = 200, body = History)))]
pub async fn read(
    State(app): State<App>,
    Params(params): Params<HistoryParams>,
    mut sight: Sight,
) -> Result<Json<History>, ApiError> {
    let session = params.session.as_deref().map(session).transpose()?;
    if let Some(session) = &session {
        sight.demand(session).await?;
    }
    let filter = HistoryFilter {
        session,
        subject: params.id,
        event: params.event,
        after: params.after,
        before: params.before,
        limit: params.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX),
    };
    let recorded = app.engine.store().history(filter).await?;
    let recorded = sight.only(recorded, |recorded| &recorded.session).await?;
    Ok(Json(History { entries: recorded.iter().map(Entry::of).collect() }))
}
