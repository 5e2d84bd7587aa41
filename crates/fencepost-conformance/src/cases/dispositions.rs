//! What is decided about single messages of an open batch: recorded at once, true with the ack, and inherited with the batch.

use std::time::Duration;

use fencepost_core::{
    BatchId, DeadCause, Error, Failure, FailurePolicy, Kind, MessageId, NackOutcome, Release, SlotToken,
};

use crate::Harness;
use crate::stage::{Stage, attempts, delay, failure, ids, refused, text, why, writes_nothing};

/// A20: a batch that was nacked whole is still open: its release is refused, and after the ack the messages come again on the same
/// slot with attempt 2, and not before their retry.
pub async fn a20_a_batch_nacked_whole_is_released_after_its_ack(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let sent = stage.send(0, 2).await;
    let owner = stage.claim("w1", 0, 30).await;
    let batch = stage.receive(&owner.token, 100).await;
    for id in &sent {
        stage.nack(&owner.token, &batch, *id, 60).await;
    }
    let before = (stage.status(0).await, stage.status(1).await);
    refused(stage.store.release_slot(&owner.token).await, Kind::OpenBatch);
    assert_eq!((stage.status(0).await, stage.status(1).await), before);
    assert_eq!(before.0.state.owner.as_ref().map(|owner| owner.expires_at), Some(owner.expires_at));
    assert_eq!(stage.try_claim("w2", 0, 30).await, None);

    assert_eq!(stage.ack(&owner.token, &batch).await, 0, "nacked messages are not acked");
    assert_eq!(stage.store.release_slot(&owner.token).await.unwrap(), Release::Released);
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying, told.parked), (2, 2, 0));
    let next = [stage.claim("w2", 0, 600).await.token, stage.claim("w2", 1, 600).await.token];
    stage.pass_seconds(59);
    assert_eq!(stage.try_receive(&next[0], 100).await, None, "it is not time yet");
    stage.pass_seconds(1);
    assert_eq!(stage.try_receive(&next[1], 100).await, None, "they belong to the other slot");
    let again = stage.receive(&next[0], 100).await;
    assert_eq!((ids(&again), attempts(&again)), (sent, vec![2, 2]));
    assert!(again.messages.iter().all(|message| message.deliveries == 2), "{again:?}");
    assert_ne!(again.id, batch.id);
    assert_eq!(stage.ack(&next[0], &again).await, 2);
    assert_eq!(stage.status(0).await.lag, 0);
}

/// A26: what was nacked before its owner died is not run again by the heir before its retry; the rest of the batch is.
pub async fn a26_the_heir_does_not_run_what_was_nacked(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 3).await;
    let owner = stage.claim("w1", 0, 1).await.token;
    let batch = stage.receive(&owner, 100).await;
    stage.nack(&owner, &batch, sent[1], 60).await;
    let without = stage.receive(&owner, 100).await;
    assert_eq!((without.id, ids(&without)), (batch.id, vec![sent[0], sent[2]]), "nor does the owner itself");

    stage.pass_seconds(1);
    let heir = stage.claim("w2", 0, 600).await.token;
    let inherited = stage.receive(&heir, 100).await;
    assert_eq!((inherited.id, ids(&inherited), inherited.deliveries), (batch.id, vec![sent[0], sent[2]], 2));
    assert_eq!(attempts(&inherited), [1, 1], "a crash spends no attempt");
    assert_eq!(stage.ack(&heir, &inherited).await, 2);
    assert_eq!(stage.try_receive(&heir, 100).await, None);
    stage.pass_seconds(60);
    let again = stage.receive(&heir, 100).await;
    assert_eq!((ids(&again), attempts(&again)), (vec![sent[1]], vec![2]));
    assert_eq!(again.messages[0].deliveries, 3, "the heir was handed it, too");
}

