//! Standbys: what was committed is there when they take over.

use fencepost_test_support::{DEFAULT_MAJOR, PgServer, skip_or_fail};
use tokio_postgres::error::SqlState;

#[tokio::test]
async fn a_promoted_standby_has_what_waited_for_it_and_takes_writes() {
    let Some(primary) = skip_or_fail(PgServer::private(DEFAULT_MAJOR).await) else { return };
    let Some(standby) = skip_or_fail(primary.standby("heir").await) else { return };
    primary.wait_for_standby("heir").await.unwrap();
    let database = primary.database().await.unwrap();
    let client = database.connect().await.unwrap();
    client.batch_execute("CREATE TABLE kept (n bigint)").await.unwrap();
    client.batch_execute("SET synchronous_commit = remote_apply; INSERT INTO kept VALUES (1)").await.unwrap();

    let heir = standby.connect(database.name()).await.unwrap();
    let refused = heir.batch_execute("INSERT INTO kept VALUES (2)").await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::READ_ONLY_SQL_TRANSACTION));

    primary.kill_9().await.unwrap();
    standby.promote().await.unwrap();
    heir.batch_execute("INSERT INTO kept VALUES (2)").await.unwrap();
    let sum: i64 = heir.query_one("SELECT sum(n)::bigint FROM kept", &[]).await.unwrap().get(0);
    assert_eq!(sum, 3);
}

#[tokio::test]
async fn a_commit_waits_for_a_standby_that_is_gone() {
    let Some(primary) = skip_or_fail(PgServer::private(DEFAULT_MAJOR).await) else { return };
    let Some(standby) = skip_or_fail(primary.standby("slow").await) else { return };
    primary.wait_for_standby("slow").await.unwrap();
    standby.kill_9().await.unwrap();
    // Databases are made and dropped without it.
    drop(primary.database().await.unwrap());
    let (client, watcher) = (primary.connect("postgres").await.unwrap(), primary.connect("postgres").await.unwrap());
    let commit = tokio::spawn(async move { client.batch_execute("CREATE TABLE kept ()").await });
    let waits = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    while watcher.query(waits, &[]).await.unwrap().is_empty() {
        assert!(!commit.is_finished());
    }
    standby.start().await.unwrap();
    commit.await.unwrap().unwrap();
}
