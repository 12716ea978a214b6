//! What can be asked of a session, and which part of it has to be loaded to decide.

use crate::{
    batch::RequestKey,
    call::{Made, Report},
    condition::{Sighting, Wanted},
    directive::Directive,
    id::{AgentId, ItemId, LeaseId, SessionId, TaskId},
    item::{Item, Kind},
    message::Message,
    quiet::Quiet,
    reminder::Ask,
    schedule::When,
    session::Session,
    session_timer::Spec,
    thread::{Answered, Aside},
    time::{Millis, Timestamp},
    timer::{Continuation, Purpose},
    utterance::Utterance,
};
use std::{collections::HashMap, sync::Arc};

/// One request to one session. Ids and keys come from outside: deciding takes no randomness.
#[derive(Clone, Debug)]
pub struct Call {
    pub command: Command,
    /// Pending messages that may travel with the reply, leased in the same commit.
    pub ride: Option<Ride>,
    /// The kind of program that calls. Kept with the session whenever something else is written; never a reason to write.
    pub client: Option<String>,
    /// Where its agent works; kept in the same way.
    pub cwd: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Ride {
    pub lease: LeaseId,
    pub length: Millis,
    pub messages_max: usize,
    /// Of their texts together, as JSON counts them. The first message travels however long it is.
    pub chars_max: usize,
    /// Leases of this prefix exclude one another: while another of them is in force in the session, nothing travels.
    pub alone_among: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub enum Command {
    Create {
        id: ItemId,
        purpose: Purpose,
        total: Millis,
        timeout: Option<Millis>,
        until: Option<Wanted>,
        key: Option<RequestKey>,
        /// The call stands by as a task of this name.
        task: Option<TaskId>,
    },
    /// The same for a timer that follows the calendar or recurs.
    Plan {
        id: ItemId,
        purpose: Purpose,
        when: Box<When>,
        timeout: Option<Millis>,
        key: Option<RequestKey>,
        task: Option<TaskId>,
    },
    Continue {
        id: ItemId,
        ask: Continuation,
        task: Option<TaskId>,
    },
    /// How a task stands. If it ended with the timer's end, the right to tell that is given along.
    ReadTask {
        timer: ItemId,
        task: TaskId,
    },
    /// Ends the task and its stand-by, never the timer.
    CancelTask {
        timer: ItemId,
        task: TaskId,
    },
    Cancel {
        id: ItemId,
        note: Option<String>,
    },
    Pause {
        id: ItemId,
        length: Millis,
        note: Option<String>,
    },
    Resume {
        id: ItemId,
        note: Option<String>,
    },
    Stop {
        id: ItemId,
        note: Option<String>,
    },
    /// Those of these timers that still live.
    StopMany {
        ids: Vec<ItemId>,
        note: Option<String>,
    },
    Read {
        id: Option<ItemId>,
    },
    /// All of these reminders, new ones and replacements, or none.
    Schedule {
        asks: Vec<Ask>,
        key: Option<RequestKey>,
    },
    ListReminders,
    CancelReminder {
        id: ItemId,
    },
    ClearReminders,
    /// A call that stood by is about to answer.
    Return(Sleep),
    /// A call that stands by returns if there is anything to tell its session; else it goes on and nothing is written.
    Hear(Sleep),
    /// Calls that stood by have answered, or are gone; of one timer at most one.
    Slept(Vec<Sleep>),
    /// Deadlines that are believed to have passed. Being wrong about it changes nothing.
    Fire {
        ids: Vec<ItemId>,
        standing: HashMap<ItemId, LeaseId>,
    },
    /// Conditions of these timers are believed to hold. Being late with it changes nothing.
    Meet {
        sightings: Vec<Sighting>,
        standing: HashMap<ItemId, LeaseId>,
    },
    /// Only take messages along.
    Collect,
    /// The same, after everything that is due by now has become a message.
    CollectDue,
    /// The delivery takes longer: the lease lasts until so much later than now.
    ExtendLease {
        lease: LeaseId,
        length: Millis,
    },
    CommitLease {
        lease: LeaseId,
        channel: String,
    },
    ReleaseLease {
        lease: LeaseId,
    },
    /// The same for one whose own commit may still be on its way, with nobody left who waits for it: once this is written, it
    /// cannot come any more.
    AbandonLease {
        lease: LeaseId,
    },
    /// What a user ordered in a message that is known by this name.
    Direct {
        thread: ItemId,
        by: String,
        directives: Vec<Directive>,
    },
    /// The agent stopped; what it is to be told then, if anything, is counted.
    TakeStopMessage {
        thread: ItemId,
    },
    /// What it was told did not reach it. `by` is the message that had armed it; whatever was ordered since counts more.
    ReturnStopMessage {
        thread: ItemId,
        text: String,
        by: Option<String>,
    },
    SetAside {
        thread: ItemId,
        aside: Aside,
    },
    /// The model knows what was set aside under this anchor.
    ForgetAside {
        thread: ItemId,
        anchor: String,
    },
    /// An answer by which the client may name the session, perhaps under another name than the upstream's.
    NameAnswer {
        answer: ItemId,
        shown: String,
        upstream: String,
        /// Calls in it that have no answer yet, with their answers.
        owed: Vec<Answered>,
    },
    Close {
        note: Option<String>,
        /// Webhooks of the session's agent, to be told of it, with ids for the calls.
        notify: Vec<(ItemId, Arc<str>)>,
    },
    /// The user of an agent's session said something, and the agent works on it: the session's timers are suspended. The
    /// first such message makes them.
    Message {
        agent: AgentId,
        /// The agent's timers, with ids for them; `None`: there is no such agent any more.
        timers: Option<Vec<(ItemId, Spec)>>,
        turn: Option<Arc<str>>,
        said: Vec<Utterance>,
        /// The agent's quiet hours, for a session that begins.
        quiet: Option<Quiet>,
    },
    /// The session's quiet hours from now on; what is to come moves with them.
    SetQuiet {
        quiet: Option<Quiet>,
    },
    /// The agent goes on by itself after it had answered: it works again, and nobody said anything.
    GoOn {
        agent: AgentId,
        turn: Arc<str>,
    },
    /// The agent still works on this turn: it is not given up yet.
    Renew {
        turn: Option<Arc<str>>,
    },
    /// The agent has answered, and silence begins.
    Response {
        /// Whose answer it is; `None`: whoever's session it is.
        agent: Option<AgentId>,
        turn: Option<Arc<str>>,
        said: Vec<Utterance>,
        /// What was called for it.
        made: Vec<Made>,
        /// Webhooks to be told of what was said, with ids for the calls: all of the agent's, in its order.
        notify: Vec<(ItemId, Arc<str>)>,
    },
    /// The same, and the agent has ended the session with it.
    LastResponse {
        agent: AgentId,
        turn: Option<Arc<str>>,
        said: Vec<Utterance>,
        /// What was called for it.
        made: Vec<Made>,
        /// Webhooks to be told of what was said, and of the end.
        notify: Vec<(ItemId, Arc<str>)>,
        notify_end: Vec<(ItemId, Arc<str>)>,
        note: String,
    },
    /// How an attempt of a call ended.
    CallEnded {
        id: ItemId,
        attempt: u32,
        report: Report,
    },
    /// A call that failed is to be made after all.
    ReplayCall {
        id: ItemId,
    },
    /// Only a history entry about the session: something was tried or done outside.
    Record {
        event: &'static str,
        data: serde_json::Value,
    },
}

/// How long a call stood by for a timer. `since` is the stand-by's own beginning, by which it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sleep {
    pub id: ItemId,
    pub since: Timestamp,
    pub slept: Millis,
}

/// What has to be loaded for a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub items: Select,
    pub inbox: bool,
    /// The item made under this idempotency key, if there is one.
    pub key: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Select {
    #[default]
    None,
    Ids(Vec<ItemId>),
    Live,
    LiveOf(Kind),
    /// The live ones and the latest of the ended ones.
    Recent,
    RecentOf(Kind),
    /// These; and if one of them ends its session ([`Item::ends_session`]), everything live in it.
    Fired(Vec<ItemId>),
    /// What is changed by settling this lease, see [`Message::settles_source`].
    SettledBy(LeaseId),
}

/// The loaded part of one session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub session: Option<Session>,
    pub items: Vec<Item>,
    /// Undelivered messages, oldest first.
    pub inbox: Vec<Message>,
    pub keyed: Option<(Item, RequestKey)>,
}

