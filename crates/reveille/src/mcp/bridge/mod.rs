//! `reveille mcp`: MCP over stdio, carried out by a daemon over its HTTP API. The daemon is started with the bridge if
//! none runs, and left running, so that timers outlive the agent. Nothing is kept here: a bridge that dies loses nothing.

mod attempt;
mod daemon;
mod lines;
mod presence;
mod receipt;
mod transport;

pub use daemon::Daemon;

use super::{Answer, Backend, Call, Handler, Identity, Refusal, StandbyLimits, TaskAnswer, TaskAsk, identity};
use crate::tools::TaskView;
use attempt::Attempts;
use daemon::Lost;
use lines::Lines;
use presence::Held;
use receipt::{Leases, Written};
use reveille_core::SessionId;
use rmcp::{
    RoleServer,
    model::RequestId,
    service::{RequestContext, ServerInitializeError, serve_server_with_ct},
    transport::stdio,
};
use serde::Deserialize;
use serde_json::Value;
use std::{env, sync::Arc, time::Duration};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use transport::Receipted;

/// How often a call is sent again to a daemon that was lost in the middle of it.
const TRIES_MAX: usize = 5;
/// Deliveries that were written just before the end are still committed, if the daemon takes no longer than this.
const LAST_COMMITS: Duration = Duration::from_secs(2);

#[derive(Clone)]
struct Bridge {
    daemon: Arc<Daemon>,
    written: Arc<Written>,
    settling: TaskTracker,
    held: Held,
}

/// Serves the client at stdin and stdout until it closes them.
pub async fn serve(daemon: Daemon, session: Option<SessionId>, limits: StandbyLimits) -> anyhow::Result<()> {
    let inherited = env::var("CLAUDE_CODE_SESSION_ID").ok().and_then(|name| SessionId::parse(&name).ok());
    let identity = Identity { given: session, inherited, connection: Some(identity::fresh()) };
    let written = Arc::new(Written::default());
    let daemon = Arc::new(daemon);
    let starting = daemon.clone();
    // Hooks look for it before the first call; a call that cannot have it says why.
    let started = CancellationToken::new();
    let held = Held::new(daemon.clone(), started.clone());
    tokio::spawn(async move {
        drop(starting.revive().await);
        started.cancel();
        starting.look_at_version().await;
    });
    let bridge = Bridge { daemon, written: written.clone(), settling: TaskTracker::new(), held };
    let (settling, stop) = (bridge.settling.clone(), CancellationToken::new());
    let handler = Handler { backend: bridge, identity, limits: Arc::new(limits), stop: stop.clone() };
    let (stdin, stdout) = stdio();
    let transport = Receipted::new(Lines::new(stdin, stdout), written, stop.clone());
    match serve_server_with_ct(handler, transport, CancellationToken::new()).await {
        Ok(running) => drop(running.waiting().await?),
        Err(ServerInitializeError::ConnectionClosed(_)) => {}
        Err(error) => return Err(error.into()),
    }
    settling.close();
    let _ = tokio::time::timeout(LAST_COMMITS, settling.wait()).await;
    Ok(())
}

impl Backend for Bridge {
    type Receipt = Leases;

    async fn call(&self, call: Call) -> Result<Answer<Leases>, Refusal> {
        let mut attempts = Attempts::new(call);
        for _ in 0..TRIES_MAX {
            match self.daemon.send(attempts.request()).await {
                Ok(answer) => return self.answered(&attempts, answer).await,
                Err(Lost::BeforeSending) => {}
                Err(Lost::AfterSending) => attempts.unanswered = true,
            }
            self.daemon.revive().await?;
        }
        Err(lost())
    }

    async fn task(
        &self,
        _: &RequestContext<RoleServer>,
        asker: Option<SessionId>,
        id: String,
        ask: TaskAsk,
    ) -> Result<TaskAnswer<Leases>, Refusal> {
        for _ in 0..TRIES_MAX {
            // Asking twice changes nothing, whatever became of the first time.
            if let Ok(answer) = self.daemon.task(asker.as_ref(), &id, ask).await {
                return self.task_answered(answer?);
            }
            self.daemon.revive().await?;
        }
        Err(lost())
    }

    fn hand_over(&self, context: &RequestContext<RoleServer>, receipt: Leases) {
        self.written.expect(context.id.clone(), receipt);
    }

    fn begun(&self, _: &RequestContext<RoleServer>) {} // stdio has no head that could be late

    fn met(&self, session: &SessionId) {
        self.held.hold(session);
    }

    fn cancelled(&self, request: &RequestId) {
        drop(self.written.take(request));
    }
}

fn lost() -> Refusal {
    Refusal::new("daemon_lost", "the Reveille daemon was lost again and again; its timers are kept. Try again")
}

/// What the daemon says of a task.
#[derive(Deserialize)]
struct TaskSaid {
    session: SessionId,
    task: TaskView,
    result: Option<Value>,
    #[serde(default)]
    leases: Vec<String>,
    #[serde(default)]
    channels: Vec<String>,
}

impl Bridge {
    fn task_answered(&self, body: Value) -> Result<TaskAnswer<Leases>, Refusal> {
        let said: TaskSaid = serde_json::from_value(body)
            .map_err(|error| Refusal::new("unexpected_answer", format!("the daemon answered strangely: {error}")))?;
        let TaskSaid { session, task, result, leases, channels } = said;
        let receipt = Leases::new(self.daemon.clone(), self.settling.clone(), session.clone(), leases, channels);
        Ok(TaskAnswer { session, task, result: result.map(|body| Answer { body, receipt, task: None }) })
    }

    async fn answered(&self, attempts: &Attempts, answer: Result<Value, Refusal>) -> Result<Answer<Leases>, Refusal> {
        let answer = match answer {
            Err(refusal) if attempts.is_done_already(&refusal) => self.read(attempts).await?,
            answer => answer?,
        };
        let (mut body, session) = (answer, attempts.call.session.clone());
        self.held.hold(&session);
        let mut names = |field: &str| -> Vec<String> {
            let names = body.as_object_mut().and_then(|body| body.remove(field));
            serde_json::from_value(names.unwrap_or_default()).unwrap_or_default()
        };
        let (leases, channels) = (names("leases"), names("channels"));
        let task = body.as_object_mut().and_then(|body| body.remove("task"));
        let task = task.and_then(|task| serde_json::from_value(task).ok());
        let receipt = Leases::new(self.daemon.clone(), self.settling.clone(), session, leases, channels);
        Ok(Answer { body, receipt, task })
    }

    /// How things stand after a command that was carried out, whose own answer nobody got.
    async fn read(&self, attempts: &Attempts) -> Result<Value, Refusal> {
        let Ok(read) = self.daemon.send(attempts.read()).await else {
            return Err(Refusal::new(
                "daemon_lost",
                "the Reveille daemon was lost; read_timer tells how the timer stands",
            ));
        };
        Ok(attempts.answer(read?))
    }
}
