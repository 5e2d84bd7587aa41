//! Messages that are held back until they are due, and messages that are let go when nobody wanted them in time.

use std::time::Duration;

use fencepost_core::{Kind, MessageId, Start, Topic};

use crate::Harness;
use crate::stage::{Stage, attempts, delay, ids, refused, text, woken, writes_nothing};

/// Sends a message of slot 0's key that is due after so many seconds.
async fn put_later(stage: &Stage, seconds: u64) -> MessageId {
    let key = stage.keys(0, 1).remove(0);
    stage.put(text("later").key(key).delay(delay(seconds))).await
}

/// A49: a delayed message is not there before it is due; then maintenance gives it its place, behind what was sent meanwhile, under
/// the id that its send returned.
pub async fn a49_a_delayed_message_gets_its_place_when_it_is_due(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let late = put_later(&stage, 60).await;
    let soon = stage.send(0, 1).await;
    assert!(late < soon[0]);
    let status = stage.queue_status().await;
    assert_eq!((status.delayed, status.stored, stage.status(0).await.lag), (1, 1, 1));
    let sent_at = stage.store.now().await.unwrap();
    let due_at = sent_at + Duration::from_secs(60);
    let token = stage.claim("w1", 0, 600).await.token;
    assert_eq!(stage.due_at(token.slot).await, Some(due_at));
    stage.pass(Duration::from_micros(59_999_999));
    assert_eq!(writes_nothing(h, "maintenance before it is due", stage.maintain()).await, 0);
    stage.pass(Duration::from_micros(1));
    assert!(stage.maintain().await >= 1);
    let status = stage.queue_status().await;
    assert_eq!((status.delayed, status.stored), (0, 2));
    assert_eq!(stage.store.next_due(&stage.path, token.slot).await.unwrap(), None);
    let batch = stage.receive(&token, 100).await;
    assert_eq!(ids(&batch), [soon[0], late], "key order counts from when it is due");
    assert!(batch.messages[0].position < batch.messages[1].position);
    assert_eq!((batch.messages[1].created_at, batch.messages[1].payload.as_slice()), (sent_at, &b"later"[..]));
    assert_eq!(stage.ack(&token, &batch).await, 2);
    assert_eq!(stage.status(0).await.lag, 0);
}

/// A49: a consumer that was made at the latest position between the send and the due time gets the message, once.
pub async fn a49_a_consumer_made_in_between_gets_a_delayed_message(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let late = put_later(&stage, 60).await;
    stage.send(0, 2).await;
    let between = stage.consumer("between", 1, Start::Latest).await;
    stage.pass_seconds(60);
    stage.maintain().await;
    let after = stage.consumer("after", 1, Start::Latest).await;
    assert_eq!(between.drain(0, 100).await.iter().flat_map(ids).collect::<Vec<_>>(), [late]);
    assert_eq!(after.status(0).await.lag, 0);
    assert_eq!(stage.status(0).await.lag, 3);
}

/// A49: a delayed message that fails comes again as itself.
pub async fn a49_a_delayed_message_can_be_retried(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let late = put_later(&stage, 60).await;
    stage.pass_seconds(60);
    stage.maintain().await;
    let behind = stage.send(0, 1).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    assert_eq!(ids(&batch), [late, behind[0]]);
    assert_eq!(stage.nack(&token, &batch, late, 10).await.withdrawn, behind, "it is the head of its key");
    assert_eq!(stage.ack(&token, &batch).await, 0);
    stage.pass_seconds(10);
    let again = stage.receive(&token, 100).await;
    assert_eq!((ids(&again), attempts(&again)), (vec![late], vec![2]));
    assert_eq!(again.messages[0].position, batch.messages[0].position);
    stage.ack(&token, &again).await;
    assert_eq!(ids(&stage.receive(&token, 100).await), behind);
}

/// Delayed messages that fall due together get their places by when they are due, and by id within an instant.
pub async fn delayed_messages_get_their_places_by_when_they_are_due(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let mut sent = Vec::new();
    for seconds in [30, 10, 30, 20] {
        sent.push(put_later(&stage, seconds).await);
    }
    stage.pass_seconds(3_600);
    stage.maintain().await;
    let seen: Vec<_> = stage.drain(0, 100).await.iter().flat_map(ids).collect();
    assert_eq!(seen, [sent[1], sent[3], sent[0], sent[2]]);
}

/// A message held back until an instant that has passed is there at once, and one of no delay, too.
pub async fn a_delay_that_has_passed_is_none(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let now = stage.store.now().await.unwrap();
    stage.pass_seconds(1);
    let past = stage.put(text("x").deliver_at(now)).await;
    let none = stage.put(text("x").delay(delay(0))).await;
    assert_eq!(stage.queue_status().await.delayed, 0);
    assert_eq!(stage.drain(0, 100).await.iter().flat_map(ids).collect::<Vec<_>>(), [past, none]);
    let at = stage.store.now().await.unwrap() + Duration::from_secs(5);
    let future = stage.put(text("x").deliver_at(at)).await;
    stage.pass_seconds(5);
    stage.maintain().await;
    assert_eq!(stage.drain(0, 100).await.iter().flat_map(ids).collect::<Vec<_>>(), [future]);
}

