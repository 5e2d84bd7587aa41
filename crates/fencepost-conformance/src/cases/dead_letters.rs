//! Dead letters: kept by consumer, listed by id, replayed in order and once, purged for good, and outliving their consumer.

use std::time::Duration;

use fencepost_core::{
    ConsumerPath, DEAD_KEPT, DeadCause, DeadLetter, Delay, Dropped, FailurePolicy, Kind, MessageId, OnFailure, Start,
};

use crate::Harness;
use crate::stage::{Stage, attempts, ids, path, refused, size, text, writes_nothing};

async fn replay(stage: &Stage, ids: Option<&[MessageId]>) -> u64 {
    stage.store.replay_dead_letters(&stage.path, ids).await.unwrap()
}

async fn purge(stage: &Stage, ids: Option<&[MessageId]>) -> u64 {
    stage.store.purge_dead_letters(&stage.path, ids).await.unwrap()
}

async fn counts(stage: &Stage) -> Vec<(ConsumerPath, u64)> {
    stage.store.dead_counts(None).await.unwrap()
}

fn letter_ids(letters: &[DeadLetter]) -> Vec<MessageId> {
    letters.iter().map(|letter| letter.id).collect()
}

/// Acks everything that waits in slot 0, and returns it.
async fn consume(stage: &Stage, max: i64) -> Vec<MessageId> {
    stage.drain(0, max).await.iter().flat_map(ids).collect()
}

/// Dead letters are listed by id, in pages, and counted by consumer; listing writes nothing.
pub async fn dead_letters_are_listed_by_id_in_pages(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let other = stage.consumer("shipping", 2, Start::Latest).await;
    let mut sent = stage.bury(1, 3).await;
    sent.extend(stage.bury(0, 4).await);
    assert_eq!(other.drain(0, 100).await.len() + other.drain(1, 100).await.len(), 2);
    writes_nothing(h, "a list", async {
        let (mut after, mut seen) = (None, Vec::new());
        loop {
            let page = stage.store.dead_letters(&stage.path, after, size(3)).await.unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() <= 3);
            after = Some(last.id);
            seen.extend(letter_ids(&page));
        }
        assert_eq!(seen, sent);
        assert_eq!(other.dead().await, []);
        assert_eq!(counts(&stage).await, [(stage.path.clone(), 7)]);
        assert_eq!(stage.store.dead_counts(Some(stage.queue())).await.unwrap(), [(stage.path.clone(), 7)]);
    })
    .await;
    let told = stage.store.consumer_status(None).await.unwrap();
    let told: Vec<_> = told.iter().map(|status| (&status.path, status.dead, status.lag)).collect();
    assert_eq!(told, [(&stage.path, 7, 0), (&other.path, 0, 0)]);
}

/// Replayed, all dead letters come again in order, as if they had never failed, and are dead no more; a second replay finds none.
pub async fn a_replay_of_all_brings_them_again_in_order(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.bury(0, 5).await;
    assert_eq!(replay(&stage, None).await, 5);
    assert_eq!(stage.dead().await, []);
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.parked), (5, 0));
    let token = stage.claim("w1", 0, 30).await.token;
    let batch = stage.receive(&token, 100).await;
    assert_eq!((ids(&batch), attempts(&batch)), (sent, vec![1; 5]));
    let again = writes_nothing(h, "a replay of nothing", stage.store.replay_dead_letters(&stage.path, None)).await;
    assert_eq!(again.unwrap(), 0);
    assert_eq!(stage.ack(&token, &batch).await, 5);
    assert_eq!(stage.status(0).await.lag, 0);
}

