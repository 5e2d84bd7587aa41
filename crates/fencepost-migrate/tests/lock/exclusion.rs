//! Who gets the lock: C01 to C04, C08, C10, C11.

use std::sync::Arc;
use std::time::Instant;

use fencepost_core::Kind;
use fencepost_migrate::{LockKey, MigrationLock};
use tokio::time::Duration;

use crate::database::{SOON, eventually, place};

/// C01
#[tokio::test]
async fn c01_a_holder_has_exactly_one_granted_lock_beside_others() {
    let Some(place) = place().await else { return };
    place.looks.execute("select pg_advisory_lock(42)", &[]).await.unwrap();
    let lock = place.lock("shop");
    assert!(!lock.is_held());
    lock.acquire().await.unwrap();
    assert!(lock.is_held());
    let (held, waits) = place.seen(lock.key()).await;
    assert_eq!((held.len(), waits.len(), place.all().await), (1, 0, 2));
    let session = lock.session().await.unwrap();
    let process: i32 = session.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    assert_eq!(held, [process], "what is done under the lock is done in its session");
}

/// C02
#[tokio::test]
async fn c02_a_second_runner_is_told_at_once() {
    let Some(place) = place().await else { return };
    let (first, second) = (place.lock("shop"), place.lock("shop"));
    assert!(first.try_acquire().await.unwrap());
    second.holder().await.unwrap();
    let since = Instant::now();
    assert!(!second.try_acquire().await.unwrap());
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    assert!(!second.is_held());
    assert!(!second.acquire_within(Duration::from_millis(20)).await.unwrap());
    assert!(place.lock("another").try_acquire().await.unwrap(), "another name is another lock");
}

/// C03, C04
#[tokio::test(flavor = "multi_thread")]
async fn c03_a_waiter_is_reported_as_waiting_and_gets_the_lock_after_the_release() {
    let Some(place) = place().await else { return };
    let (first, second) = (place.lock("shop"), Arc::new(place.lock("shop")));
    first.acquire().await.unwrap();
    let waiter = tokio::spawn({
        let second = second.clone();
        async move { second.acquire().await }
    });
    place.see(first.key(), 1, 1).await;
    let (_, waits) = place.seen(first.key()).await;
    let sql = "select wait_event_type || ' ' || wait_event from pg_stat_activity where pid = any($1)";
    eventually(async || {
        let waits = place.seen(first.key()).await.1;
        let seen = place.looks.query(sql, &[&waits]).await.unwrap();
        seen.iter().any(|row| row.get::<_, Option<&str>>(0) == Some("Lock advisory"))
    })
    .await;
    assert_eq!(waits.len(), 1);
    assert!(!second.try_acquire().await.unwrap(), "who tries does not wait for who waits");
    assert!(first.release().await.unwrap());
    waiter.await.unwrap().unwrap();
    assert_eq!(place.seen(first.key()).await.0.len(), 1);
    assert!(second.release().await.unwrap());
    assert_eq!(place.all().await, 0);
    assert!(!second.release().await.unwrap(), "what is not held is not released");
}

/// C08
#[tokio::test(flavor = "multi_thread")]
async fn c08_calls_on_one_value_share_one_connection_and_one_grant() {
    let Some(place) = place().await else { return };
    let pool = place.pool(16);
    let lock = Arc::new(MigrationLock::new(pool.clone(), "shop").unwrap());
    let other = place.lock("shop");
    other.acquire().await.unwrap();
    let waiters: Vec<_> = (0..8)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await })
        })
        .collect();
    place.see(lock.key(), 1, 1).await;
    let status = pool.status();
    assert_eq!(status.size - status.available, 1, "one connection is out");
    other.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    let (held, _) = place.seen(lock.key()).await;
    assert_eq!(held.len(), 1);
    lock.acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap(), "it is held, by this value");
    assert_eq!(place.seen(lock.key()).await.0, held, "and was not taken anew");
    assert!(lock.release().await.unwrap());
    assert_eq!(place.all().await, 0);
    let status = pool.status();
    assert_eq!(status.size, status.available);
}

