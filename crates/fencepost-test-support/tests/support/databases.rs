//! Databases of the shared server: each test has its own, and templates are installed once.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};

use fencepost_test_support::{PgServer, TestDatabase, skip_or_fail};
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

/// What `query` finds in one column of one row.
async fn one(database: &TestDatabase, query: &str) -> i64 {
    database.connect().await.unwrap().query_one(query, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn databases_of_one_server_know_nothing_of_each_other() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let (one, other) = (server.database().await.unwrap(), server.database().await.unwrap());
    one.connect().await.unwrap().batch_execute("CREATE TABLE only_here ()").await.unwrap();
    let error = other.connect().await.unwrap().batch_execute("SELECT FROM only_here").await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::UNDEFINED_TABLE));
}

#[tokio::test]
async fn the_shared_server_has_connections_for_all_tests_that_run_at_once() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let database = server.database().await.unwrap();
    assert_eq!(one(&database, "SELECT current_setting('max_connections')::bigint").await, 1000);
}

#[tokio::test]
async fn a_url_leads_to_the_database_and_asks_for_the_password() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let database = server.database().await.unwrap();
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let name: String = client.query_one("SELECT current_database()::text", &[]).await.unwrap().get(0);
    assert_eq!(name, database.name());

    let wrong = database.url().replace(server.password(), "wrong");
    let error = tokio_postgres::connect(&wrong, NoTls).await.err().unwrap();
    assert_eq!(error.code(), Some(&SqlState::INVALID_PASSWORD));
}

#[tokio::test]
async fn a_database_is_dropped_with_its_value_while_clients_are_connected() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let database = server.database().await.unwrap();
    let (_client, name) = (database.connect().await.unwrap(), database.name().to_owned());
    drop(database);
    let admin = server.connect("postgres").await.unwrap();
    let left = admin.query("SELECT FROM pg_database WHERE datname = $1", &[&name]).await.unwrap();
    assert!(left.is_empty());
}

#[tokio::test]
async fn a_database_of_a_process_that_is_gone_is_dropped_by_the_next() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let admin = server.connect("postgres").await.unwrap();
    // No system has a process of this number.
    let left_over = format!("test_{}_0", u32::MAX);
    // Another run of this test may have made it, or may drop it.
    let _ = admin.batch_execute(&format!("CREATE DATABASE {left_over}")).await;
    let _database = server.database().await.unwrap();
    let left = admin.query("SELECT FROM pg_database WHERE datname = $1", &[&left_over]).await.unwrap();
    assert!(left.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_is_installed_once_and_copied_for_everybody() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    static INSTALLED: AtomicU32 = AtomicU32::new(0);
    let key = format!("a template of process {}", std::process::id());
    let install = |url: String| async move {
        INSTALLED.fetch_add(1, Ordering::Relaxed);
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        // It is not closed when the copies are made.
        tokio::spawn(connection);
        client.batch_execute("CREATE TABLE installed (n bigint); INSERT INTO installed VALUES (7)").await?;
        std::mem::forget(client);
        Ok::<_, tokio_postgres::Error>(())
    };
    let (first, second) = tokio::join!(server.database_from(&key, install), server.database_from(&key, install));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(INSTALLED.load(Ordering::Relaxed), 1);
    first.connect().await.unwrap().batch_execute("DELETE FROM installed").await.unwrap();
    assert_eq!(one(&first, "SELECT count(*) FROM installed").await, 0);
    assert_eq!(one(&second, "SELECT sum(n)::bigint FROM installed").await, 7);
}

#[tokio::test]
async fn a_template_that_failed_is_installed_again() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let key = format!("a template that fails in process {}", std::process::id());
    let failed = server.database_from(&key, async |_| Err("the installation is bad")).await;
    assert!(failed.unwrap_err().to_string().ends_with("the installation is bad"));
    server.database_from(&key, async |_| Ok::<_, Infallible>(())).await.unwrap();
}
