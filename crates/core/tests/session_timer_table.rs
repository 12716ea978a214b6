//! Guards what chatbot builders are promised about session timers (design, section 7): suspended by a message, armed by
//! the answer, `max_triggers` and both ways to reset, escalation, closing, and calls that are made until they are settled.
//! `Ledger` checks behind every step that each firing was written once.

mod ledger;

use ledger::{Ledger, at, secs};
use reveille_core::{
    AgentId, Command, ItemId, Limits, Millis, Reject, Timestamp,
    call::{self, End, Report},
    session_timer::{Action, Reset, Spec, Status},
    utterance::{self, Role},
};
use serde_json::{Map, json};

fn spec(name: &str, delay: u64, max_triggers: u32, action: Action) -> Spec {
    let (reset, notify) = (Reset::Session, Vec::new());
    Spec { timer_id: name.into(), delay: secs(delay), max_triggers, reset, action, notify }
}

fn says(text: &str) -> Action {
    Action::Say { text: text.into() }
}

fn calls(tool: &str, closes: bool) -> Action {
    let arguments = json!({"type": "unassigned"}).as_object().cloned().unwrap_or_default();
    Action::Call { tool: tool.into(), arguments, silent: true, closes }
}

/// The original's example: remind at 5 minutes up to three times, hand off at 10, close at 30.
fn escalation() -> Vec<Spec> {
    vec![
        spec("idle_reminder", 300, 3, says("您好，请问还有什么可以帮您的吗？")),
        spec("session_timeout", 1800, 1, calls("close_conversation", true)),
        spec("auto_handoff", 600, 1, calls("handoff_to", false)),
    ]
}

/// A session with these timers, whose first message was answered after two seconds.
fn talking(specs: &[Spec]) -> Ledger {
    let mut ledger = Ledger::new();
    ledger.message(specs, None).expect("a session begins");
    ledger.clock(2);
    ledger.response(None).expect("an answer");
    ledger
}

fn look(ledger: &Ledger, name: &str) -> (Status, Option<i64>, u32) {
    let timer = ledger.session_timer(name);
    let next = timer.next_trigger_at().map(|next| (next.as_millis() - ledger::START) / 1000);
    (timer.status(), next, timer.trigger_count)
}

fn code<T: std::fmt::Debug>(result: Result<T, Reject>) -> &'static str {
    result.expect_err("this is refused").code()
}

#[test]
fn timers_begin_with_the_first_message_and_count_from_the_answer() {
    let mut ledger = Ledger::new();
    let made = ledger.message(&escalation(), None).expect("a session begins");
    assert_eq!(made.len(), 3);
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Pending, None, 0));
    ledger.clock(40);
    ledger.response(None).expect("an answer");
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Pending, Some(340), 0));
    assert_eq!(look(&ledger, "session_timeout"), (Status::Pending, Some(1840), 0));
    assert_eq!(look(&ledger, "auto_handoff"), (Status::Pending, Some(640), 0));
    assert_eq!(ledger.session.as_ref().and_then(|session| session.agent.clone()), Some(AgentId::new(ledger::AGENT)));
}

#[test]
fn an_escalation_goes_as_a_person_expects() {
    let mut ledger = talking(&escalation());
    let mut seen = Vec::new();
    for second in 3..2400 {
        ledger.clock(second);
        for fired in ledger.fire_all() {
            let timer = ledger.session_timers.iter().find(|timer| timer.id == fired.id);
            seen.extend(timer.map(|timer| (second, timer.spec.timer_id.clone())));
        }
    }
    let expected = [
        (302, "idle_reminder"),
        (602, "idle_reminder"),
        (602, "auto_handoff"),
        (902, "idle_reminder"),
        (1802, "session_timeout"),
    ];
    assert_eq!(seen, expected.map(|(at, name)| (at, name.to_owned())));
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Disabled, None, 3));
    assert_eq!(look(&ledger, "auto_handoff"), (Status::Disabled, None, 1));
    assert_eq!(look(&ledger, "session_timeout"), (Status::Disabled, None, 1));
    assert_eq!(ledger.said.len(), 3);
    assert!(ledger.said.iter().all(|said| said.role == Role::Assistant && said.timer.is_some()));
    assert_eq!(ledger.session.as_ref().map(|session| session.state.as_str()), Some("closed"));
    let tools: Vec<&str> = ledger.calls.iter().map(|call| call.target()).collect();
    assert_eq!(tools, ["handoff_to", "close_conversation"]);
}

