//! Which condition is looked at when. Pure: time is given in, and what is to be done is given back.
//!
//! Conditions stand in a queue by the time of their next look. Those of one target (a host, the file system, commands)
//! share a lane of bounded width: one that hangs takes its own lane's places and nobody else's. Where more is due than
//! may be looked at, young conditions come first: most are met soon or after a long time.

use reveille_core::{ItemId, Millis, Timestamp, condition::Watch};
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

/// A look comes this soon at first; later, after a tenth of the time waited so far.
const PAUSE_MIN: Millis = Millis::new(500);
const SHARE: u64 = 10;
/// One that has been waited for less than this is young.
const YOUNG: Millis = Millis::from_secs(10);
/// Of so many looks one is at what has been due longest, so that young ones keep nobody waiting for ever.
const TURNS: u8 = 4;
/// The last look is made this long before the time is up: enough for one that is answered, and to write what it saw.
const LAST_LOOK: Millis = Millis::from_secs(1);
/// Up to this part of a pause more or less, so that what began together does not stay together.
const JITTER: f64 = 0.2;

#[derive(Default)]
pub struct Schedule {
    entries: HashMap<ItemId, Entry>,
    queue: ByAge<BTreeSet<(Timestamp, ItemId)>>,
    /// Those whose time will be up, by when they are looked at before: what holds then is met, however long the pauses and
    /// the queue are.
    ending: BTreeSet<(Timestamp, ItemId)>,
    lanes: HashMap<Arc<str>, Lane>,
    turn: u8,
}

/// The same for young conditions and for all others.
#[derive(Default)]
struct ByAge<T> {
    young: T,
    old: T,
}

impl<T> ByAge<T> {
    fn of(&mut self, young: bool) -> &mut T {
        if young { &mut self.young } else { &mut self.old }
    }
}

struct Entry {
    watch: Arc<Watch>,
    /// When to look before its time is up, unless that has been done.
    last: Option<Timestamp>,
    memory: Memory,
    next: Timestamp,
    place: Place,
    young: bool,
}

impl Entry {
    /// Many are due, and while it waited for its look it became as old as the others.
    fn has_aged(&self, now: Timestamp) -> bool {
        self.young && now.since(self.watch.since) >= YOUNG
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Queue,
    /// Due, but its lane is full.
    Lane,
    /// Somebody looks.
    Busy,
}

#[derive(Default)]
struct Lane {
    busy: usize,
    waiting: ByAge<VecDeque<ItemId>>,
}

/// What one look remembers for the next, in memory only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub searched: Option<Searched>,
}

/// How far a file was searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Searched {
    pub inode: u64,
    pub until: u64,
    /// Of what was there: a file that was written anew and has grown as long since is known by it.
    pub trace: u64,
}

/// One look to be made.
#[derive(Clone, Debug)]
pub struct Due {
    pub id: ItemId,
    pub watch: Arc<Watch>,
    pub memory: Memory,
    pub lane: Arc<str>,
}

impl Schedule {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// What the timer waits for now, and until when. Whether a look that is under way is about something else by this.
    pub fn learn(&mut self, id: &ItemId, watch: Option<&Watch>, ends: Option<Timestamp>, now: Timestamp) -> bool {
        let known = self.entries.get(id).map(|entry| entry.watch.since);
        if known == watch.map(|watch| watch.since) {
            self.ends(id, ends, now);
            return false;
        }
        if let Some(entry) = self.entries.remove(id) {
            self.queue.of(entry.young).remove(&(entry.next, id.clone()));
            entry.last.map(|last| self.ending.remove(&(last, id.clone())));
        }
        if let Some(watch) = watch {
            let (watch, young) = (Arc::new(watch.clone()), now.since(watch.since) < YOUNG);
            let entry = Entry { watch, last: None, memory: Memory::default(), next: now, place: Place::Queue, young };
            self.entries.insert(id.clone(), entry);
            self.queue.of(young).insert((now, id.clone()));
            self.ends(id, ends, now);
        }
        known.is_some()
    }

