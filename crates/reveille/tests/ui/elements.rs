//! The elements that other apps embed, in their own pages.

use super::{
    Other,
    browser::{Browser, Look},
    support::process::{Daemon, Home},
};
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A page of somebody else's, which embeds our elements by script.
const PAGE: &str = r#"<!doctype html><html lang="en"><title>An app</title><body><script type="module">
        const params = new URLSearchParams(location.search), server = params.get('server');
        await import(`${server}/ui/embed.js`);
        const timer = document.createElement('reveille-timer');
        timer.setAttribute('server', server); timer.setAttribute('timer-id', params.get('timer'));
        const message = document.createElement('reveille-message');
        message.setAttribute('server', server); message.setAttribute('session', 'chat');
        document.body.append(timer, message);
    </script><link rel="icon" href="data:,"></body></html>"#;

/// A server that lets this app in.
fn home_for(app: &str) -> Home {
    let home = Home::default();
    home.write_config(&format!("allowed_hosts = [\"{}\"]\n", app.trim_start_matches("http://")));
    home
}

pub async fn axum_page() -> String {
    serve(Arc::new(Mutex::new(PAGE.to_owned()))).await
}

/// An app that serves this page, whatever is asked of it; where it is.
async fn serve(page: Arc<Mutex<String>>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let page = page.lock().unwrap().clone();
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    page.len()
                );
                let _ = stream.write_all(format!("{head}{page}").as_bytes()).await;
            });
        }
    });
    format!("http://localhost:{}", address.port())
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_elements_live_in_another_apps_page() {
    let app = axum_page().await;
    let home = home_for(&app);
    let server = home.serve().await;
    let other = Other::of(&server.url);
    let id = other.mission("chat", 400, "<b>bold</b>").await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{app}/?server={}&timer={id}", server.url)).await;
    let inside = "document.querySelector('reveille-timer')?.shadowRoot";
    browser.until("the timer", &format!("{inside}?.querySelector('.purpose')?.textContent === '<b>bold</b>'")).await;
    browser.run(&format!("{inside}.querySelector('[data-action=pause]').click()"), json!([])).await;
    browser.until("it is paused", &format!("{inside}.querySelector('.status').textContent === 'paused'")).await;
    other.post(&format!("/api/timers/{id}/resume"), json!({})).await;
    browser
        .until("it is resumed elsewhere", &format!("{inside}.querySelector('.status').textContent === 'running'"))
        .await;
    other.mission("chat", 1, "say so").await;
    let message = "document.querySelector('reveille-message')?.shadowRoot?.querySelector('.text')?.textContent.includes('say so')";
    browser.until("the message", message).await;
    browser.quiet().await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_go_by_the_clock_of_their_server() {
    let home = Home::default();
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0", "--manual-clock=2020-02-02T02:00:00Z"]);
    command.stderr(std::process::Stdio::null());
    let server = Daemon::start(command).await;
    let other = Other::of(&server.url);
    other.mission("past", 900, "look").await;
    other.post("/api/clock/advance", json!({"by": "5m"})).await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/ui/embed.html", server.url)).await;
    let inside = "document.querySelector('reveille-timer')?.shadowRoot";
    browser
        .until("ten minutes are left", &format!("/^(9:5|10:00)/.test({inside}?.querySelector('.left')?.textContent)"))
        .await;
    browser
        .until(
            "a third has passed",
            &format!("Math.abs({inside}.querySelector('.bar').getAttribute('aria-valuenow') - 33) <= 2"),
        )
        .await;
    browser.quiet().await;
    browser.close().await;
}

/// What the documentation says to write, with the names of this test.
#[tokio::test(flavor = "multi_thread")]
async fn the_documented_lines_work_in_a_page_of_another_origin() {
    let documents = include_str!("../../../../docs/dashboard.md");
    let lines = documents.split("```html\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let shown = include_str!("../../../../ui/embed.html").replace("&lt;", "<").replace("&gt;", ">");
    assert!(shown.contains(lines.trim()), "the page that shows them says the same: {lines}");
    // The server has to know the app before the app can know the server.
    let page = Arc::new(Mutex::new(String::new()));
    let app = serve(page.clone()).await;
    let home = home_for(&app);
    let server = home.serve().await;
    let other = Other::of(&server.url);
    let id = other.mission("demo", 400, "看部署").await;
    let lines = lines.replace("http://127.0.0.1:7383", &server.url).replace("timer_nq072rt887", &id);
    *page.lock().unwrap() = format!("<!doctype html><title>An app</title><link rel=icon href=data:,><body>{lines}");
    let browser = Browser::open(Look::default()).await;
    browser.goto(&app).await;
    let inside = |element: &str| format!("document.querySelector('{element}')?.shadowRoot");
    let purpose = format!("{}?.querySelector('.purpose')?.textContent === '看部署'", inside("reveille-timer"));
    browser.until("the timer", &purpose).await;
    other.mission("demo", 1, "say so").await;
    let text = format!("{}?.querySelector('.text')?.textContent.includes('say so')", inside("reveille-message"));
    browser.until("the message", &text).await;
    browser.quiet().await;
    browser.close().await;
}

/// An answer about the timer before comes late, and one more while there is none to come.
const LATE: &str = "
    const [first, second, known] = arguments;
    const asked = window.asked = [];
    const real = window.fetch;
    const gate = new Promise((open) => { window.open_gate = open; });
    window.fetch = async (url, { signal, ...options } = {}) => {
        asked.push(String(url));
        const answer = await real(url, options);
        if (String(url).includes(first)) await gate;
        return answer;
    };
    const element = window.element = document.createElement('reveille-timer');
    element.setAttribute('timer-id', first);
    document.body.append(element);
    element.setAttribute('timer-id', second);
    const set = window.set = document.createElement('reveille-timer');
    document.body.append(set);
    set.timer = known;";

#[tokio::test(flavor = "multi_thread")]
async fn an_element_that_is_given_another_timer_shows_that_one() {
    let home = Home::default();
    let server = home.serve().await;
    let other = Other::of(&server.url);
    let first = other.mission("s", 600, "the first").await;
    let second = other.mission("s", 600, "the second").await;
    let third = other.mission("s", 600, "the third").await;
    let known = other.get(&format!("/api/timers/{third}")).await;
    let browser = Browser::open(Look::default()).await;
    browser.goto(&format!("{}/ui/embed.html", server.url)).await;
    browser.until("the elements are known", "!!customElements.get('reveille-timer')").await;
    browser.run(LATE, json!([first, second, known])).await;
    let text = "element.shadowRoot.querySelector('.purpose').textContent";
    browser.until("the second", &format!("{text} === 'the second'")).await;
    browser.wait_for("window.open_gate(); await new Promise((done) => setTimeout(done, 200)); return 1").await;
    let seen = browser.run(&format!("return [{text}, element.getAttribute('timer-id')]"), json!([])).await;
    assert_eq!(seen, json!(["the second", second]), "the first's answer came after it");
    let set = browser
        .run(
            "return [set.shadowRoot.querySelector('.purpose').textContent, asked.filter((url) => url.includes(arguments[0])).length]",
            json!([third]),
        )
        .await;
    assert_eq!(set, json!(["the third", 0]), "what is set need not be asked for");
    browser.quiet().await;
    browser.close().await;
}
