//! How messages reached their agents, or did not: read from the history, where every attempt is written down.

use super::{
    App,
    body::{Params, Segments, session},
    problem::ApiError,
    sight::Sight,
};
use crate::wake::attempt::{ASKED, ENDED, GIVEN_UP, STARTED};
use axum::{Json, extract::State, http::StatusCode};
use reveille_core::{Call, Command, Needs, Reject};
use reveille_store::{HistoryFilter, Recorded};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 500;
const DELIVERED: &str = "message.delivered";

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DeliveryParams {
    /// Only this session's.
    session: Option<String>,
    /// `message` (told to an agent) or `wake` (commands that were run); both unless given.
    kind: Option<String>,
    /// At most 500 of each kind; 100 unless given.
    limit: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryKind {
    /// A message that reached its agent.
    Message,
    /// A wake command.
    Wake,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryOutcome {
    Delivered,
    /// A command that has not ended, or whose server was killed.
    Running,
    Failed,
    /// Failed, and not tried again by itself.
    GivenUp,
}

/// One delivery, or one attempt at it.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeliveryView {
    /// Its entry in the history.
    pub seq: i64,
    pub at: i64,
    pub session: String,
    pub kind: DeliveryKind,
    /// `standby`, `hook:stop`, `wake:claude-code`, …
    pub channel: String,
    pub outcome: DeliveryOutcome,
    /// The messages it is about.
    pub messages: Vec<String>,
    /// What was told; messages only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Commands only: which attempt this was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// Commands that have ended: their exit code, unless a signal or we ended them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<i64>,
    /// How long it took, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// The end of what the command wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct Deliveries {
    /// Newest first.
    pub deliveries: Vec<DeliveryView>,
}

/// The latest deliveries and wake commands.
#[utoipa::path(get, path = "/api/deliveries", tag = "history", params(DeliveryParams), responses(
    (status = 200, body = Deliveries),
))]
pub async fn list(
    State(app): State<App>,
    Params(params): Params<DeliveryParams>,
    mut sight: Sight,
) -> Result<Json<Deliveries>, ApiError> {
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
    let session = params.session.as_deref().map(session).transpose()?;
    let (messages, wakes) = match params.kind.as_deref() {
        None => (true, true),
        Some("message") => (true, false),
        Some("wake") => (false, true),
        Some(other) => {
            let why = format!("'{other}' is not one of: message, wake");
            return Err(Reject::InvalidArgument { field: "kind".into(), why }.into());
        }
    };
    let mut read = async |event: &str| {
        let filter = HistoryFilter {
            session: session.clone(),
            event: Some(event.to_owned()),
            limit,
            ..HistoryFilter::default()
        };
        sight.only(app.engine.store().history(filter).await?, |recorded| &recorded.session).await
    };
    let mut deliveries = Vec::new();
    if messages {
        deliveries.extend(read(DELIVERED).await?.iter().map(told));
    }
    if wakes {
        let mut entries = read(STARTED).await?;
        entries.extend(read(ENDED).await?);
        entries.extend(read(GIVEN_UP).await?);
        deliveries.extend(attempts(entries));
    }
    deliveries.sort_by_key(|delivery| std::cmp::Reverse(delivery.seq));
    Ok(Json(Deliveries { deliveries }))
}

fn told(recorded: &Recorded) -> DeliveryView {
    let data = &recorded.entry.data;
    DeliveryView {
        messages: vec![recorded.entry.subject.to_string()],
        text: data["text"].as_str().map(str::to_owned),
        ..view(recorded, DeliveryKind::Message, data["channel"].as_str(), DeliveryOutcome::Delivered)
    }
}

fn view(recorded: &Recorded, kind: DeliveryKind, channel: Option<&str>, outcome: DeliveryOutcome) -> DeliveryView {
    DeliveryView {
        seq: recorded.seq,
        at: recorded.entry.at.as_millis(),
        session: recorded.session.to_string(),
        kind,
        channel: channel.unwrap_or_default().to_owned(),
        outcome,
        messages: Vec::new(),
        text: None,
        attempt: None,
        exit: None,
        duration: None,
        output: None,
    }
}