/// A52: a batch that its owner nacked whole before it died settles at the heir's receive, and the next messages come.
pub async fn a52_a_batch_nacked_whole_settles_for_the_heir(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let sent = stage.send(0, 4).await;
    let owner = stage.claim("w1", 0, 1).await.token;
    let batch = stage.receive(&owner, 2).await;
    for id in &sent[..2] {
        stage.nack(&owner, &batch, *id, 600).await;
    }
    let other = stage.status(1).await;
    stage.pass_seconds(1);
    let heir = stage.claim("w2", 0, 30).await.token;
    let next = stage.receive(&heir, 100).await;
    assert_ne!(next.id, batch.id);
    assert_eq!((ids(&next), next.deliveries, next.crashes), (sent[2..].to_vec(), 1, 0));
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying), (4, 2));
    assert_eq!(stage.store.ack(&heir, batch.id).await.unwrap(), 0, "it was acked");
    assert_eq!(stage.ack(&heir, &next).await, 2);
    assert_eq!(stage.store.release_slot(&heir).await.unwrap(), Release::Released);
    assert_eq!(stage.status(1).await, other);
}

/// A52: a batch that was nacked whole settles at its own owner's receive, too, and the slot is held without a batch when nothing
/// else waits.
pub async fn a52_a_batch_nacked_whole_leaves_the_slot_without_a_batch(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 1).await;
    let owner = stage.claim("w1", 0, 30).await;
    let batch = stage.receive(&owner.token, 100).await;
    stage.nack(&owner.token, &batch, sent[0], 60).await;
    assert_eq!(stage.try_receive(&owner.token, 100).await, None);
    let state = stage.state(0).await;
    assert_eq!((state.batch, state.last_acked), (None, Some(batch.id)));
    assert_eq!(state.epoch, Some(owner.token.epoch));
    writes_nothing(h, "an empty receive", stage.try_receive(&owner.token, 100)).await;
    assert_eq!(stage.store.release_slot(&owner.token).await.unwrap(), Release::Released);
}

/// What was decided takes effect with the ack and not before, and the count of the ack leaves it out.
pub async fn a_disposition_takes_effect_with_the_ack(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 5).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    let cursor = stage.state(0).await.cursor;
    stage.nack(&token, &batch, sent[0], 0).await;
    stage.snooze(&token, &batch, sent[1], 0).await;
    stage.give_up(&token, &batch, sent[3], "no such customer").await;
    assert_eq!(stage.dead().await, []);
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.state.cursor), (5, cursor));
    let open = told.state.batch.unwrap();
    assert_eq!((open.id, open.size, open.deliveries), (batch.id, 2, 1));
    let rest = stage.receive(&token, 1).await;
    assert_eq!((rest.id, ids(&rest)), (batch.id, vec![sent[2], sent[4]]), "what is due already comes after the ack");

    assert_eq!(stage.ack(&token, &batch).await, 2);
    assert_eq!(stage.dead_ids().await, [sent[3]]);
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying, told.parked), (2, 2, 0));
    let again = stage.receive(&token, 100).await;
    assert_eq!((ids(&again), attempts(&again)), (sent[..2].to_vec(), vec![2, 1]));
}

/// What was decided last about a message counts, whatever was decided before.
pub async fn the_last_disposition_counts(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 4).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let batch = stage.receive(&token, 100).await;
    stage.nack(&token, &batch, sent[0], 0).await;
    stage.give_up(&token, &batch, sent[0], "after all").await;
    stage.give_up(&token, &batch, sent[1], "in haste").await;
    stage.snooze(&token, &batch, sent[1], 0).await;
    stage.snooze(&token, &batch, sent[2], 600).await;
    stage.nack(&token, &batch, sent[2], 0).await;
    stage.nack(&token, &batch, sent[3], 0).await;
    stage.nack(&token, &batch, sent[3], 600).await;
    assert_eq!(stage.state(0).await.batch.map(|open| open.size), Some(0));
    assert_eq!(stage.ack(&token, &batch).await, 0);

    assert_eq!(stage.dead_ids().await, [sent[0]]);
    let again = stage.receive(&token, 100).await;
    assert_eq!((ids(&again), attempts(&again)), (sent[1..3].to_vec(), vec![1, 2]));
    stage.ack(&token, &again).await;
    assert_eq!(stage.try_receive(&token, 100).await, None);
    stage.pass_seconds(600);
    let last = stage.receive(&token, 100).await;
    assert_eq!((ids(&last), attempts(&last)), (vec![sent[3]], vec![2]), "one ack spends one attempt");
}

