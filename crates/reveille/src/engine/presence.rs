//! Who holds a session right now, and by what. In memory only: a connection that ends ends its hold, and a process that
//! dies has no connections. The store lets other nodes know which sessions are held here.
//!
//! A session held by a live client is never woken by a command: two programs would write one conversation.

use reveille_core::{Millis, SessionId, Timestamp};
use reveille_store::Store;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tokio::sync::{Notify, watch};

/// A hook is expected to run again within this time, so that what it was seen to do counts.
const SEEN_FOR: Millis = Millis::from_secs(24 * 3600);
/// Sessions whose hooks are remembered; beyond it the oldest are forgotten, which costs them a hint.
const SEEN_MAX: usize = 10_000;
/// The name of the hook that wakes an idle agent, as a holder. It is started anew with every turn and stays for its time.
pub const REWAKE: &str = "rewake";

/// By what a session is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// A call stands by.
    StandBy,
    /// A client says that it is there; `wakes`: it can wake its agent by itself. A newer one of the same name takes the
    /// place of an older one.
    Client { wakes: bool, name: Option<String> },
    /// Somebody follows the session's events. A channel, but not the agent's own program.
    Follower,
}

/// What is known about a session's ways out, as of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    pub waking_client: bool,
    /// A client is there that cannot wake its agent, and no command may while it is.
    pub silent_client: bool,
    pub follower: bool,
    pub hook: bool,
    pub rewake_hook: bool,
}

impl Reach {
    /// Something of the agent's own tells it, also when it has ended its turn.
    pub fn wakes_by_itself(&self) -> bool {
        self.waking_client || self.rewake_hook
    }
}

#[derive(Default)]
pub struct Presence {
    inner: Mutex<Inner>,
    /// How many holds there are, so that commits of sessions nobody holds cost nothing.
    count: AtomicUsize,
    /// Hooks were seen at all.
    any_seen: AtomicBool,
    /// A session may have become free.
    freed: watch::Sender<u64>,
    /// Through which other nodes know of it.
    store: Option<Arc<dyn Store>>,
}

#[derive(Default)]
struct Inner {
    held: BTreeMap<SessionId, Vec<Holder>>,
    seen: HashMap<SessionId, Seen>,
    last: u64,
}

struct Holder {
    number: u64,
    hold: Hold,
    changed: Arc<Notify>,
}

/// What a session's hooks were last seen to do.
#[derive(Default)]
struct Seen {
    /// When one ran last; `None`: only the kind of client is known, otherwise than by a hook.
    hook: Option<Timestamp>,
    /// One of them wakes an idle agent of what comes within this time.
    rewakes: Option<Millis>,
    client: Option<String>,
    /// Where the agent works.
    cwd: Option<String>,
    /// The agent was told how its session is called.
    introduced: bool,
}

impl Presence {
    pub fn shared_by(store: Arc<dyn Store>) -> Self {
        Self { store: Some(store), ..Self::default() }
    }

    /// The agent's own program comes to a session, or leaves it.
    fn share(&self, session: &SessionId, hold: &Hold, held: bool) {
        if let Some(store) = self.store.as_ref().filter(|_| *hold != Hold::Follower) {
            store.holds(session, held);
        }
    }

    pub fn hold(self: &Arc<Self>, session: &SessionId, hold: Hold) -> Held {
        let changed = Arc::new(Notify::new());
        let mut inner = self.inner();
        inner.last += 1;
        let number = inner.last;
        let holders = inner.held.entry(session.clone()).or_default();
        if let Hold::Client { name: Some(_), .. } = hold {
            // The older one finds itself gone and leaves.
            holders.iter().filter(|holder| holder.hold == hold).for_each(|holder| holder.changed.notify_one());
            let before = holders.len();
            holders.retain(|holder| holder.hold != hold);
            let replaced = before - holders.len();
            self.count.fetch_sub(replaced, Ordering::Relaxed);
            (0..replaced).for_each(|_| self.share(session, &hold, false));
        }
        self.share(session, &hold, true);
        holders.push(Holder { number, hold, changed: changed.clone() });
        self.count.fetch_add(1, Ordering::Relaxed);
        drop(inner);
        Held { session: session.clone(), number, changed, presence: self.clone() }
    }

    /// The agent's own program is there.
    pub fn is_held(&self, session: &SessionId) -> bool {
        self.any(session, |hold| *hold != Hold::Follower)
    }

