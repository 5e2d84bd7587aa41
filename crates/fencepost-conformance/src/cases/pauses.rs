//! Failures under the policy that pauses a key: its later messages wait for the failed one and follow in order; other keys flow.

use fencepost_core::{FailurePolicy, Key, MessageId, NackOutcome, OnFailure, Start};

use crate::Harness;
use crate::stage::{Stage, attempts, ids, text, writes_nothing};

/// Sends one message of each of these keys, in one call.
async fn put(stage: &Stage, keys: &[&Key]) -> Vec<MessageId> {
    let messages = keys.iter().map(|key| text("x").key((*key).clone())).collect();
    stage.store.send_batch(stage.queue(), messages).await.unwrap()
}

/// A46: a nack withdraws the later messages of its key in the batch and says which; the other keys are acked.
pub async fn a46_a_nack_withdraws_the_later_messages_of_its_key(h: &dyn Harness) {
    let stage = Stage::pausing(h, 2).await;
    let keys = stage.keys(0, 2);
    let (a, b) = (&keys[0], &keys[1]);
    let sent = put(&stage, &[a, b, a, b, a]).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    let nacked = stage.nack(&token, &batch, sent[2], 60).await;
    assert_eq!(nacked.withdrawn, [sent[4]], "an earlier one is not concerned");
    let nacked = stage.nack(&token, &batch, sent[0], 60).await;
    assert!(matches!(nacked.outcome, NackOutcome::Retry { .. }));
    assert!(!nacked.withdrawn.contains(&sent[1]) && nacked.withdrawn.contains(&sent[4]), "{nacked:?}");
    let rest = stage.receive(&token, 100).await;
    assert_eq!((rest.id, ids(&rest)), (batch.id, vec![sent[1], sent[3]]));
    assert_eq!(stage.state(0).await.batch.map(|open| open.size), Some(2));
    assert_eq!(stage.ack(&token, &batch).await, 2, "withdrawn messages are not acked");
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying, told.parked), (3, 1, 2));
    assert_eq!(stage.try_receive(&token, 100).await, None);
}

/// A46: while the head of a key comes again, the later messages of the key wait, also those that were sent since; other keys flow;
/// when the head succeeds they follow in order, and no attempt of theirs is spent.
pub async fn a46_a_key_follows_in_order_after_its_head_succeeded(h: &dyn Harness) {
    let stage = Stage::pausing(h, 2).await;
    let keys = stage.keys(0, 2);
    let (a, b) = (&keys[0], &keys[1]);
    let mut of_a = put(&stage, &[a, a]).await;
    let token = stage.claim("w1", 0, 600).await.token;
    for failure in 1..=2 {
        let batch = stage.receive(&token, 100).await;
        assert_eq!((batch.messages[0].id, batch.messages[0].attempt), (of_a[0], failure));
        stage.nack(&token, &batch, of_a[0], 60).await;
        let flows = batch.messages.iter().filter(|message| message.key.as_ref() == Some(b)).count() as u32;
        assert_eq!(stage.ack(&token, &batch).await, flows);
        let fresh = put(&stage, &[a, b]).await;
        of_a.push(fresh[0]);
        let meanwhile = stage.receive(&token, 100).await;
        assert_eq!(ids(&meanwhile), [fresh[1]], "the other key flows, and this one waits");
        assert_eq!(stage.ack(&token, &meanwhile).await, 1);
        let told = stage.status(0).await;
        assert_eq!((told.lag, told.retrying, told.parked), (of_a.len() as u64, 1, of_a.len() as u64 - 1));
        stage.pass_seconds(60);
    }
    let head = stage.receive(&token, 100).await;
    assert_eq!((ids(&head), attempts(&head)), (vec![of_a[0]], vec![3]));
    let last = put(&stage, &[a]).await;
    assert_eq!(stage.ack(&token, &head).await, 1);
    let mut followed = Vec::new();
    while let Some(batch) = stage.try_receive(&token, 2).await {
        assert!(attempts(&batch).iter().all(|attempt| *attempt == 1), "{batch:?}");
        followed.extend(ids(&batch));
        stage.ack(&token, &batch).await;
    }
    assert_eq!(followed, [&of_a[1..], &last].concat());
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying, told.parked), (0, 0, 0));
    assert_eq!(stage.dead().await, []);
}

