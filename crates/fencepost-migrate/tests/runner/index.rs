//! C16: indexes that are built concurrently, and what a failed build leaves.

use fencepost_migrate::{Event, State};

use crate::support::{Database, migrator};

const NO: &str = "-- fencepost: no-transaction\n";

/// Lets a unique index fail over rows that are not, with the statement given; then mends them and runs again.
async fn rebuilt(database: &mut Database, statement: &str) {
    let files = migrator([
        ("1_a.sql", "create schema \"S\"; create table \"S\".a (id int); insert into \"S\".a values (1), (1);"),
        ("2_i.sql", &format!("{NO}{statement};\ninsert into \"S\".a values (2);")),
    ]);
    let error = database.up(&files).await.unwrap_err();
    assert_eq!((error.fact("sqlstate"), error.fact("statement")), (Some("23505"), Some("1")));
    assert!(error.hint().unwrap().contains("INVALID"), "{error:?}");
    assert_eq!(database.value("select count(*) from pg_index where not indisvalid").await, "1");
    database.run("delete from \"S\".a; insert into \"S\".a values (1)").await;
    database.heard.clear();
    database.up(&files).await.unwrap();
    assert!(database.heard.iter().any(|event| matches!(event, Event::IndexRebuilt { number: 2, statement: 1, .. })));
    let indexes = "select count(*) filter (where indisvalid) || ' of ' || count(*) from pg_index where indrelid = '\"S\".a'::regclass";
    assert_eq!(database.value(indexes).await, "1 of 1");
    assert_eq!(database.stand(&files, 2).await, Some((State::Applied, 2, None)));
}

#[tokio::test]
async fn c16_an_invalid_index_is_removed_and_built_anew() {
    let Some(mut database) = Database::new().await else { return };
    rebuilt(&mut database, "create unique index concurrently \"I 1\" on \"S\".a (id)").await;
}

#[tokio::test]
async fn c16_if_not_exists_does_not_take_an_invalid_index_for_a_good_one() {
    let Some(mut database) = Database::new().await else { return };
    rebuilt(&mut database, "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS Mixed ON \"S\".a (id)").await;
}

/// Several in one file, each by itself: sent as one text they would be one transaction.
#[tokio::test]
async fn c16_two_builds_in_one_file_each_commit() {
    let Some(mut database) = Database::new().await else { return };
    let files = migrator([
        ("1_a.sql", "create table a (id int)"),
        ("2_i.sql", &format!("{NO}create index concurrently i on a (id);\ncreate index concurrently j on a (id);")),
    ]);
    database.up(&files).await.unwrap();
    assert_eq!(
        database.value("select count(*) from pg_index where indisvalid and indrelid = 'a'::regclass").await,
        "2"
    );
}

/// Who ran it is gone between the end of the build and its record.
#[tokio::test]
async fn c16_a_build_that_ended_before_it_was_recorded_is_not_built_twice() {
    let Some(mut database) = Database::new().await else { return };
    let files = migrator([
        ("1_a.sql", "create table a (id int)"),
        ("2_i.sql", &format!("{NO}create index concurrently i on a (id);\ndrop index concurrently i;\nselect 1;")),
    ]);
    database.up(&files).await.unwrap();
    for (done, made) in [(0, "create index i on a (id)"), (1, "select 1")] {
        database.run(made).await;
        let interrupted =
            "update fencepost_migrations set state = 'running', done = $1, done_hash = $2 where number = 2";
        let hash = done_hash(&database, done).await;
        database.other.execute(interrupted, &[&done, &hash]).await.unwrap();
        database.heard.clear();
        database.up(&files).await.unwrap();
        let wanted = Event::AlreadyDone { number: 2, statement: usize::try_from(done).unwrap() + 1 };
        assert!(database.heard.contains(&wanted), "{:?}", database.heard);
        assert_eq!(database.stand(&files, 2).await, Some((State::Applied, 3, None)));
    }
}

/// What the ledger says of a file whose first statements are done.
async fn done_hash(database: &Database, done: i32) -> String {
    let prefix = ["", "create index concurrently i on a (id);"][usize::try_from(done).unwrap()];
    let text = format!("{NO}{prefix}\nselect 1/0");
    let mut other = database.database.connect().await.unwrap();
    let files = migrator([("1_i.sql", &text)]).ledger(fencepost_migrate::LedgerName::new("beside").unwrap());
    other.batch_execute("drop index if exists i; drop table if exists beside, beside_history").await.unwrap();
    files.on_postgres(&mut other, &mut |_| {}).up(None).await.unwrap_err();
    let hash = other.query_one("select done_hash from beside where number = 1", &[]).await.unwrap().get(0);
    let restored = if done == 0 { "create index if not exists i on a (id)" } else { "drop index if exists i" };
    other.batch_execute(restored).await.unwrap();
    hash
}
