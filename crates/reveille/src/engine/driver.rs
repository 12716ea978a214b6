//! Sleeps to the next deadline and proposes what has come. One sleep, no polling: between deadlines this task does
//! nothing at all, but for a look at the whole agenda once a minute as a safety net.

use super::{
    Engine,
    many::{Asked, Standing},
};
use futures_util::future::BoxFuture;
use reveille_core::{Agenda, ItemId, Millis, Timestamp};
use reveille_store::{Feed, News, StoreError};
use std::{collections::HashSet, sync::Arc};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// Items fired in one go. Large, so that what is due in one session is mostly fired in one commit.
const FIRE_CHUNK: usize = 4096;
/// One at a time: a second chunk would hold other items of the same sessions, and the two would refuse each other.
const CHUNKS_IN_FLIGHT_MAX: usize = 1;
/// After a failure (full disk, lost database): how long until the next try.
const RETRY: Millis = Millis::from_secs(1);
/// Another node is to act first; should it not have done so by then, this one does.
const TURN: Millis = Millis::from_secs(2);
/// Old rows removed in one go.
const PURGE_ROWS: usize = 500;
const PURGE_EVERY: Millis = Millis::from_secs(600);
/// A start has more urgent things to do.
const PURGE_AFTER_START: Millis = Millis::from_secs(60);

type Fire = (Vec<ItemId>, Asked);

pub async fn run(engine: Arc<Engine>, feed: Feed, stop: CancellationToken) {
    let mut driver = Driver {
        agenda: Agenda::new(engine.settings.window_max),
        looked_at: engine.now(),
        rescan_at: engine.now(),
        purge_at: engine.now().plus(PURGE_AFTER_START),
        failing: false,
        undone: HashSet::new(),
        firing: JoinSet::new(),
        purging: JoinSet::new(),
        engine,
        feed,
    };
    stop.run_until_cancelled(driver.run()).await;
    // What was begun is finished; what is due now is due at the next start as well.
    while driver.firing.join_next().await.is_some() {}
}

struct Driver {
    engine: Arc<Engine>,
    feed: Feed,
    agenda: Agenda,
    firing: JoinSet<Fire>,
    purging: JoinSet<()>,
    looked_at: Timestamp,
    rescan_at: Timestamp,
    purge_at: Timestamp,
    /// The store does not work: nothing is read before `rescan_at`.
    failing: bool,
    /// What was due and could not be acted on. No more than the agenda has.
    undone: HashSet<ItemId>,
}

impl Driver {
    async fn run(&mut self) {
        let mut alarm = Alarm { at: self.wake_at(), rings: Box::pin(std::future::ready(())) };
        loop {
            self.look().await;
            self.engine.health.stuck(self.failing || !self.undone.is_empty());
            let at = self.wake_at();
            if alarm.at != at {
                alarm = Alarm { at, rings: self.engine.clock.sleep_until(at) };
            }
            tokio::select! {
                biased;
                Some(done) = self.firing.join_next() => self.settle(done),
                Some(_) = self.purging.join_next() => {}
                news = self.feed.recv() => match news {
                    Some(news) => self.learn(&news),
                    None => return, // the store is closed
                },
                // It may ring early, when the clock was set; either way it has to be wound up again.
                () = &mut alarm.rings => alarm = Alarm { at, rings: self.engine.clock.sleep_until(at) },
            }
        }
    }

    /// Fires what is due and keeps the window filled.
    async fn look(&mut self) {
        let now = self.engine.now();
        if now < self.looked_at {
            // The clock was set back: waits that were counted from the old time begin anew.
            (self.rescan_at, self.purge_at) = (now, now.plus(PURGE_EVERY));
        }
        self.looked_at = now;
        let rescan = now >= self.rescan_at && self.agenda.may_refill();
        if rescan || (self.agenda.needs_page() && !self.failing) {
            let refilled = self.refill().await;
            self.failing = refilled.is_err();
            self.rescan_at = now.plus(if self.failing { RETRY } else { self.engine.settings.rescan });
            if let Err(error) = refilled {
                tracing::warn!(%error, "the next deadlines cannot be read; trying again");
            }
        }
        while self.firing.len() < CHUNKS_IN_FLIGHT_MAX {
            let due = self.agenda.take_due(now, FIRE_CHUNK);
            if due.is_empty() {
                break;
            }
            let ids = self.ours(due, now);
            if ids.is_empty() {
                continue;
            }
            let engine = self.engine.clone();
            self.firing.spawn(async move { (ids.clone(), engine.fire(ids).await) });
        }
        if now >= self.purge_at && self.purging.is_empty() {
            self.purge_at = now.plus(PURGE_EVERY);
            let engine = self.engine.clone();
            self.purging.spawn(async move { engine.purge().await });
        }
    }