#[test]
fn closing_ends_everything_else_and_what_is_said_last_is_in_order() {
    // Nobody looked for an hour: all are overdue at once, in the same proposal.
    let mut ledger = talking(&escalation());
    let timer = ledger.create(ledger::waiting("x"), secs(9000), None);
    let (soon, late) = (ledger.remind("soon", 1860), ledger.remind("late", 8000));
    ledger.clock(3600);
    let fired: Vec<ItemId> = ledger.fire_all().into_iter().map(|fired| fired.id).collect();
    assert_eq!(fired.last(), Some(&ledger.session_timer("session_timeout").id), "it ends the others");
    assert_eq!(ledger.session.as_ref().map(|session| session.state.as_str()), Some("closed"));
    assert!(!ledger.timer(&timer).is_live());
    assert_eq!(ledger.reminder(&soon).status().as_str(), "missed", "it was due before, and too long ago");
    assert_eq!(ledger.reminder(&late).status().as_str(), "cancelled");
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Cancelled, None, 1), "once, however long ago");
    let closing: Vec<&str> = ledger.calls.iter().filter(|call| call.is_live()).map(|call| call.target()).collect();
    assert_eq!(closing, ["handoff_to", "close_conversation"], "what fired before is still done");
}

#[test]
fn a_reminder_told_in_the_closing_commit_is_withdrawn_by_it() {
    let mut ledger = talking(&[spec("close", 60, 1, Action::Close)]);
    let told = ledger.remind("told", 121);
    ledger.clock(62);
    ledger.fire_all();
    assert_eq!(ledger.reminder(&told).status().as_str(), "cancelled");
    assert!(ledger.messages.is_empty() && ledger.calls.is_empty());
}

#[test]
fn a_message_suspends_and_a_slow_answer_is_never_interrupted() {
    let mut ledger = talking(&escalation());
    ledger.clock(200);
    ledger.message(&[], None).expect("the user is back");
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Pending, None, 0));
    for second in 201..800 {
        ledger.clock(second);
        assert!(ledger.fire_all().is_empty(), "fired in mid-answer at {second}");
    }
    ledger.response(None).expect("the answer, at last");
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Pending, Some(1099), 0));
}

#[test]
fn a_turn_that_is_never_answered_is_given_up() {
    let limits = Limits { turn: secs(900), ..Limits::default() };
    let mut ledger = Ledger::with(limits);
    ledger.message(&escalation(), None).expect("a session begins");
    ledger.clock(899);
    assert!(ledger.fire_all().is_empty());
    ledger.clock(900);
    let given_up = ledger.fire_all();
    assert!(given_up.len() == 3 && given_up.iter().all(|fired| fired.agent.is_none()), "nothing has fired");
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Pending, Some(1200), 0));
    // Nobody looked for long: both at once, and no more than once.
    let mut late = Ledger::with(Limits { turn: secs(900), ..Limits::default() });
    late.message(&escalation()[..1], None).expect("a session begins");
    late.clock(5000);
    late.fire_all();
    assert_eq!(look(&late, "idle_reminder"), (Status::Triggered, Some(5300), 1));
}

