//! Crash test: the real binary under random load, killed with SIGKILL at random moments and started again on the same
//! data, round after round. At the end an oracle that has only seen the answers looks at everything.
//!
//! `REVEILLE_CRASH_ROUNDS` asks for more rounds, `REVEILLE_CRASH_SEED` for others. A failure names the seed; how the
//! processes interleave is chance all the same.

#![allow(clippy::unwrap_used)]

mod follow;
mod ledger;
mod load;
mod oracle;
#[path = "../support/mod.rs"]
mod support;

use ledger::Ledger;
use load::{Client, Random};
use oracle::Site;
use std::{sync::Arc, time::Duration};
use support::{process::Home, *};

/// Short leases, so that what a killed process held is free again before the test ends. Reminders are due at their time.
const CONFIG: &str = "[limits]\nlease = \"1s\"\n[gateway]\ndue_window = \"1ms\"\n";
const CLIENTS: usize = 8;
pub const SESSIONS: [&str; 3] = ["red", "green", "blue"];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_acknowledged_is_lost_and_nothing_is_delivered_twice() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (rounds, seed) = (number("REVEILLE_CRASH_ROUNDS", 10), number("REVEILLE_CRASH_SEED", 1));
    println!("REVEILLE_CRASH_SEED={seed} REVEILLE_CRASH_ROUNDS={rounds}");
    let mut random = Random(seed);
    let home = Home::default();
    home.write_config(CONFIG);
    let ledger = Arc::new(Ledger::default());
    let mut follower = follow::Follower::default();

    for round in 0..rounds {
        let daemon = home.serve().await;
        oracle::after_restart(&Site::new(&daemon.url), &ledger).await;
        let mut clients = Vec::new();
        for client in 0..CLIENTS {
            let client = Client::new(&daemon.url, &ledger, format!("{round}-{client}"), random.next());
            clients.push(tokio::spawn(client.run()));
        }
        let life = Duration::from_millis(50 + random.below(900));
        let died = tokio::time::timeout(life, follower.follow(&daemon.url)).await;
        assert!(died.is_err(), "the stream of events ended before its time");
        daemon.kill().await;
        for client in clients {
            within("the client notices", client).await.unwrap();
        }
        // Sometimes nobody runs for a while, and deadlines pass.
        tokio::time::sleep(Duration::from_millis(random.below(3) * 100)).await;
    }

    let daemon = home.serve().await;
    oracle::after_restart(&Site::new(&daemon.url), &ledger).await;
    let told = oracle::at_the_end(&Site::new(&daemon.url), &ledger).await;
    follower.catch_up(&daemon.url, told.history.len()).await;
    assert_eq!(follower.seen, told.history, "the followed events are not the history");
    assert_eq!(daemon.terminate().await, Some(0));
    let log = std::fs::read_to_string(home.log()).unwrap();
    assert!(!log.contains("panicked"), "{log}");
    println!("{told}");
}
