//! What a write under a lease presents.

use std::fmt;
use std::sync::Arc;

use fencepost_core::{Epoch, Error, Kind, Result};
use tokio_postgres::Transaction;

use super::Origin;
use super::table::Table;

/// One grant of a lease, to be checked in every transaction that writes under it.
#[derive(Clone)]
pub struct LeaseFence {
    pub(super) origin: Arc<Origin>,
    pub(super) table: Arc<Table>,
    pub(super) epoch: Epoch,
}

impl LeaseFence {
    /// The epoch of the grant.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Binds a transaction to the grant: while it is open nobody else is granted the lease, and the server ends it when it idles past the
    /// grant's end (at least 1 s). Renewals go on.
    ///
    /// # Errors
    /// `fenced` when somebody else was granted the lease, or it was given back; then roll back. `unavailable` when the connection is lost.
    pub async fn check(&self, transaction: &Transaction<'_>) -> Result<()> {
        if self.table.guard(transaction, &self.origin, self.epoch).await? {
            return Ok(());
        }
        Err(Error::new(Kind::Fenced, format!("the lease `{}` is another runner's by now", self.origin.name.as_str()))
            .with("lease", self.origin.name.as_str())
            .with("presented_epoch", self.epoch.get())
            .hinted("nothing of this transaction was recorded; run the migrations again"))
    }
}

impl fmt::Debug for LeaseFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseFence").field("lease", &self.origin.name).field("epoch", &self.epoch).finish()
    }
}
