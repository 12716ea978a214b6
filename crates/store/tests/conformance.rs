//! Guards the contract of [`reveille_store::Store`]: one suite for every backend. A further backend is one line at the
//! end of this file; a case that is missing from the table below is dead code and fails the lint.

#![allow(clippy::unwrap_used)]

#[path = "conformance/calendar.rs"]
mod calendar;
#[path = "conformance/commit.rs"]
mod commit;
mod drive;
#[path = "conformance/feed.rs"]
mod feed;
#[path = "conformance/lists.rs"]
mod lists;
#[path = "conformance/load.rs"]
mod load;
#[path = "conformance/purge.rs"]
mod purge;
#[path = "conformance/reminders.rs"]
mod reminders;
#[path = "conformance/sessions.rs"]
mod sessions;
#[path = "conformance/text.rs"]
mod text;

use reveille_store::{MemoryStore, PostgresOptions, PostgresStore, SqliteStore, Store};
use scratch_postgres::Cluster;
use std::sync::Arc;
use tempfile::TempDir;

/// A new, empty store, and what has to outlive it.
struct Fresh {
    store: Arc<dyn Store>,
    _directory: Option<TempDir>,
}

async fn fresh_memory() -> Fresh {
    Fresh { store: Arc::new(MemoryStore::new("srv_test")), _directory: None }
}

async fn fresh_sqlite() -> Fresh {
    let directory = drive::scratch();
    let store = SqliteStore::open(&directory.path().join("reveille.db"), None, "srv_test").unwrap();
    Fresh { store: Arc::new(store), _directory: Some(directory) }
}

async fn fresh_postgres() -> Fresh {
    let options = PostgresOptions::new(Cluster::shared().database());
    let store = PostgresStore::open(&options, None, "srv_test").await.unwrap();
    Fresh { store: Arc::new(store), _directory: None }
}

macro_rules! backend {
    ($backend:ident = $fresh:ident) => {
        mod $backend {
            backend! { $fresh =>
                commit::a_batch_is_written_whole
                commit::a_batch_for_a_session_that_exists_by_now_is_stale
                commit::a_batch_for_a_session_that_does_not_exist_is_stale
                commit::a_batch_on_another_version_is_stale
                commit::a_stale_batch_of_any_kind_writes_nothing
                commit::work_decided_again_after_a_conflict_succeeds
                commit::of_many_decisions_on_one_version_one_is_written
                commit::a_taken_id_is_refused_and_nothing_written
                commit::two_new_items_of_one_batch_cannot_share_an_id
                commit::a_request_key_is_new_in_its_session
                commit::a_refused_batch_harms_no_other_in_its_group
                commit::what_is_delivered_stays_delivered
                reminders::a_reminder_is_stored_told_and_delivered
                reminders::what_a_lease_settles_is_loaded_with_it
                reminders::a_withdrawn_message_is_gone_and_no_other
                reminders::the_inbox_comes_with_what_depends_on_it
                reminders::kinds_are_listed_and_loaded_apart
                sessions::an_agents_session_is_stored_fired_and_settled
                sessions::what_ends_a_session_comes_with_all_of_it
                sessions::a_conversation_is_kept_in_order_and_apart
                sessions::a_conversation_goes_with_its_session
                sessions::agents_are_set_replaced_and_removed
                calendar::quiet_hours_are_kept_changed_and_taken_away
                calendar::what_follows_the_calendar_is_stored_and_fired
                load::a_session_that_does_not_exist_is_empty
                load::only_what_is_needed_is_loaded
                load::items_by_id_come_in_the_order_asked_for
                load::items_of_another_session_are_not_loaded
                load::live_items_come_in_the_order_of_creation
                load::recent_items_are_the_live_ones_and_the_latest_ended
                load::the_inbox_is_undelivered_messages_oldest_first
                load::a_key_finds_its_item_in_its_own_session_only
                load::items_are_loaded_with_their_sessions
                lists::deadlines_come_in_order_and_no_more_than_asked_for
                lists::items_are_filtered
                lists::items_come_newest_first_page_by_page
                lists::items_come_soonest_first_if_wanted
                lists::what_waits_for_a_condition_is_found
                lists::sessions_come_newest_first_page_by_page
                lists::sessions_that_wait_to_be_told_are_found
                lists::history_is_filtered
                lists::history_of_one_thing_is_found_wherever_it_is
                lists::history_is_read_in_both_directions
                lists::tallies_are_the_sums_of_what_was_committed
                lists::what_happened_is_counted_by_the_hour
                feed::the_feed_has_the_order_and_the_numbers_of_the_commits
                feed::every_feed_hears_what_is_committed_from_then_on
                purge::live_items_stay
                purge::ended_items_go_when_they_are_older
                purge::undelivered_messages_of_open_sessions_stay
                purge::undelivered_messages_of_closed_sessions_go
                purge::a_session_counts_no_messages_that_are_gone
                purge::delivered_messages_go
                purge::the_newest_history_entry_stays_and_numbers_go_on
                purge::empty_old_sessions_go_and_their_names_can_be_used_again
                purge::no_more_than_the_limit_goes_at_once
                purge::counters_stay
                purge::a_session_that_comes_back_meanwhile_keeps_its_messages
                text::every_script_comes_back_as_written
                text::names_are_compared_exactly
                text::very_long_text_is_kept
                text::extreme_times_are_kept
            }
        }
    };
    ($fresh:ident => $($area:ident::$case:ident)+) => {$(
        #[tokio::test]
        async fn $case() {
            let fresh = super::$fresh().await;
            assert_eq!(fresh.store.server_id(), "srv_test");
            super::$area::$case(&fresh.store).await;
        }
    )+};
}

backend!(memory = fresh_memory);
backend!(sqlite = fresh_sqlite);
backend!(postgres = fresh_postgres);
