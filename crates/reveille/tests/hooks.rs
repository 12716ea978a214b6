//! Hooks as their clients run them: the real binary, JSON on stdin, exactly the client's JSON on stdout.

#![allow(clippy::unwrap_used)]

mod support;

use reqwest::Method;
use serde_json::{Value, json};
use std::{io::Write, process::Stdio, time::Duration};
use support::{
    process::{Daemon, Home, Ran},
    *,
};
use tokio::{io::AsyncWriteExt, process::Child};

/// What a pipe holds before it is full.
const PIPE_BYTES: usize = 65_536;

fn hook(home: &Home, arguments: &[&str], input: &str) -> Child {
    let mut command = home.command(&[&["hook"], arguments].concat());
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    feed(piped.spawn().unwrap(), input)
}

fn feed(mut child: Child, input: &str) -> Child {
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_owned());
    tokio::spawn(async move { stdin.write_all(input.as_bytes()).await });
    child
}

async fn ended(child: Child) -> Ran {
    Ran::of(&within("the hook ends", child.wait_with_output()).await.unwrap())
}

async fn ran(home: &Home, arguments: &[&str], session: &str) -> Ran {
    let field = if arguments[0] == "cursor" { "conversation_id" } else { "session_id" };
    let input = json!({field: session, "cwd": "/", "stop_hook_active": true, "hook_event_name": "x"});
    ended(hook(home, arguments, &input.to_string())).await
}

async fn ask(daemon: &Daemon, method: Method, path: &str, body: Option<&Value>) -> Value {
    send(&client(), method, &format!("{}{path}", daemon.url), body, None).await.body
}

async fn inbox(daemon: &Daemon, session: &str) -> Vec<Value> {
    list(&ask(daemon, Method::GET, &format!("/api/sessions/{session}/inbox"), None).await["messages"])
}

/// Looks again and again, since the server is another process.
async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    within(what, async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

async fn mission(daemon: &Daemon, session: &str, length: &str, text: &str) -> String {
    let body = json!({"total_duration": length, "mission": text});
    id(&ask(daemon, Method::POST, &format!("/api/sessions/{session}/tools/timer"), Some(&body)).await)
}

/// A mission that has ended: the text of its message.
async fn pending(daemon: &Daemon, session: &str, text: &str) -> String {
    let timer = mission(daemon, session, "10ms", text).await;
    let message = until("the message", async || {
        inbox(daemon, session).await.into_iter().find(|message| message["timer_id"] == timer)
    })
    .await;
    support::text(&message["text"])
}

async fn last_channel(daemon: &Daemon, session: &str) -> Value {
    let path = format!("/api/history?session={session}&event=message.delivered&limit=1");
    ask(daemon, Method::GET, &path, None).await["entries"][0]["data"]["channel"].clone()
}

#[tokio::test]
async fn each_client_is_told_in_its_own_words_and_once() {
    let home = Home::default();
    let daemon = home.serve().await;
    let context = |event: &str, text: &str| {
        format!("{}\n", json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}))
    };
    let block = |word: &str, text: &str| format!("{}\n", json!({"decision": word, "reason": text}));
    for (number, client) in ["claude-code", "codex", "gemini", "cursor"].into_iter().enumerate() {
        let silence = if number < 2 { "" } else { "{}\n" };
        for event in ["stop", "prompt", "start"] {
            let session = format!("{client}-{event}");
            let first = ran(&home, &[client, event], &session).await;
            // A model whose tools do not know the session is told its name, once.
            if client == "gemini" && event != "stop" {
                let name = if event == "start" { "SessionStart" } else { "BeforeAgent" };
                assert_eq!(first.out, context(name, &format!("For Reveille's tools pass session: \"{session}\".")));
            } else {
                assert_eq!(first.out, silence);
            }
            let nothing = ran(&home, &[client, event], &session).await;
            assert_eq!((nothing.code, nothing.out.as_str(), nothing.err.as_str()), (Some(0), silence, ""), "{session}");
            let text = pending(&daemon, &session, "check \"it\"\n二").await;
            let expected = match (client, event) {
                ("claude-code" | "codex", "stop") => block("block", &text),
                ("claude-code" | "codex", "prompt") => context("UserPromptSubmit", &text),
                ("gemini", "stop") => block("deny", &text),
                ("gemini", "prompt") => context("BeforeAgent", &text),
                ("cursor", "stop") => format!("{}\n", json!({"followup_message": text})),
                ("cursor", _) => silence.to_owned(),
                _ => context("SessionStart", &text),
            };
            let told = ran(&home, &[client, event], &session).await;
            assert_eq!((told.code, told.out.as_str(), told.err.as_str()), (Some(0), expected.as_str(), ""));
            let left = inbox(&daemon, &session).await.len();
            if expected == silence {
                assert_eq!(left, 1, "{session}: what cannot be told stays");
                continue;
            }
            assert_eq!(left, 0, "{session}");
            assert_eq!(last_channel(&daemon, &session).await, format!("hook:{event}"));
            assert_eq!(ran(&home, &[client, event], &session).await.out, silence, "{session}: told twice");
            // The session has learnt what its agent runs in.
            let kept = ask(&daemon, Method::GET, &format!("/api/sessions/{session}"), None).await;
            assert_eq!(kept["client"], client);
        }
    }
}

