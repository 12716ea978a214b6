//! The stages decide how a turn goes on, and may take their time: what would wait with them is put away.

use super::{Again, heard::Heard};
use crate::{
    protocol::Seen,
    stage::{Next, Visits},
};
use std::{pin::pin, time::Duration};
use tokio::time::timeout;

/// Decisions that take longer are waits.
pub(super) const SHORT: Duration = Duration::from_secs(1);

/// What the stages decide. `heard` is read where it was not yet; `beside` bytes wait with the turn. Where there is no room to
/// wait, the turn is over, unless the model waits for the answer to a call.
pub(crate) async fn decide(
    visits: &mut Visits,
    seen: &Seen,
    again: &mut Again,
    heard: &mut Option<Heard>,
    beside: usize,
    mut read: impl FnMut() -> Option<Heard>,
) -> Next {
    {
        let mut deciding = pin!(visits.on_finish(seen));
        if let Ok(next) = timeout(SHORT, &mut deciding).await {
            return next;
        }
        if heard.is_none() {
            *heard = read();
        }
        let room = match heard {
            Some(heard) => again.shelve(heard, beside).await.is_ok(),
            None => true,
        };
        if room || !seen.calls.is_empty() {
            return deciding.await;
        }
    }
    visits.on_no_room();
    Next::End
}
