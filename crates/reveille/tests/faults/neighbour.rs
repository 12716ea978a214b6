//! A neighbour that eats all memory: a wake command that is given no more of it fails alone. The server writes it down and
//! goes on.

use crate::support::{
    process::{Daemon, Home},
    *,
};
use reqwest::Method;
use serde_json::json;
use std::time::Duration;

const CONFIG: &str = r#"
[wake.hungry]
match = "hungry*"
command = ["/bin/sh", "-c", "ulimit -v 300000; exec tail /dev/zero"]
grace = "0.1s"
retries = 0
"#;

#[tokio::test]
async fn a_command_without_memory_fails_alone() {
    let home = Home::default();
    home.write_config(CONFIG);
    let daemon: Daemon = home.serve().await;
    let ask = async |method: Method, path: &str, body| {
        let answer = send(&client(), method, &format!("{}{path}", daemon.url), body, None).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    };
    let body = json!({"total_duration": 0.1, "mission": "吃"});
    ask(Method::POST, "/api/sessions/hungry/tools/timer", Some(&body)).await;
    let ended = within("the command ends", async {
        loop {
            let told = ask(Method::GET, "/api/history?event=wake.ended", None).await;
            if let Some(entry) = list(&told["entries"]).pop() {
                return entry;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_ne!(ended["data"]["exit"], 0, "{ended}");
    assert_eq!(ended["data"]["told"], false, "{ended}");
    // Its message is still to be had.
    assert_eq!(list(&ask(Method::GET, "/api/sessions/hungry/inbox", None).await["messages"]).len(), 1);
    assert_eq!(daemon.terminate().await, Some(0));
}
