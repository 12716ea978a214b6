//! The doctor: what is well is called well, each ailment is found with its cure, and nothing is changed or disturbed.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use reqwest::Method;
use serde_json::{Value, json};
use std::{
    fs::{self, OpenOptions, Permissions},
    net::TcpListener,
    os::unix::fs::{FileExt, PermissionsExt},
    path::Path,
};
use support::{
    client, has, list,
    process::{Daemon, Home, Ran},
    send, text, within,
};

async fn examine(home: &Home, path: Option<&Path>) -> (Option<i32>, Value) {
    let mut command = home.command(&["doctor", "--json"]);
    // Whatever is installed on this machine is nobody's business here.
    command.env("PATH", path.unwrap_or(home.dir.path()));
    let ran = Ran::of(&within("the doctor looks", command.output()).await.unwrap());
    (ran.code, ran.json())
}

fn finding(document: &Value, area: &str, words: &str) -> Value {
    let all = list(&document["findings"]);
    let fits = |one: &&Value| one["area"] == area && text(&one["what"]).contains(words);
    all.iter().find(fits).unwrap_or_else(|| panic!("{area}: {words} in {document:#}")).clone()
}

/// Found as a problem or warning, with a cure that says this.
#[track_caller]
fn ails(document: &Value, level: &str, area: &str, words: &str, cure: &str) {
    let found = finding(document, area, words);
    assert_eq!(found["level"], level, "{found}");
    assert!(text(&found["cure"]).contains(cure), "{found}");
}

#[tokio::test]
async fn a_fresh_home_is_well_and_stays_as_it_is() {
    let home = Home::default();
    home.write_config("listen = \"127.0.0.1:0\"\n");
    let (code, document) = examine(&home, None).await;
    assert_eq!(code, Some(0), "{document:#}");
    has(&document, json!({"ok": true, "problems": 0}));
    for (area, words) in [
        ("configuration", "reveille.toml"),
        ("data directory", "made at the first start"),
        ("database", "not there yet"),
        ("server", "does not run"),
        ("token", "everybody on this machine"),
        ("upstream", "none is configured"),
        ("client", "no agent's client"),
    ] {
        assert_ne!(finding(&document, area, words)["level"], "problem");
    }
    assert!(!home.data().exists(), "nothing was made");
    let said = home.run(&["doctor"]).await;
    assert!(said.out.contains("✓ data directory") && !said.out.contains('\u{1b}'), "{said:?}");
}

#[tokio::test]
async fn a_running_server_is_asked_and_not_disturbed() {
    let home = Home::default();
    let daemon = home.serve().await;
    let mission = home.mission("1h").await;
    let (code, document) = examine(&home, None).await;
    assert_eq!(code, Some(0), "{document:#}");
    assert!(text(&finding(&document, "server", "answers at")["what"]).contains(&daemon.url));
    assert!(text(&finding(&document, "database", "format")["what"]).contains("whole"));
    has(&home.run(&["read", &mission, "--json"]).await.json(), json!({"status": "running"}));
    daemon.kill().await;
    let (code, document) = examine(&home, None).await;
    assert_eq!(code, Some(0), "{document:#}");
    ails(&document, "note", "server", "was killed", "`reveille` starts one");
}

#[tokio::test]
async fn a_file_that_broke_later_does_not_touch_the_server_that_runs() {
    let home = Home::default();
    let _daemon = home.serve().await;
    home.write_config("[quiet]\nzone = \"UTC\"\nfrom = \"22:00\"\nto == \"08:00\"\n");
    let (code, document) = examine(&home, None).await;
    assert_eq!(code, Some(1), "{document:#}");
    ails(&document, "problem", "configuration", "reveille.toml", "The server that runs is not affected");
    // The place in the file is drawn in lines of its own.
    let said = home.run(&["doctor"]).await;
    let drawn: Vec<&str> = said.out.lines().filter(|line| line.contains(" | ")).collect();
    assert!(drawn.iter().any(|line| line.ends_with("to == \"08:00\"")), "{said:?}");

    home.write_config("[[gateway.upstream]]\nname = \"a\"\nbase_url = \"http://127.0.0.1:9\"\nprotocols = [\"chat\"]\napi_key_env = \"NO_SUCH_KEY\"\n");
    let (_, document) = examine(&home, None).await;
    ails(&document, "problem", "configuration", "NO_SUCH_KEY", "with this command's environment");
    ails(&document, "problem", "configuration", "NO_SUCH_KEY", "The server that runs is not affected");
    ails(&document, "problem", "upstream", "judged by this command's environment", "Environment=");
}

#[tokio::test]
async fn every_ailment_has_its_cure() {
    let home = Home::default();
    let (taken, closed) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let nobody = closed.local_addr().unwrap();
    drop(closed);
    let token = home.config().with_file_name("token");
    home.write_config(&format!(
        "listen = \"{}\"\ntoken_file = \"token\"\n\
         [[gateway.upstream]]\nname = \"gone\"\nbase_url = \"http://{nobody}\"\nprotocols = [\"chat\"]\n\
         [[gateway.upstream]]\nname = \"keyless\"\nbase_url = \"http://{nobody}\"\nprotocols = [\"chat\"]\napi_key_env = \"NO_SUCH_KEY\"\n\
         [wake.nobody]\nmatch = \"*\"\ncommand = [\"no-such-program\"]\n",
        taken.local_addr().unwrap()
    ));
    fs::write(&token, "a-token-that-is-long-enough").unwrap();
    fs::set_permissions(&token, Permissions::from_mode(0o644)).unwrap();
    fs::create_dir_all(home.data()).unwrap();
    fs::set_permissions(home.data(), Permissions::from_mode(0o777)).unwrap();
    fs::write(home.database(), "这不是数据库 📄, and it is long enough to be looked at as a file of somebody else")
        .unwrap();
    let (code, document) = examine(&home, None).await;
    assert_eq!(code, Some(1), "{document:#}");
    has(&document, json!({"ok": false}));
    ails(&document, "problem", "configuration", "NO_SUCH_KEY", "reveille config check");
    ails(&document, "warning", "data directory", "written by other users", "chmod 700");
    ails(&document, "problem", "database", "not a Reveille database", "--data-dir");
    ails(&document, "problem", "server", "held by another program", "ss -ltnp");
    ails(&document, "warning", "token", "read by other users", "chmod 600");
    ails(&document, "problem", "upstream", "gone", "see that the address is right");
    ails(&document, "problem", "upstream", "NO_SUCH_KEY", "Environment=");
    ails(&document, "problem", "wake command", "no-such-program", "install it");

    home.write_config("listen = 5\n");
    let (code, document) = examine(&home, None).await;
    assert_eq!(code, Some(1));
    ails(&document, "problem", "configuration", "listen", "correct it");
}

