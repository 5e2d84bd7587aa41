//! Wake-ups: a hint comes after every commit that may concern a sleeper, and after nothing else. It may come twice, so who has to
//! stay asleep is a sleeper that was registered after the last such commit.

use std::sync::Arc;

use fencepost_core::{AcquireLease, Acquired, Closed, HolderName, LeaseName, LeaseToken, Reason, Release, Store, Topic};

use crate::stage::{Stage, TakenOver, asleep, nonce, path, text, woken};
use crate::{End, Harness, Step};

/// A committed send wakes who waits for the queue's messages, and nobody else.
pub async fn a_send_wakes_who_waits_for_messages(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let mut sleeper = stage.store.wakes(&Topic::Messages(stage.queue().clone()));
    let mut others = [
        stage.store.wakes(&Topic::Messages(path("other", "x").queue)),
        stage.store.wakes(&Topic::Slots(stage.path.clone())),
    ];
    assert!(asleep(&mut sleeper));
    stage.store.send(stage.queue(), text("x")).await.unwrap();
    woken(&mut sleeper).await;
    stage.store.send_batch(stage.queue(), vec![text("x"), text("y")]).await.unwrap();
    woken(&mut sleeper).await;
    assert!(others.iter_mut().all(asleep));
    drop(sleeper);
    h.settle().await;
    let mut sleeper = stage.store.wakes(&Topic::Messages(stage.queue().clone()));
    stage.store.send_batch(stage.queue(), vec![]).await.unwrap();
    assert!(asleep(&mut sleeper), "nothing was sent");
}

/// A send in a caller's transaction wakes when it commits, and not when it is rolled back.
pub async fn a_send_in_a_transaction_wakes_when_it_commits(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let mut sleeper = stage.store.wakes(&Topic::Messages(stage.queue().clone()));
    let steps = vec![Step::Send { queue: stage.queue().clone(), message: text("x") }];
    h.transact(steps.clone(), End::Rollback).await.unwrap();
    assert!(asleep(&mut sleeper));
    h.transact(steps, End::Commit).await.unwrap();
    woken(&mut sleeper).await;
}

/// A release and an abandon wake who waits for a slot; one that is not held wakes nobody.
pub async fn giving_back_wakes_who_waits_for_a_slot(h: &dyn Harness) {
    let TakenOver { stage, first, second, .. } = TakenOver::new(h).await;
    let other = stage.claim("w3", 1, 30).await;
    let mut sleeper = stage.store.wakes(&Topic::Slots(stage.path.clone()));
    let mut stranger = stage.store.wakes(&Topic::Slots(path("orders", "other")));

    assert_eq!(stage.store.release_slot(&first.token).await.unwrap(), Release::NotHeld);
    assert!(stage.store.release_slot(&second.token).await.is_err(), "its batch is open");
    assert!(asleep(&mut sleeper));
    assert_eq!(stage.store.release_slot(&other.token).await.unwrap(), Release::Released);
    woken(&mut sleeper).await;
    assert_eq!(stage.store.abandon_slot(&second.token).await.unwrap(), Release::Released);
    woken(&mut sleeper).await;
    drop(sleeper);
    h.settle().await;
    let mut sleeper = stage.store.wakes(&Topic::Slots(stage.path.clone()));
    let again = stage.claim("w4", 1, 30).await;
    assert!(asleep(&mut sleeper), "nothing became claimable");
    h.transact(vec![Step::Release { token: again.token }], End::Commit).await.unwrap();
    woken(&mut sleeper).await;
    assert!(asleep(&mut stranger));
}

/// Who joins or leaves wakes the others, who may have to share; a further heartbeat wakes nobody.
pub async fn joining_and_leaving_wake_the_others(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let mut sleeper = stage.store.wakes(&Topic::Slots(stage.path.clone()));
    stage.store.heartbeat(&stage.heartbeat("m1", &[])).await.unwrap();
    woken(&mut sleeper).await;
    drop(sleeper);
    h.settle().await;
    let mut sleeper = stage.store.wakes(&Topic::Slots(stage.path.clone()));
    stage.store.heartbeat(&stage.heartbeat("m1", &[])).await.unwrap();
    assert!(asleep(&mut sleeper), "nobody came");
    stage.store.leave(&stage.path, &nonce("m1")).await.unwrap();
    woken(&mut sleeper).await;
    drop(sleeper);
    h.settle().await;
    let mut sleeper = stage.store.wakes(&Topic::Slots(stage.path.clone()));
    stage.store.leave(&stage.path, &nonce("m1")).await.unwrap();
    assert!(asleep(&mut sleeper), "nobody left");
}

