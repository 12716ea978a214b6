//! Taking a session's messages for delivery, over the API: lease, tell, then commit or release. Hooks and channels use it.

use super::{
    Failure,
    client::{Client, segment},
};
use reveille_core::inbox::json_chars;
use serde_json::{Value, json};

/// A hook may say this much (10,000 characters in all, the client's own JSON around it included).
pub const TOLD_CHARS_MAX: usize = 9_800;
/// Of it, what may be said about the session's name.
const INTRODUCTION_CHARS_MAX: usize = 1_000;
const CUT: &str = "… (cut; the rest is in the session's history)";

/// Leased messages as one text.
pub struct Fetched {
    pub text: String,
    path: String,
    lease: String,
    channel: &'static str,
}

/// What is asked for, and who asks.
pub struct Ask<'a> {
    pub channel: &'static str,
    /// Whether the agent has to be told how its session is called.
    pub introduce: bool,
    /// Where the agent works.
    pub cwd: Option<&'a str>,
    /// Leaves everything to whatever wakes the agent by itself, if there is such a thing.
    pub yields: bool,
}

impl Fetched {
    /// `None`: there is nothing to tell.
    pub async fn lease(client: &Client, session: &str, channel: &'static str) -> Result<Option<Self>, Failure> {
        let ask = Ask { channel, introduce: false, cwd: None, yields: false };
        Self::ask(client, session, ask).await.map(|(fetched, _)| fetched)
    }

    /// The same, and whether the agent has to be told how its session is called.
    pub async fn ask(client: &Client, session: &str, ask: Ask<'_>) -> Result<(Option<Self>, bool), Failure> {
        let Ask { channel, introduce, cwd, yields } = ask;
        let path = format!("/api/sessions/{}/inbox", segment(session));
        let chars_max = if introduce { TOLD_CHARS_MAX - INTRODUCTION_CHARS_MAX } else { TOLD_CHARS_MAX };
        let ask = json!({
            "chars": chars_max, "channel": channel, "introduce": introduce, "cwd": cwd, "yield_to_waking": yields,
        });
        let answer = client.post(&format!("{path}/lease"), &ask).await?;
        let introduce = answer["introduce"] == true;
        let Some(lease) = answer["lease"].as_str() else { return Ok((None, introduce)) };
        let messages = answer["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let texts: Vec<&str> = messages.iter().filter_map(|message| message["text"].as_str()).collect();
        let text = cut(texts.join("\n\n"), chars_max);
        Ok((Some(Self { text, lease: lease.to_owned(), path, channel }), introduce))
    }

    /// They were told.
    pub async fn commit(self, client: &Client) -> Result<Value, Failure> {
        let body = json!({"lease": self.lease, "channel": self.channel});
        client.post(&format!("{}/commit", self.path), &body).await
    }

    /// They could not be told.
    pub async fn release(self, client: &Client) -> Result<Value, Failure> {
        client.post(&format!("{}/release", self.path), &json!({"lease": self.lease})).await
    }
}

/// As much as fits. Only a single message that is longer by itself is ever cut.
fn cut(text: String, chars_max: usize) -> String {
    if json_chars(&text) <= chars_max {
        return text;
    }
    let (mut kept, mut left) = (String::new(), chars_max - json_chars(CUT));
    for c in text.chars() {
        let chars = json_chars(c.encode_utf8(&mut [0; 4]));
        if chars > left {
            break;
        }
        left -= chars;
        kept.push(c);
    }
    kept + CUT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_too_long_is_cut() {
        assert_eq!(cut("short\n".into(), 100), "short\n");
        for text in ["\"".repeat(500), "x".repeat(500), "会\n".repeat(500)] {
            let cut = cut(text, 400);
            assert!(json_chars(&cut) <= 400 && json_chars(&cut) >= 398 && cut.ends_with(CUT), "{cut}");
        }
    }
}
