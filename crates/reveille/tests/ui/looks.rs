//! Every page in light, dark and at the width of a phone: accessible by the rules of axe, without a word on the console.
//! `UPDATE=1` writes the pictures of `docs/screenshots`.

use super::{
    browser::{Browser, Look},
    support::{World, id, result},
};
use reveille::{config::Length, wake::WakeRule};
use reveille_core::Millis;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ui");
const PAGES: [(&str, &str); 10] = [
    ("overview", "/#/"),
    ("timers", "/#/timers"),
    ("sessions", "/#/sessions"),
    ("session", "/#/sessions/claude-42"),
    ("reminders", "/#/reminders"),
    ("agents", "/#/agents"),
    ("deliveries", "/#/deliveries"),
    ("history", "/#/history"),
    ("statistics", "/#/statistics"),
    ("embed", "/ui/embed.html"),
];

/// axe-core from npm, in a pinned version, kept in the target directory.
fn axe() -> String {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe");
    fs::create_dir_all(&place).unwrap();
    let lock = File::create(place.join("lock")).unwrap();
    lock.lock().unwrap();
    let script = place.join("node_modules/axe-core/axe.min.js");
    let (wanted, done) = (fs::read_to_string(format!("{HERE}/package-lock.json")).unwrap(), place.join("installed"));
    if !fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(format!("{HERE}/{file}"), place.join(file)).unwrap();
        }
        let npm = Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&place).output();
        let npm = npm.expect("this test needs npm, which is not on the PATH: install Node.js 20 or newer");
        assert!(npm.status.success(), "npm ci: {}", String::from_utf8_lossy(&npm.stderr));
        fs::write(done, wanted).unwrap();
    }
    fs::read_to_string(script).unwrap()
}

/// A week in the life of a few agents, lived through in a moment by a clock of our own. The page goes by the server's time,
/// so that it shows all of it as it was.
async fn furnished() -> World {
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
            result(waits).await;
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
    for (session, total, timeout, reason) in [
        ("cline-web", 1800, 1700, "Waiting for the container image to be pushed"),
        ("codex-7f3a", 900, 500, "Watching output/build.log for the bundle"),
        ("claude-42", 900, 400, "Waiting for the integration tests"),
    ] {
        let body = json!({"total_duration": total, "timeout_duration": timeout, "reason": reason});
        drop(world.standing(session, body).await);
        world.advance(75);
    }
    world
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
const CHECK: &str = "
    const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
    const { violations } = await axe.run(document, { runOnly: { type: 'tag', values: tags } });
    return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).slice(0, 3).join(' | ')}`);";

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_accessible_in_every_look() {
    let axe = axe();
    let world = furnished().await;
    let mut wrong = Vec::new();
    for (name, look) in [
        ("light", Look::default()),
        ("dark", Look { dark: true, phone: false }),
        ("phone", Look { dark: false, phone: true }),
    ] {
        let browser = Browser::open(look).await;
        for (page, path) in PAGES {
            browser.goto("about:blank").await;
            browser.goto(&format!("{}{path}", world.url)).await;
            browser.until(page, "document.querySelector('main')?.innerText.length > 60").await;
            browser.until("it is loaded", "!document.body.innerText.includes('Loading …')").await;
            browser.run(&axe, json!([])).await;
            let found = browser.wait_for(CHECK).await;
            wrong.extend(
                found.as_array().unwrap_or(&vec![found.clone()]).iter().map(|one| format!("{page} {name}: {one}")),
            );
            wrong.extend(browser.log().await.into_iter().map(|line| format!("{page} {name}: console: {line}")));
            let wide = "document.documentElement.scrollWidth > innerWidth";
            if browser.run(&format!("return {wide}"), json!([])).await == Value::Bool(true) {
                wrong.push(format!("{page} {name}: wider than the window"));
            }
            if std::env::var_os("UPDATE").is_some() {
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
