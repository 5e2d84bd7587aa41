//! Many small files, beside psql that runs the same ones. For figures: `FENCEPOST_MIGRATIONS=500 … speed -- --nocapture`.

use std::fmt::Write;
use std::time::{Duration, Instant};

use fencepost_migrate::sql::Dialect;
use fencepost_migrate::{Migrations, Migrator};
use fencepost_test_support::{DEFAULT_MAJOR, psql};
use tokio::process::Command;

use crate::support::Database;

fn files(count: usize) -> Vec<(String, String)> {
    let text =
        |n| format!("create table t{n} (id bigint primary key, name text);\ninsert into t{n} values (1, 'a');\n");
    (1..=count).map(|n| (format!("{n:04}_t.sql"), text(n))).collect()
}

async fn by_us(count: usize) -> Option<Duration> {
    let mut database = Database::new().await?;
    let migrator = Migrator::new(Migrations::of(files(count), Dialect::Postgres).unwrap());
    let since = Instant::now();
    let done = database.up(&migrator).await.unwrap();
    assert_eq!(done.numbers.len(), count);
    Some(since.elapsed())
}

async fn by_psql(count: usize) -> Option<Duration> {
    let database = Database::new().await?;
    let folder = tempfile::tempdir().unwrap();
    let mut script = String::new();
    for (name, text) in files(count) {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        writeln!(script, "begin;\n\\i {}\ncommit;", path.display()).unwrap();
    }
    std::fs::write(folder.path().join("all"), script).unwrap();
    let since = Instant::now();
    let mut client = Command::new(psql(DEFAULT_MAJOR).unwrap());
    client.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname", &database.database.url(), "--file"]);
    assert!(client.arg(folder.path().join("all")).status().await.unwrap().success());
    Some(since.elapsed())
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "figures, for whoever asks for them")]
async fn many_small_files_are_run_about_as_fast_as_by_psql() {
    let count = std::env::var("FENCEPOST_MIGRATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(20);
    let rounds = if count > 20 { 5 } else { 1 };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let Some(one) = by_us(count).await else { return };
        ours.push(one);
        theirs.extend(by_psql(count).await);
    }
    ours.sort_unstable();
    theirs.sort_unstable();
    let (ours, theirs) = (ours[rounds / 2], theirs[rounds / 2]);
    println!("{count} files: {ours:?}, by psql {theirs:?}, ratio {:.2}", ours.as_secs_f64() / theirs.as_secs_f64());
}
