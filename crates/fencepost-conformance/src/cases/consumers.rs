//! Consumers: made with all slots at one position, dropped with all slots or not at all.

use std::time::Duration;

use fencepost_core::{
    BatchId, CreateConsumer, Created, Dropped, Error, FailurePolicy, Kind, MessageId, OnFailure, Partitions, Release,
    Renewal, SlotToken, Start,
};

use crate::Harness;
use crate::stage::{
    Stage, count, delay, failure, fenced, ids, index, path, refused, size, why, writes_nothing,
};

/// A36: the epochs of a consumer that was dropped and made again are higher than any before.
pub async fn a36_epochs_rise_across_drop_and_re_creation_of_a_consumer(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let mut highest = stage.claim("w0", 1, 30).await.token.epoch;
    for round in 0..5 {
        // The clock stands still: only what the store remembers keeps the epochs rising.
        assert_eq!(stage.store.drop_consumer(&stage.path, true).await.unwrap(), Dropped::Dropped);
        assert_eq!(stage.create(Start::Earliest).await, Created::Created);
        let grant = stage.claim("w1", round % 2, 30).await;
        assert!(grant.token.epoch > highest, "{:?} after {highest}", grant.token);
        highest = grant.token.epoch;
    }
}

/// A37: a consumer with a live owner is not dropped without force, and nothing changes.
pub async fn a37_drop_with_a_live_owner_is_a_conflict(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let grant = stage.claim("w1", 1, 10).await;
    let before = stage.state(1).await;
    let drop = writes_nothing(h, "a refused drop", stage.store.drop_consumer(&stage.path, false)).await;
    let error = refused(drop, Kind::Conflict);
    assert_eq!(error.fact("slot"), Some("1"));
    assert_eq!(error.operation(), Some("drop_consumer"));
    assert_eq!(stage.state(1).await, before);
    assert_eq!(stage.store.renew_slot(&grant.token).await.unwrap(), Renewal::Held);
    stage.pass_seconds(10);
    assert_eq!(stage.store.drop_consumer(&stage.path, false).await.unwrap(), Dropped::Dropped, "an expired owner is not in the way");
}

/// A37: a consumer with an open batch is not dropped without force, live or expired, and nothing changes.
pub async fn a37_drop_with_an_open_batch_is_refused(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    stage.send(0, 2).await;
    let grant = stage.claim("w1", 0, 10).await;
    let batch = stage.receive(&grant.token, 100).await;
    for _ in 0..2 {
        let before = stage.state(0).await;
        let error = refused(stage.store.drop_consumer(&stage.path, false).await, Kind::OpenBatch);
        assert_eq!(error.fact("batch_id"), Some(batch.id.to_string().as_str()));
        assert_eq!(stage.state(0).await, before);
        stage.pass_seconds(10);
    }
    stage.store.ack(&grant.token, batch.id).await.unwrap();
    stage.store.release_slot(&grant.token).await.unwrap();
    assert_eq!(stage.store.drop_consumer(&stage.path, false).await.unwrap(), Dropped::Dropped);
}

/// A37: a consumer with an orphan batch is not dropped without force, and the batch stays for its heir.
pub async fn a37_drop_with_an_orphan_batch_is_refused(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    stage.send(0, 2).await;
    let grant = stage.claim("w1", 0, 10).await;
    let batch = stage.receive(&grant.token, 100).await;
    stage.store.abandon_slot(&grant.token).await.unwrap();
    refused(stage.store.drop_consumer(&stage.path, false).await, Kind::OpenBatch);
    let heir = stage.claim("w2", 0, 10).await;
    assert_eq!(stage.receive(&heir.token, 100).await.id, batch.id);
    assert_eq!(stage.store.drop_consumer(&stage.path, true).await.unwrap(), Dropped::Dropped);
}

/// Every call that needs a slot, made as its owner would, with its error if it failed.
async fn owners_calls(stage: &Stage, token: &SlotToken, batch: BatchId, message: MessageId) -> Vec<Option<Error>> {
    let store = &stage.store;
    vec![
        store.receive(token, size(100)).await.err(),
        store.ack(token, batch).await.err(),
        store.ack_through(token, batch, message).await.err(),
        store.ack_receive(token, batch, size(100)).await.err(),
        store.nack(token, batch, message, &failure(0)).await.err(),
        store.snooze(token, batch, message, delay(0)).await.err(),
        store.dead_letter(token, batch, message, &why("x")).await.err(),
    ]
}

