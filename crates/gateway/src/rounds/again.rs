//! The same call once more, with what was said since.

use super::{
    chat,
    heard::Heard,
    messages, responses,
    shelf::{Full, Kept},
    weave::Served,
};
use crate::{
    budget::Budget,
    draft::Draft,
    fault::Fault,
    flow::Flow,
    gateway::deadline,
    limits::Limits,
    protocol::{Protocol, Seen},
    rounds::refusal,
    send::{Call, Route},
    stage::More,
};
use http::Response;
use serde_json::Value;
use std::sync::Arc;
use tokio::time::Instant;

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// What is kept of a call while its turn may go on.
pub(crate) struct Again {
    pub route: Arc<Route>,
    /// Everything but the body.
    pub call: Call,
    pub request: Kept,
    pub limits: Limits,
    pub retries: u32,
    pub stream: bool,
    pub served: Served,
    /// What turns that wait may keep, all together.
    pub held: Budget,
    model: String,
    /// The upstream keeps the conversation, so that it has its own answers already.
    kept_upstream: bool,
    /// The upstream keeps its answers.
    stored: bool,
    /// The latest answer is part of the request already.
    said: bool,
    /// Tries of all rounds after the first.
    attempts: u32,
    pub rounds: u32,
}

impl Again {
    pub fn new(
        draft: Draft,
        route: Arc<Route>,
        call: Call,
        limits: Limits,
        retries: u32,
        held: Budget,
        shown: bool,
    ) -> Self {
        let outline = &draft.outline;
        Self {
            route,
            call,
            limits,
            retries,
            held,
            stream: outline.stream,
            served: Served::new(draft.served(), shown),
            model: outline.model.clone(),
            kept_upstream: outline.ids.conversation.is_some() && draft.protocol == Protocol::Responses,
            stored: outline.store.unwrap_or(true),
            said: false,
            attempts: 0,
            rounds: 1,
            request: Kept::Open(Box::new(draft)),
        }
    }

    pub fn protocol(&self) -> Protocol {
        self.call.protocol
    }

    /// Tries since this was last asked for.
    pub fn take_attempts(&mut self) -> u32 {
        std::mem::take(&mut self.attempts)
    }

    /// Tells the stages of a round's calls: those they serve, and those the client has to answer.
    pub fn sort(&self, heard: &Heard, seen: &mut Seen) {
        for call in &heard.calls {
            match self.served.has(&call.name) {
                true => seen.calls.push(call.clone()),
                false => seen.client_calls.push(call.id.clone()),
            }
        }
    }

    /// It may be long until the turn goes on. What the model said becomes part of the request, which is packed; `beside` is
    /// what else waits with it, in bytes.
    pub async fn shelve(&mut self, heard: &mut Heard, beside: usize) -> Result<(), Full> {
        if self.say(heard).await.is_ok() && self.protocol() != Protocol::Responses {
            // Items are repeated at the end of the answer; others are not needed again.
            heard.said = Vec::new();
        }
        // What belongs to the connection the request came by is let go with it.
        let copied = self.call.headers.iter().map(|(name, value)| {
            let copy = http::HeaderValue::from_bytes(value.as_bytes());
            (name.clone(), copy.unwrap_or_else(|_| value.clone()))
        });
        self.call.headers = copied.collect();
        self.request.shelve(&self.held, beside).await
    }

    /// Asks the upstream again. That is another request than the client's, and goes under another name than the one the
    /// client gave its own: an upstream that keeps answers by name would give the first one again.
    pub async fn ask(&mut self, heard: &Heard, more: &More) -> Result<Response<Flow>, Fault> {
        self.rounds += 1;
        self.call.headers.remove(IDEMPOTENCY_KEY);
        self.say(heard).await?;
        self.said = false;
        let between = between(self.protocol(), &self.model, more);
        let draft = self.request.open().await?;
        match self.kept_upstream {
            true => draft.only_messages(&between),
            false => between.iter().for_each(|message| draft.append_message(&message.to_string())),
        }
        let (began, mut attempts) = (Instant::now(), 0);
        let call = Call { body: draft.body(), ..self.call.clone() };
        let deadline = deadline(&self.limits, self.stream, began);
        let sent = self.route.send(call, deadline, self.retries, &mut attempts).await;
        self.attempts += attempts;
        let response = sent?;
        let status = response.status();
        match status.is_success() {
            true => Ok(response),
            false => Err(refusal(response, &self.route.upstream.name).await),
        }
    }

    /// The call of the first request without what the model was told with it; `None`: it was told nothing.
    pub fn without_told(&mut self) -> Option<Call> {
        let Kept::Open(draft) = &mut self.request else { return None };
        if !draft.untell() {
            return None;
        }
        self.call.headers.remove(IDEMPOTENCY_KEY);
        Some(Call { body: draft.body(), ..self.call.clone() })
    }

    /// What the model said goes back to it as its own, once.
    async fn say(&mut self, heard: &Heard) -> Result<(), Fault> {
        if std::mem::replace(&mut self.said, true) || self.kept_upstream {
            return Ok(());
        }
        let (protocol, stored) = (self.protocol(), self.stored);
        let draft = self.request.open().await?;
        let given_back = |item: &&Value| protocol != Protocol::Responses || responses::given_back(item, stored);
        heard.said.iter().filter(given_back).for_each(|message| draft.append_message(&message.to_string()));
        Ok(())
    }
}

fn between(protocol: Protocol, model: &str, more: &More) -> Vec<Value> {
    match protocol {
        Protocol::Chat => more.results.iter().map(chat::result).chain(chat::all_words(&more.words, model)).collect(),
        Protocol::Responses => {
            let words = more.words.iter().map(|words| responses::words(words, model));
            more.results.iter().map(responses::result).chain(words).collect()
        }
        Protocol::Messages => messages::between(&more.results, &more.words, model),
    }
}
