//! The bounds of the rules, with their defaults. Configuration may change them; code never writes the numbers again.

use crate::{quiet::Quiet, time::Millis};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Beyond this a new timer is refused: an agent in a loop must not fill the disk.
    pub live_timers_max: u32,
    /// The same for reminders.
    pub live_reminders_max: u32,
    /// With more undelivered messages nothing new is taken on: an inbox nobody looks into must not grow for ever.
    pub pending_messages_max: u32,
    /// A reminder may be told this long before it is due: the agent may not come again in time.
    pub due_window: Millis,
    /// Undelivered this long after it was due, a reminder is missed.
    pub reminder_retention: Millis,
    /// Longest total, stand-by or pause, and how far away a reminder may be due.
    pub duration_max: Millis,
    /// Longest reason or mission, in characters: it is repeated into a model's context.
    pub text_chars_max: usize,
    /// How long a delivery may take before its messages are free for another channel again.
    pub lease: Millis,
    /// A turn that nobody hears of for this long is given up, and its session's timers run again: a program that died in
    /// the middle of an answer must not silence them for ever.
    pub turn: Millis,
    /// A session timer that waits for its user to come back is forgotten after this; one that fires without a limit stops
    /// when nobody has said anything for so long.
    pub idle_session: Millis,
    /// How long one attempt of a call is left to whoever began it. Longer than any endpoint's timeout: an attempt is only
    /// begun when it surely ends within this, so that no two run at once.
    pub call_lease: Millis,
    /// Attempts of a tool call before it has failed.
    pub call_attempts_max: u32,
    /// How often an agent without Reveille would have asked; only the "requests saved" statistic depends on it.
    pub poll_interval: Millis,
    /// Quiet hours of sessions that have none of their own.
    pub quiet: Option<Arc<Quiet>>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            live_timers_max: 100,
            live_reminders_max: 100,
            pending_messages_max: 1000,
            due_window: Millis::from_secs(60),
            reminder_retention: Millis::from_secs(20 * 60),
            duration_max: Millis::from_secs(366 * 24 * 3600),
            text_chars_max: 4000,
            lease: Millis::from_secs(30),
            turn: Millis::from_secs(15 * 60),
            idle_session: Millis::from_secs(7 * 24 * 3600),
            call_lease: Millis::from_secs(150),
            call_attempts_max: 4,
            poll_interval: Millis::from_secs(15),
            quiet: None,
        }
    }
}
