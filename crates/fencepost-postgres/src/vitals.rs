//! What a status shows of the server: read in one statement, and judged nowhere.

use fencepost_core::Result;

use crate::listen::notifies;
use crate::store::{PostgresStore, column, one};

const VITALS: &str = "select pg_is_in_recovery(),
    coalesce((select sum(pg_total_relation_size(c.oid)) from pg_class c
        where c.relnamespace = to_regnamespace('fencepost') and c.relkind = 'r'), 0)::bigint,
    (select count(*) from pg_stat_activity a where a.backend_type = 'client backend'),
    current_setting('max_connections')::bigint";

/// How a store's server is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerVitals {
    /// It follows another one and takes no writes.
    pub in_recovery: bool,
    /// What the tables and indexes of the store take on its disk.
    pub bytes: u64,
    /// Connections of clients, of all databases.
    pub connections: u64,
    /// As many as there may be.
    pub max_connections: u64,
    /// Notifications arrive: sleepers wake at once. Otherwise they look by themselves.
    pub notifies: bool,
}

impl PostgresStore {
    /// How the server is doing.
    ///
    /// # Errors
    /// `unavailable`.
    pub async fn vitals(&self) -> Result<ServerVitals> {
        let rows = self.read("vitals", VITALS, &[]).await?;
        let row = one(&rows)?;
        let count = |index| Ok(column::<i64>(row, index)?.unsigned_abs());
        Ok(ServerVitals {
            in_recovery: column(row, 0)?,
            bytes: count(1)?,
            connections: count(2)?,
            max_connections: count(3)?,
            notifies: notifies(self).await,
        })
    }
}
