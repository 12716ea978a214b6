//! Names of sessions, items and leases. Cheap to clone; checked where they enter.

use crate::{reject::Reject, text::shown, time::Timestamp};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// Longest session name, in bytes. Real clients send UUIDs and `ses_…`; this leaves room for `tenant:user:chat`.
pub const SESSION_BYTES_MAX: usize = 200;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name!(
    /// One conversation of one agent, named by its client. Never derived from a port, a path or a process.
    SessionId
);
name!(
    /// Anything with a deadline: `timer_k3f9x2ab`. Unique in the server, meaningful only inside its session.
    ItemId
);
name!(
    /// The right to deliver some messages for a while.
    LeaseId
);

name!(
    /// The secret part of a task's name; see [`crate::task::external`].
    TaskId
);

name!(
    /// An agent as its configuration names it: `tenant:chatbot`.
    AgentId
);

/// Longest part of an agent's name, in bytes: it stands in paths, headers and labels.
pub const AGENT_PART_BYTES_MAX: usize = 64;

impl AgentId {
    /// `tenant:chatbot`, as headers and bodies name it.
    pub fn parse(text: &str) -> Result<Self, Reject> {
        match text.trim().split_once(':') {
            Some((tenant, chatbot)) => Self::of(tenant, chatbot),
            None => Err(Reject::InvalidAgent(format!("'{}' has no colon", shown(text)))),
        }
    }

    pub fn of(tenant: &str, chatbot: &str) -> Result<Self, Reject> {
        for (name, part) in [("tenant", tenant), ("chatbot", chatbot)] {
            let strange = |c: char| c.is_control() || c.is_whitespace() || matches!(c, ':' | '/');
            let why = match part {
                "" => "is empty".to_owned(),
                part if is_step(part) => format!("'{part}' means a step in a path"),
                part if part.len() > AGENT_PART_BYTES_MAX => format!("is longer than {AGENT_PART_BYTES_MAX} bytes"),
                part if part.contains(strange) => format!("'{}' has a space, a colon or a slash", shown(part)),
                _ => continue,
            };
            return Err(Reject::InvalidAgent(format!("`{name}` {why}")));
        }
        Ok(Self::new(format!("{tenant}:{chatbot}")))
    }

    /// Tenant and chatbot.
    pub fn parts(&self) -> (&str, &str) {
        self.as_str().split_once(':').unwrap_or((self.as_str(), ""))
    }
}

impl TaskId {
    /// From 128 random bits; nobody who was not told it can name it.
    pub fn secret(random: u128) -> Self {
        const CHARACTERS: u32 = 128_u32.div_ceil(5);
        let character = |place: u32| char::from(ALPHABET[(random >> (place * 5) & 31) as usize]);
        Self::new((0..CHARACTERS).rev().map(character).collect::<String>())
    }
}

impl SessionId {
    /// A name as a client sent it.
    pub fn parse(text: &str) -> Result<Self, Reject> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Reject::InvalidSession("is empty".into()));
        }
        if text.len() > SESSION_BYTES_MAX {
            return Err(Reject::InvalidSession(format!("is longer than {SESSION_BYTES_MAX} bytes")));
        }
        if is_step(text) {
            return Err(Reject::InvalidSession("means a step in a path; name it otherwise".into()));
        }
        if text.chars().any(char::is_control) {
            return Err(Reject::InvalidSession("contains control characters".into()));
        }
        Ok(Self::new(text))
    }
}

/// Names stand in URLs, where no way of writing keeps these from being taken for a way up or nowhere.
fn is_step(name: &str) -> bool {
    matches!(name, "." | "..")
}

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Of the bits of an id, this many are random: sixteen million ids for each tick.
const RANDOM_BITS: u32 = 24;
/// The others count ticks and come round again after twelve days. Ids made together stand together in an index: the
/// shorter the tick, the fewer of its pages a burst of inserts touches.
const TICK_BITS: u32 = 26;
const TICK_MS: i64 = 16;

/// `prefix_` and ten characters a model repeats without error (no i, l, o, u).
pub fn readable(prefix: &str, now: Timestamp, random: u32) -> String {
    let tick = now.as_millis().div_euclid(TICK_MS) as u64 & ((1 << TICK_BITS) - 1);
    let bits = tick << RANDOM_BITS | u64::from(random) & ((1 << RANDOM_BITS) - 1);
    let characters = (TICK_BITS + RANDOM_BITS) / 5;
    let mut id = String::with_capacity(prefix.len() + 1 + characters as usize);
    id.push_str(prefix);
    id.push('_');
    for place in (0..characters).rev() {
        id.push(char::from(ALPHABET[(bits >> (place * 5) & 31) as usize]));
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_ids_use_every_bit() {
        let at = Timestamp::from_millis;
        assert_eq!(readable("timer", at(15), 0), "timer_0000000000");
        assert_eq!(readable("timer", at(((1 << 26) - 1) * 16), u32::MAX), "timer_zzzzzzzzzz");
        assert_eq!(readable("timer", at(33 * 16), 33), "timer_0000gg0011");
        assert_eq!(readable("timer", at(-1), 0), "timer_zzzzzg0000");
    }

    #[test]
    fn agents_have_two_names() {
        assert_eq!(AgentId::parse(" acme:客服 ").map(|id| id.parts().1.to_owned()), Ok("客服".to_owned()));
        for bad in
            ["", "acme", ":x", "acme:", "a:b:c", "a:..", ".:b", "a b:c", "a/b:c", &format!("a:{}", "x".repeat(65))]
        {
            assert_eq!(AgentId::parse(bad).unwrap_err().code(), "invalid_agent", "{bad:?}");
        }
    }

    #[test]
    fn session_names_are_checked() {
        for good in ["demo", " demo ", "租户:用户:🙂", "0196a1c0-7000-7000-8000-000000000000"] {
            assert!(SessionId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "   ", ".", " .. ", "a\nb", "a\0b", &"x".repeat(201)] {
            assert_eq!(SessionId::parse(bad).unwrap_err().code(), "invalid_session", "{bad:?}");
        }
    }
}
