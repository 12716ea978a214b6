//! The list of all models: one of all upstreams, with each one's own key.

mod support;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use reveille_gateway::{ApiKey, Protocol, Upstream};
use serde_json::{Value, json};
use std::time::Duration;
use support::{World, upstream};
use tokio::time::Instant;

fn one(name: &str, protocols: &[Protocol]) -> Upstream {
    Upstream { name: name.into(), protocols: protocols.to_vec(), models: vec![], ..upstream(&format!("http://{name}")) }
}

fn list(headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let request = Request::builder().uri("/v1/models");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(Full::default()).expect("valid")
}

/// Which upstreams saw something of the client's.
async fn told(headers: &[(&str, &str)]) -> Vec<String> {
    const OPENAI: [Protocol; 2] = [Protocol::Chat, Protocol::Responses];
    let world = World::with(|settings| {
        let keyed = Upstream { key: ApiKey::new("ours").ok(), ..one("keyed", &OPENAI) };
        settings.upstreams = vec![
            keyed,
            one("anthropic", &[Protocol::Messages]),
            one("openai", &OPENAI),
            one("openai-2", &OPENAI),
            one("anthropic-2", &[Protocol::Messages]),
        ];
    });
    assert_eq!(world.ask(list(headers)).await.0, 200);
    let requests = world.log.requests();
    assert_eq!(requests.len(), 5);
    let told = requests.iter().filter(|request| request.headers.iter().any(|(_, value)| value.contains("client")));
    told.map(|request| request.header("host").expect("it has one").to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_clients_key_goes_to_one_upstream_of_its_vendor() {
    assert_eq!(told(&[("authorization", "Bearer client"), ("cookie", "client")]).await, ["openai"]);
    assert_eq!(told(&[("x-api-key", "client")]).await, ["anthropic"]);
    let oauth = [("authorization", "Bearer client"), ("anthropic-version", "2023-06-01")];
    assert_eq!(told(&oauth).await, ["anthropic"]);
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_fails_is_left_out() {
    let world = World::with(|settings| {
        settings.upstreams =
            vec![one("slow", &Protocol::ALL), one("refused", &Protocol::ALL), one("a", &Protocol::ALL)];
        settings.upstreams[0].limits.connect = None;
    });
    let began = Instant::now();
    let (status, body) = world.ask(list(&[])).await;
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, body["data"].as_array().map(Vec::len)), (200, Some(2)));
    assert!(began.elapsed() < Duration::from_secs(11), "{:?}", began.elapsed());
    let mut left_out = world.reports.left_out();
    left_out.sort();
    assert_eq!(left_out.len(), 2);
    assert!(
        left_out[0].starts_with("refused: ") && left_out[1].starts_with("slow: first_byte timeout"),
        "{left_out:?}"
    );
    let report = world.reports.all().remove(0);
    assert_eq!((report.outcome.name(), report.path.as_deref()), ("complete", Some("/v1/models")));
}

#[tokio::test(start_paused = true)]
async fn if_all_fail_the_client_hears_what_its_own_said() {
    let world = World::with(|settings| {
        settings.upstreams = vec![one("refused", &[Protocol::Messages]), one("a", &[Protocol::Chat])];
        settings.upstreams[1].limits.first_byte = None;
    });
    let script = json!({"status": 401, "body": "{\"error\":  \"no such key\"}"});
    let (status, body) = world.ask(list(&[("x-script", &script.to_string())])).await;
    assert_eq!((status, body.as_str()), (401, "{\"error\":  \"no such key\"}"));
    let (status, body) = world.ask(list(&[("x-api-key", "k"), ("x-script", &script.to_string())])).await;
    assert!(status == 502 && body.contains("`refused` cannot be reached"), "{body}");
}
