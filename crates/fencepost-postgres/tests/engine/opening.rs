//! Opening a store: installing, finding it current, and being told what is wrong with the place.

use std::time::{Duration, Instant};

use fencepost_core::{AcquireLease, HolderName, Kind, LeaseName, Leases, Retry};
use fencepost_postgres::{PostgresOptions, PostgresStore};
use fencepost_test_support::{PgServer, TestDatabase, skip_or_fail};

use crate::stage::{Stage, empty, installed, options, until_waiting};

async fn refused(url: &str, options: PostgresOptions) -> fencepost_core::Error {
    let error = PostgresStore::open(url, options).await.expect_err("the place is refused");
    assert!(error.hint().is_some(), "{error:?}");
    assert_eq!(error.operation(), Some("open"));
    error
}

async fn of_sql(database: &TestDatabase, sql: &str) {
    database.connect().await.unwrap().batch_execute(sql).await.unwrap();
}

/// B28: forty processes open an empty database at once: all succeed, and the schema is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b28_forty_first_opens_at_once_all_succeed() {
    let Some(database) = empty().await else { return };
    let tasks: Vec<_> = (0..40)
        .map(|_| {
            let url = database.url();
            tokio::spawn(async move {
                let options = options().create(true).pool_size(1).connect_timeout(Duration::from_secs(60));
                PostgresStore::open(&url, options).await.map(|store| store.info())
            })
        })
        .collect();
    for task in tasks {
        let info = task.await.unwrap().unwrap();
        assert_eq!(info.engine, "postgres");
    }
    let client = database.connect().await.unwrap();
    let installed: i64 = client.query_one("select count(*) from fencepost.installation", &[]).await.unwrap().get(0);
    let info = PostgresStore::open(&database.url(), options()).await.unwrap().info();
    assert_eq!(i64::from(info.schema_version), installed);
    assert!(!info.location.contains(database.server().password()), "{info:?}");
}

/// B28: opening a current schema waits for nobody: neither for whoever uses the tables, nor for whoever installs. So it makes nobody
/// wait either.
#[tokio::test(flavor = "multi_thread")]
async fn b28_opening_a_current_schema_waits_for_nobody() {
    let Some(database) = installed(false).await else { return };
    let mut client = database.connect().await.unwrap();
    let open = client.transaction().await.unwrap();
    open.batch_execute("lock table fencepost.lease, fencepost.lease_grant in access exclusive mode").await.unwrap();
    let install = i64::from_str_radix("43f3659bc15941e1", 16).unwrap();
    open.batch_execute(&format!("select pg_advisory_xact_lock({install})")).await.unwrap();
    for create in [false, true] {
        PostgresStore::open(&database.url(), options().create(create)).await.unwrap();
    }
}

#[tokio::test]
async fn no_schema_is_told_apart_from_an_older_and_a_newer_one() {
    let Some(database) = empty().await else { return };
    let error = refused(&database.url(), options()).await;
    assert_eq!((error.kind(), error.code()), (Kind::NotFound, "no_store"));
    of_sql(&database, "create schema fencepost").await;
    assert_eq!(refused(&database.url(), options()).await.code(), "no_store", "an empty schema is a place for one");

    PostgresStore::open(&database.url(), options().create(true)).await.unwrap();
    of_sql(
        &database,
        "create temp table later as select * from fencepost.installation where number = 1;
        update later set number = 9999; insert into fencepost.installation select * from later",
    )
    .await;
    for create in [false, true] {
        let error = refused(&database.url(), options().create(create)).await;
        assert_eq!((error.kind(), error.code(), error.fact("version")), (Kind::Schema, "schema_newer", Some("9999")));
    }
    of_sql(&database, "delete from fencepost.installation where number = 9999").await;

    of_sql(&database, "update fencepost.installed set checksum = '', name = '0.0.1' where version = 0").await;
    let error = refused(&database.url(), options()).await;
    assert_eq!((error.kind(), error.code()), (Kind::Schema, "schema_older"));
    PostgresStore::open(&database.url(), options().create(true)).await.unwrap();
    PostgresStore::open(&database.url(), options()).await.unwrap();
    // Functions of a program that is newer than this one serve it as well, and stay.
    of_sql(&database, "update fencepost.installed set checksum = 'other', name = '999.0.0' where version = 0").await;
    PostgresStore::open(&database.url(), options().create(true)).await.unwrap();

    of_sql(
        &database,
        "update fencepost.installation set text_hash = '', layout_hash = '', token_hash = '' where number = 1",
    )
    .await;
    let error = refused(&database.url(), options().create(true)).await;
    assert_eq!((error.kind(), error.code()), (Kind::Schema, "schema_damaged"));
}

#[tokio::test]
async fn a_schema_of_somebody_elses_is_left_alone() {
    let Some(database) = empty().await else { return };
    of_sql(&database, "create schema fencepost; create table fencepost.garden (n int)").await;
    for create in [false, true] {
        let error = refused(&database.url(), options().create(create)).await;
        assert_eq!((error.kind(), error.code()), (Kind::Schema, "schema_foreign"));
    }
}

