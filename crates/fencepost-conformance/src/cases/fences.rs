//! Expiry, takeover and the fence: nothing that a late owner does changes anything.

use std::time::Duration;

use fencepost_core::slot::GrantOrigin;
use fencepost_core::{Batch, Epoch, Error, Reason, Release, Renewal, SlotToken};

use crate::stage::{Stage, TakenOver, delay, failure, fenced, ids, size, why, writes_nothing};
use crate::{End, Harness, Step};

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

/// Every call that needs the slot, made with this token, under its name; none of them may succeed.
async fn owners_calls(h: &dyn Harness, stage: &Stage, token: &SlotToken, batch: &Batch) -> Vec<(&'static str, Error)> {
    let (store, message) = (&stage.store, batch.messages[0].id);
    let guard = h.transact(vec![Step::SlotGuard { token: token.clone() }], End::Commit).await;
    let ack_in = h.transact(vec![Step::Ack { token: token.clone(), batch: batch.id }], End::Commit).await;
    let answers = [
        ("receive", store.receive(token, size(1)).await.err()),
        ("ack", store.ack(token, batch.id).await.err()),
        ("ack_through", store.ack_through(token, batch.id, message).await.err()),
        ("ack_receive", store.ack_receive(token, batch.id, size(1)).await.err()),
        ("nack", store.nack(token, batch.id, message, &failure(0)).await.err()),
        ("snooze", store.snooze(token, batch.id, message, delay(0)).await.err()),
        ("dead_letter", store.dead_letter(token, batch.id, message, &why("x")).await.err()),
        ("guard_slot", guard.err()),
        ("ack", ack_in.err()),
    ];
    let refused = answers.into_iter().map(|(call, error)| (call, error.unwrap_or_else(|| panic!("{call} succeeded"))));
    refused.collect()
}

/// A11: the late owner's receive, ack, ack_through, ack_receive, nack, snooze, dead_letter and guard are fenced, each with the
/// presented and the current epoch; the heir's batch is unchanged, and nothing is dead or withdrawn.
pub async fn a11_a_late_owner_is_fenced(h: &dyn Harness) {
    let TakenOver { stage, batch, first, second, .. } = TakenOver::new(h).await;
    let before = (stage.status(0).await, stage.status(1).await);
    let (old, new) = (first.token.epoch, Some(second.token.epoch));
    let calls = owners_calls(h, &stage, &first.token, &batch);
    for (call, error) in writes_nothing(h, "a fenced call", calls).await {
        assert_eq!(error.operation(), Some(call), "{error:?}");
        fenced::<()>(Err(error), old, new);
    }
    assert_eq!((stage.status(0).await, stage.status(1).await), before);
    let inherited = stage.receive(&second.token, 100).await;
    assert_eq!((inherited.id, ids(&inherited)), (batch.id, ids(&batch)));
    assert_eq!(stage.store.ack(&second.token, batch.id).await.unwrap(), 2);
    assert_eq!(stage.dead().await, []);
}

/// A11: whoever is not the owner is fenced: one that gave the slot back, was forced out, or presents an epoch that nobody has,
/// whatever state the slot is in.
pub async fn a11_whoever_does_not_own_the_slot_is_fenced(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 4).await;
    let owner = stage.claim("w1", 0, 30).await.token;
    let batch = stage.receive(&owner, 2).await;
    let stranger = SlotToken { epoch: Epoch::new(owner.epoch.get() + 1).unwrap(), ..owner.clone() };
    let is_fenced = async |token: &SlotToken, current: Option<Epoch>| {
        let before = stage.status(0).await;
        for (_, error) in writes_nothing(h, "a fenced call", owners_calls(h, &stage, token, &batch)).await {
            fenced::<()>(Err(error), token.epoch, current);
        }
        assert_eq!(stage.status(0).await, before);
    };
    is_fenced(&stranger, Some(owner.epoch)).await;
    stage.store.abandon_slot(&owner).await.unwrap();
    is_fenced(&owner, None).await;
    let heir = stage.claim("w2", 0, 30).await.token;
    is_fenced(&owner, Some(heir.epoch)).await;
    stage.ack(&heir, &batch).await;
    is_fenced(&owner, Some(heir.epoch)).await;
    stage.store.release_slot(&heir).await.unwrap();
    is_fenced(&heir, None).await;
    let forced = stage.claim("w3", 0, 30).await.token;
    stage.store.force_release_slot(&stage.path, forced.slot, &Reason::new("x").unwrap()).await.unwrap();
    is_fenced(&forced, None).await;
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

/// A16: a nack past half the TTL renews, and so do a snooze and giving a message up; nobody is granted the slot after the first TTL.
pub async fn a16_a_disposition_past_half_the_ttl_renews(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 4).await;
    let grant = stage.claim("w1", 0, 10).await;
    let batch = stage.receive(&grant.token, 100).await;
    let expires_at = async || stage.state(0).await.owner.unwrap().expires_at;
    stage.nack(&grant.token, &batch, sent[0], 0).await;
    stage.pass_seconds(5);
    stage.nack(&grant.token, &batch, sent[0], 0).await;
    assert_eq!(expires_at().await, grant.expires_at, "half is not past half");
    let mut passed = 5;
    for call in 0..3 {
        stage.pass_seconds(6);
        passed += 6;
        match call {
            0 => drop(stage.nack(&grant.token, &batch, sent[1], 0).await),
            1 => drop(stage.snooze(&grant.token, &batch, sent[2], 0).await),
            _ => stage.give_up(&grant.token, &batch, sent[3], "x").await,
        }
        assert_eq!(expires_at().await, grant.expires_at + Duration::from_secs(passed));
    }
    stage.pass(Duration::from_micros(9_999_999));
    assert_eq!(stage.try_claim("w2", 0, 10).await, None);
    assert_eq!(stage.state(0).await.epoch, Some(grant.token.epoch), "a renewal keeps the epoch");
}

/// A16: an ack with the next receive past half the TTL renews, too, also when nothing follows.
pub async fn a16_ack_receive_past_half_the_ttl_renews(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 1).await;
    let grant = stage.claim("w1", 0, 10).await;
    let batch = stage.receive(&grant.token, 100).await;
    stage.pass_seconds(6);
    let both = stage.store.ack_receive(&grant.token, batch.id, size(1)).await.unwrap();
    assert_eq!((both.acked, both.next), (1, None));
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
