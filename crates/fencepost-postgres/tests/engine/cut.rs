//! Connections that are cut in the middle of a call: what is unknown is said to be, and the nonce resolves it.

use std::time::Duration;

use fencepost_core::{
    AcquireLease, Acquired, BatchSize, ClaimSlot, ConsumerPath, Consumers, CreateConsumer, HolderName, Kind, LeaseName,
    Leases, NewMessage, Nonce, Partitions, QueueName, Queues, Renewal, Retry, SlotCount, Slots, WorkerName,
};
use fencepost_postgres::PostgresStore;
use fencepost_test_support::FaultProxy;

use crate::script::value;
use crate::stage::{Stage, options, ttl, until, until_waiting};

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

/// A cancel that was sent may arrive when the connection does something else, so that is never used again.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_for_which_a_cancel_was_sent_is_not_used_again() {
    let Some(stage) = Stage::new().await else { return };
    let proxy = FaultProxy::start(stage.database.server().address()).await.unwrap();
    let bounds = options().pool_size(1).call_timeout(Duration::from_millis(500));
    let url = format!("{}?application_name=single", proxy.url(&stage.database.url()));
    let store = PostgresStore::open(&url, bounds).await.unwrap();
    let Acquired::Granted { token, .. } = store.acquire_lease(&request()).await.unwrap() else { panic!("not granted") };
    let observer = stage.client().await;
    let session =
        async || value::<i32>(&observer, "select pid from pg_stat_activity where application_name = 'single'").await;
    let before = session().await;
    let mut client = stage.client().await;
    let open = client.transaction().await.unwrap();
    open.batch_execute("select from fencepost.lease for update").await.unwrap();
    let (late, owned) = (store.clone(), token.clone());
    let call = tokio::spawn(async move { late.renew_lease(&owned, None).await });
    until_waiting(&observer, 1).await;
    // The cancel finds nobody, and the call is answered in the time that is left.
    proxy.refuse(true).await;
    tokio::time::sleep(Duration::from_millis(800)).await; // TIME: the bound of a call is real time
    open.rollback().await.unwrap();
    assert_eq!(call.await.unwrap().unwrap(), Renewal::Held);
    proxy.refuse(false).await;
    assert_eq!(store.renew_lease(&token, None).await.unwrap(), Renewal::Held);
    assert_ne!(session().await, before);
}

/// Whoever drops an ack that waits for a lock leaves nothing on the server that would take the lock later.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_ack_that_waits_for_a_lock_is_gone_from_the_server() {
    let Some(stage) = Stage::new().await else { return };
    let path = ConsumerPath::new("orders", "billing").unwrap();
    stage.store.create_queue(&path.queue, Partitions::default()).await.unwrap();
    stage.store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(1).unwrap())).await.unwrap();
    stage.store.send(&path.queue, NewMessage::new("x").unwrap()).await.unwrap();
    let claim = ClaimSlot::new(path, WorkerName::new("w").unwrap());
    let token = stage.store.claim(&claim).await.unwrap().unwrap().token;
    let batch = stage.store.receive(&token, BatchSize::default()).await.unwrap().unwrap();
    let mut client = stage.client().await;
    let open = client.transaction().await.unwrap();
    open.batch_execute("select from fencepost.slot for update").await.unwrap();
    let (store, owned) = (stage.store.clone(), token.clone());
    let call = tokio::spawn(async move { store.ack(&owned, batch.id).await });
    let observer = stage.client().await;
    until_waiting(&observer, 1).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    let asked = "select count(*) from pg_stat_activity where datname = current_database() and state = 'active' \
        and query like 'select fencepost._any_ack(%'";
    until("it is gone", async || value::<i64>(&observer, asked).await == 0).await;
    open.rollback().await.unwrap();
    assert_eq!(stage.store.ack(&token, batch.id).await.unwrap(), 1, "the dropped one did not happen");
}

/// Of several statements in one transaction it is unknown what became only once its commit was asked for.
#[tokio::test]
async fn a_transaction_that_was_lost_before_its_commit_has_not_happened() {
    let Some(Behind { stage, proxy, store }) = behind_a_proxy().await else { return };
    let queue = QueueName::new("orders").unwrap();
    store.create_queue(&queue, Partitions::default()).await.unwrap();
    let large = vec![0u8; 1 << 20];
    let messages = || (0..9).map(|_| NewMessage::new(large.clone()).unwrap()).collect::<Vec<_>>();
    let store_of = async || {
        let bounds = options().call_timeout(Duration::from_secs(30));
        PostgresStore::open(&proxy.url(&stage.database.url()), bounds).await.unwrap()
    };
    for (words, kind) in [
        ("START TRANSACTION", Kind::Unavailable),
        ("_send_many", Kind::Unavailable),
        ("COMMIT\0", Kind::UnknownOutcome),
    ] {
        let store = store_of().await;
        let lost = proxy.lose_request(words);
        let error = store.send_batch(&queue, messages()).await.unwrap_err();
        lost.happened().await;
        assert_eq!(error.kind(), kind, "{words}: {error:?}");
    }
    assert_eq!(stage.store.queue_status().await.unwrap()[0].stored, 0);
}

/// What the server refused stands, also when it falls silent before it has let go.
#[tokio::test]
async fn a_refusal_stands_when_the_server_falls_silent_after_it() {
    let Some(stage) = Stage::new().await else { return };
    let proxy = FaultProxy::start(stage.database.server().address()).await.unwrap();
    let bounds = options().pool_size(1).call_timeout(Duration::from_secs(2));
    let store = PostgresStore::open(&proxy.url(&stage.database.url()), bounds).await.unwrap();
    store.now().await.unwrap();
    // There and back within the bound, and what follows the refusal later than anybody waits.
    proxy.delay(Duration::from_millis(900)..Duration::from_millis(901));
    let error = store.pause_queue(&QueueName::new("missing").unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound, "{error:?}");
}
