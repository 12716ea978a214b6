//! The reference: the same contract on plain maps, short enough to be seen to be right. Durable it is not. Several nodes
//! can share one, as they share a PostgreSQL database; each commit is told to all of them before it is answered.

use crate::{
    CommitError, Committed, Feed, Found, HOURS_KEPT, HistoryFilter, HourTally, ItemFilter, Order, RECENT_ENDED_MAX,
    Recorded, SessionFilter, Store, StoreError, StoredAgent, feed::Listeners, query::hour_of, rank,
};
use async_trait::async_trait;
use reveille_core::{
    AgentId, Batch, Item, ItemId, ItemWrite, Kind, Message, MessageWrite, Needs, RequestKey, Session, SessionId,
    Timestamp, Utterance,
    batch::tally,
    command::{Select, State},
    session::SessionState,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What the nodes of one server share.
#[derive(Clone)]
pub struct MemoryServer(Arc<Shared>);

/// One node's view. It belongs to its server until it is dropped.
pub struct MemoryStore {
    shared: Arc<Shared>,
    node: i64,
}

struct Shared {
    server_id: String,
    inner: Mutex<Inner>,
    nodes: Mutex<Nodes>,
}

#[derive(Default)]
struct Nodes {
    last: i64,
    living: BTreeMap<i64, Node>,
}

#[derive(Default)]
struct Node {
    listeners: Listeners,
    held: BTreeMap<SessionId, u32>,
}

#[derive(Default)]
struct Inner {
    sessions: BTreeMap<i64, Session>,
    items: BTreeMap<i64, StoredItem>,
    messages: BTreeMap<i64, (SessionId, Message)>,
    history: BTreeMap<i64, Recorded>,
    conversation: BTreeMap<i64, (SessionId, Utterance)>,
    agents: BTreeMap<AgentId, StoredAgent>,
    tallies: BTreeMap<String, i64>,
    hours: BTreeMap<(i64, String), i64>,
    last: i64,
    last_seq: i64,
}

struct StoredItem {
    session: SessionId,
    item: Item,
    key: Option<RequestKey>,
}

impl MemoryServer {
    pub fn new(server_id: &str) -> Self {
        let (inner, nodes) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Shared { server_id: server_id.to_owned(), inner, nodes }))
    }

    /// One more node.
    pub fn join(&self) -> MemoryStore {
        let mut nodes = self.0.nodes();
        nodes.last += 1;
        let node = nodes.last;
        nodes.living.insert(node, Node::default());
        drop(nodes);
        MemoryStore { shared: self.0.clone(), node }
    }
}

impl MemoryStore {
    /// The only node of a server.
    pub fn new(server_id: &str) -> Self {
        MemoryServer::new(server_id).join()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.shared.nodes().living.remove(&self.node);
    }
}

