//! The official SDKs of the vendors, unmodified, with the clock in the gateway: what they add up from a stream is right.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use scripted_upstream::Upstream;
use serde_json::json;
use std::{path::Path, process::Stdio, time::Duration};
use support::{World, install::python, within};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::Command,
};

/// Importing the SDKs alone may take half a minute on a busy machine.
async fn patiently<T>(saying: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(180), saying).await.expect("the client says something")
}

#[tokio::test]
async fn the_official_sdks_are_reminded() {
    clients(false, "36 of 36").await;
}

#[tokio::test]
async fn the_official_sdks_are_shown_what_was_called() {
    clients(true, "2 of 2").await;
}

async fn clients(shown: bool, right: &str) {
    let upstream = Upstream::new(&["scripted"]).listen("127.0.0.1:0").await.unwrap();
    let url = upstream.url();
    let world = World::with(|config| {
        let entry = json!({"name": "script", "base_url": url, "protocols": ["chat", "responses", "messages"]});
        config.gateway.upstream = vec![serde_json::from_value(entry).unwrap()];
        config.gateway.show_calls = shown;
    })
    .await;
    let interpreter = tokio::task::spawn_blocking(python).await.unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk/clock.py");
    let mut client = Command::new(interpreter)
        .arg(script)
        .arg(&world.url)
        .args(shown.then_some("shown"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (mut input, output) = (client.stdin.take().unwrap(), client.stdout.take().unwrap());
    let mut lines = BufReader::new(output).lines();
    let mut said = String::new();
    // Whoever has the clock moves it: at once, or as soon as a turn is held.
    while let Some(line) = patiently(lines.next_line()).await.unwrap() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["advance", seconds] => {
                world.advance(seconds.parse().unwrap());
                input.write_all(b"done\n").await.unwrap();
            }
            ["advance", seconds, "when", "held"] => {
                within("a turn is held", async {
                    while world.server().engine.metrics.gateway.holds.get() == 0 {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                })
                .await;
                world.advance(seconds.parse().unwrap());
            }
            _ => said += &line,
        }
    }
    let done = client.wait_with_output().await.unwrap();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    assert!(said.contains(right), "{said}");
}
