//! What clients must not send, and the exact answer of the protocol. Nothing of it changes anything.

#![allow(clippy::unwrap_used)]

mod support;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use std::process::Stdio;
use support::{process::Home, *};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

const VERSION: &str = "mcp-protocol-version";

/// What it is, its headers and body, and the status and code that answer it.
type Case = (&'static str, Vec<(&'static str, &'static str)>, String, u16, Option<i64>);

struct Reply {
    status: u16,
    code: Option<i64>,
    id: Value,
    text: String,
}

/// One POST; these headers go over the usual ones, and empty ones take them away.
async fn post(world: &World, headers: &[(&str, &str)], body: String) -> Reply {
    let mut all = HeaderMap::new();
    let usual = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    for (name, value) in usual.iter().chain(headers) {
        let name: HeaderName = name.parse().unwrap();
        match *value {
            "" => drop(all.remove(name)),
            value => drop(all.insert(name, HeaderValue::from_str(value).unwrap())),
        }
    }
    let sent = world.http.post(format!("{}/mcp", world.url)).headers(all).body(body).send();
    let response = within("an answer", sent).await.unwrap();
    let status = response.status().as_u16();
    let text = within("the whole answer", response.text()).await.unwrap();
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
    let message: Value = serde_json::from_str(data).unwrap_or_default();
    Reply { status, code: message["error"]["code"].as_i64(), id: message["id"].clone(), text }
}

/// A request of 2026-07-28.
fn modern(method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

/// One of older revisions.
fn legacy(method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

#[tokio::test]
async fn faults_of_the_protocol_are_answered_exactly() {
    let world = World::start().await;
    let calling = [(VERSION, "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "timer")];
    let call = modern("tools/call", json!({"name": "timer", "arguments": {"total_duration": 9, "mission": "m"}}));
    let with = |more: &[(&'static str, &'static str)]| [calling.as_slice(), more].concat();
    let cases: Vec<Case> = vec![
        ("no JSON", vec![], "{\"jsonrpc\"".into(), 400, Some(-32700)),
        ("nothing", vec![], String::new(), 400, Some(-32700)),
        ("a batch", vec![], "[]".into(), 400, Some(-32600)),
        ("no message", vec![], r#"{"hello":"world"}"#.into(), 400, Some(-32600)),
        ("another JSON-RPC", vec![], r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#.into(), 400, Some(-32600)),
        ("an id that is none", vec![], r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#.into(), 400, Some(-32600)),
        ("a text", vec![("content-type", "text/plain")], call.clone(), 415, None),
        ("no events wanted", vec![("accept", "application/json")], call.clone(), 406, None),
        ("a foreign host", vec![("host", "evil.example")], call.clone(), 403, None),
        ("a foreign origin", vec![("origin", "http://evil.example")], call.clone(), 403, None),
        ("an origin that is none", vec![("origin", "null")], call.clone(), 403, None),
        ("a session nobody made", vec![(VERSION, "2025-06-18"), ("mcp-session-id", "agent")], call.clone(), 404, None),
        (
            "no header of the method",
            vec![(VERSION, "2026-07-28"), ("mcp-name", "timer")],
            call.clone(),
            400,
            Some(-32020),
        ),
        ("another method", with(&[("mcp-method", "tools/list")]), call.clone(), 400, Some(-32020)),
        ("another name", with(&[("mcp-name", "stop_timer")]), call.clone(), 400, Some(-32020)),
        ("no version in the header", with(&[(VERSION, "")]), call.clone(), 400, Some(-32020)),
        ("two versions", with(&[(VERSION, "2025-11-25")]), call.clone(), 400, Some(-32020)),
        (
            "a version to come",
            with(&[(VERSION, "2099-01-01")]),
            call.replace("2026-07-28", "2099-01-01"),
            400,
            Some(-32022),
        ),
        ("no meta", with(&[]), call.replace("_meta", "_other"), 400, Some(-32602)),
        (
            "an unknown method",
            vec![(VERSION, "2026-07-28"), ("mcp-method", "clock/strike")],
            modern("clock/strike", json!({})),
            404,
            Some(-32601),
        ),
        ("an unknown tool", with(&[("mcp-name", "snooze")]), call.replace("timer", "snooze"), 200, Some(-32602)),
        (
            "arguments that are a list",
            with(&[]),
            modern("tools/call", json!({"name": "timer", "arguments": [1]})),
            200,
            Some(-32602),
        ),
        (
            "arguments that are a list, long ago",
            vec![],
            legacy("tools/call", json!({"name": "timer", "arguments": [1]})),
            200,
            Some(-32602),
        ),
        (
            "a task that is none",
            vec![(VERSION, "2026-07-28"), ("mcp-method", "tasks/get")],
            modern("tasks/get", json!({"taskId": 7})),
            200,
            Some(-32602),
        ),
        (
            "no task to cancel",
            vec![(VERSION, "2026-07-28"), ("mcp-method", "tasks/cancel")],
            modern("tasks/cancel", json!({})),
            200,
            Some(-32602),
        ),
        (
            "no task to update",
            vec![(VERSION, "2026-07-28"), ("mcp-method", "tasks/update")],
            modern("tasks/update", json!({"taskId": []})),
            200,
            Some(-32602),
        ),
        ("a page that is none", vec![], legacy("tools/list", json!({"cursor": "2"})), 200, Some(-32602)),
        ("prompts", vec![], legacy("prompts/list", json!({})), 200, Some(-32601)),
        ("a body without end", vec![], format!("{{\"x\":\"{}\"}}", "x".repeat(300_000)), 413, None),
    ];
    for (what, headers, body, status, code) in cases {
        let reply = post(&world, &headers, body).await;
        assert_eq!((reply.status, reply.code), (status, code), "{what}: {}", reply.text);
    }
    assert_eq!(world.timers().await.len(), 0, "nothing was made");
    let good = post(&world, &calling, call).await;
    assert!(good.status == 200 && good.text.contains("scheduled"), "{}", good.text);
}

#[tokio::test]
async fn only_posts_are_taken() {
    let world = World::start().await;
    for method in [reqwest::Method::GET, reqwest::Method::DELETE, reqwest::Method::PUT] {
        let answer = world.request(method.clone(), "/mcp", None).await;
        assert_eq!(answer.status, 405, "{method}");
    }
}

#[tokio::test]
async fn refusals_of_tools_are_results_that_a_model_can_read() {
    let world = World::start().await;
    let calling = |tool: &'static str| {
        [(VERSION, "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool), ("x-reveille-session", "s")]
    };
    for (tool, arguments, code) in [
        ("timer", json!({"total_duration": 5}), "reason_or_mission_required"),
        ("timer", json!({"total_duration": "soon", "reason": "r"}), "invalid_duration"),
        ("timer", json!({"total_duration": 5, "reason": "r", "mission": "m"}), "reason_and_mission"),
        ("timer", json!({"total_duration": 5, "reason": 7}), "invalid_argument"),
        ("timer", json!({"total_duration": 5, "mission": "a\u{7}"}), "control_characters"),
        ("timer", json!({"total_duration": 5, "mission": "m", "session": 7}), "invalid_argument"),
        ("timer", json!({"total_duration": 5, "mission": "m", "session": "other"}), "session_mismatch"),
        ("stop_timer", json!({"timer_id": "timer_nobody"}), "unknown_timer"),
        ("resume_timer", json!({}), "missing_argument"),
    ] {
        let params = json!({"name": tool, "arguments": arguments});
        let reply = post(&world, &calling(tool), modern("tools/call", params)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let data = reply.text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().expect("an event");
        let result = serde_json::from_str::<Value>(data).unwrap()["result"].clone();
        has(&result, json!({"isError": true, "resultType": "complete"}));
        has(&result["structuredContent"], json!({"code": code, "status": null, "type": null}));
        assert_eq!(result["content"][0]["text"], result["structuredContent"]["detail"]);
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "reveille");
    }
    assert_eq!(world.timers().await.len(), 0);
}

/// What it is, and the error and id that answer it; the same over both transports.
const UNREADABLE: [(&str, i64, Option<i64>); 7] = [
    ("{\"jsonrpc\"", -32700, None),
    ("hello", -32700, None),
    ("[]", -32600, None),
    (r#"{"hello":"world"}"#, -32600, None),
    (r#"{"id":9,"method":"tools/call","params":5}"#, -32600, Some(9)),
    (r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":5}"#, -32602, Some(9)),
    (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600, None),
];

#[tokio::test]
async fn what_cannot_be_read_is_answered_by_its_id() {
    let world = World::start().await;
    let home = Home::default();
    let mut command = home.command(&["mcp", "--url", &world.url, "--session", "agent"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut lines) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
    let mut over_stdio = async |line: &str| -> Value {
        stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        let answer = within("an answer", lines.next_line()).await.unwrap().expect("it is still there");
        serde_json::from_str(&answer).unwrap()
    };
    for (bytes, code, id) in UNREADABLE {
        let reply = post(&world, &[], bytes.into()).await;
        assert_eq!((reply.status, reply.code, &reply.id), (400, Some(code), &json!(id)), "{bytes}: {}", reply.text);
        let answer = over_stdio(bytes).await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &json!(id)), "{bytes}: {answer}");
    }
    // Nobody waits for an answer to a notification; and all goes on.
    let bad = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":5}"#;
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let answer = over_stdio(&format!("{bad}\n\n{}", legacy("initialize", params.clone()))).await;
    has(&answer["result"]["capabilities"], json!({"tools": {}, "extensions": null}));
    let reply = post(&world, &[], legacy("initialize", params)).await;
    assert!(reply.status == 200 && !reply.text.contains("extensions"), "{}", reply.text);
}
