//! Expiry, takeover and the fence: nothing that a late owner does changes anything.

use std::time::Duration;

use fencepost_core::slot::GrantOrigin;
use fencepost_core::{Release, Renewal};

use crate::Harness;
use crate::stage::{Stage, TakenOver, fenced, ids, size, writes_nothing};

/// A09: after its TTL an owner is taken over, with a strictly higher epoch.
pub async fn a09_a_claim_after_expiry_is_granted_with_a_higher_epoch(h: &dyn Harness) {
    let TakenOver { stage, first, second, batch, .. } = TakenOver::new(h).await;
    assert!(second.token.epoch > first.token.epoch);
    assert_eq!(second.origin, GrantOrigin::TakeOver { from: first.token.epoch });
    let open = second.batch.expect("the batch came along");
    assert_eq!((open.id, open.size, open.deliveries, open.crashes), (batch.id, 2, 2, 1));
    let state = stage.state(0).await;
    assert_eq!((state.epoch, state.batch), (Some(second.token.epoch), Some(open)));
    assert_eq!(state.owner.unwrap().expires_at, second.expires_at);
}

/// A10: the heir receives the identical batch, delivered once more.
pub async fn a10_the_heir_receives_the_same_batch(h: &dyn Harness) {
    let TakenOver { stage, ids: sent, batch, second, .. } = TakenOver::new(h).await;
    let inherited = stage.receive(&second.token, 100).await;
    assert_eq!((inherited.id, ids(&inherited)), (batch.id, sent));
    assert_eq!((batch.deliveries, inherited.deliveries, inherited.crashes), (1, 2, 1));
    assert!(inherited.messages.iter().all(|message| message.deliveries == 2 && message.attempt == 1));
}

/// A11: the late owner's receive and ack are fenced, and the heir's batch is unchanged.
pub async fn a11_a_late_owner_is_fenced(h: &dyn Harness) {
    let TakenOver { stage, batch, first, second, .. } = TakenOver::new(h).await;
    let before = stage.status(0).await;
    let (old, new) = (first.token.epoch, Some(second.token.epoch));
    let ack = writes_nothing(h, "a fenced ack", stage.store.ack(&first.token, batch.id)).await;
    fenced(ack, old, new);
    let receive = writes_nothing(h, "a fenced receive", stage.store.receive(&first.token, size(100))).await;
    fenced(receive, old, new);
    assert_eq!(stage.status(0).await, before);
    assert_eq!(stage.store.ack(&second.token, batch.id).await.unwrap(), 2);
}

/// A12: the late owner's release, abandon and renewal answer not held, not held and lost; the heir is untouched.
pub async fn a12_a_late_owner_gives_back_and_renews_nothing(h: &dyn Harness) {
    let TakenOver { stage, first, second, batch, .. } = TakenOver::new(h).await;
    let before = stage.status(0).await;
    assert_eq!(stage.store.release_slot(&first.token).await.unwrap(), Release::NotHeld);
    assert_eq!(stage.store.abandon_slot(&first.token).await.unwrap(), Release::NotHeld);
    assert_eq!(stage.store.renew_slot(&first.token).await.unwrap(), Renewal::Lost);
    assert_eq!(stage.status(0).await, before);
    assert_eq!(stage.store.renew_slot(&second.token).await.unwrap(), Renewal::Held);
    assert_eq!(stage.receive(&second.token, 100).await.id, batch.id);
}

/// A15: a receive past half the TTL renews, and one before does not; nobody is granted the slot after the first TTL.
pub async fn a15_a_receive_past_half_the_ttl_renews(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 2).await;
    let grant = stage.claim("w1", 0, 10).await;
    stage.pass_seconds(5);
    let batch = stage.receive(&grant.token, 100).await;
    assert_eq!(stage.state(0).await.owner.unwrap().expires_at, grant.expires_at, "half is not past half");
    stage.pass(Duration::from_micros(1));
    assert_eq!(stage.receive(&grant.token, 100).await, batch);
    let renewed = stage.state(0).await;
    assert_eq!(renewed.owner.unwrap().expires_at, grant.expires_at + Duration::from_micros(5_000_001));
    assert_eq!(renewed.epoch, Some(grant.token.epoch), "a renewal keeps the epoch");
    stage.pass_seconds(5);
    assert_eq!(stage.try_claim("w2", 0, 10).await, None);
    stage.pass_seconds(5);
    assert!(stage.try_claim("w2", 0, 10).await.is_some());
}

/// A15: the receive that opens a batch renews past half the TTL, too.
pub async fn a15_the_receive_that_opens_a_batch_past_half_the_ttl_renews(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 2).await;
    let grant = stage.claim("w1", 0, 10).await;
    stage.pass_seconds(6);
    stage.receive(&grant.token, 100).await;
    assert_eq!(stage.state(0).await.owner.unwrap().expires_at, grant.expires_at + Duration::from_secs(6));
    stage.pass_seconds(9);
    assert_eq!(stage.try_claim("w2", 0, 10).await, None);
}

/// A16: an ack past half the TTL renews; nobody is granted the slot after the first TTL.
pub async fn a16_an_ack_past_half_the_ttl_renews(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 2).await;
    let grant = stage.claim("w1", 0, 10).await;
    let batch = stage.receive(&grant.token, 100).await;
    stage.pass_seconds(6);
    assert_eq!(stage.store.ack(&grant.token, batch.id).await.unwrap(), 2);
    assert_eq!(stage.state(0).await.owner.unwrap().expires_at, grant.expires_at + Duration::from_secs(6));
    stage.pass_seconds(4);
    assert_eq!(stage.try_claim("w2", 0, 10).await, None);
}

