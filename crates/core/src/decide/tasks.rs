//! Tasks: stand-bys that are asked about later.

use super::{Draft, Reply};
use crate::{
    batch::MessageWrite,
    id::{ItemId, LeaseId, TaskId},
    message::{Lease, Message},
    reject::Reject,
    task::{Task, TaskOutcome},
};
use serde_json::Map;

impl Draft<'_> {
    /// Nothing is written but the lease: what time has done to the task shows the same whenever it is read.
    pub(super) fn read_task(&mut self, timer: &ItemId, task: &TaskId) -> Result<Reply, Reject> {
        let timer = self.timer(timer)?;
        let task = timer.task(task, self.now)?;
        let lease = self.lease_of(&timer.id, &task);
        Ok(Reply::Task { timer, task, lease })
    }

    /// The right to tell the timer's end, taken anew for the time it takes to tell; `None`: it was told, or another
    /// channel is telling it. What was somebody else's to tell and was given back is anybody's, so this task's too.
    fn lease_of(&mut self, timer: &ItemId, task: &Task) -> Option<LeaseId> {
        let end = task.end.as_ref().filter(|end| end.outcome == TaskOutcome::Completed)?;
        let id = end.lease.clone().unwrap_or_else(|| task.lease());
        // A timer that recurs has left others before and since.
        let told = |message: &&Message| message.source == *timer && message.created_at == end.at;
        let held = self.state.inbox.iter().find(|message| message.source == *timer && message.is_leased_by(&id));
        let message = held.or_else(|| self.state.inbox.iter().find(told))?;
        if !message.is_leased_by(&id) && !message.is_free(self.now) {
            return None;
        }
        let lease = Some(Lease { id: id.clone(), until: self.now.plus(self.limits.lease) });
        self.messages.push(MessageWrite::Update(Message { lease, ..message.clone() }));
        Some(id)
    }

    pub(super) fn cancel_task(&mut self, timer: &ItemId, task: &TaskId) -> Result<Reply, Reject> {
        let mut timer = self.timer(timer)?;
        let before = timer.status();
        timer.cancel_task(task, self.now)?;
        let task = timer.task(task, self.now)?;
        self.changed(before, timer.clone(), "timer.task_cancelled", Map::new());
        Ok(Reply::Task { timer, task, lease: None })
    }
}
