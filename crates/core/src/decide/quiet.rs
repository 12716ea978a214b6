//! Quiet hours: what waits for their end, and what changes when they do.

use super::{Draft, Reply};
use crate::{
    batch::ItemWrite, history::SubjectKind, item::Item, quiet::Quiet, reject::Reject, time::Timestamp, timer::Timer,
};
use serde_json::{Map, Value, json};

impl Draft<'_> {
    /// The session's own, else its agent's, else those of all.
    pub(super) fn quiet(&self) -> Option<Quiet> {
        self.session.quiet.in_force().cloned().or_else(|| self.limits.quiet.as_deref().cloned())
    }

    /// A session that is not known yet begins with them; nothing begins by taking them away, nor in one that is closed.
    pub(super) fn set_quiet(&mut self, quiet: Option<&Quiet>) -> Result<Reply, Reject> {
        if self.state.session.is_none() {
            if quiet.is_none() {
                return Err(Reject::UnknownSession(self.session.id.to_string()));
            }
            self.open();
        }
        self.session.quiet.own = quiet.cloned();
        let session = self.session.id.clone();
        let data = Map::from_iter([("quiet".to_owned(), json!(quiet))]);
        self.note(SubjectKind::Session, session.as_str(), "session.quiet", data);
        let quiet = self.quiet();
        for item in &self.state.items {
            let mut moved = item.clone();
            match &mut moved {
                Item::Timer(timer) => timer.hold(quiet.as_ref(), timer.is_stood_by(), self.now),
                Item::Reminder(reminder) => reminder.hold(quiet.as_ref(), self.now, self.limits),
                Item::SessionTimer(timer) => timer.hold(quiet.as_ref(), self.now),
                Item::Thread(_) | Item::Call(_) => {}
            }
            if moved != *item {
                self.items.push(ItemWrite::Update(moved));
            }
        }
        Ok(Reply::Recorded)
    }

    /// A timer as it is kept: with its wait, if it has to.
    pub(super) fn held(&self, mut timer: Timer) -> Timer {
        let stood_by = timer.is_stood_by();
        timer.hold(self.quiet().as_ref(), stood_by, self.now);
        timer
    }

    /// Its time has come, and it has to wait all the same. `data`: what else is to be written down.
    pub(super) fn waits(
        &mut self,
        kind: SubjectKind,
        id: impl AsRef<str>,
        until: Timestamp,
        mut data: Map<String, Value>,
    ) {
        data.extend([
            ("due".to_owned(), json!(self.now.as_millis())),
            ("until".to_owned(), json!(until.as_millis())),
            ("why".to_owned(), json!("quiet hours")),
        ]);
        let event = match kind {
            SubjectKind::Reminder => "reminder.waits",
            SubjectKind::SessionTimer => "session_timer.waits",
            _ => "timer.waits",
        };
        self.note(kind, id, event, data);
    }
}
