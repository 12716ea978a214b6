//! One call of the gateway, from its request to the end of its turn.

use super::{
    Desk,
    courier::Courier,
    directives::{self, Orders},
    memory::Fingerprint,
};
use crate::{
    engine::{EngineError, Held, Hold},
    metrics::ContinuedLabels,
};
use async_trait::async_trait;
use bytes::Bytes;
use reveille_core::{
    Call, Command, Reject, Reply, SessionId, Thread, Timestamp,
    thread::{Answered, Aside},
};
use reveille_gateway::{
    self as gateway, Draft, Fault, Finish, Interest, More, Next, Protocol, Seen, Source, ToolResult, Turn, Visit,
    Voice, Waiting, Words,
};
use std::{ops::Range, sync::Arc};

/// What a turn is known by.
pub(super) enum Mark {
    /// The body as it came, and where the conversation is in it. Most turns are never asked for more.
    Body(Bytes, Range<usize>),
    Known(Fingerprint),
}

pub struct ClockVisit {
    pub(super) desk: Arc<Desk>,
    /// What this call is called in the log.
    pub(super) request: String,
    pub(super) session: Option<SessionId>,
    /// What the client names cannot be a session.
    pub(super) unnamed: Option<Reject>,
    /// The client names nothing but the answer before this one.
    pub(super) by_answer: bool,
    /// How its client waits: of the request's own words, until there is an answer to go by.
    pub(super) waiting: Waiting,
    pub(super) began: Timestamp,
    /// When the client last got anything but signs of life, and whether it has got something since.
    pub(super) quiet_since: Timestamp,
    spoken: bool,
    /// No part of the conversation: a title, a summary; a sub-agent's call.
    side: bool,
    pub(super) subagent: bool,
    /// Left alone, and only followed to its end.
    pub(super) passive: bool,
    pub(super) protocol: Protocol,
    pub(super) mark: Mark,
    pub(super) previous: String,
    /// The upstream keeps answers, so that a later call may name this one.
    pub(super) keeps: bool,
    /// Responses: the upstream keeps the conversation under a name of its own.
    pub(super) conversation: bool,
    /// The answer is to be one JSON document, so nothing may come after it.
    pub(super) structured: bool,
    /// To be carried out when the answer names the session.
    pub(super) orders: Option<Orders>,
    /// Messages in the request under way.
    pub(super) couriers: Vec<Courier>,
    /// How many of them were in what the model has answered.
    answered: usize,
    /// Calls of ours without a stop between them, and all calls of the turn.
    pub(super) rounds: u32,
    pub(super) calls: u32,
    /// How often a reminder has continued it.
    pub(super) continued: u32,
    /// The `stopMessage` on its way to the model, and what had armed it.
    said: Option<(String, Option<String>)>,
    /// Anchors of what the model will know of when it answers.
    pub(super) settled: Vec<String>,
    /// The name of the first answer, which is the client's name for all of them.
    pub(super) shown: Option<String>,
    /// Calls that were left without an answer when the turn came to its end.
    pub(super) owed: Vec<Answered>,
    /// This turn was held already, and may be held again.
    pub(super) holding: bool,
    /// While something of the session may become due, its agent is here and is not to be woken elsewhere.
    pub(super) held: Option<Held>,
}

impl ClockVisit {
    pub(super) fn new(desk: Arc<Desk>, turn: &Turn) -> Self {
        let by_answer = turn.session.as_ref().is_some_and(|hint| hint.source == Source::PreviousResponse);
        let hint = turn.session.as_ref().filter(|_| !by_answer);
        let (session, unnamed) = match hint.map(|hint| SessionId::parse(&hint.id)) {
            Some(Ok(session)) => (Some(session), None),
            Some(Err(reject)) => (None, Some(reject)),
            None => (None, None),
        };
        let now = desk.engine.now();
        Self {
            desk,
            request: turn.id.clone(),
            session,
            unnamed,
            by_answer,
            waiting: if turn.stream { Waiting::Alive } else { Waiting::Silent },
            began: now,
            quiet_since: now,
            spoken: false,
            side: turn.side,
            subagent: turn.subagent,
            passive: false,
            protocol: turn.protocol,
            mark: Mark::Body(Bytes::new(), 0..0),
            previous: String::new(),
            keeps: false,
            conversation: false,
            structured: false,
            orders: None,
            couriers: Vec::new(),
            answered: 0,
            rounds: 0,
            calls: 0,
            continued: 0,
            said: None,
            settled: Vec::new(),
            shown: None,
            owed: Vec::new(),
            holding: false,
            held: None,
        }
    }

