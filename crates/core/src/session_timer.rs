//! One session timer, as a pure state machine: it acts after a silence, and again after each further one, as often as its
//! configuration allows.
//!
//! A user's message suspends it, because an agent that works is not silent; the answer arms it again, from that moment.
//! What it does when it fires is data here ([`Action`]); carrying it out is not. The configuration was copied when the
//! session began, so that a changed one moves nothing that runs.

use crate::{
    id::{AgentId, ItemId},
    limits::Limits,
    quiet::Quiet,
    time::{Millis, Timestamp},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTimer {
    pub id: ItemId,
    pub agent: AgentId,
    pub spec: Spec,
    pub phase: Phase,
    /// It is due within quiet hours, and fires when they are over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens_at: Option<Timestamp>,
    /// Firings in all its life.
    pub trigger_count: u32,
    /// Firings that count against `max_triggers`.
    pub used: u32,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_triggered_at: Option<Timestamp>,
    /// Since when nobody has said anything; firings do not end a silence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_since: Option<Timestamp>,
}

/// The configuration, as it was when the session began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Its name in the agent's configuration.
    pub timer_id: String,
    pub delay: Millis,
    /// 0: no limit, but for [`Limits::idle_session`]: who has not returned by then is not coming.
    pub max_triggers: u32,
    #[serde(default)]
    pub reset: Reset,
    pub action: Action,
    /// Webhooks that are told what it does, by URL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<Arc<str>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reset {
    /// `max_triggers` counts over the session's life.
    #[default]
    Session,
    /// The full budget comes back with the user.
    OnMessage,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Action {
    /// `generate_response`: this text is the agent's.
    Say { text: String },
    /// A tool of the agent is called.
    Call {
        tool: String,
        arguments: Map<String, Value>,
        /// A system action: its result is nobody's business but the history's.
        silent: bool,
        /// The session ends with it.
        #[serde(default)]
        closes: bool,
    },
    /// The session ends, and nobody outside has to be told.
    Close,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Phase {
    Armed {
        due: Timestamp,
        /// It has fired since the user's last message.
        fired: bool,
        /// The turn that was given up for this. It may live after all, and its answer counts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        given_up: Option<Arc<str>>,
    },
    /// The agent works. Given up at `until`, unless it is heard of before.
    Suspended {
        until: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<Arc<str>>,
    },
    /// Its budget is used up; `forget_at`: it may come back with the user until then.
    Disabled {
        at: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forget_at: Option<Timestamp>,
    },
    Cancelled {
        at: Timestamp,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Pending,
    Triggered,
    Disabled,
    Cancelled,
}

/// What time itself did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The turn that suspended it was given up.
    TurnOver { at: Timestamp },
    /// It was due at `due`, and to fire from `opened` on.
    Triggered { due: Timestamp, opened: Timestamp },
    /// Its user never came back.
    Forgotten { at: Timestamp },
}

impl Status {
    pub const ALL: [Status; 4] = [Status::Pending, Status::Triggered, Status::Disabled, Status::Cancelled];

    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Triggered => "triggered",
            Status::Disabled => "disabled",
            Status::Cancelled => "cancelled",
        }
    }

    /// It fires again without anybody's help.
    pub const fn is_live(self) -> bool {
        matches!(self, Status::Pending | Status::Triggered)
    }
}

impl Action {
    /// The tool's name, as the configuration has it.
    pub fn tool(&self) -> &str {
        match self {
            Action::Say { .. } => GENERATE_RESPONSE,
            Action::Call { tool, .. } => tool,
            Action::Close => CLOSE_CONVERSATION,
        }
    }

    pub fn closes(&self) -> bool {
        matches!(self, Action::Close | Action::Call { closes: true, .. })
    }
}

/// The tool that is built in: says the timer's message.
pub const GENERATE_RESPONSE: &str = "generate_response";
/// The tool that closes the session, whether or not it has an endpoint to tell of it.
pub const CLOSE_CONVERSATION: &str = "close_conversation";

impl SessionTimer {
    /// Made by a user's message, and so suspended.
    pub fn create(
        id: ItemId,
        agent: AgentId,
        spec: Spec,
        turn: Option<&Arc<str>>,
        now: Timestamp,
        limits: &Limits,
    ) -> Self {
        let phase = Phase::Suspended { until: now.plus(limits.turn), turn: turn.cloned() };
        Self {
            id,
            agent,
            spec,
            phase,
            opens_at: None,
            trigger_count: 0,
            used: 0,
            created_at: now,
            last_triggered_at: None,
            silent_since: None,
        }
    }

    pub fn status(&self) -> Status {
        match self.phase {
            Phase::Armed { fired: true, .. } => Status::Triggered,
            Phase::Armed { fired: false, .. } | Phase::Suspended { .. } => Status::Pending,
            Phase::Disabled { .. } => Status::Disabled,
            Phase::Cancelled { .. } => Status::Cancelled,
        }
    }

    pub fn is_live(&self) -> bool {
        self.ended_at().is_none()
    }

    pub fn is_suspended(&self) -> bool {
        matches!(self.phase, Phase::Suspended { .. })
    }

