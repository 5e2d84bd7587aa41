//! C20: locks of others.

use std::time::Duration;

use fencepost_core::Kind;
use fencepost_migrate::{Event, RunOptions, State};
use tokio::sync::mpsc::unbounded_channel;

use crate::support::{Database, failure, migrator};

fn impatient(attempts: u32) -> RunOptions {
    RunOptions { lock_timeout: Duration::from_millis(200), attempts, ..RunOptions::default() }
}

#[tokio::test]
async fn c20_a_table_that_is_locked_is_tried_again_as_a_whole_until_it_is_free() {
    let Some(mut database) = Database::new().await else { return };
    database.run("create table a ()").await;
    let holder = database.database.connect().await.unwrap();
    let holder_pid = holder.query_one("select pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0);
    holder.batch_execute("begin; select from a").await.unwrap();
    let files =
        migrator([("1_b.sql", "create table b (); alter table a add column x int; select 1;")]).options(impatient(20));
    let (heard, mut hears) = unbounded_channel();
    let mut listener = move |event| heard.send(event).unwrap();
    let mut session = files.on_postgres(&mut database.client, &mut listener).watched(&database.other);
    let released = async {
        let (mut blocked, mut retried) = (false, 0);
        while let Some(event) = hears.recv().await {
            match event {
                Event::Blocked { number: 1, statement: 2, by } => blocked |= by.iter().any(|by| by.pid == holder_pid),
                Event::Retried { statement: 2, attempt, by, .. } => {
                    retried = attempt;
                    assert!(by.iter().any(|by| by.pid == holder_pid && by.query.contains("select from a")), "{by:?}");
                    if attempt == 2 {
                        holder.batch_execute("commit").await.unwrap();
                    }
                }
                Event::FileDone { .. } => break,
                _ => {}
            }
        }
        (blocked, retried)
    };
    let (done, (blocked, retried)) = tokio::join!(async { session.up(None).await.unwrap() }, released);
    assert_eq!(done.numbers, [1]);
    assert!(blocked && retried >= 2);
}

#[tokio::test]
async fn c20_a_lock_that_never_comes_is_a_failure_that_names_who_has_it() {
    let Some(mut database) = Database::new().await else { return };
    database.run("create table a ()").await;
    let holder = database.database.connect().await.unwrap();
    holder.batch_execute("begin; lock a").await.unwrap();
    let files = migrator([("1_b.sql", "create table b (); alter table a add column x int;")]).options(impatient(2));
    let error = database.up(&files).await.unwrap_err();
    let pid = holder.query_one("select pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0).to_string();
    assert_eq!((error.kind(), error.code(), error.fact("pids")), (Kind::Busy, "lock_timeout", Some(pid.as_str())));
    assert!(failure(&error).render(false).contains("blocked by"));
    assert_eq!(database.stand(&files, 1).await, Some((State::Failed, 0, Some(2))));
    assert_eq!(database.value("select to_regclass('b')").await, "null");
    holder.batch_execute("rollback").await.unwrap();
    assert_eq!(database.up(&files).await.unwrap().numbers, [1]);
}

#[tokio::test]
async fn c20_a_file_says_itself_how_long_it_waits() {
    let Some(mut database) = Database::new().await else { return };
    let text = "-- fencepost: lock-timeout 7s\ncreate table a as select current_setting('lock_timeout') as it";
    database.up(&migrator([("1_a.sql", text)])).await.unwrap();
    assert_eq!(database.value("select it from a").await, "7s");
}

/// Such a build waits for every older snapshot; a timeout for locks would end it.
#[tokio::test]
async fn c20_a_concurrent_build_waits_for_as_long_as_it_takes() {
    let Some(mut database) = Database::new().await else { return };
    database.run("create table a (id int)").await;
    let holder = database.database.connect().await.unwrap();
    holder.batch_execute("begin; insert into a values (1)").await.unwrap();
    let files = migrator([("1_i.sql", "-- fencepost: no-transaction\ncreate index concurrently i on a (id)")])
        .options(RunOptions { lock_timeout: Duration::from_millis(50), ..impatient(1) });
    let (heard, mut hears) = unbounded_channel();
    let mut listener = move |event| heard.send(event).unwrap();
    let mut session = files.on_postgres(&mut database.client, &mut listener).watched(&database.other);
    let released = async {
        while let Some(event) = hears.recv().await {
            if let Event::Blocked { .. } = event {
                // Far past the timeout, by the server's clock.
                let waits = "select bool_and(clock_timestamp() - query_start > '500 ms') from pg_stat_activity
                    where query like 'create index concurrently i %'";
                while !holder.query_one(waits, &[]).await.unwrap().get::<_, bool>(0) {
                    tokio::task::yield_now().await;
                }
                return holder.batch_execute("commit").await.unwrap();
            }
        }
    };
    let (done, ()) = tokio::join!(async { session.up(None).await.unwrap() }, released);
    assert_eq!(done.numbers, [1]);
    assert_eq!(database.value("select indisvalid from pg_index where indrelid = 'a'::regclass").await, "t");
}