/// C10
#[tokio::test(flavor = "multi_thread")]
async fn c10_two_values_in_one_process_exclude_each_other() {
    let Some(place) = place().await else { return };
    let pool = place.pool(8);
    let locks: Vec<_> = (0..4).map(|_| Arc::new(MigrationLock::new(pool.clone(), "shop").unwrap())).collect();
    let inside = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let tasks: Vec<_> = locks
        .into_iter()
        .map(|lock| {
            let inside = inside.clone();
            tokio::spawn(async move {
                for _ in 0..3 {
                    lock.acquire().await.unwrap();
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    assert!(lock.release().await.unwrap());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// C10: a session that somebody left locked would be granted the lock again.
#[tokio::test]
async fn c10_a_session_that_has_the_lock_does_not_win_it_again() {
    let Some(place) = place().await else { return };
    let pool = place.pool(2);
    let lock = MigrationLock::new(pool.clone(), "shop").unwrap();
    let left = pool.get().await.unwrap();
    left.execute("select pg_advisory_lock($1)", &[&lock.key().as_i64()]).await.unwrap();
    drop(left);
    lock.acquire().await.unwrap();
    assert!(lock.release().await.unwrap());
    place.see(lock.key(), 0, 0).await;
}

/// C11
#[tokio::test]
async fn c11_any_name_is_a_value_and_never_a_statement() {
    let Some(place) = place().await else { return };
    let long = "ä".repeat(127) + "x";
    for name in ["o'clock", "$$; drop table x; --", "\"quoted\" \\ %s", "注文 · nº 7", &long] {
        let lock = place.lock(name);
        lock.acquire().await.unwrap();
        let key: i64 = place
            .looks
            .query_one(
                "select ('x' || left(encode(sha256(convert_to('fencepost migration lock: ' || $1, 'utf8')), 'hex'), 16))::bit(64)::bigint",
                &[&name],
            )
            .await
            .unwrap()
            .get(0);
        assert_eq!(lock.key().as_i64(), key, "as the documentation says");
        assert_eq!(place.seen(lock.key()).await.0.len(), 1, "{name}");
        assert!(lock.release().await.unwrap());
    }
    for bad in ["", " ", "a\0b", &"x".repeat(256)] {
        assert_eq!(MigrationLock::new(place.pool(2), bad).unwrap_err().kind(), Kind::InvalidInput);
    }
    assert_ne!(LockKey::of(place.lock("a").name()), LockKey::of(place.lock("b").name()));
}

#[tokio::test]
async fn a_pool_of_one_connection_is_refused() {
    let Some(place) = place().await else { return };
    let lock = MigrationLock::new(place.pool(1), "shop").unwrap();
    let error = lock.acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::InvalidInput, "pool_too_small"));
    assert!(error.hint().is_some());
    assert_eq!(lock.try_acquire().await.unwrap_err().code(), "pool_too_small");
    assert_eq!(place.all().await, 0);
}

/// A pool of the caller's may have no bound of its own, and would be waited for without end.
#[tokio::test]
async fn a_pool_whose_connections_are_all_in_use_is_told_of_in_time() {
    let Some(place) = place().await else { return };
    let pool = place.pool(2);
    assert_eq!(pool.timeouts().wait, None);
    let _in_use = (pool.get().await.unwrap(), pool.get().await.unwrap());
    let lock = MigrationLock::new(pool, "shop").unwrap();
    let refused = tokio::time::timeout(SOON, lock.acquire()).await.expect("it does not wait without end");
    let error = refused.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "pool_exhausted"));
}

#[tokio::test]
async fn a_url_is_as_good_as_a_pool() {
    let Some(place) = place().await else { return };
    let lock = MigrationLock::at(&place.database.url(), "shop").unwrap();
    lock.acquire().await.unwrap();
    assert!(!place.lock("shop").try_acquire().await.unwrap());
    drop(lock);
    place.see(place.lock("shop").key(), 0, 0).await;
}

/// The settings that a role has for the application break no lock, and are there again after it.
#[tokio::test(flavor = "multi_thread")]
async fn bounds_of_the_role_do_not_end_a_wait() {
    let Some(place) = place().await else { return };
    let name = place.database.name();
    for setting in ["statement_timeout = '300ms'", "lock_timeout = '50ms'", "idle_session_timeout = '300ms'"] {
        place.looks.batch_execute(&format!("alter database {name} set {setting}")).await.unwrap();
    }
    let (first, pool) = (place.lock("shop"), place.pool(2));
    let second = Arc::new(MigrationLock::new(pool.clone(), "shop").unwrap());
    first.acquire().await.unwrap();
    let waiter = tokio::spawn({
        let second = second.clone();
        async move { second.acquire().await }
    });
    place.see(first.key(), 1, 1).await;
    let idle_for = first.lost();
    let is_lost = tokio::time::timeout(Duration::from_secs(1), idle_for).await; // TIME: longer than the role's bounds
    assert!(is_lost.is_err() && !waiter.is_finished());
    first.release().await.unwrap();
    tokio::time::timeout(SOON, waiter).await.unwrap().unwrap().unwrap();
    second.release().await.unwrap();
    let session = pool.get().await.unwrap();
    let sql = "select current_setting('statement_timeout') || ' ' || current_setting('application_name')";
    let shown: String = session.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(shown, "300ms ");
}
