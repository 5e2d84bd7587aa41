//! What the ledger holds, where it is, and what is no ledger of ours.

use async_trait::async_trait;
use fencepost_core::{Error, Kind, Result};
use fencepost_migrate::{Fence, LedgerName, State};
use tokio_postgres::Transaction;

use crate::support::{Database, migrator};

#[tokio::test]
async fn a_row_says_what_who_and_when() {
    let Some(mut database) = Database::new().await else { return };
    let files = migrator([("1_a b.sql", "create table a (); select 1;")]);
    database.up(&files).await.unwrap();
    let entry = database.entry(&files, 1).await.unwrap();
    assert_eq!((entry.name.as_str(), entry.state, entry.statements, entry.done), ("a b", State::Applied, 2, 2));
    assert_eq!((entry.role.as_str(), entry.hashes), ("postgres", files.migrations().up()[0].hashes.clone()));
    assert!(
        entry.runner.ends_with(&format!(":{}", std::process::id())) && entry.runner.contains('@'),
        "{}",
        entry.runner
    );
    assert!(entry.finished_at.unwrap() >= entry.started_at && entry.milliseconds.is_some());
    assert!(entry.tool.starts_with("fencepost "));
    let apart = "select abs(extract(epoch from clock_timestamp() - started_at)) < 60 from fencepost_migrations";
    assert_eq!(database.value(apart).await, "t");
}

#[tokio::test]
async fn several_ledgers_are_in_one_database_whatever_they_are_called() {
    let Some(mut database) = Database::new().await else { return };
    database.run("create schema \"S \"\"1\"\"\"").await;
    for (name, table) in [("a\"; drop table x; --", "x"), ("{}", "y"), ("Größe 1", "z")] {
        let Ok(name) = LedgerName::new(name) else { continue };
        let files = migrator([("1_a.sql", &format!("create table {table} ()"))]);
        let files = files.ledger(name.within("S \"1\"").unwrap());
        database.up(&files).await.unwrap();
        assert_eq!(files.status_of(&database.other).await.unwrap().entries.len(), 1);
    }
    assert_eq!(database.value("select count(*) from pg_tables where schemaname = 'S \"1\"'").await, "4");
    let nowhere = migrator([("1_a.sql", "select 1")]).ledger(LedgerName::default().within("missing").unwrap());
    assert_eq!(database.up(&nowhere).await.unwrap_err().code(), "no_schema");
    database.client.batch_execute("set search_path = missing").await.unwrap();
    assert_eq!(database.up(&migrator([("1_a.sql", "select 1")])).await.unwrap_err().code(), "no_schema");
}

#[tokio::test]
async fn a_ledger_of_a_later_version_is_refused_and_half_of_one_too() {
    let Some(mut database) = Database::new().await else { return };
    let files = migrator([("1_a.sql", "create table a ()")]);
    database.up(&files).await.unwrap();
    database
        .run(
            "insert into fencepost_migrations_history (format, action, role, runner, at, tool)
        values (2, 'upgraded', '', '', now(), 'fencepost 9')",
        )
        .await;
    let newer = |error: Error| assert_eq!((error.kind(), error.code()), (Kind::Schema, "ledger_newer"));
    newer(database.up(&files).await.unwrap_err());
    newer(files.ready_of(&database.other).await.unwrap_err());
    database.run("alter table fencepost_migrations rename done to finished").await;
    newer(files.status_of(&database.other).await.unwrap_err());
    database.run("delete from fencepost_migrations_history where format = 2").await;
    assert_eq!(files.status_of(&database.other).await.unwrap_err().code(), "ledger_damaged");
    database
        .run("alter table fencepost_migrations rename finished to done; drop table fencepost_migrations_history")
        .await;
    assert_eq!(database.up(&files).await.unwrap_err().code(), "ledger_damaged");
}

/// What ends a run is told apart, also where it is the server's storage and not the migration.
#[tokio::test]
async fn what_the_server_says_of_itself_is_no_bug_of_ours() {
    let Some(mut database) = Database::new().await else { return };
    database.up(&migrator([])).await.unwrap();
    database
        .run(
            "create function refuse() returns trigger language plpgsql as
            $$ begin raise exception using errcode = tg_argv[0], message = 'no'; end $$",
        )
        .await;
    for (state, kind, code) in [
        ("53100", Kind::Unavailable, "storage_full"),
        ("58030", Kind::Unavailable, "io_error"),
        ("28000", Kind::Unavailable, "access_denied"),
        ("XX001", Kind::Corrupt, "corrupt"),
        ("55P03", Kind::Busy, "lock_timeout"),
    ] {
        let made = format!(
            "create or replace trigger refuse before insert on fencepost_migrations execute function refuse('{state}')"
        );
        database.run(&made).await;
        let error = database.up(&migrator([("1_a.sql", "create table a ()")])).await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (kind, code), "{state}: {error:?}");
        assert_eq!(error.fact("sqlstate"), Some(state));
    }
}

