//! Tells those who wait in this process what was committed: calls standing by, and followers of events.

use super::{Delivery, Engine, Released};
use reveille_core::{Item, ItemWrite, Message, MessageWrite};
use reveille_store::{Committed, Feed};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub async fn run(engine: Arc<Engine>, mut feed: Feed, stop: CancellationToken) {
    while let Some(Some(group)) = stop.run_until_cancelled(feed.recv()).await {
        let followed = engine.events.receiver_count() > 0;
        for committed in group.iter() {
            engine.release_standing(committed);
            engine.glances.note(&committed.batch);
            engine.presence.tell(committed.batch.session_id());
            if followed {
                for recorded in committed.recorded() {
                    let _ = engine.events.send(Arc::new(recorded));
                }
            }
        }
    }
}

impl Engine {
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
        let lease = message.lease.as_ref()?.id.clone();
        // What is leased to a task is told when the task is asked about, not by a call that stands by.
        if item.as_timer()?.tells_by_task(&lease) {
            return None;
        }
        Some(self.delivering(committed.batch.session.id.clone(), lease, "standby"))
    }
}
