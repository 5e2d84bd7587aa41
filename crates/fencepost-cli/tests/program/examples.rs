//! The examples in other languages, run as a reader would run them: each sends in its own transaction, works with retries, and guards.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fencepost_test_support::{
    java_with_jdbc, node_modules_with_pg, psql as psql_for, python_with_psycopg, skip_or_fail,
};

use crate::place::{Answer, Place, on_postgres};

/// What every example has in its table in the end.
const BILLS: [&str; 3] = ["nightly report", "paid", "declined"];

fn example(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(path)
}

/// A place whose database has the schema and nothing else.
fn place() -> Place {
    let place = Place::new();
    assert_eq!(place.run(&["init"]).status, 0);
    place
}

/// Runs an example, which must succeed, and checks that it left nothing to be done.
fn lines(place: &Place, mut command: Command) -> Vec<String> {
    let output = command.env("DATABASE_URL", place.url()).stdin(Stdio::null()).output().expect("it starts");
    let answer = Answer::from(output);
    assert_eq!(answer.status, 0, "{answer}");
    let status = place.run(&["status", "--json"]).json();
    assert_eq!((&status["consumers"][0]["lag"], &status["consumers"][0]["dead"]), (&0.into(), &0.into()), "{status}");
    assert!(status["slots"].as_array().unwrap().iter().all(|slot| slot["state"] == "free"), "{status}");
    answer.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn psql() {
    on_postgres(|| {
        let place = place();
        let major = place.database().expect("the store is in a database").server().major();
        let Some(psql) = skip_or_fail(psql_for(major)) else { return };
        let mut command = Command::new(psql);
        command.arg(place.url()).args(["--quiet", "--no-align", "--tuples-only", "--set", "ON_ERROR_STOP=1", "--file"]);
        command.arg(example("psql/orders.sql"));
        let lines = lines(&place, command);
        assert_eq!(lines[lines.len() - 3..], ["nightly report", "paid", "paid late, attempt 2"]);
    });
}

#[test]
fn python() {
    on_postgres(|| {
        let Some(python) = skip_or_fail(python_with_psycopg()) else { return };
        let place = place();
        let mut command = Command::new(python);
        command.arg(example("python/orders.py"));
        let lines = lines(&place, command);
        assert_eq!((lines[0].as_str(), &lines[1..]), ("acked 2", &BILLS.map(str::to_owned)[..]));
    });
}

#[test]
fn node() {
    on_postgres(|| {
        let Some(modules) = skip_or_fail(node_modules_with_pg()) else { return };
        let place = place();
        // Modules are looked for beside the file.
        std::fs::copy(example("node/orders.mjs"), place.path("orders.mjs")).unwrap();
        std::os::unix::fs::symlink(modules, place.path("node_modules")).unwrap();
        let mut command = Command::new("node");
        command.arg(place.path("orders.mjs"));
        let lines = lines(&place, command);
        assert_eq!((lines[0].as_str(), &lines[1..]), ("acked 2", &BILLS.map(str::to_owned)[..]));
    });
}

#[test]
fn java() {
    on_postgres(|| {
        let Some((java, jar)) = skip_or_fail(java_with_jdbc()) else { return };
        let place = place();
        let mut command = Command::new(java);
        command.arg("-cp").arg(jar).arg(example("java/Orders.java"));
        let lines = lines(&place, command);
        assert_eq!((lines[0].as_str(), &lines[1..]), ("acked 2", &BILLS.map(str::to_owned)[..]));
    });
}
