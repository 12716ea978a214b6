//! What others may do with a call on its way, without knowing its protocol's bytes or touching the relay.

use crate::{
    draft::Draft,
    fault::Fault,
    outline::Ids,
    protocol::{Event, Finish, Protocol, Seen, Waiting},
    session::SessionHint,
};
use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// A call, as every stage sees it.
#[derive(Clone, Debug)]
pub struct Turn {
    /// What this call is called in the log.
    pub id: String,
    pub protocol: Protocol,
    pub model: String,
    pub upstream: String,
    pub stream: bool,
    pub session: Option<SessionHint>,
    /// What the upstream keeps and this goes on from, wherever it was begun: an earlier answer, a conversation.
    pub previous_response: Option<String>,
    pub conversation: Option<String>,
    /// `tenant:chatbot`, from `x-reveille-agent`.
    pub agent: Option<String>,
    /// No tools: a title, a summary, a count. Such calls are not part of the conversation.
    pub side: bool,
    /// A sub-agent's: it may name its parent's session, but is no part of that conversation.
    pub subagent: bool,
}

impl Turn {
    /// Notes what a request says of its conversation.
    pub(crate) fn say_whose(&mut self, headers: &HeaderMap, ids: &Ids) {
        self.session = SessionHint::find(headers, ids);
        self.previous_response.clone_from(&ids.previous_response_id);
        self.conversation.clone_from(&ids.conversation);
    }
}

/// In a request's extensions: no stage takes part. For who calls within this process and does their work itself.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

/// Says whether a call may be made, once it is known whose it is.
#[async_trait]
pub trait Admission: Send + Sync {
    /// Or why not.
    async fn admit(&self, turn: &Turn) -> Result<(), String>;

    /// The same for what the upstream keeps under ids of its own, or lists: whose it is, nobody here knows.
    fn admit_kept(&self) -> Result<(), String>;
}

/// In a request's extensions: asked before anything is done for it.
#[derive(Clone)]
pub struct Admitted(pub Arc<dyn Admission>);

/// Part of the pipeline, for all calls.
pub trait Stage: Send + Sync {
    /// Says whether to take part in this call. Nobody taking part costs nothing.
    fn enter(&self, turn: &Turn) -> Option<Box<dyn Visit>>;

    /// Takes out what is not meant for any upstream, of a request that carries a conversation but asks for no answer: one that
    /// counts its tokens, say. Nothing else may be done with it.
    fn clean(&self, _draft: &mut Draft) {}
}

/// A stage's part in one call. Dropped when the call is over, however it ended: what is not settled by then did not
/// happen.
#[async_trait]
pub trait Visit: Send {
    /// The request may be added to.
    async fn before_request(&mut self, _draft: &mut Draft) -> Result<Interest, Fault> {
        Ok(Interest::Stay)
    }

    /// The answer begins to go out to the client; of a turn with several rounds, that of each.
    fn on_dispatch(&mut self) {}

    /// An event of a stream came, before it goes out.
    fn on_event(&mut self, _event: &Event<'_>) -> Verdict {
        Verdict::Pass
    }

    /// The model is done. What closes the answer waits until this returns, however long; a stream is kept alive.
    async fn on_finish(&mut self, _seen: &Seen) -> Next {
        Next::End
    }

    /// The client has all of the answer so far, and another stage has the turn wait, maybe for hours.
    fn on_hold(&mut self) {}

    /// After that, the model is asked again.
    async fn on_resume(&mut self) {}

    /// The turn waited for [`on_finish`](Self::on_finish), and there is no room for it to wait longer: it is over.
    fn on_no_room(&mut self) {}

    /// The model was asked and did not answer: what it was told since its last answer, it was not told. Of the first request
    /// of a turn that is said only where it goes once more [without that](Draft::tell).
    async fn on_unanswered(&mut self, _why: &Fault) {}
}

/// Whether a stage has anything to do with a call beyond its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    Stay,
    Leave,
}

/// What becomes of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Drop,
    Replace(Bytes),
}

/// How a turn goes on when the model is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is over.
    End,
    /// The model is asked again, and its answer is part of the same response to the client.
    Continue(More),
}

/// What the model is told in between. Its own answer comes before that, by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct More {
    /// One for each of [`Seen::calls`].
    pub results: Vec<ToolResult>,
    pub words: Vec<Words>,
}

/// The answer to a call that the client never saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    pub call: String,
    pub text: String,
    pub failed: bool,
}

/// A message to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    pub voice: Voice,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    User,
    /// Nobody in the conversation; said in the user's place where a model allows no other.
    System,
}

/// A stage that takes longer to say how a turn goes on has it wait.
const HOLD_MIN: Duration = Duration::from_secs(1);

/// Whether nothing is under way but a wait: the answer went out as it came, and no call of the model is being answered.
fn leaves_client_waiting(seen: &Seen) -> bool {
    seen.waiting != Waiting::Silent && seen.calls.is_empty() && seen.finish != Some(Finish::ToolCalls)
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
        let mut staying = Vec::with_capacity(self.0.len());
        for mut visit in std::mem::take(&mut self.0) {
            if visit.before_request(draft).await? == Interest::Stay {
                staying.push(visit);
            }
        }
        self.0 = staying;
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

    pub async fn on_unanswered(&mut self, why: &Fault) {
        for visit in &mut self.0 {
            visit.on_unanswered(why).await;
        }
    }

    pub fn on_no_room(&mut self) {
        self.0.iter_mut().for_each(|visit| visit.on_no_room());
    }

    /// The first that wants to go on decides.
    pub async fn on_finish(&mut self, seen: &Seen) -> Next {
        for at in 0..self.0.len() {
            let (before, rest) = self.0.split_at_mut(at);
            let Some((visit, after)) = rest.split_first_mut() else { break };
            let mut deciding = visit.on_finish(seen);
            let (next, held) = match timeout(HOLD_MIN, &mut deciding).await {
                Ok(next) => (next, false),
                Err(_) => {
                    let held = leaves_client_waiting(seen);
                    if held {
                        before.iter_mut().chain(&mut *after).for_each(|other| other.on_hold());
                    }
                    (deciding.await, held)
                }
            };
            if let Next::Continue(more) = next {
                if held {
                    for other in before.iter_mut().chain(after) {
                        other.on_resume().await;
                    }
                }
                return Next::Continue(more);
            }
        }
        Next::End
    }
}