/// A46: when the head runs out of attempts it is dead, and the later messages of its key follow in order.
pub async fn a46_a_key_follows_in_order_after_its_head_died(h: &dyn Harness) {
    let policy = FailurePolicy::default().on_failure(OnFailure::Pause).max_attempts(2).unwrap();
    let stage = Stage::with(h, 1, policy).await;
    let sent = stage.send(0, 4).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 3).await;
    assert_eq!(stage.nack(&token, &batch, sent[0], 0).await.withdrawn, sent[1..3]);
    assert_eq!(stage.ack(&token, &batch).await, 0);
    let again = stage.receive(&token, 100).await;
    assert_eq!((ids(&again), attempts(&again)), (vec![sent[0]], vec![2]), "the others wait, the new one included");
    let nacked = stage.nack(&token, &again, sent[0], 0).await;
    assert_eq!((nacked.outcome, nacked.withdrawn), (NackOutcome::Dead, vec![]));
    assert_eq!(stage.ack(&token, &again).await, 0);
    assert_eq!(stage.dead_ids().await, [sent[0]]);
    let mut followed = Vec::new();
    while let Some(batch) = stage.try_receive(&token, 1).await {
        followed.extend(ids(&batch));
        stage.ack(&token, &batch).await;
    }
    assert_eq!(followed, sent[1..]);
}

/// A46: giving the head up lets the rest go: nothing is withdrawn, and the batch is acked without it.
pub async fn a46_giving_the_head_up_lets_the_rest_go(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let sent = stage.send(0, 3).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    stage.give_up(&token, &batch, sent[0], "x").await;
    assert_eq!(ids(&stage.receive(&token, 100).await), sent[1..]);
    assert_eq!(stage.ack(&token, &batch).await, 2);
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.parked), (0, 0));
    assert_eq!(stage.dead_ids().await, [sent[0]]);
}

/// A46: a head that was nacked and is then given up instead: what was withdrawn comes again at once, in order, as if nothing had
/// failed.
pub async fn a46_what_was_withdrawn_comes_again_when_the_head_is_given_up_instead(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let sent = stage.send(0, 3).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    assert_eq!(stage.nack(&token, &batch, sent[0], 600).await.withdrawn, sent[1..]);
    stage.give_up(&token, &batch, sent[0], "x").await;
    assert_eq!(stage.ack(&token, &batch).await, 0);
    let again = stage.receive(&token, 100).await;
    assert_eq!((ids(&again), attempts(&again)), (sent[1..].to_vec(), vec![1, 1]));
    assert_eq!(stage.ack(&token, &again).await, 2);
    assert_eq!(stage.dead_ids().await, [sent[0]]);
}

/// A46: a snooze pauses its key like a nack and spends no attempt.
pub async fn a46_a_snooze_pauses_its_key(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let keys = stage.keys(0, 2);
    let (a, b) = (&keys[0], &keys[1]);
    let sent = put(&stage, &[a, a, b]).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    assert_eq!(stage.snooze(&token, &batch, sent[0], 60).await, [sent[1]]);
    assert_eq!(stage.ack(&token, &batch).await, 1);
    let late = put(&stage, &[a]).await;
    assert_eq!(stage.try_receive(&token, 100).await, None);
    stage.pass_seconds(60);
    let head = stage.receive(&token, 100).await;
    assert_eq!((ids(&head), attempts(&head)), (vec![sent[0]], vec![1]));
    stage.ack(&token, &head).await;
    let rest = stage.receive(&token, 100).await;
    assert_eq!((ids(&rest), attempts(&rest)), (vec![sent[1], late[0]], vec![1, 1]));
}

/// A46: a message that was withdrawn can be decided about, too: what was decided last counts, and the order stays.
pub async fn a46_a_withdrawn_message_can_be_nacked(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let sent = stage.send(0, 3).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    stage.nack(&token, &batch, sent[0], 60).await;
    assert_eq!(stage.nack(&token, &batch, sent[1], 0).await.withdrawn, [sent[2]]);
    assert_eq!(stage.ack(&token, &batch).await, 0);
    assert_eq!(stage.try_receive(&token, 100).await, None, "the head is not due, and the others wait for it");
    stage.pass_seconds(60);
    let head = stage.receive(&token, 100).await;
    assert_eq!((ids(&head), attempts(&head)), (vec![sent[0]], vec![2]));
    stage.ack(&token, &head).await;
    let rest = stage.receive(&token, 100).await;
    assert_eq!((ids(&rest), attempts(&rest)), (sent[1..].to_vec(), vec![2, 1]));
}

