//! What is to be known of the server when something is wrong: read, never changed. Who judges it is elsewhere.

use std::time::Duration;

use fencepost_core::{Clock, ConsumerPath, HostClock, Result, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::damaged;
use crate::listen::notifies;
use crate::store::{PostgresStore, column, one};
use crate::time::At;

const SERVER: &str = "select clock_timestamp(), pg_is_in_recovery(),
    current_setting('autovacuum')::boolean and current_setting('track_counts')::boolean,
    array(select c.oid::regclass::text from pg_class c
        where c.relnamespace = 'fencepost'::regnamespace and c.reloptions && '{autovacuum_enabled=false,autovacuum_enabled=off}'
        order by 1),
    array(select s.name from pg_settings s where s.name in ('fsync', 'full_page_writes', 'synchronous_commit') and s.setting = 'off'
        order by s.name),
    case when has_sequence_privilege('fencepost.epoch', 'select')
        then (extract(epoch from clock_timestamp()) * 1000000)::bigint - pg_sequence_last_value('fencepost.epoch') end,
    age(d.datfrozenxid), current_setting('autovacuum_freeze_max_age')::bigint,
    (select count(*) from pg_stat_activity a where a.backend_type = 'client backend'),
    current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
    from pg_database d where d.datname = current_database()";

/// Who may use the schema at all: everybody, or who was let in; and the roles of the cluster that are not there.
const RIGHTS: &str = "select
    exists (select from pg_namespace n cross join lateral aclexplode(n.nspacl) a where n.nspname = 'fencepost' and a.grantee = 0),
    array(select w from unnest(array['fencepost_admin', 'fencepost_consumer', 'fencepost_producer']) w
        where not exists (select from pg_roles r where r.rolname = w))";

/// Tables with more dead rows than live ones; the one with the most first.
const DEAD_ROWS: &str = "select relid::regclass::text, n_dead_tup,
        extract(epoch from clock_timestamp() - greatest(last_vacuum, last_autovacuum))::float8
    from pg_stat_user_tables where schemaname = 'fencepost' and n_dead_tup > greatest($1, n_live_tup) order by n_dead_tup desc";

const BLOCKED: &str = "select s.queue, s.consumer, s.slot, a.pid, a.application_name, a.state,
        extract(epoch from clock_timestamp() - a.xact_start)::float8, a.query,
        coalesce(greatest(age(a.backend_xmin), age(a.backend_xid)), 0)
    from fencepost._blocked_slots() s join pg_stat_activity a on a.pid = s.pid
    where a.xact_start is not null";

/// Old snapshots and old transactions alike: both keep what was deleted since.
const OLDEST: &str =
    "select pid, application_name, state, extract(epoch from clock_timestamp() - xact_start)::float8, query,
        coalesce(greatest(age(backend_xmin), age(backend_xid)), 0)
    from pg_stat_activity
    where (backend_xmin is not null or backend_xid is not null) and xact_start is not null and pid <> pg_backend_pid()
        and backend_type = 'client backend' and (datname = current_database() or datname is null)
    order by xact_start limit 1";

const PREPARED: &str = "select gid, extract(epoch from clock_timestamp() - prepared)::float8, age(transaction)
    from pg_prepared_xacts where database = current_database() order by prepared";

const REPLICATION: &str = "select slot_name, greatest(age(xmin), age(catalog_xmin))
    from pg_replication_slots where xmin is not null or catalog_xmin is not null order by 2 desc, 1";

/// How a store's server stands.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerCheck {
    /// By how much its clock is ahead of this host's, beyond what it took to ask.
    pub clock_ahead: Duration,
    /// By how much its clock is behind this host's, beyond what it took to ask.
    pub clock_behind: Duration,
    /// It follows another one and takes no writes.
    pub in_recovery: bool,
    /// It removes dead rows by itself.
    pub vacuums: bool,
    /// Tables of the store that are excepted from that.
    pub not_vacuumed: Vec<String>,
    /// PUBLIC may use the schema: everybody who connects reaches what was granted to PUBLIC in it.
    pub is_public: bool,
    /// The roles of the cluster for producers, consumers and administrators that are not there.
    pub missing_roles: Vec<String>,
    /// Tables of the store with many more dead rows than live ones, the worst first.
    pub dead_rows: Vec<DeadRows>,
    /// Of `fsync`, `full_page_writes` and `synchronous_commit` those that are off for this role and database.
    pub risky_settings: Vec<String>,
    /// By how much its clock is behind the store's last epoch; zero for who may not see that. Epochs run a minute ahead at most, so beyond
    /// that it was set back.
    pub behind_epochs: Duration,
    /// How many transactions ago the oldest rows of the database were written that were not frozen.
    pub unfrozen: u64,
    /// At how many autovacuum freezes them, whatever else it is told.
    pub freezes_at: u64,
    /// Connections of clients, of all databases.
    pub connections: u64,
    /// As many as those who are no superusers may have.
    pub max_connections: u64,
    /// Notifications arrive; behind a pooler in transaction mode none does.
    pub notifies: bool,
    /// Slots that an open transaction has locked.
    pub blocked: Vec<BlockedSlot>,
    /// The open transaction of the database that began first.
    pub oldest: Option<OpenTransaction>,
    /// Transactions that were prepared and neither committed nor rolled back.
    pub prepared: Vec<PreparedTransaction>,
    /// Replication slots that keep dead rows, and for how many transactions they have.
    pub replication: Vec<(String, u32)>,
}

