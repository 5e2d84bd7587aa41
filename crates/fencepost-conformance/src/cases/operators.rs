//! What operators do by force: the epoch rises, the owner is refused, the batch stays, and the reason is kept.

use fencepost_core::slot::GrantOrigin;
use fencepost_core::{
    AcquireLease, Acquired, Dropped, HolderName, Kind, LeaseName, LeaseToken, Partitions, Reason, Release, Renewal, Topic,
};

use crate::stage::{Stage, asleep, fenced, ids, index, path, refused, size, woken};
use crate::{End, Harness, Step, StepOutcome};

fn reason(text: &str) -> Reason {
    Reason::new(text).unwrap()
}

async fn acquire(stage: &Stage, name: &str, holder: &str) -> LeaseToken {
    let request = AcquireLease::new(LeaseName::new(name).unwrap(), HolderName::new(holder).unwrap());
    match stage.store.acquire_lease(&request).await.unwrap() {
        Acquired::Granted { token, .. } => token,
        held => panic!("not granted: {held:?}"),
    }
}

/// A23: a slot taken by force: the owner is fenced at once, the batch is kept for the heir and counts no crash, and who, when, why
/// and by which epoch is on record.
pub async fn a23_a_slot_taken_by_force_fences_its_owner_and_keeps_the_batch(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let sent = stage.send(0, 2).await;
    let owner = stage.claim("w1", 0, 30).await;
    let batch = stage.receive(&owner.token, 100).await;
    let other = stage.status(1).await;

    let epoch = stage.store.force_release_slot(&stage.path, index(0), &reason("it hangs")).await.unwrap();
    assert!(epoch > owner.token.epoch);
    fenced(stage.store.ack(&owner.token, batch.id).await, owner.token.epoch, None);
    fenced(stage.store.receive(&owner.token, size(1)).await, owner.token.epoch, None);
    assert_eq!(stage.store.renew_slot(&owner.token).await.unwrap(), Renewal::Lost);
    assert_eq!(stage.store.release_slot(&owner.token).await.unwrap(), Release::NotHeld);
    assert_eq!(stage.status(1).await, other, "the other slot is untouched");

    let heir = stage.claim("w2", 0, 30).await;
    assert!(heir.token.epoch > epoch);
    assert_eq!(heir.origin, GrantOrigin::Inherited);
    let again = stage.receive(&heir.token, 100).await;
    assert_eq!((again.id, ids(&again), again.deliveries, again.crashes), (batch.id, sent, 2, 0));

    let history = stage.store.slot_history(&stage.path).await.unwrap();
    let [(slot, forced)] = &history[..] else { panic!("{history:?}") };
    assert_eq!((*slot, forced.epoch, forced.from.as_deref(), forced.reason.as_str()), (index(0), epoch, Some("w1"), "it hangs"));
    assert_eq!(forced.at, stage.store.now().await.unwrap());
}

/// A23: taking a slot that nobody owns raises its epoch, too; an orphan stays one.
pub async fn a23_force_raises_the_epoch_whoever_owns_the_slot(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 1).await;
    let first = stage.store.force_release_slot(&stage.path, index(0), &reason("free")).await.unwrap();
    let owner = stage.claim("w1", 0, 30).await;
    assert!(owner.token.epoch > first);
    stage.receive(&owner.token, 1).await;
    stage.store.abandon_slot(&owner.token).await.unwrap();
    let second = stage.store.force_release_slot(&stage.path, index(0), &reason("orphan")).await.unwrap();
    assert!(second > owner.token.epoch);
    let state = stage.state(0).await;
    assert_eq!((state.epoch, state.owner, state.batch.map(|batch| batch.deliveries)), (Some(second), None, Some(1)));
    let history = stage.store.slot_history(&stage.path).await.unwrap();
    assert!(history.iter().all(|(_, forced)| forced.from.is_none()), "{history:?}");
}

