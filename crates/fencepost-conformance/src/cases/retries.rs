//! Messages that come again: when, beside which new ones, and how a sleeper knows.

use std::time::Duration;

use fencepost_core::{MessageId, Start, Topic};

use crate::Harness;
use crate::stage::{Stage, ids, woken, writes_nothing};

/// Sends so many messages to slot 0 and has them all come again at once.
async fn come_again(stage: &Stage, token: &fencepost_core::SlotToken, many: usize) -> Vec<MessageId> {
    let sent = stage.send(0, many).await;
    let batch = stage.receive(token, 10_000).await;
    for id in &sent {
        stage.nack(token, &batch, *id, 0).await;
    }
    assert_eq!(stage.ack(token, &batch).await, 0);
    sent
}

/// While new messages wait, those that come again go first, by position, and take at most half of max, rounded up.
pub async fn what_comes_again_takes_at_most_half_beside_new_messages(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let again = come_again(&stage, &token, 6).await;
    let fresh = stage.send(0, 6).await;
    let expected = [[&again[..3], &fresh[..2]].concat(), [&again[3..], &fresh[2..4]].concat(), fresh[4..].to_vec()];
    for expected in expected {
        let batch = stage.receive(&token, 5).await;
        assert_eq!(ids(&batch), expected);
        assert_eq!(stage.ack(&token, &batch).await as usize, expected.len());
    }
    assert_eq!(stage.status(0).await.lag, 0);
}

/// Few new messages beside many that come again: there are no more new ones, so the rest of max stays empty or not, but never more
/// than max come, and everything comes once.
pub async fn what_comes_again_never_exceeds_max(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let again = come_again(&stage, &token, 9).await;
    let fresh = stage.send(0, 1).await;
    let mut seen = Vec::new();
    while let Some(batch) = stage.try_receive(&token, 4).await {
        assert!(batch.messages.len() <= 4 && batch.messages.is_sorted_by(|one, next| one.position < next.position));
        seen.extend(ids(&batch));
        stage.ack(&token, &batch).await;
    }
    assert!(seen.iter().position(|id| *id == fresh[0]).unwrap() < 4, "the new one does not starve");
    seen.sort_unstable();
    assert_eq!(seen, [again, fresh].concat());
}

/// Without new messages those that come again fill the batch.
pub async fn what_comes_again_fills_a_batch_without_new_messages(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let again = come_again(&stage, &token, 6).await;
    for expected in [&again[..5], &again[5..]] {
        let batch = stage.receive(&token, 5).await;
        assert_eq!(ids(&batch), expected);
        stage.ack(&token, &batch).await;
    }
    assert_eq!(stage.try_receive(&token, 5).await, None);
}

/// With a max of 1 the two sorts take turns while both wait, each in its order.
pub async fn with_max_one_both_take_turns(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let again = come_again(&stage, &token, 3).await;
    let fresh = stage.send(0, 3).await;
    let mut seen = Vec::new();
    while let Some(batch) = stage.try_receive(&token, 1).await {
        assert_eq!(batch.messages.len(), 1);
        seen.extend(ids(&batch));
        stage.ack(&token, &batch).await;
    }
    let (a, b) = if seen[0] == again[0] { (&again, &fresh) } else { (&fresh, &again) };
    assert_eq!(seen, [a[0], b[0], a[1], b[1], a[2], b[2]]);
}

/// B24: the next instant at which a message comes again is told, by slot, and a receive then brings it: no sooner and no later.
pub async fn b24_the_next_due_retry_is_told_and_comes_then(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let other = stage.consumer("shipping", 1, Start::Earliest).await;
    let sent = stage.send(0, 3).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let next_due = async || stage.due_at(token.slot).await;
    let batch = stage.receive(&token, 100).await;
    stage.nack(&token, &batch, sent[0], 20).await;
    stage.snooze(&token, &batch, sent[1], 10).await;
    stage.ack(&token, &batch).await;
    let now = stage.store.now().await.unwrap();
    let told = writes_nothing(h, "a look at what is due", next_due()).await;
    assert_eq!(told, Some(now + Duration::from_secs(10)));
    let neighbour = fencepost_core::SlotIndex::new(1).unwrap();
    assert_eq!(stage.store.next_due(&stage.path, neighbour).await.unwrap(), None);
    assert_eq!(stage.store.next_due(&other.path, token.slot).await.unwrap(), None);

    stage.pass(Duration::from_micros(9_999_999));
    assert_eq!(stage.try_receive(&token, 100).await, None);
    stage.pass(Duration::from_micros(1));
    let first = stage.receive(&token, 100).await;
    assert_eq!(ids(&first), [sent[1]]);
    stage.ack(&token, &first).await;
    assert_eq!(next_due().await, Some(now + Duration::from_secs(20)));
    stage.pass_seconds(3_600);
    assert_eq!(stage.store.next_due(&stage.path, token.slot).await.unwrap(), Some(Duration::ZERO), "now");
    let second = stage.receive(&token, 100).await;
    assert_eq!(ids(&second), [sent[0]]);
    stage.ack(&token, &second).await;
    assert_eq!(next_due().await, None);
}

/// B24: a message that is parked is due when its head is out of the way, and is told then.
pub async fn b24_what_is_parked_is_due_when_its_head_is_done(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let sent = stage.send(0, 2).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    stage.nack(&token, &batch, sent[0], 30).await;
    stage.ack(&token, &batch).await;
    let due_at = stage.store.now().await.unwrap() + Duration::from_secs(30);
    assert_eq!(stage.due_at(token.slot).await, Some(due_at));
    stage.pass_seconds(30);
    let head = stage.receive(&token, 100).await;
    assert_eq!(stage.store.next_due(&stage.path, token.slot).await.unwrap(), None, "it is in the open batch");
    stage.ack(&token, &head).await;
    assert_eq!(stage.store.next_due(&stage.path, token.slot).await.unwrap(), Some(Duration::ZERO));
}

/// A message that comes again keeps its content, its id and its place.
pub async fn what_comes_again_is_the_same_message(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let id = stage.put(crate::stage::text("x").header("name", "value").unwrap()).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let first = stage.receive(&token, 100).await;
    stage.nack(&token, &first, id, 0).await;
    stage.ack(&token, &first).await;
    stage.pass_seconds(1);
    stage.maintain().await;
    let mut again = stage.receive(&token, 100).await.messages.remove(0);
    assert_eq!((again.attempt, again.deliveries), (2, 2));
    (again.attempt, again.deliveries) = (1, 1);
    assert_eq!(again, first.messages[0], "also when every consumer has acked past it and it was removed from the log");
}

/// Replaying what is dead wakes who waits for messages.
pub async fn replaying_wakes_who_waits_for_messages(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.bury(0, 1).await;
    let mut sleeper = stage.store.wakes(&Topic::Messages(stage.queue().clone()));
    assert_eq!(stage.store.replay_dead_letters(&stage.path, None).await.unwrap(), 1);
    woken(&mut sleeper).await;
}
