//! Where everything is decided, once. Pure: the same state, call and instant always give the same decision.

use crate::{
    batch::{Batch, ItemWrite, MessageWrite, RequestKey, Tally, tally},
    command::{Call, Command, State},
    history::{HistoryEntry, SubjectKind, seconds},
    id::{ItemId, LeaseId, SessionId},
    inbox,
    item::Item,
    limits::Limits,
    message::{Lease, Message},
    reject::Reject,
    session::{Session, SessionState},
    time::{Millis, Timestamp},
    timer::{Continuation, Purpose, Settled, Status, Timer},
};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};

/// What to write (if anything) and what to answer. A refusal writes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub batch: Option<Batch>,
    pub reply: Reply,
    /// Messages leased to travel with the reply.
    pub riding: Vec<Message>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The timer as it is now, and how long this call stands by for it.
    Timer {
        timer: Timer,
        stand_by: Option<Millis>,
    },
    Timers(Vec<Timer>),
    Fired(Vec<Fired>),
    /// How many messages a lease held.
    Settled(usize),
    Collected,
    Closed {
        stopped: usize,
    },
}

/// A deadline that was acted on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    pub id: ItemId,
    pub due: Timestamp,
}

pub fn decide(
    session: &SessionId,
    state: &State,
    call: &Call,
    now: Timestamp,
    limits: &Limits,
) -> Result<Decision, Reject> {
    if !matches!(call.command, Command::Fire { .. }) {
        let overdue = state.overdue(now);
        if !overdue.is_empty() {
            return Err(Reject::Overdue(overdue));
        }
    }
    let mut draft = Draft::new(session, state, now, limits);
    let reply = match &call.command {
        Command::Create { id, purpose, total, timeout, key } => {
            draft.create(id, purpose, *total, *timeout, key.as_ref())?
        }
        Command::Continue { id, ask } => draft.continue_with(id, ask)?,
        Command::Cancel { id, note } => {
            draft.act(id, "timer.background", note, |timer| timer.cancel(note.clone(), now))?
        }
        Command::Pause { id, length, note } => {
            draft.act(id, "timer.paused", note, |timer| timer.pause(*length, note.clone(), now))?
        }
        Command::Resume { id, note } => {
            draft.act(id, "timer.resumed", note, |timer| timer.resume(note.clone(), now))?
        }
        Command::Stop { id, note } => draft.act(id, "timer.stopped", note, |timer| timer.stop(note.clone(), now))?,
        Command::Read { id: Some(id) } => Reply::Timer { timer: draft.timer(id)?, stand_by: None },
        Command::Read { id: None } => Reply::Timers(state.items.iter().filter_map(Item::as_timer).cloned().collect()),
        Command::Return { id, since, slept } => draft.returned(id, *since, *slept)?,
        Command::Fire { ids, standing } => draft.fire(ids, standing),
        Command::Collect => Reply::Collected,
        Command::CommitLease { lease, channel } => draft.commit_lease(lease, channel)?,
        Command::ReleaseLease { lease } => draft.release_lease(lease)?,
        Command::Close { note } => draft.close(note)?,
    };
    let riding = call.ride.as_ref().map(|ride| draft.take_along(ride)).unwrap_or_default();
    Ok(Decision { batch: draft.finish(), reply, riding })
}

/// A decision in the making.
struct Draft<'a> {
    state: &'a State,
    now: Timestamp,
    limits: &'a Limits,
    session: Session,
    items: Vec<ItemWrite>,
    messages: Vec<MessageWrite>,
    history: Vec<HistoryEntry>,
    tallies: Vec<Tally>,
}

impl<'a> Draft<'a> {
    fn new(id: &SessionId, state: &'a State, now: Timestamp, limits: &'a Limits) -> Self {
        Self {
            state,
            now,
            limits,
            session: state.session_or_new(id, now),
            items: Vec::new(),
            messages: Vec::new(),
            history: Vec::new(),
            tallies: Vec::new(),
        }
    }

