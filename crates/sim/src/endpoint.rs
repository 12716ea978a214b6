//! Tools and webhooks of the agents: slow, broken, deaf, or done with the work and unable to say so.

use crate::{
    gate::Gate,
    random::{Drawn, Random},
    trace::{Event, Process, Trace},
    weather::Weather,
    world::World,
};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use reveille::{
    agents::AgentConfig,
    outgoing::{Answered, Carrier, Fault},
    reach::Reach,
};
use reveille_core::{AgentId, Millis};
use serde_json::json;
use std::{sync::Arc, time::Duration};

pub const AGENT: (&str, &str) = ("acme", "客服");

/// Signs what nobody gets.
const SECRET: &str = concat!("${file:", env!("CARGO_MANIFEST_DIR"), "/webhook.secret}");
/// Longer than any endpoint is waited for.
const SLOW_MS: u64 = 30_000;

pub fn agent() -> AgentId {
    AgentId::new(format!("{}:{}", AGENT.0, AGENT.1))
}

/// One agent with timers of every kind.
pub fn agents() -> Vec<(String, AgentConfig)> {
    let config = json!({
        "tenant": AGENT.0, "chatbot": AGENT.1,
        "tools": [
            {"name": "ping", "endpoint": {"url": "http://tools.test/ping", "timeout": "4s"}},
            {"name": "look", "endpoint": {"url": "http://tools.test/look", "timeout": "6s"}},
            {"name": "close_conversation"},
        ],
        "system_actions": ["ping"], "agent_actions": ["look"],
        "timers": [
            {"timer_id": "nudge", "delay_seconds": 3, "max_triggers": 2, "reset": "on_message",
             "tool_name": "generate_response", "message": "还在吗？🙂"},
            {"timer_id": "ping", "delay_seconds": 4, "max_triggers": 3, "tool_name": "ping"},
            {"timer_id": "look", "delay_seconds": 5, "max_triggers": 2, "tool_name": "look"},
            {"timer_id": "close", "delay_seconds": 25, "max_triggers": 1, "tool_name": "close_conversation"},
        ],
        "webhooks": [{"url": "http://hooks.test/", "secret": SECRET}],
    });
    vec![("sim".to_owned(), serde_json::from_value(config).expect("a valid form"))]
}

pub struct Endpoints {
    by: Process,
    gate: Gate,
    world: Arc<World>,
    random: Drawn,
}

/// How a request fares.
enum Fate {
    Works(StatusCode),
    /// Its answer is lost on the way back.
    WorksUnheard,
    /// It never arrives.
    Lost,
    /// It takes longer than anybody waits.
    Slow,
}

/// Notes the end of a request, however it comes.
struct Over {
    trace: Arc<Trace>,
    request: u64,
    status: Option<u16>,
}

impl Drop for Over {
    fn drop(&mut self) {
        self.trace.note(Event::CallOver { request: self.request, status: self.status });
    }
}

impl Endpoints {
    pub fn new(world: &Arc<World>, by: Process, gate: Gate, random: Random) -> Self {
        Self { by, gate, world: world.clone(), random: Drawn::new(random) }
    }

    fn trace(&self) -> &Trace {
        &self.world.trace
    }

    fn weather(&self) -> &Weather {
        &self.world.weather
    }

    fn fate(&self) -> (Fate, u64) {
        let outside = self.weather().rates().outside;
        self.random.with(|random| {
            let fate = match random.mille(outside) {
                false => Fate::Works(StatusCode::OK),
                true => match random.below(8) {
                    0 => Fate::Works(StatusCode::INTERNAL_SERVER_ERROR),
                    1 => Fate::Works(StatusCode::TOO_MANY_REQUESTS),
                    2 => Fate::Works(StatusCode::BAD_REQUEST),
                    3 | 4 => Fate::WorksUnheard,
                    5 => Fate::Slow,
                    _ => Fate::Lost,
                },
            };
            (fate, random.spread(2000))
        })
    }
}

#[async_trait]
impl Carrier for Endpoints {
    async fn carry(&self, request: Request<Full<Bytes>>, _: Reach) -> Result<Answered, Fault> {
        self.gate.pass().await;
        let key = ["idempotency-key", "webhook-id"].into_iter().find_map(|name| request.headers().get(name));
        let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
        let number = self.world.number();
        self.trace().note(Event::Called { by: self.by, request: number, key });
        // Whoever loses patience drops this, and with it the request.
        let mut over = Over { trace: self.world.trace.clone(), request: number, status: None };
        let (fate, wait) = self.fate();
        tokio::time::sleep(Duration::from_millis(wait)).await;
        let status = match fate {
            Fate::Works(status) => Some(status),
            Fate::WorksUnheard | Fate::Lost => None,
            Fate::Slow => {
                tokio::time::sleep(Duration::from_millis(SLOW_MS)).await;
                Some(StatusCode::OK)
            }
        };
        if status.is_some_and(|status| status.is_success()) || matches!(fate, Fate::WorksUnheard) {
            self.trace().note(Event::Worked { request: number });
        }
        self.gate.pass().await;
        over.status = status.map(|status| status.as_u16());
        drop(over);
        match status {
            Some(status) => {
                let retry_after = (status == StatusCode::TOO_MANY_REQUESTS).then(|| Millis::from_secs(3));
                Ok(Answered { status, text: "好".into(), cut: false, retry_after })
            }
            None => Err(Fault::Broken("the connection was reset".into())),
        }
    }
}
