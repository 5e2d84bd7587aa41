//! Kept leases: renewed while they are kept, lost when somebody else was granted them, over when dropped.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::{AcquireLease, Acquired, HolderName, LeaseName, Leases, Release, Store};
use fencepost_runtime::KeptLease;

use crate::spy::Hangs;
use crate::stage::{Stage, TTL, pass, ttl};

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

#[tokio::test(start_paused = true)]
async fn only_a_renewal_that_says_so_is_a_loss() {
    let stage = Stage::new(1).await;
    let lease = keep(&stage, TTL).await.unwrap();
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
