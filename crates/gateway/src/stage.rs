//! What others may do with a call on its way, without knowing its protocol's bytes or touching the relay.

use crate::{
    draft::Draft,
    fault::Fault,
    protocol::{Event, Protocol, Seen},
    session::SessionHint,
};
use async_trait::async_trait;
use bytes::Bytes;

/// A call, as every stage sees it.
#[derive(Clone, Debug)]
pub struct Turn {
    pub protocol: Protocol,
    pub model: String,
    pub upstream: String,
    pub stream: bool,
    pub session: Option<SessionHint>,
    /// `tenant:chatbot`, from `x-reveille-agent`.
    pub agent: Option<String>,
    /// No tools: a title, a summary, a count. Such calls are not part of the conversation.
    pub side: bool,
}

/// Part of the pipeline, for all calls.
pub trait Stage: Send + Sync {
    /// Says whether to take part in this call. Nobody taking part costs nothing.
    fn enter(&self, turn: &Turn) -> Option<Box<dyn Visit>>;
}

/// A stage's part in one call. Dropped when the call is over, however it ended: what is not settled by then did not
/// happen.
#[async_trait]
pub trait Visit: Send {
    /// The request may be added to.
    async fn before_request(&mut self, _draft: &mut Draft) -> Result<(), Fault> {
        Ok(())
    }

    /// The answer begins to go out to the client.
    fn on_dispatch(&mut self) {}

    /// An event of a stream came, before it goes out.
    fn on_event(&mut self, _event: &Event<'_>) -> Verdict {
        Verdict::Pass
    }

    /// The model is done. Of a stream, what closes the answer waits until this returns, however long.
    async fn on_finish(&mut self, _seen: &Seen) -> Next {
        Next::End
    }
}

/// What becomes of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Drop,
    Replace(Bytes),
}

/// How a turn goes on when the model is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Next {
    /// It is over.
    End,
}

/// All that take part in one call, in order.
#[derive(Default)]
pub(crate) struct Visits(Vec<Box<dyn Visit>>);

impl Visits {
    pub fn enter(stages: &[Box<dyn Stage>], turn: &Turn) -> Self {
        Self(stages.iter().filter_map(|stage| stage.enter(turn)).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub async fn before_request(&mut self, draft: &mut Draft) -> Result<(), Fault> {
        for visit in &mut self.0 {
            visit.before_request(draft).await?;
        }
        Ok(())
    }

    pub fn on_dispatch(&mut self) {
        self.0.iter_mut().for_each(|visit| visit.on_dispatch());
    }

    /// The first that objects decides.
    pub fn on_event(&mut self, event: &Event<'_>) -> Verdict {
        let verdicts = self.0.iter_mut().map(|visit| visit.on_event(event));
        verdicts.reduce(|first, other| if first == Verdict::Pass { other } else { first }).unwrap_or(Verdict::Pass)
    }

    pub async fn on_finish(&mut self, seen: &Seen) {
        for visit in &mut self.0 {
            let Next::End = visit.on_finish(seen).await;
        }
    }
}
