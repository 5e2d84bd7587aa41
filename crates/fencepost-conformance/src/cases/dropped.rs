//! Calls that are dropped at every await in turn: each has happened as a whole or not at all, and whoever goes on finds nothing in
//! its way. Those on leases are among the cases of leases.

use std::collections::BTreeSet;

use fencepost_core::{
    Batch, BatchSize, ConsumerPath, CreateConsumer, Delay, Failure, FailureText, IdempotencyKey, Kind, MessageId, OnceTtl,
    Partitions, Reason, Release, Renewal, Retention, SlotToken, Start,
};

use crate::stage::{Stage, count, index, path, size, text};
use crate::{Harness, dropped_after};

/// More polls than any call needs.
const MOST: usize = 12;

/// Every await of every call on a slot: afterwards the same call, or the next one, goes through, and every message is finished once.
pub async fn calls_on_a_slot_may_be_dropped_at_every_await(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let store = &stage.store;
    for polls in 0..=MOST {
        let sent = stage.send(0, 8).await;
        let request = stage.request("w", 3_600);
        let token = match dropped_after(polls, store.claim_slot(&request, index(0))).await {
            Some(granted) => granted.unwrap().expect("the slot is free").token,
            // What was granted to nobody is given back, without time passing.
            None => loop {
                if let Some(grant) = store.claim(&request).await.unwrap() {
                    break grant.token;
                }
                tokio::task::yield_now().await;
            },
        };
        let finished = handle(&stage, &token, polls).await;
        dropped_after(polls, store.renew_slot(&token)).await;
        assert_eq!(store.renew_slot(&token).await.unwrap(), Renewal::Held);
        let released = dropped_after(polls, store.release_slot(&token)).await;
        let again = store.release_slot(&token).await.unwrap();
        assert!(released.is_none_or(|released| released.unwrap() == Release::Released && again == Release::NotHeld));

        let dead = store.dead_letters(&stage.path, None, BatchSize::default()).await.unwrap();
        let all: BTreeSet<MessageId> = finished.iter().copied().chain(dead.iter().map(|letter| letter.id)).collect();
        assert_eq!((all.len(), finished.len() + dead.len()), (sent.len(), sent.len()), "{polls} polls");
        assert_eq!(store.purge_dead_letters(&stage.path, None).await.unwrap(), dead.len() as u64);
        assert_eq!(stage.status(0).await.lag, 0, "{polls} polls");
    }
}

/// Finishes everything in a slot, each call dropped once before it is made. Returns what was acked.
async fn handle(stage: &Stage, token: &SlotToken, polls: usize) -> Vec<MessageId> {
    let store = &stage.store;
    let none = Delay::default();
    dropped_after(polls, store.receive(token, size(4))).await;
    let batch = stage.receive(token, 4).await;
    let [one, two, three, _] = batch.messages.iter().map(|message| message.id).collect::<Vec<_>>()[..] else {
        panic!("four of eight: {batch:?}")
    };
    let later = Failure::default().retry_after(none);
    dropped_after(polls, store.nack(token, batch.id, one, &later)).await;
    store.nack(token, batch.id, one, &later).await.unwrap();
    dropped_after(polls, store.snooze(token, batch.id, two, none)).await;
    store.snooze(token, batch.id, two, none).await.unwrap();
    let reason = FailureText::new("dropped").unwrap();
    dropped_after(polls, store.dead_letter(token, batch.id, three, &reason)).await;
    store.dead_letter(token, batch.id, three, &reason).await.unwrap();
    dropped_after(polls, store.ack_through(token, batch.id, two)).await;
    assert_eq!(store.ack_through(token, batch.id, two).await.unwrap(), 0, "both come again");
    let rest = stage.receive(token, 4).await;
    assert_eq!((rest.id, rest.messages.len()), (batch.id, 1));
    dropped_after(polls, store.ack_receive(token, batch.id, size(4))).await;
    // Whether it was made or not, asking again makes it, and tells what is open now.
    let mut open = store.ack_receive(token, batch.id, size(4)).await.unwrap().next;
    let mut finished: Vec<MessageId> = rest.messages.iter().map(|message| message.id).collect();
    while let Some(Batch { id, messages, .. }) = open {
        finished.extend(messages.iter().map(|message| message.id));
        dropped_after(polls, store.ack(token, id)).await;
        store.ack(token, id).await.unwrap();
        open = stage.try_receive(token, 4).await;
    }
    finished
}