/// A37: dropped by force, all the old owner's calls answer `not_found`; after re-creation it is not the owner, and what was decided
/// about its batch is forgotten.
pub async fn a37_after_a_forced_drop_the_old_owner_owns_nothing(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let sent = stage.send(0, 3).await;
    let token = stage.claim("w1", 0, 30).await.token;
    let batch = stage.receive(&token, 2).await;
    stage.nack(&token, &batch, sent[0], 600).await;
    assert_eq!(stage.store.drop_consumer(&stage.path, true).await.unwrap(), Dropped::Dropped);
    for error in owners_calls(&stage, &token, batch.id, sent[1]).await {
        refused(error.map_or(Ok(()), Err), Kind::NotFound);
    }
    refused(stage.store.renew_slot(&token).await, Kind::NotFound);
    refused(stage.store.release_slot(&token).await, Kind::NotFound);
    refused(stage.store.abandon_slot(&token).await, Kind::NotFound);

    assert_eq!(stage.create(Start::Earliest).await, Created::Created);
    let fresh = stage.status(0).await;
    assert_eq!((fresh.lag, fresh.retrying, fresh.state.batch), (3, 0, None));
    for error in owners_calls(&stage, &token, batch.id, sent[1]).await {
        fenced(error.map_or(Ok(()), Err), token.epoch, None);
    }
    assert_eq!(stage.store.renew_slot(&token).await.unwrap(), Renewal::Lost);
    assert_eq!(stage.store.release_slot(&token).await.unwrap(), Release::NotHeld);
    assert_eq!(stage.store.abandon_slot(&token).await.unwrap(), Release::NotHeld);
    assert_eq!(stage.status(0).await, fresh);
    let heir = stage.claim("w2", 0, 30).await;
    assert!(heir.token.epoch > token.epoch);
    let new = stage.receive(&heir.token, 100).await;
    assert_eq!(ids(&new), sent);
    for error in owners_calls(&stage, &token, batch.id, sent[1]).await {
        fenced(error.map_or(Ok(()), Err), token.epoch, Some(heir.token.epoch));
    }
    assert_eq!(stage.receive(&heir.token, 100).await, new);
}

/// A37: what a consumer had set aside, retries and parked messages alike, is gone with it and is nothing to its successor.
pub async fn a37_what_was_set_aside_goes_with_its_consumer(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let sent = stage.send(0, 2).await;
    let token = stage.claim("w1", 0, 30).await.token;
    let batch = stage.receive(&token, 100).await;
    stage.nack(&token, &batch, sent[0], 0).await;
    stage.ack(&token, &batch).await;
    assert_eq!(stage.store.drop_consumer(&stage.path, true).await.unwrap(), Dropped::Dropped);
    assert_eq!(stage.create(Start::Latest).await, Created::Created);
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying, told.parked), (0, 0, 0));
    let token = stage.claim("w1", 0, 30).await.token;
    assert_eq!(stage.try_receive(&token, 100).await, None);
    assert_eq!(stage.store.next_due(&stage.path, token.slot).await.unwrap(), None);
}

/// When several slots refuse a drop, the first of them in order is the answer, and every slot stays.
pub async fn a_refused_drop_names_the_first_slot_and_keeps_all(h: &dyn Harness) {
    let stage = Stage::new(h, 3).await;
    stage.send(2, 1).await;
    let held = stage.claim("w1", 1, 30).await;
    let open = stage.claim("w2", 2, 30).await;
    stage.receive(&open.token, 100).await;
    let error = refused(stage.store.drop_consumer(&stage.path, false).await, Kind::Conflict);
    assert_eq!(error.fact("slot"), Some("1"));
    stage.store.release_slot(&held.token).await.unwrap();
    let error = refused(stage.store.drop_consumer(&stage.path, false).await, Kind::OpenBatch);
    assert_eq!(error.fact("slot"), Some("2"));
    assert_eq!(stage.store.slot_status(Some(stage.queue())).await.unwrap().len(), 3);
}

/// A drop of what is not there is no error and writes nothing.
pub async fn a_drop_of_an_absent_consumer_is_absent(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    for absent in [path("orders", "nobody"), path("nowhere", "nobody")] {
        for force in [false, true] {
            let drop = writes_nothing(h, "a drop of nothing", stage.store.drop_consumer(&absent, force)).await;
            assert_eq!(drop.unwrap(), Dropped::Absent);
        }
    }
}

