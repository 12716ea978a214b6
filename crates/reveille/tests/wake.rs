//! Wake commands: a scripted agent is brought back when nobody else can tell it, once, and within bounds.

#![allow(clippy::unwrap_used)]

mod support;

use reveille::{config::Length, wake::WakeRule};
use reveille_core::{Millis, SessionId};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};
use support::{
    process::{BINARY, Home},
    *,
};
use tempfile::TempDir;

const GRACE: u64 = 10;

/// A place where the scripted agents leave traces.
struct Desk {
    dir: TempDir,
}

impl Desk {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn write(&self, name: &str) {
        std::fs::write(self.path(name), "").unwrap();
    }

    /// A rule whose agent is this shell script, run at the desk with the session as `$1` and the message as `$2`.
    fn rule(&self, script: &str) -> WakeRule {
        WakeRule {
            matches: "agent*".into(),
            command: ["/bin/sh", "-c", script, "agent", "{session}", "{message}"].map(String::from).into(),
            cwd: Some(self.dir.path().to_owned()),
            grace: Length(Millis::from_secs(GRACE)),
            timeout: Length(Millis::from_secs(600)),
            retries: 3,
            per_hour: 12,
            env: [("WORD".to_owned(), "from the rule".to_owned())].into(),
        }
    }

    async fn world(&self, rule: WakeRule) -> World {
        World::with(|config| {
            config.wake.insert("test".into(), rule);
        })
        .await
    }
}

/// A mission that ends now; its message is in the inbox when this returns.
async fn ends(world: &World, session: &str) -> String {
    let made = world.done(session, "timer", json!({"total_duration": 1, "mission": "wake up"})).await;
    world.advance(1);
    let timer = id(&made);
    world.until_message(session, &timer).await;
    timer
}

async fn events(world: &World, session: &str, event: &str) -> Vec<Value> {
    let path = format!("/api/history?after=0&limit=1000&session={session}&event={event}");
    list(&world.get(&path).await["entries"])
}

/// Until this session has this many of these events; the last one's data. Time goes on slowly meanwhile: the server may
/// have heard of a message only after the clock was advanced for it.
async fn until_events(world: &World, session: &str, event: &str, count: usize) -> Value {
    let mut feed = world.server().engine.store().feed();
    within(&format!("{count} × {event}"), async {
        loop {
            let found = events(world, session, event).await;
            if found.len() == count {
                return found[count - 1]["data"].clone();
            }
            if tokio::time::timeout(Duration::from_millis(150), feed.recv()).await.is_err() {
                world.advance(1);
            }
        }
    })
    .await
}

