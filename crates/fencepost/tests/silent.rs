//! A lease that is kept on a server which falls silent: its token fires at the deadline, whatever the renewals wait for.
#![cfg(feature = "postgres")]

use std::time::{Duration, Instant};

use fencepost::runtime::{KeptLease, LossReason};
use fencepost::{AcquireLease, HolderName, LeaseName, Ttl};
use fencepost_test_support::{FaultProxy, PgServer, skip_or_fail};

#[tokio::test]
async fn a_kept_lease_ends_at_its_deadline_when_the_server_falls_silent() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let database = server.database().await.unwrap();
    let proxy = FaultProxy::start(server.address()).await.unwrap();
    let store = fencepost::open(proxy.url(&database.url())).create(true).await.unwrap();
    let request = AcquireLease::new(LeaseName::new("nightly").unwrap(), HolderName::new("a").unwrap());
    let ttl = Duration::from_secs(3);
    let request = request.ttl(Ttl::new(ttl).unwrap());
    let lease = KeptLease::acquire(store.contract(), &request).await.unwrap().expect("it is free");
    let loss = lease.loss().clone();
    proxy.half_open(true);
    let since = Instant::now();
    loss.token().cancelled().await;
    assert!(since.elapsed() < ttl + Duration::from_millis(500), "{:?}", since.elapsed());
    assert_eq!(loss.reason(), Some(LossReason::DeadlinePassed));
    // Ending it does not wait for the server either.
    let since = Instant::now();
    let _ = tokio::time::timeout(Duration::from_secs(40), lease.release()).await.expect("it ends");
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
}