/// A snooze spends no attempt, however often; every delivery is counted.
pub async fn a_snooze_spends_no_attempt(h: &dyn Harness) {
    let stage = Stage::with(h, 1, FailurePolicy::default().max_attempts(2).unwrap()).await;
    let sent = stage.send(0, 1).await;
    let token = stage.claim("w1", 0, 600).await.token;
    for delivery in 1..=4 {
        let batch = stage.receive(&token, 100).await;
        assert_eq!((ids(&batch), attempts(&batch)), (sent.clone(), vec![1]));
        assert_eq!(batch.messages[0].deliveries, delivery);
        assert_eq!(stage.snooze(&token, &batch, sent[0], 10).await, []);
        assert_eq!(stage.ack(&token, &batch).await, 0);
        assert_eq!(stage.try_receive(&token, 100).await, None);
        stage.pass_seconds(10);
    }
    let batch = stage.receive(&token, 100).await;
    stage.nack(&token, &batch, sent[0], 0).await;
    stage.ack(&token, &batch).await;
    assert_eq!(attempts(&stage.receive(&token, 100).await), [2]);
    assert_eq!(stage.dead().await, []);
}

/// A message that fails as often as the policy allows is a dead letter of that cause, and not before.
pub async fn a_message_out_of_attempts_is_dead(h: &dyn Harness) {
    let stage = Stage::with(h, 1, FailurePolicy::default().max_attempts(3).unwrap()).await;
    let id = stage.send(0, 1).await.remove(0);
    let token = stage.claim("w1", 0, 600).await.token;
    let mut positions = Vec::new();
    for attempt in 1..=3 {
        let batch = stage.receive(&token, 1).await;
        assert_eq!((ids(&batch), attempts(&batch)), (vec![id], vec![attempt]));
        positions.push(batch.messages[0].position);
        let failure = Failure::because(why(&format!("failure {attempt}"))).retry_after(delay(0));
        let nacked = stage.store.nack(&token, batch.id, id, &failure).await.unwrap();
        let now = stage.store.now().await.unwrap();
        let expected = if attempt < 3 { NackOutcome::Retry { due_at: now } } else { NackOutcome::Dead };
        assert_eq!((nacked.outcome, nacked.withdrawn), (expected, vec![]));
        assert_eq!(stage.dead().await, [], "not before the ack");
        assert_eq!(stage.ack(&token, &batch).await, 0);
    }
    assert_eq!(stage.try_receive(&token, 1).await, None);
    let dead = stage.dead().await;
    let [letter] = &dead[..] else { panic!("{dead:?}") };
    assert_eq!((letter.id, letter.attempts, letter.cause), (id, 3, DeadCause::Attempts));
    assert_eq!(letter.reason.as_ref().map(|reason| reason.as_str()), Some("failure 3"));
    assert_eq!(letter.path, stage.path);
    assert_eq!(positions, [letter.position; 3], "a retry keeps its place");
    assert_eq!(letter.died_at, stage.store.now().await.unwrap());
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying), (0, 0));
}

/// A message that is given up is a dead letter whatever attempts it has left, with all that it was sent with.
pub async fn a_rejected_message_is_dead_at_once(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let key = stage.keys(0, 1).remove(0);
    let message = text("x").key(key.clone()).header("name", "value").unwrap();
    let id = stage.put(message.clone()).await;
    let sent_at = stage.store.now().await.unwrap();
    let token = stage.claim("w1", 0, 600).await.token;
    stage.pass_seconds(5);
    let batch = stage.receive(&token, 100).await;
    stage.give_up(&token, &batch, id, "two\nlines").await;
    assert_eq!(stage.ack(&token, &batch).await, 0);
    let dead = stage.dead().await;
    let [letter] = &dead[..] else { panic!("{dead:?}") };
    assert_eq!((letter.id, letter.attempts, letter.cause), (id, 1, DeadCause::Rejected));
    assert_eq!((&letter.key, &letter.kind), (&Some(key), message.get_kind()));
    assert_eq!((letter.payload.as_slice(), &letter.headers), (message.payload(), message.headers()));
    assert_eq!(letter.reason.as_ref().map(|reason| reason.as_str()), Some("two\nlines"));
    assert_eq!((letter.created_at, letter.died_at), (sent_at, stage.store.now().await.unwrap()));
    stage.pass_seconds(3_600);
    assert_eq!(stage.try_receive(&token, 100).await, None);
}

