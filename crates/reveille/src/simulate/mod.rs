//! An agent's session lived through without waiting: what was said when is given, and everything the agent's timers would
//! do follows from the same rules as in a server. Nothing is called, stored or waited for.

mod script;

pub use script::{Say, agent};

use crate::agents::Agent;
use reveille_core::{
    Call, Command, HistoryEntry, Item, ItemId, Limits, Millis, Reject, SessionId, SessionTimer, Timestamp, Utterance,
    call::{End, Report, Status},
    command::State,
    decide,
    session_timer::Action,
    utterance::Role,
};
use serde::Serialize;
use serde_json::Value;
use std::collections::HashMap;

/// Lines after which a session that never ends is left.
pub const LINES_MAX: usize = 1000;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Seconds since the beginning.
    pub after: Value,
    pub at: String,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum What {
    Message {
        text: String,
    },
    /// The agent has answered, and silence begins.
    Answered,
    Fired {
        timer_id: String,
        tool_name: String,
        trigger_count: u32,
        /// 0: no limit.
        max_triggers: u32,
        /// What is said, or the arguments of the tool.
        with: Value,
        /// When the silence was over, where quiet hours had it wait.
        #[serde(skip_serializing_if = "Option::is_none")]
        due: Option<String>,
    },
    Closed {
        reason: String,
    },
    /// The time to be looked at is over, and more would come.
    GoesOn {
        next: String,
    },
}

/// How it is played.
#[derive(Clone, Debug)]
pub struct Play {
    pub start: Timestamp,
    /// How long the agent takes to answer.
    pub answers_in: Millis,
    /// From the last message on, so long is looked at.
    pub look: Millis,
}

pub fn run(agent: &Agent, says: &[Say], play: &Play, limits: &Limits) -> Result<Vec<Line>, Reject> {
    let mut stage = Stage {
        agent,
        limits,
        start: play.start,
        now: play.start,
        session: SessionId::new("simulation"),
        state: State::default(),
        lines: Vec::new(),
        made: 0,
    };
    let mut says: Vec<&Say> = says.iter().collect();
    says.sort_by_key(|say| say.after);
    let mut last = play.start;
    for say in says {
        let at = play.start.plus(say.after);
        if stage.lines.len() >= LINES_MAX {
            break;
        }
        // An agent that still answers is spoken to again once it has.
        stage.pass(at.max(stage.now))?;
        stage.message(&say.text)?;
        stage.pass(stage.now.plus(play.answers_in))?;
        stage.answered()?;
        last = stage.now;
    }
    stage.pass(last.plus(play.look))?;
    let timers = stage.state.items.iter().filter_map(Item::as_session_timer);
    if let Some(next) = timers.filter_map(SessionTimer::next_trigger_at).min() {
        stage.line(What::GoesOn { next: next.to_iso() });
    }
    Ok(stage.lines)
}

/// The session as it is, and what has happened in it.
struct Stage<'a> {
    agent: &'a Agent,
    limits: &'a Limits,
    start: Timestamp,
    now: Timestamp,
    session: SessionId,
    state: State,
    lines: Vec<Line>,
    made: usize,
}

impl Stage<'_> {
    /// Everything that is due up to then happens at its own instant.
    fn pass(&mut self, until: Timestamp) -> Result<(), Reject> {
        while let Some(due) = self.next().filter(|due| *due <= until && self.lines.len() < LINES_MAX) {
            self.now = self.now.max(due);
            let ids = self.state.overdue(self.now);
            self.ask(Command::Fire { ids, standing: HashMap::new() })?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    fn next(&self) -> Option<Timestamp> {
        self.state.items.iter().filter_map(Item::due).min()
    }

    fn message(&mut self, text: &str) -> Result<(), Reject> {
        let timers = self.agent.specs.iter().map(|spec| {
            self.made += 1;
            (ItemId::new(format!("st_{}", self.made)), spec.clone())
        });
        let timers = Some(timers.collect());
        let said = vec![Utterance::new("said", Role::User, text, self.now)];
        let (agent, quiet) = (self.agent.id.clone(), self.agent.config.quiet.clone());
        self.ask(Command::Message { agent, timers, turn: None, said, quiet })?;
        self.line(What::Message { text: text.to_owned() });
        Ok(())
    }

    fn answered(&mut self) -> Result<(), Reject> {
        self.ask(Command::Response {
            agent: None,
            turn: None,
            said: Vec::new(),
            made: Vec::new(),
            notify: Vec::new(),
        })?;
        self.line(What::Answered);
        Ok(())
    }

    fn ask(&mut self, command: Command) -> Result<(), Reject> {
        let decision = decide(&self.session, &self.state, &Call::new(command), self.now, self.limits)?;
        let Some(batch) = decision.batch else { return Ok(()) };
        self.state.session = Some(batch.session.clone());
        for write in &batch.items {
            let item = write.item();
            self.state.items.retain(|kept| kept.id() != item.id());
            self.state.items.push(item.clone());
        }
        batch.history.iter().for_each(|entry| self.tell(entry));
        let begun = batch.items.iter().filter_map(|write| write.item().as_call());
        let begun: Vec<(ItemId, u32)> = begun
            .filter(|call| call.status() == Status::Running)
            .map(|call| (call.id.clone(), call.attempts))
            .collect();
        for (id, attempt) in begun {
            let report = Report { status: None, took: Millis::ZERO, end: End::Done { result: String::new() } };
            self.ask(Command::CallEnded { id, attempt, report })?;
        }
        Ok(())
    }

    /// What the history says of it, if it is a timer's doing.
    fn tell(&mut self, entry: &HistoryEntry) {
        let (data, text) = (&entry.data, |name: &str| entry.data[name].as_str().unwrap_or_default().to_owned());
        match entry.event.as_ref() {
            "session_timer.triggered" => {
                let timer_id = text("timer_id");
                let spec = self.agent.specs.iter().find(|spec| spec.timer_id == timer_id);
                let with = match spec.map(|spec| &spec.action) {
                    Some(Action::Say { text }) => Value::from(text.as_str()),
                    Some(Action::Call { arguments, .. }) => Value::Object(arguments.clone()),
                    _ => Value::Null,
                };
                self.line(What::Fired {
                    tool_name: text("tool_name"),
                    trigger_count: data["trigger_count"].as_u64().unwrap_or(0) as u32,
                    max_triggers: spec.map_or(0, |spec| spec.max_triggers),
                    with,
                    due: data["opened"]
                        .as_i64()
                        .and(data["due"].as_i64())
                        .map(|due| Timestamp::from_millis(due).to_iso()),
                    timer_id,
                });
            }
            "session.closed" => self.line(What::Closed { reason: text("reason") }),
            _ => {}
        }
    }

    fn line(&mut self, what: What) {
        let after = reveille_core::history::seconds(self.now.since(self.start));
        self.lines.push(Line { after, at: self.now.to_iso(), what });
    }
}