/// The record of what was taken by force keeps the last 100.
pub async fn the_record_of_force_keeps_the_last_hundred(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let lease = LeaseName::new("l").unwrap();
    for n in 0..101 {
        stage.store.force_release_slot(&stage.path, index(0), &reason(&format!("slot {n}"))).await.unwrap();
        stage.store.force_release_lease(&lease, &reason(&format!("lease {n}"))).await.unwrap();
    }
    let slots = stage.store.slot_history(&stage.path).await.unwrap();
    let leases = stage.store.lease_history(&lease).await.unwrap();
    assert_eq!((slots.len(), leases.len()), (100, 100));
    assert_eq!((slots[0].1.reason.as_str(), slots[99].1.reason.as_str()), ("slot 1", "slot 100"));
    assert_eq!((leases[0].reason.as_str(), leases[99].reason.as_str()), ("lease 1", "lease 100"));
}

/// Taking a slot by force wakes who waits for one.
pub async fn force_wakes_who_waits_for_a_slot(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.claim("w1", 0, 30).await;
    let mut sleeper = stage.store.wakes(&Topic::Slots(stage.path.clone()));
    assert!(asleep(&mut sleeper));
    stage.store.force_release_slot(&stage.path, index(0), &reason("x")).await.unwrap();
    woken(&mut sleeper).await;
}

/// A lease taken by force is free; its holder has lost it; the reason is kept, and the next grant is higher.
pub async fn a_lease_taken_by_force_is_lost_to_its_holder(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let held = acquire(&stage, "leader", "a").await;
    let epoch = stage.store.force_release_lease(&held.name, &reason("the host is gone")).await.unwrap();
    assert!(epoch > held.epoch);
    assert_eq!(stage.store.renew_lease(&held, None).await.unwrap(), Renewal::Lost);
    assert_eq!(stage.store.release_lease(&held).await.unwrap(), Release::NotHeld);
    let next = acquire(&stage, "leader", "b").await;
    assert!(next.epoch > epoch);
    let history = stage.store.lease_history(&held.name).await.unwrap();
    let [forced] = &history[..] else { panic!("{history:?}") };
    assert_eq!((forced.epoch, forced.from.as_deref(), forced.reason.as_str()), (epoch, Some("a"), "the host is gone"));
}

/// A lease that nobody ever acquired gets its first epoch by force.
pub async fn force_on_an_unknown_lease_records_an_epoch(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let name = LeaseName::new("new").unwrap();
    assert_eq!(stage.store.lease_history(&name).await.unwrap(), []);
    let epoch = stage.store.force_release_lease(&name, &reason("in advance")).await.unwrap();
    assert!(acquire(&stage, "new", "a").await.epoch > epoch);
}

/// A transaction guarded by a lease commits under its holder, also after expiry as long as nobody took over, and not under
/// anybody else.
pub async fn a_guarded_transaction_commits_only_under_the_holder(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let old = acquire(&stage, "leader", "a").await;
    let write = || Step::Send { queue: stage.queue().clone(), message: crate::stage::text("by the leader") };
    let guarded = |token: &LeaseToken| vec![Step::Guard { token: token.clone() }, write()];
    let stored = async || stage.store.queue_status().await.unwrap()[0].stored;

    let outcomes = h.transact(guarded(&old), End::Commit).await.unwrap();
    assert_eq!(outcomes[0], StepOutcome::Guarded);
    stage.pass_seconds(3_600);
    h.transact(guarded(&old), End::Commit).await.unwrap();
    assert_eq!(stored().await, 2);

    let new = acquire(&stage, "leader", "b").await;
    fenced(h.transact(guarded(&old), End::Commit).await, old.epoch, Some(new.epoch));
    let late = vec![write(), Step::Guard { token: old.clone() }];
    fenced(h.transact(late, End::Commit).await, old.epoch, Some(new.epoch));
    assert_eq!(stored().await, 2);
    h.transact(guarded(&new), End::Commit).await.unwrap();
    stage.store.release_lease(&new).await.unwrap();
    fenced(h.transact(guarded(&new), End::Commit).await, new.epoch, None);
    assert_eq!(stored().await, 3);
}

/// A11: a transaction guarded by a slot commits under its owner only.
pub async fn a11_a_transaction_guarded_by_a_slot_commits_only_under_its_owner(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let old = stage.claim("w1", 0, 1).await.token;
    let write = || Step::Send { queue: stage.queue().clone(), message: crate::stage::text("x") };
    let outcomes = h.transact(vec![Step::SlotGuard { token: old.clone() }, write()], End::Commit).await.unwrap();
    assert_eq!(outcomes[0], StepOutcome::Guarded);
    stage.pass_seconds(1);
    let new = stage.claim("w2", 0, 1).await.token;
    let late = vec![Step::SlotGuard { token: old.clone() }, write()];
    fenced(h.transact(late, End::Commit).await, old.epoch, Some(new.epoch));
    assert_eq!(stage.store.queue_status().await.unwrap()[0].stored, 1);
}

