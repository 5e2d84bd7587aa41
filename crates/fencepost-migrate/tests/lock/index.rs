//! C12: a holder that builds an index concurrently, while others wait for the lock.

use std::sync::Arc;

use fencepost_migrate::MigrationLock;
use tokio::time::timeout;

use crate::database::{SOON, place};

#[tokio::test(flavor = "multi_thread")]
async fn c12_an_index_is_built_concurrently_while_three_wait() {
    let Some(place) = place().await else { return };
    place.looks.batch_execute("create table customer as select generate_series(1, 1000) as id").await.unwrap();
    let holder = place.lock("shop");
    holder.acquire().await.unwrap();
    // They are granted it in no certain order.
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let lock = place.lock("shop");
            tokio::spawn(async move {
                lock.acquire().await?;
                lock.release().await
            })
        })
        .collect();
    place.see(holder.key(), 1, 3).await;
    let build = async {
        for number in 0..3 {
            let session = holder.session().await.unwrap();
            let sql = format!("create index concurrently customer_{number} on customer (id)");
            session.batch_execute(&sql).await.unwrap();
        }
    };
    timeout(SOON, build).await.expect("it does not wait for those who wait for it");
    assert!(holder.release().await.unwrap());
    for waiter in waiters {
        assert!(timeout(SOON, waiter).await.unwrap().unwrap().unwrap());
    }
}

/// The same where the server looks for deadlocks much earlier than by default.
#[tokio::test(flavor = "multi_thread")]
async fn c12_slices_are_shorter_than_the_servers_deadlock_timeout() {
    let Some(place) = place().await else { return };
    let name = place.database.name();
    place.looks.batch_execute(&format!("alter database {name} set deadlock_timeout = '60ms'")).await.unwrap();
    place.looks.batch_execute("create table customer as select 1 as id").await.unwrap();
    let (holder, waiter) = (place.lock("shop"), Arc::new(place.lock("shop")));
    holder.acquire().await.unwrap();
    let waits = tokio::spawn({
        let waiter = waiter.clone();
        async move { MigrationLock::acquire(&waiter).await }
    });
    place.see(holder.key(), 1, 1).await;
    let session = holder.session().await.unwrap();
    let build = session.batch_execute("create index concurrently customer_id on customer (id)");
    timeout(SOON, build).await.unwrap().unwrap();
    drop(session);
    assert!(holder.release().await.unwrap());
    timeout(SOON, waits).await.unwrap().unwrap().unwrap();
}
