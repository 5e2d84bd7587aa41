//! Giving slots back: never with an open batch, unless it is handed to the heir.

use fencepost_core::slot::GrantOrigin;
use fencepost_core::{Batch, Kind, Release, SlotGrant};

use crate::Harness;
use crate::stage::{Stage, TakenOver, fenced, ids, refused, size, writes_nothing};

/// w1 holds slot 0 with an open batch of two, and was refused to release it.
async fn after_a_refused_release(h: &dyn Harness) -> (Stage, SlotGrant, Batch) {
    let stage = Stage::new(h, 2).await;
    stage.send(0, 2).await;
    let grant = stage.claim("w1", 0, 30).await;
    let batch = stage.receive(&grant.token, 100).await;
    stage.pass_seconds(1);
    refused(stage.store.release_slot(&grant.token).await, Kind::OpenBatch);
    (stage, grant, batch)
}

/// A01: a release with an open batch answers `open_batch` and names the batch.
pub async fn a01_release_with_an_open_batch_is_refused(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    stage.send(0, 2).await;
    let grant = stage.claim("w1", 0, 30).await;
    let batch = stage.receive(&grant.token, 100).await;
    assert_eq!(batch.messages.len(), 2);
    let error = refused(stage.store.release_slot(&grant.token).await, Kind::OpenBatch);
    assert_eq!(error.fact("batch_id"), Some(batch.id.to_string().as_str()));
    assert_eq!(error.fact("slot"), Some("0"));
    assert_eq!(error.operation(), Some("release_slot"));
}

/// A02: a refused release leaves owner, epoch, batch and expiry as they were.
pub async fn a02_a_refused_release_changes_nothing(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    stage.send(0, 2).await;
    let grant = stage.claim("w1", 0, 30).await;
    stage.receive(&grant.token, 100).await;
    let before = stage.status(0).await;
    stage.pass_seconds(1);
    let release = writes_nothing(h, "a refused release", stage.store.release_slot(&grant.token)).await;
    refused(release, Kind::OpenBatch);
    let after = stage.status(0).await;
    assert_eq!(after, before);
    assert_eq!(after.state.owner.unwrap().expires_at, grant.expires_at);
    assert_eq!((after.state.epoch, after.lag), (Some(grant.token.epoch), 2));
}

/// A03: after a refused release the slot is granted to nobody else.
pub async fn a03_after_a_refused_release_nobody_else_is_granted(h: &dyn Harness) {
    let (stage, grant, _) = after_a_refused_release(h).await;
    let before = stage.state(0).await;
    assert_eq!(stage.try_claim("w2", 0, 30).await, None);
    assert_eq!(stage.state(0).await, before);
    let any = stage.store.claim(&stage.request("w2", 30)).await.unwrap().expect("the other slot is free");
    assert_ne!(any.token.slot, grant.token.slot);
}

/// A04: after a refused release the owner receives the same batch: the same messages in the same order.
pub async fn a04_after_a_refused_release_the_batch_comes_again(h: &dyn Harness) {
    let (stage, grant, batch) = after_a_refused_release(h).await;
    assert_eq!(stage.receive(&grant.token, 100).await, batch);
}

/// A05: after the ack the release succeeds, and the next owner gets a higher epoch.
pub async fn a05_after_the_ack_the_release_succeeds(h: &dyn Harness) {
    let (stage, grant, batch) = after_a_refused_release(h).await;
    assert_eq!(stage.store.ack(&grant.token, batch.id).await.unwrap(), 2);
    assert_eq!(stage.store.release_slot(&grant.token).await.unwrap(), Release::Released);
    let released = stage.state(0).await;
    assert_eq!((released.owner, released.batch), (None, None));
    let heir = stage.claim("w2", 0, 30).await;
    assert!(heir.token.epoch > grant.token.epoch);
    assert_eq!((heir.origin, heir.batch), (GrantOrigin::Fresh, None));
    assert_eq!(stage.try_receive(&heir.token, 100).await, None);
}

/// A06: the second release of one grant is not held.
pub async fn a06_the_second_release_is_not_held(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let grant = stage.claim("w1", 0, 30).await;
    assert_eq!(stage.store.release_slot(&grant.token).await.unwrap(), Release::Released);
    let again = writes_nothing(h, "a second release", stage.store.release_slot(&grant.token)).await;
    assert_eq!(again.unwrap(), Release::NotHeld);
}

/// A07: a release by who is not the owner is not held, is no error, and leaves the owner's open batch alone.
pub async fn a07_release_by_a_stranger_is_not_held(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    stage.send(0, 2).await;
    let stranger = stage.claim("w2", 0, 30).await;
    stage.store.release_slot(&stranger.token).await.unwrap();
    let grant = stage.claim("w1", 0, 30).await;
    let batch = stage.receive(&grant.token, 100).await;
    let before = stage.state(0).await;
    let release = writes_nothing(h, "a stranger's release", stage.store.release_slot(&stranger.token)).await;
    assert_eq!(release.unwrap(), Release::NotHeld);
    assert_eq!(stage.store.abandon_slot(&stranger.token).await.unwrap(), Release::NotHeld);
    assert_eq!(stage.state(0).await, before);
    assert_eq!(stage.store.ack(&grant.token, batch.id).await.unwrap(), 2);
}

