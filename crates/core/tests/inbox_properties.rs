//! Guards the inbox: what the system has to tell an agent is held by one channel at a time, told once, oldest first,
//! and never lost, however channels lease, commit, release, crash and come too late.

mod ledger;

use ledger::{Ledger, at, mission, secs, waiting};
use proptest::{collection::vec, prelude::*};
use reveille_core::{Call, Command, ItemId, LeaseId, Limits, Message, Millis, command::Ride};
use std::{collections::BTreeSet, sync::Arc};

type Id = Arc<str>;

fn ids(messages: &[Message]) -> Vec<Id> {
    messages.iter().map(|message| message.id.clone()).collect()
}

/// A ledger with `count` messages in its inbox, and their ids, oldest first.
fn told(count: u64) -> (Ledger, Vec<Id>) {
    let mut ledger = Ledger::new();
    for n in 0..count {
        ledger.create(mission("提醒 🔔"), secs(10 + n), None);
    }
    for n in 0..count {
        ledger.clock(10 + n as i64);
        ledger.fire_all();
    }
    let all = ids(&ledger.messages);
    (ledger, all)
}

#[test]
fn a_message_committed_late_does_not_ride_along_with_the_commit() {
    let (mut ledger, _) = told(1);
    ledger.collect("old", secs(30), 9);
    ledger.clock(100);
    let commit = Command::CommitLease { lease: LeaseId::new("old"), channel: "hook".into() };
    let decision = ledger.ask_riding(commit, "new", secs(30), 9).expect("the late commit counts");
    assert_eq!(decision.riding, []);
}

#[test]
fn the_oldest_messages_are_leased_first_and_only_as_many_as_asked_for() {
    let (mut ledger, all) = told(5);
    assert_eq!(ids(&ledger.collect("甲", secs(30), 0)), [] as [Id; 0]);
    assert_eq!(ids(&ledger.collect("甲", secs(30), 2)), all[..2]);
    assert_eq!(ids(&ledger.collect("乙", secs(30), 1)), all[2..3]);
    assert_eq!(ledger.release_lease("甲"), Ok(2));
    assert_eq!(ids(&ledger.collect("丙", secs(30), 3)), [&all[..2], &all[3..4]].concat(), "released ones come first");
}

#[test]
fn messages_ride_along_with_any_reply() {
    let (mut ledger, all) = told(1);
    let known = ledger.timers[0].id.clone();
    let new = ledger.new_id();
    let rides = [
        Command::Read { id: None },
        Command::Read { id: Some(known) },
        Command::Create {
            id: new.clone(),
            purpose: waiting("x"),
            total: secs(99),
            timeout: None,
            until: None,
            key: None,
            task: None,
        },
        Command::Cancel { id: new, note: None },
        Command::Collect,
        Command::Close { note: None, notify: Vec::new() },
    ];
    for (n, command) in rides.into_iter().enumerate() {
        let lease = format!("lease-{n}");
        let decision = ledger.ask_riding(command.clone(), &lease, secs(30), 9).expect("this is allowed");
        assert_eq!(ids(&decision.riding), all, "{command:?}");
        assert_eq!(ledger.messages[0].lease.as_ref().map(|lease| lease.until), Some(ledger.now.plus(secs(30))));
        assert_eq!(ledger.release_lease(&lease), Ok(1));
    }
}

#[test]
fn a_refused_call_takes_no_messages_along() {
    let (mut ledger, all) = told(1);
    let unknown = Command::Stop { id: ItemId::new("timer_unknown0"), note: None };
    assert!(ledger.ask_riding(unknown, "甲", secs(30), 9).is_err());
    assert_eq!(ids(&ledger.collect("乙", secs(30), 9)), all);
}

#[test]
fn a_lease_holds_until_it_runs_out() {
    let (mut ledger, all) = told(1);
    ledger.collect("甲", secs(30), 9);
    ledger.now = at(10 + 30).minus(Millis::new(1));
    assert_eq!(ids(&ledger.collect("乙", secs(30), 9)), [] as [Id; 0]);
    ledger.clock(10 + 30);
    assert_eq!(ids(&ledger.collect("乙", secs(30), 9)), all, "a crashed channel holds nothing for ever");
}

#[test]
fn a_late_commit_counts_unless_another_channel_has_taken_over() {
    let (mut ledger, _) = told(1);
    ledger.collect("甲", secs(30), 9);
    ledger.clock(1000);
    assert_eq!(ledger.commit_lease("甲", "inbox"), Ok(1), "it was told, late");

    let (mut ledger, _) = told(1);
    ledger.collect("甲", secs(30), 9);
    ledger.clock(1000);
    ledger.collect("乙", secs(30), 9);
    let refused = ledger.commit_lease("甲", "inbox").expect_err("the message is another's now");
    assert_eq!(refused.code(), "unknown_lease");
    assert_eq!(ledger.commit_lease("乙", "inbox"), Ok(1));
}

