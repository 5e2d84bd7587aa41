//! Queues: made once, filled in order, spread evenly, and cleared of what everybody has acked.

use std::collections::BTreeSet;

use fencepost_core::{Created, Kind, MessageId, Partitions, Start};

use crate::Harness;
use crate::stage::{Stage, delay, ids, path, refused, text, writes_nothing};

/// A queue is made once; again with the same settings it existed, and nothing is written.
pub async fn a_queue_with_the_same_settings_existed(h: &dyn Harness) {
    let (store, queue) = (h.store(), path("orders", "x").queue);
    let partitions = Partitions::new(4).unwrap();
    assert_eq!(store.create_queue(&queue, partitions).await.unwrap(), Created::Created);
    let again = writes_nothing(h, "a create of what exists", store.create_queue(&queue, partitions)).await;
    assert_eq!(again.unwrap(), Created::Existed);
    let through_another = h.another().await.create_queue(&queue, partitions).await;
    assert_eq!(through_another.unwrap(), Created::Existed);
    assert_eq!(store.queue_status().await.unwrap().len(), 1);
}

/// A queue with other partitions is a conflict that names both numbers, and the queue stays as it was.
pub async fn a_queue_with_other_settings_is_a_conflict(h: &dyn Harness) {
    let (store, queue) = (h.store(), path("orders", "x").queue);
    store.create_queue(&queue, Partitions::new(4).unwrap()).await.unwrap();
    let create = writes_nothing(h, "a conflicting create", store.create_queue(&queue, Partitions::new(8).unwrap())).await;
    let error = refused(create, Kind::Conflict);
    assert_eq!(error.fact("partitions"), Some("4"), "the fact is what is there");
    let message = error.to_string();
    assert!(message.contains("`4`") && message.contains("`8`") && message.contains("`orders`"), "{message}");
    assert_eq!(store.queue_status().await.unwrap()[0].partitions.get(), 4);
}

/// A batch is sent in order: its ids rise, one a message, and it is received in that order.
pub async fn a_batch_is_sent_in_order(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let before = stage.store.send(stage.queue(), text("before")).await.unwrap();
    let messages = (0..500).map(|n| text(&format!("{n}"))).collect();
    let sent = stage.store.send_batch(stage.queue(), messages).await.unwrap();
    let after = stage.store.send(stage.queue(), text("after")).await.unwrap();
    assert_eq!(sent.len(), 500);
    assert!(sent.is_sorted_by(|one, next| one < next));
    assert!(before < sent[0] && sent[499] < after);

    let token = stage.claim("w1", 0, 30).await.token;
    let batch = stage.receive(&token, 10_000).await;
    assert_eq!(ids(&batch), [vec![before], sent, vec![after]].concat());
    let payloads: Vec<_> = batch.messages[1..501].iter().map(|message| message.payload.clone()).collect();
    assert_eq!(payloads, (0..500).map(|n| format!("{n}").into_bytes()).collect::<Vec<_>>());
}

/// A batch without messages has no ids and writes nothing.
pub async fn an_empty_batch_has_no_ids(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = writes_nothing(h, "an empty batch", stage.store.send_batch(stage.queue(), vec![])).await;
    assert_eq!(sent.unwrap(), []);
    assert_eq!(stage.queue_status().await.stored, 0);
}

/// A45: messages without a key spread evenly over the slots, single and in batches, and each is delivered once.
pub async fn a45_keyless_messages_spread_evenly_over_the_slots(h: &dyn Harness) {
    let stage = Stage::new(h, 4).await;
    let senders: Vec<_> = (0..50)
        .map(|_| {
            let (store, queue) = (stage.store.clone(), stage.queue().clone());
            tokio::spawn(async move {
                let mut sent = Vec::new();
                for _ in 0..20 {
                    sent.push(store.send(&queue, text("single")).await.unwrap());
                }
                sent
            })
        })
        .collect();
    let mut single: BTreeSet<MessageId> = BTreeSet::new();
    for sender in senders {
        single.extend(sender.await.unwrap());
    }
    assert_eq!(single.len(), 1_000);
    let mut sent = single.clone();
    for _ in 0..9 {
        let messages = (0..1_000).map(|_| text("batched")).collect();
        sent.extend(stage.store.send_batch(stage.queue(), messages).await.unwrap());
    }
    assert_eq!(sent.len(), 10_000);

    let mut seen = Vec::new();
    for slot in 0..4 {
        let of_slot: Vec<_> = stage.drain(slot, 10_000).await.iter().flat_map(ids).collect();
        let singles = of_slot.iter().filter(|id| single.contains(id)).count();
        assert!((2_000..=3_000).contains(&of_slot.len()), "slot {slot} has {} of 10000", of_slot.len());
        assert!((200..=300).contains(&singles), "slot {slot} has {singles} of 1000");
        seen.extend(of_slot);
    }
    assert_eq!(seen.len(), 10_000, "a message was delivered twice");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), sent);
}