    /// By what a message reaches this session's agent that comes after this time.
    pub fn reach(&self, session: &SessionId, after: Millis, now: Timestamp) -> Reach {
        let inner = self.inner();
        let fresh = |seen: &&Seen| seen.hook.is_some_and(|at| now.since(at) < SEEN_FOR);
        let seen = inner.seen.get(session).filter(fresh);
        let rewakes = seen.and_then(|seen| seen.rewakes).is_some_and(|patience| after <= patience);
        let any = |wanted: &dyn Fn(&Hold) -> bool| {
            inner.held.get(session).is_some_and(|holders| holders.iter().any(|holder| wanted(&holder.hold)))
        };
        // The hook will have left by then, if it is not patient enough.
        let stays = |name: &Option<String>| rewakes || name.as_deref() != Some(REWAKE);
        Reach {
            waking_client: any(&|hold| matches!(hold, Hold::Client { wakes: true, name } if stays(name))),
            silent_client: any(&|hold| matches!(hold, Hold::Client { wakes: false, .. })),
            follower: any(&|hold| *hold == Hold::Follower),
            hook: seen.is_some(),
            rewake_hook: rewakes,
        }
    }

    /// A hook of this session asked for messages. `rewakes`: it waits for them so long, to wake an idle agent.
    pub fn hook_seen(&self, session: &SessionId, rewakes: Option<Millis>, client: Option<String>, now: Timestamp) {
        self.learn(session, |seen| {
            (seen.hook, seen.rewakes) = (Some(now), rewakes.or(seen.rewakes));
            if client.is_some() {
                seen.client = client;
            }
        });
    }

    /// What holds this session calls itself so.
    pub fn kind_seen(&self, session: &SessionId, client: String) {
        self.learn(session, |seen| seen.client = Some(client));
    }

    /// A hook of this session ran here.
    pub fn cwd_is(&self, session: &SessionId, cwd: String) {
        self.learn(session, |seen| seen.cwd = Some(cwd));
    }

    /// The agent works here, unless a hook has said better.
    pub fn cwd_may_be(&self, session: &SessionId, cwd: &str) {
        self.learn(session, |seen| {
            seen.cwd.get_or_insert_with(|| cwd.to_owned());
        });
    }

    /// The agent is being told how its session is called; whether this is the first time.
    pub fn introduce(&self, session: &SessionId) -> bool {
        let mut first = false;
        self.learn(session, |seen| first = !std::mem::replace(&mut seen.introduced, true));
        first
    }

    fn learn(&self, session: &SessionId, what: impl FnOnce(&mut Seen)) {
        self.any_seen.store(true, Ordering::Relaxed);
        let mut inner = self.inner();
        if inner.seen.len() >= SEEN_MAX && !inner.seen.contains_key(session) {
            let oldest = inner.seen.iter().min_by_key(|(_, seen)| seen.hook).map(|(session, _)| session.clone());
            oldest.map(|oldest| inner.seen.remove(&oldest));
        }
        what(inner.seen.entry(session.clone()).or_default());
    }

    /// The kind of program whose hooks were seen, for calls that do not say it themselves.
    pub fn client_seen(&self, session: &SessionId) -> Option<String> {
        self.seen(session, |seen| seen.client.clone())
    }

    /// The directory that hooks were last seen to run in.
    pub fn cwd_seen(&self, session: &SessionId) -> Option<String> {
        self.seen(session, |seen| seen.cwd.clone())
    }

    fn seen<T>(&self, session: &SessionId, what: impl Fn(&Seen) -> Option<T>) -> Option<T> {
        let any = self.any_seen.load(Ordering::Relaxed);
        any.then(|| self.inner().seen.get(session).and_then(what)).flatten()
    }

    /// Something may have been committed in any session.
    pub fn tell_all(&self) {
        self.inner().held.values().flatten().for_each(|holder| holder.changed.notify_one());
    }

    /// Something of this session was committed; `undelivered`: it has messages. To calls that stand by nothing else matters.
    pub fn tell(&self, session: &SessionId, undelivered: bool) {
        if self.count.load(Ordering::Relaxed) > 0
            && let Some(holders) = self.inner().held.get(session)
        {
            let told = holders.iter().filter(|holder| undelivered || holder.hold != Hold::StandBy);
            told.for_each(|holder| holder.changed.notify_one());
        }
    }

    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Changes whenever a session may have become free.
    pub fn freed(&self) -> watch::Receiver<u64> {
        self.freed.subscribe()
    }

