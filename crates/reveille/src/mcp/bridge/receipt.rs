//! Messages in answers that are not yet written. Committed when they are; given back when they cannot be; and when this
//! process dies, their lease runs out.

use super::Daemon;
use reveille_core::SessionId;
use rmcp::model::RequestId;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio_util::task::TaskTracker;

pub struct Leases {
    daemon: Arc<Daemon>,
    settling: TaskTracker,
    session: SessionId,
    /// Each with the way out it counts as.
    leases: Vec<(String, Option<String>)>,
}

impl Leases {
    /// Daemons of old versions name no channels.
    pub fn new(
        daemon: Arc<Daemon>,
        settling: TaskTracker,
        session: SessionId,
        leases: Vec<String>,
        channels: Vec<String>,
    ) -> Self {
        let channels = channels.into_iter().map(Some).chain(std::iter::repeat(None));
        Self { daemon, settling, session, leases: leases.into_iter().zip(channels).collect() }
    }

    pub fn commit(mut self) {
        self.settle("commit");
    }

    fn settle(&mut self, how: &'static str) {
        for (lease, channel) in std::mem::take(&mut self.leases) {
            let (daemon, session) = (self.daemon.clone(), self.session.clone());
            self.settling.spawn(async move { daemon.settle(&session, &lease, channel.as_deref(), how).await });
        }
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        self.settle("release");
    }
}

/// The receipts of answers on their way to the client, by request.
#[derive(Default)]
pub struct Written(Mutex<HashMap<RequestId, Leases>>);

impl Written {
    pub fn expect(&self, request: RequestId, leases: Leases) {
        self.all().insert(request, leases);
    }

    pub fn take(&self, request: &RequestId) -> Option<Leases> {
        self.all().remove(request)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<RequestId, Leases>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