/// B24: with everybody asleep, the due time of a delayed message is told beforehand, and its maintenance wakes who waits for messages.
pub async fn b24_a_delayed_message_wakes_who_waits(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    put_later(&stage, 60).await;
    put_later(&stage, 30).await;
    let token = stage.claim("w1", 1, 600).await.token;
    let due_at = stage.store.now().await.unwrap() + Duration::from_secs(30);
    let told = stage.due_at(token.slot).await;
    assert_eq!(told, Some(due_at), "which slot it is for shows when it is due");
    let mut sleeper = stage.store.wakes(&Topic::Messages(stage.queue().clone()));
    stage.pass_seconds(30);
    assert_eq!(h.another().await.maintain(Some(stage.queue())).await.unwrap(), 1);
    woken(&mut sleeper).await;
    assert_eq!(stage.drain(0, 100).await.len(), 1);
}

/// A delayed message belongs to its queue: the queue is in use because of it, and drops it.
pub async fn a_delayed_message_keeps_its_queue_in_use(h: &dyn Harness) {
    let stage = Stage::bare(h, 1).await;
    put_later(&stage, 60).await;
    refused(stage.store.drop_queue(stage.queue(), false).await, Kind::Conflict);
    assert_eq!(stage.queue_status().await.delayed, 1);
    stage.store.drop_queue(stage.queue(), true).await.unwrap();
    let again = Stage::new(h, 1).await;
    again.pass_seconds(60);
    again.maintain().await;
    assert_eq!((again.queue_status().await.stored, again.status(0).await.lag), (0, 0));
}

/// A message that expired is not handed out, leaves the lag, and is no dead letter; the others of its key go on.
pub async fn an_expired_message_is_not_handed_out(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let key = stage.keys(0, 1).remove(0);
    let put = async |seconds| stage.put(text("x").key(key.clone()).expires_in(delay(seconds))).await;
    let gone = put(10).await;
    let kept = put(20).await;
    let forever = stage.send(0, 1).await;
    stage.pass(Duration::from_micros(9_999_999));
    let early = stage.through(stage.store.clone());
    let token = early.claim("w1", 0, 600).await.token;
    stage.pass(Duration::from_micros(1));
    let batch = stage.receive(&token, 100).await;
    assert_eq!(ids(&batch), [kept, forever[0]], "`{gone}` expired at this instant");
    assert_eq!(stage.ack(&token, &batch).await, 2);
    assert_eq!((stage.status(0).await.lag, stage.dead().await), (0, vec![]));
    let last = put(1).await;
    stage.pass_seconds(1);
    assert_eq!(stage.try_receive(&token, 100).await, None, "`{last}` expired");
    assert_eq!(stage.status(0).await.lag, 0, "a receive that finds only what expired goes past it");
    writes_nothing(h, "the receive after it", stage.try_receive(&token, 100)).await;
}

/// A message that was handed out in time stays with its batch when it expires, for its owner and for the heir.
pub async fn a_message_handed_out_in_time_stays_with_its_batch(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let expiring = stage.put(text("x").expires_in(delay(5))).await;
    let other = stage.put(text("y")).await;
    let owner = stage.claim("w1", 0, 10).await.token;
    let batch = stage.receive(&owner, 100).await;
    stage.pass_seconds(5);
    assert_eq!(ids(&stage.receive(&owner, 100).await), [expiring, other]);
    stage.pass_seconds(60);
    stage.maintain().await;
    let heir = stage.claim("w2", 0, 10).await.token;
    let inherited = stage.receive(&heir, 100).await;
    assert_eq!((inherited.id, ids(&inherited)), (batch.id, vec![expiring, other]));
    assert_eq!(stage.ack(&heir, &inherited).await, 2);
}

/// What is expired is decided once, at issue: a message of the range that was expired then does not join the heir's batch.
pub async fn what_was_expired_at_issue_stays_out_of_the_batch(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let first = stage.put(text("x")).await;
    let expired = stage.put(text("x").expires_in(delay(1))).await;
    let last = stage.put(text("x")).await;
    stage.pass_seconds(1);
    let owner = stage.claim("w1", 0, 10).await.token;
    let batch = stage.receive(&owner, 100).await;
    assert_eq!(ids(&batch), [first, last]);
    assert_eq!(stage.state(0).await.batch.map(|open| open.size), Some(2));
    refused(stage.store.ack_through(&owner, batch.id, expired).await, Kind::NotFound);
    stage.store.abandon_slot(&owner).await.unwrap();
    let heir = stage.claim("w2", 0, 10).await.token;
    assert_eq!(ids(&stage.receive(&heir, 100).await), [first, last]);
    assert_eq!(stage.store.ack_through(&heir, batch.id, first).await.unwrap(), 1);
    assert_eq!(stage.ack(&heir, &batch).await, 1);
    assert_eq!(stage.status(0).await.lag, 0);
}

/// A message that would expire before it is due is refused before it reaches storage; one that expires later is delivered in between.
pub async fn a_message_expires_after_it_is_due_or_not_at_all(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    for expires in [delay(10), delay(9), delay(0)] {
        let send = stage.store.send(stage.queue(), text("x").delay(delay(10)).expires_in(expires));
        let error = refused(writes_nothing(h, "a refused send", send).await, Kind::InvalidInput);
        assert_eq!(error.fact("argument"), Some("expires"));
    }
    let batch = vec![text("fine"), text("x").delay(delay(10)).expires_in(delay(1))];
    refused(stage.store.send_batch(stage.queue(), batch).await, Kind::InvalidInput);
    assert_eq!((stage.queue_status().await.stored, stage.queue_status().await.delayed), (0, 0), "all or none");
    let kept = stage.put(text("x").delay(delay(10)).expires_in(delay(20))).await;
    let lost = stage.put(text("x").delay(delay(10)).expires_in(delay(11))).await;
    stage.pass_seconds(11);
    stage.maintain().await;
    assert_eq!(stage.drain(0, 100).await.iter().flat_map(ids).collect::<Vec<_>>(), [kept], "`{lost}` is over");
}
