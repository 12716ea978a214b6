//! Holding a session over the API, and hearing when there is something to fetch.

use super::{
    Failure,
    client::{Client, segment},
};
use reqwest::Response;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// There are messages to be leased.
    Messages,
    /// Nothing is pending and nothing runs that could leave a message.
    Idle,
    /// A newer holder of the same name has come.
    Replaced,
}

/// The session is held as long as this lives.
pub struct Presence {
    response: Response,
    buffer: Vec<u8>,
}

impl Presence {
    /// As a holder that can wake its agent by itself.
    pub async fn open(client: &Client, session: &str, kind: &str, name: &str) -> Result<Self, Failure> {
        let path = format!("/api/sessions/{}/presence", segment(session));
        let query = [("client", kind), ("wakes", "true"), ("name", name)];
        Ok(Self { response: client.stream(&path, &query).await?, buffer: Vec::new() })
    }

    /// `None`: the connection has ended.
    pub async fn next(&mut self) -> Option<Signal> {
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
