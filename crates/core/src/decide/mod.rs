//! Where everything is decided, once. Pure: the same state, call and instant always give the same decision. Here is what
//! is common to all; what each kind of thing does is in the file named after it.

mod calls;
mod inbox;
mod quiet;
mod reminders;
mod session_timers;
mod tasks;
mod threads;
mod timers;

use crate::{
    batch::{Batch, ItemWrite, MessageWrite, Tally, tally},
    call::ToolCall,
    command::{Call, Command, State},
    history::{HistoryEntry, SubjectKind},
    id::{AgentId, ItemId, LeaseId, SessionId},
    item::Item,
    limits::Limits,
    message::Message,
    quiet::Quiet,
    reject::Reject,
    reminder::Reminder,
    session::{Session, SessionState},
    session_timer::SessionTimer,
    task::Task,
    time::{Millis, Timestamp},
    timer::Timer,
    utterance::Utterance,
};
use serde_json::{Map, Value, json};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

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
    /// `quiet`: the hours in which none of them is told.
    Timers {
        timers: Vec<Timer>,
        quiet: Option<Quiet>,
    },
    /// A task as it is now, its timer, and the lease to be committed once the timer's end was told by it.
    Task {
        timer: Timer,
        task: Task,
        lease: Option<LeaseId>,
    },
    Fired(Vec<Fired>),
    /// The timers that their conditions have ended.
    Met(Vec<ItemId>),
    /// How many messages a lease held.
    Settled(usize),
    Collected,
    /// Nothing to tell now. What somebody else has the right to deliver is free again then, should it not be.
    Unheard {
        free_at: Option<Timestamp>,
    },
    Recorded,
    /// How many timers were stopped, reminders and session timers cancelled.
    Closed(Closed),
    /// The session's timers as they are now, and whether this made them.
    Turn {
        agent: AgentId,
        timers: Vec<SessionTimer>,
        began: bool,
    },
    Call(ToolCall),
    Scheduled(Vec<Scheduled>),
    Reminder(Reminder),
    Reminders(Vec<Reminder>),
    /// How many timers were stopped.
    Stopped(usize),
    /// How many reminders were cancelled.
    Cleared(usize),
    /// What an agent that stopped is told.
    StopMessage(Option<String>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    pub stopped: usize,
    pub cancelled: usize,
    pub session_timers: usize,
}

/// One reminder of a `schedule` call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    pub id: ItemId,
    pub due_at: Timestamp,
    /// It is to be told within quiet hours, and is when they are over.
    pub opens_at: Option<Timestamp>,
    pub task: String,
}

/// A deadline that was acted on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    pub id: ItemId,
    pub due: Timestamp,
    /// Of a session timer that did what it is for: whose.
    pub agent: Option<AgentId>,
}

