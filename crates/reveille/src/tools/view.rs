//! What agents and people are shown: the fields of the original tools, in seconds and in milliseconds since 1970.

use super::{Deliverable, ReminderView, ScheduleView, schedule};
use reveille_core::{
    Message, MessageKind, Millis, Purpose, Quiet, Reject, Session, Status, Timer, Timestamp, condition::Watch,
    timer::Phase,
};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// Seconds: `300`, or `0.25` where there is a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[schema(value_type = f64)]
pub struct Seconds(pub Millis);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        reveille_core::history::seconds(self.0).serialize(serializer)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimerType {
    Waiting,
    Mission,
}

/// One timer as it is at this instant. `elapsed_time + remaining_time` is always `total_duration`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TimerView {
    #[schema(example = "timer_nq072rt887")]
    pub timer_id: String,
    pub timer_type: TimerType,
    pub total_duration: Seconds,
    pub elapsed_time: Seconds,
    pub remaining_time: Seconds,
    #[schema(value_type = StatusName)]
    pub status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mission: Option<String>,
    /// Why it was last stopped, cancelled, paused or resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Milliseconds since 1970, as all instants here.
    pub created_at: i64,
    pub last_check_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_until: Option<i64>,
    /// When it will end, if nothing changes; when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<i64>,
    /// What it waits for besides its time, in the form in which that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, example = json!({"http": "http://localhost:3000/", "status": 200}))]
    pub until: Option<serde_json::Value>,
    /// Whether that held before the time was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
    /// What was seen of it: when it was met, else at the last look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// A call stands by for it, until then at the longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby_until: Option<i64>,
    /// When it follows the calendar or recurs; its durations are then those from one time to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Box<ScheduleView>>,
    /// `ends_at` is within quiet hours: it is told when they are over, at this instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_until: Option<i64>,
}

/// For the schema only: the five states.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code, reason = "the schema of reveille_core::Status, which knows nothing of schemas")]
pub enum StatusName {
    Running,
    Paused,
    RunningBackground,
    Completed,
    Stopped,
}

