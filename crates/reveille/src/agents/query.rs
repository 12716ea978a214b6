//! One turn of an agent that Reveille runs: the model is asked, the tools it wants are called, until it answers.
//!
//! A turn goes on when its client leaves: what the agent does is done, and its answer is in the conversation. One turn at
//! a time in a session; the next begins when the last one's answer is written.

use super::{
    Agent, Executor, Registry,
    executor::Asked as ToolAsked,
    model::{self, ModelError, Spoken},
    turn::{self, TurnError},
};
use crate::engine::Engine;
use futures_util::future::join_all;
use http::HeaderMap;
use reveille_core::{
    AgentId, Call, Command, Millis, Reject, SessionId, Utterance,
    call::{End, Report},
    utterance::{Asked, Role},
};
use reveille_gateway::Gateway;
use serde::Serialize;
use serde_json::{Map, Value};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, mpsc};
use utoipa::ToSchema;

/// Until an answer that could not be written is tried again.
const RETRY: Millis = Millis::from_secs(1);

/// Everything a turn needs.
#[derive(Clone)]
pub struct Query {
    pub engine: Arc<Engine>,
    pub registry: Arc<Registry>,
    pub executor: Arc<Executor>,
    pub gateway: Arc<Gateway>,
    pub turns: Arc<Turns>,
}

/// Which sessions have a turn under way.
#[derive(Default)]
pub struct Turns(Mutex<HashMap<SessionId, Weak<AsyncMutex<()>>>>);

/// What happens in a turn, as it happens.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Progress {
    /// The model wants a tool called.
    ToolCall { id: String, name: String, arguments: String },
    /// It was called; of system actions only whether that worked.
    ToolResult {
        id: String,
        name: String,
        ok: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<String>,
    },
    /// The agent's answer: the last event of a turn that worked.
    Message { id: String, content: String, closed: bool },
    /// The last event of one that did not.
    Failed { status: u16, code: String, detail: String },
}

#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    #[error("another turn of this session is under way; wait for its answer, or ask again later")]
    Busy,
    #[error("agent '{0}' has no `model`; it can be driven by `activity` or the gateway, not by `query`")]
    NoModel(AgentId),
    #[error(transparent)]
    Turn(#[from] TurnError),
}

impl Turns {
    fn of(&self, session: &SessionId) -> Arc<AsyncMutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(session).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(AsyncMutex::new(()));
        turns.insert(session.clone(), Arc::downgrade(&turn));
        turn
    }
}

impl Query {
    /// Begins a turn. It goes on by itself; what happens in it is told as long as somebody listens.
    pub async fn begin(
        self,
        id: &AgentId,
        session: SessionId,
        message: String,
        keys: HeaderMap,
    ) -> Result<mpsc::UnboundedReceiver<Progress>, QueryError> {
        let unknown = || TurnError::Engine(Reject::UnknownAgent { agent: id.clone() }.into());
        let agent = self.registry.get(id).await.map_err(TurnError::from)?.ok_or_else(unknown)?;
        let model = agent.config.model.clone().ok_or_else(|| QueryError::NoModel(id.clone()))?;
        let place = self.turns.of(&session);
        let wait = agent.config.limits.turn_wait_seconds.0;
        let place = match place.clone().try_lock_owned() {
            Ok(place) => place,
            Err(_) => tokio::select! {
                place = place.lock_owned() => place,
                () = self.engine.clock().sleep(wait) => return Err(QueryError::Busy),
            },
        };
        let turn: Arc<str> = self.engine.fresh("turn").into();
        let asked = vec![turn::said(&self.engine, Role::User, message)];
        turn::begin(&self.engine, &self.registry, &session, id, Some(turn.clone()), asked).await?;
        let (told, progress) = mpsc::unbounded_channel();
        let run =
            Run { query: self, agent, model, session, turn, keys, told, said: Vec::new(), closes: false, calls: 0 };
        tokio::spawn(run.run(place));
        Ok(progress)
    }
}

struct Run {
    query: Query,
    agent: Arc<Agent>,
    model: String,
    session: SessionId,
    turn: Arc<str>,
    keys: HeaderMap,
    told: mpsc::UnboundedSender<Progress>,
    /// What this turn adds to the conversation.
    said: Vec<Utterance>,
    closes: bool,
    calls: u32,
}

impl Run {
    async fn run(mut self, place: OwnedMutexGuard<()>) {
        let answered = self.converse().await;
        let last = match &answered {
            Ok(answer) => {
                let content = answer.content.clone();
                Progress::Message { id: answer.id.to_string(), content, closed: self.closes }
            }
            Err(error) => {
                let (status, detail) = (error.status, error.detail.clone());
                Progress::Failed { status, code: "model_failed".into(), detail }
            }
        };
        let _ = self.told.send(last);
        // The client has its answer; now it is written and silence begins. What a failed turn did is written too.
        self.said.extend(answered.ok());
        self.settle().await;
        drop(place);
    }

