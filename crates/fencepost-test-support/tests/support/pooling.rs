//! pgbouncer in transaction mode: it pools, it asks for the password, and it leads to the right database.

use fencepost_test_support::{PgBouncer, PgServer, skip_or_fail};
use tokio_postgres::{Client, NoTls};

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn text(client: &Client, query: &str) -> String {
    client.query_typed(query, &[]).await.unwrap()[0].get(0)
}

#[tokio::test]
async fn clients_share_the_servers_connections_between_transactions() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let database = server.database().await.unwrap();
    let bouncer = PgBouncer::start_with(&database, &[("default_pool_size", "1")]).await;
    let Some(bouncer) = skip_or_fail(bouncer) else { return };
    let (one, other) = (connect(&bouncer.url()).await, connect(&bouncer.url()).await);
    let backend = "SELECT pg_backend_pid()::text";
    assert_eq!(text(&one, backend).await, text(&other, backend).await);
    assert_eq!(text(&one, "SELECT current_database()::text").await, database.name());
    // What one leaves on the connection the other finds: what is tested through a pooler must not rely on it.
    one.batch_execute("SET work_mem = '5MB'").await.unwrap();
    assert_eq!(text(&other, "SELECT current_setting('work_mem')").await, "5MB");
}

#[tokio::test]
async fn a_wrong_password_is_refused() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let database = server.database().await.unwrap();
    let Some(bouncer) = skip_or_fail(PgBouncer::start(&database).await) else { return };
    let wrong = bouncer.url().replace(server.password(), "wrong");
    assert!(tokio_postgres::connect(&wrong, NoTls).await.is_err());
    drop(connect(&bouncer.url()).await);
}