impl Call {
    pub fn new(command: Command) -> Self {
        Self { command, ride: None, client: None, cwd: None }
    }

    pub fn needs(&self) -> Needs {
        let one = |id: &ItemId| Select::Ids(vec![id.clone()]);
        let (items, key) = match &self.command {
            Command::Create { key, .. } | Command::Plan { key, .. } => {
                (Select::None, key.as_ref().map(|key| key.key.clone()))
            }
            Command::Continue { id, .. }
            | Command::Cancel { id, .. }
            | Command::Pause { id, .. }
            | Command::Resume { id, .. }
            | Command::Stop { id, .. }
            | Command::Return(Sleep { id, .. })
            | Command::Hear(Sleep { id, .. })
            | Command::Read { id: Some(id) }
            | Command::ReadTask { timer: id, .. }
            | Command::CancelTask { timer: id, .. } => (one(id), None),
            Command::Fire { ids, .. } => (Select::Fired(ids.clone()), None),
            Command::Meet { sightings, .. } => {
                (Select::Ids(sightings.iter().map(|sighting| sighting.id.clone()).collect()), None)
            }
            Command::StopMany { ids, .. } => (Select::Ids(ids.clone()), None),
            Command::Slept(sleeps) => (Select::Ids(sleeps.iter().map(|sleep| sleep.id.clone()).collect()), None),
            Command::Message { .. } | Command::GoOn { .. } | Command::Renew { .. } | Command::Response { .. } => {
                (Select::LiveOf(Kind::SessionTimer), None)
            }
            Command::CallEnded { id, .. } | Command::ReplayCall { id } => (one(id), None),
            Command::Read { id: None } => (Select::RecentOf(Kind::Timer), None),
            Command::Close { .. } | Command::LastResponse { .. } | Command::CollectDue | Command::SetQuiet { .. } => {
                (Select::Live, None)
            }
            Command::Schedule { asks, key } => (replaced(asks), key.as_ref().map(|key| key.key.clone())),
            Command::ListReminders => (Select::RecentOf(Kind::Reminder), None),
            Command::CancelReminder { id } => (one(id), None),
            Command::ClearReminders => (Select::LiveOf(Kind::Reminder), None),
            Command::Direct { thread, .. }
            | Command::TakeStopMessage { thread }
            | Command::ReturnStopMessage { thread, .. }
            | Command::SetAside { thread, .. }
            | Command::ForgetAside { thread, .. }
            | Command::NameAnswer { answer: thread, .. } => (one(thread), None),
            Command::CommitLease { lease, .. } | Command::ReleaseLease { lease } | Command::AbandonLease { lease } => {
                (Select::SettledBy(lease.clone()), None)
            }
            Command::Collect | Command::Record { .. } | Command::ExtendLease { .. } => (Select::None, None),
        };
        // Whatever may withdraw a message or settle it has to see it.
        let touches_inbox = match &self.command {
            Command::Schedule { .. } => items != Select::None,
            Command::ReadTask { .. }
            | Command::Hear(_)
            | Command::CancelReminder { .. }
            | Command::ClearReminders
            | Command::Close { .. }
            | Command::LastResponse { .. }
            | Command::Fire { .. }
            | Command::ExtendLease { .. }
            | Command::CommitLease { .. }
            | Command::ReleaseLease { .. }
            | Command::AbandonLease { .. } => true,
            _ => false,
        };
        Needs { items, inbox: self.ride.is_some() || touches_inbox, key }
    }
}

fn replaced(asks: &[Ask]) -> Select {
    let ids: Vec<ItemId> = asks
        .iter()
        .filter_map(|ask| match ask {
            Ask::Replace { id, .. } => Some(id.clone()),
            Ask::New { .. } => None,
        })
        .collect();
    if ids.is_empty() { Select::None } else { Select::Ids(ids) }
}

impl State {
    /// Loaded items whose deadline has passed and that time has not acted on.
    pub fn overdue(&self, now: Timestamp) -> Vec<ItemId> {
        self.items
            .iter()
            .chain(self.keyed.iter().map(|(item, _)| item))
            .filter(|item| item.due().is_some_and(|due| due <= now))
            .map(|item| item.id().clone())
            .collect()
    }

    pub fn session_or_new(&self, id: &SessionId, now: Timestamp) -> Session {
        self.session.clone().unwrap_or_else(|| Session {
            id: id.clone(),
            version: 0,
            state: crate::session::SessionState::Open,
            created_at: now,
            active_at: now,
            live_timers: 0,
            live_reminders: 0,
            pending_messages: 0,
            client: None,
            cwd: None,
            agent: None,
            quiet: crate::quiet::Hours::default(),
        })
    }
}
