//! A server with a token, spoken to by everything that speaks to it.

use super::support::{
    client,
    process::{Daemon, Home, Ran},
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