/// A08: a release without a batch is released: with none ever opened, and after an empty receive.
pub async fn a08_release_without_a_batch_is_released(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let never = stage.claim("w1", 0, 30).await;
    assert_eq!(stage.store.release_slot(&never.token).await.unwrap(), Release::Released);
    let empty = stage.claim("w1", 1, 30).await;
    assert_eq!(stage.try_receive(&empty.token, 100).await, None);
    assert_eq!(stage.store.release_slot(&empty.token).await.unwrap(), Release::Released);
    for slot in [0, 1] {
        assert_eq!(stage.state(slot).await.owner, None);
    }
}

/// A13: the heir of an open batch cannot release it either.
pub async fn a13_release_of_an_inherited_batch_is_refused(h: &dyn Harness) {
    let TakenOver { stage, second, .. } = TakenOver::new(h).await;
    stage.receive(&second.token, 100).await;
    let before = stage.state(0).await;
    refused(stage.store.release_slot(&second.token).await, Kind::OpenBatch);
    assert_eq!(stage.state(0).await, before);
}

/// A13: an inherited batch is open from the claim on, before the heir has received it.
pub async fn a13_release_before_the_first_receive_of_an_inherited_batch_is_refused(h: &dyn Harness) {
    let TakenOver { stage, second, .. } = TakenOver::new(h).await;
    refused(stage.store.release_slot(&second.token).await, Kind::OpenBatch);
    assert_eq!(stage.state(0).await.epoch, Some(second.token.epoch));
}

/// A14: the heir acks and releases; the next worker gets a higher epoch and the next messages.
pub async fn a14_the_heir_acks_and_releases_and_the_next_worker_goes_on(h: &dyn Harness) {
    let TakenOver { stage, second, batch, .. } = TakenOver::new(h).await;
    let later = stage.send(0, 3).await;
    let inherited = stage.receive(&second.token, 100).await;
    assert_eq!(inherited.messages.len(), 2, "later messages do not join an open batch");
    assert_eq!(stage.store.ack(&second.token, batch.id).await.unwrap(), 2);
    assert_eq!(stage.store.release_slot(&second.token).await.unwrap(), Release::Released);
    let third = stage.claim("w3", 0, 30).await;
    assert!(third.token.epoch > second.token.epoch);
    assert_eq!(ids(&stage.receive(&third.token, 100).await), later);
}

/// A19: after expiry, as long as nobody took over, a release with an open batch is still refused.
pub async fn a19_release_after_expiry_with_an_open_batch_is_refused(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    stage.send(0, 2).await;
    let grant = stage.claim("w1", 0, 1).await;
    let batch = stage.receive(&grant.token, 100).await;
    stage.pass_seconds(5);
    let before = stage.state(0).await;
    refused(stage.store.release_slot(&grant.token).await, Kind::OpenBatch);
    assert_eq!(stage.state(0).await, before);
    assert_eq!(stage.store.abandon_slot(&grant.token).await.unwrap(), Release::Released);
    let heir = stage.claim("w2", 0, 30).await;
    assert_eq!(heir.batch.map(|open| open.id), Some(batch.id));
}

/// A22: an abandoned batch goes to the next claimant without waiting, and the old owner is fenced at once.
pub async fn a22_abandon_hands_the_batch_over_at_once(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    stage.send(0, 2).await;
    let grant = stage.claim("w1", 0, 30).await;
    let batch = stage.receive(&grant.token, 100).await;
    assert_eq!(stage.store.abandon_slot(&grant.token).await.unwrap(), Release::Released);

    let orphan = stage.state(0).await;
    assert_eq!(orphan.owner, None);
    assert_eq!(orphan.batch.map(|open| (open.id, open.deliveries, open.crashes)), Some((batch.id, 1, 0)));
    fenced(stage.store.ack(&grant.token, batch.id).await, grant.token.epoch, None);
    fenced(stage.store.receive(&grant.token, size(100)).await, grant.token.epoch, None);
    assert_eq!(stage.store.abandon_slot(&grant.token).await.unwrap(), Release::NotHeld);
    assert_eq!(stage.state(0).await, orphan);

    let heir = stage.claim("w2", 0, 30).await;
    assert!(heir.token.epoch > grant.token.epoch);
    assert_eq!(heir.origin, GrantOrigin::Inherited);
    let inherited = stage.receive(&heir.token, 1).await;
    assert_eq!((inherited.id, ids(&inherited)), (batch.id, ids(&batch)));
    assert_eq!((inherited.deliveries, inherited.crashes), (2, 0), "an abandon is no crash");
    fenced(stage.store.ack(&grant.token, batch.id).await, grant.token.epoch, Some(heir.token.epoch));
    assert_eq!(stage.store.ack(&heir.token, batch.id).await.unwrap(), 2);
}

/// An abandon without a batch frees the slot.
pub async fn abandon_without_a_batch_frees_the_slot(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let grant = stage.claim("w1", 0, 30).await;
    assert_eq!(stage.store.abandon_slot(&grant.token).await.unwrap(), Release::Released);
    let state = stage.state(0).await;
    assert_eq!((state.owner, state.batch), (None, None));
    assert_eq!(stage.claim("w2", 0, 30).await.origin, GrantOrigin::Fresh);
}
