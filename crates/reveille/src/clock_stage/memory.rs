//! What is remembered of calls, in memory only. Forgetting costs a second hold or a second reminder of a turn that broke off
//! and is sent again, or the name of a conversation that only its upstream keeps.

use crate::chance::Chance;
use reveille_core::{SessionId, Timestamp, thread::SENT_AGAIN_MAX};
use ring::digest;
use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Of each kind; beyond it the oldest are forgotten.
const ENTRIES_MAX: usize = 10_000;
/// Turns of one session under way or broken off; beyond it the oldest is forgotten.
const TURNS_MAX: usize = 8;

/// What a turn is known by: its conversation, however it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut short = [0; 16];
        short.copy_from_slice(&context.finish().as_ref()[..16]);
        Self(short)
    }

    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A turn that is under way, or broke off.
struct Attempt {
    turn: Fingerprint,
    /// Tells it from others that look the same.
    name: String,
    held: bool,
    /// When it was handed to the client, which has calls to answer: what looks the same soon after was not heard.
    handed_over: Option<Timestamp>,
}

impl Attempt {
    fn is_over(&self, now: Timestamp) -> bool {
        self.handed_over.is_some_and(|at| now.since(at) >= SENT_AGAIN_MAX)
    }
}

pub struct Memory {
    /// What names are drawn from.
    chance: Arc<dyn Chance>,
    attempts: Mutex<Recent<SessionId, Vec<Attempt>>>,
    answers: Mutex<Recent<String, SessionId>>,
    /// Sessions whose client has a tool of the same name as one of ours.
    named_alike: Mutex<Recent<SessionId, ()>>,
}

impl Memory {
    pub fn new(chance: Arc<dyn Chance>) -> Self {
        Self { chance, attempts: Mutex::default(), answers: Mutex::default(), named_alike: Mutex::default() }
    }

    /// The name of this turn, the same when it broke off and is sent again.
    pub fn attempt(&self, session: &SessionId, turn: Fingerprint, now: Timestamp) -> String {
        self.entry(session, turn, now, |attempt| attempt.name.clone())
    }

    /// The turn is about to be held; whether it was held before.
    pub fn hold(&self, session: &SessionId, turn: Fingerprint, now: Timestamp) -> bool {
        self.entry(session, turn, now, |attempt| std::mem::replace(&mut attempt.held, true))
    }

    /// Whether this turn broke off while it was held.
    pub fn was_held(&self, session: &SessionId, turn: impl FnOnce() -> Fingerprint) -> bool {
        let attempts = lock(&self.attempts);
        let held = attempts.map.get(session).filter(|known| known.iter().any(|attempt| attempt.held));
        held.is_some_and(|known| {
            let turn = turn();
            known.iter().any(|attempt| attempt.held && attempt.turn == turn)
        })
    }

    /// The turn came to its end: the next one that looks the same is another.
    pub fn done(&self, session: &SessionId, turn: impl FnOnce() -> Fingerprint) {
        let mut attempts = lock(&self.attempts);
        let Some(known) = attempts.map.get_mut(session) else { return };
        let turn = turn();
        known.retain(|attempt| attempt.turn != turn);
        if known.is_empty() {
            attempts.remove(session);
        }
    }

    /// The turn ended with calls of ours beside some that the client has to answer. Who got it sends those answers next, not
    /// the same turn.
    pub fn handed_over(&self, session: &SessionId, turn: Fingerprint, now: Timestamp) {
        self.entry(session, turn, now, |attempt| attempt.handed_over = Some(now));
    }

    fn entry<T>(
        &self,
        session: &SessionId,
        turn: Fingerprint,
        now: Timestamp,
        look: impl FnOnce(&mut Attempt) -> T,
    ) -> T {
        let mut attempts = lock(&self.attempts);
        let known = attempts.entry(session);
        known.retain(|attempt| !attempt.is_over(now));
        let place = known.iter().position(|attempt| attempt.turn == turn).unwrap_or_else(|| {
            if known.len() >= TURNS_MAX {
                known.remove(0);
            }
            let name = format!("{:032x}", self.chance.draw_wide());
            known.push(Attempt { turn, name, held: false, handed_over: None });
            known.len() - 1
        });
        look(&mut known[place])
    }

