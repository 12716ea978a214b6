//! Lists of items across sessions: the same parameters for every kind.

use super::{App, body::session, problem::ApiError, sight::Sight};
use reveille_core::{ItemId, Kind, Reject};
use reveille_store::{Found, ItemFilter, Order};
use serde::Deserialize;
use utoipa::IntoParams;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;
const IDS_MAX: usize = 100;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Only this session's.
    session: Option<String>,
    /// Only these, by their ids, separated by commas: at most 100, whatever else but the session is asked for. In no order.
    id: Option<String>,
    /// States, separated by commas; `live` stands for those that are not final.
    status: Option<String>,
    /// `newest` (by creation, the default) or `soonest` (by what happens to them next, live ones only).
    order: Option<String>,
    /// At most 1000; 100 unless given.
    limit: Option<usize>,
    /// `next` of the page before; with the order `newest`.
    after: Option<i64>,
}

impl ListParams {
    /// The same, of this state alone.
    pub fn in_state(self, status: &str) -> Self {
        Self { status: Some(status.to_owned()), ..self }
    }

    /// The same, from here on.
    pub fn going_on(self, after: i64) -> Self {
        Self { after: Some(after), ..self }
    }
}

/// One page of what the caller may see, and where the next begins. `states`: all there are of this kind, and whether each is live.
pub async fn page(
    app: &App,
    sight: &mut Sight,
    params: &ListParams,
    kind: Kind,
    states: &[(&'static str, bool)],
) -> Result<(Vec<Found>, Option<i64>), ApiError> {
    let session = params.session.as_deref().map(session).transpose()?;
    if let Some(session) = &session {
        sight.demand(session).await?;
    }
    if let Some(ids) = &params.id {
        let mut found = by_id(app, ids, kind).await?;
        found.retain(|found| session.as_ref().is_none_or(|session| *session == found.session));
        return Ok((sight.only(found, |found| &found.session).await?, None));
    }
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
        kind: Some(kind),
        session,
        statuses: statuses(params.status.as_deref().unwrap_or_default(), states)?,
        order,
        after: params.after,
        limit,
        ..ItemFilter::default()
    };
    let found = app.engine.store().items(filter).await?;
    let next = found.last().filter(|_| found.len() == limit && order == Order::Newest).map(|last| last.seq);
    Ok((sight.only(found, |found| &found.session).await?, next))
}

/// Read as decisions read them, so that one who follows events sees at least what the event told of.
async fn by_id(app: &App, ids: &str, kind: Kind) -> Result<Vec<Found>, ApiError> {
    let ids: Vec<ItemId> = ids.split(',').map(str::trim).filter(|id| !id.is_empty()).map(ItemId::new).collect();
    if ids.len() > IDS_MAX {
        return Err(invalid("id", format!("names {} at once; at most {IDS_MAX} are looked up", ids.len())));
    }
    let mut found = Vec::new();
    for (session, state) in app.engine.store().load_items(ids).await? {
        let items = state.items.into_iter().filter(|item| item.kind() == kind);
        found.extend(items.map(|item| Found { seq: 0, session: session.clone(), item }));
    }
    Ok(found)
}

fn statuses(text: &str, states: &[(&'static str, bool)]) -> Result<Vec<String>, ApiError> {
    let mut wanted = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let meant = |(state, live): &&(&str, bool)| if name == "live" { *live } else { *state == name };
        let known: Vec<String> = states.iter().filter(meant).map(|(state, _)| (*state).to_owned()).collect();
        if known.is_empty() {
            let names = states.iter().map(|(state, _)| *state).collect::<Vec<_>>().join(", ");
            return Err(invalid("status", format!("'{name}' is not one of: live, {names}")));
        }
        wanted.extend(known);
    }
    Ok(wanted)
}

fn invalid(field: &str, why: String) -> ApiError {
    Reject::InvalidArgument { field: field.to_owned(), why }.into()
}
