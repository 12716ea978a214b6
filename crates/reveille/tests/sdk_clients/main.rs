//! The official clients of MCP, unmodified: `mcp` for Python and `@modelcontextprotocol/…` for TypeScript, each in its
//! older generation (`initialize`) and its newer one (2026-07-28), over HTTP and over stdio, against the real binary.
//!
//! Each client is a process that does what it is told ([`client::Client`]); the scenario is here, once for all of them.
//! They are foreign programs, so real seconds pass; what is asserted holds however slow the machine is.

#![allow(clippy::unwrap_used)]

mod client;
mod sdk;
#[path = "../support/mod.rs"]
mod support;

use client::Agent;
use sdk::Sdk;
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, time::Duration};
use support::{
    finished, has, id, list,
    process::{BINARY, Daemon, Home},
    text,
};

const LOOK_AGAIN: Duration = Duration::from_millis(50);

macro_rules! clients {
    ($($name:ident: $sdk:ident, $transport:ident;)*) => {$(
        #[tokio::test]
        async fn $name() {
            scenario(Sdk::$sdk, Transport::$transport).await;
        }
    )*};
}

clients! {
    python_of_today_over_http: Python2, Http;
    python_of_today_over_stdio: Python2, Stdio;
    python_of_old_over_http: Python1, Http;
    python_of_old_over_stdio: Python1, Stdio;
    typescript_of_today_over_http: TypeScript2, Http;
    typescript_of_today_over_stdio: TypeScript2, Stdio;
    typescript_of_old_over_http: TypeScript1, Http;
    typescript_of_old_over_stdio: TypeScript1, Stdio;
}

#[derive(Clone, Copy, PartialEq)]
enum Transport {
    Http,
    Stdio,
}

/// A home, and the server in it: ours, or the one that the bridge started for itself.
struct Place {
    home: Home,
    server: Option<Daemon>,
}

impl Place {
    async fn new(transport: Transport) -> Self {
        let home = Home::default();
        home.write_config("listen = \"127.0.0.1:0\"\n");
        let server = match transport {
            Transport::Http => Some(home.serve().await),
            Transport::Stdio => None,
        };
        Self { home, server }
    }

    /// What a user would write into the client's configuration.
    fn way(&self) -> Vec<String> {
        let path = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
        match &self.server {
            Some(server) => vec!["http".into(), format!("{}/mcp", server.url)],
            None => {
                let (data, config) = (path(self.home.data()), path(self.home.config()));
                ["stdio", BINARY, "mcp", "--data-dir", &data, "--config", &config].map(Into::into).into()
            }
        }
    }

    /// SIGKILL. Over HTTP somebody starts the server again, where it was; the bridge has to do that itself.
    async fn restart(&mut self) {
        let Some(server) = self.server.take() else { return self.home.kill_daemons() };
        let address = server.url.strip_prefix("http://").unwrap().to_owned();
        server.kill().await;
        self.server = Some(Daemon::start(self.home.command(&["serve", "--listen", &address])).await);
    }

    async fn get(&self, path: &str) -> Value {
        let url = match &self.server {
            Some(server) => server.url.clone(),
            None => fs::read_to_string(self.home.data().join("address")).unwrap().lines().next().unwrap().to_owned(),
        };
        support::client().get(format!("{url}{path}")).send().await.unwrap().json().await.unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.home.kill_daemons(); // whatever a bridge has started stays; that is its purpose
    }
}

async fn scenario(sdk: Sdk, transport: Transport) {
    let mut place = Place::new(transport).await;
    let mut agent = Agent::start(sdk, &place.home, &place.way()).await;
    assert_eq!(agent.version == "2026-07-28", sdk.is_modern(), "{}", agent.version);
    let tools = agent.tools().await;

    let waited = waits_and_goes_on(&mut agent).await;
    let mission = ends_its_turn(&mut agent).await;
    pauses_resumes_and_stops(&mut agent, &mission).await;
    // Before the next call stands by: it would return with what there is to tell.
    agent.hears_of(&waited).await;
    let kept = leaves_a_call(&mut agent).await;
    is_refused(&mut agent, &kept).await;
    sets_reminders(&mut agent).await;
    assert_eq!(agent.heard(&waited), [finished(&waited, "Reason", "the build", 6)]);
    assert_eq!(agent.heard(&mission), [finished(&mission, "Mission", "look at the logs", 1)]);
    all_is_delivered(&place, &agent).await;

    let later = outlives_the_server(&mut agent, &mut place, &kept).await;
    all_is_delivered(&place, &agent).await;
    for timer in [&waited, &mission, &later] {
        assert_eq!(agent.heard(timer).len(), 1, "told once: {:?}", agent.messages);
    }
    assert_eq!(agent.heard(&kept), [""; 0], "a stopped timer has nothing to tell");

    let served = place.get("/api/tools?format=mcp").await;
    let served: Vec<String> = list(&served["tools"]).iter().map(|tool| text(&tool["name"])).collect();
    assert_eq!(tools, served);
    assert_eq!(agent.called, tools.into_iter().collect::<BTreeSet<_>>(), "every tool was driven");
    agent.end().await;
    if transport == Transport::Stdio {
        assert!(!place.home.daemons().is_empty(), "the server outlives the client");
    }
}

