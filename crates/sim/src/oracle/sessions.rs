//! A session's version counts its changes, its counters what it holds, and its limits are kept.

use super::{Charges, Commit, Rule};
use crate::plan::Plan;
use reveille_core::SessionId;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Sessions(BTreeMap<SessionId, u64>);

impl Sessions {
    pub fn commit(&mut self, commit: &Commit<'_>, plan: &Plan, counted: [usize; 3], charges: &mut Charges) {
        let session = &commit.batch.session;
        let before = self.0.insert(session.id.clone(), session.version);
        charges.unless(
            session.version == before.unwrap_or(0) + 1 && commit.batch.expected == before,
            Rule::Twice,
            || format!("{} went from version {before:?} to {}", session.id, session.version),
        );
        let kept = [session.live_timers, session.live_reminders, session.pending_messages].map(|count| count as usize);
        charges.unless(kept == counted, Rule::Limit, || {
            format!("{} counts {kept:?} timers, reminders and messages; there are {counted:?}", session.id)
        });
        let limits = &plan.limits;
        let fits = counted[0] <= limits.live_timers_max as usize && counted[1] <= limits.live_reminders_max as usize;
        charges.unless(fits, Rule::Limit, || format!("{} has {counted:?}, which is too many", session.id));
    }
}
