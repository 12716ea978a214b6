//! Endpoints as they are: they fail, hang, redirect, flood, and are fewer than there are calls.

use super::{
    activity, put, settled,
    support::{
        endpoint::{Answer, Endpoints},
        *,
    },
    world,
};
use reqwest::Method;
use reveille_core::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn one_timer(base: &str, path: &str) -> Value {
    json!({
        "tools": [{"name": "notify", "endpoint": {"url": format!("{base}{path}"), "timeout": 5}}],
        "system_actions": ["notify"],
        "timers": [{"timer_id": "t", "delay_seconds": 60, "tool_name": "notify", "tool_params": {"n": 1}}],
    })
}

#[tokio::test]
async fn endpoints_that_fail_are_tried_again_under_one_key() {
    let (world, endpoints) = world(|base| one_timer(base, "/flaky/{session}?a={tenant}")).await;
    let broken = Answer::Says(503, "忙".into());
    endpoints.answers("/flaky/chat-1", &[broken.clone(), broken, Answer::Says(200, "ok".into())]);
    activity(&world, "chat-1", "message").await;
    activity(&world, "chat-1", "response").await;
    world.advance(60);
    let mut keys = Vec::new();
    for wait in [1, 2, 0] {
        let call = endpoints.next().await;
        assert_eq!(call.path, "/flaky/chat-1?a=acme");
        keys.push(call.header("idempotency-key").to_owned());
        if wait > 0 {
            world.until_event(&keys[0], "call.retried").await;
            let retries = async || {
                let all = world.history_of(&keys[0]).await;
                all.iter().filter(|entry| entry["event"] == "call.retried").count()
            };
            world.until("another retry", || async { (retries().await == keys.len()).then_some(()) }).await;
            world.advance(wait);
        }
    }
    keys.dedup();
    assert_eq!(keys.len(), 1);
    let done = world.until_event(&keys[0], "call.done").await;
    has(&done["data"], json!({"attempts": 3, "status": 200, "target": "notify", "timer_id": "t"}));
    let metrics = world.http.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap();
    for line in [
        r#"reveille_agent_calls_total{agent="acme:support",kind="tool",outcome="failed"} 2"#,
        r#"reveille_agent_calls_total{agent="acme:support",kind="tool",outcome="done"} 1"#,
        r#"reveille_session_timers_triggered_total{agent="acme:support"} 1"#,
        r#"reveille_session_timers{agent="acme:support",status="disabled"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    dashboard_fits(&metrics);
}

/// The sample dashboard: one that asks for a metric nobody has shows nothing, and says nothing.
fn dashboard_fits(metrics: &str) {
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let known: BTreeSet<&str> = types.collect();
    let dashboard = include_str!("../../../../docs/grafana.json");
    let asked: BTreeSet<&str> = dashboard
        .match_indices("reveille_")
        .map(|(at, _)| dashboard[at..].split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap())
        .collect();
    assert!(asked.len() > 4, "{asked:?}");
    for name in asked {
        let suffixes = ["_total", "_bucket", "_sum", "_count"];
        let family = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        assert!(known.contains(name) || known.contains(family), "{name} is not among {known:?}");
    }
}

#[tokio::test]
async fn bad_endpoints_are_bounded_and_recorded_and_harm_no_other_session() {
    let cases = [
        (Answer::Hangs, "no answer within 5 seconds", "failed"),
        (Answer::Redirects("http://169.254.169.254/latest/meta-data".into()), "redirects are not followed", "failed"),
        (Answer::Says(404, "no such thing".into()), "404", "failed"),
    ];
    for (answer, error, status) in cases {
        let (world, endpoints) = world(|base| one_timer(base, "/{session}")).await;
        endpoints.answers("/bad", std::slice::from_ref(&answer));
        for session in ["bad", "good"] {
            activity(&world, session, "message").await;
            activity(&world, session, "response").await;
        }
        world.advance(60);
        let called = [endpoints.next().await.path, endpoints.next().await.path];
        assert!(called.contains(&"/good".to_owned()) && called.contains(&"/bad".to_owned()), "{called:?}");
        has(&settled(&world, "good", 1).await[0], json!({"status": "done", "attempts": 1}));
        if matches!(answer, Answer::Hangs) {
            for attempt in 1..=4 {
                world.advance(5);
                let ended = async || list(&world.get("/api/sessions/bad").await["calls"])[0].clone();
                world
                    .until("the attempt is given up", || async {
                        let call = ended().await;
                        (call["status"] != "running" && call["attempts"] == attempt).then_some(())
                    })
                    .await;
                if attempt < 4 {
                    world.advance(10);
                    endpoints.next().await;
                }
            }
        }
        let calls = settled(&world, "bad", 1).await;
        has(&calls[0], json!({"status": status}));
        assert!(text(&calls[0]["last_error"]).contains(error), "{calls:?}");
        endpoints.quiet().await;
    }
}

#[tokio::test]
async fn a_flood_is_cut_off_and_what_comes_of_it_is_short() {
    let agent = |base: &str| {
        let mut agent = one_timer(base, "/flood");
        agent["system_actions"] = json!([]);
        agent
    };
    let (world, endpoints) = world(agent).await;
    endpoints.answers("/flood", &[Answer::Floods(10_000_000)]);
    activity(&world, "chat-1", "message").await;
    activity(&world, "chat-1", "response").await;
    world.advance(60);
    endpoints.next().await;
    has(&settled(&world, "chat-1", 1).await[0], json!({"status": "done", "last_status": 200}));
    // An agent's action: its result is in the context, as if the model had asked for it.
    let said = list(&world.get("/api/sessions/chat-1").await["conversation"]);
    has(&said[0], json!({"role": "assistant"}));
    assert_eq!(said[0]["tool_calls"][0]["name"], "notify");
    let result = text(&said[1]["content"]);
    assert!(said[1]["role"] == "tool" && result.len() < 25_000 && result.ends_with("longer]"), "{}", result.len());
}

#[tokio::test]
async fn addresses_are_asked_for_when_they_are_dialled() {
    let endpoints = Endpoints::start().await;
    let port = endpoints.url.rsplit(':').next().unwrap().to_owned();
    for (url, allowed, error) in [
        (format!("http://127.0.0.1:{port}/x"), false, "private network"),
        (format!("http://localhost:{port}/x"), false, "private network"),
        (format!("http://[::ffff:127.0.0.1]:{port}/x"), false, "private network"),
        ("http://169.254.169.254/x".to_owned(), true, "link-local"),
        (format!("http://localhost:{port}/x"), true, ""),
    ] {
        let world = World::with(|config| config.agents.allow_private = Some(allowed)).await;
        assert_eq!(put(&world, &one_timer(&url, "")).await.status, 200, "{url}");
        activity(&world, "chat-1", "message").await;
        activity(&world, "chat-1", "response").await;
        world.advance(60);
        let calls = settled(&world, "chat-1", 1).await;
        match error {
            "" => has(&calls[0], json!({"status": "done"})),
            error => {
                has(&calls[0], json!({"status": "failed", "attempts": 1}));
                assert!(text(&calls[0]["last_error"]).contains(error), "{url}: {calls:?}");
            }
        }
    }
    assert_eq!(endpoints.next().await.path, "/x");
    endpoints.quiet().await;
}

/// A call that waits for its turn is not under way: it costs no attempt, and is made when there is room.
#[tokio::test]
async fn a_call_that_waits_for_room_is_given_back_and_made_later() {
    // Either there is one place for all, or the two are one session's, one after the other.
    for (concurrency, silent, sessions) in [(1, true, ["slow", "quick"]), (50, false, ["slow", "slow"])] {
        let endpoints = Endpoints::start().await;
        let world = World::with(|config| config.agents.concurrency = concurrency).await;
        let tool = |name: &str| json!({"name": name, "endpoint": {"url": format!("{}/{name}/{{session}}", endpoints.url), "timeout": "120s"}});
        let timer = |name: &str, delay: u64| json!({"timer_id": name, "delay_seconds": delay, "tool_name": name});
        for (name, delay) in [("slow", 60), ("quick", 61)] {
            let both = sessions[1] == "slow";
            let timers =
                if both { json!([timer("slow", 60), timer("quick", 61)]) } else { json!([timer(name, delay)]) };
            let agent = json!({
                "tools": [tool("slow"), tool("quick")], "timers": timers,
                "system_actions": if silent { json!(["slow", "quick"]) } else { json!([]) },
            });
            let set = world.request(Method::PUT, &format!("/api/agents/acme/{name}"), Some(&agent)).await;
            assert_eq!(set.status, 200, "{}", set.body);
            if name == sessions[0] || !both {
                let began = world
                    .post(&format!("/api/sessions/{name}/activity"), json!({"agent": format!("acme:{name}")}))
                    .await;
                assert_eq!(began.status, 200, "{}", began.body);
            }
        }
        endpoints.answers("/slow/slow", &[Answer::Hangs]);
        let quick = async || {
            let calls = list(&world.get(&format!("/api/sessions/{}", sessions[1])).await["calls"]);
            calls.into_iter().find(|call| call["target"] == "quick")
        };
        world.advance(60);
        assert_eq!(endpoints.next().await.path, "/slow/slow");
        world.advance(1);
        world.until("it waits for room", || async { quick().await.filter(|call| call["status"] == "running") }).await;
        // Later than this it could not end in time.
        world.advance(25);
        let given_back = world
            .until("it is given back", || async { quick().await.filter(|call| call["status"] == "waiting") })
            .await;
        has(&given_back, json!({"attempts": 0}));
        let path = format!("/quick/{}", sessions[1]);
        within("there is room in the end", async {
            // From one thing that happens to the next: time that ran on while something is written would be lost time.
            loop {
                let call = quick().await.unwrap();
                match call["status"].as_str().unwrap() {
                    "done" => break,
                    "waiting" => world.clock.set(Timestamp::from_millis(call["next_attempt_at"].as_i64().unwrap())),
                    _ => world.advance(25),
                }
                let moved = || async { quick().await.filter(|now| now["status"] != call["status"]) };
                world.until("it is begun, made or given back", moved).await;
            }
        })
        .await;
        has(&quick().await.unwrap(), json!({"attempts": 1}));
        let called = within("the call", async {
            loop {
                let called = endpoints.next().await;
                if !called.path.starts_with("/slow") {
                    return called;
                }
            }
        })
        .await;
        assert_eq!(called.path, path);
    }
}

/// A host has so many calls at once; those that wait for it keep no place from others.
#[tokio::test]
async fn a_host_that_hangs_has_its_places_and_no_more() {
    let (slow, quick) = (Endpoints::start().await, Endpoints::start().await);
    let world = World::with(|config| {
        config.agents.concurrency = 3;
        config.agents.concurrency_per_host = 2;
    })
    .await;
    slow.answers("/x", &[Answer::Hangs]);
    for (name, endpoints) in [("slow", &slow), ("quick", &quick)] {
        let agent = one_timer(&endpoints.url, "/x");
        let set = world.request(Method::PUT, &format!("/api/agents/acme/{name}"), Some(&agent)).await;
        assert_eq!(set.status, 200, "{}", set.body);
    }
    let begin = async |session: &str, agent: &str| {
        let said = world.post(&format!("/api/sessions/{session}/activity"), json!({"agent": agent})).await;
        assert_eq!(said.status, 200, "{}", said.body);
    };
    for session in ["s1", "s2", "s3", "s4", "s5"] {
        begin(session, "acme:slow").await;
    }
    world.advance(60);
    let running = async || list(&world.get("/api/calls?status=running").await["calls"]).len();
    world.until("all were begun", || async { (running().await == 5).then_some(()) }).await;
    slow.next().await;
    slow.next().await;
    begin("q", "acme:quick").await;
    world.advance(4);
    slow.quiet().await;
    // The first two are given up, and the next two called; the others are served all the while.
    world.advance(1);
    slow.next().await;
    slow.next().await;
    world.advance(55);
    assert_eq!(quick.next().await.path, "/x");
    has(&settled(&world, "q", 1).await[0], json!({"status": "done", "attempts": 1}));
}

#[tokio::test]
async fn more_than_a_thousand_at_once_are_called_one_after_the_other_without_a_break() {
    const SESSIONS: usize = 1200;
    let (world, endpoints) = world(|base| one_timer(base, "/many")).await;
    for session in 0..SESSIONS {
        let said = world.post(&format!("/api/sessions/s{session}/activity"), json!({"agent": "acme:support"})).await;
        assert_eq!(said.status, 200, "{}", said.body);
    }
    // The clock stands still from here on: nobody is told to come back later.
    world.advance(60);
    for _ in 0..SESSIONS {
        endpoints.next().await;
    }
}
