//! Sessions: what there is, what one holds, and closing one.

use super::{
    App,
    body::{Params, Segments, session},
    problem::ApiError,
    sight::Sight,
};
use crate::agents::{
    turn,
    view::{CallView, SaidView, SessionTimerView},
};
use crate::tools::{MessageView, Problem, ReminderView, SessionView, TimerView};
use axum::{Json, extract::State};
use reveille_core::{Call, Item, Needs, Reject, Reply, command::Select, utterance};
use reveille_store::SessionFilter;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;
/// Of a conversation, so much is shown with its session.
const CONVERSATION_SHOWN_MAX: usize = 200;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// At most 1000; 100 unless given.
    limit: Option<usize>,
    /// `next` of the page before.
    after: Option<i64>,
    /// Only this one.
    session: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct SessionPage {
    pub sessions: Vec<SessionView>,
    /// Ask again with `after` set to this; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// All sessions, newest first.
#[utoipa::path(get, path = "/api/sessions", tag = "sessions", params(ListParams), responses(
    (status = 200, body = SessionPage),
))]
pub async fn list(
    State(app): State<App>,
    Params(params): Params<ListParams>,
    mut sight: Sight,
) -> Result<Json<SessionPage>, ApiError> {
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
    let (found, next) = match &params.session {
        Some(name) => {
            let needs = Needs { items: Select::None, inbox: false, key: None };
            (Vec::from_iter(app.engine.store().load(&session(name)?, needs).await?.session), None)
        }
        None => {
            let filter = SessionFilter { after: params.after, limit, ..SessionFilter::default() };
            let found = app.engine.store().sessions(filter).await?;
            let next = found.last().filter(|_| found.len() == limit).map(|(num, _)| *num);
            (found.into_iter().map(|(_, session)| session).collect(), next)
        }
    };
    let found = sight.only(found, |session| &session.id).await?;
    Ok(Json(SessionPage { sessions: found.iter().map(SessionView::of).collect(), next }))
}

/// One session with everything in it.
#[derive(Serialize, ToSchema)]
pub struct WholeSession {
    #[serde(flatten)]
    pub session: SessionView,
    /// The live timers and the latest ended ones.
    pub timers: Vec<TimerView>,
    /// The pending reminders and the latest ended ones.
    pub reminders: Vec<ReminderView>,
    /// The timers of its agent, if it has one.
    pub session_timers: Vec<SessionTimerView>,
    /// Calls that these have caused.
    pub calls: Vec<CallView>,
    /// The latest that was said in it, at most 200; what was said before is in `/api/history`.
    pub conversation: Vec<SaidView>,
    /// Messages not yet delivered.
    pub inbox: Vec<MessageView>,
    /// What its agent is told when it stops, as the user has ordered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_message: Option<StopMessageView>,
}

#[derive(Serialize, ToSchema)]
pub struct StopMessageView {
    pub text: String,
    /// How many more times.
    pub left: u32,
}

/// What a session holds. Looking takes no messages.
#[utoipa::path(get, path = "/api/sessions/{session}", tag = "sessions", params(("session" = String, Path)), responses(
    (status = 200, body = WholeSession),
    (status = 404, body = Problem, content_type = "application/problem+json"),
))]
pub async fn read(State(app): State<App>, Segments(name): Segments<String>) -> Result<Json<WholeSession>, ApiError> {
    let id = session(&name)?;
    let needs = Needs { items: Select::Recent, inbox: true, key: None };
    let state = app.engine.store().load(&id, needs).await?;
    let Some(found) = &state.session else { return Err(Reject::UnknownSession(name).into()) };
    let conversation = app.engine.store().conversation(&id, CONVERSATION_SHOWN_MAX).await?;
    let armed = state.items.iter().filter_map(Item::as_thread).find_map(|thread| thread.stop_message.as_ref());
    let now = app.engine.now();
    let shown = |timer| TimerView::of(timer, now).known_here(timer, &app.engine);
    Ok(Json(WholeSession {
        session: SessionView::of(found),
        timers: state.items.iter().filter_map(Item::as_timer).map(shown).collect(),
        reminders: state.items.iter().filter_map(Item::as_reminder).map(ReminderView::of).collect(),
        session_timers: state.items.iter().filter_map(Item::as_session_timer).map(SessionTimerView::of).collect(),
        calls: state.items.iter().filter_map(Item::as_call).map(CallView::of).collect(),
        conversation: utterance::current(conversation).iter().map(SaidView::of).collect(),
        inbox: state.inbox.iter().map(MessageView::of).collect(),
        stop_message: armed.map(|armed| StopMessageView { text: armed.text.clone(), left: armed.left }),
    }))
}

#[derive(Serialize, ToSchema)]
pub struct Closed {
    pub session: String,
    /// Live timers that were stopped.
    pub stopped: usize,
    /// Pending reminders that were cancelled.
    pub cancelled: usize,
    /// Session timers that were cancelled.
    pub session_timers: usize,
}

/// Close a session: its live timers are stopped, calls that stand by are released, its reminders and session timers are
/// cancelled. A new timer, reminder or message opens it again.
#[utoipa::path(delete, path = "/api/sessions/{session}", tag = "sessions", params(("session" = String, Path)), responses(
    (status = 200, body = Closed),
    (status = 404, body = Problem, content_type = "application/problem+json"),
))]
pub async fn close(State(app): State<App>, Segments(name): Segments<String>) -> Result<Json<Closed>, ApiError> {
    let id = session(&name)?;
    let owner =
        turn::owner(&app.engine, &app.agents, &id).await.map_err(|error| ApiError::of(error, app.engine.now()))?;
    let close = turn::close(&app.engine, owner.and_then(|(_, known)| known).as_deref(), None);
    let done = app.engine.execute(&id, Call::new(close)).await;
    match done.map_err(|error| ApiError::of(error, app.engine.now()))?.reply {
        Reply::Closed(closed) => Ok(Json(Closed {
            session: name,
            stopped: closed.stopped,
            cancelled: closed.cancelled,
            session_timers: closed.session_timers,
        })),
        _ => unreachable!("closing answers with what it closed"),
    }
}