    /// Its time is up then.
    fn ends(&mut self, id: &ItemId, ends: Option<Timestamp>, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        entry.last.map(|last| self.ending.remove(&(last, id.clone())));
        entry.last = ends.map(|ends| ends.minus(LAST_LOOK)).filter(|last| *last > now);
        self.ending.extend(entry.last.map(|last| (last, id.clone())));
    }

    /// When to ask [`Schedule::take`] again, unless a look ends before.
    pub fn next(&self) -> Option<Timestamp> {
        [&self.queue.young, &self.queue.old, &self.ending].into_iter().filter_map(|queue| Some(queue.first()?.0)).min()
    }

    /// The next look that is due and has a place in its lane.
    pub fn take(&mut self, now: Timestamp, lane_of: impl Fn(&Watch) -> (Arc<str>, usize)) -> Option<Due> {
        while let Some(id) = self.pop(now) {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            let (name, width) = lane_of(&entry.watch);
            let lane = self.lanes.entry(name.clone()).or_default();
            if lane.busy >= width {
                entry.place = Place::Lane;
                lane.waiting.of(entry.young).push_back(id);
                continue;
            }
            lane.busy += 1;
            entry.place = Place::Busy;
            self.turn = (self.turn + 1) % TURNS;
            return Some(Due { id, watch: entry.watch.clone(), memory: entry.memory, lane: name });
        }
        None
    }

    /// The next that is due.
    fn pop(&mut self, now: Timestamp) -> Option<ItemId> {
        while let Some((_, id)) = self.ending.first().filter(|(last, _)| *last <= now).cloned() {
            self.ending.pop_first();
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            entry.last = None;
            // Whoever looks just now, or will when its lane has room, need not be told.
            if entry.place == Place::Queue {
                self.queue.of(entry.young).remove(&(entry.next, id.clone()));
                return Some(id);
            }
        }
        while let Some((next, id)) = self.queue.young.first().filter(|(next, _)| *next <= now).cloned() {
            let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.has_aged(now)) else { break };
            entry.young = false;
            self.queue.young.pop_first();
            self.queue.old.insert((next, id));
        }
        let young_first = self.turn != 0;
        let due = |queue: &BTreeSet<(Timestamp, ItemId)>| queue.first().is_some_and(|(next, _)| *next <= now);
        let young = match (due(&self.queue.young), due(&self.queue.old)) {
            (false, false) => return None,
            (true, true) => young_first,
            (young, _) => young,
        };
        self.queue.of(young).pop_first().map(|(_, id)| id)
    }

    /// A look is over, however it ended: its place is the next one's.
    pub fn leave(&mut self, lane: &Arc<str>, now: Timestamp) {
        let Some(found) = self.lanes.get_mut(lane) else { return };
        found.busy = found.busy.saturating_sub(1);
        let waiting = &mut found.waiting;
        while let Some(id) = waiting.young.front().cloned() {
            let entry = self.entries.get_mut(&id);
            if entry.as_ref().is_some_and(|entry| !entry.has_aged(now)) {
                break;
            }
            waiting.young.pop_front();
            if let Some(entry) = entry {
                entry.young = false;
                waiting.old.push_back(id);
            }
        }
        let (first, second) = match self.turn {
            0 => (&mut waiting.old, &mut waiting.young),
            _ => (&mut waiting.young, &mut waiting.old),
        };
        while let Some(id) = first.pop_front().or_else(|| second.pop_front()) {
            if let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.place == Place::Lane) {
                entry.place = Place::Queue;
                self.queue.of(entry.young).insert((entry.next, id));
                break;
            }
        }
        if found.busy == 0 && found.waiting.young.is_empty() && found.waiting.old.is_empty() {
            self.lanes.remove(lane);
        }
    }

    /// To be looked at again then, if it is still waited for.
    pub fn again(&mut self, due: &Due, memory: Memory, next: Timestamp) {
        let entry = self.entries.get_mut(&due.id).filter(|entry| entry.watch.since == due.watch.since);
        if let Some(entry) = entry.filter(|entry| entry.place == Place::Busy) {
            (entry.memory, entry.next, entry.place) = (memory, next, Place::Queue);
            entry.young = next.since(entry.watch.since) < YOUNG;
            self.queue.of(entry.young).insert((next, due.id.clone()));
        }
    }

    /// All that are waited for.
    pub fn ids(&self) -> impl Iterator<Item = &ItemId> {
        self.entries.keys()
    }

    pub fn is_awaited(&self, id: &ItemId, since: Timestamp) -> bool {
        self.entries.get(id).is_some_and(|entry| entry.watch.since == since)
    }

    /// The clock was set back, or all are to be looked at: nothing is later than now.
    pub fn hurry(&mut self, now: Timestamp) {
        for young in [true, false] {
            let queue = self.queue.of(young);
            for (_, id) in queue.split_off(&(now.plus(Millis::new(1)), ItemId::new(""))) {
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.next = now;
                    queue.insert((now, id));
                }
            }
        }
    }
}

