//! A server, or the network before it, that falls silent in the middle: connections stay open and nothing comes. Every call ends within its
//! bound, and who listens notices and listens again.

use std::time::{Duration, Instant};

use fencepost_core::{
    AcquireLease, Acquired, BatchSize, ClaimSlot, ConsumerPath, Consumers, CreateConsumer, HolderName, Kind, LeaseName,
    Leases, NewMessage, Partitions, Queues, SlotCount, Slots, Topic, Wakeups, WorkerName,
};
use fencepost_postgres::{Hearing, PostgresStore};
use fencepost_test_support::FaultProxy;

use crate::stage::{Stage, options, until};

/// How long a call may take, and how much later it may end: a cancel, and what is left to hear.
const BOUND: Duration = Duration::from_millis(500);
const LATER: Duration = Duration::from_secs(4);

/// Receives, acks and renewals that the server swallows are unknown, an empty poll unavailable; afterwards the batch is there as it was.
#[tokio::test]
async fn receive_ack_and_renew_end_when_the_server_falls_silent() {
    let Some(stage) = Stage::new().await else { return };
    let proxy = FaultProxy::start(stage.database.server().address()).await.unwrap();
    let store =
        PostgresStore::open(&proxy.url(&stage.database.url()), options().call_timeout(BOUND).connect_timeout(BOUND))
            .await
            .unwrap();
    let path = ConsumerPath::new("orders", "billing").unwrap();
    store.create_queue(&path.queue, Partitions::default()).await.unwrap();
    store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(1).unwrap())).await.unwrap();
    store.send(&path.queue, NewMessage::new("x").unwrap()).await.unwrap();
    let token = store.claim(&ClaimSlot::new(path, WorkerName::new("w").unwrap())).await.unwrap().unwrap().token;
    let batch = store.receive(&token, BatchSize::default()).await.unwrap().unwrap();
    for call in ["receive", "ack", "renew"] {
        proxy.half_open(true);
        let since = Instant::now();
        let error = match call {
            "receive" => store.receive(&token, BatchSize::default()).await.map(drop),
            "ack" => store.ack(&token, batch.id).await.map(drop),
            _ => store.renew_slot(&token).await.map(drop),
        };
        let error = error.expect_err(call);
        assert!(matches!(error.kind(), Kind::UnknownOutcome | Kind::Unavailable), "{call}: {error:?}");
        assert!(since.elapsed() < LATER, "{call}: {:?}", since.elapsed());
        proxy.half_open(false);
        proxy.cut();
        assert_eq!(store.receive(&token, BatchSize::default()).await.unwrap().unwrap().id, batch.id, "{call}");
    }
    assert_eq!(store.ack(&token, batch.id).await.unwrap(), 1);
}

/// The connection that listens falls silent alone: that is noticed, looking goes on, and notifications arrive again once it can be made anew.
#[tokio::test]
async fn a_listener_whose_connection_falls_silent_listens_again() {
    let Some(stage) = Stage::new().await else { return };
    let proxy = FaultProxy::start(stage.database.server().address()).await.unwrap();
    let open = options().listen_url(proxy.url(&stage.database.url())).connect_timeout(BOUND);
    let store = PostgresStore::open(&stage.database.url(), open).await.unwrap();
    let name = LeaseName::new("nightly").unwrap();
    let mut sleeper = store.wakes(&Topic::Lease(name.clone()));
    let request = AcquireLease::new(name, HolderName::new("a").unwrap());
    let mut woken_by_release = async || {
        let Acquired::Granted { token, .. } = stage.store.acquire_lease(&request).await.unwrap() else {
            panic!("not granted")
        };
        stage.store.release_lease(&token).await.unwrap();
        tokio::time::timeout(Duration::from_secs(20), sleeper.woken()).await.expect("it is woken").unwrap();
    };
    until("it hears", async || store.hearing() == Hearing::Notified).await;
    woken_by_release().await;
    proxy.half_open(true);
    woken_by_release().await;
    until("it is noticed", async || store.hearing() == Hearing::Unconnected).await;
    woken_by_release().await;
    proxy.half_open(false);
    proxy.cut();
    until("it hears again", async || store.hearing() == Hearing::Notified).await;
    woken_by_release().await;
}
