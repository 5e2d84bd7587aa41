//! A file within the transaction of somebody else.

use fencepost_core::Result;
use tokio_postgres::Transaction;

use super::failure::Refused;
use crate::file::Migration;

/// Runs every statement of a file. What fails has aborted the transaction.
pub(crate) async fn run_within(tx: &Transaction<'_>, migration: &Migration) -> Result<()> {
    for (at, statement) in migration.statements.iter().enumerate() {
        if let Err(error) = tx.batch_execute(migration.text_of(statement)).await {
            return Err(Refused::new(at, error, Vec::new()).into_error(migration));
        }
    }
    Ok(())
}