/// A17: an expired owner whom nobody took over acks.
pub async fn a17_an_expired_owner_acks_when_nobody_took_over(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 2).await;
    let grant = stage.claim("w1", 0, 1).await;
    let batch = stage.receive(&grant.token, 100).await;
    stage.pass_seconds(60);
    assert_eq!(stage.store.ack(&grant.token, batch.id).await.unwrap(), 2);
    let status = stage.status(0).await;
    assert_eq!((status.state.epoch, status.state.batch, status.lag), (Some(grant.token.epoch), None, 0));
    assert_eq!(stage.try_claim("w2", 0, 1).await, None, "the ack renewed");
}

/// A17: an expired owner whom nobody took over renews by its TTL.
pub async fn a17_an_expired_owner_renews_when_nobody_took_over(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let grant = stage.claim("w1", 0, 1).await;
    stage.pass_seconds(60);
    assert_eq!(stage.store.renew_slot(&grant.token).await.unwrap(), Renewal::Held);
    assert_eq!(stage.state(0).await.owner.unwrap().expires_at, grant.expires_at + Duration::from_secs(60));
    assert_eq!(stage.try_claim("w2", 0, 1).await, None);
}

/// A18: an owner vanishes with an open batch; after its TTL another gets the same messages once more, and the cursor moves once.
pub async fn a18_the_batch_of_a_vanished_owner_is_taken_over(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let sent = stage.send(0, 5).await;
    stage.send(1, 4).await;
    let vanished = stage.claim("w1", 0, 10).await;
    let batch = stage.receive(&vanished.token, 3).await;
    let other = stage.claim("w3", 1, 60).await;
    let others_batch = stage.receive(&other.token, 100).await;
    let (start, others_state) = (stage.state(0).await.cursor, stage.state(1).await);

    stage.pass(Duration::from_micros(9_999_999));
    let heir = stage.through(h.another().await);
    assert_eq!(heir.store.claim(&heir.request("w2", 10)).await.unwrap(), None, "the TTL has not passed");
    stage.pass(Duration::from_micros(1));
    let grant = heir.store.claim(&heir.request("w2", 10)).await.unwrap().expect("the TTL has passed");
    assert_eq!(grant.token.slot, vanished.token.slot);
    let inherited = heir.receive(&grant.token, 100).await;
    assert_eq!((inherited.id, ids(&inherited)), (batch.id, sent[..3].to_vec()));
    assert_eq!(heir.state(0).await.cursor, start, "the cursor moves with the ack only");
    assert_eq!(heir.store.ack(&grant.token, inherited.id).await.unwrap(), 3);

    let moved = heir.status(0).await;
    assert!(moved.state.cursor > start);
    assert_eq!(moved.lag, 2);
    fenced(stage.store.ack(&vanished.token, batch.id).await, vanished.token.epoch, Some(grant.token.epoch));
    assert_eq!(stage.status(0).await, moved);
    assert_eq!(ids(&heir.receive(&grant.token, 100).await), sent[3..]);
    assert_eq!(stage.state(1).await, others_state);
    assert_eq!(stage.store.ack(&other.token, others_batch.id).await.unwrap(), 4);
}

/// A34: of two processes with one worker name the older one's ack is fenced after a takeover; the newer batch is untouched.
pub async fn a34_the_older_of_two_processes_with_one_worker_name_is_fenced(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let process = stage.through(h.another().await);
    stage.send(0, 2).await;
    let older = stage.claim("worker", 0, 1).await;
    let batch = stage.receive(&older.token, 100).await;
    stage.pass_seconds(1);
    let newer = process.claim("worker", 0, 30).await;
    let inherited = process.receive(&newer.token, 100).await;
    assert_eq!(inherited.id, batch.id);
    let before = stage.status(0).await;
    fenced(stage.store.ack(&older.token, batch.id).await, older.token.epoch, Some(newer.token.epoch));
    assert_eq!(stage.store.renew_slot(&older.token).await.unwrap(), Renewal::Lost);
    assert_eq!(stage.status(0).await, before);
    assert_eq!(process.store.ack(&newer.token, batch.id).await.unwrap(), 2);
}

/// A batch that loses several owners by expiry counts every delivery and every crash.
pub async fn deliveries_and_crashes_are_counted_per_takeover(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 1).await;
    let grant = stage.claim("w0", 0, 1).await;
    let batch = stage.receive(&grant.token, 100).await;
    for taken_over in 1..=3 {
        stage.pass_seconds(1);
        let grant = stage.claim("heir", 0, 1).await;
        let again = stage.receive(&grant.token, 100).await;
        assert_eq!((again.id, again.deliveries, again.crashes), (batch.id, taken_over + 1, taken_over));
        assert_eq!(stage.receive(&grant.token, 100).await, again, "a further receive is no delivery to a new owner");
    }
}

/// An owner without a batch that expires loses its slot, too, but nothing crashed.
pub async fn takeover_without_a_batch_is_a_fresh_grant(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let first = stage.claim("w1", 0, 1).await;
    stage.pass_seconds(1);
    let second = stage.claim("w2", 0, 1).await;
    assert_eq!((second.origin, second.batch), (GrantOrigin::Fresh, None));
    assert!(second.token.epoch > first.token.epoch);
    fenced(stage.store.receive(&first.token, size(1)).await, first.token.epoch, Some(second.token.epoch));
}
