//! Servers that a test has to itself: killed, stopped and started again; and one of every major version.

use std::path::Path;
use std::process::{Command, Stdio};

use fencepost_test_support::{DEFAULT_MAJOR, MAJORS, PgServer, installed_majors, skip_or_fail};
use tokio_postgres::Client;

use crate::shared_memory::{segments_of, whereabouts};

async fn number(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn what_is_committed_survives_kill_9() {
    let Some(server) = skip_or_fail(PgServer::private(DEFAULT_MAJOR).await) else { return };
    let database = server.database().await.unwrap();
    let client = database.connect().await.unwrap();
    client.batch_execute("CREATE TABLE kept (n bigint); INSERT INTO kept VALUES (1)").await.unwrap();
    client.batch_execute("BEGIN; INSERT INTO kept VALUES (2)").await.unwrap();

    server.kill_9().await.unwrap();
    assert!(client.batch_execute("COMMIT").await.is_err());
    assert!(database.connect().await.is_err());

    server.start().await.unwrap();
    let client = database.connect().await.unwrap();
    assert_eq!(number(&client, "SELECT sum(n)::bigint FROM kept").await, 1);
}

#[tokio::test]
async fn a_server_restarts_at_its_address() {
    let Some(server) = skip_or_fail(PgServer::private(DEFAULT_MAJOR).await) else { return };
    let database = server.database().await.unwrap();
    let url = database.url();
    server.restart().await.unwrap();
    assert_eq!(url, database.url());
    drop(tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap());
}

#[tokio::test]
async fn a_server_has_the_settings_it_was_given() {
    let settings = [("fsync", "off"), ("application_name", "it's")];
    let Some(server) = skip_or_fail(PgServer::private_with(DEFAULT_MAJOR, &settings).await) else { return };
    server.set("deadlock_timeout", "7s").await.unwrap();
    let client = server.connect("postgres").await.unwrap();
    for (name, value) in [("fsync", "off"), ("deadlock_timeout", "7s"), ("dynamic_shared_memory_type", "mmap")] {
        let set: String = client.query_one("SELECT current_setting($1)", &[&name]).await.unwrap().get(0);
        assert_eq!(set, value, "{name}");
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_server_that_was_dropped() {
    let Some(server) = skip_or_fail(PgServer::private(DEFAULT_MAJOR).await) else { return };
    let client = server.connect("postgres").await.unwrap();
    let (folder, process) = whereabouts(&client).await;
    assert_eq!(segments_of(&process), 1);
    drop(server);
    assert!(!Path::new(&folder).exists());
    assert!(client.batch_execute("SELECT").await.is_err());
    assert_eq!(segments_of(&process), 0);
}

#[tokio::test]
async fn nothing_is_left_of_a_server_that_was_killed_and_dropped() {
    let Some(server) = skip_or_fail(PgServer::private(DEFAULT_MAJOR).await) else { return };
    let (folder, process) = whereabouts(&server.connect("postgres").await.unwrap()).await;
    server.kill_9().await.unwrap();
    assert_eq!(segments_of(&process), 1);
    drop(server);
    assert!(!Path::new(&folder).exists());
    assert_eq!(segments_of(&process), 0);
}

#[tokio::test]
async fn a_killed_server_that_starts_again_leaves_one_segment_at_most() {
    let Some(server) = skip_or_fail(PgServer::private(DEFAULT_MAJOR).await) else { return };
    let (_, first) = whereabouts(&server.connect("postgres").await.unwrap()).await;
    server.kill_9().await.unwrap();
    server.start().await.unwrap();
    let (_, second) = whereabouts(&server.connect("postgres").await.unwrap()).await;
    assert_eq!((segments_of(&first), segments_of(&second)), (0, 1));
    drop(server);
    assert_eq!((segments_of(&first), segments_of(&second)), (0, 0));
}

#[tokio::test]
async fn who_looks_at_a_server_is_not_ended_with_it() {
    let Some(server) = skip_or_fail(PgServer::private(DEFAULT_MAJOR).await) else { return };
    let (folder, _) = whereabouts(&server.connect("postgres").await.unwrap()).await;
    let mut looks =
        Command::new("tail").args(["-f", &format!("{folder}/../log")]).stdout(Stdio::null()).spawn().unwrap();
    drop(server);
    assert!(!Path::new(&folder).exists());
    assert!(looks.try_wait().unwrap().is_none());
    looks.kill().unwrap();
    looks.wait().unwrap();
}

#[tokio::test]
async fn every_major_version_starts() {
    for major in MAJORS {
        let Some(server) = skip_or_fail(PgServer::private(major).await) else { continue };
        let database = server.database().await.unwrap();
        let client = database.connect().await.unwrap();
        let version = number(&client, "SELECT current_setting('server_version_num')::bigint").await;
        assert_eq!(version / 10_000, i64::from(major));
        assert!(installed_majors().contains(&major));
    }
}