#[test]
fn a_turn_that_lives_is_not_given_up_and_one_that_died_is() {
    let mut ledger = Ledger::with(Limits { turn: secs(900), ..Limits::default() });
    ledger.message(&escalation(), Some("long")).expect("a session begins");
    for second in (300..7200).step_by(300) {
        ledger.clock(second);
        ledger.renew(Some("long")).expect("it lives");
        ledger.renew(Some("another")).expect("of no account");
        assert!(ledger.fire_all().is_empty(), "fired in mid-answer at {second}");
    }
    ledger.clock(6900 + 899);
    ledger.renew(Some("another")).expect("of no account");
    assert!(ledger.fire_all().is_empty());
    ledger.clock(6900 + 900);
    assert_eq!(ledger.fire_all().len(), 3, "nothing was heard of it for the time of a turn");
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Pending, Some(8100), 0));
}

#[test]
fn a_turn_given_up_too_early_is_taken_up_again_and_its_answer_counts() {
    let given_up = |fired: bool| {
        let mut ledger = Ledger::with(Limits { turn: secs(900), ..Limits::default() });
        ledger.message(&escalation()[..1], Some("long")).expect("a session begins");
        ledger.clock(900);
        ledger.fire_all();
        ledger.clock(if fired { 1250 } else { 1000 });
        ledger.fire_all();
        ledger
    };
    for fired in [false, true] {
        let now = if fired { 1250 } else { 1000 };
        let mut ledger = given_up(fired);
        ledger.response(Some("another")).expect("of no account");
        assert_eq!(look(&ledger, "idle_reminder").1, Some(if fired { 1500 } else { 1200 }));
        ledger.response(Some("long")).expect("the answer, at last");
        assert_eq!(look(&ledger, "idle_reminder").1, Some(now + 300), "silence begins with the answer");
        let mut ledger = given_up(fired);
        ledger.renew(Some("long")).expect("it lives");
        assert_eq!(look(&ledger, "idle_reminder"), (Status::Pending, None, u32::from(fired)));
        ledger.response(Some("long")).expect("the answer");
        assert_eq!(look(&ledger, "idle_reminder").1, Some(now + 300));
    }
}

#[test]
fn a_session_begun_anew_is_another_conversation_and_may_be_another_agents() {
    let mut ledger = talking(&[spec("ask", 60, 1, calls("read", false))]);
    ledger.clock(62);
    ledger.fire_all();
    ledger.fire_all();
    let call = ledger.calls[0].clone();
    assert_eq!(call.status(), call::Status::Running);
    ledger.close(None).expect("closed");
    // A timer opens the session; it is nobody's until a message comes.
    ledger.create(ledger::waiting("x"), secs(9000), None);
    assert_eq!(ledger.session.as_ref().and_then(|session| session.agent.clone()), None);
    ledger.message(&[spec("ask", 60, 1, says("?"))], None).expect("begun anew");
    let late = Report { status: Some(200), took: Millis::ZERO, end: End::Done { result: "旧".into() } };
    ledger.call_ended(&call.id, call.attempts, late).expect("late");
    let other = Some(AgentId::new("acme:other"));
    let answer = Command::Response { agent: other, turn: None, said: Vec::new(), made: Vec::new(), notify: Vec::new() };
    assert_eq!(code(ledger.ask(answer)), "other_agent");
    assert_eq!(utterance::current(ledger.said.clone()), [], "nothing of the old one is in it: {:?}", ledger.said);
    assert_eq!(ledger.said.last().map(|said| said.role), Some(Role::Beginning));
}

#[test]
fn a_call_there_is_no_room_for_is_given_back_and_not_counted() {
    let mut ledger = talking(&[spec("close", 60, 1, calls("notify", false))]);
    ledger.clock(62);
    ledger.fire_all();
    let mut waits = Vec::new();
    for _ in 0..6 {
        let call = ledger.calls[0].clone();
        let due = call.due().expect("it waits");
        ledger.now = due;
        ledger.fire_all();
        let postponed = Report { status: None, took: Millis::ZERO, end: End::Postponed { after: None } };
        let attempt = ledger.calls[0].attempts;
        let call = ledger.call_ended(&call.id, attempt, postponed).expect("given back");
        assert_eq!((call.attempts, call.status()), (0, call::Status::Waiting));
        waits.push(call.due().expect("it waits").since(ledger.now).get() / 1000);
    }
    assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
    // Who knows when there will be room says so, and that is that.
    for _ in 0..3 {
        ledger.now = ledger.calls[0].due().expect("it waits");
        ledger.fire_all();
        let after = Some(Millis::from_secs(1));
        let call =
            ledger.call_ended(&ledger.calls[0].id.clone(), 1, report(End::Postponed { after })).expect("given back");
        assert_eq!((call.attempts, call.due()), (0, Some(ledger.now.plus(Millis::from_secs(1)))));
    }
}

