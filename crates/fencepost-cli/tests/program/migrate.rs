//! `fencepost migrate` as people, pods and probes run it: many at once, killed half-way, asked while it runs.

use std::io::BufRead;
use std::time::{Duration, Instant};

use fencepost::migrate::rusqlite::Connection;
use fencepost_test_support::{PgBouncer, Random, skip_or_fail};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::place::{Answer, Place, on_each_engine, on_postgres, runtime};
use crate::running::Running;
use crate::servers::{connected, database};

on_each_engine! {
    c19_readiness_is_told_by_exit_status_and_json,
    c15_c21_what_fails_is_shown_with_its_place_and_gone_on_with,
    c17_c18_edits_and_late_files_are_told_apart,
    what_is_new_is_begun_and_undone,
    what_was_made_before_is_baselined,
    bad_commands_say_what_is_wrong,
    a_store_and_a_ledger_share_a_database,
    c13_c22_sixteen_runners_at_once_run_each_migration_once,
    c22_a_killed_runner_leaves_a_ledger_that_tells_the_truth,
}

/// Writes a file of the folder `migrations`.
fn file(place: &Place, name: &str, sql: &str) {
    let folder = place.path("migrations");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), sql).unwrap();
}

fn migrate(place: &Place, args: &[&str]) -> Answer {
    place.run(&[&["migrate"], args].concat())
}

fn json(place: &Place, args: &[&str]) -> (i32, Value) {
    let answer = migrate(place, &[args, &["--json"]].concat());
    (answer.status, answer.json())
}

/// What runners that all ended well have applied together, in order.
fn applied_by(answers: &[Answer]) -> Vec<u64> {
    let mut applied = Vec::new();
    for answer in answers {
        assert_eq!(answer.status, 0, "{answer}");
        applied.extend(answer.json()["applied"].as_array().unwrap().iter().map(|number| number.as_u64().unwrap()));
    }
    applied.sort_unstable();
    applied
}

fn ready(place: &Place) -> (i32, String) {
    let (status, answer) = json(place, &["wait"]);
    (status, answer["state"].as_str().unwrap_or_default().to_owned())
}

fn c19_readiness_is_told_by_exit_status_and_json() {
    let place = Place::new();
    file(&place, "0001_a.sql", "create table a (id int primary key);");
    assert_eq!(ready(&place), (1, "never".into()));
    assert_eq!(json(&place, &["up"]), (0, serde_json::json!({"applied": [1], "outcome": "applied"})));
    assert_eq!(ready(&place), (0, "ready".into()));
    assert_eq!(json(&place, &["up"]).1["outcome"], "current");
    file(&place, "0002_b.sql", "create table b (id int primary key);");
    assert_eq!(ready(&place), (1, "behind".into()));
    let started = Instant::now();
    assert_eq!(migrate(&place, &["wait", "--wait", "300ms"]).status, 1);
    assert!(started.elapsed() >= Duration::from_millis(300));
    assert_eq!(migrate(&place, &["up"]).status, 0);
    std::fs::remove_file(place.path("migrations").join("0002_b.sql")).unwrap();
    assert_eq!(ready(&place), (5, "ahead".into()));
    file(&place, "0002_b.sql", "create table b (id int primary key);");
    file(&place, "0003_c.sql", "create table c (id int);\ninsert into nothing values (1);");
    assert_eq!(migrate(&place, &["up"]).status, 5);
    let (status, failed) = json(&place, &["wait"]);
    assert_eq!(
        (status, &failed["state"], &failed["number"], &failed["statement"]),
        (5, &"failed".into(), &3.into(), &2.into())
    );
}

fn c15_c21_what_fails_is_shown_with_its_place_and_gone_on_with() {
    let place = Place::new();
    file(&place, "0001_a.sql", "create table a (id int primary key);\n\ninsert into a values (1), (nonsense);\n");
    let failed = migrate(&place, &["up"]);
    assert_eq!(failed.status, 5);
    for part in ["migrations/0001_a.sql:3:", "insert into a values (1), (nonsense)", "statement: 2 of 2", "help: "] {
        assert!(failed.stderr.contains(part), "`{part}` is missing:\n{failed}");
    }
    let (_, error) = json(&place, &["up"]);
    let context = &error["error"]["context"];
    assert_eq!((&context["line"], &context["number"], &context["statement"]), (&"3".into(), &"1".into(), &"2".into()));
    assert_eq!(error["error"]["code"], "migration_failed");
    file(&place, "0001_a.sql", "create table a (id int primary key);\n\ninsert into a values (1);\n");
    assert_eq!(migrate(&place, &["up"]).status, 0);
    assert_eq!(migrate(&place, &["verify"]).status, 0);
    let (_, status) = json(&place, &["status"]);
    assert_eq!((&status["entries"][0]["state"], &status["pending"]), (&"applied".into(), &serde_json::json!([])));
}

