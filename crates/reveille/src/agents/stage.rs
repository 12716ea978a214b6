//! Model calls through the gateway that name their agent drive its session's timers: a request suspends them, the end of
//! its answer arms them. A call is never refused because of that.
//!
//! Calls of one session that overlap are one turn. What is written for it is written by one task, in order, which lives
//! as long as the turn does: no call that is given up half way leaves anything undone, and none overtakes another.

use super::{Registry, turn};
use crate::engine::Engine;
use async_trait::async_trait;
use reveille_core::{AgentId, Reject, SessionId};
use reveille_gateway::{Draft, Fault, Finish, Interest, Next, Seen, SessionHint, Source, Stage, Turn, Visit};
use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What a request with results of tools has in it, in one protocol or another.
const RESULTS: [&[u8]; 3] = [b"tool_call_id", b"tool_result", b"function_call_output"];

#[derive(Clone)]
pub struct SessionStage(Arc<Shared>);

struct Shared {
    engine: Arc<Engine>,
    registry: Arc<Registry>,
    tasks: TaskTracker,
    stop: CancellationToken,
    open: Mutex<HashMap<SessionId, Open>>,
}

/// The turn of a session that is under way.
struct Open {
    name: Arc<str>,
    /// Calls to the model under way.
    calls: usize,
    /// Answers that wanted tools called: until the model hears of those, whoever called it works on.
    owed: usize,
    steps: mpsc::UnboundedSender<Step>,
}

/// What happens in a turn, in this order.
enum Step {
    /// The model is called, because somebody asked or because it goes on by itself; tells when the timers are suspended.
    Called { agent: AgentId, asked: bool, suspended: oneshot::Sender<()> },
    /// Nobody calls it now, and it has nothing to be answered: the turn is over.
    Over { agent: AgentId },
    /// Nobody calls it now, but somebody will.
    Left,
}

impl SessionStage {
    /// What it writes is written by `tasks`, until `stop`.
    pub fn new(engine: Arc<Engine>, registry: Arc<Registry>, tasks: TaskTracker, stop: CancellationToken) -> Self {
        Self(Arc::new(Shared { engine, registry, tasks, stop, open: Mutex::default() }))
    }
}

/// What a call calls its agent's session. The answer before it is no such name: it is another one in every turn.
pub fn session_named(hint: Option<&SessionHint>) -> Option<Result<SessionId, Reject>> {
    let hint = hint.filter(|hint| hint.source != Source::PreviousResponse)?;
    Some(SessionId::parse(&hint.id))
}

