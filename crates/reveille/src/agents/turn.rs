//! A turn as the session's timers see it, the same for every door: a message begins it, an answer ends it.

use super::{Agent, AgentError, Registry};
use crate::engine::{Engine, EngineError};
use reveille_core::{AgentId, Call, Command, ItemId, Reply, SessionId, SessionTimer, Utterance, utterance::Role};
use std::sync::Arc;

/// Ids may be taken, hardly ever twice.
const IDS_TRIED_MAX: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The user said something: the session exists from now on, and its timers are suspended.
pub async fn begin(
    engine: &Engine,
    registry: &Registry,
    session: &SessionId,
    agent: &AgentId,
    turn: Option<Arc<str>>,
    said: Vec<Utterance>,
) -> Result<(Option<Arc<Agent>>, Vec<SessionTimer>), TurnError> {
    let known = registry.get(agent).await?;
    for _ in 0..IDS_TRIED_MAX {
        let specs = known
            .as_ref()
            .map(|known| known.specs.iter().map(|spec| (engine.fresh_session_timer(), spec.clone())).collect());
        let command = Command::Message { agent: agent.clone(), timers: specs, turn: turn.clone(), said: said.clone() };
        match engine.execute(session, Call::new(command)).await {
            Ok(outcome) => match outcome.reply {
                Reply::Turn { timers, .. } => return Ok((known, timers)),
                _ => unreachable!("a message is answered with the session's timers"),
            },
            Err(EngineError::IdTaken) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(EngineError::IdTaken.into())
}

/// The command that ends a turn: silence begins when it is carried out.
pub fn response(engine: &Engine, agent: Option<&Agent>, turn: Option<Arc<str>>, said: Vec<Utterance>) -> Command {
    let webhooks = agent.map(|agent| agent.webhooks.as_slice()).unwrap_or_default();
    let notify = webhooks.iter().map(|(url, _)| (ItemId::new(engine.fresh("hook")), url.clone())).collect();
    Command::Response { turn, said, notify }
}

/// Something said now.
pub fn said(engine: &Engine, role: Role, text: impl Into<String>) -> Utterance {
    Utterance::new(engine.fresh("said"), role, text, engine.now())
}
