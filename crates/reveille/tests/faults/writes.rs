//! The n-th write, sync or truncation fails, for every n there is: with an I/O error once, for good, with a full disk, or
//! with the end of the process at that very point.

use crate::{
    ledger::Ledger,
    shim::{Faults, Shim},
    support::{process::Home, within},
};
use futures_util::{StreamExt, stream};

const EIO: i64 = 5;
const ENOSPC: i64 = 28;
const EROFS: i64 = 30;
/// Servers at a time.
const AT_ONCE: usize = 4;

/// A run of the same work, with these faults; how many operations there were.
async fn run(faults: Faults) -> i64 {
    let (home, what) = (Home::default(), format!("{faults:?}"));
    let shim = Shim::new(&home, faults);
    let mut ledger = Ledger::default();
    match shim.serve(&home).await {
        Ok(daemon) => {
            ledger.work(&daemon.url, 0).await;
            for (status, code) in &ledger.refusals {
                let known = matches!(code.as_str(), "storage_failed" | "storage_full" | "storage_unwritable")
                    || (*status == 0 && faults.errno == 0)
                    // Of what could not be made.
                    || code.as_str() == "unknown_timer";
                assert!(known, "{what}: {status} {code}");
            }
            if faults.first == 0 {
                assert!(ledger.refusals.is_empty() && ledger.acknowledged >= 6, "{what}: {ledger:?}");
            }
            daemon.kill().await;
        }
        // It ended before it listened: with a word about why, unless it was ended.
        Err(code) => {
            let log = std::fs::read_to_string(home.log()).unwrap();
            let said = log.contains("reveille: ") && code == Some(1);
            assert!(said || faults.errno == 0 && code == Some(137), "{what}: {code:?} {log}");
        }
    }
    ledger.judge(&home, &what).await;
    shim.operations()
}

/// Every point of the run, and then some: background work makes their number vary a little.
async fn at_every_point(count: i64, errno: i64, step: usize) {
    let operations = run(Faults::default()).await;
    assert!(operations > 20, "only {operations} operations: is the shim there?");
    println!("errno {errno}: {operations} operations");
    let points: Vec<i64> = (1..=operations + 2).step_by(step).collect();
    stream::iter(points)
        .for_each_concurrent(AT_ONCE, async |first| {
            run(Faults { first, count, errno, clock: 0 }).await;
        })
        .await;
}

#[tokio::test]
async fn one_operation_fails() {
    at_every_point(1, EIO, 1).await;
}

#[tokio::test]
async fn the_power_goes() {
    at_every_point(0, 0, 1).await;
}

#[tokio::test]
async fn the_disk_fails_for_good_or_is_full_from_a_point_on() {
    at_every_point(0, EIO, 10).await;
    at_every_point(0, ENOSPC, 10).await;
}

/// The file system is made read-only under a running server: changes are refused, looking goes on, and nothing is lost.
#[tokio::test]
async fn a_file_that_can_no_longer_be_written() {
    let home = Home::default();
    let shim = Shim::new(&home, Faults::default());
    let daemon = shim.serve(&home).await.expect("it starts");
    let mut ledger = Ledger::default();
    ledger.work(&daemon.url, 0).await;
    let before = ledger.changes();
    shim.set(Faults { first: 1, errno: EROFS, ..Faults::default() });
    ledger.work(&daemon.url, 1).await;
    assert_eq!(ledger.changes(), before, "{ledger:?}");
    assert!(ledger.refusals.iter().all(|(status, _)| *status == 503), "{:?}", ledger.refusals);
    let look = within("looking", crate::support::client().get(format!("{}/api/timers", daemon.url)).send()).await;
    assert_eq!(look.unwrap().status(), 200);
    daemon.kill().await;
    ledger.judge(&home, "read-only").await;
}
