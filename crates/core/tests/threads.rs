//! What the gateway keeps of a session, and leases that last longer.

use reveille_core::{
    Call, Command, Decision, Directive, Item, ItemId, ItemWrite, LeaseId, Limits, Message, MessageKind, Millis, Reply,
    SessionId, Thread, Timestamp,
    command::State,
    decide,
    message::Lease,
    thread::{ASIDES_BYTES_MAX, ASIDES_MAX, Answered, Aside},
};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn session() -> SessionId {
    SessionId::new("s")
}

/// One session's state, as decisions leave it.
#[derive(Default)]
struct World(State);

impl World {
    fn run(&mut self, command: Command) -> Decision {
        let decision = decide(&session(), &self.0, &Call::new(command), NOW, &Limits::default()).expect("accepted");
        if let Some(batch) = &decision.batch {
            assert_eq!(batch.expected, self.0.session.as_ref().map(|session| session.version));
            self.0.session = Some(batch.session.clone());
            for write in &batch.items {
                if matches!(write, ItemWrite::Insert { .. }) {
                    assert!(self.0.items.is_empty(), "made twice");
                }
                // What is stored is read again.
                let item = write.item();
                let read = Item::decode(item.kind().as_str(), &item.encode()).expect("readable");
                assert_eq!(read, *item);
                self.0.items = vec![read];
            }
        }
        decision
    }

    fn thread(&self) -> &Thread {
        self.0.items[0].as_thread().expect("a thread")
    }

    fn direct(&mut self, by: &str, directives: &[Directive]) -> bool {
        let (thread, by, directives) = (Thread::id_of(&session()), by.to_owned(), directives.to_vec());
        self.run(Command::Direct { thread, by, directives }).batch.is_some()
    }

    fn stopped(&mut self) -> Option<String> {
        let reply = self.run(Command::TakeStopMessage { thread: Thread::id_of(&session()) }).reply;
        let Reply::StopMessage(text) = reply else { panic!("{reply:?}") };
        text
    }
}

fn arm(text: &str, times: u32) -> Directive {
    Directive::Arm { text: text.into(), times }
}

#[test]
fn a_stop_message_is_told_so_many_times_and_armed_once_by_one_message() {
    let mut world = World::default();
    assert_eq!(world.stopped(), None);
    assert!(world.direct("m1", &[arm("go on", 2)]));
    assert_eq!(world.thread().ended_at(), None);
    assert_eq!(world.stopped().as_deref(), Some("go on"));
    assert!(!world.direct("m1", &[arm("go on", 2)]), "sent again");
    assert_eq!(world.stopped().as_deref(), Some("go on"));
    assert_eq!(world.stopped(), None);
    assert_eq!(world.thread().ended_at(), Some(NOW), "retention may take it");
    assert!(!world.direct("m1", &[arm("go on", 2)]), "and again");
    assert!(world.direct("m2", &[arm("a", 1), arm("b", 3)]));
    assert_eq!(world.stopped().as_deref(), Some("b"), "the last one counts");
    assert!(world.direct("m3", &[Directive::Disarm]));
    assert_eq!(world.stopped(), None);
}

#[test]
fn closing_a_session_disarms_it() {
    let mut world = World::default();
    world.direct("m1", &[arm("go on", 2)]);
    world.run(Command::Close { note: None });
    assert_eq!(world.stopped(), None);
}

#[test]
fn asides_are_bounded() {
    let mut world = World::default();
    let aside = |anchor: usize, bytes: usize| {
        let answered = Answered {
            call: "c".into(),
            tool: "clock".into(),
            arguments: "{}".into(),
            result: "x".repeat(bytes),
            failed: false,
        };
        let aside = Aside { anchor: anchor.to_string(), answered: vec![answered] };
        Command::SetAside { thread: Thread::id_of(&session()), aside }
    };
    for anchor in 0..ASIDES_MAX + 3 {
        world.run(aside(anchor, 1));
    }
    let anchors: Vec<&str> = world.thread().asides.iter().map(|aside| aside.anchor.as_str()).collect();
    assert_eq!((anchors.len(), anchors[0]), (ASIDES_MAX, "3"));
    world.run(aside(100, ASIDES_BYTES_MAX + 1));
    assert_eq!(world.thread().asides.len(), 1, "the newest stays, however long it is");
}

#[test]
fn a_lease_can_be_made_to_last() {
    let lease = LeaseId::new("l");
    let message = Message {
        id: "m".into(),
        kind: MessageKind::TimerCompleted,
        text: "t".into(),
        source: ItemId::new("timer_1"),
        created_at: NOW,
        expires_at: None,
        lease: Some(Lease { id: lease.clone(), until: NOW.plus(Millis::from_secs(1)) }),
        delivered: None,
    };
    let mut world = World::default();
    world.direct("m1", &[]);
    world.0.inbox = vec![message];
    let extend = |lease: &LeaseId| Command::ExtendLease { lease: lease.clone(), length: Millis::from_secs(30) };
    let decision = world.run(extend(&lease));
    let batch = decision.batch.expect("written");
    let written = batch.messages[0].message();
    assert_eq!(written.held_until(NOW), Some(NOW.plus(Millis::from_secs(30))));
    assert!(written.is_leased_by(&lease));
    let other = Call::new(extend(&LeaseId::new("other")));
    let refused = decide(&session(), &world.0, &other, NOW, &Limits::default()).expect_err("not theirs");
    assert_eq!(refused.code(), "unknown_lease");
}
