//! The life of timers as an agent sees it over MCP: in both eras of the protocol, over both transports.

#![allow(clippy::unwrap_used)]

mod support;

use reveille::config::Length;
use reveille_core::Millis;
use serde_json::{Value, json};
use std::process::Stdio;
use support::{
    mcp::{Agent, ERAS, Era, good, refusal, words},
    process::Home,
    *,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// A server whose address outlives it, and that lets unknown clients stand by for long.
async fn world() -> World {
    let mut world = World::with(|config| config.mcp.standby_max = Length(Millis::from_secs(3600))).await;
    world.config.listen = world.server().address;
    world
}

/// The same agent, connected in every way there is.
async fn connect(world: &World, home: &Home, way: (Era, bool), session: &str) -> Agent {
    match way {
        (era, false) => Agent::http(&world.url, era, "test", Some(session)).await,
        (era, true) => {
            let mut command = home.command(&["mcp", "--url", &world.url, "--session", session]);
            command.env("REVEILLE_MCP_STANDBY_MAX", "1h");
            Agent::stdio(command, era, "test").await
        }
    }
}

fn ways() -> impl Iterator<Item = (Era, bool)> {
    ERAS.into_iter().flat_map(|era| [(era, false), (era, true)])
}

async fn answer(call: tokio::task::JoinHandle<rmcp::model::CallToolResult>) -> rmcp::model::CallToolResult {
    within("the call answers", call).await.unwrap()
}

#[tokio::test]
async fn a_timer_is_made_times_out_goes_on_and_is_told_in_a_message() {
    let (world, home) = (world().await, Home::default());
    for (number, way) in ways().enumerate() {
        let session = format!("agent-{number}");
        let agent = connect(&world, &home, way, &session).await;
        let asked =
            json!({"total_duration": "300", "timeout_duration": 60, "reason": "build", "mission": null, "x": 1});
        let call = agent.standing(&world, asked).await;
        world.advance(60);
        let result = answer(call).await;
        let body = good(&result);
        has(&body, json!({"outcome": "timeout", "timeout": true, "remaining_time": 240, "session": null}));
        let id = id(&body);
        assert!(words(&result).starts_with(&format!("Timer {id}: timeout, 240 of 300 seconds remain.")), "{way:?}");

        let call = agent.standing(&world, json!({"timer_id": id, "timeout_duration": "1m"})).await;
        world.advance(60);
        has(&good(&answer(call).await), json!({"outcome": "timeout", "remaining_time": 180}));

        // Cancelled by another call of the same agent: the one that stands by returns.
        let call = agent.standing(&world, json!({"timer_id": id})).await;
        has(
            &agent.done("cancel_timer", json!({"timer_id": id, "reason": "other work"})).await,
            json!({"outcome": "background"}),
        );
        has(&good(&answer(call).await), json!({"outcome": "background"}));
        world.advance(180);
        world.until_message(&session, &id).await;
        let told = agent.done("read_timer", json!({})).await;
        assert_eq!(told["messages"][0]["text"], finished(&id, "Reason", "build", 300), "{way:?}");
        world.until_event(&id.replace("timer_", "msg_"), "message.delivered").await;
        assert_eq!(agent.done("read_timer", json!({"timer_id": id})).await["messages"], json!([]), "{way:?}");
        assert!(world.inbox(&session).await.is_empty());
    }
}

#[tokio::test]
async fn a_timer_is_paused_resumed_and_stopped() {
    let (world, home) = (world().await, Home::default());
    for (number, way) in ways().enumerate() {
        let agent = connect(&world, &home, way, &format!("agent-{number}")).await;
        let mission = agent.done("timer", json!({"total_duration": 100, "mission": "look"})).await;
        has(&mission, json!({"outcome": "scheduled", "status": "running"}));
        let id = id(&mission);
        has(
            &agent.done("pause_timer", json!({"timer_id": id, "pause_duration": "2m"})).await,
            json!({"status": "paused"}),
        );
        world.advance(60);
        has(
            &agent.done("resume_timer", json!({"timer_id": id})).await,
            json!({"outcome": "resumed", "remaining_time": 100}),
        );
        has(&agent.done("stop_timer", json!({"timer_id": id, "reason": "done"})).await, json!({"status": "stopped"}));
        let (code, refused) = agent.refused("stop_timer", json!({"timer_id": id})).await;
        assert_eq!(code, "timer_ended");
        assert_eq!(refused["timer"]["status"], "stopped");
        assert_eq!(agent.refused("read_timer", json!({"timer_id": "timer_x"})).await.0, "unknown_timer");
        assert_eq!(agent.refused("timer", json!({"total_duration": 0, "reason": "r"})).await.0, "invalid_duration");
        assert_eq!(agent.refused("pause_timer", json!({"timer_id": id})).await.0, "missing_argument");
    }
}

#[tokio::test]
async fn a_restart_of_the_daemon_is_nothing_the_agent_notices() {
    for way in ways() {
        let (mut world, home) = (world().await, Home::default());
        // Not even where the session was made for the connection.
        let agent = match way {
            (era, false) => Agent::http(&world.url, era, "test", None).await,
            (era, true) => Agent::stdio(home.command(&["mcp", "--url", &world.url]), era, "test").await,
        };
        let made = agent.done("timer", json!({"total_duration": 100, "mission": "look"})).await;
        let (id, session) = (id(&made), text(&made["session"]));
        // Where the client has no place to remember it, its model has.
        let also = |mut arguments: Value| {
            if way == (Era::Modern, false) {
                arguments["session"] = json!(session);
            }
            arguments
        };
        let call = agent.standing(&world, also(json!({"total_duration": 500, "reason": "r"}))).await;
        world.down().await;
        has(&good(&answer(call).await), json!({"outcome": "timeout", "status": "running"}));
        world.advance(100);
        world.up().await;
        world.until_message(&session, &id).await;
        let told = agent.done("read_timer", also(json!({"timer_id": id}))).await;
        assert_eq!(told["messages"][0]["text"], finished(&id, "Mission", "look", 100), "{way:?}");
        let call = agent.standing(&world, also(json!({"total_duration": 50, "reason": "r"}))).await;
        world.advance(50);
        has(&good(&answer(call).await), json!({"outcome": "completed", "messages": []}));
    }
}

#[tokio::test]
async fn a_cancelled_call_leaves_its_timer_alone() {
    let (world, home) = (world().await, Home::default());
    for (number, way) in ways().enumerate() {
        let session = format!("agent-{number}");
        let agent = connect(&world, &home, way, &session).await;
        let call = agent.standing(&world, json!({"total_duration": 300, "reason": "r"})).await;
        call.abort(); // the SDK tells the server, in the way of its era
        world.standing_count(0).await;
        let timers = agent.done("read_timer", json!({})).await;
        has(&timers["timers"][0], json!({"status": "running", "remaining_time": 300}));
        let id = id(&timers["timers"][0]);
        world.advance(300);
        world.until_message(&session, &id).await;
        let told = agent.done("read_timer", json!({"timer_id": id})).await;
        assert_eq!(list(&told["messages"]).len(), 1, "{way:?}");
    }
}

#[tokio::test]
async fn a_stand_by_keeps_within_what_its_client_allows() {
    let (world, home) = (World::start().await, Home::default());
    for (name, seconds) in [("nobody-knows", 50), ("codex-mcp-client", 280), ("Cline", 50)] {
        for (era, stdio) in ways() {
            let agent = if stdio {
                Agent::stdio(home.command(&["mcp", "--url", &world.url, "-s", "s"]), era, name).await
            } else {
                Agent::http(&world.url, era, name, Some("s")).await
            };
            let call = agent.standing(&world, json!({"total_duration": 3600, "reason": "r"})).await;
            world.advance(seconds - 1);
            assert!(!call.is_finished());
            world.advance(1);
            let body = good(&answer(call).await);
            has(&body, json!({"outcome": "timeout", "remaining_time": 3600 - seconds, "status": "running"}));
            let hint = text(&body["hint"]);
            assert!(hint.starts_with("Still running") && hint.contains("call timer again with timer_id"), "{hint}");
            agent.done("stop_timer", json!({"timer_id": body["timer_id"]})).await;
        }
    }
}

#[tokio::test]
async fn progress_comes_at_once() {
    let (world, home) = (world().await, Home::default());
    for (number, way) in ways().enumerate() {
        let agent = connect(&world, &home, way, &format!("agent-{number}")).await;
        let call = agent.standing(&world, json!({"total_duration": 300, "timeout_duration": 60, "reason": "r"})).await;
        let mut heard = agent.listener().progress.subscribe();
        let first = within("progress", heard.wait_for(|all| !all.is_empty())).await.unwrap()[0].clone();
        assert_eq!((first.progress, first.total), (0.0, Some(60.0)));
        assert_eq!(first.message.as_deref(), Some("standing by: 60 s of 60 s remain"));
        world.advance(60);
        good(&answer(call).await);
    }
}

#[tokio::test]
async fn times_of_the_calendar_and_quiet_hours_are_shown() {
    let nights = json!({"zone": "Europe/Berlin", "from": "22:00", "to": "08:00"});
    let quiet = reveille_core::Quiet::parse(nights.clone()).unwrap();
    let (world, home) = (World::with(|config| config.quiet = Some(quiet)).await, Home::default());
    for (number, way) in ways().enumerate() {
        let session = format!("agent-{number}");
        let agent = connect(&world, &home, way, &session).await;
        let day = json!({"mission": "站会", "at": "16:00", "zone": "Europe/Berlin"});
        let made = agent.done("timer", day).await;
        has(&made, json!({"outcome": "scheduled", "ends_at": START + 7 * 3_600_000, "waits_until": null}));
        let night = json!({"mission": "夜班 🌙", "at": "2027-01-16T02:10:00+01:00"});
        let made = agent.done("timer", night).await;
        let (due, morning) = (START + 17 * 3_600_000 + 600_000, START + 23 * 3_600_000);
        has(&made, json!({"outcome": "scheduled", "ends_at": due, "waits_until": morning}));
        let read = agent.done("read_timer", json!({})).await;
        assert_eq!(read["quiet"], json!([nights]), "{way:?}");
        // What people set for the session goes over that.
        let noon = json!({"zone": "UTC", "from": "12:00", "to": "13:00"});
        let path = format!("/api/sessions/{session}/quiet");
        assert_eq!(world.request(reqwest::Method::PUT, &path, Some(&noon)).await.status, 200);
        let read = agent.done("read_timer", json!({"timer_id": id(&made)})).await;
        has(&read, json!({"ends_at": due, "waits_until": null}));
        assert_eq!(agent.done("read_timer", json!({})).await["quiet"], json!([noon]), "{way:?}");
    }
}

#[tokio::test]
async fn sessions_never_meet() {
    let (world, home) = (world().await, Home::default());
    for (number, way) in ways().enumerate() {
        let one = connect(&world, &home, way, &format!("one-{number}")).await;
        let other = connect(&world, &home, way, &format!("other-{number}")).await;
        let id = id(&one.done("timer", json!({"total_duration": 100, "mission": "m"})).await);
        for tool in ["timer", "read_timer", "stop_timer", "cancel_timer", "pause_timer", "resume_timer"] {
            let asked = json!({"timer_id": id, "pause_duration": 5});
            let (code, refused) = other.refused(tool, asked.clone()).await;
            assert_eq!((code.as_str(), &refused["live_timers"]), ("unknown_timer", &json!([])), "{tool}");
            let named = json!({"timer_id": id, "pause_duration": 5, "session": format!("one-{number}")});
            assert_eq!(other.refused(tool, named).await.0, "session_mismatch", "{tool}");
        }
        has(&one.done("read_timer", json!({"timer_id": id})).await, json!({"status": "running"}));
        assert_eq!(other.done("read_timer", json!({})).await["timers"], json!([]));
    }
}

#[tokio::test]
async fn unknown_tools_and_unreadable_parameters_are_protocol_errors() {
    let (world, home) = (world().await, Home::default());
    for way in ways() {
        let agent = connect(&world, &home, way, "s").await;
        let error = agent.send("snooze", json!({}), Value::Null).await.unwrap_err();
        let rmcp::ServiceError::McpError(error) = error else { panic!("{error}") };
        assert_eq!((error.code.0, error.message.as_ref()), (-32602, "Unknown tool: snooze"), "{way:?}");
    }
}

#[tokio::test]
async fn the_list_of_tools_is_the_same_bytes_every_time() {
    let (world, home) = (world().await, Home::default());
    let mut seen = Vec::new();
    for way in ways() {
        let agent = connect(&world, &home, way, "s").await;
        let listed = agent.client.list_all_tools().await.unwrap();
        seen.push(serde_json::to_string(&listed).unwrap());
        let names: Vec<_> = listed.iter().map(|tool| tool.name.to_string()).collect();
        assert_eq!(names, reveille::tools::Tool::ALL.map(|tool| tool.name().to_owned()));
        assert!(listed.iter().all(|tool| tool.output_schema.is_some()));
    }
    seen.dedup();
    assert_eq!(seen.len(), 1);
}

/// What a client may put into every prompt: the whole answer to `tools/list`, as it comes.
const LIST_BYTES_MAX: usize = 8000;

#[tokio::test]
async fn the_whole_list_of_tools_is_small() {
    let (world, home) = (world().await, Home::default());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let modern = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}).to_string();
    let client = json!({"name": "test", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}).to_string();
    let legacy = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();

    let request = world.http.post(format!("{}/mcp", world.url)).header("content-type", "application/json");
    let request = request.header("accept", "application/json, text/event-stream");
    let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/list");
    let response = within("an answer", request.body(modern.clone()).send()).await.unwrap();
    let over_http = within("the whole of it", response.text()).await.unwrap();

    let by_stdio = async |lines: &str| {
        let mut command = home.command(&["mcp", "--url", &world.url, "--session", "s"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(lines.as_bytes()).await.unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
        loop {
            let line = within("an answer", answers.next_line()).await.unwrap().expect("an answer");
            if line.contains("\"tools\":[") {
                return line;
            }
        }
    };
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    for answer in
        [over_http, by_stdio(&format!("{modern}\n")).await, by_stdio(&format!("{hello}\n{ready}\n{legacy}\n")).await]
    {
        assert!(answer.contains("outputSchema") && answer.contains("resume_timer"), "{answer}");
        assert!(answer.len() < LIST_BYTES_MAX, "{} bytes", answer.len());
    }
}

/// Clients hold results, also refusals, against the schema of their tool.
#[tokio::test]
async fn results_are_as_the_list_says() {
    let world = world().await;
    let agent = Agent::http(&world.url, Era::Modern, "test", Some("s")).await;
    let listed = agent.client.list_all_tools().await.unwrap();
    let timer = id(&agent.done("timer", json!({"total_duration": 600, "mission": "m"})).await);
    let one = json!({"timer_id": timer});
    let item = json!({"action": "schedule", "items": [{"task": "t", "in": "1h"}]});
    for (tool, arguments) in [
        ("timer", json!({"total_duration": 600, "reason": "r", "until": {"file": "/"}})),
        ("timer", json!({"mission": "m", "every": "1h"})),
        ("timer", json!({"total_duration": "soon", "mission": "m"})),
        ("read_timer", json!({})),
        ("read_timer", one.clone()),
        ("pause_timer", json!({"timer_id": timer, "pause_duration": 60})),
        ("resume_timer", one.clone()),
        ("cancel_timer", one.clone()),
        ("stop_timer", one.clone()),
        ("stop_timer", one.clone()),
        ("clock", item),
        ("clock", json!({"action": "list"})),
        ("clock", json!({"action": "remind"})),
    ] {
        let result = agent.call(tool, arguments.clone()).await.structured_content.expect("structured");
        let schema = listed.iter().find(|one| one.name == tool).and_then(|one| one.output_schema.clone()).unwrap();
        let fields = schema["properties"].as_object().unwrap();
        let named = fields.iter().filter(|(name, _)| result.get(name.as_str()).is_some()).count();
        assert!(named > 0, "{tool}: {result}");
        for (name, kind) in fields {
            let fits = match (result.get(name), kind["type"].as_str().unwrap()) {
                (None, _) => true,
                (Some(value), "string") => value.is_string(),
                (Some(value), "number") => value.is_number(),
                (Some(value), "boolean") => value.is_boolean(),
                (Some(value), "array") => value.is_array(),
                (_, other) => panic!("{other}"),
            };
            assert!(fits, "{tool} {arguments}: {name} in {result}");
        }
    }
}

#[tokio::test]
async fn a_session_is_named_in_many_ways() {
    let world = world().await;
    let home = Home::default();
    let make = json!({"total_duration": 100, "mission": "m"});
    let of = |result: rmcp::model::CallToolResult| good(&result);
    for era in ERAS {
        let plain = Agent::http(&world.url, era, "test", None).await;
        for (meta, session) in [
            (json!({"reveille/session": "named"}), "named"),
            (json!({"threadId": "thread"}), "thread"),
            (json!({"threadId": "thread", "reveille/session": "named"}), "named"),
        ] {
            let made = of(plain.send("timer", make.clone(), meta.clone()).await.unwrap());
            let found = world.done(session, "read_timer", json!({"timer_id": made["timer_id"]})).await;
            assert_eq!((&found["status"], made.get("session")), (&json!("running"), None), "{meta}");
            let other = plain.send("timer", json!({"session": "x", "total_duration": 1, "mission": "m"}), meta).await;
            assert_eq!(refusal(&other.unwrap()).0, "session_mismatch");
        }
        let mut named = make.clone();
        named["session"] = json!("argument");
        let made = plain.done("timer", named).await;
        has(
            &world.done("argument", "read_timer", json!({"timer_id": made["timer_id"]})).await,
            json!({"outcome": "read"}),
        );
        // A header without a name is none.
        let unnamed = Agent::http(&world.url, era, "test", Some("")).await;
        assert!(text(&unnamed.done("timer", make.clone()).await["session"]).starts_with("mcp_"));
        // Nothing at all: a session nobody can guess, which the result tells.
        let made = plain.done("timer", make.clone()).await;
        let session = text(&made["session"]);
        assert!(session.starts_with("mcp_") && session.len() > 20, "{session}");
        let again = plain.done("timer", make.clone()).await;
        assert_eq!(again["session"] == made["session"], era == Era::Legacy, "a connection has one, a request has not");
        if era == Era::Modern {
            assert_eq!(plain.refused("read_timer", json!({})).await.0, "session_required");
        }
        let mut command = home.command(&["mcp", "--url", &world.url]);
        command.env("CLAUDE_CODE_SESSION_ID", "claude");
        let claude = Agent::stdio(command, era, "claude-code").await;
        let made = claude.done("timer", make.clone()).await;
        has(
            &world.done("claude", "read_timer", json!({"timer_id": made["timer_id"]})).await,
            json!({"outcome": "read"}),
        );
        // Its conversation may be another by now: what the call says goes over what the window began with.
        let mut cleared = make.clone();
        cleared["session"] = json!("cleared");
        let made = claude.done("timer", cleared).await;
        has(
            &world.done("cleared", "read_timer", json!({"timer_id": made["timer_id"]})).await,
            json!({"outcome": "read"}),
        );
        // Another client, started from Claude Code's shell, is not Claude Code.
        let mut command = home.command(&["mcp", "--url", &world.url]);
        command.env("CLAUDE_CODE_SESSION_ID", "claude");
        let other = Agent::stdio(command, era, "codex-mcp-client").await;
        assert!(text(&other.done("timer", make.clone()).await["session"]).starts_with("mcp_"));
        let mut command = home.command(&["mcp", "--url", &world.url]);
        command.env("CLAUDE_CODE_SESSION_ID", "claude").env("REVEILLE_SESSION", "explicit");
        let explicit = Agent::stdio(command, era, "claude-code").await;
        let made = explicit.done("timer", make.clone()).await;
        has(
            &world.done("explicit", "read_timer", json!({"timer_id": made["timer_id"]})).await,
            json!({"outcome": "read"}),
        );
        assert_eq!(explicit.refused("read_timer", json!({"session": "claude"})).await.0, "session_mismatch");
    }
}

/// A client that shows its model only the text must lose nothing that the model needs.
#[tokio::test]
async fn what_the_clock_answers_is_in_the_text_too() {
    let world = World::start().await;
    let agent = Agent::http(&world.url, Era::Modern, "test", Some("agent")).await;
    let items = json!([{"task": "检查日志", "in": "2h"}, {"task": "second", "in": "3h"}]);
    let scheduled = agent.call("clock", json!({"action": "schedule", "items": items})).await;
    let body = good(&scheduled);
    let now = text(&body["now"]);
    for task in list(&body["scheduled"]) {
        for word in [&now, &text(&task["taskId"]), &text(&task["dueAt"]), &text(&task["task"])] {
            assert!(words(&scheduled).contains(word.as_str()), "{word} is not in {}", words(&scheduled));
        }
    }
    let first = text(&body["scheduled"][0]["taskId"]);
    agent.done("clock", json!({"action": "cancel", "taskId": first})).await;
    let listed = words(&agent.call("clock", json!({"action": "list"})).await);
    assert!(listed.contains(&format!("{first} (cancelled)")) && listed.contains("(scheduled)"), "{listed}");
    let cleared = words(&agent.call("clock", json!({"action": "clear"})).await);
    assert!(cleared.contains("1 cancelled"), "{cleared}");
}
