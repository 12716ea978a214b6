//! A few changes of every kind, what was answered to each, and the judgement afterwards. It knows the API only.

use crate::support::{process::Home, *};
use reqwest::Method;
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

/// For a message that is about to come.
const LOOKS_MAX: usize = 50;

/// What the client knows.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Timers whose creation was acknowledged.
    made: Vec<String>,
    stopped: BTreeSet<String>,
    /// Stops that were sent and not acknowledged.
    unsure: BTreeSet<String>,
    delivered: BTreeSet<String>,
    pub acknowledged: usize,
    /// Status and code of every refusal; 0 where the connection broke.
    pub refusals: Vec<(u16, String)>,
}

impl Ledger {
    /// Makes, ends, delivers and stops, one after the other, whatever comes back.
    pub async fn work(&mut self, url: &str, round: usize) {
        for number in 0..3 {
            let (session, key) = (format!("会话-{number}"), format!("key-{round}-{number}"));
            let ask = json!({"total_duration": 1000, "mission": format!("任务 {number}")});
            if let Some(made) = self.ask(url, &format!("{session}/tools/timer"), ask, Some(&key)).await {
                self.made.push(id(&made));
            }
        }
        if let Some(timer) = self.made.iter().find(|timer| !self.stopped.contains(*timer)).cloned() {
            let session = format!("会话-{}", self.made.iter().position(|made| *made == timer).unwrap() % 3);
            self.unsure.insert(timer.clone());
            let ask = json!({"timer_id": timer, "reason": "够了"});
            // The session may be another where creations were refused; then nothing is changed.
            if self.ask(url, &format!("{session}/tools/stop_timer"), ask, None).await.is_some() {
                self.unsure.remove(&timer);
                self.stopped.insert(timer);
            }
        }
        let ask = json!({"total_duration": 0.001, "mission": "now"});
        self.ask(url, "waits/tools/timer", ask, None).await;
        for _ in 0..LOOKS_MAX {
            let Some(leased) = self.ask(url, "waits/inbox/lease", json!({}), None).await else { break };
            let Some(lease) = leased["lease"].as_str() else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let ids: Vec<String> = list(&leased["messages"]).iter().map(|message| text(&message["id"])).collect();
            if self.ask(url, "waits/inbox/commit", json!({"lease": lease}), None).await.is_some() {
                self.delivered.extend(ids);
            }
            break;
        }
    }

    async fn ask(&mut self, url: &str, path: &str, body: Value, key: Option<&str>) -> Option<Value> {
        let (http, url) = (client(), format!("{url}/api/sessions/{path}"));
        let asked = try_send(&http, Method::POST, &url, Some(&body), key);
        match tokio::time::timeout(Duration::from_secs(60), asked).await.expect("an answer or an end") {
            Ok(answer) if answer.status == 200 => {
                self.acknowledged += 1;
                Some(answer.body)
            }
            Ok(answer) => {
                let code = answer.body["code"].as_str().unwrap_or_default().to_owned();
                self.refusals.push((answer.status, code));
                None
            }
            Err(_) => {
                self.refusals.push((0, String::new()));
                None
            }
        }
    }

    /// Acknowledged ones; asking for what is not there changes nothing.
    pub fn changes(&self) -> usize {
        self.made.len() + self.stopped.len() + self.delivered.len()
    }

    /// On a server without faults: everything acknowledged is there, nothing is half done, and the books agree.
    pub async fn judge(&self, home: &Home, what: &str) {
        let daemon = home.serve().await;
        let get = async |path: &str| {
            let answer = send(&client(), Method::GET, &format!("{}{path}", daemon.url), None, None).await;
            assert_eq!(answer.status, 200, "{what}: {path}: {}", answer.body);
            answer.body
        };
        let timers = list(&get("/api/timers?limit=1000").await["timers"]);
        let history = list(&get("/api/history?after=0&limit=1000").await["entries"]);
        let seen: BTreeSet<String> = timers.iter().map(id).collect();
        for made in &self.made {
            assert!(seen.contains(made), "{what}: {made} was acknowledged and is gone");
        }
        for timer in &timers {
            let name = id(timer);
            if self.stopped.contains(&name) {
                assert_eq!(timer["status"], "stopped", "{what}: the stop of {name} was acknowledged");
            } else if self.made.contains(&name) && !self.unsure.contains(&name) {
                assert_eq!(timer["status"], "running", "{what}: {timer}");
            }
            let told = history.iter().filter(|entry| entry["id"] == name.as_str());
            let created = told.filter(|entry| entry["event"] == "timer.created").count();
            assert_eq!(created, 1, "{what}: {name} is there without its beginning");
        }
        let created = history.iter().filter(|entry| entry["event"] == "timer.created").count();
        assert_eq!(created, timers.len(), "{what}: a beginning without its timer");
        let numbers: Vec<i64> = history.iter().map(|entry| entry["seq"].as_i64().unwrap()).collect();
        assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>(), "{what}: the history has a gap");
        let delivered: Vec<String> = history
            .iter()
            .filter(|entry| entry["event"] == "message.delivered")
            .map(|entry| text(&entry["id"]))
            .collect();
        let once: BTreeSet<String> = delivered.iter().cloned().collect();
        assert_eq!(once.len(), delivered.len(), "{what}: something was delivered twice");
        assert!(self.delivered.is_subset(&once), "{what}: a delivery was acknowledged and is not recorded");
        assert_eq!(get("/api/stats").await["timers"]["created"], timers.len(), "{what}");
        assert_eq!(daemon.terminate().await, Some(0), "{what}");
        let log = std::fs::read_to_string(home.log()).unwrap();
        assert!(!log.contains("panicked"), "{what}: {log}");
    }
}
