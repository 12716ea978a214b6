//! Session timers: silent while their agent works, never before the silence was long enough, never more often than they
//! may, and each firing does what it is for in the same commit.

use super::{Charges, Commit, Rule, sky::Sky, written};
use reveille_core::{
    Item, SubjectKind,
    session_timer::{Action, Phase, Reset, SessionTimer},
};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct SessionTimers(BTreeMap<String, SessionTimer>);

impl SessionTimers {
    pub fn commit(&mut self, commit: &Commit<'_>, sky: &Sky, charges: &mut Charges) {
        let of = |event: &'static str| commit.batch.history.iter().filter(move |entry| entry.event == event);
        let answered = of("session.response").next().is_some();
        let messaged = of("session.message").next().is_some();
        for entry in of("session_timer.triggered").filter(|entry| entry.kind == SubjectKind::SessionTimer) {
            match self.0.get(&*entry.subject) {
                Some(before) => fired(commit, before, sky, charges),
                None => charges.say(Rule::Wrong, format!("{} fired and was never made", entry.subject)),
            }
        }
        for after in written(commit.batch).filter_map(Item::as_session_timer) {
            let id = &after.id;
            if let Phase::Armed { due, .. } = after.phase
                && answered
            {
                let expected = commit.at + after.spec.delay.get() as i64;
                charges.unless(due.as_millis() == expected, Rule::Wrong, || format!("{id} is armed for {due:?}"));
            }
            if messaged {
                charges.unless(after.is_suspended(), Rule::Early, || format!("{id} runs while its agent works"));
            }
            if let Some(before) = self.0.get(id.as_str()) {
                charges.unless(before.ended_at().is_none(), Rule::Twice, || format!("{id} changed after its end"));
            }
            let max = after.spec.max_triggers;
            charges.unless(max == 0 || after.used <= max, Rule::Limit, || format!("{id} fired {} times", after.used));
            let over_life = after.spec.reset == Reset::Session && max > 0;
            charges.unless(!over_life || after.trigger_count <= max, Rule::Limit, || {
                format!("{id} fired {} times in its life", after.trigger_count)
            });
            self.0.insert(id.to_string(), after.clone());
        }
    }
}

fn fired(commit: &Commit<'_>, before: &SessionTimer, sky: &Sky, charges: &mut Charges) {
    let (id, at, delay) = (&before.id, commit.at, before.spec.delay.get() as i64);
    let due = match before.phase {
        Phase::Armed { due, .. } => due.as_millis(),
        // A turn that nobody answered is over at some time.
        Phase::Suspended { until, .. } => until.as_millis() + delay,
        _ => return charges.say(Rule::Twice, format!("{id} fired when it was {:?}", before.phase)),
    };
    charges.unless(at >= due, Rule::Early, || format!("{id} fired {} ms early", due - at));
    charges.unless(!sky.too_late(at - due), Rule::Late, || format!("{id} fired {} ms late", at - due));
    let count = before.trigger_count + 1;
    let after = commit.batch.items.iter().rev().filter_map(|write| write.item().as_session_timer());
    let counted = after.filter(|after| after.id == *id).any(|after| after.trigger_count == count);
    charges.unless(counted, Rule::Twice, || format!("{id} fired and is not counted {count} times"));
    let does = match &before.spec.action {
        Action::Say { .. } => commit.batch.said.iter().any(|said| said.timer.as_ref() == Some(id)),
        Action::Call { .. } => {
            let call = format!("call_{id}.{count}");
            commit.batch.items.iter().any(|write| write.item().id().as_str() == call)
        }
        Action::Close => commit.batch.history.iter().any(|entry| entry.event == "session.closed"),
    };
    charges.unless(does, Rule::Lost, || format!("{id} fired and did nothing"));
}
