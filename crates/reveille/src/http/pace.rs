//! How often one may ask. A bucket for each token, or each address where there is none: it empties with every request and
//! fills again with time. What is full costs the caller a refusal and nobody else anything.

use lru::LruCache;
use std::{
    net::IpAddr,
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// Buckets kept; who is forgotten starts with a full one.
const BUCKETS_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("more than none");
/// Requests without a token to a server that wants one: enough for a page and all its parts, many times.
const STRANGERS: Rate = Rate { per_second: 50.0, burst: 1000.0 };
/// So many seconds' worth may come at once.
const BURST_SECONDS: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate {
    per_second: f64,
    burst: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    Token(String),
    Peer(IpAddr),
    Stranger(IpAddr),
}

pub struct Pace {
    /// Of callers who may ask; none unless configured.
    known: Option<Rate>,
    buckets: Mutex<LruCache<Who, Bucket>>,
}

#[derive(Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Pace {
    /// Zero: no limit, but for strangers.
    pub fn new(per_second: u32) -> Self {
        let per_second = f64::from(per_second);
        let known = (per_second > 0.0).then(|| Rate { per_second, burst: (per_second * BURST_SECONDS).max(1.0) });
        Self { known, buckets: Mutex::new(LruCache::new(BUCKETS_MAX)) }
    }

    /// Whether there is any limit on callers who may ask.
    pub fn counts_known(&self) -> bool {
        self.known.is_some()
    }

    /// Whether this one may ask now.
    pub fn allows(&self, who: Who, now: Instant) -> bool {
        let rate = match (&who, self.known) {
            (Who::Stranger(_), _) => STRANGERS,
            (_, Some(rate)) => rate,
            (_, None) => return true,
        };
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.get_or_insert_mut(who, || Bucket { left: rate.burst, at: now });
        let since = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.left = (bucket.left + since * rate.per_second).min(rate.burst);
        bucket.at = now;
        if bucket.left < 1.0 {
            return false;
        }
        bucket.left -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn token(name: &str) -> Who {
        Who::Token(name.into())
    }

    #[test]
    fn each_has_its_own_and_it_fills_again() {
        let (pace, start) = (Pace::new(10), Instant::now());
        let taken = |who: &str, at| (0..100).filter(|_| pace.allows(token(who), at)).count();
        assert_eq!((taken("a", start), taken("b", start)), (20, 20));
        assert_eq!(taken("a", start + Duration::from_millis(500)), 5);
        assert_eq!(taken("a", start + Duration::from_secs(3600)), 20, "no more than a full one");
        assert_eq!(taken("a", start), 0, "a clock that goes back gives nothing");
    }

    #[test]
    fn without_a_limit_only_strangers_are_counted() {
        let (pace, now) = (Pace::default(), Instant::now());
        assert!((0..5000).all(|_| pace.allows(token("a"), now)));
        let stranger = Who::Stranger([10, 0, 0, 1].into());
        let allowed = (0..5000).filter(|_| pace.allows(stranger.clone(), now)).count();
        assert_eq!(allowed, 1000);
    }

    #[test]
    fn memory_is_bounded() {
        let (pace, now) = (Pace::default(), Instant::now());
        for number in 0..10_000u32 {
            pace.allows(Who::Stranger(IpAddr::from(number.to_be_bytes())), now);
        }
        assert_eq!(pace.buckets.lock().expect("free").len(), BUCKETS_MAX.get());
    }
}
