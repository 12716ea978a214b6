//! A turn as the session's timers see it, the same for every door: a message begins it, an answer ends it.

use super::{Agent, AgentError, Registry};
use crate::engine::{Engine, EngineError};
use reveille_core::{
    AgentId, Call, Command, ItemId, Millis, Needs, Reject, Reply, SessionId, SessionTimer, Utterance, call::Made,
    utterance::Role,
};
use std::{convert::Infallible, sync::Arc};
use tokio_util::sync::CancellationToken;

/// Ids may be taken, hardly ever twice.
const IDS_TRIED_MAX: usize = 4;
/// How often a turn that lives is heard of in the time after which it would be given up: one may fail.
const RENEWALS: u64 = 3;
/// Until a command that could not be written is tried again.
const RETRY: Millis = Millis::from_secs(1);

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
    let (known, wrong) = match registry.get(agent).await {
        Ok(known) => (known, None),
        // It made sense when its sessions began: those that run are suspended as ever, and none begins.
        Err(AgentError::Invalid(invalid)) => (None, Some(invalid)),
        Err(error) => return Err(error.into()),
    };
    for _ in 0..IDS_TRIED_MAX {
        let specs = known
            .as_ref()
            .map(|known| known.specs.iter().map(|spec| (engine.fresh_session_timer(), spec.clone())).collect());
        let (turn, said) = (turn.clone(), said.clone());
        let quiet = known.as_ref().and_then(|known| known.config.quiet.clone());
        let command = Command::Message { agent: agent.clone(), timers: specs, turn, said, quiet };
        match engine.execute(session, Call::new(command)).await {
            Ok(outcome) => match outcome.reply {
                Reply::Turn { timers, .. } => return Ok((known, timers)),
                _ => unreachable!("a message is answered with the session's timers"),
            },
            Err(EngineError::IdTaken) => {}
            Err(EngineError::Reject(Reject::UnknownAgent { agent })) => {
                let unknown = || EngineError::from(Reject::UnknownAgent { agent }).into();
                return Err(wrong.map_or_else(unknown, |invalid| AgentError::from(invalid).into()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(EngineError::IdTaken.into())
}

/// The agent goes on by itself after it had answered: its session's timers are suspended, and nobody said anything.
pub async fn go_on(engine: &Engine, session: &SessionId, agent: &AgentId, turn: Arc<str>) -> Result<(), TurnError> {
    engine.execute(session, Call::new(Command::GoOn { agent: agent.clone(), turn })).await?;
    Ok(())
}

/// As long as this is polled, the turn is not given up. Whatever ends the process ends that, too.
pub async fn keep(engine: &Engine, session: &SessionId, turn: &Arc<str>) -> Infallible {
    let pause = Millis::new((engine.limits().turn.get() / RENEWALS).max(1));
    loop {
        engine.clock().sleep(pause).await;
        let renew = Command::Renew { turn: Some(turn.clone()) };
        // A session that is over has nothing to be kept from.
        if let Err(error) = engine.execute(session, Call::new(renew)).await
            && !matches!(error, EngineError::Reject(_))
        {
            tracing::warn!(%error, %session, "nobody is told that a turn lives; trying again");
        }
    }
}

/// The command that ends a turn of this agent: silence begins when it is carried out.
pub fn response(
    engine: &Engine,
    agent: &AgentId,
    known: Option<&Agent>,
    turn: Option<Arc<str>>,
    (said, made): (Vec<Utterance>, Vec<Made>),
) -> Command {
    Command::Response { agent: Some(agent.clone()), turn, said, made, notify: notify(engine, known) }
}

/// The command that ends a turn, and the session with it, in one commit: nothing lies between the two.
pub fn last_response(
    engine: &Engine,
    agent: &Agent,
    turn: Option<Arc<str>>,
    (said, made): (Vec<Utterance>, Vec<Made>),
) -> Command {
    let (notify, notify_end) = (notify(engine, Some(agent)), notify(engine, Some(agent)));
    Command::LastResponse {
        agent: agent.id.clone(),
        turn,
        said,
        made,
        notify,
        notify_end,
        note: "the agent closed it".into(),
    }
}

/// The command that ends a session; its agent's webhooks are told.
pub fn close(engine: &Engine, known: Option<&Agent>, note: Option<String>) -> Command {
    Command::Close { note, notify: notify(engine, known) }
}

fn notify(engine: &Engine, known: Option<&Agent>) -> Vec<(ItemId, Arc<str>)> {
    let webhooks = known.map(|agent| agent.webhooks.as_slice()).unwrap_or_default();
    webhooks.iter().map(|(url, _)| (ItemId::new(engine.fresh("hook")), url.clone())).collect()
}

/// The agent of a session. One that is gone, or makes no sense any more, has no webhooks; its sessions go on.
pub async fn owner(
    engine: &Engine,
    registry: &Registry,
    session: &SessionId,
) -> Result<Option<(AgentId, Option<Arc<Agent>>)>, EngineError> {
    let found = engine.store().load(session, Needs::default()).await?.session;
    let Some(agent) = found.and_then(|session| session.agent) else { return Ok(None) };
    let known = registry.get(&agent).await.ok().flatten();
    Ok(Some((agent, known)))
}

/// Carries out what must not be lost, however often that has to be tried; once more when the server stops.
pub async fn write(engine: &Engine, session: &SessionId, command: Command, stop: &CancellationToken) {
    while let Err(error) = engine.execute(session, Call::new(command.clone())).await {
        if matches!(error, EngineError::Reject(_)) {
            return;
        }
        tracing::warn!(%error, %session, "what an agent said cannot be written; trying again");
        if stop.run_until_cancelled(engine.clock().sleep(RETRY)).await.is_none() {
            let _ = engine.execute(session, Call::new(command)).await;
            return;
        }
    }
}

/// Something said now.
pub fn said(engine: &Engine, role: Role, text: impl Into<String>) -> Utterance {
    Utterance::new(engine.fresh("said"), role, text, engine.now())
}
