//! Items of the second kind, and what they ask of a store: loading by lease, withdrawing, expiring messages.

use crate::drive::*;
use reveille_core::{
    Command, Item, Kind, LeaseId, Needs, RequestKey,
    command::Select,
    reminder::{Ask, Content, Due, Status},
};
use reveille_store::{ItemFilter, Order, Store};
use std::sync::Arc;

async fn status(store: &dyn Store, id: &str) -> Status {
    let (_, state) = store.load_items(iids(&[id])).await.unwrap().pop().unwrap();
    state.items[0].as_reminder().unwrap().status()
}

pub async fn a_reminder_is_stored_told_and_delivered(store: &Arc<dyn Store>) {
    let arguments = serde_json::json!({"z": 1, "a": [null, 0.5, -7, "引号\"\n🙂"], "n": {"deep": true}});
    let content = Content {
        task: "检查 \"构建\"\n🏗️".into(),
        tool: Some("exec".into()),
        arguments: arguments.as_object().cloned(),
    };
    let key = Some(RequestKey { key: "key".into(), fingerprint: "print".into() });
    let asks = vec![Ask::New { id: iid("task_1"), due: Due::At(at(1000)), content: content.clone() }];
    run(&**store, "a", Command::Schedule { asks: asks.clone(), key: key.clone() }, at(0)).await;
    let needs = Needs { items: Select::Live, inbox: true, key: Some("key".into()) };
    let state = store.load(&sid("a"), needs).await.unwrap();
    assert_eq!(state.session.as_ref().map(|session| (session.live_timers, session.live_reminders)), Some((0, 1)));
    let Item::Reminder(reminder) = &state.items[0] else { panic!("{state:?}") };
    assert_eq!((&reminder.content, reminder.due_at, reminder.status()), (&content, at(1000), Status::Scheduled));
    assert_eq!(state.keyed.map(|(item, key)| (item, Some(key))), Some((state.items[0].clone(), key.clone())));
    assert_eq!(store.deadlines(9).await.unwrap(), [(at(940), iid("task_1"))]);

    run(&**store, "a", fire(&["task_1"]), at(940)).await;
    let told = inbox(&**store, "a").await;
    assert_eq!((told.len(), told[0].expires_at, told[0].kind.as_str()), (1, Some(at(2200)), "reminder_due"));
    assert_eq!(store.deadlines(9).await.unwrap(), [(at(2200), iid("task_1"))]);
    call(&**store, "a", collect("lease", 9), at(950)).await;
    assert_eq!(inbox(&**store, "a").await[0].expires_at, Some(at(2200)), "a lease changes nothing else");
    run(&**store, "a", commit_lease("lease"), at(951)).await;
    assert_eq!(status(&**store, "task_1").await, Status::Delivered);
    let session = store.load(&sid("a"), Needs::default()).await.unwrap().session.unwrap();
    assert_eq!((session.live_reminders, session.pending_messages), (0, 0));
    assert_eq!(store.deadlines(9).await.unwrap(), []);
    // Asked again under its key: nothing new.
    run(&**store, "a", Command::Schedule { asks, key }, at(952)).await;
    assert_eq!(store.tallies().await.unwrap()["reminders.created"], 1);
}