pub fn decide(
    session: &SessionId,
    state: &State,
    call: &Call,
    now: Timestamp,
    limits: &Limits,
) -> Result<Decision, Reject> {
    // Settling a lease or a call is about what was done, or was not: time must not take that away first.
    let settles = matches!(
        call.command,
        Command::ExtendLease { .. }
            | Command::CommitLease { .. }
            | Command::ReleaseLease { .. }
            | Command::AbandonLease { .. }
            | Command::CallEnded { .. }
    );
    if !settles && !matches!(call.command, Command::Fire { .. }) {
        let overdue = state.overdue(now);
        if !overdue.is_empty() {
            return Err(Reject::Overdue(overdue));
        }
    }
    let mut draft = Draft::new(session, state, now, limits);
    if call.client.is_some() {
        draft.session.client.clone_from(&call.client);
    }
    if call.cwd.is_some() {
        draft.session.cwd.clone_from(&call.cwd);
    }
    let reply = match &call.command {
        Command::Create { id, purpose, total, timeout, until, key, task } => {
            let until = until.clone();
            let timer = |now| Ok(Timer::create(id.clone(), purpose.clone(), *total, *timeout, until, now));
            draft.create(timer, *timeout, key.as_ref(), task.as_ref())?
        }
        Command::Plan { id, purpose, when, timeout, key, task } => {
            let planned = |now| {
                let schedule = when.resolve(now, limits)?;
                Ok(Timer::planned(id.clone(), purpose.clone(), schedule, *timeout, now))
            };
            draft.create(planned, *timeout, key.as_ref(), task.as_ref())?
        }
        Command::Continue { id, ask, task } => draft.continue_with(id, ask, task.as_ref())?,
        Command::ReadTask { timer, task } => draft.read_task(timer, task)?,
        Command::CancelTask { timer, task } => draft.cancel_task(timer, task)?,
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
        Command::StopMany { ids, note } => draft.stop_many(ids, note)?,
        Command::Read { id: Some(id) } => Reply::Timer { timer: draft.timer(id)?, stand_by: None },
        Command::Read { id: None } => {
            let timers = state.items.iter().filter_map(Item::as_timer).cloned().collect();
            Reply::Timers { timers, quiet: draft.quiet() }
        }
        Command::Return(sleep) => Reply::Timer { timer: draft.returned(sleep)?, stand_by: None },
        Command::Hear(sleep) => draft.hear(sleep)?,
        Command::Slept(sleeps) => {
            // One whose timer is gone has nothing to be added to.
            sleeps.iter().for_each(|sleep| drop(draft.returned(sleep)));
            Reply::Recorded
        }
        Command::Fire { ids, standing } => draft.fire(ids, standing),
        Command::Meet { sightings, standing } => draft.meet(sightings, standing),
        Command::Schedule { asks, key } => draft.schedule(asks, key.as_ref())?,
        Command::ListReminders => Reply::Reminders(state.items.iter().filter_map(Item::as_reminder).cloned().collect()),
        Command::CancelReminder { id } => {
            let reminder = draft.reminder(id)?;
            Reply::Reminder(draft.cancel_reminder(reminder, None)?)
        }
        Command::ClearReminders => draft.clear_reminders()?,
        Command::Collect | Command::CollectDue => Reply::Collected,
        Command::ExtendLease { lease, length } => draft.extend_lease(lease, *length)?,
        Command::Direct { thread, by, directives } => draft.direct(thread, by, directives),
        Command::TakeStopMessage { thread } => draft.take_stop_message(thread),
        Command::ReturnStopMessage { thread, text, by } => draft.return_stop_message(thread, text, by.as_deref()),
        Command::SetAside { thread, aside } => draft.set_aside(thread, aside),
        Command::ForgetAside { thread, anchor } => draft.forget_aside(thread, anchor),
        Command::NameAnswer { answer, shown, upstream, owed } => draft.name_answer(answer, shown, upstream, owed),
        Command::CommitLease { lease, channel } => draft.commit_lease(lease, channel)?,
        Command::ReleaseLease { lease } => draft.release_lease(lease)?,
        Command::AbandonLease { lease } => draft.abandon_lease(lease)?,
        Command::Close { note, notify } => draft.close_asked(note.as_deref(), notify)?,
        Command::Message { agent, timers, turn, said, quiet } => {
            draft.message(agent, timers.as_deref().map(|timers| (timers, quiet.as_ref())), turn.as_ref(), said)?
        }
        Command::SetQuiet { quiet } => draft.set_quiet(quiet.as_ref())?,
        Command::GoOn { agent, turn } => draft.go_on(agent, turn)?,
        Command::Renew { turn } => draft.renew(turn.as_ref())?,
        Command::Response { agent, turn, said, made, notify } => {
            draft.response(agent.as_ref(), turn.as_ref(), (said, made), notify)?
        }
        Command::LastResponse { agent, turn, said, made, notify, notify_end, note } => {
            draft.response(Some(agent), turn.as_ref(), (said, made), notify)?;
            draft.close_asked(Some(note), notify_end)?
        }
        Command::CallEnded { id, attempt, report } => draft.call_ended(id, *attempt, report)?,
        Command::ReplayCall { id } => draft.replay_call(id)?,
        Command::Record { event, data } => draft.record(event, data),
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
    said: Vec<Utterance>,
    history: Vec<HistoryEntry>,
    tallies: Vec<Tally>,
    /// Written even if nothing else is: the session's next version alone.
    fenced: bool,
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
            said: Vec::new(),
            history: Vec::new(),
            tallies: Vec::new(),
            fenced: false,
        }
    }

    /// A session nothing was written for stays as it is, or stays unmade.
    fn finish(mut self) -> Option<Batch> {
        let written = self.fenced || !(self.items.is_empty() && self.messages.is_empty() && self.said.is_empty());
        if !written && self.history.is_empty() && self.tallies.is_empty() {
            return None;
        }
        self.session.version += 1;
        self.session.active_at = self.now;
        Some(Batch {
            expected: self.state.session.as_ref().map(|session| session.version),
            session: self.session,
            items: self.items,
            messages: self.messages,
            said: self.said,
            history: self.history,
            tallies: self.tallies,
        })
    }

    fn fire(&mut self, ids: &[ItemId], standing: &HashMap<ItemId, LeaseId>) -> Reply {
        let mut fired = Vec::new();
        let wanted: HashSet<&ItemId> = ids.iter().collect();
        // In the order in which it became due, and whatever ends the session last: it ends the others with it.
        let mut due: Vec<&Item> = self.state.items.iter().filter(|item| wanted.contains(item.id())).collect();
        let seq = |item: &Item| item.as_call().map(|call| call.seq);
        if due.iter().any(|item| item.ends_session()) {
            due.sort_by_key(|item| (item.due().is_none(), item.due(), item.ends_session(), seq(item)));
        } else {
            // Calls are begun in the order in which they were caused.
            due.sort_by_key(|item| seq(item));
        }
        for item in due {
            match item {
                Item::Timer(timer) => self.fire_timer(timer, standing, &mut fired),
                Item::Reminder(reminder) => self.fire_reminder(reminder, &mut fired),
                Item::Thread(_) => {}
                Item::Call(call) => self.fire_call(call, &mut fired),
                Item::SessionTimer(timer) => {
                    if self.fire_session_timer(timer, &mut fired) {
                        break;
                    }
                }
            }
        }
        Reply::Fired(fired)
    }

    fn close_asked(&mut self, note: Option<&str>, notify: &[(ItemId, Arc<str>)]) -> Result<Reply, Reject> {
        if self.state.session.is_none() {
            return Err(Reject::UnknownSession(self.session.id.to_string()));
        }
        let why = match note {
            Some(note) => format!("session closed: {note}"),
            None => "session closed".to_owned(),
        };
        let was_open = self.session.state == SessionState::Open;
        let closed = self.close(&why)?;
        if let Some(agent) = self.session.agent.clone().filter(|_| was_open) {
            self.tell_webhooks(&agent, notify, "session.closed", &json!({"reason": why}));
        }
        Ok(Reply::Closed(closed))
    }

    /// Ends everything that lives in the session, and the session. Calls that this very decision makes go on.
    fn close(&mut self, why: &str) -> Result<Closed, Reject> {
        let mut closed = Closed::default();
        let live: Vec<Item> = self.state.items.iter().map(|item| self.current(item).clone()).collect();
        for item in live.into_iter().filter(|item| item.ended_at().is_none()) {
            match item {
                Item::Timer(timer) => {
                    let (note, now) = (Some(why.to_owned()), self.now);
                    self.act(&timer.id, "timer.stopped", &note, |timer| timer.stop(note.clone(), now))?;
                    closed.stopped += 1;
                }
                Item::Reminder(reminder) => {
                    self.cancel_reminder(reminder, Some(why))?;
                    closed.cancelled += 1;
                }
                Item::Thread(thread) => self.close_thread(&thread),
                Item::SessionTimer(timer) => {
                    self.cancel_session_timer(timer);
                    closed.session_timers += 1;
                }
                Item::Call(call) => self.cancel_call(call),
            }
        }
        if self.session.state == SessionState::Open {
            self.session.state = SessionState::Closed;
            let mut data = Map::from_iter([
                ("stopped".to_owned(), json!(closed.stopped)),
                ("cancelled".to_owned(), json!(closed.cancelled)),
            ]);
            if let Some(agent) = self.session.agent.clone() {
                data.insert("agent".to_owned(), json!(agent));
                data.insert("session_timers".to_owned(), json!(closed.session_timers));
                data.insert("reason".to_owned(), json!(why));
            }
            let id = self.session.id.clone();
            self.note(SubjectKind::Session, id.as_str(), "session.closed", data);
        }
        Ok(closed)
    }

    /// An item as this decision has left it so far.
    fn current<'b>(&'b self, item: &'b Item) -> &'b Item {
        let written = self.items.iter().rev().map(ItemWrite::item).find(|written| written.id() == item.id());
        written.unwrap_or(item)
    }

    fn item(&self, id: &ItemId) -> Option<&Item> {
        self.state.items.iter().find(|item| item.id() == id).map(|item| self.current(item))
    }

    fn record(&mut self, event: &'static str, data: &Value) -> Reply {
        let id = self.session.id.clone();
        let data = data.as_object().cloned().unwrap_or_default();
        self.note(SubjectKind::Session, id.as_str(), event, data);
        Reply::Recorded
    }

    /// Something new begins in this session: it exists from now on, and a closed one is open again, and nobody's.
    fn open(&mut self) {
        let known = self.state.session.is_some();
        if known && self.session.state == SessionState::Open {
            return;
        }
        if !known {
            self.count(tally::SESSIONS, 1);
        }
        (self.session.state, self.session.agent) = (SessionState::Open, None);
        let id = self.session.id.clone();
        self.note(SubjectKind::Session, id.as_str(), "session.opened", Map::new());
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

    fn count(&mut self, name: impl Into<Cow<'static, str>>, by: i64) {
        if by != 0 {
            self.tallies.push(Tally { name: name.into(), by });
        }
    }

    /// What was promised for `due` happens now.
    fn happened(&mut self, due: Timestamp) {
        self.count(tally::lateness(self.now.since(due)), 1);
    }
}
