//! Sessions of agents: their timers, the calls these make, what was said, and the agents themselves.

use crate::drive::*;
use reveille_core::{
    AgentId, Command, Kind, Needs,
    call::End,
    command::Select,
    session_timer::{Action, Status},
    utterance::Role,
};
use reveille_store::{ItemFilter, Store, StoredAgent};
use std::sync::Arc;

pub async fn an_agents_session_is_stored_fired_and_settled(store: &Arc<dyn Store>) {
    let specs = vec![spec("st_say", 300, 2, says("您好🙂")), spec("st_call", 600, 1, calls("handoff_to", false))];
    run(&**store, "a", message(specs.clone(), "在吗", at(0)), at(0)).await;
    assert_eq!(loaded(&**store, "a", Select::LiveOf(Kind::SessionTimer)).await, ["st_say", "st_call"]);
    let session = store.load(&sid("a"), Needs::default()).await.unwrap().session.unwrap();
    assert_eq!(session.agent, Some(AgentId::new(AGENT)));
    run(&**store, "a", response("在的", at(5)), at(5)).await;
    assert_eq!(store.deadlines(9).await.unwrap(), [(at(305), iid("st_say")), (at(605), iid("st_call"))]);
    let state = store.load(&sid("a"), Needs { items: Select::Live, ..Needs::default() }).await.unwrap();
    assert_eq!(state.items[0].as_session_timer().unwrap().spec, specs[0].1, "the snapshot comes back whole");

    run(&**store, "a", fire(&["st_say"]), at(305)).await;
    run(&**store, "a", fire(&["st_say", "st_call"]), at(605)).await;
    let call = ItemFilter { kind: Some(Kind::Call), ..every_item() };
    assert_eq!(found_ids(&**store, call.clone()).await, ["call_st_call.1"]);
    assert_eq!(store.deadlines(1).await.unwrap(), [(at(605), iid("call_st_call.1"))]);
    run(&**store, "a", fire(&["call_st_call.1"]), at(605)).await;
    run(&**store, "a", call_ended("call_st_call.1", 1, End::Done { result: "好".into() }), at(606)).await;
    let (_, state) = store.load_items(iids(&["call_st_call.1"])).await.unwrap().pop().unwrap();
    assert_eq!(state.items[0].status(), "done");
    let roles = async || {
        let said = store.conversation(&sid("a"), ALL).await.unwrap();
        said.iter().map(|said| said.role).collect::<Vec<_>>()
    };
    let spoken = [Role::User, Role::Assistant, Role::Assistant, Role::Assistant, Role::Assistant, Role::Tool];
    assert_eq!(roles().await, spoken);
    let tallies = store.tallies().await.unwrap();
    assert_eq!((tallies["session_timers.fired"], tallies[&format!("session_timers.fired {AGENT}")]), (3, 3));
    let disabled = ItemFilter { statuses: vec!["disabled".into()], kind: Some(Kind::SessionTimer), ..every_item() };
    assert_eq!(found_ids(&**store, disabled).await, ["st_call", "st_say"]);
}

pub async fn what_ends_a_session_comes_with_all_of_it(store: &Arc<dyn Store>) {
    let specs = vec![spec("st_say", 60, 0, says("?")), spec("st_close", 90, 1, Action::Close)];
    run(&**store, "a", message(specs, "x", at(0)), at(0)).await;
    run(&**store, "a", response("y", at(0)), at(0)).await;
    run(&**store, "a", wait("timer_1", "x", 30), at(0)).await;
    run(&**store, "a", wait("timer_2", "x", 3000), at(0)).await;
    run(&**store, "a", remind("task_1", "x", at(5000)), at(0)).await;
    run(&**store, "a", fire(&["timer_1"]), at(30)).await;
    let counts = async |ids: &[&str]| {
        let (_, state) = store.load_items(iids(ids)).await.unwrap().pop().unwrap();
        let select = Needs { items: Select::Fired(iids(ids)), inbox: true, key: None };
        let loaded = store.load(&sid("a"), select).await.unwrap();
        assert_eq!(state.items, loaded.items, "both ways to load it");
        (state.items.len(), state.inbox.len())
    };
    assert_eq!(counts(&["st_say"]).await, (1, 0));
    assert_eq!(counts(&["st_close"]).await, (4, 1));
    run(&**store, "a", fire(&["st_close"]), at(90)).await;
    assert_eq!(loaded(&**store, "a", Select::Live).await, [""; 0]);
    let (_, state) = store.load_items(iids(&["st_say"])).await.unwrap().pop().unwrap();
    let timer = state.items[0].as_session_timer().unwrap();
    assert_eq!((timer.status(), state.session.unwrap().state.as_str()), (Status::Cancelled, "closed"));
}

pub async fn a_conversation_is_kept_in_order_and_apart(store: &Arc<dyn Store>) {
    for n in 0..5 {
        run(&**store, "a", message(vec![], &format!("第{n}句"), at(n)), at(n)).await;
        run(&**store, "b", message(vec![], "other", at(n)), at(n)).await;
    }
    let latest = store.conversation(&sid("a"), 2).await.unwrap();
    let latest: Vec<&str> = latest.iter().map(|said| said.content.as_str()).collect();
    assert_eq!(latest, ["第3句", "第4句"]);
    assert_eq!(store.conversation(&sid("a"), ALL).await.unwrap().len(), 5);
    assert!(store.conversation(&sid("nobody"), ALL).await.unwrap().is_empty());
}

pub async fn a_conversation_goes_with_its_session(store: &Arc<dyn Store>) {
    run(&**store, "old", message(vec![], "x", at(0)), at(0)).await;
    run(&**store, "busy", message(vec![], "x", at(0)), at(0)).await;
    run(&**store, "busy", Command::Record { event: "session.x", data: serde_json::json!({}) }, at(100)).await;
    purge_all(&**store, at(50), ALL).await;
    assert_eq!(store.conversation(&sid("busy"), ALL).await.unwrap().len(), 1, "still talked in");
    let needs = Needs::default();
    assert!(store.load(&sid("old"), needs).await.unwrap().session.is_none());
    run(&**store, "old", message(vec![], "again", at(200)), at(200)).await;
    assert_eq!(store.conversation(&sid("old"), ALL).await.unwrap().len(), 1, "a new life");
}

pub async fn agents_are_set_replaced_and_removed(store: &Arc<dyn Store>) {
    let (one, two) = (AgentId::new("a:一"), AgentId::new("b:x"));
    let stored = |body: &str, seconds| Some(StoredAgent { body: body.into(), changed_at: at(seconds) });
    assert_eq!(store.agent(&one).await.unwrap(), None);
    assert!(!store.set_agent(&two, stored("{}", 1)).await.unwrap());
    assert!(!store.set_agent(&one, stored("{\"x\":\"旧\"}", 2)).await.unwrap());
    assert!(store.set_agent(&one, stored("{\"x\":\"新\"}", 3)).await.unwrap());
    assert_eq!(store.agent(&one).await.unwrap(), stored("{\"x\":\"新\"}", 3));
    let names: Vec<String> = store.agents().await.unwrap().iter().map(|(id, _)| id.to_string()).collect();
    assert_eq!(names, ["a:一", "b:x"]);
    assert!(store.set_agent(&one, None).await.unwrap());
    assert!(!store.set_agent(&one, None).await.unwrap());
    assert_eq!(store.agents().await.unwrap().len(), 1);
}
