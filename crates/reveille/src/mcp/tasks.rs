//! Tasks (extension of 2026-07-28): a `timer` call answered at once with the name of a task, whose result the client
//! fetches later. The task is kept with its timer; here it is put into the protocol's words.

use super::{Answer, Backend, Handler, Refusal, identity::Told, protocol::is_modern, reply};
use crate::tools::{TaskStatus, TaskView};
use reveille_core::Timestamp;
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolResult, CreateTaskResult, DetailedTask, GetTaskResult, JsonObject, MetaObject, Task, TaskPayload},
    service::RequestContext,
};
use serde_json::{Value, json};

/// Claude Code shows this to its model when the task begins; nobody else reads it.
const AGENT_TASK_META: &str = "com.anthropic/agent-task";

/// What a backend knows of a task.
pub struct TaskAnswer<R> {
    pub session: reveille_core::SessionId,
    pub task: TaskView,
    /// The stand-by's result, once there is one.
    pub result: Option<Answer<R>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskAsk {
    Read,
    Cancel,
}

/// Whether this very request may be answered with a task: it speaks 2026-07-28 and declares the extension. A client of an
/// older revision may declare it as well and cannot read the answer.
pub fn may_answer_with_task(context: &RequestContext<RoleServer>) -> bool {
    is_modern(context) && context.meta.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
}

/// The answer to a call that goes on as a task.
pub fn created(task: &TaskView, body: &Value, told: &Told, meta: Option<MetaObject>) -> CreateTaskResult {
    let mut meta = meta.unwrap_or_default();
    let note = reply::text(body, told);
    meta.insert(AGENT_TASK_META.into(), json!({ "modelImmediateResponse": note }));
    CreateTaskResult::new(described(task).with_status_message(note)).with_meta(meta)
}

fn described(task: &TaskView) -> Task {
    let iso = |at: i64| Timestamp::from_millis(at).to_iso();
    Task::new(&task.id, rmcp::model::TaskStatus::Working, iso(task.created_at), iso(task.updated_at))
        .with_ttl_ms(task.ttl_ms)
        .with_poll_interval_ms(task.poll_interval_ms)
}

impl<B: Backend> Handler<B> {
    pub(super) async fn read_task(
        &self,
        id: String,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let TaskAnswer { session, task, result } = self.ask_task(id, TaskAsk::Read, context).await?;
        let payload = match (task.status, result) {
            (TaskStatus::Cancelled, _) => TaskPayload::Cancelled,
            (TaskStatus::Completed, Some(answer)) => {
                self.backend.hand_over(context, answer.receipt);
                let told = self.identity.told(context, session)?;
                TaskPayload::Completed { result: object(&reply::complete(answer.body, &told, None)) }
            }
            (TaskStatus::Working | TaskStatus::Completed, _) => TaskPayload::Working,
        };
        Ok(GetTaskResult::new(DetailedTask::new(described(&task), payload)))
    }

    /// Whether it is there. An answer that shows nothing of it tells nothing.
    pub(super) async fn look_at_task(&self, id: String, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.ask_task(id, TaskAsk::Read, context).await.map(drop)
    }

    pub(super) async fn end_task(&self, id: String, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.ask_task(id, TaskAsk::Cancel, context).await.map(drop)
    }

    /// Others' tasks, and those long over, are not there.
    async fn ask_task(
        &self,
        id: String,
        ask: TaskAsk,
        context: &RequestContext<RoleServer>,
    ) -> Result<TaskAnswer<B::Receipt>, ErrorData> {
        let asker = self.identity.of(context).map_err(|refusal| invalid(&refusal))?;
        self.backend.task(context, asker, id, ask).await.map_err(|refusal| match refusal.code() {
            "unknown_task" | "unknown_timer" => ErrorData::invalid_params("Unknown task", None),
            "out_of_bounds" | "out_of_scope" => invalid(&refusal),
            _ => ErrorData::internal_error(refusal.detail().to_owned(), None),
        })
    }
}

fn invalid(refusal: &Refusal) -> ErrorData {
    ErrorData::invalid_params(refusal.detail().to_owned(), None)
}

fn object(result: &CallToolResult) -> JsonObject {
    match serde_json::to_value(result) {
        Ok(Value::Object(object)) => object,
        _ => unreachable!("results are objects"),
    }
}
