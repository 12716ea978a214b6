//! Tells those who wait in this process what was committed: calls standing by, and followers of events.

use super::{Delivery, Engine, Event, Released};
use reveille_core::{Item, ItemWrite, Message, MessageWrite, Millis};
use reveille_store::{Committed, Feed, News};
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
        let states = loop {
            match self.store.load_items(self.standbys.waited_for()).await {
                Ok(states) => break states,
                Err(error) => tracing::warn!(%error, "timers that calls stand by for cannot be read; trying again"),
            }
            self.clock.sleep(RETRY).await;
        };
        for (_, state) in states {
            let Some(session) = &state.session else { continue };
            for timer in state.items.iter().filter_map(Item::as_timer) {
                // The completion's message is among those that the call takes along.
                let more = session.pending_messages > 0;
                let released = || Released { timer: Arc::new(timer.clone()), delivery: None, more };
                self.standbys.observe(timer, session.version, released);
            }
        }
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
