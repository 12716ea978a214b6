//! What the clients know: every answer they got, and every question that was never answered.

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

#[derive(Default)]
pub struct Ledger(Mutex<Known>);

#[derive(Default)]
pub struct Known {
    /// By idempotency key.
    pub creations: BTreeMap<String, Creation>,
    /// Timers whose stop was acknowledged.
    pub stopped: BTreeSet<String>,
    /// Reminders whose cancelling was acknowledged.
    pub cancelled: BTreeSet<String>,
    /// Messages whose commit was acknowledged, or which the history showed as delivered.
    pub delivered: BTreeSet<String>,
    pub answers: BTreeMap<String, usize>,
}

#[derive(Clone, Debug)]
pub struct Creation {
    pub session: &'static str,
    /// `timer` or `clock`.
    pub tool: &'static str,
    pub arguments: Value,
    /// The timer or the reminder, known once a creation under this key was acknowledged.
    pub made: Option<String>,
}

/// What a good answer to a creation says was made.
pub fn made(answer: &Value) -> String {
    let id = answer["timer_id"].as_str().or(answer["scheduled"][0]["taskId"].as_str());
    id.unwrap_or_else(|| panic!("nothing was made: {answer}")).to_owned()
}

impl Ledger {
    pub fn with<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    /// A creation under this key was acknowledged with this timer or reminder.
    pub fn created(&self, key: &str, made: &str) {
        self.with(|known| {
            let creation = known.creations.get_mut(key).unwrap();
            let before = creation.made.get_or_insert_with(|| made.to_owned());
            assert_eq!(before, made, "the same key made two of them");
        });
    }

    /// What was known to be delivered before a question was asked. It must not be in the answer.
    pub fn delivered(&self) -> BTreeSet<String> {
        self.with(|known| known.delivered.clone())
    }

    pub fn count(&self, answer: &str) {
        self.with(|known| *known.answers.entry(answer.to_owned()).or_default() += 1);
    }
}

/// No message of this answer was known to be delivered before it was asked for.
#[track_caller]
pub fn not_again(answer: &Value, delivered: &BTreeSet<String>) {
    for message in answer["messages"].as_array().into_iter().flatten() {
        let id = message["id"].as_str().unwrap();
        assert!(!delivered.contains(id), "{id} was delivered, and is offered again: {message}");
    }
}
