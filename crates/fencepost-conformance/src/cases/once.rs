//! Idempotent sends: one message a key, told by its first id, as long as the queue remembers the key.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost_core::{IdempotencyKey, Kind, MessageKind, NewMessage, OnceTtl, Result, SentOnce};

use crate::stage::{Stage, delay, ids, path, refused, text, writes_nothing};
use crate::{End, Harness, Step, StepOutcome};

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).unwrap()
}

async fn send(stage: &Stage, message: NewMessage, name: &str) -> Result<SentOnce> {
    stage.store.send_once(stage.queue(), message, &key(name), OnceTtl::default()).await
}

/// A51: the same key again is deduplicated: it tells the first id, writes nothing, and the message is delivered once.
pub async fn a51_the_same_key_again_is_deduplicated(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let message = || text("paid").key(stage.keys(0, 1).remove(0)).header("a", "1").unwrap();
    let first = send(&stage, message(), "k1").await.unwrap();
    assert!(!first.deduplicated);
    let other = send(&stage, message(), "k2").await.unwrap();
    assert!(!other.deduplicated && other.id != first.id, "another key is another message");
    let through = stage.through(h.another().await);
    stage.pass_seconds(3_600);
    for stage in [&stage, &through] {
        let again = writes_nothing(h, "a deduplicated send", send(stage, message(), "k1")).await.unwrap();
        assert_eq!(again, SentOnce { id: first.id, deduplicated: true });
    }
    assert_eq!(stage.drain(0, 100).await.iter().flat_map(ids).collect::<Vec<_>>(), [first.id, other.id]);
    stage.maintain().await;
    let again = send(&stage, message(), "k1").await.unwrap();
    assert_eq!(again, SentOnce { id: first.id, deduplicated: true }, "also when the message is consumed and removed");
    assert_eq!(stage.status(0).await.lag, 0);
}

/// A51: the same key with another payload, key, kind or header is a conflict that names the first id, and nothing is sent.
pub async fn a51_the_same_key_with_another_message_is_a_conflict(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let keys = stage.keys(0, 2);
    let message = || text("paid").key(keys[0].clone()).header("a", "1").unwrap();
    let first = send(&stage, message(), "k1").await.unwrap();
    let others = [
        text("unpaid").key(keys[0].clone()).header("a", "1").unwrap(),
        message().key(keys[1].clone()),
        message().key(None),
        message().kind(MessageKind::new("other").unwrap()),
        message().header("a", "2").unwrap(),
        message().header("b", "1").unwrap(),
    ];
    for other in others {
        let error = refused(writes_nothing(h, "a conflict", send(&stage, other, "k1")).await, Kind::Conflict);
        assert_eq!(error.fact("first_id"), Some(first.id.to_string().as_str()), "{error:?}");
    }
    assert_eq!(send(&stage, message(), "k1").await.unwrap(), SentOnce { id: first.id, deduplicated: true });
    assert_eq!(stage.queue_status().await.stored, 1);
}

/// A51: a first send that was rolled back leaves no trace: the next one is new, also with another message.
pub async fn a51_after_a_rollback_the_key_is_new(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let step = |payload| Step::SendOnce {
        queue: stage.queue().clone(),
        message: text(payload),
        key: key("k1"),
        ttl: OnceTtl::default(),
    };
    let outcomes = h.transact(vec![step("a"), step("a")], End::Rollback).await.unwrap();
    let [StepOutcome::SentOnce(inside), StepOutcome::SentOnce(again)] = outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!((inside.deduplicated, again.deduplicated, again.id), (false, true, inside.id));
    let outcomes = h.transact(vec![step("b")], End::Commit).await.unwrap();
    let [StepOutcome::SentOnce(first)] = outcomes[..] else { panic!("{outcomes:?}") };
    assert!(!first.deduplicated);
    assert_eq!(send(&stage, text("b"), "k1").await.unwrap(), SentOnce { id: first.id, deduplicated: true });
    let batches = stage.drain(0, 100).await;
    assert_eq!(batches.iter().flat_map(ids).collect::<Vec<_>>(), [first.id]);
    assert_eq!(batches[0].messages[0].payload, b"b");
}

