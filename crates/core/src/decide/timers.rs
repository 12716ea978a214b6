//! Timers: what each command does to one, and what is written about it.

use super::{Draft, Fired, Reply};
use crate::{
    batch::{ItemWrite, RequestKey, tally},
    command::Sleep,
    condition::{Sighting, Watch},
    history::{SubjectKind, seconds},
    id::{ItemId, LeaseId, TaskId},
    item::Item,
    message::{Ended, Lease, Message, Occurrence},
    recurrence::Strike,
    reject::Reject,
    time::{Millis, Timestamp},
    timer::{Continuation, Met, Purpose, Settled, Status, Timer},
};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

impl Draft<'_> {
    /// `made`: the timer as it begins now, and how long the call stands by.
    pub(super) fn create(
        &mut self,
        made: impl FnOnce(Timestamp) -> Result<(Timer, Option<Millis>), Reject>,
        timeout: Option<Millis>,
        key: Option<&RequestKey>,
        task: Option<&TaskId>,
    ) -> Result<Reply, Reject> {
        if let Some((before, used)) = &self.state.keyed {
            return self.repeated(before, used, key, timeout, task);
        }
        if self.session.live_timers >= self.limits.live_timers_max {
            return Err(Reject::TooManyTimers { max: self.limits.live_timers_max });
        }
        self.inbox_has_room()?;
        let (mut timer, stand_by) = made(self.now)?;
        self.open();
        if let Some(task) = task {
            timer.begin_task(task.clone(), stand_by, self.now)?;
        }
        let timer = self.held(timer);
        self.session.live_timers += 1;
        self.count(tally::TIMERS_CREATED, 1);
        self.count(tally::timers(timer.status()), 1);
        let mut data = Map::from_iter([purpose_field(&timer.purpose)]);
        data.insert("total_duration".into(), seconds(timer.total));
        data.extend(timer.schedule.as_deref().map(|schedule| ("schedule".to_owned(), json!(schedule.to_string()))));
        data.extend(until_field(&timer));
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
        let (before, watched) = (timer.status(), timer.until.clone());
        let stand_by = timer.continue_with(ask.clone(), self.now)?;
        if let Some(task) = task {
            timer.begin_task(task.clone(), stand_by, self.now)?;
        }
        let timer = self.held(timer);
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
        if ask.until.is_some() {
            watched.iter().for_each(|watch| self.waited(watch, timer.elapsed(self.now)));
            data.extend(until_field(&timer));
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
        let timer = self.held(timer);
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
        // Of a condition, the whole wait is counted when it is over.
        if timer.until.is_none() {
            self.count(tally::REQUESTS_SAVED, self.looks_within(*slept));
        }
        timer.returned(*since, self.now);
        let timer = self.held(timer);
        let data = Map::from_iter([("slept".to_owned(), seconds(*slept))]);
        self.changed(before, timer.clone(), "timer.checked", data);
        Ok(timer)
    }

    /// The messages themselves travel with the reply, as with any other.
    pub(super) fn hear(&mut self, sleep: &Sleep) -> Result<Reply, Reject> {
        let (inbox, now) = (&self.state.inbox, self.now);
        if inbox.iter().any(|message| message.is_free(now)) {
            return Ok(Reply::Timer { timer: self.returned(sleep)?, stand_by: None });
        }
        Ok(Reply::Unheard { free_at: inbox.iter().filter_map(|message| message.held_until(now)).min() })
    }

    pub(super) fn fire_timer(&mut self, timer: &Timer, standing: &HashMap<ItemId, LeaseId>, fired: &mut Vec<Fired>) {
        let mut timer = timer.clone();
        let before = timer.status();
        let (quiet, opens_at) = (self.quiet(), timer.opens_at);
        let awaited = standing.contains_key(&timer.id);
        if !awaited {
            // A call that was lost with its process waits no more.
            timer.standby = None;
        }
        let stood_by = awaited || timer.is_stood_by();
        let steps = timer.settle_within(Some((quiet.as_ref(), stood_by)), self.now);
        let mut completed = None;
        let mut struck = None;
        for step in steps.iter().cloned() {
            match step {
                Settled::PauseOver { at, remaining, status } => {
                    let data = Map::from_iter([
                        ("due".to_owned(), json!(at.as_millis())),
                        ("remaining_time".to_owned(), seconds(remaining)),
                        ("status".to_owned(), json!(status)),
                    ]);
                    self.note(SubjectKind::Timer, &timer.id, "timer.resumed", data);
                    fired.push(Fired { id: timer.id.clone(), due: at, agent: None });
                }
                Settled::TimeUp { due, opened } => {
                    completed = Some(Ended { due, opened });
                    fired.push(Fired { id: timer.id.clone(), due: opened, agent: None });
                }
                Settled::Struck { due, strike } => {
                    // What was missed while nobody was there says nothing about how late this server is.
                    let due = strike.told.last().map_or(due, |(_, last)| *last).max(strike.opened);
                    fired.push(Fired { id: timer.id.clone(), due, agent: None });
                    struck = Some(strike);
                }
            }
        }
        if completed.is_some() {
            self.complete(before, timer, completed, standing);
        } else if let Some(strike) = struck {
            self.struck(before, timer, &strike, standing);
        } else if !steps.is_empty() {
            self.write(before, timer);
        } else if let Some(until) = timer.opens_at.filter(|_| timer.opens_at != opens_at) {
            self.waits(SubjectKind::Timer, &timer.id, until, Map::new());
            self.write(before, timer);
        }
    }

    /// Ends those timers whose condition holds, if they still wait for it. Within quiet hours the end is told after them.
    pub(super) fn meet(&mut self, sightings: &[Sighting], standing: &HashMap<ItemId, LeaseId>) -> Reply {
        let quiet = self.quiet();
        let mut met = Vec::new();
        for Sighting { id, since, seen } in sightings {
            let Ok(mut timer) = self.timer(id) else { continue };
            let before = timer.status();
            match timer.meet(*since, seen.clone(), quiet.as_ref(), standing.contains_key(id), self.now) {
                Met::No => continue,
                Met::Ends => self.complete(before, timer, None, standing),
                Met::Waits(until) => {
                    self.waits(SubjectKind::Timer, id, until, self.met_fields(&timer));
                    self.write(before, timer);
                }
            }
            met.push(id.clone());
        }
        Reply::Met(met)
    }

    fn met_fields(&self, timer: &Timer) -> Map<String, Value> {
        let Some(seen) = timer.met() else { return Map::new() };
        let elapsed = seconds(timer.elapsed(self.now));
        Map::from_iter([("met".to_owned(), json!(seen)), ("elapsed_time".to_owned(), elapsed)])
    }

    /// The end of a timer and the message about it, in one. A call standing by, else a task, gets the message leased to
    /// it, so that no other channel tells it too; if its reply is never written the lease is given back or runs out.
    /// `ended`: by its time, not by a condition just met.
    fn complete(
        &mut self,
        before: Status,
        mut timer: Timer,
        ended: Option<Ended>,
        standing: &HashMap<ItemId, LeaseId>,
    ) {
        let mut data = self.met_fields(&timer);
        if let Some(Ended { due, opened }) = ended {
            data.insert("due".to_owned(), json!(due.as_millis()));
            data.insert("lateness_ms".to_owned(), json!(self.now.since(opened).get()));
            if opened > due {
                data.insert("opened".to_owned(), json!(opened.as_millis()));
            }
            self.happened(opened);
        }
        let lease = standing.get(&timer.id).cloned().or_else(|| timer.lease_to_task(self.now));
        let lease = lease.map(|id| Lease { id, until: self.now.plus(self.limits.lease) });
        let message = Message::timer_completed(&timer, ended, self.now, lease);
        let told = json!({ "id": message.id, "kind": message.kind, "text": message.text });
        data.insert("message".to_owned(), told);
        self.tell(message);
        self.changed(before, timer, "timer.completed", data);
    }

    /// A recurring timer's times, each with its message. A call standing by, else a task, gets the last one.
    fn struck(&mut self, before: Status, mut timer: Timer, strike: &Strike, standing: &HashMap<ItemId, LeaseId>) {
        if strike.missed > 0 {
            let data = Map::from_iter([("missed".to_owned(), json!(strike.missed))]);
            self.note(SubjectKind::Timer, &timer.id, "timer.missed", data);
            self.count(tally::TIMERS_MISSED, i64::try_from(strike.missed).unwrap_or(i64::MAX));
        }
        let mut lease = None;
        if !strike.told.is_empty() {
            let id = standing.get(&timer.id).cloned().or_else(|| timer.lease_to_task(self.now));
            lease = id.map(|id| Lease { id, until: self.now.plus(self.limits.lease) });
        }
        for (place, (number, due)) in strike.told.iter().enumerate() {
            let last = place + 1 == strike.told.len();
            let next = strike.told.get(place + 1).map(|(_, due)| *due).or(strike.next);
            let occurrence = Occurrence { number: *number, due: *due, opened: strike.opened.max(*due), next };
            self.fired_once(&timer, &occurrence, lease.take_if(|_| last));
        }
        self.write(before, timer);
    }

    fn fired_once(&mut self, timer: &Timer, occurrence: &Occurrence, lease: Option<Lease>) {
        let message = Message::timer_fired(timer, occurrence, self.now, lease);
        let Occurrence { due, opened, .. } = *occurrence;
        let event = if occurrence.next.is_none() { "timer.completed" } else { "timer.fired" };
        let mut data = Map::from_iter([
            ("due".to_owned(), json!(due.as_millis())),
            ("lateness_ms".to_owned(), json!(self.now.since(opened).get())),
            ("fire".to_owned(), json!(occurrence.number)),
            ("status".to_owned(), json!(timer.status())),
        ]);
        if opened > due {
            data.insert("opened".to_owned(), json!(opened.as_millis()));
        }
        // An inbox nobody looks into does not grow for ever; the history shows what was not told.
        if self.inbox_has_room().is_ok() {
            let told = json!({ "id": message.id, "kind": message.kind, "text": message.text });
            data.insert("message".to_owned(), told);
            self.tell(message);
        }
        self.count(tally::TIMERS_FIRED, 1);
        self.happened(opened);
        self.note(SubjectKind::Timer, &timer.id, event, data);
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
        let timer = self.held(timer);
        let after = timer.status();
        if before != after {
            self.count(tally::timers(before), -1);
            self.count(tally::timers(after), 1);
        }
        if before.is_live() && !after.is_live() {
            self.session.live_timers = self.session.live_timers.saturating_sub(1);
            timer.until.iter().for_each(|watch| self.waited(watch, timer.elapsed(self.now)));
        }
        self.items.push(ItemWrite::Update(Item::Timer(timer)));
    }

    /// A condition is no longer waited for, when so much of its timer's time had passed.
    fn waited(&mut self, watch: &Watch, elapsed: Millis) {
        self.count(if watch.seen.is_some() { tally::CONDITIONS_MET } else { tally::CONDITIONS_UNMET }, 1);
        let waited = watch.waited(elapsed);
        self.count(tally::WAITED_MS, i64::try_from(waited.get()).unwrap_or(i64::MAX));
        self.count(tally::REQUESTS_SAVED, self.looks_within(waited));
    }

    /// How often an agent would have looked for itself.
    fn looks_within(&self, length: Millis) -> i64 {
        i64::try_from(length.get() / self.limits.poll_interval.get().max(1)).unwrap_or(i64::MAX)
    }
}

fn until_field(timer: &Timer) -> Option<(String, Value)> {
    let watch = timer.until.as_ref()?;
    Some(("until".into(), watch.wanted.condition.to_value()))
}

fn purpose_field(purpose: &Purpose) -> (String, Value) {
    match purpose {
        Purpose::Waiting(reason) => ("reason".into(), json!(reason)),
        Purpose::Mission(mission) => ("mission".into(), json!(mission)),
    }
}
