//! What must be true, whatever happened. It uses only the API, and the clients' ledger.

use crate::{
    SESSIONS,
    ledger::{Ledger, not_again},
    support::{client, id, list, send, text, within},
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

/// Everything, as told at the end.
pub struct Told {
    pub history: Vec<Value>,
    summary: String,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary)
    }
}

/// A server to look at.
pub struct Site {
    url: String,
    http: reqwest::Client,
}

impl Site {
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned(), http: client() }
    }

    async fn get(&self, path: &str) -> Value {
        let answer = send(&self.http, Method::GET, &format!("{}{path}", self.url), None, None).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    async fn post(&self, path: &str, body: &Value, key: Option<&str>) -> Value {
        let answer = send(&self.http, Method::POST, &format!("{}{path}", self.url), Some(body), key).await;
        assert_eq!(answer.status, 200, "{path} {body}: {}", answer.body);
        answer.body
    }
}

async fn all_timers(site: &Site) -> BTreeMap<String, Value> {
    let (mut timers, mut after) = (BTreeMap::new(), String::new());
    loop {
        let page = site.get(&format!("/api/timers?limit=1000{after}")).await;
        timers.extend(list(&page["timers"]).into_iter().map(|timer| (id(&timer), timer)));
        match page["next"].as_i64() {
            Some(next) => after = format!("&after={next}"),
            None => return timers,
        }
    }
}

async fn all_history(site: &Site) -> Vec<Value> {
    let mut history: Vec<Value> = Vec::new();
    loop {
        let last = history.last().map_or(0, |entry| entry["seq"].as_i64().unwrap());
        let page = list(&site.get(&format!("/api/history?limit=1000&after={last}")).await["entries"]);
        if page.is_empty() {
            return history;
        }
        history.extend(page);
    }
}

/// Right after a start: every acknowledged change is there.
pub async fn after_restart(site: &Site, ledger: &Ledger) {
    let (timers, history) = (all_timers(site).await, all_history(site).await);
    let delivered =
        history.iter().filter(|entry| entry["event"] == "message.delivered").map(|entry| text(&entry["id"]));
    let mut once = BTreeSet::new();
    for message in delivered {
        assert!(once.insert(message.clone()), "{message} was delivered twice");
    }
    ledger.with(|known| {
        for (key, creation) in &known.creations {
            let Some(timer) = &creation.timer else { continue };
            let found = timers.get(timer).unwrap_or_else(|| panic!("{timer} ({key}) was acknowledged and is gone"));
            assert_eq!(found["session"], creation.session);
        }
        for timer in &known.stopped {
            assert_eq!(timers[timer]["status"], "stopped", "the stop of {timer} was acknowledged");
        }
        for message in &known.delivered {
            assert!(once.contains(message), "the commit of {message} was acknowledged and is not recorded");
        }
        known.delivered.extend(once);
    });
    for session in SESSIONS {
        let delivered = ledger.delivered();
        not_again(&site.get(&format!("/api/sessions/{session}/inbox")).await, &delivered);
    }
}