    /// A session nothing was written for stays as it is, or stays unmade.
    fn finish(mut self) -> Option<Batch> {
        if self.items.is_empty() && self.messages.is_empty() && self.history.is_empty() && self.tallies.is_empty() {
            return None;
        }
        self.session.version += 1;
        self.session.active_at = self.now;
        Some(Batch {
            expected: self.state.session.as_ref().map(|session| session.version),
            session: self.session,
            items: self.items,
            messages: self.messages,
            history: self.history,
            tallies: self.tallies,
        })
    }

    fn create(
        &mut self,
        id: &ItemId,
        purpose: &Purpose,
        total: Millis,
        timeout: Option<Millis>,
        key: Option<&RequestKey>,
    ) -> Result<Reply, Reject> {
        if let Some((made, used)) = &self.state.keyed {
            return self.repeated(made, used, key, timeout);
        }
        if self.session.live_timers >= self.limits.live_timers_max {
            return Err(Reject::TooManyTimers { max: self.limits.live_timers_max });
        }
        self.open();
        let (timer, stand_by) = Timer::create(id.clone(), purpose.clone(), total, timeout, self.now);
        self.session.live_timers += 1;
        self.count(tally::TIMERS_CREATED, 1);
        self.count(tally::timers(timer.status()), 1);
        let mut data = Map::from_iter([purpose_field(purpose)]);
        data.insert("total_duration".into(), seconds(total));
        self.note(SubjectKind::Timer, &timer.id, "timer.created", data);
        self.items.push(ItemWrite::Insert { item: Item::Timer(timer.clone()), key: key.cloned() });
        Ok(Reply::Timer { timer, stand_by })
    }

    /// The same creation asked again under its key: the timer that was made then, stood by for again if it still runs.
    fn repeated(
        &mut self,
        made: &Item,
        used: &RequestKey,
        key: Option<&RequestKey>,
        timeout: Option<Millis>,
    ) -> Result<Reply, Reject> {
        if key.is_none_or(|key| key.fingerprint != used.fingerprint) {
            return Err(Reject::RequestKeyReused { key: used.key.clone() });
        }
        let Item::Timer(timer) = made;
        if !timer.is_live() || matches!(timer.purpose, Purpose::Mission(_)) {
            return Ok(Reply::Timer { timer: timer.clone(), stand_by: None });
        }
        self.continue_timer(timer.clone(), &Continuation { timeout, ..Continuation::default() })
    }

    fn continue_with(&mut self, id: &ItemId, ask: &Continuation) -> Result<Reply, Reject> {
        let timer = self.timer(id)?;
        self.continue_timer(timer, ask)
    }

    fn continue_timer(&mut self, mut timer: Timer, ask: &Continuation) -> Result<Reply, Reject> {
        let before = timer.status();
        let stand_by = timer.continue_with(ask.clone(), self.now)?;
        let mut data = Map::new();
        if ask.total.is_some() {
            data.insert("total_duration".into(), seconds(timer.total));
            data.insert("remaining_time".into(), seconds(timer.remaining(self.now)));
        }
        if ask.reason.is_some() || ask.mission.is_some() {
            data.extend([purpose_field(&timer.purpose)]);
        }
        if let Some(length) = stand_by {
            data.insert("timeout_duration".into(), seconds(length));
        }
        self.changed(before, timer.clone(), "timer.continued", data);
        Ok(Reply::Timer { timer, stand_by })
    }

    fn act(
        &mut self,
        id: &ItemId,
        event: &'static str,
        note: &Option<String>,
        act: impl FnOnce(&mut Timer) -> Result<(), Reject>,
    ) -> Result<Reply, Reject> {
        let mut timer = self.timer(id)?;
        let before = timer.status();
        act(&mut timer)?;
        let mut data = Map::from_iter([("remaining_time".to_owned(), seconds(timer.remaining(self.now)))]);
        if let Some(note) = note {
            data.insert("stop_reason".into(), json!(note));
        }
        self.changed(before, timer.clone(), event, data);
        Ok(Reply::Timer { timer, stand_by: None })
    }

