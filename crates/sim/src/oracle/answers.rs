//! What clients were told must be true: what was acknowledged is there, and what was delivered is not offered again.

use super::{Charges, Rule, inbox::Inbox, reminders::Reminders, sky::Sky, timers::Timers};
use crate::trace::{Answer, Ask};
use serde_json::Value;
use std::collections::BTreeMap;

struct Asked {
    what: Ask,
    at: u64,
    /// How often the same had been done before.
    before: u64,
}

/// What is known when an answer comes.
pub struct Told<'a> {
    pub timers: &'a Timers,
    pub reminders: &'a Reminders,
    pub inbox: &'a Inbox,
    pub sky: &'a Sky,
}

#[derive(Default)]
pub struct Answers(BTreeMap<u64, Asked>);

impl Answers {
    pub fn asked(&mut self, call: u64, what: &Ask, timers: &Timers, at: u64) {
        let before = match what {
            Ask::Tool { name, arguments, .. } => arguments["timer_id"].as_str().map_or(0, |id| timers.done(id, name)),
            _ => 0,
        };
        self.0.insert(call, Asked { what: what.clone(), at, before });
    }

    pub fn answered(&mut self, call: u64, (answer, shown): (&Answer, i64), told: &Told<'_>, charges: &mut Charges) {
        let Some(asked) = self.0.remove(&call) else { return };
        let Answer::Ok(body) = answer else { return };
        for message in body["messages"].as_array().into_iter().flatten() {
            let id = message["id"].as_str().unwrap_or_default();
            charges.unless(told.inbox.exists(id), Rule::Wrong, || format!("{id} was told and never made"));
            let again = told.inbox.was_delivered_by(id, asked.at);
            charges.unless(!again, Rule::Twice, || format!("{id} was delivered, and is offered again"));
        }
        if let Ask::Commit { lease } = &asked.what {
            let open = told.inbox.is_open(lease);
            charges.unless(!open, Rule::Twice, || format!("{lease} was settled and is still open"));
        }
        if let Some(id) = body["timer_id"].as_str() {
            asked.timer(id, body, shown, told, charges);
        }
        for one in body["scheduled"].as_array().into_iter().flatten() {
            let id = one["taskId"].as_str().unwrap_or_default();
            charges.unless(told.reminders.exists(id), Rule::Lost, || format!("{id} was acknowledged and is not there"));
        }
    }
}

impl Asked {
    fn timer(&self, id: &str, body: &Value, shown: i64, told: &Told<'_>, charges: &mut Charges) {
        let Ask::Tool { name, arguments, .. } = &self.what else { return };
        let Some(status) = told.timers.status(id) else {
            return charges.say(Rule::Lost, format!("{id} was acknowledged and is not there"));
        };
        let label = arguments["reason"].as_str().or(arguments["mission"].as_str());
        if let Some(label) = label.filter(|_| *name == "timer" && arguments["timer_id"].is_null()) {
            let made = told.timers.made_for(label);
            charges.unless(made == Some(id), Rule::Wrong, || format!("'{label}' made {made:?}, {id} is answered"));
        }
        if matches!(*name, "pause_timer" | "resume_timer" | "cancel_timer" | "stop_timer") {
            let done = told.timers.done(id, name);
            charges.unless(done > self.before, Rule::Lost, || format!("{name} of {id} was acknowledged and not done"));
        }
        if body["outcome"] == "completed" && status != "completed" {
            // While nothing can be written, a call that stood by is answered by the clock alone.
            let due = told.timers.due(id).unwrap_or(i64::MAX);
            charges.unless(shown >= due, Rule::Early, || format!("{id} is told to be over and is {status}"));
            charges.unless(!told.sky.was_fair_since(self.at), Rule::Twice, || {
                format!("{id} is told to be over before that is written, and so is told again")
            });
        }
    }
}