/// A slot that nobody can claim, receive from or ack while a transaction is open.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockedSlot {
    /// Whose slot.
    pub path: ConsumerPath,
    /// Its number.
    pub slot: u32,
    /// The transaction.
    pub by: OpenTransaction,
}

/// A table that holds dead rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadRows {
    /// The table.
    pub table: String,
    /// How many they are, as far as the server has counted.
    pub rows: u64,
    /// How long ago it was vacuumed last; never since its statistics were begun.
    pub vacuumed: Option<Duration>,
}

/// A transaction that is open on the server.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenTransaction {
    /// The process of the server that runs it.
    pub pid: i32,
    /// What the client calls itself.
    pub application: String,
    /// What it does, in the server's words.
    pub state: String,
    /// How long it has been open.
    pub age: Duration,
    /// Its last statement; empty for who may not see it.
    pub query: String,
    /// How many transactions have begun since it looked at the database first, or wrote to it.
    pub behind: u32,
}

/// A transaction that waits for its commit by another session.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedTransaction {
    /// What it was called.
    pub name: String,
    /// How long ago it was prepared.
    pub age: Duration,
    /// How many transactions have begun since it did.
    pub behind: u32,
}

/// With fewer dead rows nobody is slow.
const MANY_DEAD: i64 = 50_000;

impl PostgresStore {
    /// Looks at the server, the sessions in its database, and whether notifications arrive. Of other users' sessions a role sees little
    /// unless it has `pg_read_all_stats`.
    ///
    /// # Errors
    /// `unavailable`.
    pub async fn check(&self) -> Result<ServerCheck> {
        let before = HostClock.wall();
        let rows = self.read("check", SERVER, &[]).await?;
        let after = HostClock.wall();
        let server = one(&rows)?;
        let clock: Timestamp = column::<At>(server, 0)?.0;
        let rights = self.read("check", RIGHTS, &[]).await?;
        let blocked = self.read("check", BLOCKED, &[]).await?;
        let dead_rows = self.read("check", DEAD_ROWS, &[(&MANY_DEAD, Type::INT8)]).await?;
        let oldest = self.read("check", OLDEST, &[]).await?;
        let prepared = self.read("check", PREPARED, &[]).await?;
        let replication = self.read("check", REPLICATION, &[]).await?;
        Ok(ServerCheck {
            clock_ahead: clock.since(after),
            clock_behind: before.since(clock),
            in_recovery: column(server, 1)?,
            vacuums: column(server, 2)?,
            not_vacuumed: column(server, 3)?,
            is_public: column(one(&rights)?, 0)?,
            missing_roles: column(one(&rights)?, 1)?,
            dead_rows: dead_rows.iter().map(dead_rows_of).collect::<Result<_>>()?,
            risky_settings: column(server, 4)?,
            behind_epochs: Duration::from_micros(column::<Option<i64>>(server, 5)?.unwrap_or(0).min(0).unsigned_abs()),
            unfrozen: column::<i32>(server, 6)?.unsigned_abs().into(),
            freezes_at: column::<i64>(server, 7)?.unsigned_abs(),
            connections: column::<i64>(server, 8)?.unsigned_abs(),
            max_connections: column::<i64>(server, 9)?.unsigned_abs(),
            notifies: notifies(self).await,
            blocked: blocked.iter().map(blocked_slot).collect::<Result<_>>()?,
            oldest: oldest.first().map(|row| open_transaction(row, 0)).transpose()?,
            prepared: prepared.iter().map(prepared_transaction).collect::<Result<_>>()?,
            replication: replication
                .iter()
                .map(|row| Ok((column(row, 0)?, column::<i32>(row, 1)?.unsigned_abs())))
                .collect::<Result<_>>()?,
        })
    }
}

fn blocked_slot(row: &Row) -> Result<BlockedSlot> {
    let (queue, consumer): (String, String) = (column(row, 0)?, column(row, 1)?);
    Ok(BlockedSlot {
        path: ConsumerPath::new(queue, consumer).map_err(|cause| damaged("consumer", cause))?,
        slot: column::<i32>(row, 2)?.unsigned_abs(),
        by: open_transaction(row, 3)?,
    })
}

fn dead_rows_of(row: &Row) -> Result<DeadRows> {
    let vacuumed = column::<Option<f64>>(row, 2)?.map(|age| Duration::try_from_secs_f64(age).unwrap_or_default());
    Ok(DeadRows { table: column(row, 0)?, rows: column::<i64>(row, 1)?.unsigned_abs(), vacuumed })
}

fn prepared_transaction(row: &Row) -> Result<PreparedTransaction> {
    let behind = column::<i32>(row, 2)?.unsigned_abs();
    Ok(PreparedTransaction { name: column(row, 0)?, age: seconds(row, 1)?, behind })
}

/// From six columns.
fn open_transaction(row: &Row, first: usize) -> Result<OpenTransaction> {
    Ok(OpenTransaction {
        pid: column(row, first)?,
        application: column::<Option<String>>(row, first + 1)?.unwrap_or_default(),
        state: column::<Option<String>>(row, first + 2)?.unwrap_or_default(),
        age: seconds(row, first + 3)?,
        query: column::<Option<String>>(row, first + 4)?.unwrap_or_default(),
        behind: column::<i32>(row, first + 5)?.unsigned_abs(),
    })
}

fn seconds(row: &Row, index: usize) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(column(row, index)?).unwrap_or_default())
}
