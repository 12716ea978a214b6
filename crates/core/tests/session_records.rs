//! What a session keeps about its agent, what fits into one delivery, and entries about things done outside.

use reveille_core::{
    Call, Command, Decision, LeaseId, Limits, Message, MessageKind, Millis, Purpose, SessionId, Timestamp,
    command::{Ride, State},
    decide, inbox,
    message::Lease,
};
use serde_json::json;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn decided(state: &State, call: &Call) -> Decision {
    decide(&SessionId::new("s"), state, call, NOW, &Limits::default()).expect("accepted")
}

fn create(client: Option<&str>) -> Call {
    let command = Command::Create {
        id: reveille_core::ItemId::new("timer_1"),
        purpose: Purpose::Mission("m".into()),
        total: Millis::from_secs(60),
        timeout: None,
        until: None,
        key: None,
        task: None,
    };
    Call { client: client.map(Into::into), ..Call::new(command) }
}

fn message(id: &str, text: &str) -> Message {
    Message {
        id: id.into(),
        kind: MessageKind::TimerCompleted,
        text: text.into(),
        source: reveille_core::ItemId::new("timer_1"),
        created_at: NOW,
        expires_at: None,
        lease: None,
        delivered: None,
    }
}

#[test]
fn the_last_kind_of_client_that_was_told_is_kept() {
    let made = decided(&State::default(), &create(Some("claude-code"))).batch.expect("written").session;
    assert_eq!(made.client.as_deref(), Some("claude-code"));
    let state = State { session: Some(made), ..State::default() };
    for (told, kept) in [(None, "claude-code"), (Some("codex"), "codex")] {
        let session = decided(&state, &create(told)).batch.expect("written").session;
        assert_eq!(session.client.as_deref(), Some(kept));
    }
    // The same for where it works.
    let told = Call { cwd: Some("/a".into()), ..create(None) };
    let session = decided(&state, &told).batch.expect("written").session;
    assert_eq!(session.cwd.as_deref(), Some("/a"));
    let kept = decided(&State { session: Some(session), ..State::default() }, &create(None));
    assert_eq!(kept.batch.expect("written").session.cwd.as_deref(), Some("/a"));
    // It is never a reason to write.
    let read = Call { client: Some("codex".into()), cwd: Some("/b".into()), ..Call::new(Command::Collect) };
    assert_eq!(decided(&state, &read).batch, None);
    assert_eq!(decided(&State::default(), &read).batch, None);
}

#[test]
fn a_delivery_takes_what_fits_and_at_least_one() {
    let texts = ["x".repeat(10), "\"".repeat(10), "会".repeat(10)];
    let inbox: Vec<Message> = texts.iter().enumerate().map(|(n, text)| message(&format!("msg_{n}"), text)).collect();
    let state = State { inbox, ..State::default() };
    // Each takes its characters as JSON writes them, and four for the line between.
    for (chars_max, count) in [(0, 1), (14, 1), (37, 1), (38, 2), (51, 2), (52, 3), (usize::MAX, 3)] {
        let ride = Ride {
            lease: LeaseId::new("lease_1"),
            length: Millis::from_secs(1),
            messages_max: 9,
            chars_max,
            alone_among: None,
        };
        let call = Call { ride: Some(ride), ..Call::new(Command::Collect) };
        assert_eq!(decided(&state, &call).riding.len(), count, "{chars_max}");
    }
    for text in &texts {
        assert_eq!(inbox::json_chars(text), json!(text).to_string().chars().count() - 2);
    }
}

#[test]
fn a_lease_that_must_be_alone_takes_nothing_beside_another_of_its_kind() {
    let ride = |lease: &str| Ride {
        lease: LeaseId::new(lease),
        length: Millis::from_secs(10),
        messages_max: 1,
        chars_max: usize::MAX,
        alone_among: Some("wake_"),
    };
    let taken = |held_by: &str, held_for: u64| {
        let lease = Lease { id: LeaseId::new(held_by), until: NOW.plus(Millis::from_secs(held_for)) };
        let held = Message { lease: Some(lease), ..message("msg_0", "held") };
        let state = State { inbox: vec![held, message("msg_1", "free")], ..State::default() };
        let call = Call { ride: Some(ride("wake_b")), ..Call::new(Command::Collect) };
        decided(&state, &call).riding.iter().map(|message| message.id.to_string()).collect::<Vec<_>>()
    };
    assert!(taken("wake_a", 5).is_empty(), "another command is under way");
    assert_eq!(taken("lease_a", 5), ["msg_1"], "a client's lease is no command");
    assert_eq!(taken("wake_a", 0), ["msg_0"], "that one ran out");
}

#[test]
fn a_record_is_one_entry_about_the_session() {
    let made = decided(&State::default(), &create(None)).batch.expect("written").session;
    let state = State { session: Some(made.clone()), ..State::default() };
    let record = Command::Record { event: "wake.started", data: json!({"rule": "x"}) };
    let batch = decided(&state, &Call::new(record)).batch.expect("written");
    assert_eq!((batch.expected, batch.session.version), (Some(made.version), made.version + 1));
    assert!(batch.items.is_empty() && batch.messages.is_empty() && batch.tallies.is_empty());
    assert_eq!(batch.history.len(), 1);
    let entry = &batch.history[0];
    assert_eq!((&*entry.subject, &*entry.event, &entry.data), ("s", "wake.started", &json!({"rule": "x"})));
}
