//! What is left of an attempt that is dropped, wherever it waits: C09.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fencepost_migrate::{LockKey, MigrationLock};
use tokio::time::timeout;

use crate::database::{Place, SOON, place};

/// Lets a future go on until it has waited `waits` times. None when it ended before, or waits for good.
pub async fn drop_after<F: Future>(waits: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..waits {
        let mut once = false;
        let woken = std::future::poll_fn(|context| {
            // The second call comes because somebody woke it, which is what the next step of the loop answers.
            if std::mem::replace(&mut once, true) {
                return Poll::Ready(None);
            }
            future.as_mut().poll(context).map(Some)
        });
        match timeout(SOON, woken).await {
            Ok(Some(done)) => return Some(done),
            Ok(None) => {}
            Err(_) => return None,
        }
    }
    None
}

async fn nothing_is_left(place: &Place, key: LockKey, holders: usize) {
    place.see(key, holders, 0).await;
}

/// C09: a lock that is free.
#[tokio::test]
async fn c09_an_attempt_that_is_dropped_anywhere_leaves_nothing() {
    let Some(place) = place().await else { return };
    let mut waits = 0;
    loop {
        let pool = place.pool(4);
        let lock = MigrationLock::new(pool.clone(), "shop").unwrap();
        let done = drop_after(waits, lock.acquire()).await;
        if done.is_some() {
            break;
        }
        assert!(!lock.is_held());
        nothing_is_left(&place, lock.key(), 0).await;
        assert!(timeout(SOON, lock.acquire_within(SOON)).await.unwrap().unwrap(), "after {waits} waits");
        assert!(lock.release().await.unwrap());
        assert_eq!(pool.status().size, pool.status().available, "after {waits} waits");
        waits += 1;
    }
    assert!(waits > 8, "it was dropped at {waits} places");
}

/// C09: a lock that somebody has.
#[tokio::test]
async fn c09_a_wait_that_is_dropped_anywhere_leaves_nothing() {
    let Some(place) = place().await else { return };
    let holder = place.lock("shop");
    holder.acquire().await.unwrap();
    for waits in 0..24 {
        let pool = place.pool(4);
        let lock = MigrationLock::new(pool.clone(), "shop").unwrap();
        assert!(drop_after(waits, lock.acquire()).await.is_none());
        nothing_is_left(&place, lock.key(), 1).await;
        assert!(!lock.is_held() && holder.is_held());
    }
    // Granted while nobody waits any more.
    let lock = place.lock("shop");
    let mut wait = Box::pin(lock.acquire());
    assert!(drop_after(24, wait.as_mut()).await.is_none());
    assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    holder.release().await.unwrap();
    drop(wait);
    nothing_is_left(&place, lock.key(), 0).await;
    assert!(lock.acquire_within(Duration::from_secs(20)).await.unwrap());
}