    /// Of the conversation as the client sent it, whether it asks for a stream or not.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        match &self.mark {
            Mark::Body(body, conversation) => Fingerprint::of(&[&body[conversation.clone()], self.previous.as_bytes()]),
            Mark::Known(fingerprint) => *fingerprint,
        }
    }

    /// The turn waits: its body is not to wait with it.
    pub(super) fn let_go_of_body(&mut self) {
        self.mark = Mark::Known(self.fingerprint());
    }

    /// What waits for the session goes into the request.
    async fn prepare(&mut self, draft: &mut Draft, session: &SessionId) -> Result<(), EngineError> {
        let glance = self.desk.engine.glance(session).await?;
        let mut texts = Vec::new();
        if let Some(thread) = &glance.thread {
            texts.extend(self.put_back(draft, thread));
        }
        if (glance.pending() > 0 || glance.is_live()) && !draft.ends_with_model() {
            self.present(session);
            texts.extend(self.collect(session).await?);
        }
        if !texts.is_empty() {
            draft.tell(&Words { voice: Voice::System, text: texts.join("\n\n") });
        }
        Ok(())
    }

    /// Everything that is due, as one text; it is delivered when the next answer begins to go out.
    pub(super) async fn collect(&mut self, session: &SessionId) -> Result<Option<String>, EngineError> {
        let engine = &self.desk.engine;
        let glance = engine.glance(session).await?;
        if glance.pending() == 0 && !glance.is_live() {
            return Ok(None);
        }
        let collected = engine.collect_due(session, "gateway").await?;
        let Some(delivery) = collected.delivery else { return Ok(None) };
        let messages: Vec<&str> = collected.riding.iter().map(|message| message.id.as_ref()).collect();
        let (request, count) = (&self.request, messages.len());
        tracing::info!(target: "reveille::clock", request, %session, count, messages = messages.join(" "), "injected");
        engine.metrics.gateway.injected.inc_by(messages.len() as u64);
        self.couriers.push(Courier::new(engine, &self.request, session, delivery, messages.len()));
        let texts: Vec<&str> = collected.riding.iter().map(|message| message.text.as_str()).collect();
        Ok(Some(texts.join("\n\n")))
    }

    pub(super) fn present(&mut self, session: &SessionId) {
        self.held.get_or_insert_with(|| self.desk.engine.presence().hold(session, Hold::StandBy));
    }

    async fn finish(&mut self, seen: &Seen) -> Result<Next, EngineError> {
        self.answered = self.couriers.len();
        (self.said, self.waiting) = (None, seen.waiting);
        if std::mem::take(&mut self.spoken) {
            self.quiet_since = self.desk.engine.now();
        }
        self.remember(seen);
        self.settle().await?;
        if self.passive {
            return Ok(Next::End);
        }
        if let (Some(session), Some(orders)) = (self.session.clone(), self.orders.take()) {
            Box::pin(self.carry_out(&session, &orders)).await?;
        }
        if !seen.calls.is_empty() {
            return Box::pin(self.called(seen)).await;
        }
        self.rounds = 0;
        if seen.finish != Some(Finish::Stop) || !seen.client_calls.is_empty() {
            return Ok(Next::End);
        }
        // Two documents would be none.
        let Some(session) = self.session.clone().filter(|_| !self.structured) else { return Ok(Next::End) };
        let engine = &self.desk.engine;
        let Some(glance) = engine.if_ready("clock", engine.glance(&session)).await else { return Ok(Next::End) };
        if engine.store().is_away() && glance.goes_on() {
            engine.goes_without("clock");
            return Ok(Next::End);
        }
        if let Some(text) = self.stop_message(&session).await? {
            let mut words = vec![Words { voice: Voice::User, text }];
            let due = self.collect(&session).await?;
            words.extend(due.map(|text| Words { voice: Voice::System, text }));
            return Ok(self.goes_on("stop_message", More { results: Vec::new(), words }));
        }
        let glance = self.desk.engine.glance(&session).await?;
        let waits = glance.pending() > 0 || glance.reminders() > 0;
        if !self.desk.hold || !waits || self.broke_off(&session) {
            return Ok(Next::End);
        }
        if self.continued >= self.desk.max_continuations {
            let (request, continued) = (&self.request, self.continued);
            tracing::warn!(target: "reveille::clock", request, %session, continued, "not continued any more");
            return Ok(Next::End);
        }
        Ok(match self.hold(&session).await? {
            Some(text) => {
                self.continued += 1;
                let words = vec![Words { voice: Voice::System, text }];
                self.goes_on("reminder", More { results: Vec::new(), words })
            }
            None => Next::End,
        })
    }

    /// The client sent this turn before, and left while it was held.
    fn broke_off(&self, session: &SessionId) -> bool {
        !self.holding && self.desk.memory.was_held(session, || self.fingerprint())
    }

    /// The model called tools of ours.
    async fn called(&mut self, seen: &Seen) -> Result<Next, EngineError> {
        let aside = !seen.client_calls.is_empty();
        if self.rounds > self.desk.max_rounds {
            let text = self.too_many();
            self.owed = seen.calls.iter().map(|call| answered(call, &text, true)).collect();
            return Ok(Next::End);
        }
        let results = self.answer(&seen.calls, aside).await;
        self.rounds += 1;
        match seen.client_calls.first() {
            Some(anchor) => {
                self.set_aside(anchor, &seen.calls, &results).await?;
                Ok(Next::End)
            }
            None => Ok(self.goes_on("tool", More { results, words: Vec::new() })),
        }
    }

    /// The client's calls come first; ours are put back into the session's next request.
    async fn set_aside(
        &self,
        anchor: &str,
        calls: &[gateway::ToolCall],
        results: &[ToolResult],
    ) -> Result<(), EngineError> {
        let Some(session) = &self.session else { return Ok(()) };
        let answered = calls.iter().zip(results).map(|(call, result)| answered(call, &result.text, result.failed));
        let aside = Aside { anchor: anchor.to_owned(), answered: answered.collect() };
        let command = Command::SetAside { thread: Thread::id_of(session), aside };
        self.desk.engine.execute(session, Call::new(command)).await.map(drop)
    }

    async fn stop_message(&mut self, session: &SessionId) -> Result<Option<String>, EngineError> {
        let thread = self.desk.engine.glance(session).await?.thread;
        let Some(thread) = thread.filter(|thread| thread.stop_message.is_some()) else { return Ok(None) };
        let command = Command::TakeStopMessage { thread: Thread::id_of(session) };
        let reply = self.desk.engine.execute(session, Call::new(command)).await?.reply;
        let Reply::StopMessage(text) = reply else { return Ok(None) };
        self.said = text.clone().map(|text| (text, thread.directed_by.clone()));
        Ok(text)
    }

    /// The tool that a client has by the same name is the one it means; that is worth knowing once.
    fn left_out(&self, tool: crate::tools::Tool) {
        let (request, tool) = (&self.request, tool.name());
        match self.session.as_ref().filter(|session| self.desk.memory.is_named_alike(session)) {
            Some(session) => {
                tracing::info!(target: "reveille::clock", request, %session, tool, "the client has a tool of this name; ours stays out");
            }
            None => tracing::debug!(target: "reveille::clock", request, tool, "the client has a tool of this name"),
        }
    }

    fn goes_on(&self, why: &'static str, more: More) -> Next {
        self.desk.engine.metrics.gateway.continued.get_or_create(&ContinuedLabels { why }).inc();
        Next::Continue(more)
    }
}

