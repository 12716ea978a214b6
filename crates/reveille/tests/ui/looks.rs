//! Every page in light, dark and at the width of a phone: accessible by the rules of axe, without a word on the console.
//! `UPDATE=1` writes the pictures of `docs/screenshots`.

use super::{
    browser::{Browser, Look},
    support::{
        World,
        endpoint::{Answer as Says, Endpoints},
        id, install, list, result,
    },
};
use reqwest::Method;
use reveille::{config::Length, wake::WakeRule};
use reveille_core::Millis;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Looked at, but no picture of it is kept.
const DARK_PHONE: &str = "dark phone";
const PAGES: [(&str, &str); 10] = [
    ("overview", "/#/"),
    ("timers", "/#/timers"),
    ("sessions", "/#/sessions"),
    ("session", "/#/sessions/chat-881"),
    ("reminders", "/#/reminders"),
    ("agents", "/#/agents"),
    ("deliveries", "/#/deliveries"),
    ("history", "/#/history"),
    ("statistics", "/#/statistics"),
    ("embed", "/ui/embed.html"),
];

/// The script of axe-core.
pub fn axe() -> String {
    let (place, _lock) = install::npm("ui");
    fs::read_to_string(place.join("node_modules/axe-core/axe.min.js")).unwrap()
}

/// A week in the life of a few agents, lived through in a moment by a clock of our own. The page goes by the server's time,
/// so that it shows all of it as it was.
async fn furnished() -> (World, Endpoints) {
    let desk = tempfile::tempdir().unwrap();
    let world = World::with(|config| {
        let rule = |matches: &str, script: &str| WakeRule {
            matches: matches.into(),
            command: ["/bin/sh", "-c", script].map(String::from).into(),
            cwd: Some(desk.path().to_owned()),
            grace: Length(Millis::from_secs(1)),
            timeout: Length(Millis::from_secs(60)),
            retries: 0,
            per_hour: 12,
            env: Default::default(),
        };
        let fails = "echo 'No conversation found with session ID claude-42'; exit 1";
        config.wake.insert("claude-code".into(), rule("claude-42", fails));
        config.wake.insert("codex".into(), rule("codex-*", "cat > /dev/null; echo resumed"));
    })
    .await;
    for day in 0..6 {
        for hour in [3, 5, 4, 12] {
            world.advance(hour * 3600 - 300);
            let waits =
                json!({"total_duration": 1200, "timeout_duration": 180 + 20 * day, "reason": "Waiting for the tests"});
            let waits = world.standing("cline-web", waits).await;
            if hour != 12 {
                remind(&world, "ops", "Check the backups", "1m").await;
            }
            ends(&world, "gemini-docs", 60 + day, "Look at the nightly build").await;
            world.advance(240);
            let waited = result(waits).await;
            // Left running, it would end and be told to the next one that stands by.
            let through = json!({"timer_id": id(&waited), "reason": "The tests are through"});
            world.done("cline-web", "stop_timer", through).await;
            let stopped = world.done("ops", "timer", json!({"total_duration": 500, "mission": "Drain node 3"})).await;
            world.done("ops", "stop_timer", json!({"timer_id": id(&stopped), "reason": "Node 3 was replaced"})).await;
        }
        world.done("gemini-docs", "read_timer", json!({})).await;
    }
    for (session, seconds, mission) in [
        ("claude-42", 240, "Restart the staging server"),
        ("gemini-docs", 420, "Publish the draft"),
        ("codex-7f3a", 300, "Check whether the index rebuild has finished"),
        ("gemini-docs", 360, "Read the reviews"),
        ("codex-7f3a", 420, "Look for flaky tests"),
    ] {
        ends(&world, session, seconds, mission).await;
    }
    let platform = customers(&world).await;
    for (session, seconds, mission) in [
        ("claude-billing", 2520, "Look at the deployment of billing-api and roll back if errors rise"),
        ("codex-7f3a", 3300, "Compare the nightly benchmark with last week"),
        ("巡检-agent", 1240, "检查备份是否完成 🙂"),
        ("gemini-docs", 1860, "Regenerate the API reference"),
        ("ops", 7400, "Rotate the certificates"),
    ] {
        world.done(session, "timer", json!({"total_duration": seconds, "mission": mission})).await;
        world.advance(100);
    }
    let paused = world.done("cline-web", "timer", json!({"total_duration": 2000, "mission": "Ask for a review"})).await;
    world.advance(200);
    let body = json!({"timer_id": id(&paused), "pause_duration": "20m", "reason": "The reviewer is at lunch"});
    world.done("cline-web", "pause_timer", body).await;
    remind(&world, "claude-billing", "Send the weekly cost report", "26m").await;
    remind(&world, "ops", "Check disk usage on the database host", "48m").await;
    remind(&world, "ops", "Renew the on-call handover", "3h").await;
    // In sessions without a message: one that waits would be told to whoever stands by.
    for (session, total, timeout, reason) in [
        ("cline-web", 1800, 1700, "Waiting for the container image to be pushed"),
        ("codex-91c2", 900, 500, "Watching output/build.log for the bundle"),
        ("claude-7", 900, 400, "Waiting for the integration tests"),
    ] {
        let body = json!({"total_duration": total, "timeout_duration": timeout, "reason": reason});
        drop(world.standing(session, body).await);
        world.advance(75);
    }
    (world, platform)
}