#[test]
fn whoever_closes_a_session_its_webhooks_are_told() {
    let mut ledger = talking(&escalation());
    let url: std::sync::Arc<str> = "https://app.example/hook".into();
    let close = |id: &str| Command::Close { note: None, notify: vec![(ItemId::new(id), url.clone())] };
    ledger.ask(close("hook_1")).expect("closed");
    ledger.ask(close("hook_2")).expect("closed already");
    let told: Vec<String> = ledger.calls.iter().map(|call| format!("{:?}", call.what)).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("session.closed"), "{told:?}");
}

#[test]
fn a_message_in_the_instant_of_a_firing_comes_after_it() {
    let mut ledger = talking(&escalation());
    ledger.clock(302);
    ledger.message(&[], None).expect("the user is back");
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Pending, None, 1), "fired, then suspended");
    ledger.clock(303);
    assert!(ledger.fire_all().is_empty());
    // With a timer that closes, the message begins the session anew.
    let mut ledger = talking(&escalation());
    ledger.clock(1802);
    let began = ledger.message(&escalation(), None).expect("the user is back");
    assert_eq!((began.len(), ledger.session_timers.len()), (3, 6));
    assert_eq!(ledger.session.as_ref().map(|session| session.state.as_str()), Some("open"));
    assert_eq!(look(&ledger, "session_timeout"), (Status::Pending, None, 0));
}

#[test]
fn answers_to_earlier_messages_arm_nothing() {
    let mut ledger = Ledger::new();
    ledger.message(&escalation()[..1], Some("a")).expect("a session begins");
    ledger.message(&[], Some("b")).expect("another");
    ledger.response(Some("a")).expect("late");
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Pending, None, 0));
    ledger.clock(5);
    ledger.response(Some("b")).expect("the answer");
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Pending, Some(305), 0));
    // Told again, because nobody knew whether it was heard.
    ledger.clock(9);
    ledger.response(Some("b")).expect("the same");
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Pending, Some(305), 0));
    // The agent speaks of its own accord: silence begins anew.
    ledger.response(None).expect("something more");
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Pending, Some(309), 0));
}

#[test]
fn budgets_last_for_the_session_or_until_the_user_returns() {
    for (reset, counts) in [(Reset::Session, [1, 2, 2, 2]), (Reset::OnMessage, [1, 2, 3, 4])] {
        let mut ledger = talking(&[Spec { reset, ..spec("nudge", 10, 2, says("?")) }]);
        let mut seen = Vec::new();
        for _ in 0..2 {
            for _ in 0..2 {
                ledger.now = ledger.now.plus(secs(10));
                ledger.fire_all();
                seen.push(ledger.session_timer("nudge").trigger_count);
            }
            assert_eq!(ledger.session_timer("nudge").status(), Status::Disabled);
            ledger.message(&[], None).expect("the user is back");
            ledger.response(None).expect("an answer");
        }
        assert_eq!(seen, counts, "{reset:?}");
    }
}

#[test]
fn an_agent_that_goes_on_by_itself_is_no_user_that_returns() {
    let mut ledger = talking(&[
        Spec { reset: Reset::OnMessage, ..spec("nudge", 10, 1, says("?")) },
        Spec { reset: Reset::OnMessage, ..spec("twice", 20, 2, says("??")) },
    ]);
    ledger.now = ledger.now.plus(secs(20));
    ledger.fire_all();
    ledger.go_on("held").expect("it goes on");
    assert_eq!(look(&ledger, "nudge").0, Status::Disabled, "what is used up stays so");
    assert!(ledger.session_timer("twice").is_suspended());
    ledger.response(Some("held")).expect("it ends");
    ledger.now = ledger.now.plus(secs(20));
    ledger.fire_all();
    let counts = ["nudge", "twice"].map(|name| ledger.session_timer(name).trigger_count);
    assert_eq!(counts, [1, 2], "silence began anew, with the budget there was");
    assert_eq!(look(&ledger, "twice").0, Status::Disabled);
}