/// A fence that finds the lock lost.
struct Lost;

#[async_trait]
impl Fence for Lost {
    async fn check(&self, _: &Transaction<'_>) -> Result<()> {
        Err(Error::new(Kind::Fenced, "the lock is lost"))
    }
}

#[tokio::test]
async fn who_lost_the_lock_records_nothing() {
    let Some(mut database) = Database::new().await else { return };
    let both =
        migrator([("1_a.sql", "create table a ()"), ("2_b.sql", "-- fencepost: no-transaction\ncreate table b ()")]);
    database.up(&migrator([("1_x.sql", "select 1")]).ledger(LedgerName::new("other").unwrap())).await.unwrap();
    let one = migrator([("1_a.sql", "create table a ()")]);
    // The ledger itself is not made by who lost it.
    let error = one.on_postgres(&mut database.client, &mut |_| {}).fenced(&Lost).up(None).await.unwrap_err();
    assert_eq!((error.kind(), one.status_of(&database.other).await.unwrap().exists), (Kind::Fenced, false));
    database.up(&migrator([])).await.unwrap();
    let error = one.on_postgres(&mut database.client, &mut |_| {}).fenced(&Lost).up(None).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Fenced);
    assert_eq!(database.value("select to_regclass('a')").await, "null");
    database.up(&one).await.unwrap();
    let error = both.on_postgres(&mut database.client, &mut |_| {}).fenced(&Lost).up(None).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Fenced);
    assert_eq!(both.status_of(&database.other).await.unwrap().entries.len(), 1);
}

/// What is done is never written over, so that two runners at once, which no lock lets be, undo what the later one did.
#[tokio::test]
async fn what_another_runner_recorded_meanwhile_is_not_written_over() {
    let Some(mut database) = Database::new().await else { return };
    let text = "create table a (); select pg_advisory_lock(7);";
    let files = migrator([("1_a.sql", text)]);
    database.up(&migrator([])).await.unwrap();
    database.run("select pg_advisory_lock(7)").await;
    let mut listener = |_| {};
    let mut session = files.on_postgres(&mut database.client, &mut listener);
    let overtaken = async {
        let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted \
            and database = (select oid from pg_database where datname = current_database())";
        while database.other.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
        let row = "insert into fencepost_migrations values (1, 'a', 'applied', '', '', '', 1, 1, '', null, null, null, '', 'another', now(), now(), 1, '')";
        database.other.batch_execute(row).await.unwrap();
        database.other.batch_execute("select pg_advisory_unlock(7)").await.unwrap();
    };
    let (error, ()) = tokio::join!(async { session.up(None).await.unwrap_err() }, overtaken);
    assert_eq!(error.code(), "ledger_changed");
    assert_eq!(database.value("select runner from fencepost_migrations").await, "another");
    assert_eq!(database.value("select to_regclass('a')").await, "null");
}

#[tokio::test]
async fn up_to_a_number_stops_there() {
    let Some(mut database) = Database::new().await else { return };
    let files = migrator([
        ("1_a.sql", "create table a ()"),
        ("2_b.sql", "create table b ()"),
        ("3_c.sql", "create table c ()"),
    ]);
    let mut listener = |_| {};
    let mut session = files.on_postgres(&mut database.client, &mut listener);
    assert_eq!(session.up(Some(2)).await.unwrap().numbers, [1, 2]);
    assert_eq!(session.up(Some(1)).await.unwrap().numbers, Vec::<u64>::new());
    assert_eq!(session.up(Some(4)).await.unwrap_err().code(), "invalid_input");
    let plan = files.plan_of(&database.other, None).await.unwrap();
    assert_eq!(plan.steps.iter().map(|step| step.migration.number).collect::<Vec<_>>(), [3]);
}

/// A runner whose row another one has taken moves it on no more.
#[tokio::test]
async fn a_row_that_another_runner_has_taken_is_not_moved_on() {
    let Some(mut database) = Database::new().await else { return };
    let text = "-- fencepost: no-transaction\ncreate table a ();\nselect pg_advisory_lock(7);\ncreate table b ();";
    let files = migrator([("1_a.sql", text)]);
    database.run("select pg_advisory_lock(7)").await;
    let mut listener = |_| {};
    let mut session = files.on_postgres(&mut database.client, &mut listener);
    let taken = async {
        let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted \
            and database = (select oid from pg_database where datname = current_database())";
        while database.other.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
        let take = "update fencepost_migrations set runner = 'another'; select pg_advisory_unlock(7)";
        database.other.batch_execute(take).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(session.up(None), taken);
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Fenced, "ledger_changed"));
    assert_eq!(database.stand(&files, 1).await, Some((State::Running, 1, None)));
    assert_eq!(database.value("select to_regclass('b') is null").await, "t");
}
