//! Webhooks: what they are told, in which order, and what becomes of those that do not take it.

use super::{
    Stage, stage,
    support::{
        endpoint::{Answer, Called},
        *,
    },
};
use reqwest::Method;
use serde_json::{Value, json};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Says something, calls something and closes the session, all after a minute.
async fn telling() -> Stage {
    let stage = stage().await;
    let base = &stage.endpoints.url;
    let agent = json!({
        "tools": [{"name": "note", "endpoint": format!("{base}/note")}], "system_actions": ["note"],
        "timers": [
            {"timer_id": "say", "delay_seconds": 60, "tool_name": "generate_response", "message": "在吗？"},
            {"timer_id": "note", "delay_seconds": 60, "tool_name": "note"},
            {"timer_id": "close", "delay_seconds": 60, "tool_name": "close_conversation"},
        ],
        "webhooks": [{"url": format!("{base}/hook/{{session}}"), "secret": SECRET}],
    });
    let set = stage.world.request(Method::PUT, "/api/agents/acme/support", Some(&agent)).await;
    assert_eq!(set.status, 200, "{}", set.body);
    stage
}

async fn silence(world: &World, sessions: &[&str]) {
    for session in sessions {
        let said = world.post(&format!("/api/sessions/{session}/activity"), json!({"agent": "acme:support"})).await;
        assert_eq!(said.status, 200, "{}", said.body);
    }
    world.advance(60);
}

async fn hook(stage: &Stage) -> Called {
    loop {
        let called = stage.endpoints.next().await;
        if called.path.starts_with("/hook") {
            return called;
        }
    }
}

fn kind(called: &Called) -> String {
    text(&called.json()["type"])
}

async fn calls(world: &World, session: &str) -> Vec<Value> {
    let calls = list(&world.get(&format!("/api/sessions/{session}")).await["calls"]);
    calls.into_iter().filter(|call| call["kind"] == "webhook").collect()
}

#[tokio::test]
async fn what_happened_first_is_told_first() {
    let stage = telling().await;
    for number in 0..10 {
        let session = format!("chat-{number}");
        silence(&stage.world, &[&session]).await;
        let mut told = Vec::new();
        for _ in 0..4 {
            told.push(hook(&stage).await);
        }
        assert!(told.iter().all(|called| called.path == format!("/hook/{session}")), "{told:?}");
        let kinds: Vec<String> = told.iter().map(kind).collect();
        assert_eq!(kinds[3], "session.closed", "{kinds:?}");
        let seqs: Vec<u64> = told.iter().map(|called| called.json()["seq"].as_u64().unwrap()).collect();
        assert!(seqs.is_sorted_by(|one, next| one < next), "{seqs:?}");
    }
}

#[tokio::test]
async fn one_that_hangs_is_waited_for_and_one_that_failed_is_not() {
    let stage = telling().await;
    let world = &stage.world;
    stage.endpoints.answers("/hook/slow", &[Answer::Hangs, Answer::Says(200, String::new())]);
    silence(world, &["slow", "quick"]).await;
    // Another session does not wait.
    let mut told = Vec::new();
    for _ in 0..5 {
        told.push(hook(&stage).await);
    }
    let (first, others): (Vec<Called>, Vec<Called>) = told.into_iter().partition(|called| called.path == "/hook/slow");
    assert_eq!((first.len(), others.len()), (1, 4), "{first:?}");
    let first = &first[0];
    let running = |calls: &[Value]| calls.iter().all(|call| call["status"] == "running");
    assert!(running(&calls(world, "slow").await), "begun, and in line");
    world.advance(20);
    let mut kinds = Vec::new();
    for _ in 0..3 {
        kinds.push(kind(&hook(&stage).await));
    }
    assert_eq!(kinds[2], "session.closed", "{kinds:?}");
    let waits = || async { calls(world, "slow").await.iter().all(|call| call["status"] != "running").then_some(()) };
    world.until("it waits for its next attempt", waits).await;
    world.advance(5);
    let again = hook(&stage).await;
    assert_eq!((again.header("webhook-id"), &again.body), (first.header("webhook-id"), &first.body));
}

#[tokio::test]
async fn only_who_is_gone_or_elsewhere_is_not_told_again() {
    let elsewhere = Answer::Redirects("https://elsewhere.example/".into());
    let says = |status| Answer::Says(status, "no".into());
    for (answer, status) in [
        (says(400), "waiting"),
        (says(401), "waiting"),
        (says(404), "waiting"),
        (says(500), "waiting"),
        (says(410), "failed"),
        (elsewhere, "failed"),
    ] {
        let stage = telling().await;
        stage.endpoints.answers("/hook/chat-1", std::slice::from_ref(&answer));
        silence(&stage.world, &["chat-1"]).await;
        let told = stage
            .world
            .until("all were told once", || async {
                let calls = calls(&stage.world, "chat-1").await;
                let told = calls.len() == 4 && calls.iter().all(|call| call["last_status"].is_u64());
                told.then_some(calls)
            })
            .await;
        assert!(told.iter().all(|call| call["status"] == status), "{answer:?}: {told:?}");
    }
}

