//! What one decision writes: everything, in one atomic commit, or nothing.

use crate::{
    history::HistoryEntry, id::SessionId, item::Item, message::Message, session::Session, utterance::Utterance,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The one thing a store can be asked to write. Nodes of one server tell each other of it in its serialized form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// The version the decision was made on; `None`: the session did not exist. Anything else in the store means the
    /// decision is stale and nothing may be written.
    pub expected: Option<u64>,
    /// The session after the change, its version raised by one.
    pub session: Session,
    pub items: Vec<ItemWrite>,
    pub messages: Vec<MessageWrite>,
    /// Added to the conversation, in this order.
    pub said: Vec<Utterance>,
    pub history: Vec<HistoryEntry>,
    /// They are in the store; nobody needs to hear of them.
    #[serde(skip)]
    pub tallies: Vec<Tally>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ItemWrite {
    /// Its id must be new in the server, its key new in the session.
    Insert {
        item: Item,
        key: Option<RequestKey>,
    },
    Update(Item),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MessageWrite {
    Insert(Message),
    Update(Message),
    /// It is not told any more: it leaves the inbox undelivered.
    Withdraw(Message),
}

/// The client's own name for a creation, so that a repeated request makes nothing a second time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestKey {
    pub key: String,
    /// Of the arguments: the same key with other arguments is a mistake, not a repetition.
    pub fingerprint: String,
}

/// A durable counter and by how much it moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    pub name: Cow<'static, str>,
    pub by: i64,
}

impl Batch {
    pub fn session_id(&self) -> &SessionId {
        &self.session.id
    }
}

impl ItemWrite {
    pub fn item(&self) -> &Item {
        match self {
            ItemWrite::Insert { item, .. } | ItemWrite::Update(item) => item,
        }
    }
}

impl MessageWrite {
    pub fn message(&self) -> &Message {
        match self {
            MessageWrite::Insert(message) | MessageWrite::Update(message) | MessageWrite::Withdraw(message) => message,
        }
    }
}

/// Names of the durable counters, in one place because they outlive versions.
pub mod tally {
    use crate::{call, id::AgentId, reminder, session_timer, time::Millis, timer::Status};

    pub const TIMERS_CREATED: &str = "timers.created";
    /// Times of recurring timers that were told, and that were not.
    pub const TIMERS_FIRED: &str = "timers.fired";
    pub const TIMERS_MISSED: &str = "timers.missed";
    pub const REMINDERS_CREATED: &str = "reminders.created";
    pub const MESSAGES_CREATED: &str = "messages.created";
    pub const MESSAGES_DELIVERED: &str = "messages.delivered";
    pub const MESSAGES_WITHDRAWN: &str = "messages.withdrawn";
    pub const STANDBYS: &str = "standbys.ended";
    pub const SLEPT_MS: &str = "standbys.slept_ms";
    pub const REQUESTS_SAVED: &str = "standbys.requests_saved";
    /// Conditions that held, and those given up: the time was over, or the timer was stopped.
    pub const CONDITIONS_MET: &str = "conditions.met";
    pub const CONDITIONS_UNMET: &str = "conditions.unmet";
    pub const WAITED_MS: &str = "conditions.waited_ms";
    pub const SESSIONS: &str = "sessions.created";

    /// How late things came that were promised for an instant, by how late: each name with the most milliseconds it stands
    /// for. The last stands for anything more.
    pub const LATENESS: [(&str, u64); 5] = [
        ("fired.within_10ms", 10),
        ("fired.within_100ms", 100),
        ("fired.within_1s", 1_000),
        ("fired.within_1m", 60_000),
        ("fired.later", u64::MAX),
    ];

    /// The one of [`LATENESS`] that counts this.
    pub fn lateness(late: Millis) -> &'static str {
        let place = LATENESS.partition_point(|(_, within)| *within < late.get());
        LATENESS[place].0
    }

    /// Counts what happened, in contrast to what there is now. Shares of single agents are not told apart by the hour.
    pub fn is_count(name: &str) -> bool {
        use reminder::Status::{Due, Scheduled};
        let now = [Status::Running, Status::Paused, Status::RunningBackground].map(timers).contains(&name)
            || [Scheduled, Due].map(reminders).contains(&name)
            || [session_timer::Status::Pending, session_timer::Status::Triggered].map(session_timers).contains(&name)
            || [call::Status::Waiting, call::Status::Running].map(calls).contains(&name);
        !now && !name.contains(' ')
    }

    /// How many timers are in a live state now, or ever came into a final one.
    pub const fn timers(status: Status) -> &'static str {
        match status {
            Status::Running => "timers.running",
            Status::Paused => "timers.paused",
            Status::RunningBackground => "timers.running_background",
            Status::Completed => "timers.completed",
            Status::Stopped => "timers.stopped",
        }
    }

    /// The same for reminders.
    pub const fn reminders(status: reminder::Status) -> &'static str {
        match status {
            reminder::Status::Scheduled => "reminders.scheduled",
            reminder::Status::Due => "reminders.due",
            reminder::Status::Delivered => "reminders.delivered",
            reminder::Status::Missed => "reminders.missed",
            reminder::Status::Cancelled => "reminders.cancelled",
        }
    }

    pub const SESSION_TIMERS_CREATED: &str = "session_timers.created";
    pub const SESSION_TIMERS_FIRED: &str = "session_timers.fired";
    pub const CALLS_CREATED: &str = "calls.created";

    /// The same for session timers.
    pub const fn session_timers(status: session_timer::Status) -> &'static str {
        match status {
            session_timer::Status::Pending => "session_timers.pending",
            session_timer::Status::Triggered => "session_timers.triggered",
            session_timer::Status::Disabled => "session_timers.disabled",
            session_timer::Status::Cancelled => "session_timers.cancelled",
        }
    }

    /// The same for calls.
    pub const fn calls(status: call::Status) -> &'static str {
        match status {
            call::Status::Waiting => "calls.waiting",
            call::Status::Running => "calls.running",
            call::Status::Done => "calls.done",
            call::Status::Failed => "calls.failed",
            call::Status::Cancelled => "calls.cancelled",
        }
    }

    /// One agent's share of a counter.
    pub fn of_agent(name: &str, agent: &AgentId) -> String {
        format!("{name} {agent}")
    }
}
