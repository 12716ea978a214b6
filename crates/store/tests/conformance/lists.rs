//! The lists: what they hold, in which order, and how they are paged through.

use crate::drive::{self, *};
use reveille_core::{Call, Command, Millis, Sleep, condition::Sighting};
use reveille_store::{HistoryFilter, ItemFilter, Order, SessionFilter, Store};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Two sessions with items of every status.
async fn furnished(store: &dyn Store) {
    for (session, id, seconds) in [
        ("a", "timer_running", 500),
        ("b", "timer_background", 400),
        ("a", "timer_paused", 300),
        ("b", "timer_completed", 10),
        ("a", "timer_stopped", 200),
        ("b", "timer_running_2", 450),
    ] {
        run(store, session, wait(id, "x", seconds), at(0)).await;
    }
    run(store, "b", cancel("timer_background"), at(1)).await;
    run(store, "a", pause("timer_paused", 50), at(2)).await;
    run(store, "a", stop("timer_stopped"), at(3)).await;
    run(store, "b", fire(&["timer_completed"]), at(10)).await;
}

pub async fn deadlines_come_in_order_and_no_more_than_asked_for(store: &Arc<dyn Store>) {
    furnished(&**store).await;
    let expected = [
        (at(52), iid("timer_paused")), // the end of the pause comes first
        (at(400), iid("timer_background")),
        (at(450), iid("timer_running_2")),
        (at(500), iid("timer_running")),
    ];
    for limit in 0..6 {
        assert_eq!(store.deadlines(limit).await.unwrap(), expected[..limit.min(4)]);
    }
    run(&**store, "a", resume("timer_paused"), at(20)).await;
    let resumed = (at(318), iid("timer_paused"));
    assert_eq!(store.deadlines(1).await.unwrap(), [resumed]);
    // Of one instant: in the order of their ids.
    for id in ["timer_z", "timer_y", "timer_x"] {
        run(&**store, "c", wait(id, "x", 100), at(0)).await;
    }
    let first: Vec<String> = store.deadlines(3).await.unwrap().iter().map(|(_, id)| id.to_string()).collect();
    assert_eq!(first, ["timer_x", "timer_y", "timer_z"]);
}

pub async fn items_are_filtered(store: &Arc<dyn Store>) {
    furnished(&**store).await;
    let ids = async |filter: ItemFilter| found_ids(&**store, filter).await;
    let in_session = |name: &str| ItemFilter { session: Some(sid(name)), ..every_item() };
    let in_status = |all: &[&str]| ItemFilter { statuses: all.iter().map(|&one| one.into()).collect(), ..every_item() };
    let with_id = |id: &str| ItemFilter { id: Some(id.into()), ..every_item() };

    assert_eq!(ids(in_session("a")).await, ["timer_stopped", "timer_paused", "timer_running"]);
    assert_eq!(ids(in_session("never")).await, [""; 0]);
    assert_eq!(ids(in_status(&["running"])).await, ["timer_running_2", "timer_running"]);
    assert_eq!(ids(in_status(&["completed", "stopped"])).await, ["timer_stopped", "timer_completed"]);
    assert_eq!(ids(in_status(&["paused"])).await, ["timer_paused"]);
    assert_eq!(ids(in_status(&["running_background", "nonsense"])).await, ["timer_background"]);
    assert_eq!(ids(in_status(&["nonsense"])).await, [""; 0]);
    assert_eq!(ids(with_id("timer_paused")).await, ["timer_paused"]);
    assert_eq!(ids(with_id("timer_unknown")).await, [""; 0]);
    assert_eq!(ids(with_id("timer_%")).await, [""; 0]);
    let elsewhere = ItemFilter { session: Some(sid("b")), ..with_id("timer_paused") };
    assert_eq!(ids(elsewhere).await, [""; 0]);
    let both = ItemFilter { statuses: vec!["running".into()], ..in_session("b") };
    assert_eq!(ids(both).await, ["timer_running_2"]);
    assert_eq!(ids(ItemFilter { limit: 0, ..every_item() }).await, [""; 0]);

    let found = store.items(with_id("timer_paused")).await.unwrap().remove(0);
    assert_eq!(found.session, sid("a"));
    assert_eq!(found.item.as_timer().unwrap().remaining(at(999)), Millis::from_secs(298));
}

