//! One session timer, as a pure state machine: it acts after a silence, and again after each further one, as often as its
//! configuration allows.
//!
//! A user's message suspends it, because an agent that works is not silent; the answer arms it again, from that moment.
//! What it does when it fires is data here ([`Action`]); carrying it out is not. The configuration was copied when the
//! session began, so that a changed one moves nothing that runs.

use crate::{
    id::{AgentId, ItemId},
    limits::Limits,
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
    /// Firings in all its life.
    pub trigger_count: u32,
    /// Firings that count against `max_triggers`.
    pub used: u32,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_triggered_at: Option<Timestamp>,
}

/// The configuration, as it was when the session began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Its name in the agent's configuration.
    pub timer_id: String,
    pub delay: Millis,
    /// 0: no limit.
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
    },
    /// The agent works. Given up at `until`.
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
    TurnOver {
        at: Timestamp,
    },
    Triggered {
        due: Timestamp,
    },
    /// Its user never came back.
    Forgotten {
        at: Timestamp,
    },
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
        Self { id, agent, spec, phase, trigger_count: 0, used: 0, created_at: now, last_triggered_at: None }
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
            Phase::Armed { due, .. } => Some(due),
            _ => None,
        }
    }

    /// The next instant at which time itself changes this timer.
    pub fn due(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Armed { due, .. } => Some(due),
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
        self.phase = Phase::Suspended { until: now.plus(limits.turn), turn: turn.cloned() };
        true
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
            // The agent spoke of its own accord: silence begins anew. A named turn was answered already.
            Phase::Armed { fired, .. } if turn.is_none() => *fired,
            _ => return false,
        };
        self.phase = Phase::Armed { due: now.plus(self.spec.delay), fired };
        true
    }

    /// Lets time act, up to `now`. However long nobody looked, it fires once: what was missed is not made up for.
    pub fn settle(&mut self, now: Timestamp, limits: &Limits) -> Vec<Settled> {
        let mut done = Vec::new();
        if let Phase::Suspended { until, .. } = self.phase
            && until <= now
        {
            self.phase = Phase::Armed { due: until.plus(self.spec.delay), fired: false };
            done.push(Settled::TurnOver { at: until });
        }
        match self.phase {
            Phase::Armed { due, .. } if due <= now => {
                self.fire(due, now, limits);
                done.push(Settled::Triggered { due });
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
        let budget_left = self.spec.max_triggers == 0 || self.used < self.spec.max_triggers;
        self.phase = if budget_left {
            let next = due.plus(self.spec.delay);
            let due = if next > now { next } else { now.plus(self.spec.delay) };
            Phase::Armed { due, fired: true }
        } else {
            let comes_back = self.spec.reset == Reset::OnMessage;
            Phase::Disabled { at: now, forget_at: comes_back.then(|| now.plus(limits.idle_session)) }
        };
    }

    pub fn cancel(&mut self, now: Timestamp) {
        if self.is_live() {
            self.phase = Phase::Cancelled { at: now };
        }
    }
}
