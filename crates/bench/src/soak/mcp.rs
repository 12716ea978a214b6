//! The MCP door: calls in both eras of the protocol, calls that stand by, and tasks.

use super::door::{Ask, Door};
use anyhow::{Context, bail, ensure};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::time::Duration;

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-06-18";
const TASKS: &str = "io.modelcontextprotocol/tasks";
/// A task is asked about this often: sooner than it says, which does no harm.
const POLL: Duration = Duration::from_millis(100);

/// A message of the newest revision, from a client that knows tasks or does not.
fn message(method: &str, mut params: Value, tasks: bool) -> Value {
    let extensions = if tasks { json!({TASKS: {}}) } else { json!({}) };
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions},
        "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
        "progressToken": 1,
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// The result of one message, after all the progress.
async fn result(door: &Door, session: &str, message: &Value) -> anyhow::Result<Value> {
    let params = &message["params"];
    let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap_or_default();
    let ask = Ask::post("/mcp", message).with("mcp-protocol-version", MODERN).with("mcp-name", name);
    let ask = ask.with("mcp-method", message["method"].as_str().unwrap_or_default());
    let response = door.open(ask.with("x-reveille-session", session)).await?;
    let bytes = response.into_body().collect().await.context("the answer broke off")?.to_bytes();
    answer(&String::from_utf8_lossy(&bytes))
}

/// Either the whole body, or the last of its events that has one.
fn answer(said: &str) -> anyhow::Result<Value> {
    let data = said.lines().filter_map(|line| line.strip_prefix("data: ")).rfind(|data| data.contains("\"result\""));
    let value: Value = serde_json::from_str(data.unwrap_or(said)).with_context(|| format!("no JSON: {said}"))?;
    ensure!(value["result"].is_object() && value["result"]["isError"] != true, "{said}");
    Ok(value["result"].clone())
}

/// Without any connection, and without a word of the revision.
pub async fn calls(door: Door) {
    while door.goes_on().await {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "read_timer", "arguments": {"session": "soak-0"}}});
        door.send("mcp", Ask::post("/mcp", &call)).await;
    }
}

/// An older client: it connects, lists the tools, calls one, and goes.
pub async fn connections(door: Door) {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let call = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
        "params": {"name": "read_timer", "arguments": {"session": "soak-1"}}});
    while door.goes_on().await {
        let connected = async {
            let response = door.open(Ask::post("/mcp", &hello)).await?;
            let id = response.headers().get("mcp-session-id").context("no id")?.to_str()?.to_owned();
            response.into_body().collect().await.context("the answer broke off")?;
            for message in [&ready, &list, &call] {
                let ask = Ask::post("/mcp", message).with("mcp-protocol-version", LEGACY).with("mcp-session-id", &id);
                let bytes = door.open(ask).await?.into_body().collect().await?.to_bytes();
                if message.get("id").is_some() {
                    answer(&String::from_utf8_lossy(&bytes))?;
                }
            }
            Ok(())
        };
        door.noted("mcp connections", "/mcp", connected).await;
    }
}

pub async fn stands_by(door: Door) {
    while door.goes_on().await {
        let arguments = json!({"total_duration": 0.3, "reason": "the build"});
        let call = message("tools/call", json!({"name": "timer", "arguments": arguments}), false);
        let stood = async {
            let result = result(&door, "soak-mcp", &call).await?;
            ensure!(result["structuredContent"]["outcome"] == "completed", "{result}");
            Ok(())
        };
        door.noted("mcp standby", "timer", stood).await;
    }
}

pub async fn tasks(door: Door) {
    while door.goes_on().await {
        let arguments = json!({"total_duration": 0.3, "mission": "重启 🚀"});
        let call = message("tools/call", json!({"name": "timer", "arguments": arguments}), true);
        let ended = async {
            let task = result(&door, "soak-task", &call).await?["taskId"].as_str().context("no task")?.to_owned();
            loop {
                let asked = result(&door, "soak-task", &message("tasks/get", json!({"taskId": task}), true)).await?;
                match asked["status"].as_str() {
                    Some("working") => tokio::time::sleep(POLL).await,
                    Some("completed") => return Ok(()),
                    _ => bail!("{asked}"),
                }
            }
        };
        door.noted("mcp tasks", "timer", ended).await;
    }
}
