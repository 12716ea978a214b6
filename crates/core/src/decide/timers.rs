//! Timers: what each command does to one, and what is written about it.

use super::{Draft, Fired, Reply};
use crate::{
    batch::{ItemWrite, RequestKey, tally},
    command::Sleep,
    history::{SubjectKind, seconds},
    id::{ItemId, LeaseId, TaskId},
    item::Item,
    message::{Lease, Message},
    reject::Reject,
    time::{Millis, Timestamp},
    timer::{Continuation, Purpose, Settled, Status, Timer},
};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

impl Draft<'_> {
    pub(super) fn create(
        &mut self,
        id: &ItemId,
        purpose: &Purpose,
        total: Millis,
        timeout: Option<Millis>,
        key: Option<&RequestKey>,
        task: Option<&TaskId>,
    ) -> Result<Reply, Reject> {
        if let Some((made, used)) = &self.state.keyed {
            return self.repeated(made, used, key, timeout, task);
        }
        if self.session.live_timers >= self.limits.live_timers_max {
            return Err(Reject::TooManyTimers { max: self.limits.live_timers_max });
        }
        self.inbox_has_room()?;
        self.open();
        let (mut timer, stand_by) = Timer::create(id.clone(), purpose.clone(), total, timeout, self.now);
        if let Some(task) = task {
            timer.begin_task(task.clone(), stand_by, self.now)?;
        }
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
        task: Option<&TaskId>,
    ) -> Result<Reply, Reject> {
        if key.is_none_or(|key| key.fingerprint != used.fingerprint) {
            return Err(Reject::RequestKeyReused { key: used.key.clone() });
        }
        let Item::Timer(timer) = made else {
            return Err(Reject::RequestKeyReused { key: used.key.clone() });
        };
        let at_once = matches!(timer.purpose, Purpose::Mission(_)) && task.is_none();
        if !timer.is_live() || at_once {
            return Ok(Reply::Timer { timer: timer.clone(), stand_by: None });
        }
        let timeout = timeout.filter(|_| matches!(timer.purpose, Purpose::Waiting(_)));
        self.continue_timer(timer.clone(), &Continuation { timeout, ..Continuation::default() }, task)
    }

    pub(super) fn continue_with(
        &mut self,
        id: &ItemId,
        ask: &Continuation,
        task: Option<&TaskId>,
    ) -> Result<Reply, Reject> {
        let timer = self.timer(id)?;
        self.continue_timer(timer, ask, task)
    }

    fn continue_timer(&mut self, mut timer: Timer, ask: &Continuation, task: Option<&TaskId>) -> Result<Reply, Reject> {
        let before = timer.status();
        let stand_by = timer.continue_with(ask.clone(), self.now)?;
        if let Some(task) = task {
            timer.begin_task(task.clone(), stand_by, self.now)?;
        }
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

    pub(super) fn act(
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

    pub(super) fn stop_many(&mut self, ids: &[ItemId], note: &Option<String>) -> Result<Reply, Reject> {
        let mut stopped = 0;
        for id in ids {
            if self.timer(id).is_ok_and(|timer| timer.is_live()) {
                let now = self.now;
                self.act(id, "timer.stopped", note, |timer| timer.stop(note.clone(), now))?;
                stopped += 1;
            }
        }
        Ok(Reply::Stopped(stopped))
    }

    pub(super) fn returned(&mut self, sleep: &Sleep) -> Result<Timer, Reject> {
        let Sleep { id, since, slept } = sleep;
        let mut timer = self.timer(id)?;
        let before = timer.status();
        self.count(tally::STANDBYS, 1);
        self.count(tally::SLEPT_MS, i64::try_from(slept.get()).unwrap_or(i64::MAX));
        let saved = slept.get() / self.limits.poll_interval.get().max(1);
        self.count(tally::REQUESTS_SAVED, i64::try_from(saved).unwrap_or(i64::MAX));
        timer.returned(*since, self.now);
        let data = Map::from_iter([("slept".to_owned(), seconds(*slept))]);
        self.changed(before, timer.clone(), "timer.checked", data);
        Ok(timer)
    }

    pub(super) fn fire_timer(&mut self, timer: &Timer, standing: &HashMap<ItemId, LeaseId>, fired: &mut Vec<Fired>) {
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
                    fired.push(Fired { id: timer.id.clone(), due: at, agent: None });
                }
                Settled::TimeUp { due } => {
                    completed = Some(due);
                    fired.push(Fired { id: timer.id.clone(), due, agent: None });
                }
            }
        }
        if let Some(due) = completed {
            self.complete(before, timer, due, standing);
        } else if !steps.is_empty() {
            self.write(before, timer);
        }
    }

    /// The end of a timer and the message about it, in one. A call standing by, else a task, gets the message leased to
    /// it, so that no other channel tells it too; if its reply is never written the lease is given back or runs out.
    fn complete(&mut self, before: Status, mut timer: Timer, due: Timestamp, standing: &HashMap<ItemId, LeaseId>) {
        let lease = standing.get(&timer.id).cloned().or_else(|| timer.lease_to_task());
        let lease = lease.map(|id| Lease { id, until: self.now.plus(self.limits.lease) });
        let message = Message::timer_completed(&timer, self.now, lease);
        let data = json!({
            "due": due.as_millis(),
            "lateness_ms": self.now.since(due).get(),
            "message": { "id": message.id, "kind": message.kind, "text": message.text },
        });
        self.tell(message);
        let Value::Object(data) = data else { unreachable!("written as an object above") };
        self.changed(before, timer, "timer.completed", data);
    }

    pub(super) fn timer(&self, id: &ItemId) -> Result<Timer, Reject> {
        let found = self.item(id).and_then(Item::as_timer);
        found.cloned().ok_or_else(|| Reject::UnknownTimer { id: id.clone(), live: Vec::new() })
    }

    pub(super) fn changed(&mut self, before: Status, timer: Timer, event: &'static str, mut data: Map<String, Value>) {
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
}

fn purpose_field(purpose: &Purpose) -> (String, Value) {
    match purpose {
        Purpose::Waiting(reason) => ("reason".into(), json!(reason)),
        Purpose::Mission(mission) => ("mission".into(), json!(mission)),
    }
}
