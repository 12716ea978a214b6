//! Reminders in the model's own context, over real sockets: scheduled by the model's call, told in a later request or in a
//! held one, exactly once.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod again;
mod alone;
mod near;
mod refused;
#[path = "../support/mod.rs"]
mod support;

use scripted_upstream::{Listening, Upstream};
use serde_json::{Value, json};
use std::time::Duration;
use support::{World, list, text, within};
use tokio::task::JoinHandle;

const APIS: [&str; 3] = ["chat", "responses", "messages"];

struct Site {
    world: World,
    upstream: Listening,
}

async fn site() -> Site {
    site_with(|_| {}).await
}

async fn site_with(change: impl FnOnce(&mut reveille::config::Config)) -> Site {
    site_behind(Upstream::new(&["scripted"]), change).await
}

async fn site_behind(upstream: Upstream, change: impl FnOnce(&mut reveille::config::Config)) -> Site {
    let upstream = upstream.listen("127.0.0.1:0").await.unwrap();
    let url = upstream.url();
    let world = World::with(|config| {
        let entry = json!({"name": "script", "base_url": url, "protocols": ["chat", "responses", "messages"]});
        config.gateway.upstream = vec![serde_json::from_value(entry).unwrap()];
        config.gateway.retries = 0;
        change(config);
    })
    .await;
    Site { world, upstream }
}

fn path(api: &str) -> &'static str {
    match api {
        "chat" => "/v1/chat/completions",
        "responses" => "/v1/responses",
        _ => "/v1/messages",
    }
}

fn their_tool(api: &str) -> Value {
    let schema = json!({"type": "object"});
    match api {
        "chat" => json!({"type": "function", "function": {"name": "get_weather", "parameters": schema}}),
        "responses" => json!({"type": "function", "name": "get_weather", "parameters": schema}),
        _ => json!({"name": "get_weather", "input_schema": schema}),
    }
}

/// A request with a tool of the client's, whose conversation is these messages of the user and the model in turn.
fn request(api: &str, said: &[&str], stream: bool) -> Value {
    let role = |place: usize| if place.is_multiple_of(2) { "user" } else { "assistant" };
    let messages: Vec<Value> =
        said.iter().enumerate().map(|(place, text)| json!({"role": role(place), "content": text})).collect();
    let name = if api == "responses" { "input" } else { "messages" };
    let mut body = json!({"model": "scripted", "max_tokens": 100, "stream": stream, "tools": [their_tool(api)]});
    body[name] = messages.into();
    body
}

fn script(script: &Value) -> String {
    format!("script:{script}")
}

fn says(text: &str) -> Value {
    json!({"steps": [{"text": text}]})
}

fn clock(arguments: Value) -> Value {
    json!({"tool": {"name": "clock", "arguments": arguments}})
}

impl Site {
    async fn raw(&self, session: Option<&str>, api: &str, body: &Value) -> (u16, String) {
        let mut request = self.world.http.post(format!("{}{}", self.world.url, path(api))).json(body);
        if let Some(session) = session {
            request = request.header("x-reveille-session", session);
        }
        let answer = within("an answer", request.send()).await.unwrap();
        let status = answer.status().as_u16();
        (status, within("its body", answer.text()).await.unwrap())
    }

