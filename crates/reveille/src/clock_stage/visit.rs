//! One call of the gateway, from its request to the end of its turn.

use super::{Desk, ROUNDS_MAX, courier::Courier, directives, memory::Fingerprint};
use crate::{
    engine::{EngineError, Held},
    metrics::ContinuedLabels,
};
use async_trait::async_trait;
use bytes::Bytes;
use reveille_core::{
    Call, Command, Reply, SessionId, Thread,
    thread::{Answered, Aside},
};
use reveille_gateway::{
    self as gateway, Draft, Fault, Finish, Interest, More, Next, Protocol, Seen, ToolResult, Turn, Visit, Voice, Words,
};
use std::{ops::Range, sync::Arc};
use tokio::time::Instant;

pub struct ClockVisit {
    pub(super) desk: Arc<Desk>,
    pub(super) session: Option<SessionId>,
    pub(super) stream: bool,
    pub(super) began: Instant,
    side: bool,
    protocol: Protocol,
    /// The body as it came, and where the conversation is in it: what the turn is known by.
    body: Bytes,
    conversation: Range<usize>,
    previous: String,
    /// The upstream keeps answers, so that a later call may name this one.
    keeps: bool,
    /// Messages in the request under way.
    pub(super) couriers: Vec<Courier>,
    /// How many of them were in what the model has answered.
    answered: usize,
    /// Calls of ours without a stop between them, and all calls of the turn.
    pub(super) rounds: u32,
    pub(super) calls: u32,
    /// The name of the first answer, which is the client's name for all of them.
    shown: Option<String>,
    /// While something of the session may become due, its agent is here and is not to be woken elsewhere.
    pub(super) held: Option<Held>,
}

impl ClockVisit {
    pub(super) fn new(desk: Arc<Desk>, turn: &Turn, session: Option<SessionId>) -> Self {
        Self {
            desk,
            session,
            stream: turn.stream,
            began: Instant::now(),
            side: turn.side,
            protocol: turn.protocol,
            body: Bytes::new(),
            conversation: 0..0,
            previous: String::new(),
            keeps: false,
            couriers: Vec::new(),
            answered: 0,
            rounds: 0,
            calls: 0,
            shown: None,
            held: None,
        }
    }

