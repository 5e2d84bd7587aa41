//! Calls inside a caller's own transaction: they commit together or leave no trace but numbers that were skipped.

use fencepost_core::{Kind, Release};

use crate::stage::{Stage, TakenOver, fenced, ids, path, refused, text};
use crate::{End, Harness, Step, StepOutcome};

fn send(stage: &Stage, payload: &str) -> Step {
    Step::Send { queue: stage.queue().clone(), message: text(payload) }
}

/// A21: ack and release in one caller's transaction: released, and the next owner goes on after the batch.
pub async fn a21_ack_and_release_in_one_transaction(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let sent = stage.send(0, 3).await;
    let token = stage.claim("w1", 0, 30).await.token;
    let batch = stage.receive(&token, 2).await;
    let steps = vec![Step::Ack { token: token.clone(), batch: batch.id }, Step::Release { token: token.clone() }];
    let outcomes = h.transact(steps, End::Commit).await.unwrap();
    assert_eq!(outcomes, [StepOutcome::Acked(2), StepOutcome::Released(Release::Released)]);
    let status = stage.status(0).await;
    assert_eq!((status.state.owner, status.state.batch, status.lag), (None, None, 1));
    let heir = stage.claim("w2", 0, 30).await;
    assert!(heir.token.epoch > token.epoch);
    assert_eq!(ids(&stage.receive(&heir.token, 100).await), sent[2..]);
}

/// A21: rolled back, ack and release leave no trace: the batch is open and the slot held.
pub async fn a21_ack_and_release_rolled_back_leave_no_trace(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    stage.send(0, 3).await;
    let token = stage.claim("w1", 0, 30).await.token;
    let batch = stage.receive(&token, 2).await;
    let before = stage.status(0).await;
    stage.pass_seconds(20);
    let steps = vec![Step::Ack { token: token.clone(), batch: batch.id }, Step::Release { token: token.clone() }];
    let outcomes = h.transact(steps, End::Rollback).await.unwrap();
    assert_eq!(outcomes, [StepOutcome::Acked(2), StepOutcome::Released(Release::Released)], "as it looked inside");
    assert_eq!(stage.status(0).await, before);
    assert_eq!(stage.try_claim("w2", 0, 30).await, None);
    assert_eq!(stage.receive(&token, 100).await, batch);
    assert_eq!(stage.store.ack(&token, batch.id).await.unwrap(), 2);
}

/// A21: a release before the ack in one transaction is refused, and the transaction leaves no trace.
pub async fn a21_release_before_the_ack_in_one_transaction_is_refused(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 2).await;
    let token = stage.claim("w1", 0, 30).await.token;
    let batch = stage.receive(&token, 2).await;
    let before = stage.status(0).await;
    let steps = vec![Step::Release { token: token.clone() }, Step::Ack { token: token.clone(), batch: batch.id }];
    refused(h.transact(steps, End::Commit).await, Kind::OpenBatch);
    assert_eq!(stage.status(0).await, before);
}

/// A43, B29: what is sent in a transaction is there after its commit, in order and once.
pub async fn a43_sends_in_a_transaction_are_there_after_its_commit(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let before = stage.store.send(stage.queue(), text("before")).await.unwrap();
    let outcomes = h.transact(vec![send(&stage, "a"), send(&stage, "b")], End::Commit).await.unwrap();
    let [StepOutcome::Sent(a), StepOutcome::Sent(b)] = outcomes[..] else { panic!("{outcomes:?}") };
    let after = stage.store.send(stage.queue(), text("after")).await.unwrap();
    let batches = stage.drain(0, 100).await;
    assert_eq!(batches.iter().flat_map(ids).collect::<Vec<_>>(), [before, a, b, after]);
    assert_eq!(batches[0].messages[2].payload, b"b");
}