/// Conversations with an agent whose timers fire, whose tools answer, and one of whose webhooks is not there.
async fn customers(world: &World) -> Endpoints {
    let platform = Endpoints::start().await;
    platform.answers("/hooks/crm", &[Says::Says(410, "this hook was removed".into())]);
    let base = &platform.url;
    let config = json!({
        "model": "gpt-5", "system_prompt": "You help customers of ACME, in their own language.",
        "tools": [
            {"name": "handoff_to", "description": "Hand the conversation to a person",
             "endpoint": {"url": format!("{base}/sessions/{{session}}/handoff"), "headers": {"x-team": "support"}, "timeout": "5s"},
             "parameters": {"type": "object", "properties": {"type": {"enum": ["unassigned", "vip"]}}, "required": ["type"]}},
            {"name": "close_conversation", "endpoint": format!("{base}/close")},
        ],
        "system_actions": ["handoff_to", "close_conversation"],
        "timers": [
            {"timer_id": "idle_reminder", "delay_seconds": 300, "max_triggers": 2, "reset": "on_message",
             "tool_name": "generate_response", "message": "Are you still there?"},
            {"timer_id": "auto_handoff", "delay_seconds": 600, "tool_name": "handoff_to", "tool_params": {"type": "unassigned"}},
            {"timer_id": "session_timeout", "delay_seconds": 3600, "tool_name": "close_conversation"},
        ],
        "webhooks": [{"url": format!("{base}/hooks/crm"), "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}],
    });
    let set = world.request(Method::PUT, "/api/agents/acme/support", Some(&config)).await;
    assert_eq!(set.status, 200, "{}", set.body);
    for (session, asked, answered) in [
        ("chat-881", "Where is my order 4711?", "It left our house this morning and is with you tomorrow. 📦"),
        ("chat-李雷", "发票在哪里？", "已发送到您的邮箱。"),
    ] {
        let path = format!("/api/sessions/{session}/activity");
        for (phase, text) in [("message", asked), ("response", answered)] {
            let body = json!({"agent": "acme:support", "phase": phase, "text": text});
            let told = world.post(&path, body).await;
            assert_eq!(told.status, 200, "{}", told.body);
            world.advance(4);
        }
    }
    // Not before the calls so far have ended: a clock that jumps takes one that is under way for lost.
    ended(world, 2).await;
    for (seconds, calls) in [(296, 4), (300, 10)] {
        world.advance(seconds);
        ended(world, calls).await;
    }
    world
        .done("chat-881", "timer", json!({"total_duration": 3600, "mission": "Ask the carrier about order 4711"}))
        .await;
    remind(world, "chat-881", "Tell the customer when it was delivered", "2h").await;
    platform
}

/// Until so many calls have.
async fn ended(world: &World, calls: usize) {
    let is_over = |call: &Value| call["status"] == "done" || call["status"] == "failed";
    world
        .until("the calls have ended", || async {
            let all = list(&world.get("/api/calls").await["calls"]);
            (all.iter().filter(|call| is_over(call)).count() >= calls).then_some(())
        })
        .await;
}

async fn ends(world: &World, session: &str, seconds: u64, mission: &str) {
    let made = world.done(session, "timer", json!({"total_duration": seconds, "mission": mission})).await;
    world.advance(seconds);
    world.until_event(&id(&made), "timer.completed").await;
}

async fn remind(world: &World, session: &str, task: &str, after: &str) {
    let body = json!({"action": "schedule", "task": task, "in": after, "tool": "exec"});
    let answer = world.tool(session, "clock", body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

/// What is against the rules of WCAG 2 A and AA, in words.
pub async fn violations(browser: &Browser, axe: &str) -> Vec<String> {
    browser.run(axe, json!([])).await;
    let found = browser.wait_for(CHECK).await;
    found.as_array().unwrap_or(&vec![found.clone()]).iter().map(Value::to_string).collect()
}

const CHECK: &str = "
    const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
    const { violations } = await axe.run(document, { runOnly: { type: 'tag', values: tags } });
    return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).slice(0, 3).join(' | ')}`);";

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_accessible_in_every_look() {
    let axe = axe();
    let (world, _platform) = furnished().await;
    let mut wrong = Vec::new();
    for (name, look) in [
        ("light", Look::default()),
        ("dark", Look { dark: true, ..Look::default() }),
        ("phone", Look { phone: true, ..Look::default() }),
        (DARK_PHONE, Look { dark: true, phone: true, ..Look::default() }),
    ] {
        let browser = Browser::open(look).await;
        for (page, path) in PAGES {
            browser.goto("about:blank").await;
            browser.goto(&format!("{}{path}", world.url)).await;
            browser.until(page, "document.querySelector('main')?.innerText.length > 60").await;
            browser.until("it is loaded", "!document.body.innerText.includes('Loading …')").await;
            wrong.extend(violations(&browser, &axe).await.iter().map(|one| format!("{page} {name}: {one}")));
            wrong.extend(browser.log().await.into_iter().map(|line| format!("{page} {name}: console: {line}")));
            // Not `innerWidth`: a phone shows a page that is too wide as a whole, and calls that its width.
            let wide = "document.documentElement.scrollWidth > Math.ceil(visualViewport.width)";
            if browser.run(&format!("return {wide}"), json!([])).await == Value::Bool(true) {
                wrong.push(format!("{page} {name}: wider than the window"));
            }
            if std::env::var_os("UPDATE").is_some() && name != DARK_PHONE {
                fs::write(pictures().join(format!("{page}-{name}.webp")), browser.screenshot().await).unwrap();
            }
        }
        browser.close().await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (page, _) in PAGES {
        for name in ["light", "dark", "phone"] {
            let picture = pictures().join(format!("{page}-{name}.webp"));
            assert!(picture.exists(), "{} is missing; `UPDATE=1` with this test makes it", picture.display());
        }
    }
}

fn pictures() -> PathBuf {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/screenshots");
    fs::create_dir_all(&place).unwrap();
    place
}