    fn returned(&mut self, id: &ItemId, since: Timestamp, slept: Millis) -> Result<Reply, Reject> {
        let mut timer = self.timer(id)?;
        let before = timer.status();
        self.count(tally::STANDBYS, 1);
        self.count(tally::SLEPT_MS, i64::try_from(slept.get()).unwrap_or(i64::MAX));
        let saved = slept.get() / self.limits.poll_interval.get().max(1);
        self.count(tally::REQUESTS_SAVED, i64::try_from(saved).unwrap_or(i64::MAX));
        timer.returned(since, self.now);
        let data = Map::from_iter([("slept".to_owned(), seconds(slept))]);
        self.changed(before, timer.clone(), "timer.checked", data);
        Ok(Reply::Timer { timer, stand_by: None })
    }

    fn fire(&mut self, ids: &[ItemId], standing: &HashMap<ItemId, LeaseId>) -> Reply {
        let mut fired = Vec::new();
        let wanted: HashSet<&ItemId> = ids.iter().collect();
        for item in self.state.items.iter().filter(|item| wanted.contains(item.id())) {
            let Item::Timer(timer) = item;
            let mut timer = timer.clone();
            let before = timer.status();
            let steps = timer.settle(self.now);
            let mut completed = None;
            for step in &steps {
                match *step {
                    Settled::PauseOver { at, remaining, status } => {
                        let data = Map::from_iter([
                            ("due".to_owned(), json!(at.as_millis())),
                            ("remaining_time".to_owned(), seconds(remaining)),
                            ("status".to_owned(), json!(status)),
                        ]);
                        self.note(SubjectKind::Timer, &timer.id, "timer.resumed", data);
                        fired.push(Fired { id: timer.id.clone(), due: at });
                    }
                    Settled::TimeUp { due } => {
                        completed = Some(due);
                        fired.push(Fired { id: timer.id.clone(), due });
                    }
                }
            }
            if let Some(due) = completed {
                self.complete(before, timer, due, standing);
            } else if !steps.is_empty() {
                self.write(before, timer);
            }
        }
        Reply::Fired(fired)
    }

    /// The end of a timer and the message about it, in one. A call standing by gets the message leased to it, so that
    /// no other channel tells it too; if its reply is never written the lease is given back.
    fn complete(&mut self, before: Status, timer: Timer, due: Timestamp, standing: &HashMap<ItemId, LeaseId>) {
        let lease = standing.get(&timer.id).map(|id| Lease { id: id.clone(), until: self.now.plus(self.limits.lease) });
        let message = Message::timer_completed(&timer, self.now, lease);
        let data = json!({
            "due": due.as_millis(),
            "lateness_ms": self.now.since(due).get(),
            "message": { "id": message.id, "kind": message.kind, "text": message.text },
        });
        self.messages.push(MessageWrite::Insert(message));
        self.session.pending_messages += 1;
        self.count(tally::MESSAGES_CREATED, 1);
        let Value::Object(data) = data else { unreachable!("written as an object above") };
        self.changed(before, timer, "timer.completed", data);
    }

    fn close(&mut self, note: &Option<String>) -> Result<Reply, Reject> {
        if self.state.session.is_none() {
            return Err(Reject::UnknownSession(self.session.id.to_string()));
        }
        let why = match note {
            Some(note) => format!("session closed: {note}"),
            None => "session closed".to_owned(),
        };
        let mut stopped = 0;
        for Item::Timer(timer) in &self.state.items {
            if timer.is_live() {
                let id = timer.id.clone();
                let (note, now) = (Some(why.clone()), self.now);
                self.act(&id, "timer.stopped", &note, |timer| timer.stop(note.clone(), now))?;
                stopped += 1;
            }
        }
        if self.session.state == SessionState::Open {
            self.session.state = SessionState::Closed;
            let data = Map::from_iter([("stopped".to_owned(), json!(stopped))]);
            let id = self.session.id.clone();
            self.note(SubjectKind::Session, id.as_str(), "session.closed", data);
        }
        Ok(Reply::Closed { stopped })
    }

