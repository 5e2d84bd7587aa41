//! C05: a session that ends, and who is told.

use std::sync::Arc;

use fencepost_migrate::MigrationLock;
use fencepost_test_support::FaultProxy;
use tokio::time::timeout;

use crate::database::{SOON, place, pool};
use crate::process::Other;

/// C05
#[tokio::test(flavor = "multi_thread")]
async fn c05_a_lock_whose_session_ends_is_free_and_its_holder_is_told() {
    let Some(place) = place().await else { return };
    for lock in [place.lock("shop"), MigrationLock::at(&place.database.url(), "shop").unwrap()] {
        lock.acquire().await.unwrap();
        let next = Arc::new(place.lock("shop"));
        let waiter = tokio::spawn({
            let next = next.clone();
            async move { next.acquire().await }
        });
        place.see(lock.key(), 1, 1).await;
        let lost = lock.lost();
        place.kill(place.seen(lock.key()).await.0[0]).await;
        timeout(SOON, lost).await.expect("the holder is told");
        assert!(!lock.is_held());
        assert!(!lock.release().await.unwrap(), "what was lost is not released");
        assert_eq!(lock.session().await.unwrap_err().code(), "lock_not_held");
        timeout(SOON, waiter).await.unwrap().unwrap().unwrap();
        assert!(next.release().await.unwrap());
    }
}

/// C05: the network between the two is cut, or falls silent.
#[tokio::test(flavor = "multi_thread")]
async fn c05_a_network_that_fails_is_noticed() {
    let Some(place) = place().await else { return };
    for silently in [false, true] {
        let proxy = FaultProxy::start(place.database.server().address()).await.unwrap();
        let lock = MigrationLock::new(pool(&proxy.url(&place.database.url()), 2), "shop").unwrap();
        lock.acquire().await.unwrap();
        let lost = lock.lost();
        if silently {
            proxy.half_open(true);
        } else {
            proxy.cut();
        }
        timeout(SOON, lost).await.expect("the holder is told");
        assert!(!lock.is_held());
        drop(proxy);
        place.see(lock.key(), 0, 0).await;
    }
}

/// C05
#[tokio::test]
async fn c05_a_value_that_is_dropped_frees_its_lock() {
    let Some(place) = place().await else { return };
    let pool = place.pool(2);
    let lock = MigrationLock::new(pool.clone(), "shop").unwrap();
    let key = lock.key();
    lock.acquire().await.unwrap();
    let lost = lock.lost();
    drop(lock);
    timeout(SOON, lost).await.expect("it is over");
    place.see(key, 0, 0).await;
    let status = pool.status();
    assert_eq!(status.size, status.available);
}

/// C05: a process that is killed.
#[tokio::test(flavor = "multi_thread")]
async fn c05_the_lock_of_a_process_that_is_killed_goes_to_who_waits() {
    let Some(place) = place().await else { return };
    let url = place.database.url();
    let other = tokio::task::spawn_blocking(move || Other::that_holds(&url)).await.unwrap();
    let lock = Arc::new(place.lock("shop"));
    assert!(!lock.try_acquire().await.unwrap());
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    place.see(lock.key(), 1, 1).await;
    drop(other);
    timeout(SOON, waiter).await.unwrap().unwrap().unwrap();
    assert!(lock.release().await.unwrap());
}