/// Every await of every send: what was dropped is there as a whole or not at all, and an idempotency key tells.
pub async fn sends_may_be_dropped_at_every_await(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let (store, queue) = (&stage.store, stage.queue());
    for polls in 0..=MOST {
        let sent = dropped_after(polls, store.send(queue, text("one"))).await;
        let batch = dropped_after(polls, store.send_batch(queue, vec![text("three"), text("three"), text("three")])).await;
        let key = IdempotencyKey::new(format!("key {polls}")).unwrap();
        let once = dropped_after(polls, store.send_once(queue, text("once"), &key, OnceTtl::default())).await;
        let again = store.send_once(queue, text("once"), &key, OnceTtl::default()).await.unwrap();
        if let Some(once) = once {
            assert_eq!((again.id, again.deduplicated), (once.unwrap().id, true));
        }
        let mut found: Vec<Vec<u8>> = Vec::new();
        for batch in stage.drain(0, 100).await {
            found.extend(batch.messages.into_iter().map(|message| message.payload));
        }
        let many = |payload: &[u8]| found.iter().filter(|found| found.as_slice() == payload).count();
        assert!(many(b"one") == 1 || (sent.is_none() && many(b"one") == 0), "{polls} polls: {found:?}");
        assert!(many(b"three") == 3 || (batch.is_none() && many(b"three") == 0), "{polls} polls: {found:?}");
        assert_eq!(many(b"once"), 1, "{polls} polls");
    }
}

/// Every await of what makes, changes, looks at and drops queues and consumers: made again, each call goes through.
pub async fn calls_on_queues_and_consumers_may_be_dropped_at_every_await(h: &dyn Harness) {
    let (store, clock) = (h.store(), h.clock());
    for polls in 0..=MOST {
        let path: ConsumerPath = path(&format!("queue {polls}"), "consumer");
        let (queue, partitions) = (&path.queue, Partitions::default());
        let request = CreateConsumer::ordered(path.clone(), count(2));
        dropped_after(polls, store.create_queue(queue, partitions)).await;
        store.create_queue(queue, partitions).await.unwrap();
        dropped_after(polls, store.create_consumer(&request)).await;
        store.create_consumer(&request).await.unwrap();
        dropped_after(polls, store.pause_queue(queue)).await;
        store.pause_queue(queue).await.unwrap();
        dropped_after(polls, store.resume_queue(queue)).await;
        store.resume_queue(queue).await.unwrap();
        dropped_after(polls, store.set_retention(queue, Retention::default())).await;
        store.set_retention(queue, Retention::default()).await.unwrap();
        store.send(queue, text("held back").delay(Delay::new(std::time::Duration::from_secs(1)).unwrap())).await.unwrap();
        clock.advance(std::time::Duration::from_secs(1));
        dropped_after(polls, store.maintain(Some(queue))).await;
        store.maintain(Some(queue)).await.unwrap();
        dropped_after(polls, store.read(queue, Start::Earliest, size(10))).await;
        assert_eq!(store.read(queue, Start::Earliest, size(10)).await.unwrap().messages.len(), 1);
        dropped_after(polls, store.queue_status()).await;
        dropped_after(polls, store.consumer_status(None)).await;
        dropped_after(polls, store.slot_status(None)).await;
        dropped_after(polls, store.dead_letters(&path, None, size(10))).await;
        dropped_after(polls, store.replay_dead_letters(&path, None)).await;
        let reason = Reason::new("dropped").unwrap();
        dropped_after(polls, store.force_release_slot(&path, index(0), &reason)).await;
        store.force_release_slot(&path, index(0), &reason).await.unwrap();
        dropped_after(polls, store.drop_consumer(&path, true)).await;
        store.drop_consumer(&path, true).await.unwrap();
        dropped_after(polls, store.drop_queue(queue, true)).await;
        store.drop_queue(queue, true).await.unwrap();
        assert_eq!(store.consumer_status(Some(queue)).await.unwrap_err().kind(), Kind::NotFound);
        store.maintain(None).await.unwrap();
    }
    assert_eq!(store.queue_status().await.unwrap(), []);
}
