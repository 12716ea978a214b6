//! Secrets are planted wherever they can be configured; every door is used with the log at its most talkative; and then
//! everything that was written or answered is searched for them.

use super::support::{
    client,
    endpoint::{Answer, Endpoints},
    process::{Daemon, Home, Ran},
    text, within,
};
use reqwest::{Method, Response};
use scripted_upstream::Upstream;
use serde_json::{Value, json};
use std::{fs, path::Path, time::Duration};

const TOKEN: &str = "planted-token-0001-abcdef";
const KEY: &str = "planted-upstream-key-0002";
const KEY_FILE: &str = "planted-upstream-key-file-0003";
const HEADER: &str = "planted-endpoint-header-0004";
const LITERAL: &str = "planted-literal-header-0005";
const HOOK: &str = "whsec_cGxhbnRlZC13ZWJob29rLXNlY3JldC0wMDA2";
const WAKE: &str = "planted-wake-environment-0007";
const PASSWORD: &str = "planted-database-password-0008";
const ACCEPTED: &str = "planted-accepted-header-0009";
const ALL: [&str; 9] = [TOKEN, KEY, KEY_FILE, HEADER, LITERAL, HOOK, WAKE, PASSWORD, ACCEPTED];

/// Everything that anybody was told.
#[derive(Default)]
struct Heard(Vec<(String, String)>);

impl Heard {
    async fn note(&mut self, what: &str, response: Response) -> String {
        let mut said = format!("{} {:?}\n", response.status(), response.headers());
        let streams = response.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream");
        let mut response = response;
        // Of streams that go on, what comes at first.
        while let Ok(Ok(Some(chunk))) = tokio::time::timeout(wait(streams), response.chunk()).await {
            said.push_str(&String::from_utf8_lossy(&chunk));
        }
        self.0.push((what.to_owned(), said.clone()));
        said
    }

    fn ran(&mut self, what: &str, ran: &Ran) {
        self.0.push((what.to_owned(), format!("{}{}", ran.out, ran.err)));
    }

    fn file(&mut self, path: &Path) {
        let content = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        self.0.push((path.display().to_string(), content));
    }

    fn search(&self) {
        for (what, said) in &self.0 {
            for secret in ALL {
                if let Some(at) = said.find(secret) {
                    let around = &said.as_bytes()[at.saturating_sub(200)..(at + secret.len()).min(said.len())];
                    panic!("{secret} is told by {what}: …{}", String::from_utf8_lossy(around));
                }
            }
        }
    }
}

fn wait(streams: bool) -> Duration {
    if streams { Duration::from_millis(300) } else { Duration::from_secs(20) }
}

fn config(upstream: &str, endpoints: &str) -> String {
    format!(
        r#"token_file = "token"
[[gateway.upstream]]
name = "by-env"
base_url = "{upstream}"
protocols = ["chat"]
models = ["scripted"]
api_key_env = "PLANTED_KEY"
[[gateway.upstream]]
name = "nobody"
base_url = "https://127.0.0.1:1"
protocols = ["chat", "messages"]
models = ["dead"]
api_key_file = "{{key}}"
[[agent]]
tenant = "acme"
chatbot = "bot"
model = "scripted"
[[agent.tools]]
name = "good"
endpoint = {{ url = "{endpoints}/good", headers = {{ authorization = "Bearer ${{PLANTED_HEADER}}" }} }}
[[agent.tools]]
name = "bad"
endpoint = {{ url = "{endpoints}/bad", headers = {{ authorization = "Bearer ${{PLANTED_HEADER}}" }} }}
[[agent.timers]]
timer_id = "one"
delay_seconds = 0.1
max_triggers = 1
tool_name = "good"
[[agent.timers]]
timer_id = "two"
delay_seconds = 0.1
max_triggers = 1
tool_name = "bad"
[[agent.webhooks]]
url = "{endpoints}/hook"
secret = "${{PLANTED_HOOK}}"
[wake.x]
match = "woken-*"
command = ["/bin/sh", "-c", "exit 3"]
grace = "0.1s"
retries = 0
[wake.x.env]
PLANTED = "{WAKE}"
"#
    )
}

/// A server with all of them, and endpoints that succeed and fail.
async fn planted(home: &Home, upstream: &str, endpoints: &Endpoints) -> Daemon {
    let directory = home.config().parent().unwrap().to_owned();
    home.write_config(&config(upstream, &endpoints.url).replace("{key}", directory.join("key").to_str().unwrap()));
    fs::write(directory.join("token"), TOKEN).unwrap();
    fs::write(directory.join("key"), KEY_FILE).unwrap();
    endpoints.answers("/bad", &[Answer::Says(500, "no".into())]);
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    let log = fs::OpenOptions::new().create(true).append(true).open(home.log()).unwrap();
    command.stderr(log);
    secrets(&mut command).env("REVEILLE_LOG", "trace");
    Daemon::start(command).await
}

fn secrets(command: &mut tokio::process::Command) -> &mut tokio::process::Command {
    command.env("PLANTED_KEY", KEY).env("PLANTED_HEADER", HEADER).env("PLANTED_HOOK", HOOK)
}