impl Shared {
    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn number(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    fn session(&self, id: &SessionId) -> Option<(i64, &Session)> {
        self.sessions.iter().find(|(_, session)| session.id == *id).map(|(num, session)| (*num, session))
    }

    fn apply(&mut self, batch: &Batch) -> Result<i64, CommitError> {
        let found = self.session(&batch.session.id).map(|(num, session)| (num, session.version));
        if found.map(|(_, version)| version) != batch.expected {
            return Err(CommitError::Conflict);
        }
        for (at, write) in batch.items.iter().enumerate() {
            let ItemWrite::Insert { item, key } = write else { continue };
            let taken = self.items.values().any(|stored| {
                let same_key = key.is_some()
                    && stored.session == batch.session.id
                    && stored.key.as_ref().map(|key| &key.key) == key.as_ref().map(|key| &key.key);
                stored.item.id() == item.id() || same_key
            });
            let twice = batch.items[..at]
                .iter()
                .any(|earlier| matches!(earlier, ItemWrite::Insert { item: other, .. } if other.id() == item.id()));
            if taken || twice {
                return Err(CommitError::IdTaken);
            }
        }
        let num = found.map_or_else(|| self.number(), |(num, _)| num);
        self.sessions.insert(num, batch.session.clone());
        for write in &batch.items {
            self.write_item(&batch.session.id, write);
        }
        for write in &batch.messages {
            self.write_message(&batch.session.id, write);
        }
        for said in &batch.said {
            let number = self.number();
            self.conversation.insert(number, (batch.session.id.clone(), said.clone()));
        }
        let first_seq = self.last_seq + 1;
        for (entry, seq) in batch.history.iter().zip(first_seq..) {
            let recorded = Recorded { seq, session: batch.session.id.clone(), entry: entry.clone() };
            self.history.insert(seq, recorded);
        }
        self.last_seq += batch.history.len() as i64;
        for tally in &batch.tallies {
            *self.tallies.entry(tally.name.to_string()).or_default() += tally.by;
            if tally::is_count(&tally.name) {
                let hour = hour_of(batch.session.active_at);
                *self.hours.entry((hour, tally.name.to_string())).or_default() += tally.by;
            }
        }
        Ok(first_seq)
    }

    fn write_item(&mut self, session: &SessionId, write: &ItemWrite) {
        match write {
            ItemWrite::Insert { item, key } => {
                let number = self.number();
                let stored = StoredItem { session: session.clone(), item: item.clone(), key: key.clone() };
                self.items.insert(number, stored);
            }
            ItemWrite::Update(item) => {
                if let Some(stored) = self.items.values_mut().find(|stored| stored.item.id() == item.id()) {
                    stored.item = item.clone();
                }
            }
        }
    }

    fn write_message(&mut self, session: &SessionId, write: &MessageWrite) {
        match write {
            MessageWrite::Insert(message) => {
                let number = self.number();
                self.messages.insert(number, (session.clone(), message.clone()));
            }
            MessageWrite::Update(message) => {
                let kept = self
                    .messages
                    .values_mut()
                    .find(|(owner, kept)| owner == session && kept.id == message.id && kept.delivered.is_none());
                if let Some((_, kept)) = kept {
                    *kept = message.clone();
                }
            }
            MessageWrite::Withdraw(message) => self
                .messages
                .retain(|_, (owner, kept)| owner != session || kept.id != message.id || kept.delivered.is_some()),
        }
    }

    fn load(&self, id: &SessionId, needs: &Needs) -> State {
        let Some((_, session)) = self.session(id) else { return State::default() };
        let own = || self.items.values().filter(|stored| stored.session == *id);
        let pending = |(owner, message): &&(SessionId, Message)| owner == id && message.delivered.is_none();
        let inbox = || self.messages.values().filter(pending).map(|(_, message)| message);
        let of = |kind: Option<Kind>| own().filter(move |stored| kind.is_none_or(|kind| stored.item.kind() == kind));
        let live = |kind| of(kind).filter(|stored| stored.item.ended_at().is_none()).map(|stored| stored.item.clone());
        let recent = |kind| {
            let mut ended: Vec<&StoredItem> = of(kind).filter(|stored| stored.item.ended_at().is_some()).collect();
            ended.reverse();
            ended.sort_by_key(|stored| std::cmp::Reverse(stored.item.ended_at()));
            live(kind).chain(ended.into_iter().take(RECENT_ENDED_MAX).map(|stored| stored.item.clone())).collect()
        };
        let named = |ids: &[ItemId]| -> Vec<Item> {
            let found = ids.iter().filter_map(|id| own().find(|stored| stored.item.id() == id));
            found.map(|stored| stored.item.clone()).collect()
        };
        let items = match &needs.items {
            Select::None => Vec::new(),
            Select::Ids(ids) => named(ids),
            Select::Fired(ids) => match named(ids) {
                items if items.iter().any(Item::ends_session) => live(None).collect(),
                items => items,
            },
            Select::Live => live(None).collect(),
            Select::LiveOf(kind) => live(Some(*kind)).collect(),
            Select::Recent => recent(None),
            Select::RecentOf(kind) => recent(Some(*kind)),
            Select::SettledBy(lease) => inbox()
                .filter(|message| message.settles_source(lease))
                .filter_map(|message| own().find(|stored| *stored.item.id() == message.source))
                .map(|stored| stored.item.clone())
                .collect(),
        };
        let inbox = if needs.inbox { inbox().cloned().collect() } else { Vec::new() };
        let keyed = needs.key.as_ref().and_then(|wanted| {
            own().find_map(|stored| {
                let key = stored.key.as_ref().filter(|key| key.key == *wanted)?;
                Some((stored.item.clone(), key.clone()))
            })
        });
        State { session: Some(session.clone()), items, inbox, keyed }
    }

    fn purge(&mut self, before: Timestamp, limit: usize) -> usize {
        let old = |at: Option<Timestamp>| at.is_some_and(|at| at < before);
        let closed: Vec<SessionId> = self
            .sessions
            .values()
            .filter(|session| session.state == SessionState::Closed && session.active_at < before)
            .map(|session| session.id.clone())
            .collect();
        let idle: Vec<SessionId> = self
            .sessions
            .values()
            .filter(|session| session.active_at < before)
            .map(|session| session.id.clone())
            .collect();
        let newest = self.last_seq;
        let hours_before = before.minus(HOURS_KEPT).as_millis();
        self.hours.retain(|(hour, _), _| *hour >= hours_before);
        let removed = take(&mut self.items, limit, |_, stored| old(stored.item.ended_at()))
            + take(&mut self.messages, limit, |_, (owner, message)| match &message.delivered {
                Some(delivered) => delivered.at < before,
                None => closed.contains(owner),
            })
            + take(&mut self.history, limit, |seq, recorded| seq != newest && recorded.entry.at < before)
            + take(&mut self.conversation, limit, |_, (owner, said)| said.at < before && idle.contains(owner));
        let (items, messages, history) = (&self.items, &self.messages, &self.history);
        let conversation = &self.conversation;
        for session in self.sessions.values_mut().filter(|session| closed.contains(&session.id)) {
            let untold = |(owner, message): &&(SessionId, Message)| *owner == session.id && message.delivered.is_none();
            let left = messages.values().filter(untold).count() as u32;
            // A closed session has fewer to tell afterwards, which whoever remembers it has to notice.
            if left < session.pending_messages {
                // What nobody is told any more counts as withdrawn.
                *self.tallies.entry(tally::MESSAGES_WITHDRAWN.to_owned()).or_default() +=
                    i64::from(session.pending_messages - left);
                (session.pending_messages, session.version) = (left, session.version + 1);
            }
        }
        removed
            + take(&mut self.sessions, limit, |_, session| {
                session.active_at < before
                    && !items.values().any(|stored| stored.session == session.id)
                    && !messages.values().any(|(owner, _)| *owner == session.id)
                    && !history.values().any(|recorded| recorded.session == session.id)
                    && !conversation.values().any(|(owner, _)| *owner == session.id)
            })
    }
}

fn take<T>(map: &mut BTreeMap<i64, T>, limit: usize, is_old: impl Fn(i64, &T) -> bool) -> usize {
    let old: Vec<i64> = map.iter().filter(|(key, row)| is_old(**key, row)).map(|(key, _)| *key).take(limit).collect();
    old.iter().for_each(|key| {
        map.remove(key);
    });
    old.len()
}

#[async_trait]
impl Store for MemoryStore {
    fn server_id(&self) -> &str {
        &self.shared.server_id
    }