    async fn settle(&mut self) {
        let engine = &self.query.engine;
        let (turn, said) = (Some(self.turn.clone()), std::mem::take(&mut self.said));
        let mut commands = vec![turn::response(engine, Some(&self.agent), turn, said)];
        if self.closes {
            commands.push(Command::Close { note: Some("the agent closed it".into()) });
        }
        for command in commands {
            while let Err(error) = engine.execute(&self.session, Call::new(command.clone())).await {
                if matches!(error, crate::engine::EngineError::Reject(_)) {
                    break;
                }
                tracing::warn!(%error, session = %self.session, "an answer cannot be written; trying again");
                engine.clock().sleep(RETRY).await;
            }
        }
    }

    async fn converse(&mut self) -> Result<Utterance, ModelError> {
        let max = self.agent.config.limits.context_messages;
        let kept = self.query.engine.store().conversation(&self.session, max).await;
        let mut context = kept.map_err(|error| ModelError { status: 503, detail: error.to_string() })?;
        for round in 0..=self.agent.config.limits.tool_rounds {
            // After the last round the model has to answer with what it has.
            let tools = round < self.agent.config.limits.tool_rounds;
            let spoken = model::ask(&self.query.gateway, &self.agent, &self.model, &context, tools, &self.keys).await?;
            if spoken.calls.is_empty() || !tools {
                return Ok(turn::said(&self.query.engine, Role::Assistant, spoken.content));
            }
            context.extend(self.round(spoken).await);
        }
        Err(ModelError { status: 502, detail: "the model did not come to an answer".into() })
    }

    /// Calls what the model wants: system actions side by side, the others one after the other. What the model sees next.
    async fn round(&mut self, spoken: Spoken) -> Vec<Utterance> {
        for Asked { id, name, arguments } in spoken.calls.iter().cloned() {
            let _ = self.told.send(Progress::ToolCall { id, name, arguments });
        }
        let silent = |call: &Asked| self.agent.tools.get(&call.name).is_some_and(|tool| tool.silent);
        let (system, agents): (Vec<Asked>, Vec<Asked>) = spoken.calls.iter().cloned().partition(silent);
        let first = self.calls;
        self.calls += spoken.calls.len() as u32;
        let this = &*self;
        let done = join_all(system.iter().zip(first..).map(|(call, number)| this.call(call, number))).await;
        let mut results: Vec<(Asked, Report)> = system.iter().cloned().zip(done).collect();
        let turn = self.query.executor.turn(&self.session);
        let one_by_one = turn.lock().await;
        for (call, number) in agents.iter().zip(first + system.len() as u32..) {
            results.push((call.clone(), self.call(call, number).await));
        }
        drop(one_by_one);
        self.note(spoken, &results)
    }

    fn note(&mut self, spoken: Spoken, results: &[(Asked, Report)]) -> Vec<Utterance> {
        let engine = &self.query.engine;
        let mut asked = turn::said(engine, Role::Assistant, spoken.content);
        asked.calls = spoken.calls;
        let (mut seen, mut kept) = (vec![asked.clone()], Vec::new());
        for (call, report) in results {
            let tool = self.agent.tools.get(&call.name);
            let is_silent = tool.is_some_and(|tool| tool.silent);
            let (ok, text) = match &report.end {
                End::Done { result } => (true, result.clone()),
                End::Failed { error, .. } | End::Refused { error } => (false, format!("error: {error}")),
                End::Postponed => (false, "error: too much is going on; try again later".to_owned()),
            };
            self.closes |= ok && tool.is_some_and(|tool| tool.closes);
            let (id, name) = (call.id.clone(), call.name.clone());
            let shown = (!is_silent).then(|| text.clone());
            let _ = self.told.send(Progress::ToolResult { id, name, ok, result: shown });
            // The protocol wants a result for every call; of a system action that is all there is to know.
            let told = if is_silent && ok { "ok".to_owned() } else { text };
            let mut result = turn::said(engine, Role::Tool, told);
            result.answers = Some(call.id.clone());
            if !is_silent {
                kept.push(result.clone());
            }
            seen.push(result);
        }
        // What is silent leaves no trace in the conversation.
        asked.calls.retain(|call| self.agent.tools.get(&call.name).is_none_or(|tool| !tool.silent));
        if !asked.calls.is_empty() {
            self.said.push(asked);
            self.said.extend(kept);
        }
        seen
    }

    /// One call, tried again within the same bound as those of timers.
    async fn call(&self, call: &Asked, number: u32) -> Report {
        let engine = &self.query.engine;
        let arguments: Map<String, Value> = match call.arguments.trim() {
            "" => Map::new(),
            text => match serde_json::from_str(text) {
                Ok(arguments) => arguments,
                Err(error) => {
                    let error = format!("the arguments are not a JSON object: {error}");
                    return Report { status: None, took: Millis::ZERO, end: End::Refused { error } };
                }
            },
        };
        let key = format!("call_{}.{number}", self.turn);
        let asked =
            ToolAsked { session: &self.session, tool: &call.name, arguments: &arguments, key: &key, timer: None };
        let mut backoff = RETRY;
        for attempt in 1.. {
            let report = self.query.executor.tool(&self.agent, &asked, None).await;
            engine.metrics.tool_called(&self.agent.id, &report);
            match &report.end {
                End::Failed { .. } if attempt < engine.limits().call_attempts_max => {
                    engine.clock().sleep(backoff).await;
                    backoff = backoff.plus(backoff);
                }
                _ => return report,
            }
        }
        unreachable!("the loop ends with its last attempt")
    }
}