impl Stage for SessionStage {
    fn enter(&self, turn: &Turn) -> Option<Box<dyn Visit>> {
        let (agent, session) = (turn.agent.as_deref()?, session_named(turn.session.as_ref())?);
        match (AgentId::parse(agent), session) {
            (Ok(agent), Ok(session)) => Some(Box::new(Working {
                shared: self.0.clone(),
                agent,
                session,
                side: turn.side,
                subagent: turn.subagent,
                aside: false,
                begun: false,
                wants_tools: false,
            })),
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
    /// It has no tools.
    side: bool,
    /// It is a sub-agent's: whoever started that waits for it, and the turn is over when that one has answered.
    subagent: bool,
    /// It is no part of the conversation.
    aside: bool,
    begun: bool,
    /// The model wants tools called.
    wants_tools: bool,
}

#[async_trait]
impl Visit for Working {
    async fn before_request(&mut self, draft: &mut Draft) -> Result<Interest, Fault> {
        self.aside = self.subagent || self.side && !RESULTS.iter().any(|mark| draft.mentions(mark));
        self.suspend(true).await;
        Ok(Interest::Stay)
    }

    /// The answer is out, and silence begins: whoever holds the turn only waits.
    fn on_hold(&mut self) {
        self.wants_tools = false;
        self.end();
    }

    async fn on_resume(&mut self) {
        self.suspend(false).await;
    }

    async fn on_finish(&mut self, seen: &Seen) -> Next {
        self.wants_tools = !self.subagent && seen.finish == Some(Finish::ToolCalls);
        Next::End
    }
}

impl Working {
    async fn suspend(&mut self, asked: bool) {
        let (suspended, known) = oneshot::channel();
        self.begun = true;
        self.shared.called(&self.session, self.aside, Step::Called { agent: self.agent.clone(), asked, suspended });
        // Nothing can fire from here on; should the task be gone, so is the server. While the store is away nothing can
        // fire either.
        self.shared.engine.if_ready("session", known).await;
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.begun) {
            self.shared.ended(&self.session, &self.agent, self.wants_tools);
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn called(self: &Arc<Self>, session: &SessionId, aside: bool, step: Step) {
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = all.entry(session.clone()).or_insert_with(|| {
            let (steps, taken) = mpsc::unbounded_channel();
            let name: Arc<str> = self.engine.fresh("turn").into();
            self.tasks.spawn(live(self.clone(), session.clone(), name.clone(), taken));
            Open { name, calls: 0, owed: 0, steps }
        });
        // What is asked aside, a title or a summary, or by a sub-agent, is no part of the conversation. If nothing else is under way, the
        // conversation goes on, whatever became of the tools before.
        open.owed = match (aside, open.calls) {
            (true, _) => open.owed,
            (false, 0) => 0,
            (false, _) => open.owed.saturating_sub(1),
        };
        open.calls += 1;
        let _ = open.steps.send(step);
    }

    fn ended(&self, session: &SessionId, agent: &AgentId, wants_tools: bool) {
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = all.get_mut(session) else { return };
        open.calls -= 1;
        open.owed += usize::from(wants_tools);
        if open.calls > 0 {
            return;
        }
        if open.owed > 0 {
            let _ = open.steps.send(Step::Left);
            return;
        }
        // The next call is another turn; it goes its own way, and this one's answer cannot be taken for its.
        if let Some(open) = all.remove(session) {
            let _ = open.steps.send(Step::Over { agent: agent.clone() });
        }
    }

    /// Nobody came back for what was owed, and nothing is under way: the turn is no longer known here.
    fn forget(&self, session: &SessionId, name: &Arc<str>) -> bool {
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = all.get(session).is_some_and(|open| open.calls == 0 && open.name == *name);
        if idle {
            all.remove(session);
        }
        idle
    }
}

/// One turn, from its first call to its answer.
async fn live(shared: Arc<Shared>, session: SessionId, name: Arc<str>, mut steps: mpsc::UnboundedReceiver<Step>) {
    let Shared { engine, registry, stop, .. } = &*shared;
    let mut working = true;
    loop {
        let step = {
            let mut kept = pin!(turn::keep(engine, &session, &name));
            let mut given_up = engine.clock().sleep(engine.limits().turn);
            tokio::select! {
                biased;
                step = steps.recv() => step,
                never = &mut kept, if working => match never {},
                () = &mut given_up, if !working => {
                    if shared.forget(&session, &name) {
                        return;
                    }
                    continue;
                }
                // What still runs is cut off; its suspension runs out by itself.
                () = stop.cancelled() => return,
            }
        };
        match step {
            Some(Step::Called { agent, asked, suspended }) => {
                working = true;
                let begun = if asked {
                    let begun = turn::begin(engine, registry, &session, &agent, Some(name.clone()), Vec::new()).await;
                    begun.map(drop)
                } else {
                    turn::go_on(engine, &session, &agent, name.clone()).await
                };
                if let Err(error) = begun {
                    tracing::warn!(%error, %session, %agent, "the session's timers do not follow this call");
                }
                let _ = suspended.send(());
            }
            Some(Step::Left) => working = false,
            Some(Step::Over { agent }) => {
                let response = turn::response(engine, &agent, None, Some(name.clone()), Default::default());
                return turn::write(engine, &session, response, stop).await;
            }
            None => return,
        }
    }
}
