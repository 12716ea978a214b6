//! Signs of life of a call that stands by, under a clock that is not waited for.

#![allow(clippy::unwrap_used)]

use reveille::{
    config::McpConfig,
    mcp::{Answer, Backend, Call, Handler, Identity, Refusal, StandbyLimits, TaskAnswer, TaskAsk},
};
use reveille_core::SessionId;
use rmcp::{
    ClientHandler, RoleClient, RoleServer,
    model::{CallToolRequestParams, ProgressNotificationParam},
    service::{NotificationContext, RequestContext, serve_client, serve_server},
};
use serde_json::json;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// Answers after a while.
#[derive(Clone)]
struct Slow(Duration);

impl Backend for Slow {
    type Receipt = ();

    async fn call(&self, call: Call) -> Result<Answer<()>, Refusal> {
        tokio::time::sleep(self.0).await;
        Ok(Answer { body: json!({"hint": call.tool.name()}), receipt: (), task: None })
    }

    async fn task(
        &self,
        _: &RequestContext<RoleServer>,
        _: Option<SessionId>,
        _: String,
        _: TaskAsk,
    ) -> Result<TaskAnswer<()>, Refusal> {
        Err(Refusal::new("unknown_task", "there are none here"))
    }

    fn hand_over(&self, _: &RequestContext<RoleServer>, (): ()) {}

    fn begun(&self, _: &RequestContext<RoleServer>) {}
}

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<ProgressNotificationParam>>>);

impl ClientHandler for Heard {
    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.lock().unwrap().push(progress);
    }
}

async fn heard(seconds: u64, arguments: serde_json::Value) -> Vec<(f64, Option<f64>, String)> {
    let (here, there) = tokio::io::duplex(1 << 16);
    let handler = Handler {
        backend: Slow(Duration::from_secs(seconds)),
        identity: Identity { connection: Some(reveille_core::SessionId::new("s")), ..Identity::default() },
        limits: Arc::new(StandbyLimits::new(&McpConfig::default())),
        stop: Default::default(),
    };
    let (server, heard) = (tokio::spawn(serve_server(handler, there)), Heard::default());
    let client = serve_client(heard.clone(), here).await.unwrap();
    let _server = server.await.unwrap().unwrap();
    let mut params = CallToolRequestParams::new("timer");
    params.arguments = arguments.as_object().cloned();
    client.call_tool(params).await.unwrap();
    let all = heard.0.lock().unwrap();
    all.iter().map(|note| (note.progress, note.total, note.message.clone().unwrap())).collect()
}

#[tokio::test(start_paused = true)]
async fn progress_comes_every_few_seconds_and_always_grows() {
    let all = heard(12, json!({"total_duration": 300, "timeout_duration": "30", "reason": "r"})).await;
    let said = |left: u64| format!("standing by: {left} s of 30 s remain");
    assert_eq!(
        all,
        [(0.0, Some(30.0), said(30)), (5.0, Some(30.0), said(25)), (10.0, Some(30.0), said(20))],
        "at once, then every five seconds"
    );
    // The limit of an unknown client is all there is to say about a timer that is continued.
    let all = heard(62, json!({"timer_id": "timer_x"})).await;
    assert_eq!((all.len(), all[0].1), (13, Some(50.0)));
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0), "{all:?}");
    assert_eq!(heard(12, json!({"total_duration": 300, "mission": "m"})).await, [], "a mission does not stand by");
}
