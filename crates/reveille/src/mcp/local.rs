//! Calls carried out by the engine in this process.

use super::{Answer, Backend, Call, Refusal, TaskAnswer, TaskAsk, exchange::Slot};
use crate::{
    engine::{Delivery, Engine, EngineError},
    http::problem::ApiError,
    tools::ToolCall,
};
use axum::http::request::Parts;
use reveille_core::SessionId;
use rmcp::{RoleServer, service::RequestContext};
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub struct Local {
    pub engine: Arc<Engine>,
    pub stop: CancellationToken,
}

impl Backend for Local {
    type Receipt = Vec<Arc<Delivery>>;

    async fn call(&self, call: Call) -> Result<Answer<Self::Receipt>, Refusal> {
        let call = ToolCall {
            engine: &self.engine,
            session: call.session,
            tool: call.tool,
            arguments: Value::Object(call.arguments),
            idempotency_key: None,
            client: call.client,
            standby_max: Some(call.standby_max),
            task: call.task,
            holds: false,
            stop: &self.stop,
        };
        let reply = call.run().await.map_err(|error| self.refusal(error))?;
        let body = serde_json::to_value(&reply.body).expect("results are representable as JSON");
        Ok(Answer { body, receipt: reply.deliveries, task: reply.task })
    }

    async fn task(
        &self,
        asker: Option<SessionId>,
        id: String,
        ask: TaskAsk,
    ) -> Result<TaskAnswer<Self::Receipt>, Refusal> {
        let asked = match ask {
            TaskAsk::Read => self.engine.read_task(asker.as_ref(), &id).await,
            TaskAsk::Cancel => self.engine.cancel_task(asker.as_ref(), &id).await,
        };
        let reply = asked.map_err(|error| self.refusal(error))?;
        let result = reply.result.map(|result| Answer {
            body: serde_json::to_value(result).expect("results are representable as JSON"),
            receipt: reply.deliveries,
            task: None,
        });
        Ok(TaskAnswer { session: reply.session, task: reply.task, result })
    }

    fn hand_over(&self, context: &RequestContext<RoleServer>, receipt: Self::Receipt) {
        if let Some(slot) = slot(context) {
            slot.fill(receipt);
        }
    }

    fn begun(&self, context: &RequestContext<RoleServer>) {
        if let Some(slot) = slot(context) {
            slot.begin();
        }
    }
}

impl Local {
    fn refusal(&self, error: EngineError) -> Refusal {
        let problem = ApiError::of(error, self.engine.now()).into_problem();
        match serde_json::to_value(problem).expect("representable as JSON") {
            Value::Object(problem) => Refusal::of(problem),
            _ => unreachable!("problems are objects"),
        }
    }
}

/// The exchange over HTTP that this request came by.
fn slot(context: &RequestContext<RoleServer>) -> Option<&Slot> {
    context.extensions.get::<Parts>()?.extensions.get::<Arc<Slot>>().map(Arc::as_ref)
}
