//! The real binary as people use it: commands, what they print and how they end.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::json;
use std::fs;
use support::{
    process::{Daemon, Home, Ran, exists},
    *,
};

#[tokio::test]
async fn a_timer_ends_in_the_exit_code() {
    let home = Home::default();
    let daemon = home.serve().await;
    let done = home.run(&["timer", "200ms", "--reason", "tea"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("completed") && done.out.contains("tea"), "{done:?}");

    let scheduled = home.run(&["timer", "5m", "--mission", "restart the server"]).await;
    assert_eq!(scheduled.code, Some(0));
    assert!(
        scheduled.out.contains("→ restart the server") && scheduled.out.contains("reveille inbox"),
        "{scheduled:?}"
    );

    let goes_on = home.run(&["--json", "timer", "1h30m", "--reason", "build", "--timeout", "0.05"]).await;
    assert_eq!(goes_on.code, Some(4), "{goes_on:?}");
    has(&goes_on.json(), json!({"outcome": "timeout", "timeout": true, "total_duration": 5400, "status": "running"}));
    let timer = id(&goes_on.json());

    for (action, code, outcome) in
        [(&["cancel"][..], 4, "background"), (&["pause", "--for", "50ms"], 4, "paused"), (&["stop"], 5, "stopped")]
    {
        let waiting = home.spawn(&["--json", "timer", "--id", &timer]);
        daemon.standing(1).await;
        let acted = home.run(&[action, &[timer.as_str()]].concat()).await;
        assert_eq!(acted.code, Some(0), "{acted:?}");
        let ended = waiting.await.unwrap();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        has(&ended.json(), json!({"outcome": outcome, "timer_id": timer}));
        if outcome == "paused" {
            let resumed = home.run(&["resume", &timer]).await;
            // Unless it has resumed by itself by now.
            assert!(resumed.code == Some(0) || resumed.err.contains("[not_paused]"), "{resumed:?}");
        }
    }
    let ended = home.run(&["timer", "--id", &timer]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("[timer_ended]") && ended.err.contains("stopped"), "{ended:?}");
}

/// A message that has nothing to do with it does not end a wait.
#[tokio::test]
async fn a_timer_is_waited_for_whatever_else_is_told() {
    let home = Home::default();
    let _daemon = home.serve().await;
    let pending = async || {
        let id = id(&home.run(&["--json", "timer", "10ms", "--mission", "other", "-s", "会话 1"]).await.json());
        let told = async || home.run(&["inbox", "-s", "会话 1"]).await.out.contains(&id);
        within("its message", async { while !told().await {} }).await;
        id
    };
    let other = pending().await;
    let done = home.run(&["timer", "300ms", "--reason", "tea", "-s", "会话 1"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let (message, end) = (done.out.find(&other), done.out.find("completed"));
    assert!(message.is_some() && message < end, "told before the end: {done:?}");
    // For programs: one line for each answer, the end last.
    let other = pending().await;
    let lines = home.run(&["--json", "timer", "300ms", "--reason", "tea", "-s", "会话 1"]).await;
    assert_eq!(lines.code, Some(0), "{lines:?}");
    let lines: Vec<serde_json::Value> = lines.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["messages"][0]["timer_id"]), (2, &json!(other)), "{lines:?}");
    has(&lines[1], json!({"outcome": "completed", "timer_id": lines[0]["timer_id"]}));
    // Within the time that was asked for.
    pending().await;
    let cut = home.run(&["timer", "1h", "--reason", "tea", "--timeout", "300ms", "-s", "会话 1"]).await;
    assert_eq!(cut.code, Some(4), "{cut:?}");
    // The next command finds the session.
    assert!(cut.out.contains("--session '会话 1'"), "{cut:?}");
    let told = home.run(&["timer", "1h", "--mission", "m", "-s", "会话 1"]).await.out;
    assert!(told.contains("reveille inbox --session '会话 1'"), "{told}");
    let told = home.run(&["timer", "1h", "--mission", "m"]).await.out;
    assert!(told.trim_end().ends_with("reveille inbox"), "{told}");
}

#[tokio::test]
async fn programs_are_told_of_errors_in_json() {
    let home = Home::default();
    home.write_config("listen = \"127.0.0.1:9\"\n");
    let code = async |words: &[&str], exit: i32| {
        let ran = home.run(&[&["--json"], words].concat()).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(exit), ""), "{words:?}: {ran:?}");
        let said: serde_json::Value = serde_json::from_str(&ran.err).unwrap_or_else(|_| panic!("{words:?}: {ran:?}"));
        assert!(!text(&said["detail"]).is_empty(), "{said}");
        text(&said["code"])
    };
    assert_eq!(code(&["ls"], 3).await, "no_server");
    assert_eq!(code(&["ls", "--nope"], 2).await, "usage");
    assert_eq!(code(&["watch"], 1).await, "failed");
    let _daemon = home.serve().await;
    assert_eq!(code(&["read", "timer_00000000"], 1).await, "unknown_timer");
}

