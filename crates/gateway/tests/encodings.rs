//! Compressed request bodies: read for routing, passed on as they came, plain once something is put in. What they
//! unfold to is bounded. The files were made by zlib, brotli and zstd themselves.

mod support;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::Full;
use reveille_gateway::{Draft, Fault, Interest, Protocol, Stage, Turn, Visit};
use serde_json::{Value, json};
use support::{World, post, text, upstream};

macro_rules! file {
    ($name:literal) => {
        include_bytes!(concat!("encoded/", $name)).as_slice()
    };
}

const PLAIN: &[u8] = file!("request.json");
/// Header and body; all unfold to [`PLAIN`].
const ENCODED: [(&str, &[u8]); 8] = [
    ("gzip", file!("request.gzip")),
    ("X-GZIP", file!("request.gzip")),
    ("deflate", file!("request.deflate")),
    ("deflate", file!("request.raw-deflate")),
    ("br", file!("request.br")),
    ("zstd", file!("request.zstd")),
    ("gzip, zstd", file!("request.gzip-zstd")),
    ("identity , zstd", file!("request.zstd")),
];

fn encoded(path: &str, encoding: &'static str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let mut call = post(path, body);
    call.headers_mut().insert("content-encoding", HeaderValue::from_static(encoding));
    // One of the clients that really do this; its session is in the body.
    call.headers_mut().insert("originator", HeaderValue::from_static("codex_cli_rs"));
    call
}

#[tokio::test(start_paused = true)]
async fn a_compressed_body_is_read_and_goes_upstream_as_it_came() {
    for protocol in Protocol::ALL {
        for (encoding, body) in ENCODED {
            let world = World::new();
            let (status, answer) = world.ask(encoded(protocol.path(), encoding, body)).await;
            assert_eq!(status, 200, "{encoding}: {answer}");
            let turn = world.reports.all().pop().expect("reported").turn;
            assert_eq!((&*turn.model, turn.session.expect("found").id.as_str()), ("scripted", "s-1"));
            let sent = world.log.requests().pop().expect("sent");
            assert_eq!((sent.header("content-encoding"), &sent.body[..]), (Some(encoding), body));
        }
    }
}

/// Adds a tool to every call.
struct Toolmaker;

impl Stage for Toolmaker {
    fn enter(&self, _: &Turn) -> Option<Box<dyn Visit>> {
        Some(Box::new(Toolmaker))
    }
}

#[async_trait]
impl Visit for Toolmaker {
    async fn before_request(&mut self, draft: &mut Draft) -> Result<Interest, Fault> {
        draft.append_tool(r#"{"name":"钟"}"#);
        Ok(Interest::Stay)
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_put_in_goes_out_plain() {
    let expected = String::from_utf8_lossy(PLAIN).replace(" }\n", " ,\"tools\":[{\"name\":\"钟\"}]}\n");
    for (encoding, body) in ENCODED {
        let world = World::build(|_| {}, |gateway| gateway.stage(Toolmaker));
        let (status, _) = world.ask(encoded("/v1/chat/completions", encoding, body)).await;
        let sent = world.log.requests().pop().expect("sent");
        assert_eq!((status, sent.header("content-encoding")), (200, None));
        assert_eq!(sent.header("content-length"), Some(&*expected.len().to_string()));
        assert_eq!(String::from_utf8(sent.body).expect("text"), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bomb_is_refused_at_the_bound_of_plain_bodies() {
    let world = World::with(|settings| settings.body_bytes_max = 1024 * 1024);
    for (encoding, body) in [
        ("gzip", file!("bomb.gzip")),
        ("br", file!("bomb.br")),
        ("zstd", file!("bomb.zstd")),
        ("gzip, zstd", file!("bomb.gzip-zstd")),
    ] {
        let (status, answer) = world.ask(encoded("/v1/messages", encoding, body)).await;
        assert!(status == 413 && answer.contains("larger than 1048576 bytes"), "{encoding}: {answer}");
    }
    assert_eq!(world.log.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_what_it_says_is_explained() {
    let world = World::new();
    let refused = async |encoding, body: &[u8]| {
        let (status, answer) = world.ask(encoded("/v1/responses", encoding, body.to_vec())).await;
        let error: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!((status, &error["error"]["code"]), (400, &json!("body_undecodable")), "{encoding} {answer}");
        let message = error["error"]["message"].as_str().expect("a message");
        assert!(message.contains("as its content-encoding says"), "{message}");
    };
    for (encoding, body) in ENCODED {
        for end in 0..body.len() {
            refused(encoding, &body[..end]).await;
        }
        refused(encoding, PLAIN).await;
        refused(encoding, &[body, b"and more"].concat()).await;
    }
    refused("zstd", file!("request.gzip")).await;
    refused("gzip", file!("request.zstd")).await;
    refused("zstd, gzip", file!("request.gzip-zstd")).await;
    refused("br", file!("request.zstd")).await;
    // A window of 128 MiB, by its head alone.
    refused("zstd", file!("window.zstd")).await;
    assert_eq!(world.log.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn encodings_nobody_knows_are_named_with_those_that_are() {
    let world = World::new();
    for encoding in ["compress", "zstd, rot13", "gzip, gzip, gzip", "\u{ff}zstd"] {
        let mut call = post("/v1/chat/completions", PLAIN);
        call.headers_mut().insert("content-encoding", HeaderValue::from_bytes(encoding.as_bytes()).expect("a value"));
        let answer = world.gateway.handle(call).await;
        assert_eq!(answer.status(), 415);
        assert_eq!(answer.headers()["accept-encoding"], "gzip, deflate, br, zstd");
        let answer = text(answer).await;
        assert!(answer.contains("uncompressed, or as one of gzip, deflate, br, zstd"), "{answer}");
    }
    // Two lines are one list.
    let mut call = encoded("/v1/chat/completions", "gzip", file!("request.gzip-zstd"));
    call.headers_mut().append("content-encoding", HeaderValue::from_static("zstd"));
    assert_eq!(world.ask(call).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn other_paths_are_routed_by_what_is_inside_and_never_refused_for_it() {
    let world = World::with(|settings| {
        let one = |name: &str, model: &str| reveille_gateway::Upstream {
            name: name.into(),
            models: vec![model.into()],
            ..upstream(&format!("http://{name}"))
        };
        settings.upstreams = vec![one("first", "other"), one("second", "scripted")];
    });
    for (encoding, body, host) in [
        ("zstd", file!("request.zstd"), "second"),
        ("zstd", file!("request.gzip"), "first"),
        ("rot13", file!("request.json"), "first"),
    ] {
        assert_eq!(world.ask(encoded("/v1/embeddings", encoding, body)).await.0, 200);
        let sent = world.log.requests().pop().expect("sent");
        assert_eq!((sent.header("host"), sent.header("content-encoding")), (Some(host), Some(encoding)));
        assert_eq!(sent.body, body);
    }
}