fn c17_c18_edits_and_late_files_are_told_apart() {
    let place = Place::new();
    file(&place, "0001_a.sql", "create table a (id int primary key);");
    file(&place, "0002_b.sql", "create table b (id int primary key);");
    assert_eq!(migrate(&place, &["up", "--to", "1"]).status, 0);
    file(&place, "0001_a.sql", "-- said later\ncreate table a (id int primary key);");
    assert_eq!(migrate(&place, &["up"]).status, 0, "comments change nothing");
    file(&place, "0001_a.sql", "create table a (id bigint primary key);");
    for command in ["up", "verify"] {
        let refused = migrate(&place, &[command]);
        assert_eq!(refused.status, 5, "{refused}");
        assert!(refused.stderr.contains("was edited since it was applied"), "{refused}");
    }
    let repaired = migrate(&place, &["repair", "accept", "1", "--reason", "altered by hand"]);
    assert_eq!(repaired.status, 0, "{repaired}");
    assert_eq!(migrate(&place, &["verify"]).status, 0);
    file(&place, "20240101_x.sql", "create table x (id int primary key);");
    file(&place, "20240301_z.sql", "create table z (id int primary key);");
    assert_eq!(migrate(&place, &["up"]).status, 0);
    file(&place, "20240201_y.sql", "create table y (id int primary key);");
    let late = migrate(&place, &["up"]);
    assert_eq!((late.status, late.stderr.contains("out_of_order")), (5, true), "{late}");
    file(&place, "20240201_y.sql", "-- fencepost: out-of-order\ncreate table y (id int primary key);");
    assert_eq!(json(&place, &["up"]).1["applied"], serde_json::json!([20_240_201]));
}

fn what_is_new_is_begun_and_undone() {
    let place = Place::new();
    let begun = migrate(&place, &["new", "orders", "--down"]);
    assert_eq!(begun.stdout, "began migrations/0001_orders.sql and migrations/0001_orders.down.sql\n");
    let empty = migrate(&place, &["up"]);
    assert_eq!((empty.status, empty.stderr.contains("the file holds only comments")), (2, true), "{empty}");
    file(&place, "0001_orders.sql", "create table orders (id int primary key);");
    file(&place, "0001_orders.down.sql", "drop table orders;");
    let dry = migrate(&place, &["up", "--dry-run"]);
    assert_eq!((dry.status, &*dry.stdout), (0, "would run: 1 migration\n  0001_orders, 1 statement\n"));
    assert_eq!(ready(&place), (1, "never".into()), "a dry run changes nothing");
    assert_eq!(migrate(&place, &["up"]).status, 0);
    assert_eq!(json(&place, &["down", "--to", "0", "--dry-run"]).1["undone"], serde_json::json!([1]));
    file(&place, "0002_more.sql", "create table more (id int primary key);");
    assert_eq!(migrate(&place, &["up"]).status, 0);
    for args in [&["down", "--to", "0"] as &[_], &["down", "--to", "0", "--dry-run"]] {
        assert_eq!(json(&place, args).1["error"]["code"], "no_way_back", "{args:?}");
    }
    file(&place, "0002_more.down.sql", "drop table more;");
    assert_eq!(migrate(&place, &["down", "--to", "0"]).status, 0);
    assert_eq!(json(&place, &["up"]).1["applied"], serde_json::json!([1, 2]), "they can be run again");
}

fn what_was_made_before_is_baselined() {
    let place = Place::new();
    file(&place, "0001_a.sql", "create table a (id int primary key);");
    file(&place, "0002_b.sql", "create table b (id int primary key);");
    // What was there before, in a file too.
    assert_eq!(place.run(&["init"]).status, 0);
    assert_eq!(migrate(&place, &["baseline", "1", "--reason", "made by hand"]).status, 0);
    assert_eq!(json(&place, &["up"]).1["applied"], serde_json::json!([2]));
    assert_eq!(json(&place, &["status"]).1["entries"][0]["state"], "baselined");
}