/// A48: what was sent before any consumer existed is all there for one that begins at the earliest message.
pub async fn a48_messages_sent_before_any_consumer_are_all_there(h: &dyn Harness) {
    let stage = Stage::bare(h, 4).await;
    let messages = (0..300).map(|n| text(&format!("{n}"))).collect();
    let sent = stage.store.send_batch(stage.queue(), messages).await.unwrap();
    assert_eq!(stage.maintain().await, 0, "nothing is consumed without a consumer");

    stage.create(Start::Earliest).await;
    let mut seen = Vec::new();
    for slot in 0..4 {
        seen.extend(stage.drain(slot, 50).await.iter().flat_map(ids));
    }
    seen.sort_unstable();
    assert_eq!(seen, sent);
}

/// Queues do not see each other's messages.
pub async fn queues_are_independent(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let other = path("invoices", "x").queue;
    stage.store.create_queue(&other, Partitions::new(1).unwrap()).await.unwrap();
    let mine = stage.send(0, 2).await;
    stage.store.send(&other, text("other")).await.unwrap();
    assert_eq!(stage.drain(0, 100).await.iter().flat_map(ids).collect::<Vec<_>>(), mine);
    let statuses = stage.store.queue_status().await.unwrap();
    let told: Vec<_> = statuses.iter().map(|status| (status.queue.as_str(), status.stored, status.consumers)).collect();
    assert_eq!(told, [("invoices", 1, 0), ("orders", 2, 1)], "by name");
}

/// A queue's status counts what is stored and tells when the oldest was sent.
pub async fn a_queue_counts_what_it_holds(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    assert_eq!((stage.queue_status().await.stored, stage.queue_status().await.oldest_at), (0, None));
    let first_at = stage.store.now().await.unwrap();
    stage.send(0, 3).await;
    stage.pass_seconds(5);
    let second_at = stage.store.now().await.unwrap();
    stage.send(0, 2).await;
    let full = stage.queue_status().await;
    assert_eq!((full.stored, full.oldest_at), (5, Some(first_at)));

    let token = stage.claim("w1", 0, 30).await.token;
    let batch = stage.receive(&token, 3).await;
    assert!(batch.messages.iter().all(|message| message.created_at == first_at));
    stage.store.ack(&token, batch.id).await.unwrap();
    stage.maintain().await;
    let rest = stage.queue_status().await;
    assert_eq!((rest.stored, rest.oldest_at), (2, Some(second_at)));
}

/// Maintenance removes exactly what every consumer has acked past, in bounded steps, and nothing of an open batch.
pub async fn maintenance_removes_what_all_have_acked_and_nothing_else(h: &dyn Harness) {
    let two = Stage::new(h, 2).await;
    let one = two.consumer("shipping", 1, Start::Earliest).await;
    two.send(0, 2_500).await;
    let ones = two.send(1, 5).await;
    two.drain(0, 10_000).await;
    assert_eq!(two.maintain().await, 0, "the other consumer has acked nothing");
    one.drain(0, 10_000).await;

    assert!(two.maintain().await >= 1);
    assert_eq!(two.queue_status().await.stored, 5, "slot 1 of the first consumer has acked nothing");
    let idle = writes_nothing(h, "maintenance of what is clean", two.store.maintain(Some(two.queue()))).await;
    assert_eq!(idle.unwrap(), 0);

    let token = two.claim("w1", 1, 30).await.token;
    let open = two.receive(&token, 2).await;
    assert_eq!(two.maintain().await, 0, "an open batch is not acked");
    assert_eq!(two.receive(&token, 100).await, open);
    assert_eq!(ids(&open), ones[..2]);
    two.store.ack(&token, open.id).await.unwrap();
    assert!(two.maintain().await >= 1);
    assert_eq!(two.queue_status().await.stored, 3);
    assert_eq!(ids(&two.receive(&token, 100).await), ones[2..]);

    let late = two.consumer("late", 1, Start::Earliest).await;
    assert_eq!(late.status(0).await.lag, 3, "the earliest message is the oldest that is stored");
}

