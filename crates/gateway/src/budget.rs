//! The memory that something may take, all calls together: request bodies on their way, turns that wait. A body is charged as it
//! comes, not by what its head promises, and its charge lasts as long as its bytes do, whoever holds them.

use crate::fault::Fault;
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// What is counted in; small bodies cost one.
const UNIT_BYTES: usize = 1024;
/// A body waits this long for room, in the order of arrival; then the client is told to come back.
const WAIT: Duration = Duration::from_secs(5);
/// When the client may come back.
pub const RETRY_AFTER: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub struct Budget(Arc<Semaphore>);

/// One body's part of the budget.
#[derive(Debug)]
pub struct Charge {
    budget: Budget,
    bytes: usize,
    permit: Option<OwnedSemaphorePermit>,
}

impl Budget {
    pub fn new(bytes: usize) -> Self {
        let units = bytes.div_ceil(UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Semaphore::new(units)))
    }

    pub fn charge(&self) -> Charge {
        Charge { budget: self.clone(), bytes: 0, permit: None }
    }
}

impl Charge {
    /// Adds to the charge, waiting for room if there is none.
    pub async fn grow(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes += bytes;
        let has = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let wants = self.bytes.div_ceil(UNIT_BYTES) - has;
        let Some(wants) = u32::try_from(wants).ok().filter(|wants| *wants > 0) else { return Ok(()) };
        let semaphore = self.budget.0.clone();
        let more = match semaphore.clone().try_acquire_many_owned(wants) {
            Ok(more) => more,
            Err(_) => {
                let waited = timeout(WAIT, semaphore.acquire_many_owned(wants)).await;
                waited.ok().and_then(Result::ok).ok_or(Fault::Busy(RETRY_AFTER))?
            }
        };
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds to the charge if there is room, and says whether there was.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        let has = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let wants = (self.bytes + bytes).div_ceil(UNIT_BYTES).saturating_sub(has);
        let Some(more) =
            u32::try_from(wants).ok().and_then(|wants| self.budget.0.clone().try_acquire_many_owned(wants).ok())
        else {
            return false;
        };
        self.bytes += bytes;
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        true
    }

    /// The body, with its charge tied to it: both end with the last clone.
    pub fn tie(self, bytes: Bytes) -> Bytes {
        match self.permit {
            Some(permit) => Bytes::from_owner(Charged { bytes, _permit: permit }),
            None => bytes,
        }
    }
}

struct Charged {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