/// A43: what is sent in a transaction that is rolled back is never delivered, and what is sent later is.
pub async fn a43_sends_in_a_transaction_are_absent_after_its_rollback(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let steps = vec![send(&stage, "a"), send(&stage, "b")];
    let outcomes = h.transact(steps, End::Rollback).await.unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, StepOutcome::Sent(_))), "{outcomes:?}");
    assert_eq!(stage.store.queue_status().await.unwrap()[0].stored, 0);
    let later = stage.store.send(stage.queue(), text("later")).await.unwrap();
    let batches = stage.drain(0, 100).await;
    assert_eq!(batches.iter().flat_map(ids).collect::<Vec<_>>(), [later]);
    assert_eq!(batches[0].messages[0].payload, b"later");
}

/// A43: a transaction acks a batch and sends what follows from it in one commit.
pub async fn a43_ack_and_send_in_one_transaction(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 1).await;
    let token = stage.claim("w1", 0, 30).await.token;
    let batch = stage.receive(&token, 100).await;
    let steps = vec![send(&stage, "follows"), Step::Ack { token: token.clone(), batch: batch.id }];
    let outcomes = h.transact(steps, End::Commit).await.unwrap();
    let [StepOutcome::Sent(follows), StepOutcome::Acked(1)] = outcomes[..] else { panic!("{outcomes:?}") };
    let next = stage.receive(&token, 100).await;
    assert_eq!((ids(&next), next.messages[0].payload.as_slice()), (vec![follows], &b"follows"[..]));
}

/// A11: an ack that is fenced inside a transaction undoes everything of the transaction.
pub async fn a11_a_fenced_ack_undoes_its_transaction(h: &dyn Harness) {
    let TakenOver { stage, first, second, batch, .. } = TakenOver::new(h).await;
    let before = (stage.status(0).await, stage.status(1).await);
    for steps in [
        vec![send(&stage, "effect"), Step::Ack { token: first.token.clone(), batch: batch.id }],
        vec![Step::Ack { token: first.token.clone(), batch: batch.id }, send(&stage, "effect")],
    ] {
        fenced(h.transact(steps, End::Commit).await, first.token.epoch, Some(second.token.epoch));
        assert_eq!((stage.status(0).await, stage.status(1).await), before);
    }
    let steps = vec![send(&stage, "effect"), Step::Ack { token: second.token, batch: batch.id }];
    h.transact(steps, End::Commit).await.unwrap();
    assert_eq!(stage.store.queue_status().await.unwrap()[0].stored, 3);
}

/// B21: a transaction that ignored a refusal does not commit, so no effect of a late owner is ever stored.
pub async fn b21_an_ignored_refusal_undoes_its_transaction(h: &dyn Harness) {
    let TakenOver { stage, first, second, batch, .. } = TakenOver::new(h).await;
    let before = (stage.status(0).await, stage.status(1).await);
    let late = Step::Ignoring(Box::new(Step::Ack { token: first.token.clone(), batch: batch.id }));
    let ended = h.transact(vec![late, send(&stage, "effect")], End::Commit).await;
    fenced(ended, first.token.epoch, Some(second.token.epoch));
    assert_eq!((stage.status(0).await, stage.status(1).await), before);
}

/// A release by who is not the owner is an ordinary outcome inside a transaction: what else is in it commits.
pub async fn a_release_that_is_not_held_does_not_undo_its_transaction(h: &dyn Harness) {
    let TakenOver { stage, first, .. } = TakenOver::new(h).await;
    let before = stage.state(0).await;
    let outcomes = h.transact(vec![Step::Release { token: first.token }, send(&stage, "kept")], End::Commit).await.unwrap();
    assert_eq!(outcomes[0], StepOutcome::Released(Release::NotHeld));
    assert_eq!(stage.state(0).await, before);
    assert_eq!(stage.store.queue_status().await.unwrap()[0].stored, 3);
}

/// A send to a queue that does not exist undoes its transaction.
pub async fn a_send_to_an_absent_queue_undoes_its_transaction(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let nowhere = Step::Send { queue: path("nowhere", "x").queue, message: text("x") };
    let error = refused(h.transact(vec![send(&stage, "a"), nowhere], End::Commit).await, Kind::NotFound);
    assert!(error.to_string().contains("`nowhere`"), "{error}");
    assert_eq!(stage.store.queue_status().await.unwrap()[0].stored, 0);
}
