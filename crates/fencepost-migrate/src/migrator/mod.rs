//! What is done with a set of migrations on a database, whatever database it is.

mod change;
#[cfg(feature = "postgres")]
mod locked;
#[cfg(feature = "sqlite")]
mod locked_sqlite;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "postgres")]
mod within_postgres;
#[cfg(feature = "sqlite")]
mod within_sqlite;

use fencepost_core::{Error, Kind, Result};

use crate::ledger::{Entry, Found, LedgerName, this_process};
use crate::plan::{Finding, Plan, Step};
use crate::run::RunOptions;
use crate::set::Migrations;

pub use change::Repair;
pub(crate) use change::{Baseline, Change, baseline, down, repaired};
#[cfg(feature = "postgres")]
pub use locked::{LockMode, PostgresMigrator};
#[cfg(feature = "sqlite")]
pub use locked_sqlite::SqliteMigrator;
#[cfg(feature = "postgres")]
pub use postgres::OnPostgres;
#[cfg(feature = "sqlite")]
pub use sqlite::OnSqlite;
#[cfg(feature = "postgres")]
pub use within_postgres::WithinPostgres;
#[cfg(feature = "sqlite")]
pub use within_sqlite::WithinSqlite;

/// A set of migrations, the ledger in which they are recorded, and how they are run.
#[derive(Debug, Clone)]
pub struct Migrator {
    pub(crate) migrations: Migrations,
    pub(crate) ledger: LedgerName,
    pub(crate) options: RunOptions,
    pub(crate) runner: String,
}

impl Migrator {
    /// With the ledger `fencepost_migrations` and the default options.
    pub fn new(migrations: Migrations) -> Self {
        Self { migrations, ledger: LedgerName::default(), options: RunOptions::default(), runner: this_process() }
    }

    /// Records in another ledger.
    #[must_use]
    pub fn ledger(mut self, name: LedgerName) -> Self {
        self.ledger = name;
        self
    }

    /// Runs in another way.
    #[must_use]
    pub fn options(mut self, options: RunOptions) -> Self {
        self.options = options;
        self
    }

    /// The migrations.
    pub fn migrations(&self) -> &Migrations {
        &self.migrations
    }

    /// What a way back to a number would undo of what a status tells, the latest first.
    ///
    /// # Errors
    /// As a way back itself: `no_way_back` when a file is missing, `conflict` when one is not applied as a whole, `never_applied`.
    pub fn way_back(&self, status: &Status, to: u64) -> Result<Vec<u64>> {
        if !status.exists {
            return Err(never());
        }
        Ok(down(&self.migrations, &status.entries, to)?.into_iter().map(|migration| migration.number).collect())
    }

    fn status(&self, found: Found) -> Status {
        let plan = Plan::of(&self.migrations, found.entries());
        let pending = plan.steps.iter().map(|step| step.migration.number).collect();
        let findings = plan.findings;
        match found {
            Found::Never => Status { exists: false, entries: Vec::new(), pending, findings },
            Found::There(entries) => Status { exists: true, entries, pending, findings },
        }
    }

    fn verify(&self, found: &Found) -> Result<Vec<Finding>> {
        if *found == Found::Never {
            return Err(never());
        }
        let plan = Plan::of(&self.migrations, found.entries());
        plan.judge_for("the ledger and the migrations do not agree")?;
        Ok(plan.findings)
    }

    /// What is to be run, when nothing forbids it.
    fn steps(&self, found: &Found, to: Option<u64>) -> Result<Plan<'_>> {
        let plan = Plan::of(&self.migrations, found.entries());
        plan.judge()?;
        match to {
            Some(number) => plan.up_to(&self.migrations, number),
            None => Ok(plan),
        }
    }
}

/// Refuses what a transaction of somebody else cannot hold.
fn all_transactional(steps: &[Step<'_>]) -> Result<()> {
    match steps.iter().find(|step| step.migration.options.no_transaction) {
        None => Ok(()),
        Some(Step { migration, .. }) => Err(Error::new(
            Kind::Unsupported,
            format!("cannot run migration {} within a transaction: it asks for none", migration.number),
        )
        .with("number", migration.number)
        .hinted("remove `no-transaction` from the file, or run it on a connection of its own")),
    }
}

fn never() -> Error {
    Error::new(Kind::NotFound, "cannot find a ledger: no migration was ever applied")
        .coded("never_applied")
        .hinted("run them first")
}

/// How a database stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Whether there is a ledger: whether anything was ever applied.
    pub exists: bool,
    /// Its rows, by number.
    pub entries: Vec<Entry>,
    /// The numbers of the migrations that are to be run.
    pub pending: Vec<u64>,
    /// What files and ledger do not agree on.
    pub findings: Vec<Finding>,
}

/// What a run has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The numbers of the migrations that were run, in order.
    pub numbers: Vec<u64>,
    /// What is worth a look, and forbids nothing.
    pub findings: Vec<Finding>,
}
