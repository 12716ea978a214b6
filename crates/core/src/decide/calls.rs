//! Calls to the outside: what causes one writes it, and whoever begins an attempt reports on it.

use super::{Draft, Fired, Reply};
use crate::{
    batch::{ItemWrite, tally},
    call::{Attempted, End, Made, Report, Settled, Status, ToolCall, What},
    history::SubjectKind,
    id::{AgentId, ItemId},
    item::Item,
    reject::Reject,
    session::SessionState,
    utterance::{Asked, Role, Utterance},
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// More than one commit can cause: ten timers with ten webhooks each, told twice.
const CALLS_IN_A_COMMIT: u64 = 1000;

impl Draft<'_> {
    pub(super) fn make_call(&mut self, mut call: ToolCall) {
        // Commits are numbered, and so are the calls within one.
        let before = self.items.iter().filter(|write| write.item().as_call().is_some()).count() as u64;
        call.seq = (self.session.version + 1) * CALLS_IN_A_COMMIT + before.min(CALLS_IN_A_COMMIT - 1);
        self.count_of(&call.agent, tally::CALLS_CREATED, 1);
        self.count_of(&call.agent, tally::calls(Status::Waiting), 1);
        self.items.push(ItemWrite::Insert { item: Item::Call(call), key: None });
    }

    /// Tells all of an agent's webhooks, in its order; `hooks` has an id for each call.
    pub(super) fn tell_webhooks(&mut self, agent: &AgentId, hooks: &[(ItemId, Arc<str>)], event: &str, data: &Value) {
        for (place, (id, url)) in hooks.iter().enumerate() {
            let others = hooks.iter().map(|(_, other)| other.clone()).filter(|other| other != url).collect();
            let (event, data) = (event.to_owned(), data.clone());
            let what = What::Webhook { url: url.clone(), place: Some(place), others, event, data };
            self.make_call(ToolCall::new(id.clone(), agent.clone(), what, self.now));
        }
    }

    pub(super) fn fire_call(&mut self, call: &ToolCall, fired: &mut Vec<Fired>) {
        let mut call = call.clone();
        let before = call.status();
        let Some(settled) = call.settle(self.now, self.limits) else { return };
        let (Settled::Begun { due } | Settled::GivenUp { due }) = settled;
        if let Settled::GivenUp { .. } = settled {
            self.call_noted("call.failed", &call);
        }
        fired.push(Fired { id: call.id.clone(), due, agent: None });
        self.write_call(before, call);
    }

    pub(super) fn call_ended(&mut self, id: &ItemId, attempt: u32, report: &Report) -> Result<Reply, Reject> {
        let mut call = self.call(id)?;
        let before = call.status();
        if !call.ended(attempt, report, self.now, self.limits) {
            return Ok(Reply::Call(call));
        }
        match (call.status(), &report.end) {
            (Status::Done, End::Done { result }) => {
                self.call_noted("call.done", &call);
                self.tell_context(&call, result);
            }
            (Status::Failed, _) => self.call_noted("call.failed", &call),
            (Status::Waiting, End::Failed { .. }) => self.call_noted("call.retried", &call),
            (Status::Cancelled, _) => self.call_noted("call.cancelled", &call),
            _ => {}
        }
        self.write_call(before, call.clone());
        Ok(Reply::Call(call))
    }

    /// The result of an agent's action is part of the conversation, as if the model had asked for it.
    fn tell_context(&mut self, call: &ToolCall, result: &str) {
        let What::Tool { tool, arguments, silent: false, timer, .. } = &call.what else { return };
        if self.session.state == SessionState::Closed {
            return;
        }
        let arguments = Value::Object(arguments.clone()).to_string();
        let mut asked = Utterance::new(format!("said_{}", call.id), Role::Assistant, "", self.now);
        asked.calls = vec![Asked { id: call.id.to_string(), name: tool.clone(), arguments }];
        let mut answer = Utterance::new(format!("result_{}", call.id), Role::Tool, result, self.now);
        answer.answers = Some(call.id.to_string());
        (asked.timer, answer.timer) = (Some(timer.clone()), Some(timer.clone()));
        self.said.extend([asked, answer]);
    }

    pub(super) fn replay_call(&mut self, id: &ItemId) -> Result<Reply, Reject> {
        let mut call = self.call(id)?;
        let before = call.status();
        if !call.replay(self.now) {
            return Err(Reject::CallNotFailed { id: id.clone(), status: before.as_str() });
        }
        self.call_noted("call.replayed", &call);
        self.write_call(before, call.clone());
        Ok(Reply::Call(call))
    }

    /// A tool that waits to be called is not called for a session that is over; what was said about it still is told.
    pub(super) fn cancel_call(&mut self, mut call: ToolCall) {
        let before = call.status();
        if matches!(call.what, What::Tool { .. }) && call.cancel(self.now) {
            if call.status() == Status::Cancelled {
                self.call_noted("call.cancelled", &call);
            }
            self.write_call(before, call);
        }
    }

    fn call(&self, id: &ItemId) -> Result<ToolCall, Reject> {
        let found = self.item(id).and_then(Item::as_call);
        found.cloned().ok_or_else(|| Reject::UnknownCall { id: id.clone() })
    }

    /// A call that a turn has made.
    pub(super) fn made_noted(&mut self, agent: &AgentId, made: &Made) {
        let event = if matches!(made.report.end, End::Done { .. }) { "call.done" } else { "call.failed" };
        let last = Attempted::of(&made.report, self.now);
        let data = noted(agent, &made.tool, made.attempts, Some(&last));
        self.note(SubjectKind::Call, &made.id, event, data);
    }

    fn call_noted(&mut self, event: &'static str, call: &ToolCall) {
        let mut data = noted(&call.agent, call.target(), call.attempts, call.last.as_ref());
        if let What::Tool { timer_id, .. } = &call.what {
            data.insert("timer_id".to_owned(), json!(timer_id));
        }
        data.extend(call.due().map(|next| ("next".to_owned(), json!(next.as_millis()))));
        self.note(SubjectKind::Call, &call.id, event, data);
    }

    fn write_call(&mut self, before: Status, call: ToolCall) {
        let after = call.status();
        if before != after {
            self.count_of(&call.agent, tally::calls(before), -1);
            self.count_of(&call.agent, tally::calls(after), 1);
        }
        self.items.push(ItemWrite::Update(Item::Call(call)));
    }
}

/// What the history has of every call, whoever asked for it.
fn noted(agent: &AgentId, target: &str, attempts: u32, last: Option<&Attempted>) -> Map<String, Value> {
    let mut data = Map::from_iter([
        ("agent".to_owned(), json!(agent)),
        ("target".to_owned(), json!(target)),
        ("attempts".to_owned(), json!(attempts)),
    ]);
    if let Some(last) = last {
        data.extend(last.status.map(|status| ("status".to_owned(), json!(status))));
        data.extend(last.error.as_ref().map(|error| ("error".to_owned(), json!(error))));
        data.insert("took_ms".to_owned(), json!(last.took_ms));
    }
    data
}
