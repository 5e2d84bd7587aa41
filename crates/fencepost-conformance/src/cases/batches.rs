//! Receiving and acking: one open batch a slot, exactly it is acked, and the order of a key holds.

use std::collections::BTreeMap;

use fencepost_core::slot::OpenBatch;
use fencepost_core::{BatchId, Kind, MessageId, Start};

use crate::Harness;
use crate::stage::{Stage, ids, refused, text, writes_nothing};

/// A27: the ack of the batch acked last answers 0 and changes nothing, with and without another batch open.
pub async fn a27_the_second_ack_of_the_last_batch_is_zero(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 4).await;
    let token = stage.claim("w1", 0, 30).await.token;
    let first = stage.receive(&token, 2).await;
    assert_eq!(stage.store.ack(&token, first.id).await.unwrap(), 2);
    let held = stage.status(0).await;
    let again = writes_nothing(h, "an ack of the batch acked last", stage.store.ack(&token, first.id)).await;
    assert_eq!(again.unwrap(), 0);
    assert_eq!(stage.status(0).await, held);

    let second = stage.receive(&token, 2).await;
    assert_ne!(second.id, first.id);
    let open = stage.status(0).await;
    assert_eq!(stage.store.ack(&token, first.id).await.unwrap(), 0);
    assert_eq!(stage.status(0).await, open, "the open batch is untouched");
    assert_eq!(stage.store.ack(&token, second.id).await.unwrap(), 2);
}

/// A27: the ack of any other batch is a conflict and changes nothing.
pub async fn a27_the_ack_of_another_batch_is_a_conflict(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 6).await;
    let token = stage.claim("w1", 0, 30).await.token;
    let never = BatchId::new(999).unwrap();
    let error = refused(stage.store.ack(&token, never).await, Kind::Conflict);
    assert_eq!(error.fact("open_batch_id"), Some("none"), "nothing was ever open");

    let mut acked = Vec::new();
    for _ in 0..2 {
        let batch = stage.receive(&token, 2).await;
        stage.store.ack(&token, batch.id).await.unwrap();
        acked.push(batch.id);
    }
    let open = stage.receive(&token, 2).await;
    let before = stage.status(0).await;
    for other in [acked[0], never] {
        let ack = writes_nothing(h, "a conflicting ack", stage.store.ack(&token, other)).await;
        let error = refused(ack, Kind::Conflict);
        assert_eq!(error.fact("batch_id"), Some(other.to_string().as_str()));
        assert_eq!(error.fact("open_batch_id"), Some(open.id.to_string().as_str()));
    }
    assert_eq!(stage.status(0).await, before);
    assert_eq!(stage.store.ack(&token, open.id).await.unwrap(), 2);
}

/// A38: after a receive of 2 of 5 and its ack the other 3 come next.
pub async fn a38_what_did_not_fit_comes_next(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 5).await;
    let token = stage.claim("w1", 0, 30).await.token;
    let first = stage.receive(&token, 2).await;
    assert_eq!(ids(&first), sent[..2]);
    assert_eq!(stage.status(0).await.lag, 5);
    assert_eq!(stage.store.ack(&token, first.id).await.unwrap(), 2);
    assert_eq!(stage.status(0).await.lag, 3);
    let second = stage.receive(&token, 100).await;
    assert_eq!(ids(&second), sent[2..]);
    assert_eq!(stage.store.ack(&token, second.id).await.unwrap(), 3);
    assert_eq!(stage.try_receive(&token, 100).await, None);
}

/// The open batch comes again whatever max is, and whatever was sent meanwhile.
pub async fn the_open_batch_comes_again_whatever_max_is(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 3).await;
    let token = stage.claim("w1", 0, 30).await.token;
    let batch = stage.receive(&token, 100).await;
    assert_eq!(ids(&batch), sent);
    let later = stage.send(0, 3).await;
    let open = stage.state(0).await;
    for max in [1, 2, 10_000] {
        let again = writes_nothing(h, "a batch again, before half the TTL", stage.receive(&token, max)).await;
        assert_eq!(again, batch);
    }
    assert_eq!(stage.state(0).await, open);
    stage.store.ack(&token, batch.id).await.unwrap();
    assert_eq!(ids(&stage.receive(&token, 100).await), later);
}

/// With max 1 every message comes in a batch of its own, in order.
pub async fn max_one_gives_one_message_at_a_time(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 4).await;
    let token = stage.claim("w1", 0, 30).await.token;
    for id in sent {
        let batch = stage.receive(&token, 1).await;
        assert_eq!((ids(&batch), batch.deliveries, batch.crashes), (vec![id], 1, 0));
        let OpenBatch { id, size, .. } = stage.state(0).await.batch.unwrap();
        assert_eq!((id, size), (batch.id, 1));
        assert_eq!(stage.store.ack(&token, batch.id).await.unwrap(), 1);
    }
    assert_eq!(stage.try_receive(&token, 1).await, None);
}

