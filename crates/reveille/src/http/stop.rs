//! Stopping many timers with one request, for whoever has to pull the brake.

use super::{
    App,
    body::{JsonBody, session},
    problem::ApiError,
    sight::Sight,
};
use axum::{Json, extract::State};
use futures_util::future::join_all;
use reveille_core::{ItemId, Kind, Reject, Status, text};
use reveille_store::ItemFilter;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Looked up in one go.
const PAGE: usize = 1000;
/// Stopped in one go; the first are released while the next are still read.
const CHUNK: usize = 125;

#[derive(Deserialize, ToSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub struct StopBody {
    /// All live timers of this session.
    session: Option<String>,
    /// All live timers of all sessions.
    all: bool,
    /// Kept as `stop_reason`.
    reason: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct Stopped {
    /// How many this request stopped. One that ended by itself meanwhile is not among them.
    pub stopped: usize,
}

/// Stop every live timer of a session, or of all. Calls that stand by for them are released at once.
#[utoipa::path(post, path = "/api/timers/stop", tag = "timers", request_body(content = StopBody), responses(
    (status = 200, body = Stopped),
))]
pub async fn stop(State(app): State<App>, mut sight: Sight, body: JsonBody) -> Result<Json<Stopped>, ApiError> {
    let body: StopBody = body.read()?;
    let only = match (&body.session, body.all) {
        (Some(name), false) => Some(session(name)?),
        (None, true) => None,
        (None, false) => {
            let hint = "the session whose timers are meant; or send `all: true` for every session's";
            return Err(Reject::MissingArgument { field: "session", hint }.into());
        }
        (Some(_), true) => {
            let why = "and `all: true` do not go together: send one of them";
            return Err(Reject::InvalidArgument { field: "session".into(), why: why.into() }.into());
        }
    };
    match &only {
        Some(session) => sight.demand(session).await?,
        None => sight.demand_all()?,
    }
    let note = text::accept("reason", body.reason, app.engine.limits())?;
    let live = Status::ALL.into_iter().filter(|status| status.is_live());
    let mut filter = ItemFilter {
        kind: Some(Kind::Timer),
        session: only,
        statuses: live.map(|status| status.as_str().to_owned()).collect(),
        limit: PAGE,
        ..ItemFilter::default()
    };
    let mut stopped = 0;
    loop {
        let found = app.engine.store().items(filter.clone()).await?;
        let ids: Vec<ItemId> = found.iter().map(|found| found.item.id().clone()).collect();
        let chunks = ids.chunks(CHUNK).map(|ids| app.engine.stop_many(ids.to_vec(), note.clone()));
        for some in join_all(chunks).await {
            stopped += some.map_err(|error| ApiError::of(error, app.engine.now()))?;
        }
        match found.last() {
            Some(last) if found.len() == PAGE => filter.after = Some(last.seq),
            _ => return Ok(Json(Stopped { stopped })),
        }
    }
}
