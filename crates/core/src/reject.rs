//! Why a command was refused, typed. The words are written so that a model can correct its call by them alone.

use crate::{
    id::{AgentId, ItemId, LeaseId},
    reminder::Reminder,
    task::TaskOutcome,
    text::shown,
    time::{Millis, Timestamp},
    timer::{Status, Timer},
};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    #[error(
        "`reason` and `mission` exclude each other. To wait, send `reason` alone; to be woken later for a task, send `mission` alone"
    )]
    ReasonAndMission,
    #[error(
        "a new timer needs `reason` (you wait and look again yourself) or `mission` (you end your turn and are woken to do it)"
    )]
    ReasonOrMissionRequired,
    #[error("`{field}` is missing: {hint}")]
    MissingArgument { field: &'static str, hint: &'static str },
    #[error("`{field}` {why}")]
    InvalidArgument { field: String, why: String },
    #[error("`{field}`: {got} {why}")]
    InvalidDuration { field: &'static str, got: String, why: String },
    #[error("`{field}`: {got} is too long; the longest is {max} seconds")]
    DurationTooLong { field: &'static str, got: String, max: Millis },
    #[error("`{field}` has {chars} characters; at most {max} are kept. Send a shorter text")]
    TextTooLong { field: &'static str, chars: usize, max: usize },
    #[error("`{field}` contains control characters; only line breaks and tabs are allowed")]
    ControlCharacters { field: &'static str },
    #[error("{}", unknown_timer(id, live))]
    UnknownTimer { id: ItemId, live: Vec<ItemId> },
    #[error("cannot {wish} timer '{}': {}", timer.id, ended(timer))]
    TimerEnded { wish: &'static str, timer: Box<Timer> },
    #[error("timer '{id}' is {}, not paused; only a paused timer can be resumed", status.as_str())]
    NotPaused { id: ItemId, status: Status },
    #[error("timer '{id}' is a mission and takes no `reason`; leave it out, or send `mission` to change the task")]
    MissionTakesNoReason { id: ItemId },
    #[error(
        "timer '{id}' is a waiting timer and takes no `mission`; leave it out, or send `reason` to change why you wait"
    )]
    WaitingTakesNoMission { id: ItemId },
    #[error(
        "this session already has {max} live timers; stop one that is no longer needed with stop_timer, then try again"
    )]
    TooManyTimers { max: u32 },
    #[error(
        "this session has {max} or more undelivered messages, and nothing new is taken on until some are read: every tool \
         result brings the oldest along, for instance read_timer's"
    )]
    InboxFull { max: u32 },
    #[error("`until`: {why}")]
    ForbiddenCondition { why: String },
    #[error(
        "this server waits for {max} conditions already, and takes no more; try again later, or wait by time alone"
    )]
    TooManyConditions { max: usize },
    #[error("`dueAt`: {got} {why}")]
    InvalidDueAt { got: String, why: String },
    #[error(
        "`dueAt` {} is too long past: it is {} now, and a reminder is kept for {retention} seconds. Send a time to come",
        due_at.to_iso(), now.to_iso()
    )]
    DueTooOld { due_at: Timestamp, now: Timestamp, retention: Millis },
    #[error(
        "`dueAt` {} is too far away: it is {} now, and the longest time ahead is {max} seconds. Send an earlier time",
        due_at.to_iso(), now.to_iso()
    )]
    DueTooFar { due_at: Timestamp, now: Timestamp, max: Millis },
    #[error("`{field}`: {got} {why}")]
    InvalidTime { field: &'static str, got: String, why: String },
    #[error("`every`: {got} {why}")]
    InvalidEvery { got: String, why: String },
    #[error("{}", unknown_zone(field, got, similar))]
    UnknownZone { field: &'static str, got: String, similar: Vec<String> },
    #[error("{}", unknown_reminder(id, live))]
    UnknownReminder { id: ItemId, live: Vec<ItemId> },
    #[error("cannot {wish} task '{}': it is {}. Schedule a new one without `taskId` if you still need it", reminder.id, reminder_ended(reminder))]
    ReminderEnded { wish: &'static str, reminder: Box<Reminder> },
    #[error(
        "this session has {live} pending tasks and at most {max} fit, so {asked} more do not; nothing was scheduled. \
         Cancel some that are no longer needed (clock with action cancel), then try again"
    )]
    TooManyReminders { live: u32, asked: u32, max: u32 },
    #[error("timer '{timer}' has no such task: it was never begun, or is long over. Read the timer instead")]
    UnknownTask { timer: ItemId },
    #[error("this task has ended ({}) at {}", outcome.as_str(), at.to_iso())]
    TaskEnded { at: Timestamp, outcome: TaskOutcome },
    #[error("timer '{id}' already has {max} open tasks; cancel one, or read the timer instead")]
    TooManyTasks { id: ItemId, max: usize },
    #[error(
        "lease '{lease}' holds nothing: it expired, or was already committed or released. Lease again to see what is pending"
    )]
    UnknownLease { lease: LeaseId },
    #[error(
        "idempotency key '{key}' was already used in this session with other arguments; use a new key for a new request"
    )]
    RequestKeyReused { key: String },
    #[error("the session name {0}; send 1 to 200 bytes without control characters")]
    InvalidSession(String),
    #[error("no session named '{0}' is known here")]
    UnknownSession(String),
    #[error(
        "the agent's name is not valid: {0}; it is tenant:chatbot, each 1 to 64 bytes without spaces, colons or slashes"
    )]
    InvalidAgent(String),
    #[error(
        "there is no agent '{agent}'; define it in the configuration, or PUT it to /api/agents/{{tenant}}/{{chatbot}}"
    )]
    UnknownAgent { agent: AgentId },
    #[error("this session belongs to agent '{agent}', not to '{asked}'; close it first, or use another session")]
    OtherAgent { agent: AgentId, asked: AgentId },
    #[error("there is no call '{id}' in this session")]
    UnknownCall { id: ItemId },
    #[error("call '{id}' is {status}; only one that failed can be made again")]
    CallNotFailed { id: ItemId, status: &'static str },
    /// Never shown to anyone: the engine lets time act first and decides again.
    #[error("deadlines have passed that were not yet acted on")]
    Overdue(Vec<ItemId>),
}