/// Looks again and again: processes and connections tell nobody when they are ready.
async fn until(what: &str, look: impl AsyncFn() -> bool) {
    within(what, async {
        while !look().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Long enough for a command that must not be run to have been run.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(60)).await;
}

#[tokio::test]
async fn an_agent_nobody_can_reach_is_woken_once() {
    let desk = Desk::new();
    let script =
        "cat > told; echo \"$1|$REVEILLE_SESSION|$REVEILLE_URL|$WORD\" >> woken; printf %s \"$2\" > message; echo done";
    let world = desk.world(desk.rule(script)).await;
    let made = world.done("agent", "timer", json!({"total_duration": 5, "mission": "wake up"})).await;
    assert_eq!(made["delivery"], json!({"channels": ["wake:test"], "wakes": true}));
    assert!(text(&made["hint"]).contains("End your turn now"));
    let timer = id(&made);
    world.advance(5);
    world.until_message("agent", &timer).await;
    world.advance(GRACE - 1);
    settle().await;
    assert!(events(&world, "agent", "wake.started").await.is_empty(), "somebody may still come");
    world.advance(1);
    let ended = until_events(&world, "agent", "wake.ended", 1).await;
    has(&ended, json!({"rule": "test", "exit": 0, "killed": false, "output": "done\n"}));
    let told = finished(&timer, "Mission", "wake up", 5);
    assert_eq!((desk.read("told"), desk.read("message")), (told.clone(), told));
    assert_eq!(desk.read("woken"), format!("agent|agent|{}|from the rule\n", world.url));
    assert!(world.inbox("agent").await.is_empty());
    let delivered = world.until_event(&timer.replace("timer_", "msg_"), "message.delivered").await;
    assert_eq!(delivered["data"]["channel"], "wake:test");
    world.advance(100_000);
    settle().await;
    assert_eq!(events(&world, "agent", "wake.started").await.len(), 1);
    let metrics = world.http.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap();
    for line in [
        "reveille_wake_commands_total{rule=\"test\",event=\"started\"} 1\n",
        "reveille_wake_commands_total{rule=\"test\",event=\"succeeded\"} 1\n",
        "reveille_wake_commands_running 0\n",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
}

#[tokio::test]
async fn sessions_are_matched_by_name_or_client_and_others_are_told_the_truth() {
    let desk = Desk::new();
    let world = desk.world(WakeRule { matches: "claude-*".into(), ..desk.rule("echo $1 >> woken") }).await;
    let mission = json!({"total_duration": 1, "mission": "m"});
    let lonely = world.done("stranger", "timer", mission.clone()).await;
    assert_eq!(lonely["delivery"], json!({"channels": [], "wakes": false}));
    for word in
        ["Nothing can wake this session", "next tool call", "reveille setup", "do not end your turn: call timer"]
    {
        assert!(text(&lonely["hint"]).contains(word), "{lonely}");
    }
    assert!(!text(&lonely["hint"]).contains("End your turn"), "{lonely}");
    let url = format!("{}/api/sessions/some-uuid/tools/timer", world.url);
    let request = world.http.post(url).header("x-reveille-client", "claude-code").json(&mission);
    let made: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(made["delivery"]["channels"], json!(["wake:test"]));
    assert_eq!(world.get("/api/sessions/some-uuid").await["client"], "claude-code");
    world.advance(1);
    world.until_message("some-uuid", &id(&made)).await;
    world.until_message("stranger", &id(&lonely)).await;
    world.advance(GRACE);
    until_events(&world, "some-uuid", "wake.ended", 1).await;
    assert_eq!(desk.read("woken"), "some-uuid\n");
    assert_eq!(world.inbox("stranger").await.len(), 1);
    // What is known of the session counts for a call that does not say it.
    let again = world.done("some-uuid", "timer", mission).await;
    assert_eq!(again["delivery"]["channels"], json!(["wake:test"]));
}

#[tokio::test]
async fn reminders_are_told_of_as_missions_are() {
    let desk = Desk::new();
    let world = desk.world(desk.rule("cat > told")).await;
    let schedule = json!({"action": "schedule", "items": [{"task": "look", "in": "1h"}]});
    let kept = world.tool("agent", "clock", schedule.clone()).await.body;
    assert_eq!(kept["delivery"], json!({"channels": ["wake:test"], "wakes": true}));
    assert!(!text(&kept["hint"]).contains("Nothing can wake"), "{kept}");
    let lonely = world.tool("stranger", "clock", schedule).await.body;
    assert_eq!(lonely["delivery"], json!({"channels": [], "wakes": false}));
    let hint = text(&lonely["hint"]);
    assert!(hint.contains("Nothing can wake this session") && hint.contains("do not end your turn"), "{lonely}");
    assert!(!hint.contains("end your turn now"), "{lonely}");
    assert_eq!(world.tool("agent", "clock", json!({"action": "list"})).await.body.get("delivery"), None);
    world.advance(3600);
    until_events(&world, "agent", "wake.ended", 1).await;
    assert!(desk.read("told").contains("look"));
}

#[tokio::test]
async fn an_agent_is_woken_where_it_worked() {
    let (desk, work) = (Desk::new(), Desk::new());
    let out = desk.path("where").display().to_string();
    let mut rule = WakeRule { cwd: None, ..desk.rule("echo \"$PWD|$3\" >> \"$4\"") };
    rule.command.extend(["{cwd}".to_owned(), out]);
    let mut world = desk.world(rule).await;
    let at = work.dir.path().canonicalize().unwrap().display().to_string();
    let hook = async |world: &World, cwd: &str| {
        let lease = json!({"channel": "hook:start", "cwd": cwd});
        assert_eq!(world.post("/api/sessions/agent/inbox/lease", lease).await.status, 200);
    };
    hook(&world, "not/absolute").await;
    hook(&world, &at).await;
    let timer = id(&world.done("agent", "timer", json!({"total_duration": 5, "mission": "m"})).await);
    // It is kept through a restart.
    world.down().await;
    world.up().await;
    world.advance(5);
    world.until_message("agent", &timer).await;
    world.advance(GRACE);
    until_events(&world, "agent", "wake.ended", 1).await;
    // A directory that is gone is no reason not to wake.
    hook(&world, "/no/such/directory").await;
    ends(&world, "agent").await;
    world.advance(GRACE);
    until_events(&world, "agent", "wake.ended", 2).await;
    let here = std::env::current_dir().unwrap().display().to_string();
    assert_eq!(desk.read("where"), format!("{at}|{at}\n{here}|.\n"));
}

#[tokio::test]
async fn a_command_that_fails_is_tried_again_and_then_given_up() {
    let desk = Desk::new();
    let rule = WakeRule { retries: 2, ..desk.rule("echo no; exit 7") };
    let mut world = desk.world(rule).await;
    ends(&world, "agent").await;
    world.advance(GRACE);
    for (attempt, pause) in [(1, 10), (2, 20), (3, 0)] {
        let ended = until_events(&world, "agent", "wake.ended", attempt).await;
        has(&ended, json!({"exit": 7, "output": "no\n"}));
        if pause > 0 {
            world.advance(pause - 1);
            settle().await;
            assert_eq!(events(&world, "agent", "wake.started").await.len(), attempt, "too soon");
            world.advance(1);
        }
    }
    let given_up = until_events(&world, "agent", "wake.given_up", 1).await;
    has(&given_up, json!({"rule": "test", "attempts": 3}));
    // That is written down before the lease is released.
    within("the message stays, free", async {
        while world.inbox("agent").await[0].get("leased_until").is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // For good, also after a restart and however long one waits.
    world.down().await;
    world.up().await;
    world.advance(50_000);
    settle().await;
    assert_eq!(events(&world, "agent", "wake.started").await.len(), 3);
    // A new message is worth new attempts, and brings the old one along.
    world.done("agent2", "read_timer", json!({})).await;
    let second = world.post("/api/sessions/agent/tools/timer", json!({"total_duration": 1, "mission": "m"})).await;
    // That call took the old message along; both are told from now on by the new one's attempts.
    assert_eq!(list(&second.body["messages"]).len(), 1);
    world.advance(1);
    world.until_message("agent", &id(&second.body)).await;
    world.advance(GRACE);
    until_events(&world, "agent", "wake.ended", 4).await;
}

#[tokio::test]
async fn a_session_is_woken_only_so_often_in_an_hour() {
    let desk = Desk::new();
    let rule = WakeRule { per_hour: 2, ..desk.rule("echo $1 >> woken") };
    let mut world = desk.world(rule).await;
    for count in 1..=2 {
        ends(&world, "agent").await;
        world.advance(GRACE);
        until_events(&world, "agent", "wake.ended", count).await;
    }
    let first = events(&world, "agent", "wake.started").await[0]["at"].as_i64().unwrap();
    ends(&world, "agent").await;
    world.advance(GRACE);
    settle().await;
    world.down().await;
    world.up().await;
    world.advance(GRACE);
    settle().await;
    world.clock.set(reveille_core::Timestamp::from_millis(first + 3_599_999));
    settle().await;
    assert_eq!(events(&world, "agent", "wake.started").await.len(), 2);
    assert_eq!(world.inbox("agent").await.len(), 1);
    world.clock.advance(Millis::new(1));
    until_events(&world, "agent", "wake.ended", 3).await;
    assert_eq!(desk.read("woken").lines().count(), 3);
}

#[tokio::test]
async fn never_while_a_live_client_holds_the_session() {
    let desk = Desk::new();
    let world = desk.world(desk.rule("echo $1 >> woken")).await;
    let held = async |wanted: bool| {
        let session = SessionId::new("agent");
        until("presence", async || world.server().engine.presence().is_held(&session) == wanted).await;
    };
    // By its presence.
    let url = format!("{}/api/sessions/agent/presence?client=claude-code&wakes=true", world.url);
    let mut presence = world.http.get(&url).send().await.unwrap();
    held(true).await;
    let idle = within("idle", presence.chunk()).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&idle).contains("event: idle"), "{idle:?}");
    let timer = ends(&world, "agent").await;
    let told = within("messages", presence.chunk()).await.unwrap().unwrap();
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(told.contains("event: messages") && told.contains(r#"{"count":1}"#), "{told}");
    world.advance(10_000);
    settle().await;
    assert!(events(&world, "agent", "wake.started").await.is_empty());
    assert_eq!(id(&world.inbox("agent").await[0]), timer);
    drop(presence);
    held(false).await;
    world.advance(GRACE - 1);
    settle().await;
    assert!(events(&world, "agent", "wake.started").await.is_empty(), "it may come back");
    world.advance(1);
    until_events(&world, "agent", "wake.ended", 1).await;

    // By a call that stands by: the message travels with its answer.
    let call = world.standing("agent", json!({"total_duration": 900, "timeout_duration": 600, "reason": "r"})).await;
    ends(&world, "agent-2").await;
    let other = world.done("agent", "timer", json!({"total_duration": 1, "mission": "m"})).await;
    world.advance(1);
    world.until_event(&id(&other), "timer.completed").await;
    world.advance(GRACE);
    until_events(&world, "agent-2", "wake.ended", 1).await;
    world.advance(500);
    settle().await;
    assert_eq!(events(&world, "agent", "wake.started").await.len(), 1);
    world.advance(600);
    assert_eq!(list(&result(call).await["messages"]).len(), 1);
}

#[tokio::test]
async fn a_command_that_waits_for_an_open_window_is_not_promised() {
    let desk = Desk::new();
    let world = desk.world(desk.rule("echo $1 >> woken")).await;
    let mission = async || world.done("agent", "timer", json!({"total_duration": 500, "mission": "m"})).await;
    let window = world.http.get(format!("{}/api/sessions/agent/presence", world.url)).send().await.unwrap();
    let made = mission().await;
    assert_eq!(made["delivery"], json!({"channels": ["wake:test"], "wakes": false}));
    assert!(text(&made["hint"]).contains("only after the window is closed"), "{made}");
    let url = format!("{}/api/sessions/agent/presence?wakes=true", world.url);
    let waking = world.http.get(url).send().await.unwrap();
    assert_eq!(mission().await["delivery"], json!({"channels": ["presence", "wake:test"], "wakes": true}));
    drop((window, waking));
    until("both have left", async || mission().await["delivery"] == json!({"channels": ["wake:test"], "wakes": true}))
        .await;
}

#[tokio::test]
async fn what_somebody_has_leased_is_left_to_them() {
    let desk = Desk::new();
    let world = desk.world(desk.rule("echo $1 >> woken")).await;
    ends(&world, "agent").await;
    let lease = world.post("/api/sessions/agent/inbox/lease", json!({"duration": 100})).await.body;
    world.advance(99);
    settle().await;
    assert!(events(&world, "agent", "wake.started").await.is_empty());
    let given_back = json!({"lease": lease["lease"]});
    assert_eq!(world.post("/api/sessions/agent/inbox/release", given_back).await.status, 200);
    world.advance(GRACE);
    until_events(&world, "agent", "wake.ended", 1).await;
    // A lease that runs out is as good as given back.
    ends(&world, "agent").await;
    world.post("/api/sessions/agent/inbox/lease", json!({"duration": 100})).await;
    world.advance(50);
    settle().await;
    world.advance(50);
    until_events(&world, "agent", "wake.ended", 2).await;
}

#[tokio::test]
async fn never_two_at_once_for_one_session() {
    let desk = Desk::new();
    let script = "echo in >> log; while [ ! -e go ]; do sleep 0.01; done; echo out >> log";
    let world = desk.world(desk.rule(script)).await;
    ends(&world, "agent").await;
    world.advance(GRACE);
    until("the first is in", async || desk.read("log") == "in\n").await;
    ends(&world, "agent").await;
    world.advance(300);
    settle().await;
    assert_eq!(desk.read("log"), "in\n");
    desk.write("go");
    until_events(&world, "agent", "wake.ended", 1).await;
    world.advance(GRACE);
    until_events(&world, "agent", "wake.ended", 2).await;
    assert_eq!(desk.read("log"), "in\nout\nin\nout\n");
}

#[tokio::test]
async fn no_more_commands_than_places() {
    let desk = Desk::new();
    let script = "touch in-$1; while [ ! -e go ]; do sleep 0.01; done";
    let world = World::with(|config| {
        config.wake.insert("test".into(), desk.rule(script));
        config.wake_concurrency = 2;
    })
    .await;
    let sessions = ["agent1", "agent2", "agent3", "agent4"];
    for session in sessions {
        ends(&world, session).await;
    }
    world.advance(GRACE);
    let inside = || sessions.iter().filter(|session| desk.path(&format!("in-{session}")).exists()).count();
    until("two are in", async || inside() == 2).await;
    settle().await;
    assert_eq!(inside(), 2);
    desk.write("go");
    for session in sessions {
        until_events(&world, session, "wake.ended", 1).await;
    }
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_killed_with_all_it_started() {
    let desk = Desk::new();
    let script = "(sleep 600; touch survived) & echo $! > child; touch up; wait";
    let mut rule = WakeRule { timeout: Length(Millis::from_secs(60)), retries: 0, ..desk.rule(script) };
    rule.command.pop(); // it never gets the message
    let world = desk.world(rule).await;
    ends(&world, "agent").await;
    world.advance(GRACE);
    until("it is up", async || desk.path("up").exists()).await;
    world.advance(60);
    let ended = until_events(&world, "agent", "wake.ended", 1).await;
    has(&ended, json!({"exit": null, "killed": true}));
    assert!(ended["duration"].as_f64().unwrap() >= 60.0, "{ended}");
    until_events(&world, "agent", "wake.given_up", 1).await;
    let child = desk.read("child");
    let state = std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z"), "still there: {state}");
}

#[tokio::test]
async fn an_agent_that_has_its_message_and_takes_too_long_is_not_told_again() {
    let desk = Desk::new();
    let mut rule = WakeRule { timeout: Length(Millis::from_secs(60)), ..desk.rule("cat > told; touch up; sleep 600") };
    rule.command.pop();
    let world = desk.world(rule).await;
    let timer = ends(&world, "agent").await;
    world.advance(GRACE);
    until("it is up", async || desk.path("up").exists()).await;
    world.advance(60);
    let ended = until_events(&world, "agent", "wake.ended", 1).await;
    has(&ended, json!({"exit": null, "killed": true}));
    world.until_event(&timer.replace("timer_", "msg_"), "message.delivered").await;
    world.advance(10_000);
    settle().await;
    assert_eq!(events(&world, "agent", "wake.started").await.len(), 1);
    assert!(world.inbox("agent").await.is_empty());
}

#[tokio::test]
async fn a_server_that_stops_ends_its_commands_and_tries_again() {
    let desk = Desk::new();
    let script = "touch up; while [ ! -e go ]; do sleep 0.01; done; echo $1 >> woken";
    let mut world = desk.world(desk.rule(script)).await;
    ends(&world, "agent").await;
    world.advance(GRACE);
    until_events(&world, "agent", "wake.started", 1).await;
    until("it is up", async || desk.path("up").exists()).await;
    world.down().await;
    desk.write("go");
    world.up().await;
    settle().await; // what is pending is found
    world.advance(GRACE);
    until_events(&world, "agent", "wake.ended", 2).await;
    assert_eq!(desk.read("woken"), "agent\n");
}

#[tokio::test]
async fn rules_are_checked_and_mistakes_named() {
    for (file, named) in [
        ("[wake.x]\nmatch = ''\ncommand = ['a']", "`wake.x.match`"),
        ("[wake.x]\nmatch = '*'\ncommand = []", "`wake.x.command`"),
        ("[wake.x]\nmatch = '*'", "command"),
        ("[wake.x]\nmatch = '*'\ncommand = 'a b'", "command"),
        ("[wake.x]\nmatch = '*'\ncommand = ['a']\nper_hour = 0", "`wake.x.per_hour`"),
        ("[wake.x]\nmatch = '*'\ncommand = ['bash', '-c', 'a {message}']", "stdin"),
        ("[wake.x]\nmatch = '*'\ncommand = ['a']\ngrace = 'soon'", "soon"),
        ("[wake.x]\nmatch = '*'\ncommand = ['a']\nshell = true", "shell"),
        ("[wake.'x y']\nmatch = '*'\ncommand = ['a']", "`wake.x y`"),
        ("wake_concurrency = 0", "`wake_concurrency`"),
    ] {
        let home = Home::default();
        home.write_config(file);
        let checked = home.run(&["config", "check"]).await;
        assert_eq!(checked.code, Some(1), "{file}");
        assert!(checked.err.contains(named), "{file}: {}", checked.err);
    }
    let home = Home::default();
    home.write_config("[wake.claude]\nmatch = 'claude-*'\ncommand = ['claude', '-p', '--resume', '{session}']\n");
    let checked = home.run(&["config", "check"]).await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(checked.out.contains("timeout = \"3600s\"") && checked.out.contains("per_hour = 12"), "{}", checked.out);
}

/// The real binary, killed with -9 at the worst moments: the agent is started exactly once, and can go on working with
/// the server that woke it.
#[tokio::test]
async fn an_agent_is_woken_after_the_server_was_killed() {
    for killed_after_firing in [false, true] {
        let (home, desk) = (Home::default(), Desk::new());
        let script = "cat >> told; echo $1 >> woken; \"$0\" timer 1h --mission 'next step'";
        home.write_config(&format!(
            "[wake.agent]\nmatch = 'agent-*'\ncommand = ['/bin/sh', '-c', '''{script}''', '{BINARY}', '{{session}}']\n\
             cwd = '{}'\ngrace = '400ms'\n",
            desk.dir.path().display()
        ));
        let daemon = home.serve().await;
        let made =
            home.run(&["--json", "timer", "300ms", "--mission", "finish the job", "--session", "agent-7"]).await.json();
        assert_eq!(made["delivery"]["channels"], json!(["wake:agent"]));
        if killed_after_firing {
            until("the message", async || home.run(&["inbox", "-s", "agent-7"]).await.out.contains("finish the job"))
                .await;
        }
        daemon.kill().await;
        assert_eq!(desk.read("woken"), "", "the server was dead before its agent could be woken");
        tokio::time::sleep(Duration::from_millis(500)).await;
        let _daemon = home.serve().await;
        until("the agent has set its next mission", async || home.run(&["ls"]).await.out.contains("next step")).await;
        until("its message is delivered", async || {
            home.run(&["inbox", "-s", "agent-7"]).await.out.contains("No messages")
        })
        .await;
        tokio::time::sleep(Duration::from_millis(900)).await;
        assert_eq!(desk.read("woken"), "agent-7\n", "exactly once");
        assert!(desk.read("told").contains("finish the job"));
    }
}

/// The agent outlives the server that woke it, or dies with it.
#[tokio::test]
async fn a_command_that_outlives_its_server_is_waited_for_and_one_that_is_gone_is_run_again() {
    for outlives in [true, false] {
        let (home, desk) = (Home::default(), Desk::new());
        let script =
            "cat > told; echo $$ >> woken; touch up; while [ ! -e go ]; do sleep 0.01; done; echo end >> woken";
        home.write_config(&format!(
            "[wake.agent]\nmatch = 'agent'\ncommand = ['/bin/sh', '-c', '''{script}''']\ncwd = '{}'\ngrace = '50ms'\n",
            desk.dir.path().display()
        ));
        let daemon = home.serve().await;
        home.run(&["timer", "10ms", "--mission", "m", "--session", "agent"]).await;
        until("it is up", async || desk.path("up").exists()).await;
        daemon.kill().await;
        let pid: i32 = desk.read("woken").trim().parse().unwrap();
        if !outlives {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::kill_process_group(pid, rustix::process::Signal::KILL).unwrap();
            desk.write("go");
        }
        let _daemon = home.serve().await;
        if outlives {
            // Another message is no reason to begin beside it. Of several nodes it may take a moment to come.
            home.run(&["timer", "10ms", "--mission", "another", "--session", "agent"]).await;
            until("it is there", async || home.run(&["inbox", "-s", "agent"]).await.out.contains("another")).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(desk.read("woken"), format!("{pid}\n"), "never two at once");
            desk.write("go");
        }
        until("all is told", async || home.run(&["inbox", "-s", "agent"]).await.out.contains("No messages")).await;
        let woken = desk.read("woken");
        assert_eq!(woken.matches("end").count(), if outlives { 2 } else { 1 }, "{woken}");
        assert!(desk.read("told").contains(if outlives { "another" } else { "m" }), "each is told once");
        assert_eq!(desk.read("told").matches("[Timer Completed]").count(), 1);
    }
}

/// Rules are written while a server runs that nobody wants to restart; there may not even be a directory for them yet.
#[tokio::test]
async fn rules_are_in_force_as_soon_as_they_are_written() {
    let (home, desk) = (Home::default(), Desk::new());
    let _daemon = home.serve().await;
    let mission = async |session: &str| {
        let made = home.run(&["--json", "timer", "10ms", "--mission", "m", "--session", session]).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        made.json()["delivery"]["channels"].clone()
    };
    assert_eq!(mission("agent-1").await, json!([]));
    let write = |script: &str| {
        home.write_config(&format!(
            "[wake.x]\nmatch = 'agent-*'\ncommand = ['/bin/sh', '-c', '{script}', 'sh', '{{session}}']\ncwd = '{}'\n\
             grace = '10ms'\n",
            desk.dir.path().display()
        ));
    };
    write("echo $1 >> first");
    until("what was pending is told", async || desk.read("first") == "agent-1\n").await;
    assert_eq!(mission("agent-2").await, json!(["wake:x"]));
    until("what is new is told", async || desk.read("first") == "agent-1\nagent-2\n").await;
    // What makes no sense changes nothing.
    home.write_config("[wake.x]\nmatch = ''\ncommand = ['x']\n");
    until("it is refused", async || std::fs::read_to_string(home.log()).unwrap().contains("the last good ones stay"))
        .await;
    mission("agent-3").await;
    until("the old ones are in force", async || desk.read("first").lines().count() == 3).await;
    write("echo $1 >> second");
    until("the new ones are in force", async || {
        mission("agent-4").await;
        desk.read("second").contains("agent-4")
    })
    .await;
    home.write_config("");
    until("there are none", async || mission("agent-5").await == json!([])).await;
}

#[tokio::test]
async fn what_was_given_up_is_tried_once_more_when_somebody_asks() {
    let desk = Desk::new();
    let rule = WakeRule { retries: 0, ..desk.rule("echo tried >> tries; test -e better") };
    let world = desk.world(rule).await;
    ends(&world, "agent").await;
    until_events(&world, "agent", "wake.given_up", 1).await;
    let shown = list(&world.get("/api/deliveries?kind=wake").await["deliveries"]);
    has(&shown[0], json!({"session": "agent", "channel": "wake:test", "outcome": "given_up", "exit": 1, "attempt": 1}));

    let asked = world.post("/api/sessions/agent/wake", json!({})).await;
    assert_eq!((asked.status, asked.body["rule"].as_str()), (200, Some("test")), "{}", asked.body);
    until_events(&world, "agent", "wake.given_up", 2).await;
    desk.write("better");
    world.post("/api/sessions/agent/wake", json!({})).await;
    until_events(&world, "agent", "wake.ended", 3).await;
    assert!(world.inbox("agent").await.is_empty());
    assert_eq!(desk.read("tries"), "tried\n".repeat(3));
    let shown = list(&world.get("/api/deliveries").await["deliveries"]);
    let outcomes: Vec<String> = shown.iter().map(|one| format!("{} {}", one["kind"], one["outcome"])).collect();
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
    assert!(outcomes.contains(&r#""message" "delivered""#.to_owned()), "{outcomes:?}");

    // There has to be something to tell, and a command for it.
    for (session, status, code) in
        [("agent", 409, "nothing_pending"), ("unknown", 404, "unknown_session"), ("other", 409, "no_wake_command")]
    {
        if session == "other" {
            ends(&world, session).await;
        }
        let refused = world.post(&format!("/api/sessions/{session}/wake"), json!({})).await;
        assert_eq!((refused.status, refused.body["code"].as_str()), (status, Some(code)), "{}", refused.body);
    }
}
