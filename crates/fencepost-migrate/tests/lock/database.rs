//! A database, pools over it, and what its server says of locks.

use std::time::{Duration, Instant};

use fencepost_migrate::deadpool_postgres::{Manager, Pool};
use fencepost_migrate::{LockKey, MigrationLock};
use fencepost_test_support::{PgServer, TestDatabase, skip_or_fail};
use tokio_postgres::{Client, NoTls};

/// How long what must happen may take on a machine that has much to do.
pub const SOON: Duration = Duration::from_secs(30);

/// A database, and somebody who looks at its server.
pub struct Place {
    pub database: TestDatabase,
    pub looks: Client,
}

/// None where there is no server.
pub async fn place() -> Option<Place> {
    let server = skip_or_fail(PgServer::shared().await)?;
    let database = server.database().await.unwrap();
    let looks = database.connect().await.unwrap();
    Some(Place { database, looks })
}

pub fn pool(url: &str, size: usize) -> Pool {
    let manager = Manager::new(url.parse().unwrap(), NoTls);
    Pool::builder(manager).max_size(size).build().unwrap()
}

impl Place {
    pub fn pool(&self, size: usize) -> Pool {
        pool(&self.database.url(), size)
    }

    /// A lock over a pool of its own.
    pub fn lock(&self, name: &str) -> MigrationLock {
        MigrationLock::new(self.pool(4), name).unwrap()
    }

    /// The processes that hold the lock, and those that wait for it.
    pub async fn seen(&self, key: LockKey) -> (Vec<i32>, Vec<i32>) {
        let sql = "select pid, granted from pg_locks where locktype = 'advisory' and objsubid = 1
            and database = (select oid from pg_database where datname = current_database())
            and (classid::bigint << 32) | objid::bigint = $1";
        let rows = self.looks.query(sql, &[&key.as_i64()]).await.unwrap();
        let of = |granted| rows.iter().filter(|row| row.get::<_, bool>(1) == granted).map(|row| row.get(0)).collect();
        (of(true), of(false))
    }

    /// How many advisory locks there are of any kind.
    pub async fn all(&self) -> i64 {
        let sql = "select count(*) from pg_locks where locktype = 'advisory'
            and database = (select oid from pg_database where datname = current_database())";
        self.looks.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Waits until so many hold the lock and so many wait.
    pub async fn see(&self, key: LockKey, holders: usize, waiters: usize) {
        eventually(async || {
            let (held, waits) = self.seen(key).await;
            (held.len(), waits.len()) == (holders, waiters)
        })
        .await;
    }

    pub async fn kill(&self, process: i32) {
        self.looks.execute("select pg_terminate_backend($1, 10000)", &[&process]).await.unwrap();
    }
}

/// Asks until it is so.
pub async fn eventually(mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < SOON, "it is still not so");
        tokio::time::sleep(Duration::from_millis(5)).await; // TIME: between two looks at a server that tells nobody
    }
}