impl Reject {
    /// Stable: clients may match on it.
    pub const fn code(&self) -> &'static str {
        match self {
            Reject::ReasonAndMission => "reason_and_mission",
            Reject::ReasonOrMissionRequired => "reason_or_mission_required",
            Reject::MissingArgument { .. } => "missing_argument",
            Reject::InvalidArgument { .. } => "invalid_argument",
            Reject::InvalidDuration { .. } => "invalid_duration",
            Reject::DurationTooLong { .. } => "duration_too_long",
            Reject::TextTooLong { .. } => "text_too_long",
            Reject::ControlCharacters { .. } => "control_characters",
            Reject::UnknownTimer { .. } => "unknown_timer",
            Reject::TimerEnded { .. } => "timer_ended",
            Reject::NotPaused { .. } => "not_paused",
            Reject::MissionTakesNoReason { .. } => "mission_takes_no_reason",
            Reject::WaitingTakesNoMission { .. } => "waiting_takes_no_mission",
            Reject::TooManyTimers { .. } => "too_many_timers",
            Reject::InboxFull { .. } => "inbox_full",
            Reject::ForbiddenCondition { .. } => "forbidden_condition",
            Reject::TooManyConditions { .. } => "too_many_conditions",
            Reject::InvalidDueAt { .. } => "invalid_due_at",
            Reject::DueTooOld { .. } => "due_too_old",
            Reject::DueTooFar { .. } => "due_too_far",
            Reject::InvalidTime { .. } => "invalid_time",
            Reject::InvalidEvery { .. } => "invalid_every",
            Reject::UnknownZone { .. } => "unknown_zone",
            Reject::UnknownReminder { .. } => "unknown_reminder",
            Reject::ReminderEnded { .. } => "reminder_ended",
            Reject::TooManyReminders { .. } => "too_many_reminders",
            Reject::UnknownTask { .. } => "unknown_task",
            Reject::TaskEnded { .. } => "task_ended",
            Reject::TooManyTasks { .. } => "too_many_tasks",
            Reject::UnknownLease { .. } => "unknown_lease",
            Reject::RequestKeyReused { .. } => "idempotency_key_reused",
            Reject::InvalidSession(_) => "invalid_session",
            Reject::UnknownSession(_) => "unknown_session",
            Reject::InvalidAgent(_) => "invalid_agent",
            Reject::UnknownAgent { .. } => "unknown_agent",
            Reject::OtherAgent { .. } => "other_agent",
            Reject::UnknownCall { .. } => "unknown_call",
            Reject::CallNotFailed { .. } => "call_not_failed",
            Reject::Overdue(_) => "overdue",
        }
    }
}

fn unknown_timer(id: &ItemId, live: &[ItemId]) -> String {
    let id = shown(id.as_str());
    if live.is_empty() {
        return format!(
            "there is no timer '{id}' in this session, which has no live timers; `timer` without `timer_id` makes one, if \
             you need one"
        );
    }
    let names = live.iter().map(ItemId::as_str).collect::<Vec<_>>().join(", ");
    format!("there is no timer '{id}' in this session; its live timers are: {names}")
}

fn unknown_zone(field: &str, got: &str, similar: &[String]) -> String {
    let meant = match similar {
        [] => "send an IANA name such as Europe/Berlin, America/New_York, Asia/Shanghai or UTC".to_owned(),
        similar => format!("did you mean {}?", similar.join(" or ")),
    };
    format!("`{field}`: there is no time zone '{got}'; {meant}")
}

fn unknown_reminder(id: &ItemId, live: &[ItemId]) -> String {
    let id = shown(id.as_str());
    if live.is_empty() {
        return format!(
            "there is no task '{id}' in this session, which has none pending; schedule a new one without `taskId`"
        );
    }
    let names = live.iter().map(ItemId::as_str).collect::<Vec<_>>().join(", ");
    format!("there is no task '{id}' in this session; its pending tasks are: {names}")
}

fn reminder_ended(reminder: &Reminder) -> String {
    let since = reminder.ended_at().map(|at| format!(" since {}", at.to_iso())).unwrap_or_default();
    format!("{}{since}", reminder.status().as_str())
}

fn ended(timer: &Timer) -> String {
    let note = timer.note.as_deref().map(|note| format!(" ({note})")).unwrap_or_default();
    match timer.ended_at() {
        Some(at) => format!(
            "it is {}{note} since {}, after {} of {} seconds. Create a new timer if you still need one",
            timer.status().as_str(),
            at.to_iso(),
            timer.elapsed(at),
            timer.total,
        ),
        None => format!("it is {}{note}", timer.status().as_str()),
    }
}