#[test]
fn a_lease_is_settled_once() {
    let commit = |ledger: &mut Ledger| ledger.commit_lease("甲", "hook");
    let release = |ledger: &mut Ledger| ledger.release_lease("甲");
    for settle in [commit, release] {
        let (mut ledger, _) = told(2);
        ledger.collect("甲", secs(30), 9);
        assert_eq!(settle(&mut ledger), Ok(2));
        let before = ledger.session.clone();
        for refused in [ledger.commit_lease("甲", "hook"), ledger.release_lease("甲"), ledger.commit_lease("无", "x")]
        {
            assert_eq!(refused.expect_err("it holds nothing").code(), "unknown_lease");
        }
        assert_eq!(ledger.session, before, "a refusal writes nothing");
    }
}

#[test]
fn the_call_standing_by_is_told_first_and_its_lease_comes_back_if_it_is_gone() {
    let standing = || {
        let mut ledger = Ledger::new();
        let id = ledger.create(waiting("等待构建 🏗️"), secs(10), None);
        ledger.standing.insert(id, LeaseId::new("call"));
        ledger.clock(10);
        ledger.fire_all();
        assert_eq!(ids(&ledger.collect("other", secs(30), 9)), [] as [Id; 0], "it is the call's");
        ledger
    };
    let mut ledger = standing();
    assert_eq!(ledger.commit_lease("call", "standby"), Ok(1));
    assert_eq!(ledger.messages[0].delivered.as_ref().map(|delivered| delivered.channel.as_str()), Some("standby"));
    ledger.clock(1_000_000);
    assert_eq!(ids(&ledger.collect("other", secs(30), 9)), [] as [Id; 0], "it was told");

    let mut ledger = standing();
    assert_eq!(ledger.release_lease("call"), Ok(1));
    assert_eq!(ledger.collect("other", secs(30), 9).len(), 1, "the client was gone");

    let mut ledger = standing();
    ledger.clock(10 + 30);
    assert_eq!(ledger.collect("other", secs(30), 9).len(), 1, "the server was gone");
}

#[test]
fn a_delivery_is_written_down() {
    let (mut ledger, all) = told(1);
    ledger.collect("甲", secs(30), 9);
    ledger.commit_lease("甲", "tool_result").expect("the lease holds it");
    assert_eq!(ledger.events(&all[0]), ["message.delivered"]);
    let data = &ledger.history.last().expect("there is history").data;
    assert_eq!((&data["channel"], &data["text"]), (&"tool_result".into(), &ledger.messages[0].text.as_str().into()));
}

// Any order of everything.

#[derive(Clone, Debug)]
enum Op {
    /// A timer ends; perhaps a call stands by for it.
    Tell {
        standing: bool,
    },
    /// A channel takes messages; perhaps along with other work.
    Lease {
        max: usize,
        length: u64,
        working: bool,
    },
    /// Settles one of the leases given so far, settled or expired ones too; 0 is one that never was.
    Commit(usize),
    Release(usize),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => any::<bool>().prop_map(|standing| Op::Tell { standing }),
        5 => (0..4usize, 1..20u64, any::<bool>()).prop_map(|(max, length, working)| Op::Lease { max, length, working }),
        4 => (0..12usize).prop_map(Op::Commit),
        2 => (0..12usize).prop_map(Op::Release),
        4 => (1..15u64).prop_map(Op::Wait),
    ]
}

/// A message as its channels see it.
struct Letter {
    id: Id,
    /// Number of the lease that took it last, and until when that is good.
    holder: Option<(usize, u64)>,
    told: u32,
}

#[derive(Default)]
struct Post {
    letters: Vec<Letter>,
    leases: usize,
}

impl Post {
    fn free(&self, now: u64) -> impl Iterator<Item = &Letter> {
        let good = move |letter: &Letter| letter.holder.is_some_and(|(_, until)| now < until);
        self.letters.iter().filter(move |letter| letter.told == 0 && !good(letter))
    }

    /// Hands over `taken`, which must be the oldest that nobody holds.
    fn take(&mut self, taken: &[Id], max: usize, now: u64, until: u64) {
        let oldest: Vec<Id> = self.free(now).take(max).map(|letter| letter.id.clone()).collect();
        assert_eq!(taken, oldest, "leased at {now}");
        self.leases += 1;
        for letter in self.letters.iter_mut().filter(|letter| taken.contains(&letter.id)) {
            letter.holder = Some((self.leases, until));
        }
    }