pub async fn what_a_lease_settles_is_loaded_with_it(store: &Arc<dyn Store>) {
    run(&**store, "a", mission("timer_1", "m", 900), at(0)).await;
    for id in ["task_1", "task_2", "task_3"] {
        run(&**store, "a", remind(id, "x", at(1000)), at(0)).await;
    }
    run(&**store, "a", fire(&["timer_1", "task_1", "task_2", "task_3"]), at(940)).await;
    call(&**store, "a", collect("first", 2), at(940)).await;
    call(&**store, "a", collect("second", 9), at(940)).await;
    let settled = async |lease: &str| {
        let needs = Needs { items: Select::SettledBy(LeaseId::new(lease)), inbox: true, key: None };
        let state = store.load(&sid("a"), needs).await.unwrap();
        state.items.iter().map(|item| item.id().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(settled("first").await, ["task_1"], "a timer is not changed by being told");
    assert_eq!(settled("second").await, ["task_2", "task_3"]);
    assert_eq!(settled("third").await, [""; 0]);
    run(&**store, "a", commit_lease("second"), at(941)).await;
    assert_eq!(settled("second").await, [""; 0]);
    assert_eq!(status(&**store, "task_1").await, Status::Due);
    assert_eq!(status(&**store, "task_3").await, Status::Delivered);
}

pub async fn a_withdrawn_message_is_gone_and_no_other(store: &Arc<dyn Store>) {
    for (session, ids) in [("a", ["task_1", "task_2"]), ("b", ["task_3", "task_4"])] {
        for id in ids {
            run(&**store, session, remind(id, "x", at(100)), at(0)).await;
        }
        run(&**store, session, fire(&ids), at(60)).await;
    }
    run(&**store, "a", cancel_reminder("task_1"), at(61)).await;
    run(&**store, "b", put_off("task_4", at(5000)), at(61)).await;
    let sources = async |session: &str| {
        let told = inbox(&**store, session).await;
        told.iter().map(|message| message.source.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((sources("a").await, sources("b").await), (vec!["task_2".to_owned()], vec!["task_3".to_owned()]));
    run(&**store, "b", fire(&["task_4"]), at(4940)).await;
    assert_eq!(sources("b").await, ["task_3", "task_4"], "told again");
    assert_eq!(status(&**store, "task_3").await, Status::Due, "nobody has looked at it yet");
    run(&**store, "b", Command::ListReminders, at(4941)).await;
    assert_eq!(status(&**store, "task_3").await, Status::Missed);
    assert_eq!(sources("b").await, ["task_4"]);
    let tallies = store.tallies().await.unwrap();
    assert_eq!((tallies["messages.created"], tallies["messages.withdrawn"]), (5, 3));
}

pub async fn the_inbox_comes_with_what_depends_on_it(store: &Arc<dyn Store>) {
    run(&**store, "a", wait("timer_1", "x", 10), at(0)).await;
    run(&**store, "a", remind("task_1", "x", at(1000)), at(0)).await;
    run(&**store, "a", fire(&["timer_1"]), at(10)).await;
    let inboxes = async |ids: &[&str]| {
        let states = store.load_items(iids(ids)).await.unwrap();
        states.iter().map(|(_, state)| state.inbox.len()).collect::<Vec<_>>()
    };
    assert_eq!(inboxes(&["timer_1", "task_1"]).await, [0], "nothing here depends on who holds a message");
    run(&**store, "a", fire(&["task_1"]), at(940)).await;
    assert_eq!(inboxes(&["timer_1"]).await, [0]);
    assert_eq!(inboxes(&["timer_1", "task_1"]).await, [2]);
    // A delivery under way past the end is seen and waited for.
    call(&**store, "a", collect("lease", 9), at(2190)).await;
    run(&**store, "a", fire(&["task_1"]), at(2200)).await;
    assert_eq!(store.deadlines(9).await.unwrap(), [(at(2220), iid("task_1"))]);
}

pub async fn kinds_are_listed_and_loaded_apart(store: &Arc<dyn Store>) {
    for n in 0..3 {
        run(&**store, "a", wait(&format!("timer_{n}"), "x", 60), at(0)).await;
        run(&**store, "a", remind(&format!("task_{n}"), "x", at(1000 - n)), at(0)).await;
    }
    run(&**store, "a", stop("timer_0"), at(1)).await;
    run(&**store, "a", cancel_reminder("task_0"), at(2)).await;
    let of = |kind| ItemFilter { kind: Some(kind), ..every_item() };
    assert_eq!(found_ids(&**store, of(Kind::Timer)).await, ["timer_2", "timer_1", "timer_0"]);
    assert_eq!(found_ids(&**store, of(Kind::Reminder)).await, ["task_2", "task_1", "task_0"]);
    let soonest = ItemFilter { order: Order::Soonest, ..of(Kind::Reminder) };
    assert_eq!(found_ids(&**store, soonest).await, ["task_2", "task_1"]);
    let cancelled = ItemFilter { statuses: vec!["cancelled".into()], ..of(Kind::Reminder) };
    assert_eq!(found_ids(&**store, cancelled).await, ["task_0"]);
    assert_eq!(loaded(&**store, "a", Select::LiveOf(Kind::Timer)).await, ["timer_1", "timer_2"]);
    assert_eq!(loaded(&**store, "a", Select::LiveOf(Kind::Reminder)).await, ["task_1", "task_2"]);
    assert_eq!(loaded(&**store, "a", Select::RecentOf(Kind::Timer)).await, ["timer_1", "timer_2", "timer_0"]);
    assert_eq!(loaded(&**store, "a", Select::RecentOf(Kind::Reminder)).await, ["task_1", "task_2", "task_0"]);
    let all = ["timer_1", "task_1", "timer_2", "task_2", "task_0", "timer_0"];
    assert_eq!(loaded(&**store, "a", Select::Recent).await, all);
}