/// Each beginning with its end: one command runs at a time in a session, so they follow each other there.
fn attempts(mut entries: Vec<Recorded>) -> Vec<DeliveryView> {
    entries.sort_by_key(|recorded| recorded.seq);
    let mut attempts: Vec<DeliveryView> = Vec::new();
    for recorded in &entries {
        let data = &recorded.entry.data;
        let rule = format!("wake:{}", data["rule"].as_str().unwrap_or_default());
        if recorded.entry.event == STARTED {
            let ids = data["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
            attempts.push(DeliveryView {
                attempt: data["attempt"].as_i64(),
                messages: ids.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
                ..view(recorded, DeliveryKind::Wake, Some(&rule), DeliveryOutcome::Running)
            });
            continue;
        }
        let of_session = |attempt: &&mut DeliveryView| attempt.session == recorded.session.as_str();
        let Some(attempt) = attempts.iter_mut().rev().find(of_session) else { continue };
        if recorded.entry.event == GIVEN_UP {
            attempt.outcome = DeliveryOutcome::GivenUp;
            continue;
        }
        // An agent that took too long has its message all the same.
        let told = data["exit"] == 0 || data["told"] == true;
        attempt.outcome = if told { DeliveryOutcome::Delivered } else { DeliveryOutcome::Failed };
        attempt.exit = data["exit"].as_i64();
        attempt.duration = data["duration"].as_f64();
        attempt.output = data["output"].as_str().filter(|output| !output.is_empty()).map(str::to_owned);
    }
    attempts
}

#[derive(Serialize, ToSchema)]
pub struct WakeAsked {
    pub session: String,
    /// The rule whose command will be run.
    pub rule: String,
}

/// Try once more to wake a session's agent, also where that was given up. The command runs as soon as its rule allows.
#[utoipa::path(post, path = "/api/sessions/{session}/wake", tag = "sessions", params(("session" = String, Path)), responses(
    (status = 200, body = WakeAsked),
))]
pub async fn wake(State(app): State<App>, Segments(name): Segments<String>) -> Result<Json<WakeAsked>, ApiError> {
    let id = session(&name)?;
    let state = app.engine.store().load(&id, Needs { inbox: true, ..Needs::default() }).await?;
    let Some(found) = state.session else { return Err(Reject::UnknownSession(name).into()) };
    let refuse = |code: &str, detail: &str| Err(ApiError::new(StatusCode::CONFLICT, "Cannot be woken", code, detail));
    let rules = app.engine.wake_rules();
    let Some(rule) = rules.serving(&id, found.client.as_deref()) else {
        return refuse(
            "no_wake_command",
            "no wake command serves this session; the configuration has them under `wake`",
        );
    };
    if state.inbox.is_empty() {
        return refuse(
            "nothing_pending",
            "no message waits in this session, so there is nothing to wake its agent for",
        );
    }
    let (rule, data) = (rules.list[rule].0.clone(), Value::Null);
    let asked = app.engine.execute(&id, Call::new(Command::Record { event: ASKED, data })).await;
    asked.map_err(|error| ApiError::of(error, app.engine.now()))?;
    Ok(Json(WakeAsked { session: name, rule }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reveille_core::{HistoryEntry, SessionId, SubjectKind, Timestamp};
    use serde_json::json;

    fn entry(seq: i64, session: &str, event: &'static str, data: Value) -> Recorded {
        let at = Timestamp::from_millis(seq);
        let entry = HistoryEntry { at, kind: SubjectKind::Session, subject: session.into(), event: event.into(), data };
        Recorded { seq, session: SessionId::new(session), entry }
    }

    #[test]
    fn each_command_is_shown_with_its_end() {
        let started = |seq, session, attempt| {
            entry(seq, session, STARTED, json!({"rule": "r", "attempt": attempt, "messages": ["m"]}))
        };
        let ended = |seq, session, exit: Value, told: bool| {
            let data = json!({"rule": "r", "exit": exit, "told": told, "duration": 1.5, "output": "说明"});
            entry(seq, session, ENDED, data)
        };
        let shown = attempts(vec![
            ended(1, "lost", json!(0), true),
            started(2, "a", 1),
            started(3, "b", 1),
            ended(4, "b", json!(0), true),
            ended(5, "a", json!(7), false),
            started(6, "a", 2),
            ended(7, "a", Value::Null, false),
            entry(8, "a", GIVEN_UP, json!({"rule": "r"})),
            started(9, "c", 1),
            started(10, "d", 1),
            ended(11, "d", Value::Null, true),
        ]);
        let outcomes: Vec<_> = shown.iter().map(|one| (one.seq, one.outcome, one.exit, one.attempt)).collect();
        use DeliveryOutcome::{Delivered, Failed, GivenUp, Running};
        assert_eq!(
            outcomes,
            [
                (2, Failed, Some(7), Some(1)),
                (3, Delivered, Some(0), Some(1)),
                (6, GivenUp, None, Some(2)),
                (9, Running, None, Some(1)),
                (10, Delivered, None, Some(1)),
            ]
        );
        assert_eq!((shown[0].channel.as_str(), shown[0].output.as_deref()), ("wake:r", Some("说明")));
    }
}
