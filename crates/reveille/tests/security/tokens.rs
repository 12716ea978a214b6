//! Tokens: made, listed and revoked by the command line while the server runs; scopes and bounds at every door.

use super::support::{
    Answer, client,
    process::{Daemon, Home},
    text, within,
};
use reqwest::Method;
use scripted_upstream::Upstream;
use serde_json::{Value, json};
use std::time::Duration;

pub async fn token(home: &Home, arguments: &[&str]) -> String {
    let words: Vec<&str> = ["--json", "token", "new"].iter().chain(arguments).copied().collect();
    let made = home.run(&words).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    text(&made.json()["token"])
}

/// Somebody with a token.
pub struct Holder {
    pub url: String,
    pub token: String,
}

impl Holder {
    pub fn new(server: &Daemon, token: &str) -> Self {
        Self { url: server.url.clone(), token: token.to_owned() }
    }

    pub async fn asks(&self, method: Method, path: &str, body: Value, headers: &[(&str, &str)]) -> Answer {
        let request = client().request(method, format!("{}{path}", self.url)).bearer_auth(&self.token);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = if body.is_null() { request } else { request.json(&body) };
        let response = within(path, request.send()).await.unwrap();
        let status = response.status().as_u16();
        let streams = response.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream");
        // A stream has no end; that it began is the answer.
        let bytes = if streams { Vec::new() } else { within(path, response.bytes()).await.unwrap().to_vec() };
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        Answer { status, body }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.asks(Method::GET, path, Value::Null, &[]).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.asks(Method::POST, path, body, &[]).await
    }

    /// The code it was refused with, or "".
    pub async fn refusal(&self, method: Method, path: &str, body: Value) -> String {
        let answer = self.asks(method, path, body, &[]).await;
        let code = answer.body["code"].as_str().unwrap_or_default().to_owned();
        if answer.status == 403 { code } else { String::new() }
    }
}

#[tokio::test]
async fn each_scope_opens_its_own_doors() {
    let home = Home::default();
    let operator = token(&home, &["me", "--scope", "operator"]).await;
    let agent = token(&home, &["bot"]).await;
    let reader = token(&home, &["screen", "--scope", "read-only"]).await;
    let server = home.serve().await;
    let [operator, agent, reader] = [&operator, &agent, &reader].map(|token| Holder::new(&server, token));
    let mission = json!({"total_duration": 600, "mission": "m"});
    let made = agent.post("/api/sessions/s/tools/timer", mission.clone()).await;
    assert_eq!(made.status, 200, "{}", made.body);
    let timer = text(&made.body["timer_id"]);
    // Method, path, body; whether an agent and a reader may.
    let doors = [
        (Method::POST, "/api/sessions/s/tools/read_timer".to_owned(), json!({}), true, false),
        (Method::POST, "/api/sessions/s/inbox/lease".into(), json!({}), true, false),
        (Method::GET, "/api/sessions/s/presence".into(), Value::Null, true, false),
        (Method::GET, "/api/sessions/s".into(), Value::Null, true, true),
        (Method::GET, "/api/sessions/s/inbox".into(), Value::Null, true, true),
        (Method::GET, "/api/events?session=s".into(), Value::Null, true, true),
        (Method::GET, "/api/events".into(), Value::Null, false, true),
        (Method::GET, "/api/timers".into(), Value::Null, false, true),
        (Method::GET, "/api/timers?session=s".into(), Value::Null, true, true),
        (Method::GET, "/api/sessions".into(), Value::Null, false, true),
        // A list that no session narrows is the whole list, whatever is asked.
        (Method::GET, "/api/sessions?session=s".into(), Value::Null, false, true),
        (Method::GET, format!("/api/timers/{timer}"), Value::Null, false, true),
        (Method::GET, "/api/history".into(), Value::Null, false, true),
        (Method::GET, "/api/stats".into(), Value::Null, false, true),
        (Method::GET, "/metrics".into(), Value::Null, false, true),
        (Method::GET, "/api/agents".into(), Value::Null, false, true),
        (Method::GET, "/api/tools".into(), Value::Null, true, true),
        (Method::GET, "/v1/models".into(), Value::Null, true, false),
        (Method::POST, "/mcp".into(), json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}), true, false),
        (Method::POST, "/api/timers".into(), mission.clone(), false, false),
        (Method::POST, format!("/api/timers/{timer}/pause"), json!({"pause_duration": 5}), false, false),
        (Method::PUT, "/api/agents/acme/bot".into(), json!({}), false, false),
        (Method::POST, "/api/timers/stop".into(), json!({"all": true}), false, false),
    ];
    for (method, path, body, for_agent, for_reader) in doors {
        let code = async |who: &Holder| who.refusal(method.clone(), &path, body.clone()).await;
        let expected = |allowed: bool| if allowed { "" } else { "out_of_scope" };
        assert_eq!(code(&agent).await, expected(for_agent), "agent: {method} {path}");
        assert_eq!(code(&reader).await, expected(for_reader), "read-only: {method} {path}");
        assert_eq!(code(&operator).await, "", "operator: {method} {path}");
    }
    // Whose things are asked for by their ids, too.
    for (session, seen) in [("s", 1), ("other", 0)] {
        let asked = agent.get(&format!("/api/timers?session={session}&id={timer}")).await.body;
        assert_eq!(asked["timers"].as_array().unwrap().len(), seen, "{session}: {asked}");
    }
    // The page learns what it may do.
    let said = reader.get("/api/sign-in").await.body;
    assert_eq!(said, json!({"required": true, "signed_in": true, "scope": "read-only"}));
}