/// A dropped consumer leaves its queue, its messages and the other consumers alone.
pub async fn a_drop_leaves_the_others_alone(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let other = stage.consumer("shipping", 2, Start::Earliest).await;
    stage.send(0, 4).await;
    let grant = other.claim("w1", 0, 30).await;
    let before = other.store.slot_status(Some(other.queue())).await.unwrap();
    assert_eq!(stage.store.drop_consumer(&stage.path, false).await.unwrap(), Dropped::Dropped);
    let after = other.store.slot_status(Some(other.queue())).await.unwrap();
    assert_eq!(after, before.into_iter().filter(|status| status.path == other.path).collect::<Vec<_>>());
    assert_eq!(other.store.renew_slot(&grant.token).await.unwrap(), Renewal::Held);
    let queue = &stage.store.queue_status().await.unwrap()[0];
    assert_eq!((queue.stored, queue.consumers), (4, 1));
}

/// A39: a consumer created late from the earliest message gets all of them.
pub async fn a39_a_late_consumer_from_the_earliest_gets_all(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let mut sent = stage.send(0, 3).await;
    sent.extend(stage.send(1, 3).await);
    let late = stage.consumer("late", 4, Start::Earliest).await;
    sent.extend(stage.send(0, 2).await);
    let mut seen = Vec::new();
    for slot in 0..4 {
        seen.extend(late.drain(slot, 100).await.iter().flat_map(ids));
    }
    seen.sort_unstable();
    assert_eq!(seen, sent);
}

/// A39: a consumer created late from the latest gets exactly what is sent afterwards, with all slots at one position.
pub async fn a39_a_late_consumer_from_the_latest_gets_what_comes_after(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    stage.send(0, 3).await;
    stage.send(1, 3).await;
    let late = stage.consumer("late", 4, Start::Latest).await;
    let mut cursors = Vec::new();
    for slot in 0..4 {
        let status = late.status(slot).await;
        assert_eq!(status.lag, 0);
        cursors.push(status.state.cursor);
    }
    assert!(cursors.iter().all(|cursor| *cursor == cursors[0]));
    let mut sent = stage.send(1, 2).await;
    sent.extend(stage.send(0, 2).await);
    let mut seen = Vec::new();
    for slot in 0..4 {
        seen.extend(late.drain(slot, 100).await.iter().flat_map(ids));
    }
    seen.sort_unstable();
    assert_eq!(seen, sent);
    assert_eq!(stage.status(0).await.lag, 5, "the other consumer is where it was");
}

/// A consumer is made once; again with the same slots it existed, keeps its state, and nothing is written.
pub async fn a_consumer_with_the_same_settings_existed(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    stage.send(0, 1).await;
    let grant = stage.claim("w1", 0, 30).await;
    stage.receive(&grant.token, 100).await;
    let before = stage.state(0).await;
    assert_eq!(writes_nothing(h, "a create of what exists", stage.create(Start::Earliest)).await, Created::Existed);
    assert_eq!(stage.state(0).await, before);
}

/// A consumer with another number of slots is a conflict that names both numbers, and the consumer stays as it was.
pub async fn a_consumer_with_other_settings_is_a_conflict(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let request = CreateConsumer::ordered(stage.path.clone(), count(3));
    let create = writes_nothing(h, "a conflicting create", stage.store.create_consumer(&request)).await;
    let error = refused(create, Kind::Conflict);
    assert_eq!(error.fact("slots"), Some("2"), "the fact is what is there");
    let message = error.to_string();
    assert!(message.contains("`2`") && message.contains("`3`") && message.contains("`orders/billing`"), "{message}");
    assert_eq!(stage.store.consumer_status(None).await.unwrap()[0].slots, count(2));
}

/// Every setting of a consumer is told as it was set, and another value of any of them is a conflict that names it and what is there.
pub async fn a_consumer_with_another_policy_is_a_conflict(h: &dyn Harness) {
    let policy = FailurePolicy::default()
        .on_failure(OnFailure::Pause)
        .max_attempts(7)
        .and_then(|policy| policy.max_crashes(3))
        .and_then(|policy| policy.backoff(Duration::from_millis(1_500)))
        .unwrap();
    let stage = Stage::with(h, 2, policy).await;
    let told = stage.through(h.another().await).store.consumer_status(None).await.unwrap();
    assert_eq!((told[0].policy, told[0].slots), (policy, count(2)));
    assert_eq!(writes_nothing(h, "the same create", stage.create(Start::Earliest)).await, Created::Existed);

    let others = [
        ("on_failure", "pause", policy.on_failure(OnFailure::Skip)),
        ("max_attempts", "7", policy.max_attempts(8).unwrap()),
        ("max_crashes", "3", policy.max_crashes(4).unwrap()),
        ("backoff", "1s 500ms", policy.backoff(Duration::from_millis(1_501)).unwrap()),
    ];
    for (setting, found, other) in others {
        let request = stage.to_create(Start::Earliest).policy(other);
        let create = writes_nothing(h, "a conflicting create", stage.store.create_consumer(&request)).await;
        let error = refused(create, Kind::Conflict);
        assert_eq!(error.fact(setting), Some(found), "{error:?}");
        assert_eq!(error.operation(), Some("create_consumer"));
    }
    assert_eq!(stage.store.consumer_status(None).await.unwrap(), told);
}