    async fn ask(&self, session: &str, api: &str, said: &[&str], stream: bool) -> String {
        let (status, body) = self.raw(Some(session), api, &request(api, said, stream)).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// In the background; it is held when this returns.
    async fn held(&self, session: &str, api: &str, said: &[&str], stream: bool) -> JoinHandle<String> {
        let before = self.holds();
        let (url, body) = (format!("{}{}", self.world.url, path(api)), request(api, said, stream));
        let request = self.world.http.post(url).header("x-reveille-session", session).json(&body);
        let call = tokio::spawn(async move { request.send().await.unwrap().text().await.unwrap() });
        self.until_holds(before + 1).await;
        call
    }

    fn holds(&self) -> i64 {
        self.world.server().engine.metrics.gateway.holds.get()
    }

    async fn until_holds(&self, wanted: i64) {
        within("held turns", async {
            while self.holds() != wanted {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }

    async fn until_got(&self, wanted: usize) {
        within("the upstream is asked", async {
            while self.got().len() != wanted {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }

    /// The bodies the upstream got.
    fn got(&self) -> Vec<Value> {
        self.upstream.upstream.log.requests().iter().map(|one| serde_json::from_slice(&one.body).unwrap()).collect()
    }

    fn last(&self) -> String {
        self.got().pop().unwrap().to_string()
    }

    async fn schedule(&self, session: &str, task: &str, seconds: u64) -> String {
        let item = json!({"task": task, "in": seconds});
        let result = self.world.tool(session, "clock", json!({"action": "schedule", "items": [item]})).await;
        text(&result.body["scheduled"][0]["taskId"])
    }

    /// One that is due now.
    async fn due(&self, session: &str, task: &str) -> String {
        let id = self.schedule(session, task, 1).await;
        self.world.advance(1);
        self.until_status(session, &id, "due").await;
        id
    }

    async fn reminders(&self, session: &str) -> Vec<Value> {
        let whole = self.world.get(&format!("/api/sessions/{session}")).await;
        list(&whole["reminders"])
    }

    async fn status(&self, session: &str, id: &str) -> String {
        let found = self.reminders(session).await.into_iter().find(|one| one["taskId"] == id).unwrap();
        text(&found["status"])
    }

    /// The reminder was in a request that came to nothing: it waits, nobody is about to tell it, and the next request does.
    async fn given_back_and_told(&self, session: &str, id: &str, api: &str) {
        assert!(self.last().contains("scheduled task"), "it was in the request");
        let free = || async {
            let inbox = self.world.inbox(session).await;
            inbox.first().is_some_and(|message| message.get("leased_until").is_none()).then_some(())
        };
        self.world.until("it is free again", free).await;
        assert_eq!(self.status(session, id).await, "due");
        self.ask(session, api, &["again"], true).await;
        assert!(self.last().contains("scheduled task"));
        self.until_status(session, id, "delivered").await;
    }

    /// The store hears of a delivery a moment after the answer began.
    async fn until_status(&self, session: &str, id: &str, wanted: &str) {
        self.world.until(wanted, || async { (self.status(session, id).await == wanted).then_some(()) }).await;
    }
}

#[tokio::test]
async fn the_model_schedules_lists_cancels_and_clears() {
    let site = site().await;
    for api in APIS {
        for stream in [true, false] {
            let session = format!("{api}-{stream}");
            let schedule = clock(
                json!({"action": "schedule", "items": [{"task": "喝茶 🍵", "in": "2h"}, {"task": "b", "in": "3h"}]}),
            );
            let plan = json!({
                "steps": [{"text": "One moment."}, schedule],
                "then": [{"steps": [clock(json!({"action": "list"}))]}, says("Done.")],
            });
            // Scheduling leaves something pending, so the turn would be held.
            let call = site.held(&session, api, &[&script(&plan)], stream).await;
            assert_eq!(site.reminders(&session).await.len(), 2);
            let sent = site.got();
            let listed = sent[sent.len() - 1].to_string();
            assert!(listed.contains("喝茶 🍵") && !listed.contains("removedCount"), "{listed}");
            let id = text(&site.reminders(&session).await[0]["taskId"]);
            let cancel = json!({"steps": [clock(json!({"action": "cancel", "taskId": id}))], "then": [says("x")]});
            let other = site.held(&session, api, &["earlier", "a", &script(&cancel)], stream).await;
            assert_eq!(site.status(&session, &id).await, "cancelled");
            let clear = json!({"steps": [clock(json!({"action": "clear"}))], "then": [says("Cleared.")]});
            let body = site.ask(&session, api, &[&script(&clear)], stream).await;
            assert!(body.contains("Cleared.") && !body.contains("clock"), "{body}");
            assert!(site.reminders(&session).await.iter().all(|one| one["status"] == "cancelled"));
            // With nothing left to wait for, the held turns end as they were.
            let body = within("the hold ends", call).await.unwrap();
            assert!(body.contains("One moment.") && body.contains("Done.") && !body.contains("\"clock\""), "{body}");
            within("the hold ends", other).await.unwrap();
            site.until_holds(0).await;
        }
    }
}

#[tokio::test]
async fn the_tool_is_the_same_bytes_after_the_clients_own_and_only_where_it_belongs() {
    let site = site().await;
    for api in APIS {
        for _ in 0..2 {
            site.ask("s", api, &["hello"], false).await;
        }
        let got = site.upstream.upstream.log.requests();
        let bodies: Vec<String> =
            got.iter().rev().take(2).map(|one| String::from_utf8(one.body.clone()).unwrap()).collect();
        assert_eq!(bodies[0], bodies[1]);
        let tools = &site.got().pop().unwrap()["tools"];
        assert_eq!(tools[0], their_tool(api));
        assert!(tools[1].to_string().contains("\"clock\""), "{tools}");
        let mut own = request(api, &["hello"], false);
        own["tools"][0] = serde_json::from_str(&their_tool(api).to_string().replace("get_weather", "clock")).unwrap();
        let mut side = request(api, &["hello"], false);
        side.as_object_mut().unwrap().remove("tools");
        let mut none = request(api, &["hello"], false);
        none["tool_choice"] = if api == "messages" { json!({"type": "none"}) } else { json!("none") };
        for body in [own, side, none] {
            assert_eq!(site.raw(Some("s"), api, &body).await.0, 200);
            assert_eq!(site.got().pop().unwrap(), body, "left alone");
        }
    }
    let off = site_with(|config| config.gateway.tools = vec![]).await;
    let body = request("chat", &["hello"], false);
    off.raw(Some("s"), "chat", &body).await;
    assert_eq!(off.got()[0], body);
    let all =
        site_with(|config| config.gateway.tools = vec!["clock".into(), "timer".into(), "read_timer".into()]).await;
    let timer = json!({"tool": {"name": "timer", "arguments": {"mission": "m", "total_duration": "10m"}}});
    let plan = json!({"steps": [timer], "then": [says("set")]});
    let body = all.ask("s", "messages", &[&script(&plan)], false).await;
    assert!(body.contains("set"));
    assert_eq!(all.world.timers().await.len(), 1);
}

#[tokio::test]
async fn a_reminder_is_told_in_a_later_request_once_at_its_end() {
    let site = site().await;
    for api in APIS {
        for stream in [true, false] {
            let session = format!("{api}-{stream}");
            let id = site.schedule(&session, "检查 \"build\" 🙂", 3600).await;
            site.world.advance(3600);
            let body = request(api, &["hello"], stream);
            let side = {
                let mut side = body.clone();
                side.as_object_mut().unwrap().remove("tools");
                side
            };
            site.raw(Some(&session), api, &side).await;
            assert!(!site.last().contains("scheduled task"), "side requests carry nothing");
            let answer = site.ask(&session, api, &["hello"], stream).await;
            assert!(!answer.contains("scheduled task"));
            let got = site.got().pop().unwrap();
            let messages = list(&got[if api == "responses" { "input" } else { "messages" }]);
            let sent = &body[if api == "responses" { "input" } else { "messages" }][0];
            match api {
                "chat" => assert!(text(&messages[0]["content"]).starts_with("hello\n\n[scheduled task:")),
                _ => assert_eq!(messages[0], *sent, "nothing before it changes"),
            }
            let told = messages.last().unwrap();
            let (text, role) = (told.to_string(), &told["role"]);
            assert!(text.contains("[scheduled task:") && text.contains("检查"), "{text}");
            assert_eq!(role, "user", "an unknown model is told in the user's place");
            assert_eq!(messages.len(), if api == "chat" { 1 } else { 2 }, "in Chat it ends the user's own message");
            site.until_status(&session, &id, "delivered").await;
            site.ask(&session, api, &["hello"], stream).await;
            assert!(!site.last().contains("scheduled task"), "told once");
        }
    }
    let metrics =
        site.world.http.get(format!("{}/metrics", site.world.url)).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("reveille_gateway_injected_total 6"), "{metrics}");
}

#[tokio::test]
async fn finished_timers_are_told_too_and_several_in_one_block() {
    let site = site().await;
    site.world.done("s", "timer", json!({"mission": "ship it", "total_duration": 60})).await;
    site.schedule("s", "one", 200).await;
    site.schedule("s", "two", 201).await;
    site.world.advance(200);
    site.ask("s", "chat", &["hello"], false).await;
    let messages = list(&site.got().pop().unwrap()["messages"]);
    let told = text(&messages[0]["content"]);
    assert_eq!(messages.len(), 1);
    for part in ["[Timer Completed]", "Mission: ship it", "\"one\"", "\"two\""] {
        assert!(told.contains(part), "{told}");
    }
}

#[tokio::test]
async fn a_turn_is_held_until_the_reminder_is_due_and_goes_on() {
    let site = site().await;
    for api in APIS {
        for stream in [true, false] {
            let session = format!("{api}-{stream}");
            let id = site.schedule(&session, "tea", 200).await;
            let plan = json!({"steps": [{"text": "I will."}], "then": [says("Tea time!")]});
            let call = site.held(&session, api, &[&script(&plan)], stream).await;
            assert_eq!(site.status(&session, &id).await, "scheduled");
            site.world.advance(140); // a minute before it is due
            let body = within("the turn goes on", call).await.unwrap();
            assert!(body.contains("I will.") && body.contains("Tea time!"), "{body}");
            assert!(site.last().contains("[scheduled task:\\\"tea\\\""), "{}", site.last());
            site.until_status(&session, &id, "delivered").await;
            site.until_holds(0).await;
        }
    }
}

#[tokio::test]
async fn a_turn_is_held_again_for_the_next_reminder() {
    let site = site().await;
    for api in APIS {
        for stream in [true, false] {
            let session = format!("{api}-{stream}");
            let first = site.schedule(&session, "tea", 100).await;
            let second = site.schedule(&session, "蛋糕", 200).await;
            let plan = json!({"steps": [{"text": "I will."}], "then": [says("Tea time!"), says("Cake time!")]});
            let call = site.held(&session, api, &[&script(&plan)], stream).await;
            let sent = site.got().len() + 1;
            site.world.advance(40);
            site.until_got(sent).await;
            site.until_holds(1).await;
            assert_eq!(site.status(&session, &second).await, "scheduled");
            site.world.advance(100);
            let body = within("the turn goes on", call).await.unwrap();
            assert!(body.contains("Tea time!") && body.contains("Cake time!"), "{body}");
            assert_eq!(site.got().len(), sent + 1);
            assert!(site.last().contains("蛋糕"), "{}", site.last());
            site.until_status(&session, &first, "delivered").await;
            site.until_status(&session, &second, "delivered").await;
            site.until_holds(0).await;
        }
    }
}

/// Sub-agents name the session of their parent, which goes on without them.
#[tokio::test]
async fn calls_of_sub_agents_are_left_alone() {
    let site = site().await;
    let marks = [
        ("x-claude-code-agent-id", "a1"),
        ("x-openai-subagent", "review"),
        ("x-codex-parent-thread-id", "t1"),
        ("x-parent-session-id", "ses_1"),
    ];
    let far = site.schedule("s", "far", 100_000).await;
    let due = site.due("s", "tea").await;
    for api in APIS {
        for (name, value) in marks {
            let body = request(api, &["find it"], true);
            let call = site.world.http.post(format!("{}{}", site.world.url, path(api))).json(&body);
            let call = call.header("x-reveille-session", "s").header(name, value);
            let answer = within("it is not held", async { call.send().await.unwrap().text().await.unwrap() }).await;
            assert!(answer.contains("Hello!"), "{answer}");
            assert_eq!(site.got().pop().unwrap(), body, "{name}: no tool, no message");
        }
    }
    assert_eq!((site.status("s", &due).await, site.status("s", &far).await), ("due".into(), "scheduled".into()));
    // Its parent is told, and held.
    let call = site.held("s", "messages", &["hello"], true).await;
    assert!(site.last().contains("task:\\\"tea"));
    call.abort();
}

#[tokio::test]
async fn what_happens_during_a_hold_takes_effect_at_once() {
    let site = site().await;
    for api in APIS {
        let plan = json!({"steps": [{"text": "ok"}], "then": [says("went on"), says("and on")]});
        let id = site.schedule(api, "far", 100_000).await;
        let sent = site.got().len();
        let call = site.held(api, api, &[&script(&plan)], true).await;
        // A nearer one, from another door.
        site.schedule(api, "near", 5).await;
        site.world.advance(5);
        site.until_got(sent + 2).await;
        assert!(site.last().contains("task:\\\"near"), "{}", site.last());
        site.until_holds(1).await;
        // A timer that finishes.
        site.world.done(api, "timer", json!({"mission": "m", "total_duration": 10})).await;
        site.world.advance(10);
        site.until_got(sent + 3).await;
        assert!(site.last().contains("[Timer Completed]"));
        site.until_holds(1).await;
        // The last one is cancelled.
        site.world.tool(api, "clock", json!({"action": "cancel", "taskId": id})).await;
        let body = within("it ends", call).await.unwrap();
        assert!(body.contains("went on") && body.contains("and on"), "{body}");
        assert_eq!(site.got().len(), sent + 3);
        site.until_holds(0).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_frees_the_hold_and_loses_nothing() {
    let site = site().await;
    let id = site.schedule("s", "tea", 1000).await;
    let plan = script(&says("I will."));
    let call = site.held("s", "messages", &[&plan], true).await;
    call.abort();
    site.until_holds(0).await;
    // Sent again, now for a whole answer: not held a second time.
    let body = site.ask("s", "messages", &[&plan], false).await;
    assert!(body.contains("I will."));
    site.world.advance(1000);
    site.ask("s", "messages", &[&plan, "I will.", "next"], false).await;
    assert!(site.last().contains("task:\\\"tea"));
    site.until_status("s", &id, "delivered").await;
}

#[tokio::test]
async fn holds_have_limits_and_end_with_the_server() {
    let site = site_with(|config| config.gateway.max_hold = serde_json::from_value(json!("100s")).unwrap()).await;
    site.schedule("s", "far", 100_000).await;
    let plan = script(&says("ok"));
    let call = site.held("s", "chat", &[&plan], true).await;
    site.world.advance(100);
    assert!(within("the limit ends it", call).await.unwrap().contains("[DONE]"));
    let call = site.held("s", "chat", &[&plan, "ok", "again"], false).await;
    site.world.advance(240);
    assert!(within("the limit ends it", call).await.unwrap().contains("Hello!"));
    let mut site = site;
    let call = site.held("s", "chat", &[&plan, "ok", "once more"], true).await;
    site.world.down().await;
    assert!(within("the server lets it go", call).await.unwrap().contains("[DONE]"));
    let never = site_with(|config| config.gateway.hold = false).await;
    never.schedule("s", "far", 100_000).await;
    assert!(never.ask("s", "chat", &[&plan], true).await.contains("[DONE]"));
}

/// Ways of an upstream to fail, streaming and not.
fn faults() -> [(bool, Value); 4] {
    let cut = json!({"steps": ["cut"]});
    [(true, json!({"status": 500})), (true, cut.clone()), (false, json!({"status": 503})), (false, cut)]
}

#[tokio::test]
async fn an_upstream_that_fails_gives_the_reminder_back() {
    let site = site().await;
    for api in APIS {
        for (stream, fault) in faults() {
            let session = format!("{api}-{stream}-{}", fault.as_object().unwrap().keys().next().unwrap());
            let id = site.due(&session, "tea").await;
            let (_, body) = site.raw(Some(&session), api, &request(api, &[&script(&fault)], stream)).await;
            assert!(body.contains("error"), "{body}");
            site.given_back_and_told(&session, &id, api).await;
        }
    }
}

/// What the model had said before is its answer; what it was to be told then, it was not.
#[tokio::test]
async fn an_upstream_that_fails_after_a_hold_gives_the_reminder_back() {
    let site = site().await;
    for api in APIS {
        for (stream, fault) in faults() {
            let session = format!("{api}-{stream}-{}", fault.as_object().unwrap().keys().next().unwrap());
            let id = site.schedule(&session, "tea", 200).await;
            let plan = json!({"steps": [{"text": "I will."}], "then": [fault]});
            let call = site.held(&session, api, &[&script(&plan)], stream).await;
            site.world.advance(140);
            let body = within("the turn ends", call).await.unwrap();
            assert!(body.contains("I will."), "{body}");
            site.given_back_and_told(&session, &id, api).await;
        }
    }
}

#[tokio::test]
async fn two_requests_at_once_never_carry_the_same_and_a_slow_one_keeps_it() {
    let site = site().await;
    site.due("s", "tea").await;
    let slow = script(&json!({"head_after": 3_600_000}));
    let (url, body) = (format!("{}{}", site.world.url, path("chat")), request("chat", &[&slow], false));
    let call = tokio::spawn(site.world.http.post(url).header("x-reveille-session", "s").json(&body).send());
    within("it is upstream", async {
        while site.got().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(site.last().contains("scheduled task"));
    // Longer than the lease: the living process makes it last.
    for _ in 0..10 {
        site.world.advance(10);
        site.world
            .until("the lease lasts", || async {
                let until = site.world.inbox("s").await[0]["leased_until"].as_i64();
                until.is_some_and(|until| until > site.world.now()).then_some(())
            })
            .await;
        site.ask("s", "chat", &["other"], false).await;
        assert!(!site.last().contains("scheduled task"));
    }
    call.abort();
    site.world
        .until("it is free again", || async {
            site.world.inbox("s").await[0].get("leased_until").is_none().then_some(())
        })
        .await;
    site.ask("s", "chat", &["other"], false).await;
    assert!(site.last().contains("scheduled task"));
}

#[tokio::test]
async fn nothing_crosses_sessions() {
    let site = site().await;
    site.due("mine", "secret plan").await;
    site.ask("yours", "chat", &["hello"], false).await;
    assert!(!site.last().contains("secret plan"));
    let listing = json!({"steps": [clock(json!({"action": "list"}))], "then": [says("x")]});
    site.ask("yours", "chat", &[&script(&listing)], false).await;
    assert!(!site.last().contains("secret plan"));
    site.ask("mine", "chat", &["hello"], false).await;
    assert!(site.last().contains("secret plan"));
}

#[tokio::test]
async fn nothing_crosses_servers_that_share_a_database() {
    let mut site = site_with(|config| config.server_id = Some("one".into())).await;
    site.due("s", "secret plan").await;
    site.ask("s", "chat", &["<**stopMessage:\"secret words\",5**> hi <**stopMessage:clear**>"], false).await;
    site.due("s", "secret plan").await;
    site.world.down().await;
    site.world.config.server_id = Some("two".into());
    site.world.up().await;
    site.ask("s", "chat", &["hello"], false).await;
    assert!(!site.last().contains("secret"), "{}", site.last());
    site.world.down().await;
    site.world.config.server_id = Some("one".into());
    site.world.up().await;
    site.ask("s", "chat", &["hello"], false).await;
    assert!(site.last().contains("secret plan"), "{}", site.last());
}

/// At the same time, too.
#[tokio::test]
async fn nothing_crosses_two_servers_at_one_database() {
    let database = scratch_postgres::Cluster::shared().database();
    let at = |id: &'static str| {
        let database = database.clone();
        site_with(move |config| (config.server_id, config.database_url) = (Some(id.into()), Some(database)))
    };
    let (one, two) = (at("one").await, at("two").await);
    one.schedule("s", "far", 100_000).await;
    one.due("s", "secret plan").await;
    let armed = "<**stopMessage:\"secret words\",1**> hi";
    // Neither told nor held, nor continued there.
    for api in APIS {
        two.ask("s", api, &["hello"], true).await;
        assert!(!two.last().contains("secret"), "{}", two.last());
    }
    assert_eq!(two.got().len(), 3);
    let call = one.held("s", "chat", &[armed], true).await;
    assert!(one.last().contains("secret plan") && one.last().contains("secret words"), "{}", one.last());
    two.ask("s", "chat", &["hello"], true).await;
    assert!(!two.last().contains("secret"), "{}", two.last());
    assert_eq!((one.holds(), two.holds()), (1, 0));
    call.abort();
}

#[tokio::test]
async fn mixed_calls_are_put_back_in_every_later_request_also_after_a_restart() {
    for api in APIS {
        let mut site = site_with(|config| config.gateway.hold = false).await;
        let theirs = json!({"tool": {"name": "get_weather", "arguments": {"city": "Paris"}}});
        let plan = json!({"steps": [clock(json!({"action": "schedule", "task": "茶", "in": "1h"})), theirs]});
        let body = site.ask("s", api, &[&script(&plan)], false).await;
        assert!(body.contains("get_weather") && !body.contains("\"clock\""), "{body}");
        assert_eq!(site.reminders("s").await.len(), 1);
        let answer: Value = serde_json::from_str(&body).unwrap();
        let mut next = request(api, &["hello"], false);
        match api {
            "chat" => {
                let call = &answer["choices"][0]["message"];
                let result = json!({"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "sunny"});
                next["messages"] = json!([next["messages"][0], call, result]);
            }
            "responses" => {
                let call = &answer["output"][0];
                let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"});
                next["input"] = json!([next["input"][0], call, result]);
            }
            _ => {
                let block = &answer["content"][0];
                let result = json!({"type": "tool_result", "tool_use_id": block["id"], "content": "sunny"});
                next["messages"] = json!([
                    next["messages"][0], {"role": "assistant", "content": answer["content"]}, {"role": "user", "content": [result]},
                ]);
            }
        }
        for restart in [false, true] {
            if restart {
                site.world.down().await;
                site.world.up().await;
            }
            let (status, _) = site.raw(Some("s"), api, &next).await;
            assert_eq!(status, 200);
            let got = site.last();
            assert!(got.contains("\"name\":\"clock\"") && got.contains("taskId") && got.contains("sunny"), "{got}");
        }
        // Another session's history has no place for it.
        site.raw(Some("other"), api, &next).await;
        assert!(!site.last().contains("taskId\\\""), "{}", site.last());
    }
}

#[tokio::test]
async fn a_stop_message_comes_first_then_the_hold() {
    let site = site().await;
    for api in APIS {
        for stream in [true, false] {
            let session = format!("{api}-{stream}");
            site.schedule(&session, "tea", 100).await;
            let plan = json!({
                "steps": [{"text": "one"}],
                "then": [says("two"), says("three"), says("four, tea")],
            });
            // The directive stands beside the script; some clients escape its bracket.
            let mut body = request(api, &["<**stopMessage:\"继续\",2**>"], stream);
            let name = if api == "responses" { "input" } else { "messages" };
            let both = json!([body[name][0], {"role": "user", "content": script(&plan)}]);
            body[name] = both;
            let raw = body.to_string().replace('<', "\\u003c");
            let before = site.got().len();
            let request = site.world.http.post(format!("{}{}", site.world.url, path(api)));
            let request = request.header("x-reveille-session", &session).body(raw);
            let call = tokio::spawn(async move { request.send().await.unwrap().text().await.unwrap() });
            site.until_holds(1).await;
            let got = site.got();
            assert_eq!(got.len(), before + 3, "twice continued before it is held");
            for (place, one) in got[before..].iter().enumerate() {
                let one = one.to_string();
                assert!(!one.contains("stopMessage"), "{one}");
                assert_eq!(one.matches("继续").count(), place, "{one}");
            }
            site.world.advance(100);
            let answer = within("it goes on", call).await.unwrap();
            for part in ["one", "two", "three", "four, tea"] {
                assert!(answer.contains(part), "{part} is not in {answer}");
            }
            site.until_holds(0).await;
            let events = site.world.events_of(&session).await;
            assert_eq!(events.iter().filter(|event| *event == "stop_message.used").count(), 2);
        }
    }
}

#[tokio::test]
async fn directives_are_carried_out_once_and_never_go_upstream() {
    let mut site = site().await;
    let armed = "do it <**stopMessage:\"go on\",2**>";
    let used = |site: &Site| site.last().matches("go on").count();
    site.ask("s", "chat", &[armed], false).await;
    assert_eq!((site.got().len(), used(&site)), (3, 2));
    // The whole history again: the same turn, a tool loop, a later turn. Armed once.
    site.ask("s", "chat", &[armed], false).await;
    site.ask("s", "chat", &[armed, "done", "thanks"], false).await;
    site.world.down().await;
    site.world.up().await;
    site.ask("s", "chat", &[armed], false).await;
    assert_eq!(site.got().len(), 6);
    assert!(site.got().iter().all(|body| !body.to_string().contains("stopMessage")));
    // Said again, it is meant again.
    site.ask("s", "chat", &[armed, "done", armed], false).await;
    assert_eq!(site.got().len(), 9);
    // Clearing, alone in its message, malformed ones beside it.
    let id = site.schedule("s", "tea", 1000).await;
    site.ask("s", "messages", &["<**clock:clear**>"], false).await;
    assert_eq!(site.status("s", &id).await, "cancelled");
    assert!(site.last().contains("[A directive to the gateway.]"), "no empty text goes upstream: {}", site.last());
    let id = site.schedule("s", "tea", 1000).await;
    let call = site.held("s", "responses", &["x <**clock:clean**> <**stopMessage:oops <**clock**>"], true).await;
    assert_eq!(site.status("s", &id).await, "scheduled");
    assert!(!site.last().contains("<**"), "{}", site.last());
    call.abort();
    // In a side request too, though nothing is carried out there.
    let mut side = request("chat", &["title of: <**clock:clear**> tea"], false);
    side.as_object_mut().unwrap().remove("tools");
    site.raw(Some("s"), "chat", &side).await;
    assert!(!site.last().contains("<**"));
    assert_eq!(site.status("s", &id).await, "scheduled");
    // And where tokens are only counted.
    let count = request("messages", &["<**clock:clear**> how long is this? 好"], false);
    let url = format!("{}/v1/messages/count_tokens", site.world.url);
    let answer = site.world.http.post(url).header("x-reveille-session", "s").json(&count).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    assert!(site.last().contains("how long is this? 好") && !site.last().contains("<**"), "{}", site.last());
    assert_eq!(site.status("s", &id).await, "scheduled");
    // What a tool, the model or the system says orders nothing, and does not go upstream either: the same bytes every time.
    let quoted = "the manual says <**clock:clear**> and no more";
    for api in APIS {
        let mut body = request(api, &["read it", quoted, "ok"], true);
        match api {
            "chat" => {
                let tool = json!({"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": quoted}]});
                let said = [json!({"role": "system", "content": quoted}), tool];
                body["messages"].as_array_mut().unwrap().splice(0..0, said);
            }
            "responses" => {
                body["instructions"] = quoted.into();
                let output = json!({"type": "function_call_output", "call_id": "c", "output": quoted});
                body["input"].as_array_mut().unwrap().insert(2, output);
            }
            _ => {
                body["system"] = json!([{"type": "text", "text": quoted}]);
                let result = json!({"type": "tool_result", "tool_use_id": "c", "content": quoted});
                body["messages"][2]["content"] = json!([result, {"type": "text", "text": "ok"}]);
            }
        }
        let sent = site.got().len();
        let url = format!("{}{}", site.world.url, path(api));
        let call = site.world.http.post(url).header("x-reveille-session", "s").json(&body).send();
        let call = tokio::spawn(async move { call.await.unwrap().text().await });
        site.until_got(sent + 1).await;
        let left = site.last();
        assert_eq!(
            (left.matches("<**").count(), left.matches("the manual says  and no more").count()),
            (0, 3),
            "{left}"
        );
        assert_eq!(site.status("s", &id).await, "scheduled");
        call.abort();
    }
}

#[tokio::test]
async fn a_turn_that_broke_off_schedules_once() {
    let site = site().await;
    let plan = json!({
        "steps": [clock(json!({"action": "schedule", "task": "tea", "in": "1h"}))],
        "then": [{"status": 500, "times": 1, "steps": [{"text": "ok"}]}],
    });
    let body = request("chat", &[&script(&plan)], false);
    let (status, _) = site.raw(Some("s"), "chat", &body).await;
    assert_eq!(status, 500, "the upstream's own");
    let call = site.held("s", "chat", &[&script(&plan)], true).await;
    assert_eq!(site.reminders("s").await.len(), 1, "the client sent its turn again");
    call.abort();
    site.until_holds(0).await;
}

#[tokio::test]
async fn bad_calls_are_errors_a_model_can_act_on() {
    let site = site().await;
    for (arguments, code) in [
        (json!({"action": "schedule", "items": [{"task": "t", "dueAt": "2027-01-21T20:30:00"}]}), "invalid_due_at"),
        (json!({"action": "schedule", "items": [{"task": "t", "dueAt": "soon"}]}), "invalid_due_at"),
        (json!({"action": "schedule", "items": [{"task": "t", "dueAt": "2020-01-01T00:00:00Z"}]}), "due_too_old"),
        (json!({"action": "schedule", "items": vec![json!({"task": "t", "in": 9}); 3000]}), "invalid_argument"),
        (json!({"action": "schedule", "task": "长".repeat(100_000), "in": 9}), "text_too_long"),
        (json!({"action": "cancel", "taskId": "task_nowhere"}), "unknown_reminder"),
        (json!({"action": "remind"}), "invalid_argument"),
        (json!("not an object"), "invalid_argument"),
    ] {
        let plan = json!({"steps": [clock(arguments)], "then": [says("I see.")]});
        let body = site.ask("s", "messages", &[&script(&plan)], true).await;
        assert!(body.contains("I see."), "{body}");
        let got = site.got().pop().unwrap();
        let result = &got["messages"][2]["content"][0];
        assert_eq!(result["is_error"], true);
        let error: Value = serde_json::from_str(result["content"].as_str().unwrap()).unwrap();
        assert_eq!((&error["ok"], &error["code"]), (&json!(false), &json!(code)), "{error}");
    }
    let whole = site.world.get("/api/reminders").await;
    assert_eq!(list(&whole["reminders"]), Vec::<Value>::new(), "nothing is half written");
    let plan = json!({"steps": [clock(json!({"action": "list"}))], "then": [says("I see.")]});
    let (_, body) = site.raw(None, "chat", &request("chat", &[&script(&plan)], false)).await;
    assert!(body.contains("I see.") && site.last().contains("x-reveille-session"), "{}", site.last());
}

#[tokio::test]
async fn a_model_that_calls_for_ever_comes_to_an_end() {
    let site = site().await;
    let list = json!({"steps": [clock(json!({"action": "list"}))]});
    let mut plan = list.clone();
    plan["then"] = vec![list; 50].into();
    for api in APIS {
        for stream in [true, false] {
            let before = site.got().len();
            let body = site.ask("s", api, &[&script(&plan)], stream).await;
            assert!(!body.contains("\"clock\"") && !body.contains("tool_use\""), "{body}");
            assert_eq!(site.got().len() - before, 10, "eight answers, one refusal, and the end");
            assert!(site.last().contains("too_many_calls"));
        }
    }
}

#[tokio::test]
async fn a_conversation_that_the_upstream_keeps_is_one_session() {
    let site = site_with(|config| config.gateway.hold = false).await;
    let plan = json!({"steps": [clock(json!({"action": "schedule", "task": "tea", "in": 60}))], "then": [says("ok")]});
    let (_, body) = site.raw(None, "responses", &request("responses", &[&script(&plan)], false)).await;
    let answer: Value = serde_json::from_str(&body).unwrap();
    site.world.advance(60);
    let mut next = request("responses", &["and now?"], false);
    next["previous_response_id"] = answer["id"].clone();
    site.raw(None, "responses", &next).await;
    assert!(site.last().contains("task:\\\"tea"), "{}", site.last());
}

/// Each answer of the conversation leads to it, also after a restart.
#[tokio::test]
async fn a_conversation_is_found_by_any_of_its_answers_also_after_a_restart() {
    let mut site = site_with(|config| config.gateway.hold = false).await;
    let plan =
        json!({"steps": [clock(json!({"action": "schedule", "task": "tea", "in": "1h"}))], "then": [says("ok")]});
    let (_, body) = site.raw(None, "responses", &request("responses", &[&script(&plan)], false)).await;
    let mut answers = vec![serde_json::from_str::<Value>(&body).unwrap()["id"].clone()];
    let next = |site: &Site, previous: &Value, number: usize| {
        let mut next = request("responses", &["and now?"], false);
        next["previous_response_id"] = previous.clone();
        // The script's answers have one name each.
        let answer = json!({"id": format!("resp_{number}"), "status": "completed", "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
        ]});
        next["input"][0]["content"] = script(&json!({"body": answer.to_string()})).into();
        let request = site.world.http.post(format!("{}/v1/responses", site.world.url)).json(&next);
        async { within("an answer", request.send()).await.unwrap().json::<Value>().await.unwrap() }
    };
    for number in 10..13 {
        let answer = next(&site, answers.last().unwrap(), number).await;
        answers.push(answer["id"].clone());
    }
    let upstream = site.got()[2]["previous_response_id"].clone();
    assert_eq!(upstream, "resp_1_scripted", "what the upstream calls the end of the first turn");
    site.world.down().await;
    site.world.up().await;
    site.world.advance(3600);
    // From the middle, as a client that goes back and tries again.
    next(&site, &answers[2], 20).await;
    assert!(site.last().contains("task:\\\"tea"), "{}", site.last());
    assert_eq!(site.got().pop().unwrap()["previous_response_id"], answers[2]);
    next(&site, &answers[0], 21).await;
    assert_eq!(site.got().pop().unwrap()["previous_response_id"], "resp_1_scripted", "also after a restart");
    // Another conversation has nothing of it.
    next(&site, &json!("resp_unknown"), 22).await;
    assert!(!site.last().contains("task:\\\"tea"));
}

/// A turn that came to the bound left a call open, which its upstream wants answered before it goes on.
#[tokio::test]
async fn what_a_turn_left_open_is_answered_with_the_next_call() {
    let site = site_with(|config| config.gateway.max_rounds = 2).await;
    let list = json!({"steps": [clock(json!({"action": "list"}))]});
    let mut plan = list.clone();
    plan["then"] = vec![list; 9].into();
    let (_, body) = site.raw(None, "responses", &request("responses", &[&script(&plan)], false)).await;
    assert_eq!(site.got().len(), 4, "two answers, one refusal, and the end");
    let answer: Value = serde_json::from_str(&body).unwrap();
    for input in [json!("bare text"), json!([{"role": "user", "content": "a list"}])] {
        let mut next = request("responses", &[], false);
        next["input"] = input;
        next["previous_response_id"] = answer["id"].clone();
        site.raw(None, "responses", &next).await;
        let got = site.got().pop().unwrap();
        assert_eq!(got["previous_response_id"], "resp_3_scripted", "{got}");
        let first = &got["input"][0];
        assert_eq!((&first["type"], &first["call_id"]), (&json!("function_call_output"), &json!("call_3_0")), "{got}");
        assert!(
            first["output"].as_str().unwrap().contains("too_many_calls") && got["input"][1]["role"] == "user",
            "{got}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_is_one_document_is_not_continued() {
    let site = site().await;
    site.schedule("s", "far", 100_000).await;
    for (api, name, form) in [
        ("chat", "response_format", json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {}}})),
        ("responses", "text", json!({"format": {"type": "json_schema", "name": "x", "schema": {}}})),
        ("messages", "output_config", json!({"format": {"type": "json_schema", "schema": {}}})),
    ] {
        for stream in [true, false] {
            let mut body = request(api, &["<**stopMessage:\"go on\",1**> hello"], stream);
            body[name] = form.clone();
            let before = site.got().len();
            let (status, answer) = site.raw(Some("s"), api, &body).await;
            assert_eq!((status, site.got().len()), (200, before + 1), "{answer}");
            assert!(site.last().contains("\"clock\"") && !site.last().contains("stopMessage"));
            // With that form and no tools it is left alone.
            body.as_object_mut().unwrap().remove("tools");
            site.raw(Some("s"), api, &body).await;
            assert!(!site.last().contains("\"clock\""));
        }
    }
}

#[tokio::test]
async fn no_task_text_is_in_the_metrics_and_the_continuations_are_counted() {
    let site = site().await;
    let plan = json!({"steps": [clock(json!({"action": "list"}))], "then": [says("ok")]});
    site.ask("s", "chat", &[&script(&plan)], false).await;
    let metrics =
        site.world.http.get(format!("{}/metrics", site.world.url)).send().await.unwrap().text().await.unwrap();
    for line in [r#"reveille_gateway_continued_total{why="tool"} 1"#, "reveille_gateway_holds 0"] {
        assert!(metrics.contains(line), "{metrics}");
    }
}
