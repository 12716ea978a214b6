//! What the gateway keeps of a session from one of its calls to the next: an armed `stopMessage`, which directives were
//! carried out already, and the calls that clients know nothing of. An item without a deadline.

use crate::{
    directive::Directive,
    id::{ItemId, SessionId},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

/// Calls put back into later requests; beyond it the oldest are forgotten, as the model's context forgets them.
pub const ASIDES_MAX: usize = 16;
/// The same for their length together. The newest always stays.
pub const ASIDES_BYTES_MAX: usize = 256 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    pub id: ItemId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_message: Option<StopMessage>,
    /// The user's message whose directives were carried out last, so that they are not when it is sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directed_by: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asides: Vec<Aside>,
    /// An answer that the client knows by another name than the upstream, and that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<(String, String)>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// What the agent is told when it stops, so many more times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopMessage {
    pub text: String,
    pub left: u32,
}

/// Calls that were answered by the server in a turn whose other calls went to the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aside {
    /// One of the client's calls.
    pub anchor: String,
    pub answered: Vec<Answered>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    pub call: String,
    pub tool: String,
    pub arguments: String,
    pub result: String,
    #[serde(default)]
    pub failed: bool,
}

impl Thread {
    /// Every session has at most one.
    pub fn id_of(session: &SessionId) -> ItemId {
        ItemId::new(format!("thread:{session}"))
    }

    pub fn new(id: ItemId, now: Timestamp) -> Self {
        Self {
            id,
            stop_message: None,
            directed_by: None,
            asides: Vec::new(),
            alias: None,
            created_at: now,
            updated_at: now,
        }
    }

    /// Nothing that must be kept: retention may remove it.
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.stop_message.is_none().then_some(self.updated_at)
    }

    /// The orders of one message of the user. Of several, the last one counts.
    pub fn direct(&mut self, by: &str, directives: &[Directive]) {
        self.directed_by = Some(by.to_owned());
        for directive in directives {
            match directive {
                Directive::Arm { text, times } => {
                    self.stop_message = Some(StopMessage { text: text.clone(), left: *times });
                }
                Directive::Disarm => self.stop_message = None,
                Directive::ClearReminders => {}
            }
        }
    }

    /// The agent stopped: what it is told, if anything.
    pub fn take_stop_message(&mut self) -> Option<String> {
        let message = self.stop_message.as_mut()?;
        let text = message.text.clone();
        message.left = message.left.saturating_sub(1);
        if message.left == 0 {
            self.stop_message = None;
        }
        Some(text)
    }

    pub fn set_aside(&mut self, aside: Aside) {
        self.asides.push(aside);
        let too_many = |asides: &[Aside]| {
            let bytes: usize = asides.iter().map(Aside::bytes).sum();
            asides.len() > ASIDES_MAX || (asides.len() > 1 && bytes > ASIDES_BYTES_MAX)
        };
        while too_many(&self.asides) {
            self.asides.remove(0);
        }
    }
}

impl Aside {
    fn bytes(&self) -> usize {
        self.answered.iter().map(|one| one.arguments.len() + one.result.len()).sum()
    }
}