#[test]
fn an_agent_that_goes_on_does_not_take_over_what_it_was_asked() {
    let mut ledger = talking(&[spec("nudge", 10, 1, says("?"))]);
    ledger.message(&[], Some("asked")).expect("the user is back");
    ledger.go_on("held").expect("it goes on");
    ledger.response(Some("held")).expect("it ends");
    assert!(ledger.session_timer("nudge").is_suspended(), "the user still waits for an answer");
    ledger.response(Some("asked")).expect("an answer");
    assert!(!ledger.session_timer("nudge").is_suspended());
}

#[test]
fn one_that_waits_for_its_user_is_forgotten_in_the_end() {
    let limits = Limits { idle_session: secs(100), ..Limits::default() };
    let mut ledger = Ledger::with(limits);
    let reset = Reset::OnMessage;
    ledger.message(&[Spec { reset, ..spec("nudge", 10, 1, says("?")) }], None).expect("a session begins");
    ledger.response(None).expect("an answer");
    ledger.clock(10);
    ledger.fire_all();
    assert!(ledger.session_timer("nudge").is_live());
    ledger.clock(110);
    ledger.fire_all();
    assert_eq!(ledger.session_timer("nudge").ended_at(), Some(at(110)));
}

#[test]
fn no_limit_ends_when_nobody_returns() {
    for reset in [Reset::Session, Reset::OnMessage] {
        let mut ledger = Ledger::with(Limits { idle_session: secs(100), ..Limits::default() });
        ledger.message(&[Spec { reset, ..spec("nudge", 30, 0, says("?")) }], None).expect("a session begins");
        ledger.response(None).expect("an answer");
        for (second, status) in [(30, "triggered"), (60, "triggered"), (90, "triggered"), (120, "disabled")] {
            ledger.clock(second);
            ledger.fire_all();
            assert_eq!(ledger.session_timer("nudge").status().as_str(), status, "at {second}");
        }
        ledger.message(&[], None).expect("back after all");
        assert_eq!(ledger.session_timer("nudge").is_suspended(), reset == Reset::OnMessage);
    }
}

#[test]
fn no_limit_is_no_limit_and_what_was_missed_is_not_made_up_for() {
    let mut ledger = talking(&[spec("nudge", 10, 0, says("?"))]);
    for n in 1..50 {
        ledger.clock(2 + 10 * n);
        ledger.fire_all();
        assert_eq!(look(&ledger, "nudge"), (Status::Triggered, Some(12 + 10 * n), n as u32));
    }
    ledger.clock(5000);
    ledger.fire_all();
    assert_eq!(look(&ledger, "nudge"), (Status::Triggered, Some(5010), 50));
}

#[test]
fn a_changed_configuration_moves_nothing_that_runs() {
    let mut ledger = talking(&escalation());
    ledger.clock(10);
    let changed = [spec("idle_reminder", 1, 9, says("new")), spec("more", 1, 1, says("more"))];
    let timers = ledger.message(&changed, None).expect("the user is back");
    assert_eq!(timers.len(), 3);
    ledger.response(None).expect("an answer");
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Pending, Some(310), 0));
    // Not even if the agent is gone.
    let command = Command::Message {
        agent: AgentId::new(ledger::AGENT),
        timers: None,
        turn: None,
        said: Vec::new(),
        quiet: None,
    };
    ledger.ask(command.clone()).expect("the session goes on");
    assert_eq!(code(Ledger::new().ask(command)), "unknown_agent");
}

