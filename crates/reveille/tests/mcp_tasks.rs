//! Tasks over MCP: a `timer` call answered at once, whose end its client fetches later, across restarts. Raw messages, as
//! the specification of the extension has them.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use std::process::Stdio;
use support::{
    mcp::{Agent, Era, good},
    process::Home,
    *,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

const MODERN: &str = "2026-07-28";
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A request that declares tasks, or does not.
fn message(method: &str, mut params: Value, declared: bool) -> Value {
    let extensions = if declared { json!({TASKS: {}}) } else { json!({}) };
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn call(arguments: Value) -> Value {
    message("tools/call", json!({"name": "timer", "arguments": arguments}), true)
}

fn about(method: &str, task: &str) -> Value {
    message(method, json!({"taskId": task}), true)
}

/// The whole answer to one message, in this session.
async fn send(world: &World, session: Option<&str>, message: &Value) -> Value {
    let params = &message["params"];
    let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap_or_default();
    let mut post = world
        .http
        .post(format!("{}/mcp", world.url))
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", MODERN)
        .header("mcp-method", text(&message["method"]))
        .header("mcp-name", name)
        .json(message);
    if let Some(session) = session {
        post = post.header("x-reveille-session", session);
    }
    let answer = within("an answer", async { post.send().await.unwrap().text().await.unwrap() }).await;
    let data = answer.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&answer);
    serde_json::from_str(data).unwrap_or_else(|_| panic!("{answer}"))
}

async fn begin(world: &World, arguments: Value) -> (String, Value) {
    let answer = send(world, Some("agent"), &call(arguments)).await;
    let task = answer["result"].clone();
    has(&task, json!({"resultType": "task", "status": "working"}));
    assert!(task["ttlMs"].as_u64().unwrap() > 0 && task["pollIntervalMs"].as_u64().unwrap() <= 15_000, "{task}");
    assert!(task["createdAt"].as_str().unwrap().ends_with('Z'), "{task}");
    (text(&task["taskId"]), task)
}

async fn get(world: &World, task: &str) -> Value {
    let answer = send(world, Some("agent"), &about("tasks/get", task)).await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    answer["result"].clone()
}

#[tokio::test]
async fn a_waiting_timers_task_ends_with_the_stand_by() {
    let world = World::start().await;
    // To the end of the timer, to the end of the call's own time, and by somebody else's hand.
    for (arguments, after, act, outcome) in [
        (json!({"total_duration": 300, "reason": "r"}), 300, None, "completed"),
        (json!({"total_duration": 300, "timeout_duration": 60, "reason": "r"}), 60, None, "timeout"),
        (json!({"total_duration": 300, "reason": "r"}), 10, Some("stop_timer"), "stopped"),
        (json!({"total_duration": 300, "reason": "r"}), 10, Some("cancel_timer"), "background"),
    ] {
        let (task, begun) = begin(&world, arguments).await;
        assert!(
            text(&begun["statusMessage"])
                .contains(&format!("in {} seconds at the latest", if outcome == "timeout" { 60 } else { 300 })),
            "{begun}"
        );
        let timer = text(&json!(task.split('.').next().unwrap()));
        world.advance(after - 1);
        assert_eq!(get(&world, &task).await["status"], "working", "{outcome}");
        world.advance(1);
        match act {
            Some(tool) => drop(world.done("agent", tool, json!({"timer_id": timer})).await),
            None if outcome == "completed" => drop(world.until_event(&timer, "timer.completed").await),
            None => {}
        }
        let ended = get(&world, &task).await;
        has(&ended, json!({"status": "completed"}));
        has(&ended["result"]["structuredContent"], json!({"timer_id": timer, "outcome": outcome}));
        // It can be asked again, and says the same.
        assert_eq!(get(&world, &task).await["result"]["structuredContent"]["outcome"], outcome);
        if outcome == "completed" {
            let delivered = world.until_event(&timer.replace("timer_", "msg_"), "message.delivered").await;
            assert_eq!(delivered["data"]["channel"], "task");
            assert!(world.inbox("agent").await.is_empty(), "told once");
        }
    }
}

#[tokio::test]
async fn a_missions_task_ends_with_the_mission_across_a_restart() {
    let mut world = World::start().await;
    let (task, begun) = begin(&world, json!({"total_duration": "30m", "mission": "重启服务器 🚀"})).await;
    let note = &begun["_meta"]["com.anthropic/agent-task"]["modelImmediateResponse"];
    assert!(text(note).contains("End your turn now"), "{begun}");
    let timer = task.split('.').next().unwrap().to_owned();
    world.done("agent", "pause_timer", json!({"timer_id": timer, "pause_duration": 600})).await;
    assert_eq!(get(&world, &task).await["status"], "working", "a pause is not the end of a mission");
    world.down().await;
    world.advance(600 + 1800);
    world.up().await;
    world.until_event(&timer, "timer.completed").await;
    let ended = get(&world, &task).await;
    has(&ended["result"]["structuredContent"], json!({"outcome": "completed", "mission": "重启服务器 🚀"}));
    let words = text(&ended["result"]["content"][0]["text"]);
    assert!(words.contains("carry out your mission now: 重启服务器 🚀"), "what the model reads: {words}");
}

#[tokio::test]
async fn a_task_nobody_asks_about_keeps_no_message_to_itself() {
    let world = World::start().await;
    let (task, _) = begin(&world, json!({"total_duration": 10, "mission": "m"})).await;
    let timer = task.split('.').next().unwrap().to_owned();
    world.advance(10);
    world.until_event(&timer, "timer.completed").await;
    let messages = async || world.done("agent", "read_timer", json!({})).await["messages"].as_array().unwrap().len();
    assert_eq!(messages().await, 0, "the client of the task has time to ask");
    world.advance(31);
    assert_eq!(messages().await, 1, "then anybody may tell it");
    let delivered = world.until_event(&timer.replace("timer_", "msg_"), "message.delivered").await;
    assert_eq!(delivered["data"]["channel"], "tool_result");
    let ended = get(&world, &task).await;
    has(&ended, json!({"status": "completed"}));
    has(&ended["result"]["structuredContent"], json!({"outcome": "completed", "messages": []}));
    let words = text(&ended["result"]["content"][0]["text"]);
    assert!(words.contains("Already told by tool_result"), "{words}");
    assert!(!words.contains("carry out"), "told once: {words}");
}

#[tokio::test]
async fn a_task_says_nothing_while_another_way_tells_its_end() {
    let world = World::start().await;
    let (task, _) = begin(&world, json!({"total_duration": 10, "mission": "m"})).await;
    let timer = task.split('.').next().unwrap().to_owned();
    world.advance(10);
    world.until_event(&timer, "timer.completed").await;
    world.advance(31);
    let leased = world.post("/api/sessions/agent/inbox/lease", json!({"channel": "hook:stop"})).await.body;
    assert_eq!(list(&leased["messages"]).len(), 1);
    let words = async || text(&get(&world, &task).await["result"]["content"][0]["text"]);
    let said = words().await;
    assert!(said.contains("Another way tells it") && !said.contains("carry out"), "{said}");
    // It was not told after all: now the task does.
    let given_back = json!({"lease": leased["lease"]});
    assert_eq!(world.post("/api/sessions/agent/inbox/release", given_back).await.status, 200);
    assert!(words().await.contains("carry out your mission now: m"));
    world.until_event(&timer.replace("timer_", "msg_"), "message.delivered").await;
    assert!(words().await.contains("carry out your mission now: m"), "asked again, its own client hears the same");
}

/// Two tasks of one mission end together; its end is told by one of them.
#[tokio::test]
async fn two_tasks_of_one_mission_tell_its_end_once() {
    let world = World::start().await;
    let (first, _) = begin(&world, json!({"total_duration": 10, "mission": "m"})).await;
    let timer = first.split('.').next().unwrap().to_owned();
    let (second, _) = begin(&world, json!({"timer_id": timer})).await;
    world.advance(10);
    world.until_event(&timer, "timer.completed").await;
    let words = async |task: &str| text(&get(&world, task).await["result"]["content"][0]["text"]);
    assert!(words(&second).await.contains("carry out your mission now"));
    world.until_event(&timer.replace("timer_", "msg_"), "message.delivered").await;
    let said = words(&first).await;
    assert!(said.contains("Already told by task") && !said.contains("carry out"), "{said}");
}

#[tokio::test]
async fn pending_messages_come_with_a_tasks_result_once() {
    let world = World::start().await;
    let pending = async || {
        let made = world.done("agent", "timer", json!({"total_duration": 5, "mission": "other"})).await;
        world.advance(5);
        world.until_message("agent", &id(&made)).await;
        id(&made)
    };
    let messages = |ended: &Value| list(&ended["result"]["structuredContent"]["messages"]);
    let (task, _) = begin(&world, json!({"total_duration": 10, "mission": "m"})).await;
    let timer = task.split('.').next().unwrap().to_owned();
    let other = pending().await;
    assert_eq!(get(&world, &task).await["status"], "working");
    world.advance(5);
    world.until_event(&timer, "timer.completed").await;
    // Whoever only looks at the task tells nothing.
    let mut update = about("tasks/update", &task);
    update["params"]["inputResponses"] = json!({});
    for ask in [update, about("tasks/cancel", &task)] {
        assert_eq!(send(&world, Some("agent"), &ask).await["result"]["resultType"], "complete");
    }
    let ended = within("the answers that told nothing are over", async {
        loop {
            let ended = get(&world, &task).await;
            if !messages(&ended).is_empty() {
                return ended;
            }
        }
    })
    .await;
    assert_eq!(messages(&ended)[0]["timer_id"], other, "{ended}");
    let words = text(&ended["result"]["content"][0]["text"]);
    assert!(words.contains(&finished(&other, "Mission", "other", 5)), "{words}");
    world.until_event(&other.replace("timer_", "msg_"), "message.delivered").await;
    assert_eq!(messages(&get(&world, &task).await).len(), 0, "told once");
    // A result that is fetched again brings nothing new along: nobody may look at it.
    world.until_event(&timer.replace("timer_", "msg_"), "message.delivered").await;
    pending().await;
    assert_eq!(messages(&get(&world, &task).await).len(), 0);
    assert_eq!(world.inbox("agent").await.len(), 1);
    // So do the results of stand-bys that ended otherwise.
    let (task, _) = begin(&world, json!({"total_duration": 300, "timeout_duration": 60, "reason": "r"})).await;
    world.advance(60);
    let ended = get(&world, &task).await;
    assert_eq!(
        (ended["result"]["structuredContent"]["outcome"].as_str(), messages(&ended).len()),
        (Some("timeout"), 1)
    );
}

#[tokio::test]
async fn a_cancelled_task_leaves_its_timer() {
    let world = World::start().await;
    let (task, _) = begin(&world, json!({"total_duration": 300, "reason": "r"})).await;
    let timer = task.split('.').next().unwrap().to_owned();
    for _ in 0..2 {
        let answer = send(&world, Some("agent"), &about("tasks/cancel", &task)).await;
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    }
    assert_eq!(get(&world, &task).await["status"], "cancelled");
    world.advance(300);
    assert_eq!(world.until_message("agent", &timer).await["text"], finished(&timer, "Reason", "r", 300));
}

#[tokio::test]
async fn only_who_asked_for_a_task_gets_one() {
    let world = World::start().await;
    let arguments = json!({"total_duration": 100, "mission": "m"});
    let undeclared = message("tools/call", json!({"name": "timer", "arguments": arguments}), false);
    let answer = send(&world, Some("agent"), &undeclared).await;
    has(&answer["result"], json!({"resultType": "complete"}));
    assert_eq!(answer["result"]["structuredContent"]["outcome"], "scheduled");
    // A call that has nothing to wait for is answered as ever, also where tasks are declared.
    let read = message("tools/call", json!({"name": "read_timer", "arguments": {}}), true);
    assert_eq!(send(&world, Some("agent"), &read).await["result"]["resultType"], "complete");
    // Older revisions know nothing of it.
    let old = Agent::http(&world.url, Era::Legacy, "old", Some("agent")).await;
    assert_eq!(good(&old.call("timer", arguments).await)["outcome"], "scheduled");
    // Without the declaration there are no tasks to ask about either.
    let (task, _) = begin(&world, json!({"total_duration": 100, "mission": "m"})).await;
    let undeclared = send(&world, Some("agent"), &message("tasks/get", json!({"taskId": task}), false)).await;
    assert_eq!(undeclared["error"]["code"], -32021, "{undeclared}");
}

#[tokio::test]
async fn others_tasks_are_not_there() {
    let world = World::start().await;
    let (task, _) = begin(&world, json!({"total_duration": 100, "mission": "m"})).await;
    let (timer, secret) = task.split_once('.').unwrap();
    assert!(secret.len() >= 26, "nobody guesses it: {secret}");
    let guessed = format!("{timer}.{}", "0".repeat(26));
    for (session, id) in [
        (Some("other"), task.as_str()),
        (Some("agent"), &guessed),
        (Some("agent"), timer),
        (Some("agent"), "x.y"),
        (Some("agent"), ""),
    ] {
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let mut ask = about(method, id);
            ask["params"]["inputResponses"] = json!({});
            let answer = send(&world, session, &ask).await;
            assert_eq!(answer["error"]["code"], -32602, "{method} {id}: {answer}");
        }
    }
    assert_eq!(get(&world, &task).await["status"], "working", "nothing has changed");
    // The name alone is enough for a client without a session of its own, which then learns the session.
    world.advance(100);
    world.until_event(timer, "timer.completed").await;
    let answer = send(&world, None, &about("tasks/get", &task)).await;
    assert_eq!(answer["result"]["result"]["structuredContent"]["session"], "agent", "{answer}");
}

