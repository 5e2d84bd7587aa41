//! The SQLite engine against the suite: the committed list of its cases. Here a further handle is another store over the same
//! file, with threads and connections of its own, and a write mark is what another connection sees of commits and of the log.

use std::sync::Arc;

use fencepost_conformance::{End, Harness, Step, StepOutcome};
use fencepost_core::{Error, Kind, ManualClock, Result, Store};
use fencepost_sqlite::rusqlite::Connection;
use fencepost_sqlite::{SqliteOptions, SqliteStore, WriteTransaction};
use tempfile::TempDir;

struct Sqlite {
    folder: TempDir,
    store: SqliteStore,
    clock: Arc<ManualClock>,
    witness: std::sync::Mutex<Connection>,
}

fn options(clock: &Arc<ManualClock>) -> SqliteOptions {
    SqliteOptions::default().create(true).clock(clock.clone())
}

async fn open() -> Option<Sqlite> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let clock = Arc::new(ManualClock::default());
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path, options(&clock)).await.expect("a fresh store opens");
    let witness = Connection::open(path).expect("a witness connects").into();
    Some(Sqlite { folder, store, clock, witness })
}

fn run(tx: &WriteTransaction<'_, '_>, step: Step) -> Result<StepOutcome> {
    Ok(match step {
        Step::Send { queue, message } => StepOutcome::Sent(tx.send_in(&queue, message)?),
        Step::SendOnce { queue, message, key, ttl } => {
            StepOutcome::SentOnce(tx.send_once_in(&queue, message, &key, ttl)?)
        }
        Step::Ack { token, batch } => StepOutcome::Acked(tx.ack_in(&token, batch)?),
        Step::Release { token } => StepOutcome::Released(tx.release_in(&token)?),
        Step::Guard { token } => tx.guard_in(&token).map(|()| StepOutcome::Guarded)?,
        Step::Notify { channel, payload } => tx.notify_in(&channel, &payload).map(|()| StepOutcome::Notified)?,
        Step::SlotGuard { token } => tx.slot_guard_in(&token).map(|()| StepOutcome::Guarded)?,
        Step::Ignoring(step) => run(tx, *step).unwrap_or(StepOutcome::Ignored),
    })
}

#[async_trait::async_trait]
impl Harness for Sqlite {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn another(&self) -> Arc<dyn Store> {
        let store = SqliteStore::open(self.folder.path().join("store.db"), options(&self.clock)).await;
        Arc::new(store.expect("the store opens again"))
    }

    fn clock(&self) -> Arc<ManualClock> {
        self.clock.clone()
    }

    async fn settle(&self) {}

    async fn write_mark(&self) -> u64 {
        let witness = self.witness.lock().expect("no panic while the witness looks");
        let commits: u32 =
            witness.query_row("PRAGMA data_version", [], |row| row.get(0)).expect("the witness sees commits");
        let log = std::fs::metadata(self.folder.path().join("store.db-wal")).map_or(0, |log| log.len());
        u64::from(commits) << 32 | log
    }

    async fn transact(&self, steps: Vec<Step>, end: End) -> Result<Vec<StepOutcome>> {
        // The outcomes of a rolled back transaction leave the closure by the side.
        let (tell, told) = std::sync::mpsc::channel();
        let ended = self
            .store
            .write(move |tx| {
                let outcomes: Vec<StepOutcome> = steps.into_iter().map(|step| run(tx, step)).collect::<Result<_>>()?;
                let _ = tell.send(outcomes);
                match end {
                    End::Commit => Ok(()),
                    End::Rollback => Err(Error::new(Kind::Internal, "rolled back as asked").coded("rollback_asked")),
                }
            })
            .await;
        match ended {
            Err(error) if error.code() != "rollback_asked" => Err(error),
            _ => Ok(told.try_recv().expect("the closure has told its outcomes")),
        }
    }
}