#[test]
fn a_patient_reminder_leaves_room_for_what_was_said() {
    let (mut said, mut expected) = (Vec::new(), Vec::new());
    let mut say = |name: String, role: Role, text: &str, timer: Option<&str>| {
        let mut one = utterance::Utterance::new(name, role, text, at(0));
        one.timer = timer.map(ItemId::new);
        said.push(one);
    };
    for turn in ["一", "二"] {
        say(format!("user {turn}"), Role::User, turn, None);
        say(format!("agent {turn}"), Role::Assistant, "好", None);
        for round in 0..100 {
            say(format!("a {turn} {round}"), Role::Assistant, "在吗？", Some("st_a"));
            say(format!("b {turn} {round}"), Role::Assistant, "还在吗？", Some("st_b"));
        }
        expected.extend([
            format!("user {turn}"),
            format!("agent {turn}"),
            format!("a {turn} 99"),
            format!("b {turn} 99"),
        ]);
    }
    let names =
        |max: usize| utterance::context(said.clone(), max).iter().map(|said| said.id.to_string()).collect::<Vec<_>>();
    assert_eq!(names(50), expected);
    assert_eq!(names(3), expected[5..]);
}

#[test]
fn an_answer_that_ends_the_session_is_one_commit() {
    let mut ledger = talking(&escalation());
    let url: std::sync::Arc<str> = "https://app.example/hook".into();
    let last = Command::LastResponse {
        agent: AgentId::new(ledger::AGENT),
        turn: None,
        said: vec![utterance::Utterance::new("said_1", Role::Assistant, "再见", ledger.now)],
        made: vec![call::Made { id: ItemId::new("call_1.0"), tool: "save".into(), attempts: 2, report: failed() }],
        notify: vec![(ItemId::new("hook_z"), url.clone())],
        notify_end: vec![(ItemId::new("hook_a"), url)],
        note: "done".into(),
    };
    ledger.ask(last).expect("it is over");
    assert!(ledger.session_timers.iter().all(|timer| timer.status() == Status::Cancelled));
    let mut told = ledger.calls.clone();
    told.sort_by_key(|call| call.seq);
    let told: Vec<String> = told.iter().map(|call| format!("{:?}", call.what)).collect();
    let noted = ledger.history.iter().find(|entry| entry.event == "call.failed").expect("what was called for it");
    assert_eq!((&noted.data["target"], &noted.data["attempts"]), (&json!("save"), &json!(2)));
    assert!(told.len() == 2 && told[0].contains("message.created") && told[1].contains("session.closed"), "{told:?}");
}

#[test]
fn a_session_has_one_agent_until_it_is_closed() {
    let mut ledger = talking(&escalation());
    let other = Command::Message {
        agent: AgentId::new("a:b"),
        timers: Some(vec![]),
        turn: None,
        said: Vec::new(),
        quiet: None,
    };
    assert_eq!(code(ledger.ask(other.clone())), "other_agent");
    ledger.close(None).expect("it is closed");
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Cancelled, None, 0));
    ledger.response(None).expect("an answer that comes too late is no error");
    assert_eq!(look(&ledger, "idle_reminder"), (Status::Cancelled, None, 0));
    ledger.ask(other).expect("a new life");
    assert_eq!(code(Ledger::new().response(None)), "unknown_session");
}

// Calls.

fn report(end: End) -> Report {
    Report { status: Some(200), took: Millis::new(12), end }
}

fn failed() -> Report {
    report(End::Failed { error: "不通".into(), retry_after: None })
}

/// A session whose timer has just fired a call; the call.
fn fired() -> (Ledger, ItemId) {
    let mut ledger = talking(&[spec("handoff", 60, 1, calls("handoff_to", false))]);
    ledger.clock(62);
    ledger.fire_all();
    let id = ledger.calls[0].id.clone();
    assert_eq!((ledger.calls[0].status(), ledger.calls[0].due()), (call::Status::Waiting, Some(at(62))));
    (ledger, id)
}

