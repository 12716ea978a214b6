//! One turn of an agent that Reveille runs: the model is asked, the tools it wants are called, until it answers.
//!
//! A turn goes on when its client leaves: what the agent does is done, and its answer is in the conversation. One turn at
//! a time in a session; the next begins when the last one's answer is written.

use super::{
    Agent, Executor, Registry,
    executor::Asked as ToolAsked,
    lines::Lines,
    model::{self, ModelError, Spoken},
    turn::{self, TurnError},
};
use crate::engine::Engine;
use futures_util::future::join_all;
use http::HeaderMap;
use reveille_core::{
    AgentId, ItemId, Millis, Reject, SessionId, Utterance,
    call::{self, End, Made, Report},
    utterance::{self, Asked, Role},
};
use reveille_gateway::Gateway;
use serde::Serialize;
use serde_json::{Map, Value};
use std::{sync::Arc, time::Duration};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use utoipa::ToSchema;

/// Turns of one session that wait for another. More are refused: a user says one thing at a time.
const WAITING_MAX: usize = 16;
/// A tool may ask for so much patience; if it wants more, the model is told that it failed, since somebody waits.
const PATIENCE: Millis = Millis::from_secs(30);
/// What timers may have said again and again since the user was last here, and is read only to be left out. If there is nothing
/// else in it, so many times as much is read; but not more than that: a patient timer says it every five minutes for a year.
const REPEATED: usize = 1000;
const READ_MORE: usize = 10;
const READ_MAX: usize = 100_000;
/// Turns under way when the server stops have this long; then they are cut off.
const LAST_TURNS: Duration = Duration::from_secs(2);

/// Everything a turn needs.
#[derive(Clone)]
pub struct Query {
    pub engine: Arc<Engine>,
    pub registry: Arc<Registry>,
    pub executor: Arc<Executor>,
    pub gateway: Arc<Gateway>,
    pub turns: Arc<Turns>,
}

