//! Kept leases: renewed while they are kept, lost when somebody else was granted them, over when dropped.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::{AcquireLease, Acquired, Error, HolderName, Kind, LeaseName, Leases, Nonce, Release, Store};
use fencepost_runtime::KeptLease;

use crate::spy::Hangs;
use crate::stage::{PATIENCE, Stage, TTL, pass, ttl};

fn request(time: Duration) -> AcquireLease {
    AcquireLease::new(LeaseName::new("leader").unwrap(), HolderName::new("h").unwrap()).ttl(ttl(time))
}

async fn keep(stage: &Stage, time: Duration) -> Result<KeptLease, Acquired> {
    KeptLease::acquire(stage.store.clone() as Arc<dyn Store>, &request(time)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_kept_lease_is_held_for_as_long_as_it_is_kept() {
    let stage = Stage::new(1).await;
    let lease = keep(&stage, TTL).await.unwrap();
    for _ in 0..20 {
        pass(TTL / 2).await;
        assert!(keep(&stage, TTL).await.is_err(), "B15: also for the same holder's name");
    }
    assert!(!lease.lost().is_cancelled());
    assert_eq!(lease.release().await.unwrap(), Release::Released);
    assert!(keep(&stage, TTL).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_dropped_is_renewed_no_more() {
    let stage = Stage::new(1).await;
    drop(keep(&stage, TTL).await.unwrap());
    pass(TTL).await;
    assert!(matches!(stage.store.acquire_lease(&request(TTL)).await.unwrap(), Acquired::Granted { .. }));
}

/// Whoever believes in it is told, before the store is: renewals ended, and with them the only other cause to stop.
#[tokio::test(start_paused = true)]
async fn the_token_of_a_lease_fires_when_it_is_dropped_or_released() {
    let stage = Stage::new(1).await;
    let lease = keep(&stage, TTL).await.unwrap();
    let lost = lease.lost().clone();
    drop(lease);
    assert!(lost.is_cancelled());

    pass(TTL).await;
    let lease = keep(&stage, TTL).await.unwrap();
    let lost = lease.lost().clone();
    stage.store.hang(Hangs::Everything);
    let releasing = tokio::spawn(lease.release());
    tokio::time::timeout(PATIENCE, lost.cancelled()).await.expect("it fires while the release is under way");
    stage.store.hang(Hangs::Nothing);
    assert_eq!(releasing.await.unwrap().unwrap(), Release::Released);
}

/// Of the stored grant only a part of the first call's TTL is left.
#[tokio::test(start_paused = true)]
async fn a_grant_that_is_taken_up_by_its_nonce_is_renewed_at_once() {
    let stage = Stage::new(1).await;
    let nonce = Nonce::random().unwrap();
    let first = stage.store.acquire_lease(&request(TTL).nonce(nonce.clone())).await.unwrap();
    let Acquired::Granted { token, .. } = first else { panic!("it was free: {first:?}") };
    pass(TTL * 3 / 4).await;
    let again = request(TTL * 2).nonce(nonce);
    let lease = KeptLease::acquire(stage.store.clone(), &again).await.unwrap().unwrap();
    assert_eq!(lease.token(), &token);
    let status = stage.store.lease_status().await.unwrap().remove(0);
    let left = status.state.holding.unwrap().expires_at.since(stage.store.now().await.unwrap());
    assert_eq!(left, TTL * 2);
    assert!(lease.time_left() <= left && lease.time_left() > TTL, "{:?}", lease.time_left());
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_lost_while_it_is_taken_up_is_its_heirs() {
    let stage = Stage::new(1).await;
    let again = request(TTL).nonce(Nonce::random().unwrap());
    stage.store.acquire_lease(&again).await.unwrap();
    stage.store.hang(Hangs::Renewals);
    let taking_up = tokio::spawn({
        let (store, again) = (stage.store.clone(), again.clone());
        async move { KeptLease::acquire(store, &again).await }
    });
    pass(TTL).await;
    let heir = stage.store.acquire_lease(&request(TTL)).await.unwrap();
    let Acquired::Granted { token: heir, .. } = heir else { panic!("its ttl has passed: {heir:?}") };
    stage.store.hang(Hangs::Nothing);
    let held = taking_up.await.unwrap().unwrap().expect_err("it was lost");
    let Acquired::Held { epoch, .. } = held else { panic!("somebody else holds it: {held:?}") };
    assert_eq!(epoch, heir.epoch);
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_may_have_happened_is_asked_for_again() {
    let stage = Stage::new(1).await;
    *stage.store.instead_of_acquired.lock().unwrap() = Some(Error::new(Kind::UnknownOutcome, "as asked"));
    let lease = keep(&stage, TTL).await.expect("the grant is its own");
    assert_eq!(stage.store.calls("acquire_lease"), 2);
    assert_eq!(lease.release().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn only_a_renewal_that_says_so_is_a_loss() {
    let stage = Stage::new(1).await;
    let lease = keep(&stage, TTL).await.unwrap();
    assert!(lease.time_left() > TTL / 2 && lease.time_left() <= TTL * 9 / 10, "{:?}", lease.time_left());
    stage.store.hang(Hangs::Renewals);
    pass(TTL / 2).await;
    stage.store.hang(Hangs::Nothing);
    pass(TTL).await;
    assert!(!lease.lost().is_cancelled(), "unknown is not lost");

    stage.store.hang(Hangs::Renewals);
    pass(TTL + Duration::from_millis(1)).await;
    let taken = stage.store.acquire_lease(&request(TTL)).await.unwrap();
    assert!(matches!(taken, Acquired::Granted { .. }));
    stage.store.hang(Hangs::Nothing);
    lease.lost().cancelled().await;
    assert_eq!(lease.time_left(), Duration::ZERO);
    assert_eq!(lease.release().await.unwrap(), Release::NotHeld);
}

#[tokio::test(start_paused = true)]
async fn renewals_that_are_answered_late_keep_the_lease() {
    let stage = Stage::new(1).await;
    let lease = keep(&stage, TTL).await.unwrap();
    stage.store.hang(Hangs::RenewalsFor(TTL / 4));
    for _ in 0..8 {
        pass(TTL / 3).await;
        assert!(keep(&stage, TTL).await.is_err());
    }
    assert!(!lease.lost().is_cancelled());
}

/// B07, in real time: the token fires at the deadline while every renewal hangs.
#[tokio::test]
async fn the_deadline_of_a_lease_fires_while_its_renewal_hangs() {
    const SHORT: Duration = Duration::from_secs(1);
    let stage = Stage::real(1).await;
    let lease = keep(&stage, SHORT).await.unwrap();
    stage.store.hang(Hangs::Renewals);
    lease.lost().cancelled().await;
    let held = stage.store.acquire_lease(&request(SHORT)).await.unwrap();
    let Acquired::Held { expires_in, .. } = held else { panic!("it fires before the lease expires: {held:?}") };
    assert!(expires_in < SHORT / 2, "{expires_in:?}");
}