#[tokio::test]
async fn a_token_is_listed_without_itself_and_worthless_once_revoked() {
    let home = Home::default();
    let operator = token(&home, &["me", "--scope", "operator"]).await;
    let server = home.serve().await;
    let me = Holder::new(&server, &operator);
    // Made while the server runs.
    let made = token(&home, &["later", "--scope", "read-only", "--session", "会话-*", "--tenant", "acme"]).await;
    let later = Holder::new(&server, &made);
    let until = async |wanted: u16| {
        within("the server reads its tokens again", async {
            while later.get("/api/timers").await.status != wanted {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
    };
    until(200).await;
    let listed = home.run(&["token", "ls"]).await.out;
    assert!(listed.contains("later  read-only  tenants acme  sessions 会话-*"), "{listed}");
    let file = std::fs::read_to_string(home.data().join("tokens.toml")).unwrap();
    for secret in [&operator, &made] {
        assert!(!listed.contains(secret) && !file.contains(secret), "{secret}");
    }
    assert_eq!(home.run(&["token", "new", "later"]).await.code, Some(1));
    assert_eq!(home.run(&["token", "revoke", "later"]).await.code, Some(0));
    assert_eq!(home.run(&["token", "revoke", "later"]).await.code, Some(1));
    until(401).await;
    assert_eq!(me.get("/api/timers").await.status, 200);
    // A page of a token of the file: by a cookie that is not the token, until that is revoked.
    let entered = client().post(format!("{}/api/sign-in", server.url)).header("origin", &server.url);
    let entered = entered.json(&json!({"token": operator})).send().await.unwrap();
    let cookie = entered.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    assert!(!cookie.contains(&operator));
    let page = async || {
        let asked = client().get(format!("{}/api/timers", server.url)).header("cookie", &cookie).send();
        asked.await.unwrap().status().as_u16()
    };
    assert_eq!(page().await, 200);
    assert_eq!(home.run(&["token", "revoke", "me"]).await.code, Some(0));
    within("the cookie is no good any more", async {
        while page().await != 401 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(me.get("/api/timers").await.status, 401, "without tokens nobody gets in");
}

const AGENTS: &str =
    "[[agent]]\ntenant = \"acme\"\nchatbot = \"bot\"\n[[agent]]\ntenant = \"other\"\nchatbot = \"bot\"\n";

#[tokio::test]
async fn tenants_are_kept_apart() {
    let upstream = Upstream::new(&["scripted"]).listen("127.0.0.1:0").await.unwrap();
    let home = Home::default();
    home.write_config(&format!(
        "{AGENTS}[[gateway.upstream]]\nname = \"script\"\nbase_url = \"{}\"\nprotocols = [\"chat\", \"responses\", \"messages\"]\n",
        upstream.url()
    ));
    let operator = token(&home, &["me", "--scope", "operator"]).await;
    let admin = token(&home, &["acme", "--scope", "operator", "--tenant", "acme"]).await;
    let bot = token(&home, &["acme-bot", "--tenant", "acme"]).await;
    let server = home.serve().await;
    let [operator, admin, bot] = [&operator, &admin, &bot].map(|token| Holder::new(&server, token));
    let mut timers = Vec::new();
    for (session, agent) in [("a1", Some("acme:bot")), ("o1", Some("other:bot")), ("plain", None)] {
        if let Some(agent) = agent {
            let begun = operator.post(&format!("/api/sessions/{session}/activity"), json!({"agent": agent})).await;
            assert_eq!(begun.status, 200, "{}", begun.body);
        }
        let ask = json!({"total_duration": 600, "mission": session});
        timers.push(text(&operator.post(&format!("/api/sessions/{session}/tools/timer"), ask).await.body["timer_id"]));
    }
    // Lists hold only their own.
    for path in ["/api/timers", "/api/sessions", "/api/history?limit=1000", "/api/agents", "/api/deliveries"] {
        let seen = admin.get(path).await;
        assert_eq!(seen.status, 200, "{path}: {}", seen.body);
        let (seen, all) = (seen.body.to_string(), operator.get(path).await.body.to_string());
        assert!(!seen.contains("o1") && !seen.contains("plain") && !seen.contains("other:bot"), "{path}: {seen}");
        assert!(path == "/api/deliveries" || (seen.contains("acme") || seen.contains("a1")), "{path}: {seen}");
        assert!(path == "/api/deliveries" || all.contains("other") || all.contains("o1"), "{path}: {all}");
    }
    assert_eq!(
        admin.get(&format!("/api/timers?id={}", timers.join(","))).await.body["timers"].as_array().unwrap().len(),
        1
    );
    // What is named is theirs or refused, whether it is there or not.
    let refused = async |who: &Holder, method: Method, path: &str, body: Value| who.refusal(method, path, body).await;
    for session in ["o1", "plain", "nobody"] {
        for path in [format!("/api/sessions/{session}"), format!("/api/sessions/{session}/inbox")] {
            assert_eq!(refused(&admin, Method::GET, &path, Value::Null).await, "out_of_bounds", "{path}");
        }
        let tool = format!("/api/sessions/{session}/tools/read_timer");
        assert_eq!(refused(&bot, Method::POST, &tool, json!({})).await, "out_of_bounds", "{tool}");
        let events = format!("/api/events?session={session}");
        assert_eq!(refused(&bot, Method::GET, &events, Value::Null).await, "out_of_bounds");
        for what in ["timers", "reminders", "session_timers", "calls", "history"] {
            let list = format!("/api/{what}?session={session}");
            assert_eq!(refused(&admin, Method::GET, &list, Value::Null).await, "out_of_bounds", "{list}");
        }
        let set = json!({"session": session, "total_duration": 5, "mission": "m"});
        assert_eq!(refused(&admin, Method::POST, "/api/timers", set).await, "out_of_bounds");
        let stop = json!({"session": session});
        assert_eq!(refused(&admin, Method::POST, "/api/timers/stop", stop).await, "out_of_bounds");
    }
    for (timer, code) in [(&timers[0], ""), (&timers[1], "out_of_bounds"), (&timers[2], "out_of_bounds")] {
        let pause = format!("/api/timers/{timer}/pause");
        assert_eq!(refused(&admin, Method::POST, &pause, json!({"pause_duration": 1})).await, code, "{timer}");
    }
    for (path, code) in [
        ("/api/stats", "out_of_bounds"),
        ("/metrics", "out_of_bounds"),
        ("/api/agents/other/bot", "out_of_bounds"),
        ("/api/agents/acme/bot", ""),
        // Nobody's, so that it is only not there.
        ("/api/tasks/x", ""),
        (&format!("/api/tasks/{}.x", timers[0]), ""),
        (&format!("/api/tasks/{}.x", timers[1]), "out_of_bounds"),
    ] {
        assert_eq!(refused(&admin, Method::GET, path, Value::Null).await, code, "{path}");
    }
    assert_eq!(refused(&admin, Method::POST, "/api/timers/stop", json!({"all": true})).await, "out_of_bounds");
    assert_eq!(refused(&admin, Method::PUT, "/api/agents/other/new", json!({})).await, "out_of_bounds");
    assert_eq!(admin.asks(Method::PUT, "/api/agents/acme/new", json!({}), &[]).await.status, 200);
    // A session is begun with an agent of one's own, and no other's is taken over.
    let begins = async |session: &str, agent: &str| {
        bot.post(&format!("/api/sessions/{session}/activity"), json!({"agent": agent})).await.status
    };
    assert_eq!(begins("fresh", "acme:bot").await, 200);
    assert_eq!((begins("o1", "acme:bot").await, begins("plain", "acme:bot").await), (403, 403));
    assert_eq!((begins("fresh2", "other:bot").await, begins("a1", "other:bot").await), (403, 403));
    let query = "/api/agents/other/bot/sessions/a1/query";
    assert_eq!(refused(&bot, Method::POST, query, json!({"message": "hi"})).await, "out_of_bounds");
    // Model calls: by header, whatever names the session.
    let call = json!({"model": "scripted", "messages": [{"role": "user", "content": "script:{}"}]});
    for (headers, status) in [
        (&[("x-reveille-session", "a1")][..], 200),
        (&[("x-reveille-session", "o1")], 403),
        (&[("x-session-id", "plain")], 403),
        (&[("x-reveille-session", "begun"), ("x-reveille-agent", "acme:bot")], 200),
        (&[("x-reveille-session", "a1"), ("x-reveille-agent", "other:bot")], 403),
        (&[], 200),
    ] {
        let answer = bot.asks(Method::POST, "/v1/chat/completions", call.clone(), headers).await;
        assert_eq!(answer.status, status, "{headers:?}: {}", answer.body);
    }
    // What the upstream keeps may be anybody's, whatever session is named beside it.
    let own = [("x-reveille-session", "a1")];
    for (kept, status) in [
        (json!({}), 200),
        (json!({"previous_response_id": "resp_1"}), 403),
        (json!({"conversation": "o1"}), 403),
        (json!({"conversation": {"id": "a1"}}), 200),
    ] {
        let mut body = json!({"model": "scripted", "input": "script:{}"});
        body.as_object_mut().unwrap().extend(kept.as_object().unwrap().clone());
        for path in ["/v1/responses", "/v1/responses/input_tokens"] {
            let answer = bot.asks(Method::POST, path, body.clone(), &own).await;
            assert_eq!(answer.status, status, "{path} {kept}: {}", answer.body);
        }
    }
    for (method, path, status) in [
        (Method::GET, "/v1/responses/resp_1", 403),
        (Method::DELETE, "/v1/responses/resp_1", 403),
        (Method::GET, "/v1/chat/completions", 403),
        (Method::GET, "/v1/files", 403),
        (Method::POST, "/v1/batches", 403),
        (Method::GET, "/v1/models", 200),
        (Method::GET, "/v1/models/scripted", 200),
        (Method::POST, "/v1/embeddings", 200),
        (Method::POST, "/v1/messages/count_tokens", 200),
    ] {
        let body = if method == Method::POST { json!({"model": "scripted"}) } else { Value::Null };
        let answer = bot.asks(method.clone(), path, body, &own).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
    }
    // MCP: by header or argument.
    let ask = |arguments: Value| json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read_timer", "arguments": arguments}});
    let mcp = async |arguments: Value, session: &str| {
        let headers = [
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2025-06-18"),
            ("x-reveille-session", session),
        ];
        let request = client().post(format!("{}/mcp", server.url)).bearer_auth(&bot.token);
        let kept = headers.iter().filter(|(name, value)| *name != "x-reveille-session" || !value.is_empty());
        let request = kept.fold(request, |request, (name, value)| request.header(*name, *value));
        let response = within("MCP", request.json(&ask(arguments)).send()).await.unwrap();
        within("MCP", response.text()).await.unwrap()
    };
    assert!(mcp(json!({}), "a1").await.contains(&timers[0]));
    for (arguments, session) in [(json!({}), "o1"), (json!({"session": "plain"}), "")] {
        let said = mcp(arguments, session).await;
        assert!(said.contains("out_of_bounds") && !said.contains("timer_id"), "{said}");
    }
}

#[tokio::test]
async fn a_token_for_some_sessions_is_for_no_others() {
    let home = Home::default();
    let operator = token(&home, &["me", "--scope", "operator"]).await;
    let mine = token(&home, &["claude", "--session", "claude-*"]).await;
    let screen = token(&home, &["screen", "--scope", "read-only", "--session", "claude-*"]).await;
    let server = home.serve().await;
    let [operator, mine, screen] = [&operator, &mine, &screen].map(|token| Holder::new(&server, token));
    let ask = json!({"total_duration": 600, "mission": "m"});
    for session in ["claude-1", "codex-1"] {
        operator.post(&format!("/api/sessions/{session}/tools/timer"), ask.clone()).await;
    }
    for (path, code) in [
        ("/api/sessions/claude-2/tools/timer", ""),
        ("/api/sessions/codex-1/tools/timer", "out_of_bounds"),
        // However it is written.
        ("/api/sessions/%63odex-1/tools/timer", "out_of_bounds"),
        ("/api/sessions/%20codex-1/tools/timer", "out_of_bounds"),
        ("/api/sessions/claude-1%2F..%2Fother/tools/timer", ""),
    ] {
        assert_eq!(mine.refusal(Method::POST, path, ask.clone()).await, code, "{path}");
    }
    let seen = screen.get("/api/timers").await.body.to_string();
    assert!(seen.contains("claude-1") && !seen.contains("codex-1"), "{seen}");
    // What happens is told of these alone.
    let mut events =
        client().get(format!("{}/api/events?after=0", server.url)).bearer_auth(&screen.token).send().await.unwrap();
    assert_eq!(events.status(), 200);
    operator.post("/api/sessions/codex-9/tools/timer", ask.clone()).await;
    operator.post("/api/sessions/claude-9/tools/timer", ask.clone()).await;
    let mut told = String::new();
    while !told.contains("claude-9") {
        told.push_str(&String::from_utf8_lossy(&within("an event", events.chunk()).await.unwrap().unwrap()));
    }
    assert!(told.contains("claude-1") && !told.contains("codex"), "{told}");
}

/// Strangers get nothing but the door, and not too much of that.
#[tokio::test]
async fn who_asks_too_often_is_told_to_wait() {
    let home = Home::default();
    home.write_config("[limits]\nrequests_per_second = 5\n");
    let operator = token(&home, &["me", "--scope", "operator"]).await;
    let other = token(&home, &["other", "--scope", "read-only"]).await;
    let server = home.serve().await;
    let [me, other] = [&operator, &other].map(|token| Holder::new(&server, token));
    let mut refused = None;
    for _ in 0..200 {
        let answer = me.get("/api/timers").await;
        if answer.status != 200 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("200 requests are more than 5 a second");
    assert_eq!((refused.status, refused.body["code"].as_str()), (429, Some("too_many_requests")));
    assert_eq!(other.get("/api/timers").await.status, 200, "each has a measure of its own");
}
