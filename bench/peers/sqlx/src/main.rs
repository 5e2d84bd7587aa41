//! What the migrator of sqlx does in three situations for which fencepost has tests, on a server of its own: C06, an unlock that fails;
//! C12, an index that is built concurrently while other runners wait; C15, a file that fails in its middle. Each prints what was seen.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use fencepost_test_support::{DEFAULT_MAJOR, PgServer, TestDatabase};
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::time::timeout;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long a run may take before it counts as hanging.
const BOUND: Duration = Duration::from_secs(60);

const LOCKS: &str = "select count(*) from pg_locks where locktype = 'advisory' and granted \
    and database = (select oid from pg_database where datname = current_database())";

#[tokio::main(flavor = "multi_thread")]
async fn main() -> Outcome<()> {
    let server = PgServer::private(DEFAULT_MAJOR).await?;
    unlock_fails(&server.database().await?).await?;
    builds_while_others_wait(&server.database().await?).await?;
    fails_in_its_middle(&server.database().await?).await
}

/// C06: a migration frees the locks of its session, so that the unlock answers false.
async fn unlock_fails(database: &TestDatabase) -> Outcome<()> {
    let folder = files(&[("1_a.sql", "create table a (); select pg_advisory_unlock_all();")])?;
    let (pool, migrator) = (pool(database, 2).await?, Migrator::new(folder.path()).await?);
    say("C06", "an unlock answers false", &run(&migrator, &pool).await);
    let aborted =
        files(&[("1_a.sql", "create table a (); select pg_advisory_unlock_all();"), ("2_b.sql", "select 1/0;")])?;
    let migrator = Migrator::new(aborted.path()).await?;
    say("C06", "a migration fails", &run(&migrator, &pool).await);
    let left = value(database, LOCKS).await?;
    say("C06", "advisory locks left on connections of the pool", &left);
    let second = self::pool(database, 2).await?;
    let good = files(&[("1_a.sql", "create table a (); select pg_advisory_unlock_all();"), ("2_b.sql", "select 1;")])?;
    let migrator = Migrator::new(good.path()).await?;
    say(
        "C06",
        "the next runner, of another process",
        &timed(run_for(&migrator, &second, Duration::from_secs(5))).await,
    );
    Ok(())
}

/// C12: four runners at once, one of which builds an index concurrently.
async fn builds_while_others_wait(database: &TestDatabase) -> Outcome<()> {
    let folder = files(&[
        ("1_a.sql", "create table a (id int); insert into a select generate_series(1, 100000);"),
        ("2_b.sql", "-- no-transaction\ncreate index concurrently a_by_id on a (id);"),
    ])?;
    let runners: Vec<_> = (0..4)
        .map(|_| {
            let (url, path) = (database.url(), folder.path().to_path_buf());
            tokio::spawn(async move {
                let pool = PgPoolOptions::new().max_connections(2).connect(&url).await?;
                let migrator = Migrator::new(path.as_path()).await?;
                Ok::<_, Box<dyn Error + Send + Sync>>(timed(run(&migrator, &pool)).await)
            })
        })
        .collect();
    for runner in runners {
        say("C12", "one of four runners", &runner.await??);
    }
    let invalid = "select count(*) from pg_index where not indisvalid";
    say("C12", "indexes left INVALID", &value(database, invalid).await?);
    Ok(())
}

/// C15: a file that is no transaction fails at its third statement, and is run again when it was corrected.
async fn fails_in_its_middle(database: &TestDatabase) -> Outcome<()> {
    let begin = "-- no-transaction\ncreate table a (id int);\ninsert into a values (1);\n";
    let bad = files(&[("1_a.sql", &format!("{begin}insert into b values (2);"))])?;
    let pool = pool(database, 2).await?;
    say("C15", "a file that is no transaction", &run(&Migrator::new(bad.path()).await?, &pool).await);
    say("C15", "rows of the ledger", &value(database, "select count(*) from _sqlx_migrations").await?);
    say(
        "C15",
        "rows that its statements left",
        &value(database, "select coalesce((select count(*) from pg_class where relname = 'a'), 0)").await?,
    );
    say("C15", "advisory locks held afterwards", &value(database, LOCKS).await?);
    let good = files(&[("1_a.sql", &format!("{begin}insert into a values (2);"))])?;
    drop(pool);
    let pool = self::pool(database, 2).await?;
    say("C15", "the file corrected, run again", &run(&Migrator::new(good.path()).await?, &pool).await);
    Ok(())
}

fn files(files: &[(&str, &str)]) -> Outcome<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    for (name, text) in files {
        std::fs::write(Path::join(folder.path(), name), text)?;
    }
    Ok(folder)
}

async fn pool(database: &TestDatabase, size: u32) -> Outcome<PgPool> {
    Ok(PgPoolOptions::new().max_connections(size).connect(&database.url()).await?)
}

/// How a run ended, in words.
async fn run(migrator: &Migrator, pool: &PgPool) -> String {
    run_for(migrator, pool, BOUND).await
}

async fn run_for(migrator: &Migrator, pool: &PgPool, bound: Duration) -> String {
    match timeout(bound, migrator.run(pool)).await {
        Ok(Ok(())) => "succeeds".into(),
        Ok(Err(error)) => format!("fails: {error}"),
        Err(_) => format!("hangs for more than {bound:?}"),
    }
}

async fn timed(run: impl Future<Output = String>) -> String {
    let since = Instant::now();
    let said = run.await;
    format!("{said} (after {:.1?})", since.elapsed())
}

async fn value(database: &TestDatabase, sql: &str) -> Outcome<String> {
    let row = database.connect().await?.query_one(sql, &[]).await?;
    Ok(row.get::<_, i64>(0).to_string())
}

fn say(id: &str, what: &str, seen: &str) {
    println!("{id}  {what}: {seen}");
}
