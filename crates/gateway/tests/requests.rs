//! Requests: what goes upstream is what came, but for what had to change; what cannot be routed is explained.

mod support;

use bytes::Bytes;
use http::{HeaderValue, Method, Request};
use http_body_util::Full;
use proptest::prelude::*;
use reveille_gateway::{ApiKey, Draft, Outline, Protocol};
use serde_json::{Value, json};
use support::{World, post, request, text, upstream};

fn odd_body(messages: &str) -> String {
    // Order, spaces, unknown fields, numbers and escapes that a parser would write differently.
    format!(
        "{{ \"zeta\" : 1.50e3 , \"model\":\"scr\\u0069pted\",  \"stream\" : false,\n\t\"{messages}\" : [ {{\"role\":\"user\",\"content\":\"h\\u00e9 \\/\"}} ] , \"big\":12345678901234567890123,\"a\":{{}} }}\n"
    )
}

#[tokio::test(start_paused = true)]
async fn the_body_goes_upstream_byte_for_byte() {
    let world = World::new();
    for protocol in Protocol::ALL {
        let body = odd_body(if protocol == Protocol::Responses { "input" } else { "messages" });
        let path = format!("{}?beta=true", protocol.path());
        let (status, _) = world.ask(post(&path, body.clone())).await;
        assert_eq!(status, 200);
        let sent = world.log.requests().pop().expect("sent");
        assert_eq!((sent.path, String::from_utf8(sent.body).expect("text")), (path, body));
    }
}

#[tokio::test(start_paused = true)]
async fn headers_of_one_connection_stay_behind_and_others_pass() {
    let world = World::new();
    let mut call = request(
        Protocol::Chat,
        &json!({"steps": [{"text": "a"}], "headers": [["connection", "x-hop"], ["x-hop", "1"], ["keep-alive", "timeout=5"], ["x-end", "2"]]}),
        false,
    );
    for (name, value) in [
        ("connection", "close, X-Secret-Hop"),
        ("x-secret-hop", "1"),
        ("keep-alive", "timeout=5"),
        ("te", "trailers"),
        ("upgrade", "websocket"),
        ("proxy-authorization", "Basic x"),
        ("proxy-connection", "keep-alive"),
        ("x-reveille-session", "s"),
        ("accept-encoding", "gzip"),
        ("host", "gateway"),
        ("authorization", "Bearer client"),
        ("openai-organization", "org"),
        ("x-stainless-lang", "python"),
    ] {
        call.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    let answer = world.gateway.handle(call).await;
    assert!(answer.headers().get("x-hop").is_none() && answer.headers().get("keep-alive").is_none());
    assert_eq!(answer.headers()["x-end"], "2");
    assert_eq!(answer.headers()["x-request-id"], "req_scripted");
    text(answer).await;
    let sent = world.log.requests().pop().expect("sent");
    let mut names: Vec<&str> = sent.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["authorization", "content-length", "content-type", "host", "openai-organization", "x-stainless-lang"]
    );
    assert_eq!((sent.header("host"), sent.header("authorization")), (Some("upstream"), Some("Bearer client")));
    assert_eq!(world.reports.all()[0].turn.session.as_ref().expect("found").id, "s");
}

#[tokio::test(start_paused = true)]
async fn a_configured_key_takes_the_place_of_the_clients() {
    let world = World::with(|settings| settings.upstreams[0].key = ApiKey::new("secret").ok());
    for (protocol, name, value) in [
        (Protocol::Chat, "authorization", "Bearer secret"),
        (Protocol::Responses, "authorization", "Bearer secret"),
        (Protocol::Messages, "x-api-key", "secret"),
    ] {
        let mut call = request(protocol, &json!({}), false);
        call.headers_mut().insert("authorization", HeaderValue::from_static("Bearer client"));
        call.headers_mut().insert("x-api-key", HeaderValue::from_static("client"));
        call.headers_mut().insert("api-key", HeaderValue::from_static("client"));
        world.ask(call).await;
        let sent = world.log.requests().pop().expect("sent");
        assert_eq!(sent.header(name), Some(value));
        assert!(!sent.headers.iter().any(|(_, value)| value.contains("client")));
    }
    assert!(!format!("{:?}", ApiKey::new("secret")).contains("secret"));
}

