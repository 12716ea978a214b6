//! Holding a session over the API, and hearing when there is something to fetch.

use super::{
    Common, Failure,
    client::{Client, segment},
};
use reqwest::Response;
use std::time::Duration;

/// A server that was never reached is given this many tries; one that was is waited for.
const FIRST_TRIES: u32 = 3;
/// A server that was killed is started again, unless that was in vain this many times.
const REVIVALS_MAX: u32 = 3;
const RECONNECT_FIRST: Duration = Duration::from_millis(200);
const RECONNECT_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// There are messages to be leased.
    Messages,
    /// Nothing is pending and nothing runs that could leave a message.
    Idle,
    /// A newer holder of the same name has come.
    Replaced,
}

/// Who holds: a newer holder of the same name takes its place.
pub struct Holder<'a> {
    pub session: &'a str,
    pub kind: &'static str,
    pub name: &'a str,
    /// Waits also for a server that was never there.
    pub patient: bool,
    /// How long it stays at most, in seconds; `None`: as long as its client lives.
    pub patience: Option<u64>,
}

/// Holds the session until `on_signal` has an answer, through restarts of the server, which may have another port each
/// time.
pub async fn follow<T>(
    holder: &Holder<'_>,
    common: &Common,
    mut on_signal: impl AsyncFnMut(&Client, Signal) -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let (mut reached, mut tries, mut pause, mut revivals) = (false, 0, RECONNECT_FIRST, 0);
    loop {
        tries += 1;
        let ended = async {
            let client = common.client()?.kind(holder.kind);
            let mut presence = Presence::open(&client, holder).await?;
            (reached, pause, revivals) = (true, RECONNECT_FIRST, 0);
            while let Some(signal) = presence.next().await {
                if let Some(answer) = on_signal(&client, signal).await? {
                    return Ok(Some(answer));
                }
            }
            Ok(None)
        }
        .await;
        match ended {
            Ok(Some(answer)) => return Ok(answer),
            Err(error) if !reached && !holder.patient && tries >= FIRST_TRIES => return Err(error),
            Ok(None) | Err(_) => {}
        }
        if revivals < REVIVALS_MAX {
            revivals += 1;
            common.revive().await;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_MAX);
    }
}

/// The session is held as long as this lives.
struct Presence {
    response: Response,
    buffer: Vec<u8>,
}

impl Presence {
    /// As a holder that can wake its agent by itself.
    async fn open(client: &Client, holder: &Holder<'_>) -> Result<Self, Failure> {
        let path = format!("/api/sessions/{}/presence", segment(holder.session));
        let patience = holder.patience.map(|seconds| seconds.to_string());
        let mut query = vec![("client", holder.kind), ("wakes", "true"), ("name", holder.name)];
        query.extend(patience.as_deref().map(|seconds| ("patience", seconds)));
        Ok(Self { response: client.stream(&path, &query).await?, buffer: Vec::new() })
    }

    /// `None`: the connection has ended.
    async fn next(&mut self) -> Option<Signal> {
        loop {
            while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                match line.strip_prefix(b"event:").map(<[u8]>::trim_ascii) {
                    Some(b"messages") => return Some(Signal::Messages),
                    Some(b"idle") => return Some(Signal::Idle),
                    Some(b"replaced") => return Some(Signal::Replaced),
                    _ => {}
                }
            }
            let chunk = self.response.chunk().await.ok().flatten()?;
            self.buffer.extend_from_slice(&chunk);
        }
    }
}
