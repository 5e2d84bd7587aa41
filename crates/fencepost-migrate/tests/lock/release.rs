//! What becomes of the connection when the lock is given back: C06, C07.

use fencepost_migrate::MigrationLock;
use fencepost_migrate::deadpool_postgres::Pool;
use fencepost_test_support::FaultProxy;

use crate::database::{Place, eventually, place, pool};

async fn process(pool: &Pool) -> i32 {
    pool.get().await.unwrap().query_one("select pg_backend_pid()", &[]).await.unwrap().get(0)
}

/// After a release that failed: the connection is gone with the lock, and the pool makes another.
async fn is_well_without(place: &Place, lock: &MigrationLock, pool: &Pool, gone: i32) {
    assert!(!lock.is_held());
    place.see(lock.key(), 0, 0).await;
    assert_ne!(process(pool).await, gone);
    lock.acquire().await.unwrap();
    assert!(lock.release().await.unwrap());
}

/// C07
#[tokio::test]
async fn c07_a_released_lock_leaves_its_connection_in_the_pool() {
    let Some(place) = place().await else { return };
    let pool = place.pool(2);
    let lock = MigrationLock::new(pool.clone(), "shop").unwrap();
    lock.acquire().await.unwrap();
    let size = pool.status().size;
    let (held, _) = place.seen(lock.key()).await;
    assert!(lock.release().await.unwrap());
    assert_eq!((pool.status().size, pool.status().available), (size, size));
    let (one, two) = (pool.get().await.unwrap(), pool.get().await.unwrap());
    let mut processes = Vec::new();
    for session in [&one, &two] {
        processes.push(session.query_one("select pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0));
    }
    assert!(processes.contains(&held[0]), "it is the same connection");
}

/// C06
#[tokio::test]
async fn c06_a_session_that_did_not_have_the_lock_is_closed() {
    let Some(place) = place().await else { return };
    let pool = place.pool(2);
    let lock = MigrationLock::new(pool.clone(), "shop").unwrap();
    lock.acquire().await.unwrap();
    let held = place.seen(lock.key()).await.0[0];
    lock.session().await.unwrap().execute("select pg_advisory_unlock_all()", &[]).await.unwrap();
    let error = lock.release().await.unwrap_err();
    assert_eq!(error.code(), "lock_not_held");
    is_well_without(&place, &lock, &pool, held).await;
}

/// C06
#[tokio::test]
async fn c06_a_session_with_an_aborted_or_open_transaction_is_closed() {
    let Some(place) = place().await else { return };
    for (left, code) in [("begin; select 1/0", "transaction_aborted"), ("begin; select 1", "transaction_open")] {
        let pool = place.pool(2);
        let lock = MigrationLock::new(pool.clone(), "shop").unwrap();
        lock.acquire().await.unwrap();
        let held = place.seen(lock.key()).await.0[0];
        let _ = lock.session().await.unwrap().batch_execute(left).await;
        let error = lock.release().await.unwrap_err();
        assert_eq!(error.code(), code);
        is_well_without(&place, &lock, &pool, held).await;
    }
}

/// C06: an unlock that the server cancels, as by a bound for statements.
#[tokio::test(flavor = "multi_thread")]
async fn c06_a_session_whose_unlock_was_cancelled_is_closed() {
    let Some(place) = place().await else { return };
    let pool = place.pool(2);
    let lock = MigrationLock::new(pool.clone(), "shop").unwrap();
    lock.acquire().await.unwrap();
    let held = place.seen(lock.key()).await.0[0];
    // What is unlocked is found by this name first.
    let slow = "create schema slow; create function slow.pg_advisory_unlock(bigint) returns boolean language sql
        as 'select true from pg_sleep(60)'";
    place.looks.batch_execute(slow).await.unwrap();
    let path = "set search_path = slow, pg_catalog; set statement_timeout = '50ms'";
    lock.session().await.unwrap().batch_execute(path).await.unwrap();
    let error = lock.release().await.unwrap_err();
    assert_eq!(error.fact("sqlstate"), Some("57014"));
    is_well_without(&place, &lock, &pool, held).await;
}

/// C06: the answer to the unlock is lost on its way.
#[tokio::test(flavor = "multi_thread")]
async fn c06_a_session_whose_unlock_was_not_answered_is_closed() {
    let Some(place) = place().await else { return };
    let proxy = FaultProxy::start(place.database.server().address()).await.unwrap();
    let pool = pool(&proxy.url(&place.database.url()), 2);
    let lock = MigrationLock::new(pool.clone(), "shop").unwrap();
    lock.acquire().await.unwrap();
    let held = place.seen(lock.key()).await.0[0];
    let lost = proxy.lose_reply("pg_advisory_unlock");
    let error = lock.release().await.unwrap_err();
    lost.happened().await;
    assert_eq!(error.code(), "connection_lost");
    is_well_without(&place, &lock, &pool, held).await;
}

/// A release that nobody waits for any more goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_dropped_is_done_all_the_same() {
    let Some(place) = place().await else { return };
    let pool = place.pool(2);
    let lock = MigrationLock::new(pool.clone(), "shop").unwrap();
    lock.acquire().await.unwrap();
    let size = pool.status().size;
    let mut release = Box::pin(lock.release());
    assert!(ask_once(release.as_mut()).is_pending());
    drop(release);
    assert!(!lock.is_held());
    place.see(lock.key(), 0, 0).await;
    eventually(async || pool.status().available == size).await;
}

/// Asks a future once.
fn ask_once<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
    future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}
