//! Connections that are cut in the middle of a call: what is unknown is said to be, and the nonce resolves it.

use std::time::Duration;

use fencepost_core::{AcquireLease, Acquired, HolderName, Kind, LeaseName, Leases, Nonce, Renewal, Retry};
use fencepost_postgres::PostgresStore;
use fencepost_test_support::FaultProxy;

use crate::stage::{Stage, options, ttl};

struct Behind {
    stage: Stage,
    proxy: FaultProxy,
    store: PostgresStore,
}

/// A store whose connections go through a proxy.
async fn behind_a_proxy() -> Option<Behind> {
    let stage = Stage::new().await?;
    let proxy = FaultProxy::start(stage.database.server().address()).await.unwrap();
    let bounds = options().call_timeout(Duration::from_millis(500));
    let store = PostgresStore::open(&proxy.url(&stage.database.url()), bounds).await.unwrap();
    Some(Behind { stage, proxy, store })
}

fn request() -> AcquireLease {
    AcquireLease::new(LeaseName::new("nightly").unwrap(), HolderName::new("a").unwrap())
        .ttl(ttl(3_600))
        .nonce(Nonce::new("n1").unwrap())
}

/// The reply of a grant is lost after its commit: the outcome is unknown, and the same nonce gets the grant that was stored.
#[tokio::test]
async fn a_grant_whose_reply_is_lost_is_found_again_by_its_nonce() {
    let Some(Behind { stage, proxy, store }) = behind_a_proxy().await else { return };
    let lost = proxy.lose_reply("lease_acquire");
    let error = store.acquire_lease(&request()).await.unwrap_err();
    lost.happened().await;
    assert_eq!((error.kind(), error.retry()), (Kind::UnknownOutcome, Retry::SameNonceOnly), "{error:?}");
    assert_eq!(error.operation(), Some("acquire_lease"));
    let stored = stage.store.lease(&request().name).await.unwrap().unwrap().state;
    let Acquired::Granted { token, .. } = store.acquire_lease(&request()).await.unwrap() else { panic!("not granted") };
    assert_eq!(Some(token.epoch), stored.epoch);
}

/// The request is lost on its way: nobody can tell, so it is unknown, and the same nonce is granted.
#[tokio::test]
async fn a_grant_that_never_arrived_is_granted_to_its_nonce() {
    let Some(Behind { stage, proxy, store }) = behind_a_proxy().await else { return };
    let lost = proxy.lose_request("lease_acquire");
    let error = store.acquire_lease(&request()).await.unwrap_err();
    lost.happened().await;
    assert_eq!(error.kind(), Kind::UnknownOutcome, "{error:?}");
    assert_eq!(stage.store.lease(&request().name).await.unwrap(), None);
    let granted = store.acquire_lease(&request()).await.unwrap();
    assert!(matches!(granted, Acquired::Granted { .. }), "{granted:?}");
}

/// A look that is cut is unavailable, as it changed nothing; so is a call that finds nobody to connect to.
#[tokio::test]
async fn what_cannot_have_changed_anything_is_unavailable() {
    let Some(Behind { stage: _stage, proxy, store }) = behind_a_proxy().await else { return };
    let lost = proxy.lose_reply("_lease_states");
    let error = store.lease(&request().name).await.unwrap_err();
    lost.happened().await;
    assert_eq!((error.kind(), error.code(), error.retry()), (Kind::Unavailable, "connection_lost", Retry::Backoff));
    proxy.refuse(true).await;
    proxy.cut();
    let error = until_noticed(&store).await;
    assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "unreachable"), "{error:?}");
    proxy.refuse(false).await;
    store.acquire_lease(&request()).await.unwrap();
}

/// The error of an acquire once every connection of the pool is known to be gone.
async fn until_noticed(store: &PostgresStore) -> fencepost_core::Error {
    loop {
        let error = store.acquire_lease(&request()).await.unwrap_err();
        if error.kind() != Kind::UnknownOutcome {
            return error;
        }
    }
}

/// A server that falls silent is given up within the bound of a call, and what it was asked is unknown.
#[tokio::test]
async fn a_silent_server_is_given_up_within_the_bound() {
    let Some(Behind { stage, proxy, store }) = behind_a_proxy().await else { return };
    let Acquired::Granted { token, .. } = store.acquire_lease(&request()).await.unwrap() else { panic!("not granted") };
    proxy.half_open(true);
    let since = std::time::Instant::now();
    let error = store.renew_lease(&token, None).await.unwrap_err();
    assert_eq!(error.kind(), Kind::UnknownOutcome, "{error:?}");
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
    proxy.half_open(false);
    proxy.cut();
    assert_eq!(stage.store.renew_lease(&token, None).await.unwrap(), Renewal::Held);
    assert_eq!(store.renew_lease(&token, None).await.unwrap(), Renewal::Held);
}

/// A call that waits for a lock longer than its bound is cancelled on the server, which says so: it did not happen.
#[tokio::test]
async fn a_call_that_takes_too_long_is_cancelled_on_the_server() {
    let Some(Behind { stage, store, proxy: _proxy }) = behind_a_proxy().await else { return };
    let Acquired::Granted { token, .. } = store.acquire_lease(&request()).await.unwrap() else { panic!("not granted") };
    let mut client = stage.client().await;
    let open = client.transaction().await.unwrap();
    open.batch_execute("select from fencepost.lease for update").await.unwrap();
    let error = store.renew_lease(&token, None).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "timeout"), "{error:?}");
    let waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    assert_eq!(open.query_one(waits, &[]).await.unwrap().get::<_, i64>(0), 0, "nothing of it is left on the server");
    open.rollback().await.unwrap();
    assert_eq!(store.renew_lease(&token, None).await.unwrap(), Renewal::Held);
}
