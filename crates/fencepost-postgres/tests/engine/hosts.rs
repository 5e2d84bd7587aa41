//! Places that take a connection and say nothing: each is given up within its bound, and keeps nobody from the next one.

use std::time::{Duration, Instant};

use fencepost_core::{AcquireLease, HolderName, Kind, LeaseName, Leases};
use fencepost_postgres::{PostgresOptions, PostgresStore};
use fencepost_test_support::FaultProxy;

use crate::stage::{Stage, options};

const BOUND: Duration = Duration::from_millis(500);

fn bounded() -> PostgresOptions {
    options().connect_timeout(BOUND)
}

async fn proxy_of(stage: &Stage) -> FaultProxy {
    FaultProxy::start(stage.database.server().address()).await.unwrap()
}

#[tokio::test]
async fn a_silent_host_in_first_place_is_passed_over() {
    let Some(stage) = Stage::new().await else { return };
    let proxy = proxy_of(&stage).await;
    proxy.half_open(true);
    let server = stage.database.server().address().to_string();
    let url = stage.database.url().replace(&server, &format!("{},{server}", proxy.address()));
    let since = Instant::now();
    let store = PostgresStore::open(&url, bounded()).await.unwrap();
    let request = AcquireLease::new(LeaseName::new("nightly").unwrap(), HolderName::new("a").unwrap());
    store.acquire_lease(&request).await.unwrap();
    store.client().await.unwrap().batch_execute("select").await.unwrap();
    assert!(store.check().await.unwrap().notifies, "it listens beside the pool");
    // Each of three connections met the silent one first.
    assert!(since.elapsed() > 3 * BOUND && since.elapsed() < 20 * BOUND, "{:?}", since.elapsed());
}

/// A connection of the pool, and one beside it.
#[tokio::test]
async fn a_silent_server_is_unreachable_within_the_bound() {
    let Some(stage) = Stage::new().await else { return };
    let proxy = proxy_of(&stage).await;
    let store = PostgresStore::open(&proxy.url(&stage.database.url()), bounded()).await.unwrap();
    proxy.half_open(true);
    let since = Instant::now();
    let beside = store.client().await.unwrap_err();
    let opened = PostgresStore::open(&proxy.url(&stage.database.url()), bounded()).await.unwrap_err();
    for (error, operation) in [(beside, "connect"), (opened, "open")] {
        assert_eq!(
            (error.kind(), error.code(), error.operation()),
            (Kind::Unavailable, "unreachable", Some(operation)),
            "{error:?}"
        );
    }
    assert!(since.elapsed() < 10 * BOUND, "{:?}", since.elapsed());
}
