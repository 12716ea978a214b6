//! Model calls through the gateway that name their agent drive its session's timers: a request suspends them, the end of
//! its answer arms them. A call is never refused or delayed because of that.

use super::{Registry, turn};
use crate::engine::Engine;
use async_trait::async_trait;
use reveille_core::{AgentId, SessionId};
use reveille_gateway::{Draft, Fault, Finish, Interest, Next, Seen, Stage, Turn, Visit};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

#[derive(Clone)]
pub struct SessionStage(Arc<Shared>);

struct Shared {
    engine: Arc<Engine>,
    registry: Arc<Registry>,
    /// Calls under way in each session, and the turn of the latest: the agent works until the last of them is over.
    open: Mutex<HashMap<SessionId, (usize, Arc<str>)>>,
}

impl SessionStage {
    pub fn new(engine: Arc<Engine>, registry: Arc<Registry>) -> Self {
        Self(Arc::new(Shared { engine, registry, open: Mutex::default() }))
    }
}

impl Stage for SessionStage {
    fn enter(&self, turn: &Turn) -> Option<Box<dyn Visit>> {
        let (agent, session) = (turn.agent.as_deref()?, &turn.session.as_ref()?.id);
        match (AgentId::parse(agent), SessionId::parse(session)) {
            (Ok(agent), Ok(session)) => {
                Some(Box::new(Working { shared: self.0.clone(), agent, session, begun: false, calls_tools: false }))
            }
            (Err(reject), _) | (_, Err(reject)) => {
                tracing::warn!(%reject, "a model call names no session of an agent; no timers run for it");
                None
            }
        }
    }
}

/// One call, as long as it lasts.
struct Working {
    shared: Arc<Shared>,
    agent: AgentId,
    session: SessionId,
    begun: bool,
    /// The model wants tools called: whoever called it works on.
    calls_tools: bool,
}

#[async_trait]
impl Visit for Working {
    async fn before_request(&mut self, _: &mut Draft) -> Result<Interest, Fault> {
        let Shared { engine, registry, open } = &*self.shared;
        let turn: Arc<str> = engine.fresh("turn").into();
        {
            let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
            let (count, latest) = open.entry(self.session.clone()).or_insert((0, turn.clone()));
            (*count, *latest) = (*count + 1, turn.clone());
        }
        self.begun = true;
        let begun = turn::begin(engine, registry, &self.session, &self.agent, Some(turn), Vec::new()).await;
        if let Err(error) = begun {
            tracing::warn!(%error, session = %self.session, agent = %self.agent, "the session's timers do not follow this call");
        }
        Ok(Interest::Stay)
    }

    async fn on_finish(&mut self, seen: &Seen) -> Next {
        self.calls_tools = seen.finish == Some(Finish::ToolCalls);
        Next::End
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if !self.begun {
            return;
        }
        let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((count, latest)) = open.get_mut(&self.session) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        let turn = latest.clone();
        open.remove(&self.session);
        if !self.calls_tools {
            let engine = &self.shared.engine;
            let response = turn::response(engine, None, Some(turn), Vec::new());
            engine.answered(self.session.clone(), response);
        }
    }
}
