//! What goes in comes out, byte for byte: names, reasons, keys and times of every kind.

use crate::drive::*;
use reveille_core::{Command, LeaseId, Millis, Needs, Purpose, RequestKey, Timestamp, command::Select};
use reveille_store::{HistoryFilter, ItemFilter, SessionFilter, Store};
use std::sync::Arc;

const TEXTS: &[&str] = &[
    "等待构建完成,然后重启服务器",
    "🙂👩‍👩‍👧‍👦🏳️‍🌈 \u{1F1E8}\u{1F1F3}",
    "مرحبا \u{202e}שלום",
    "e\u{301} é",
    "line\nbreak\r\n\ttab",
    "'; DROP TABLE items; -- \"`\\ %_ ?1 :a $b",
    "{\"json\": [1, null]}",
    "\u{feff}\u{200b}\u{10FFFF}",
    "nul \0 inside",
];

pub async fn every_script_comes_back_as_written(store: &Arc<dyn Store>) {
    let store = &**store;
    for (number, text) in TEXTS.iter().enumerate() {
        let id = format!("timer_{number}_{text}");
        let key = RequestKey { key: format!("key {text}"), fingerprint: format!("print {text}") };
        let command = create(&id, Purpose::Mission((*text).into()), 10, Some(key.clone()));
        run(store, text, command, at(0)).await;
        let note = Some(format!("note {text}"));
        run(store, text, Command::Cancel { id: iid(&id), note: note.clone() }, at(1)).await;

        let needs = Needs { items: Select::Ids(iids(&[&id])), inbox: false, key: Some(key.key.clone()) };
        let state = store.load(&sid(text), needs).await.unwrap();
        let timer = state.items[0].as_timer().unwrap();
        assert_eq!(timer.purpose, Purpose::Mission((*text).into()));
        assert_eq!((timer.id.as_str(), &timer.note), (&*id, &note));
        assert_eq!(state.keyed, Some((state.items[0].clone(), key)));
        assert_eq!(state.session.unwrap().id.as_str(), *text);

        run(store, text, fire(&[&id]), at(10)).await;
        let message = inbox(store, text).await.remove(0);
        assert!(message.text.contains(text) && message.source.as_str() == id, "{message:?}");
        let lease = format!("lease {text}");
        call(store, text, collect(&lease, 1), at(11)).await;
        assert_eq!(inbox(store, text).await[0].lease.as_ref().unwrap().id.as_str(), lease);
        let channel = format!("channel {text}");
        run(store, text, Command::CommitLease { lease: LeaseId::new(lease), channel: channel.clone() }, at(12)).await;

        let of_item = HistoryFilter { subject: Some(id.clone()), limit: ALL, ..HistoryFilter::default() };
        let told = store.history(of_item).await.unwrap();
        assert_eq!(told[0].entry.data["message"]["text"], message.text);
        assert_eq!(told[1].entry.data["stop_reason"], *note.as_ref().unwrap());
        let of_session = HistoryFilter { session: Some(sid(text)), limit: 1, ..HistoryFilter::default() };
        assert_eq!(store.history(of_session).await.unwrap()[0].entry.data["channel"], channel);
        assert_eq!(found_ids(store, ItemFilter { id: Some(id.clone()), ..every_item() }).await, [id]);
    }
    let sessions = store.sessions(SessionFilter { limit: ALL, ..SessionFilter::default() }).await.unwrap();
    let names: Vec<&str> = sessions.iter().map(|(_, session)| session.id.as_str()).collect();
    assert_eq!(names, TEXTS.iter().rev().copied().collect::<Vec<_>>());
}

pub async fn names_are_compared_exactly(store: &Arc<dyn Store>) {
    let names = ["a", "A", "a ", " a", "ä", "a\u{308}", "%", "_", "ı", "i", "I", "1", "01", "1.0"];
    for (number, name) in names.iter().enumerate() {
        run(&**store, name, wait(&format!("timer_{name}"), "x", 600), at(number as i64)).await;
    }
    for name in names {
        assert_eq!(loaded(&**store, name, Select::Live).await, [format!("timer_{name}")]);
        let of_session = ItemFilter { session: Some(sid(name)), ..every_item() };
        assert_eq!(found_ids(&**store, of_session).await, [format!("timer_{name}")]);
    }
    assert_eq!(picture(&**store).await.sessions.len(), names.len());
}

pub async fn very_long_text_is_kept(store: &Arc<dyn Store>) {
    let store = &**store;
    let text = "很长的理由🙂".repeat(50_000); // about a megabyte
    run(store, "a", wait("timer_1", &text, 10), at(0)).await;
    run(store, "a", fire(&["timer_1"]), at(10)).await;
    let shown = picture(store).await;
    assert_eq!(shown.items[0].1.as_timer().unwrap().purpose, Purpose::Waiting(text.clone()));
    assert!(shown.states[0].0.inbox[0].text.contains(&text));
    assert_eq!(shown.history[1].entry.data["reason"], text);
}

pub async fn extreme_times_are_kept(store: &Arc<dyn Store>) {
    let store = &**store;
    let longest = Command::Create {
        id: iid("timer_longest"),
        purpose: Purpose::Mission("x".into()),
        total: Millis::new(u64::MAX),
        timeout: None,
        until: None,
        key: None,
        task: None,
    };
    run(store, "late", longest, Timestamp::from_millis(i64::MAX)).await;
    run(store, "early", mission("timer_early", "x", 60), Timestamp::from_millis(i64::MIN)).await;
    run(store, "zero", mission("timer_zero", "x", 60), Timestamp::from_millis(0)).await;
    let first = Timestamp::from_millis(i64::MIN + 60_000);
    let last = Timestamp::from_millis(i64::MAX);
    let expected = [
        (first, iid("timer_early")),
        (Timestamp::from_millis(60_000), iid("timer_zero")),
        (last, iid("timer_longest")),
    ];
    assert_eq!(store.deadlines(ALL).await.unwrap(), expected);
    let shown = picture(store).await;
    assert_eq!(shown.items[2].1.as_timer().unwrap().total, Millis::new(u64::MAX));
    assert_eq!(shown.sessions[2].created_at, last);
    assert_eq!(shown.sessions[1].created_at, Timestamp::from_millis(i64::MIN));
}