fencepost_conformance::suite! {
    harness: open;

    batches {
        a27_the_second_ack_of_the_last_batch_is_zero: run,
        a27_the_ack_of_another_batch_is_a_conflict: run,
        a38_what_did_not_fit_comes_next: run,
        the_open_batch_comes_again_whatever_max_is: run,
        max_one_gives_one_message_at_a_time: run,
        a_slot_receives_its_own_partitions_only: run,
        the_order_of_a_key_holds_across_batches_and_slots: run,
        two_consumers_each_see_every_message: run,
        a44_a_backlog_comes_in_batches_of_at_most_max: run,
        a_backlog_comes_in_batches_of_at_most_max: run,
    }
    claims {
        a25_a_live_slot_is_not_granted_to_the_same_worker_name: run,
        a25_the_same_claim_slot_with_the_same_nonce_returns_the_stored_grant: run,
        the_same_claim_with_the_same_nonce_returns_the_stored_grant: run,
        the_stored_grant_comes_before_a_free_slot: run,
        the_nonce_of_an_expired_grant_counts_for_nothing: run,
        the_nonce_of_a_released_grant_counts_for_nothing: run,
        claims_grant_every_slot_once: run,
        forty_claims_of_one_slot_at_once_grant_exactly_one: run,
    }
    clocks {
        a_clock_turned_back_neither_steals_nor_freezes_a_slot: run,
        a_handle_opened_after_the_clock_was_turned_back_steals_nothing: run,
        a_clock_turned_back_neither_steals_nor_freezes_a_lease: run,
        every_handle_tells_the_same_time: run,
    }
    consumers {
        a36_epochs_rise_across_drop_and_re_creation_of_a_consumer: run,
        a37_drop_with_a_live_owner_is_a_conflict: run,
        a37_drop_with_an_open_batch_is_refused: run,
        a37_drop_with_an_orphan_batch_is_refused: run,
        a37_after_a_forced_drop_the_old_owner_owns_nothing: run,
        a37_what_was_set_aside_goes_with_its_consumer: run,
        a_refused_drop_names_the_first_slot_and_keeps_all: run,
        a_drop_of_an_absent_consumer_is_absent: run,
        a_drop_leaves_the_others_alone: run,
        a39_a_late_consumer_from_the_earliest_gets_all: run,
        a39_a_late_consumer_from_the_latest_gets_what_comes_after: run,
        a_consumer_with_the_same_settings_existed: run,
        a_consumer_with_other_settings_is_a_conflict: run,
        a_consumer_with_another_policy_is_a_conflict: run,
        more_slots_than_partitions_are_refused: run,
        statuses_tell_of_every_consumer_and_slot: run,
        b31_statuses_tell_since_when_messages_wait: run,
    }
    dead_letters {
        a_dead_letter_that_would_be_passed_over_stays_dead: run,
        dead_letters_are_listed_by_id_in_pages: run,
        a_replay_of_all_brings_them_again_in_order: run,
        a_replay_by_id_can_be_repeated: run,
        a_replayed_message_can_die_again: run,
        replayed_messages_of_a_key_keep_their_order: run,
        a_replayed_message_waits_for_an_earlier_one_of_its_key: run,
        a_replay_beside_an_open_batch_keeps_the_order_of_its_key: run,
        a_purge_removes_for_good: run,
        dead_letters_outlive_their_consumer: run,
        a_consumer_made_again_gets_the_old_dead_letters: run,
        a_consumer_made_again_gets_what_the_log_does_not_have: run,
        dead_letters_go_with_their_queue: run,
        a_dead_letter_outlives_its_message_in_the_log: run,
        a_dead_letter_is_kept_for_ninety_days: run,
        b31_dead_letters_belong_to_their_consumer: run,
    }
    delays {
        a49_a_delayed_message_gets_its_place_when_it_is_due: run,
        a49_a_consumer_made_in_between_gets_a_delayed_message: run,
        a49_a_delayed_message_can_be_retried: run,
        delayed_messages_get_their_places_by_when_they_are_due: run,
        a_delay_that_has_passed_is_none: run,
        b24_a_delayed_message_wakes_who_waits: run,
        a_delayed_message_keeps_its_queue_in_use: run,
        an_expired_message_is_not_handed_out: run,
        a_message_handed_out_in_time_stays_with_its_batch: run,
        what_was_expired_at_issue_stays_out_of_the_batch: run,
        a_message_expires_after_it_is_due_or_not_at_all: run,
    }
    dispositions {
        a20_a_batch_nacked_whole_is_released_after_its_ack: run,
        a26_the_heir_does_not_run_what_was_nacked: run,
        a52_a_batch_nacked_whole_settles_for_the_heir: run,
        a52_a_batch_nacked_whole_leaves_the_slot_without_a_batch: run,
        a_disposition_takes_effect_with_the_ack: run,
        the_last_disposition_counts: run,
        a_snooze_spends_no_attempt: run,
        a_message_out_of_attempts_is_dead: run,
        a_rejected_message_is_dead_at_once: run,
        a_nack_without_a_time_follows_the_backoff: run,
        a_disposition_in_another_batch_is_a_conflict: run,
        a_disposition_of_a_message_of_no_batch_is_not_found: run,
    }
    dropped {
        calls_on_a_slot_may_be_dropped_at_every_await: run,
        sends_may_be_dropped_at_every_await: run,
        calls_on_queues_and_consumers_may_be_dropped_at_every_await: run,
    }
    fences {
        a09_a_claim_after_expiry_is_granted_with_a_higher_epoch: run,
        a10_the_heir_receives_the_same_batch: run,
        a11_a_late_owner_is_fenced: run,
        a11_whoever_does_not_own_the_slot_is_fenced: run,
        a12_a_late_owner_gives_back_and_renews_nothing: run,
        a15_a_receive_past_half_the_ttl_renews: run,
        a15_the_receive_that_opens_a_batch_past_half_the_ttl_renews: run,
        a16_an_ack_past_half_the_ttl_renews: run,
        a16_a_disposition_past_half_the_ttl_renews: run,
        a16_ack_receive_past_half_the_ttl_renews: run,
        a17_an_expired_owner_acks_when_nobody_took_over: run,
        a17_an_expired_owner_renews_when_nobody_took_over: run,
        a18_the_batch_of_a_vanished_owner_is_taken_over: run,
        a34_the_older_of_two_processes_with_one_worker_name_is_fenced: run,
        deliveries_and_crashes_are_counted_per_takeover: run,
        takeover_without_a_batch_is_a_fresh_grant: run,
    }
    fires {
        a_fire_sends_and_goes_on: run,
        ticks_of_many_schedules_are_answered_at_their_places: run,
        b12_missed_times_fire_as_the_tick_says: run,
        each_nominal_time_fires_once: run,
        b08_a_fenced_leader_fires_nothing: run,
        a_tick_of_what_is_no_more_changes_nothing: run,
        b11_a_schedule_whose_queue_is_gone_is_reported: run,
        b11_a_problem_stops_its_schedule_alone: run,
        the_history_of_a_schedule_is_bounded: run,
    }
    idle {
        a42_a_minute_of_idle_polling_writes_nothing: run,
        a42_polling_while_messages_are_set_aside_writes_nothing: run,
        a42_an_empty_receive_never_renews: run,
        a42_one_heartbeat_renews_all_slots_of_a_worker: run,
        statuses_write_nothing: run,
        every_refusal_writes_nothing: run,
    }
    isolation {
        a40_a_crash_loop_is_handed_out_one_message_at_a_time: run,
        a40_the_message_that_ends_two_owners_alone_is_dead: run,
        a40_five_crashes_are_the_default: run,
        a40_clean_hand_backs_condemn_nobody: run,
        a40_a_suspect_that_is_handed_back_is_not_condemned: run,
        a40_single_crashes_condemn_nobody: run,
        a40_an_expiry_that_loses_no_batch_condemns_nobody: run,
        a40_what_was_decided_stays_decided_in_isolation: run,
        a40_a_suspect_can_be_nacked: run,
        a40_what_had_come_again_is_isolated_too: run,
        a40_a_condemned_head_lets_its_key_go: run,
    }
    leases {
        a_free_lease_is_granted_for_its_ttl: run,
        a_live_lease_is_held_and_says_by_whom: run,
        a36_epochs_of_leases_rise_and_never_repeat_in_a_store: run,
        b14_a_late_renewal_is_held_until_somebody_takes_over: run,
        b15_the_same_holder_name_is_excluded_while_live: run,
        b15_two_tasks_of_one_process_exclude_each_other: run,
        b17_a_ttl_of_one_second_excludes_for_exactly_one_second: run,
        b33_forty_acquires_at_once_grant_exactly_one: run,
        b33_an_acquirer_that_goes_away_leaves_the_lease_to_the_others: run,
        calls_on_a_lease_may_be_dropped_at_every_await: run,
        a_lease_is_inspected_by_name: run,
        the_same_acquire_with_the_same_nonce_returns_the_stored_grant: run,
        the_nonce_of_a_past_grant_counts_for_nothing: run,
        a_renewal_extends_by_its_own_ttl_or_the_first: run,
        a_lease_is_given_back_once: run,
        an_unknown_lease_is_nobodys: run,
        maintenance_forgets_leases_that_nobody_used_for_long: run,
    }
    lifecycle {
        an_absent_queue_is_not_found: run,
        an_absent_consumer_is_not_found: run,
        an_absent_slot_is_not_found: run,
        a_closed_store_answers_every_call_so: run,
        an_empty_store_holds_nothing: run,
    }
    members {
        a_heartbeat_learns_who_works_and_how_much: run,
        a_heartbeat_judges_each_slot_by_its_own_epoch: run,
        a_heartbeat_renews_open_and_expired_slots: run,
        a_heartbeat_with_a_slot_that_is_gone_is_lost: run,
        a_membership_lapses_exactly_at_its_ttl: run,
        a_heartbeat_extends_its_membership: run,
        leaving_ends_the_membership_and_touches_no_slot: run,
        two_members_of_one_name_are_two: run,
        members_of_consumers_are_independent: run,
    }
    messages {
        payloads_come_back_byte_for_byte: run,
        the_largest_payload_comes_back_whole: run,
        key_kind_and_headers_come_back: run,
        the_largest_headers_come_back_whole: run,
    }
    names {
        a33_empty_and_blank_names_are_refused: run,
        a33_what_is_out_of_range_is_refused: run,
        the_longest_text_of_a_failure_comes_back: run,
        b20_long_and_unicode_names_work_end_to_end: run,
    }
    notices {
        b30_a_notice_is_delivered: run,
        b30_a_notice_from_elsewhere_is_delivered_once_and_in_order: run,
        b30_a_payload_at_the_limit_is_delivered_and_a_larger_one_refused: run,
        b20_long_channels_are_told_apart: run,
        every_listener_of_the_channel_gets_it_and_no_other: run,
        a_notice_in_a_transaction_is_delivered_when_it_commits: run,
        a_listener_gets_nothing_of_what_was_before: run,
        b25_a_thousand_listeners_leave_nothing: run,
        a_full_receiver_hears_how_many_it_missed: run,
        a_dropped_wait_loses_nothing: run,
        a_notice_wakes_who_sleeps_on_its_channel: run,
        closing_tells_every_listener: run,
    }
    once {
        a51_the_same_key_again_is_deduplicated: run,
        a51_the_same_key_with_another_message_is_a_conflict: run,
        a51_after_a_rollback_the_key_is_new: run,
        a51_after_a_refusal_the_key_is_new: run,
        a51_after_its_time_the_key_is_new: run,
        a51_concurrent_sends_of_one_key_make_one_message: run,
        an_idempotency_key_belongs_to_its_queue: run,
        a_delayed_message_is_sent_once: run,
    }
    operators {
        a23_a_slot_taken_by_force_fences_its_owner_and_keeps_the_batch: run,
        a23_force_raises_the_epoch_whoever_owns_the_slot: run,
        the_record_of_force_keeps_the_last_hundred: run,
        force_wakes_who_waits_for_a_slot: run,
        a_lease_taken_by_force_is_lost_to_its_holder: run,
        force_on_an_unknown_lease_records_an_epoch: run,
        a_guarded_transaction_commits_only_under_the_holder: run,
        a11_a_transaction_guarded_by_a_slot_commits_only_under_its_owner: run,
        ack_receive_acks_and_opens_the_next_batch: run,
        a11_ack_receive_is_refused_whole: run,
        a_queue_in_use_is_dropped_by_force_only: run,
        an_empty_queue_is_dropped_without_force: run,
    }
    parts {
        ack_through_leaves_the_rest_open: run,
        ack_through_the_last_message_is_an_ack: run,
        ack_through_what_was_acked_is_zero: run,
        ack_through_what_is_not_of_the_batch_is_refused: run,
        ack_through_makes_dispositions_true_up_to_its_message: run,
        ack_through_may_leave_only_what_was_decided: run,
        ack_through_goes_by_position_also_among_what_came_again: run,
        a16_ack_through_past_half_the_ttl_renews: run,
    }
    paused_queues {
        a_paused_queue_takes_messages_and_hands_out_none: run,
        an_open_batch_of_a_paused_queue_can_be_finished: run,
        a_batch_without_messages_settles_in_a_paused_queue: run,
        pausing_and_resuming_say_whether_they_changed_something: run,
        a_paused_queue_is_maintained: run,
        resuming_wakes_who_waits_for_messages: run,
    }
    pauses {
        a46_a_nack_withdraws_the_later_messages_of_its_key: run,
        a46_a_key_follows_in_order_after_its_head_succeeded: run,
        a46_a_key_follows_in_order_after_its_head_died: run,
        a46_giving_the_head_up_lets_the_rest_go: run,
        a46_what_was_withdrawn_comes_again_when_the_head_is_given_up_instead: run,
        a46_a_snooze_pauses_its_key: run,
        a46_a_withdrawn_message_can_be_nacked: run,
        a46_the_heir_does_not_run_what_was_withdrawn: run,
        a46_an_ack_of_a_part_keeps_the_withdrawn_rest: run,
        a46_only_the_key_of_this_consumer_waits: run,
        a46_a_key_that_was_let_go_is_parked_again: run,
        a_skipping_consumer_goes_on_with_the_key: run,
    }
    queues {
        a_queue_with_the_same_settings_existed: run,
        a_queue_with_other_settings_is_a_conflict: run,
        a_batch_is_sent_in_order: run,
        an_empty_batch_has_no_ids: run,
        a45_keyless_messages_spread_evenly_over_the_slots: run,
        a48_messages_sent_before_any_consumer_are_all_there: run,
        queues_are_independent: run,
        a_queue_counts_what_it_holds: run,
        maintenance_removes_what_all_have_acked_and_nothing_else: run,
        maintenance_keeps_an_abandoned_batch: run,
        maintenance_of_all_queues: run,
        b31_a_queue_tells_depth_age_and_what_is_in_flight: run,
    }
    readers {
        reading_on_from_the_beginning_is_never_refused: run,
        a_read_from_an_id_passes_over_pages_of_lower_ids: run,
        pages_follow_each_other_to_the_end: run,
        a48_a_queue_without_consumers_is_read_from_anywhere: run,
        a_read_shows_every_message_as_it_was_sent: run,
        a_read_from_before_what_was_removed_is_refused: run,
        a_read_leaves_out_what_expired_and_waits_for_what_is_due: run,
        a_read_from_an_id_shows_higher_ids_only: run,
    }
    releases {
        a01_release_with_an_open_batch_is_refused: run,
        a02_a_refused_release_changes_nothing: run,
        a03_after_a_refused_release_nobody_else_is_granted: run,
        a04_after_a_refused_release_the_batch_comes_again: run,
        a05_after_the_ack_the_release_succeeds: run,
        a06_the_second_release_is_not_held: run,
        a07_release_by_a_stranger_is_not_held: run,
        a08_release_without_a_batch_is_released: run,
        a13_release_of_an_inherited_batch_is_refused: run,
        a13_release_before_the_first_receive_of_an_inherited_batch_is_refused: run,
        a14_the_heir_acks_and_releases_and_the_next_worker_goes_on: run,
        a19_release_after_expiry_with_an_open_batch_is_refused: run,
        a22_abandon_hands_the_batch_over_at_once: run,
        abandon_without_a_batch_frees_the_slot: run,
    }
    retention {
        a_message_held_back_for_long_is_kept_when_it_comes: run,
        retention_is_told_as_it_was_set: run,
        consumed_messages_stay_as_long_as_told: run,
        a_lagging_consumer_pins_its_queue: run,
        unread_messages_go_by_age: run,
        unread_messages_go_by_bytes: run,
        what_was_set_aside_outlives_the_log: run,
    }
    retries {
        what_comes_again_takes_at_most_half_beside_new_messages: run,
        what_comes_again_never_exceeds_max: run,
        what_comes_again_fills_a_batch_without_new_messages: run,
        with_max_one_both_take_turns: run,
        b24_the_next_due_retry_is_told_and_comes_then: run,
        b24_what_is_parked_is_due_when_its_head_is_done: run,
        what_comes_again_is_the_same_message: run,
        replaying_wakes_who_waits_for_messages: run,
    }
    schedule_calls {
        b32_random_calls_make_of_schedules_what_the_contract_says: run,
    }
    schedules {
        a_schedule_is_told_as_it_was_put: run,
        b10_an_unchanged_put_keeps_what_comes_next: run,
        a_changed_put_goes_on_from_what_it_says: run,
        a_schedule_without_its_queue_is_refused: run,
        what_no_schedule_can_be_is_refused: run,
        what_is_due_when_a_schedule_is_changed_is_not_lost: run,
        b08_a_tick_of_one_that_was_made_anew_since_does_nothing: run,
        schedules_are_due_by_the_clock_of_the_engine: run,
        a_look_renews_the_lease_of_the_leader: run,
        a_look_returns_no_more_than_a_leader_takes: run,
        a_paused_schedule_is_not_due: run,
        a_run_by_hand_changes_nothing_of_the_schedule: run,
        a_removed_schedule_is_gone: run,
        b20_long_names_of_schedules_work: run,
        b09_a_put_wakes_who_waits_for_schedules: run,
    }
    starts {
        a39_a_consumer_from_a_time_gets_what_was_sent_since: run,
        a39_a_consumer_from_an_id_gets_higher_ids_only: run,
        a39_a_consumer_from_an_id_to_come_waits_for_it: run,
        a39_a_consumer_from_a_position_gets_what_comes_after: run,
        a39_a_start_before_what_was_removed_is_refused: run,
        a_start_is_no_setting_of_a_consumer: run,
    }
    transactions {
        a21_ack_and_release_in_one_transaction: run,
        a21_ack_and_release_rolled_back_leave_no_trace: run,
        a21_release_before_the_ack_in_one_transaction_is_refused: run,
        a43_sends_in_a_transaction_are_there_after_its_commit: run,
        a43_sends_in_a_transaction_are_absent_after_its_rollback: run,
        a43_ack_and_send_in_one_transaction: run,
        a11_a_fenced_ack_undoes_its_transaction: run,
        b21_an_ignored_refusal_undoes_its_transaction: run,
        a_release_that_is_not_held_does_not_undo_its_transaction: run,
        a_send_to_an_absent_queue_undoes_its_transaction: run,
    }
    wakes {
        a_send_wakes_who_waits_for_messages: run,
        a_send_in_a_transaction_wakes_when_it_commits: run,
        giving_back_wakes_who_waits_for_a_slot: run,
        joining_and_leaving_wake_the_others: run,
        dropping_a_consumer_wakes_who_waits_for_its_slots: run,
        wakes_before_the_wait_are_kept: run,
        closing_tells_every_sleeper: run,
        a_release_wakes_who_waits_for_the_lease: run,
        a_release_elsewhere_wakes_who_waits_for_the_lease: run,
    }
}
