//! Wake-ups within a process, across processes, and where notifications do not arrive.

use std::pin::pin;
use std::time::{Duration, Instant};

use fencepost_conformance::poll_once;
use fencepost_core::{
    AcquireLease, Acquired, Closed, HolderName, LeaseName, LeaseToken, Leases, Reason, Topic, WakeReceiver, Wakeups,
};
use fencepost_postgres::PostgresStore;
use fencepost_test_support::{PgBouncer, skip_or_fail};
use tokio_postgres::SimpleQueryMessage;

use crate::stage::{Stage, options, ttl, until};

fn name(text: &str) -> LeaseName {
    LeaseName::new(text).unwrap()
}

async fn acquire(store: &PostgresStore, lease: &str) -> LeaseToken {
    let request = AcquireLease::new(name(lease), HolderName::new("h").unwrap()).ttl(ttl(3_600));
    match store.acquire_lease(&request).await.unwrap() {
        Acquired::Granted { token, .. } => token,
        refused => panic!("it was free: {refused:?}"),
    }
}

async fn woken(receiver: &mut WakeReceiver) {
    let woken = tokio::time::timeout(Duration::from_secs(10), receiver.woken()).await;
    woken.expect("a wake-up comes").expect("the store is open");
}

fn asleep(receiver: &mut WakeReceiver) -> bool {
    poll_once(&mut pin!(receiver.woken())).is_none()
}

#[tokio::test]
async fn a_release_wakes_who_waits_for_the_lease_and_nobody_else() {
    let Some(stage) = Stage::new().await else { return };
    let store = &stage.store;
    let mut stranger = store.wakes(&Topic::Lease(name("other")));
    let token = acquire(store, "nightly").await;
    let mut sleeper = store.wakes(&Topic::Lease(name("nightly")));
    store.renew_lease(&token, None).await.unwrap();
    assert!(asleep(&mut sleeper), "nothing became free");
    store.release_lease(&token).await.unwrap();
    woken(&mut sleeper).await;
    drop(sleeper);
    acquire(store, "nightly").await;
    let mut sleeper = store.wakes(&Topic::Lease(name("nightly")));
    store.force_release_lease(&name("nightly"), &Reason::new("the host is gone").unwrap()).await.unwrap();
    woken(&mut sleeper).await;
    assert!(asleep(&mut stranger));
}

/// Who comes after a release is not woken by it, however late word of it arrives.
#[tokio::test]
async fn a_sleeper_is_not_woken_by_what_was_before_it() {
    let Some(stage) = Stage::new().await else { return };
    let store = &stage.store;
    let topic = Topic::Lease(name("nightly"));
    let sleeper = store.wakes(&topic);
    listening(&stage, 1).await;
    for _ in 0..5 {
        let token = acquire(store, "nightly").await;
        store.release_lease(&token).await.unwrap();
        let mut late = store.wakes(&topic);
        tokio::time::sleep(Duration::from_millis(300)).await; // TIME: the notification and a look have passed
        assert!(asleep(&mut late));
    }
    drop(sleeper);
}

/// A release through another handle, right after the sleeper came or long after, wakes it.
#[tokio::test]
async fn a_release_elsewhere_wakes_who_waits_for_the_lease() {
    let Some(stage) = Stage::new().await else { return };
    let there = stage.another().await;
    let mut sleeper = stage.store.wakes(&Topic::Lease(name("nightly")));
    for _ in 0..10 {
        let token = acquire(&there, "nightly").await;
        there.release_lease(&token).await.unwrap();
        woken(&mut sleeper).await;
    }
    acquire(&stage.store, "nightly").await;
    drop(sleeper);
    let mut sleeper = stage.store.wakes(&Topic::Lease(name("nightly")));
    there.force_release_lease(&name("nightly"), &Reason::new("the host is gone").unwrap()).await.unwrap();
    woken(&mut sleeper).await;
}

/// Once the sleeper is known, a release by plain SQL wakes it sooner than looking would.
#[tokio::test]
async fn a_release_by_sql_wakes_at_once() {
    let Some(stage) = Stage::new().await else { return };
    let client = stage.client().await;
    let token = acquire(&stage.store, "nightly").await;
    let mut sleeper = stage.store.wakes(&Topic::Lease(name("nightly")));
    listening(&stage, 1).await;
    let mut quickest = Duration::MAX;
    let mut epoch = token.epoch.get();
    for _ in 0..10 {
        let released = client.query_one("select fencepost.lease_release('nightly', $1)", &[&epoch]).await.unwrap();
        assert!(released.get::<_, bool>(0));
        let since = Instant::now();
        woken(&mut sleeper).await;
        quickest = quickest.min(since.elapsed());
        epoch = acquire(&stage.store, "nightly").await.epoch.get();
    }
    assert!(quickest < Duration::from_millis(100), "{quickest:?}");
}

