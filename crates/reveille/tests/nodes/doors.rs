//! Who waits at one node, by whatever door, is released by what happens at another.

use crate::support::*;
use scripted_upstream::{Listening, Upstream};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinHandle;

const TASKS: &str = "io.modelcontextprotocol/tasks";
const MODERN: &str = "2026-07-28";

/// A node whose gateway leads to this model.
pub async fn before(upstream: &Listening, change: impl FnOnce(&mut reveille::config::Config)) -> World {
    let entry = json!({"name": "script", "base_url": upstream.url(), "protocols": ["chat"]});
    World::with(|config| {
        config.gateway.upstream = vec![serde_json::from_value(entry).unwrap()];
        config.gateway.retries = 0;
        change(config);
    })
    .await
}

pub async fn model() -> Listening {
    Upstream::new(&["scripted"]).listen("127.0.0.1:0").await.unwrap()
}

/// A model call with a tool, so that it takes part in everything.
pub fn ask(world: &World, session: &str, says: &str) -> JoinHandle<(u16, String)> {
    let tool = json!({"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}});
    let script = format!("script:{}", json!({"steps": [{"text": says}]}));
    let messages = json!([{"role": "user", "content": script}]);
    let body = json!({"model": "scripted", "stream": true, "tools": [tool], "messages": messages});
    let request = world.http.post(format!("{}/v1/chat/completions", world.url)).json(&body);
    let request = request.header("x-reveille-session", session).header("x-reveille-agent", "acme:support");
    tokio::spawn(async move {
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    })
}

async fn holds(world: &World, wanted: i64) {
    within("turns are held", async {
        while world.server().engine.metrics.gateway.holds.get() != wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_turn_held_here_goes_on_and_ends_by_what_happens_there() {
    let upstream = model().await;
    let first = before(&upstream, |_| {}).await;
    let second = first.beside().await;
    let schedule = |task: &str| json!({"action": "schedule", "items": [{"task": task, "in": "10m"}]});
    for (session, ends) in [("due", "told"), ("cleared", "cleared")] {
        assert_eq!(second.tool(session, "clock", schedule("喝水")).await.status, 200);
        let turn = ask(&first, session, "好的");
        holds(&first, 1).await;
        if ends == "told" {
            second.advance(600);
        } else {
            assert_eq!(second.tool(session, "clock", json!({"action": "clear"})).await.status, 200);
        }
        let (status, body) = within("the turn ends", turn).await.unwrap();
        assert_eq!(status, 200, "{body}");
        holds(&first, 0).await;
        let told = upstream
            .upstream
            .log
            .requests()
            .iter()
            .filter(|request| String::from_utf8_lossy(&request.body).contains("喝水"))
            .count();
        assert_eq!(told, 1, "{session}: once, when it was due");
        // What was told is settled right after, by the node that told it.
        second.until("it is settled", || async { second.inbox(session).await.is_empty().then_some(()) }).await;
    }
}

fn message(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

async fn mcp(world: &World, message: &Value) -> Value {
    let params = &message["params"];
    let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap_or_default();
    let post = world
        .http
        .post(format!("{}/mcp", world.url))
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", MODERN)
        .header("mcp-method", text(&message["method"]))
        .header("mcp-name", name)
        .header("x-reveille-session", "agent")
        .json(message);
    let answer = within("an answer", async { post.send().await.unwrap().text().await.unwrap() }).await;
    let data = answer.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&answer);
    serde_json::from_str::<Value>(data).unwrap_or_else(|_| panic!("{answer}"))["result"].clone()
}

#[tokio::test]
async fn a_task_begun_here_ends_by_what_happens_there_and_is_told_once() {
    let first = World::start().await;
    let second = first.beside().await;
    for action in ["stop", "fire"] {
        let arguments = json!({"total_duration": 600, "reason": "x"});
        let begun = mcp(&first, &message("tools/call", json!({"name": "timer", "arguments": arguments}))).await;
        has(&begun, json!({"resultType": "task", "status": "working"}));
        let get = message("tasks/get", json!({"taskId": begun["taskId"]}));
        let timer = id(&list(&second.get("/api/timers?limit=1").await["timers"])[0]);
        match action {
            "stop" => assert_eq!(second.post(&format!("/api/timers/{timer}/stop"), json!({})).await.status, 200),
            _ => second.advance(600),
        }
        let over = |task: &Value| task["status"] == "completed";
        let task = first.until("the task ends", || async { Some(mcp(&first, &get).await).filter(over) }).await;
        let told = task["result"]["structuredContent"].clone();
        has(&told, json!({"timer_id": timer, "outcome": if action == "stop" { "stopped" } else { "completed" }}));
        assert!(over(&mcp(&second, &get).await), "the other node knows the same");
        second.until("its message is told", || async { second.inbox("agent").await.is_empty().then_some(()) }).await;
    }
}