    /// Ends a lease; how many messages it still held, an error if none.
    fn settle(&mut self, lease: usize, tell: bool) -> Result<usize, &'static str> {
        let mut count = 0;
        for letter in self.letters.iter_mut().filter(|letter| letter.holder.is_some_and(|(by, _)| by == lease)) {
            letter.holder = None;
            letter.told += u32::from(tell);
            count += 1;
        }
        if count == 0 { Err("unknown_lease") } else { Ok(count) }
    }
}

fn lease_name(lease: usize) -> String {
    format!("lease-{lease}")
}

fn play(ledger: &mut Ledger, post: &mut Post, op: &Op) {
    let now = ledger.now.as_millis() as u64;
    match *op {
        Op::Tell { standing } => {
            let id = ledger.create(mission("到点了"), Millis::new(1), None);
            let mut holder = None;
            if standing {
                post.leases += 1;
                ledger.standing.insert(id, LeaseId::new(lease_name(post.leases)));
                holder = Some((post.leases, now + 1 + ledger.limits.lease.get()));
            }
            ledger.now = ledger.now.plus(Millis::new(1));
            ledger.fire_all();
            let id = ledger.messages.last().expect("it was told").id.clone();
            post.letters.push(Letter { id, holder, told: 0 });
        }
        Op::Lease { max, length, working } => {
            let name = lease_name(post.leases + 1);
            let command = if working { Command::Read { id: None } } else { Command::Collect };
            let decision = ledger.ask_riding(command, &name, Millis::new(length), max).expect("this is allowed");
            post.take(&ids(&decision.riding), max, now, now + length);
        }
        Op::Commit(lease) => {
            let got = ledger.commit_lease(&lease_name(lease), "频道").map_err(|refused| refused.code());
            assert_eq!(got, post.settle(lease, true), "commit of lease {lease}");
        }
        Op::Release(lease) => {
            let got = ledger.release_lease(&lease_name(lease)).map_err(|refused| refused.code());
            assert_eq!(got, post.settle(lease, false), "release of lease {lease}");
        }
        Op::Wait(ms) => ledger.now = ledger.now.plus(Millis::new(ms)),
    }
}

/// Everything that is not told yet can be had once all leases have run out, and then nothing can be had any more.
fn check_nothing_lost(ledger: &mut Ledger, post: &Post) {
    ledger.now = ledger.now.plus(secs(3600));
    let rest = ids(&ledger.collect("last", secs(1), usize::MAX));
    let untold: Vec<Id> =
        post.letters.iter().filter(|letter| letter.told == 0).map(|letter| letter.id.clone()).collect();
    assert_eq!(rest, untold);
    if !rest.is_empty() {
        assert_eq!(ledger.commit_lease("last", "频道"), Ok(rest.len()));
    }
    ledger.now = ledger.now.plus(secs(3600));
    assert_eq!(ledger.collect("later", secs(1), usize::MAX), []);
    for Letter { id, .. } in &post.letters {
        assert_eq!(ledger.events(id), ["message.delivered"], "{id} is told exactly once");
    }
    assert!(ledger.messages.iter().all(|message| message.delivered.is_some()));
}

proptest! {
    #[test]
    fn each_message_has_one_holder_is_told_once_and_is_never_lost(ops in vec(op(), 1..60)) {
        let mut ledger = Ledger::with(Limits { lease: Millis::new(8), ..Limits::default() });
        let mut post = Post::default();
        for op in &ops {
            play(&mut ledger, &mut post, op);
        }
        check_nothing_lost(&mut ledger, &post);
    }

    /// Two requests at the same instant: whichever commits first, the other decides again on what it left.
    #[test]
    fn simultaneous_requests_share_the_messages_out(count in 0..8u64, wants in vec(0..5usize, 1..6)) {
        let (mut ledger, all) = told(count);
        let calls: Vec<Call> = wants
            .iter()
            .enumerate()
            .map(|(n, messages_max)| {
                let ride = Ride { lease: LeaseId::new(lease_name(n)), length: secs(30), messages_max: *messages_max, chars_max: usize::MAX, alone_among: None };
                Call { ride: Some(ride), ..Call::new(Command::Collect) }
            })
            .collect();
        // All decide on one state: at most one of those decisions can be committed, for they expect the same version.
        let version = ledger.session.as_ref().map(|session| session.version);
        for call in &calls {
            if let Some(batch) = ledger.decide(call).expect("collecting is never refused").batch {
                prop_assert_eq!(batch.expected, version);
            }
        }
        let mut taken = Vec::new();
        for call in &calls {
            taken.extend(ids(&ledger.run(call).expect("collecting is never refused").riding));
        }
        prop_assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), taken.len(), "none twice");
        prop_assert_eq!(&taken[..], &all[..wants.iter().sum::<usize>().min(all.len())]);
    }
}
