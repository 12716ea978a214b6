//! Tasks: a stand-by whose client went away with its name, and asks later how it ended.

use super::{Outcome, TimerResult, TimerView};
use crate::engine::{Delivery, Engine, EngineError};
use reveille_core::{
    Call, Command, ItemId, Millis, Reject, Reply, SessionId, TaskId, Timer, Timestamp,
    task::{self, Task, TaskOutcome},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// A client asks at the soonest and at the latest after so long. Well within a lease, so that a task that has ended is
/// told by its own client before any other channel may.
const POLL_MIN: Millis = Millis::from_secs(1);
const POLL_MAX: Millis = Millis::from_secs(15);

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
        Ok(self.task_reply(owner, done.reply))
    }

    /// Ends the task and its stand-by, never the timer. One that has ended is left as it is.
    pub async fn cancel_task(&self, session: Option<&SessionId>, id: &str) -> Result<TaskReply, EngineError> {
        let (owner, timer, task) = self.find_task(session, id).await?;
        match self.execute(&owner, Call::new(Command::CancelTask { timer, task })).await {
            Ok(done) => Ok(self.task_reply(owner, done.reply)),
            Err(EngineError::Reject(Reject::TaskEnded { .. })) => self.read_task(session, id).await,
            Err(error) => Err(error),
        }
    }

    async fn find_task(
        &self,
        session: Option<&SessionId>,
        id: &str,
    ) -> Result<(SessionId, ItemId, TaskId), EngineError> {
        let unknown = |timer: ItemId| EngineError::Reject(Reject::UnknownTask { timer });
        let (timer, task) = task::parse(id).ok_or_else(|| unknown(ItemId::new(reveille_core::text::shown(id))))?;
        let owner = self.store().load_items(vec![timer.clone()]).await?.pop().map(|(owner, _)| owner);
        match owner.filter(|owner| session.is_none_or(|session| session == owner)) {
            Some(owner) => Ok((owner, timer, task)),
            None => Err(unknown(timer)),
        }
    }

    fn task_reply(&self, session: SessionId, reply: Reply) -> TaskReply {
        let Reply::Task { timer, task, lease } = reply else { unreachable!("commands about a task answer with it") };
        let now = self.now();
        let outcome = task.end.as_ref().and_then(|end| outcome(end.outcome));
        let result = outcome.map(|outcome| {
            Box::new(TimerResult {
                timer: TimerView::of(&timer, now),
                timeout: Some(outcome == Outcome::Timeout),
                outcome,
                messages: Vec::new(),
                delivery: None,
                hint: outcome.hint(&timer, now),
            })
        });
        let deliveries = lease.map(|lease| self.delivering(session.clone(), lease, "task")).into_iter().collect();
        TaskReply { task: TaskView::of(&timer, &task, self.retention(), now), session, result, deliveries }
    }
}

fn outcome(end: TaskOutcome) -> Option<Outcome> {
    match end {
        TaskOutcome::Completed => Some(Outcome::Completed),
        TaskOutcome::Stopped => Some(Outcome::Stopped),
        TaskOutcome::Background => Some(Outcome::Background),
        TaskOutcome::Paused => Some(Outcome::Paused),
        TaskOutcome::Timeout => Some(Outcome::Timeout),
        TaskOutcome::Cancelled => None,
    }
}