pub async fn items_come_newest_first_page_by_page(store: &Arc<dyn Store>) {
    for number in 0..11 {
        run(&**store, ["a", "b", "c"][number % 3], wait(&format!("timer_{number:02}"), "x", 600), at(0)).await;
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = store.items(ItemFilter { after, limit: 4, ..every_item() }).await.unwrap();
        assert!(page.len() <= 4 && page.is_sorted_by(|one, next| one.seq > next.seq));
        seen.extend(page.iter().map(|found| found.item.id().to_string()));
        match page.last() {
            Some(last) => after = Some(last.seq),
            None => break,
        }
        // What is made or changed meanwhile is neither seen twice nor hides anything.
        run(&**store, "a", wait(&format!("timer_new_{}", seen.len()), "x", 600), at(1)).await;
        run(&**store, "a", stop(&format!("timer_new_{}", seen.len())), at(2)).await;
    }
    assert_eq!(seen, (0..11).rev().map(|number| format!("timer_{number:02}")).collect::<Vec<_>>());
}

pub async fn items_come_soonest_first_if_wanted(store: &Arc<dyn Store>) {
    furnished(&**store).await;
    let soonest = ItemFilter { order: Order::Soonest, ..every_item() };
    let expected = ["timer_paused", "timer_background", "timer_running_2", "timer_running"];
    assert_eq!(found_ids(&**store, soonest.clone()).await, expected);
    assert_eq!(found_ids(&**store, ItemFilter { limit: 2, ..soonest.clone() }).await, expected[..2]);
    let of_a = ItemFilter { session: Some(sid("a")), ..soonest.clone() };
    assert_eq!(found_ids(&**store, of_a).await, ["timer_paused", "timer_running"]);
    let running = ItemFilter { statuses: vec!["running".into(), "completed".into()], ..soonest };
    assert_eq!(found_ids(&**store, running).await, ["timer_running_2", "timer_running"]);
}

pub async fn what_waits_for_a_condition_is_found(store: &Arc<dyn Store>) {
    furnished(&**store).await;
    let awaiting = ItemFilter { awaiting: true, ..every_item() };
    let ids = async || found_ids(&**store, awaiting.clone()).await;
    assert_eq!(ids().await, [""; 0]);
    for (number, id) in ["timer_met", "timer_frozen", "timer_ended", "timer_waits"].into_iter().enumerate() {
        let Command::Create { id, purpose, total, .. } = wait(id, "条件 🙂", 600) else {
            unreachable!("a creation")
        };
        let until = Some(until("db:5432"));
        let create = Command::Create { id, purpose, total, timeout: None, until, key: None, task: None };
        run(&**store, ["a", "b"][number % 2], create, at(0)).await;
    }
    assert_eq!(ids().await, ["timer_waits", "timer_ended", "timer_frozen", "timer_met"]);
    let page = ItemFilter { limit: 1, ..awaiting.clone() };
    let first = store.items(page.clone()).await.unwrap().remove(0);
    assert_eq!(found_ids(&**store, ItemFilter { after: Some(first.seq), ..page }).await, ["timer_ended"]);
    let sighting = Sighting { id: iid("timer_met"), since: at(0), seen: "db:5432 takes connections".into() };
    run(&**store, "a", Command::Meet { sightings: vec![sighting], standing: HashMap::new() }, at(5)).await;
    run(&**store, "b", pause("timer_frozen", 60), at(5)).await;
    run(&**store, "a", stop("timer_ended"), at(5)).await;
    assert_eq!(ids().await, ["timer_waits"]);
    run(&**store, "b", resume("timer_frozen"), at(9)).await;
    assert_eq!(ids().await, ["timer_waits", "timer_frozen"]);
    let met = store.items(ItemFilter { id: Some("timer_met".into()), ..every_item() }).await.unwrap().remove(0);
    assert_eq!(met.item.as_timer().unwrap().met(), Some("db:5432 takes connections"));
}