/// From one look to the next, after so long a wait. `chance` is from 0 to 1.
pub fn pause(waited: Millis, max: Millis, chance: f64) -> Millis {
    let even = Millis::new(waited.get() / SHARE).max(PAUSE_MIN).min(max);
    let factor = 1.0 - JITTER + 2.0 * JITTER * chance.clamp(0.0, 1.0);
    Millis::new((even.get() as f64 * factor) as u64)
}

/// So many looks in a second and no more, whatever is due.
pub struct Pace {
    per_second: u64,
    /// In thousandths of a look.
    saved: u64,
    at: Timestamp,
}

impl Pace {
    pub fn new(per_second: u64, now: Timestamp) -> Self {
        let mut pace = Self { per_second: per_second.max(1), saved: 0, at: now };
        pace.saved = pace.saved_max();
        pace
    }

    /// After a quiet time, a quarter of a second's looks may be made at once.
    fn saved_max(&self) -> u64 {
        (self.per_second * 1000 / 4).max(1000)
    }

    pub fn may(&mut self, now: Timestamp) -> bool {
        let passed = now.since(self.at).get().min(1000);
        self.saved = (self.saved + passed * self.per_second).min(self.saved_max());
        self.at = now;
        self.saved >= 1000
    }

    pub fn spend(&mut self) {
        self.saved = self.saved.saturating_sub(1000);
    }

