//! Keeps the list true: read once, and again whenever something happens.

use super::super::{
    Failure,
    client::Client,
    pending::{self, Live, Pending},
};
use reqwest::Response;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc::Sender;

/// No screen shows more of a kind.
const SHOWN_MAX: usize = 500;
/// Of many changes at once, the list is read once.
const GATHER: Duration = Duration::from_millis(100);
const RECONNECT_FIRST: Duration = Duration::from_millis(300);
const RECONNECT_MAX: Duration = Duration::from_secs(4);

/// What there is to show.
pub enum Update {
    List(Listed),
    /// No connection: what is shown may be old.
    Lost,
    Said(String),
}

/// What is pending, the soonest first, how much that is in all, and the server's time.
pub struct Listed {
    pub pending: Vec<Pending>,
    pub live: Live,
    pub now: i64,
}

pub async fn load(client: &Client, session: Option<&str>) -> Result<Listed, Failure> {
    let (pending, live) = pending::load(client, session, SHOWN_MAX).await?;
    Ok(Listed { pending, live, now: pending::now(client).await? })
}

/// Until the one who looks has gone.
pub async fn follow(client: Arc<Client>, session: Option<String>, updates: Sender<Update>) {
    let mut pause = RECONNECT_FIRST;
    while !updates.is_closed() {
        // Not the session's own stream: whoever follows that is taken for somebody who hears of it.
        if let Ok(stream) = client.stream("/api/events", &[]).await
            && let Ok(list) = load(&client, session.as_deref()).await
        {
            pause = RECONNECT_FIRST;
            let _ = updates.send(Update::List(list)).await;
            watch(&client, session.as_deref(), stream, &updates).await;
        }
        let _ = updates.send(Update::Lost).await;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_MAX);
    }
}

/// Until the connection ends.
async fn watch(client: &Client, session: Option<&str>, mut stream: Response, updates: &Sender<Update>) {
    while let Ok(Some(chunk)) = stream.chunk().await {
        if !chunk.windows(5).any(|part| part == b"data:") {
            continue; // a sign of life
        }
        tokio::time::sleep(GATHER).await;
        let Ok(list) = load(client, session).await else { return };
        if updates.send(Update::List(list)).await.is_err() {
            return;
        }
    }
}
