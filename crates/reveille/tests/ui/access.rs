//! A server with a token, spoken to by everything that speaks to it.

use super::{
    browser::{Browser, Look},
    support::{
        client,
        process::{Daemon, Home, Ran},
    },
};
use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};

const TOKEN: &str = "0123456789abcdef-token";

async fn guarded(home: &Home) -> Daemon {
    std::fs::create_dir_all(home.config().parent().unwrap()).unwrap();
    std::fs::write(home.config().with_file_name("token"), format!("{TOKEN}\n")).unwrap();
    home.write_config("token_file = \"token\"\n");
    home.serve().await
}

#[tokio::test]
async fn without_the_token_only_the_door_is_seen() {
    let home = Home::default();
    let server = guarded(&home).await;
    let http = client();
    let status = async |method: Method, path: &str, headers: &[(&str, &str)]| {
        let request = http.request(method, format!("{}{path}", server.url));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.send().await.unwrap().status()
    };
    for (path, expected) in [
        ("/", 200),
        ("/ui/app.js", 200),
        ("/ui/../Cargo.toml", 401),
        ("/ui/nothing.js", 404),
        ("/healthz", 200),
        ("/api/timers", 401),
        ("/api/events", 401),
        ("/metrics", 401),
        ("/mcp", 401),
        ("/v1/models", 401),
        ("/openapi.json", 401),
    ] {
        assert_eq!(status(Method::GET, path, &[]).await, expected, "{path}");
    }
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(status(Method::GET, "/api/timers", &[("authorization", &bearer)]).await, 200);
    assert_eq!(status(Method::GET, "/api/timers", &[("authorization", &bearer[..20])]).await, 401);

    // By the page: shown once, kept as a cookie that no script reads and no other site sends.
    let wrong = http.post(format!("{}/api/sign-in", server.url)).json(&json!({"token": "wrong"})).send().await.unwrap();
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
    let origin = server.url.clone();
    let entered =
        http.post(format!("{}/api/sign-in", server.url)).header("origin", &origin).json(&json!({"token": TOKEN}));
    let entered = entered.send().await.unwrap();
    let cookie = entered.headers()[header::SET_COOKIE].to_str().unwrap().to_owned();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().unwrap().to_owned();
    assert_eq!(status(Method::GET, "/api/timers", &[("cookie", &pair)]).await, 200);
    let stop = "/api/timers/stop";
    assert_eq!(
        status(Method::POST, stop, &[("cookie", &pair)]).await,
        401,
        "a change needs to say where it comes from"
    );
    for foreign in ["http://evil.example", "http://localhost:1", "null"] {
        assert_eq!(status(Method::POST, stop, &[("cookie", &pair), ("origin", foreign)]).await, 403, "{foreign}");
    }
    assert_eq!(status(Method::POST, stop, &[("cookie", &pair), ("origin", &origin)]).await, 400, "it is heard: {stop}");
    let rebound = [("cookie", pair.as_str()), ("host", "evil.example")];
    assert_eq!(status(Method::GET, "/api/timers", &rebound).await, 403);
    let image = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
    assert_eq!(status(Method::GET, "/api/sessions/x/presence", &image).await, 403);
}

#[tokio::test]
async fn the_command_line_and_mcp_have_the_token_from_the_configuration() {
    let home = Home::default();
    let server = guarded(&home).await;
    let made = home.run(&["--json", "timer", "10m", "--mission", "with the token"]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let line = home.run(&["ls", "--status-line"]).await;
    assert_eq!(line.out.lines().count(), 1, "{line:?}");
    let said = line.json();
    assert_eq!((said["live"].as_u64(), said["next"]["for"].as_str()), (Some(1), Some("→ with the token")));

    // A server named by its address is given only what the user says.
    let named = home.run(&["--url", &server.url, "ls"]).await;
    assert!(named.code == Some(1) && named.err.contains("REVEILLE_TOKEN"), "{named:?}");
    let mut command = home.command(&["--url", &server.url, "ls", "--json"]);
    let given = Ran::of(&command.env("REVEILLE_TOKEN", TOKEN).output().await.unwrap());
    assert_eq!(given.json()["timers"].as_array().map(Vec::len), Some(1));

    let mut bridge = home.command(&["mcp", "--session", "bridged"]);
    bridge.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut bridge = bridge.spawn().unwrap();
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
               "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
               "params": {"name": "timer", "arguments": {"total_duration": 600, "mission": "over MCP"}}}),
    ];
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let mut stdin = bridge.stdin.take().unwrap();
    for line in lines {
        stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
    let mut answers = BufReader::new(bridge.stdout.take().unwrap()).lines();
    let answer: Value = loop {
        let line = super::support::within("an answer over MCP", answers.next_line()).await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        if answer["id"] == 2 {
            break answer;
        }
    };
    assert!(answer["result"].to_string().contains("over MCP") && answer["result"]["isError"] != true, "{answer}");
}