/// More slots than partitions are refused, as many are taken.
pub async fn more_slots_than_partitions_are_refused(h: &dyn Harness) {
    let (store, path) = (h.store(), path("orders", "billing"));
    store.create_queue(&path.queue, Partitions::new(4).unwrap()).await.unwrap();
    let request = |slots| CreateConsumer::ordered(path.clone(), count(slots));
    let create = writes_nothing(h, "a refused create", store.create_consumer(&request(5))).await;
    let error = refused(create, Kind::InvalidInput);
    assert_eq!(error.fact("partitions"), Some("4"));
    assert_eq!(store.consumer_status(None).await.unwrap(), []);
    assert_eq!(store.create_consumer(&request(4)).await.unwrap(), Created::Created);
    assert_eq!(store.slot_status(None).await.unwrap().len(), 4);
}

/// The statuses tell of every consumer and slot, by queue, consumer and slot, with lag and live workers.
pub async fn statuses_tell_of_every_consumer_and_slot(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let other = stage.consumer("shipping", 1, Start::Latest).await;
    stage.store.create_queue(&path("a-queue", "x").queue, Partitions::default()).await.unwrap();
    stage.send(0, 3).await;
    stage.send(1, 4).await;
    stage.store.heartbeat(&stage.heartbeat("m1", &[])).await.unwrap();
    let batch = stage.drain(0, 100).await.remove(0);
    assert_eq!(batch.messages.len(), 3);

    let told: Vec<_> = stage.store.consumer_status(None).await.unwrap();
    let told: Vec<_> = told.iter().map(|status| (&status.path, status.slots.get(), status.lag, status.workers)).collect();
    assert_eq!(told, [(&stage.path, 2, 4, 1), (&other.path, 1, 7, 0)]);
    let told: Vec<_> = stage.store.slot_status(None).await.unwrap();
    let told: Vec<_> = told.iter().map(|status| (&status.path, status.slot, status.lag)).collect();
    assert_eq!(told, [(&stage.path, index(0), 0), (&stage.path, index(1), 4), (&other.path, index(0), 7)]);
    let empty = path("a-queue", "x").queue;
    assert_eq!(stage.store.consumer_status(Some(&empty)).await.unwrap(), []);
    assert_eq!(stage.store.slot_status(Some(&empty)).await.unwrap(), []);
}

/// B31: the statuses tell since when a consumer and a slot are behind: when the first message was sent that is neither acked nor dead, in the log
/// or set aside.
pub async fn b31_statuses_tell_since_when_messages_wait(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let since = async || {
        let now = stage.store.now().await.unwrap();
        let consumer = stage.store.consumer_status(None).await.unwrap().remove(0);
        let times = [consumer.first_at, stage.status(0).await.first_at, stage.status(1).await.first_at];
        times.map(|at| at.map(|at| now.since(at).as_secs()))
    };
    assert_eq!(since().await, [None; 3]);
    stage.send(0, 2).await;
    stage.pass_seconds(10);
    stage.send(0, 1).await;
    stage.send(1, 1).await;
    stage.pass_seconds(10);
    assert_eq!(since().await, [Some(20), Some(20), Some(10)]);
    let grant = stage.claim("w1", 0, 600).await;
    // What is open is not acked.
    let batch = stage.receive(&grant.token, 2).await;
    assert_eq!(since().await, [Some(20), Some(20), Some(10)]);
    stage.nack(&grant.token, &batch, batch.messages[1].id, 3_600).await;
    stage.ack(&grant.token, &batch).await;
    assert_eq!(since().await, [Some(20), Some(20), Some(10)], "one of the first two was set aside");
    let batch = stage.receive(&grant.token, 2).await;
    stage.ack(&grant.token, &batch).await;
    assert_eq!((stage.status(0).await.lag, since().await), (1, [Some(20), Some(20), Some(10)]));
    stage.drain(1, 9).await;
    stage.pass_seconds(3_600);
    let batch = stage.receive(&stage.claim("w2", 0, 600).await.token, 2).await;
    assert_eq!(batch.messages.len(), 1);
    assert_eq!(since().await, [Some(3_620), Some(3_620), None]);
}
