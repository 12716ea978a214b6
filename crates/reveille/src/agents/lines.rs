//! Lines that form before something that takes one at a time: who joins first is served first, and who leaves a line holds
//! up nobody. A line that nobody stands in is forgotten.

use futures_util::{FutureExt, future::BoxFuture};
use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    task,
};

/// With so many lines, those that nobody stands in are looked for; then with twice as many as are left.
const LOOK_AT: usize = 64;

/// A place in a line; resolves when it is the first.
pub type Place = BoxFuture<'static, Turn>;
/// Over when it is dropped.
pub type Turn = OwnedMutexGuard<()>;

pub struct Lines<K>(Mutex<Known<K>>);

struct Known<K> {
    lines: HashMap<K, Weak<AsyncMutex<()>>>,
    look_at: usize,
}

impl<K> Default for Lines<K> {
    fn default() -> Self {
        Self(Mutex::new(Known { lines: HashMap::new(), look_at: LOOK_AT }))
    }
}

impl<K: Eq + Hash> Lines<K> {
    /// A place at the end of this line. It is taken now, whenever it is waited for.
    pub fn join(&self, key: K) -> Place {
        // Without the bound on what a task may do at once: that would have it come back later to take its place.
        let mut first = Box::pin(task::unconstrained(self.line(key).lock_owned()));
        match first.as_mut().now_or_never() {
            Some(turn) => Box::pin(std::future::ready(turn)),
            None => first,
        }
    }

    /// How many stand in this line, whose turn it is among them.
    pub fn standing(&self, key: &K) -> usize {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.lines.get(key).map_or(0, Weak::strong_count)
    }

    fn line(&self, key: K) -> Arc<AsyncMutex<()>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = known.lines.get(&key).and_then(Weak::upgrade) {
            return line;
        }
        if known.lines.len() >= known.look_at {
            known.lines.retain(|_, line| line.strong_count() > 0);
            known.look_at = LOOK_AT.max(known.lines.len() * 2);
        }
        let line = Arc::new(AsyncMutex::new(()));
        known.lines.insert(key, Arc::downgrade(&line));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_joins_first_is_first_and_who_leaves_holds_up_nobody() {
        let lines = Lines::default();
        let mut places: Vec<Place> = (0..500).map(|_| lines.join("a")).collect();
        assert_eq!((lines.standing(&"a"), lines.standing(&"b")), (500, 0));
        drop(lines.join("b").await);
        // The last one is asked first; it is not its turn.
        let mut last = places.pop().expect("the last");
        assert!((&mut last).now_or_never().is_none());
        for (number, place) in places.into_iter().enumerate() {
            if number % 3 != 1 {
                assert!(place.now_or_never().is_some(), "{number} is next");
            }
            assert!(number == 498 || (&mut last).now_or_never().is_none());
        }
        last.await;
        assert_eq!(lines.standing(&"a"), 0);
    }

    #[test]
    fn lines_that_nobody_stands_in_are_forgotten() {
        let lines = Lines::default();
        let _kept = lines.join(usize::MAX);
        (0..10_000).for_each(|key| drop(lines.join(key)));
        assert!(lines.0.lock().expect("whole").lines.len() <= LOOK_AT);
        assert_eq!(lines.standing(&usize::MAX), 1);
    }
}
