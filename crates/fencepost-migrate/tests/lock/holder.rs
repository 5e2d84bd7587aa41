//! What who waits is told of who holds the lock, and how long he goes on waiting.

use std::sync::Arc;

use fencepost_migrate::{LockHolder, Patience};
use tokio::time::{Duration, timeout};

use crate::database::{SOON, eventually, place};

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_told_who_holds_the_lock_since_when_and_what_it_does() {
    let Some(place) = place().await else { return };
    place.looks.batch_execute("create table customer (id int)").await.unwrap();
    let (lock, other) = (Arc::new(place.lock("shop of ours")), place.lock("shop of ours"));
    assert_eq!(other.holder().await.unwrap(), None);
    lock.acquire().await.unwrap();
    let blocker = place.database.connect().await.unwrap();
    blocker.batch_execute("begin; lock table customer").await.unwrap();
    let blocks: i32 = blocker.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let before = other.holder().await.unwrap().unwrap();
    let change = tokio::spawn({
        let lock = lock.clone();
        async move { lock.session().await.unwrap().batch_execute("alter table customer add name text").await }
    });
    eventually(async || other.holder().await.unwrap().unwrap().blocked_by == [blocks]).await;
    let holder: LockHolder = other.holder().await.unwrap().unwrap();
    assert_eq!(holder.pid, place.seen(lock.key()).await.0[0]);
    assert_eq!(holder.user.as_deref(), Some("postgres"));
    assert!(holder.application.as_deref().unwrap().starts_with("migrate shop of ours since 20"));
    assert!(holder.since.is_some() && holder.since <= holder.query_at && holder.connected_at.is_some());
    assert_eq!(holder.query.as_deref(), Some("alter table customer add name text"));
    assert_eq!(holder.wait, Some(("Lock".into(), "relation".into())));
    assert_eq!(holder.state.as_deref(), Some("active"));
    assert!(!holder.is_working() && holder.progress() != before.progress());
    blocker.batch_execute("commit").await.unwrap();
    change.await.unwrap().unwrap();
}

/// A wait goes on with a holder that gets on, and ends with one that does not.
#[tokio::test(flavor = "multi_thread")]
async fn patience_ends_with_a_holder_that_does_not_get_on() {
    let Some(place) = place().await else { return };
    let (lock, other) = (place.lock("shop"), place.lock("shop"));
    lock.acquire().await.unwrap();
    let mut told = 0;
    let mut patience = Patience::new(Duration::from_millis(1500));
    let wait = other.acquire_while(|holder| {
        told += usize::from(holder.is_some());
        patience.lasts(holder)
    });
    assert!(!timeout(SOON, wait).await.unwrap().unwrap());
    assert!(told >= 2, "{told}");

    let works = lock.session().await.unwrap();
    let mut patience = Patience::new(Duration::from_millis(200));
    let mut looks = 0;
    let wait = other.acquire_while(|holder| {
        looks += 1;
        looks < 4 && patience.lasts(holder)
    });
    let (waited, ()) = tokio::join!(wait, async {
        // What is asked ends when nobody waits for the answer any more.
        let work = works.batch_execute("select count(*) from generate_series(1, 200000000)");
        let _ = timeout(Duration::from_secs(8), work).await; // TIME: what works has to work for longer than a few looks
    });
    assert!(!waited.unwrap());
    assert_eq!(looks, 4, "it was waited for while it worked");
}
