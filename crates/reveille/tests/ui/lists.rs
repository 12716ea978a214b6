//! Long lists: what is in the page stays small however many timers there are, and it stays usable. How fast frames come is
//! measured and printed, not asserted (`docs/benchmarks.md` has the figures), but for a page that stands still.

use super::{
    Other,
    browser::{Browser, Look},
    support::process::{Daemon, Home},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Of one session; more than this many it may not have.
const PER_SESSION: usize = 100;
const AT_ONCE: usize = 32;
/// Rows of a window and a few to spare on each side.
const ROWS_MAX: i64 = 40;
/// Milliseconds without a frame that no slow machine explains: the page is frozen.
const FROZEN_MS: f64 = 3000.0;

pub async fn fill(url: &str, from: usize, to: usize) {
    let other = Arc::new(Other::of(url));
    let mut calls = tokio::task::JoinSet::new();
    for number in from..to {
        if calls.len() == AT_ONCE {
            calls.join_next().await.unwrap().unwrap();
        }
        let other = other.clone();
        calls.spawn(async move {
            let session = format!("load-{:03}", number / PER_SESSION);
            other.mission(&session, 36_000 + number as u64, &format!("timer number {number} 数")).await;
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
}

/// Scrolls at the pace of a hand, then from top to bottom in as many frames: the milliseconds between frames.
const SCROLL: &str = "
    const list = document.querySelector('.vlist');
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const frames = 240;
    let rows = 0;
    async function scroll(step) {
        const times = [];
        list.scrollTop = 0;
        let last = await frame();
        for (let at = 1; at <= frames; at += 1) {
            list.scrollTop = step * at;
            const now = await frame();
            times.push(now - last);
            last = now;
            rows = Math.max(rows, document.querySelectorAll('.vlist-row').length);
        }
        times.sort((a, b) => a - b);
        return [0.5, 0.95, 1].map((share) => Math.round(times[Math.ceil(frames * share) - 1] * 10) / 10);
    }
    const hand = await scroll(40);
    const whole = await scroll((list.scrollHeight - list.clientHeight) / frames);
    const seen = [...document.querySelectorAll('.vlist-row:not([hidden])')].map((row) => row.index);
    return { rows, last: Math.max(...seen), hand, whole };";

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_timers_scroll_and_are_searched() {
    let home = Home::default();
    let server = home.serve().await;
    let browser = Browser::open(Look::default()).await;
    let mut made = 0;
    for count in [1_000, 10_000] {
        fill(&server.url, made, count).await;
        made = count;
        browser.goto("about:blank").await;
        browser.goto(&format!("{}/#/timers", server.url)).await;
        let said = json!(format!("{} timers", grouped(count)));
        browser
            .until("all are counted", &format!("document.querySelector('.filter-count')?.textContent === {said}"))
            .await;
        let seen = browser.wait_for(SCROLL).await;
        println!("{count} timers, milliseconds between frames (p50, p95, max): {seen}");
        assert_eq!(seen["last"].as_i64(), Some(count as i64 - 1), "the end was reached: {seen}");
        for pace in ["hand", "whole"] {
            assert!(seen[pace][2].as_f64().unwrap() < FROZEN_MS, "it froze: {seen}");
        }
        assert!(seen["rows"].as_i64().unwrap() <= ROWS_MAX, "only what is seen exists: {seen}");
        // It answers while it is that long: searching finds one.
        browser.fill("input[type=search]", &format!("number {} 数", count - 1)).await;
        browser.until("one is found", "document.querySelector('.filter-count').textContent === '1 timer'").await;
    }
    browser.quiet().await;
    browser.close().await;
}

fn grouped(count: usize) -> String {
    format!("{},{:03}", count / 1000, count % 1000)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_changes_arrives_whole() {
    let home = Home::default();
    let server = home.serve().await;
    fill(&server.url, 0, 1).await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/timers", server.url)).await;
    browser.until("the first", "document.querySelector('.timer-row')?.dataset.id").await;
    fill(&server.url, 1, 900).await;
    browser.until("all came", "document.querySelector('.filter-count').textContent === '900 timers'").await;
    let stopped = Other::of(&server.url).post("/api/timers/stop", json!({"all": true})).await;
    assert_eq!(stopped["stopped"], Value::from(900));
    browser.until("all went", "document.querySelector('.filter-count').textContent === '0 timers'").await;
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_completions_is_drawn_together() {
    const BURST: usize = 1000;
    /// One for each would be a thousand, of up to a thousand dots each.
    const DRAWN_MAX: i64 = 100;
    let home = Home::default();
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0", "--manual-clock=2026-02-02T02:00:00Z"]);
    command.stderr(std::process::Stdio::null());
    let server = Daemon::start(command).await;
    let other = Arc::new(Other::of(&server.url));
    for session in 0..BURST / PER_SESSION {
        let calls = (0..PER_SESSION).map(|number| {
            let other = other.clone();
            async move { other.mission(&format!("burst-{session}"), 600, &format!("number {number}")).await }
        });
        futures_util::future::join_all(calls).await;
    }
    let browser = Browser::open(Look::default()).await;
    browser.goto(&server.url).await;
    browser.until("it is connected", "document.querySelector('.live-dot')?.dataset.state === 'live'").await;
    browser.until("all are there", "document.querySelector('[data-tile=live] dd').textContent === '1,000'").await;
    let watch = "window.drawn = 0; new MutationObserver((all) => { drawn += all.length; })
                 .observe(document.querySelector('svg.timeline'), {childList: true})";
    browser.run(watch, json!([])).await;
    other.post("/api/clock/advance", json!({"by": "11m"})).await;
    let dots = "document.querySelectorAll('.tl-dot').length >= 1000";
    browser
        .until("all have come", &format!("{dots} && document.querySelector('[data-tile=live] dd').textContent === '0'"))
        .await;
    let drawn = browser.run("return drawn", json!([])).await.as_i64().unwrap();
    assert!((1..=DRAWN_MAX).contains(&drawn), "drawn {drawn} times");
    browser.quiet().await;
    browser.close().await;
}