/// A call that times out, one that waits on, and work in the meantime.
async fn waits_and_goes_on(agent: &mut Agent) -> String {
    let asked = json!({"total_duration": 6, "timeout_duration": "1", "reason": "the build"});
    let mut call = agent.begin("timer", asked).await;
    let sign = call.progress().await;
    has(&sign, json!({"message": "standing by: 1 s of 1 s remain"}));
    assert_eq!((seconds(&sign, "progress"), seconds(&sign, "total")), (0.0, 1.0));
    let (made, said) = agent.done(call).await;
    has(&made, json!({"outcome": "timeout", "timeout": true, "status": "running", "total_duration": 6}));
    let (waited, left) = (id(&made), seconds(&made, "remaining_time"));
    assert!(left > 0.0 && left <= 5.0, "{made}");
    assert!(said.starts_with(&format!("Timer {waited}: timeout, {left} of 6 seconds remain.")), "{said}");
    let (again, _) = agent.call("timer", json!({"timer_id": waited, "timeout_duration": 1})).await;
    has(&again, json!({"outcome": "timeout", "status": "running", "timer_id": waited}));
    assert!(seconds(&again, "remaining_time") <= left - 1.0, "{again}");
    let (cancelled, _) = agent.call("cancel_timer", json!({"timer_id": waited})).await;
    has(&cancelled, json!({"outcome": "background", "status": "running_background"}));
    waited
}

async fn ends_its_turn(agent: &mut Agent) -> String {
    let (made, said) = agent.call("timer", json!({"total_duration": 1, "mission": "look at the logs"})).await;
    has(&made, json!({"outcome": "scheduled", "timer_type": "mission"}));
    assert!(said.contains("The mission is kept"), "{said}");
    assert!(said.contains("Nothing can wake this session"), "a bare client is told so: {said}");
    id(&made)
}

/// While it is paused, time passes for another timer and not for it.
async fn pauses_resumes_and_stops(agent: &mut Agent, other: &str) {
    let (made, _) = agent.call("timer", json!({"total_duration": "5m", "mission": "deploy"})).await;
    let timer = json!({"timer_id": made["timer_id"]});
    let (paused, _) = agent
        .call("pause_timer", json!({"timer_id": made["timer_id"], "pause_duration": "2m", "reason": "lunch"}))
        .await;
    has(&paused, json!({"outcome": "paused", "status": "paused", "stop_reason": "lunch"}));
    let left = seconds(&paused, "remaining_time");
    agent.hears_of(other).await;
    let (read, _) = agent.call("read_timer", timer.clone()).await;
    has(&read, json!({"status": "paused"}));
    assert_eq!(seconds(&read, "remaining_time"), left, "frozen");
    let (resumed, _) = agent.call("resume_timer", timer.clone()).await;
    has(&resumed, json!({"outcome": "resumed", "status": "running"}));
    let remaining = seconds(&resumed, "remaining_time");
    assert!(remaining <= left && remaining > 0.0, "{resumed}");
    let (stopped, _) = agent.call("stop_timer", timer.clone()).await;
    has(&stopped, json!({"outcome": "stopped", "status": "stopped"}));
    let (refused, said) = agent.refused("stop_timer", timer).await;
    has(&refused, json!({"code": "timer_ended"}));
    assert_eq!(refused["timer"]["status"], "stopped", "the final state is shown");
    assert!(said.contains(&id(&made)), "{said}");
}

/// The client gives a call up; its timer stays, and nobody stands by for it.
async fn leaves_a_call(agent: &mut Agent) -> String {
    let mut call = agent.begin("timer", json!({"total_duration": 600, "reason": "the tests"})).await;
    call.progress().await;
    let timer = agent.listed("the tests", |timer| timer.get("standby_until").is_some()).await;
    agent.cancel(call).await;
    let left = agent.listed("the tests", |timer| timer.get("standby_until").is_none()).await;
    has(&left, json!({"timer_id": timer["timer_id"], "status": "running", "total_duration": 600}));
    id(&left)
}

