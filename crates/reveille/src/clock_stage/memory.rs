//! What is remembered of calls, in memory only. Forgetting costs a second hold or a second reminder of a turn that broke off
//! and is sent again, or the name of a conversation that only its upstream keeps.

use reveille_core::SessionId;
use ring::digest;
use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Of each kind; beyond it the oldest are forgotten.
const ENTRIES_MAX: usize = 10_000;

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
}

#[derive(Default)]
pub struct Memory {
    attempts: Mutex<Recent<SessionId, Attempt>>,
    answers: Mutex<Recent<String, SessionId>>,
}

impl Memory {
    /// The name of this turn, the same when it broke off and is sent again.
    pub fn attempt(&self, session: &SessionId, turn: Fingerprint) -> String {
        self.entry(session, turn, |attempt| attempt.name.clone())
    }

    /// The turn is about to be held; whether it was held before.
    pub fn hold(&self, session: &SessionId, turn: Fingerprint) -> bool {
        self.entry(session, turn, |attempt| std::mem::replace(&mut attempt.held, true))
    }

    /// Whether this turn broke off while it was held.
    pub fn was_held(&self, session: &SessionId, turn: impl FnOnce() -> Fingerprint) -> bool {
        let attempts = lock(&self.attempts);
        attempts.map.get(session).is_some_and(|attempt| attempt.held && attempt.turn == turn())
    }

    /// The turn came to its end: the next one that looks the same is another.
    pub fn done(&self, session: &SessionId) {
        lock(&self.attempts).remove(session);
    }

    fn entry<T>(&self, session: &SessionId, turn: Fingerprint, look: impl FnOnce(&mut Attempt) -> T) -> T {
        let mut attempts = lock(&self.attempts);
        if attempts.map.get(session).is_none_or(|attempt| attempt.turn != turn) {
            let name = format!("{:032x}", rand::random::<u128>());
            attempts.set(session.clone(), Attempt { turn, name, held: false });
        }
        match attempts.map.get_mut(session) {
            Some(attempt) => look(attempt),
            None => unreachable!("set right above"),
        }
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
    fn set(&mut self, key: K, value: V) {
        if self.map.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
            // What was removed meanwhile is passed over.
            while self.order.len() > ENTRIES_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.map.remove(&oldest);
            }
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

    #[test]
    fn a_turn_is_held_once_and_memory_is_bounded() {
        let memory = Memory::default();
        let session = SessionId::new("s");
        let (one, two) = (Fingerprint::of(&[b"ab", b"c"]), Fingerprint::of(&[b"a", b"bc"]));
        assert_ne!(one, two);
        assert!(!memory.hold(&session, one) && memory.was_held(&session, || one) && memory.hold(&session, one));
        assert_eq!(memory.attempt(&session, one), memory.attempt(&session, one));
        assert!(
            !memory.was_held(&session, || two) && !memory.hold(&session, two) && !memory.was_held(&session, || one)
        );
        let name = memory.attempt(&session, two);
        memory.done(&session);
        assert!(!memory.was_held(&session, || two));
        assert_ne!(name, memory.attempt(&session, two), "another turn that looks the same");
        for number in 0..=ENTRIES_MAX {
            memory.answered(&number.to_string(), &session);
        }
        assert_eq!(memory.session_of("0"), None);
        assert_eq!(memory.session_of("1"), Some(session));
        assert_eq!(lock(&memory.answers).map.len(), ENTRIES_MAX);
    }
}
