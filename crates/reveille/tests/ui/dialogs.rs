//! What stands before a page or over it, the sign-in and the dialogs, is as accessible as the pages; and nothing moves for
//! those who do not want that.

use super::{
    Other,
    browser::{Browser, Look},
    looks::{axe, violations},
    support::{
        client,
        process::{Daemon, Home},
    },
};
use serde_json::json;

const TOKEN: &str = "a-token-of-sixteen-or-more";
const CONNECTED: &str = "document.querySelector('.live-dot')?.dataset.state === 'live'";

/// Where it is opened, by what, and what is chosen in it.
const DIALOGS: [(&str, &str, &str); 10] = [
    ("timers", ".new-timer", ""),
    ("timers", ".new-timer", "after until=http"),
    ("timers", ".new-timer", "at"),
    ("timers", ".new-timer", "every"),
    ("timers", ".timer-row [data-action=pause]", ""),
    ("timers", ".timer-row [data-action=stop]", ""),
    ("reminders", ".page-head .button", ""),
    ("reminders", ".page-head .button", "at"),
    ("sessions/chat", ".page-buttons .button:nth-of-type(3)", ""),
    ("sessions/chat", ".page-buttons .button:last-of-type", ""),
];

/// Chooses what the dialog offers, as a person would.
const CHOOSE: &str = "
    for (const word of arguments[0].split(' ').filter(Boolean)) {
        const [name, value] = word.includes('=') ? word.split('=') : ['when', word];
        const select = document.querySelector(`dialog select[name=${name}]`);
        select.value = value;
        select.dispatchEvent(new Event('change', { bubbles: true }));
    }";

#[tokio::test(flavor = "multi_thread")]
async fn dialogs_and_the_way_in_are_accessible() {
    let axe = axe();
    let home = Home::default();
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("REVEILLE_TOKEN", TOKEN);
    let server = Daemon::start(command).await;
    let timer = json!({"session": "chat", "total_duration": 3600, "mission": "看部署 🙂"});
    let made = client().post(format!("{}/api/timers", server.url)).bearer_auth(TOKEN).json(&timer).send().await;
    assert!(made.unwrap().status().is_success());
    let mut wrong = Vec::new();
    for look in [(false, false), (true, false), (false, true), (true, true)] {
        let (dark, phone) = look;
        let browser = Browser::open(Look { dark, phone, ..Look::default() }).await;
        let mut check = async |what: &str| {
            let found = violations(&browser, &axe).await;
            wrong.extend(found.iter().map(|one| format!("{what}, dark {dark}, phone {phone}: {one}")));
        };
        browser.goto(&server.url).await;
        browser.until("it asks", "document.querySelector('#token')").await;
        check("the way in").await;
        browser.fill("#token", "not the token at all").await;
        browser.click(".sign-in button").await;
        browser.until("it is refused", "document.querySelector('.sign-in [role=alert]:not([hidden])')").await;
        check("the way in, refused").await;
        browser.fill("#token", TOKEN).await;
        browser.click(".sign-in button").await;
        browser.until("it is connected", CONNECTED).await;
        for (page, opener, chosen) in DIALOGS {
            browser.run("location.hash = arguments[0]", json!([format!("#/{page}")])).await;
            browser.click(&format!("#main {opener}, .side {opener}")).await;
            browser.until("it opens", "document.querySelector('dialog[open]')").await;
            browser.run(CHOOSE, json!([chosen])).await;
            check(&format!("#/{page} {opener} {chosen}")).await;
            browser.run("document.querySelector('dialog').close()", json!([])).await;
        }
        browser.close().await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What moves or may move, in the page and inside of its elements.
const MOVES: &str = "
    const within = (root) => [...root.querySelectorAll('*')].flatMap((one) => [one, ...(one.shadowRoot ? within(one.shadowRoot) : [])]);
    const moves = (style) => style.animationName !== 'none' || /[1-9]/.test(style.transitionDuration);
    const found = within(document).filter((one) => [null, '::before', '::after'].some((part) => moves(getComputedStyle(one, part))));
    return [...found.map((one) => one.className || one.localName), ...document.getAnimations().map(String)];";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_moves_for_those_who_do_not_want_it() {
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    other.mission("chat", 3600, "look").await;
    for calm in [false, true] {
        let browser = Browser::open(Look { calm, ..Look::default() }).await;
        let mut moving = 0;
        for page in
            ["", "timers", "sessions", "sessions/chat", "reminders", "agents", "deliveries", "history", "statistics"]
        {
            browser.goto(&format!("{}/#/{page}", server.url)).await;
            browser.until("it is connected", CONNECTED).await;
            browser.until("it is loaded", "!document.body.innerText.includes('Loading …')").await;
            browser.press("n").await;
            browser.wait_for("(await import('/ui/parts/announce.js')).announce('done'); return 1").await;
            let found = browser.run(MOVES, json!([])).await;
            let found = found.as_array().unwrap();
            assert!(!calm || found.is_empty(), "#/{page}: {found:?}");
            moving += found.len();
            browser.run("document.querySelector('dialog')?.close()", json!([])).await;
        }
        assert_eq!(moving == 0, calm, "and the look sees what moves for others: {moving}");
        browser.quiet().await;
        browser.close().await;
    }
}
