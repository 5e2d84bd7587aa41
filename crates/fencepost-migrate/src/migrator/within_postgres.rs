//! The migrator within a transaction of somebody else, on PostgreSQL.

use std::time::Instant;

use fencepost_core::{Reason, Result};
use tokio_postgres::Transaction;

use super::postgres::write_baseline;
use super::{Done, Migrator, Status, all_transactional, baseline};
use crate::ledger::postgres::{PostgresLedger, absent, read};
use crate::ledger::{Found, Record, State};
use crate::run::postgres::run_within;

/// A transaction of which migrations are a part.
///
/// Whoever began it has taken what keeps other runners out until it ends, such as `pg_advisory_xact_lock`, and has set its timeouts and
/// its search path. That holds behind a pooler in transaction mode as well.
pub struct WithinPostgres<'a> {
    migrator: &'a Migrator,
    tx: &'a Transaction<'a>,
}

impl Migrator {
    /// Runs as a part of this transaction: what is done happens with its commit, or not at all.
    pub fn within_postgres<'a>(&'a self, tx: &'a Transaction<'a>) -> WithinPostgres<'a> {
        WithinPostgres { migrator: self, tx }
    }
}

impl WithinPostgres<'_> {
    /// How the database stands, seen from the transaction.
    ///
    /// # Errors
    /// As [`Migrator::status_of`].
    pub async fn status(&self) -> Result<Status> {
        Ok(self.migrator.status(self.found().await?.0))
    }

    /// Runs all that is missing.
    ///
    /// # Errors
    /// `unsupported` for a file that is no transaction, and nothing is run; otherwise as [`OnPostgres::up`](super::OnPostgres::up), and
    /// the transaction is aborted.
    pub async fn up(&self) -> Result<Done> {
        let (found, ledger) = self.open().await?;
        let plan = self.migrator.steps(&found, None)?;
        all_transactional(&plan.steps)?;
        for step in &plan.steps {
            let since = Instant::now();
            run_within(self.tx, step.migration).await?;
            let milliseconds = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            let applied = Record { milliseconds, ..Record::new(step.migration, State::Applied) };
            ledger.write(self.tx, &applied).await?;
        }
        let numbers = plan.steps.iter().map(|step| step.migration.number).collect();
        Ok(Done { numbers, findings: plan.findings })
    }

    /// Says that the database has everything up to a number already; the numbers that this changed.
    ///
    /// # Errors
    /// As [`OnPostgres::baseline`](super::OnPostgres::baseline).
    pub async fn baseline(&self, number: u64, reason: &Reason) -> Result<Vec<u64>> {
        let (found, ledger) = self.open().await?;
        let change = baseline(&self.migrator.migrations, found.entries(), number)?;
        write_baseline(self.tx, &ledger, change, reason).await
    }

    async fn found(&self) -> Result<(Found, PostgresLedger)> {
        let name = &self.migrator.ledger;
        // ORDER: asked for by name first: a table that is not there would end the transaction.
        let (found, name) = match absent(self.tx.client(), name).await? {
            Some(absent) => absent,
            None => read(self.tx.client(), name).await?,
        };
        Ok((found, PostgresLedger::new(name, self.migrator.runner.clone())))
    }

    async fn open(&self) -> Result<(Found, PostgresLedger)> {
        let (found, ledger) = self.found().await?;
        if found == Found::Never {
            ledger.create(self.tx).await?;
        }
        Ok((found, ledger))
    }
}
