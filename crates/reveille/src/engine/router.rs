//! Tells those who wait in this process what was committed: calls standing by, and followers of events.

use super::{Delivery, Engine, Event, Released};
use reveille_core::{Item, ItemWrite, Message, MessageWrite, Millis, Needs, Session, SessionId, Status, Timer};
use reveille_store::{Committed, Feed, News, StoreError};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// After a failure of the store: how long until the next try.
const RETRY: Millis = Millis::from_secs(1);

pub async fn run(engine: Arc<Engine>, mut feed: Feed, stop: CancellationToken) {
    while let Some(Some(news)) = stop.run_until_cancelled(feed.recv()).await {
        let followed = engine.events.receiver_count() > 0;
        for committed in news.commits() {
            // Before anybody is woken who looks there.
            engine.glances.note(&committed.batch);
            engine.release_standing(committed);
            let session = &committed.batch.session;
            engine.presence.tell(&session.id, session.pending_messages > 0);
            if followed {
                for recorded in committed.recorded() {
                    let _ = engine.events.send(Event::Recorded(Arc::new(recorded)));
                }
            }
        }
        if let News::Missed = news {
            engine.glances.forget();
            let _ = engine.events.send(Event::Missed);
            engine.presence.tell_all();
            stop.run_until_cancelled(engine.look_at_standing()).await;
        }
    }
}

impl Engine {
    /// Whatever happened unseen to timers that calls stand by for.
    async fn look_at_standing(&self) {
        let moved = loop {
            match self.moved_unseen().await {
                Ok(moved) => break moved,
                Err(error) => tracing::warn!(%error, "timers that calls stand by for cannot be read; trying again"),
            }
            self.clock.sleep(RETRY).await;
        };
        for (timer, session) in moved {
            // The completion's message is among those that the call takes along.
            let more = session.pending_messages > 0;
            let released = || Released { timer: Arc::new(timer.clone()), delivery: None, more };
            self.standbys.observe(&timer, session.version, released);
        }
    }

    async fn moved_unseen(&self) -> Result<Vec<(Timer, Session)>, StoreError> {
        let mut moved = Vec::new();
        for (_, state) in self.store.load_items(self.standbys.waited_for()).await? {
            let Some(session) = state.session else { continue };
            for timer in state.items.iter().filter_map(Item::as_timer) {
                if timer.status() != Status::Running && !self.is_being_told(&session.id, timer).await? {
                    moved.push((timer.clone(), session.clone()));
                }
            }
        }
        Ok(moved)
    }

    /// Its end is leased to a call. If that stands by here, the right to tell it is on its way with word of the commit.
    async fn is_being_told(&self, session: &SessionId, timer: &Timer) -> Result<bool, StoreError> {
        let inbox = self.store.load(session, Needs { inbox: true, ..Needs::default() }).await?.inbox;
        let held = |message: &&Message| message.source == timer.id && message.held_until(self.now()).is_some();
        let mut leases = inbox.iter().filter(held).filter_map(|message| message.lease.as_ref());
        Ok(leases.any(|lease| !timer.tells_by_task(&lease.id)))
    }

    fn release_standing(&self, committed: &Committed) {
        for write in &committed.batch.items {
            let ItemWrite::Update(item) = write else { continue };
            let message = committed.batch.messages.iter().find_map(|write| match write {
                MessageWrite::Insert(message) if message.source == *item.id() => Some(message),
                _ => None,
            });
            // Made even if nobody is there any more: dropped unconfirmed, it gives the message back.
            let delivery = message.and_then(|message| self.standing_delivery(committed, item, message));
            if let Some(timer) = item.as_timer() {
                let session = &committed.batch.session;
                let more = session.pending_messages > u32::from(delivery.is_some());
                let released = || Released { timer: Arc::new(timer.clone()), delivery, more };
                self.standbys.observe(timer, session.version, released);
            }
        }
    }

    fn standing_delivery(&self, committed: &Committed, item: &Item, message: &Message) -> Option<Arc<Delivery>> {
        // What another node leased is told by a call that stands by there.
        let lease = message.lease.as_ref().filter(|_| committed.here)?.id.clone();
        // What is leased to a task is told when the task is asked about, not by a call that stands by.
        if item.as_timer()?.tells_by_task(&lease) {
            return None;
        }
        Some(self.delivering(committed.batch.session.id.clone(), lease, "standby"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::ManualClock, engine::Settings};
    use futures_util::FutureExt;
    use reveille_core::{Call, Command, ItemId, Purpose, Timestamp};
    use reveille_store::{MemoryStore, Store};
    use tokio_util::task::TaskTracker;

    /// Something was missed while this node fired: the end it leased to the call is not given back before the call has it.
    #[tokio::test]
    async fn a_look_at_what_was_missed_does_not_come_before_the_right_to_tell() {
        let clock = ManualClock::at(Timestamp::from_millis(1_000));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new("s"));
        let mut feed = store.feed();
        // None of its tasks runs: the test has their turns.
        let (over, tasks) = (CancellationToken::new(), TaskTracker::new());
        over.cancel();
        let engine = Engine::start(store, Arc::new(clock.clone()), Settings::default(), over, &tasks);
        tasks.close();
        tasks.wait().await;
        let (session, id) = (SessionId::new("会话🙂"), ItemId::new("timer_a"));
        let mut standing = engine.stand_by(&session, &id);
        let (purpose, total) = (Purpose::Waiting("构建".into()), Millis::from_secs(60));
        let (timeout, until, key, task) = (None, None, None, None);
        let create = Command::Create { id: id.clone(), purpose, total, timeout, until, key, task };
        let created = engine.execute(&session, Call::new(create)).await.expect("created");
        standing.begins(created.version.expect("written"));
        let _created = feed.recv().await;
        clock.advance(total);
        engine.fire(vec![id]).await.done().expect("fired");
        engine.look_at_standing().await;
        assert!(standing.released().now_or_never().is_none(), "without the right to tell");
        let fired = feed.recv().await.expect("news");
        fired.commits().iter().for_each(|committed| engine.release_standing(committed));
        let released = standing.released().now_or_never().expect("released");
        assert!(released.delivery.is_some(), "{released:?}");
        // The call is gone, and its message is free: whoever is told to look now takes it along.
        let lease = released.delivery.as_ref().expect("just seen").lease().clone();
        engine.execute(&session, Call::new(Command::ReleaseLease { lease })).await.expect("released");
        let mut standing = engine.stand_by(&session, &released.timer.id);
        standing.begins(created.version.expect("written"));
        engine.look_at_standing().await;
        let released = standing.released().now_or_never().expect("released");
        assert!(released.more && released.delivery.is_none(), "{released:?}");
    }
}
