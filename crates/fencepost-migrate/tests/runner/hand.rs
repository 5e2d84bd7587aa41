//! What is changed by hand: baseline, repair, ways back; each written down.

use std::time::Duration;

use fencepost_core::Kind;
use fencepost_migrate::{Repair, RunOptions, State};

use crate::support::{Database, migrator, reason};

#[tokio::test]
async fn a_baseline_counts_as_applied_and_is_not_run() {
    let Some(mut database) = Database::new().await else { return };
    database.run("create table a ()").await;
    let files = migrator([("1_a.sql", "create table a ()"), ("2_b.sql", "create table b ()")]);
    let mut listener = |_| {};
    let mut session = files.on_postgres(&mut database.client, &mut listener);
    assert_eq!(session.baseline(1, &reason()).await.unwrap(), [1]);
    assert_eq!(session.up(None).await.unwrap().numbers, [2]);
    assert_eq!(session.baseline(2, &reason()).await.unwrap(), [1]);
    assert_eq!(database.stand(&files, 1).await, Some((State::Baselined, 1, None)));
    assert_eq!(database.stand(&files, 2).await, Some((State::Applied, 1, None)));
    // Files that were squashed into a later one are not missed any more.
    let squashed = migrator([("3_all.sql", "create table if not exists a (); create table c ();")]);
    assert_eq!(database.up(&squashed).await.unwrap_err().code(), "file_missing");
    let mut listener = |_| {};
    squashed.on_postgres(&mut database.client, &mut listener).baseline(2, &reason()).await.unwrap();
    assert_eq!(database.up(&squashed).await.unwrap().numbers, [3]);
    let actions =
        "select string_agg(action || coalesce(number || '', ''), ' ' order by id) from fencepost_migrations_history";
    assert_eq!(database.value(actions).await, "created baselined1 baselined1 baselined1 baselined2");
}

#[tokio::test]
async fn a_repair_is_written_down_with_its_reason_and_what_was_before() {
    let Some(mut database) = Database::new().await else { return };
    let files = migrator([
        ("1_a.sql", "create table a ()"),
        ("2_b.sql", "-- fencepost: no-transaction\ncreate table b ();\nselect 1/0;"),
    ]);
    database.up(&files).await.unwrap_err();
    let edited = migrator([
        ("1_a.sql", "create table a (id int)"),
        ("2_b.sql", "-- fencepost: no-transaction\ncreate table b ();\nselect 1/0;"),
    ]);
    let mut listener = |_| {};
    let mut session = edited.on_postgres(&mut database.client, &mut listener);
    assert_eq!(session.repair(Repair::Forget { number: 1 }, &reason()).await.unwrap_err().kind(), Kind::Conflict);
    assert_eq!(session.repair(Repair::MarkDone { number: 1 }, &reason()).await.unwrap_err().kind(), Kind::Conflict);
    assert_eq!(session.repair(Repair::Accept { number: 3 }, &reason()).await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(session.up(None).await.unwrap_err().code(), "migration_edited");
    session.repair(Repair::Accept { number: 1 }, &reason()).await.unwrap();
    // The failed one is not touched by that, and begins anew when it is forgotten.
    assert_eq!(session.up(None).await.unwrap_err().fact("statement"), Some("2"));
    session.repair(Repair::Forget { number: 2 }, &reason()).await.unwrap();
    assert_eq!(session.up(None).await.unwrap_err().fact("sqlstate"), Some("42P07"));
    session.repair(Repair::MarkDone { number: 2 }, &reason()).await.unwrap();
    assert!(session.up(None).await.unwrap().numbers.is_empty());
    edited.verify_of(&database.other).await.unwrap();
    let history = "select string_agg(action || number || ' ' || (before::json ->> 'state'), ', ' order by id)
        from fencepost_migrations_history where reason = 'a test wants it' and role = 'postgres'";
    assert_eq!(database.value(history).await, "accepted1 applied, forgotten2 failed, marked2 failed");
}

#[tokio::test]
async fn ways_back_are_gone_the_latest_first_or_not_at_all() {
    let Some(mut database) = Database::new().await else { return };
    let files = migrator([
        ("1_a.sql", "create table a ()"),
        ("2_b.sql", "create table b ()"),
        ("2_b.down.sql", "drop table b"),
        ("3_c.sql", "create table c ()"),
        ("3_c.down.sql", "drop table c; select 1 from b"),
    ]);
    database.up(&files).await.unwrap();
    let mut listener = |_| {};
    let mut session = files.on_postgres(&mut database.client, &mut listener);
    assert_eq!(session.down(0).await.unwrap_err().code(), "no_way_back");
    assert_eq!(session.down(1).await.unwrap().numbers, [3, 2]);
    assert_eq!(database.value("select to_regclass('c') is null and to_regclass('b') is null").await, "t");
    assert_eq!(database.up(&files).await.unwrap().numbers, [2, 3]);
    let bad = migrator([
        ("1_a.sql", "create table a ()"),
        ("2_b.sql", "create table b ()"),
        ("3_c.sql", "create table c ()"),
        ("3_c.down.sql", "drop table c; drop table c;"),
    ]);
    let mut listener = |_| {};
    let error = bad.on_postgres(&mut database.client, &mut listener).down(2).await.unwrap_err();
    assert_eq!((error.code(), error.fact("file")), ("migration_failed", Some("3_c.down.sql")));
    assert_eq!(database.stand(&bad, 3).await, Some((State::Applied, 1, None)));
    let undone = "select count(*) from fencepost_migrations_history where action = 'undone'";
    assert_eq!(database.value(undone).await, "2");
}

/// Who has the ledger locked, in a session that was left open, does not keep a change by hand waiting for ever.
#[tokio::test]
async fn a_locked_ledger_is_not_waited_for_without_bound() {
    let Some(mut database) = Database::new().await else { return };
    database.up(&migrator([("1_a.sql", "create table a ()")])).await.unwrap();
    let impatient = RunOptions { lock_timeout: Duration::from_millis(50), ..RunOptions::default() };
    let edited = migrator([("1_a.sql", "create table a (id int)")]).options(impatient);
    database.run("begin; update fencepost_migrations set tool = 'psql'").await;
    let repaired =
        edited.on_postgres(&mut database.client, &mut |_| {}).repair(Repair::Accept { number: 1 }, &reason()).await;
    assert_eq!(repaired.unwrap_err().kind(), Kind::Busy);
    database.run("rollback").await;
    edited
        .on_postgres(&mut database.client, &mut |_| {})
        .repair(Repair::Accept { number: 1 }, &reason())
        .await
        .unwrap();
}
