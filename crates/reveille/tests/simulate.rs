//! `reveille simulate`, the real binary: what timers would do, without waiting, without a server, without calling anybody.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use support::{process::Home, *};

/// The original's example: remind after 5 minutes of silence, hand off after 10, close after 30.
const AGENT: &str = r#"
tenant = "acme"
chatbot = "support"
system_actions = ["close_conversation", "handoff_to"]

[[tools]]
name = "handoff_to"
endpoint = { url = "https://crm.invalid/handoff", headers = { authorization = "Bearer ${NOT_SET_HERE}" } }

[[tools]]
name = "close_conversation"
endpoint = "https://crm.invalid/close"

[[timers]]
timer_id = "idle_reminder"
delay_seconds = 300
tool_name = "generate_response"
message = "您好，还在吗？"

[[timers]]
timer_id = "auto_handoff"
delay_seconds = 600
tool_name = "handoff_to"
tool_params = { type = "unassigned" }

[[timers]]
timer_id = "session_timeout"
delay_seconds = 1800
tool_name = "close_conversation"
"#;

fn write(home: &Home, name: &str, text: &str) -> String {
    let path = home.dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_originals_agent_reminds_hands_off_and_closes() {
    let home = Home::default();
    let file = write(&home, "agent.toml", AGENT);
    let start = ["--start", "2026-11-16T08:00:00Z"];
    let says = ["--say", "0s hi", "--say", "7m hello?"];
    let ran = home.run(&[&["simulate", &file], &says[..], &start[..]].concat()).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let shown: Vec<String> =
        ran.out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        shown,
        [
            "acme:support, from 2026-11-16T08:00:00Z",
            "0s user \"hi\"",
            "0s agent answers; silence begins",
            "5m 00s idle_reminder generate_response \"您好，还在吗？\" (time 1 of 1)",
            "7m 00s user \"hello?\"",
            "7m 00s agent answers; silence begins",
            "17m 00s auto_handoff handoff_to {\"type\":\"unassigned\"} (time 1 of 1)",
            "37m 00s session_timeout close_conversation (time 1 of 1)",
            "37m 00s session closed: session timer session_timeout closed it",
        ]
    );

    // The same for programs, out of a whole configuration.
    let whole = AGENT.replace("[[tools]]", "[[agent.tools]]").replace("[[timers]]", "[[agent.timers]]");
    let file = write(&home, "reveille.toml", &format!("[[agent]]{whole}"));
    let ran = home
        .run(&[&["--json", "simulate", &file, "--answers-in", "30s"], &says[..1], &["3s 在吗"], &start[..]].concat())
        .await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let lines = list(&ran.json()["lines"]);
    let when: Vec<(&Value, &Value)> = lines.iter().map(|line| (&line["what"], &line["after"])).collect();
    assert_eq!(
        when,
        [
            (&json!("message"), &json!(3)),
            (&json!("answered"), &json!(33)),
            (&json!("fired"), &json!(333)),
            (&json!("fired"), &json!(633)),
            (&json!("fired"), &json!(1833)),
            (&json!("closed"), &json!(1833)),
        ]
    );
    has(&lines[3], json!({"timer_id": "auto_handoff", "with": {"type": "unassigned"}, "at": "2026-11-16T08:10:33Z"}));
}

#[tokio::test]
async fn one_that_never_ends_is_left_after_a_day() {
    let home = Home::default();
    let agent = json!({
        "tenant": "a", "chatbot": "b",
        "timers": [{"timer_id": "again", "delay_seconds": "6h", "max_triggers": 0, "tool_name": "generate_response"}],
    });
    let file = write(&home, "agent.json", &agent.to_string());
    let ran = home.run(&["simulate", &file, "--start", "2026-11-16T08:00:00Z"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("(time 4)") && !ran.out.contains("(time 5)"), "{ran:?}");
    assert!(ran.out.contains("goes on at 2026-11-17T14:00:00Z"), "{ran:?}");
}

#[tokio::test]
async fn what_makes_no_sense_is_explained() {
    let home = Home::default();
    let broken = write(&home, "broken.toml", &AGENT.replace("tool_name = \"handoff_to\"", "tool_name = \"hand_off\""));
    let two = write(
        &home,
        "two.toml",
        "[[agent]]\ntenant = \"a\"\nchatbot = \"b\"\n[[agent]]\ntenant = \"a\"\nchatbot = \"c\"\n",
    );
    let fine = write(&home, "fine.toml", AGENT);
    for (arguments, code, word) in [
        (vec!["nowhere.toml"], 1, "nowhere.toml"),
        (vec![broken.as_str()], 1, "timers[1].tool_name"),
        (vec![two.as_str()], 1, "a:b, a:c"),
        (vec![two.as_str(), "--agent", "a:d"], 1, "a:b, a:c"),
        (vec![fine.as_str(), "--say", "hello"], 2, "7m hello?"),
        (vec![fine.as_str(), "--start", "tomorrow"], 1, "ISO 8601"),
        (vec![fine.as_str(), "--for", "long"], 1, "--for"),
    ] {
        let ran = home.run(&[&["simulate"], &arguments[..]].concat()).await;
        assert!(ran.code == Some(code) && ran.err.contains(word), "{arguments:?}: {ran:?}");
    }
}
