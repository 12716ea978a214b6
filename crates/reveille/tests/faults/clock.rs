//! The machine's clock is set by hours while no server runs. (While one runs: `tests/clock.rs`.)

use crate::{
    shim::{Faults, Shim},
    support::{process::Home, *},
};
use reqwest::Method;
use serde_json::{Value, json};

const HOUR: i64 = 3600;

async fn ask(url: &str, method: Method, path: &str, body: Option<&Value>) -> Value {
    let answer = send(&client(), method, &format!("{url}{path}"), body, None).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body
}

#[tokio::test]
async fn a_clock_set_forward_makes_deadlines_come_and_one_set_back_delays_them() {
    let home = Home::default();
    let shim = Shim::new(&home, Faults::default());
    let at = |clock: i64| Faults { clock, ..Faults::default() };
    let daemon = shim.serve(&home).await.expect("it starts");
    let create = async |url: &str, session: &str, seconds: i64| {
        let body = json!({"total_duration": seconds, "mission": "m"});
        id(&ask(url, Method::POST, &format!("/api/sessions/{session}/tools/timer"), Some(&body)).await)
    };
    let near = create(&daemon.url, "near", HOUR).await;
    let far = create(&daemon.url, "far", 10 * HOUR).await;
    daemon.kill().await;

    // Two hours on: the one is overdue and fires at once, the other is not.
    shim.set(at(2 * HOUR));
    let daemon = shim.serve(&home).await.expect("it starts");
    let status = async |url: &str, timer: &str| {
        text(&ask(url, Method::GET, &format!("/api/timers/{timer}"), None).await["status"])
    };
    within("the overdue timer fires", async {
        while status(&daemon.url, &near).await != "completed" {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    assert_eq!(status(&daemon.url, &far).await, "running");
    daemon.kill().await;

    // Back before its creation: it has fired once and stays so; the other has all its time, and what is made now is right.
    shim.set(at(-5 * HOUR));
    let daemon = shim.serve(&home).await.expect("it starts");
    assert_eq!(status(&daemon.url, &near).await, "completed");
    let shown = ask(&daemon.url, Method::GET, &format!("/api/timers/{far}"), None).await;
    let number = |field: &str| shown[field].as_f64().unwrap();
    assert_eq!(shown["status"], "running");
    assert!((number("elapsed_time") + number("remaining_time") - number("total_duration")).abs() < 1e-6, "{shown}");
    assert!(number("elapsed_time") >= 0.0 && number("remaining_time") > 0.0, "{shown}");
    let quick = create(&daemon.url, "quick", 1).await;
    within("a timer of that time fires", async {
        while status(&daemon.url, &quick).await != "completed" {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    let inbox = ask(&daemon.url, Method::GET, "/api/sessions/near/inbox", None).await;
    assert_eq!(list(&inbox["messages"]).len(), 1, "told once: {inbox}");
    assert_eq!(daemon.terminate().await, Some(0));
}