#[test]
fn a_call_is_begun_once_and_settled_by_its_report() {
    let (mut ledger, id) = fired();
    assert_eq!(ledger.fire(std::slice::from_ref(&id)).len(), 1);
    assert!(ledger.fire(std::slice::from_ref(&id)).is_empty(), "one attempt at a time");
    assert_eq!((ledger.calls[0].status(), ledger.calls[0].attempts), (call::Status::Running, 1));
    let done = ledger.call_ended(&id, 1, report(End::Done { result: "ok".into() })).expect("it is known");
    assert_eq!(done.status(), call::Status::Done);
    assert!(ledger.said.is_empty(), "a system action is silent");
    ledger.call_ended(&id, 1, failed()).expect("told twice");
    assert_eq!(ledger.calls[0].status(), call::Status::Done);
    assert_eq!(ledger.events(id.as_str()), ["call.done"]);
}

#[test]
fn an_agents_action_enters_the_context() {
    let action = Action::Call { tool: "read".into(), arguments: Map::new(), silent: false, closes: false };
    let mut ledger = talking(&[spec("read", 60, 1, action)]);
    ledger.clock(62);
    ledger.fire_all();
    let id = ledger.calls[0].id.clone();
    ledger.fire(std::slice::from_ref(&id));
    ledger.call_ended(&id, 1, report(End::Done { result: "{\"name\":\"李雷\"}".into() })).expect("it is known");
    let roles: Vec<Role> = ledger.said.iter().map(|said| said.role).collect();
    assert_eq!(roles, [Role::Assistant, Role::Tool]);
    assert_eq!(ledger.said[1].answers.as_deref(), Some(ledger.said[0].calls[0].id.as_str()));
}

#[test]
fn failures_wait_longer_and_longer_and_end() {
    let (mut ledger, id) = fired();
    let mut now = 62;
    for (attempt, wait) in [(1, Some(1)), (2, Some(2)), (3, Some(4)), (4, None)] {
        ledger.fire(std::slice::from_ref(&id));
        let call = ledger.call_ended(&id, attempt, failed()).expect("it is known");
        assert_eq!(call.due(), wait.map(|wait| at(now + wait)), "after attempt {attempt}");
        now += wait.unwrap_or_default();
        ledger.clock(now);
    }
    assert_eq!(ledger.calls[0].status(), call::Status::Failed);
    assert_eq!(ledger.calls[0].last.as_ref().and_then(|last| last.error.as_deref()), Some("不通"));
    let events = ["call.retried", "call.retried", "call.retried", "call.failed"];
    assert_eq!(ledger.events(id.as_str()), events);
    // Asked for again by somebody.
    ledger.ask(Command::ReplayCall { id: id.clone() }).expect("it failed");
    assert_eq!(ledger.calls[0].due(), Some(ledger.now));
    assert_eq!(code(ledger.ask(Command::ReplayCall { id })), "call_not_failed");
    assert_eq!(code(ledger.ask(Command::ReplayCall { id: ItemId::new("call_x") })), "unknown_call");
}

#[test]
fn what_the_endpoint_says_about_trying_again_counts() {
    let (mut ledger, id) = fired();
    ledger.fire(std::slice::from_ref(&id));
    let patient = report(End::Failed { error: "busy".into(), retry_after: Some(secs(30)) });
    assert_eq!(ledger.call_ended(&id, 1, patient).expect("it is known").due(), Some(at(92)));
    ledger.clock(92);
    ledger.fire(std::slice::from_ref(&id));
    let refused = report(End::Refused { error: "404".into() });
    assert_eq!(ledger.call_ended(&id, 2, refused).expect("it is known").status(), call::Status::Failed);
}

