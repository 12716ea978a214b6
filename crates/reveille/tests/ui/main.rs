//! The dashboard in a real Chromium and `watch` in a real terminal, before a real server process. Time is real here:
//! these are tests of what a person sees.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod access;
mod browser;
mod demo;
mod dialogs;
mod elements;
mod flows;
mod forms;
mod lists;
mod looks;
mod modules;
mod pages;
mod quiet;
mod robust;
#[path = "../support/mod.rs"]
mod support;
mod tabs;
mod watch;

use reqwest::Method;
use serde_json::Value;
use support::{Answer, client, send};

/// Another client than the browser.
pub struct Other {
    pub http: reqwest::Client,
    pub url: String,
}

impl Other {
    pub fn of(url: &str) -> Self {
        Self { http: client(), url: url.to_owned() }
    }

    pub async fn get(&self, path: &str) -> Value {
        let Answer { status, body } = send(&self.http, Method::GET, &format!("{}{path}", self.url), None, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub async fn post(&self, path: &str, body: Value) -> Value {
        let url = format!("{}{path}", self.url);
        let Answer { status, body } = send(&self.http, Method::POST, &url, Some(&body), None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub async fn put(&self, path: &str, body: Value) -> Value {
        let url = format!("{}{path}", self.url);
        let Answer { status, body } = send(&self.http, Method::PUT, &url, Some(&body), None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// What a metric says now.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.http.get(format!("{}/metrics", self.url)).send().await.unwrap().text().await.unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
    }

    /// A mission, made from outside; its id.
    pub async fn mission(&self, session: &str, seconds: u64, mission: &str) -> String {
        let body = serde_json::json!({"session": session, "total_duration": seconds, "mission": mission});
        support::id(&self.post("/api/timers", body).await)
    }
}
