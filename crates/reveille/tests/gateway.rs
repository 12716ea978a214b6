//! The gateway as a client meets it: over real sockets, inside the server.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use reveille::config::gateway::UpstreamConfig;
use scripted_upstream::{Listening, Upstream};
use serde_json::{Value, json};
use std::time::Duration;
use support::{World, within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

async fn world() -> (World, Listening) {
    let upstream = Upstream::new(&["scripted"]).listen("127.0.0.1:0").await.unwrap();
    let base_url = upstream.url();
    let world = World::with(|config| {
        config.gateway.upstream = vec![entry("script", &base_url)];
        config.gateway.max_body_bytes = 100_000;
    })
    .await;
    (world, upstream)
}

fn entry(name: &str, base_url: &str) -> UpstreamConfig {
    let entry = json!({
        "name": name, "base_url": base_url, "protocols": ["chat", "responses", "messages"], "models": ["scripted"],
    });
    serde_json::from_value(entry).unwrap()
}

fn body(script: &Value, stream: bool) -> Value {
    let content = format!("script:{script}");
    json!({"model": "scripted", "stream": stream, "messages": [{"role": "user", "content": content}]})
}

async fn raw(world: &World, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(world.server().address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

fn head(body: &str, more: &str) -> String {
    format!("POST /v1/messages HTTP/1.1\r\nhost: localhost\r\n{more}content-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn calls_pass_and_are_counted() {
    let (world, upstream) = world().await;
    for path in ["/v1/chat/completions", "/v1/messages"] {
        let answer = world.post(path, body(&json!({"steps": [{"text": "hello"}]}), false)).await;
        assert_eq!(answer.status, 200);
        assert!(answer.body.to_string().contains("hello"));
    }
    let models = world.get("/v1/models").await;
    assert_eq!(models["data"][0]["id"], "scripted");
    let refused = world.post("/v1/messages", json!({"model": "nobody"})).await;
    assert_eq!((refused.status, &refused.body["error"]["type"]), (404, &json!("not_found_error")));
    assert_eq!(upstream.upstream.log.requests().len(), 3);
    let misled = world.post("/chat/completions", json!({"model": "scripted"})).await;
    assert_eq!(misled.status, 404);
    assert!(misled.body["detail"].as_str().unwrap().contains("at /v1/chat/completions: let the base URL end in /v1"));
    let metrics = world.http.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap();
    for line in [
        r#"reveille_gateway_requests_total{protocol="chat",upstream="script",outcome="complete"} 1"#,
        r#"reveille_gateway_requests_total{protocol="messages",upstream="",outcome="model_not_found"} 1"#,
        r#"reveille_gateway_requests_total{protocol="other",upstream="",outcome="complete"} 1"#,
        r#"reveille_gateway_tokens_total{upstream="script",direction="input"} 22"#,
        "reveille_gateway_first_byte_seconds_count 2",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_frees_the_upstream_at_once() {
    for stream in [true, false] {
        let (world, upstream) = world().await;
        let mut gone = upstream.upstream.log.abandoned();
        let steps = json!({"steps": [{"text": "first"}, "stall"]});
        let mut client = raw(&world, &head(&body(&steps, stream).to_string(), "")).await;
        if stream {
            let mut seen = String::new();
            while !seen.contains("first") {
                let mut buffer = [0; 4096];
                let read = within("the first chunk", client.read(&mut buffer)).await.unwrap();
                seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        } else {
            within("the call arrives", async {
                while upstream.upstream.log.requests().is_empty() {
                    tokio::task::yield_now().await;
                }
            })
            .await;
        }
        drop(client);
        within("the upstream is told", gone.wait_for(|count| *count == 1)).await.unwrap();
    }
}

#[tokio::test]
async fn smuggling_and_oversize_are_refused_and_the_server_stays_up() {
    let (world, upstream) = world().await;
    let small = body(&json!({}), false).to_string();
    for (request, status) in [
        (head(&small, "content-length: 5\r\n"), "400"),
        (head(&small, "transfer-encoding: chunked\r\n"), "4"),
        (head(&small, "x-bad: a\0b\r\n"), "400"),
        (head(&small, "x bad: a\r\n"), "400"),
        (head(&"x".repeat(100_001), ""), "413"),
    ] {
        let mut stream = raw(&world, &request).await;
        let mut answer = Vec::new();
        let _ = within("an answer", stream.read_to_end(&mut answer)).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    assert!(upstream.upstream.log.requests().is_empty());
    assert_eq!(world.post("/v1/messages", body(&json!({"steps": []}), false)).await.status, 200);
}

#[tokio::test]
async fn a_client_that_reads_slowly_holds_the_upstream_back() {
    let (world, upstream) = world().await;
    let script = json!({"steps": [{"repeat": {"text": "x".repeat(10_000), "times": 10_000, "every": 0}}]});
    let stream = raw(&world, &head(&body(&script, true).to_string(), "")).await;
    // Nobody reads: what is taken from the upstream comes to a stop, far below the 100 MB there are.
    let mut before = 0;
    let taken = within("it comes to a stop", async {
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = upstream.upstream.log.written();
            if now == before && now > 0 {
                return now;
            }
            before = now;
        }
    })
    .await;
    assert!(taken < 40_000_000, "{taken} bytes were taken that nobody read");
    drop(stream);
}

#[tokio::test]
async fn an_upstream_that_refuses_is_a_clear_error() {
    let gone = Upstream::default().listen("127.0.0.1:0").await.unwrap().url();
    let world = World::with(|config| {
        config.gateway.upstream = vec![entry("gone", &gone)];
        config.gateway.retries = 0;
    })
    .await;
    let answer = world.post("/v1/chat/completions", body(&json!({}), true)).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (502, &json!("upstream_unreachable")));
    assert!(answer.body["error"]["message"].as_str().unwrap().contains("`gone` cannot be reached"));
}

/// Not every vendor has its paths under `/v1`.
#[tokio::test]
async fn an_upstream_may_have_another_path() {
    let upstream = Upstream::new(&["scripted"]).listen("127.0.0.1:0").await.unwrap();
    let base_url = upstream.url();
    let world = World::with(|config| {
        let path = Some("/api/paas/v4".to_owned());
        config.gateway.upstream = vec![UpstreamConfig { path, ..entry("other", &base_url) }];
    })
    .await;
    world.post("/v1/chat/completions?beta=true", body(&json!({}), false)).await;
    world.post("/v1/embeddings", json!({"model": "scripted"})).await;
    let models = world.http.get(format!("{}/v1/models", world.url)).send().await.unwrap();
    assert_eq!(models.status(), 502, "nobody is there who knows of models");
    let paths: Vec<String> = upstream.upstream.log.requests().iter().map(|request| request.path.clone()).collect();
    assert_eq!(paths, ["/api/paas/v4/chat/completions?beta=true", "/api/paas/v4/embeddings", "/api/paas/v4/models"]);
}
