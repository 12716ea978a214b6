//! The nodes of one server: who is alive, who acts first, and which sessions clients hold where. All of it is about now
//! and may be wrong for moments; versions keep every commit right whatever is believed here.

use super::{lane::Lane, relay::Relay, text::stored};
use crate::{StoreError, rank};
use reveille_core::{ItemId, SessionId};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};
use tokio::sync::Notify;

/// Each node shows that it lives this often, and looks whether others have committed.
const BEAT: Duration = Duration::from_secs(1);
/// After this long without a sign a node is taken for dead, by the database's clock.
const LOST_AFTER_SECONDS: f64 = 5.0;
/// Holds that begin and end within this are never written.
const HOLDS_GATHER: Duration = Duration::from_millis(20);

pub struct Nodes {
    server: i64,
    node: i64,
    /// All that live, this one among them.
    alive: RwLock<Arc<[i64]>>,
    holds: Mutex<Holds>,
    holds_changed: Notify,
}

#[derive(Default)]
struct Holds {
    held: HashMap<SessionId, u32>,
    /// Sessions whose row may be wrong.
    dirty: Vec<SessionId>,
}

impl Nodes {
    pub fn new(server: i64, node: i64) -> Self {
        let alive: Arc<[i64]> = Arc::new([node]);
        Self { server, node, alive: RwLock::new(alive), holds: Mutex::default(), holds_changed: Notify::new() }
    }

    /// Of the living nodes, every one finds the same to be first, without a word between them.
    pub fn acts_first(&self, id: &ItemId) -> bool {
        let alive = self.alive.read().unwrap_or_else(PoisonError::into_inner).clone();
        rank::first(alive.iter().copied(), id).is_none_or(|first| first == self.node)
    }

    pub fn are_alone(&self) -> bool {
        self.alive.read().unwrap_or_else(PoisonError::into_inner).len() <= 1
    }

    pub fn holds(&self, session: &SessionId, held: bool) {
        let mut holds = self.lock();
        let count = holds.held.entry(session.clone()).or_default();
        let before = *count;
        *count = if held { before + 1 } else { before.saturating_sub(1) };
        let (now, crossed) = (*count, (*count == 0) != (before == 0));
        if now == 0 {
            holds.held.remove(session);
        }
        if crossed {
            holds.dirty.push(session.clone());
            self.holds_changed.notify_one();
        }
    }

