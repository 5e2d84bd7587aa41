//! The proxy that fails on demand, before a real server: what is lost is lost, and the server's state is as promised.

use std::time::Duration;

use fencepost_test_support::{FaultProxy, PgServer, TestDatabase, skip_or_fail};
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

/// Silence is known by waiting for it.
const SILENCE: Duration = Duration::from_millis(200);

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

async fn behind_a_proxy() -> Option<(TestDatabase, FaultProxy)> {
    let server = skip_or_fail(PgServer::shared().await)?;
    let database = server.database().await.unwrap();
    database.connect().await.unwrap().batch_execute("CREATE TABLE kept (n bigint)").await.unwrap();
    let proxy = FaultProxy::start(server.address()).await.unwrap();
    Some((database, proxy))
}

async fn connect(proxy: &FaultProxy, database: &TestDatabase) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(&proxy.url(&database.url()), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn kept(database: &TestDatabase) -> i64 {
    database.connect().await.unwrap().query_one("SELECT count(*) FROM kept", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_commit_whose_reply_is_lost_is_done() {
    let Some((database, proxy)) = behind_a_proxy().await else { return };
    let client = connect(&proxy, &database).await.unwrap();
    client.batch_execute("BEGIN; INSERT INTO kept VALUES (1)").await.unwrap();
    let lost = proxy.lose_reply("COMMIT");
    let error = client.batch_execute("COMMIT").await.unwrap_err();
    lost.happened().await;
    assert!(error.as_db_error().is_none(), "{error}");
    assert_eq!(kept(&database).await, 1);
}

#[tokio::test]
async fn a_commit_that_is_lost_is_not_done() {
    let Some((database, proxy)) = behind_a_proxy().await else { return };
    let client = connect(&proxy, &database).await.unwrap();
    client.batch_execute("BEGIN; INSERT INTO kept VALUES (1)").await.unwrap();
    let lost = proxy.lose_request("COMMIT");
    assert!(client.batch_execute("COMMIT").await.is_err());
    lost.happened().await;
    assert_eq!(kept(&database).await, 0);
    // It happened once.
    connect(&proxy, &database)
        .await
        .unwrap()
        .batch_execute("BEGIN; INSERT INTO kept VALUES (1); COMMIT")
        .await
        .unwrap();
    assert_eq!(kept(&database).await, 1);
}

#[tokio::test]
async fn an_answer_is_cut_in_the_middle() {
    let Some((database, proxy)) = behind_a_proxy().await else { return };
    let client = connect(&proxy, &database).await.unwrap();
    let cut = proxy.cut_after_reply_bytes(10_000);
    assert!(client.simple_query("SELECT repeat('x', 100000)").await.is_err());
    cut.happened().await;
    assert!(client.is_closed());
}

#[tokio::test]
async fn all_connections_are_cut_and_new_ones_are_refused_until_they_are_not() {
    let Some((database, proxy)) = behind_a_proxy().await else { return };
    let (one, other) = (connect(&proxy, &database).await.unwrap(), connect(&proxy, &database).await.unwrap());
    proxy.refuse(true).await;
    one.batch_execute("SELECT").await.unwrap();
    proxy.cut();
    assert!(one.batch_execute("SELECT").await.is_err());
    assert!(other.batch_execute("SELECT").await.is_err());
    assert!(connect(&proxy, &database).await.is_err());
    proxy.refuse(false).await;
    connect(&proxy, &database).await.unwrap().batch_execute("SELECT").await.unwrap();
}

#[tokio::test]
async fn a_half_open_connection_is_silent_until_it_is_cut() {
    let Some((database, proxy)) = behind_a_proxy().await else { return };
    let client = connect(&proxy, &database).await.unwrap();
    client.batch_execute("BEGIN; INSERT INTO kept VALUES (1)").await.unwrap();
    proxy.half_open(true);
    let mut waits = Box::pin(client.batch_execute("COMMIT"));
    assert!(timeout(SILENCE, &mut waits).await.is_err());
    assert!(timeout(SILENCE, connect(&proxy, &database)).await.is_err());
    // The server still believes in the transaction.
    let open =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'";
    let found: i64 = database.connect().await.unwrap().query_one(open, &[]).await.unwrap().get(0);
    assert_eq!(found, 1);

    proxy.half_open(false);
    assert!(timeout(SILENCE, &mut waits).await.is_err());
    proxy.cut();
    assert!(timeout(LONG, waits).await.unwrap().is_err());
    connect(&proxy, &database).await.unwrap().batch_execute("SELECT").await.unwrap();
    assert_eq!(kept(&database).await, 0);
}

#[tokio::test]
async fn what_passes_is_delayed() {
    let Some((database, proxy)) = behind_a_proxy().await else { return };
    let client = connect(&proxy, &database).await.unwrap();
    proxy.delay(Duration::from_millis(50)..Duration::from_millis(60));
    let since = std::time::Instant::now();
    client.batch_execute("SELECT").await.unwrap();
    // Once on the way there, once on the way back.
    assert!(since.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn connections_are_cut_by_chance() {
    let Some((database, proxy)) = behind_a_proxy().await else { return };
    let client = connect(&proxy, &database).await.unwrap();
    proxy.cut_randomly(Some(10));
    let mut answers = 0;
    while client.batch_execute("SELECT").await.is_ok() {
        answers += 1;
    }
    assert!(answers < 1000, "{answers}");
    proxy.cut_randomly(None);
    connect(&proxy, &database).await.unwrap().batch_execute("SELECT").await.unwrap();
}
