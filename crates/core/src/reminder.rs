//! One reminder, as a pure state machine: a task with a due time, told through the inbox.
//!
//! It has two deadlines, one after the other. At `tell_at`, when it is due or a little before, it becomes a message. At
//! `keep_until`, a while after it was due, a message nobody has delivered is withdrawn, and the reminder is missed: seen
//! in the history, never silently gone. Both are fixed when they are set, so a changed configuration moves nothing that
//! runs. What a message is and who holds it is not known here; `decide` says so.

use crate::{
    id::ItemId,
    limits::Limits,
    quiet::Quiet,
    reject::Reject,
    time::{Millis, Timestamp},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reminder {
    pub id: ItemId,
    #[serde(flatten)]
    pub content: Content,
    pub due_at: Timestamp,
    pub phase: Phase,
    /// It is to be told within quiet hours, and is when they are over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    #[serde(default)]
    pub delivery_count: u32,
    /// How often it was replaced; each time it tells something else.
    #[serde(default)]
    pub revision: u32,
    /// What the call that made it answered, kept with the first one made under an idempotency key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<Answered>,
}

/// What an agent wants to be reminded of. Tool and arguments are a hint to itself; nothing is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    pub task: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Phase {
    Scheduled {
        tell_at: Timestamp,
    },
    Due {
        keep_until: Timestamp,
        /// Past `keep_until` a delivery was still under way; it has until then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_until: Option<Timestamp>,
    },
    Delivered {
        at: Timestamp,
    },
    Missed {
        at: Timestamp,
    },
    Cancelled {
        at: Timestamp,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    pub id: ItemId,
    pub due_at: Timestamp,
    /// Only where the request did not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Scheduled,
    Due,
    Delivered,
    Missed,
    Cancelled,
}

impl Status {
    pub const ALL: [Status; 5] = [Status::Scheduled, Status::Due, Status::Delivered, Status::Missed, Status::Cancelled];

    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Scheduled => "scheduled",
            Status::Due => "due",
            Status::Delivered => "delivered",
            Status::Missed => "missed",
            Status::Cancelled => "cancelled",
        }
    }

    pub const fn is_live(self) -> bool {
        matches!(self, Status::Scheduled | Status::Due)
    }
}

/// When, as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Due {
    At(Timestamp),
    In(Millis),
}

/// What replaces a reminder; what is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Change {
    pub due: Option<Due>,
    pub task: Option<String>,
    pub tool: Option<String>,
    pub arguments: Option<Map<String, Value>>,
}

/// One item of a `schedule` call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    New { id: ItemId, due: Due, content: Content },
    Replace { id: ItemId, change: Change },
}

/// What time itself did to a reminder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is to be told, since `due`.
    Due {
        due: Timestamp,
    },
    /// It should be given up since `due`, but somebody is delivering it.
    Held {
        due: Timestamp,
    },
    Missed {
        due: Timestamp,
    },
}

impl Due {
    /// The instant meant, if it is one that can still be told and not too far away.
    fn resolve(self, now: Timestamp, limits: &Limits) -> Result<Timestamp, Reject> {
        let due_at = match self {
            Due::At(at) => at,
            Due::In(length) => now.plus(length),
        };
        if due_at.plus(limits.reminder_retention) <= now {
            return Err(Reject::DueTooOld { due_at, now, retention: limits.reminder_retention });
        }
        if due_at > now.plus(limits.duration_max) {
            return Err(Reject::DueTooFar { due_at, now, max: limits.duration_max });
        }
        Ok(due_at)
    }
}

impl Ask {
    pub fn id(&self) -> &ItemId {
        match self {
            Ask::New { id, .. } | Ask::Replace { id, .. } => id,
        }
    }

    pub fn task(&self) -> Option<&str> {
        match self {
            Ask::New { content, .. } => Some(&content.task),
            Ask::Replace { change, .. } => change.task.as_deref(),
        }
    }
}

impl Reminder {
    pub fn schedule(id: ItemId, due: Due, content: Content, now: Timestamp, limits: &Limits) -> Result<Self, Reject> {
        let due_at = due.resolve(now, limits)?;
        Ok(Self {
            id,
            content,
            due_at,
            phase: scheduled(due_at, now, limits),
            opens_at: None,
            created_at: now,
            updated_at: now,
            delivery_count: 0,
            revision: 0,
            answered: Vec::new(),
        })
    }

    pub fn status(&self) -> Status {
        match self.phase {
            Phase::Scheduled { .. } => Status::Scheduled,
            Phase::Due { .. } => Status::Due,
            Phase::Delivered { .. } => Status::Delivered,
            Phase::Missed { .. } => Status::Missed,
            Phase::Cancelled { .. } => Status::Cancelled,
        }
    }

    pub fn is_live(&self) -> bool {
        self.status().is_live()
    }

