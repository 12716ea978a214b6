//! Timers that follow the calendar, and quiet hours.

use crate::drive::*;
use reveille_core::{Command, Needs, command::Select};
use reveille_store::Store;
use std::sync::Arc;

pub async fn quiet_hours_are_kept_changed_and_taken_away(store: &Arc<dyn Store>) {
    let kept = async || store.load(&sid("a"), Needs::default()).await.unwrap().session.unwrap().quiet.own;
    let night = quiet("22:00", "07:30");
    run(&**store, "a", wait("timer_1", "x", 600), at(0)).await;
    assert_eq!(kept().await, None);
    for now in [Some(night.clone()), Some(quiet("12:00", "13:00")), None, Some(night.clone())] {
        run(&**store, "a", Command::SetQuiet { quiet: now.clone() }, at(1)).await;
        assert_eq!(kept().await, now);
    }
    run(&**store, "a", pause("timer_1", 60), at(2)).await;
    assert_eq!(kept().await, Some(night.clone()), "kept by whatever else is written");
    run(&**store, "b", Command::SetQuiet { quiet: Some(night.clone()) }, at(3)).await;
    let (_, state) = store.load_items(iids(&["timer_1"])).await.unwrap().pop().unwrap();
    assert_eq!(state.session.unwrap().quiet.own, Some(night.clone()), "also where items are loaded");
    let listed = picture(&**store).await.sessions;
    assert!(listed.iter().all(|session| session.quiet.own == Some(night.clone())), "and in lists: {listed:?}");
}

pub async fn what_follows_the_calendar_is_stored_and_fired(store: &Arc<dyn Store>) {
    run(&**store, "a", plan("timer_every", every("10m", Some(2))), at(0)).await;
    run(&**store, "a", plan("timer_cron", every("0 9 * * mon", None)), at(0)).await;
    let stored = async || {
        let needs = Needs { items: Select::Recent, ..Needs::default() };
        store.load(&sid("a"), needs).await.unwrap().items
    };
    let timers = stored().await;
    let schedules: Vec<_> = timers.iter().map(|item| item.as_timer().unwrap().schedule.clone()).collect();
    assert!(schedules.iter().all(Option::is_some), "{schedules:?}");
    assert_eq!(store.deadlines(1).await.unwrap(), [(at(600), iid("timer_every"))]);

    run(&**store, "a", fire(&["timer_every"]), at(600)).await;
    assert_eq!(store.deadlines(1).await.unwrap(), [(at(1200), iid("timer_every"))], "armed again by its firing");
    run(&**store, "a", fire(&["timer_every"]), at(1200)).await;
    assert_eq!(loaded(&**store, "a", Select::Live).await, ["timer_cron"]);
    assert_eq!(inbox(&**store, "a").await.len(), 2);
    let fires = stored().await.iter().find_map(|item| {
        let timer = item.as_timer().filter(|timer| timer.id.as_str() == "timer_every")?;
        timer.schedule.as_deref()?.recurrence().map(|recurrence| recurrence.fires)
    });
    assert_eq!(fires, Some(2));
}
