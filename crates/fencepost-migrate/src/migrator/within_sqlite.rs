//! The migrator within a transaction of somebody else, on a file of SQLite.

use std::time::Instant;

use fencepost_core::{Reason, Result};
use rusqlite::Transaction;

use super::sqlite::write_baseline;
use super::{Done, Migrator, all_transactional, baseline};
use crate::ledger::sqlite::{SqliteLedger, read};
use crate::ledger::{Found, Record, State};
use crate::run::sqlite::run_within;

/// A transaction of which migrations are a part. Whoever began it holds the file's write lock (`BEGIN IMMEDIATE`).
#[derive(Debug)]
pub struct WithinSqlite<'a> {
    migrator: &'a Migrator,
    tx: &'a Transaction<'a>,
}

impl Migrator {
    /// Runs as a part of this transaction: what is done happens with its commit, or not at all. How the file stands within it tells
    /// [`Self::status_in`].
    pub fn within_sqlite<'a>(&'a self, tx: &'a Transaction<'a>) -> WithinSqlite<'a> {
        WithinSqlite { migrator: self, tx }
    }
}

impl WithinSqlite<'_> {
    /// Runs all that is missing.
    ///
    /// # Errors
    /// `unsupported` for a file that is no transaction, and nothing is run; otherwise as [`OnSqlite::up`](super::OnSqlite::up), and the
    /// transaction is to be rolled back.
    pub fn up(&self) -> Result<Done> {
        let (found, ledger) = self.open()?;
        let plan = self.migrator.steps(&found, None)?;
        all_transactional(&plan.steps)?;
        for step in &plan.steps {
            let since = Instant::now();
            run_within(self.tx, step.migration)?;
            let milliseconds = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            ledger.write(self.tx, &Record { milliseconds, ..Record::new(step.migration, State::Applied) })?;
        }
        let numbers = plan.steps.iter().map(|step| step.migration.number).collect();
        Ok(Done { numbers, findings: plan.findings })
    }

    /// Says that the file has everything up to a number already; the numbers that this changed.
    ///
    /// # Errors
    /// As [`OnSqlite::baseline`](super::OnSqlite::baseline).
    pub fn baseline(&self, number: u64, reason: &Reason) -> Result<Vec<u64>> {
        let (found, ledger) = self.open()?;
        let change = baseline(&self.migrator.migrations, found.entries(), number)?;
        write_baseline(self.tx, &ledger, change, reason)
    }

    fn open(&self) -> Result<(Found, SqliteLedger)> {
        let (found, name) = read(self.tx, &self.migrator.ledger)?;
        let ledger = SqliteLedger::new(name, self.migrator.runner.clone());
        if found == Found::Never {
            ledger.create(self.tx)?;
        }
        Ok((found, ledger))
    }
}
