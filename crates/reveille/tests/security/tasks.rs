//! Tasks of clients whose token has bounds: `tasks/get` names no session, so whose the task is decides.

use super::{
    support::{client, process::Home, text, within},
    tokens::{Holder, token},
};
use reqwest::Method;
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

const MODERN: &str = "2026-07-28";

fn message(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn call(session: Option<&str>) -> Value {
    let mut arguments = json!({"total_duration": 600, "mission": "m"});
    if let Some(session) = session {
        arguments["session"] = json!(session);
    }
    message("tools/call", json!({"name": "timer", "arguments": arguments}))
}

fn about(method: &str, task: &str) -> Value {
    message(method, json!({"taskId": task}))
}

/// One message over HTTP, without a session of its own.
async fn over_http(holder: &Holder, message: &Value) -> Value {
    let params = &message["params"];
    let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap_or_default();
    let post = client()
        .post(format!("{}/mcp", holder.url))
        .bearer_auth(&holder.token)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", MODERN)
        .header("mcp-method", text(&message["method"]))
        .header("mcp-name", name)
        .json(message);
    let answer = within("an answer", async { post.send().await.unwrap().text().await.unwrap() }).await;
    let data = answer.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&answer);
    serde_json::from_str(data).unwrap_or_else(|_| panic!("{answer}"))
}

#[tokio::test]
async fn a_task_can_be_fetched_with_the_token_that_made_it_and_by_no_others() {
    let home = Home::default();
    let operator = token(&home, &["me", "--scope", "operator"]).await;
    let mine = token(&home, &["claude", "--session", "claude-*"]).await;
    let others = token(&home, &["codex", "--session", "codex-*"]).await;
    let server = home.serve().await;
    let [operator, mine, others] = [&operator, &mine, &others].map(|token| Holder::new(&server, token));
    // Over HTTP the session is named by the call alone.
    let made = over_http(&mine, &call(Some("claude-1"))).await;
    let first = text(&made["result"]["taskId"]);
    let read = over_http(&mine, &about("tasks/get", &first)).await;
    assert_eq!(read["result"]["status"], "working", "{read}");
    let refused = over_http(&others, &about("tasks/get", &first)).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(text(&refused["error"]["message"]).contains("is not among these"), "{refused}");
    let unknown = over_http(&mine, &about("tasks/get", "timer_x.y")).await;
    assert_eq!(unknown["error"]["message"], "Unknown task", "{unknown}");
    // Over stdio by the client's environment, which counts for calls and not for tasks.
    let mut bridge = home.command(&["--url", &server.url, "mcp"]);
    bridge.env("REVEILLE_TOKEN", &mine.token).env("CLAUDE_CODE_SESSION_ID", "claude-2");
    let mut child = bridge.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = BufReader::new(stdout).lines();
    let mut ask = async |message: Value| {
        stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        let line = within("an answer", lines.next_line()).await.unwrap().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    let second = text(&ask(call(None)).await["result"]["taskId"]);
    let read = ask(about("tasks/get", &second)).await;
    assert_eq!(read["result"]["status"], "working", "{read}");
    let made = text(&over_http(&operator, &call(Some("codex-1"))).await["result"]["taskId"]);
    let refused = ask(about("tasks/get", &made)).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    for (task, code) in [(&second, ""), (&made, "out_of_bounds")] {
        let path = format!("/api/tasks/{task}");
        assert_eq!(mine.refusal(Method::DELETE, &path, Value::Null).await, code, "{path}");
    }
    assert_eq!(ask(about("tasks/get", &second)).await["result"]["status"], "cancelled");
}
