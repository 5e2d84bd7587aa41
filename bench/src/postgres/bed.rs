//! A database for one side of one row: made, used by as many sessions as are wanted, and dropped.

use fencepost::postgres::tokio_postgres::{Client, NoTls, connect};
use fencepost::postgres::{PostgresOptions, PostgresStore};
use fencepost::{ClaimSlot, ConsumerPath, Consumers, CreateConsumer, Partitions, Queues, SlotCount, Slots, WorkerName};
use fencepost_bench_rows::Outcome;

/// The database that every measurement has for itself.
const NAME: &str = "fencepost_bench";

pub struct Bed {
    admin: Client,
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
        let admin = open(url).await?;
        admin.batch_execute(&format!("drop database if exists {NAME} with (force)")).await?;
        admin.batch_execute(&format!("create database {NAME}")).await?;
        let (server, _) = url.rsplit_once('/').ok_or("the url names a database")?;
        Ok(Self { admin, url: format!("{server}/{NAME}") })
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
        let of_server = self.admin.query_one(server, &[&NAME]).await?;
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

async fn open(url: &str) -> Outcome<Client> {
    let (client, connection) = connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Waits until what the sessions that were dropped have counted is there.
pub async fn told() {
    tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
}

/// Claims slot `slot` of a consumer for an hour and returns the epoch.
pub async fn claim(store: &PostgresStore, path: &ConsumerPath, slot: i64) -> Outcome<fencepost::SlotToken> {
    let claim = ClaimSlot::new(path.clone(), WorkerName::new(format!("bench {slot}"))?)
        .ttl(fencepost::Ttl::new(std::time::Duration::from_secs(3_600))?);
    Ok(store.claim(&claim).await?.ok_or("a slot is free")?.token)
}
