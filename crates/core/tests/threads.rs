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

/// Where no history is sent along, the same words later are another message.
#[test]
fn the_same_words_much_later_are_meant_again() {
    let mut world = World::default();
    world.direct("m1", &[arm("go on", 1)]);
    for (minutes, meant) in [(9, false), (10, true), (19, false), (20, true)] {
        let now = NOW.plus(Millis::from_secs(minutes * 60));
        assert_eq!(world.thread().was_directed("m1", now), !meant, "{minutes}");
        if meant {
            let mut thread = world.thread().clone();
            thread.direct("m1", &[], now);
            world.0.items = vec![Item::Thread(thread)];
        }
    }
}

#[test]
fn a_stop_message_that_did_not_arrive_is_given_back_unless_something_was_ordered_since() {
    let mut world = World::default();
    let give_back = |by: &str| {
        let (thread, text, by) = (Thread::id_of(&session()), "go on".to_owned(), Some(by.to_owned()));
        Command::ReturnStopMessage { thread, text, by }
    };
    for times in [1, 2] {
        world.direct(&format!("m{times}"), &[arm("go on", times)]);
        assert_eq!(world.stopped().as_deref(), Some("go on"));
        world.run(give_back(&format!("m{times}")));
        assert_eq!(world.thread().stop_message.as_ref().map(|message| message.left), Some(times));
    }
    world.stopped();
    world.direct("m3", &[Directive::Disarm]);
    assert!(world.run(give_back("m2")).batch.is_none(), "the user has cleared it");
    world.direct("m4", &[arm("go on", 1)]);
    world.stopped();
    world.run(Command::Close { note: None, notify: Vec::new() });
    assert!(world.run(give_back("m4")).batch.is_none(), "nothing continues a session that is closed");
}

#[test]
fn closing_a_session_disarms_it() {
    let mut world = World::default();
    world.direct("m1", &[arm("go on", 2)]);
    world.run(Command::Close { note: None, notify: Vec::new() });
    assert_eq!(world.stopped(), None);
}

/// An answer is an item of its own: a session may have been given many, and each is forgotten in its time.
#[test]
fn answers_are_named_one_by_one_beside_the_sessions_thread() {
    let mut world = World::default();
    let owed = Answered {
        call: "c".into(),
        tool: "clock".into(),
        arguments: "{}".into(),
        result: "too many".into(),
        failed: true,
    };
    let name = |shown: &str, upstream: &str, owed: Vec<Answered>| {
        let (answer, shown, upstream) = (Thread::id_of_answer(shown), shown.into(), upstream.into());
        Command::NameAnswer { answer, shown, upstream, owed }
    };
    world.run(name("resp_1", "resp_9", vec![owed.clone()]));
    let named = world.thread().clone();
    assert_ne!(named.id, Thread::id_of(&session()));
    assert_eq!(named.alias, Some(("resp_1".into(), "resp_9".into())));
    assert_eq!(named.asides[0].answered, [owed]);
    assert_eq!(named.ended_at(), Some(NOW), "retention may take it");
    world.run(name("resp_1", "resp_10", vec![]));
    assert_eq!(world.thread().asides, []);
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
    world.run(aside(5, 2));
    let of = |world: &World, anchor: &str| world.thread().asides.iter().filter(|aside| aside.anchor == anchor).count();
    assert_eq!(
        (of(&world, "5"), world.thread().asides.len()),
        (1, ASIDES_MAX),
        "a later one of the same name replaces it"
    );
    let forget = || Command::ForgetAside { thread: Thread::id_of(&session()), anchor: "5".into() };
    world.run(forget());
    assert_eq!(of(&world, "5"), 0);
    assert!(world.run(forget()).batch.is_none(), "once");
    world.run(aside(100, ASIDES_BYTES_MAX + 1));
    assert_eq!(world.thread().asides.len(), 1, "the newest stays, however long it is");
}

/// Whoever leased messages is gone, and the commit of that lease may be written before or after: either way they are free.
#[test]
fn an_abandoned_lease_is_released_or_never_comes() {
    let lease = LeaseId::new("l");
    let abandon = Command::AbandonLease { lease: lease.clone() };
    let mut world = World::default();
    let nobody = decide(&session(), &world.0, &Call::new(abandon.clone()), NOW, &Limits::default());
    assert_eq!(nobody.expect_err("nothing was ever leased there").code(), "unknown_lease");
    world.direct("m1", &[]);
    let before = world.0.session.as_ref().map(|session| session.version);
    let decision = world.run(abandon.clone());
    let batch = decision.batch.expect("it takes the version on which the lease was decided");
    assert_eq!((batch.expected, batch.messages.len(), batch.history.len()), (before, 0, 0));
    world.0.inbox = vec![message(Some(&lease))];
    let batch = world.run(abandon).batch.expect("released");
    assert!(batch.messages[0].message().is_free(NOW));
}

fn message(lease: Option<&LeaseId>) -> Message {
    Message {
        id: "m".into(),
        kind: MessageKind::TimerCompleted,
        text: "t".into(),
        source: ItemId::new("timer_1"),
        created_at: NOW,
        expires_at: None,
        lease: lease.map(|lease| Lease { id: lease.clone(), until: NOW.plus(Millis::from_secs(1)) }),
        delivered: None,
    }
}

#[test]
fn a_lease_can_be_made_to_last() {
    let lease = LeaseId::new("l");
    let mut world = World::default();
    world.direct("m1", &[]);
    world.0.inbox = vec![message(Some(&lease))];
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
