//! C19: whether a database is ready, asked while others change it.

use std::time::Duration;

use fencepost_migrate::{LedgerName, Readiness};
use fencepost_test_support::FaultProxy;

use crate::support::{Database, migrator};

const NO: &str = "-- fencepost: no-transaction\n";

#[tokio::test]
async fn c19_never_behind_failed_ahead_and_ready_are_told_apart() {
    let Some(mut database) = Database::new().await else { return };
    let (a, b) = (("1_a.sql", "create table a ()"), ("2_b.sql", "create table b ()"));
    let one = migrator([a]);
    assert_eq!(one.ready_of(&database.other).await.unwrap(), Readiness::Never);
    assert_eq!(one.verify_of(&database.other).await.unwrap_err().code(), "never_applied");
    assert!(!one.status_of(&database.other).await.unwrap().exists);
    // Asking has made nothing.
    assert_eq!(database.value("select count(*) from pg_class where relname like 'fencepost%'").await, "0");
    database.up(&one).await.unwrap();
    assert_eq!(one.ready_of(&database.other).await.unwrap(), Readiness::Ready { latest: Some(1) });
    let two = migrator([a, b]);
    assert_eq!(two.ready_of(&database.other).await.unwrap(), Readiness::Behind { pending: 1, next: 2, running: None });
    database.up(&two).await.unwrap();
    assert_eq!(one.ready_of(&database.other).await.unwrap(), Readiness::Ahead { number: 2 });
    let bad = migrator([a, b, ("3_c.sql", &format!("{NO}create table c ();\nselect 1/0;"))]);
    database.up(&bad).await.unwrap_err();
    let Readiness::Failed { number: 3, at } = bad.ready_of(&database.other).await.unwrap() else { panic!() };
    assert_eq!((at.statement, at.sqlstate.as_deref()), (2, Some("22012")));
}

#[tokio::test]
async fn c19_an_answer_costs_one_round_trip() {
    let Some(mut database) = Database::new().await else { return };
    let files = migrator([("1_a.sql", "create table a ()"), ("2_b.sql", "create table b ()")]);
    database.up(&files).await.unwrap();
    let proxy = FaultProxy::start(database.database.server().address()).await.unwrap();
    let config: tokio_postgres::Config = proxy.url(&database.database.url()).parse().unwrap();
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.simple_query("").await.unwrap();
    let before = proxy.requests();
    assert_eq!(files.ready_of(&client).await.unwrap(), Readiness::Ready { latest: Some(2) });
    assert_eq!(proxy.requests() - before, 1);
}

#[tokio::test]
async fn c19_the_answer_does_not_wait_for_a_migration_that_holds_locks() {
    let Some(mut database) = Database::new().await else { return };
    let files = [("1_a.sql", "create table a ()"), ("2_b.sql", "lock a; select pg_advisory_lock(7);")];
    let (one, two) = (migrator([files[0]]), migrator(files));
    let three =
        migrator([files[0], files[1], ("3_c.sql", &format!("{NO}select 1;\nlock a; select pg_advisory_lock(7);"))]);
    database.up(&one).await.unwrap();
    for (migrator, running) in [(&two, None), (&three, Some((3, 3)))] {
        database.run("select pg_advisory_lock(7)").await;
        let mut listener = |_| {};
        let mut session = migrator.on_postgres(&mut database.client, &mut listener);
        let looked = async {
            let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted \
            and database = (select oid from pg_database where datname = current_database())";
            while database.other.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
                tokio::task::yield_now().await;
            }
            let Readiness::Behind { running: seen, .. } = migrator.ready_of(&database.other).await.unwrap() else {
                panic!()
            };
            assert_eq!(seen.map(|running| (running.number, running.statement)), running);
            database.other.batch_execute("select pg_advisory_unlock(7)").await.unwrap();
        };
        tokio::join!(async { session.up(None).await.unwrap() }, looked);
        database.client.batch_execute("select pg_advisory_unlock_all()").await.unwrap();
    }
}

#[tokio::test]
async fn c19_waiting_ends_when_it_is_ready_or_somebody_has_to_look_or_time_is_over() {
    let Some(mut database) = Database::new().await else { return };
    let files = migrator([("1_a.sql", "create table a ()")]);
    let none = files.wait_of(&database.other, Duration::ZERO).await.unwrap();
    assert_eq!(none, Readiness::Never);
    assert_eq!(files.wait_of(&database.other, Duration::from_millis(120)).await.unwrap(), Readiness::Never);
    let waited = files.wait_of(&database.other, Duration::from_secs(60));
    let mut listener = |_| {};
    let mut session = files.on_postgres(&mut database.client, &mut listener);
    let (ready, _) = tokio::join!(waited, async { session.up(None).await.unwrap() });
    assert_eq!(ready.unwrap(), Readiness::Ready { latest: Some(1) });
}

/// Another schema of the search path may have a ledger that is not this connection's.
#[tokio::test]
async fn c19_a_ledger_elsewhere_in_the_search_path_is_not_taken_for_ours() {
    let Some(mut database) = Database::new().await else { return };
    let files = migrator([("1_a.sql", "create table a ()")]);
    database.up(&files).await.unwrap();
    database.run("create schema s; set search_path = s, public").await;
    assert_eq!(files.ready_of(&database.other).await.unwrap(), Readiness::Never);
    let named = files.ledger(LedgerName::default().within("public").unwrap());
    assert_eq!(named.ready_of(&database.other).await.unwrap(), Readiness::Ready { latest: Some(1) });
}
