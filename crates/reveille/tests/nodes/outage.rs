//! The database goes away and comes back: requests are refused with a word to try again, and everything resumes.

use crate::{doors, support::*};
use reqwest::Method;
use reveille::config::Length;
use reveille_core::Millis;
use scratch_postgres::{Care, Cluster};
use serde_json::json;
use std::time::Duration;

async fn until_ready(world: &World) {
    within("the node is ready again", async {
        while world.request(Method::GET, "/readyz", None).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_database_that_is_away_refuses_and_comes_back() {
    let cluster = Cluster::start(Care::None, &[]);
    let url = cluster.database();
    let world = World::with(|config| {
        config.database_url = Some(url);
        config.database.wait = Length(Millis::new(300));
    })
    .await;
    let due = id(&world.done("a", "timer", json!({"total_duration": 60, "mission": "x"})).await);
    let call = world.standing("b", json!({"total_duration": 600, "reason": "x"})).await;
    for crash in [false, true] {
        if crash {
            cluster.kill()
        } else {
            cluster.stop()
        }
        let url = format!("{}/api/sessions/a/tools/timer", world.url);
        let body = json!({"total_duration": 60, "mission": "x"});
        let refused = world.http.post(&url).json(&body).send().await.unwrap();
        assert_eq!(refused.status(), 503);
        assert_eq!(refused.headers()["retry-after"], "1");
        let refused: serde_json::Value = refused.json().await.unwrap();
        has(&refused, json!({"code": "storage_unavailable"}));
        assert_eq!(world.request(Method::GET, "/readyz", None).await.status, 503);
        assert_eq!(world.request(Method::GET, "/healthz", None).await.status, 200, "the process lives");
        world.advance(30);
        cluster.up();
        until_ready(&world).await;
    }
    // What was acknowledged is there, and what became due meanwhile is told.
    world.until_message("a", &due).await;
    let other = id(&list(&world.get("/api/timers?session=b").await["timers"])[0]);
    assert_eq!(world.post(&format!("/api/timers/{other}/stop"), json!({})).await.status, 200);
    has(&result(call).await, json!({"outcome": "stopped"}));
}

/// A query that does not end is given up, by the database itself.
#[tokio::test]
async fn a_slow_database_is_not_waited_for_without_end() {
    let cluster = Cluster::start(Care::None, &[]);
    let url = cluster.database();
    let world = World::with(|config| {
        config.database_url = Some(url.clone());
        config.database.statement_timeout = Length(Millis::new(200));
    })
    .await;
    world.done("a", "timer", json!({"total_duration": 60, "mission": "x"})).await;
    let database = url.rsplit('/').next().unwrap().to_owned();
    let lock = "BEGIN; LOCK TABLE reveille.sessions IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(2); COMMIT";
    let cluster = std::sync::Arc::new(cluster);
    let other = cluster.clone();
    let locked = tokio::task::spawn_blocking(move || other.sql(&database, lock));
    within("it is refused", async {
        loop {
            let answer = world.tool("a", "timer", json!({"total_duration": 60, "mission": "x"})).await;
            if answer.status == 503 {
                return has(&answer.body, json!({"code": "storage_unavailable"}));
            }
        }
    })
    .await;
    within("the lock is gone", locked).await.unwrap();
    until_ready(&world).await;
    world.done("a", "timer", json!({"total_duration": 60, "mission": "x"})).await;
}

/// The model is worth more than what would be added to its requests: whatever the patience for other requests is.
#[tokio::test]
async fn model_calls_go_on_while_the_database_is_away() {
    let cluster = Cluster::start(Care::None, &[]);
    let (url, upstream) = (cluster.database(), doors::model().await);
    let world = doors::before(&upstream, |config| {
        config.database_url = Some(url);
        config.database.wait = Length(Millis::from_secs(3600));
    })
    .await;
    let agent = json!({"timers": [{"timer_id": "idle", "delay_seconds": 300, "tool_name": "generate_response",
                                   "message": "还在吗？"}]});
    assert_eq!(world.request(Method::PUT, "/api/agents/acme/support", Some(&agent)).await.status, 200);
    // Something is known of one of the sessions, and something waits for it.
    let due = id(&world.done("known", "timer", json!({"total_duration": 60, "mission": "x"})).await);
    let reminder = json!({"action": "schedule", "items": [{"task": "喝水", "in": "3h"}]});
    assert_eq!(world.tool("known", "clock", reminder).await.status, 200);
    cluster.stop();
    for (session, says) in [("known", "好的"), ("new", "好"), ("known", "好的")] {
        let (status, body) = within("an answer", doors::ask(&world, session, says)).await.unwrap();
        assert_eq!((status, body.contains("[DONE]")), (200, true), "{session}: {body}");
    }
    let metrics = world.http.get(format!("{}/metrics", world.url)).send();
    let metrics = within("the metrics", metrics).await.unwrap().text().await.unwrap();
    for stage in ["clock", "session"] {
        let count = format!("reveille_gateway_unprepared_total{{stage=\"{stage}\"}} ");
        assert!(metrics.contains(&count), "{count}\n{metrics}");
    }
    assert_eq!(within("readiness", world.request(Method::GET, "/readyz", None)).await.status, 503);
    cluster.up();
    until_ready(&world).await;
    world.advance(60);
    world.until_message("known", &due).await;
    // On a machine that is busy one call or another may still go on without.
    within("the model is told", async {
        let told = || {
            upstream
                .upstream
                .log
                .requests()
                .iter()
                .any(|one| one.body.windows(due.len()).any(|part| part == due.as_bytes()))
        };
        while !told() {
            let turn = doors::ask(&world, "known", "好的");
            tokio::time::sleep(Duration::from_millis(100)).await;
            turn.abort();
        }
    })
    .await;
}