fn answered(call: &gateway::ToolCall, result: &str, failed: bool) -> Answered {
    Answered {
        call: call.id.clone(),
        tool: call.name.clone(),
        arguments: call.arguments.clone(),
        result: result.to_owned(),
        failed,
    }
}

pub(super) fn put(aside: &Aside) -> gateway::Aside {
    let answered = aside.answered.iter().map(|one| {
        let call = gateway::ToolCall { id: one.call.clone(), name: one.tool.clone(), arguments: one.arguments.clone() };
        let result = ToolResult { call: one.call.clone(), text: one.result.clone(), failed: one.failed };
        (call, result)
    });
    gateway::Aside { anchor: aside.anchor.clone(), answered: answered.collect() }
}

#[async_trait]
impl Visit for ClockVisit {
    async fn before_request(&mut self, draft: &mut Draft) -> Result<Interest, Fault> {
        let orders = directives::take_out(draft);
        self.previous = draft.outline.ids.previous_response_id.clone().unwrap_or_default();
        self.keeps = draft.outline.store != Some(false);
        self.conversation = self.protocol == Protocol::Responses && draft.outline.ids.conversation.is_some();
        if self.side || self.subagent || draft.forbids_tools() {
            orders.iter().for_each(|orders| self.pass_over(orders));
            return Ok(if self.mend(draft).await { Interest::Stay } else { Interest::Leave });
        }
        self.mark = Mark::Body(draft.original().clone(), draft.outline.messages.clone().unwrap_or(0..0));
        self.structured = draft.outline.structured;
        self.find(draft).await;
        if let Some(orders) = orders {
            self.obey(orders).await?;
        }
        let added = self.desk.offer.add(draft);
        if let Some(tool) = added.left_out {
            self.left_out(tool);
        }
        let Some(session) = self.session.clone() else {
            return Ok(if added.count > 0 || self.orders.is_some() { Interest::Stay } else { Interest::Leave });
        };
        // The call itself is worth more than what cannot be read.
        self.desk.clone().engine.if_ready("clock", self.prepare(draft, &session)).await;
        Ok(Interest::Stay)
    }