pub async fn sessions_come_newest_first_page_by_page(store: &Arc<dyn Store>) {
    assert_eq!(store.sessions(SessionFilter { after: None, limit: 9, ..SessionFilter::default() }).await.unwrap(), []);
    for number in 0..7 {
        run(&**store, &format!("s{number}"), wait(&format!("timer_{number}"), "x", 600), at(number)).await;
    }
    run(&**store, "s2", stop("timer_2"), at(50)).await; // newest is by creation, not by activity
    run(&**store, "s3", close(), at(51)).await;
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = store.sessions(SessionFilter { after, limit: 3, ..SessionFilter::default() }).await.unwrap();
        assert!(page.len() <= 3);
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        for (_, session) in page {
            let alone = store.load(&session.id, reveille_core::Needs::default()).await.unwrap();
            assert_eq!(Some(&session), alone.session.as_ref(), "a list shows what loading shows");
            seen.push(session);
        }
    }
    let names: Vec<&str> = seen.iter().map(|session| session.id.as_str()).collect();
    assert_eq!(names, ["s6", "s5", "s4", "s3", "s2", "s1", "s0"]);
    assert_eq!((seen[4].created_at, seen[4].active_at, seen[4].live_timers), (at(2), at(50), 0));
    assert_eq!(seen[3].state.as_str(), "closed");
    assert_eq!(store.sessions(SessionFilter { after: None, limit: 0, ..SessionFilter::default() }).await.unwrap(), []);
}

pub async fn sessions_that_wait_to_be_told_are_found(store: &Arc<dyn Store>) {
    for number in 0..6 {
        let (session, timer) = (format!("s{number}"), format!("timer_{number}"));
        let call = Call { client: Some(format!("kind-{number}")), ..Call::new(mission(&timer, "x", 10)) };
        drive::call(&**store, &session, call, at(0)).await;
        if number % 2 == 0 {
            run(&**store, &session, fire(&[&timer]), at(11)).await;
        }
    }
    drive::call(&**store, "s2", collect("lease_2", 5), at(12)).await; // on its way, but not delivered
    drive::call(&**store, "s4", collect("lease_4", 5), at(12)).await;
    run(&**store, "s4", commit_lease("lease_4"), at(13)).await;
    let page = async |after: Option<i64>| {
        let found = store.sessions(SessionFilter { undelivered: true, after, limit: 1 }).await.unwrap();
        found.into_iter().next().map(|(number, session)| (number, session.id.to_string(), session.client))
    };
    let (last, id, client) = page(None).await.unwrap();
    assert_eq!((id.as_str(), client.as_deref()), ("s2", Some("kind-2")));
    let (last, id, client) = page(Some(last)).await.unwrap();
    assert_eq!((id.as_str(), client.as_deref()), ("s0", Some("kind-0")));
    assert_eq!(page(Some(last)).await, None);
}