fn a_store_and_a_ledger_share_a_database() {
    for ledger_first in [true, false] {
        let place = Place::new();
        file(&place, "0001_a.sql", "create table a (id int primary key);");
        let make = || assert_eq!(place.run(&["queue", "create", "q"]).status, 0);
        if !ledger_first {
            make();
        }
        assert_eq!(migrate(&place, &["up"]).status, 0);
        if ledger_first {
            make();
        }
        assert_eq!(place.run(&["send", "q", "x"]).status, 0);
        assert_eq!(place.run(&["status"]).status, 0);
        assert_eq!(ready(&place), (0, "ready".into()));
    }
}

fn bad_commands_say_what_is_wrong() {
    let place = Place::new();
    for (args, status, says) in [
        (&["up"] as &[_], 1, "cannot read the migrations in `migrations`"),
        (&["up", "--store", "mem:"], 2, "cannot migrate a store in memory"),
        (&["up", "--store", "mysql://x"], 2, "it is of no kind that is known"),
        (&["wait", "--wait", "soon"], 2, "cannot use `soon`"),
        (&["new", "a/b"], 2, "cannot begin a migration called `a/b`"),
        (&["repair", "forget"], 2, "required"),
        (&["import", "flyway"], 2, "invalid value"),
    ] {
        let answer = migrate(&place, args);
        assert_eq!((answer.status, answer.stderr.contains(says)), (status, true), "{args:?}: {answer}");
    }
    file(&place, "0001_a.sql", "select 'open");
    assert_eq!(migrate(&place, &["up", "--ledger", " "]).status, 2);
    let open = migrate(&place, &["status"]);
    assert_eq!((open.status, open.stderr.contains("0001_a.sql:1:8")), (2, true), "{open}");
}

/// Only what runs migrations makes a file, or a ledger.
#[test]
fn nothing_but_up_makes_a_file() {
    let place = Place::new();
    file(&place, "0001_a.sql", "create table a (id int primary key);");
    for args in [&["down", "--to", "0"] as &[_], &["repair", "forget", "1"], &["baseline", "1"], &["import", "sqlx"]] {
        let refused = json(&place, args);
        assert_eq!((refused.0, &refused.1["error"]["code"]), (1, &"no_store".into()), "{args:?}");
    }
    assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 1, "the folder with the files is all there is");
}

/// C12, C13: sixteen processes start at once, with ten migrations that fail when they are run twice and an index that is built in no
/// transaction, on a server concurrently.
fn c13_c22_sixteen_runners_at_once_run_each_migration_once() {
    let place = Place::new();
    for number in 1..=10 {
        let count = "with recursive c (n) as (select 1 union all select n + 1 from c where n < 500) select n from c";
        let sql = format!("create table t{number} (id bigint primary key);\ninsert into t{number} {count};");
        file(&place, &format!("{number:04}_t{number}.sql"), &sql);
    }
    let how = if place.database().is_some() { "concurrently " } else { "" };
    let index = format!("-- fencepost: no-transaction\ncreate index {how}t1_by_id on t1 (id);");
    file(&place, "0011_index.sql", &index);
    let runners: Vec<_> = (0..16).map(|_| Running::start(&place, &["migrate", "up", "--json"])).collect();
    let answers: Vec<_> = runners.into_iter().map(Running::ended).collect();
    assert_eq!(applied_by(&answers), (1..=11).collect::<Vec<_>>());
    if place.database().is_some() {
        let left = "pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())";
        assert_eq!(rows(&place, left), 0, "no lock is left");
    }
}

/// C14: a pooler in transaction mode is noticed before anything is run; a lease works through it, also for many at once.
#[test]
fn c14_behind_a_pooler_a_lease_lets_one_runner_through() {
    on_postgres(|| {
        let place = Place::new();
        let runtime = runtime();
        let Some(pooler) = skip_or_fail(runtime.block_on(PgBouncer::start(database(&place)))) else { return };
        for number in 1..=5 {
            file(
                &place,
                &format!("{number:04}_t{number}.sql"),
                &format!("create table t{number} (id bigint primary key);"),
            );
        }
        file(&place, "0006_index.sql", "-- fencepost: no-transaction\ncreate index concurrently t1_by_id on t1 (id);");
        let url = pooler.url();
        let refused = migrate(&place, &["up", "--store", &url]);
        assert_eq!((refused.status, refused.stderr.contains("--lock lease")), (2, true), "{refused}");
        assert_eq!(ready(&place), (1, "never".into()), "nothing was made");
        let args = ["migrate", "up", "--json", "--lock", "lease", "--store", &url];
        let runners: Vec<_> = (0..6).map(|_| Running::start(&place, &args)).collect();
        let answers: Vec<_> = runners.into_iter().map(Running::ended).collect();
        assert_eq!(applied_by(&answers), (1..=6).collect::<Vec<_>>());
        assert_eq!(ready(&place), (0, "ready".into()));
    });
}

