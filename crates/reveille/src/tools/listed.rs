//! All timers of a session as `read_timer` answers without an id: what lives in full, of what has ended the latest, and so
//! that a model's context is not filled with what is over.

use super::{MessageView, TimerView};
use reveille_core::{Quiet, Timer};
use serde::Serialize;
use utoipa::ToSchema;

/// Ended timers that are listed; the id shows any other.
const ENDED_MAX: usize = 10;
/// Characters of an ended timer's texts; the id shows all of it.
const ENDED_CHARS: usize = 200;

/// The answer of `read_timer` without an id.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TimersResult {
    /// All live timers of the session and the latest ended ones, whose texts are cut.
    pub timers: Vec<TimerView>,
    /// Ended ones that are not listed; of very many, at least so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<usize>,
    /// The session's quiet hours, if it has any: what is due within them is told when they are over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub quiet: Option<Quiet>,
    pub messages: Vec<MessageView>,
    pub hint: String,
}

impl TimersResult {
    pub fn of(timers: &[Timer], messages: Vec<MessageView>, view: impl Fn(&Timer) -> TimerView) -> Self {
        let mut ended: Vec<&Timer> = timers.iter().filter(|timer| !timer.is_live()).collect();
        ended.sort_by_key(|timer| std::cmp::Reverse(timer.ended_at()));
        let left_out: Vec<&Timer> = ended.split_off(ended.len().min(ENDED_MAX));
        let listed = timers.iter().filter(|timer| !left_out.iter().any(|left| left.id == timer.id));
        let shown = |timer: &Timer| if timer.is_live() { view(timer) } else { cut(view(timer)) };
        Self {
            timers: listed.map(shown).collect(),
            left_out: (!left_out.is_empty()).then_some(left_out.len()),
            quiet: None,
            messages,
            hint: hint(timers.iter().filter(|timer| timer.is_live()).count(), left_out.len()),
        }
    }
}

fn hint(live: usize, left_out: usize) -> String {
    let live = match live {
        0 => "No timer runs in this session.".to_owned(),
        1 => "One timer is live.".to_owned(),
        _ => format!("{live} timers are live."),
    };
    match left_out {
        0 => live,
        _ => format!("{live} {left_out} earlier ended ones are left out: read_timer with timer_id shows one."),
    }
}

fn cut(view: TimerView) -> TimerView {
    let shortened = |text: Option<String>| {
        text.map(|text| match text.char_indices().nth(ENDED_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        })
    };
    TimerView {
        reason: shortened(view.reason),
        mission: shortened(view.mission),
        stop_reason: shortened(view.stop_reason),
        seen: shortened(view.seen),
        ..view
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reveille_core::{ItemId, Millis, Purpose, Timestamp};

    #[test]
    fn what_is_over_is_told_in_short() {
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1000);
        let timer = |number: i64, ended: bool| {
            let (id, purpose) = (ItemId::new(format!("timer_{number}")), Purpose::Waiting("长".repeat(4000)));
            let (mut timer, _) = Timer::create(id, purpose, Millis::from_secs(10), None, None, at(number));
            if ended {
                timer.settle(at(number + 10));
            }
            timer
        };
        let timers: Vec<Timer> = (0..30).map(|number| timer(number, number % 2 == 0)).collect();
        let told = TimersResult::of(&timers, Vec::new(), |timer| TimerView::of(timer, at(0)));
        let ids: Vec<&str> = told.timers.iter().map(|timer| timer.timer_id.as_str()).collect();
        assert_eq!((ids.len(), ids[0], told.left_out), (25, "timer_1", Some(5)));
        assert!(told.hint.starts_with("15 timers are live. 5 earlier ended ones"), "{}", told.hint);
        for shown in &told.timers {
            let chars = shown.reason.as_deref().unwrap_or_default().chars().count();
            assert_eq!(chars, if shown.status.is_live() { 4000 } else { ENDED_CHARS + 1 });
        }
    }
}