    /// Of the conversation as the client sent it, whether it asks for a stream or not.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&[&self.body[self.conversation.clone()], self.previous.as_bytes()])
    }

    /// What waits for the session goes into the request.
    async fn prepare(&mut self, draft: &mut Draft, session: &SessionId) -> Result<(), EngineError> {
        let glance = self.desk.engine.glance(session).await?;
        if let Some(thread) = &glance.thread {
            for aside in &thread.asides {
                draft.put_back(&put(aside));
            }
            if let Some((shown, upstream)) = &thread.alias {
                draft.rename_previous(shown, upstream);
            }
        }
        if (glance.pending() > 0 || glance.is_live()) && !draft.ends_with_model() {
            self.present(session);
            if let Some(text) = self.collect(session).await? {
                draft.tell(&Words { voice: Voice::System, text });
            }
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
        tracing::info!(target: "reveille::clock", %session, messages = messages.join(" "), "injected");
        engine.metrics.gateway.injected.inc_by(messages.len() as u64);
        self.couriers.push(Courier::new(engine, session, delivery));
        let texts: Vec<&str> = collected.riding.iter().map(|message| message.text.as_str()).collect();
        Ok(Some(texts.join("\n\n")))
    }

    pub(super) fn present(&mut self, session: &SessionId) {
        let hold = crate::engine::Hold::Client { wakes: self.desk.hold, name: None };
        self.held.get_or_insert_with(|| self.desk.engine.presence().hold(session, hold));
    }

    async fn finish(&mut self, seen: &Seen) -> Result<Next, EngineError> {
        self.answered = self.couriers.len();
        self.remember(seen).await?;
        if !seen.calls.is_empty() {
            return self.called(seen).await;
        }
        self.rounds = 0;
        if seen.finish != Some(Finish::Stop) || !seen.client_calls.is_empty() {
            return Ok(Next::End);
        }
        let Some(session) = self.session.clone() else { return Ok(Next::End) };
        if let Some(text) = self.stop_message(&session).await? {
            let mut words = vec![Words { voice: Voice::User, text }];
            let due = self.collect(&session).await?;
            words.extend(due.map(|text| Words { voice: Voice::System, text }));
            return Ok(self.goes_on("stop_message", More { results: Vec::new(), words }));
        }
        let glance = self.desk.engine.glance(&session).await?;
        let waits = glance.pending() > 0 || glance.reminders() > 0;
        if !self.desk.hold || !waits || self.desk.memory.was_held(&session, || self.fingerprint()) {
            return Ok(Next::End);
        }
        Ok(match self.hold(&session).await? {
            Some(text) => {
                let words = vec![Words { voice: Voice::System, text }];
                self.goes_on("reminder", More { results: Vec::new(), words })
            }
            None => Next::End,
        })
    }

    /// The model called tools of ours.
    async fn called(&mut self, seen: &Seen) -> Result<Next, EngineError> {
        let aside = !seen.client_calls.is_empty();
        if self.rounds > ROUNDS_MAX {
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
        let answered = calls.iter().zip(results).map(|(call, result)| Answered {
            call: call.id.clone(),
            tool: call.name.clone(),
            arguments: call.arguments.clone(),
            result: result.text.clone(),
            failed: result.failed,
        });
        let aside = Aside { anchor: anchor.to_owned(), answered: answered.collect() };
        let command = Command::SetAside { thread: Thread::id_of(session), aside };
        self.desk.engine.execute(session, Call::new(command)).await.map(drop)
    }

    async fn stop_message(&self, session: &SessionId) -> Result<Option<String>, EngineError> {
        let thread = self.desk.engine.glance(session).await?.thread;
        if thread.is_none_or(|thread| thread.stop_message.is_none()) {
            return Ok(None);
        }
        let command = Command::TakeStopMessage { thread: Thread::id_of(session) };
        match self.desk.engine.execute(session, Call::new(command)).await?.reply {
            Reply::StopMessage(text) => Ok(text),
            _ => Ok(None),
        }
    }

    /// Whose answer this is. A conversation that only its upstream keeps is known by its first answer.
    async fn remember(&mut self, seen: &Seen) -> Result<(), EngineError> {
        let Some(answer) = seen.answer_id.as_ref().filter(|_| self.protocol == Protocol::Responses && self.keeps)
        else {
            return Ok(());
        };
        if self.session.is_none() {
            self.session = SessionId::parse(answer).ok();
        }
        let Some(session) = self.session.clone() else { return Ok(()) };
        match &self.shown {
            None => {
                self.desk.memory.answered(answer, &session);
                self.shown = Some(answer.clone());
            }
            Some(shown) => {
                let (thread, shown, upstream) = (Thread::id_of(&session), shown.clone(), answer.clone());
                let command = Command::RenameAnswer { thread, shown, upstream };
                self.desk.engine.execute(&session, Call::new(command)).await?;
            }
        }
        Ok(())
    }

    fn goes_on(&self, why: &'static str, more: More) -> Next {
        self.desk.engine.metrics.gateway.continued.get_or_create(&ContinuedLabels { why }).inc();
        Next::Continue(more)
    }
}

fn put(aside: &Aside) -> gateway::Aside {
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
        if self.side || draft.forbids_tools() {
            return Ok(Interest::Leave);
        }
        self.body = draft.original().clone();
        self.conversation = draft.outline.messages.clone().unwrap_or(0..0);
        self.previous = draft.outline.ids.previous_response_id.clone().unwrap_or_default();
        self.keeps = draft.outline.store != Some(false);
        let offered = self.desk.offer.add(draft);
        let Some(session) = self.session.clone() else {
            return Ok(if offered > 0 { Interest::Stay } else { Interest::Leave });
        };
        if let Some(orders) = orders
            && let Err(error) = self.desk.carry_out(&session, orders).await
        {
            // The user believes that it was done.
            return Err(Fault::Refused(format!("a directive could not be carried out: {error}")));
        }
        if let Err(error) = self.prepare(draft, &session).await {
            // The call itself is worth more than what could not be read.
            tracing::warn!(target: "reveille::clock", %error, %session, "messages cannot be read");
        }
        Ok(Interest::Stay)
    }

    fn on_dispatch(&mut self) {
        for courier in self.couriers.drain(..) {
            courier.arrived();
        }
    }

    /// Dropped, they go back into the inbox.
    fn on_unanswered(&mut self) {
        self.couriers.truncate(self.answered);
    }

    async fn on_finish(&mut self, seen: &Seen) -> Next {
        let next = self.finish(seen).await.unwrap_or_else(|error| {
            tracing::warn!(target: "reveille::clock", %error, "the turn ends here");
            Next::End
        });
        if let (Next::End, Some(session)) = (&next, &self.session) {
            self.desk.memory.done(session);
        }
        next
    }
}