impl TimerView {
    pub fn of(timer: &Timer, now: Timestamp) -> Self {
        // A deadline that has passed has passed, also where the firing is not yet written.
        if timer.due().is_some_and(|due| due <= now) {
            let mut settled = timer.clone();
            settled.settle(now);
            return Self::of(&settled, now);
        }
        let (timer_type, reason, mission) = match &timer.purpose {
            Purpose::Waiting(reason) => (TimerType::Waiting, Some(reason.clone()), None),
            Purpose::Mission(mission) => (TimerType::Mission, None, Some(mission.clone())),
        };
        let (pause_until, ends_at) = match timer.phase {
            Phase::Running { due, .. } => (None, Some(due)),
            Phase::Paused { until, .. } => (Some(until), timer.next_due()),
            Phase::Completed { at, .. } | Phase::Stopped { at, .. } => (None, Some(at)),
        };
        let (until_shown, met, seen) = super::until::shown(timer);
        Self {
            timer_id: timer.id.to_string(),
            timer_type,
            total_duration: Seconds(timer.total),
            elapsed_time: Seconds(timer.elapsed(now)),
            remaining_time: Seconds(timer.remaining(now)),
            status: timer.status(),
            reason,
            mission,
            stop_reason: timer.note.clone(),
            created_at: timer.created_at.as_millis(),
            last_check_at: timer.last_check_at.as_millis(),
            pause_until: pause_until.map(Timestamp::as_millis),
            ends_at: ends_at.map(Timestamp::as_millis),
            until: until_shown,
            met,
            seen,
            standby_until: timer.standby.filter(|standby| standby.until > now).map(|standby| standby.until.as_millis()),
            schedule: ScheduleView::of(timer).map(Box::new),
            waits_until: timer.opens_at.map(Timestamp::as_millis),
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Timeout,
    /// Something else had to be told: see `messages`. The timer goes on.
    Message,
    Completed,
    /// A recurring timer's time has come, and it goes on.
    Fired,
    /// Its condition held.
    Met,
    Stopped,
    Background,
    Paused,
    Resumed,
    Scheduled,
    Read,
}

impl Outcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Timeout => "timeout",
            Outcome::Message => "message",
            Outcome::Completed => "completed",
            Outcome::Fired => "fired",
            Outcome::Met => "met",
            Outcome::Stopped => "stopped",
            Outcome::Background => "background",
            Outcome::Paused => "paused",
            Outcome::Resumed => "resumed",
            Outcome::Scheduled => "scheduled",
            Outcome::Read => "read",
        }
    }

    /// The call had to return earlier than it was asked to.
    pub fn cut_short(timer: &Timer, now: Timestamp) -> String {
        let (id, left) = (&timer.id, timer.remaining(now).get().div_ceil(1000));
        format!(
            "Still running, {left} seconds remain: call timer again with timer_id '{id}' to go on waiting, \
             cancel_timer to do other work meanwhile, or stop_timer if it is done."
        )
    }

    /// What a model may do next, in one sentence.
    pub fn hint(self, timer: &Timer, now: Timestamp) -> String {
        if let (Outcome::Scheduled | Outcome::Background | Outcome::Read, Some(opens), Some(due)) =
            (self, timer.opens_at, timer.next_due())
        {
            let (due, opens) = (due.to_iso(), opens.to_iso());
            let told = match &timer.until {
                Some(Watch { seen: Some(seen), .. }) => {
                    format!("Met: {seen}. It waits for {opens} (quiet hours): a message tells you then.")
                }
                Some(watch) => format!(
                    "A message tells you as soon as the condition is met ({}), or at {due} that it was not; within quiet \
                     hours it waits for their end, {opens}.",
                    watch.wanted.condition
                ),
                None => format!("Due {due}, waits for {opens} (quiet hours): a message tells you then."),
            };
            return format!("{told} End your turn; do not wait or poll.");
        }
        if self == Outcome::Message {
            let (id, left) = (&timer.id, timer.remaining(now).get().div_ceil(1000));
            return format!(
                "A message came, see `messages`: act on it. The timer goes on, {left} seconds remain: call timer with \
                 timer_id '{id}' to stand by again, or stop_timer if it is done."
            );
        }
        if let Some(hint) = schedule::hint(self, timer).or_else(|| self.hint_until(timer, now)) {
            return hint;
        }
        let id = &timer.id;
        // Whole seconds, upwards: nobody plans by milliseconds, and "0 seconds remain" would not be true.
        let left = timer.remaining(now).get().div_ceil(1000);
        match self {
            Outcome::Timeout => format!(
                "Still running, {left} seconds remain: look at what you wait for, then call timer with timer_id '{id}' \
                 to wait on, cancel_timer to do other work meanwhile, or stop_timer if it is done."
            ),
            Outcome::Message => unreachable!("said above"),
            Outcome::Completed | Outcome::Fired | Outcome::Met => match &timer.purpose {
                Purpose::Waiting(reason) => format!("The time is over: look at what you waited for ({reason})."),
                Purpose::Mission(mission) => format!("It is time: carry out your mission now: {mission}"),
            },
            Outcome::Stopped => "This timer has ended for good and will not report again.".into(),
            Outcome::Background => format!(
                "The timer runs on in the background, {left} seconds remain: do other work, a message will tell you \
                 when it ends."
            ),
            Outcome::Paused => {
                let to = match timer.phase {
                    Phase::Paused { background: true, .. } => " to the background",
                    _ => "",
                };
                format!(
                    "Paused with {left} seconds remaining; it resumes by itself{to}, or call resume_timer with timer_id \
                     '{id}'."
                )
            }
            Outcome::Resumed => format!("Counting again, {left} seconds remain."),
            Outcome::Scheduled => format!(
                "End your turn now: in {left} seconds a message wakes you to carry out the mission. Do not wait or poll."
            ),
            Outcome::Read => match timer.status() {
                Status::Running => format!(
                    "{left} seconds remain: call timer with timer_id '{id}' to wait on, or stop_timer if it is done."
                ),
                Status::RunningBackground => Outcome::Background.hint(timer, now),
                Status::Paused => Outcome::Paused.hint(timer, now),
                Status::Completed => Outcome::Completed.hint(timer, now),
                Status::Stopped => Outcome::Stopped.hint(timer, now),
            },
        }
    }
}