/// Only the dead letters named are replayed; named twice, or not dead any more, they are not counted again.
pub async fn a_replay_by_id_can_be_repeated(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.bury(0, 4).await;
    let named = [sent[2], sent[0], sent[2], MessageId::MAX];
    assert_eq!(replay(&stage, Some(&named)).await, 2);
    let again = writes_nothing(h, "a replay", stage.store.replay_dead_letters(&stage.path, Some(&named))).await;
    assert_eq!(again.unwrap(), 0);
    let none = writes_nothing(h, "a replay of no ids", stage.store.replay_dead_letters(&stage.path, Some(&[]))).await;
    assert_eq!(none.unwrap(), 0);
    assert_eq!(stage.dead_ids().await, [sent[1], sent[3]]);
    assert_eq!(consume(&stage, 1).await, [sent[0], sent[2]], "by their place in the log");
    assert_eq!(replay(&stage, Some(&named)).await, 0, "they are finished");
    assert_eq!(stage.status(0).await.lag, 0);
    assert_eq!(stage.dead_ids().await, [sent[1], sent[3]]);
}

/// A message that dies again after a replay is a dead letter again, with the attempts made since.
pub async fn a_replayed_message_can_die_again(h: &dyn Harness) {
    let stage = Stage::with(h, 1, FailurePolicy::default().max_attempts(2).unwrap()).await;
    let sent = stage.bury(0, 1).await;
    replay(&stage, None).await;
    let token = stage.claim("w1", 0, 600).await.token;
    for attempt in 1..=2 {
        let batch = stage.receive(&token, 100).await;
        assert_eq!((ids(&batch), attempts(&batch)), (sent.clone(), vec![attempt]));
        stage.nack(&token, &batch, sent[0], 0).await;
        stage.ack(&token, &batch).await;
    }
    let dead = stage.dead().await;
    assert_eq!(
        dead.iter().map(|letter| (letter.attempts, letter.cause)).collect::<Vec<_>>(),
        [(2, DeadCause::Attempts)]
    );
    assert_eq!(stage.try_receive(&token, 100).await, None);
}

/// Under the policy that pauses a key, replayed messages of one key come in their order, and a later one that waits for nothing else
/// comes after them.
pub async fn replayed_messages_of_a_key_keep_their_order(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let mut sent = stage.bury(0, 3).await;
    assert_eq!(replay(&stage, Some(&sent[1..])).await, 2);
    sent.extend(stage.send(0, 2).await);
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 1).await;
    assert_eq!(ids(&batch), [sent[1]]);
    stage.nack(&token, &batch, sent[1], 60).await;
    stage.ack(&token, &batch).await;
    assert_eq!(stage.try_receive(&token, 100).await, None, "the replayed one that failed pauses its key");
    stage.pass_seconds(60);
    let mut seen = Vec::new();
    while let Some(batch) = stage.try_receive(&token, 1).await {
        seen.extend(ids(&batch));
        stage.ack(&token, &batch).await;
    }
    assert_eq!(seen, sent[1..]);
    assert_eq!(stage.dead_ids().await, sent[..1]);
}

/// Under that policy, a replayed message waits for an earlier one of its key that is to come again.
pub async fn a_replayed_message_waits_for_an_earlier_one_of_its_key(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let sent = stage.send(0, 2).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    stage.give_up(&token, &batch, sent[1], "x").await;
    stage.nack(&token, &batch, sent[0], 60).await;
    stage.give_up(&token, &batch, sent[1], "x").await;
    stage.ack(&token, &batch).await;
    assert_eq!(replay(&stage, None).await, 1);
    assert_eq!(stage.try_receive(&token, 100).await, None);
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying, told.parked), (2, 1, 1));
    stage.pass_seconds(60);
    let head = stage.receive(&token, 100).await;
    assert_eq!(ids(&head), sent[..1]);
    stage.ack(&token, &head).await;
    assert_eq!(ids(&stage.receive(&token, 100).await), sent[1..]);
}

/// Under that policy, a replay beside an open batch of the key changes no order: what fails in the batch waits behind the replayed
/// message, and what had come again behind the batch waits for both.
pub async fn a_replay_beside_an_open_batch_keeps_the_order_of_its_key(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let sent = stage.send(0, 4).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    stage.nack(&token, &batch, sent[0], 0).await;
    stage.give_up(&token, &batch, sent[0], "x").await;
    stage.ack(&token, &batch).await;
    let open = stage.receive(&token, 2).await;
    assert_eq!(ids(&open), sent[1..3]);
    assert_eq!(replay(&stage, None).await, 1);
    assert_eq!(stage.nack(&token, &open, sent[1], 0).await.withdrawn, sent[2..3]);
    assert_eq!(stage.ack(&token, &open).await, 0);
    let mut seen = Vec::new();
    while let Some(batch) = stage.try_receive(&token, 100).await {
        seen.extend(ids(&batch));
        stage.ack(&token, &batch).await;
    }
    assert_eq!(seen, sent);
}

