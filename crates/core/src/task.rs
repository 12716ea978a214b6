//! A stand-by that outlives its connection: a client goes away with the task's id and asks later how it ended. It lives
//! inside its timer, so whatever ends it is written in the timer's own commit.
//!
//! A task ends once. Its `until` is looked at lazily: whatever happens to the timer next first ends the tasks whose time
//! had passed by then, at that very instant; reading does the same without writing, and sees the same.

use crate::{
    id::{ItemId, LeaseId, TaskId},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

/// A timer remembers so many; the ended ones go first. With as many open, another is refused.
pub const TASKS_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    pub since: Timestamp,
    /// `None`: until the timer ends, as for a mission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<TaskEnd>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEnd {
    pub at: Timestamp,
    pub outcome: TaskOutcome,
    /// The timer's message was leased to this task, to be told by it and nobody else for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskOutcome {
    Completed,
    Stopped,
    Background,
    Paused,
    /// Its own time was over before the timer's.
    Timeout,
    /// The task was cancelled, not the timer.
    Cancelled,
}

impl TaskOutcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            TaskOutcome::Completed => "completed",
            TaskOutcome::Stopped => "stopped",
            TaskOutcome::Background => "background",
            TaskOutcome::Paused => "paused",
            TaskOutcome::Timeout => "timeout",
            TaskOutcome::Cancelled => "cancelled",
        }
    }
}

impl Task {
    pub fn is_open(&self) -> bool {
        self.end.is_none()
    }

    /// The task as it is at `now`, whether or not that was written yet.
    pub fn settled(mut self, now: Timestamp) -> Self {
        self.settle(now);
        self
    }

    fn settle(&mut self, now: Timestamp) {
        if let Some(until) = self.until.filter(|until| *until <= now) {
            self.end(TaskOutcome::Timeout, until);
        }
    }

    fn end(&mut self, outcome: TaskOutcome, at: Timestamp) {
        if self.is_open() {
            self.end = Some(TaskEnd { at, outcome, lease: None });
        }
    }

    /// The lease under which this task would tell the timer's end. As unguessable as the task's own id.
    pub fn lease(&self) -> LeaseId {
        LeaseId::new(format!("lease_{}", self.id))
    }
}

/// Ends what had its time before `now`.
pub fn settle(tasks: &mut [Task], now: Timestamp) {
    tasks.iter_mut().for_each(|task| task.settle(now));
}

/// The timer ended or was taken from those who wait for it.
pub fn end(tasks: &mut [Task], outcome: TaskOutcome, now: Timestamp) {
    settle(tasks, now);
    tasks.iter_mut().for_each(|task| task.end(outcome, now));
}

/// The timer completed: its time was up at `due`, and that was noticed at `now`.
pub fn complete(tasks: &mut [Task], due: Timestamp, now: Timestamp) {
    for task in tasks.iter_mut() {
        match task.until.filter(|until| *until < due) {
            Some(until) => task.end(TaskOutcome::Timeout, until),
            None => task.end(TaskOutcome::Completed, now),
        }
    }
}

/// Ends one task; whether it was open.
pub fn cancel(tasks: &mut [Task], id: &TaskId, now: Timestamp) -> bool {
    settle(tasks, now);
    match tasks.iter_mut().find(|task| task.id == *id && task.is_open()) {
        Some(task) => {
            task.end(TaskOutcome::Cancelled, now);
            true
        }
        None => false,
    }
}

/// Room for one more; whether there was any to be had.
pub fn make_room(tasks: &mut Vec<Task>, now: Timestamp) -> bool {
    settle(tasks, now);
    while tasks.len() >= TASKS_MAX {
        let ended = tasks.iter().enumerate().filter_map(|(place, task)| Some((task.end.as_ref()?.at, place)));
        let Some((_, oldest)) = ended.min() else { return false };
        tasks.remove(oldest);
    }
    true
}

/// `timer_k3f9x2abcd.` and the secret: the timer is found by it without an index, and nobody guesses it.
pub fn external(timer: &ItemId, task: &TaskId) -> String {
    format!("{timer}.{task}")
}

pub fn parse(text: &str) -> Option<(ItemId, TaskId)> {
    let (timer, secret) = text.trim().rsplit_once('.')?;
    (!timer.is_empty() && !secret.is_empty()).then(|| (ItemId::new(timer), TaskId::new(secret)))
}