#[tokio::test]
async fn agents_are_examined_whoever_configured_them() {
    let home = Home::default();
    home.write_config("[agents]\napi_secrets = [\"CRM_*\"]\n");
    let serve = || {
        let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.env("CRM_KEY", "k").stderr(std::process::Stdio::null());
        Daemon::start(command)
    };
    let daemon = serve().await;
    let tool =
        json!({"name": "look", "endpoint": {"url": "http://127.0.0.1:9/look", "headers": {"x-key": "${CRM_KEY}"}}});
    for (name, config) in [("crm", json!({"tools": [tool]})), ("plain", json!({}))] {
        let url = format!("{}/api/agents/acme/{name}", daemon.url);
        let put = send(&client(), Method::PUT, &url, Some(&config), None).await;
        assert_eq!(put.status, 200, "{}", put.body);
    }
    // By the environment of the server that runs, not of this command.
    let (code, document) = examine(&home, None).await;
    assert_eq!(code, Some(0), "{document:#}");
    for name in ["acme:crm", "acme:plain"] {
        assert_eq!(finding(&document, "agent", name)["level"], "ok");
    }
    daemon.terminate().await;
    let (code, document) = examine(&home, None).await;
    assert_eq!(code, Some(1), "{document:#}");
    ails(&document, "problem", "agent", "CRM_KEY", "PUT /api/agents");
    assert_eq!(finding(&document, "agent", "acme:plain")["level"], "ok");
    // A server that was started without the variable says the same of itself.
    let _daemon = home.serve().await;
    let (code, document) = examine(&home, None).await;
    assert_eq!(code, Some(1), "{document:#}");
    ails(&document, "problem", "agent", "acme:crm", "calls of its tools fail");

    let broken = "[[agent]]\ntenant = \"acme\"\nchatbot = \"客服\"\n[[agent.timers]]\ntimer_id = \"idle\"\ndelay_seconds = 5\ntool_name = \"nobody\"\n";
    home.write_config(broken);
    let (code, document) = examine(&home, None).await;
    assert_eq!(code, Some(1), "{document:#}");
    ails(&document, "problem", "configuration", "nobody", "The server that runs is not affected");
}

/// A file of the first format that says it is of the second: so look forms from between two releases.
#[tokio::test]
async fn a_database_from_between_two_releases_is_found_and_refused() {
    let home = Home::default();
    fs::create_dir_all(home.data()).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/golden/v1.db");
    let mut bytes = fs::read(golden).unwrap();
    bytes[60..64].copy_from_slice(&2u32.to_be_bytes());
    fs::write(home.database(), bytes).unwrap();
    let (code, document) = examine(&home, None).await;
    assert_eq!(code, Some(1), "{document:#}");
    ails(&document, "problem", "database", "between two releases", "begin anew");
    let ran = Ran::of(&within("the server refuses", home.command(&["serve"]).output()).await.unwrap());
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("no column sessions.quiet") && ran.err.contains("move the file away"), "{ran:?}");
}

#[tokio::test]
async fn a_damaged_database_is_found() {
    let home = Home::default();
    home.serve().await.terminate().await;
    let file = OpenOptions::new().write(true).open(home.database()).unwrap();
    file.write_all_at(&[0x55; 2048], 4096).unwrap();
    let (code, document) = examine(&home, None).await;
    assert_eq!(code, Some(1), "{document:#}");
    ails(&document, "problem", "database", "damaged", "backup");
}

#[tokio::test]
async fn clients_are_looked_for_and_asked_what_they_know() {
    let home = Home::default();
    let programs = home.dir.path().join("bin");
    fs::create_dir(&programs).unwrap();
    for name in ["codex", "claude"] {
        fs::write(programs.join(name), "#!/bin/sh\n").unwrap();
        fs::set_permissions(programs.join(name), Permissions::from_mode(0o755)).unwrap();
    }
    let (_, document) = examine(&home, Some(&programs)).await;
    ails(&document, "note", "client", "codex is installed", "reveille setup codex --write");
    for client in ["codex", "claude-code"] {
        let written = home.run(&["setup", client, "--write"]).await;
        assert_eq!(written.code, Some(0), "{written:?}");
    }
    let (code, document) = examine(&home, Some(&programs)).await;
    assert_eq!(code, Some(0), "{document:#}");
    finding(&document, "client", "codex is set up");
    finding(&document, "client", "claude-code is set up");
    finding(&document, "wake command", "codex");
    // Somebody takes the hooks out again.
    fs::remove_file(home.dir.path().join(".codex/hooks.json")).unwrap();
    let (_, document) = examine(&home, Some(&programs)).await;
    ails(&document, "warning", "client", "codex knows Reveille, but not all of it", "reveille setup codex --write");
}