    /// When it fires, if nobody says anything until then.
    pub fn next_trigger_at(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Armed { due, .. } => Some(self.opens_at.map_or(due, |opens| opens.max(due))),
            _ => None,
        }
    }

    /// When the silence is long enough, whether or not it fires then.
    pub fn silent_at(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Armed { due, .. } => Some(due),
            _ => None,
        }
    }

    /// The next instant at which time itself changes this timer.
    pub fn due(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Armed { .. } => self.next_trigger_at(),
            Phase::Suspended { until, .. } => Some(until),
            Phase::Disabled { forget_at, .. } => forget_at,
            Phase::Cancelled { .. } => None,
        }
    }

    /// From then on nothing can happen to it any more.
    pub fn ended_at(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Disabled { at, forget_at: None } | Phase::Cancelled { at } => Some(at),
            _ => None,
        }
    }

    /// The user said something; the agent works now, on this turn. Whether that changed anything.
    pub fn suspend(&mut self, turn: Option<&Arc<str>>, now: Timestamp, limits: &Limits) -> bool {
        if !self.is_live() {
            return false;
        }
        if self.spec.reset == Reset::OnMessage {
            self.used = 0;
        }
        self.working(turn, now, limits);
        true
    }

    /// The agent goes on by itself, and works on this turn, unless it works on what it was asked meanwhile. What is used up
    /// stays so. Whether that changed anything.
    pub fn work_on(&mut self, turn: &Arc<str>, now: Timestamp, limits: &Limits) -> bool {
        let silent = matches!(self.phase, Phase::Armed { .. });
        if silent {
            self.working(Some(turn), now, limits);
        }
        silent
    }

    fn working(&mut self, turn: Option<&Arc<str>>, now: Timestamp, limits: &Limits) {
        self.silent_since = None;
        self.phase = Phase::Suspended { until: now.plus(limits.turn), turn: turn.cloned() };
    }

    /// The turn of this name lives: it has its full time again. One that was given up too early is taken up again.
    pub fn renew(&mut self, turn: Option<&Arc<str>>, now: Timestamp, limits: &Limits) -> bool {
        let lives = match &self.phase {
            Phase::Suspended { turn: working, .. } => turn.is_none() || working.as_ref() == turn,
            Phase::Armed { given_up, .. } => turn.is_some() && given_up.as_ref() == turn,
            _ => false,
        };
        if lives {
            let working = match &self.phase {
                Phase::Suspended { turn, .. } => turn.clone(),
                _ => turn.cloned(),
            };
            self.working(working.as_ref(), now, limits);
        }
        lives
    }

    /// The agent has answered. An answer to an earlier message than the last one means nothing: the agent still works.
    pub fn arm(&mut self, turn: Option<&Arc<str>>, now: Timestamp) -> bool {
        let fired = match &self.phase {
            Phase::Suspended { turn: suspended, .. } => {
                if let (Some(answered), Some(suspended)) = (turn, suspended)
                    && answered != suspended
                {
                    return false;
                }
                false
            }
            // The agent spoke of its own accord, or later than anybody hoped: silence begins anew. Any other turn was
            // answered already.
            Phase::Armed { fired, given_up, .. } if turn.is_none() || turn == given_up.as_ref() => *fired,
            _ => return false,
        };
        self.silent_from(now, fired, None);
        true
    }

    fn silent_from(&mut self, since: Timestamp, fired: bool, given_up: Option<Arc<str>>) {
        self.silent_since = Some(since);
        self.phase = Phase::Armed { due: since.plus(self.spec.delay), fired, given_up };
    }

    /// Has it wait if it is due within quiet hours.
    pub fn hold(&mut self, quiet: Option<&Quiet>, now: Timestamp) {
        self.opens_at = match self.phase {
            Phase::Armed { due, .. } => Quiet::opening(quiet, due, self.opens_at, now),
            _ => None,
        };
    }

    /// Lets time act, up to `now`. However long nobody looked, it fires once: what was missed is not made up for.
    pub fn settle(&mut self, now: Timestamp, limits: &Limits) -> Vec<Settled> {
        self.settle_within(None, now, limits)
    }

    /// The same, where quiet hours have it wait.
    pub fn settle_within(&mut self, quiet: Option<&Quiet>, now: Timestamp, limits: &Limits) -> Vec<Settled> {
        let mut done = Vec::new();
        if let Phase::Suspended { until, turn } = &self.phase
            && *until <= now
        {
            let (until, turn) = (*until, turn.clone());
            self.silent_from(until, false, turn);
            done.push(Settled::TurnOver { at: until });
        }
        self.hold(quiet, now);
        match self.phase {
            Phase::Armed { due, .. } if self.due().is_some_and(|opened| opened <= now) => {
                let opened = self.due().unwrap_or(due);
                self.fire(due, now, limits);
                self.opens_at = None;
                done.push(Settled::Triggered { due, opened });
            }
            Phase::Disabled { forget_at: Some(at), .. } if at <= now => {
                self.phase = Phase::Cancelled { at: now };
                done.push(Settled::Forgotten { at });
            }
            _ => {}
        }
        done
    }

    fn fire(&mut self, due: Timestamp, now: Timestamp, limits: &Limits) {
        self.trigger_count = self.trigger_count.saturating_add(1);
        self.used = self.used.saturating_add(1);
        self.last_triggered_at = Some(now);
        self.phase = if self.goes_on(now, limits) {
            let next = due.plus(self.spec.delay);
            let due = if next > now { next } else { now.plus(self.spec.delay) };
            let given_up = match &self.phase {
                Phase::Armed { given_up, .. } => given_up.clone(),
                _ => None,
            };
            Phase::Armed { due, fired: true, given_up }
        } else {
            let comes_back = self.spec.reset == Reset::OnMessage;
            Phase::Disabled { at: now, forget_at: comes_back.then(|| now.plus(limits.idle_session)) }
        };
    }

    /// Whether it fires again in this silence.
    fn goes_on(&self, now: Timestamp, limits: &Limits) -> bool {
        match self.spec.max_triggers {
            0 => self.silent_since.is_none_or(|since| now.since(since) < limits.idle_session),
            max => self.used < max,
        }
    }

    pub fn cancel(&mut self, now: Timestamp) {
        if self.is_live() {
            self.phase = Phase::Cancelled { at: now };
        }
    }
}
