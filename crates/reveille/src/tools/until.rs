//! The words in which a timer's condition is spoken of to models.

use super::{Outcome, TimerView};
use crate::engine::Engine;
use reveille_core::{Purpose, Status, Timer, Timestamp};
use serde_json::Value;

/// A timer's condition as it is shown: in the form it was asked for, whether it was met, and what was seen.
pub(super) fn shown(timer: &Timer) -> (Option<Value>, Option<bool>, Option<String>) {
    match &timer.until {
        None => (None, None, None),
        Some(watch) => (Some(watch.wanted.condition.to_value()), Some(watch.seen.is_some()), watch.seen.clone()),
    }
}

/// `http://localhost:3000/ answers`: what a timer waits for.
pub(super) fn words(timer: &TimerView) -> Option<String> {
    let condition = reveille_core::condition::parse(timer.until.as_ref()?).ok()??;
    Some(condition.to_string())
}

impl TimerView {
    /// With what this node knows besides: what was last seen of a condition that is not met, and that a call lost in a
    /// crash does not stand by any more.
    pub fn known_here(mut self, timer: &Timer, engine: &Engine) -> Self {
        if self.met == Some(false)
            && let Some(watch) = &timer.until
        {
            self.seen = engine.board().seen(&timer.id, watch.since).map(|seen| seen.text);
        }
        if !engine.may_be_stood_by(&timer.id) && timer.tasks.iter().all(|task| task.end.is_some()) {
            self.standby_until = None;
        }
        self
    }
}

impl Outcome {
    /// What the state of a timer that has ended says about how.
    pub fn ended(timer: &Timer) -> Self {
        if timer.met().is_some() { Outcome::Met } else { Outcome::Completed }
    }

    /// What a model may do next about a timer with a condition; `None`: the same as without.
    pub(super) fn hint_until(self, timer: &Timer, now: Timestamp) -> Option<String> {
        let watch = timer.until.as_ref()?;
        let (id, condition) = (&timer.id, &watch.wanted.condition);
        let left = timer.remaining(now).get().div_ceil(1000);
        let next = match &timer.purpose {
            Purpose::Waiting(reason) => format!("go on with what you waited for ({reason})."),
            Purpose::Mission(mission) => format!("carry out your mission now: {mission}"),
        };
        Some(match (self, &watch.seen) {
            (Outcome::Met, Some(seen)) => format!("Met: {seen}. Now {next}"),
            // Met within quiet hours, which are not over.
            (_, Some(seen)) if timer.is_live() => {
                format!("Met: {seen}. A message tells you when quiet hours are over.")
            }
            (Outcome::Completed, _) => {
                format!(
                    "The time is over and the condition was not met ({condition}): look at it yourself, then {next}"
                )
            }
            (Outcome::Timeout, _) => format!(
                "Not met yet ({condition}), {left} seconds remain: call timer with timer_id '{id}' to wait on, or \
                 cancel_timer to do other work; a message tells you when it is met. No need to look yourself."
            ),
            (Outcome::Scheduled, _) => format!(
                "End your turn now: a message wakes you as soon as the condition is met ({condition}), in {left} seconds \
                 at the latest. Do not wait or poll."
            ),
            (Outcome::Background, _) => format!(
                "The timer runs on in the background, {left} seconds remain: do other work, a message tells you as soon \
                 as the condition is met ({condition})."
            ),
            (Outcome::Read, _) if timer.status() == Status::Completed => {
                return Outcome::ended(timer).hint_until(timer, now);
            }
            _ => return None,
        })
    }
}