    fn any(&self, session: &SessionId, wanted: impl Fn(&Hold) -> bool) -> bool {
        self.count.load(Ordering::Relaxed) > 0
            && self.inner().held.get(session).is_some_and(|holders| holders.iter().any(|holder| wanted(&holder.hold)))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One hold. Dropping it is leaving.
pub struct Held {
    session: SessionId,
    number: u64,
    changed: Arc<Notify>,
    presence: Arc<Presence>,
}

impl Held {
    /// The session was written to, or this hold was replaced.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// A newer hold of the same name has taken its place.
    pub fn is_replaced(&self) -> bool {
        let inner = self.presence.inner();
        let holders = inner.held.get(&self.session);
        !holders.is_some_and(|holders| holders.iter().any(|holder| holder.number == self.number))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut inner = self.presence.inner();
        if let Some(holders) = inner.held.get_mut(&self.session) {
            let own = holders.iter().position(|holder| holder.number == self.number);
            if let Some(own) = own.map(|at| holders.remove(at)) {
                self.presence.count.fetch_sub(1, Ordering::Relaxed);
                self.presence.share(&self.session, &own.hold, false);
            }
            if holders.is_empty() {
                inner.held.remove(&self.session);
            }
            self.presence.freed.send_modify(|times| *times += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: Option<&str>) -> Hold {
        Hold::Client { wakes: true, name: name.map(Into::into) }
    }

    #[test]
    fn a_session_is_held_while_anybody_holds_it() {
        let presence = Arc::new(Presence::default());
        let (a, b) = (SessionId::new("a"), SessionId::new("b"));
        let follower = presence.hold(&a, Hold::Follower);
        assert!(!presence.is_held(&a), "a follower is not the agent");
        let first = presence.hold(&a, Hold::StandBy);
        let second = presence.hold(&a, client(None));
        assert!(presence.is_held(&a) && !presence.is_held(&b));
        drop(first);
        assert!(presence.is_held(&a));
        drop(second);
        assert!(!presence.is_held(&a));
        drop(follower);
        assert_eq!(presence.count.load(Ordering::Relaxed), 0);
        assert!(presence.inner().held.is_empty());
    }

    #[test]
    fn a_newer_hold_of_the_same_name_replaces_the_older() {
        let presence = Arc::new(Presence::default());
        let session = SessionId::new("a");
        let (old, other) = (presence.hold(&session, client(Some("rewake"))), presence.hold(&session, client(None)));
        let new = presence.hold(&session, client(Some("rewake")));
        assert!(old.is_replaced() && !other.is_replaced() && !new.is_replaced());
        drop((old, other));
        assert!(presence.is_held(&session));
        drop(new);
        assert!(!presence.is_held(&session));
        assert_eq!(presence.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_was_seen_counts_for_a_day() {
        let presence = Presence::default();
        let (session, now) = (SessionId::new("a"), Timestamp::from_millis(0));
        let (soon, patience) = (Millis::from_secs(60), Millis::from_secs(23 * 3600));
        assert_eq!(presence.reach(&session, soon, now), Reach::default());
        presence.kind_seen(&session, "cursor".into());
        assert_eq!(presence.reach(&session, soon, now), Reach::default(), "no hook was seen");
        presence.hook_seen(&session, Some(patience), Some("claude-code".into()), now);
        presence.hook_seen(&session, None, None, now);
        let hooks = Reach { hook: true, rewake_hook: true, ..Reach::default() };
        assert_eq!(presence.reach(&session, patience, now), hooks);
        assert_eq!(presence.client_seen(&session).as_deref(), Some("claude-code"));
        assert_eq!(presence.reach(&session, soon, now.plus(SEEN_FOR)), Reach::default());
    }

    #[test]
    fn a_hook_tells_nothing_that_comes_after_it_has_left() {
        let presence = Arc::new(Presence::default());
        let (session, now) = (SessionId::new("a"), Timestamp::from_millis(0));
        let (patience, later) = (Millis::from_secs(60), Millis::from_secs(61));
        presence.hook_seen(&session, Some(patience), None, now);
        let _held = presence.hold(&session, client(Some(REWAKE)));
        let reach = |after| presence.reach(&session, after, now);
        let all = Reach { waking_client: true, hook: true, rewake_hook: true, ..Reach::default() };
        assert_eq!(reach(patience), all);
        assert_eq!(reach(later), Reach { hook: true, ..Reach::default() });
        let _channel = presence.hold(&session, client(Some("channel")));
        assert!(reach(later).waking_client, "others stay");
    }

    #[test]
    fn where_an_agent_works_is_known_best_by_its_hooks() {
        let (presence, session) = (Presence::default(), SessionId::new("a"));
        presence.cwd_may_be(&session, "/started");
        assert_eq!(presence.cwd_seen(&session).as_deref(), Some("/started"));
        presence.cwd_is(&session, "/works".into());
        presence.cwd_may_be(&session, "/started");
        assert_eq!(presence.cwd_seen(&session).as_deref(), Some("/works"));
    }
}