/// A dropped consumer wakes who waits for its slots.
pub async fn dropping_a_consumer_wakes_who_waits_for_its_slots(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let grant = stage.claim("w1", 0, 30).await;
    let mut sleeper = stage.store.wakes(&Topic::Slots(stage.path.clone()));
    assert!(stage.store.drop_consumer(&stage.path, false).await.is_err(), "{grant:?} is live");
    assert!(asleep(&mut sleeper));
    stage.store.drop_consumer(&stage.path, true).await.unwrap();
    woken(&mut sleeper).await;
}

/// A wake-up that came before the wait is not lost.
pub async fn wakes_before_the_wait_are_kept(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let mut sleeper = stage.store.wakes(&Topic::Messages(stage.queue().clone()));
    for _ in 0..10 {
        stage.store.send(stage.queue(), text("x")).await.unwrap();
    }
    woken(&mut sleeper).await;
}

/// Closing the store tells every sleeper, early and late, that no wake-up will come.
pub async fn closing_tells_every_sleeper(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let topic = Topic::Messages(stage.queue().clone());
    let mut early = stage.store.wakes(&topic);
    stage.store.close().await;
    assert_eq!(early.woken().await, Err(Closed));
    assert_eq!(stage.store.wakes(&topic).woken().await, Err(Closed));
}

async fn acquire(store: &Arc<dyn Store>, name: &LeaseName) -> LeaseToken {
    let request = AcquireLease::new(name.clone(), HolderName::new("h").unwrap());
    match store.acquire_lease(&request).await.unwrap() {
        Acquired::Granted { token, .. } => token,
        refused => panic!("it was free: {refused:?}"),
    }
}

/// A lease that is given back or taken by force wakes who waits for it, and nobody else; an acquire and a renewal wake nobody.
pub async fn a_release_wakes_who_waits_for_the_lease(h: &dyn Harness) {
    let store = h.store();
    let [name, other] = ["nightly", "other"].map(|name| LeaseName::new(name).unwrap());
    let mut stranger = store.wakes(&Topic::Lease(other));
    let token = acquire(&store, &name).await;
    let mut sleeper = store.wakes(&Topic::Lease(name.clone()));
    store.renew_lease(&token, None).await.unwrap();
    assert!(asleep(&mut sleeper), "nothing became free");
    assert_eq!(store.release_lease(&token).await.unwrap(), Release::Released);
    woken(&mut sleeper).await;

    drop(sleeper);
    h.settle().await;
    let mut sleeper = store.wakes(&Topic::Lease(name.clone()));
    assert_eq!(store.release_lease(&token).await.unwrap(), Release::NotHeld);
    acquire(&store, &name).await;
    assert!(asleep(&mut sleeper), "nothing became free");
    store.force_release_lease(&name, &Reason::new("the host is gone").unwrap()).await.unwrap();
    woken(&mut sleeper).await;
    assert!(asleep(&mut stranger));
}

/// A release and a release by force through another handle wake as well, also right after the acquire.
pub async fn a_release_elsewhere_wakes_who_waits_for_the_lease(h: &dyn Harness) {
    let (here, there) = (h.store(), h.another().await);
    let name = LeaseName::new("nightly").unwrap();
    let mut sleeper = here.wakes(&Topic::Lease(name.clone()));
    for _ in 0..10 {
        let token = acquire(&there, &name).await;
        assert_eq!(there.release_lease(&token).await.unwrap(), Release::Released);
        woken(&mut sleeper).await;
    }
    acquire(&here, &name).await;
    drop(sleeper);
    h.settle().await;
    let mut sleeper = here.wakes(&Topic::Lease(name.clone()));
    there.force_release_lease(&name, &Reason::new("the host is gone").unwrap()).await.unwrap();
    woken(&mut sleeper).await;
}
