//! Crash loops: a batch that ends its owners is handed out one message at a time, the one that ends two alone is dead, the rest flows.

use std::time::Duration;

use fencepost_core::slot::GrantOrigin;
use fencepost_core::{DeadCause, FailurePolicy, MessageId, Reason, Release, SlotGrant};

use crate::Harness;
use crate::stage::{Stage, attempts, fenced, ids, index};

/// A stage of one slot whose consumer suspects a message after so many crashes.
async fn suspicious(h: &dyn Harness, max_crashes: i64) -> Stage {
    Stage::with(h, 1, FailurePolicy::default().max_crashes(max_crashes).unwrap()).await
}

/// An owner dies; its grant of 1 s passes, and the next one claims and, when a batch came along, receives.
async fn die(stage: &Stage) -> (SlotGrant, Vec<MessageId>) {
    stage.pass_seconds(1);
    let grant = stage.claim("next", 0, 1).await;
    let handed_out = match grant.batch {
        Some(_) => ids(&stage.receive(&grant.token, 100).await),
        None => vec![],
    };
    (grant, handed_out)
}

/// A40: the claim that reaches the limit cuts the batch to its first message, the same batch; the rest follows one by one up to the
/// old end, and what comes after it in batches again.
pub async fn a40_a_crash_loop_is_handed_out_one_message_at_a_time(h: &dyn Harness) {
    let stage = suspicious(h, 3).await;
    let sent = stage.send(0, 7).await;
    let first = stage.claim("w", 0, 1).await.token;
    let batch = stage.receive(&first, 4).await;
    for crashes in 1..=2 {
        let (grant, handed_out) = die(&stage).await;
        assert_eq!(handed_out, sent[..4]);
        let open = grant.batch.unwrap();
        assert_eq!((open.id, open.crashes, open.deliveries, open.alone), (batch.id, crashes, crashes + 1, false));
    }
    let lag = stage.status(0).await.lag;
    let (grant, handed_out) = die(&stage).await;
    assert!(matches!(grant.origin, GrantOrigin::TakeOver { .. }), "{grant:?}");
    assert_eq!(handed_out, sent[..1]);
    let open = grant.batch.unwrap();
    assert_eq!((open.id, open.size, open.crashes, open.deliveries, open.alone), (batch.id, 1, 0, 4, true));
    assert_eq!(stage.status(0).await.lag, lag, "nothing is lost by the cut");

    assert_eq!(stage.store.ack(&grant.token, batch.id).await.unwrap(), 1);
    for id in &sent[1..4] {
        let one = stage.receive(&grant.token, 100).await;
        assert_eq!((ids(&one), one.crashes, one.deliveries), (vec![*id], 0, 1));
        assert_eq!(attempts(&one), [1]);
        assert_eq!(stage.ack(&grant.token, &one).await, 1);
    }
    let rest = stage.receive(&grant.token, 100).await;
    assert_eq!(ids(&rest), sent[4..], "beyond the old end nothing is suspected");
    assert_eq!(stage.ack(&grant.token, &rest).await, 3);
    assert_eq!((stage.dead().await, stage.status(0).await.lag), (vec![], 0));
}

/// A40: the message that ends two owners alone is dead with that cause; those before and after it are processed, and the claim that
/// convicts it has no batch.
pub async fn a40_the_message_that_ends_two_owners_alone_is_dead(h: &dyn Harness) {
    let stage = suspicious(h, 2).await;
    let sent = stage.send(0, 4).await;
    let first = stage.claim("w", 0, 1).await.token;
    stage.receive(&first, 100).await;
    die(&stage).await;
    let (grant, handed_out) = die(&stage).await;
    assert_eq!(handed_out, sent[..1]);
    stage.store.ack(&grant.token, grant.batch.unwrap().id).await.unwrap();

    let poison = stage.receive(&grant.token, 100).await;
    assert_eq!(ids(&poison), [sent[1]]);
    let (second, handed_out) = die(&stage).await;
    assert_eq!(handed_out, [sent[1]]);
    assert_eq!(second.batch.map(|open| (open.id, open.crashes)), Some((poison.id, 1)));
    assert_eq!(stage.dead().await, []);
    let (third, handed_out) = die(&stage).await;
    assert_eq!(third.origin, GrantOrigin::Convicted { from: second.token.epoch });
    assert_eq!((third.batch, handed_out), (None, vec![]));
    let dead = stage.dead().await;
    let [letter] = &dead[..] else { panic!("{dead:?}") };
    assert_eq!((letter.id, letter.cause, &letter.path), (sent[1], DeadCause::Crashes, &stage.path));
    assert_eq!(letter.died_at, stage.store.now().await.unwrap());
    fenced(stage.store.ack(&second.token, poison.id).await, second.token.epoch, Some(third.token.epoch));
    assert_eq!(stage.store.ack(&third.token, poison.id).await.unwrap(), 0, "it is finished");

    for id in &sent[2..] {
        let one = stage.receive(&third.token, 100).await;
        assert_eq!((ids(&one), one.crashes), (vec![*id], 0));
        assert_eq!(stage.ack(&third.token, &one).await, 1);
    }
    assert_eq!(stage.try_receive(&third.token, 100).await, None);
    assert_eq!(stage.store.release_slot(&third.token).await.unwrap(), Release::Released);
    assert_eq!((stage.status(0).await.lag, stage.dead_ids().await), (0, vec![sent[1]]));
}

