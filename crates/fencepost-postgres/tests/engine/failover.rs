//! A standby takes over from a server that died: what that one granted is void, and nobody is granted a lease too early.

use std::time::{Duration, Instant};

use fencepost_core::{AcquireLease, Acquired, HolderName, LeaseName, LeaseToken, Leases, Renewal};
use fencepost_postgres::PostgresStore;
use fencepost_test_support::{DEFAULT_MAJOR, PgServer, skip_or_fail};

use crate::stage::{options, ttl};

fn request(lease: &str, holder: &str) -> AcquireLease {
    AcquireLease::new(LeaseName::new(lease).unwrap(), HolderName::new(holder).unwrap()).ttl(ttl(1))
}

async fn acquire(store: &PostgresStore, lease: &str) -> LeaseToken {
    let acquired = store.acquire_lease(&request(lease, "a")).await.unwrap();
    let Acquired::Granted { token, .. } = acquired else { panic!("not granted: {acquired:?}") };
    token
}

/// The same handle goes on with the standby once that was promoted. A lease that was held is granted when the TTL and a second have
/// passed since; one that was free is granted at once; both under epochs beyond all earlier ones.
#[tokio::test]
async fn a_promoted_standby_voids_what_the_dead_primary_granted() {
    let Some(primary) = skip_or_fail(PgServer::private(DEFAULT_MAJOR).await) else { return };
    let database = primary.database().await.unwrap();
    PostgresStore::open(&database.url(), options().create(true)).await.unwrap();
    let standby = primary.standby("heir").await.unwrap();
    let hosts = format!("{},{}", primary.address(), standby.address());
    let url = database.url().replace(&primary.address().to_string(), &hosts);
    let store = PostgresStore::open(&url, options()).await.unwrap();
    let held = acquire(&store, "held").await;
    let free = acquire(&store, "free").await;
    store.release_lease(&free).await.unwrap();
    primary.wait_for_standby("heir").await.unwrap();
    primary.kill_9().await.unwrap();
    standby.promote().await.unwrap();

    // Whatever was in flight on the dead server's connections is unknown; only an answer tells, and it says lost.
    let renewed = loop {
        match store.renew_lease(&held, None).await {
            Ok(renewed) => break renewed,
            Err(error) => is_transient(&error),
        }
    };
    let seen = Instant::now();
    assert_eq!(renewed, Renewal::Lost);
    assert!(acquire(&store, "free").await.epoch > free.epoch);
    assert_eq!(store.acquire_lease(&request("held", "b")).await.unwrap(), Acquired::Contended);
    let heir = loop {
        if let Acquired::Granted { token, .. } = store.acquire_lease(&request("held", "b")).await.unwrap() {
            break token;
        }
        tokio::time::sleep(Duration::from_millis(20)).await; // TIME: the server's clock is the subject
    };
    assert!(seen.elapsed() > Duration::from_millis(1_900), "{:?}", seen.elapsed());
    assert!(heir.epoch > held.epoch);
}

/// A failure while the servers change places says how it may be retried.
fn is_transient(error: &fencepost_core::Error) {
    use fencepost_core::Kind::{Unavailable, UnknownOutcome};
    assert!(matches!(error.kind(), Unavailable | UnknownOutcome), "{error:?}");
}
