//! Requests under way over HTTP, so that `notifications/cancelled`, which comes as a request of its own, finds them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// The connection's session, and the request's id as JSON: `1` and `"1"` are different ids.
type Key = (String, String);

#[derive(Clone, Default)]
pub struct UnderWay(Arc<Mutex<HashMap<Key, CancellationToken>>>);

/// One request, for as long as it is under way.
pub struct Place {
    under_way: UnderWay,
    key: Key,
}

impl UnderWay {
    pub fn enter(&self, session: &str, id: String) -> (CancellationToken, Place) {
        let (key, token) = ((session.to_owned(), id), CancellationToken::new());
        self.all().insert(key.clone(), token.clone());
        (token, Place { under_way: self.clone(), key })
    }

    pub fn cancel(&self, session: &str, id: String) {
        if let Some(token) = self.all().remove(&(session.to_owned(), id)) {
            token.cancel();
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.under_way.all().remove(&self.key);
    }
}