#[tokio::test]
async fn a_hook_never_breaks_its_agent() {
    let home = Home::default();
    let without_server = ran(&home, &["claude-code", "stop"], "s").await;
    assert_eq!((without_server.code, without_server.out.as_str(), without_server.err.as_str()), (Some(0), "", ""));
    let gemini = ran(&home, &["gemini", "stop"], "s").await;
    assert_eq!((gemini.code, gemini.out.as_str(), gemini.err.as_str()), (Some(0), "{}\n", ""));
    let verbose = ran(&home, &["claude-code", "stop", "--verbose"], "s").await;
    assert_eq!(verbose.code, Some(0));
    assert!(verbose.err.contains("no server answers"), "{verbose:?}");
    let rewake = ran(&home, &["claude-code", "rewake"], "s").await;
    assert_eq!((rewake.code, rewake.err.as_str()), (Some(0), ""));

    // 2 would block the agent.
    for wrong in [&["claude-code", "stoop"][..], &["claude-code"], &["claude-code", "stop", "--nonsense"]] {
        let ran = ran(&home, wrong, "s").await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{wrong:?}");
        assert!(ran.err.starts_with("error: "), "{ran:?}");
    }

    let _daemon = home.serve().await;
    for input in ["", "not json", "{}", "[1]", r#"{"session_id": 5}"#, r#"{"session_id": " "}"#] {
        let odd = ended(hook(&home, &["claude-code", "stop"], input)).await;
        assert_eq!((odd.code, odd.out.as_str(), odd.err.as_str()), (Some(0), "", ""), "{input}");
    }
    home.write_config("nonsense = 1");
    let misconfigured = ran(&home, &["codex", "stop"], "s").await;
    assert_eq!((misconfigured.code, misconfigured.out.as_str(), misconfigured.err.as_str()), (Some(0), "", ""));
}

#[tokio::test]
async fn a_model_hears_its_sessions_name_where_its_tools_cannot_know_it() {
    let home = Home::default();
    let context = |ran: &Ran| match ran.out.trim() {
        "" | "{}" => String::new(),
        _ => text(&ran.json()["hookSpecificOutput"]["additionalContext"]),
    };
    let named = "For Reveille's tools pass session: \"s\".";
    // Also before any server runs: the first call starts it, and that is too late.
    assert_eq!(context(&ran(&home, &["gemini", "start"], "s").await), named);
    assert_eq!(context(&ran(&home, &["gemini", "prompt"], "s").await), "");
    let daemon = home.serve().await;
    assert_eq!(context(&ran(&home, &["claude-code", "start"], "s").await), "", "over stdio the tools know it");
    assert_eq!(context(&ran(&home, &["claude-code", "start", "--tell-session", "--session", "t"], "s").await), "");
    assert_eq!(context(&ran(&home, &["claude-code", "start", "--tell-session"], "s").await), named);
    assert_eq!(context(&ran(&home, &["claude-code", "prompt", "--tell-session"], "s").await), "", "once");
    // A session that is known by this name needs no word, unless the model has forgotten it.
    let message = pending(&daemon, "s", "m").await;
    let compacted = json!({"session_id": "s", "source": "compact"}).to_string();
    let told = ended(hook(&home, &["claude-code", "start", "--tell-session"], &compacted)).await;
    assert_eq!(context(&told), format!("{named}\n\n{message}"));
    assert!(inbox(&daemon, "s").await.is_empty());
    daemon.kill().await;
    let _daemon = home.serve().await;
    assert_eq!(context(&ran(&home, &["gemini", "start"], "s").await), "");
}

