//! Session timers: made by the first message of an agent's session, suspended by every message, armed by every answer,
//! and what is written when one fires.

use super::{Draft, Fired, Reply};
use crate::{
    batch::{ItemWrite, tally},
    call::{Made, ToolCall, What},
    history::SubjectKind,
    id::{AgentId, ItemId},
    item::Item,
    quiet::Quiet,
    reject::Reject,
    session::SessionState,
    session_timer::{Action, SessionTimer, Settled, Spec, Status},
    time::Timestamp,
    utterance::{Role, Utterance},
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What an agent's configuration gives a session that begins: its timers, with ids for them, and its quiet hours.
type Configured<'a> = (&'a [(ItemId, Spec)], Option<&'a Quiet>);

impl Draft<'_> {
    pub(super) fn message(
        &mut self,
        agent: &AgentId,
        known: Option<Configured<'_>>,
        turn: Option<&Arc<str>>,
        said: &[Utterance],
    ) -> Result<Reply, Reject> {
        let began = self.session.agent.is_none() || self.session.state == SessionState::Closed;
        let timers = if began {
            let (timers, quiet) = known.ok_or_else(|| Reject::UnknownAgent { agent: agent.clone() })?;
            let made = self.begin_session(agent, timers, turn);
            self.session.quiet.agent = quiet.cloned();
            made
        } else {
            if let Some(owner) = self.session.agent.clone().filter(|owner| owner != agent) {
                return Err(Reject::OtherAgent { agent: owner, asked: agent.clone() });
            }
            let (now, limits) = (self.now, self.limits);
            self.change_all(|timer| timer.suspend(turn, now, limits))
        };
        self.turn_noted("session.message", agent, turn, said);
        self.said.extend_from_slice(said);
        Ok(Reply::Turn { agent: agent.clone(), timers, began })
    }

    fn begin_session(
        &mut self,
        agent: &AgentId,
        timers: &[(ItemId, Spec)],
        turn: Option<&Arc<str>>,
    ) -> Vec<SessionTimer> {
        if self.state.session.is_some() {
            // What was said before is another conversation's, and maybe another agent's.
            let name = format!("began_{}.{}", self.session.id, self.session.version);
            self.said.push(Utterance::new(name, Role::Beginning, "", self.now));
        }
        self.open();
        self.session.agent = Some(agent.clone());
        let create = |(id, spec): &(ItemId, Spec)| {
            SessionTimer::create(id.clone(), agent.clone(), spec.clone(), turn, self.now, self.limits)
        };
        let made: Vec<SessionTimer> = timers.iter().map(create).collect();
        self.count_of(agent, tally::SESSION_TIMERS_CREATED, made.len() as i64);
        self.count_of(agent, tally::session_timers(Status::Pending), made.len() as i64);
        let names: Vec<&str> = made.iter().map(|timer| timer.spec.timer_id.as_str()).collect();
        let data = Map::from_iter([("agent".to_owned(), json!(agent)), ("timers".to_owned(), json!(names))]);
        let session = self.session.id.clone();
        self.note(SubjectKind::Session, session.as_str(), "session.began", data);
        let insert = |timer: &SessionTimer| ItemWrite::Insert { item: Item::SessionTimer(timer.clone()), key: None };
        self.items.extend(made.iter().map(insert));
        made
    }

    /// The agent goes on without having been asked: no message, and so no budget anew.
    pub(super) fn go_on(&mut self, agent: &AgentId, turn: &Arc<str>) -> Result<Reply, Reject> {
        let owner = self.owner()?;
        if owner != *agent {
            return Err(Reject::OtherAgent { agent: owner, asked: agent.clone() });
        }
        let (now, limits) = (self.now, self.limits);
        let timers = self.change_all(|timer| timer.work_on(turn, now, limits));
        Ok(Reply::Turn { agent: owner, timers, began: false })
    }

    pub(super) fn renew(&mut self, turn: Option<&Arc<str>>) -> Result<Reply, Reject> {
        let agent = self.owner()?;
        let (now, limits) = (self.now, self.limits);
        let timers = self.change_all(|timer| timer.renew(turn, now, limits));
        Ok(Reply::Turn { agent, timers, began: false })
    }

    /// Whose session it is.
    fn owner(&self) -> Result<AgentId, Reject> {
        self.session.agent.clone().ok_or_else(|| Reject::UnknownSession(self.session.id.to_string()))
    }

    pub(super) fn response(
        &mut self,
        agent: Option<&AgentId>,
        turn: Option<&Arc<str>>,
        (said, made): (&[Utterance], &[Made]),
        notify: &[(ItemId, Arc<str>)],
    ) -> Result<Reply, Reject> {
        let (owner, now) = (self.owner()?, self.now);
        if let Some(asked) = agent.filter(|asked| **asked != owner) {
            return Err(Reject::OtherAgent { agent: owner, asked: asked.clone() });
        }
        let agent = owner;
        let timers = self.change_all(|timer| timer.arm(turn, now));
        for made in made {
            self.made_noted(&agent, made);
        }
        self.turn_noted("session.response", &agent, turn, said);
        let spoken = said.iter().rev().find(|said| said.role == Role::Assistant && !said.content.is_empty());
        if let Some(spoken) = spoken {
            self.tell_webhooks(&agent, notify, "message.created", &spoken_data(spoken));
        }
        self.said.extend_from_slice(said);
        Ok(Reply::Turn { agent, timers, began: false })
    }

    /// Changes every live timer of the session; all of them, as they are then.
    fn change_all(&mut self, change: impl Fn(&mut SessionTimer) -> bool) -> Vec<SessionTimer> {
        let timers: Vec<SessionTimer> = self.state.items.iter().filter_map(Item::as_session_timer).cloned().collect();
        let quiet = self.quiet();
        let changed = timers.into_iter().map(|mut timer| {
            let before = timer.status();
            if change(&mut timer) {
                timer.hold(quiet.as_ref(), self.now);
                self.write_session_timer(before, timer.clone());
            }
            timer
        });
        changed.collect()
    }

    fn turn_noted(&mut self, event: &'static str, agent: &AgentId, turn: Option<&Arc<str>>, said: &[Utterance]) {
        let mut data = Map::from_iter([("agent".to_owned(), json!(agent))]);
        data.extend(turn.map(|turn| ("turn".to_owned(), json!(turn))));
        let shown = said.iter().filter(|said| said.role != Role::Tool && !said.content.is_empty());
        let shown: Vec<Value> = shown.map(spoken_data).collect();
        if !shown.is_empty() {
            data.insert("messages".to_owned(), Value::Array(shown));
        }
        let session = self.session.id.clone();
        self.note(SubjectKind::Session, session.as_str(), event, data);
    }

    /// Whether that ended the session.
    pub(super) fn fire_session_timer(&mut self, timer: &SessionTimer, fired: &mut Vec<Fired>) -> bool {
        let mut timer = timer.clone();
        let before = timer.status();
        let (quiet, opens_at) = (self.quiet(), timer.opens_at);
        let steps = timer.settle_within(quiet.as_ref(), self.now, self.limits);
        if let Some(until) = timer.opens_at.filter(|_| steps.is_empty() && timer.opens_at != opens_at) {
            self.waits(SubjectKind::SessionTimer, &timer.id, until, Map::new());
            self.write_session_timer(before, timer);
            return false;
        }
        if steps.is_empty() {
            return false;
        }
        timer.hold(quiet.as_ref(), self.now);
        self.write_session_timer(before, timer.clone());
        for step in steps {
            let (Settled::TurnOver { at: due }
            | Settled::Triggered { opened: due, .. }
            | Settled::Forgotten { at: due }) = step;
            let agent = matches!(step, Settled::Triggered { .. }).then(|| timer.agent.clone());
            fired.push(Fired { id: timer.id.clone(), due, agent });
            match step {
                Settled::TurnOver { .. } => {
                    let data = Map::from_iter([("timer_id".to_owned(), json!(timer.spec.timer_id))]);
                    self.note(SubjectKind::SessionTimer, &timer.id, "session_timer.turn_over", data);
                }
                Settled::Triggered { due, opened } => return self.triggered(&timer, due, opened),
                Settled::Forgotten { .. } => {
                    self.note(SubjectKind::SessionTimer, &timer.id, "session_timer.cancelled", Map::new());
                }
            }
        }
        false
    }

    /// What the timer does, in the commit of its firing.
    fn triggered(&mut self, timer: &SessionTimer, due: Timestamp, opened: Timestamp) -> bool {
        let (agent, spec, count) = (&timer.agent, &timer.spec, timer.trigger_count);
        self.happened(opened);
        // Derived from the firing, so that the same one can never be told or carried out as two.
        let name = |prefix: &str| format!("{prefix}_{}.{count}", timer.id);
        let mut data = Map::from_iter([
            ("agent".to_owned(), json!(agent)),
            ("timer_id".to_owned(), json!(spec.timer_id)),
            ("tool_name".to_owned(), json!(spec.action.tool())),
            ("trigger_count".to_owned(), json!(count)),
            ("status".to_owned(), json!(timer.status())),
            ("due".to_owned(), json!(due.as_millis())),
            ("lateness_ms".to_owned(), json!(self.now.since(opened).get())),
        ]);
        if opened > due {
            data.insert("opened".to_owned(), json!(opened.as_millis()));
        }
        let mut call = None;
        let mut told = json!({"timer_id": spec.timer_id, "tool_name": spec.action.tool(), "trigger_count": count});
        let mut event = "session_timer.triggered";
        match &spec.action {
            Action::Say { text } => {
                let mut said = Utterance::new(name("said"), Role::Assistant, text.clone(), self.now);
                said.timer = Some(timer.id.clone());
                data.insert("message".to_owned(), spoken_data(&said));
                (told, event) = (spoken_data(&said), "message.created");
                self.said.push(said);
            }
            Action::Call { tool, arguments, silent, .. } => {
                let id = ItemId::new(name("call"));
                data.insert("call".to_owned(), json!(id));
                call = Some((
                    id,
                    What::Tool {
                        tool: tool.clone(),
                        arguments: arguments.clone(),
                        silent: *silent,
                        timer_id: spec.timer_id.clone(),
                        timer: timer.id.clone(),
                    },
                ));
            }
            Action::Close => {}
        }
        self.count_of(agent, tally::SESSION_TIMERS_FIRED, 1);
        self.note(SubjectKind::SessionTimer, &timer.id, "session_timer.triggered", data);
        self.tell_webhooks(agent, &hooks(timer, ""), event, &told);
        if let Some((id, what)) = call {
            self.make_call(ToolCall::new(id, agent.clone(), what, self.now));
        }
        if spec.action.closes() {
            self.closed_by(timer);
            return true;
        }
        false
    }

    fn closed_by(&mut self, timer: &SessionTimer) {
        let why = format!("session timer {} closed it", timer.spec.timer_id);
        // Stopping and cancelling what lives cannot be refused.
        if self.close(&why).is_ok() {
            let data = json!({"reason": why, "timer_id": timer.spec.timer_id});
            self.tell_webhooks(&timer.agent, &hooks(timer, "c"), "session.closed", &data);
        }
    }

    pub(super) fn cancel_session_timer(&mut self, mut timer: SessionTimer) {
        let before = timer.status();
        timer.cancel(self.now);
        self.write_session_timer(before, timer);
    }

    fn write_session_timer(&mut self, before: Status, timer: SessionTimer) {
        let after = timer.status();
        if before != after {
            self.count_of(&timer.agent, tally::session_timers(before), -1);
            self.count_of(&timer.agent, tally::session_timers(after), 1);
        }
        self.items.push(ItemWrite::Update(Item::SessionTimer(timer)));
    }

    /// Once for all, once for the agent.
    pub(super) fn count_of(&mut self, agent: &AgentId, name: &'static str, by: i64) {
        self.count(name, by);
        self.count(tally::of_agent(name, agent), by);
    }
}

/// The webhooks that this firing tells, with ids that it alone gives; `mark` tells one round of telling from another.
fn hooks(timer: &SessionTimer, mark: &str) -> Vec<(ItemId, Arc<str>)> {
    let id = |number: usize| ItemId::new(format!("hook{number}{mark}_{}.{}", timer.id, timer.trigger_count));
    timer.spec.notify.iter().enumerate().map(|(number, url)| (id(number), url.clone())).collect()
}

fn spoken_data(said: &Utterance) -> Value {
    json!({"id": said.id, "role": said.role, "text": said.content})
}
