//! `feed`: what was committed, in the order in which it was, and nothing else.

use crate::drive::*;
use reveille_store::{Committed, Feed, Store};
use std::sync::Arc;

/// What has arrived. A commit is told before it is answered, so nothing has to be waited for.
fn heard(feed: &mut Feed) -> Vec<Arc<Committed>> {
    std::iter::from_fn(|| feed.try_recv().ok()).flat_map(|news| news.commits().to_vec()).collect()
}

pub async fn the_feed_has_the_order_and_the_numbers_of_the_commits(store: &Arc<dyn Store>) {
    let mut feed = store.feed();
    let mut batches = Vec::new();
    for number in 0..60 {
        // Every fifth is a rival for a session that exists by then, and must not be heard of.
        let session = if number % 5 == 4 { "s0".to_owned() } else { format!("s{number}") };
        batches.push(batch(&**store, &session, mission(&format!("timer_{number}"), "x", 600), at(number)).await);
    }
    store.commit(batches[0].clone()).await.unwrap();
    let answers = commit_together(store, batches.split_off(1)).await;
    for number in 0..10 {
        run(&**store, "s0", wait(&format!("timer_again_{number}"), "x", 600), at(100 + number)).await;
    }

    let heard = heard(&mut feed);
    assert_eq!(heard.len(), 1 + 47 + 10);
    let mut next = 1;
    for committed in &heard {
        assert_eq!(committed.first_seq, next, "each goes on where the one before ended");
        next += committed.batch.history.len() as i64;
    }
    let told: Vec<_> = heard.iter().flat_map(|committed| committed.recorded()).collect();
    assert_eq!(history(&**store).await, told, "the feed and the history are the same");
    for answer in answers.into_iter().flatten() {
        assert!(heard.contains(&answer), "what was answered was told");
    }
}

pub async fn every_feed_hears_what_is_committed_from_then_on(store: &Arc<dyn Store>) {
    run(&**store, "a", wait("timer_1", "x", 600), at(0)).await;
    let mut early = store.feed();
    let dropped = store.feed();
    run(&**store, "a", wait("timer_2", "x", 600), at(1)).await;
    drop(dropped);
    let mut late = store.feed();
    run(&**store, "b", wait("timer_3", "x", 600), at(2)).await;
    // Reading, refused batches and purging are not heard of.
    let taken = batch(&**store, "a", wait("timer_1", "x", 600), at(3)).await;
    assert!(store.commit(taken).await.is_err());
    picture(&**store).await;
    store.purge(at(3), ALL).await.unwrap();

    let ids = |heard: &[Arc<Committed>]| -> Vec<String> {
        heard.iter().flat_map(|one| &one.batch.items).map(|write| write.item().id().to_string()).collect()
    };
    let (early, late) = (heard(&mut early), heard(&mut late));
    assert_eq!(ids(&early), ["timer_2", "timer_3"]);
    assert_eq!(ids(&late), ["timer_3"]);
}