/// Purged, all or those named, dead letters are gone for good; what was replayed before is not touched.
pub async fn a_purge_removes_for_good(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.bury(0, 5).await;
    replay(&stage, Some(&sent[..1])).await;
    let named = [sent[1], sent[3], sent[0], MessageId::MAX];
    assert_eq!(purge(&stage, Some(&named)).await, 2);
    let again = writes_nothing(h, "a purge", stage.store.purge_dead_letters(&stage.path, Some(&named))).await;
    assert_eq!(again.unwrap(), 0);
    assert_eq!(purge(&stage, Some(&[])).await, 0);
    assert_eq!(stage.dead_ids().await, [sent[2], sent[4]]);
    assert_eq!(purge(&stage, None).await, 2);
    assert_eq!((stage.dead().await, counts(&stage).await), (vec![], vec![]));
    assert_eq!(replay(&stage, None).await, 0);
    assert_eq!(consume(&stage, 100).await, sent[..1]);
}

/// Dead letters stay when their consumer is dropped and can be listed and purged; a replay needs the consumer.
pub async fn dead_letters_outlive_their_consumer(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.bury(0, 3).await;
    let dead = stage.dead().await;
    assert_eq!(stage.store.drop_consumer(&stage.path, false).await.unwrap(), Dropped::Dropped);
    assert_eq!(stage.dead().await, dead);
    assert_eq!(counts(&stage).await, [(stage.path.clone(), 3)]);
    let call = stage.store.replay_dead_letters(&stage.path, None);
    refused(writes_nothing(h, "a refused replay", call).await, Kind::NotFound);
    assert_eq!(purge(&stage, Some(&sent[..1])).await, 1);
    assert_eq!(stage.dead_ids().await, sent[1..]);
    assert_eq!(stage.queue_status().await.consumers, 0);
}

/// A consumer that was made again can have the dead letters of the one before, each once, wherever it began.
pub async fn a_consumer_made_again_gets_the_old_dead_letters(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.bury(0, 3).await;
    for start in [Start::Latest, Start::Earliest] {
        stage.store.drop_consumer(&stage.path, false).await.unwrap();
        stage.create(start.clone()).await;
        let dead = stage.dead_ids().await;
        assert_eq!(dead.len(), if start == Start::Latest { 3 } else { 2 });
        assert_eq!(replay(&stage, Some(&dead[..1])).await, 1);
        assert_eq!(stage.dead_ids().await, dead[1..]);
        let expected = if start == Start::Latest { &sent[..1] } else { &sent[..] };
        assert_eq!(consume(&stage, 100).await, expected, "from {start:?}");
        assert_eq!(stage.status(0).await.lag, 0);
    }
}

/// A consumer that was made again can have dead letters that the log does not have any more: they count, and come like any other.
pub async fn a_consumer_made_again_gets_what_the_log_does_not_have(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.bury(0, 2).await;
    stage.maintain().await;
    assert_eq!(stage.queue_status().await.stored, 0);
    stage.store.drop_consumer(&stage.path, false).await.unwrap();
    stage.create(Start::Earliest).await;
    assert_eq!(replay(&stage, None).await, 2);
    let later = stage.send(0, 1).await;
    let told = stage.store.consumer_status(Some(stage.queue())).await.unwrap().remove(0);
    assert_eq!((told.lag, told.dead, stage.status(0).await.lag), (3, 0, 3));
    assert_eq!(consume(&stage, 2).await, [sent[0], later[0], sent[1]], "half of a batch is for what is new");
    assert_eq!(stage.status(0).await.lag, 0);
}