    /// Of what is due, that which this node acts on now. The rest is left to others for a moment.
    fn ours(&mut self, due: Vec<ItemId>, now: Timestamp) -> Vec<ItemId> {
        // What others do not get done is not gathered here without end.
        let crowded = self.agenda.len() > 2 * self.engine.settings.window_max;
        let engine = self.engine.clone();
        let (ours, others): (Vec<ItemId>, Vec<ItemId>) = due.into_iter().partition(|id| {
            let turn = || self.agenda.proposed(id).is_none_or(|due| due.plus(TURN) <= now);
            crowded || engine.store.acts_first(id) || engine.standbys.is_waited_for(id) || turn()
        });
        for id in others {
            let turn = self.agenda.proposed(&id).unwrap_or(now).plus(TURN);
            self.agenda.postpone(&[id], turn);
        }
        ours
    }

    fn wake_at(&self) -> Timestamp {
        let due = if self.firing.len() < CHUNKS_IN_FLIGHT_MAX { self.agenda.next() } else { None };
        // What has to wait for something under way is looked at when that ends, which wakes this task anyway.
        let rescan = self.agenda.may_refill().then_some(self.rescan_at);
        let purge = self.purging.is_empty().then_some(self.purge_at);
        let earliest = [due, rescan, purge].into_iter().flatten().min();
        earliest.unwrap_or(Timestamp::from_millis(i64::MAX))
    }

    async fn refill(&mut self) -> Result<(), StoreError> {
        let page = self.engine.store.deadlines(self.agenda.page_size()).await?;
        self.agenda.refill(page);
        Ok(())
    }

    fn settle(&mut self, done: Result<Fire, JoinError>) {
        match done {
            Ok((ids, asked)) => self.settle_all(ids, asked),
            Err(error) => {
                // A panic in deciding: a bug, but not a reason to forget anybody's deadline.
                tracing::error!(%error, "firing failed; everything is looked at again");
                self.begin_anew();
            }
        }
    }

    fn settle_all(&mut self, ids: Vec<ItemId>, asked: Asked) {
        let now = self.engine.now();
        let again = now.plus(RETRY);
        let left = asked.undone.map_or_else(Vec::new, |(error, left)| {
            tracing::warn!(%error, count = left.len(), "deadlines could not be acted on; trying again");
            self.engine.metrics.fire_failures.inc_by(left.len() as u64);
            left
        });
        let open: HashSet<&ItemId> = left.iter().chain(asked.standing.iter().map(|one| &one.id)).collect();
        let done: Vec<ItemId> = ids.into_iter().filter(|id| !open.contains(id)).collect();
        self.agenda.settled(&done);
        self.forget_undone(&done);
        self.undone.extend(left.iter().cloned());
        self.agenda.postpone(&left, again);
        for Standing { id, due, moved } in asked.standing {
            // Overdue, and there was nothing to be done about it: asking without a pause would not change that.
            let idle = due <= now && !moved;
            self.agenda.stands(&id, due, if idle { again } else { due });
        }
        if self.agenda.len() > 2 * self.engine.settings.window_max {
            self.begin_anew();
        }
    }

    /// Forgets everything, since the store has it all, and looks again in a while.
    fn begin_anew(&mut self) {
        self.agenda = Agenda::new(self.engine.settings.window_max);
        self.undone.clear();
        self.failing = true;
        self.rescan_at = self.engine.now().plus(RETRY);
    }

    fn forget_undone(&mut self, ids: &[ItemId]) {
        // Nearly always: deadlines are kept, and this costs them nothing.
        if !self.undone.is_empty() {
            for id in ids {
                self.undone.remove(id);
            }
        }
    }

    fn learn(&mut self, news: &News) {
        if let News::Missed = news {
            self.begin_anew();
            self.failing = false;
        }
        for committed in news.commits() {
            for write in &committed.batch.items {
                self.agenda.learn(write.item().id(), write.item().due());
                self.forget_undone(std::slice::from_ref(write.item().id()));
            }
        }
    }
}

/// A sleep that is kept as long as nothing changes what it is for.
struct Alarm {
    at: Timestamp,
    rings: BoxFuture<'static, ()>,
}

impl Engine {
    /// Removes what retention no longer keeps, in small steps between the other work.
    async fn purge(&self) {
        let before = self.now().minus(self.settings.retention);
        loop {
            match self.store.purge(before, PURGE_ROWS).await {
                Ok(0) => return,
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => {
                    tracing::warn!(%error, "old rows could not be removed; trying again later");
                    return;
                }
            }
        }
    }
}