/// The tools of Claude Code know the conversation that its window began with, and no other.
#[tokio::test]
async fn a_conversation_that_begins_anew_hears_its_name() {
    let home = Home::default();
    let _daemon = home.serve().await;
    for (source, named) in [("startup", false), ("resume", true), ("clear", true), ("fork", true), ("compact", true)] {
        for _ in 0..2 {
            let input = json!({"session_id": "s", "source": source}).to_string();
            let told = ended(hook(&home, &["claude-code", "start"], &input)).await;
            assert_eq!(told.out.contains("For Reveille's tools pass session: \\\"s\\\"."), named, "{source}: {told:?}");
            assert_eq!(ended(hook(&home, &["claude-code", "start", "--session", "t"], &input)).await.out, "");
        }
    }
}

#[tokio::test]
async fn a_call_of_our_tools_is_given_its_session() {
    let home = Home::default();
    let call = |arguments: Value| {
        json!({"session_id": "s", "tool_name": "mcp__reveille__timer", "tool_input": arguments}).to_string()
    };
    // No server is needed for it, and whether the tool may be called is not ours to say.
    for (arguments, expected) in [
        (
            json!({"total_duration": 5, "mission": "二 \"m\""}),
            json!({"total_duration": 5, "mission": "二 \"m\"", "session": "s"}),
        ),
        (json!({}), json!({"session": "s"})),
        (json!({"session": "of another conversation"}), json!({"session": "s"})),
    ] {
        let named = ended(hook(&home, &["claude-code", "tool"], &call(arguments))).await;
        let output = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": expected}});
        assert_eq!((named.code, named.json()), (Some(0), output));
    }
    let given = ended(hook(&home, &["claude-code", "tool", "--session", "t"], &call(json!({})))).await.json();
    assert_eq!(given["hookSpecificOutput"]["updatedInput"], json!({"session": "t"}));
    for input in ["", "{}", r#"{"session_id": "s", "tool_input": 5}"#] {
        let odd = ended(hook(&home, &["claude-code", "tool"], input)).await;
        assert_eq!((odd.code, odd.out.as_str()), (Some(0), ""), "{input}");
    }
    assert_eq!(ended(hook(&home, &["gemini", "tool"], &call(json!({})))).await.out, "{}\n");
}

/// Claude Code ends the turn after so many hooks that kept it going, whatever the last one said.
#[tokio::test]
async fn an_agent_that_was_kept_going_is_left_to_the_hook_that_wakes_it() {
    let home = Home::default();
    let daemon = home.serve().await;
    let stop = async |kept_going: bool| {
        let input = json!({"session_id": "s", "cwd": "/", "stop_hook_active": kept_going}).to_string();
        ended(hook(&home, &["claude-code", "stop"], &input)).await.out
    };
    pending(&daemon, "s", "first").await;
    assert!(stop(true).await.contains("first"), "nobody else would tell it");
    mission(&daemon, "s", "1h", "later").await;
    let waiting = hook(&home, &["claude-code", "rewake"], &json!({"session_id": "s"}).to_string());
    until("the hook holds the session", async || {
        mission_delivery(&daemon, "s").await.contains(&json!("presence")).then_some(())
    })
    .await;
    mission(&daemon, "s", "10ms", "second").await;
    assert!(ended(waiting).await.err.contains("second"));
    pending(&daemon, "s", "third").await;
    assert_eq!(stop(true).await, "", "the hook that wakes is seen to run");
    assert!(stop(false).await.contains("third"));
    // Where the session is named by a flag, what else the client says is heard all the same.
    pending(&daemon, "s", "fourth").await;
    let input = json!({"stop_hook_active": true, "cwd": "/tmp"}).to_string();
    assert_eq!(ended(hook(&home, &["claude-code", "stop", "--session", "s"], &input)).await.out, "");
    let kept = ask(&daemon, Method::GET, "/api/sessions/s", None).await;
    assert_eq!(inbox(&daemon, "s").await.len(), 1, "{kept}");
}