    /// The next instant at which time itself changes this reminder.
    pub fn due(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Scheduled { tell_at } => Some(self.opens_at.map_or(tell_at, |opens| opens.max(tell_at))),
            Phase::Due { keep_until, held_until } => Some(held_until.unwrap_or(keep_until)),
            Phase::Delivered { .. } | Phase::Missed { .. } | Phase::Cancelled { .. } => None,
        }
    }

    pub fn ended_at(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Delivered { at } | Phase::Missed { at } | Phase::Cancelled { at } => Some(at),
            Phase::Scheduled { .. } | Phase::Due { .. } => None,
        }
    }

    pub fn delivered_at(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Delivered { at } => Some(at),
            _ => None,
        }
    }

    /// From when on its message is not to be told any more; `None` while there is no message.
    pub fn keep_until(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Due { keep_until, .. } => Some(keep_until),
            _ => None,
        }
    }

    /// Has it wait if it is to be told within quiet hours. One that is missed already does not.
    pub fn hold(&mut self, quiet: Option<&Quiet>, now: Timestamp, limits: &Limits) {
        let Phase::Scheduled { tell_at } = self.phase else { return };
        let missed = self.due().is_some_and(|due| due.max(self.due_at).plus(limits.reminder_retention) <= now);
        if !missed {
            self.opens_at = Quiet::opening(quiet, tell_at, self.opens_at, now);
        }
    }

    /// Lets time act, up to `now`. `held`: until when somebody may still deliver its message.
    pub fn settle(&mut self, held: Option<Timestamp>, now: Timestamp, limits: &Limits) -> Vec<Settled> {
        let mut done = Vec::new();
        if let Phase::Scheduled { .. } = self.phase
            && let Some(told) = self.due().filter(|told| *told <= now)
        {
            let due = self.opens_at.map_or(self.due_at, |opens| opens.max(self.due_at));
            let keep_until = due.plus(limits.reminder_retention);
            self.becomes(Phase::Due { keep_until, held_until: None }, now);
            done.push(Settled::Due { due: told });
        }
        if let Phase::Due { keep_until, .. } = self.phase
            && let Some(due) = self.due().filter(|due| *due <= now)
        {
            match held.filter(|until| *until > now) {
                Some(until) => {
                    self.becomes(Phase::Due { keep_until, held_until: Some(until) }, now);
                    done.push(Settled::Held { due });
                }
                None => {
                    self.becomes(Phase::Missed { at: now }, now);
                    done.push(Settled::Missed { due });
                }
            }
        }
        done
    }

    /// Something else, or at another time: it begins again.
    pub fn replace(&mut self, change: Change, now: Timestamp, limits: &Limits) -> Result<(), Reject> {
        self.must_be_live("replace")?;
        let due_at = change.due.unwrap_or(Due::At(self.due_at)).resolve(now, limits)?;
        let Change { task, tool, arguments, .. } = change;
        if let Some(task) = task {
            self.content.task = task;
        }
        self.content.tool = tool.or(self.content.tool.take());
        self.content.arguments = arguments.or(self.content.arguments.take());
        self.due_at = due_at;
        self.opens_at = None;
        self.revision += 1;
        self.becomes(scheduled(due_at, now, limits), now);
        Ok(())
    }

    pub fn cancel(&mut self, now: Timestamp) -> Result<(), Reject> {
        self.must_be_live("cancel")?;
        self.becomes(Phase::Cancelled { at: now }, now);
        Ok(())
    }

    /// Its message has reached the agent, late or not.
    pub fn delivered(&mut self, now: Timestamp) {
        self.delivery_count += 1;
        self.becomes(Phase::Delivered { at: now }, now);
    }

    /// Nobody delivers it any more, and its time is over.
    pub fn given_up(&mut self, now: Timestamp) {
        self.becomes(Phase::Missed { at: now }, now);
    }

    fn becomes(&mut self, phase: Phase, now: Timestamp) {
        self.phase = phase;
        self.updated_at = now;
    }

    fn must_be_live(&self, wish: &'static str) -> Result<(), Reject> {
        if self.is_live() {
            return Ok(());
        }
        Err(Reject::ReminderEnded { wish, reminder: Box::new(self.clone()) })
    }
}

/// The window is for requests that come by a little before the time. What is wanted sooner than that is told at its time: at
/// once, it would be told before anybody had waited. What is past already is told at once, and is not late.
fn scheduled(due_at: Timestamp, now: Timestamp, limits: &Limits) -> Phase {
    let early = due_at.minus(limits.due_window);
    Phase::Scheduled { tell_at: if early > now { early } else { due_at.max(now) } }
}

/// `[scheduled task:"TASK" tool=TOOL args=JSON dueAt=ISO]`. The task is quoted as JSON quotes it, so that no task can
/// look like the end of this text or like another; a tool's name has no spaces or brackets (see [`check_tool`]).
pub fn text(reminder: &Reminder) -> String {
    let Content { task, tool, arguments } = &reminder.content;
    let mut text = format!("[scheduled task:{}", Value::from(task.as_str()));
    if let Some(tool) = tool {
        text += &format!(" tool={tool}");
    }
    if let Some(arguments) = arguments {
        text += &format!(" args={}", serde_json::to_string(arguments).expect("a JSON object is representable as JSON"));
    }
    text += &format!(" dueAt={}]", reminder.due_at.to_iso());
    text
}

/// Names of tools as protocols allow them, which is what keeps [`text`] unambiguous.
pub fn check_tool(tool: &str) -> Result<(), Reject> {
    const CHARS_MAX: usize = 200;
    let strange = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '[' | ']' | '=');
    if tool.chars().any(strange) || tool.chars().count() > CHARS_MAX {
        let why = format!(
            "must be the bare name of a tool, at most {CHARS_MAX} characters without spaces, quotes or brackets; \
             put everything else into `task` or `arguments`"
        );
        return Err(Reject::InvalidArgument { field: "tool".into(), why });
    }
    Ok(())
}
