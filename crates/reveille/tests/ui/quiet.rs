//! Quiet hours in the page: what waits for them is never shown as due now, and people set and end them.

use super::{
    Other,
    browser::{Browser, Look},
    support::process::Home,
};
use serde_json::json;

/// Of an hour or more.
const LONG: &str = "/^\\d+:\\d\\d:\\d\\d$/";
const LIVE: &str = "document.querySelector('.live-dot')?.dataset.state === 'live'";

async fn press(browser: &Browser, button: &str) {
    let found =
        format!("[...document.querySelectorAll('.page-buttons button')].find((one) => one.textContent === '{button}')");
    browser.until(button, &format!("!!{found}")).await;
    browser.run(&format!("{found}.click()"), json!([])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_quiet_hours_says_when_it_comes() {
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    other.mission("night", 600, "stays").await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/sessions/night", server.url)).await;
    browser.until("it is connected", LIVE).await;
    press(&browser, "Quiet hours").await;
    // From an hour ago, for six hours.
    let fill = "const time = (hours) => new Date(Date.now() + hours * 3600e3).toISOString().slice(11, 16);
        for (const [name, value] of [['from', time(-1)], ['to', time(5)], ['zone', 'UTC']]) document.querySelector(`dialog [name=${name}]`).value = value;";
    browser.run(fill, json!([])).await;
    browser.click("dialog button[type=submit]").await;
    browser.until("the head says so", "document.querySelector('.facts .quiet')?.textContent.includes('(UTC)')").await;

    let id = other.mission("night", 1, "falls due at night").await;
    other.post("/api/reminders", json!({"session": "night", "task": "water", "in": 1})).await;
    let card = format!("document.querySelector('reveille-timer[timer-id={id}]')?.shadowRoot");
    let left = format!("{LONG}.test({card}?.querySelector('.left')?.textContent)");
    browser.until("the card counts to their end", &left).await;
    browser.until("and says so", &format!("{card}.querySelector('.when').textContent.includes('quiet hours')")).await;
    let coming = "[...document.querySelectorAll('.moment[data-state=coming]')]";
    let all =
        format!("{coming}.length === 3 && {coming}.every((row) => /in \\d+:\\d\\d:\\d\\d/.test(row.textContent))");
    browser.until("so does the timeline", &all).await;

    browser.run("location.hash = '#/'", json!([])).await;
    browser
        .until("it is what comes next", &format!("{LONG}.test(document.querySelector('.next-left')?.textContent)"))
        .await;
    browser
        .until("nobody is due now", &format!("{LONG}.test(document.querySelector('.sleeper-left')?.textContent)"))
        .await;
    for page in ["timers", "reminders"] {
        browser.run("location.hash = arguments[0]", json!([format!("#/{page}")])).await;
        browser.until(page, "document.querySelector('.timer-row')?.textContent.includes('(quiet hours)')").await;
    }
    assert!(home.run(&["ls"]).await.out.contains("(quiet"));
    let line = home.run(&["ls", "--status-line"]).await.json();
    assert!(line["next"]["remaining_time"].as_f64().unwrap() > 3600.0, "{line}");

    // Without them, what is due comes at once.
    browser.run("location.hash = '#/sessions/night'", json!([])).await;
    press(&browser, "Quiet hours").await;
    browser
        .run("const which = document.querySelector('dialog [name=which]'); which.value = 'none'; which.dispatchEvent(new Event('change', { bubbles: true }))", json!([]))
        .await;
    browser.click("dialog button[type=submit]").await;
    browser.until("it is told", "document.querySelector('reveille-message')").await;
    browser.until("the head says nothing", "!document.querySelector('.facts .quiet')").await;
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_is_shown_with_what_was_seen_of_it() {
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    let file = home.dir.path().join("built").display().to_string();
    let body = json!({"session": "build", "total_duration": 600, "mission": "go on", "until": {"file": file}});
    let id = other.post("/api/timers", body).await["timer_id"].as_str().unwrap().to_owned();
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/sessions/build", server.url)).await;
    let when = format!(
        "document.querySelector('reveille-timer[timer-id={id}]')?.shadowRoot?.querySelector('.when')?.textContent"
    );
    browser.until("the card says what for", &format!("{when}?.includes('until {file} exists')")).await;
    let coming = "document.querySelector('.moment[data-state=coming]')?.textContent";
    browser.until("so does the timeline", &format!("{coming}?.includes('until {file} exists')")).await;
    std::fs::write(&file, "").unwrap();
    browser.until("it is met", "document.querySelector('reveille-message')").await;
    browser.run("location.hash = '#/timers'", json!([])).await;
    browser.click(".segment:nth-child(5)").await; // ended
    let row = "document.querySelector('.timer-row:not([hidden])')?.textContent";
    browser
        .until(
            "the list says how it ended",
            &format!("{row}?.includes('met: {file} exists') && {row}.includes('after ')"),
        )
        .await;
    browser.quiet().await;
    browser.close().await;
}
