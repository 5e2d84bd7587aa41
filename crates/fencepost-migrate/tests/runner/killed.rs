//! The server ends the session at random points: the ledger tells the truth, and the next run completes.

use std::time::Duration;

use fencepost_core::Kind;
use fencepost_migrate::{Event, Migrator, State};
use fencepost_test_support::Random;
use tokio::sync::mpsc::unbounded_channel;

use crate::support::{Database, migrator};

fn files() -> Migrator {
    let no = "-- fencepost: no-transaction\n";
    migrator([
        ("1_a.sql", "create table log (n int); create table a (id int); insert into a select generate_series(1, 300);"),
        ("2_b.sql", "insert into log values (2); insert into log values (2);"),
        (
            "3_c.sql",
            &format!(
                "{no}insert into log values (3);\ncreate index concurrently i on a (id);\ninsert into log values (3);\nvacuum a;\ninsert into log values (3);"
            ),
        ),
        ("4_d.sql", "insert into log values (4); create table d ();"),
        (
            "5_e.sql",
            &format!(
                "{no}drop index concurrently i;\ninsert into log values (5);\ncreate unique index concurrently if not exists j on a (id);"
            ),
        ),
    ])
}

/// Ends the session when a random event was heard and a random while has passed.
async fn killed_once(database: &mut Database, files: &Migrator, random: &mut Random) -> bool {
    let pid: i32 = database.client.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let (after, pause) = (random.below(30), Duration::from_micros(random.below(3_000)));
    let (heard, mut hears) = unbounded_channel::<Event>();
    let killer = database.database.connect().await.unwrap();
    let killed = tokio::spawn(async move {
        for _ in 0..after {
            if hears.recv().await.is_none() {
                return;
            }
        }
        tokio::time::sleep(pause).await; // TIME: a random point within a statement.
        let _ = killer.query("select pg_terminate_backend($1)", &[&pid]).await;
    });
    let mut listener = move |event| drop(heard.send(event));
    let outcome = files.on_postgres(&mut database.client, &mut listener).up(None).await;
    drop(listener);
    killed.await.unwrap();
    if let Err(error) = &outcome {
        assert!(matches!(error.kind(), Kind::Unavailable | Kind::UnknownOutcome), "{error:?}");
    }
    outcome.is_ok()
}

/// What the ledger says is what the database has.
async fn truth(database: &Database, files: &Migrator, seed: u64) {
    let status = files.status_of(&database.other).await.unwrap();
    for entry in &status.entries {
        let wanted = match (entry.number, entry.state) {
            (1, State::Applied) => continue,
            (2, State::Applied) => 2,
            (3, _) => entry.done.div_ceil(2),
            (4, State::Applied) => 1,
            (5, _) => usize::from(entry.done > 1),
            other => panic!("{other:?} cannot be, seed {seed}"),
        };
        let count = format!("select count(*) from log where n = {}", entry.number);
        assert_eq!(database.value(&count).await, wanted.to_string(), "{entry:?}, seed {seed}");
    }
}

#[tokio::test]
async fn a_session_that_is_ended_anywhere_leaves_a_ledger_that_tells_the_truth() {
    let seeds: u64 = std::env::var("FENCEPOST_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(5);
    let first: u64 = std::env::var("FENCEPOST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + seeds {
        let Some(mut database) = Database::new().await else { return };
        let (files, mut random) = (files(), Random::seeded(seed));
        for _ in 0..8 {
            if killed_once(&mut database, &files, &mut random).await {
                break;
            }
            truth(&database, &files, seed).await;
            database.reconnect().await;
        }
        database.reconnect().await;
        database.up(&files).await.unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        let log = database.value("select string_agg(n || '', '' order by n) from log").await;
        assert_eq!(log, "2233345", "seed {seed}");
        assert_eq!(database.value("select count(*) from pg_index where not indisvalid").await, "0", "seed {seed}");
        assert_eq!(database.value("select count(*) from fencepost_migrations where state = 'applied'").await, "5");
    }
}