#[tokio::test]
async fn the_files_of_the_page_are_sent_once_and_only_run_themselves() {
    let home = Home::default();
    let server = home.serve().await;
    let http = client();
    let page = http.get(&server.url).send().await.unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("default-src 'none'; script-src 'self'; style-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    let tag = page.headers()["etag"].clone();
    let again = http.get(&server.url).header("if-none-match", &tag).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    let script = http.get(format!("{}/ui/app.js", server.url)).send().await.unwrap();
    assert_eq!(script.headers()["content-type"], "text/javascript; charset=utf-8");
    // Without a token there is nothing to sign in to.
    let said: Value = http.get(format!("{}/api/sign-in", server.url)).send().await.unwrap().json().await.unwrap();
    assert_eq!(said, json!({"required": false, "signed_in": true, "scope": "operator"}));
    // Only allowed pages may ask from elsewhere.
    let ask = |origin: &'static str| {
        http.request(Method::OPTIONS, format!("{}/api/timers", server.url))
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .send()
    };
    assert_eq!(ask("http://evil.example").await.unwrap().status(), StatusCode::FORBIDDEN);
}

/// A new token of these rights.
async fn token(home: &Home, arguments: &[&str]) -> String {
    let words: Vec<&str> = ["--json", "token", "new"].iter().chain(arguments).copied().collect();
    home.run(&words).await.json()["token"].as_str().expect("a token").to_owned()
}

async fn signs_in(browser: &Browser, url: &str, token: &str) {
    browser.goto(url).await;
    browser.fill("#token", token).await;
    browser.click(".sign-in button").await;
    browser.until("it is connected", "document.querySelector('.live-dot')?.dataset.state === 'live'").await;
}

/// Everything by which something would be changed, and can be seen.
const CHANGES: &str = "[...document.querySelectorAll('button:not(.segment), reveille-timer')]
    .flatMap((one) => one.shadowRoot ? [...one.shadowRoot.querySelectorAll('button')] : [one])
    .filter((one) => one.checkVisibility() && /^(New|Pause|Resume|To background|Stop|Cancel|Close|Timer|Reminder|Quiet|Wake|Try again|set a)/.test(one.textContent.trim() || one.title))
    .map((one) => one.textContent.trim() || one.title)";

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_only_looks_is_offered_nothing_else() {
    let home = Home::default();
    let reader = token(&home, &["reader", "--scope", "read-only"]).await;
    let operator = token(&home, &["me", "--scope", "operator"]).await;
    let server = home.serve().await;
    let post = async |path: &str, body: Value| {
        let asked = client().post(format!("{}{path}", server.url)).bearer_auth(&operator).json(&body);
        assert!(asked.send().await.unwrap().status().is_success(), "{path}");
    };
    post("/api/timers", json!({"session": "s", "total_duration": 900, "mission": "look"})).await;
    post("/api/reminders", json!({"session": "s", "task": "remember", "in": "20m"})).await;
    let pages =
        [("", ".sleeper"), ("timers", ".timer-row"), ("reminders", ".reminder-row"), ("sessions/s", "reveille-timer")];
    for (token, may) in [(&reader, false), (&operator, true)] {
        let browser = Browser::open(Look::default()).await;
        signs_in(&browser, &server.url, token).await;
        for (page, there) in pages {
            browser.run("location.hash = arguments[0]", json!([format!("#/{page}")])).await;
            browser.until(page, &format!("document.querySelector('#main {there}')?.checkVisibility()")).await;
            let changes = browser.run(&format!("return {CHANGES}"), json!([])).await;
            assert_eq!(changes != json!([]), may, "#/{page}: {changes}");
        }
        browser.run("location.hash = '#/timers'", json!([])).await;
        browser.until("the list", "document.querySelector('.vlist')").await;
        browser.press("n").await;
        browser.run("document.querySelector('.vlist').focus()", json!([])).await;
        if !may {
            browser.press("\u{e015}s").await; // arrow down, and the key that stops
        }
        assert_eq!(browser.run("return !!document.querySelector('dialog')", json!([])).await, may, "keys as well");
        let said = browser.run("return document.querySelector('.rights').checkVisibility()", json!([])).await;
        assert_eq!(said, !may, "and it says so");
        browser.quiet().await;
        browser.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_bound_counts_its_own_and_is_told_why() {
    let home = Home::default();
    let operator = token(&home, &["me", "--scope", "operator"]).await;
    let bound = token(&home, &["mine", "--scope", "operator", "--session", "mine-*"]).await;
    let server = home.serve().await;
    for session in ["mine-1", "mine-2", "yours"] {
        let body = json!({"session": session, "total_duration": 900, "mission": "look"});
        let asked = client().post(format!("{}/api/timers", server.url)).bearer_auth(&operator).json(&body);
        assert!(asked.send().await.unwrap().status().is_success());
    }
    let browser = Browser::open(Look::default()).await;
    signs_in(&browser, &server.url, &bound).await;
    let note = "document.querySelector('.figures p:not([hidden])')?.textContent";
    let said = browser.until("it says why there is no more", note).await;
    assert!(said.as_str().unwrap().contains("mine-*"), "{said}");
    browser.until("its own", "document.querySelector('[data-tile=live] dd').textContent === '2'").await;
    let empty = "[...document.querySelectorAll('.tile')].filter((one) => one.checkVisibility() && one.textContent.endsWith('–')).length";
    assert_eq!(browser.run(&format!("return {empty}"), json!([])).await, 0, "nothing is left without a word");
    let log = browser.log().await;
    assert!(log.len() <= 1 && log.iter().all(|line| line.contains("/api/stats")), "asked once: {log:?}");
    browser.close().await;
    // In a terminal too: the time and the counts are not everybody's.
    let mut command = home.command(&["--url", &server.url, "ls", "--status-line"]);
    let line = Ran::of(&command.env("REVEILLE_TOKEN", &bound).output().await.unwrap()).json();
    assert_eq!((&line["live"], &line["or_more"]), (&json!(2), &json!(false)));
}
