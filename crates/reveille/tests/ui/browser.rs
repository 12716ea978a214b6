//! A real Chromium, spoken to by WebDriver. The protocol is a handful of JSON requests, and the two that matter most here
//! (the console's log, the colour scheme) are Chromium's own, so no client library stands between.

use super::support::client;
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    fs::File,
    path::Path,
    process::{Command as Sync, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::{Mutex, MutexGuard},
};

/// A slow machine may take this long for anything; more is a hang.
const PATIENCE: Duration = Duration::from_secs(60);
/// One browser at a time: they would only slow each other down.
static TURN: Mutex<()> = Mutex::const_new(());

pub struct Browser {
    http: reqwest::Client,
    session: String,
    _driver: Child,
    _profile: TempDir,
    _turn: MutexGuard<'static, ()>,
}

#[derive(Clone, Copy, Default, PartialEq)]
pub struct Look {
    pub dark: bool,
    pub phone: bool,
    /// Whoever looks wants nothing to move.
    pub calm: bool,
}

impl Browser {
    pub async fn open(look: Look) -> Self {
        let turn = TURN.lock().await;
        installed();
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("chromedriver starts");
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines.next_line().await.unwrap().expect("chromedriver says its port");
            if let Some(rest) = line.split("started successfully on port ").nth(1) {
                break rest.trim_end_matches('.').to_owned();
            }
        };
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let profile = tempfile::tempdir().unwrap();
        let mut arguments: Vec<String> = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
            "--window-size=1280,900",
        ]
        .map(Into::into)
        .into();
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        let mut options = json!({"args": arguments, "binary": "/usr/bin/chromium"});
        if look.phone {
            let metrics = json!({"width": 390, "height": 844, "pixelRatio": 2, "touch": true});
            options["mobileEmulation"] = json!({"deviceMetrics": metrics});
        }
        let patience = json!({"script": (PATIENCE * 2).as_millis() as u64});
        let wanted = json!({
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": patience,
        });
        let base = format!("http://127.0.0.1:{port}/session");
        let http = client();
        let made = ask(&http, Method::POST, &base, Some(json!({"capabilities": {"alwaysMatch": wanted}}))).await;
        let session = format!("{base}/{}", made["sessionId"].as_str().expect("a session"));
        let browser = Self { http, session, _driver: driver, _profile: profile, _turn: turn };
        let scheme = if look.dark { "dark" } else { "light" };
        let motion = if look.calm { "reduce" } else { "no-preference" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion}]});
        browser.post("/goog/cdp/execute", json!({"cmd": "Emulation.setEmulatedMedia", "params": features})).await;
        browser
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        ask(&self.http, Method::POST, &format!("{}{path}", self.session), Some(body)).await
    }

    pub async fn goto(&self, url: &str) {
        self.post("/url", json!({"url": url})).await;
    }

    /// Another window beside those that are open, and from now on the one that is spoken to.
    pub async fn another(&self) -> String {
        let made = self.post("/window/new", json!({"type": "window"})).await;
        let window = made["handle"].as_str().expect("a window").to_owned();
        self.to(&window).await;
        window
    }

    pub async fn to(&self, window: &str) {
        self.post("/window", json!({"handle": window})).await;
    }

    /// Closes the one that is spoken to, and speaks to this one.
    pub async fn leave_for(&self, window: &str) {
        ask(&self.http, Method::DELETE, &format!("{}/window", self.session), None).await;
        self.to(window).await;
    }

    /// Runs a script in the page; its `return` is the answer.
    pub async fn run(&self, script: &str, arguments: Value) -> Value {
        self.post("/execute/sync", json!({"script": script, "args": arguments})).await
    }

    /// The same for one that is awaited.
    pub async fn wait_for(&self, script: &str) -> Value {
        let script = format!(
            "const done = arguments[0]; (async () => {{ {script} }})().then(done, (e) => done(`failed: ${{e}}`));"
        );
        self.post("/execute/async", json!({"script": script, "args": []})).await
    }

    /// Looks until the expression is true, or anything like it; then what it is.
    pub async fn until(&self, what: &str, expression: &str) -> Value {
        let began = Instant::now();
        loop {
            let seen = self.run(&format!("return {expression}"), json!([])).await;
            if !matches!(seen, Value::Null | Value::Bool(false)) && seen != json!("") && seen != json!(0) {
                return seen;
            }
            if began.elapsed() > PATIENCE {
                let page = self.run("return document.body.innerText", json!([])).await;
                panic!("never: {what}\n{expression}\n{}\nthe page says:\n{}", self.log().await.join("\n"), page);
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Clicks what a selector finds, as a user would: it must be there, seen and not covered.
    pub async fn click(&self, selector: &str) {
        self.until(&format!("{selector} can be clicked"), &format!("!!document.querySelector({})", json!(selector)))
            .await;
        let found = self.post("/element", json!({"using": "css selector", "value": selector})).await;
        self.post(&format!("/element/{}/click", element(&found)), json!({})).await;
    }

    /// Replaces what is in a field.
    pub async fn fill(&self, selector: &str, text: &str) {
        self.until(selector, &format!("!!document.querySelector({})", json!(selector))).await;
        let found = element(&self.post("/element", json!({"using": "css selector", "value": selector})).await);
        self.post(&format!("/element/{found}/clear"), json!({})).await;
        self.post(&format!("/element/{found}/value"), json!({"text": text})).await;
    }

    /// Presses keys where the focus is.
    pub async fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})])
            .collect();
        self.post("/actions", json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]})).await;
    }

    /// A small picture of what is seen.
    pub async fn screenshot(&self) -> Vec<u8> {
        let how = json!({"format": "webp", "quality": 72});
        let taken = self.post("/goog/cdp/execute", json!({"cmd": "Page.captureScreenshot", "params": how})).await;
        decode(taken["data"].as_str().expect("an image"))
    }

    /// What the console has said since it was last asked: errors, warnings, refused scripts.
    pub async fn log(&self) -> Vec<String> {
        let entries = self.post("/se/log", json!({"type": "browser"})).await;
        let entries = entries.as_array().cloned().unwrap_or_default();
        entries.iter().map(|entry| format!("{} {}", entry["level"], entry["message"])).collect()
    }

    /// Nothing went wrong in the page.
    pub async fn quiet(&self) {
        assert_eq!(self.log().await, [""; 0], "the console is not empty");
    }

    pub async fn close(self) {
        let _ = self.http.delete(&self.session).send().await;
    }
}

