//! The MCP door. One handler speaks the protocol, in its older revisions (`initialize`) and in 2026-07-28 (stateless), to
//! two kinds of server behind it: the engine itself at `/mcp` ([`http`]), and a daemon somewhere else from
//! `reveille mcp` ([`bridge`]). No rules of timers are here, and nothing else of Reveille knows the protocol.

pub mod bridge;
mod cancel;
mod catalogue;
mod clients;
mod exchange;
mod handler;
pub mod http;
mod identity;
mod local;
mod message;
mod protocol;
mod reply;
mod standby;
mod tasks;

pub use clients::StandbyLimits;
pub use handler::Handler;
pub use identity::{FRESH_PREFIX, Identity};
pub use local::Local;
pub use tasks::{TaskAnswer, TaskAsk};

use crate::tools::{TaskView, Tool};
use reveille_core::{Millis, SessionId};
use rmcp::{RoleServer, model::RequestId, service::RequestContext};
use serde_json::{Map, Value};

/// One tool call, as the handler understood it.
#[derive(Clone, Debug)]
pub struct Call {
    pub session: SessionId,
    /// What the agent's program calls itself.
    pub client: Option<String>,
    pub tool: Tool,
    pub arguments: Map<String, Value>,
    pub standby_max: Millis,
    /// The client takes a task for an answer.
    pub task: bool,
}

/// A tool's result, and what has been delivered once it is written.
pub struct Answer<R> {
    pub body: Value,
    pub receipt: R,
    /// The call goes on as this task.
    pub task: Option<TaskView>,
}

/// Why a tool refused, for the model to read: `code`, `detail` and what else the problem says.
#[derive(Debug)]
pub struct Refusal(pub Map<String, Value>);

/// What carries calls out. Dropping the future of a call is leaving it; its timer goes on.
pub trait Backend: Clone + Send + Sync + 'static {
    /// The right to say that the messages in an answer were delivered. Dropped, they are not.
    type Receipt: Send;

    fn call(&self, call: Call) -> impl Future<Output = Result<Answer<Self::Receipt>, Refusal>> + Send;

    /// `asker`: the session the client belongs to, if that is known; else whose the task is says whether it may ask.
    fn task(
        &self,
        context: &RequestContext<RoleServer>,
        asker: Option<SessionId>,
        id: String,
        ask: TaskAsk,
    ) -> impl Future<Output = Result<TaskAnswer<Self::Receipt>, Refusal>> + Send;

    /// The answer is about to be written; whoever writes it finds the receipt by the request.
    fn hand_over(&self, context: &RequestContext<RoleServer>, receipt: Self::Receipt);

    /// A call that may stand by has begun and no progress can be sent: whatever shows the client a sign of life.
    fn begun(&self, context: &RequestContext<RoleServer>);

    /// Whether this client may use this session.
    fn admit(
        &self,
        context: &RequestContext<RoleServer>,
        session: &SessionId,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, session);
        async { Ok(()) }
    }

    /// A client of this session is there.
    fn met(&self, session: &SessionId) {
        let _ = session;
    }

    /// The client no longer wants the answer to this request.
    fn cancelled(&self, request: &RequestId) {
        let _ = request;
    }
}

impl Refusal {
    pub fn new(code: &str, detail: impl Into<String>) -> Self {
        Self(Map::from_iter([("code".into(), code.into()), ("detail".into(), detail.into().into())]))
    }

    /// A problem of the HTTP API. What is only about HTTP is left out.
    pub fn of(mut problem: Map<String, Value>) -> Self {
        for field in ["type", "title", "status"] {
            problem.remove(field);
        }
        Self(problem)
    }

    pub fn code(&self) -> &str {
        self.0.get("code").and_then(Value::as_str).unwrap_or_default()
    }

    pub fn detail(&self) -> &str {
        self.0.get("detail").and_then(Value::as_str).unwrap_or("the call was refused")
    }
}
