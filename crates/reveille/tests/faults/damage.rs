//! A database that something has written over: refused with a word about it, or read as it was. Never less, in silence.

use crate::support::{
    process::{BINARY, Daemon, Home, Ran},
    *,
};
use reqwest::Method;
use serde_json::json;
use std::{fs, process::Stdio, time::Duration};
use tokio::io::{AsyncBufReadExt, BufReader};

const PAGE: usize = 4096;
const TIMERS: usize = 120;

/// A healthy file with this many timers in it.
async fn healthy(home: &Home) -> Vec<u8> {
    let daemon = home.serve().await;
    for number in 0..TIMERS {
        let body = json!({"total_duration": 100_000, "mission": format!("任务 {number} {}", "x".repeat(200))});
        let url = format!("{}/api/sessions/s{}/tools/timer", daemon.url, number % 7);
        assert_eq!(send(&client(), Method::POST, &url, Some(&body), None).await.status, 200);
    }
    assert_eq!(daemon.terminate().await, Some(0));
    fs::read(home.database()).unwrap()
}

/// What became of a server on these bytes: refused, noticed while it ran, or all is there.
async fn tried(home: &Home, bytes: &[u8], what: &str) -> &'static str {
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(home.data().join(format!("reveille.db{suffix}")));
    }
    fs::write(home.database(), bytes).unwrap();
    let mut command = home.wrap(BINARY);
    command.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await.expect("it starts or ends");
    let Some(line) = said.unwrap() else {
        let ended = Ran::of(&child.wait_with_output().await.unwrap());
        let clear =
            ["damaged", "not a Reveille database", "cannot be read"].iter().any(|word| ended.err.contains(word));
        assert!(ended.code == Some(1) && clear && !ended.err.contains("panicked"), "{what}: {ended:?}");
        assert!(fs::read(home.database()).unwrap() == bytes, "{what}: refused, and yet changed");
        return "refused";
    };
    let mut stderr = child.stderr.take().unwrap();
    let mut daemon = Daemon::found(child, lines, &line);
    let listed = try_send(&client(), Method::GET, &format!("{}/api/timers?limit=1000", daemon.url), None, None).await;
    let outcome = match listed {
        Ok(answer) if answer.status == 200 => {
            let found = list(&answer.body["timers"]).len();
            assert_eq!(found, TIMERS, "{what}: some are missing, and nobody was told");
            "whole"
        }
        Ok(answer) => {
            assert_eq!(
                (answer.status, answer.body["code"].as_str()),
                (503, Some("storage_damaged")),
                "{what}: {answer:?}"
            );
            "noticed"
        }
        // It ended by itself meanwhile.
        Err(_) => "noticed",
    };
    let _ = daemon.child.kill().await;
    let mut log = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stderr, &mut log).await.unwrap();
    assert!(!log.contains("panicked"), "{what}: {log}");
    outcome
}

#[tokio::test]
async fn damage_is_told_and_never_hidden() {
    let home = Home::default();
    let bytes = healthy(&home).await;
    let pages = bytes.len() / PAGE;
    assert!(pages > 20, "{pages} pages");
    assert_eq!(tried(&home, &bytes, "as it was").await, "whole");
    let mut outcomes = std::collections::BTreeMap::<&str, usize>::new();
    for page in 0..pages {
        let damages: [fn(&mut [u8]); 2] = [|page| page.fill(0), |page| page.fill(0xA5)];
        let mut damaged = bytes.clone();
        damages[page % 2](&mut damaged[page * PAGE..(page + 1) * PAGE]);
        *outcomes.entry(tried(&home, &damaged, &format!("page {page} of {pages}")).await).or_default() += 1;
    }
    for length in [0, 1, 100, PAGE, bytes.len() / 3, bytes.len() - PAGE, bytes.len() - 1] {
        if length == 0 {
            continue; // an empty file is a new database
        }
        let outcome = tried(&home, &bytes[..length], &format!("cut to {length}")).await;
        *outcomes.entry(outcome).or_default() += 1;
    }
    println!("{pages} pages damaged: {outcomes:?}");
    assert!(outcomes.get("refused").is_some_and(|refused| *refused > 3), "{outcomes:?}");
}