/// Dead letters go with their queue.
pub async fn dead_letters_go_with_their_queue(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.bury(0, 2).await;
    assert_eq!(stage.store.drop_queue(stage.queue(), true).await.unwrap(), Dropped::Dropped);
    refused(stage.store.dead_letters(&stage.path, None, size(10)).await, Kind::NotFound);
    assert_eq!(counts(&stage).await, []);
    let again = Stage::new(h, 1).await;
    assert_eq!((again.dead().await, counts(&again).await), (vec![], vec![]));
}

/// A dead letter is kept although its message was removed from the log, and can be replayed from there.
pub async fn a_dead_letter_outlives_its_message_in_the_log(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.bury(0, 2).await;
    let dead = stage.dead().await;
    stage.pass_seconds(1);
    assert!(stage.maintain().await >= 1);
    assert_eq!(stage.queue_status().await.stored, 0);
    assert_eq!(stage.dead().await, dead);
    assert_eq!(replay(&stage, None).await, 2);
    let token = stage.claim("w1", 0, 30).await.token;
    let batch = stage.receive(&token, 100).await;
    assert_eq!((ids(&batch), &batch.messages[0].payload), (sent, &dead[0].payload));
    assert_eq!(batch.messages[1].position, dead[1].position);
}

/// A dead letter is kept for 90 days, and maintenance removes it then.
pub async fn a_dead_letter_is_kept_for_ninety_days(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let first = stage.bury(0, 1).await;
    stage.pass_seconds(60);
    let second = stage.bury(0, 1).await;
    stage.pass(DEAD_KEPT - Duration::from_secs(60) - Duration::from_micros(1));
    stage.maintain().await;
    assert_eq!(stage.dead_ids().await, [first[0], second[0]]);
    stage.pass(Duration::from_micros(1));
    assert!(stage.maintain().await >= 1);
    assert_eq!(stage.dead_ids().await, second);
}

/// B31: dead letters of several consumers of one queue are told apart, and replaying one consumer's is nothing to the other.
pub async fn b31_dead_letters_belong_to_their_consumer(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let mut other = stage.consumer("shipping", 1, Start::Earliest).await;
    other.policy = FailurePolicy::default().on_failure(OnFailure::Skip);
    let sent = stage.bury(0, 2).await;
    let token = other.claim("w1", 0, 30).await.token;
    let batch = other.receive(&token, 100).await;
    other.give_up(&token, &batch, sent[1], "of the other").await;
    assert_eq!(other.ack(&token, &batch).await, 1);
    assert_eq!(counts(&stage).await, [(stage.path.clone(), 2), (other.path.clone(), 1)]);
    assert_eq!(replay(&other, None).await, 1);
    assert_eq!((stage.dead_ids().await, other.dead_ids().await), (sent.clone(), vec![]));
    assert_eq!((stage.status(0).await.lag, other.status(0).await.lag), (0, 1));
    assert_eq!(ids(&other.receive(&token, 100).await), sent[1..]);
    let nobody = path("orders", "nobody");
    assert_eq!(stage.store.dead_letters(&nobody, None, size(10)).await.unwrap(), []);
}

/// A dead letter that its consumer, made again, would pass over in the log stays dead, and is not counted.
pub async fn a_dead_letter_that_would_be_passed_over_stays_dead(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let expires = Delay::new(Duration::from_secs(60)).unwrap();
    let sent = stage.store.send(stage.queue(), text("expires").expires_in(expires)).await.unwrap();
    let token = stage.claim("sexton", 0, 30).await.token;
    let batch = stage.receive(&token, 10).await;
    stage.give_up(&token, &batch, sent, "hopeless").await;
    stage.ack(&token, &batch).await;
    assert_eq!(stage.store.drop_consumer(&stage.path, true).await.unwrap(), Dropped::Dropped);
    stage.create(Start::Earliest).await;
    stage.pass_seconds(60);
    assert_eq!(replay(&stage, None).await, 0);
    assert_eq!(stage.dead_ids().await, [sent]);
    assert_eq!(consume(&stage, 10).await, []);
    assert_eq!(replay(&stage, None).await, 1, "the log has passed it: it comes by itself");
    assert_eq!(consume(&stage, 10).await, [sent]);
}