    fn commit_lease(&mut self, lease: &LeaseId, channel: &str) -> Result<Reply, Reject> {
        let delivered = inbox::commit(&self.state.inbox, lease, channel, self.now)?;
        for message in &delivered {
            let data =
                Map::from_iter([("channel".to_owned(), json!(channel)), ("text".to_owned(), json!(message.text))]);
            self.note(SubjectKind::Message, &message.id, "message.delivered", data);
        }
        self.count(tally::MESSAGES_DELIVERED, delivered.len() as i64);
        let count = delivered.len();
        self.session.pending_messages = self.session.pending_messages.saturating_sub(count as u32);
        self.messages.extend(delivered.into_iter().map(MessageWrite::Update));
        Ok(Reply::Settled(count))
    }

    fn release_lease(&mut self, lease: &LeaseId) -> Result<Reply, Reject> {
        let released = inbox::release(&self.state.inbox, lease)?;
        let count = released.len();
        self.messages.extend(released.into_iter().map(MessageWrite::Update));
        Ok(Reply::Settled(count))
    }

    fn take_along(&mut self, ride: &crate::command::Ride) -> Vec<Message> {
        let lease = Lease { id: ride.lease.clone(), until: self.now.plus(ride.length) };
        // What this very decision has delivered or released is not to be taken up again by it.
        let written = |message: &&Message| self.messages.iter().any(|write| write.message().id == message.id);
        let untouched: Vec<Message> = self.state.inbox.iter().filter(|message| !written(message)).cloned().collect();
        let riding = inbox::lease(&untouched, &lease, ride.messages_max, self.now);
        self.messages.extend(riding.iter().cloned().map(MessageWrite::Update));
        riding
    }

    /// Something new begins in this session: it exists from now on, and a closed one is open again.
    fn open(&mut self) {
        let known = self.state.session.is_some();
        if known && self.session.state == SessionState::Open {
            return;
        }
        if !known {
            self.count(tally::SESSIONS, 1);
        }
        self.session.state = SessionState::Open;
        let id = self.session.id.clone();
        self.note(SubjectKind::Session, id.as_str(), "session.opened", Map::new());
    }

    fn timer(&self, id: &ItemId) -> Result<Timer, Reject> {
        let found = self.state.items.iter().filter_map(Item::as_timer).find(|timer| timer.id == *id);
        found.cloned().ok_or_else(|| Reject::UnknownTimer { id: id.clone(), live: Vec::new() })
    }

    fn changed(&mut self, before: Status, timer: Timer, event: &'static str, mut data: Map<String, Value>) {
        data.insert("status".into(), json!(timer.status()));
        self.note(SubjectKind::Timer, &timer.id, event, data);
        self.write(before, timer);
    }

    fn write(&mut self, before: Status, timer: Timer) {
        let after = timer.status();
        if before != after {
            self.count(tally::timers(before), -1);
            self.count(tally::timers(after), 1);
        }
        if before.is_live() && !after.is_live() {
            self.session.live_timers = self.session.live_timers.saturating_sub(1);
        }
        self.items.push(ItemWrite::Update(Item::Timer(timer)));
    }

    fn note(&mut self, kind: SubjectKind, subject: impl AsRef<str>, event: &'static str, data: Map<String, Value>) {
        let data = if data.is_empty() { Value::Null } else { Value::Object(data) };
        self.history.push(HistoryEntry {
            at: self.now,
            kind,
            subject: subject.as_ref().into(),
            event: event.into(),
            data,
        });
    }

    fn count(&mut self, name: &'static str, by: i64) {
        if by != 0 {
            self.tallies.push(Tally { name, by });
        }
    }
}

fn purpose_field(purpose: &Purpose) -> (String, Value) {
    match purpose {
        Purpose::Waiting(reason) => ("reason".into(), json!(reason)),
        Purpose::Mission(mission) => ("mission".into(), json!(mission)),
    }
}