/// A slot receives the messages of its own partitions only, and the others are there for the others.
pub async fn a_slot_receives_its_own_partitions_only(h: &dyn Harness) {
    let stage = Stage::new(h, 3).await;
    let sent = [stage.send(0, 2).await, stage.send(1, 3).await, stage.send(2, 4).await];
    for (slot, sent) in (0..).zip(sent) {
        let token = stage.claim("w1", slot, 30).await.token;
        let batch = stage.receive(&token, 100).await;
        assert_eq!(ids(&batch), sent);
        stage.store.ack(&token, batch.id).await.unwrap();
        assert_eq!(stage.try_receive(&token, 100).await, None);
    }
}

/// The order of every key holds across batches and slots, every message is delivered once, and batches are in id order.
pub async fn the_order_of_a_key_holds_across_batches_and_slots(h: &dyn Harness) {
    let stage = Stage::new(h, 3).await;
    let mut sent: BTreeMap<String, Vec<MessageId>> = BTreeMap::new();
    let keys: Vec<_> = (0..3).flat_map(|slot| stage.keys(slot, 4)).collect();
    for round in 0..20 {
        // Two by two in one call, the rest alone: both orders are promised.
        let (batched, single) = keys.split_at(6);
        let messages = batched.iter().map(|key| text(&format!("{round}")).key(key.clone())).collect();
        let mut round_ids = stage.store.send_batch(stage.queue(), messages).await.unwrap();
        for key in single {
            round_ids.push(stage.store.send(stage.queue(), text(&format!("{round}")).key(key.clone())).await.unwrap());
        }
        for (key, id) in keys.iter().zip(round_ids) {
            sent.entry(key.to_string()).or_default().push(id);
        }
    }
    let mut received: BTreeMap<String, Vec<MessageId>> = BTreeMap::new();
    for slot in 0..3 {
        let batches = stage.drain(slot, 7).await;
        assert!(batches.len() >= 80 / 7, "batches never exceed max");
        let messages: Vec<_> = batches.into_iter().flat_map(|batch| batch.messages).collect();
        assert!(messages.is_sorted_by(|one, next| one.id < next.id), "position order within a slot");
        for message in messages {
            received.entry(message.key.unwrap().to_string()).or_default().push(message.id);
        }
    }
    assert_eq!(received, sent);
}

/// Every consumer sees every message: two of one queue, with other numbers of slots, do not disturb each other.
pub async fn two_consumers_each_see_every_message(h: &dyn Harness) {
    let one = Stage::new(h, 2).await;
    let two = one.consumer("shipping", 3, Start::Earliest).await;
    let mut sent = Vec::new();
    for slot in 0..2 {
        sent.extend(one.send(slot, 10).await);
    }
    let held = one.claim("w1", 0, 30).await;
    let open = one.receive(&held.token, 100).await;
    let before = one.state(0).await;

    let mut seen = Vec::new();
    for slot in 0..3 {
        seen.extend(two.drain(slot, 4).await.iter().flat_map(ids));
    }
    seen.sort_unstable();
    assert_eq!(seen, sent);
    assert_eq!(one.state(0).await, before, "the other consumer's slot is untouched");
    assert_eq!(one.store.ack(&held.token, open.id).await.unwrap(), 10);
    assert_eq!(one.drain(1, 100).await.iter().flat_map(ids).count(), 10);
}

/// A44: messages that were sent while no worker ran come in batches that never exceed max, all of them, once and in order.
pub async fn a44_a_backlog_comes_in_batches_of_at_most_max(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let keys = [stage.keys(0, 3), stage.keys(1, 3)].concat();
    let mut sent = [Vec::new(), Vec::new()];
    for _ in 0..20 {
        let messages = (0..1_000).map(|n| text("x").key(keys[n % 6].clone())).collect();
        for (n, id) in stage.store.send_batch(stage.queue(), messages).await.unwrap().into_iter().enumerate() {
            sent[n % 6 / 3].push(id);
        }
    }
    for (slot, sent) in (0..).zip(sent) {
        assert_eq!(stage.status(slot).await.lag, sent.len() as u64);
        let batches = stage.drain(slot, 300).await;
        assert!(batches.iter().all(|batch| batch.messages.len() <= 300));
        assert!(batches[..batches.len() - 1].iter().all(|batch| batch.messages.len() == 300), "a batch is filled");
        assert_eq!(batches.iter().flat_map(ids).collect::<Vec<_>>(), sent);
    }
}

/// Messages that were sent while no worker ran come in batches that never exceed max.
pub async fn a_backlog_comes_in_batches_of_at_most_max(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 250).await;
    let batches = stage.drain(0, 100).await;
    assert_eq!(batches.iter().map(|batch| batch.messages.len()).collect::<Vec<_>>(), [100, 100, 50]);
    assert_eq!(batches.iter().flat_map(ids).collect::<Vec<_>>(), sent);
}
