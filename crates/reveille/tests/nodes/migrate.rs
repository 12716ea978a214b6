//! `reveille migrate`: an operator's one machine becomes several nodes, and every timer goes on.

use crate::support::{process::*, *};
use scratch_postgres::Cluster;
use serde_json::json;

#[tokio::test]
async fn a_server_moves_to_postgres_with_everything() {
    let home = Home::default();
    let daemon = home.serve().await;
    let timer = home.mission("1h").await;
    let url = Cluster::shared().database();
    let busy = home.run(&["migrate", "--to", &url]).await;
    assert_eq!((busy.code, busy.err.contains("in use")), (Some(1), true), "{busy:?}");
    assert_eq!(daemon.terminate().await, Some(0));
    let wrong = home.run(&["migrate", "--to", "mysql://x"]).await;
    assert_eq!((wrong.code, wrong.err.contains("postgres://")), (Some(1), true), "{wrong:?}");

    let from = format!("sqlite:{}", home.database().display());
    let moved = home.run(&["migrate", "--from", &from, "--to", &url, "--json"]).await;
    assert_eq!(moved.code, Some(0), "{moved:?}");
    let rows = &moved.json()["rows"];
    has(rows, json!({"sessions": 1, "items": 1, "messages": 0, "history": 2, "conversation": 0, "agents": 0}));
    assert!(rows["tallies"].as_i64() > Some(0) && rows["hours"].as_i64() > Some(0), "{rows}");
    home.write_config(&format!("database_url = \"{url}\"\n"));
    let daemon = home.serve().await;
    let shown = home.run(&["--json", "read", &timer]).await;
    has(&shown.json(), json!({"timer_id": timer, "status": "running", "mission": "wake up"}));
    assert_eq!(daemon.terminate().await, Some(0));
}
