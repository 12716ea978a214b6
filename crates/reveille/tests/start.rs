//! Starting and stopping the real binary: what it refuses to run with or on, and that it goes down without loss.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt, process::Stdio};
use support::{
    process::{Home, Ran, exists},
    *,
};

#[tokio::test]
async fn the_configuration_is_checked() {
    let home = Home::default();
    let plain = home.run(&["config", "check"]).await;
    assert_eq!(plain.code, Some(0), "{plain:?}");
    assert!(plain.out.contains("127.0.0.1:7383"));
    home.write_config("listen = \"127.0.0.1:0\"\nretention = \"1d\"\n[limits]\ntimers_per_session = 7\n");
    let good = home.run(&["config", "check", "--json"]).await;
    has(&good.json(), json!({"listen": "127.0.0.1:0", "retention": "86400s"}));
    assert_eq!(good.json()["limits"]["timers_per_session"], 7);
    let over = home.command(&["config", "check", "--json"]).env("REVEILLE_LIMITS_TIMERS_PER_SESSION", "9").output();
    assert_eq!(Ran::of(&over.await.unwrap()).json()["limits"]["timers_per_session"], 9);

    for (text, named) in [
        ("lisen = \"127.0.0.1:0\"", "lisen"),
        ("listen = 7383", "listen"),
        ("listen = \"0.0.0.0:7383\"", "token_file"),
        ("retention = \"soon\"", "retention"),
        ("[limits]\ntimers_per_session = 0", "limits.timers_per_session"),
        ("[limits]\nlease = -1", "lease"),
        ("server_id = \" \"", "server_id"),
        ("database_url = \"mysql://x\"", "database_url"),
        ("this is not toml", "reveille.toml"),
    ] {
        home.write_config(text);
        for arguments in [&["config", "check"][..], &["serve", "--listen", "127.0.0.1:0"]] {
            let listens = text.starts_with("listen = \"0") && arguments[0] == "serve"; // the flag mends it
            if listens {
                continue;
            }
            let refused = home.run(arguments).await;
            assert_eq!(refused.code, Some(1), "{arguments:?} {text}: {refused:?}");
            assert!(refused.err.contains(named), "{text}: {refused:?}");
        }
    }
    let missing = home.run(&["--config", "/nowhere/reveille.toml", "config", "check"]).await;
    assert_eq!((missing.code, missing.err.contains("/nowhere/reveille.toml")), (Some(1), true));
}

#[tokio::test]
async fn two_servers_do_not_share_a_data_directory() {
    let home = Home::default();
    let daemon = home.serve().await;
    let timer = home.mission("1h").await;
    let second = home.run(&["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(second.err.contains("in use") && second.err.contains(&daemon.pid().to_string()), "{second:?}");
    // The first goes on, and commands still find it.
    assert!(home.run(&["ls"]).await.out.contains(&timer));
    // Nor an address.
    let address = daemon.url.trim_start_matches("http://").to_owned();
    let other = Home::default();
    let taken = other.run(&["serve", "--listen", &address]).await;
    assert_eq!((taken.code, taken.err.contains("cannot listen")), (Some(1), true), "{taken:?}");
    let mode = fs::metadata(home.database()).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "what agents write is nobody else's business");
}

#[tokio::test]
async fn a_database_that_is_not_ours_or_newer_is_left_alone() {
    let home = Home::default();
    assert_eq!(home.serve().await.terminate().await, Some(0));
    let ours = fs::read(home.database()).unwrap();
    let changed = |at: usize, bytes: [u8; 4]| {
        let mut file = ours.clone();
        file[at..at + 4].copy_from_slice(&bytes);
        file
    };
    // At 60 SQLite keeps the version of the format, at 68 whose it is.
    for (file, words) in [
        (b"shopping list: milk, eggs\n".repeat(100), "not a Reveille database"),
        (changed(68, 1234u32.to_be_bytes()), "not a Reveille database"),
        (changed(68, [0; 4]), "not a Reveille database"),
        (changed(60, 99u32.to_be_bytes()), "newer Reveille"),
    ] {
        fs::write(home.database(), &file).unwrap();
        let refused = home.run(&["serve", "--listen", "127.0.0.1:0"]).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.err.contains(words) && refused.err.contains("reveille.db"), "{refused:?}");
        assert!(fs::read(home.database()).unwrap() == file, "it was changed ({words})");
        assert!(!exists(&home.data().join("address")));
    }
    // A file that is cut off is not silently begun anew.
    fs::write(home.database(), &ours[..ours.len() / 2]).unwrap();
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    let started = within("an end", async {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let early = tokio::time::timeout(std::time::Duration::from_secs(3), child.wait()).await;
        let _ = child.kill().await;
        early.ok().map(|status| status.unwrap().code())
    })
    .await;
    assert_eq!(started, Some(Some(1)), "a damaged database must be refused");
    fs::write(home.database(), &ours).unwrap();
    assert_eq!(home.serve().await.terminate().await, Some(0));
}

#[tokio::test]
async fn sigterm_answers_waiting_calls_and_loses_nothing() {
    let home = Home::default();
    let daemon = home.serve().await;
    let waiting = home.spawn(&["--json", "timer", "1h", "--reason", "long"]);
    let short = home.mission("100ms").await;
    daemon.standing(1).await;
    let stream = client().get(format!("{}/api/events", daemon.url)).send().await.unwrap();
    assert!(exists(&home.data().join("address")));
    assert_eq!(daemon.terminate().await, Some(0));
    let answered = waiting.await.unwrap();
    assert_eq!(answered.code, Some(4), "{answered:?}");
    has(&answered.json(), json!({"outcome": "timeout", "status": "running"}));
    stream.bytes().await.expect("the stream ends properly");
    assert!(!exists(&home.data().join("address")));

    let daemon = home.serve().await;
    let read = home.run(&["read", "--json", &id(&answered.json())]).await.json();
    has(&read, json!({"status": "running", "reason": "long"}));
    within("the overdue mission", async {
        while home.run(&["read", "--json", &short]).await.json()["status"] != "completed" {}
    })
    .await;
    // Interrupted by hand it ends the same way.
    daemon.signal(rustix::process::Signal::INT);
    assert_eq!(daemon.ended().await, Some(0));
}
