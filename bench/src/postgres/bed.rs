//! A database for one side of one row: made, used by as many sessions as are wanted, and dropped.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use fencepost::postgres::tokio_postgres::{Client, NoTls, connect};
use fencepost::postgres::{PostgresOptions, PostgresStore};
use fencepost::{ClaimSlot, ConsumerPath, Consumers, CreateConsumer, Partitions, Queues, SlotCount, Slots, WorkerName};
use fencepost_bench_rows::{Outcome, say};

/// How long dropping a database may take before it is left where it is.
const DROPPED_WITHIN: Duration = Duration::from_secs(30);

/// A database that a measurement has for itself, dropped with this value.
pub struct Bed {
    admin: Client,
    /// That of the server's other database.
    server: String,
    name: String,
    url: String,
}

/// What the server has counted of a database.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    pub tuples: f64,
    pub buffers: f64,
    pub commits: f64,
    pub wal: f64,
    pub xids: f64,
}

impl Counted {
    pub fn since(self, earlier: Self) -> Self {
        Self {
            tuples: self.tuples - earlier.tuples,
            buffers: self.buffers - earlier.buffers,
            commits: self.commits - earlier.commits,
            wal: self.wal - earlier.wal,
            xids: self.xids - earlier.xids,
        }
    }
}

impl Bed {
    /// A fresh database on the server whose database `postgres`, or another, is at `url`.
    pub async fn make(url: &str) -> Outcome<Self> {
        // No database of somebody else has it.
        let name = format!("fencepost_bench_{:016x}", RandomState::new().hash_one(std::process::id()));
        let own = with_database(url, &name).ok_or("the url of a server begins with `postgres://`")?;
        let admin = open(url).await?;
        admin.batch_execute(&format!("create database {name}")).await?;
        Ok(Self { admin, server: url.into(), name, url: own })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub async fn connect(&self) -> Outcome<Client> {
        open(&self.url).await
    }

    /// A store with a queue `bench` and a consumer `worker`.
    pub async fn store(&self, partitions: i64, slots: i64) -> Outcome<(PostgresStore, ConsumerPath)> {
        let options = PostgresOptions::default().create(true).pool_size(16);
        let store = PostgresStore::open(&self.url, options).await?;
        let path = ConsumerPath::new("bench", "worker")?;
        store.create_queue(&path.queue, Partitions::new(partitions)?).await?;
        store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(slots)?)).await?;
        Ok((store, path))
    }

    /// What was counted so far. Sessions tell when they end, so close them before.
    pub async fn counted(&self) -> Outcome<Counted> {
        let own = self.connect().await?;
        own.batch_execute("select pg_stat_clear_snapshot()").await?;
        let tables = "select coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0)::float8,
                coalesce((select sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0))
                    from pg_statio_user_tables), 0)::float8 from pg_stat_user_tables";
        let row = own.query_one(tables, &[]).await?;
        let server = "select xact_commit::float8, (pg_current_wal_insert_lsn() - '0/0')::float8,
            pg_snapshot_xmax(pg_current_snapshot())::text::float8 from pg_stat_database where datname = $1";
        let of_server = self.admin.query_one(server, &[&self.name]).await?;
        Ok(Counted {
            tuples: row.get(0),
            buffers: row.get(1),
            commits: of_server.get(0),
            wal: of_server.get(1),
            xids: of_server.get(2),
        })
    }

    /// Where the server's log of changes ends now.
    pub async fn wal(&self) -> Outcome<f64> {
        Ok(self.admin.query_one("select (pg_current_wal_lsn() - '0/0')::float8", &[]).await?.get(0))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropped = async move {
            let admin = open(&server).await?;
            Outcome::Ok(admin.batch_execute(&format!("drop database if exists {name} with (force)")).await?)
        };
        // On a thread of its own: this one may be busy with the tasks of a runtime.
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async { tokio::time::timeout(DROPPED_WITHIN, dropped).await? })
        });
        if !matches!(thread.join(), Ok(Outcome::Ok(()))) {
            say(&format!("the database `{}` could not be dropped", self.name));
        }
    }
}

/// The URL of another database of the same server.
fn with_database(url: &str, name: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (path, parameters) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    let server = path.split('/').next()?;
    Some(format!("{scheme}://{server}/{name}{parameters}"))
}

async fn open(url: &str) -> Outcome<Client> {
    let (client, connection) = connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Waits until what the sessions that were dropped have counted is there.
pub async fn told() {
    tokio::time::sleep(Duration::from_millis(1_200)).await;
}

/// Claims slot `slot` of a consumer for an hour and returns the epoch.
pub async fn claim(store: &PostgresStore, path: &ConsumerPath, slot: i64) -> Outcome<fencepost::SlotToken> {
    let claim = ClaimSlot::new(path.clone(), WorkerName::new(format!("bench {slot}"))?)
        .ttl(fencepost::Ttl::new(Duration::from_secs(3_600))?);
    Ok(store.claim(&claim).await?.ok_or("a slot is free")?.token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_another_database_and_keeps_the_rest() {
        let named = |url| with_database(url, "bench");
        assert_eq!(named("postgres://me:p@host:5432/mine").unwrap(), "postgres://me:p@host:5432/bench");
        assert_eq!(named("postgres://host").unwrap(), "postgres://host/bench");
        assert_eq!(
            named("postgresql://one:1,two:2/mine?host=/run/postgresql&connect_timeout=5").unwrap(),
            "postgresql://one:1,two:2/bench?host=/run/postgresql&connect_timeout=5"
        );
        assert_eq!(named("postgres:///?host=/run/postgresql").unwrap(), "postgres:///bench?host=/run/postgresql");
        assert_eq!(named("host=localhost dbname=mine"), None);
    }
}
