//! One call to be made to the outside, as a pure state machine: a tool that a session timer fires, or a webhook to be
//! told. It is written in the commit of what caused it, so that neither is ever without the other.
//!
//! Its deadline is its next attempt. Beginning one is a commit; whoever made that commit makes the attempt and says how
//! it ended. An attempt nobody reports on was lost with its process, and is made again when its time is over. The id is
//! the same for every attempt: it is what a receiver knows repetitions by.

use crate::{
    id::{AgentId, ItemId},
    limits::Limits,
    time::{Millis, Timestamp},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: ItemId,
    pub agent: AgentId,
    pub what: What,
    pub phase: Phase,
    /// Attempts begun.
    pub attempts: u32,
    /// How often in a row there was no room for one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub postponed: u32,
    /// Its session ended while it was under way: whatever comes of this attempt, there is no other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_last: bool,
    pub created_at: Timestamp,
    /// Its place among the calls of its session: one that was caused later has a higher number.
    #[serde(default)]
    pub seq: u64,
    /// How the last attempt ended that somebody reported on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Attempted>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum What {
    Tool {
        tool: String,
        arguments: Map<String, Value>,
        silent: bool,
        /// The session timer that fired it, by its name in the configuration, and its id.
        timer_id: String,
        timer: ItemId,
    },
    Webhook {
        /// Where it was when this was caused, and its place among the agent's webhooks. By that it is found if it has moved since.
        url: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        place: Option<usize>,
        /// The agent's other webhooks then: none of them is the one that moved.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<Arc<str>>,
        /// `message.created`, `session.closed`, …
        event: String,
        data: Value,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Phase {
    Waiting {
        next: Timestamp,
    },
    /// Left to whoever began it until then.
    Running {
        until: Timestamp,
    },
    Done {
        at: Timestamp,
    },
    Failed {
        at: Timestamp,
    },
    Cancelled {
        at: Timestamp,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempted {
    pub at: Timestamp,
    /// What the endpoint answered, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default)]
    pub took_ms: u64,
}

/// A call that a model asked for and a turn has made, with how it ended. It was made while somebody waited: what is kept of it
/// is its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub id: ItemId,
    pub tool: String,
    pub attempts: u32,
    pub report: Report,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub status: Option<u16>,
    pub took: Millis,
    pub end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With the result, for the context.
    Done { result: String },
    /// It may work later.
    Failed { error: String, retry_after: Option<Millis> },
    /// Trying again would not help.
    Refused { error: String },
    /// It was not made, or nobody will know: there was no room for it, or the server stops. It costs no attempt.
    /// `after`: when to look again; without it the call waited in vain, and waits longer each time.
    Postponed { after: Option<Millis> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Waiting,
    Running,
    Done,
    Failed,
    Cancelled,
}

/// What time itself did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// An attempt begins, since `due`.
    Begun { due: Timestamp },
    /// The last attempt was lost, and there is no other.
    GivenUp { due: Timestamp },
}

impl Status {
    pub const ALL: [Status; 5] = [Status::Waiting, Status::Running, Status::Done, Status::Failed, Status::Cancelled];

    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Waiting => "waiting",
            Status::Running => "running",
            Status::Done => "done",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    pub const fn is_live(self) -> bool {
        matches!(self, Status::Waiting | Status::Running)
    }
}

/// After the first failure of a tool's call; doubled with each further one.
const TOOL_BACKOFF: Millis = Millis::from_secs(1);
const TOOL_BACKOFF_MAX: Millis = Millis::from_secs(60);
/// A webhook's receiver may be down for a day. After the last of these it is a dead letter.
const WEBHOOK_BACKOFF: [Millis; 8] = [
    Millis::from_secs(5),
    Millis::from_secs(5 * 60),
    Millis::from_secs(30 * 60),
    Millis::from_secs(2 * 3600),
    Millis::from_secs(5 * 3600),
    Millis::from_secs(10 * 3600),
    Millis::from_secs(14 * 3600),
    Millis::from_secs(20 * 3600),
];
/// A receiver may ask for patience, within this.
const RETRY_AFTER_MAX: Millis = Millis::from_secs(3600);
/// It waited in vain for its endpoint: look again then, and each time that happens again, after twice as long. What waits
/// for a slow endpoint must not keep the database busy.
const POSTPONED: Millis = Millis::from_secs(5);
const POSTPONED_MAX: Millis = Millis::from_secs(60);
/// Longest error kept, in characters.
const ERROR_CHARS_MAX: usize = 500;

impl Attempted {
    pub fn of(report: &Report, at: Timestamp) -> Self {
        let error = match &report.end {
            End::Done { .. } => None,
            End::Failed { error, .. } | End::Refused { error } => Some(error.chars().take(ERROR_CHARS_MAX).collect()),
            End::Postponed { .. } => Some(NO_ROOM.to_owned()),
        };
        Self { at, status: report.status, error, took_ms: report.took.get() }
    }
}

impl ToolCall {
    pub fn new(id: ItemId, agent: AgentId, what: What, now: Timestamp) -> Self {
        Self {
            id,
            agent,
            what,
            phase: Phase::Waiting { next: now },
            attempts: 0,
            postponed: 0,
            is_last: false,
            created_at: now,
            seq: 0,
            last: None,
        }
    }

    pub fn status(&self) -> Status {
        match self.phase {
            Phase::Waiting { .. } => Status::Waiting,
            Phase::Running { .. } => Status::Running,
            Phase::Done { .. } => Status::Done,
            Phase::Failed { .. } => Status::Failed,
            Phase::Cancelled { .. } => Status::Cancelled,
        }
    }

    pub fn is_live(&self) -> bool {
        self.status().is_live()
    }

    pub fn due(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Waiting { next } => Some(next),
            Phase::Running { until } => Some(until),
            _ => None,
        }
    }

    pub fn ended_at(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Done { at } | Phase::Failed { at } | Phase::Cancelled { at } => Some(at),
            _ => None,
        }
    }

    /// What it calls: the tool's name or the webhook's address, without its query, in which there may be a key.
    pub fn target(&self) -> &str {
        match &self.what {
            What::Tool { tool, .. } => tool,
            What::Webhook { url, .. } => url.split_once('?').map_or(url, |(address, _)| address),
        }
    }

    /// Lets time act: an attempt begins, or the one that was lost was the last.
    pub fn settle(&mut self, now: Timestamp, limits: &Limits) -> Option<Settled> {
        let due = self.due().filter(|due| *due <= now)?;
        let lost = matches!(self.phase, Phase::Running { .. });
        if lost && self.backoff(limits).is_none() {
            self.last = Some(Attempted { at: now, status: None, error: Some(LOST.into()), took_ms: 0 });
            self.phase = Phase::Failed { at: now };
            return Some(Settled::GivenUp { due });
        }
        self.attempts += 1;
        self.phase = Phase::Running { until: now.plus(limits.call_lease) };
        Some(Settled::Begun { due })
    }

    /// The attempt of this number has ended. A report on another one is late, and means nothing any more.
    pub fn ended(&mut self, attempt: u32, report: &Report, now: Timestamp, limits: &Limits) -> bool {
        if attempt != self.attempts || !matches!(self.phase, Phase::Running { .. }) {
            return false;
        }
        if !matches!(report.end, End::Postponed { .. }) {
            self.postponed = 0;
            self.last = Some(Attempted::of(report, now));
        }
        self.phase = match &report.end {
            End::Done { .. } => Phase::Done { at: now },
            End::Refused { .. } => Phase::Failed { at: now },
            End::Failed { retry_after, .. } => match self.backoff(limits) {
                Some(backoff) => {
                    let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
                    Phase::Waiting { next: now.plus(backoff.max(asked)) }
                }
                None => Phase::Failed { at: now },
            },
            End::Postponed { .. } if self.is_last => Phase::Cancelled { at: now },
            End::Postponed { after } => {
                self.attempts -= 1;
                let wait = after.unwrap_or_else(|| {
                    let doubled = Millis::new(POSTPONED.get() << self.postponed.min(4));
                    self.postponed = self.postponed.saturating_add(1);
                    doubled.min(POSTPONED_MAX)
                });
                Phase::Waiting { next: now.plus(wait) }
            }
        };
        true
    }

    /// How long to wait before the next attempt; `None`: there is none.
    fn backoff(&self, limits: &Limits) -> Option<Millis> {
        let failures = self.attempts;
        match self.what {
            _ if self.is_last => None,
            What::Tool { .. } => tool_backoff(failures, limits),
            What::Webhook { .. } => WEBHOOK_BACKOFF.get(failures.saturating_sub(1) as usize).copied(),
        }
    }

    /// Somebody wants it made again after all.
    pub fn replay(&mut self, now: Timestamp) -> bool {
        let failed = matches!(self.phase, Phase::Failed { .. });
        if failed {
            (self.attempts, self.postponed, self.is_last) = (0, 0, false);
            self.phase = Phase::Waiting { next: now };
        }
        failed
    }

    /// Nobody needs it any more. What is under way is not called back, but it is not made again either, and its result is
    /// nobody's business from now on: the conversation it was for is over. Whether that changed anything.
    pub fn cancel(&mut self, now: Timestamp) -> bool {
        match (&self.phase, &mut self.what) {
            (Phase::Waiting { .. }, _) => self.phase = Phase::Cancelled { at: now },
            (Phase::Running { .. }, What::Tool { silent, .. }) if !self.is_last => {
                (self.is_last, *silent) = (true, true);
            }
            _ => return false,
        }
        true
    }
}

/// How long to wait after a tool's call has failed so often; `None`: that was the last attempt. The same whoever calls.
pub fn tool_backoff(failures: u32, limits: &Limits) -> Option<Millis> {
    let doubled = TOOL_BACKOFF.get() << failures.saturating_sub(1).min(16);
    (failures < limits.call_attempts_max).then(|| Millis::new(doubled).min(TOOL_BACKOFF_MAX))
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

const NO_ROOM: &str = "there was no room for it";
const LOST: &str = "the server stopped in the middle of the attempt; nobody knows how it ended";