/// A runner is killed at a random moment: what the ledger says is what the database has, and the next run does the rest.
fn c22_a_killed_runner_leaves_a_ledger_that_tells_the_truth() {
    let seeds = std::env::var("FENCEPOST_SEEDS").map_or(5, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        killed(seed);
    }
}

fn killed(seed: u64) {
    let place = Place::new();
    // Some hundredths of a second.
    let slow = match place.database() {
        Some(_) => "select pg_sleep(0.03)",
        None => {
            "with recursive c (n) as (select 1 union all select n + 1 from c where n < 300000) select count(*) from c"
        }
    };
    for number in 1..=6 {
        let sql = format!("create table t{number} (id int);\n{slow};\ninsert into t{number} values (1);");
        file(&place, &format!("{number:04}_t{number}.sql"), &sql);
    }
    let steps = format!(
        "-- fencepost: no-transaction\ncreate table u (id int);\n{slow};\ninsert into u values (1);\n{slow};\ninsert into u values (2);"
    );
    file(&place, "0007_u.sql", &steps);
    let runner = Running::start(&place, &["migrate", "up"]);
    let moment = Duration::from_millis(Random::seeded(seed).below(600));
    std::thread::sleep(moment); // TIME: the moment of the kill is what is tried
    let _ = kill_process(runner.pid(), Signal::KILL);
    runner.ended();
    let told = json(&place, &["status"]).1;
    for entry in told["entries"].as_array().unwrap().iter().filter(|entry| entry["number"].as_u64() < Some(7)) {
        assert_eq!(entry["state"], "applied", "seed {seed}: {told}");
        assert_eq!(rows(&place, &format!("t{}", entry["number"])), 1, "seed {seed}");
    }
    let again = migrate(&place, &["up"]);
    assert_eq!(again.status, 0, "seed {seed}, killed after {moment:?}: {again}");
    for number in 1..=6 {
        assert_eq!(rows(&place, &format!("t{number}")), 1, "seed {seed}");
    }
    assert_eq!(rows(&place, "u"), 2, "seed {seed}, killed after {moment:?}");
    assert_eq!(ready(&place), (0, "ready".into()));
}

fn rows(place: &Place, table: &str) -> i64 {
    let sql = format!("select count(*) from {table}");
    match place.database() {
        Some(_) => runtime().block_on(async { connected(place).await.query_one(&sql, &[]).await.unwrap().get(0) }),
        None => {
            let url = place.url();
            let file = Connection::open(url.strip_prefix("sqlite:").unwrap()).unwrap();
            file.query_row(&sql, [], |row| row.get(0)).unwrap()
        }
    }
}

/// Who waits says for whom, and what that does.
#[test]
fn who_waits_says_for_whom() {
    on_postgres(|| {
        let place = Place::new();
        file(&place, "0001_slow.sql", "create table slow (id int);\nselect pg_advisory_xact_lock(7);");
        let runtime = runtime();
        let holder = runtime.block_on(connected(&place));
        runtime.block_on(holder.batch_execute("select pg_advisory_lock(7)")).unwrap();
        let first = Running::start(&place, &["migrate", "up"]);
        let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted
            and database = (select oid from pg_database where datname = current_database())";
        runtime.block_on(async {
            while holder.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
                tokio::task::yield_now().await;
            }
        });
        let mut second = Running::start(&place, &["migrate", "up"]);
        let mut said = String::new();
        while !said.contains("another runner is waited for: process ") {
            assert_ne!(second.stderr.read_line(&mut said).unwrap(), 0, "it ended: {said}");
        }
        assert!(said.contains("pg_advisory_xact_lock(7)"), "{said}");
        runtime.block_on(holder.batch_execute("select pg_advisory_unlock(7)")).unwrap();
        for answer in [first.ended(), second.ended()] {
            assert_eq!(answer.status, 0, "{answer}");
        }
    });
}
