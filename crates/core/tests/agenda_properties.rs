//! Guards the agenda: with a window of a few deadlines over any number in the store, every deadline is proposed, on
//! time, whatever is inserted, moved, removed, fails, or is heard of late. A proposal too many is harmless, because the
//! store is asked before anything fires; one too few would be a timer that never rings.

use proptest::{collection::vec, prelude::*};
use reveille_core::{Agenda, ItemId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// The `n`th item; names are not in the order of creation.
fn name(n: usize) -> ItemId {
    ItemId::new(format!("timer_{:03}_{n}", n * 37 % 101))
}

/// A proposal under way.
struct Flight {
    id: ItemId,
    /// The agenda heard of the item again since, so it may rightly propose it again.
    heard: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fired {
    id: ItemId,
    due: i64,
    at: i64,
}

/// The store, the engine and the clock around one agenda.
struct World {
    agenda: Agenda,
    window_max: usize,
    now: i64,
    made: usize,
    store: BTreeMap<ItemId, i64>,
    /// Committed, and not yet told to the agenda. Changes of one item are told in order, those of others in any.
    unheard: Vec<(ItemId, Option<i64>)>,
    flights: Vec<Flight>,
    /// Proposals that failed, and when they may come again: at once, if they were heard of meanwhile.
    put_back: BTreeMap<ItemId, i64>,
    /// A proposal failed since the last page: until the next one, others may come late with it.
    fired: Vec<Fired>,
}

impl World {
    fn new(window_max: usize) -> Self {
        Self {
            agenda: Agenda::new(window_max),
            window_max,
            now: 0,
            made: 0,
            store: BTreeMap::new(),
            unheard: Vec::new(),
            flights: Vec::new(),
            put_back: BTreeMap::new(),
            fired: Vec::new(),
        }
    }

    fn insert(&mut self, due: i64) -> ItemId {
        let id = name(self.made);
        self.made += 1;
        self.commit(&id, Some(due));
        id
    }

    fn commit(&mut self, id: &ItemId, due: Option<i64>) {
        match due {
            Some(due) => drop(self.store.insert(id.clone(), due)),
            None => drop(self.store.remove(id)),
        }
        self.unheard.push((id.clone(), due));
    }

    /// Tells the agenda the oldest unheard change of one item.
    fn hear(&mut self, id: &ItemId) {
        let Some(first) = self.unheard.iter().position(|(unheard, _)| unheard == id) else { return };
        let (_, due) = self.unheard.remove(first);
        self.agenda.learn(id, due.map(at));
        self.put_back.remove(id);
        self.flights.iter_mut().filter(|flight| flight.id == *id).for_each(|flight| flight.heard = true);
    }

    fn hear_all(&mut self) {
        while let Some((id, _)) = self.unheard.first().cloned() {
            self.hear(&id);
        }
    }

    fn refill(&mut self) {
        assert!(self.agenda.may_refill(), "what is under way would be proposed again");
        let mut page: Vec<_> = self.store.iter().map(|(id, due)| (at(*due), id.clone())).collect();
        page.sort();
        page.truncate(self.agenda.page_size());
        self.agenda.refill(page);
        // The store shows them as due, so they may come again at once.
        self.put_back.values_mut().for_each(|again| *again = i64::MIN);
    }

    fn propose(&mut self, max: usize) {
        if self.agenda.needs_page() {
            self.refill();
        }
        let proposed = self.agenda.take_due(at(self.now), max);
        assert!(proposed.len() <= max);
        for id in proposed {
            let doubled = self.flights.iter().any(|flight| flight.id == id && !flight.heard);
            if let Some(again) = self.put_back.remove(&id) {
                assert!(again <= self.now, "{id} failed and comes again too early");
            } else {
                assert!(!doubled, "{id} is under way already");
                let stale = self.unheard.iter().any(|(unheard, _)| *unheard == id);
                let due = self.store.get(&id).is_some_and(|due| *due <= self.now);
                assert!(due || stale, "{id} is proposed at {} and due {:?}", self.now, self.store.get(&id));
            }
            self.flights.push(Flight { id, heard: false });
        }
    }

    /// Carries a proposal out: the store decides. It may be due again later, as a paused timer is.
    fn carry_out(&mut self, nth: usize, again_in: Option<i64>, hear_first: bool) {
        let id = self.flights.remove(nth).id;
        if let Some(due) = self.store.get(&id).copied().filter(|due| *due <= self.now) {
            self.fired.push(Fired { id: id.clone(), due, at: self.now });
            self.commit(&id, again_in.map(|ms| self.now + ms));
        }
        if hear_first {
            self.hear(&id);
        }
        match self.store.get(&id) {
            // Nothing was written, so nothing is heard of it.
            Some(due) if *due > self.now => self.agenda.stands(&id, at(*due), at(*due)),
            _ => self.agenda.settled(&[id]),
        }
    }

    fn fail(&mut self, nth: usize, delay: i64) {
        let Flight { id, heard } = self.flights.remove(nth);
        self.agenda.postpone(std::slice::from_ref(&id), at(self.now + delay));
        let again = if heard { self.now } else { self.now + delay };
        let earliest = self.put_back.entry(id).or_insert(again);
        *earliest = again.min(*earliest);
    }

    /// What holds at every moment.
    fn check(&self) {
        let len = self.agenda.len();
        assert!(len <= self.window_max + self.put_back.len(), "{len} in a window of {}", self.window_max);
        assert_eq!(len == 0, self.agenda.is_empty());
        if !self.unheard.is_empty() {
            return;
        }
        let waits = |id: &ItemId| !self.put_back.contains_key(id) && self.flights.iter().all(|flight| flight.id != *id);
        let earliest = self.store.iter().filter(|(id, _)| waits(id)).map(|(_, due)| at(*due)).min();
        let next = self.agenda.next();
        if self.flights.is_empty() {
            let known = earliest.is_none_or(|earliest| next.is_some_and(|next| next <= earliest));
            assert!(known || self.agenda.needs_page(), "{earliest:?} is missing, {next:?} is next");
        } else if let Some(next) = next
            && self.put_back.is_empty()
        {
            assert!(earliest.is_none_or(|earliest| next <= earliest), "{earliest:?} is missing, {next:?} is next");
        }
        if self.flights.is_empty() && self.put_back.is_empty() {
            assert!(next.is_none() || next == earliest, "nothing is due at {next:?}");
        }
    }

    /// Lets everything be heard and carried out, and time pass from deadline to deadline.
    fn run_dry(&mut self) {
        self.hear_all();
        while !self.flights.is_empty() {
            self.carry_out(0, None, true);
        }
        let (start, fired) = (self.now, self.fired.len());
        let excused: BTreeSet<ItemId> = self.put_back.keys().cloned().collect();
        let rounds_max = 4 * (self.store.len() + self.agenda.len()) + 4;
        for round in 0.. {
            assert!(round < rounds_max, "the agenda turns in circles");
            if self.agenda.needs_page() {
                self.refill();
            }
            let Some(next) = self.agenda.next() else { break };
            self.now = self.now.max(next.as_millis());
            self.propose(3);
            while !self.flights.is_empty() {
                self.carry_out(0, None, true);
                self.check();
            }
            if self.agenda.is_empty() && !self.agenda.needs_page() {
                break;
            }
        }
        assert_eq!(self.store, BTreeMap::new(), "never proposed");
        assert!(!self.agenda.needs_page(), "it knows that nothing is left");
        for Fired { id, due, at } in &self.fired[fired..] {
            let on_time = *at == start.max(*due);
            assert!(on_time || excused.contains(id), "{id} was due {due}, fired {at}, started {start}");
        }
        assert!(self.fired.iter().all(|fired| fired.due <= fired.at), "fired early");
    }
}

// The rules, one by one.

#[test]
fn a_failed_proposal_delays_no_other() {
    let a = ItemId::new("a");
    let mut agenda = Agenda::new(1);
    agenda.refill(vec![(at(10), a.clone())]); // another, due at 20, is only in the store
    assert_eq!(agenda.take_due(at(10), 9), std::slice::from_ref(&a));
    agenda.postpone(&[a], at(60_000));
    assert!(agenda.needs_page() || agenda.next() <= Some(at(20)));
}

#[test]
fn giving_a_postponed_item_back_does_not_move_the_horizon_out() {
    let id = |name: &str| ItemId::new(name);
    let mut agenda = Agenda::new(1);
    agenda.refill(vec![(at(10), id("a"))]); // b, due at 20, is only in the store
    agenda.take_due(at(10), 9);
    agenda.postpone(&[id("a")], at(100));
    agenda.learn(&id("c"), Some(at(5)));
    agenda.learn(&id("c"), None);
    agenda.learn(&id("d"), Some(at(90)));
    assert!(agenda.needs_page() || agenda.next() <= Some(at(20)));
}

#[test]
fn before_the_first_page_it_says_that_it_knows_nothing() {
    let mut world = World::new(4);
    world.insert(5);
    world.hear_all();
    assert!(world.agenda.needs_page());
    assert_eq!(world.agenda.next(), None);
    world.run_dry();
    assert_eq!(world.fired, [Fired { id: name(0), due: 5, at: 5 }]);
}

#[test]
fn the_earliest_deadline_is_next_whatever_was_set_before() {
    let mut world = World::new(4);
    world.refill();
    let id = world.insert(50);
    for (due, next) in [(Some(50), 50), (Some(70), 60), (Some(40), 40), (None, 60)] {
        world.commit(&id, due);
        world.commit(&name(9), Some(60));
        world.hear_all();
        assert_eq!(world.agenda.next(), Some(at(next)), "{due:?}");
    }
}

#[test]
fn a_deadline_is_taken_at_its_instant_and_not_a_millisecond_before() {
    let mut world = World::new(4);
    world.insert(10);
    world.refill();
    assert_eq!(world.agenda.take_due(at(9), 9), []);
    assert_eq!(world.agenda.take_due(at(10), 9), [name(0)]);
    assert_eq!(world.agenda.take_due(at(99), 9), [], "and once");
}

#[test]
fn the_earliest_are_taken_first_and_only_as_many_as_asked_for() {
    let mut world = World::new(8);
    let mut ids: Vec<_> = [30, 10, 20].into_iter().map(|due| (due, world.insert(due))).collect();
    ids.sort();
    world.refill();
    assert_eq!(world.agenda.take_due(at(99), 2), [ids[0].1.clone(), ids[1].1.clone()]);
    assert_eq!(world.agenda.take_due(at(99), 2), [ids[2].1.clone()]);
}

#[test]
fn a_page_that_ends_among_equal_deadlines_loses_none() {
    for window_max in 0..=5 {
        let mut world = World::new(window_max);
        world.window_max = window_max.max(1);
        (0..9).for_each(|n| drop(world.insert(if n == 0 { 1 } else { 7 })));
        world.refill();
        world.insert(7);
        world.run_dry();
        assert_eq!(world.fired.len(), 10, "window of {window_max}");
    }
}

#[test]
fn no_page_is_wanted_while_proposals_are_under_way() {
    let mut world = World::new(1);
    world.insert(1);
    world.insert(2);
    world.now = 1;
    world.propose(9);
    assert!(!world.agenda.may_refill() && !world.agenda.needs_page(), "the store still shows it as due");
    world.carry_out(0, None, true);
    assert!(world.agenda.may_refill() && world.agenda.needs_page());
}

#[test]
fn a_failed_proposal_comes_again_at_its_time() {
    let mut world = World::new(4);
    let id = world.insert(10);
    world.now = 10;
    world.propose(9);
    world.fail(0, 5);
    assert!(world.agenda.may_refill());
    assert_eq!(world.agenda.next(), Some(at(15)));
    assert_eq!(world.agenda.take_due(at(14), 9), []);
    assert_eq!(world.agenda.take_due(at(15), 9), [id]);
}

#[test]
fn what_was_heard_while_a_proposal_failed_counts_more_than_the_failure() {
    let mut world = World::new(4);
    let id = world.insert(10);
    world.now = 10;
    world.propose(9);
    world.commit(&id, Some(12));
    world.hear_all();
    world.fail(0, 500);
    assert_eq!(world.agenda.take_due(at(12), 9), [id]);
    assert!(world.agenda.is_empty(), "and the failure is forgotten");
}

#[test]
fn what_something_else_came_before_is_proposed_again_though_nothing_was_written() {
    let mut world = World::new(4);
    let id = world.insert(10);
    world.now = 10;
    world.propose(9);
    world.agenda.stands(&id, at(10), at(10));
    assert_eq!(world.agenda.take_due(at(10), 9), std::slice::from_ref(&id));
    world.agenda.stands(&id, at(10), at(15));
    assert_eq!(world.agenda.next(), Some(at(15)), "there was nothing to do, so not at once");
    world.refill();
    assert_eq!(world.agenda.next(), Some(at(15)), "and the store says nothing new");
}

#[test]
fn what_was_heard_while_it_was_found_unchanged_is_newer() {
    let mut world = World::new(4);
    let id = world.insert(10);
    world.now = 10;
    world.propose(9);
    world.commit(&id, Some(30));
    world.hear_all();
    world.agenda.stands(&id, at(10), at(10));
    assert_eq!(world.agenda.next(), Some(at(30)));
}

/// A firing fails, and the clock is set back before its next try.
#[test]
fn a_failed_proposal_does_not_come_before_its_deadline() {
    let mut world = World::new(4);
    let id = world.insert(90_000);
    world.now = 90_000;
    world.propose(9);
    world.agenda.postpone(std::slice::from_ref(&id), at(31_000));
    assert_eq!(world.agenda.next(), Some(at(90_000)));
    // Had it been proposed too early all the same, it would not have been forgotten.
    assert_eq!(world.agenda.take_due(at(90_000), 9), std::slice::from_ref(&id));
    world.agenda.stands(&id, at(120_000), at(120_000));
    assert_eq!(world.agenda.next(), Some(at(120_000)));
}

/// A small window over many deadlines stays small, and each fires at its very instant.
#[test]
fn memory_is_bounded_by_the_window_and_not_by_what_is_pending() {
    let mut world = World::new(64);
    for n in 0..2_000i64 {
        world.insert(n * 7919 % 1_201);
    }
    world.hear_all();
    world.run_dry();
    assert_eq!(world.fired.len(), 2_000);
    assert!(world.fired.is_sorted_by_key(|fired| fired.due), "in order, the first first");
    assert!(world.fired.iter().all(|fired| fired.due == fired.at));
}

// Any order of everything.

#[derive(Clone, Debug)]
enum Op {
    Insert(i64),
    Move(usize, i64),
    Remove(usize),
    Wait(i64),
    Hear(usize),
    HearAll,
    Propose(usize),
    CarryOut {
        nth: usize,
        again_in: Option<i64>,
        hear_first: bool,
    },
    Fail {
        nth: usize,
        delay: i64,
    },
    /// The safety net: a page although none is needed.
    Refill,
}

fn op(failures: u32) -> impl Strategy<Value = Op> {
    let carry_out = (any::<usize>(), prop::option::weighted(0.3, 1..20i64), any::<bool>());
    prop_oneof![
        8 => (-5..50i64).prop_map(Op::Insert),
        4 => (any::<usize>(), -5..50i64).prop_map(|(nth, due)| Op::Move(nth, due)),
        2 => any::<usize>().prop_map(Op::Remove),
        4 => (0..12i64).prop_map(Op::Wait),
        5 => any::<usize>().prop_map(Op::Hear),
        4 => Just(Op::HearAll),
        7 => (1..5usize).prop_map(Op::Propose),
        8 => carry_out.prop_map(|(nth, again_in, hear_first)| Op::CarryOut { nth, again_in, hear_first }),
        failures => (any::<usize>(), 1..40i64).prop_map(|(nth, delay)| Op::Fail { nth, delay }),
        1 => Just(Op::Refill),
    ]
}

fn play(world: &mut World, op: &Op) {
    let any_item = |nth: usize, world: &World| world.store.keys().nth(nth % world.store.len().max(1)).cloned();
    match *op {
        Op::Insert(due) => drop(world.insert(world.now + due)),
        Op::Move(nth, due) => {
            if let Some(id) = any_item(nth, world) {
                world.commit(&id, Some(world.now + due));
            }
        }
        Op::Remove(nth) => {
            if let Some(id) = any_item(nth, world) {
                world.commit(&id, None);
            }
        }
        Op::Wait(ms) => world.now += ms,
        Op::Hear(nth) => {
            if let Some((id, _)) = world.unheard.get(nth % world.unheard.len().max(1)).cloned() {
                world.hear(&id);
            }
        }
        Op::HearAll => world.hear_all(),
        Op::Propose(max) => world.propose(max),
        Op::CarryOut { .. } | Op::Fail { .. } if world.flights.is_empty() => {}
        Op::CarryOut { nth, again_in, hear_first } => {
            world.carry_out(nth % world.flights.len(), again_in, hear_first);
        }
        Op::Fail { nth, delay } => world.fail(nth % world.flights.len(), delay),
        Op::Refill if world.agenda.may_refill() => world.refill(),
        Op::Refill => {}
    }
}

fn check_life(window_max: usize, ops: &[Op]) {
    let mut world = World::new(window_max);
    for op in ops {
        play(&mut world, op);
        world.check();
    }
    world.run_dry();
}

proptest! {
    #[test]
    fn every_deadline_is_proposed_on_time(window_max in 1..8usize, ops in vec(op(0), 1..120)) {
        check_life(window_max, &ops);
    }

    #[test]
    fn every_deadline_is_proposed_in_the_end_though_proposals_fail(
        window_max in 1..8usize,
        ops in vec(op(4), 1..120),
    ) {
        check_life(window_max, &ops);
    }
}
