//! One feed of all nodes' commits, in the order of their numbers. What this node wrote is told as it is written; what
//! others wrote in between is read first. A number that cannot be read any more is told as missed.

use super::lane::Lane;
use crate::{Committed, StoreError, feed::Listeners};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Commits read at a time.
const PAGE: i64 = 500;
/// After a failure: how long until the next try.
const RETRY: Duration = Duration::from_millis(500);

pub struct Relay {
    server: i64,
    node: i64,
    listeners: Arc<Listeners>,
    inner: Mutex<Inner>,
    /// There is something to be read.
    behind: Notify,
    /// A statement of this node has ended.
    ended: Notify,
    /// The last commit of this node, to be announced to others.
    written: AtomicI64,
    announce: Notify,
    /// There are other nodes, who want to be told.
    followed: AtomicBool,
}

#[derive(Default)]
struct Inner {
    /// The last commit told.
    told: i64,
    /// Commits up to this one are known to exist.
    target: i64,
    /// Written by this node, and waiting for what comes before it.
    pending: BTreeMap<i64, Arc<Committed>>,
    /// Statements of this node: while one is under way, what it wrote may exist and not be known here yet.
    begun: u64,
    ended: u64,
}

/// A commit as it was written down for others.
struct Logged {
    num: i64,
    node: i64,
    first_seq: i64,
    body: String,
}

/// What was known before reading.
struct Gap {
    after: i64,
    target: i64,
    begun: u64,
}

impl Relay {
    pub fn new(server: i64, node: i64, told: i64, listeners: Arc<Listeners>) -> Self {
        Self {
            server,
            node,
            listeners,
            inner: Mutex::new(Inner { told, target: told, ..Inner::default() }),
            behind: Notify::new(),
            ended: Notify::new(),
            written: AtomicI64::new(told),
            announce: Notify::new(),
            followed: AtomicBool::new(true),
        }
    }

    pub fn told(&self) -> i64 {
        self.inner().told
    }

    pub fn is_followed(&self) -> bool {
        self.followed.load(Ordering::Relaxed)
    }

    pub fn set_followed(&self, followed: bool) {
        self.followed.store(followed, Ordering::Relaxed);
    }

    /// This node begins to write; [`Relay::ends`] says that it no longer does.
    pub fn begins(&self) {
        self.inner().begun += 1;
    }

    pub fn ends(&self) {
        self.inner().ended += 1;
        self.ended.notify_one();
    }

    /// This node has committed these.
    pub fn written(&self, commits: Vec<(i64, Arc<Committed>)>) {
        let Some(last) = commits.last().map(|(num, _)| *num) else { return };
        let mut inner = self.inner();
        let told = inner.told;
        // What was read before its answer came was told already.
        inner.pending.extend(commits.into_iter().filter(|(num, _)| *num > told));
        inner.target = inner.target.max(last);
        self.tell_pending(&mut inner);
        let behind = !inner.pending.is_empty();
        drop(inner);
        if behind {
            self.behind.notify_one();
        }
        self.written.fetch_max(last, Ordering::Relaxed);
        if self.is_followed() {
            self.announce.notify_one();
        }
    }

    /// Commits up to this one exist.
    pub fn exists(&self, num: i64) {
        let mut inner = self.inner();
        if num > inner.target {
            inner.target = num;
        }
        if inner.told < inner.target {
            self.behind.notify_one();
        }
    }

    /// The database is at an earlier commit than this node has heard of; numbers are given out a second time.
    pub fn went_back(&self, num: i64) {
        let mut inner = self.inner();
        (inner.told, inner.target) = (num, num);
        inner.pending.clear();
        self.listeners.tell_missed();
    }

    /// Reads what others wrote, whenever there is something.
    pub async fn follow(&self, lane: &Lane) {
        loop {
            self.behind.notified().await;
            while let Some(gap) = self.gap() {
                match self.read(lane, gap.after).await {
                    Ok(logged) => {
                        if !self.tell_logged(logged, &gap) {
                            // This node's own answer may hold what is missing.
                            self.ended.notified().await;
                        }
                    }
                    Err(error) => {
                        tracing::debug!(%error, "other nodes' commits cannot be read; trying again");
                        tokio::time::sleep(RETRY).await;
                    }
                }
            }
        }
    }