    fn on_dispatch(&mut self) {
        self.spoken = true;
        for courier in self.couriers.drain(..) {
            courier.arrived();
        }
    }

    async fn on_unanswered(&mut self, why: &Fault) {
        let (request, session) = (&self.request, &self.session);
        let messages = self.couriers.len().saturating_sub(self.answered);
        let fault = why.discreet();
        tracing::warn!(target: "reveille::clock", request, ?session, messages, fault, "what the model was to be told, it was not");
        // An upstream that refuses may repeat what it refuses.
        tracing::debug!(target: "reveille::clock", request, %why, "in the upstream's words");
        // Dropped, they go back into the inbox.
        self.couriers.truncate(self.answered);
        self.settled.clear();
        let (Some((text, by)), Some(session)) = (self.said.take(), self.session.clone()) else { return };
        let command = Command::ReturnStopMessage { thread: Thread::id_of(&session), text, by };
        if let Err(error) = self.desk.engine.execute(&session, Call::new(command)).await {
            tracing::warn!(target: "reveille::clock", %error, %session, "a stopMessage is lost");
        }
    }

    fn on_no_room(&mut self) {
        tracing::warn!(target: "reveille::clock", session = ?self.session, "not held any longer: `max_held_bytes` is reached");
        if let Some(session) = &self.session {
            self.desk.memory.done(session, || self.fingerprint());
        }
    }

    async fn on_finish(&mut self, seen: &Seen) -> Next {
        let next = self.finish(seen).await.unwrap_or_else(|error| {
            tracing::warn!(target: "reveille::clock", %error, "the turn ends here");
            Next::End
        });
        if let (Next::End, Some(session)) = (&next, self.session.clone()) {
            let (memory, now) = (&self.desk.memory, self.desk.engine.now());
            match self.calls > 0 && !seen.client_calls.is_empty() {
                true => memory.handed_over(&session, self.fingerprint(), now),
                false if self.passive => {}
                false => memory.done(&session, || self.fingerprint()),
            }
            // Otherwise a later call cannot name this answer.
            self.desk.clone().engine.if_ready("clock", self.name(&session, seen)).await;
        }
        next
    }
}
