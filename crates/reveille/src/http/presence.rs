//! A client holds a session: as long as this stream is open, nobody else wakes its agent, and the client hears when
//! there is something to fetch.

use super::{
    App,
    body::{Params, Segments, session},
    problem::ApiError,
    tools::is_place,
};
use crate::{
    engine::{Held, Hold, REWAKE},
    tools::client_kind,
};
use axum::{
    extract::State,
    response::sse::{Event, KeepAlive, Sse},
};
use futures_util::{Stream, stream};
use reveille_core::{Message, Millis, Needs, Session, SessionId, Timestamp};
use reveille_store::StoreError;
use serde::Deserialize;
use serde_json::json;
use std::{convert::Infallible, sync::Arc};
use utoipa::IntoParams;

/// How long hooks of old versions waited, which do not say it.
const PATIENCE: Millis = Millis::from_secs(23 * 3600);

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PresenceParams {
    /// The kind of program that holds the session, such as `claude-code`.
    client: Option<String>,
    /// This holder can wake its agent by itself.
    #[serde(default)]
    wakes: bool,
    /// A newer holder of the same name takes this one's place.
    name: Option<String>,
    /// Where the agent works, if its hooks do not say it.
    cwd: Option<String>,
    /// How long the holder will stay at most, in seconds. What is due later cannot be told by it.
    patience: Option<u64>,
}

/// Hold a session. While the stream is open no wake command is run for it. `messages` (with the `count` of those that can
/// be leased) comes whenever there is something to fetch, at once if there already is; `idle` when nothing is pending and
/// no timer runs; `replaced` when a newer holder of the same name has come, which ends the stream.
#[utoipa::path(
    get,
    path = "/api/sessions/{session}/presence",
    tag = "sessions",
    params(("session" = String, Path), PresenceParams),
    responses((status = 200, content_type = "text/event-stream", description = "`messages`, `idle` or `replaced`")),
)]
pub async fn hold(
    State(app): State<App>,
    Segments(name): Segments<String>,
    Params(params): Params<PresenceParams>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let session = session(&name)?;
    if let Some(cwd) = params.cwd.as_deref().filter(|cwd| is_place(cwd)) {
        app.engine.presence().cwd_may_be(&session, cwd);
    }
    if let Some(client) = client_kind(params.client.as_deref()) {
        match params.name.as_deref() {
            // Ends with every wake and is started again by its client: it counts also while it does not hold.
            Some(REWAKE) => {
                let patience = params.patience.map(Millis::from_secs).unwrap_or(PATIENCE);
                app.engine.presence().hook_seen(&session, Some(patience), Some(client), app.engine.now());
            }
            _ => app.engine.presence().kind_seen(&session, client),
        }
    }
    let held = app.engine.presence().hold(&session, Hold::Client { wakes: params.wakes, name: params.name });
    let holder = Holder { app, session, held, told: Told::Nothing, ended: false };
    let events = stream::unfold(holder, |mut holder| async move {
        let event = holder.next().await?;
        Some((Ok(event), holder))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

struct Holder {
    app: App,
    session: SessionId,
    held: Held,
    told: Told,
    ended: bool,
}

/// What the client heard last, so that it hears only what is new.
#[derive(PartialEq)]
enum Told {
    Nothing,
    Idle,
    /// As of this version of the session: what was taken and given back in between is worth another word.
    Messages(u64, Vec<Arc<str>>),
}

impl Holder {
    /// `None`: the server stops, or the store cannot be read; the client comes back by itself.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.ended {
                return None;
            }
            if self.held.is_replaced() {
                self.ended = true;
                return Some(Event::default().event("replaced").data("{}"));
            }
            let (told, look_at) = self.look().await.ok()?;
            if told != self.told {
                self.told = told;
                match &self.told {
                    Told::Nothing => {}
                    Told::Idle => return Some(Event::default().event("idle").data("{}")),
                    Told::Messages(_, ids) => {
                        let count = json!({"count": ids.len()}).to_string();
                        return Some(Event::default().event("messages").data(count));
                    }
                }
            }
            let freed = async {
                match look_at {
                    Some(at) => self.app.engine.clock().sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.held.changed() => {}
                () = freed => {}
                () = self.app.stop.cancelled() => return None,
            }
        }
    }

    /// What there is to say, and when a lease runs out that changes it.
    async fn look(&self) -> Result<(Told, Option<Timestamp>), StoreError> {
        let needs = Needs { inbox: true, ..Needs::default() };
        let state = self.app.engine.store().load(&self.session, needs).await?;
        let now = self.app.engine.now();
        let free = |message: &&Message| message.is_free(now);
        let ids: Vec<_> = state.inbox.iter().filter(free).map(|message| message.id.clone()).collect();
        let leases = state.inbox.iter().filter_map(|message| message.lease.as_ref()).map(|lease| lease.until);
        let look_at = leases.filter(|until| *until > now).min();
        let live = |session: &Session| session.live_timers + session.live_reminders;
        let (version, live) = state.session.map_or((0, 0), |session| (session.version, live(&session)));
        let told = match live == 0 {
            _ if !ids.is_empty() => Told::Messages(version, ids),
            true if state.inbox.is_empty() => Told::Idle,
            _ => Told::Nothing,
        };
        Ok((told, look_at))
    }
}