    /// The session's client has a tool of the same name as one of ours; whether this is news.
    pub fn is_named_alike(&self, session: &SessionId) -> bool {
        lock(&self.named_alike).set(session.clone(), ())
    }

    /// An answer belongs to this session.
    pub fn answered(&self, answer: &str, session: &SessionId) {
        lock(&self.answers).set(answer.to_owned(), session.clone());
    }

    pub fn session_of(&self, answer: &str) -> Option<SessionId> {
        lock(&self.answers).map.get(answer).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A map that forgets what was set first.
struct Recent<K, V> {
    map: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { map: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Hash + Eq + Clone, V> Recent<K, V> {
    /// Whether it is new.
    fn set(&mut self, key: K, value: V) -> bool {
        let new = self.map.insert(key.clone(), value).is_none();
        if new {
            self.order.push_back(key);
            while self.order.len() > ENTRIES_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.map.remove(&oldest);
            }
        }
        new
    }

    fn entry(&mut self, key: &K) -> &mut V
    where
        V: Default,
    {
        if !self.map.contains_key(key) {
            self.set(key.clone(), V::default());
        }
        match self.map.get_mut(key) {
            Some(value) => value,
            None => unreachable!("set right above"),
        }
    }

    fn remove(&mut self, key: &K) {
        if self.map.remove(key).is_some()
            && let Some(place) = self.order.iter().rposition(|known| known == key)
        {
            self.order.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SystemChance;

    #[test]
    fn a_turn_is_held_once_and_memory_is_bounded() {
        let memory = Memory::new(Arc::new(SystemChance));
        let session = SessionId::new("s");
        let (one, two) = (Fingerprint::of(&[b"ab", b"c"]), Fingerprint::of(&[b"a", b"bc"]));
        let now = Timestamp::from_millis(1_000_000);
        assert_ne!(one, two);
        assert!(!memory.hold(&session, one, now) && memory.was_held(&session, || one));
        assert!(memory.hold(&session, one, now));
        assert_eq!(memory.attempt(&session, one, now), memory.attempt(&session, one, now));
        assert!(!memory.was_held(&session, || two) && !memory.hold(&session, two, now));
        assert!(memory.was_held(&session, || one), "turns side by side are told apart");
        let name = memory.attempt(&session, two, now);
        memory.done(&session, || two);
        assert!(!memory.was_held(&session, || two) && memory.was_held(&session, || one));
        assert_ne!(name, memory.attempt(&session, two, now), "another turn that looks the same");
        for number in 0..TURNS_MAX {
            memory.attempt(&session, Fingerprint::of(&[&[number as u8]]), now);
        }
        assert!(!memory.was_held(&session, || one), "the oldest is forgotten");
        for number in 0..=ENTRIES_MAX {
            memory.answered(&number.to_string(), &session);
        }
        assert_eq!(memory.session_of("0"), None);
        assert_eq!(memory.session_of("1"), Some(session));
        assert_eq!(lock(&memory.answers).map.len(), ENTRIES_MAX);
    }

    #[test]
    fn a_turn_that_was_handed_over_is_known_for_a_while() {
        let memory = Memory::new(Arc::new(SystemChance));
        let (session, turn) = (SessionId::new("s"), Fingerprint::of(&[b"a"]));
        let now = Timestamp::from_millis(1_000_000);
        let name = memory.attempt(&session, turn, now);
        memory.handed_over(&session, turn, now);
        assert_eq!(name, memory.attempt(&session, turn, now.plus(reveille_core::Millis::from_secs(599))));
        assert_ne!(name, memory.attempt(&session, turn, now.plus(SENT_AGAIN_MAX)), "asked for anew");
    }
}