#[tokio::test]
async fn a_user_who_may_make_a_schema_installs_and_uses_it() {
    let Some(database) = empty().await else { return };
    let user = format!("user_of_{}", database.name());
    of_sql(
        &database,
        &format!("create role {user} login password 'secret'; grant create on database {} to {user}", database.name()),
    )
    .await;
    let url = format!("postgres://{user}:secret@{}/{}", database.server().address(), database.name());
    let store = PostgresStore::open(&url, options().create(true)).await.unwrap();
    let request = AcquireLease::new(LeaseName::new("l").unwrap(), HolderName::new("h").unwrap());
    store.acquire_lease(&request).await.unwrap();
    of_sql(&database, &format!("drop owned by {user} cascade; drop role {user}")).await;
}

/// What the server said is told once, as the cause; the driver's own word, that the server said something, is not.
#[tokio::test]
async fn the_cause_of_a_refusal_is_what_the_server_said() {
    let Some(database) = installed(false).await else { return };
    let nowhere = database.url().replace(database.name(), "nowhere");
    let error = refused(&nowhere, options()).await;
    let cause = std::error::Error::source(&error).expect("a cause");
    let said = cause.downcast_ref::<tokio_postgres::error::DbError>().expect("the server's own");
    assert_eq!(said.message(), "database \"nowhere\" does not exist");
    assert!(cause.source().is_none());
}

#[tokio::test]
async fn what_is_wrong_with_the_place_is_told_apart() {
    let Some(database) = installed(false).await else { return };
    let (url, server) = (database.url(), database.server());
    let cases = [
        (url.replace(server.password(), "hidden"), "access_denied", Retry::Never),
        (url.replace(&format!(":{}", server.password()), ""), "access_denied", Retry::Never),
        (url.replace(database.name(), "nowhere"), "no_database", Retry::Never),
        (url.replace(&server.address().to_string(), "127.0.0.1:1"), "unreachable", Retry::Backoff),
        (url.replace(&server.address().to_string(), "no-such-host.example.com:5432"), "unreachable", Retry::Backoff),
    ];
    // The server has no encryption, which is no matter of passwords.
    let unencrypted = [&url, &url.replace(&format!(":{}", server.password()), "")]
        .map(|url| (format!("{url}?sslmode=require"), "cannot_connect", Retry::Backoff));
    let unencrypted = unencrypted.into_iter().filter(|_| cfg!(feature = "tls"));
    for (url, code, retry) in cases.into_iter().chain(unencrypted) {
        let error = refused(&url, options()).await;
        assert_eq!((error.kind(), error.code(), error.retry()), (Kind::Unavailable, code, retry), "{error:?}");
        assert!(!format!("{error:?}").contains("hidden"), "{error:?}");
    }
}

#[tokio::test]
async fn a_standby_is_refused_and_passed_over() {
    let Some(primary) = skip_or_fail(PgServer::private(fencepost_test_support::DEFAULT_MAJOR).await) else { return };
    let database = primary.database().await.unwrap();
    PostgresStore::open(&database.url(), options().create(true)).await.unwrap();
    let standby = primary.standby("behind").await.unwrap();
    primary.wait_for_standby("behind").await.unwrap();
    let behind = database.url().replace(&primary.address().to_string(), &standby.address().to_string());
    let error = refused(&behind, options()).await;
    assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "read_only"));
    let any = format!("{behind}?target_session_attrs=any");
    let store = PostgresStore::open(&any, options()).await.unwrap();
    let request = AcquireLease::new(LeaseName::new("l").unwrap(), HolderName::new("h").unwrap());
    let error = store.acquire_lease(&request).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "read_only"), "{error:?}");
    let both =
        database.url().replace(&primary.address().to_string(), &format!("{},{}", standby.address(), primary.address()));
    let store = PostgresStore::open(&both, options()).await.unwrap();
    store.acquire_lease(&request).await.unwrap();
}

/// B27: a call that finds the pool's only connection in use has its own error, within its bound.
#[tokio::test]
async fn a_pool_whose_connections_are_all_in_use_is_unavailable_within_its_bound() {
    let Some(stage) = Stage::new().await else { return };
    let bounds = options().pool_size(1).pool_timeout(Duration::from_millis(100)).call_timeout(Duration::from_secs(20));
    let store = PostgresStore::open(&stage.database.url(), bounds).await.unwrap();
    let mut client = stage.client().await;
    let request = AcquireLease::new(LeaseName::new("l").unwrap(), HolderName::new("h").unwrap());
    let token = match store.acquire_lease(&request).await.unwrap() {
        fencepost_core::Acquired::Granted { token, .. } => token,
        other => panic!("{other:?}"),
    };
    let open = client.transaction().await.unwrap();
    open.batch_execute("select from fencepost.lease for update").await.unwrap();
    let (waits, late) = (store.clone(), token.clone());
    let waits = tokio::spawn(async move { waits.renew_lease(&late, None).await });
    until_waiting(&stage.client().await, 1).await;
    let since = Instant::now();
    let error = store.renew_lease(&token, None).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "pool_exhausted"));
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    open.rollback().await.unwrap();
    waits.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let Some(stage) = Stage::new().await else { return };
    stage.store.close().await;
    let error = stage.store.now().await.unwrap_err();
    assert_eq!((error.kind(), error.code(), error.retry()), (Kind::Unavailable, "store_closed", Retry::Never));
}
