//! Every program of `examples/` does what it says, run as it is against a real server; the model is scripted, and the clock
//! is ours where it matters.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use reveille::config::Config;
use scripted_upstream::{Listening, Upstream};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use support::{
    World,
    install::{self, python},
    list,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// They are foreign programs, which take a while to start on a busy machine; more than this is a hang.
const PATIENCE: Duration = Duration::from_secs(120);

async fn patiently<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("never: {what}"))
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// A server with the scripted model behind its gateway.
async fn behind_the_gateway() -> (World, Listening) {
    let upstream = Upstream::new(&["scripted"]).listen("127.0.0.1:0").await.unwrap();
    let url = upstream.url();
    let world = World::with(|config| {
        let entry = json!({"name": "script", "base_url": url, "protocols": ["chat", "messages"]});
        config.gateway.upstream = vec![serde_json::from_value(entry).unwrap()];
    })
    .await;
    (world, upstream)
}

/// One that runs, line by line.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(mut command: Command, url: &str) -> Self {
        command
            .env("REVEILLE_URL", url)
            .env("MODEL", "scripted")
            .env("OPENAI_API_KEY", "sk")
            .env("ANTHROPIC_API_KEY", "sk");
        command.env("OPENAI_BASE_URL", format!("{url}/v1")).env("ANTHROPIC_BASE_URL", url).env("NO_PROXY", "127.0.0.1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    async fn python(script: &str, arguments: &[&str], url: &str) -> Self {
        let mut command = Command::new(tokio::task::spawn_blocking(python).await.unwrap());
        command.arg(example(script)).args(arguments);
        Self::start(command, url)
    }

    async fn line(&mut self) -> String {
        patiently("a line", self.lines.next_line()).await.unwrap().unwrap_or_default()
    }

    /// Skips to a line that contains this.
    async fn until(&mut self, words: &str) -> String {
        loop {
            let line = patiently(words, self.lines.next_line()).await.unwrap();
            let line = line.unwrap_or_else(|| panic!("it ended without saying: {words}"));
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Everything it still says, and a good end.
    async fn ends(mut self) -> String {
        let mut said = String::new();
        while let Some(line) = patiently("its end", self.lines.next_line()).await.unwrap() {
            said += &line;
            said.push('\n');
        }
        let output = patiently("its end", self.child.wait_with_output()).await.unwrap();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }
}

/// The model schedules a reminder, says so, and is held until it is due.
fn plan() -> String {
    let item = json!({"task": "Look at the nightly build 夜间构建 🌙", "in": "200s"});
    let clock = json!({"tool": {"name": "clock", "arguments": {"action": "schedule", "items": [item]}}});
    let says = |text: &str| json!({"steps": [{"text": text}]});
    format!("script:{}", json!({"steps": [clock], "then": [says("I will."), says("The build is green ✅")]}))
}

async fn held_and_continued(script: &str) {
    let (world, upstream) = behind_the_gateway().await;
    let agent = Running::python(script, &[&plan()], &world.url).await;
    patiently("the turn is held", async {
        while world.server().engine.metrics.gateway.holds.get() == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    world.advance(200);
    let said = agent.ends().await;
    assert!(said.contains("I will.") && said.contains("The build is green ✅"), "{said}");
    let last = upstream.upstream.log.requests().pop().unwrap();
    assert!(String::from_utf8_lossy(&last.body).contains("[scheduled task:"), "the model was told");
}

#[tokio::test]
async fn the_openai_sdk_through_the_gateway() {
    held_and_continued("openai_agent.py").await;
}

#[tokio::test]
async fn the_anthropic_sdk_through_the_gateway() {
    held_and_continued("anthropic_agent.py").await;
}

#[tokio::test]
async fn plain_http_and_function_calling() {
    let (world, _upstream) = behind_the_gateway().await;
    let wait = json!({"total_duration": "5m", "timeout_duration": "5m", "reason": "the server starts 启动中"});
    let plan = json!({
        "steps": [{"tool": {"name": "timer", "arguments": wait}}],
        "then": [{"steps": [{"tool": {"name": "timer", "arguments": {}}}]}, {"steps": [{"text": "It is up."}]}],
    });
    let mut agent = Running::python("plain_http_agent.py", &[&format!("script:{plan}")], &world.url).await;
    agent.until("timer").await;
    world.standing_count(1).await;
    world.advance(300);
    assert_eq!(agent.until("completed").await.trim(), "completed");
    let said = agent.ends().await;
    // The second call is wrong on purpose: the model is told why.
    assert!(said.contains("reason") && said.contains("It is up."), "{said}");
}

#[tokio::test]
async fn a_chatbot_with_three_session_timers() {
    // The configuration is the example's, but for the port, which is a free one.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = fs::read_to_string(example("chatbot/reveille.toml")).unwrap();
    let text = text.replace("127.0.0.1:9000", &format!("127.0.0.1:{port}"));
    let written: Config = toml::from_str(&text).unwrap();
    let world = World::with(|config| config.agent = written.agent).await;
    let mut shop = Running::python("chatbot/shop.py", &[&port.to_string()], &world.url).await;
    shop.until("the shop is open").await;
    shop.until("following").await;
    let mut customer = shop.child.stdin.take().unwrap();
    customer.write_all("Where is my parcel? 我的包裹在哪里？\n".as_bytes()).await.unwrap();
    shop.until("the chatbot:").await;
    let session = "/api/sessions/customer-42";
    world
        .until("the timers are armed", || async {
            let timers = world.get(session).await["session_timers"].clone();
            let armed = |timer: &Value| timer["next_trigger_at"].is_i64();
            timers.as_array().filter(|timers| timers.len() == 3 && timers.iter().all(armed)).map(|_| ())
        })
        .await;
    world.advance(300);
    assert_eq!(shop.line().await, "to the customer: Are you still there? 您还在吗？");
    world.advance(300);
    let handoff = shop.until("/handoff").await;
    assert!(handoff.contains("customer-42") && handoff.contains("unassigned"), "{handoff}");
    world.advance(1200);
    shop.until("/sessions/customer-42/close").await;
    let whole = world.get(session).await;
    assert_eq!(whole["state"], "closed");
    assert_eq!(list(&whole["conversation"]).len(), 3, "what the customer, the chatbot and the timer said");
    drop(customer);
    shop.ends().await;
}

#[tokio::test]
async fn a_typescript_client_of_mcp() {
    let compiled = tokio::task::spawn_blocking(compiled).await.unwrap();
    let world = World::start().await;
    let mut command = Command::new("node");
    command.arg(compiled).args(["40s", "等待服务器 ⏳"]);
    let mut client = Running::start(command, &world.url);
    let tools = client.until("tools:").await;
    assert!(tools.contains("timer") && tools.contains("clock"), "{tools}");
    world.standing_count(1).await;
    world.advance(40);
    let said = client.ends().await;
    assert!(said.contains(": completed"), "{said}");
}

/// The example as the official compiler makes it: types are checked against those of the SDK.
fn compiled() -> PathBuf {
    let (place, _lock) = install::npm("sdk_clients");
    let directory = place.join("example");
    fs::create_dir_all(&directory).unwrap();
    let source = directory.join("mcp_client.mts");
    fs::copy(example("mcp_client.ts"), &source).unwrap();
    let mut compiler = std::process::Command::new("node");
    compiler.arg(place.join("node_modules/typescript/bin/tsc")).arg(&source);
    compiler.args(["--module", "nodenext", "--target", "es2022", "--strict", "--skipLibCheck", "--types", "node"]);
    install::succeeded("tsc", &compiler.current_dir(&place).output().expect("this test needs Node.js"));
    directory.join("mcp_client.mjs")
}