    /// Tells other nodes that there is something to read. Only a hint: they look every second anyway.
    pub async fn announce(&self, lane: &Lane) {
        loop {
            self.announce.notified().await;
            let payload = format!("{}:{}:{}", self.server, self.node, self.written.load(Ordering::Relaxed));
            let _ = lane.read("SELECT pg_notify('reveille', $1)::text", &[&payload]).await;
        }
    }

    /// Another node's hint.
    pub fn heard(&self, payload: &str) {
        let mut parts = payload.split(':').map(|part| part.parse::<i64>().ok());
        if let (Some(Some(server)), Some(Some(node)), Some(Some(num))) = (parts.next(), parts.next(), parts.next())
            && server == self.server
            && node != self.node
        {
            self.exists(num);
        }
    }

    fn gap(&self) -> Option<Gap> {
        let inner = self.inner();
        let gap = Gap { after: inner.told, target: inner.target, begun: inner.begun };
        (gap.after < gap.target).then_some(gap)
    }

    async fn read(&self, lane: &Lane, after: i64) -> Result<Vec<Logged>, StoreError> {
        let sql = "SELECT num, node, first_seq, body FROM reveille.commits WHERE server = $1 AND num > $2
                   ORDER BY num LIMIT $3";
        let rows = lane.read(sql, &[&self.server, &after, &PAGE]).await?;
        let logged = |row: &tokio_postgres::Row| Logged {
            num: row.get(0),
            node: row.get(1),
            first_seq: row.get(2),
            body: row.get(3),
        };
        Ok(rows.iter().map(logged).collect())
    }

    /// Tells what was read. `false`: something is missing that this node itself may just have written.
    fn tell_logged(&self, logged: Vec<Logged>, gap: &Gap) -> bool {
        let mut inner = self.inner();
        let full = logged.len() as i64 == PAGE;
        let settled = inner.ended >= gap.begun;
        for one in logged {
            self.tell_pending(&mut inner);
            if one.num <= inner.told {
                continue;
            }
            if one.num > inner.told + 1 {
                if !settled {
                    return false;
                }
                self.miss(&mut inner, one.num - 1);
            }
            inner.told = one.num;
            match inner.pending.remove(&one.num) {
                Some(own) => self.listeners.tell(vec![own]),
                None => self.tell_one(&one),
            }
        }
        self.tell_pending(&mut inner);
        if !full && inner.told < gap.target {
            if !settled {
                return false;
            }
            // It existed and is not there: written by a node that knew of no other, or lost in a crash.
            self.miss(&mut inner, gap.target);
            self.tell_pending(&mut inner);
        }
        true
    }

    /// Of those up to this one, no more is known than what this node itself wrote: nobody else can tell that.
    fn miss(&self, inner: &mut Inner, last: i64) {
        self.listeners.tell_missed();
        let later = inner.pending.split_off(&(last + 1));
        let own = std::mem::replace(&mut inner.pending, later);
        self.listeners.tell(own.into_values().collect());
        inner.told = last;
    }

    fn tell_one(&self, one: &Logged) {
        match serde_json::from_str(&one.body) {
            Ok(batch) => {
                let committed = Committed { batch, first_seq: one.first_seq, here: one.node == self.node };
                self.listeners.tell(vec![Arc::new(committed)]);
            }
            // A node of another version speaks otherwise.
            Err(_) => self.listeners.tell_missed(),
        }
    }

    fn tell_pending(&self, inner: &mut Inner) {
        let mut group = Vec::new();
        while let Some(next) = inner.pending.remove(&(inner.told + 1)) {
            inner.told += 1;
            group.push(next);
        }
        self.listeners.tell(group);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Feed, News};
    use reveille_core::{Batch, Hours, Session, SessionId, Timestamp, session::SessionState};

    fn batch(name: &str) -> Batch {
        let now = Timestamp::from_millis(0);
        let session = Session {
            id: SessionId::new(name),
            version: 1,
            state: SessionState::Open,
            created_at: now,
            active_at: now,
            live_timers: 0,
            live_reminders: 0,
            pending_messages: 0,
            client: None,
            cwd: None,
            agent: None,
            quiet: Hours::default(),
        };
        Batch {
            expected: None,
            session,
            items: vec![],
            messages: vec![],
            said: vec![],
            history: vec![],
            tallies: vec![],
        }
    }

