//! What happened hour by hour, so that a reader in any time zone can make days of it.

use super::{App, body::Params, problem::ApiError};
use crate::tools::Seconds;
use axum::{Json, extract::State};
use reveille_core::{
    Millis, Status, Timestamp,
    batch::tally::{self, LATENESS},
    call, reminder,
};
use reveille_store::HourTally;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

const DEFAULT: Millis = Millis::from_secs(7 * 24 * 3600);

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct HourParams {
    /// From this instant on, in milliseconds since 1970: the whole hour it is in. The last seven days unless given.
    since: Option<i64>,
}

#[derive(Serialize, ToSchema)]
pub struct Hours {
    pub now: i64,
    /// In order; hours in which nothing happened are left out.
    pub hours: Vec<Hour>,
}

/// How often each thing happened within one hour.
#[derive(Serialize, ToSchema, Default)]
pub struct Hour {
    /// When it began, in milliseconds since 1970; hours are those of UTC.
    pub hour: i64,
    pub timers_created: i64,
    pub timers_completed: i64,
    pub timers_stopped: i64,
    /// Times of recurring timers that were told, and that passed untold.
    pub timers_fired: i64,
    pub timers_missed: i64,
    pub reminders_created: i64,
    pub reminders_delivered: i64,
    pub reminders_missed: i64,
    pub reminders_cancelled: i64,
    pub messages_created: i64,
    pub messages_delivered: i64,
    pub messages_withdrawn: i64,
    pub session_timers_fired: i64,
    /// Calls of tools and webhooks.
    pub calls_done: i64,
    pub calls_failed: i64,
    pub sessions_created: i64,
    /// Calls that stood by and returned.
    pub standbys: i64,
    /// How long agents slept in them, in seconds.
    pub slept: Seconds,
    pub requests_saved: i64,
    pub conditions_met: i64,
    pub conditions_unmet: i64,
    /// Timers that ended, reminders that became due and session timers that fired: how many came within 10 ms of their
    /// time, how many later than that within 100 ms, and so on.
    pub fired_within_10ms: i64,
    pub fired_within_100ms: i64,
    pub fired_within_1s: i64,
    pub fired_within_1m: i64,
    pub fired_later: i64,
}

impl Default for Seconds {
    fn default() -> Self {
        Self(Millis::ZERO)
    }
}

impl Hour {
    fn add(&mut self, name: &str, value: i64) {
        let field = match name {
            tally::TIMERS_CREATED => &mut self.timers_created,
            tally::TIMERS_FIRED => &mut self.timers_fired,
            tally::TIMERS_MISSED => &mut self.timers_missed,
            tally::REMINDERS_CREATED => &mut self.reminders_created,
            tally::MESSAGES_CREATED => &mut self.messages_created,
            tally::MESSAGES_DELIVERED => &mut self.messages_delivered,
            tally::MESSAGES_WITHDRAWN => &mut self.messages_withdrawn,
            tally::SESSION_TIMERS_FIRED => &mut self.session_timers_fired,
            tally::SESSIONS => &mut self.sessions_created,
            tally::STANDBYS => &mut self.standbys,
            tally::REQUESTS_SAVED => &mut self.requests_saved,
            tally::CONDITIONS_MET => &mut self.conditions_met,
            tally::CONDITIONS_UNMET => &mut self.conditions_unmet,
            tally::SLEPT_MS => {
                self.slept = Seconds(Millis::new(u64::try_from(value).unwrap_or(0)));
                return;
            }
            name if name == tally::calls(call::Status::Done) => &mut self.calls_done,
            name if name == tally::calls(call::Status::Failed) => &mut self.calls_failed,
            name if name == LATENESS[0].0 => &mut self.fired_within_10ms,
            name if name == LATENESS[1].0 => &mut self.fired_within_100ms,
            name if name == LATENESS[2].0 => &mut self.fired_within_1s,
            name if name == LATENESS[3].0 => &mut self.fired_within_1m,
            name if name == LATENESS[4].0 => &mut self.fired_later,
            name if name == tally::timers(Status::Completed) => &mut self.timers_completed,
            name if name == tally::timers(Status::Stopped) => &mut self.timers_stopped,
            name if name == tally::reminders(reminder::Status::Delivered) => &mut self.reminders_delivered,
            name if name == tally::reminders(reminder::Status::Missed) => &mut self.reminders_missed,
            name if name == tally::reminders(reminder::Status::Cancelled) => &mut self.reminders_cancelled,
            // Of a later version.
            _ => return,
        };
        *field += value;
    }
}

/// Counts by the hour.
#[utoipa::path(get, path = "/api/stats/hours", tag = "history", params(HourParams), responses((status = 200, body = Hours)))]
pub async fn read(State(app): State<App>, Params(params): Params<HourParams>) -> Result<Json<Hours>, ApiError> {
    let now = app.engine.now();
    let since = params.since.map_or(now.minus(DEFAULT), Timestamp::from_millis);
    let mut hours: Vec<Hour> = Vec::new();
    for HourTally { hour, name, value } in app.engine.store().hours(since).await? {
        let hour = hour.as_millis();
        if hours.last().is_none_or(|last| last.hour != hour) {
            hours.push(Hour { hour, ..Hour::default() });
        }
        if let Some(last) = hours.last_mut() {
            last.add(&name, value);
        }
    }
    Ok(Json(Hours { now: now.as_millis(), hours }))
}
