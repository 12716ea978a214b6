//! The same call once more, with what was said since.

use super::{chat, heard::Heard, messages, responses, weave::Served};
use crate::{
    draft::Draft,
    fault::Fault,
    gateway::deadline,
    limits::Limits,
    protocol::{Protocol, Seen},
    send::{Call, Route},
    stage::More,
};
use http::Response;
use hyper::body::Incoming;
use serde_json::Value;
use std::sync::Arc;
use tokio::time::Instant;

/// What is kept of a call while its turn may go on.
pub(crate) struct Again {
    pub route: Arc<Route>,
    /// Everything but the body.
    pub call: Call,
    pub draft: Draft,
    pub limits: Limits,
    pub retries: u32,
    pub stream: bool,
    pub served: Served,
    /// Tries of all rounds after the first.
    pub attempts: u32,
    pub rounds: u32,
}

impl Again {
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

    /// Asks the upstream again.
    pub async fn ask(&mut self, heard: &Heard, more: &More) -> Result<Response<Incoming>, Fault> {
        self.rounds += 1;
        let said = self.said(heard, more);
        // A conversation that the upstream keeps has the answer already.
        match self.draft.outline.ids.conversation.is_some() && self.draft.protocol == Protocol::Responses {
            true => self.draft.only_messages(&between(&self.draft, more)),
            false => said.iter().for_each(|message| self.draft.append_message(&message.to_string())),
        }
        let (began, mut attempts) = (Instant::now(), 0);
        let call = Call { body: self.draft.body(), ..self.call.clone() };
        let deadline = deadline(&self.limits, self.stream, began);
        let sent = self.route.send(call, deadline, self.retries, &mut attempts).await;
        self.attempts += attempts;
        let response = sent?;
        let status = response.status();
        if !status.is_success() {
            let upstream = self.route.upstream.name.clone();
            return Err(Fault::Broken { upstream, why: format!("asked again within the turn, it answered {status}") });
        }
        Ok(response)
    }

    fn said(&self, heard: &Heard, more: &More) -> Vec<Value> {
        let stored = self.draft.outline.store.unwrap_or(true);
        let given_back =
            |item: &&Value| self.draft.protocol != Protocol::Responses || responses::given_back(item, stored);
        let mut said: Vec<Value> = heard.said.iter().filter(given_back).cloned().collect();
        said.extend(between(&self.draft, more));
        said
    }
}

fn between(draft: &Draft, more: &More) -> Vec<Value> {
    let model = &draft.outline.model;
    match draft.protocol {
        Protocol::Chat => {
            let words = more.words.iter().map(|words| chat::words(words, model));
            more.results.iter().map(chat::result).chain(words).collect()
        }
        Protocol::Responses => {
            more.results.iter().map(responses::result).chain(more.words.iter().map(responses::words)).collect()
        }
        Protocol::Messages => messages::between(&more.results, &more.words, model),
    }
}
