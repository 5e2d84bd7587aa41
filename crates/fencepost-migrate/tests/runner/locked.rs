//! Runs under their lock: in many tasks at once, through a pooler, with a lock that goes to somebody else.

use std::sync::Arc;

use fencepost_core::Kind;
use fencepost_migrate::sql::Dialect;
use fencepost_migrate::{
    Event, LockMode, MigrationLease, MigrationLock, Migrations, Migrator, PostgresMigrator, Readiness, Repair, Source,
    State,
};
use fencepost_test_support::FaultProxy;

use crate::support::{Database, migrator, reason};

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
    assert!(error.hint().is_some_and(|hint| hint.contains("run again")), "{error:?}");
    let Readiness::Behind { running: Some(running), .. } = runner.ready().await.unwrap() else { panic!() };
    assert_eq!((running.number, running.statement), (1, 2));
    database.run("select pg_advisory_unlock(7)").await;
    let mut heard = Vec::new();
    runner.up(None, &mut |event| heard.push(event)).await.unwrap();
    assert!(heard.contains(&Event::FileStarted { number: 1, name: "a".into(), statements: 3, done: 1 }));
    assert_eq!(runner.status().await.unwrap().entries[0].state, State::Applied);
}

/// A statement that frees the locks of its session frees the one that keeps others out: from then on nothing is recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c11_a_migration_that_frees_its_own_lock_is_not_recorded() {
    let Some(database) = Database::new().await else { return };
    let no = "-- fencepost: no-transaction\n";
    for (number, text, state) in [
        (1, "create table a (); select pg_advisory_unlock_all();".to_owned(), None),
        (1, format!("{no}create table b ();\ndiscard all;\ncreate table c ();"), Some((State::Running, 1))),
    ] {
        let files = migrator([("1_a.sql", text.as_str())]);
        let runner = PostgresMigrator::at(&database.database.url(), files.clone(), LockMode::Advisory).unwrap();
        let error = runner.up(None, &mut |_| {}).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.code(), error.hint().is_some()),
            (Kind::Fenced, "lock_lost", true),
            "{error:?}"
        );
        let entry = database.entry(&files, number).await;
        assert_eq!(entry.map(|entry| (entry.state, entry.done)), state);
    }
    assert_eq!(database.value("select to_regclass('a') is null and to_regclass('c') is null").await, "t");
}

/// Whoever waits says for whom, whatever it is that he wants to do, with a bound and without.
async fn waiting_is_told(mode: LockMode) {
    let Some(database) = Database::new().await else { return };
    let url = database.database.url();
    let (lock, lease);
    match mode {
        LockMode::Advisory => {
            lock = MigrationLock::at(&url, "fencepost_migrations").unwrap();
            lock.acquire().await.unwrap();
        }
        LockMode::Lease => {
            lease = MigrationLease::at(&url, "fencepost_migrations").unwrap();
            lease.acquire().await.unwrap();
        }
    }
    let bound = std::time::Duration::from_millis(50);
    let runner = PostgresMigrator::at(&url, files(), mode).unwrap().wait_for_lock(bound);
    let repair = Repair::MarkDone { number: 1 };
    for attempt in 0..5 {
        let mut waited = 0;
        let mut heard = |event| waited += usize::from(matches!(event, Event::Waiting { .. }));
        let outcome = match attempt {
            0 => runner.up(None, &mut heard).await.map(drop),
            1 => runner.down(0, &mut heard).await.map(drop),
            2 => runner.baseline(1, &reason(), &mut heard).await.map(drop),
            3 => runner.repair(repair, &reason(), &mut heard).await,
            _ => runner.import(Source::Sqlx, &mut heard).await.map(drop),
        };
        assert_eq!((outcome.unwrap_err().code(), waited), ("locked", 1), "{attempt}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_whoever_waits_for_the_lock_says_for_whom() {
    waiting_is_told(LockMode::Advisory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_whoever_waits_for_the_lease_says_for_whom() {
    waiting_is_told(LockMode::Lease).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_a_lease_keeps_one_connection_for_it() {
    let Some(database) = Database::new().await else { return };
    let proxy = FaultProxy::start(database.database.server().address()).await.unwrap();
    let holder = MigrationLease::at(&database.database.url(), "l").unwrap();
    let waiter = MigrationLease::at(&proxy.url(&database.database.url()), "l").unwrap();
    holder.acquire().await.unwrap();
    let mut looks = 0;
    let is_granted = waiter.acquire_while(|_| (looks += 1, looks < 6).1).await.unwrap();
    // To find the table, to ask for the lease, to look.
    assert_eq!((is_granted, looks, proxy.connections()), (false, 6, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_holds_the_lock_is_named_when_it_is_not_waited_for() {
    let Some(mut database) = Database::new().await else { return };
    let url = database.database.url();
    let holder = MigrationLock::at(&url, "fencepost_migrations").unwrap();
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