#[test]
fn an_attempt_nobody_reports_on_was_lost() {
    let (mut ledger, id) = fired();
    let lease = Limits::default().call_lease;
    for attempt in 1..=4 {
        assert_eq!(ledger.fire(std::slice::from_ref(&id)).len(), 1);
        assert_eq!(ledger.calls[0].attempts, attempt);
        ledger.now = ledger.now.plus(lease);
    }
    // Late, but nobody has begun another: it counts.
    let mut late = ledger.calls[0].clone();
    assert!(late.ended(4, &report(End::Done { result: String::new() }), ledger.now, &ledger.limits));
    ledger.fire(std::slice::from_ref(&id));
    assert_eq!(ledger.calls[0].status(), call::Status::Failed);
}

#[test]
fn without_room_an_attempt_is_put_off_and_does_not_count() {
    let (mut ledger, id) = fired();
    ledger.fire(std::slice::from_ref(&id));
    let call = ledger.call_ended(&id, 1, report(End::Postponed { after: None })).expect("it is known");
    assert_eq!((call.attempts, call.status()), (0, call::Status::Waiting));
    assert!(call.due() > Some(ledger.now));
}

#[test]
fn closing_calls_off_what_waits_and_not_what_is_under_way() {
    for (running, expected) in [(false, call::Status::Cancelled), (true, call::Status::Running)] {
        let (mut ledger, id) = fired();
        if running {
            ledger.fire(std::slice::from_ref(&id));
        }
        // Not overdue any more, but waiting for its second attempt.
        if !running {
            ledger.fire(std::slice::from_ref(&id));
            ledger.call_ended(&id, 1, failed()).expect("it is known");
        }
        ledger.close(None).expect("it is closed");
        assert_eq!(ledger.calls[0].status(), expected);
    }
}

#[test]
fn what_is_under_way_when_its_session_ends_is_not_made_again() {
    let postponed = || report(End::Postponed { after: None });
    for (end, expected, event) in [
        (Some(failed()), call::Status::Failed, "call.failed"),
        (Some(postponed()), call::Status::Cancelled, "call.cancelled"),
        // Nobody reports on it.
        (None, call::Status::Failed, "call.failed"),
    ] {
        let (mut ledger, id) = fired();
        ledger.fire(std::slice::from_ref(&id));
        ledger.close(None).expect("it is closed");
        match end {
            Some(report) => drop(ledger.call_ended(&id, 1, report).expect("it is known")),
            None => {
                ledger.now = ledger.now.plus(ledger.limits.call_lease);
                ledger.fire(std::slice::from_ref(&id));
            }
        }
        assert_eq!((ledger.calls[0].status(), ledger.calls[0].due()), (expected, None), "{event}");
        assert!(ledger.history.iter().any(|entry| entry.event == event), "{event}");
    }
    // Whoever asks for it gets all its attempts again.
    let (mut ledger, id) = fired();
    ledger.fire(std::slice::from_ref(&id));
    ledger.close(None).expect("it is closed");
    ledger.call_ended(&id, 1, failed()).expect("it is known");
    ledger.ask(Command::ReplayCall { id: id.clone() }).expect("it failed");
    ledger.fire(std::slice::from_ref(&id));
    ledger.call_ended(&id, 1, failed()).expect("it is known");
    assert_eq!(ledger.calls[0].status(), call::Status::Waiting);
}

#[test]
fn webhooks_are_told_with_the_firing() {
    let notify = vec!["https://hooks.example/a".into()];
    let mut ledger = talking(&[
        Spec { notify: notify.clone(), ..spec("say", 60, 1, says("在吗？")) },
        Spec { notify, ..spec("close", 90, 1, Action::Close) },
    ]);
    ledger.clock(62);
    ledger.fire_all();
    assert_eq!(ledger.calls.len(), 1);
    let call::What::Webhook { event, data, .. } = &ledger.calls[0].what else { panic!("{:?}", ledger.calls) };
    assert_eq!((event.as_str(), &data["text"]), ("message.created", &json!("在吗？")));
    ledger.clock(92);
    ledger.fire_all();
    let open: Vec<&Timestamp> =
        ledger.calls.iter().filter(|call| call.is_live()).map(|call| &call.created_at).collect();
    assert_eq!(open.len(), 3, "closing does not call off what tells of it: {:?}", ledger.calls);
}
