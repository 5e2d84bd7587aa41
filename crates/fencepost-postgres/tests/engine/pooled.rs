//! Behind a pooler in transaction mode: nothing is left in the server's sessions, which are others' too; what does not arrive is said; and
//! what a connection remembers does no harm when another server comes to stand behind it. The contract itself: tests/pooled.rs.

use std::time::Duration;

use fencepost_core::{
    AcquireLease, Acquired, BatchSize, ClaimSlot, ConsumerPath, Consumers, CreateConsumer, Delay, HolderName, Kind,
    LeaseName, Leases, NewMessage, Partitions, Queues, Readers, SlotCount, Slots, Start, Topic, Wakeups, WorkerName,
};
use fencepost_postgres::{Hearing, PostgresStore, TransactionCalls};
use fencepost_test_support::{PgBouncer, skip_or_fail};
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::script::{run, value};
use crate::stage::{Stage, options, until};

/// What a session of the server has of its own.
const SESSION: &str = "select pg_backend_pid()::text, (select string_agg(name || '=' || setting || ' by ' || source, E'\\n' order by name) from pg_settings),
    (select count(*)::text from pg_prepared_statements), (select count(*)::text from pg_listening_channels()), (select count(*)::text from pg_cursors),
    (select count(*)::text from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'),
    (select count(*)::text from pg_class where relpersistence = 't' and relnamespace = pg_my_temp_schema()), current_user, session_user";

/// The session that a client of the pooler meets. The settings that the pooler makes for each client are the same for all here.
async fn session(client: &Client) -> Vec<Option<String>> {
    let answers = client.simple_query(SESSION).await.unwrap();
    let row = answers.into_iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let row = row.expect("a session");
    (0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect()
}

/// All kinds of calls, one after the other, through one session.
async fn calls(store: &PostgresStore) {
    let path = ConsumerPath::new("orders", "billing").unwrap();
    store.create_queue(&path.queue, Partitions::default()).await.unwrap();
    store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(1).unwrap())).await.unwrap();
    let message = |text: &str| NewMessage::new(text).unwrap();
    store.send_batch(&path.queue, (0..20).map(|_| message("x")).collect()).await.unwrap();
    store.send(&path.queue, message("later").delay(Delay::new(Duration::from_secs(60)).unwrap())).await.unwrap();
    let token = store.claim(&ClaimSlot::new(path.clone(), WorkerName::new("w").unwrap())).await.unwrap().unwrap().token;
    let batch = store.receive(&token, BatchSize::new(5).unwrap()).await.unwrap().unwrap();
    store.ack(&token, batch.id).await.unwrap();
    let batch = store.receive(&token, BatchSize::default()).await.unwrap().unwrap();
    // A refusal, and a transaction that is rolled back.
    assert!(store.release_slot(&token).await.is_err());
    let mut client = store.client().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.slot_guard_in(&token).await.unwrap();
    transaction.rollback().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.send_in(&path.queue, &message("x")).await.unwrap();
    transaction.ack_in(&token, batch.id).await.unwrap();
    transaction.commit_whole().await.unwrap();
    let name = LeaseName::new("nightly").unwrap();
    let request = AcquireLease::new(name, HolderName::new("a").unwrap());
    let Acquired::Granted { token: lease, .. } = store.acquire_lease(&request).await.unwrap() else {
        panic!("not granted")
    };
    let transaction = client.transaction().await.unwrap();
    transaction.guard_in(&lease).await.unwrap();
    transaction.commit_whole().await.unwrap();
    drop(client);
    store.renew_lease(&lease, None).await.unwrap();
    store.release_lease(&lease).await.unwrap();
    store.read(&path.queue, Start::Earliest, BatchSize::default()).await.unwrap();
    store.queue_status().await.unwrap();
    store.maintain(None).await.unwrap();
    store.check().await.unwrap();
    store.drop_queue(&path.queue, true).await.unwrap();
}

