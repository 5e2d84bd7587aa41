//! Callers' own transactions: their tables and fencepost's, committed together.

use async_trait::async_trait;
use fencepost_core::{LeaseToken, Result};
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use crate::error::driver_error;
use crate::lease::GUARD;

/// Calls within a transaction of the caller's own connection to the database of the store.
///
/// A call that fails dooms the transaction, as every failed statement does on PostgreSQL: what the caller commits after it is rolled
/// back. Commit by [`Transaction::commit`], and read what the server says to it.
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
}

#[async_trait]
impl TransactionCalls for Transaction<'_> {
    async fn guard_in(&self, token: &LeaseToken) -> Result<()> {
        let (name, epoch) = (token.name.as_str(), token.epoch.get());
        let values: [_; 2] = [(&name as _, Type::TEXT), (&epoch as _, Type::INT8)];
        let guarded = self.execute_typed(GUARD, &values).await;
        guarded.map(drop).map_err(|error| driver_error(error).during("guard_lease"))
    }
}
