//! What is to be known of the server when something is wrong: read, never changed. Who judges it is elsewhere.

use std::time::Duration;

use fencepost_core::{Clock, ConsumerPath, HostClock, Result, Timestamp};
use tokio_postgres::Row;

use crate::error::damaged;
use crate::listen::notifies;
use crate::store::{PostgresStore, column, one};
use crate::time::At;

const SERVER: &str = "select clock_timestamp(), pg_is_in_recovery(),
    current_setting('autovacuum')::boolean and current_setting('track_counts')::boolean,
    array(select c.oid::regclass::text from pg_class c
        where c.relnamespace = 'fencepost'::regnamespace and c.reloptions && '{autovacuum_enabled=false,autovacuum_enabled=off}'
        order by 1)";

/// Who may use the schema at all: everybody, or who was let in; and the roles of the cluster that are not there.
const RIGHTS: &str = "select
    exists (select from pg_namespace n cross join lateral aclexplode(n.nspacl) a where n.nspname = 'fencepost' and a.grantee = 0),
    array(select w from unnest(array['fencepost_admin', 'fencepost_consumer', 'fencepost_producer']) w
        where not exists (select from pg_roles r where r.rolname = w))";

const BLOCKED: &str = "select s.queue, s.consumer, s.slot, s.blocked_by, a.application_name, a.state,
        extract(epoch from clock_timestamp() - a.xact_start)::float8
    from fencepost._slot_status() s join pg_stat_activity a on a.pid = s.blocked_by
    where a.xact_start is not null";

/// Old snapshots and old transactions alike: both keep what was deleted since.
const OLDEST: &str = "select pid, application_name, state, extract(epoch from clock_timestamp() - xact_start)::float8
    from pg_stat_activity
    where (backend_xmin is not null or backend_xid is not null) and xact_start is not null and pid <> pg_backend_pid()
        and backend_type = 'client backend' and (datname = current_database() or datname is null)
    order by xact_start limit 1";

const PREPARED: &str = "select gid, extract(epoch from clock_timestamp() - prepared)::float8
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
    /// Notifications arrive; behind a pooler in transaction mode none does.
    pub notifies: bool,
    /// Slots that an open transaction has locked.
    pub blocked: Vec<BlockedSlot>,
    /// The open transaction of the database that began first.
    pub oldest: Option<OpenTransaction>,
    /// Transactions that were prepared and neither committed nor rolled back, with their ages.
    pub prepared: Vec<(String, Duration)>,
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
}

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
            notifies: notifies(self).await,
            blocked: blocked.iter().map(blocked_slot).collect::<Result<_>>()?,
            oldest: oldest.first().map(|row| open_transaction(row, 0)).transpose()?,
            prepared: prepared.iter().map(|row| Ok((column(row, 0)?, seconds(row, 1)?))).collect::<Result<_>>()?,
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

/// From four columns.
fn open_transaction(row: &Row, first: usize) -> Result<OpenTransaction> {
    Ok(OpenTransaction {
        pid: column(row, first)?,
        application: column::<Option<String>>(row, first + 1)?.unwrap_or_default(),
        state: column::<Option<String>>(row, first + 2)?.unwrap_or_default(),
        age: seconds(row, first + 3)?,
    })
}

fn seconds(row: &Row, index: usize) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(column(row, index)?).unwrap_or_default())
}