/// One session of the server serves all clients of the pooler. It is the same after all calls, also for a sleeper who finds out that no
/// notification arrives.
#[tokio::test]
async fn nothing_is_left_in_a_session_of_the_server() {
    let Some(stage) = Stage::new().await else { return };
    let Some(pooler) = skip_or_fail(PgBouncer::start_with(&stage.database, &[("default_pool_size", "1")]).await) else {
        return;
    };
    let store = PostgresStore::open(&pooler.url(), options()).await.unwrap();
    // Made as the store makes its own, so the pooler tells the server the same of it.
    let witness = store.client().await.unwrap();
    let before = session(&witness).await;
    calls(&store).await;
    let sleeper = store.wakes(&Topic::Lease(LeaseName::new("nightly").unwrap()));
    until("it is known that nothing arrives", async || store.hearing() == Hearing::Deaf).await;
    drop(sleeper);
    assert_eq!(session(&witness).await, before);
}

/// With a way around the pooler to listen on, notifications arrive.
#[tokio::test]
async fn who_listens_around_the_pooler_is_notified() {
    let Some(stage) = Stage::new().await else { return };
    let Some(pooler) = skip_or_fail(PgBouncer::start(&stage.database).await) else { return };
    let open = options().listen_url(stage.database.url());
    assert!(!format!("{open:?}").contains(stage.database.server().password()));
    let store = PostgresStore::open(&pooler.url(), open).await.unwrap();
    assert_eq!(store.hearing(), Hearing::NotYet);
    let mut sleeper = store.wakes(&Topic::Lease(LeaseName::new("nightly").unwrap()));
    until("notifications arrive", async || store.hearing() == Hearing::Notified).await;
    assert!(store.check().await.unwrap().notifies);
    let request = AcquireLease::new(LeaseName::new("nightly").unwrap(), HolderName::new("a").unwrap());
    let Acquired::Granted { token, .. } = stage.store.acquire_lease(&request).await.unwrap() else {
        panic!("not granted")
    };
    stage.store.release_lease(&token).await.unwrap();
    sleeper.woken().await.unwrap();
}

/// The database behind a pooler is restored from a dump while a client keeps its connection to the pooler, which remembers the number of a
/// queue that the dump does not have. No other queue gets that number, so a send to the one that is gone reaches no other.
#[tokio::test]
async fn a_number_that_outlives_a_restore_behind_the_pooler_is_no_other_queues() {
    let Some(stage) = Stage::new().await else { return };
    let Some(pooler) = skip_or_fail(PgBouncer::start(&stage.database).await) else { return };
    let store = PostgresStore::open(&pooler.url(), options().pool_size(1)).await.unwrap();
    let queue = |name: &str| ConsumerPath::new(name, "c").unwrap().queue;
    store.create_queue(&queue("kept"), Partitions::default()).await.unwrap();
    let dump = stage.database.dump().await.unwrap();
    store.create_queue(&queue("gone"), Partitions::default()).await.unwrap();
    for name in ["kept", "gone"] {
        store.send(&queue(name), NewMessage::new("x").unwrap()).await.unwrap();
    }
    let (admin, name) = (stage.database.server().connect("postgres").await.unwrap(), stage.database.name());
    run(&admin, &format!("drop database {name} with (force)")).await;
    run(&admin, &format!("create database {name}")).await;
    assert_eq!(stage.database.restore(&dump, &[]).await.unwrap(), "");
    let client = stage.database.connect().await.unwrap();
    run(&client, "select fencepost.create_queue('other')").await;
    // The first call meets a session of the pooler that the server has ended.
    let sent = loop {
        match store.send(&queue("gone"), NewMessage::new("x").unwrap()).await {
            Err(error) if matches!(error.kind(), Kind::UnknownOutcome | Kind::Unavailable) => {}
            answer => break answer,
        }
    };
    let error = sent.expect_err("it is not there");
    assert_eq!(error.kind(), Kind::NotFound, "{error:?}");
    store.send(&queue("kept"), NewMessage::new("x").unwrap()).await.unwrap();
    let stored = "select array_agg(stored order by queue) from fencepost.queue_status";
    assert_eq!(value::<Vec<i64>>(&client, stored).await, [1, 0]);
}
