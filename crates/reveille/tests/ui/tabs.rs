//! Many pages at once, pages that nobody sees, pages opened at a bad moment, addresses that mean nothing.

use super::{
    Other,
    browser::{Browser, Look},
    elements::axum_page,
    support::process::{Daemon, Home},
};
use serde_json::json;
use std::time::{Duration, Instant};

const LIVE: &str = "document.querySelector('.live-dot')?.dataset.state === 'live'";
/// More than a browser has connections to one server.
const PAGES: usize = 8;
const FOLLOWERS: &str = "reveille_event_followers";

fn row(id: &str) -> String {
    format!("document.querySelector('.timer-row[data-id={id}]:not([hidden])')")
}

/// The page as the browser would tell it that it is seen, or not.
fn seen(is_seen: bool) -> String {
    let hidden = !is_seen;
    format!(
        "Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }}); \
         document.dispatchEvent(new Event('visibilitychange'))"
    )
}

async fn followed_by(other: &Other, count: f64) {
    let began = Instant::now();
    while other.metric(FOLLOWERS).await != count {
        assert!(began.elapsed() < Duration::from_secs(60), "{} follow", other.metric(FOLLOWERS).await);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_number_of_pages_share_one_stream() {
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    let browser = Browser::open(Look::default()).await;
    let mut windows = Vec::new();
    for _ in 0..PAGES {
        windows.push(browser.another().await);
        browser.goto(&format!("{}/#/timers", server.url)).await;
        browser.until("it is connected", LIVE).await;
    }
    assert_eq!(other.metric(FOLLOWERS).await, 1.0);
    let first = other.mission("many", 600, "seen by all").await;
    for window in &windows {
        browser.to(window).await;
        browser.until("the timer", &row(&first)).await;
    }

    // Whoever holds the stream goes, and the next goes on where it was.
    let made = other.mission("many", 600, "while one takes over").await;
    while windows.len() > 1 {
        browser.to(&windows.remove(0)).await;
        browser.leave_for(&windows[0]).await;
        let next = other.mission("many", 600, "after it was left").await;
        browser.until("what came before", &row(&made)).await;
        browser.until("what came after", &row(&next)).await;
    }

    // Nobody looks: nothing is held, and nothing is missed.
    browser.run(&seen(false), json!([])).await;
    followed_by(&other, 0.0).await;
    let unseen = other.mission("many", 600, "while nobody looked").await;
    browser.run(&seen(true), json!([])).await;
    browser.until("it was not missed", &row(&unseen)).await;
    assert_eq!(other.metric(FOLLOWERS).await, 1.0);

    // A page that is left lets go at once: none of the returns waits for the one before.
    for _ in 0..PAGES {
        browser.goto("about:blank").await;
        browser.goto(&format!("{}/#/timers", server.url)).await;
        browser.until("it is connected", LIVE).await;
    }
    followed_by(&other, 1.0).await;
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_in_many_pages_of_another_app_share_one_stream() {
    let app = axum_page().await;
    let home = Home::default();
    home.write_config(&format!("allowed_hosts = [\"{}\"]\n", app.trim_start_matches("http://")));
    let server = home.serve().await;
    let other = Other::of(&server.url);
    let id = other.mission("chat", 400, "in many places").await;
    let browser = Browser::open(Look::default()).await;
    let status = "document.querySelector('reveille-timer')?.shadowRoot?.querySelector('.status')?.textContent";
    let mut windows = Vec::new();
    for _ in 0..PAGES {
        windows.push(browser.another().await);
        browser.goto(&format!("{app}/?server={}&timer={id}", server.url)).await;
        browser.until("the timer", &format!("{status} === 'running'")).await;
    }
    followed_by(&other, 1.0).await;
    other.post(&format!("/api/timers/{id}/pause"), json!({"pause_duration": "5m"})).await;
    for window in &windows {
        browser.to(window).await;
        browser.until("it is paused everywhere", &format!("{status} === 'paused'")).await;
    }
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_can_be_opened_while_the_server_is_away() {
    let home = Home::default();
    home.write_config("listen = \"127.0.0.1:0\"\n");
    let server = home.serve().await;
    let address = server.url.trim_start_matches("http://").to_owned();
    let browser = Browser::open(Look::default()).await;
    browser.goto(&server.url).await;
    browser.until("it is connected", LIVE).await;
    server.kill().await;
    browser.until("it says that it is not connected", "!document.querySelector('.lost').hidden").await;
    browser.run("location.hash = '#/statistics'", json!([])).await;
    browser
        .until("it says why it is empty", "document.querySelector('main')?.innerText.includes('does not answer')")
        .await;
    let mut command = home.command(&["serve", "--listen", &address]);
    command.stderr(std::process::Stdio::null());
    let server = Daemon::start(command).await;
    browser.until("it is filled by itself", "document.querySelectorAll('main .chart').length > 3").await;
    drop(server);
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_past_the_menu_and_addresses_that_mean_nothing() {
    let home = Home::default();
    let server = home.serve().await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/timers", server.url)).await;
    browser.until("it is connected", LIVE).await;
    browser.press("\u{e004}\u{e007}").await; // tab, enter
    browser.until("the content has the focus", "document.activeElement?.id === 'main'").await;
    let at = "return [location.hash, document.querySelector('h1').textContent]";
    assert_eq!(browser.run(at, json!([])).await, json!(["#/timers", "Timers"]));
    browser.run("location.hash = '#/timer'", json!([])).await;
    browser.until("it says so", "document.querySelector('main')?.innerText.includes('no page at this address')").await;
    assert_eq!(browser.run("return document.title", json!([])).await, "Not found · Reveille");
    browser.quiet().await;
    browser.close().await;
}
