//! Who blocks a statement, seen from a second connection while it waits: afterwards nobody can tell.

use std::time::Duration;

use async_trait::async_trait;
use fencepost_core::Result;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::server::failed;
use crate::progress::Blocker;

/// A look may take this long; then it is given up, as it is for people alone.
const LOOK: Duration = Duration::from_secs(2);

/// How a runner looks at its own session from beside it.
#[async_trait]
pub trait Beside: Send + Sync {
    /// Whom process `pid` of the server waits for.
    ///
    /// # Errors
    /// When the server cannot be asked; the run goes on without knowing.
    async fn blockers(&self, pid: i32) -> Result<Vec<Blocker>>;
}

#[async_trait]
impl Beside for Client {
    async fn blockers(&self, pid: i32) -> Result<Vec<Blocker>> {
        let sql = include_str!("../../../sql/postgres/blockers.sql");
        let rows = self.query_typed(sql, &[(&pid, Type::INT4)]).await;
        let rows = rows.map_err(|error| failed("cannot see who blocks", error))?;
        let blocker = |row: &tokio_postgres::Row| Blocker {
            pid: row.get("pid"),
            role: row.get("role"),
            application: row.get("application"),
            state: row.get("state"),
            query: row.get("query"),
            open_for: Duration::from_millis(row.get::<_, i64>("open_for").unsigned_abs()),
        };
        Ok(rows.iter().map(blocker).collect())
    }
}

/// Looks after `pause`. What fails finds nobody.
pub(super) async fn look(beside: Option<&dyn Beside>, pid: i32, pause: Duration) -> Vec<Blocker> {
    let Some(beside) = beside else { return std::future::pending().await };
    sleep(pause).await;
    match timeout(LOOK, beside.blockers(pid)).await {
        Ok(Ok(found)) => found,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// How long after the last look the next one is: several before a lock is given up.
pub(super) fn pause(lock_timeout: Duration) -> Duration {
    (lock_timeout / 4).clamp(Duration::from_millis(20), Duration::from_secs(1))
}
