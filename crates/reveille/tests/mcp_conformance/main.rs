//! The official conformance suite against the door as it is shipped, with the tools the suite wants around it.
//!
//! The suite comes from npm, pinned by `package-lock.json`, and is kept in the target directory. What does not apply is
//! in `expected-failures.yaml`, each with its reason; a scenario listed there that passes is a failure too.

#![allow(clippy::unwrap_used)]

mod fixtures;
#[path = "../support/mod.rs"]
mod support;

use fixtures::Fixtures;
use reveille::{
    http::{self, serve::Doorman},
    mcp,
};
use reveille_core::Millis;
use std::{path::Path, process::Output, time::Duration};
use support::{install, site::Site};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp_conformance");
const SUITE_MAX: Duration = Duration::from_secs(300);
const TICK: Duration = Duration::from_millis(20);

/// Scenarios of the tasks extension, which are in no suite. Left out: those about tasks that ask for input, and one that
/// the suite itself skips.
const TASKS: [&str; 7] = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_suite_passes_in_both_eras() {
    let suite = tokio::task::spawn_blocking(|| install::npm("mcp_conformance")).await.unwrap().0;
    let site = Site::start().await;
    let handler = Fixtures(mcp::http::handler(&site.app));
    let router = axum::Router::new().route("/mcp", mcp::http::route(handler));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(http::serve::serve(listener, router, Doorman::default(), CancellationToken::new()));
    // The suite waits for real; the site's clock goes along with it.
    let clock = site.clock.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(TICK).await;
            clock.advance(Millis::new(TICK.as_millis() as u64));
        }
    });
    for revision in ["2025-11-25", "2026-07-28"] {
        run(&suite, revision, &["--url", &url, "--suite", "all", "--spec-version", revision]).await;
    }
    for scenario in TASKS {
        run(&suite, scenario, &["--url", &url, "--scenario", scenario, "--spec-version", "2026-07-28", "--force"])
            .await;
    }
}

async fn run(suite: &Path, what: &str, arguments: &[&str]) {
    let mut node = tokio::process::Command::new(suite.join("node_modules/node/bin/node"));
    node.arg(suite.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .arg("server")
        .args(arguments)
        .arg("--expected-failures")
        .arg(format!("{HERE}/expected-failures.yaml"))
        .arg("--output-dir")
        .arg(suite.join(format!("results-{what}")))
        .kill_on_drop(true);
    let ran = tokio::time::timeout(SUITE_MAX, node.output()).await.expect("the suite ends").unwrap();
    assert!(ran.status.success(), "{what}:\n{}", said(&ran));
}

fn said(ran: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let lines: Vec<&str> = out.lines().chain(err.lines()).collect();
    lines[lines.len().saturating_sub(120)..].join("\n")
}