#[tokio::test]
async fn timers_are_listed_read_and_acted_on() {
    let home = Home::default();
    let _daemon = home.serve().await;
    let none = home.run(&["ls"]).await;
    assert_eq!((none.code, none.out.contains("No live timers")), (Some(0), true), "{none:?}");
    let (later, sooner) = (home.mission("2h").await, home.mission("1h").await);
    let listed = home.run(&["ls"]).await;
    let (first, second) = (listed.out.find(&sooner), listed.out.find(&later));
    assert!(first.is_some() && first < second, "soonest first: {}", listed.out);
    for word in ["running", "cli", "wake up"] {
        assert!(listed.out.contains(word), "{word}: {}", listed.out);
    }
    let read = home.run(&["read", &later]).await;
    assert!(read.code == Some(0) && read.out.contains(&later) && read.out.contains("of 2h 00m 00s"), "{read:?}");
    has(&home.run(&["read", &later, "--json"]).await.json(), json!({"timer_id": later, "session": "cli"}));

    for (arguments, status, why) in [
        (vec!["pause", &later, "--for", "10m", "--reason", "lunch"], "paused", "lunch"),
        (vec!["resume", &later, "--reason", "back"], "running", "back"),
        (vec!["cancel", &later, "--reason", "other work"], "running_background", "other work"),
        (vec!["stop", &later, "--reason", "enough"], "stopped", "enough"),
    ] {
        let acted = home.run(&[&["--json"], &arguments[..]].concat()).await;
        assert_eq!(acted.code, Some(0), "{acted:?}");
        has(&acted.json(), json!({"timer_id": later, "status": status, "stop_reason": why}));
    }
    assert!(!home.run(&["ls"]).await.out.contains(&later));
    assert!(home.run(&["ls", "--all"]).await.out.contains(&later));
    let stopped = home.run(&["ls", "--status", "stopped", "--json"]).await.json();
    assert_eq!(stopped["timers"].as_array().unwrap().len(), 1);

    for (arguments, code) in [
        (vec!["read", "timer_00000000"], "[unknown_timer]"),
        (vec!["stop", "../../x"], "[unknown_timer]"),
        (vec!["pause", &sooner, "--for=-5"], "[invalid_duration]"),
        (vec!["resume", &sooner], "[not_paused]"),
        (vec!["stop", &later], "[timer_ended]"),
        (vec!["ls", "--status", "asleep"], "[invalid_argument]"),
        (vec!["timer", "soon", "--reason", "x"], "[invalid_duration]"),
        (vec!["timer", "5"], "[reason_or_mission_required]"),
        (vec!["timer", "5", "--mission", "x", "--session", " "], "[invalid_session]"),
    ] {
        let refused = home.run(&arguments).await;
        assert_eq!(refused.code, Some(1), "{arguments:?}: {refused:?}");
        assert!(refused.err.starts_with("reveille: ") && refused.err.contains(code), "{arguments:?}: {refused:?}");
        assert!(refused.out.is_empty());
    }
}

#[tokio::test]
async fn messages_are_shown_and_taken() {
    let home = Home::default();
    let _daemon = home.serve().await;
    let made = home.run(&["--json", "timer", "20ms", "--mission", "wake up", "--session", "会话 1"]).await.json();
    let timer = id(&made);
    let told = finished(&timer, "Mission", "wake up", 20).replace("20 seconds", "0.02 seconds");
    within("the message", async { while !home.run(&["inbox", "--session", "会话 1"]).await.out.contains(&told) {} })
        .await;
    assert_eq!(home.run(&["inbox"]).await.out, "No messages.\n", "another session's");
    let shown = home.run(&["inbox", "--session", "会话 1", "--json"]).await.json();
    assert_eq!(shown["messages"][0]["timer_id"], timer);
    let taken = home.run(&["inbox", "--session", "会话 1", "--take"]).await;
    assert_eq!((taken.code, taken.out.trim_end()), (Some(0), told.as_str()));
    for arguments in [&["inbox", "--session", "会话 1"][..], &["inbox", "--take", "--session", "会话 1"]] {
        assert_eq!(home.run(arguments).await.out, "No messages.\n");
    }
    let environment = home.command(&["inbox"]).env("REVEILLE_SESSION", "会话 1").output().await.unwrap();
    assert_eq!(Ran::of(&environment).out, "No messages.\n");
}

