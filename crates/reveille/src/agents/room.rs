//! Room for calls that were begun, whether they wait for a place or run. A host may have as much of it as is left over for
//! all others: one that hangs fills half of it, two a third each, and whoever is called besides always finds some.

use reveille_core::{Millis, Timestamp};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What finds no room is begun again after this, and no two of one host at the same instant: as many as may be called in a
/// second come back in one.
const NO_ROOM: Millis = Millis::from_secs(1);
const NO_ROOM_APART: Millis = Millis::new(1);

pub struct Room {
    max: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    /// Those of whom somebody is inside.
    hosts: HashMap<Arc<str>, Host>,
}

struct Host {
    inside: usize,
    /// When the last one comes back that found no room.
    again: Timestamp,
}

/// One call's part of the room; given back when it is dropped.
pub struct Inside {
    room: Arc<Room>,
    host: Arc<str>,
}

impl Room {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, taken: Mutex::default() })
    }

    /// Takes room for a call to this host; or says after how long there may be some.
    pub fn enter(self: &Arc<Self>, host: &str, now: Timestamp) -> Result<Inside, Millis> {
        let mut taken = self.taken();
        let free = self.max - taken.all;
        let (name, inside) = match taken.hosts.get_key_value(host) {
            Some((name, host)) => (name.clone(), host.inside),
            None => (Arc::from(host), 0),
        };
        if inside >= free {
            let Some(host) = taken.hosts.get_mut(host) else { return Err(NO_ROOM) };
            host.again = host.again.plus(NO_ROOM_APART).max(now.plus(NO_ROOM));
            return Err(host.again.since(now));
        }
        taken.all += 1;
        taken.hosts.entry(name.clone()).or_insert(Host { inside: 0, again: now }).inside += 1;
        Ok(Inside { room: self.clone(), host: name })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut taken = self.room.taken();
        taken.all -= 1;
        if let Some(host) = taken.hosts.get_mut(&self.host) {
            host.inside -= 1;
            if host.inside == 0 {
                taken.hosts.remove(&self.host);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(0);

    /// As many as find room.
    fn fill(room: &Arc<Room>, host: &str) -> Vec<Inside> {
        std::iter::from_fn(|| room.enter(host, NOW).ok()).collect()
    }

    #[test]
    fn whoever_hangs_leaves_room_for_others() {
        let room = Room::new(100);
        let mut hanging = vec![fill(&room, "a")];
        assert_eq!(hanging[0].len(), 50);
        for host in ["b", "c", "d", "e"] {
            let inside = fill(&room, host);
            assert!(!inside.is_empty(), "{host} is called");
            hanging.push(inside);
        }
        // There is room again, for one that had too little too.
        hanging.remove(0);
        assert!(room.enter("b", NOW).is_ok());
        drop(hanging);
        assert!(room.taken().hosts.is_empty() && room.taken().all == 0);
    }

    #[test]
    fn what_finds_no_room_comes_back_one_by_one_for_each_host() {
        let room = Room::new(3);
        let _full = (fill(&room, "a"), fill(&room, "b"));
        let after = |host| room.enter(host, NOW).err().map(Millis::get);
        // Each was told once already, when it was filled.
        assert_eq!([after("a"), after("a"), after("b"), after("a")], [1001, 1002, 1001, 1003].map(Some));
        assert_eq!(after("nobody"), Some(1000));
    }
}
