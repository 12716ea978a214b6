//! A client that follows events through all crashes, coming back each time with the last id it has.

use crate::support::{client, within};
use futures_util::StreamExt;
use serde_json::Value;

#[derive(Default)]
pub struct Follower {
    pub seen: Vec<Value>,
}

impl Follower {
    /// Until the stream ends. May be dropped at any time.
    pub async fn follow(&mut self, url: &str) {
        let last = self.seen.last().map_or("0".to_owned(), |entry| entry["seq"].to_string());
        let request = client().get(format!("{url}/api/events")).header("Last-Event-ID", last);
        let Ok(response) = request.send().await else { return };
        let mut chunks = response.bytes_stream();
        let mut text = String::new();
        while let Some(Ok(chunk)) = chunks.next().await {
            text.push_str(std::str::from_utf8(&chunk).unwrap());
            while let Some((event, rest)) = text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                self.seen.extend(data.map(|data| serde_json::from_str::<Value>(data).unwrap()));
                text = rest.to_owned();
            }
        }
    }

    pub async fn catch_up(&mut self, url: &str, count: usize) {
        within("the events", async {
            while self.seen.len() < count {
                let more = tokio::time::timeout(std::time::Duration::from_millis(200), self.follow(url));
                let _ = more.await;
            }
        })
        .await;
    }
}
