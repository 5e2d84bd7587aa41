//! Runs under their lock: in many tasks at once, through a pooler, with a lock that goes to somebody else.

use std::sync::Arc;

use fencepost_core::Kind;
use fencepost_migrate::sql::Dialect;
use fencepost_migrate::{Event, LockMode, Migrations, Migrator, PostgresMigrator, Readiness, State};

use crate::support::{Database, migrator};

/// Ten files that fail when they are run twice.
fn files() -> Migrator {
    let text = |n| format!("create table t{n} (); insert into counted values ({n});");
    let mut files: Vec<_> = (2..=10).map(|n| (format!("{n}_t.sql"), text(n))).collect();
    files.push(("1_a.sql".into(), "create table counted (n int primary key)".into()));
    Migrator::new(Migrations::of(files, Dialect::Postgres).unwrap())
}

/// Advisory locks of this database; other tests have theirs in the same server.
const LEFT: &str = "select count(*) from pg_locks where locktype = 'advisory' \
    and database = (select oid from pg_database where datname = current_database())";

async fn all_at_once(mode: LockMode) {
    let Some(database) = Database::new().await else { return };
    let url = Arc::new(database.database.url());
    let runners: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move {
                let runner = PostgresMigrator::at(&url, files(), mode).unwrap();
                runner.up(None, &mut |_| {}).await.map(|done| done.numbers.len())
            })
        })
        .collect();
    let mut run = 0;
    for runner in runners {
        run += runner.await.unwrap().unwrap();
    }
    assert_eq!((run, database.value("select count(*) from counted").await.as_str()), (10, "9"));
    assert_eq!(database.value(LEFT).await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runners_at_once_apply_each_file_once() {
    all_at_once(LockMode::Advisory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runners_at_once_apply_each_file_once_under_a_lease() {
    all_at_once(LockMode::Lease).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_ended_ends_the_run_and_the_next_one_completes() {
    let Some(database) = Database::new().await else { return };
    let text = "-- fencepost: no-transaction\ncreate table a ();\nselect pg_advisory_lock(7);\ncreate table b ();";
    let runner =
        PostgresMigrator::at(&database.database.url(), migrator([("1_a.sql", text)]), LockMode::Advisory).unwrap();
    database.run("select pg_advisory_lock(7)").await;
    let killed = async {
        let waits = "select count(pg_terminate_backend(pid)) from pg_locks where locktype = 'advisory' and not granted \
            and database = (select oid from pg_database where datname = current_database())";
        while database.value(waits).await == "0" {
            tokio::task::yield_now().await;
        }
    };
    let mut listener = |_| {};
    let (outcome, ()) = tokio::join!(runner.up(None, &mut listener), killed);
    let error = outcome.unwrap_err();
    assert!(
        matches!((error.kind(), error.code()), (Kind::Unavailable, "connection_lost") | (Kind::Fenced, "lock_lost")),
        "{error:?}"
    );
    let Readiness::Behind { running: Some(running), .. } = runner.ready().await.unwrap() else { panic!() };
    assert_eq!((running.number, running.statement), (1, 2));
    database.run("select pg_advisory_unlock(7)").await;
    let mut heard = Vec::new();
    runner.up(None, &mut |event| heard.push(event)).await.unwrap();
    assert!(heard.contains(&Event::FileStarted { number: 1, name: "a".into(), statements: 3, done: 1 }));
    assert_eq!(runner.status().await.unwrap().entries[0].state, State::Applied);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_holds_the_lock_is_named_when_it_is_not_waited_for() {
    let Some(mut database) = Database::new().await else { return };
    let url = database.database.url();
    let holder = fencepost_migrate::MigrationLock::at(&url, "fencepost_migrations").unwrap();
    holder.acquire().await.unwrap();
    let runner = PostgresMigrator::at(&url, files(), LockMode::Advisory).unwrap();
    let impatient = runner.wait_for_lock(std::time::Duration::from_millis(50));
    let error = impatient.up(None, &mut |_| {}).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Busy, "locked"));
    assert!(error.fact("pids").is_some());
    // Whoever only looks waits for nobody.
    assert_eq!(impatient.ready().await.unwrap(), Readiness::Never);
    assert!(!impatient.status().await.unwrap().exists);
    holder.release().await.unwrap();
    database.up(&files()).await.unwrap();
    assert_eq!(impatient.verify().await.unwrap(), []);
}