/// A46: the heir of a batch runs neither what was nacked nor what was withdrawn.
pub async fn a46_the_heir_does_not_run_what_was_withdrawn(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let keys = stage.keys(0, 2);
    let (a, b) = (&keys[0], &keys[1]);
    let sent = put(&stage, &[a, b, a]).await;
    let owner = stage.claim("w1", 0, 1).await.token;
    let batch = stage.receive(&owner, 100).await;
    stage.nack(&owner, &batch, sent[0], 60).await;
    stage.pass_seconds(1);
    let heir = stage.claim("w2", 0, 600).await.token;
    let inherited = stage.receive(&heir, 100).await;
    assert_eq!((inherited.id, ids(&inherited)), (batch.id, vec![sent[1]]));
    assert_eq!(stage.ack(&heir, &inherited).await, 1);
    stage.pass_seconds(60);
    let head = stage.receive(&heir, 100).await;
    assert_eq!(ids(&head), [sent[0]]);
    stage.ack(&heir, &head).await;
    assert_eq!(ids(&stage.receive(&heir, 100).await), [sent[2]]);
}

/// A46: an ack of a part parks the key, too: the withdrawn rest of the batch waits for its head, whose retry is not due.
pub async fn a46_an_ack_of_a_part_keeps_the_withdrawn_rest(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let keys = stage.keys(0, 2);
    let (a, b) = (&keys[0], &keys[1]);
    let sent = put(&stage, &[a, b, a, b]).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    stage.nack(&token, &batch, sent[0], 60).await;
    assert_eq!(stage.store.ack_through(&token, batch.id, sent[1]).await.unwrap(), 1);
    let rest = stage.receive(&token, 100).await;
    assert_eq!((rest.id, ids(&rest)), (batch.id, vec![sent[3]]));
    assert_eq!(stage.ack(&token, &rest).await, 1);
    assert_eq!(stage.try_receive(&token, 100).await, None);
    stage.pass_seconds(60);
    for expected in [sent[0], sent[2]] {
        let batch = stage.receive(&token, 100).await;
        assert_eq!(ids(&batch), [expected]);
        stage.ack(&token, &batch).await;
    }
}

/// A46: messages without a key pause nothing, and nothing of another consumer or slot waits.
pub async fn a46_only_the_key_of_this_consumer_waits(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let other = stage.consumer("shipping", 1, Start::Earliest).await;
    let keyless = stage.store.send_batch(stage.queue(), vec![text("x"), text("y"), text("z")]).await.unwrap();
    let keyed = stage.send(0, 2).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    assert_eq!(stage.nack(&token, &batch, keyless[0], 600).await.withdrawn, []);
    assert_eq!(stage.nack(&token, &batch, keyed[0], 600).await.withdrawn, [keyed[1]]);
    assert_eq!(stage.ack(&token, &batch).await, 2);
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying, told.parked), (3, 2, 1));
    let drained: Vec<_> = other.drain(0, 100).await.iter().flat_map(ids).collect();
    assert_eq!(drained, [keyless, keyed].concat(), "the other consumer is not concerned");
    assert_eq!(stage.status(0).await, told);
    writes_nothing(h, "a receive while a key waits", stage.try_receive(&token, 100)).await;
}

/// A46: a head that fails again parks what had come again behind it.
pub async fn a46_a_key_that_was_let_go_is_parked_again(h: &dyn Harness) {
    let stage = Stage::pausing(h, 1).await;
    let sent = stage.send(0, 4).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    stage.nack(&token, &batch, sent[0], 0).await;
    stage.ack(&token, &batch).await;
    let head = stage.receive(&token, 1).await;
    assert_eq!(ids(&head), [sent[0]]);
    stage.ack(&token, &head).await;
    let next = stage.receive(&token, 2).await;
    assert_eq!(ids(&next), sent[1..3]);
    assert_eq!(stage.nack(&token, &next, sent[1], 60).await.withdrawn, [sent[2]]);
    assert_eq!(stage.ack(&token, &next).await, 0);
    assert_eq!(stage.try_receive(&token, 100).await, None, "the last one waits, although it was let go");
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying, told.parked), (3, 1, 2));
    stage.pass_seconds(60);
    let mut followed = Vec::new();
    while let Some(batch) = stage.try_receive(&token, 100).await {
        followed.extend(ids(&batch));
        stage.ack(&token, &batch).await;
    }
    assert_eq!(followed, sent[1..]);
}

/// Under the policy that skips, the later messages of the key go on, and the failed one comes again behind them.
pub async fn a_skipping_consumer_goes_on_with_the_key(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 4).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 2).await;
    assert_eq!(stage.nack(&token, &batch, sent[0], 60).await.withdrawn, []);
    assert_eq!(stage.ack(&token, &batch).await, 1);
    let next = stage.receive(&token, 100).await;
    assert_eq!(ids(&next), sent[2..]);
    stage.ack(&token, &next).await;
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying, told.parked), (1, 1, 0));
    stage.pass_seconds(60);
    assert_eq!(ids(&stage.receive(&token, 100).await), [sent[0]]);
}
