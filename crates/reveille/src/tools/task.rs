//! Tasks: a stand-by whose client went away with its name, and asks later how it ended.

use super::{MessageView, Outcome, TimerResult, TimerView};
use crate::engine::{Delivery, Engine, EngineError};
use reveille_core::{
    Call, Command, ItemId, Millis, Reject, Reply, SessionId, TaskId, Timer, Timestamp,
    task::{self, Task, TaskEnd, TaskOutcome},
};
use reveille_store::{HistoryFilter, StoreError};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// A client asks at the soonest and at the latest after so long. Well within a lease, so that a task that has ended is
/// told by its own client before any other channel may.
const POLL_MIN: Millis = Millis::from_secs(1);
const POLL_MAX: Millis = Millis::from_secs(15);
/// The way out, as the history shows it.
const CHANNEL: &str = "task";
/// Of a timer's history, how far back its end is looked for. An end that is not found was told by a way nobody names.
const HISTORY_MAX: usize = 100;

/// A task as its client is told of it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TaskView {
    /// Whoever knows it may ask; nobody can guess it.
    pub id: String,
    pub status: TaskStatus,
    /// Milliseconds since 1970, as all instants here.
    pub created_at: i64,
    pub updated_at: i64,
    /// How long after its creation it can be asked about, in milliseconds.
    pub ttl_ms: u64,
    /// When to ask again, in milliseconds.
    pub poll_interval_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    Working,
    Completed,
    Cancelled,
}

/// How a task stands; the stand-by's result once it has ended.
#[derive(Debug)]
pub struct TaskReply {
    pub session: SessionId,
    pub task: TaskView,
    pub result: Option<Box<TimerResult>>,
    pub deliveries: Vec<Arc<Delivery>>,
}

impl TaskView {
    pub fn of(timer: &Timer, task: &Task, retention: Millis, now: Timestamp) -> Self {
        let status = match task.end.as_ref().map(|end| end.outcome) {
            None => TaskStatus::Working,
            Some(TaskOutcome::Cancelled) => TaskStatus::Cancelled,
            Some(_) => TaskStatus::Completed,
        };
        let ends = task.end.as_ref().map(|end| end.at).or(task.until).or(timer.due()).unwrap_or(now);
        let left = ends.since(now);
        let poll = Millis::new(left.get() / 20).max(POLL_MIN).min(POLL_MAX);
        Self {
            id: task::external(&timer.id, &task.id),
            status,
            created_at: task.since.as_millis(),
            updated_at: task.end.as_ref().map_or(task.since, |end| end.at).as_millis(),
            ttl_ms: ends.since(task.since).plus(retention).get(),
            poll_interval_ms: poll.get(),
        }
    }
}

impl Engine {
    /// How a task stands. `session`: the one the asker belongs to, if that is known; others' tasks are not there for it.
    pub async fn read_task(&self, session: Option<&SessionId>, id: &str) -> Result<TaskReply, EngineError> {
        let (owner, timer, task) = self.find_task(session, id).await?;
        let done = self.execute(&owner, Call::new(Command::ReadTask { timer, task })).await?;
        Ok(self.task_reply(owner, done.reply).await)
    }

    /// Ends the task and its stand-by, never the timer. One that has ended is left as it is.
    pub async fn cancel_task(&self, session: Option<&SessionId>, id: &str) -> Result<TaskReply, EngineError> {
        let (owner, timer, task) = self.find_task(session, id).await?;
        match self.execute(&owner, Call::new(Command::CancelTask { timer, task })).await {
            Ok(done) => Ok(self.task_reply(owner, done.reply).await),
            Err(EngineError::Reject(Reject::TaskEnded { .. })) => self.read_task(session, id).await,
            Err(error) => Err(error),
        }
    }

    /// The session of the timer that a task's name speaks of, whether there is such a task or not.
    pub async fn owner_of_task(&self, id: &str) -> Result<Option<SessionId>, StoreError> {
        let Some((timer, _)) = task::parse(id) else { return Ok(None) };
        Ok(self.store().load_items(vec![timer]).await?.pop().map(|(owner, _)| owner))
    }