pub async fn history_is_filtered(store: &Arc<dyn Store>) {
    furnished(&**store).await;
    let events = async |filter: HistoryFilter| -> Vec<String> {
        let found = store.history(HistoryFilter { limit: ALL, ..filter }).await.unwrap();
        found.iter().map(|found| format!("{} {} {}", found.session, found.entry.subject, found.entry.event)).collect()
    };
    let of = |session: Option<&str>, subject: Option<&str>| HistoryFilter {
        session: session.map(sid),
        subject: subject.map(Into::into),
        ..HistoryFilter::default()
    };
    assert_eq!(
        events(of(Some("a"), None)).await,
        [
            "a timer_stopped timer.stopped",
            "a timer_paused timer.paused",
            "a timer_stopped timer.created",
            "a timer_paused timer.created",
            "a timer_running timer.created",
            "a a session.opened",
        ]
    );
    assert_eq!(
        events(of(None, Some("timer_completed"))).await,
        ["b timer_completed timer.completed", "b timer_completed timer.created"]
    );
    assert_eq!(events(of(Some("b"), Some("timer_completed"))).await.len(), 2);
    assert_eq!(events(of(Some("a"), Some("timer_completed"))).await, [""; 0]);
    let created = HistoryFilter { event: Some("timer.created".into()), ..of(Some("a"), None) };
    assert_eq!(events(created).await.len(), 3);
    let event = |event: &str| HistoryFilter { event: Some(event.into()), ..of(None, None) };
    assert_eq!(events(event("timer.paused")).await, ["a timer_paused timer.paused"]);
    assert_eq!(
        events(event("timer.created")).await.len(),
        history(&**store).await.iter().filter(|one| one.entry.event == "timer.created").count()
    );
    let both = HistoryFilter { event: Some("timer.stopped".into()), ..of(None, Some("timer_stopped")) };
    assert_eq!(events(both).await, ["a timer_stopped timer.stopped"]);
    assert_eq!(events(event("wake.started")).await, [""; 0]);
    assert_eq!(events(of(Some("never"), None)).await, [""; 0]);
    assert_eq!(events(of(None, Some("timer_unknown"))).await, [""; 0]);
    assert_eq!(events(of(None, Some("b"))).await, ["b b session.opened"]);
}

/// A session may bear the name of an item in another; and entries outlive what they are about.
pub async fn history_of_one_thing_is_found_wherever_it_is(store: &Arc<dyn Store>) {
    run(&**store, "a", mission("timer_1", "x", 5), at(0)).await;
    run(&**store, "timer_1", mission("timer_2", "x", 600), at(1)).await;
    run(&**store, "a", fire(&["timer_1"]), at(5)).await;
    let told = call(&**store, "a", collect("lease", 1), at(6)).await.riding;
    run(&**store, "a", commit_lease("lease"), at(100)).await;
    let seqs = async |subject: &str, after: Option<i64>, limit| -> Vec<String> {
        let filter = HistoryFilter { subject: Some(subject.into()), after, limit, ..HistoryFilter::default() };
        let found = store.history(filter).await.unwrap();
        found.iter().map(|found| format!("{} {}", found.session, found.entry.event)).collect()
    };
    let both = ["a timer.completed", "timer_1 session.opened", "a timer.created"];
    assert_eq!(seqs("timer_1", None, ALL).await, both);
    assert_eq!(seqs("timer_1", None, 2).await, both[..2]);
    assert_eq!(seqs("timer_1", Some(0), 2).await, [both[2], both[1]]);
    let message = &*told[0].id;
    assert_eq!(seqs(message, None, ALL).await, ["a message.delivered"]);
    purge_all(&**store, at(50), ALL).await;
    assert!(store.load_items(iids(&["timer_1"])).await.unwrap().is_empty());
    assert_eq!(seqs(message, None, ALL).await, ["a message.delivered"], "the timer is gone");
}

pub async fn history_is_read_in_both_directions(store: &Arc<dyn Store>) {
    furnished(&**store).await;
    let all = history(&**store).await;
    let last = all.len() as i64;
    assert!(all.iter().map(|recorded| recorded.seq).eq(1..=last), "numbered from 1 without gaps");
    assert!(all.is_sorted_by_key(|recorded| recorded.entry.at), "in the order in which it happened");
    for (after, before, limit) in [
        (None, None, ALL),
        (None, None, 3),
        (None, Some(6), ALL),
        (None, Some(6), 2),
        (None, Some(1), ALL),
        (Some(0), None, 3),
        (Some(4), None, ALL),
        (Some(4), None, 2),
        (Some(last), None, ALL),
        (Some(2), Some(8), ALL),
        (Some(2), Some(8), 3),
        (Some(8), Some(8), ALL),
        (Some(-5), None, ALL),
        (None, None, 0),
    ] {
        let kept = |seq: i64| after.is_none_or(|after| seq > after) && before.is_none_or(|before| seq < before);
        let mut expected: Vec<_> = all.iter().filter(|recorded| kept(recorded.seq)).cloned().collect();
        if after.is_none() {
            expected.reverse();
        }
        expected.truncate(limit);
        let filter = HistoryFilter { after, before, limit, ..HistoryFilter::default() };
        assert_eq!(store.history(filter.clone()).await.unwrap(), expected, "{filter:?}");

        let mut expected: Vec<_> = all.iter().filter(|one| kept(one.seq) && one.session == sid("b")).collect();
        if after.is_none() {
            expected.reverse();
        }
        expected.truncate(limit);
        let filter = HistoryFilter { session: Some(sid("b")), ..filter };
        assert!(store.history(filter.clone()).await.unwrap().iter().eq(expected), "{filter:?}");
    }
}

