//! The bounds of the rules, with their defaults. Configuration may change them; code never writes the numbers again.

use crate::time::Millis;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Beyond this a new timer is refused: an agent in a loop must not fill the disk.
    pub live_timers_max: u32,
    /// Longest total, stand-by or pause.
    pub duration_max: Millis,
    /// Longest reason or mission, in characters: it is repeated into a model's context.
    pub text_chars_max: usize,
    /// How long a delivery may take before its messages are free for another channel again.
    pub lease: Millis,
    /// How often an agent without Reveille would have asked; only the "requests saved" statistic depends on it.
    pub poll_interval: Millis,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            live_timers_max: 100,
            duration_max: Millis::from_secs(366 * 24 * 3600),
            text_chars_max: 4000,
            lease: Millis::from_secs(30),
            poll_interval: Millis::from_secs(15),
        }
    }
}
