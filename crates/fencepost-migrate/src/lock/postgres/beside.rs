//! What a runner asks of the lock that it works under: who blocks it, seen from another session, and whether it still holds it.

use async_trait::async_trait;
use fencepost_core::{Error, Kind, Result};
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::call::{self, column};
use super::source::Notices;
use super::{LeaseSession, LockKey, MigrationLease, MigrationLock, Source};
use crate::progress::Blocker;
use crate::run::postgres::{Beside, Fence};

async fn blockers(source: &Source, pid: i32) -> Result<Vec<Blocker>> {
    let Some(session) = source.lend_another().await? else { return Ok(Vec::new()) };
    let found = session.client().blockers(pid).await?;
    session.give_back();
    Ok(found)
}

impl MigrationLock {
    /// What the server says beside its answers.
    pub(crate) fn notices(&self) -> Option<Notices> {
        self.source.notices()
    }

    /// A session that is not the lock's.
    pub(crate) async fn another(&self) -> Result<LeaseSession> {
        self.source.lend().await.map(LeaseSession)
    }
}

impl MigrationLease {
    /// What the server says beside its answers.
    pub(crate) fn notices(&self) -> Option<Notices> {
        self.source().notices()
    }
}

#[async_trait]
impl Beside for MigrationLock {
    async fn blockers(&self, pid: i32) -> Result<Vec<Blocker>> {
        blockers(&self.source, pid).await
    }
}

#[async_trait]
impl Beside for MigrationLease {
    async fn blockers(&self, pid: i32) -> Result<Vec<Blocker>> {
        blockers(self.source(), pid).await
    }
}

#[async_trait]
impl Fence for super::LeaseFence {
    async fn check(&self, tx: &Transaction<'_>) -> Result<()> {
        Self::check(self, tx).await
    }
}

/// Finds an advisory lock gone whose session is there: what was run on it may have freed it.
#[derive(Debug)]
pub(crate) struct SessionFence(LockKey);

impl MigrationLock {
    /// What refuses the writes of a session that does not hold the lock any more.
    pub(crate) fn fence(&self) -> SessionFence {
        SessionFence(self.key)
    }
}

#[async_trait]
impl Fence for SessionFence {
    async fn check(&self, tx: &Transaction<'_>) -> Result<()> {
        let sql = include_str!("../../../sql/lock/is_held.sql");
        let row = call::row(tx.client(), sql, &[(&self.0.as_i64(), Type::INT8)]).await?;
        if column(&row, "is_held")? {
            return Ok(());
        }
        Err(Error::new(Kind::Fenced, "cannot write the ledger: the session does not hold the migration lock any more")
            .coded("lock_lost")
            .hinted("`DISCARD ALL` and `pg_advisory_unlock_all()` in a migration free it: take them out"))
    }
}
