//! Changes as they happen, by server-sent events. The id of an event is its number in the history, so a client that
//! comes back with `Last-Event-ID` misses nothing and sees nothing twice.

use super::{
    App,
    body::{Params, session},
    history::Entry,
    problem::ApiError,
    sight::Sight,
};
use crate::engine::{self, Held, Hold};
use axum::{
    extract::State,
    http::HeaderMap,
    response::sse::{Event, KeepAlive, Sse},
};
use futures_util::{Stream, stream};
use reveille_core::SessionId;
use reveille_store::{HistoryFilter, Recorded, StoreError};
use serde::Deserialize;
use std::{collections::VecDeque, convert::Infallible};
use tokio::sync::broadcast::{self, error::RecvError};
use utoipa::IntoParams;

/// Entries read at a time while catching up.
const CATCH_UP_PAGE: usize = 256;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EventParams {
    /// Only this session's.
    session: Option<String>,
    /// Begin after this event; the `Last-Event-ID` header says the same. Without either: what happens from now on.
    pub after: Option<i64>,
}

/// Follow all changes, or one session's.
#[utoipa::path(get, path = "/api/events", tag = "history", params(EventParams), responses(
    (status = 200, content_type = "text/event-stream", description = "Each event's data is an `Entry`"),
))]
pub async fn follow(
    State(app): State<App>,
    headers: HeaderMap,
    Params(params): Params<EventParams>,
    mut sight: Sight,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let named = headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.trim().parse().ok());
    let session = params.session.as_deref().map(session).transpose()?;
    if let Some(session) = &session {
        sight.demand(session).await?;
    }
    let follower = Follower::new(app, sight, session, named.or(params.after)).await?;
    let events = stream::unfold(follower, |mut follower| async move {
        let recorded = follower.next().await?;
        let entry = Entry::of(&recorded);
        let event = Event::default().id(entry.seq.to_string()).event(&entry.event);
        let event = event.json_data(&entry).unwrap_or_else(|_| Event::default().comment("unrepresentable"));
        Some((Ok(event), follower))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

pub struct Follower {
    app: App,
    sight: Sight,
    session: Option<SessionId>,
    live: broadcast::Receiver<engine::Event>,
    /// The last event this client has, or had before it came.
    last: i64,
    /// Read from the history and not yet sent.
    backlog: VecDeque<Recorded>,
    /// Shows that somebody hears of this session.
    _held: Option<Held>,
    /// The history may hold more that was not received live.
    behind: bool,
}

impl Follower {
    pub async fn new(
        app: App,
        sight: Sight,
        session: Option<SessionId>,
        after: Option<i64>,
    ) -> Result<Self, StoreError> {
        // Before looking at the history, so that nothing falls between.
        let live = app.engine.events();
        app.engine.metrics.event_followers.inc();
        // One who may only look changes nothing, not even who is taken to be there.
        let heard = session.as_ref().filter(|_| !sight.only_looks());
        let _held = heard.map(|session| app.engine.presence().hold(session, Hold::Follower));
        let mut follower =
            Self { session, sight, live, _held, last: 0, backlog: VecDeque::new(), behind: after.is_some(), app };
        let newest = HistoryFilter { limit: 1, ..HistoryFilter::default() };
        let newest = follower.app.engine.store().history(newest).await?;
        let newest = newest.first().map_or(0, |newest| newest.seq);
        // An id that does not exist yet is from another database: follow from now on.
        follower.last = after.map_or(newest, |after| after.min(newest));
        Ok(follower)
    }

    /// `None`: the server stops, or the history cannot be read; the client comes back by itself.
    pub async fn next(&mut self) -> Option<Recorded> {
        loop {
            if let Some(recorded) = self.backlog.pop_front() {
                self.last = recorded.seq;
                if self.sight.sees(&recorded.session).await.ok()? {
                    return Some(recorded);
                }
                continue;
            }
            if self.behind {
                self.catch_up().await.ok()?;
                continue;
            }
            let received = self.app.stop.run_until_cancelled(self.live.recv()).await?;
            match received {
                Ok(engine::Event::Recorded(recorded)) if recorded.seq > self.last && self.wants(&recorded) => {
                    self.last = recorded.seq;
                    if self.sight.sees(&recorded.session).await.ok()? {
                        return Some(Recorded::clone(&recorded));
                    }
                }
                Ok(engine::Event::Recorded(_)) => {}
                Ok(engine::Event::Missed) | Err(RecvError::Lagged(_)) => self.behind = true,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    async fn catch_up(&mut self) -> Result<(), StoreError> {
        let filter = HistoryFilter {
            session: self.session.clone(),
            after: Some(self.last),
            limit: CATCH_UP_PAGE,
            ..HistoryFilter::default()
        };
        let page = self.app.engine.store().history(filter).await?;
        self.behind = page.len() == CATCH_UP_PAGE;
        self.backlog = page.into();
        Ok(())
    }

    fn wants(&self, recorded: &Recorded) -> bool {
        self.session.as_ref().is_none_or(|session| *session == recorded.session)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.app.engine.metrics.event_followers.dec();
    }
}
