//! The lease in place of a lock: C14 behind a pooler, takeovers, and writes of who lost it.

use std::sync::Arc;

use fencepost_core::{Kind, Ttl};
use fencepost_migrate::{LeaseFence, MigrationLease};
use fencepost_test_support::{FaultProxy, PgBouncer, skip_or_fail};
use tokio::time::{Duration, timeout};
use tokio_postgres::Client;

use crate::cancelled::drop_after;
use crate::database::{Place, SOON, eventually, place, pool};

fn lease(place: &Place) -> MigrationLease {
    MigrationLease::new(place.pool(4), "shop").unwrap()
}

fn ttl(millis: u64) -> Ttl {
    Ttl::new(Duration::from_millis(millis)).unwrap()
}

/// Writes a line under a fence, in one transaction.
async fn write(client: &mut Client, fence: &LeaseFence, line: &str) -> fencepost_core::Result<()> {
    let transaction = client.transaction().await.unwrap();
    fence.check(&transaction).await?;
    transaction.execute("insert into written values ($1)", &[&line]).await.unwrap();
    transaction.commit().await.unwrap();
    Ok(())
}

/// C14
#[tokio::test(flavor = "multi_thread")]
async fn c14_a_lease_excludes_others_through_a_pooler_in_transaction_mode() {
    let Some(place) = place().await else { return };
    let Some(bouncer) = skip_or_fail(PgBouncer::start(&place.database).await) else { return };
    let first = MigrationLease::at(&bouncer.url(), "shop").unwrap();
    let second = Arc::new(MigrationLease::new(pool(&bouncer.url(), 2), "shop").unwrap());
    assert_eq!(first.holder().await.unwrap(), None);
    first.acquire().await.unwrap();
    assert!(first.is_held() && !second.try_acquire().await.unwrap());
    assert!(!second.acquire_within(Duration::from_millis(50)).await.unwrap());
    let holder = second.holder().await.unwrap().unwrap();
    assert_eq!(holder.holder, format!("process {}", std::process::id()));
    assert!(holder.since < holder.expires_at && holder.epoch == first.fence().unwrap().epoch().get());
    let waiter = tokio::spawn({
        let second = second.clone();
        async move { second.acquire().await }
    });
    assert!(first.release().await.unwrap());
    timeout(SOON, waiter).await.unwrap().unwrap().unwrap();
    assert!(second.fence().unwrap().epoch().get() > holder.epoch, "epochs rise");
    assert!(!first.is_held() && first.fence().is_none() && !first.release().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn forty_that_begin_at_once_get_it_one_after_the_other() {
    let Some(place) = place().await else { return };
    let pool = place.pool(10);
    let granted: Vec<_> = (0..40)
        .map(|_| {
            let lease = MigrationLease::new(pool.clone(), "shop").unwrap();
            tokio::spawn(async move { (lease.try_acquire().await.unwrap(), lease) })
        })
        .collect();
    let mut winners = Vec::new();
    for one in granted {
        let (is_granted, lease) = one.await.unwrap();
        winners.extend(is_granted.then_some(lease));
    }
    assert_eq!(winners.len(), 1);
}

/// A holder that nobody hears of any more is followed by the next, and what it writes then is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ended_is_taken_over_and_its_holder_is_fenced() {
    let Some(place) = place().await else { return };
    place.looks.batch_execute("create table written (line text)").await.unwrap();
    let proxy = FaultProxy::start(place.database.server().address()).await.unwrap();
    let old = MigrationLease::new(pool(&proxy.url(&place.database.url()), 2), "shop").unwrap().ttl(ttl(1000));
    let new = lease(&place);
    old.acquire().await.unwrap();
    let (fence, lost) = (old.fence().unwrap(), old.lost());
    let mut client = place.database.connect().await.unwrap();
    write(&mut client, &fence, "mine").await.unwrap();
    proxy.half_open(true);
    let mut session = new.session().await.unwrap();
    assert!(timeout(SOON, new.acquire_within(SOON)).await.unwrap().unwrap());
    timeout(SOON, lost).await.expect("the holder is told, though it hears nothing");
    assert!(!old.is_held());
    let error = write(&mut client, &fence, "late").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Fenced);
    assert_eq!(error.fact("presented_epoch"), Some(fence.epoch().to_string().as_str()));
    write(&mut session, &new.fence().unwrap(), "next").await.unwrap();
    let rows = place.looks.query("select line from written", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<String>>(), ["mine", "next"]);
}