#[tokio::test(start_paused = true)]
async fn the_first_upstream_that_serves_the_model_takes_it() {
    let world = World::with(|settings| {
        let one = |name: &str, protocols: &[Protocol], models: &[&str]| reveille_gateway::Upstream {
            name: name.into(),
            protocols: protocols.to_vec(),
            models: models.iter().map(ToString::to_string).collect(),
            ..upstream(&format!("http://{name}"))
        };
        settings.upstreams = vec![
            one("a", &[Protocol::Messages], &["m-*"]),
            one("b", &[Protocol::Chat], &["m-1", "scripted"]),
            one("c", &[Protocol::Chat, Protocol::Responses], &["m-*"]),
        ];
    });
    for (path, model, expected) in [
        ("/v1/messages", "m-1", Some("a")),
        ("/v1/chat/completions", "m-1", Some("b")),
        ("/v1/chat/completions", "m-2", Some("c")),
        ("/v1/responses", "m-1", Some("c")),
        ("/v1/responses", "scripted", None),
        ("/v1/messages", "gpt", None),
    ] {
        let (status, body) = world.ask(post(path, json!({"model": model}).to_string())).await;
        match expected {
            Some(host) => assert_eq!(world.log.requests().pop().expect("sent").header("host"), Some(host)),
            None => assert!(status == 404 && body.contains(&format!("no upstream serves model `{model}`")), "{body}"),
        }
    }
    // One list of all, without what would not be routed there.
    let list = Request::builder().uri("/v1/models").body(Full::default()).expect("valid");
    let (_, body) = world.ask(list).await;
    let list: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(
        list["data"].as_array().expect("a list").iter().map(|model| &model["id"]).collect::<Vec<_>>(),
        ["scripted"]
    );
    // Other paths go where their kind is served, unread.
    for (path, host) in [("/v1/messages/count_tokens", "a"), ("/v1/embeddings", "c"), ("/v1/models/m-9", "c")] {
        let (status, _) = world.ask(post(path, json!({"model": "m-9", "input": "x"}).to_string())).await;
        assert_eq!(status, 200);
        let sent = world.log.requests().pop().expect("sent");
        assert_eq!((sent.header("host"), sent.path.as_str()), (Some(host), path));
    }
    let passed = world.reports.all().pop().expect("a report");
    assert_eq!((passed.path.as_deref(), passed.turn.upstream.as_str()), (Some("/v1/models/m-9"), "c"));
    assert_eq!((passed.outcome.name(), passed.status.as_u16(), passed.turn.model.as_str()), ("complete", 200, "m-9"));
    let (status, body) = world
        .ask(Request::builder().uri("/v1/files?x=1").method(Method::DELETE).body(Full::default()).expect("valid"))
        .await;
    assert!(status == 200 && body.contains("\"/v1/files?x=1\""), "{body}");
}

#[tokio::test(start_paused = true)]
async fn bad_requests_are_explained_in_the_protocols_own_form() {
    let world = World::with(|settings| settings.body_bytes_max = 1000);
    for protocol in Protocol::ALL {
        for (body, status, word) in [
            ("", 400, "not valid JSON"),
            ("{", 400, "not valid JSON"),
            ("{\"model\":\"scripted\"", 400, "not valid JSON"),
            ("{\"model\":\"scripted\"} trailing", 400, "not valid JSON"),
            ("[]", 400, "must be a JSON object"),
            ("\"text\"", 400, "must be a JSON object"),
            ("{}", 400, "`model` is missing"),
            ("{\"model\":\"\"}", 400, "`model` is missing"),
            ("{\"model\":7}", 400, "must be a JSON object with a `model`"),
            ("{\"model\":\"scripted\",\"model\":\"other\"}", 400, "duplicate field"),
            ("{\"model\":\"nobody\"}", 404, "no upstream serves model `nobody`"),
            (&"x".repeat(1001), 413, "larger than 1000 bytes"),
        ] {
            let (got, answer) = world.ask(post(protocol.path(), body.to_owned())).await;
            let error: Value = serde_json::from_str(&answer).expect("JSON");
            assert_eq!(got, status, "{body} {answer}");
            assert!(error["error"]["message"].as_str().expect("a message").contains(word), "{body} {answer}");
            assert!(error["error"]["type"].is_string());
            assert_eq!(error["type"] == "error", protocol == Protocol::Messages);
        }
    }
    assert_eq!(world.log.requests().len(), 0);
}

