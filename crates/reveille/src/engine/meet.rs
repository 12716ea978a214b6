//! Conditions that were seen to hold, into commits.

use super::Engine;
use reveille_core::{Command, ItemId, condition::Sighting};
use std::collections::HashMap;

impl Engine {
    /// Ends the timers that waited for this. What could not be written is given back.
    pub async fn meet(&self, sightings: Vec<Sighting>) -> Vec<Sighting> {
        let ids: Vec<ItemId> = sightings.iter().map(|sighting| sighting.id.clone()).collect();
        let by_id: HashMap<ItemId, Sighting> =
            sightings.into_iter().map(|sighting| (sighting.id.clone(), sighting)).collect();
        let seen = |ids: &[ItemId]| ids.iter().filter_map(|id| by_id.get(id).cloned()).collect();
        let meet = |ids: &[ItemId]| Command::Meet { sightings: seen(ids), standing: self.leases(ids) };
        match self.to_each(ids, meet, |_, _| {}).await.done() {
            Ok(()) => Vec::new(),
            Err((error, undone)) => {
                tracing::warn!(%error, count = undone.len(), "what was seen could not be written; trying again");
                seen(&undone)
            }
        }
    }
}
