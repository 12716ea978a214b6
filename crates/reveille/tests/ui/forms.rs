//! What people set, in every form of it; where the focus is; and how one leaves.

use super::{
    Other,
    browser::{Browser, Look},
    support::process::{Daemon, Home},
};
use serde_json::{Value, json};

const LIVE: &str = "document.querySelector('.live-dot')?.dataset.state === 'live'";

/// As a person picks one of a list.
async fn pick(browser: &Browser, name: &str, value: &str) {
    let script = "const [name, value] = arguments, list = document.querySelector(`dialog select[name=${name}]`);
        list.value = value; list.dispatchEvent(new Event('change', { bubbles: true }))";
    browser.run(script, json!([name, value])).await;
}

async fn open(path: &str) -> (Home, Daemon, Other, Browser) {
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/#/{path}", server.url)).await;
    browser.until("it is connected", LIVE).await;
    (home, server, other, browser)
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_are_set_with_every_kind_of_condition() {
    let (home, _server, other, browser) = open("timers").await;
    let file = home.dir.path().join("nothing yet").display().to_string();
    let path = file.as_str();
    let here = home.dir.path().display().to_string();
    for (kind, fields, expected) in [
        (
            "http",
            vec![("http", "http://127.0.0.1:9/"), ("status", "204"), ("body_matches", "ok")],
            json!({"http": "http://127.0.0.1:9/", "status": 204, "body_matches": "ok"}),
        ),
        ("tcp", vec![("tcp", "127.0.0.1:9")], json!({"tcp": "127.0.0.1:9"})),
        ("exists", vec![("file", path)], json!({"file": path, "exists": true})),
        ("gone", vec![("file", here.as_str())], json!({"file": here, "exists": false})),
        ("changed", vec![("file", path)], json!({"file": path, "changed": true})),
        ("contains", vec![("file", path), ("contains", "完成")], json!({"file": path, "contains": "完成"})),
        ("process", vec![("process", &std::process::id().to_string())], json!({"process": std::process::id()})),
    ] {
        browser.press("n").await;
        browser.fill("dialog input[name=session]", kind).await;
        pick(&browser, "until", kind).await;
        for (name, value) in fields {
            browser.fill(&format!("dialog input[name={name}]"), value).await;
        }
        browser.fill("dialog textarea[name=mission]", "go on").await;
        browser.click("dialog button[type=submit]").await;
        browser.until("it is set", "!document.querySelector('dialog')").await;
        let made = other.get(&format!("/api/timers?session={kind}")).await;
        assert_eq!(made["timers"][0]["until"], expected, "{kind}");
    }

    // What belongs to a condition is not asked for where there is none.
    browser.press("n").await;
    pick(&browser, "until", "http").await;
    pick(&browser, "when", "every").await;
    let shown = "[...document.querySelectorAll('dialog .field:not([hidden]) [name]')].map((one) => one.name).join()";
    assert_eq!(
        browser.run(&format!("return {shown}"), json!([])).await,
        "session,when,every,max_fires,catch_up,zone,mission"
    );
    // No limit is an empty field; none at all is a mistake, not no limit.
    browser.fill("dialog input[name=session]", "often").await;
    browser.fill("dialog input[name=every]", "1h").await;
    browser.fill("dialog input[name=max_fires]", "0").await;
    browser.fill("dialog textarea[name=mission]", "look").await;
    pick(&browser, "catch_up", "skip").await;
    browser.click("dialog button[type=submit]").await;
    assert_eq!(other.get("/api/timers?session=often").await["timers"], json!([]), "refused");
    browser.fill("dialog input[name=max_fires]", "3").await;
    browser.click("dialog button[type=submit]").await;
    browser.until("it is set", "!document.querySelector('dialog')").await;
    let made = other.get("/api/timers?session=often").await["timers"][0]["schedule"].clone();
    assert_eq!((made["max_fires"].as_u64(), made["catch_up"].as_str()), (Some(3), Some("skip")), "{made}");
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reminder_is_set_for_a_date() {
    let (_home, _server, other, browser) = open("reminders").await;
    browser.click(".page-head .button").await;
    browser.fill("dialog input[name=session]", "ops").await;
    browser.fill("dialog textarea[name=task]", "备份").await;
    pick(&browser, "when", "at").await;
    let later =
        "const at = new Date(Date.now() + 3 * 86_400_000); at.setMinutes(at.getMinutes() - at.getTimezoneOffset());
        return document.querySelector('dialog [name=dueAt]').value = at.toISOString().slice(0, 16)";
    let wanted = browser.run(later, json!([])).await;
    browser.click("dialog button[type=submit]").await;
    browser.until("it is there", "document.querySelector('.reminder-row')?.textContent.includes('备份')").await;
    let due = other.get("/api/reminders").await["reminders"][0]["dueAt"].clone();
    let shown = "const at = new Date(arguments[0]); at.setMinutes(at.getMinutes() - at.getTimezoneOffset()); return at.toISOString().slice(0, 16)";
    assert_eq!(browser.run(shown, json!([due])).await, wanted, "in the viewer's own zone");
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_focus_stays_with_its_timer_wherever_that_goes() {
    let (_home, _server, other, browser) = open("timers").await;
    let first = other.mission("focus", 300, "first").await;
    for seconds in [400, 500, 600] {
        other.mission("focus", seconds, "another").await;
    }
    browser.until("all", "document.querySelectorAll('.timer-row:not([hidden])').length === 4").await;
    browser.run("document.querySelector('.vlist').focus()", json!([])).await;
    browser.press("\u{e015}").await; // arrow down
    let focused = "document.activeElement?.dataset?.id";
    assert_eq!(browser.run(&format!("return {focused}"), json!([])).await, first.as_str());
    // Paused by its key, it goes to the end of the list; the dialog gives the focus back to it.
    browser.press("p").await;
    browser.fill("dialog input[name=pause_duration]", "30m").await;
    browser.click("dialog button[type=submit]").await;
    let place = format!("document.querySelector('[data-id={first}]')?.getAttribute('aria-posinset') === '4'");
    browser.until("it has moved", &place).await;
    browser.until("with the focus", &format!("{focused} === '{first}'")).await;
    // It ends elsewhere: what has taken its place has the focus, not the page.
    other.post(&format!("/api/timers/{first}/stop"), json!({})).await;
    browser.until("it is gone", "document.querySelectorAll('.timer-row:not([hidden])').length === 3").await;
    let now = browser.run("return [document.activeElement.className.includes('timer-row'), document.activeElement.getAttribute('aria-posinset')]", json!([])).await;
    assert_eq!(now, json!([true, "3"]));
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_has_signed_in_can_sign_out() {
    const TOKEN: &str = "a-token-of-sixteen-or-more";
    let home = Home::default();
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("REVEILLE_TOKEN", TOKEN);
    let server = Daemon::start(command).await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&server.url).await;
    browser.fill("#token", TOKEN).await;
    browser.click(".sign-in button").await;
    browser.until("it is connected", LIVE).await;
    browser.click("[aria-label='Sign out']").await;
    browser.until("it asks again", "!!document.querySelector('#token')").await;
    assert_eq!(browser.run("return !!document.querySelector('.side')", json!([])).await, Value::Bool(false));
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_is_told_what_to_try() {
    let (_home, _server, other, browser) = open("").await;
    let steps = "[...document.querySelectorAll('.section')].find((one) => one.textContent.startsWith('First steps'))";
    browser
        .until("the first steps", &format!("{steps} && !{steps}.hidden && {steps}.innerText.includes('reveille demo')"))
        .await;
    other.mission("begun", 600, "look").await;
    browser.until("they have been taken", &format!("{steps}.hidden")).await;
    browser.quiet().await;
    browser.close().await;
}
