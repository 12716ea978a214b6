//! Requests to the outside that are under way, for whoever moves a manual clock: they take real time to be answered, and are
//! given up by the clock.

use reveille_core::{Millis, Timestamp};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};
use tokio::time::Instant;

/// Each by its key.
#[derive(Default)]
pub struct Outside(Mutex<HashMap<String, Option<Sent>>>);

/// One that waits for its answer; those that wait for something else before they are sent have none.
#[derive(Clone, Copy)]
struct Sent {
    given_up: Timestamp,
    /// From then on it has had its time, and is taken for one that hangs.
    hangs: Instant,
}

/// How it stands with what is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    Nothing,
    /// Something may still come of it by itself.
    Something,
    /// All of it hangs, or waits for what does. The first is given up then.
    Hanging(Timestamp),
}

/// Under way as long as this is kept.
pub struct UnderWay<'a> {
    outside: &'a Outside,
    key: String,
}

impl Outside {
    /// One is about to be sent.
    pub fn waits(&self, key: &str) -> UnderWay<'_> {
        self.enter(key, None)
    }

    /// One is sent, and is given up by the clock at `given_up`, after `timeout`.
    pub fn sent(&self, key: &str, given_up: Timestamp, timeout: Millis) -> UnderWay<'_> {
        self.enter(key, Some(Sent { given_up, hangs: Instant::now() + timeout.to_std() }))
    }

    fn enter(&self, key: &str, sent: Option<Sent>) -> UnderWay<'_> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), sent);
        UnderWay { outside: self, key: key.to_owned() }
    }

    /// `running`: those that are known to have been begun, by their keys. One that is not here is just beginning or ending.
    pub fn pending<'a>(&self, running: impl IntoIterator<Item = &'a str>, now: Timestamp) -> Pending {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if running.into_iter().any(|key| !known.contains_key(key)) {
            return Pending::Something;
        }
        let hangs = |sent: &&Sent| sent.hangs <= Instant::now() && sent.given_up > now;
        let sent: Vec<&Sent> = known.values().flatten().collect();
        match sent.iter().map(|sent| sent.given_up).min() {
            _ if known.is_empty() => Pending::Nothing,
            Some(first) if sent.iter().all(hangs) => Pending::Hanging(first),
            _ => Pending::Something,
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.outside.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_hangs_is_told_from_what_may_still_answer() {
        let (outside, now) = (Outside::default(), Timestamp::from_millis(0));
        let pending = |running: &[&str], now| outside.pending(running.iter().copied(), now);
        assert_eq!(pending(&[], now), Pending::Nothing);
        assert_eq!(pending(&["a"], now), Pending::Something, "just begun");
        let (end, timeout) = (Timestamp::from_millis(3000), Millis::from_secs(3));
        let (_waits, sent) = (outside.waits("b"), outside.sent("a", end, timeout));
        assert_eq!(pending(&["a", "b"], now), Pending::Something);
        tokio::time::advance(timeout.to_std()).await;
        assert_eq!(pending(&["a", "b"], now), Pending::Hanging(end));
        assert_eq!(pending(&["a", "b", "c"], now), Pending::Something, "another one just begins");
        assert_eq!(pending(&["a", "b"], end), Pending::Something, "it is being given up");
        drop(sent);
        assert_eq!(pending(&["a", "b"], end), Pending::Something, "being reported on");
    }
}
