//! The database goes away and comes back: requests are refused with a word to try again, and everything resumes.

use crate::support::*;
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