fn draft(protocol: Protocol, body: &str) -> Draft {
    let outline = Outline::read(protocol, body.as_bytes()).expect("valid");
    Draft::new(protocol, outline, Bytes::from(body.to_owned()))
}

#[test]
fn splices_change_nothing_else() {
    for (protocol, body, expected) in [
        (
            Protocol::Chat,
            r#"{"model":"m", "tools" : [ {"a":1} ] ,"messages":[]}"#,
            r#"{"model":"m", "tools" : [ {"a":1} ,{"t":1},{"t":2}] ,"messages":[{"m":1},{"m":2}]}"#,
        ),
        (
            Protocol::Messages,
            r#"{"messages":[{"x":[1]}],"model":"m"}"#,
            r#"{"messages":[{"x":[1]},{"m":1},{"m":2}],"model":"m","tools":[{"t":1},{"t":2}]}"#,
        ),
        (
            Protocol::Responses,
            r#"{"model":"m","input":"h\u00e9]","tools":[ ]}  "#,
            r#"{"model":"m","input":[{"role":"user","content":"h\u00e9]"},{"m":1},{"m":2}],"tools":[ {"t":1},{"t":2}]}  "#,
        ),
        (
            Protocol::Responses,
            r#"{"model":"m"}"#,
            r#"{"model":"m","tools":[{"t":1},{"t":2}],"input":[{"m":1},{"m":2}]}"#,
        ),
    ] {
        let mut draft = draft(protocol, body);
        assert!(!draft.is_changed() && draft.body() == body);
        for number in 1..=2 {
            draft.append_tool(&format!("{{\"t\":{number}}}"));
            draft.append_message(&format!("{{\"m\":{number}}}"));
        }
        assert_eq!(draft.body(), expected);
        serde_json::from_slice::<Value>(&draft.body()).expect("still JSON");
    }
}

proptest! {
    /// Whatever else is in the body: the splice is there and the rest is as it was.
    #[test]
    fn a_splice_adds_and_keeps(extra in "[ -~]{0,40}", tools in prop::collection::vec("[a-z\\]\\[\\\\\"{}]{0,8}", 0..4), before in any::<bool>()) {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": extra}], "tools": tools});
        if before {
            body["zz"] = json!({"tools": [], "messages": extra});
        }
        let mut draft = draft(Protocol::Chat, &body.to_string());
        draft.append_tool("{\"ours\":true}");
        body["tools"].as_array_mut().expect("a list").push(json!({"ours": true}));
        prop_assert_eq!(draft.body(), body.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn reports_say_what_happened() {
    let world = World::new();
    let script = json!({"steps": [{"wait": 2000}, {"text": "a"}, {"tool": {"name": "f", "arguments": {}}}]});
    let body = text(world.send(Protocol::Messages, &script, true).await).await;
    let report = world.reports.all().remove(0);
    assert_eq!((report.turn.model.as_str(), report.turn.upstream.as_str()), ("scripted", "script"));
    assert_eq!((report.bytes as usize, report.status.as_u16(), report.turn.side), (body.len(), 200, true));
    assert!((2000..2010).contains(&report.first_byte.expect("came").as_millis()));
    assert_eq!(report.usage.expect("told").output_tokens, 2);
}

/// What the upstream complains about better than anybody else.
#[tokio::test(start_paused = true)]
async fn values_of_another_kind_are_the_upstreams_to_judge() {
    let world = World::new();
    for field in ["\"stream\":\"true\"", "\"prompt_cache_key\":7", "\"previous_response_id\":[]", "\"store\":\"no\""] {
        for protocol in Protocol::ALL {
            let (status, body) = world.ask(post(protocol.path(), format!("{{\"model\":\"scripted\",{field}}}"))).await;
            assert_eq!(status, 200, "{field}: {body}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn paths_that_climb_go_nowhere() {
    let world = World::new();
    for path in ["/v1/embeddings/../files", "/v1/models/%2e%2E/files", "/v1/..%2ffiles"] {
        let (status, body) = world.ask(post(path, "{\"model\":\"scripted\"}")).await;
        assert_eq!(status, 400, "{path}: {body}");
    }
    assert!(world.log.requests().is_empty());
}