#[tokio::test]
async fn reminders_are_scheduled_listed_and_cancelled() {
    let home = Home::default();
    let _daemon = home.serve().await;
    assert_eq!(home.run(&["clock", "ls"]).await.out, "No reminders.\n");
    let made = home.run(&["clock", "schedule", "检查日志", "--in", "10m", "--tool", "exec", "--json"]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let id = text(&made.json()["scheduled"][0]["taskId"]);
    let other = home.run(&["clock", "schedule", "x", "--at", "2099-01-01T00:00:00Z"]).await;
    assert!(other.code == Some(1) && other.err.contains("[due_too_far]"), "{other:?}");
    let listed = home.run(&["clock", "ls"]).await;
    assert!(listed.out.contains(&id) && listed.out.contains("检查日志"), "{listed:?}");
    let moved = home.run(&["clock", "schedule", "改", "--in", "20m", "--id", &id]).await;
    assert!(moved.code == Some(0) && moved.out.contains(&id), "{moved:?}");
    let pending = home.run(&["ls"]).await.out;
    assert!(pending.contains(&id) && pending.contains("reminder") && !pending.contains("No live"), "{pending}");
    assert_eq!(home.run(&["ls", "--json"]).await.json()["reminders"][0]["taskId"], id);
    let cancelled = home.run(&["clock", "cancel", &id]).await;
    assert_eq!((cancelled.code, cancelled.out), (Some(0), format!("{id} cancelled\n")));
    assert_eq!(home.run(&["clock", "clear"]).await.out, "0 cancelled\n");
    let ended = home.run(&["clock", "cancel", &id]).await;
    assert!(ended.code == Some(1) && ended.err.contains("[reminder_ended]"), "{ended:?}");
    let elsewhere = home.run(&["clock", "schedule", "Check the build", "--in", "10m", "--session", "my-session"]).await;
    assert_eq!(elsewhere.code, Some(0), "{}", elsewhere.err);
    assert!(home.run(&["clock", "ls", "--session", "my-session"]).await.out.contains("Check the build"));
    assert_eq!(home.run(&["clock", "clear", "--session", "my-session"]).await.out, "1 cancelled\n");
    assert_eq!(home.run(&["clock", "schedule", "when?"]).await.code, Some(2));
}

#[tokio::test]
async fn without_a_server_the_answer_says_how_to_get_one() {
    let home = Home::default();
    for arguments in [
        &["ls"][..],
        &["read", "timer_00000000"],
        &["stop", "timer_00000000"],
        &["inbox"],
        &["timer", "5", "--reason", "r"],
        &["ls", "--url", "http://127.0.0.1:9"],
    ] {
        // Not the default port, where a real server of whoever runs this test may listen.
        home.write_config("listen = \"127.0.0.1:9\"\n");
        let refused = home.run(arguments).await;
        assert_eq!(refused.code, Some(3), "{arguments:?}: {refused:?}");
        assert!(refused.err.contains("Start one with `reveille`"), "{refused:?}");
    }
    // A server that was killed leaves its address behind.
    let daemon = home.serve().await;
    daemon.kill().await;
    assert_eq!(home.run(&["ls"]).await.code, Some(3));
}

#[tokio::test]
async fn flags_alone_serve_and_mistakes_in_usage_are_explained() {
    let home = Home::default();
    let elsewhere = tempfile::tempdir().unwrap();
    let dir = elsewhere.path().to_str().unwrap();
    let daemon = Daemon::start(home.command(&["--listen", "127.0.0.1:0", "--data-dir", dir])).await;
    assert_eq!(home.run(&["ls", "--data-dir", dir]).await.code, Some(0));
    assert_eq!(home.run(&["ls", "--url", &daemon.url]).await.code, Some(0));
    assert!(exists(&elsewhere.path().join("reveille.db")));
    assert_eq!(daemon.terminate().await, Some(0));
    for arguments in
        [&["lss"][..], &["stop"], &["pause", "x"], &["timer", "5", "-r", "a", "-m", "b"], &["ls", "--nope"]]
    {
        let wrong = home.run(arguments).await;
        assert_eq!(wrong.code, Some(2), "{arguments:?}: {wrong:?}");
        assert!(wrong.err.contains("Usage") || wrong.err.contains("--help"), "{wrong:?}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let completions = home.run(&["completions", shell]).await;
        assert_eq!(completions.code, Some(0));
        assert!(completions.out.contains("reveille") && completions.out.contains("pause"), "{shell}");
    }
    assert!(home.run(&["--version"]).await.out.contains(env!("CARGO_PKG_VERSION")));
    assert!(home.run(&["--help"]).await.out.contains("timer"));
    let blocked = home.dir.path().join("a-file");
    fs::write(&blocked, "").unwrap();
    let nowhere = home.run(&["serve", "--data-dir", blocked.to_str().unwrap(), "--listen", "127.0.0.1:0"]).await;
    assert_eq!(nowhere.code, Some(1));
    assert!(nowhere.err.contains("a-file"), "{nowhere:?}");
}
