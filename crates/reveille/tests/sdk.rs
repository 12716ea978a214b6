//! The official SDKs of the vendors, unmodified, through the gateway: same objects, same exceptions as directly.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use scripted_upstream::Upstream;
use serde_json::json;
use std::{path::Path, process::Command};
use support::{World, install::python};

#[tokio::test]
async fn the_official_sdks_see_no_difference() {
    let upstream = Upstream::new(&["scripted"]).listen("127.0.0.1:0").await.unwrap();
    let (url, direct) = (upstream.url(), upstream.url());
    let world = World::with(|config| {
        let entry = json!({"name": "script", "base_url": url, "protocols": ["chat", "responses", "messages"]});
        config.gateway.upstream = vec![serde_json::from_value(entry).unwrap()];
        let short = json!({"models": ["short"], "idle_timeout": "300ms"});
        config.gateway.limits = vec![serde_json::from_value(short).unwrap()];
    })
    .await;
    let gateway = world.url.clone();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk/compare.py");
    let compared =
        tokio::task::spawn_blocking(move || Command::new(python()).arg(script).args([direct, gateway]).output());
    let output = compared.await.unwrap().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(said.contains("113 of 113 the same"), "{said}");
}
