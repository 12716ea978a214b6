//! The API answers only as its document says: schemathesis reads the document and asks the real binary whatever it can think
//! of, well formed and not.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../support/mod.rs"]
mod support;

use serde_json::Value;
use std::{collections::BTreeMap, path::PathBuf, process::Command};
use support::{install, process::Home};

/// Cases for each operation, besides those that cover its parameters one by one.
const EXAMPLES: &str = "6";
/// These have no end; `tests/events.rs`, `presence.rs` and `agents.rs` look at them.
const STREAMS: &str = "/api/events$|/presence$|/socket$";

/// Asks everything of the server, with these headers; what schemathesis has to say.
async fn ask(url: &str, work: PathBuf, headers: &[&str]) -> (bool, String) {
    let document = format!("{url}/openapi.json");
    let headers: Vec<String> = headers.iter().map(ToString::to_string).collect();
    let asked = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(install::venv("contract", "contract/requirements.txt").join("schemathesis"));
        // One worker: Python 3.11 fails now and then where two threads read source code at once.
        command.current_dir(work).args(["run", &document, "--phases", "coverage,fuzzing", "--seed", "1"]);
        command.args(["--max-examples", EXAMPLES, "--workers", "1", "--request-timeout", "20", "--no-color"]);
        command.args(["--exclude-path-regex", STREAMS, "--header", "x-reveille-standby-max: 0.01"]);
        for header in &headers {
            command.args(["--header", header]);
        }
        command.args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"]);
        command.args(["--checks", "response_headers_conformance,response_schema_conformance"]);
        command.args(["--suppress-health-check", "all", "--warnings", "off"]);
        command.output().unwrap()
    });
    let output = asked.await.unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{}", said.lines().rev().take(12).collect::<Vec<_>>().join("\n"));
    (output.status.success() && said.contains("passed"), said)
}

#[tokio::test]
async fn every_answer_is_documented() {
    let home = Home::default();
    let server = home.serve().await;
    let (good, said) = ask(&server.url, home.dir.path().to_owned(), &[]).await;
    assert!(good, "{said}");
    assert_eq!(server.terminate().await, Some(0));
    let log = std::fs::read_to_string(home.log()).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}

/// With tokens: a token that may only look is refused the rest, and whoever has none nearly everything. Both are counted by
/// hand too, one operation after the other: what is refused is refused as documented.
#[tokio::test]
async fn refusals_of_tokens_are_documented_and_seen() {
    let home = Home::default();
    let made = home.run(&["--json", "token", "new", "screen", "--scope", "read-only"]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let token = made.json()["token"].as_str().unwrap().to_owned();
    let server = home.serve().await;
    let (good, said) = ask(&server.url, home.dir.path().to_owned(), &[&format!("authorization: Bearer {token}")]).await;
    assert!(good, "{said}");

    let document: Value = serde_json::from_str(&reveille::http::openapi()).unwrap();
    let mut seen: BTreeMap<u16, usize> = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        if STREAMS.split('|').any(|end| path.ends_with(end.trim_end_matches('$'))) {
            continue;
        }
        for (method, operation) in methods.as_object().unwrap() {
            for token in [Some(&token), None] {
                let url = format!("{}{}", server.url, path.replace(['{', '}'], ""));
                let request = support::client().request(method.to_uppercase().parse().unwrap(), url);
                let request = token.into_iter().fold(request, |request, token| request.bearer_auth(token));
                let status = support::within(path, request.send()).await.unwrap().status().as_u16();
                let documented = operation["responses"].get(status.to_string()).is_some();
                assert!(documented, "{method} {path} answers {status} (a token: {})", token.is_some());
                *seen.entry(status).or_default() += 1;
            }
        }
    }
    assert!(seen[&401] > 30 && seen[&403] > 10 && seen[&200] > 10, "{seen:?}");
    assert_eq!(server.terminate().await, Some(0));
}