/// An ack with the next receive is one call: acked, and the next batch is open.
pub async fn ack_receive_acks_and_opens_the_next_batch(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let sent = stage.send(0, 5).await;
    let token = stage.claim("w1", 0, 30).await.token;
    let mut batch = stage.receive(&token, 2).await;
    let mut seen = ids(&batch);
    for expected in [2, 2, 1] {
        let mark = h.write_mark().await;
        let both = stage.store.ack_receive(&token, batch.id, size(2)).await.unwrap();
        assert_eq!(both.acked, expected);
        assert_ne!(h.write_mark().await, mark);
        let Some(next) = both.next else { break };
        assert_eq!((next.deliveries, next.messages[0].deliveries), (1, 1));
        assert_eq!(stage.state(0).await.batch.map(|open| open.id), Some(next.id));
        seen.extend(ids(&next));
        batch = next;
    }
    assert_eq!(seen, sent);
    assert_eq!((stage.state(0).await.batch, stage.status(0).await.lag), (None, 0));
    let again = stage.store.ack_receive(&token, batch.id, size(2)).await.unwrap();
    assert_eq!((again.acked, again.next), (0, None), "the batch acked last");
}

/// A11: an ack with the next receive is refused whole: fenced, or another batch.
pub async fn a11_ack_receive_is_refused_whole(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 3).await;
    let old = stage.claim("w1", 0, 1).await.token;
    let batch = stage.receive(&old, 1).await;
    stage.pass_seconds(1);
    let new = stage.claim("w2", 0, 30).await.token;
    let before = stage.status(0).await;
    fenced(stage.store.ack_receive(&old, batch.id, size(1)).await, old.epoch, Some(new.epoch));
    let other = fencepost_core::BatchId::new(99).unwrap();
    refused(stage.store.ack_receive(&new, other, size(1)).await, Kind::Conflict);
    assert_eq!(stage.status(0).await, before);
    assert_eq!(stage.store.ack_receive(&new, batch.id, size(1)).await.unwrap().acked, 1);
}

/// A queue in use is dropped by force only; then everything of it is gone, and a new one of that name begins empty.
pub async fn a_queue_in_use_is_dropped_by_force_only(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    stage.send(0, 3).await;
    let token = stage.claim("w1", 0, 30).await.token;
    stage.receive(&token, 1).await;
    let error = refused(stage.store.drop_queue(stage.queue(), false).await, Kind::Conflict);
    assert_eq!(error.fact("consumers"), Some("1"));
    assert_eq!(stage.status(0).await.lag, 3);

    assert_eq!(stage.store.drop_queue(stage.queue(), true).await.unwrap(), Dropped::Dropped);
    assert_eq!(stage.store.drop_queue(stage.queue(), true).await.unwrap(), Dropped::Absent);
    refused(stage.store.receive(&token, size(1)).await, Kind::NotFound);
    assert_eq!(stage.store.queue_status().await.unwrap(), []);

    let again = Stage::new(h, 1).await;
    assert_eq!(again.status(0).await.lag, 0);
    let heir = again.claim("w1", 0, 30).await.token;
    assert!(heir.epoch > token.epoch);
    assert_eq!(again.try_receive(&heir, 10).await, None);
}

/// A queue without consumers and messages is dropped without force, and the others stay.
pub async fn an_empty_queue_is_dropped_without_force(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let empty = path("empty", "x").queue;
    stage.store.create_queue(&empty, Partitions::default()).await.unwrap();
    stage.send(0, 1).await;
    assert_eq!(stage.store.drop_queue(&empty, false).await.unwrap(), Dropped::Dropped);
    assert_eq!(stage.status(0).await.lag, 1);
    let bare = path("bare", "x").queue;
    stage.store.create_queue(&bare, Partitions::default()).await.unwrap();
    stage.store.send(&bare, crate::stage::text("x")).await.unwrap();
    refused(stage.store.drop_queue(&bare, false).await, Kind::Conflict);
}