/// A51: a first send that was refused leaves no trace either.
pub async fn a51_after_a_refusal_the_key_is_new(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let never = text("x").delay(delay(10)).expires_in(delay(1));
    refused(send(&stage, never, "k1").await, Kind::InvalidInput);
    let nowhere = path("nowhere", "x").queue;
    let sent = stage.store.send_once(&nowhere, text("x"), &key("k1"), OnceTtl::default()).await;
    refused(sent, Kind::NotFound);
    assert!(!send(&stage, text("y"), "k1").await.unwrap().deduplicated);
}

/// A51: after its time the key is new, whatever maintenance has done, and stands for the message sent then.
pub async fn a51_after_its_time_the_key_is_new(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let ttl = OnceTtl::new(Duration::from_secs(60)).unwrap();
    let once =
        async |payload, name: &str| stage.store.send_once(stage.queue(), text(payload), &key(name), ttl).await.unwrap();
    let first = [once("a", "kept").await, once("a", "cleared").await];
    stage.pass(Duration::from_micros(59_999_999));
    stage.maintain().await;
    assert_eq!(once("a", "kept").await, SentOnce { id: first[0].id, deduplicated: true });
    stage.pass(Duration::from_micros(1));
    let second = once("b", "kept").await;
    assert!(!second.deduplicated && second.id > first[0].id);
    assert!(stage.maintain().await >= 1);
    assert!(!once("b", "cleared").await.deduplicated);
    assert_eq!(once("b", "kept").await, SentOnce { id: second.id, deduplicated: true });
    assert_eq!(stage.queue_status().await.stored, 4);
}

/// A51: sent at once through two handles, one message is there, one call made it, and all tell its id.
pub async fn a51_concurrent_sends_of_one_key_make_one_message(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let handles = [stage.store.clone(), h.another().await];
    let calls: Vec<_> = (0..20)
        .map(|n| {
            let (store, queue) = (handles[n % 2].clone(), stage.queue().clone());
            tokio::spawn(async move { store.send_once(&queue, text("x"), &key("k1"), OnceTtl::default()).await })
        })
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap().unwrap());
    }
    assert_eq!(answers.iter().filter(|answer| !answer.deduplicated).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().map(|answer| answer.id).collect::<BTreeSet<_>>().len(), 1, "{answers:?}");
    assert_eq!(stage.queue_status().await.stored, 1);
}

/// The key's scope is its queue, and a dropped queue forgets it.
pub async fn an_idempotency_key_belongs_to_its_queue(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let other = path("invoices", "x").queue;
    stage.store.create_queue(&other, Default::default()).await.unwrap();
    send(&stage, text("x"), "k1").await.unwrap();
    let sent = stage.store.send_once(&other, text("y"), &key("k1"), OnceTtl::default()).await;
    assert!(!sent.unwrap().deduplicated);
    stage.store.drop_queue(stage.queue(), true).await.unwrap();
    let again = Stage::new(h, 1).await;
    assert!(!send(&again, text("z"), "k1").await.unwrap().deduplicated);
}

/// A delayed message is sent once, too: the key stands for it before it is due.
pub async fn a_delayed_message_is_sent_once(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let message = || text("x").delay(delay(60));
    let first = send(&stage, message(), "k1").await.unwrap();
    let again = send(&stage, message(), "k1").await.unwrap();
    assert_eq!(again, SentOnce { id: first.id, deduplicated: true });
    assert_eq!(stage.queue_status().await.delayed, 1);
    stage.pass_seconds(60);
    stage.maintain().await;
    assert_eq!(stage.drain(0, 100).await.iter().flat_map(ids).collect::<Vec<_>>(), [first.id]);
}
