//! Migrations that are a part of somebody else's transaction.

use fencepost_core::{Error, Kind, Reason};
use fencepost_migrate::rusqlite::Connection;
use fencepost_migrate::sql::Dialect;
use fencepost_migrate::{Migrations, Migrator, State};

use crate::support::{Database, failure, migrator};

const FILES: [(&str, &str); 2] =
    [("1_a.sql", "create table a (id int); insert into a values (1);"), ("2_b.sql", "create table b (id int);")];
const ALONE: (&str, &str) = ("3_c.sql", "-- fencepost: no-transaction\ncreate table c (id int);");
const WRONG: (&str, &str) = ("3_c.sql", "create table c (id int);\ninsert into c values (1), (x);");

fn sqlite<const N: usize>(files: [(&str, &str); N]) -> Migrator {
    Migrator::new(Migrations::of(files, Dialect::Sqlite).unwrap())
}

fn reason() -> Reason {
    Reason::new("it was there").unwrap()
}

fn states(entries: &[fencepost_migrate::Entry]) -> Vec<State> {
    entries.iter().map(|entry| entry.state).collect()
}

/// What a file cannot be within a transaction, and where a statement of one failed.
fn judge_failures(alone: &Error, wrong: &Error) {
    assert_eq!((alone.kind(), alone.fact("number")), (Kind::Unsupported, Some("3")));
    assert_eq!((wrong.code(), wrong.fact("line"), wrong.fact("statement")), ("migration_failed", Some("2"), Some("2")));
    assert!(failure(wrong).render(false).contains("3_c.sql:2:"), "{wrong}");
}

#[tokio::test]
async fn all_of_it_is_there_with_the_commit_or_nothing() {
    let Some(mut database) = Database::new().await else { return };
    let files = migrator(FILES);
    let tx = database.client.transaction().await.unwrap();
    assert!(!files.within_postgres(&tx).status().await.unwrap().exists);
    assert_eq!(files.within_postgres(&tx).up().await.unwrap().numbers, [1, 2]);
    assert_eq!(files.within_postgres(&tx).up().await.unwrap().numbers, Vec::<u64>::new());
    tx.rollback().await.unwrap();
    assert_eq!(database.value("select count(*) from pg_class where relname ~ '^(a|b|fencepost.*)$'").await, "0");

    let tx = database.client.transaction().await.unwrap();
    assert_eq!(files.within_postgres(&tx).baseline(1, &reason()).await.unwrap(), [1]);
    assert_eq!(files.within_postgres(&tx).up().await.unwrap().numbers, [2]);
    tx.commit().await.unwrap();
    let entries = files.status_of(&database.other).await.unwrap().entries;
    assert_eq!(states(&entries), [State::Baselined, State::Applied]);
    assert_eq!(database.value("select to_regclass('a') is null and to_regclass('b') is not null").await, "t");

    let tx = database.client.transaction().await.unwrap();
    let alone = migrator([FILES[0], FILES[1], ALONE]).within_postgres(&tx).up().await.unwrap_err();
    let wrong = migrator([FILES[0], FILES[1], WRONG]).within_postgres(&tx).up().await.unwrap_err();
    drop(tx);
    judge_failures(&alone, &wrong);
    assert_eq!(files.status_of(&database.other).await.unwrap().entries, entries, "a failure leaves no trace");
}

#[test]
fn c22_all_of_it_is_there_with_the_commit_or_nothing() {
    let mut connection = Connection::open_in_memory().unwrap();
    let tables = |connection: &Connection| {
        let sql = "select coalesce(group_concat(name, ' '), '') from sqlite_schema where name in ('a', 'b', 'c')";
        connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap()
    };
    let files = sqlite(FILES);
    let tx = connection.transaction().unwrap();
    assert_eq!(files.within_sqlite(&tx).up().unwrap().numbers, [1, 2]);
    assert_eq!(files.within_sqlite(&tx).up().unwrap().numbers, Vec::<u64>::new());
    tx.rollback().unwrap();
    assert_eq!((tables(&connection).as_str(), files.status_in(&connection).unwrap().exists), ("", false));

    let tx = connection.transaction().unwrap();
    assert_eq!(files.within_sqlite(&tx).baseline(1, &reason()).unwrap(), [1]);
    assert_eq!(files.within_sqlite(&tx).up().unwrap().numbers, [2]);
    tx.commit().unwrap();
    let entries = files.status_in(&connection).unwrap().entries;
    assert_eq!((states(&entries), tables(&connection).as_str()), (vec![State::Baselined, State::Applied], "b"));

    let tx = connection.transaction().unwrap();
    let alone = sqlite([FILES[0], FILES[1], ALONE]).within_sqlite(&tx).up().unwrap_err();
    let wrong = sqlite([FILES[0], FILES[1], WRONG]).within_sqlite(&tx).up().unwrap_err();
    drop(tx);
    judge_failures(&alone, &wrong);
    assert_eq!((files.status_in(&connection).unwrap().entries, tables(&connection).as_str()), (entries, "b"));
}