    /// When there is room for the next one.
    pub fn next(&self) -> Timestamp {
        let missing = 1000_u64.saturating_sub(self.saved);
        self.at.plus(Millis::new(missing.div_ceil(self.per_second)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reveille_core::{Condition, condition::Wanted};

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn watch(host: &str, since: i64) -> Watch {
        let condition = Condition::Tcp { host: host.into(), port: 80 };
        Watch::begin(Wanted { condition, node: None }, None, Millis::ZERO, at(since))
    }

    fn by_target(watch: &Watch) -> (Arc<str>, usize) {
        (watch.wanted.condition.target().into(), 2)
    }

    fn taken(schedule: &mut Schedule, now: i64) -> Vec<Due> {
        std::iter::from_fn(|| schedule.take(at(now), by_target)).collect()
    }

    #[test]
    fn what_is_due_longest_comes_first_and_a_full_lane_keeps_nobody_else_waiting() {
        let mut schedule = Schedule::default();
        for number in 0..5 {
            schedule.learn(&ItemId::new(format!("slow_{number}")), Some(&watch("slow", 0)), None, at(number));
        }
        schedule.learn(&ItemId::new("other"), Some(&watch("other", 0)), None, at(9));
        let first = taken(&mut schedule, 10);
        let ids = |taken: &[Due]| taken.iter().map(|due| due.id.to_string()).collect::<Vec<_>>();
        assert_eq!(ids(&first), ["slow_0", "slow_1", "other"]);
        assert_eq!(schedule.next(), None, "the rest waits for its lane, not for a time");
        schedule.leave(&first[0].lane, at(10));
        schedule.again(&first[0], Memory::default(), at(500));
        assert_eq!(ids(&taken(&mut schedule, 10)), ["slow_2"]);
        assert_eq!(schedule.next(), Some(at(500)));
        // One that is no longer waited for takes no place.
        schedule.learn(&ItemId::new("slow_3"), None, None, at(11));
        schedule.leave(&first[1].lane, at(11));
        assert_eq!(ids(&taken(&mut schedule, 11)), ["slow_4"]);
    }

    #[test]
    fn young_conditions_come_first_and_keep_no_other_waiting_for_ever() {
        let mut schedule = Schedule::default();
        let wide = |watch: &Watch| (Arc::from(watch.wanted.condition.target()), 1000);
        let old = YOUNG.get() as i64 + 1;
        for number in 0..100 {
            schedule.learn(&ItemId::new(format!("old_{number}")), Some(&watch("old", 0)), None, at(old));
        }
        for number in 0..6 {
            schedule.learn(&ItemId::new(format!("young_{number}")), Some(&watch("young", old)), None, at(old + 1));
        }
        let order: Vec<Due> = std::iter::from_fn(|| schedule.take(at(old + 2), wide)).take(9).collect();
        let young: Vec<usize> = (0..9).filter(|place| order[*place].id.as_str().starts_with("young")).collect();
        assert_eq!(young, [1, 2, 3, 5, 6, 7], "three of four");
        // After a while it is as old as the others.
        let (first, next) = (&order[1], at(old).plus(YOUNG));
        schedule.again(first, Memory::default(), next);
        let rest: Vec<Due> = std::iter::from_fn(|| schedule.take(next, wide)).collect();
        assert_eq!(rest.last().map(|due| &due.id), Some(&first.id), "by its turn");
    }

    #[test]
    fn a_full_lane_lets_young_conditions_in_first() {
        let mut schedule = Schedule::default();
        let old = YOUNG.get() as i64;
        for number in 0..5 {
            schedule.learn(&ItemId::new(format!("old_{number}")), Some(&watch("slow", 0)), None, at(old));
        }
        let busy = taken(&mut schedule, old);
        assert_eq!(busy.len(), 2);
        schedule.learn(&ItemId::new("young"), Some(&watch("slow", old)), None, at(old + 1));
        assert!(taken(&mut schedule, old + 1).is_empty());
        schedule.leave(&busy[0].lane, at(old + 1));
        assert_eq!(taken(&mut schedule, old + 1)[0].id.as_str(), "young");
    }

    #[test]
    fn who_waits_for_its_look_too_long_is_young_no_more() {
        let mut schedule = Schedule::default();
        let crowd = |schedule: &mut Schedule| {
            for number in 0..50 {
                schedule.learn(&ItemId::new(format!("first_{number}")), Some(&watch("slow", 0)), None, at(0));
            }
        };
        // In the queue, and in a lane.
        let wide = |watch: &Watch| (Arc::from(watch.wanted.condition.target()), 1000);
        let later = YOUNG.get() as i64;
        crowd(&mut schedule);
        schedule.learn(&ItemId::new("new"), Some(&watch("slow", later)), None, at(later));
        let order: Vec<Due> = std::iter::from_fn(|| schedule.take(at(later), wide)).take(2).collect();
        assert!(order.iter().any(|due| due.id.as_str() == "new"));

        let mut schedule = Schedule::default();
        crowd(&mut schedule);
        let busy = taken(&mut schedule, 0);
        schedule.learn(&ItemId::new("new"), Some(&watch("slow", later)), None, at(later));
        assert!(taken(&mut schedule, later).is_empty());
        schedule.leave(&busy[0].lane, at(later));
        assert_eq!(taken(&mut schedule, later)[0].id.as_str(), "new");
    }

    #[test]
    fn only_the_present_condition_is_looked_at_again() {
        let mut schedule = Schedule::default();
        let id = ItemId::new("timer");
        assert!(!schedule.learn(&id, Some(&watch("a", 0)), None, at(0)));
        assert!(!schedule.learn(&id, Some(&watch("a", 0)), None, at(1)), "known already");
        let due = taken(&mut schedule, 1).remove(0);
        assert!(schedule.learn(&id, Some(&watch("b", 5)), None, at(5)), "the look is about something else now");
        schedule.leave(&due.lane, at(5));
        schedule.again(&due, Memory::default(), at(500));
        assert_eq!((schedule.len(), schedule.next()), (1, Some(at(5))));
        assert!(schedule.learn(&id, None, None, at(6)));
        assert_eq!((schedule.len(), schedule.next()), (0, None));
    }

    #[test]
    fn a_last_look_comes_shortly_before_the_time_is_up() {
        let (mut schedule, id) = (Schedule::default(), ItemId::new("timer"));
        let watched = watch("a", 0);
        let learn = |schedule: &mut Schedule, ends, now| schedule.learn(&id, Some(&watched), Some(at(ends)), at(now));
        let look = |schedule: &mut Schedule, now, next| {
            let due = taken(schedule, now).remove(0);
            schedule.leave(&due.lane, at(now));
            schedule.again(&due, Memory::default(), at(next));
            schedule.next()
        };
        learn(&mut schedule, 60_000, 0);
        assert_eq!(look(&mut schedule, 0, 500), Some(at(500)));
        assert_eq!(look(&mut schedule, 50_000, 65_000), Some(at(59_000)));
        // After it the time is up; should it not be, looks go on as before.
        assert_eq!(look(&mut schedule, 59_000, 74_000), Some(at(74_000)));
        // Its end is another by now: sooner, later, and while somebody looks.
        learn(&mut schedule, 70_000, 59_500);
        assert_eq!(schedule.next(), Some(at(69_000)));
        learn(&mut schedule, 600_000, 59_600);
        assert_eq!(look(&mut schedule, 74_000, 89_000), Some(at(89_000)));
        let due = taken(&mut schedule, 89_000).remove(0);
        learn(&mut schedule, 100_000, 89_500);
        schedule.leave(&due.lane, at(89_900));
        schedule.again(&due, Memory::default(), at(105_000));
        assert_eq!(schedule.next(), Some(at(99_000)));
        schedule.learn(&id, None, None, at(90_000));
        assert_eq!(schedule.next(), None);
    }

    #[test]
    fn a_last_look_stands_in_no_queue() {
        let mut schedule = Schedule::default();
        let wide = |watch: &Watch| (Arc::from(watch.wanted.condition.target()), 1000);
        let old = YOUNG.get() as i64;
        for number in 0..100 {
            schedule.learn(&ItemId::new(format!("old_{number}")), Some(&watch("old", 0)), None, at(old));
        }
        let ending = ItemId::new("zz_ending");
        schedule.learn(&ending, Some(&watch("old", 0)), Some(at(old + 5000)), at(old));
        assert_ne!(schedule.take(at(old + 3999), wide).expect("due").id, ending);
        assert_eq!(schedule.take(at(old + 4000), wide).expect("due").id, ending);
        assert_eq!(std::iter::from_fn(|| schedule.take(at(old + 4000), wide)).count(), 99, "once");
    }

    #[test]
    fn a_clock_set_back_delays_nothing() {
        let mut schedule = Schedule::default();
        schedule.learn(&ItemId::new("timer"), Some(&watch("a", 0)), None, at(3_600_000));
        schedule.hurry(at(100));
        assert_eq!(taken(&mut schedule, 100).len(), 1);
    }

    #[test]
    fn pauses_grow_with_the_wait_and_stay_within_bounds() {
        let max = Millis::from_secs(15);
        for (waited, even) in [(0, 500), (4_000, 500), (60_000, 6_000), (600_000, 15_000)] {
            let at = |chance| pause(Millis::new(waited), max, chance).get();
            assert_eq!((at(0.0), at(0.5), at(1.0)), (even * 8 / 10, even, even * 12 / 10));
        }
    }

    #[test]
    fn no_more_looks_than_the_pace_allows() {
        let mut pace = Pace::new(200, at(0));
        let mut made = 0;
        for now in 0..10_000 {
            while pace.may(at(now)) {
                pace.spend();
                made += 1;
            }
            assert!(pace.next() > at(now) && pace.next() <= at(now + 5));
        }
        assert!((2000..=2050).contains(&made), "{made}");
    }
}
