//! The real binary, killed with SIGKILL in the middle of model calls: what was reserved is told by another call, once; what
//! was counted stays counted.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use scripted_upstream::{Listening, Upstream};
use serde_json::{Value, json};
use std::{future::Future, time::Duration};
use support::{
    client,
    process::{Daemon, Home},
    text, within,
};

struct Site {
    home: Home,
    upstream: Listening,
}

impl Site {
    async fn new() -> Self {
        let upstream = Upstream::new(&["scripted"]).listen("127.0.0.1:0").await.unwrap();
        let home = Home::default();
        home.write_config(&format!(
            "[limits]\nlease = \"1s\"\n[[gateway.upstream]]\nname = \"script\"\nbase_url = \"{}\"\nprotocols = [\"chat\", \"messages\", \"responses\"]\n",
            upstream.url()
        ));
        Self { home, upstream }
    }

    fn got(&self, words: &str) -> usize {
        let requests = self.upstream.upstream.log.requests();
        requests.iter().filter(|one| String::from_utf8_lossy(&one.body).contains(words)).count()
    }
}

/// Looks again until it is so; another process cannot say when.
async fn until<F: Future<Output = bool>>(what: &str, look: impl Fn() -> F) {
    within(what, async {
        while !look().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

fn request(content: &str, stream: bool) -> Value {
    let tool = json!({"type": "function", "name": "f", "function": {"name": "f"}, "input_schema": {"type": "object"}});
    json!({
        "model": "scripted", "stream": stream, "max_tokens": 9, "tools": [tool],
        "messages": [{"role": "user", "content": content}],
    })
}

fn call(daemon: &Daemon, api: &str, body: &Value) -> reqwest::RequestBuilder {
    let mut body = body.clone();
    if api == "responses" {
        let said = body.as_object_mut().unwrap().remove("messages").unwrap();
        body["input"] = said;
    }
    client().post(format!("{}/v1/{api}", daemon.url)).header("x-reveille-session", "s").json(&body)
}

async fn tool(daemon: &Daemon, arguments: Value) -> Value {
    let url = format!("{}/api/sessions/s/tools/clock", daemon.url);
    client().post(url).json(&arguments).send().await.unwrap().json().await.unwrap()
}

async fn session(daemon: &Daemon) -> Value {
    client().get(format!("{}/api/sessions/s", daemon.url)).send().await.unwrap().json().await.unwrap()
}

async fn status(daemon: &Daemon) -> String {
    text(&session(daemon).await["reminders"][0]["status"])
}

const CALLS: [(&str, bool); 3] = [("chat/completions", true), ("messages", false), ("responses", true)];

#[tokio::test]
async fn a_reminder_reserved_by_a_killed_server_is_told_once_in_the_end() {
    for (api, stream) in CALLS {
        let site = Site::new().await;
        let daemon = site.home.serve().await;
        tool(&daemon, json!({"action": "schedule", "items": [{"task": "茶", "in": 1}]})).await;
        until("it is due", || async { status(&daemon).await == "due" }).await;
        let slow = format!("script:{}", json!({"head_after": 600_000}));
        let lost = tokio::spawn(call(&daemon, api, &request(&slow, stream)).send());
        until("the call is upstream", || async { site.got("scheduled task") == 1 }).await;
        daemon.kill().await;
        assert!(within("the client notices", lost).await.unwrap().is_err());
        is_told_once(&site, api, stream).await;
    }
}

/// The same when it was a held turn that went on with it.
#[tokio::test]
async fn a_reminder_that_continued_a_killed_servers_turn_is_told_once_in_the_end() {
    for (api, stream) in CALLS {
        let site = Site::new().await;
        let daemon = site.home.serve().await;
        let item = json!({"task": "茶", "in": 1});
        let schedule = json!({"tool": {"name": "clock", "arguments": {"action": "schedule", "items": [item]}}});
        let plan = json!({"steps": [schedule], "then": [{"steps": [{"text": "I will."}]}, {"head_after": 600_000}]});
        let sending = call(&daemon, api, &request(&format!("script:{plan}"), stream));
        let lost = tokio::spawn(async move { sending.send().await?.text().await });
        until("the turn goes on", || async { site.got("scheduled task") == 1 }).await;
        daemon.kill().await;
        assert!(within("the client notices", lost).await.unwrap().is_err());
        is_told_once(&site, api, stream).await;
    }
}

/// A call took the reminder along and was lost with its server: the next one tells it, and none after that.
async fn is_told_once(site: &Site, api: &str, stream: bool) {
    let daemon = site.home.serve().await;
    until("the lease has run out", || async {
        session(&daemon).await["inbox"][0]["leased_until"].as_i64().is_none_or(|until| until <= now())
    })
    .await;
    let answer = call(&daemon, api, &request("hello", stream)).send().await.unwrap().text().await.unwrap();
    assert!(answer.contains("Hello!"), "{answer}");
    assert_eq!(site.got("scheduled task"), 2, "the one that was lost, and the one that was answered");
    until("it is delivered", || async { status(&daemon).await == "delivered" }).await;
    // A second life, and the next call: told once.
    daemon.kill().await;
    let daemon = site.home.serve().await;
    call(&daemon, api, &request("hello", stream)).send().await.unwrap().text().await.unwrap();
    assert_eq!(site.got("scheduled task"), 2);
    assert_eq!(session(&daemon).await["reminders"][0]["deliveryCount"], 1);
}

/// An upstream that refuses may repeat what it was sent; so may whoever reads what is no request.
#[tokio::test]
async fn what_others_repeat_is_not_in_the_log() {
    let site = Site::new().await;
    let daemon = site.home.serve().await;
    tool(&daemon, json!({"action": "schedule", "items": [{"task": "tea", "in": 1}]})).await;
    until("it is due", || async { status(&daemon).await == "due" }).await;
    let refuses = json!({"status": 400, "body": "you said: secret 茶"});
    let list = json!({"tool": {"name": "clock", "arguments": {"action": "list"}}});
    for plan in [refuses.clone(), json!({"steps": [list], "then": [refuses]})] {
        let sent = call(&daemon, "chat/completions", &request(&format!("script:{plan}"), false)).send().await.unwrap();
        assert_eq!(sent.status(), 400);
        assert!(sent.text().await.unwrap().contains("secret"), "the client is told");
    }
    let odd = call(&daemon, "chat/completions", &json!("secret 茶")).send().await.unwrap();
    assert_eq!(odd.status(), 400);
    let log = || std::fs::read_to_string(site.home.log()).unwrap();
    until("it is logged", || async { log().matches("outcome=").count() == 3 }).await;
    let log = log();
    assert!(log.contains("it was not") && log.contains("`script` answered 400"), "{log}");
    assert!(!log.contains("secret") && !log.contains('茶'), "{log}");
}

/// Who was told what and when can be read from the log, but not what it was about.
#[tokio::test]
async fn the_log_says_what_was_done_and_no_text() {
    let site = Site::new().await;
    let daemon = site.home.serve().await;
    let item = json!({"task": "secret 茶", "in": 1, "tool": "brew"});
    let schedule = json!({"tool": {"name": "clock", "arguments": {"action": "schedule", "items": [item]}}});
    let plan = json!({"steps": [schedule], "then": [{"steps": [{"text": "I will."}]}, {"steps": [{"text": "Tea!"}]}]});
    // The turn is held until it is due, and goes on.
    let sent = call(&daemon, "chat/completions", &request(&format!("script:{plan}"), true)).send();
    let answer = sent.await.unwrap().text().await.unwrap();
    assert!(answer.contains("I will.") && answer.contains("Tea!"), "{answer}");
    let log = || std::fs::read_to_string(site.home.log()).unwrap();
    until("it is logged", || async { log().contains("delivered") && log().contains("rounds=3") }).await;
    let log = log();
    let line = |words: &str| {
        log.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {log}")).to_owned()
    };
    let called = line("tool call");
    for part in ["action=\"schedule\"", "tasks=1", "earliest=", "result=\"ok\"", "session=s", "request="] {
        assert!(called.contains(part), "{part} is not in {called}");
    }
    for (words, part) in [("injected", "count=1"), ("delivered", "messages=1"), ("call", "request=")] {
        assert!(line(words).contains(part), "{part} is not in {}", line(words));
    }
    for text in ["secret", "茶", "brew"] {
        assert!(!log.contains(text), "{log}");
    }
}

fn now() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64
}

#[tokio::test]
async fn a_held_turn_and_a_stop_message_survive_a_killed_server() {
    let site = Site::new().await;
    let daemon = site.home.serve().await;
    tool(&daemon, json!({"action": "schedule", "items": [{"task": "later", "in": 3600}]})).await;
    // Continued once of twice, when the server dies under the second continuation.
    let plan = json!({"steps": [{"text": "one"}], "then": [{"steps": ["stall"]}]});
    let mut body = request("<**stopMessage:\"go on\",2**>", true);
    body["messages"] = json!([body["messages"][0], {"role": "user", "content": format!("script:{plan}")}]);
    let sending = call(&daemon, "chat/completions", &body);
    let lost = tokio::spawn(async move { sending.send().await.unwrap().text().await });
    until("it is continued", || async { site.got("go on") == 1 }).await;
    daemon.kill().await;
    assert!(within("the client notices", lost).await.unwrap().is_err());

    let daemon = site.home.serve().await;
    // The one that is left, then the hold; the server dies under that too.
    let next = request("go further", true);
    let held = call(&daemon, "chat/completions", &next).send().await.unwrap();
    until("the last continuation", || async { site.got("go on") == 2 }).await;
    let metrics =
        || async { client().get(format!("{}/metrics", daemon.url)).send().await.unwrap().text().await.unwrap() };
    until("it is held", || async { metrics().await.contains("reveille_gateway_holds 1") }).await;
    assert_eq!(status(&daemon).await, "scheduled");
    daemon.kill().await;
    drop(held);
    let daemon = site.home.serve().await;
    assert_eq!(status(&daemon).await, "scheduled", "the reminder outlives the connection");
    assert_eq!(site.got("go on"), 2, "counted as they were used");
}
