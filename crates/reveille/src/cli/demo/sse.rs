//! Server-sent events as they arrive.

use anyhow::Context;
use reqwest::Response;
use serde_json::Value;

/// An answer of the scripted parts is small; more than this without an end of a frame is not one of ours.
const FRAME_BYTES_MAX: usize = 1 << 20;

pub struct Events {
    response: Response,
    buffer: Vec<u8>,
}

impl Events {
    pub fn of(response: Response) -> Self {
        Self { response, buffer: Vec::new() }
    }

    /// The data of the next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> anyhow::Result<Option<String>> {
        loop {
            while let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let frame: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let frame = String::from_utf8_lossy(&frame);
                let data: Vec<&str> = frame.lines().filter_map(|line| line.strip_prefix("data:")).collect();
                if !data.is_empty() {
                    return Ok(Some(data.join("\n").trim().to_owned()));
                }
            }
            anyhow::ensure!(self.buffer.len() < FRAME_BYTES_MAX, "an event without an end");
            match self.response.chunk().await.context("the stream broke off")? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }

    /// The next event as JSON; `None` at the end, and at Chat's own mark of it.
    pub async fn json(&mut self) -> anyhow::Result<Option<Value>> {
        match self.next().await?.as_deref() {
            None | Some("[DONE]") => Ok(None),
            Some(data) => Ok(Some(serde_json::from_str(data).context("an event that is not JSON")?)),
        }
    }
}
