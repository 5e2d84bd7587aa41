//! The stage of tests on a real server: a database with the schema, its clock, and handles on it.
#![allow(dead_code, reason = "each test program uses a part of it")]

mod clock;

use std::env;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_core::{ManualClock, Ttl};
use fencepost_postgres::{PostgresOptions, PostgresStore};
use fencepost_test_support::{PgBouncer, PgServer, TestDatabase, skip_or_fail};
use tokio_postgres::Client;

/// Names a folder whose SQL is installed in place of the crate's own, to see that tests notice when a guard is taken out of it.
const SQL_DIR: &str = "FENCEPOST_SQL_DIR";

/// A database with the schema and a handle on it. The clock stands still.
pub struct Stage {
    pub store: PostgresStore,
    pub clock: Arc<ManualClock>,
    pub database: TestDatabase,
    /// What stores go through, if they do not connect to the server itself.
    pooler: Option<PgBouncer>,
}

impl Stage {
    /// A fresh stage, or nothing where no server is installed.
    pub async fn new() -> Option<Self> {
        Some(Self::of(installed(true).await?).await)
    }

    /// A fresh stage on a given server.
    pub async fn on(server: &PgServer) -> Self {
        Self::of(installed_on(server, true).await).await
    }

    /// A fresh stage whose stores go through a pooler in transaction mode.
    pub async fn pooled() -> Option<Self> {
        let database = installed(true).await?;
        let pooler = skip_or_fail(PgBouncer::start(&database).await)?;
        Some(Self::through(database, Some(pooler)).await)
    }

    async fn of(database: TestDatabase) -> Self {
        Self::through(database, None).await
    }

    async fn through(database: TestDatabase, pooler: Option<PgBouncer>) -> Self {
        let store = PostgresStore::open(&url(&database, pooler.as_ref()), options()).await.unwrap();
        Self { store, clock: clock::follow(&database), database, pooler }
    }

    /// A further handle, as independent of the first as another process.
    pub async fn another(&self) -> PostgresStore {
        PostgresStore::open(&url(&self.database, self.pooler.as_ref()), options()).await.unwrap()
    }

    /// A connection of somebody who uses SQL.
    pub async fn client(&self) -> Client {
        self.database.connect().await.unwrap()
    }

    /// INVARIANT: what a slot's state tells of what it has set aside is true.
    pub async fn judge_aside(&self) {
        let wrong = "select string_agg(format('%s, aside %s, due %s, batch %s', st, a.count, a.due, a.batch), e'\n')
            from fencepost.slot s join fencepost.consumer c on c.id = s.consumer_id
            cross join lateral fencepost._state(s.consumer_id, s.slot) st
            cross join lateral (select count(*), min(due_at) filter (where place = 'due') as due,
                    min(batch) filter (where place not in ('due', 'parked')) as batch, bool_and(place in ('due', 'parked') = (batch is null)) as fits
                from fencepost.aside x where x.consumer_id = c.id and x.partition % c.slots = s.slot) a
            where a.count <> (st).aside or a.due < (st).due_from or a.batch < (st).batch_from or not a.fits";
        let found: Option<String> = self.client().await.query_one(wrong, &[]).await.expect("a look").get(0);
        assert_eq!(found, None, "a slot's state is wrong about what is set aside");
    }

    pub fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

fn url(database: &TestDatabase, pooler: Option<&PgBouncer>) -> String {
    pooler.map_or_else(|| database.url(), PgBouncer::url)
}

/// How tests open their stores.
pub fn options() -> PostgresOptions {
    match env::var_os(SQL_DIR) {
        Some(folder) => PostgresOptions::default().sql_folder(folder),
        None => PostgresOptions::default(),
    }
}

/// A database with the schema: its clock stands still, or is the server's own.
pub async fn installed(stands_still: bool) -> Option<TestDatabase> {
    let server = skip_or_fail(PgServer::shared().await)?;
    Some(installed_on(&server, stands_still).await)
}

/// The same on a given server.
pub async fn installed_on(server: &PgServer, stands_still: bool) -> TestDatabase {
    let sql =
        env::var_os(SQL_DIR).map_or_else(fencepost_postgres::carried_checksum, |folder| contents(Path::new(&folder)));
    let key = format!("fencepost-postgres, {stands_still}, {sql}");
    let install = async |url: String| {
        let store = PostgresStore::open(&url, options().create(true)).await?;
        store.close().await;
        if stands_still {
            let (client, connection) =
                tokio_postgres::connect(&url, tokio_postgres::NoTls).await.map_err(fencepost_postgres::driver_error)?;
            tokio::spawn(connection);
            client.batch_execute(clock::STAND_STILL).await.map_err(fencepost_postgres::driver_error)?;
        }
        Ok::<_, fencepost_core::Error>(())
    };
    server.database_from(&key, install).await.unwrap()
}

/// An empty database.
pub async fn empty() -> Option<TestDatabase> {
    let server = skip_or_fail(PgServer::shared().await)?;
    Some(server.database().await.unwrap())
}

/// All files below a folder.
fn contents(folder: &Path) -> String {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let read =
        |path: &std::path::PathBuf| if path.is_dir() { contents(path) } else { std::fs::read_to_string(path).unwrap() };
    entries.iter().map(read).collect()
}

/// How long a test waits for what should be there in a moment.
const IN_VAIN: Duration = Duration::from_secs(30);

/// Waits until something is so.
pub async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < IN_VAIN, "waited in vain until {what}");
        tokio::task::yield_now().await;
    }
}

/// Waits until so many sessions wait for a lock in the client's database. The client is in no transaction, which would see the same for
/// as long as it lasts.
pub async fn until_waiting(client: &Client, how_many: i64) {
    const WAIT: &str =
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    let waiting = async || client.query_one(WAIT, &[]).await.unwrap().get::<_, i64>(0);
    until("somebody waits for a lock", async || waiting().await >= how_many).await;
}

pub fn ttl(seconds: u64) -> Ttl {
    Ttl::new(Duration::from_secs(seconds)).unwrap()
}
