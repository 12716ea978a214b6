//! What must be true, whatever happened. It uses only the API, and the clients' ledger.

use crate::{
    SESSIONS,
    ledger::{Ledger, made, not_again},
    support::{client, list, send, text, within},
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

/// All timers, or all reminders.
async fn all(site: &Site, what: &str) -> BTreeMap<String, Value> {
    let (mut found, mut after) = (BTreeMap::new(), String::new());
    let id = |item: &Value| text(item.get("timer_id").unwrap_or(&item["taskId"]));
    loop {
        let page = site.get(&format!("/api/{what}?limit=1000{after}")).await;
        found.extend(list(&page[what]).into_iter().map(|item| (id(&item), item)));
        match page["next"].as_i64() {
            Some(next) => after = format!("&after={next}"),
            None => return found,
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
    let (timers, reminders) = (all(site, "timers").await, all(site, "reminders").await);
    let history = all_history(site).await;
    let delivered =
        history.iter().filter(|entry| entry["event"] == "message.delivered").map(|entry| text(&entry["id"]));
    let mut once = BTreeSet::new();
    for message in delivered {
        assert!(once.insert(message.clone()), "{message} was delivered twice");
    }
    ledger.with(|known| {
        for (key, creation) in &known.creations {
            let Some(made) = &creation.made else { continue };
            let found = timers.get(made).or(reminders.get(made));
            let found = found.unwrap_or_else(|| panic!("{made} ({key}) was acknowledged and is gone"));
            assert_eq!(found["session"], creation.session);
        }
        for task in &known.cancelled {
            assert_eq!(reminders[task]["status"], "cancelled", "the cancelling of {task} was acknowledged");
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
        let path = format!("/api/sessions/{}/tools/{}", creation.session, creation.tool);
        let delivered = ledger.delivered();
        let answer = site.post(&path, &creation.arguments, Some(key)).await;
        not_again(&answer, &delivered);
        ledger.created(key, &made(&answer));
    }
    all_ended(site).await;
    drain(site, ledger).await;

    let (timers, reminders) = (all(site, "timers").await, all(site, "reminders").await);
    let history = all_history(site).await;
    let made: BTreeSet<String> =
        ledger.with(|known| known.creations.values().map(|creation| creation.made.clone().unwrap()).collect());
    let found = timers.keys().chain(reminders.keys()).cloned().collect();
    assert_eq!(made, found, "one timer or reminder for each key, and no others");
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
    let told_of = reminders_ended(&reminders, &by_subject);
    ledger.with(|known| {
        for timer in &known.stopped {
            assert_eq!(timers[timer]["status"], "stopped");
        }
        for task in &known.cancelled {
            assert_eq!(reminders[task]["status"], "cancelled");
        }
    });
    let stats = site.get("/api/stats").await;
    let expected = json!({
        "created": timers.len(), "running": 0, "paused": 0, "running_background": 0, "completed": completed,
        "stopped": stopped, "fired": 0, "missed": 0,
    });
    assert_eq!(stats["timers"], expected);
    let messages = &stats["messages"];
    assert_eq!((&messages["delivered"], &messages["pending"]), (&json!(completed + told_of), &json!(0)), "{messages}");
    let withdrawn = messages["created"].as_i64().unwrap() - messages["delivered"].as_i64().unwrap();
    assert_eq!(messages["withdrawn"], withdrawn, "those of reminders that were cancelled when they were due");
    assert_eq!(stats["sessions"], SESSIONS.len());
    for session in list(&site.get("/api/sessions").await["sessions"]) {
        assert_eq!((&session["live_timers"], &session["live_reminders"]), (&json!(0), &json!(0)), "{session}");
    }
    let answers = ledger.with(|known| known.answers.clone());
    let (timers, reminders) = (timers.len(), reminders.len());
    let summary = format!("{timers} timers, {reminders} reminders, {} entries, answers: {answers:?}", history.len());
    Told { history, summary }
}

/// Each was told once, or cancelled and not told; how many were told.
fn reminders_ended(reminders: &BTreeMap<String, Value>, by_subject: &BTreeMap<String, Vec<&Value>>) -> usize {
    let mut told_of = 0;
    for (task, shown) in reminders {
        let delivered = |entry: &&&Value| entry["event"] == "message.delivered";
        let told = by_subject.get(&format!("msg_{task}")).map_or(0, |told| told.iter().filter(delivered).count());
        match shown["status"].as_str() {
            Some("delivered") => assert_eq!(told, 1, "{task} must be told exactly once"),
            Some("cancelled") => assert_eq!(told, 0, "{task} was cancelled, and is told"),
            _ => panic!("neither told nor cancelled: {shown}"),
        }
        told_of += told;
    }
    told_of
}

/// Timers have ended, and reminders are to be told.
async fn all_ended(site: &Site) {
    within("every timer ends", async {
        for (what, status) in [("timers", "live"), ("reminders", "scheduled")] {
            while !list(&site.get(&format!("/api/{what}?status={status}")).await[what]).is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
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