    fn own(num: i64, name: &str) -> (i64, Arc<Committed>) {
        (num, Arc::new(Committed { batch: batch(name), first_seq: 1, here: true }))
    }

    fn logged(num: i64, name: &str) -> Logged {
        let body = serde_json::to_string(&batch(name)).expect("representable");
        Logged { num, node: 2, first_seq: 1, body }
    }

    fn relay() -> (Relay, Feed) {
        let listeners = Arc::new(Listeners::default());
        let feed = listeners.add();
        (Relay::new(1, 1, 10, listeners), feed)
    }

    /// Names of the sessions as they were told; others' with a star, and what was missed as a dash.
    fn heard(feed: &mut Feed) -> String {
        let mut all = Vec::new();
        while let Ok(news) = feed.try_recv() {
            if let News::Missed = news {
                all.push("-".to_owned());
            }
            let name = |one: &Arc<Committed>| format!("{}{}", one.batch.session.id, if one.here { "" } else { "*" });
            all.extend(news.commits().iter().map(name));
        }
        all.join(" ")
    }

    #[test]
    fn commits_are_told_in_the_order_of_their_numbers() {
        let (relay, mut feed) = relay();
        relay.written(vec![own(11, "a"), own(12, "b")]);
        assert_eq!(heard(&mut feed), "a b");
        relay.written(vec![own(15, "e")]);
        assert_eq!(heard(&mut feed), "", "two others come before it");
        let gap = relay.gap().expect("behind");
        assert!(relay.tell_logged(vec![logged(13, "c"), logged(14, "d"), logged(15, "e"), logged(16, "f")], &gap));
        assert_eq!(heard(&mut feed), "c* d* e f*");
        relay.written(vec![own(16, "late"), own(17, "g")]);
        assert_eq!(heard(&mut feed), "g", "what was told is not told again");
        assert!(relay.gap().is_none());
    }

    #[test]
    fn what_cannot_be_read_is_missed_but_not_what_is_being_written_here() {
        let (relay, mut feed) = relay();
        relay.begins();
        relay.exists(12);
        let gap = relay.gap().expect("behind");
        assert!(!relay.tell_logged(vec![], &gap), "this node may just have written it");
        relay.written(vec![own(11, "a"), own(12, "b")]);
        relay.ends();
        assert_eq!(heard(&mut feed), "a b");
        relay.exists(14);
        let gap = relay.gap().expect("behind");
        assert!(relay.tell_logged(vec![logged(14, "d")], &gap));
        assert_eq!(heard(&mut feed), "- d*");
        relay.exists(20);
        let gap = relay.gap().expect("behind");
        assert!(relay.tell_logged(vec![], &gap));
        assert_eq!((heard(&mut feed), relay.told()), ("-".to_owned(), 20));
    }

    #[test]
    fn what_this_node_wrote_is_told_also_between_commits_that_are_missed() {
        let (relay, mut feed) = relay();
        relay.written(vec![own(12, "b"), own(14, "d")]);
        let gap = relay.gap().expect("behind");
        assert!(relay.tell_logged(vec![], &gap));
        assert_eq!((heard(&mut feed), relay.told()), ("- b d".to_owned(), 14));
        relay.written(vec![own(16, "f"), own(19, "i")]);
        let gap = relay.gap().expect("behind");
        assert!(relay.tell_logged(vec![logged(17, "g")], &gap));
        assert_eq!((heard(&mut feed), relay.told()), ("- f g* - i".to_owned(), 19));
    }

    #[test]
    fn a_database_that_went_back_is_followed_from_there() {
        let (relay, mut feed) = relay();
        relay.written(vec![own(11, "a"), own(12, "b")]);
        relay.went_back(11);
        relay.written(vec![own(12, "c")]);
        assert_eq!(heard(&mut feed), "a b - c");
    }

    #[test]
    fn hints_of_other_servers_and_of_this_node_are_ignored() {
        let (relay, _feed) = relay();
        for hint in ["2:2:99", "1:1:99", "nonsense", "1:2", ""] {
            relay.heard(hint);
            assert!(relay.gap().is_none(), "{hint}");
        }
        relay.heard("1:2:11");
        assert!(relay.gap().is_some());
    }
}
