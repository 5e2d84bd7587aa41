//! Who blocks what is done under a lock, seen from another session than the lock's.

use async_trait::async_trait;
use fencepost_core::Result;

use super::{LeaseSession, MigrationLease, MigrationLock, Source};
use crate::progress::Blocker;
use crate::run::postgres::{Beside, Fence};

async fn blockers(source: &Source, pid: i32) -> Result<Vec<Blocker>> {
    let Some(session) = source.lend_another().await? else { return Ok(Vec::new()) };
    let found = session.client().blockers(pid).await?;
    session.give_back();
    Ok(found)
}

impl MigrationLock {
    /// A session that is not the lock's.
    pub(crate) async fn another(&self) -> Result<LeaseSession> {
        self.source.lend().await.map(LeaseSession)
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
    async fn check(&self, tx: &tokio_postgres::Transaction<'_>) -> Result<()> {
        Self::check(self, tx).await
    }
}