/// After the last start: everything comes to its end, and the books agree.
pub async fn at_the_end(site: &Site, ledger: &Ledger) -> Told {
    all_ended(site).await;
    // Each creation once more: what was acknowledged is found again, what was not may be made now, nothing is doubled.
    let creations = ledger.with(|known| known.creations.clone());
    for (key, creation) in &creations {
        let path = format!("/api/sessions/{}/tools/timer", creation.session);
        let delivered = ledger.delivered();
        let answer = site.post(&path, &creation.arguments, Some(key)).await;
        not_again(&answer, &delivered);
        ledger.created(key, &id(&answer));
    }
    all_ended(site).await;
    drain(site, ledger).await;

    let (timers, history) = (all_timers(site).await, all_history(site).await);
    let made: BTreeSet<String> =
        ledger.with(|known| known.creations.values().map(|creation| creation.timer.clone().unwrap()).collect());
    assert_eq!(made, timers.keys().cloned().collect(), "one timer for each key, and no others");
    let numbers: Vec<i64> = history.iter().map(|entry| entry["seq"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>(), "the history has a gap");

    let mut by_subject: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for entry in &history {
        by_subject.entry(text(&entry["id"])).or_default().push(entry);
    }
    let (mut completed, mut stopped) = (0, 0);
    for (timer, shown) in &timers {
        let replayed = Replay::of(&by_subject[timer]);
        assert_eq!(shown["status"], replayed.end, "{shown}");
        let message = timer.replace("timer_", "msg_");
        let told = by_subject.get(&message).map_or(0, Vec::len);
        if replayed.end == "completed" {
            completed += 1;
            assert_eq!(told, 1, "the end of {timer} must be told exactly once");
        } else {
            stopped += 1;
            assert_eq!(told, 0, "{timer} was stopped and is told as ended");
        }
    }
    ledger.with(|known| {
        for timer in &known.stopped {
            assert_eq!(timers[timer]["status"], "stopped");
        }
    });
    let stats = site.get("/api/stats").await;
    let expected = json!({
        "created": timers.len(), "running": 0, "paused": 0, "running_background": 0, "completed": completed,
        "stopped": stopped, "fired": 0, "missed": 0,
    });
    assert_eq!(stats["timers"], expected);
    assert_eq!(stats["messages"], json!({"created": completed, "delivered": completed, "withdrawn": 0, "pending": 0}));
    assert_eq!(stats["sessions"], SESSIONS.len());
    for session in list(&site.get("/api/sessions").await["sessions"]) {
        assert_eq!(session["live_timers"], 0, "{session}");
    }
    let answers = ledger.with(|known| known.answers.clone());
    let summary = format!("{} timers, {} entries, answers: {answers:?}", timers.len(), history.len());
    Told { history, summary }
}

async fn all_ended(site: &Site) {
    within("every timer ends", async {
        while !list(&site.get("/api/timers?status=live").await["timers"]).is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// Takes every message that is still to be had, through the inbox.
async fn drain(site: &Site, ledger: &Ledger) {
    for session in SESSIONS {
        let post = async |how: &str, body: Value| {
            site.post(&format!("/api/sessions/{session}/inbox/{how}"), &body, None).await
        };
        within("leases that nobody holds run out", async {
            loop {
                let delivered = ledger.delivered();
                let leased = post("lease", json!({"duration": 60})).await;
                not_again(&leased, &delivered);
                if leased.get("lease").is_some() {
                    post("commit", json!({"lease": leased["lease"]})).await;
                    let ids = list(&leased["messages"]).into_iter().map(|message| text(&message["id"]));
                    ledger.with(|known| known.delivered.extend(ids));
                } else if list(&site.get(&format!("/api/sessions/{session}/inbox")).await["messages"]).is_empty() {
                    break;
                } else {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        })
        .await;
    }
}

/// The life of a timer, worked out once more from its history alone.
struct Replay {
    due: i64,
    frozen: Option<i64>,
    end: &'static str,
}

impl Replay {
    fn of(entries: &[&Value]) -> Self {
        let mut replay = Replay { due: 0, frozen: None, end: "" };
        for entry in entries {
            // Only a call that stood by may still come back from it.
            let possible = replay.end.is_empty() || entry["event"] == "timer.checked";
            assert!(possible, "something happened after the end: {entries:?}");
            replay.step(entry, entries);
        }
        replay
    }

    fn step(&mut self, entry: &Value, all: &[&Value]) {
        let (at, data) = (entry["at"].as_i64().unwrap(), &entry["data"]);
        let ms = |field: &str| data[field].as_f64().map(|seconds| (seconds * 1000.0).round() as i64);
        match text(&entry["event"]).as_str() {
            "timer.created" => self.due = at + ms("total_duration").unwrap(),
            "timer.paused" => {
                let left = self.frozen.unwrap_or(self.due - at);
                assert_eq!(ms("remaining_time"), Some(left), "a pause changed what remains: {all:?}");
                self.frozen = Some(left);
            }
            "timer.resumed" => {
                let left = self.frozen.take().expect("only a paused timer resumes");
                // By itself at the end of the pause, or by hand now.
                self.due = left + data["due"].as_i64().unwrap_or(at);
            }
            "timer.continued" => match (ms("remaining_time"), &mut self.frozen) {
                (Some(left), Some(frozen)) => *frozen = left,
                (Some(left), None) => self.due = at + left,
                (None, _) => {}
            },
            "timer.completed" => {
                assert_eq!(self.frozen, None, "a paused timer ended: {all:?}");
                assert_eq!(data["due"], self.due, "ended at another time than it should: {all:?}");
                assert!(at >= self.due, "{} ms early: {all:?}", self.due - at);
                assert_eq!(data["lateness_ms"], at - self.due);
                self.end = "completed";
            }
            "timer.stopped" => self.end = "stopped",
            "timer.background" | "timer.checked" => {}
            other => panic!("unknown event {other}"),
        }
    }
}