/// A40: the policy's default is five crashes.
pub async fn a40_five_crashes_are_the_default(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 3).await;
    let first = stage.claim("w", 0, 1).await.token;
    stage.receive(&first, 100).await;
    for _ in 1..=4 {
        assert_eq!(die(&stage).await.1, sent);
    }
    assert_eq!(die(&stage).await.1, sent[..1]);
}

/// A40: giving a batch back, and an operator's force, count no crash and condemn nobody, however often.
pub async fn a40_clean_hand_backs_condemn_nobody(h: &dyn Harness) {
    let stage = suspicious(h, 2).await;
    let sent = stage.send(0, 3).await;
    let mut grant = stage.claim("w", 0, 1).await;
    let batch = stage.receive(&grant.token, 100).await;
    grant = die(&stage).await.0;
    for round in 0..6 {
        if round % 2 == 0 {
            assert_eq!(stage.store.abandon_slot(&grant.token).await.unwrap(), Release::Released);
        } else {
            let reason = Reason::new("it hangs").unwrap();
            stage.store.force_release_slot(&stage.path, index(0), &reason).await.unwrap();
        }
        stage.pass_seconds(60);
        grant = stage.claim("w", 0, 1).await;
        assert_eq!(grant.origin, GrantOrigin::Inherited);
        let again = stage.receive(&grant.token, 100).await;
        assert_eq!((again.id, ids(&again), again.crashes), (batch.id, sent.clone(), 1));
        assert_eq!(again.deliveries, 3 + round);
    }
    assert_eq!(stage.ack(&grant.token, &batch).await, 3);
    assert_eq!(stage.dead().await, []);
}

/// A40: a suspected message that is handed back cleanly, however often, is not condemned; nor is one that ends a single owner.
pub async fn a40_a_suspect_that_is_handed_back_is_not_condemned(h: &dyn Harness) {
    let stage = suspicious(h, 1).await;
    let sent = stage.send(0, 2).await;
    let first = stage.claim("w", 0, 1).await.token;
    stage.receive(&first, 100).await;
    let mut grant = die(&stage).await.0;
    for _ in 0..4 {
        stage.store.abandon_slot(&grant.token).await.unwrap();
        grant = stage.claim("w", 0, 1).await;
        assert_eq!(ids(&stage.receive(&grant.token, 100).await), sent[..1]);
    }
    let (grant, handed_out) = die(&stage).await;
    assert_eq!(handed_out, sent[..1]);
    assert_eq!(stage.store.ack(&grant.token, grant.batch.unwrap().id).await.unwrap(), 1);
    assert_eq!(ids(&stage.receive(&grant.token, 100).await), sent[1..]);
    assert_eq!(stage.dead().await, []);
}

/// A40: single crashes of one innocent batch after the other condemn nobody.
pub async fn a40_single_crashes_condemn_nobody(h: &dyn Harness) {
    let stage = suspicious(h, 2).await;
    let sent = stage.send(0, 12).await;
    let mut grant = stage.claim("w", 0, 1).await;
    for pair in sent.chunks(2) {
        let batch = stage.receive(&grant.token, 2).await;
        assert_eq!((ids(&batch), batch.crashes), (pair.to_vec(), 0));
        let (next, handed_out) = die(&stage).await;
        assert_eq!(handed_out, pair);
        assert_eq!(stage.store.ack(&next.token, batch.id).await.unwrap(), 2);
        grant = next;
    }
    assert_eq!((stage.dead().await, stage.status(0).await.lag), (vec![], 0));
}

/// A40: an expiry without an open batch is no crash, and an owner that is late but acks is none either.
pub async fn a40_an_expiry_that_loses_no_batch_condemns_nobody(h: &dyn Harness) {
    let stage = suspicious(h, 1).await;
    let sent = stage.send(0, 2).await;
    for _ in 0..3 {
        let grant = die(&stage).await.0;
        assert_eq!(grant.origin, GrantOrigin::Fresh);
    }
    let late = die(&stage).await.0;
    let batch = stage.receive(&late.token, 100).await;
    stage.pass(Duration::from_secs(60));
    assert_eq!(stage.receive(&late.token, 100).await, batch, "nobody took over");
    assert_eq!((ids(&batch), stage.ack(&late.token, &batch).await), (sent, 2));
    assert_eq!(stage.dead().await, []);
}

