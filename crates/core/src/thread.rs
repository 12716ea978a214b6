//! What the gateway keeps of a session from one of its calls to the next: an armed `stopMessage`, which directives were
//! carried out already, and the calls that clients know nothing of. An item without a deadline. A session has one of them,
//! and one more for each answer by which clients may name it later; those are no more than a name, and retention takes them.

use crate::{
    directive::Directive,
    id::{ItemId, SessionId},
    time::{Millis, Timestamp},
};
use serde::{Deserialize, Serialize};

/// Calls put back into later requests; beyond it the oldest are forgotten, as the model's context forgets them.
pub const ASIDES_MAX: usize = 16;
/// The same for their length together. The newest always stays.
pub const ASIDES_BYTES_MAX: usize = 256 * 1024;
/// The same words of a user are the same message for so long; later they are meant again. Clients that try again do it
/// sooner, and whoever sends its whole history says by it that they are old.
pub const SENT_AGAIN_MAX: Millis = Millis::from_secs(10 * 60);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    pub id: ItemId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_message: Option<StopMessage>,
    /// The user's message whose directives were carried out last, so that they are not when it is sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directed_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directed_at: Option<Timestamp>,
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
    /// What an answer is found by, whoever asks: its session, its name upstream, and the calls in it that were not answered.
    pub fn id_of_answer(answer: &str) -> ItemId {
        ItemId::new(format!("answer:{answer}"))
    }

    /// Every session has at most one.
    pub fn id_of(session: &SessionId) -> ItemId {
        ItemId::new(format!("thread:{session}"))
    }

    pub fn new(id: ItemId, now: Timestamp) -> Self {
        Self {
            id,
            stop_message: None,
            directed_by: None,
            directed_at: None,
            asides: Vec::new(),
            alias: None,
            created_at: now,
            updated_at: now,
        }
    }

    /// An answer that the client knows as `shown`. `owed` is what its model has to be told first.
    pub fn name(&mut self, shown: &str, upstream: &str, owed: &[Answered]) {
        self.alias = Some((shown.to_owned(), upstream.to_owned()));
        self.asides = Vec::new();
        if !owed.is_empty() {
            self.asides.push(Aside { anchor: String::new(), answered: owed.to_vec() });
        }
    }

    /// Nothing that must be kept: retention may remove it.
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.stop_message.is_none().then_some(self.updated_at)
    }

    /// The orders of this message were carried out, and it is sent again. One of a time that is not known, is.
    pub fn was_directed(&self, by: &str, now: Timestamp) -> bool {
        let lately = self.directed_at.is_none_or(|at| now.since(at) < SENT_AGAIN_MAX);
        self.directed_by.as_deref() == Some(by) && lately
    }

    /// The orders of one message of the user. Of several, the last one counts.
    pub fn direct(&mut self, by: &str, directives: &[Directive], now: Timestamp) {
        (self.directed_by, self.directed_at) = (Some(by.to_owned()), Some(now));
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

    /// What the agent was told did not reach it; whether it is to be told again. `by` had armed it.
    pub fn return_stop_message(&mut self, text: &str, by: Option<&str>) -> bool {
        if self.directed_by.as_deref() != by {
            return false;
        }
        let message = self.stop_message.get_or_insert_with(|| StopMessage { text: text.to_owned(), left: 0 });
        message.left += 1;
        true
    }

    /// Whether there was anything to forget.
    pub fn forget_aside(&mut self, anchor: &str) -> bool {
        let before = self.asides.len();
        self.asides.retain(|aside| aside.anchor != anchor);
        self.asides.len() < before
    }

    pub fn set_aside(&mut self, aside: Aside) {
        // Clients that number their calls anew in each turn give the same name twice.
        self.forget_aside(&aside.anchor);
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