/// An abandoned batch is not removed either: the heir gets all of it.
pub async fn maintenance_keeps_an_abandoned_batch(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 4).await;
    let first = stage.claim("w1", 0, 30).await.token;
    let acked = stage.receive(&first, 1).await;
    stage.store.ack(&first, acked.id).await.unwrap();
    let open = stage.receive(&first, 2).await;
    stage.store.abandon_slot(&first).await.unwrap();
    stage.maintain().await;
    assert_eq!(stage.queue_status().await.stored, 3);
    let heir = stage.claim("w2", 0, 30).await.token;
    let inherited = stage.receive(&heir, 100).await;
    assert_eq!((inherited.id, ids(&inherited)), (open.id, sent[1..3].to_vec()));
}

/// Maintenance without a queue's name sees to all of them.
pub async fn maintenance_of_all_queues(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 10).await;
    stage.drain(0, 100).await;
    let other = path("invoices", "x").queue;
    stage.store.create_queue(&other, Partitions::default()).await.unwrap();
    stage.store.send(&other, text("unread")).await.unwrap();
    while stage.store.maintain(None).await.unwrap() > 0 {}
    let stored: Vec<_> = stage.store.queue_status().await.unwrap().iter().map(|status| status.stored).collect();
    assert_eq!(stored, [1, 0]);
}

/// B31: depth, oldest age, what is in flight, what is set aside and what is dead are told exactly at every step of a message's life.
pub async fn b31_a_queue_tells_depth_age_and_what_is_in_flight(h: &dyn Harness) {
    let stage = Stage::pausing(h, 2).await;
    let sent_at = stage.store.now().await.unwrap();
    let sent = stage.send(0, 5).await;
    stage.pass_seconds(60);
    stage.put(text("x").delay(delay(3_600))).await;
    let told = async || {
        let (queue, slot) = (stage.queue_status().await, stage.status(0).await);
        let status = stage.store.consumer_status(Some(stage.queue())).await.unwrap().remove(0);
        assert_eq!(
            (status.lag, status.retrying, status.parked),
            (slot.lag, slot.retrying, slot.parked),
            "only slot 0 has messages"
        );
        let in_flight = slot.state.batch.map_or(0, |open| open.size);
        (queue.stored, queue.delayed, slot.lag, in_flight, slot.retrying, slot.parked, status.dead)
    };
    assert_eq!(told().await, (5, 1, 5, 0, 0, 0, 0));
    assert_eq!(stage.queue_status().await.oldest_at, Some(sent_at));
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 3).await;
    assert_eq!(told().await, (5, 1, 5, 3, 0, 0, 0));
    stage.give_up(&token, &batch, sent[0], "x").await;
    stage.nack(&token, &batch, sent[1], 60).await;
    stage.ack(&token, &batch).await;
    assert_eq!(told().await, (5, 1, 4, 0, 1, 1, 1));
    assert_eq!(stage.try_receive(&token, 100).await, None);
    assert_eq!(told().await, (5, 1, 4, 0, 1, 3, 1));
    stage.maintain().await;
    assert_eq!(told().await, (0, 1, 4, 0, 1, 3, 1), "what is set aside is not stored twice");
    assert_eq!(stage.queue_status().await.oldest_at, None);
    stage.store.replay_dead_letters(&stage.path, None).await.unwrap();
    assert_eq!(told().await.6, 0);
    assert_eq!(stage.status(0).await.lag, 5);
}