/// A40: what was decided before the cut stays decided: it is not handed out alone, and takes effect as the cursor passes it.
pub async fn a40_what_was_decided_stays_decided_in_isolation(h: &dyn Harness) {
    let stage = suspicious(h, 1).await;
    let sent = stage.send(0, 5).await;
    let first = stage.claim("w", 0, 1).await.token;
    let batch = stage.receive(&first, 100).await;
    stage.nack(&first, &batch, sent[0], 600).await;
    stage.give_up(&first, &batch, sent[2], "x").await;
    stage.nack(&first, &batch, sent[4], 600).await;
    let (grant, handed_out) = die(&stage).await;
    assert_eq!(handed_out, [sent[1]]);
    let open = grant.batch.unwrap();
    assert_eq!((open.id, open.alone), (batch.id, true));
    assert_eq!(stage.store.ack(&grant.token, batch.id).await.unwrap(), 1);
    let one = stage.receive(&grant.token, 100).await;
    assert_eq!(ids(&one), [sent[3]]);
    assert_eq!(stage.ack(&grant.token, &one).await, 1);
    assert_eq!(stage.try_receive(&grant.token, 100).await, None);
    assert_eq!(stage.dead_ids().await, [sent[2]]);
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying, told.state.batch), (2, 2, None));
    stage.pass_seconds(600);
    let heir = stage.claim("w", 0, 600).await.token;
    let again = stage.receive(&heir, 100).await;
    assert_eq!((ids(&again), attempts(&again)), (vec![sent[0], sent[4]], vec![2, 2]));
}

/// A40: a suspected message can be nacked like any other; it then comes again, is not suspected any more, and the rest follows.
pub async fn a40_a_suspect_can_be_nacked(h: &dyn Harness) {
    let stage = suspicious(h, 1).await;
    let sent = stage.send(0, 2).await;
    let first = stage.claim("w", 0, 1).await.token;
    let batch = stage.receive(&first, 100).await;
    let (grant, handed_out) = die(&stage).await;
    assert_eq!(handed_out, sent[..1]);
    stage.nack(&grant.token, &batch, sent[0], 600).await;
    // Nobody is ended by a message that was decided about.
    stage.pass_seconds(1);
    let grant = stage.claim("next", 0, 1).await;
    let one = stage.receive(&grant.token, 100).await;
    assert_eq!(ids(&one), sent[1..]);
    assert_eq!(stage.ack(&grant.token, &one).await, 1);
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying, stage.dead().await), (1, 1, vec![]));
    stage.pass_seconds(600);
    let heir = stage.claim("w", 0, 600).await.token;
    let again = stage.receive(&heir, 100).await;
    assert_eq!((ids(&again), attempts(&again)), (sent[..1].to_vec(), vec![2]));
    assert_eq!(stage.state(0).await.batch.map(|open| open.alone), Some(false));
}

/// A40: messages that had come again are handed out alone like the others of their batch.
pub async fn a40_what_had_come_again_is_isolated_too(h: &dyn Harness) {
    let stage = suspicious(h, 1).await;
    let sent = stage.send(0, 2).await;
    let first = stage.claim("w", 0, 1).await.token;
    let batch = stage.receive(&first, 100).await;
    for id in &sent {
        stage.nack(&first, &batch, *id, 0).await;
    }
    stage.ack(&first, &batch).await;
    let fresh = stage.send(0, 2).await;
    let mixed = stage.receive(&first, 100).await;
    assert_eq!(ids(&mixed), [sent.clone(), fresh.clone()].concat());
    let (grant, mut handed_out) = die(&stage).await;
    assert_eq!(handed_out, sent[..1]);
    assert_eq!(stage.store.ack(&grant.token, mixed.id).await.unwrap(), 1);
    while let Some(one) = stage.try_receive(&grant.token, 100).await {
        assert_eq!(one.messages.len(), 1);
        handed_out.extend(ids(&one));
        assert_eq!(stage.ack(&grant.token, &one).await, 1);
    }
    assert_eq!(handed_out, [sent, fresh].concat());
    let told = stage.status(0).await;
    assert_eq!((told.lag, told.retrying, stage.dead().await), (0, 0, vec![]));
}

/// A40: under the policy that pauses a key, the dead suspect lets the rest of its key go, in order.
pub async fn a40_a_condemned_head_lets_its_key_go(h: &dyn Harness) {
    let policy = FailurePolicy::default().on_failure(fencepost_core::OnFailure::Pause).max_crashes(1).unwrap();
    let stage = Stage::with(h, 1, policy).await;
    let sent = stage.send(0, 3).await;
    let first = stage.claim("w", 0, 1).await.token;
    stage.receive(&first, 100).await;
    die(&stage).await;
    die(&stage).await;
    let (grant, _) = die(&stage).await;
    assert!(matches!(grant.origin, GrantOrigin::Convicted { .. }), "{grant:?}");
    assert_eq!(stage.dead_ids().await, sent[..1]);
    let mut followed = Vec::new();
    while let Some(batch) = stage.try_receive(&grant.token, 100).await {
        followed.extend(ids(&batch));
        stage.ack(&grant.token, &batch).await;
    }
    assert_eq!(followed, sent[1..]);
    assert_eq!(stage.status(0).await.parked, 0);
}
