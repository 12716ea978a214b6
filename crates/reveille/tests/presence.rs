//! Holding a session: what the holder hears, and what it leaves behind.

#![allow(clippy::unwrap_used)]

mod support;

use reqwest::Response;
use reveille_core::SessionId;
use serde_json::{Value, json};
use support::*;

struct Holder(Response);

impl Holder {
    async fn come(world: &World, query: &str) -> Self {
        let url = format!("{}/api/sessions/agent/presence{query}", world.url);
        Self(within("the stream opens", world.http.get(url).send()).await.unwrap())
    }

    /// The next event and its data; `None` at the end.
    async fn hears(&mut self) -> Option<(String, Value)> {
        let chunk = within("an event", self.0.chunk()).await.unwrap()?;
        let text = String::from_utf8(chunk.to_vec()).unwrap();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        Some((field("event:"), serde_json::from_str(&field("data:")).unwrap()))
    }

    async fn hears_messages(&mut self, count: usize) {
        assert_eq!(self.hears().await, Some(("messages".into(), json!({"count": count}))));
    }

    async fn hears_idle(&mut self) {
        assert_eq!(self.hears().await, Some(("idle".into(), json!({}))));
    }
}

async fn mission(world: &World, seconds: u64) -> String {
    id(&world.done("agent", "timer", json!({"total_duration": seconds, "mission": "m"})).await)
}

async fn lease(world: &World, seconds: u64) -> Value {
    world.post("/api/sessions/agent/inbox/lease", json!({"duration": seconds})).await.body
}

#[tokio::test]
async fn a_holder_hears_whenever_there_is_something_to_fetch() {
    let world = World::start().await;
    let mut holder = Holder::come(&world, "").await;
    holder.hears_idle().await;
    mission(&world, 5).await;
    mission(&world, 9).await;
    world.advance(5);
    holder.hears_messages(1).await;
    world.advance(4);
    holder.hears_messages(2).await;
    // One who comes later hears it at once.
    Holder::come(&world, "").await.hears_messages(2).await;
    // Given back, and run out: there is something to fetch again.
    let leased = lease(&world, 100).await;
    world.post("/api/sessions/agent/inbox/release", json!({"lease": leased["lease"]})).await;
    holder.hears_messages(2).await;
    let leased = lease(&world, 100).await;
    world.advance(100);
    holder.hears_messages(2).await;
    world.post("/api/sessions/agent/inbox/commit", json!({"lease": leased["lease"], "channel": "hook:stop"})).await;
    holder.hears_idle().await;
    assert!(world.inbox("agent").await.is_empty());
}

#[tokio::test]
async fn a_newer_holder_of_the_same_name_takes_the_place() {
    let world = World::start().await;
    let timer = mission(&world, 500).await;
    let mut older = Holder::come(&world, "?name=rewake&wakes=true").await;
    let _newer = Holder::come(&world, "?name=rewake&wakes=true").await;
    assert_eq!(older.hears().await, Some(("replaced".into(), json!({}))));
    assert_eq!(older.hears().await, None);
    assert!(world.server().engine.presence().is_held(&SessionId::new("agent")));
    world.done("agent", "stop_timer", json!({"timer_id": timer})).await;
}

#[tokio::test]
async fn a_holder_shows_in_how_missions_are_delivered() {
    let world = World::start().await;
    let delivery = async || {
        let made = world.done("agent", "timer", json!({"total_duration": 500, "mission": "m"})).await;
        made["delivery"].clone()
    };
    assert_eq!(delivery().await, json!({"channels": [], "wakes": false}));
    let events = world.http.get(format!("{}/api/events?session=agent", world.url)).send().await.unwrap();
    assert_eq!(delivery().await, json!({"channels": ["events"], "wakes": false}));
    let _holder = Holder::come(&world, "?wakes=true&client=claude-code").await;
    assert_eq!(delivery().await["channels"], json!(["presence", "events"]), "no hook was seen");
    // The kind of client came with the hold and was kept with the next change.
    assert_eq!(world.get("/api/sessions/agent").await["client"], "claude-code");
    let rewake = Holder::come(&world, "?wakes=true&client=claude-code&name=rewake").await;
    let channels = json!(["presence", "hook:rewake", "events", "hook"]);
    assert_eq!(delivery().await["channels"], channels);
    drop(rewake);
    assert_eq!(delivery().await["channels"], channels, "its client starts it again");
    drop(events);
}

#[tokio::test]
async fn what_holders_and_channels_call_themselves_is_checked() {
    let world = World::start().await;
    mission(&world, 500).await;
    for bad in ["", "a b", "x\u{7}", &"x".repeat(65), "会"] {
        let answer = world.post("/api/sessions/agent/inbox/lease", json!({"channel": bad})).await;
        assert_eq!((answer.status, text(&answer.body["code"]).as_str()), (400, "invalid_argument"), "{bad:?}");
    }
    let url = format!("{}/api/sessions/agent/tools/timer", world.url);
    for bad in [" ", &"x".repeat(65)] {
        let request = world.http.post(&url).header("x-reveille-client", bad);
        let answer = request.json(&json!({"total_duration": 5, "mission": "m"})).send().await.unwrap();
        assert_eq!(answer.status(), 200, "a name that is no name is none");
        assert_eq!(world.get("/api/sessions/agent").await.get("client"), None);
    }
    let answer = world.request(reqwest::Method::GET, "/api/sessions/%20/presence", None).await;
    assert_eq!(answer.status, 400);
}
