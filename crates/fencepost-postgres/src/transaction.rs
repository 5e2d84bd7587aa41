//! Callers' own transactions: their tables and fencepost's, committed together.

use async_trait::async_trait;
use fencepost_core::{LeaseToken, Result};
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use crate::error::{Effect, call_error, driver_error};
use crate::lease::GUARD;

/// Calls within a transaction of the caller's own connection to the database of the store.
///
/// A call that fails dooms the transaction, as every failed statement does on PostgreSQL: it can only be rolled back. The driver's own
/// [`Transaction::commit`] reports success even then, as the server rolls back without an error; [`TransactionCalls::commit_whole`]
/// does not.
#[async_trait]
pub trait TransactionCalls {
    /// Makes this transaction valid only under a lease: nobody else is granted the lease before it ends, and it is refused when
    /// somebody else was already. An expired lease that nobody took over passes. Renewals go on meanwhile.
    ///
    /// Valid at every isolation level. The server ends the transaction when it idles past the end of the grant as it stands now, at
    /// least 1 s.
    ///
    /// # Errors
    /// `fenced`: roll back; `busy` with code `serialization_failure` when the transaction's snapshot is older than the last grant:
    /// run it again from its beginning.
    async fn guard_in(&self, token: &LeaseToken) -> Result<()>;

    /// Commits, and fails when an earlier statement of the transaction had failed, so that nothing of it was stored.
    ///
    /// # Errors
    /// `conflict` with code `transaction_aborted`: nothing was stored; `unknown_outcome` when the connection was lost before the
    /// server answered; `busy` with code `serialization_failure`.
    async fn commit_whole(self) -> Result<()>;
}

#[async_trait]
impl TransactionCalls for Transaction<'_> {
    async fn guard_in(&self, token: &LeaseToken) -> Result<()> {
        let (name, epoch) = (token.name.as_str(), token.epoch.get());
        let values: [_; 2] = [(&name as _, Type::TEXT), (&epoch as _, Type::INT8)];
        let guarded = self.execute_typed(GUARD, &values).await;
        guarded.map(drop).map_err(|error| driver_error(error).during("guard_lease"))
    }

    async fn commit_whole(self) -> Result<()> {
        // In an aborted transaction every statement fails but the one that ends it.
        self.execute_typed("select", &[]).await.map_err(|error| driver_error(error).during("commit"))?;
        self.commit().await.map_err(|error| call_error(error, Effect::Write).during("commit"))
    }
}