/// A lease is renewed for as long as it is held, and who was granted it while live is not asked to share.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_held_outlives_its_ttl() {
    let Some(place) = place().await else { return };
    let (held, other) = (lease(&place).ttl(ttl(1000)), lease(&place));
    held.acquire().await.unwrap();
    let epoch = held.fence().unwrap().epoch();
    let waited = timeout(Duration::from_millis(2500), other.acquire()).await; // TIME: longer than two TTLs
    assert!(waited.is_err() && held.is_held());
    assert_eq!(other.holder().await.unwrap().unwrap().epoch, epoch.get());
}

/// No takeover passes a transaction that was checked, also when the lease has ended meanwhile; a renewal does.
#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_waits_for_a_checked_transaction() {
    let Some(place) = place().await else { return };
    place.looks.batch_execute("create table written (line text)").await.unwrap();
    let (old, new) = (lease(&place), lease(&place));
    old.acquire().await.unwrap();
    let fence = old.fence().unwrap();
    let mut client = place.database.connect().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    fence.check(&transaction).await.unwrap();
    let bound: String = transaction
        .query_one("select current_setting('idle_in_transaction_session_timeout')", &[])
        .await
        .unwrap()
        .get(0);
    assert_ne!(bound, "0", "the server bounds it");
    let ends = "update fencepost_migration_lease set expires_at = clock_timestamp() - interval '1 s'";
    assert_eq!(place.looks.execute(ends, &[]).await.unwrap(), 1, "as a renewal, this does not wait");
    assert!(!new.try_acquire().await.unwrap());
    transaction.execute("insert into written values ('mine')", &[]).await.unwrap();
    transaction.commit().await.unwrap();
    assert!(new.try_acquire().await.unwrap());
    assert_eq!(write(&mut client, &fence, "late").await.unwrap_err().kind(), Kind::Fenced);
}

/// The answer to a grant is lost on its way: the same call finds its grant again.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_whose_answer_was_lost_is_found_again() {
    let Some(place) = place().await else { return };
    let proxy = FaultProxy::start(place.database.server().address()).await.unwrap();
    let lease = MigrationLease::new(pool(&proxy.url(&place.database.url()), 4), "shop").unwrap();
    assert!(lease.acquire_within(SOON).await.unwrap() && lease.release().await.unwrap());
    // The whole message: a beginning names a level of isolation that begins with the same letters.
    let lost = proxy.lose_reply("COMMIT\0");
    assert!(lease.try_acquire().await.unwrap());
    lost.happened().await;
    assert!(lease.release().await.unwrap());
}

/// Epochs rise past an older backup, whose counter knows less, since they follow the clock.
#[tokio::test]
async fn epochs_rise_though_the_row_is_an_older_one() {
    let Some(place) = place().await else { return };
    let lease = lease(&place).in_schema("public");
    lease.acquire().await.unwrap();
    let epoch = lease.fence().unwrap().epoch();
    lease.release().await.unwrap();
    place.looks.batch_execute("truncate fencepost_migration_lease").await.unwrap();
    lease.acquire().await.unwrap();
    assert!(lease.fence().unwrap().epoch() > epoch);
    let named = MigrationLease::new(place.pool(2), "shop").unwrap().in_schema("odd \"one\"");
    place.looks.batch_execute("create schema \"odd \"\"one\"\"\"").await.unwrap();
    assert!(named.try_acquire().await.unwrap(), "another schema has other leases");
    assert!(MigrationLease::new(place.pool(2), "shop").unwrap().in_schema("").try_acquire().await.is_err());
    eventually(async || named.is_held()).await;
}

/// C09: an attempt that is dropped anywhere, and a value that is dropped, leave no grant.
#[tokio::test]
async fn c09_what_is_dropped_leaves_no_grant() {
    let Some(place) = place().await else { return };
    let (first, mut waits) = (lease(&place).ttl(ttl(3_600_000)), 0);
    assert!(first.try_acquire().await.unwrap() && first.release().await.unwrap());
    loop {
        let dropped = lease(&place).ttl(ttl(3_600_000));
        let done = drop_after(waits, dropped.acquire()).await;
        drop(dropped);
        assert!(first.acquire_within(SOON).await.unwrap(), "after {waits} waits");
        assert!(first.release().await.unwrap());
        if done.is_some() {
            break;
        }
        waits += 1;
    }
    assert!(waits > 1, "it was dropped at {waits} places");
}
