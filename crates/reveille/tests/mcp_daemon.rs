//! The bridge and its daemon as processes: the daemon is started when there is none, one for all bridges, outlives them,
//! and may be killed at any moment without an agent noticing more than a pause.

#![allow(clippy::unwrap_used)]

mod support;

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, Response, Uri},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use support::{
    mcp::{Agent, ERAS, Era, good},
    process::{self, Home},
    *,
};
use tokio::{net::TcpListener, task::JoinHandle};

/// A home with daemons that nobody waits for; they end with it.
struct Place(Home);

impl Place {
    fn new(config: &str) -> Self {
        let home = Home::default();
        home.write_config(&format!("listen = \"127.0.0.1:0\"\n{config}"));
        Self(home)
    }

    async fn agent(&self, era: Era) -> Agent {
        Agent::stdio(self.0.command(&["mcp", "--session", "agent"]), era, "test").await
    }

    fn daemons(&self) -> Vec<i32> {
        self.0.daemons()
    }

    fn kill(&self) {
        self.0.kill_daemons();
    }

    fn url(&self) -> String {
        fs::read_to_string(self.0.data().join("address")).unwrap().lines().next().unwrap().to_owned()
    }

    /// Until the daemon of this moment has so many calls standing by.
    async fn standing(&self, wanted: u64) {
        let http = client();
        within("calls standing by", async {
            loop {
                if let Ok(answer) = http.get(format!("{}/api/stats", self.url())).send().await {
                    let stats: Value = answer.json().await.unwrap_or_default();
                    if stats["standby"]["now"] == wanted {
                        return;
                    }
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // One that is just being started must not outlive the others.
        self.0.write_config("no configuration");
        self.kill();
    }
}

fn begin(agent: &Agent, tool: &'static str, arguments: Value) -> JoinHandle<Value> {
    let agent = agent.clone();
    tokio::spawn(async move { good(&agent.send(tool, arguments, Value::Null).await.unwrap()) })
}

async fn end(call: JoinHandle<Value>) -> Value {
    within("the call answers", call).await.unwrap()
}

#[tokio::test]
async fn a_daemon_is_started_once_and_outlives_its_bridges() {
    let place = Place::new("");
    let (first, second) = tokio::join!(place.agent(Era::Modern), place.agent(Era::Legacy));
    // Both at once, so that both have to start one, though nobody has asked for anything yet.
    within("hooks find it", async { while place.0.run(&["ls"]).await.code != Some(0) {} }).await;
    let make = json!({"total_duration": 1000, "mission": "m"});
    let (one, other) = tokio::join!(first.done("timer", make.clone()), second.done("timer", make.clone()));
    assert_eq!(list(&first.done("read_timer", json!({})).await["timers"]).len(), 2);
    assert_ne!(id(&one), id(&other));
    within("all but one give way", async {
        while place.daemons().len() > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    for agent in [first, second] {
        let mut bridge = agent.child();
        drop(agent);
        within("the bridge ends", bridge.wait()).await.unwrap();
    }
    assert_eq!(place.daemons().len(), 1);
    let later = place.agent(Era::Modern).await;
    assert_eq!(list(&later.done("read_timer", json!({})).await["timers"]).len(), 2);
}

#[tokio::test]
async fn a_port_that_is_taken_is_no_obstacle() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = Place::new("");
    place.0.write_config(&format!("listen = \"{}\"\n", taken.local_addr().unwrap()));
    let agent = place.agent(Era::Modern).await;
    agent.done("timer", json!({"total_duration": 1000, "mission": "m"})).await;
    assert!(!place.url().ends_with(&format!(":{}", taken.local_addr().unwrap().port())));
}

#[tokio::test]
async fn a_daemon_that_cannot_start_is_explained() {
    let place = Place::new("");
    let mut command = place.0.command(&["mcp", "--session", "agent", "--data-dir", "/proc/nowhere"]);
    command.env("REVEILLE_LOG", "off");
    let agent = Agent::stdio(command, Era::Modern, "test").await;
    let (code, body) = agent.refused("timer", json!({"total_duration": 9, "mission": "m"})).await;
    assert_eq!(code, "daemon_not_started");
    assert!(text(&body["detail"]).contains("/proc/nowhere"), "{body}");
}

#[tokio::test]
async fn a_killed_daemon_is_started_again_and_the_stand_by_goes_on() {
    for era in ERAS {
        let place = Place::new("");
        let agent = place.agent(era).await;
        let call = begin(&agent, "timer", json!({"total_duration": 1000, "timeout_duration": 3, "reason": "r"}));
        for _ in 0..2 {
            within("an address", async {
                while fs::read_to_string(place.0.data().join("address")).is_err() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
            .await;
            place.standing(1).await;
            place.kill();
        }
        let body = end(call).await;
        has(&body, json!({"outcome": "timeout", "status": "running"}));
        // The time that was stood by before the loss counts.
        let passed = body["elapsed_time"].as_f64().unwrap();
        assert!((2.0..5.9).contains(&passed), "{body}");
        let all = agent.done("read_timer", json!({})).await;
        assert_eq!(list(&all["timers"]).len(), 1, "made once: {all}");

        // A call for which nothing had been sent yet, and one with an answer that is read instead.
        place.kill();
        let timer = id(&body);
        has(
            &agent.done("pause_timer", json!({"timer_id": timer, "pause_duration": 100})).await,
            json!({"status": "paused"}),
        );
        place.kill();
        has(&agent.done("resume_timer", json!({"timer_id": timer})).await, json!({"outcome": "resumed"}));
        place.kill();
        has(&agent.done("stop_timer", json!({"timer_id": timer})).await, json!({"outcome": "stopped"}));
    }
}

/// A way to the server on which answers can get lost, after what they answer was carried out.
#[derive(Clone)]
struct Way {
    url: String,
    loses: Arc<AtomicBool>,
    http: reqwest::Client,
}

impl Way {
    async fn to(world: &World) -> (Self, String) {
        let way = Self { url: world.url.clone(), loses: Arc::default(), http: client() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = axum::Router::new().fallback(pass).with_state(way.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (way, url)
    }
}

async fn pass(State(way): State<Way>, method: Method, uri: Uri, mut headers: HeaderMap, body: Bytes) -> Response<Body> {
    headers.remove("host");
    let request = way.http.request(method, format!("{}{uri}", way.url)).headers(headers).body(body);
    let answer = request.send().await.unwrap();
    let (status, bytes) = (answer.status(), answer.bytes().await.unwrap());
    let lost = uri.path().contains("/tools/") && way.loses.swap(false, Ordering::SeqCst);
    let body = match lost {
        true => Body::from_stream(futures_util::stream::iter([Err::<Bytes, _>(std::io::Error::other("lost"))])),
        false => Body::from(bytes),
    };
    Response::builder().status(status).body(body).unwrap()
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_and_nothing_is_done_twice() {
    let world = World::start().await;
    let (way, url) = Way::to(&world).await;
    let home = Home::default();
    let agent = Agent::stdio(home.command(&["mcp", "--url", &url, "-s", "agent"]), Era::Modern, "test").await;
    let lossy = |tool: &'static str, arguments: Value| {
        way.loses.store(true, Ordering::SeqCst);
        agent.done(tool, arguments)
    };
    let made = lossy("timer", json!({"total_duration": 100, "mission": "m"})).await;
    has(&made, json!({"outcome": "scheduled", "remaining_time": 100}));
    assert!(!way.loses.load(Ordering::SeqCst), "an answer was lost");
    assert_eq!(world.timers().await.len(), 1, "made once");
    let timer = json!({"timer_id": id(&made)});
    let pause = json!({"timer_id": id(&made), "pause_duration": 50});
    has(&lossy("pause_timer", pause).await, json!({"outcome": "paused", "status": "paused"}));
    has(&lossy("resume_timer", timer.clone()).await, json!({"outcome": "resumed", "remaining_time": 100}));
    has(&lossy("cancel_timer", timer.clone()).await, json!({"outcome": "background"}));
    has(&lossy("stop_timer", timer.clone()).await, json!({"outcome": "stopped", "status": "stopped"}));
    // Where no answer was lost, a refusal is one.
    assert_eq!(agent.refused("stop_timer", timer.clone()).await.0, "timer_ended");
    let scheduled = agent.done("clock", json!({"action": "schedule", "task": "t", "in": "1h"})).await;
    let task = &scheduled["scheduled"][0]["taskId"];
    let cancel = json!({"action": "cancel", "taskId": task});
    let cancelled = lossy("clock", cancel.clone()).await;
    has(&cancelled, json!({"ok": true, "removed": task, "items": null, "hint": "Cancelled: it will not be told."}));
    assert_eq!(agent.refused("clock", cancel).await.0, "reminder_ended");
    // One that ended by itself while its stop was on the way was not stopped.
    let made = agent.done("timer", json!({"total_duration": 10, "mission": "m"})).await;
    world.advance(10);
    world.until_event(&id(&made), "timer.completed").await;
    way.loses.store(true, Ordering::SeqCst);
    let (code, body) = agent.refused("stop_timer", json!({"timer_id": id(&made)})).await;
    assert_eq!((code.as_str(), &body["timer"]["status"]), ("timer_ended", &json!("completed")));
    assert_eq!(agent.refused("resume_timer", timer).await.0, "timer_ended");
}

/// The messages of a lost answer were not delivered; the lease they were given to runs out.
#[tokio::test]
async fn messages_in_a_lost_answer_come_again() {
    let world = World::start().await;
    let (way, url) = Way::to(&world).await;
    let home = Home::default();
    let timer = id(&world.done("agent", "timer", json!({"total_duration": 10, "mission": "m"})).await);
    world.advance(10);
    world.until_message("agent", &timer).await;
    let agent = Agent::stdio(home.command(&["mcp", "--url", &url, "-s", "agent"]), Era::Legacy, "test").await;
    way.loses.store(true, Ordering::SeqCst);
    assert_eq!(agent.done("read_timer", json!({})).await["messages"], json!([]));
    world.advance(60);
    let told = agent.done("read_timer", json!({})).await;
    assert_eq!(told["messages"][0]["text"], finished(&timer, "Mission", "m", 10));
    world.until_event(&timer.replace("timer_", "msg_"), "message.delivered").await;
}

/// A client that is open holds its conversation: no wake command may resume it beside the window.
#[tokio::test]
async fn an_open_client_is_not_woken_by_a_command() {
    let rule = r#"
        [wake.test]
        match = "agent"
        command = ["/bin/sh", "-c", "echo woken"]
        grace = "0.1s"
    "#;
    let place = Place::new(rule);
    let agent = place.agent(Era::Legacy).await;
    let first = agent.done("timer", json!({"total_duration": 0.3, "mission": "m"})).await;
    assert_eq!(first["delivery"], json!({"channels": ["wake:test"], "wakes": false}), "not while it is open");
    assert!(text(&first["hint"]).contains("only after the window is closed"), "{first}");
    // By the end of this one the other could have been woken for long.
    let made = agent.done("timer", json!({"total_duration": 1.5, "mission": "m"})).await;
    let http = client();
    let get = async |path: &str| http.get(format!("{}{path}", place.url())).send().await.unwrap().text().await.unwrap();
    within("the missions end", async { while !get("/api/sessions/agent/inbox").await.contains(&id(&made)) {} }).await;
    assert!(!get("/api/history?session=agent").await.contains("wake.started"), "it is there");
    drop(agent.child());
    drop(agent);
    within("it is gone and woken", async { while !get("/api/history?session=agent").await.contains("wake.ended") {} })
        .await;
    place.kill();
}

/// Also before it has called a tool: a conversation that was resumed may have a message waiting.
#[tokio::test]
async fn a_client_that_has_only_been_opened_is_not_woken_by_a_command_either() {
    let rule = r#"
        [wake.test]
        match = "agent"
        command = ["/bin/sh", "-c", "echo woken"]
        grace = "0.1s"
    "#;
    for (era, inherited) in [(Era::Legacy, false), (Era::Modern, true)] {
        let place = Place::new(rule);
        let mut command = place.0.command(if inherited { &["mcp"] } else { &["mcp", "--session", "agent"] });
        if inherited {
            command.env("CLAUDE_CODE_SESSION_ID", "agent");
        }
        let agent = Agent::stdio(command, era, "claude-code").await;
        let http = client();
        let get = async |path: &str| match http.get(format!("{}{path}", place.url())).send().await {
            Ok(answer) => answer.text().await.unwrap(),
            Err(_) => String::new(),
        };
        let mission = async |length: &str| {
            let made = place.0.run(&["--json", "timer", length, "--mission", "m", "--session", "agent"]).await;
            (made.code == Some(0)).then(|| made.json()["delivery"].clone())
        };
        let held = Some(json!({"channels": ["wake:test"], "wakes": false}));
        within("the session is held", async { while mission("1h").await != held {} }).await;
        assert_eq!(mission("100ms").await, held);
        let later = place.0.run(&["--json", "timer", "800ms", "--mission", "m", "--session", "other"]).await.json();
        within("time goes on", async { while !get("/api/sessions/other/inbox").await.contains(&id(&later)) {} }).await;
        assert!(!get("/api/history?session=agent").await.contains("wake.started"), "it is there");
        drop(agent.child());
        drop(agent);
        within("it is gone and woken", async {
            while !get("/api/history?session=agent").await.contains("wake.ended") {}
        })
        .await;
        place.kill();
    }
}

/// No hook has said where the agent works: it is where its client started the bridge.
#[tokio::test]
async fn an_agent_without_hooks_is_woken_where_its_client_was_started() {
    let rule = r#"
        [wake.test]
        match = "agent"
        command = ["/bin/sh", "-c", "touch here"]
        grace = "0.1s"
    "#;
    let place = Place::new(rule);
    let work = tempfile::tempdir().unwrap();
    let mut command = place.0.command(&["mcp", "--session", "agent"]);
    command.current_dir(work.path());
    let agent = Agent::stdio(command, Era::Modern, "test").await;
    agent.done("timer", json!({"total_duration": 0.1, "mission": "m"})).await;
    drop(agent.child());
    drop(agent);
    within("it is woken there", async {
        while !work.path().join("here").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    place.kill();
}

/// The address of a killed server, where another one listens by now: nobody speaks to the wrong one.
#[tokio::test]
async fn an_address_that_is_anothers_by_now_is_not_spoken_to() {
    let place = Place::new("");
    let killed = place.0.serve().await;
    let address = killed.url.trim_start_matches("http://").to_owned();
    killed.kill().await;
    let other = Home::default();
    let _other = process::Daemon::start(other.command(&["serve", "--listen", &address])).await;
    let other_timers = async || list(&other.run(&["ls", "--json", "--all"]).await.json()["timers"]).len();
    let said = place.0.run(&["timer", "1h", "--mission", "m"]).await;
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains("no server runs on this data directory"), "{said:?}");
    let said = place.0.run(&["hook", "claude-code", "stop", "--session", "agent", "--verbose"]).await;
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""), "{said:?}");
    assert!(said.err.contains("no server runs on this data directory"), "{said:?}");
    let agent = place.agent(Era::Modern).await;
    agent.done("timer", json!({"total_duration": 1000, "mission": "m"})).await;
    assert_eq!(place.daemons().len(), 1, "its own");
    assert_ne!(place.url(), format!("http://{address}"));
    assert_eq!(other_timers().await, 0);
    // Old versions wrote no more than where they were.
    let before = Home::default();
    fs::create_dir_all(before.data()).unwrap();
    fs::write(before.data().join("address"), format!("http://{address}\n")).unwrap();
    let said = before.run(&["timer", "1h", "--mission", "m"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(other_timers().await, 1);
}

/// The agent sleeps, so no call of its notices: the bridge does.
#[tokio::test]
async fn a_daemon_that_dies_while_its_agent_sleeps_is_started_again() {
    let place = Place::new("");
    let agent = place.agent(Era::Modern).await;
    let made = agent.done("timer", json!({"total_duration": 1, "mission": "m"})).await;
    let (killed, http) = (place.daemons(), client());
    place.kill();
    within("the mission ends in time", async {
        loop {
            let asked = http.get(format!("{}/api/timers/{}", place.url(), id(&made))).send().await;
            if let Ok(answer) = asked
                && answer.text().await.unwrap_or_default().contains("completed")
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_ne!(place.daemons(), killed);
    // One that is stopped on purpose stays so, until somebody asks for something.
    for pid in place.daemons() {
        kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    }
    within("it stops", async {
        while !place.daemons().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(place.daemons(), Vec::<i32>::new());
    has(&agent.done("read_timer", json!({"timer_id": id(&made)})).await, json!({"status": "completed"}));
}
