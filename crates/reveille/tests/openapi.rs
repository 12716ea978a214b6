//! The checked-in OpenAPI document is the one the server serves, so that a change of the API is a change in review.

#![allow(clippy::unwrap_used)]

mod support;

use std::{fs, path::Path};

#[test]
fn the_checked_in_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../api/openapi.json");
    let current = reveille::http::openapi();
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &current).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == current,
        "api/openapi.json is not what the server serves; `UPDATE=1 cargo test -p reveille --test openapi` rewrites it"
    );
}

#[tokio::test]
async fn the_server_serves_it_and_it_names_every_route() {
    let world = support::World::start().await;
    let served = world.http.get(format!("{}/openapi.json", world.url)).send().await.unwrap();
    assert_eq!(served.headers()["content-type"], "application/json");
    assert_eq!(served.text().await.unwrap(), reveille::http::openapi());
    let document = world.get("/openapi.json").await;
    for (path, methods) in [
        ("/api/sessions/{session}/tools/{tool}", &["post"][..]),
        ("/api/tools", &["get"]),
        ("/api/timers", &["get", "post"]),
        ("/api/timers/{id}", &["get"]),
        ("/api/timers/{id}/{action}", &["post"]),
        ("/api/reminders", &["get"]),
        ("/api/reminders/{id}/cancel", &["post"]),
        ("/api/sessions", &["get"]),
        ("/api/sessions/{session}", &["get", "delete"]),
        ("/api/sessions/{session}/inbox", &["get"]),
        ("/api/sessions/{session}/inbox/lease", &["post"]),
        ("/api/sessions/{session}/inbox/commit", &["post"]),
        ("/api/sessions/{session}/inbox/release", &["post"]),
        ("/api/sessions/{session}/presence", &["get"]),
        ("/api/events", &["get"]),
        ("/api/history", &["get"]),
        ("/api/stats", &["get"]),
        ("/api/stats/hours", &["get"]),
        ("/api/deliveries", &["get"]),
        ("/api/sessions/{session}/wake", &["post"]),
        ("/api/sign-in", &["get", "post", "delete"]),
        ("/healthz", &["get"]),
        ("/readyz", &["get"]),
        ("/metrics", &["get"]),
    ] {
        for method in methods {
            assert!(document["paths"][path].get(method).is_some(), "{method} {path} is not described");
        }
    }
    // What is named by a reference exists.
    let text = document.to_string();
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(document["components"]["schemas"].get(name).is_some(), "the schema {name} is missing");
    }
}
