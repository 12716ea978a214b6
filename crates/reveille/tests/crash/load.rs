//! Random load: what an agent, an operator or a channel may do, in any order, until the server is gone.

use crate::{
    SESSIONS,
    ledger::{Creation, Ledger, made, not_again},
    support::{Answer, client, text, try_send},
};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

pub struct Client {
    url: String,
    http: reqwest::Client,
    ledger: Arc<Ledger>,
    name: String,
    random: Random,
    made: u64,
    /// Own timers, which nobody else acts on.
    own: Vec<(&'static str, String)>,
    reminders: Vec<(&'static str, String)>,
}

/// The server is gone.
struct Gone;

impl Client {
    pub fn new(url: &str, ledger: &Arc<Ledger>, name: String, seed: u64) -> Self {
        let (url, ledger) = (url.to_owned(), ledger.clone());
        Self {
            url,
            http: client(),
            ledger,
            name,
            random: Random(seed),
            made: 0,
            own: Vec::new(),
            reminders: Vec::new(),
        }
    }

    pub async fn run(mut self) {
        while self.step().await.is_ok() {}
    }

    async fn step(&mut self) -> Result<(), Gone> {
        match self.random.below(100) {
            0..30 => self.create(true).await,
            30..38 => self.create(false).await,
            38..47 => self.remind().await,
            47..50 => self.forget().await,
            50..57 => self.again().await,
            57..65 => self.act("stop_timer", json!({})).await,
            65..70 => self.act("cancel_timer", json!({"reason": "other work"})).await,
            70..76 => {
                let length = self.milliseconds(30, 200);
                self.act("pause_timer", json!({"pause_duration": length})).await
            }
            76..80 => self.act("resume_timer", json!({})).await,
            80..86 => {
                let (total, timeout) = (self.milliseconds(50, 600), self.milliseconds(10, 60));
                self.act("timer", json!({"total_duration": total, "timeout_duration": timeout})).await
            }
            86..90 => self.act("read_timer", json!({})).await,
            _ => self.take_messages().await,
        }
    }

    fn milliseconds(&mut self, least: u64, spread: u64) -> String {
        format!("{}ms", least + self.random.below(spread))
    }

    fn session(&mut self) -> &'static str {
        SESSIONS[self.random.below(SESSIONS.len() as u64) as usize]
    }

    async fn create(&mut self, mission: bool) -> Result<(), Gone> {
        let (key, session) = (format!("{}-{}", self.name, self.made), self.session());
        self.made += 1;
        let arguments = if mission {
            json!({"total_duration": self.milliseconds(50, 750), "mission": key})
        } else {
            json!({
                "total_duration": self.milliseconds(50, 300), "timeout_duration": self.milliseconds(10, 300),
                "reason": key,
            })
        };
        let creation = Creation { session, tool: "timer", arguments, made: None };
        self.ledger.with(|known| known.creations.insert(key.clone(), creation.clone()));
        self.send_creation(&key, &creation).await
    }

    async fn remind(&mut self) -> Result<(), Gone> {
        let (key, session) = (format!("{}-{}", self.name, self.made), self.session());
        self.made += 1;
        let arguments = json!({"action": "schedule", "items": [{"in": self.milliseconds(50, 750), "task": key}]});
        let creation = Creation { session, tool: "clock", arguments, made: None };
        self.ledger.with(|known| known.creations.insert(key.clone(), creation.clone()));
        self.send_creation(&key, &creation).await
    }

    /// Cancels one of its latest reminders.
    async fn forget(&mut self) -> Result<(), Gone> {
        let place = self.random.below(self.reminders.len().clamp(1, 8) as u64) as usize;
        let Some((session, task)) = self.reminders.iter().rev().nth(place).cloned() else { return Ok(()) };
        let answer = self.tool(session, "clock", json!({"action": "cancel", "taskId": task}), None).await?;
        match answer.status {
            200 => drop(self.ledger.with(|known| known.cancelled.insert(task))),
            409 => assert_eq!(answer.body["code"], "reminder_ended", "{answer:?}"),
            _ => panic!("cancelling {task}, which was acknowledged: {answer:?}"),
        }
        Ok(())
    }

    /// A creation that was or was not answered is sent once more.
    async fn again(&mut self) -> Result<(), Gone> {
        let place = self.random.next() as usize;
        let chosen = self.ledger.with(|known| {
            let count = known.creations.len().max(1);
            known.creations.iter().nth(place % count).map(|(key, creation)| (key.clone(), creation.clone()))
        });
        match chosen {
            Some((key, creation)) => self.send_creation(&key, &creation).await,
            None => Ok(()),
        }
    }

    async fn send_creation(&mut self, key: &str, creation: &Creation) -> Result<(), Gone> {
        let answer = self.tool(creation.session, creation.tool, creation.arguments.clone(), Some(key)).await?;
        match answer.status {
            200 => {
                let made = made(&answer.body);
                self.ledger.created(key, &made);
                if key.starts_with(&self.name) {
                    let own = if creation.tool == "timer" { &mut self.own } else { &mut self.reminders };
                    own.push((creation.session, made));
                }
            }
            409 => assert!(text(&answer.body["code"]).starts_with("too_many_"), "{answer:?}"),
            _ => panic!("creating {key}: {answer:?}"),
        }
        Ok(())
    }

    async fn act(&mut self, tool: &str, mut arguments: Value) -> Result<(), Gone> {
        if self.own.is_empty() {
            return Ok(());
        }
        let place = self.random.below(self.own.len().min(8) as u64) as usize;
        let (session, timer) = self.own[self.own.len() - 1 - place].clone();
        arguments["timer_id"] = json!(timer);
        let answer = self.tool(session, tool, arguments, None).await?;
        match answer.status {
            200 if tool == "stop_timer" => {
                self.ledger.with(|known| known.stopped.insert(timer));
            }
            200 => {}
            409 => assert!(["timer_ended", "not_paused"].contains(&text(&answer.body["code"]).as_str()), "{answer:?}"),
            // Continuing a timer of the other kind or an unknown one would be a refusal too, and a wrong one here.
            _ => panic!("{tool} on {timer}, which was acknowledged: {answer:?}"),
        }
        Ok(())
    }

    async fn take_messages(&mut self) -> Result<(), Gone> {
        let session = self.session();
        let before = self.ledger.delivered();
        let ask = json!({"limit": 1 + self.random.below(4)});
        let leased = self.post(&format!("/api/sessions/{session}/inbox/lease"), ask, None).await?;
        assert_eq!(leased.status, 200, "{leased:?}");
        not_again(&leased.body, &before);
        if leased.body.get("lease").is_none() {
            return Ok(());
        }
        let settle = json!({"lease": leased.body["lease"]});
        match self.random.below(10) {
            0..6 => {
                let answer = self.post(&format!("/api/sessions/{session}/inbox/commit"), settle, None).await?;
                if answer.status == 200 {
                    let ids = leased.body["messages"].as_array().unwrap().iter().map(|message| text(&message["id"]));
                    self.ledger.with(|known| known.delivered.extend(ids));
                } else {
                    // Too slow: the lease ran out and others took the messages.
                    assert_eq!(answer.body["code"], "unknown_lease", "{answer:?}");
                }
            }
            6..8 => {
                self.post(&format!("/api/sessions/{session}/inbox/release"), settle, None).await?;
            }
            _ => {} // a channel that died: the lease runs out
        }
        Ok(())
    }

    async fn tool(&self, session: &str, tool: &str, arguments: Value, key: Option<&str>) -> Result<Answer, Gone> {
        let before = self.ledger.delivered();
        let answer = self.post(&format!("/api/sessions/{session}/tools/{tool}"), arguments, key).await?;
        not_again(&answer.body, &before);
        Ok(answer)
    }

    async fn post(&self, path: &str, body: Value, key: Option<&str>) -> Result<Answer, Gone> {
        let url = format!("{}{path}", self.url);
        let answer = try_send(&self.http, Method::POST, &url, Some(&body), key).await.map_err(|_| Gone)?;
        assert!(answer.status < 500, "{path}: {answer:?}");
        let shown = answer.body["outcome"].as_str().or(answer.body["code"].as_str()).unwrap_or("ok");
        self.ledger.count(shown);
        Ok(answer)
    }
}