/// A hook that has left by then is no promise.
#[tokio::test]
async fn what_comes_after_a_hook_has_left_is_not_promised() {
    let home = Home::default();
    let daemon = home.serve().await;
    mission(&daemon, "s", "1h", "m").await;
    let waiting = hook(&home, &["claude-code", "rewake", "--timeout", "23h"], &json!({"session_id": "s"}).to_string());
    until("the hook holds the session", async || {
        mission_delivery(&daemon, "s").await.contains(&json!("presence")).then_some(())
    })
    .await;
    for (length, wakes) in [("22h", true), ("24h", false)] {
        let body = json!({"total_duration": length, "mission": "x"});
        let made = ask(&daemon, Method::POST, "/api/sessions/s/tools/timer", Some(&body)).await;
        assert_eq!(made["delivery"]["wakes"], wakes, "{made}");
        assert_eq!(text(&made["hint"]).contains("Nothing can wake this session"), !wakes, "{made}");
    }
    drop(waiting);
}

#[tokio::test]
async fn of_two_hooks_at_once_one_tells_it() {
    let home = Home::default();
    let daemon = home.serve().await;
    for _ in 0..3 {
        pending(&daemon, "s", "once").await;
        let both = tokio::join!(ran(&home, &["claude-code", "stop"], "s"), ran(&home, &["claude-code", "prompt"], "s"));
        let told = [both.0, both.1].iter().filter(|ran| !ran.out.is_empty()).count();
        assert_eq!(told, 1);
        assert!(inbox(&daemon, "s").await.is_empty());
    }
}

#[tokio::test]
async fn a_hook_says_no_more_than_its_client_reads() {
    let home = Home::default();
    let daemon = home.serve().await;
    for _ in 0..5 {
        mission(&daemon, "s", "300ms", &"\"quoted\"\n".repeat(300)).await;
    }
    until("the messages", async || (inbox(&daemon, "s").await.len() == 5).then_some(())).await;
    let mut told = 0;
    while told < 5 {
        let ran = ran(&home, &["claude-code", "stop"], "s").await;
        assert!(!ran.out.is_empty() && ran.out.chars().count() <= 10_000, "{} characters", ran.out.chars().count());
        told += text(&ran.json()["reason"]).matches("[Timer Completed]").count();
        assert_eq!(inbox(&daemon, "s").await.len(), 5 - told, "the rest stays");
    }
    assert_eq!(told, 5);
}

#[tokio::test]
async fn what_could_not_be_written_is_told_again() {
    let home = Home::default();
    home.write_config("[limits]\nlease = \"1s\"\n");
    let daemon = home.serve().await;
    let text = pending(&daemon, "s", "again").await;
    let input = json!({"session_id": "s"}).to_string();

    // Nobody reads: given back at once.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = home.command(&["hook", "claude-code", "stop"]);
    let child = command.stdin(Stdio::piped()).stdout(writer).spawn().unwrap();
    assert_eq!(ended(feed(child, &input)).await.code, Some(0));
    assert!(inbox(&daemon, "s").await[0].get("leased_until").is_none());

    // Killed while it writes into a pipe that is full: free again when the lease has run out.
    let (_reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b'x'; PIPE_BYTES]).unwrap();
    let mut command = home.command(&["hook", "claude-code", "stop"]);
    let mut child = feed(command.stdin(Stdio::piped()).stdout(writer).spawn().unwrap(), &input);
    until("the lease", async || inbox(&daemon, "s").await[0].get("leased_until").cloned()).await;
    child.kill().await.unwrap();
    let told = until("the message comes again", async || {
        Some(ran(&home, &["claude-code", "stop"], "s").await).filter(|ran| !ran.out.is_empty())
    })
    .await;
    assert_eq!(told.json(), json!({"decision": "block", "reason": text}));
    assert!(inbox(&daemon, "s").await.is_empty());
}