pub async fn tallies_are_the_sums_of_what_was_committed(store: &Arc<dyn Store>) {
    assert_eq!(store.tallies().await.unwrap(), BTreeMap::new());
    let mut feed = store.feed();
    furnished(&**store).await;
    for slept in [1500, 45_000] {
        let returned = Command::Return(Sleep { id: iid("timer_running"), since: at(0), slept: Millis::new(slept) });
        run(&**store, "a", returned, at(11)).await;
    }
    call(&**store, "b", collect("lease", 5), at(12)).await;
    run(&**store, "b", commit_lease("lease"), at(12)).await;
    run(&**store, "a", close(), at(13)).await;
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    while let Ok(news) = feed.try_recv() {
        for tally in news.commits().iter().flat_map(|committed| &committed.batch.tallies) {
            *sums.entry(tally.name.to_string()).or_default() += tally.by;
        }
    }
    assert_eq!(store.tallies().await.unwrap(), sums);
    for (name, count) in [
        ("timers.created", 6),
        ("timers.running", 1),
        ("timers.running_background", 1),
        ("timers.paused", 0),
        ("timers.completed", 1),
        ("timers.stopped", 3),
        ("messages.created", 1),
        ("messages.delivered", 1),
        ("standbys.ended", 2),
        ("standbys.slept_ms", 46_500),
        ("sessions.created", 2),
    ] {
        assert_eq!(sums.get(name), Some(&count), "{name}");
    }
}

pub async fn what_happened_is_counted_by_the_hour(store: &Arc<dyn Store>) {
    const HOUR: i64 = 3600;
    // The first instant of these tests is 800 seconds into its hour.
    const LAST: i64 = 2 * HOUR + HOUR - 800 - 1;
    furnished(&**store).await;
    run(&**store, "later", mission("timer_later", "x", 7200), at(2 * HOUR)).await;
    run(&**store, "later", mission("timer_last", "x", 7200), at(LAST)).await;
    let hours = async |since: i64| -> Vec<(i64, String, i64)> {
        let found = store.hours(at(since)).await.unwrap();
        found.into_iter().map(|one| (one.hour.as_millis(), one.name, one.value)).collect()
    };
    let all = hours(0).await;
    assert!(all.is_sorted(), "in order of time and name: {all:?}");
    // What there is now is no count of what happened.
    assert!(all.iter().all(|(_, name, _)| name != "timers.running" && name != "timers.running_background"), "{all:?}");
    let count = |wanted: &str| all.iter().filter(|(_, name, _)| name == wanted).map(|(_, _, value)| value).sum::<i64>();
    let sums = store.tallies().await.unwrap();
    for name in ["timers.created", "timers.completed", "timers.stopped", "messages.created", "sessions.created"] {
        assert_eq!(count(name), sums[name], "{name}");
    }
    let created = |found: &[(i64, String, i64)]| -> Vec<i64> {
        found.iter().filter(|(_, name, _)| name == "timers.created").map(|(_, _, value)| *value).collect()
    };
    assert_eq!(created(&all), [6, 2], "two hours, one far from the other");
    // The hour in which `since` lies is whole.
    assert_eq!(created(&hours(LAST).await), [2]);
    assert_eq!(hours(LAST + 1).await, []);
}
