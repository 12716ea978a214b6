//! Messages on their way into a model's context. They are leased while the upstream thinks, which may take longer than a
//! lease lasts: so it is made to last, by the living process alone. One that is killed lets it run out.

use crate::engine::{Delivery, Engine};
use reveille_core::{Call, Command, Millis, SessionId};
use std::sync::Arc;
use tokio::task::AbortHandle;

/// However short leases are configured.
const EVERY_MIN_MS: u64 = 100;

/// Dropped before anything was dispatched, the messages go back into the inbox.
pub struct Courier {
    /// The call it travels with, and how many messages there are.
    request: String,
    messages: usize,
    session: SessionId,
    delivery: Arc<Delivery>,
    extending: AbortHandle,
}

impl Courier {
    pub fn new(
        engine: &Arc<Engine>,
        request: &str,
        session: &SessionId,
        delivery: Arc<Delivery>,
        messages: usize,
    ) -> Self {
        let (request, of) = (request.to_owned(), session.clone());
        let (engine, session, lease) = (engine.clone(), session.clone(), delivery.lease().clone());
        let length = engine.limits().lease;
        let soon = Millis::new((length.get() / 3).max(EVERY_MIN_MS));
        let task = tokio::spawn(async move {
            loop {
                engine.clock().sleep(soon).await;
                let extend = Command::ExtendLease { lease: lease.clone(), length };
                if let Err(error) = engine.execute(&session, Call::new(extend)).await {
                    tracing::debug!(%error, %session, "a lease could not be extended");
                }
            }
        });
        Self { request, messages, session: of, delivery, extending: task.abort_handle() }
    }

    /// The answer began to go out.
    pub fn arrived(&self) {
        self.extending.abort();
        self.delivery.confirm();
        let Self { request, messages, session, .. } = self;
        tracing::info!(target: "reveille::clock", request, %session, messages, "delivered");
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        self.extending.abort();
    }
}