/// Waits until so many sessions listen on behalf of the stage's stores, after their self-test.
async fn listening(stage: &Stage, sessions: i64) {
    let client = stage.client().await;
    let found =
        "select count(*) from pg_stat_activity where datname = current_database() and query = 'listen fencepost'";
    let listening = async || client.query_one(found, &[]).await.unwrap().get::<_, i64>(0) == sessions;
    until("they listen", listening).await;
    // The echo and a look have passed once the server knows of the sleeper and its topic was looked at.
    tokio::time::sleep(Duration::from_millis(600)).await; // TIME: nothing tells when the task has gone round
}

/// Nobody asleep: no session listens, nobody is told, and nothing is read. Asleep: what is read writes nothing.
#[tokio::test]
async fn sleepers_write_nothing_and_leave_nothing() {
    let Some(stage) = Stage::new().await else { return };
    acquire(&stage.store, "nightly").await;
    let receivers: Vec<_> = (0..1_000).map(|n| stage.store.wakes(&Topic::Lease(name(&format!("l{n}"))))).collect();
    listening(&stage, 1).await;
    let client = stage.client().await;
    let written = async || {
        let query = "select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint from pg_stat_user_tables";
        client.query_one(query, &[]).await.unwrap().get::<_, i64>(0)
    };
    // The server counts late: once it knows of the acquire it knows of what came before.
    until("the server has counted", async || written().await >= 3).await;
    let before = written().await;
    tokio::time::sleep(Duration::from_millis(700)).await; // TIME: looks are made by time
    assert_eq!(written().await, before);
    drop(receivers);
    listening(&stage, 0).await;
}

/// Behind a pooler in transaction mode notifications do not arrive; looking wakes all the same, and as soon as it says. Finding out that
/// none arrive takes two seconds, in which is looked as well, and leaves no server connection that listens.
#[tokio::test]
async fn behind_a_pooler_sleepers_are_woken_by_looking() {
    let Some(stage) = Stage::new().await else { return };
    let Some(pooler) = skip_or_fail(PgBouncer::start(&stage.database).await) else { return };
    let store = PostgresStore::open(&pooler.url(), options()).await.unwrap();
    let mut sleeper = store.wakes(&Topic::Lease(name("nightly")));
    let (begun, mut waits) = (Instant::now(), Vec::new());
    while begun.elapsed() < Duration::from_secs(5) {
        let token = acquire(&store, "nightly").await;
        stage.store.release_lease(&token).await.unwrap();
        let since = Instant::now();
        woken(&mut sleeper).await;
        waits.push(since.elapsed());
    }
    waits.sort_unstable();
    // Where looks take long for want of a processor, they are made less often.
    assert!(waits[waits.len() / 2] < Duration::from_millis(1_500), "{waits:?}");
    assert!(waits.last() < Some(&Duration::from_secs(4)), "{waits:?}");
    drop(sleeper);
    store.close().await;
    // As many transactions at once as the pooler has connections to the server.
    let mut sessions = Vec::new();
    for _ in 0..4 {
        let (client, connection) = tokio_postgres::connect(&pooler.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("begin").await.unwrap();
        let listens = client.simple_query("select 1 from pg_listening_channels()").await.unwrap();
        assert!(!listens.iter().any(|answer| matches!(answer, SimpleQueryMessage::Row(_))), "{listens:?}");
        sessions.push(client);
    }
    drop(sessions);
    let store = PostgresStore::open(&pooler.url(), options()).await.unwrap();
    // Every call of a lease goes through it.
    let token = acquire(&store, "nightly").await;
    store.renew_lease(&token, None).await.unwrap();
    store.force_release_lease(&token.name, &Reason::new("why").unwrap()).await.unwrap();
    assert_eq!(store.lease_history(&token.name).await.unwrap().len(), 1);
}

#[tokio::test]
async fn closing_and_dropping_tell_every_sleeper() {
    let Some(stage) = Stage::new().await else { return };
    let topic = Topic::Lease(name("nightly"));
    let mut early = stage.store.wakes(&topic);
    stage.store.close().await;
    assert_eq!(early.woken().await, Err(Closed));
    assert_eq!(stage.store.wakes(&topic).woken().await, Err(Closed));
    let other = stage.another().await;
    let mut sleeper = other.wakes(&topic);
    drop(other);
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), sleeper.woken()).await, Ok(Err(Closed)));
}