fn element(found: &Value) -> String {
    let id = found.as_object().and_then(|found| found.values().next()).and_then(Value::as_str);
    id.unwrap_or_else(|| panic!("no element: {found}")).to_owned()
}

async fn ask(http: &reqwest::Client, method: Method, url: &str, body: Option<Value>) -> Value {
    let mut request = http.request(method, url).timeout(PATIENCE * 3);
    if let Some(body) = &body {
        request = request.json(body);
    }
    let response = request.send().await.unwrap_or_else(|error| panic!("{url}: {error}"));
    let status = response.status();
    let mut answer: Value = response.json().await.unwrap();
    assert!(status.is_success(), "{url} {}: {}", body.unwrap_or_default(), answer["value"]["message"]);
    answer["value"].take()
}

/// Base64, as browsers send pictures.
fn decode(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for byte in text.bytes().filter(|byte| !b"=\n\r".contains(byte)) {
        bits = bits << 6 | digit(byte);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}

/// Debian's Chromium and its driver, brought by apt where they are missing; and letters for what people write, without which
/// pictures would show boxes.
fn installed() {
    let lock = File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("chromium.lock")).unwrap();
    lock.lock().unwrap();
    install(&["chromium", "chromedriver"], &["chromium", "chromium-driver"]);
    install(&["fc-list"], &["fontconfig"]);
    // By the languages they are for; the second is that of emoji.
    for (language, font) in [("zh", "fonts-noto-cjk"), ("und-zsye", "fonts-noto-color-emoji")] {
        let is_there = || {
            let found = Sync::new("fc-list").arg(format!(":lang={language}")).output();
            found.is_ok_and(|found| !found.stdout.is_empty())
        };
        assert!(
            is_there() || apt(&[font]) && is_there(),
            "apt could not install {font}, or any other font for {language}"
        );
    }
}

/// Whether these packages are installed now.
fn apt(packages: &[&str]) -> bool {
    let run = |arguments: &[&str]| {
        let output = Sync::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").output();
        output.is_ok_and(|output| output.status.success())
    };
    let wanted = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    run(&wanted) || run(&["update"]) && run(&wanted)
}

/// Packages for programs that are not there.
pub fn install(programs: &[&str], packages: &[&str]) {
    let is_there = |program: &&str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(program).exists())
    };
    if programs.iter().all(&is_there) {
        return;
    }
    assert!(
        apt(packages) && programs.iter().all(is_there),
        "this test needs {programs:?}, and apt could not install {packages:?}; install them and put them on the PATH"
    );
}
