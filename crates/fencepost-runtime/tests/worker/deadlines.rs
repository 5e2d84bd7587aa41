//! Deadlines, in real time: they fire when no renewal gets through, before the grant expires, whatever else hangs.

use std::time::Duration;

use fencepost_core::Store;

use crate::spy::Hangs;
use crate::stage::{Stage, next, settings, shows, ttl};

const TTL: Duration = Duration::from_secs(1);

#[tokio::test]
async fn the_deadline_fires_before_the_grant_expires_when_no_renewal_gets_through() {
    let stage = Stage::real(1).await;
    stage.send(1).await;
    let (handler, mut batches) = shows();
    let worker = stage.start(settings("w1").ttl(ttl(TTL)), handler).await;
    let shown = next(&mut batches).await;
    drop(batches);
    stage.store.hang(Hangs::Renewals);
    let expires_at = stage.slots().await[0].owner.as_ref().unwrap().expires_at;
    assert!(!shown.slot.cancelled.is_cancelled());
    shown.slot.cancelled.cancelled().await;
    let now = stage.store.now().await.unwrap();
    assert!(now < expires_at, "it has a tenth of the ttl left to stop: {:?} late", now.since(expires_at));
    assert!(expires_at.since(now) < TTL / 2, "it did not fire early: {:?} left", expires_at.since(now));
    worker.diary.tells("deadline 0").await;

    // Its batch is handed over, and the heir need not wait.
    shown.answer.send(Err("told to stop".into())).unwrap();
    worker.diary.tells("abandoned 0").await;
    stage.store.hang(Hangs::Nothing);
    worker.stop().await;
}

/// While renewals get through the deadline moves on, for much longer than one TTL.
#[tokio::test]
async fn the_deadline_of_a_slot_that_is_renewed_does_not_fire() {
    let stage = Stage::real(1).await;
    stage.send(1).await;
    let (handler, mut shown) = shows();
    let worker = stage.start(settings("w1").ttl(ttl(TTL)), handler).await;
    let shown = next(&mut shown).await;
    let renewals = stage.store.calls("heartbeat");
    // Six renewals take two TTLs.
    while stage.store.calls("heartbeat") < renewals + 6 {
        tokio::task::yield_now().await;
        assert!(!shown.slot.cancelled.is_cancelled());
    }
    shown.answer.send(Ok(fencepost_runtime::Done::Ack)).unwrap();
    worker.diary.tells("acked").await;
    assert_eq!((worker.diary.count("deadline"), worker.stop().await.batches), (0, 1));
}