/// Every `GET` of the document, with names that are there.
async fn look_everywhere(heard: &mut Heard, ask: &impl AsyncFn(Method, &str, Value) -> Response, timer: &str) {
    let document = ask(Method::GET, "/openapi.json", Value::Null).await;
    let document: Value = document.json().await.unwrap();
    let mut looked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        if methods.get("get").is_none() || path.ends_with("/socket") {
            continue;
        }
        let path = path.replace("{session}", "s").replace("{tenant}", "acme").replace("{chatbot}", "bot");
        let path = path.replace("{id}", timer);
        let response = ask(Method::GET, &path, Value::Null).await;
        heard.note(&format!("GET {path}"), response).await;
        looked += 1;
    }
    assert!(looked > 15, "only {looked} paths");
    for path in ["/", "/ui/app.js", "/nothing", "/v1/models", "/openapi.json"] {
        let response = ask(Method::GET, path, Value::Null).await;
        heard.note(&format!("GET {path}"), response).await;
    }
}

#[tokio::test]
async fn no_secret_is_ever_written_or_told() {
    let upstream = Upstream::new(&["scripted"]).listen("127.0.0.1:0").await.unwrap();
    let (home, endpoints, mut heard) = (Home::default(), Endpoints::start().await, Heard::default());
    let server = planted(&home, &upstream.url(), &endpoints).await;
    let ask = async |method: Method, path: &str, body: Value| {
        let request = client().request(method, format!("{}{path}", server.url)).bearer_auth(TOKEN);
        let request = if body.is_null() { request } else { request.json(&body) };
        within(path, request.send()).await.unwrap()
    };
    // The agent's timers call tools that succeed and fail, and webhooks.
    let begun = ask(Method::POST, "/api/sessions/s/activity", json!({"agent": "acme:bot", "text": "hi"})).await;
    heard.note("activity", begun).await;
    for _ in 0..2 {
        let called = endpoints.next().await;
        assert!(called.path == "/hook" || called.header("authorization").contains(HEADER), "{called:?}");
    }
    let made =
        ask(Method::POST, "/api/sessions/woken-1/tools/timer", json!({"total_duration": 0.1, "mission": "m"})).await;
    let made: Value = serde_json::from_str(heard.note("timer", made).await.split_once('\n').unwrap().1).unwrap();
    // Model calls: one that works, one that no one answers, one that is for nobody.
    for (model, session) in [("scripted", "s"), ("dead", "s"), ("nobody", "")] {
        let call = json!({"model": model, "messages": [{"role": "user", "content": "script:{}"}]});
        let request = client().post(format!("{}/v1/chat/completions", server.url)).header("x-reveille-token", TOKEN);
        let request = request.header("authorization", format!("Bearer {KEY}")).header("x-reveille-session", session);
        let response = within(model, request.json(&call).send()).await.unwrap();
        heard.note(model, response).await;
    }
    assert!(upstream.upstream.log.requests().iter().any(|call| format!("{call:?}").contains(KEY)), "the key is used");
    let query = "/api/agents/acme/bot/sessions/q/query";
    let answered = ask(Method::POST, query, json!({"message": "script:{}"})).await;
    heard.note("query", answered).await;
    // Signing in, well and badly.
    for body in [json!({"token": TOKEN}).to_string(), format!("{{\"token\": \"{TOKEN}\""), format!("[\"{TOKEN}\"]")] {
        let asked = client().post(format!("{}/api/sign-in", server.url)).body(body).send().await.unwrap();
        heard.note("sign-in", asked).await;
    }
    let wrong =
        client().get(format!("{}/api/timers", server.url)).bearer_auth(format!("{TOKEN}x")).send().await.unwrap();
    assert_eq!(wrong.status(), 401);
    heard.note("a wrong token", wrong).await;
    // What the API refuses, it does not repeat.
    for body in [
        json!({"tools": [{"name": "t", "endpoint": {"url": "http://127.0.0.1/", "headers": {"x": format!("{LITERAL}\n")}}}]}),
        json!({"webhooks": [{"url": "http://127.0.0.1/", "secret": format!("{HOOK}!")}]}),
        json!({"tools": [{"name": "t", "endpoint": {"url": format!("http://u:{PASSWORD}@127.0.0.1/")}}]}),
    ] {
        let refused = ask(Method::PUT, "/api/agents/acme/new", body).await;
        assert_eq!(refused.status(), 400);
        heard.note("a bad agent", refused).await;
    }
    let mcp = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let listed = ask(Method::POST, "/mcp", mcp).await;
    heard.note("mcp", listed).await;
    look_everywhere(&mut heard, &ask, &text(&made["timer_id"])).await;
    // The command line.
    for words in [&["config", "check"][..], &["--json", "config", "check"], &["ls"], &["token", "ls"]] {
        let mut command = home.command(words);
        let ran = Ran::of(&secrets(&mut command).output().await.unwrap());
        assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
        heard.ran(&words.join(" "), &ran);
    }
    for url in [format!("postgres://me:{PASSWORD}@127.0.0.1:1/d"), format!("postgres://me:{PASSWORD}@h:port/d")] {
        let mut command = home.command(&["config", "check"]);
        let ran = Ran::of(&secrets(&mut command).env("REVEILLE_DATABASE_URL", url).output().await.unwrap());
        heard.ran("config check with a database", &ran);
    }
    assert_eq!(server.terminate().await, Some(0));
    heard.file(&home.log());
    assert!(fs::metadata(home.log()).unwrap().len() > 10_000, "the log says little");
    for entry in fs::read_dir(home.data()).unwrap() {
        heard.file(&entry.unwrap().path());
    }
    heard.search();
}

