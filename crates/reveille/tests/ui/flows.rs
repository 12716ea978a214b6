//! What people do in the dashboard, and what reaches it from elsewhere.

use super::{
    Other,
    browser::{Browser, Look},
    support::process::{Daemon, Home},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The row of this timer in the list.
fn row(id: &str) -> String {
    format!(".timer-row[data-id={id}]")
}

fn text(selector: &str) -> String {
    format!("document.querySelector({})?.textContent", json!(selector))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_is_set_watched_paused_resumed_and_stopped() {
    let home = Home::default();
    let server = home.serve().await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/timers", server.url)).await;
    browser.until("it is connected", "document.querySelector('.live-dot')?.dataset.state === 'live'").await;

    browser.press("n").await;
    browser.fill("dialog input[name=session]", "demo").await;
    browser.fill("dialog input[name=total_duration]", "soon").await;
    browser.fill("dialog textarea[name=mission]", "看一看部署 ☕").await;
    browser.click("dialog button[type=submit]").await;
    browser
        .until(
            "the mistake is explained",
            "document.querySelector('dialog [role=alert]')?.textContent.includes('soon')",
        )
        .await;
    browser.log().await; // the refusal is in it
    browser.fill("dialog input[name=total_duration]", "90s").await;
    browser.click("dialog button[type=submit]").await;
    let id = browser.until("the row appears", "document.querySelector('.timer-row')?.dataset.id").await;
    let id = id.as_str().unwrap().to_owned();
    assert_eq!(browser.run(&format!("return {}", text(".row-purpose")), json!([])).await, "看一看部署 ☕");

    let width = format!("document.querySelector('{} .bar-fill').getBoundingClientRect().width", row(&id));
    let before = browser.run(&format!("return {width}"), json!([])).await.as_f64().unwrap();
    browser.until("the bar moves", &format!("{width} > {before} + 1")).await;

    browser.click(&format!("{} [data-action=pause]", row(&id))).await;
    browser.fill("dialog input[name=pause_duration]", "10m").await;
    browser.fill("dialog input[name=reason]", "lunch").await;
    browser.click("dialog button[type=submit]").await;
    browser
        .until("it is paused", &format!("document.querySelector('{}')?.dataset.status === 'paused'", row(&id)))
        .await;
    let left = text(&format!("{} .row-left", row(&id)));
    let frozen = browser.run(&format!("return {left}"), json!([])).await;
    // Paused for longer, and it stays what it is.
    let paused_until = async || Other::of(&server.url).get(&format!("/api/timers/{id}")).await["pause_until"].as_i64();
    let first = paused_until().await;
    browser.click(&format!("{} [data-action=pause]", row(&id))).await;
    browser.fill("dialog input[name=pause_duration]", "2h").await;
    browser.click("dialog button[type=submit]").await;
    browser.until("it is done", "!document.querySelector('dialog')").await;
    assert!(paused_until().await > first, "{first:?}");
    browser.wait_for("await new Promise((done) => setTimeout(done, 1300)); return 1").await;
    assert_eq!(browser.run(&format!("return {left}"), json!([])).await, frozen, "time stands still");

    browser.click(&format!("{} [data-action=resume]", row(&id))).await;
    browser.click("dialog button[type=submit]").await;
    browser.until("it counts again", &format!("{left} !== {frozen}")).await;

    // By keyboard alone: to the row, and its key.
    browser.run("document.querySelector('.vlist').focus()", json!([])).await;
    browser.press("\u{e015}").await; // arrow down
    browser.press("s").await;
    browser.fill("dialog input[name=reason]", "done already").await;
    browser.click("dialog button[type=submit]").await;
    browser.until("it has left the live ones", &format!("!document.querySelector('{}:not([hidden])')", row(&id))).await;
    let stopped = Other::of(&server.url).get(&format!("/api/timers/{id}")).await;
    assert_eq!((stopped["status"].as_str(), stopped["stop_reason"].as_str()), (Some("stopped"), Some("done already")));
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_call_shows_both_durations_and_is_released_and_told() {
    let home = Home::default();
    let server = home.serve().await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/", server.url)).await;
    browser.until("it is connected", "document.querySelector('.live-dot')?.dataset.state === 'live'").await;
    let waiting = tokio::spawn({
        let other = Other::of(&server.url);
        async move {
            let ask = json!({"total_duration": 100, "timeout_duration": 60, "reason": "the build"});
            other.post("/api/sessions/builder/tools/timer", ask).await
        }
    });
    browser.until("it is next", "document.querySelector('.next-text')?.textContent === 'the build'").await;
    browser.run("location.hash = '#/timers'", json!([])).await;
    let bar = browser
        .until("the stand-by is inside the bar", "document.querySelector('.bar[data-standby]')?.style.cssText")
        .await;
    let part = |name: &str| -> f64 {
        let value = bar.as_str().unwrap().split(&format!("{name}: ")).nth(1).unwrap();
        value.split('%').next().unwrap().parse().unwrap()
    };
    assert!(part("--from") < 1.0 && (part("--to") - 60.0).abs() < 1.0, "{bar}");

    browser.click(".timer-row [data-action=cancel]").await;
    browser.click("dialog button[type=submit]").await;
    let released = waiting.await.unwrap();
    assert_eq!(released["outcome"], "background");
    browser
        .until(
            "it runs in the background",
            "document.querySelector('.timer-row')?.dataset.status === 'running_background'",
        )
        .await;

    // What is paused can be let go of as well, and then nothing is next.
    browser.click(".timer-row [data-action=pause]").await;
    browser.click("dialog button[type=submit]").await;
    browser.until("it is paused", "document.querySelector('.timer-row')?.dataset.status === 'paused'").await;
    browser.click(".timer-row [data-action=cancel]").await;
    browser.click("dialog button[type=submit]").await;
    browser.until("it is done", "!document.querySelector('dialog')").await;
    browser.run("location.hash = '#/'", json!([])).await;
    browser
        .until("it is not next", "document.querySelector('.next-text')?.textContent.includes('paused: 1 timer')")
        .await;

    // A message appears as it comes, as text whatever it is.
    let evil = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>";
    Other::of(&server.url).mission("evil", 1, evil).await;
    browser.run("location.hash = '#/'", json!([])).await;
    let said = browser.until("the message", "document.querySelector('.said .said-rest')?.textContent").await;
    assert!(said.as_str().unwrap().contains(evil), "{said}");
    Other::of(&server.url).post("/api/sessions/evil/tools/read_timer", json!({})).await; // and so it is told
    // On every page that has it, and none of it is an element.
    let ended = "[...document.querySelectorAll('.segment')].find((one) => one.textContent === 'Ended').click()";
    for (page, first) in [("", ""), ("timers", ended), ("history", ""), ("sessions/evil", ""), ("deliveries", "")] {
        browser.run("location.hash = arguments[0]", json!([format!("#/{page}")])).await;
        browser.run(first, json!([])).await;
        let shown = format!("document.querySelector('#main .page').textContent.includes({})", json!(evil));
        browser.until(&format!("#/{page} shows it"), &shown).await;
        let elements =
            "document.querySelectorAll('#main img, #main script').length + (document.title.includes('broken') ? 1 : 0)";
        assert_eq!(browser.run(&format!("return {elements}"), json!([])).await, 0, "#/{page}");
    }
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_do_is_seen_within_a_second_and_after_a_restart() {
    let home = Home::default();
    home.write_config("listen = \"127.0.0.1:0\"\n");
    let server = home.serve().await;
    let address = server.url.trim_start_matches("http://").to_owned();
    let other = Other::of(&server.url);
    let first = other.mission("elsewhere", 600, "first").await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/timers", server.url)).await;
    browser.until("the first", &format!("document.querySelector('{}')", row(&first))).await;
    browser.until("it is connected", "document.querySelector('.live-dot')?.dataset.state === 'live'").await;

    // The page itself says when it saw the row, by the clock of this machine.
    let watch = "window.seen = {}; new MutationObserver(() => { for (const one of document.querySelectorAll('.timer-row:not([hidden])')) \
                 window.seen[one.dataset.id] ??= Date.now(); }).observe(document.querySelector('.vlist'), {subtree: true, childList: true, attributes: true})";
    browser.run(watch, json!([])).await;
    let second = other.mission("elsewhere", 300, "second").await;
    let made = other.get(&format!("/api/timers/{second}")).await["created_at"].as_i64().unwrap();
    let seen = browser.until("the second", &format!("window.seen['{second}']")).await.as_i64().unwrap();
    assert!(seen - made < 1000, "seen {} ms after it was made", seen - made);

    server.kill().await;
    browser.until("it says that it is not connected", "!document.querySelector('.lost').hidden").await;
    let mut command = home.command(&["serve", "--listen", &address]);
    command.stderr(std::process::Stdio::null());
    let server = Daemon::start(command).await;
    browser.until("it is connected again", "document.querySelector('.lost').hidden").await;
    let third = Other::of(&server.url).mission("elsewhere", 100, "third").await;
    browser.until("the third", &format!("document.querySelector('{}')", row(&third))).await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_asks_for_the_token_once() {
    const TOKEN: &str = "a-token-of-sixteen-or-more";
    let home = Home::default();
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("REVEILLE_TOKEN", TOKEN);
    let server = Daemon::start(command).await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&server.url).await;
    browser.fill("#token", "not the token at all").await;
    browser.click(".sign-in button").await;
    browser.until("it is refused", "document.querySelector('.sign-in [role=alert]')?.textContent").await;
    browser.log().await; // the refusal is in it
    browser.fill("#token", TOKEN).await;
    browser.click(".sign-in button").await;
    browser.until("it is connected", "document.querySelector('.live-dot')?.dataset.state === 'live'").await;
    assert_eq!(browser.run("return document.cookie", json!([])).await, "", "no script can read it");
    browser.goto(&format!("{}/#/timers", server.url)).await;
    browser.press("n").await;
    browser.fill("dialog input[name=session]", "demo").await;
    browser.fill("dialog textarea[name=mission]", "with the cookie").await;
    browser.click("dialog button[type=submit]").await;
    browser.until("it is set", "document.querySelector('.timer-row')?.dataset.id").await;
    let began = Instant::now();
    browser.goto("about:blank").await;
    browser.goto(&server.url).await;
    browser.until("it is not asked again", "document.querySelector('.live-dot')?.dataset.state === 'live'").await;
    assert!(began.elapsed() < Duration::from_secs(120));
    assert_eq!(browser.run("return !!document.querySelector('.sign-in')", json!([])).await, Value::Bool(false));
    browser.quiet().await;
    browser.close().await;
}