#[tokio::test]
async fn an_address_in_any_script_is_one() {
    let stage = telling().await;
    let world = &stage.world;
    let mut agent = world.get("/api/agents/acme/support").await;
    agent["webhooks"][0] = json!({"url": format!("{}/hook/日 历/{{session}}", stage.endpoints.url), "secret": SECRET});
    let set = world.request(Method::PUT, "/api/agents/acme/support", Some(&agent)).await;
    assert_eq!(set.status, 200, "{}", set.body);
    silence(world, &["chat-1"]).await;
    assert_eq!(hook(&stage).await.path, "/hook/%E6%97%A5%20%E5%8E%86/chat-1");
}

#[tokio::test]
async fn one_that_moved_is_told_where_it_is_now() {
    let stage = telling().await;
    let world = &stage.world;
    let base = &stage.endpoints.url;
    let mut agent = world.get("/api/agents/acme/support").await;
    let said = world.post("/api/sessions/chat-1/activity", json!({"agent": "acme:support"})).await;
    assert_eq!(said.status, 200, "{}", said.body);
    agent["webhooks"][0] = json!({"url": format!("{base}/moved/{{session}}"), "secret": SECRET});
    let set = world.request(Method::PUT, "/api/agents/acme/support", Some(&agent)).await;
    assert_eq!(set.status, 200, "{}", set.body);
    world.advance(60);
    for _ in 0..5 {
        let called = stage.endpoints.next().await;
        assert!(called.path == "/note" || called.path == "/moved/chat-1", "{called:?}");
    }
    let done = || async { calls(world, "chat-1").await.iter().all(|call| call["status"] == "done").then_some(()) };
    world.until("all were told", done).await;
}

/// What began with two goes to the one that is left, once, and to nobody in the other's name.
#[tokio::test]
async fn one_that_was_removed_is_not_told_in_the_place_of_another() {
    let stage = telling().await;
    let world = &stage.world;
    let base = &stage.endpoints.url;
    let hook = |path: &str| json!({"url": format!("{base}/{path}"), "secret": SECRET});
    let mut agent = world.get("/api/agents/acme/support").await;
    let mut set = async |hooks: Value| {
        agent["webhooks"] = hooks;
        let set = world.request(Method::PUT, "/api/agents/acme/support", Some(&agent)).await;
        assert_eq!(set.status, 200, "{}", set.body);
    };
    set(json!([hook("gone"), hook("kept")])).await;
    let said = world.post("/api/sessions/chat-1/activity", json!({"agent": "acme:support"})).await;
    assert_eq!(said.status, 200, "{}", said.body);
    set(json!([hook("kept")])).await;
    world.advance(60);
    let ended = || async {
        let calls = calls(world, "chat-1").await;
        let over = calls.len() == 8 && calls.iter().all(|call| call["status"] == "done" || call["status"] == "failed");
        over.then_some(calls)
    };
    for call in world.until("all were told or given up", ended).await {
        let gone = text(&call["target"]).contains("gone");
        assert_eq!(call["status"], if gone { "failed" } else { "done" }, "{call}");
    }
    let told = async || stage.endpoints.next().await.path;
    let mut paths = [told().await, told().await, told().await, told().await, told().await];
    paths.sort();
    assert_eq!(paths, ["/kept", "/kept", "/kept", "/kept", "/note"]);
}

#[tokio::test]
async fn dead_letters_are_listed_and_replayed_together() {
    let stage = telling().await;
    let world = &stage.world;
    for path in ["/hook/chat-1", "/hook/chat-2"] {
        stage.endpoints.answers(path, &[Answer::Says(410, String::new())]);
    }
    stage.endpoints.answers("/note", &[Answer::Says(400, String::new())]);
    silence(world, &["chat-1", "chat-2"]).await;
    let failed = async |query: &str| list(&world.get(&format!("/api/calls?status=failed{query}")).await["calls"]);
    world.until("all failed", || async { (failed("").await.len() == 10).then_some(()) }).await;
    assert_eq!((failed("&kind=webhook").await.len(), failed("&kind=tool").await.len()), (8, 2));
    assert_eq!(world.request(Method::GET, "/api/calls?kind=x", None).await.status, 400);
    // Newest first, one to a page: those of tools are in between, and passed over.
    let mut after = String::new();
    for _ in 0..8 {
        let page = world.post(&format!("/api/calls/replay?kind=webhook&limit=1{after}"), json!({})).await;
        has(&page.body, json!({"replayed": 1, "more": true}));
        after = format!("&after={}", page.body["next"]);
    }
    world.until("all failed again", || async { (failed("").await.len() == 10).then_some(()) }).await;
    stage.endpoints.answers("/hook/chat-1", &[Answer::Says(200, String::new())]);
    let replayed = world.post("/api/calls/replay?kind=webhook&session=chat-1", json!({})).await;
    assert_eq!(replayed.body, json!({"replayed": 4, "more": false}));
    world.until("they were told", || async { (failed("&kind=webhook").await.len() == 4).then_some(()) }).await;
    assert!(calls(world, "chat-1").await.iter().all(|call| call["status"] != "failed"));
}