/// An agent's secret that is written out, and the password of the database, while they are in use. The database itself holds
/// the agent; everything else is searched.
#[tokio::test]
async fn an_accepted_header_and_the_databases_password_are_told_to_nobody() {
    let cluster = scratch_postgres::Cluster::shared();
    let database = cluster.database();
    let name = database.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let role = format!("planted_{name}");
    cluster.sql(&name, &format!("CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'"));
    cluster.sql(&name, &format!("GRANT CREATE ON DATABASE {name} TO {role}"));
    let url = format!("postgres://{role}:{PASSWORD}@127.0.0.1:{}/{name}", cluster.port);
    let (home, endpoints, mut heard) = (Home::default(), Endpoints::start().await, Heard::default());
    let command = |words: &[&str]| {
        let mut command = home.command(words);
        command.env("REVEILLE_DATABASE_URL", &url).env("REVEILLE_LOG", "trace");
        command
    };
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0"]);
    serve.stderr(fs::OpenOptions::new().create(true).append(true).open(home.log()).unwrap());
    let server = Daemon::start(serve).await;
    let ask = async |method: Method, path: &str, body: Value| {
        let request = client().request(method, format!("{}{path}", server.url));
        let request = if body.is_null() { request } else { request.json(&body) };
        within(path, request.send()).await.unwrap()
    };
    endpoints.answers("/bad", &[Answer::Says(404, "no".into())]);
    let tool = |name: &str| {
        let headers = json!({"authorization": format!("Bearer {ACCEPTED}")});
        json!({"name": name, "endpoint": {"url": format!("{}/{name}", endpoints.url), "headers": headers}})
    };
    let timer = |name: &str| json!({"timer_id": name, "delay_seconds": 0.1, "tool_name": name});
    let agent = json!({"tools": [tool("good"), tool("bad")], "timers": [timer("good"), timer("bad")]});
    let set = ask(Method::PUT, "/api/agents/acme/bot", agent).await;
    assert_eq!(set.status(), 200);
    heard.note("the agent", set).await;
    let begun = ask(Method::POST, "/api/sessions/s/activity", json!({"agent": "acme:bot", "text": "hi"})).await;
    heard.note("activity", begun).await;
    for _ in 0..2 {
        let called = endpoints.next().await;
        assert!(called.header("authorization").contains(ACCEPTED), "it is in use: {called:?}");
    }
    within("both calls are written", async {
        loop {
            let told = ask(Method::GET, "/api/history?limit=1000", Value::Null).await;
            let told = heard.note("history", told).await;
            if told.contains("call.done") && told.contains("call.failed") {
                break;
            }
        }
    })
    .await;
    let made = ask(Method::POST, "/api/sessions/s/tools/timer", json!({"total_duration": 60, "mission": "m"})).await;
    let made: Value = serde_json::from_str(heard.note("timer", made).await.split_once('\n').unwrap().1).unwrap();
    look_everywhere(&mut heard, &ask, &text(&made["timer_id"])).await;
    for words in [&["config", "check"][..], &["--json", "config", "check"], &["doctor", "--offline"], &["ls"]] {
        let ran = Ran::of(&command(words).output().await.unwrap());
        assert!(!ran.out.is_empty() || !ran.err.is_empty(), "{words:?} says nothing");
        heard.ran(&words.join(" "), &ran);
    }
    // Errors of the database, too: the role may not come in any more, while the server runs and when it starts.
    cluster.sql(&name, &format!("ALTER ROLE {role} NOLOGIN"));
    cluster.sql(&name, &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'"));
    let refused = ask(Method::GET, "/api/timers", Value::Null).await;
    assert_eq!(refused.status(), 503);
    heard.note("without its database", refused).await;
    heard.ran("doctor", &Ran::of(&command(&["doctor", "--offline"]).output().await.unwrap()));
    let started = within("it refuses", command(&["serve", "--listen", "127.0.0.1:0"]).output()).await.unwrap();
    assert!(!started.status.success());
    heard.ran("a start without its database", &Ran::of(&started));
    cluster.sql(&name, &format!("ALTER ROLE {role} LOGIN"));
    assert_eq!(server.terminate().await, Some(0));
    heard.file(&home.log());
    assert!(fs::metadata(home.log()).unwrap().len() > 10_000, "the log says little");
    for entry in fs::read_dir(home.data()).unwrap() {
        heard.file(&entry.unwrap().path());
    }
    heard.search();
}