    pub async fn is_held_elsewhere(&self, lane: &Lane, session: &SessionId) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM reveille.holds h JOIN reveille.nodes n ON n.server = h.server AND n.node = h.node
                   WHERE h.server = $1 AND h.session = $2 AND h.node <> $3
                   AND n.seen > clock_timestamp() - make_interval(secs => $4::double precision) LIMIT 1";
        let name = stored(session.as_str());
        let rows = lane.read(sql, &[&self.server, &name, &self.node, &LOST_AFTER_SECONDS]).await?;
        Ok(!rows.is_empty())
    }

    /// Shows that this node lives, until it is dropped.
    pub async fn beat(&self, lane: &Lane, relay: &Relay) {
        loop {
            if let Err(error) = self.beat_once(lane, relay).await {
                tracing::debug!(%error, "this node could not show that it lives");
            }
            tokio::time::sleep(BEAT).await;
        }
    }

    pub async fn beat_once(&self, lane: &Lane, relay: &Relay) -> Result<(), StoreError> {
        let sql = "
            WITH me AS (
                INSERT INTO reveille.nodes (server, node, seen, told) VALUES ($1, $2, clock_timestamp(), $3)
                ON CONFLICT (server, node) DO UPDATE SET seen = excluded.seen, told = excluded.told
            )
            SELECT NOT EXISTS (SELECT 1 FROM reveille.nodes WHERE server = $1 AND node = $2),
                ARRAY(SELECT node FROM reveille.nodes WHERE server = $1 AND node <> $2
                      AND seen > clock_timestamp() - make_interval(secs => $4::double precision)),
                (SELECT commits FROM reveille.servers WHERE num = $1)";
        let told = relay.told();
        let rows = lane.read(sql, &[&self.server, &self.node, &told, &LOST_AFTER_SECONDS]).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        let (is_new, mut alive): (bool, Vec<i64>) = (row.get(0), row.get(1));
        relay.set_followed(!alive.is_empty());
        alive.push(self.node);
        let cleans = alive.iter().min() == Some(&self.node);
        *self.alive.write().unwrap_or_else(PoisonError::into_inner) = alive.into();
        let commits: i64 = row.get(2);
        if commits < told {
            // A standby that had not heard of everything took over, or an older copy was restored.
            tracing::error!(told, commits, "the database has lost commits");
            relay.went_back(commits);
        }
        relay.exists(commits);
        if is_new {
            // The table lost its rows in a crash, or this is the beginning.
            let mut holds = self.lock();
            holds.dirty = holds.held.keys().cloned().collect();
            drop(holds);
            self.holds_changed.notify_one();
        }
        if cleans { self.clean(lane).await } else { Ok(()) }
    }

    /// Removes what all living nodes have heard of, and what dead ones left.
    async fn clean(&self, lane: &Lane) -> Result<(), StoreError> {
        let heard = "DELETE FROM reveille.commits WHERE server = $1 AND num <= (SELECT min(told) FROM reveille.nodes
                     WHERE server = $1 AND seen > clock_timestamp() - make_interval(secs => $2::double precision))";
        lane.read(heard, &[&self.server, &LOST_AFTER_SECONDS]).await?;
        let dead = "WITH gone AS (
                        DELETE FROM reveille.nodes WHERE server = $1
                        AND seen < clock_timestamp() - make_interval(secs => $2::double precision * 10) RETURNING node
                    )
                    DELETE FROM reveille.holds WHERE server = $1 AND node IN (SELECT node FROM gone)";
        lane.read(dead, &[&self.server, &LOST_AFTER_SECONDS]).await.map(drop)
    }

    /// Writes down which sessions are held here, as it changes.
    pub async fn share_holds(&self, lane: &Lane) {
        loop {
            self.holds_changed.notified().await;
            tokio::time::sleep(HOLDS_GATHER).await;
            while let Err(error) = self.share_once(lane).await {
                tracing::debug!(%error, "other nodes cannot be told who is held here");
                tokio::time::sleep(BEAT).await;
            }
        }
    }

    async fn share_once(&self, lane: &Lane) -> Result<(), StoreError> {
        let dirty = std::mem::take(&mut self.lock().dirty);
        let (held, free): (Vec<&SessionId>, Vec<&SessionId>) = {
            let holds = self.lock();
            dirty.iter().partition(|session| holds.held.contains_key(*session))
        };
        let names = |list: Vec<&SessionId>| -> Vec<String> {
            list.into_iter().map(|session| stored(session.as_str()).into_owned()).collect()
        };
        let (held, free) = (names(held), names(free));
        let sql = "
            WITH freed AS (
                DELETE FROM reveille.holds WHERE server = $1 AND node = $2 AND session = ANY($4)
            )
            INSERT INTO reveille.holds (server, session, node) SELECT $1, session, $2 FROM unnest($3::text[]) AS h (session)
            ON CONFLICT DO NOTHING";
        let written = lane.read(sql, &[&self.server, &self.node, &held, &free]).await;
        if written.is_err() {
            self.lock().dirty.extend(dirty);
        }
        written.map(drop)
    }

    /// This node ends: the others need not wait to find out.
    pub async fn leave(&self, lane: &Lane) {
        let sql = "WITH me AS (DELETE FROM reveille.nodes WHERE server = $1 AND node = $2)
                   DELETE FROM reveille.holds WHERE server = $1 AND node = $2";
        let _ = lane.read(sql, &[&self.server, &self.node]).await;
    }

    fn lock(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_share_the_work_evenly_and_agree() {
        let ids: Vec<ItemId> = (0..3000).map(|number| ItemId::new(format!("timer_{number}"))).collect();
        let nodes: Vec<Nodes> = [11, 22, 33].into_iter().map(|node| Nodes::new(1, node)).collect();
        for node in &nodes {
            assert!(ids.iter().all(|id| node.acts_first(id)), "alone");
            *node.alive.write().expect("not poisoned") = Arc::new([33, 11, 22]);
        }
        for id in &ids {
            assert_eq!(nodes.iter().filter(|node| node.acts_first(id)).count(), 1);
        }
        for node in &nodes {
            let share = ids.iter().filter(|id| node.acts_first(id)).count();
            assert!((800..1200).contains(&share), "{share}");
        }
    }
}