    async fn commit(&self, batch: Batch) -> Result<Arc<Committed>, CommitError> {
        let mut inner = self.inner();
        let first_seq = inner.apply(&batch)?;
        let committed = Arc::new(Committed { batch, first_seq, here: true });
        // Told under the lock: every feed has the order of the commits.
        for (node, Node { listeners, .. }) in &self.shared.nodes().living {
            let told = match *node == self.node {
                true => committed.clone(),
                false => Arc::new(Committed { here: false, ..committed.as_ref().clone() }),
            };
            listeners.tell(vec![told]);
        }
        Ok(committed)
    }

    async fn try_write(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn load(&self, session: &SessionId, needs: Needs) -> Result<State, StoreError> {
        Ok(self.inner().load(session, &needs))
    }

    async fn load_items(&self, ids: Vec<ItemId>) -> Result<Vec<(SessionId, State)>, StoreError> {
        let inner = self.inner();
        let mut states: Vec<(SessionId, State)> = Vec::new();
        for id in &ids {
            let Some(stored) = inner.items.values().find(|stored| stored.item.id() == id) else { continue };
            let at = states.iter().position(|(owner, _)| *owner == stored.session).unwrap_or_else(|| {
                states.push((stored.session.clone(), inner.load(&stored.session, &Needs::default())));
                states.len() - 1
            });
            if stored.item.watches_inbox() && states[at].1.inbox.is_empty() {
                let needs = Needs { inbox: true, ..Needs::default() };
                states[at].1.inbox = inner.load(&stored.session, &needs).inbox;
            }
            states[at].1.items.push(stored.item.clone());
        }
        for (session, state) in &mut states {
            if state.items.iter().any(Item::ends_session) {
                *state = inner.load(session, &Needs { items: Select::Live, inbox: true, key: None });
            }
        }
        Ok(states)
    }

    async fn deadlines(&self, limit: usize) -> Result<Vec<(Timestamp, ItemId)>, StoreError> {
        let inner = self.inner();
        let mut all: Vec<(Timestamp, ItemId)> = inner
            .items
            .values()
            .filter_map(|stored| stored.item.due().map(|due| (due, stored.item.id().clone())))
            .collect();
        all.sort();
        all.truncate(limit);
        Ok(all)
    }

    async fn items(&self, filter: ItemFilter) -> Result<Vec<Found>, StoreError> {
        let inner = self.inner();
        let mut found: Vec<Found> = inner
            .items
            .iter()
            .filter(|(seq, stored)| {
                filter.id.as_ref().is_none_or(|id| stored.item.id().as_str() == id)
                    && filter.kind.is_none_or(|kind| stored.item.kind() == kind)
                    && (!filter.awaiting || stored.item.awaits())
                    && filter.session.as_ref().is_none_or(|session| stored.session == *session)
                    && (filter.statuses.is_empty()
                        || filter.statuses.iter().any(|wanted| wanted == stored.item.status()))
                    && filter.after.is_none_or(|after| **seq < after)
                    && (filter.order == Order::Newest || stored.item.due().is_some())
            })
            .map(|(seq, stored)| Found { seq: *seq, session: stored.session.clone(), item: stored.item.clone() })
            .collect();
        match filter.order {
            Order::Newest => found.reverse(),
            Order::Soonest => found.sort_by_key(|found| (found.item.due(), found.item.id().clone())),
        }
        found.truncate(filter.limit);
        Ok(found)
    }

    async fn sessions(&self, filter: SessionFilter) -> Result<Vec<(i64, Session)>, StoreError> {
        let inner = self.inner();
        let waits = |session: &Session| {
            inner.messages.values().any(|(owner, message)| *owner == session.id && message.delivered.is_none())
        };
        let newest = inner.sessions.range(..filter.after.unwrap_or(i64::MAX)).rev();
        let newest = newest.filter(|(_, session)| !filter.undelivered || waits(session));
        Ok(newest.take(filter.limit).map(|(num, session)| (*num, session.clone())).collect())
    }

    async fn history(&self, filter: HistoryFilter) -> Result<Vec<Recorded>, StoreError> {
        let inner = self.inner();
        let mut found: Vec<Recorded> = inner
            .history
            .values()
            .filter(|recorded| {
                filter.session.as_ref().is_none_or(|session| recorded.session == *session)
                    && filter.subject.as_ref().is_none_or(|subject| *recorded.entry.subject == **subject)
                    && filter.event.as_ref().is_none_or(|event| recorded.entry.event == *event)
                    && filter.after.is_none_or(|after| recorded.seq > after)
                    && filter.before.is_none_or(|before| recorded.seq < before)
            })
            .cloned()
            .collect();
        if filter.after.is_none() {
            found.reverse();
        }
        found.truncate(filter.limit);
        Ok(found)
    }

    async fn conversation(&self, session: &SessionId, limit: usize) -> Result<Vec<Utterance>, StoreError> {
        let inner = self.inner();
        let own = inner.conversation.values().rev().filter(|(owner, _)| owner == session);
        let mut said: Vec<Utterance> = own.take(limit).map(|(_, said)| said.clone()).collect();
        said.reverse();
        Ok(said)
    }

    async fn set_agent(&self, id: &AgentId, agent: Option<StoredAgent>) -> Result<bool, StoreError> {
        let mut inner = self.inner();
        let before = match agent {
            Some(agent) => inner.agents.insert(id.clone(), agent),
            None => inner.agents.remove(id),
        };
        Ok(before.is_some())
    }

    async fn agent(&self, id: &AgentId) -> Result<Option<StoredAgent>, StoreError> {
        Ok(self.inner().agents.get(id).cloned())
    }

    async fn agents(&self) -> Result<Vec<(AgentId, StoredAgent)>, StoreError> {
        Ok(self.inner().agents.iter().map(|(id, agent)| (id.clone(), agent.clone())).collect())
    }

    async fn hours(&self, since: Timestamp) -> Result<Vec<HourTally>, StoreError> {
        let inner = self.inner();
        let hours = inner.hours.range((hour_of(since), String::new())..);
        Ok(hours
            .map(|((hour, name), value)| HourTally {
                hour: Timestamp::from_millis(*hour),
                name: name.clone(),
                value: *value,
            })
            .collect())
    }

    async fn tallies(&self) -> Result<BTreeMap<String, i64>, StoreError> {
        Ok(self.inner().tallies.clone())
    }

    async fn purge(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        Ok(self.inner().purge(before, limit))
    }

    fn feed(&self) -> Feed {
        match self.shared.nodes().living.get(&self.node) {
            Some(node) => node.listeners.add(),
            None => Listeners::default().add(),
        }
    }

    fn acts_first(&self, id: &ItemId) -> bool {
        rank::first(self.shared.nodes().living.keys().copied(), id).is_none_or(|first| first == self.node)
    }

    fn is_alone(&self) -> bool {
        self.shared.nodes().living.len() <= 1
    }

    fn holds(&self, session: &SessionId, held: bool) {
        let mut nodes = self.shared.nodes();
        let Some(Node { held: all, .. }) = nodes.living.get_mut(&self.node) else { return };
        let count = all.entry(session.clone()).or_default();
        *count = if held { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            all.remove(session);
        }
    }

    async fn is_held_elsewhere(&self, session: &SessionId) -> Result<bool, StoreError> {
        let nodes = self.shared.nodes();
        Ok(nodes.living.iter().any(|(node, other)| *node != self.node && other.held.contains_key(session)))
    }

    /// The node leaves its server; what it still commits, others hear of all the same.
    async fn close(&self) {
        self.shared.nodes().living.remove(&self.node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nodes_share_the_work_and_know_of_each_other() {
        let server = MemoryServer::new("srv");
        let (one, two) = (server.join(), server.join());
        let ids: Vec<ItemId> = (0..200).map(|number| ItemId::new(format!("timer_{number}"))).collect();
        assert!(ids.iter().all(|id| one.acts_first(id) != two.acts_first(id)));
        let session = SessionId::new("会话");
        one.holds(&session, true);
        assert!(two.is_held_elsewhere(&session).await.is_ok_and(|held| held));
        assert!(one.is_held_elsewhere(&session).await.is_ok_and(|held| !held), "it is held here");
        drop(one);
        assert!(ids.iter().all(|id| two.acts_first(id)), "alone");
        assert!(two.is_held_elsewhere(&session).await.is_ok_and(|held| !held));
    }
}