/// A nack that does not say when follows the policy's backoff: never later than it, doubled with every failure.
pub async fn a_nack_without_a_time_follows_the_backoff(h: &dyn Harness) {
    let stage = Stage::with(h, 1, FailurePolicy::default().backoff(Duration::from_secs(8)).unwrap()).await;
    let sent = stage.send(0, 1).await;
    let token = stage.claim("w1", 0, 3_600).await.token;
    for longest in [8, 16, 32] {
        let batch = stage.receive(&token, 100).await;
        let now = stage.store.now().await.unwrap();
        let nacked = stage.store.nack(&token, batch.id, sent[0], &Failure::default()).await.unwrap();
        let NackOutcome::Retry { due_at } = nacked.outcome else { panic!("{nacked:?}") };
        assert!(due_at >= now && due_at <= now + Duration::from_secs(longest), "{due_at:?} after {now:?}");
        stage.ack(&token, &batch).await;
        assert_eq!(stage.due_at(token.slot).await, Some(due_at));
        stage.pass_seconds(longest);
    }
}

/// Every disposition of a message, under the name of its call.
async fn dispose(
    stage: &Stage,
    token: &SlotToken,
    batch: BatchId,
    id: MessageId,
) -> [(&'static str, Result<(), Error>); 3] {
    let store = &stage.store;
    [
        ("nack", store.nack(token, batch, id, &failure(0)).await.map(drop)),
        ("snooze", store.snooze(token, batch, id, delay(0)).await.map(drop)),
        ("dead_letter", store.dead_letter(token, batch, id, &why("x")).await),
    ]
}

/// A disposition in any other batch than the open one is a conflict, also in the one acked last, and changes nothing.
pub async fn a_disposition_in_another_batch_is_a_conflict(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 2).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let acked = stage.receive(&token, 1).await;
    stage.ack(&token, &acked).await;
    let never = BatchId::new(999).unwrap();
    for open in [None, Some(())] {
        let open = match open {
            Some(()) => Some(stage.receive(&token, 1).await.id.to_string()),
            None => None,
        };
        let before = stage.status(0).await;
        for (batch, id) in [(acked.id, sent[0]), (acked.id, sent[1]), (never, sent[1])] {
            let answers = writes_nothing(h, "a conflict", dispose(&stage, &token, batch, id)).await;
            for (call, answer) in answers {
                let error = refused(answer, Kind::Conflict);
                assert_eq!(
                    (error.operation(), error.fact("open_batch_id")),
                    (Some(call), open.as_deref().or(Some("none")))
                );
            }
        }
        assert_eq!(stage.status(0).await, before);
    }
}

/// A disposition of a message that is not of the open batch is not found, whatever the message is, and changes nothing.
pub async fn a_disposition_of_a_message_of_no_batch_is_not_found(h: &dyn Harness) {
    let stage = Stage::pausing(h, 2).await;
    let keys = stage.keys(0, 2);
    let put = async |n: usize| stage.put(text("x").key(keys[n].clone())).await;
    let expiring = text("x").key(keys[1].clone()).expires_in(delay(1));
    let (head, parked, expired) = (put(0).await, put(0).await, stage.put(expiring).await);
    stage.pass_seconds(1);
    let others = stage.send(1, 1).await;
    let token = stage.claim("w1", 0, 600).await.token;
    let first = stage.receive(&token, 1).await;
    assert_eq!(ids(&first), [head]);
    stage.nack(&token, &first, head, 600).await;
    stage.ack(&token, &first).await;
    let (acked, open, waiting) = (put(1).await, put(1).await, put(1).await);
    let batch = stage.receive(&token, 2).await;
    assert_eq!(ids(&batch), [acked, open]);
    assert_eq!(stage.store.ack_through(&token, batch.id, acked).await.unwrap(), 1);

    let before = (stage.status(0).await, stage.status(1).await);
    for id in [head, parked, expired, others[0], acked, waiting, MessageId::MAX] {
        let answers = writes_nothing(h, "a refusal", dispose(&stage, &token, batch.id, id)).await;
        for (call, answer) in answers {
            let error = refused(answer, Kind::NotFound);
            assert_eq!(error.operation(), Some(call), "{error:?}");
            assert_eq!(error.fact("message_id"), Some(id.to_string().as_str()));
            assert_eq!(error.fact("batch_id"), Some(batch.id.to_string().as_str()));
        }
    }
    assert_eq!((stage.status(0).await, stage.status(1).await), before);
    assert_eq!(stage.ack(&token, &batch).await, 1);
}