/// The turns under way.
pub struct Turns {
    lines: Lines<SessionId>,
    /// For those of all sessions. Who waits for another turn of the same session takes none.
    room: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// What happens in a turn, as it happens.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Progress {
    /// The model says more. What it says before it calls tools comes so, too.
    Delta { text: String },
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
    /// The last event of one that did not. `status`: what the upstream answered, or what stands for that.
    Failed {
        status: u16,
        code: String,
        detail: String,
        /// As the upstream has it: seconds, or a date.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after: Option<String>,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    #[error("another turn of this session is under way; wait for its answer, or ask again later")]
    Busy,
    #[error("too many turns are under way (`agents.turns`); ask again later")]
    Full,
    #[error("the server stops; ask again later")]
    Stopping,
    #[error("agent '{0}' has no `model`; it can be driven by `activity` or the gateway, not by `query`")]
    NoModel(AgentId),
    #[error(transparent)]
    Turn(#[from] TurnError),
}

impl Turns {
    /// At most `max` at once. They are run by `tasks`, until `stop`.
    pub fn new(max: usize, tasks: TaskTracker, stop: CancellationToken) -> Self {
        Self { lines: Lines::default(), room: Arc::new(Semaphore::new(max)), tasks, stop }
    }
}

impl Query {
    /// Begins a turn. It goes on by itself; what happens in it is told as long as somebody listens.
    pub async fn begin(
        self,
        id: &AgentId,
        session: SessionId,
        message: String,
        asker: Asker,
    ) -> Result<mpsc::UnboundedReceiver<Progress>, QueryError> {
        let unknown = || TurnError::Engine(Reject::UnknownAgent { agent: id.clone() }.into());
        let agent = self.registry.get(id).await.map_err(TurnError::from)?.ok_or_else(unknown)?;
        let model = agent.config.model.clone().ok_or_else(|| QueryError::NoModel(id.clone()))?;
        let turns = self.turns.clone();
        if turns.lines.standing(&session) > WAITING_MAX {
            return Err(QueryError::Busy);
        }
        let place = tokio::select! {
            biased;
            place = turns.lines.join(session.clone()) => place,
            () = self.engine.clock().sleep(agent.config.limits.turn_wait_seconds.0) => return Err(QueryError::Busy),
        };
        let room = turns.room.clone().try_acquire_owned().map_err(|_| QueryError::Full)?;
        let turn: Arc<str> = self.engine.fresh("turn").into();
        let (told, progress) = mpsc::unbounded_channel();
        let (begun, begins) = oneshot::channel();
        let run = Run {
            query: self,
            agent,
            model,
            session,
            turn,
            asker,
            told,
            said: Vec::new(),
            made: Vec::new(),
            closes: false,
        };
        // From here on it is nobody's to break off: what begins a turn and what ends it belong together.
        turns.tasks.spawn(async move {
            run.run(message, begun).await;
            drop((place, room));
        });
        begins.await.map_err(|_| QueryError::Stopping)??;
        Ok(progress)
    }
}

/// What the client of a turn has, and wants.
pub struct Asker {
    /// Its headers: where the upstream has no key of its own, the client's is used.
    pub keys: HeaderMap,
    /// It wants to hear every word as it comes.
    pub stream: bool,
}

struct Run {
    query: Query,
    agent: Arc<Agent>,
    model: String,
    session: SessionId,
    turn: Arc<str>,
    asker: Asker,
    told: mpsc::UnboundedSender<Progress>,
    /// What this turn adds to the conversation.
    said: Vec<Utterance>,
    /// What was called for it.
    made: Vec<Made>,
    closes: bool,
}

impl Run {
    async fn run(mut self, message: String, begun: oneshot::Sender<Result<(), TurnError>>) {
        let (engine, session, turn) = (self.query.engine.clone(), self.session.clone(), self.turn.clone());
        let asked = vec![turn::said(&engine, Role::User, message)];
        let registry = &self.query.registry;
        let begins = turn::begin(&engine, registry, &session, &self.agent.id, Some(turn.clone()), asked).await;
        let failed = begins.is_err();
        let _ = begun.send(begins.map(drop));
        if failed {
            return;
        }
        let answered = tokio::select! {
            answered = self.bounded() => answered,
            never = turn::keep(&engine, &session, &turn) => match never {},
        };
        let last = match &answered {
            Ok(answer) => {
                let content = answer.content.clone();
                Progress::Message { id: answer.id.to_string(), content, closed: self.closes }
            }
            Err(error) => {
                let (status, code, detail) = (error.status, error.code.into(), error.detail.clone());
                let retry_after = error.retry_after.as_ref().and_then(|value| Some(value.to_str().ok()?.to_owned()));
                Progress::Failed { status, code, detail, retry_after }
            }
        };
        let _ = self.told.send(last);
        // The client has its answer; now it is written and silence begins. What a failed turn did is written too.
        self.said.extend(answered.ok().filter(|answer| !answer.is_empty()));
        self.settle().await;
    }

    async fn settle(&mut self) {
        let Query { engine, turns, .. } = &self.query;
        let (agent, turn) = (&self.agent, Some(self.turn.clone()));
        let said = (std::mem::take(&mut self.said), std::mem::take(&mut self.made));
        let response = match self.closes {
            true => turn::last_response(engine, agent, turn, said),
            false => turn::response(engine, &agent.id, Some(agent), turn, said),
        };
        turn::write(engine, &self.session, response, &turns.stop).await;
    }

    /// The turn's work, as long as it may take.
    async fn bounded(&mut self) -> Result<Utterance, ModelError> {
        let (engine, stop) = (self.query.engine.clone(), self.query.turns.stop.clone());
        let longest = self.agent.config.limits.turn_seconds.0;
        let stopped = async {
            stop.cancelled().await;
            tokio::time::sleep(LAST_TURNS).await;
        };
        tokio::select! {
            answered = self.converse() => answered,
            () = engine.clock().sleep(longest) => {
                Err(ModelError::new(504, format!("the turn took longer than {longest} seconds (`limits.turn_seconds`)")))
            }
            () = stopped => Err(ModelError::new(503, "the server stopped in the middle of the turn")),
        }
    }

    /// What the model is given of what was said so far.
    async fn context(&self) -> Result<Vec<Utterance>, ModelError> {
        let max = self.agent.config.limits.context_messages;
        let mut limit = max + REPEATED;
        loop {
            let kept = self.query.engine.store().conversation(&self.session, limit).await;
            let kept = kept.map_err(|error| ModelError::new(503, error.to_string()))?;
            let begun = kept.iter().any(|said| said.role == Role::Beginning);
            let all = begun || kept.len() < limit || limit >= READ_MAX;
            let context = utterance::context(kept, max);
            if all || context.len() >= max {
                return Ok(context);
            }
            limit = (limit * READ_MORE).min(READ_MAX);
        }
    }

    async fn converse(&mut self) -> Result<Utterance, ModelError> {
        let mut context = self.context().await?;
        let (told, stream) = (self.told.clone(), self.asker.stream);
        let heard = move |text: &str| drop(told.send(Progress::Delta { text: text.to_owned() }));
        let heard: Option<model::Heard<'_>> = if stream { Some(&heard) } else { None };
        for round in 0..=self.agent.config.limits.tool_rounds {
            // After the last round the model has to answer with what it has.
            let tools = round < self.agent.config.limits.tool_rounds;
            let question = model::Question { agent: &self.agent, model: &self.model, said: &context, tools };
            let spoken = model::ask(&self.query.gateway, &question, &self.asker.keys, heard).await?;
            if spoken.calls.is_empty() || !tools {
                // After tools, some models have nothing to add. One that was only asked owes an answer.
                if spoken.content.trim().is_empty() && self.made.is_empty() {
                    let detail = "the model's answer is empty; ask again, or ask something else";
                    return Err(ModelError { code: "empty_answer", ..ModelError::new(502, detail) });
                }
                return Ok(turn::said(&self.query.engine, Role::Assistant, spoken.content));
            }
            context.extend(self.round(spoken).await);
        }
        Err(ModelError::new(502, "the model did not come to an answer"))
    }

    /// Calls what the model wants: system actions side by side, the others one after the other. What the model sees next.
    async fn round(&mut self, spoken: Spoken) -> Vec<Utterance> {
        for Asked { id, name, arguments } in spoken.calls.iter().cloned() {
            let _ = self.told.send(Progress::ToolCall { id, name, arguments });
        }
        let silent = |call: &Asked| self.agent.tools.get(&call.name).is_some_and(|tool| tool.silent);
        let (system, agents): (Vec<Asked>, Vec<Asked>) = spoken.calls.iter().cloned().partition(silent);
        let first = self.made.len();
        let this = &*self;
        let done = join_all(system.iter().zip(first..).map(|(call, number)| this.call(call, number))).await;
        let mut results: Vec<(Asked, Made)> = system.iter().cloned().zip(done).collect();
        // What is silent stands in no line, so neither does a turn that has nothing else to call.
        let one_by_one = match agents.is_empty() {
            true => None,
            false => Some(self.query.executor.actions(&self.session).await),
        };
        for (call, number) in agents.iter().zip(first + system.len()..) {
            results.push((call.clone(), self.call(call, number).await));
        }
        drop(one_by_one);
        self.note(spoken, results)
    }

    fn note(&mut self, spoken: Spoken, results: Vec<(Asked, Made)>) -> Vec<Utterance> {
        let engine = &self.query.engine;
        let mut asked = turn::said(engine, Role::Assistant, spoken.content);
        asked.calls = spoken.calls;
        let (mut seen, mut kept) = (vec![asked.clone()], Vec::new());
        for (call, made) in results {
            let tool = self.agent.tools.get(&call.name);
            let is_silent = tool.is_some_and(|tool| tool.silent);
            let (ok, text) = match &made.report.end {
                End::Done { result } => (true, result.clone()),
                End::Failed { error, .. } | End::Refused { error } => (false, format!("error: {error}")),
                End::Postponed { .. } => (false, "error: too much is going on; try again later".to_owned()),
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
            self.made.push(made);
        }
        // What is silent leaves no trace in the conversation; what was said beside it does.
        asked.calls.retain(|call| self.agent.tools.get(&call.name).is_none_or(|tool| !tool.silent));
        if !asked.is_empty() {
            self.said.push(asked);
            self.said.extend(kept);
        }
        seen
    }

    /// One call, tried again within the same bound as those of timers.
    async fn call(&self, call: &Asked, number: usize) -> Made {
        let engine = &self.query.engine;
        let key = format!("call_{}.{number}", self.turn);
        let made = |attempts, report| Made { id: ItemId::new(&*key), tool: call.name.clone(), attempts, report };
        let arguments: Map<String, Value> = match call.arguments.trim() {
            "" => Map::new(),
            text => match serde_json::from_str(text) {
                Ok(arguments) => arguments,
                Err(error) => {
                    let error = format!("the arguments are not a JSON object: {error}");
                    return made(0, Report { status: None, took: Millis::ZERO, end: End::Refused { error } });
                }
            },
        };
        let asked =
            ToolAsked { session: &self.session, tool: &call.name, arguments: &arguments, key: &key, timer: None };
        for attempt in 1.. {
            let until = engine.now().plus(engine.limits().call_lease);
            let report = self.query.executor.tool(&self.agent, &asked, until).await;
            engine.metrics.tool_called(&self.agent.id, &report);
            let wait = match &report.end {
                End::Failed { retry_after, .. } => {
                    let asked = retry_after.unwrap_or_default();
                    call::tool_backoff(attempt, engine.limits()).map(|backoff| backoff.max(asked))
                }
                _ => None,
            };
            match wait.filter(|wait| *wait <= PATIENCE) {
                Some(wait) => engine.clock().sleep(wait).await,
                None => return made(attempt, report),
            }
        }
        unreachable!("the loop ends with its last attempt")
    }
}
