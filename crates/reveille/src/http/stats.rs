//! The figures people ask for. Counts are durable; lateness is since the start of the process.

use super::{App, problem::ApiError};
use crate::tools::Seconds;
use axum::{Json, extract::State};
use reveille_core::{Millis, Status, batch::tally, call, reminder, session_timer};
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
pub struct Stats {
    pub server_id: String,
    pub version: &'static str,
    pub now: i64,
    pub started_at: i64,
    pub timers: TimerCounts,
    pub reminders: ReminderCounts,
    pub session_timers: SessionTimerCounts,
    pub calls: CallCounts,
    pub sessions: i64,
    pub messages: MessageCounts,
    pub standby: StandbyFigures,
    pub conditions: ConditionFigures,
    pub lateness: Lateness,
}

/// Live states: how many there are now. Final states: how many there ever were.
#[derive(Serialize, ToSchema)]
pub struct TimerCounts {
    pub created: i64,
    pub running: i64,
    pub paused: i64,
    pub running_background: i64,
    pub completed: i64,
    pub stopped: i64,
    /// Times of recurring timers that were told, and that passed without being told.
    pub fired: i64,
    pub missed: i64,
}

/// The same for reminders; `scheduled` and `due` are the live states.
#[derive(Serialize, ToSchema)]
pub struct ReminderCounts {
    pub created: i64,
    pub scheduled: i64,
    pub due: i64,
    pub delivered: i64,
    pub missed: i64,
    pub cancelled: i64,
}

/// The same for session timers; `pending` and `triggered` are the live states.
#[derive(Serialize, ToSchema)]
pub struct SessionTimerCounts {
    pub created: i64,
    pub pending: i64,
    pub triggered: i64,
    pub disabled: i64,
    pub cancelled: i64,
    /// Firings of all of them.
    pub fired: i64,
}

/// The same for calls of tools and webhooks; `waiting` and `running` are the live states.
#[derive(Serialize, ToSchema)]
pub struct CallCounts {
    pub created: i64,
    pub waiting: i64,
    pub running: i64,
    pub done: i64,
    pub failed: i64,
    pub cancelled: i64,
}

#[derive(Serialize, ToSchema)]
pub struct MessageCounts {
    pub created: i64,
    pub delivered: i64,
    /// Of reminders that were cancelled, replaced or missed.
    pub withdrawn: i64,
    pub pending: i64,
}

#[derive(Serialize, ToSchema)]
pub struct StandbyFigures {
    /// Calls standing by at this moment.
    pub now: usize,
    pub ended: i64,
    /// How long agents slept in calls, in seconds, all together.
    pub slept: Seconds,
    /// Requests that agents would have sent had they asked every `poll_interval` seconds, in these calls and while
    /// conditions were watched for them.
    pub requests_saved: i64,
    pub poll_interval: Seconds,
}

/// What timers waited for besides their time.
#[derive(Serialize, ToSchema)]
pub struct ConditionFigures {
    /// Waited for at this moment.
    pub now: usize,
    pub met: i64,
    /// Given up: the time was over, or the timer was stopped.
    pub unmet: i64,
    /// How long timers waited for them, in seconds, all together.
    pub waited: Seconds,
}

/// From deadline to durable firing, in milliseconds; absent before the first.
#[derive(Serialize, ToSchema)]
pub struct Lateness {
    pub fired: u64,
    pub p50_ms: Option<u64>,
    pub p90_ms: Option<u64>,
    pub p99_ms: Option<u64>,
    pub max_ms: Option<u64>,
    /// How many were within each bound and above the one before.
    pub spread: Vec<LatenessShare>,
}

#[derive(Serialize, ToSchema)]
pub struct LatenessShare {
    /// Absent for the last: anything above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
    pub count: u64,
}

/// Counts by state, lateness, sleep and saved requests.
#[utoipa::path(get, path = "/api/stats", tag = "history", responses((status = 200, body = Stats)))]
pub async fn read(State(app): State<App>) -> Result<Json<Stats>, ApiError> {
    let engine = &app.engine;
    let tallies = engine.store().tallies().await?;
    let count = |name: &str| tallies.get(name).copied().unwrap_or(0);
    let timers = |status: Status| count(tally::timers(status));
    let reminders = |status: reminder::Status| count(tally::reminders(status));
    let session_timers = |status: session_timer::Status| count(tally::session_timers(status));
    let calls = |status: call::Status| count(tally::calls(status));
    let (created, delivered) = (count(tally::MESSAGES_CREATED), count(tally::MESSAGES_DELIVERED));
    let withdrawn = count(tally::MESSAGES_WITHDRAWN);
    let late = |share| engine.metrics.lateness(share);
    Ok(Json(Stats {
        server_id: engine.store().server_id().to_owned(),
        version: env!("CARGO_PKG_VERSION"),
        now: engine.now().as_millis(),
        started_at: app.started_at.as_millis(),
        timers: TimerCounts {
            created: count(tally::TIMERS_CREATED),
            running: timers(Status::Running),
            paused: timers(Status::Paused),
            running_background: timers(Status::RunningBackground),
            completed: timers(Status::Completed),
            stopped: timers(Status::Stopped),
            fired: count(tally::TIMERS_FIRED),
            missed: count(tally::TIMERS_MISSED),
        },
        reminders: ReminderCounts {
            created: count(tally::REMINDERS_CREATED),
            scheduled: reminders(reminder::Status::Scheduled),
            due: reminders(reminder::Status::Due),
            delivered: reminders(reminder::Status::Delivered),
            missed: reminders(reminder::Status::Missed),
            cancelled: reminders(reminder::Status::Cancelled),
        },
        session_timers: SessionTimerCounts {
            created: count(tally::SESSION_TIMERS_CREATED),
            pending: session_timers(session_timer::Status::Pending),
            triggered: session_timers(session_timer::Status::Triggered),
            disabled: session_timers(session_timer::Status::Disabled),
            cancelled: session_timers(session_timer::Status::Cancelled),
            fired: count(tally::SESSION_TIMERS_FIRED),
        },
        calls: CallCounts {
            created: count(tally::CALLS_CREATED),
            waiting: calls(call::Status::Waiting),
            running: calls(call::Status::Running),
            done: calls(call::Status::Done),
            failed: calls(call::Status::Failed),
            cancelled: calls(call::Status::Cancelled),
        },
        sessions: count(tally::SESSIONS),
        messages: MessageCounts { created, delivered, withdrawn, pending: created - delivered - withdrawn },
        standby: StandbyFigures {
            now: *engine.standing_by().borrow(),
            ended: count(tally::STANDBYS),
            slept: Seconds(Millis::new(u64::try_from(count(tally::SLEPT_MS)).unwrap_or(0))),
            requests_saved: count(tally::REQUESTS_SAVED),
            poll_interval: Seconds(engine.limits().poll_interval),
        },
        conditions: ConditionFigures {
            now: engine.board().awaited(),
            met: count(tally::CONDITIONS_MET),
            unmet: count(tally::CONDITIONS_UNMET),
            waited: Seconds(Millis::new(u64::try_from(count(tally::WAITED_MS)).unwrap_or(0))),
        },
        lateness: Lateness {
            fired: engine.metrics.fired.get(),
            p50_ms: late(0.5),
            p90_ms: late(0.9),
            p99_ms: late(0.99),
            max_ms: late(1.0),
            spread: engine
                .metrics
                .lateness_spread()
                .into_iter()
                .map(|(within_ms, count)| LatenessShare { within_ms, count })
                .collect(),
        },
    }))
}