/// The bridge carries tasks too, and its daemon may die in between.
#[tokio::test]
async fn tasks_over_stdio_outlive_the_daemon() {
    let home = Home::default();
    home.write_config("listen = \"127.0.0.1:0\"\n");
    let mut bridge = home.command(&["mcp", "--session", "agent"]);
    let mut child = bridge.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = BufReader::new(stdout).lines();
    let mut ask = async |message: Value| {
        stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        let line = within("an answer", lines.next_line()).await.unwrap().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["result"].clone()
    };
    let begun = ask(call(json!({"total_duration": 1, "mission": "m"}))).await;
    has(&begun, json!({"resultType": "task", "status": "working"}));
    home.kill_daemons();
    let ended = within("the mission ends", async {
        loop {
            let task = ask(about("tasks/get", begun["taskId"].as_str().unwrap())).await;
            if task["status"] != "working" {
                break task;
            }
        }
    })
    .await;
    has(&ended["result"]["structuredContent"], json!({"outcome": "completed", "mission": "m"}));
    // The history says by which way it was told.
    within("it is settled", async {
        loop {
            let address = std::fs::read_to_string(home.data().join("address")).unwrap();
            let url = format!("{}/api/history?event=message.delivered", address.split_whitespace().next().unwrap());
            let told = client().get(url).send().await.unwrap().text().await.unwrap();
            if told.contains("message.delivered") {
                return assert!(told.contains(r#""channel":"task""#), "{told}");
            }
        }
    })
    .await;
    assert_eq!(ask(about("tasks/cancel", begun["taskId"].as_str().unwrap())).await["resultType"], "complete");
    drop(stdin);
    within("the bridge ends", child.wait()).await.unwrap();
    home.kill_daemons();
}
