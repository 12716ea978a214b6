//! Calls carried out by the engine in this process.

use super::{Answer, Backend, Call, Refusal, TaskAnswer, TaskAsk, exchange::Slot};
use crate::{
    engine::{Delivery, Engine, EngineError},
    http::{problem::ApiError, sight::Sight},
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
            in_turn: None,
            stop: &self.stop,
        };
        let reply = call.run().await.map_err(|error| self.refusal(error))?;
        let body = serde_json::to_value(&reply.body).expect("results are representable as JSON");
        Ok(Answer { body, receipt: reply.deliveries, task: reply.task })
    }

    async fn task(
        &self,
        context: &RequestContext<RoleServer>,
        asker: Option<SessionId>,
        id: String,
        ask: TaskAsk,
    ) -> Result<TaskAnswer<Self::Receipt>, Refusal> {
        let owner = match &asker {
            Some(_) => asker.clone(),
            None => self.engine.owner_of_task(&id).await.map_err(|error| self.refusal(error.into()))?,
        };
        if let Some(owner) = owner {
            self.admit(context, &owner).await?;
        }
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

    async fn admit(&self, context: &RequestContext<RoleServer>, session: &SessionId) -> Result<(), Refusal> {
        let Some(parts) = context.extensions.get::<Parts>() else { return Ok(()) };
        let mut sight = Sight::new(self.engine.clone(), &parts.extensions);
        sight.demand(session).await.map_err(refusal)
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
        refusal(ApiError::of(error, self.engine.now()))
    }
}

fn refusal(error: ApiError) -> Refusal {
    match serde_json::to_value(error.into_problem()).expect("representable as JSON") {
        Value::Object(problem) => Refusal::of(problem),
        _ => unreachable!("problems are objects"),
    }
}

/// The exchange over HTTP that this request came by.
fn slot(context: &RequestContext<RoleServer>) -> Option<&Slot> {
    context.extensions.get::<Parts>()?.extensions.get::<Arc<Slot>>().map(Arc::as_ref)
}