/// What went wrong, in words for a model and in fields for a program.
async fn is_refused(agent: &mut Agent, live: &str) {
    let (refused, said) = agent.refused("read_timer", json!({"timer_id": "timer_nowhere"})).await;
    has(&refused, json!({"code": "unknown_timer"}));
    assert!(list(&refused["live_timers"]).contains(&json!(live)), "{refused}");
    assert!(said.contains("timer_nowhere") && said.contains(live), "{said}");
    let (refused, said) = agent.refused("timer", json!({"total_duration": -5, "reason": "r"})).await;
    has(&refused, json!({"code": "invalid_duration"}));
    assert!(said.contains("total_duration"), "{said}");
}

async fn sets_reminders(agent: &mut Agent) {
    let items = json!([{"task": "water", "in": "1h"}, {"task": "feed", "in": "2h"}, {"task": "look up", "in": "1s"}]);
    let (made, _) = agent.call("clock", json!({"action": "schedule", "items": items})).await;
    let water = &made["scheduled"][0]["taskId"];
    let pending = |listed: &Value| {
        let pending = list(&listed["items"]).into_iter().filter(|item| item["status"] == "scheduled");
        pending.map(|item| text(&item["task"])).collect::<BTreeSet<_>>()
    };
    client::within("the reminder comes along", async {
        while !agent.messages.iter().any(|message| text(&message["text"]).contains("look up")) {
            agent.call("clock", json!({"action": "list"})).await;
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    })
    .await;
    let (listed, _) = agent.call("clock", json!({"action": "list"})).await;
    assert_eq!(pending(&listed), ["water", "feed"].map(Into::into).into());
    let (cancelled, _) = agent.call("clock", json!({"action": "cancel", "taskId": water})).await;
    assert_eq!(&cancelled["removed"], water);
    let (cleared, _) = agent.call("clock", json!({"action": "clear"})).await;
    has(&cleared, json!({"ok": true, "removedCount": 1}));
    let (listed, _) = agent.call("clock", json!({"action": "list"})).await;
    assert_eq!(pending(&listed), BTreeSet::new());
    assert_eq!(agent.messages.iter().filter(|message| text(&message["text"]).contains("look up")).count(), 1);
}

/// The server is killed between two calls and, where somebody is there to repair it, in the middle of one.
async fn outlives_the_server(agent: &mut Agent, place: &mut Place, kept: &str) -> String {
    let (made, _) = agent.call("timer", json!({"total_duration": 2, "mission": "look again"})).await;
    let later = id(&made);
    place.restart().await;
    let (read, _) = agent.call("read_timer", json!({"timer_id": kept})).await;
    has(&read, json!({"status": "running", "reason": "the tests", "total_duration": 600}));
    let mut call = agent.begin("timer", json!({"timer_id": kept, "timeout_duration": 2})).await;
    call.progress().await;
    if place.server.is_none() {
        all_is_delivered(place, agent).await;
        place.restart().await;
    }
    let (waited, _) = agent.done(call).await;
    has(&waited, json!({"timeout": true, "status": "running"}));
    assert!(
        ["timeout", "message"].contains(&text(&waited["outcome"]).as_str()),
        "a mission may end meanwhile: {waited}"
    );
    let (stopped, _) = agent.call("stop_timer", json!({"timer_id": kept, "reason": "done"})).await;
    has(&stopped, json!({"status": "stopped", "stop_reason": "done"}));
    agent.hears_of(&later).await;
    assert_eq!(agent.heard(&later), [finished(&later, "Mission", "look again", 2)]);
    later
}

/// The server knows that the client has got what it got. One that is killed before that tells it again.
async fn all_is_delivered(place: &Place, agent: &Agent) {
    let inbox = format!("/api/sessions/{}/inbox", agent.session.as_deref().expect("the results tell it"));
    let got = |message: &Value| agent.messages.iter().any(|got| got["id"] == message["id"]);
    client::within("what was told is delivered", async {
        while list(&place.get(&inbox).await["messages"]).iter().any(got) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    })
    .await;
}

fn seconds(timer: &Value, field: &str) -> f64 {
    timer[field].as_f64().unwrap_or_else(|| panic!("{field} in {timer}"))
}
