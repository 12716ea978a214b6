//! What the gateway has kept of a session.

use super::{Draft, Reply};
use crate::{
    batch::ItemWrite,
    directive::Directive,
    history::SubjectKind,
    id::ItemId,
    item::Item,
    session::SessionState,
    thread::{Answered, Aside, Thread},
};
use serde_json::{Map, Value, json};

impl Draft<'_> {
    /// The directives of one message; sent again, it changes nothing.
    pub(super) fn direct(&mut self, id: &ItemId, by: &str, directives: &[Directive]) -> Reply {
        let (mut thread, known) = self.thread(id);
        if thread.was_directed(by, self.now) {
            return Reply::Recorded;
        }
        thread.direct(by, directives, self.now);
        self.open();
        for directive in directives {
            match directive {
                Directive::Arm { times, .. } => self.note_session("stop_message.armed", json!({"times": times})),
                Directive::Disarm => self.note_session("stop_message.cleared", Value::Null),
                Directive::ClearReminders => {}
            }
        }
        self.write_thread(thread, known);
        Reply::Recorded
    }

    pub(super) fn take_stop_message(&mut self, id: &ItemId) -> Reply {
        let (mut thread, known) = self.thread(id);
        let Some(text) = thread.take_stop_message() else { return Reply::StopMessage(None) };
        let left = thread.stop_message.as_ref().map_or(0, |message| message.left);
        self.note_session("stop_message.used", json!({"left": left}));
        self.write_thread(thread, known);
        Reply::StopMessage(Some(text))
    }

    pub(super) fn return_stop_message(&mut self, id: &ItemId, text: &str, by: Option<&str>) -> Reply {
        let (mut thread, known) = self.thread(id);
        let open = self.session.state == SessionState::Open;
        if open && known && thread.return_stop_message(text, by) {
            let left = thread.stop_message.as_ref().map_or(0, |message| message.left);
            self.note_session("stop_message.returned", json!({"left": left}));
            self.write_thread(thread, known);
        }
        Reply::Recorded
    }

    pub(super) fn forget_aside(&mut self, id: &ItemId, anchor: &str) -> Reply {
        let (mut thread, known) = self.thread(id);
        if thread.forget_aside(anchor) {
            self.write_thread(thread, known);
        }
        Reply::Recorded
    }

    pub(super) fn set_aside(&mut self, id: &ItemId, aside: &Aside) -> Reply {
        let (mut thread, known) = self.thread(id);
        thread.set_aside(aside.clone());
        self.open();
        self.write_thread(thread, known);
        Reply::Recorded
    }

    pub(super) fn name_answer(&mut self, id: &ItemId, shown: &str, upstream: &str, owed: &[Answered]) -> Reply {
        let (mut thread, known) = self.thread(id);
        thread.name(shown, upstream, owed);
        self.open();
        self.write_thread(thread, known);
        Reply::Recorded
    }

    /// Nothing continues a session that is closed.
    pub(super) fn close_thread(&mut self, thread: &Thread) {
        self.write_thread(Thread { stop_message: None, ..thread.clone() }, true);
    }

    fn thread(&self, id: &ItemId) -> (Thread, bool) {
        let found = self.state.items.iter().filter_map(Item::as_thread).find(|thread| thread.id == *id);
        found.map_or_else(|| (Thread::new(id.clone(), self.now), false), |thread| (thread.clone(), true))
    }

    fn write_thread(&mut self, mut thread: Thread, known: bool) {
        thread.updated_at = self.now;
        let item = Item::Thread(thread);
        self.items.push(if known { ItemWrite::Update(item) } else { ItemWrite::Insert { item, key: None } });
    }

    fn note_session(&mut self, event: &'static str, data: Value) {
        let id = self.session.id.clone();
        let data = data.as_object().cloned().unwrap_or_else(Map::new);
        self.note(SubjectKind::Session, id.as_str(), event, data);
    }
}