    async fn find_task(
        &self,
        session: Option<&SessionId>,
        id: &str,
    ) -> Result<(SessionId, ItemId, TaskId), EngineError> {
        let unknown = |timer: ItemId| EngineError::Reject(Reject::UnknownTask { timer });
        let (timer, task) = task::parse(id).ok_or_else(|| unknown(ItemId::new(reveille_core::text::shown(id))))?;
        let owner = self.owner_of_task(id).await?;
        match owner.filter(|owner| session.is_none_or(|session| session == owner)) {
            Some(owner) => Ok((owner, timer, task)),
            None => Err(unknown(timer)),
        }
    }

    async fn task_reply(&self, session: SessionId, reply: Reply) -> TaskReply {
        let Reply::Task { timer, task, lease } = reply else { unreachable!("commands about a task answer with it") };
        let now = self.now();
        let end = task.end.as_ref();
        let outcome = end.and_then(|end| outcome(end.outcome, &timer)).map(|outcome| match outcome {
            Outcome::Completed if timer.is_live() => Outcome::Fired,
            outcome => outcome,
        });
        // The end of a timer is a message like any other: told by one.
        let elsewhere = match end.filter(|end| end.outcome == TaskOutcome::Completed && lease.is_none()) {
            Some(end) => Some(self.told_of(&session, &timer, end).await),
            None => None,
        };
        let mut deliveries: Vec<_> =
            lease.map(|lease| self.delivering(session.clone(), lease, CHANNEL)).into_iter().collect();
        let mut messages = Vec::new();
        // A result that was told may be fetched again, and nobody may look at it then.
        if outcome.is_some()
            && elsewhere.is_none()
            && let Ok(collected) = self.collect(&session, self.ride()).await
        {
            messages = collected.riding.iter().map(MessageView::delivered).collect();
            deliveries.extend(collected.delivery);
        }
        let result = outcome.map(|outcome| {
            Box::new(TimerResult {
                timer: TimerView::of(&timer, now).known_here(&timer, self),
                timeout: Some(outcome == Outcome::Timeout),
                outcome,
                messages,
                delivery: None,
                hint: elsewhere.and_then(|told| told.hint()).unwrap_or_else(|| outcome.hint(&timer, now)),
            })
        });
        TaskReply { task: TaskView::of(&timer, &task, self.retention(), now), session, result, deliveries }
    }

    /// What became of the message about a task's end that this task may not tell.
    async fn told_of(&self, session: &SessionId, timer: &Timer, end: &TaskEnd) -> Told {
        let find = async |subject: &str, event: Option<&str>| {
            let (session, subject) = (Some(session.clone()), Some(subject.to_owned()));
            let event = event.map(str::to_owned);
            let filter = HistoryFilter { session, subject, event, limit: HISTORY_MAX, ..HistoryFilter::default() };
            self.store().history(filter).await.unwrap_or_default()
        };
        // A timer that recurs has left others before and since.
        let ended = find(timer.id.as_str(), None).await.into_iter().find_map(|recorded| {
            let id = recorded.entry.data["message"]["id"].as_str().map(str::to_owned);
            id.filter(|_| recorded.entry.at == end.at)
        });
        let Some(message) = ended else { return Told::Elsewhere(None) };
        let delivered = find(&message, Some("message.delivered")).await;
        let channel = delivered.first().and_then(|recorded| recorded.entry.data["channel"].as_str());
        match channel {
            Some(CHANNEL) if end.lease.is_some() => Told::ByItself,
            channel => Told::Elsewhere(channel.map(str::to_owned)),
        }
    }
}

/// Who has told a task's end.
enum Told {
    /// Its client asks again, and hears the same.
    ByItself,
    /// Another way, or none yet that is known: one that holds the message right now.
    Elsewhere(Option<String>),
}

impl Told {
    fn hint(&self) -> Option<String> {
        match self {
            Told::ByItself => None,
            Told::Elsewhere(Some(channel)) => {
                Some(format!("Already told by {channel}: nothing more is to be done about it."))
            }
            Told::Elsewhere(None) => Some("Another way tells it: nothing is to be done about it here.".into()),
        }
    }
}

fn outcome(end: TaskOutcome, timer: &Timer) -> Option<Outcome> {
    match end {
        TaskOutcome::Completed => Some(Outcome::ended(timer)),
        TaskOutcome::Stopped => Some(Outcome::Stopped),
        TaskOutcome::Background => Some(Outcome::Background),
        TaskOutcome::Paused => Some(Outcome::Paused),
        TaskOutcome::Timeout => Some(Outcome::Timeout),
        TaskOutcome::Cancelled => None,
    }
}