/// What the system tells the agent.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MessageView {
    #[schema(example = "msg_nq072rt887")]
    pub id: String,
    #[schema(example = "timer_completed")]
    pub kind: &'static str,
    pub text: String,
    /// The timer it speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer_id: Option<String>,
    /// The reminder it speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    pub created_at: i64,
    /// A channel is delivering it; free again then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leased_until: Option<i64>,
}

impl MessageView {
    pub fn of(message: &Message) -> Self {
        let source = Some(message.source.to_string());
        let (timer_id, task_id) = match message.kind {
            MessageKind::TimerCompleted | MessageKind::TimerFired => (source, None),
            MessageKind::ReminderDue => (None, source),
        };
        Self {
            id: message.id.to_string(),
            kind: message.kind.as_str(),
            text: message.text.clone(),
            timer_id,
            task_id,
            created_at: message.created_at.as_millis(),
            leased_until: message.lease.as_ref().map(|lease| lease.until.as_millis()),
        }
    }

    /// As part of a reply, where the lease is the reply's own business.
    pub fn delivered(message: &Message) -> Self {
        Self { leased_until: None, ..Self::of(message) }
    }
}

/// The answer of a tool about one timer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TimerResult {
    #[serde(flatten)]
    pub timer: TimerView,
    /// `timer` only: whether the call ended before the timer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<bool>,
    pub outcome: Outcome,
    /// Everything else the system had to tell.
    pub messages: Vec<MessageView>,
    /// A new mission only: how its message can reach the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Deliverable>,
    pub hint: String,
}

/// RFC 9457 problem details; `code` is stable.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    /// What is wrong and what to do about it, written for a model as well.
    pub detail: String,
    #[schema(example = "unknown_timer")]
    pub code: String,
    /// The final state, when the timer has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer: Option<TimerView>,
    /// The session's live timers, when the id is not one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_timers: Option<Vec<String>>,
    /// The final state, when the reminder has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reminder: Option<ReminderView>,
    /// The session's pending reminders, when the id is not one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_reminders: Option<Vec<String>>,
    /// What the model's upstream answered, when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_status: Option<u16>,
}

impl Problem {
    pub fn new(status: u16, title: &str, code: &str, detail: String) -> Self {
        Self {
            kind: format!("urn:reveille:problem:{code}"),
            title: title.to_owned(),
            status,
            detail,
            code: code.to_owned(),
            timer: None,
            live_timers: None,
            reminder: None,
            live_reminders: None,
            upstream_status: None,
        }
    }

    pub fn rejected(status: u16, reject: &Reject, now: Timestamp) -> Self {
        let mut problem = Self::new(status, "The call was refused", reject.code(), reject.to_string());
        match reject {
            Reject::TimerEnded { timer, .. } => problem.timer = Some(TimerView::of(timer, now)),
            Reject::UnknownTimer { live, .. } => {
                problem.live_timers = Some(live.iter().map(ToString::to_string).collect());
            }
            Reject::ReminderEnded { reminder, .. } => problem.reminder = Some(ReminderView::of(reminder)),
            Reject::UnknownReminder { live, .. } => {
                problem.live_reminders = Some(live.iter().map(ToString::to_string).collect());
            }
            _ => {}
        }
        problem
    }
}

/// One session in a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SessionView {
    pub session: String,
    #[schema(example = "open")]
    pub state: &'static str,
    pub created_at: i64,
    pub active_at: i64,
    pub live_timers: u32,
    /// Pending reminders.
    pub live_reminders: u32,
    /// The kind of program its agent runs in, if it was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "claude-code")]
    pub client: Option<String>,
    /// The configured agent whose timers run here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "acme:support")]
    pub agent: Option<String>,
    /// Its own quiet hours, or its agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub quiet: Option<Quiet>,
}

impl SessionView {
    pub fn of(session: &Session) -> Self {
        Self {
            session: session.id.to_string(),
            state: session.state.as_str(),
            created_at: session.created_at.as_millis(),
            active_at: session.active_at.as_millis(),
            live_timers: session.live_timers,
            live_reminders: session.live_reminders,
            client: session.client.clone(),
            agent: session.agent.as_ref().map(ToString::to_string),
            quiet: session.quiet.in_force().cloned(),
        }
    }
}