#[tokio::test]
async fn an_idle_session_is_woken_also_through_a_restart() {
    let home = Home::default();
    home.write_config("listen = \"127.0.0.1:0\"\n");
    let daemon = home.serve().await;
    mission(&daemon, "s", "2s", "look at the build").await;
    let waiting = hook(&home, &["claude-code", "rewake"], &json!({"session_id": "s"}).to_string());
    until("the hook holds the session", async || {
        mission_delivery(&daemon, "s").await.contains(&json!("presence")).then_some(())
    })
    .await;
    // Nobody else is there to start the server again.
    daemon.kill().await;
    let woken = ended(waiting).await;
    assert_eq!((woken.code, woken.out.as_str()), (Some(2), ""), "{woken:?}");
    assert!(woken.err.contains("look at the build"), "{woken:?}");
    home.kill_daemons();
    assert_eq!(last_channel(&home.serve().await, "s").await, "hook:rewake");
}

/// What a new mission of this session would be delivered by.
async fn mission_delivery(daemon: &Daemon, session: &str) -> Vec<Value> {
    let body = json!({"total_duration": "5m", "mission": "x"});
    let made = ask(daemon, Method::POST, &format!("/api/sessions/{session}/tools/timer"), Some(&body)).await;
    list(&made["delivery"]["channels"])
}

#[tokio::test]
async fn a_waiter_leaves_when_there_is_nothing_to_wait_for() {
    let home = Home::default();
    let daemon = home.serve().await;
    let nothing = ran(&home, &["claude-code", "rewake"], "s").await;
    assert_eq!((nothing.code, nothing.out.as_str(), nothing.err.as_str()), (Some(0), "", ""));
    let other = ran(&home, &["codex", "rewake"], "s").await;
    assert_eq!((other.code, other.err.as_str()), (Some(0), ""));

    let timer = mission(&daemon, "s", "1h", "never").await;
    let late = ran(&home, &["claude-code", "rewake", "--timeout", "100ms"], "s").await;
    assert_eq!((late.code, late.err.as_str()), (Some(0), ""), "its time is over");

    let input = json!({"session_id": "s"}).to_string();
    let older = hook(&home, &["claude-code", "rewake"], &input);
    let newer = hook(&home, &["claude-code", "rewake"], &input);
    // Whichever came second took the place of the other; stopping the timer ends the one that is left.
    let ask_stop = format!("/api/timers/{timer}/stop");
    let (mut older, mut newer) = (older, newer);
    within("one of them leaves", async {
        tokio::select! {
            status = older.wait() => assert_eq!(status.unwrap().code(), Some(0)),
            status = newer.wait() => assert_eq!(status.unwrap().code(), Some(0)),
        }
    })
    .await;
    ask(&daemon, Method::POST, &ask_stop, Some(&json!({}))).await;
    for child in [older, newer] {
        assert_eq!(ended(child).await.code, Some(0));
    }
}

#[tokio::test]
async fn a_waiter_whose_client_is_gone_takes_no_message() {
    let home = Home::default();
    let daemon = home.serve().await;
    mission(&daemon, "s", "400ms", "nobody is there").await;
    let mut waiting = hook(&home, &["claude-code", "rewake"], &json!({"session_id": "s"}).to_string());
    drop(waiting.stderr.take());
    assert_eq!(within("it leaves", waiting.wait()).await.unwrap().code(), Some(0));
    let message = until("the message", async || inbox(&daemon, "s").await.into_iter().next()).await;
    assert!(message.get("leased_until").is_none());
}
