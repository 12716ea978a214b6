//! Requests under way over HTTP, so that `notifications/cancelled`, which comes as a request of its own, finds them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// The connection's session, and the request's id as JSON: `1` and `"1"` are different ids.
type Key = (String, String);

#[derive(Clone, Default)]
pub struct UnderWay(Arc<Mutex<HashMap<Key, Tokens>>>);

/// Mostly one; a client may use an id twice. The token that a place is known by is in its own `Arc`.
type Tokens = Vec<Arc<CancellationToken>>;

/// One request, for as long as it is under way.
pub struct Place {
    under_way: UnderWay,
    key: Key,
    token: Arc<CancellationToken>,
}

impl UnderWay {
    pub fn enter(&self, session: &str, id: String) -> (CancellationToken, Place) {
        let (key, token) = ((session.to_owned(), id), Arc::new(CancellationToken::new()));
        self.all().entry(key.clone()).or_default().push(token.clone());
        ((*token).clone(), Place { under_way: self.clone(), key, token })
    }

    pub fn cancel(&self, session: &str, id: String) {
        let tokens = self.all().remove(&(session.to_owned(), id)).unwrap_or_default();
        tokens.iter().for_each(|token| token.cancel());
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, Tokens>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.under_way.all();
        if let Some(tokens) = all.get_mut(&self.key) {
            tokens.retain(|token| !Arc::ptr_eq(token, &self.token));
            if tokens.is_empty() {
                all.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gives_up_its_own_place_only() {
        let under_way = UnderWay::default();
        let enter = || under_way.enter("mcp_x.client", "1".into());
        let ((first, place), (second, other)) = (enter(), enter());
        drop(place);
        under_way.cancel("mcp_x.client", "2".into());
        assert!(!first.is_cancelled() && !second.is_cancelled());
        under_way.cancel("mcp_x.client", "1".into());
        assert!(!first.is_cancelled() && second.is_cancelled());
        let (third, _place) = enter();
        drop(other);
        under_way.cancel("mcp_x.client", "1".into());
        assert!(third.is_cancelled());
        drop(_place);
        assert!(under_way.all().is_empty());
    }
}
