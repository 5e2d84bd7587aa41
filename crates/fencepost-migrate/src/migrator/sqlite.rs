//! The migrator on a connection to a file of SQLite.

use std::time::Duration;

use fencepost_core::{Reason, Result};
use rusqlite::{Connection, Transaction};

use super::{Baseline, Change, Done, Migrator, Repair, Status, baseline, down, repaired};
use crate::gate::Readiness;
use crate::import::{Imported, Source};
use crate::ledger::sqlite::{SqliteLedger, failed, read};
use crate::ledger::{Action, Found};
use crate::plan::{Because, Finding, Plan, Step};
use crate::progress::{Event, Listener};
use crate::run::sqlite::{Runner, begin};
use crate::wait::Pauses;

/// A connection on which migrations are run. Whoever has it holds the lock, or is alone with the file.
pub struct OnSqlite<'a> {
    migrator: &'a Migrator,
    connection: &'a mut Connection,
    listener: Listener<'a>,
}

impl Migrator {
    /// Runs on this connection. The caller sees to it that nobody else does meanwhile.
    pub fn on_sqlite<'a>(&'a self, connection: &'a mut Connection, listener: Listener<'a>) -> OnSqlite<'a> {
        OnSqlite { migrator: self, connection, listener }
    }

    /// How the database stands. Changes nothing.
    ///
    /// # Errors
    /// When the ledger cannot be read: `ledger_newer`, `ledger_damaged`, or what SQLite says.
    pub fn status_in(&self, connection: &Connection) -> Result<Status> {
        Ok(self.status(read(connection, &self.ledger)?.0))
    }

    /// Whether what was applied is what the files say; what is worth a look. Changes nothing.
    ///
    /// # Errors
    /// `never_applied` when there is no ledger; of kind `schema`, with the code of the first refusal, when something does not agree.
    pub fn verify_in(&self, connection: &Connection) -> Result<Vec<Finding>> {
        self.verify(&read(connection, &self.ledger)?.0)
    }

    /// What a run would do. Changes nothing.
    ///
    /// # Errors
    /// As [`Migrator::status_in`]; `invalid_input` when no file has the number.
    pub fn plan_in(&self, connection: &Connection, to: Option<u64>) -> Result<Plan<'_>> {
        let plan = Plan::of(&self.migrations, read(connection, &self.ledger)?.0.entries());
        match to {
            Some(number) => plan.up_to(&self.migrations, number),
            None => Ok(plan),
        }
    }

    /// Whether the database is ready. Changes nothing, and waits for nobody in a file in WAL mode.
    ///
    /// # Errors
    /// As [`Migrator::status_in`]; `busy` when somebody writes to a file that is not in WAL mode.
    pub fn ready_in(&self, connection: &Connection) -> Result<Readiness> {
        Ok(match read(connection, &self.ledger)?.0 {
            Found::Never => Readiness::of(&self.migrations, None),
            Found::There(entries) => Readiness::of(&self.migrations, Some(&entries)),
        })
    }

    /// Asks until the database is ready, somebody has to look, or `within` is over; the last answer. Zero asks once.
    ///
    /// # Errors
    /// The last error when none of the answers came.
    pub fn wait_in(&self, connection: &Connection, within: Duration) -> Result<Readiness> {
        let mut pauses = Pauses::within(within);
        loop {
            let answer = self.ready_in(connection);
            match pauses.after(&answer)? {
                Some(pause) => std::thread::sleep(pause),
                None => return answer,
            }
        }
    }
}

impl OnSqlite<'_> {
    /// Runs what is missing, up to a number or all of it.
    ///
    /// # Errors
    /// `migration_failed` when a statement fails: its source is a [`MigrationFailure`](crate::MigrationFailure); `lock_timeout` when
    /// somebody else went on writing; of kind `schema` when files and ledger do not agree, and nothing is run; what SQLite says.
    pub fn up(&mut self, to: Option<u64>) -> Result<Done> {
        let (found, ledger) = self.open()?;
        let plan = self.migrator.steps(&found, to)?;
        let left = |step: &Step<'_>| step.migration.statements.len() - step.done;
        let statements = plan.steps.iter().map(left).sum();
        (self.listener)(Event::Planned { files: plan.steps.len(), statements });
        self.run(&ledger, &plan.steps)?;
        let numbers = plan.steps.iter().map(|step| step.migration.number).collect();
        Ok(Done { numbers, findings: plan.findings })
    }

    /// Undoes everything after a number, the latest first, by the files that lead back.
    ///
    /// # Errors
    /// `no_way_back` when a file is missing, and nothing is undone; otherwise as [`Self::up`].
    pub fn down(&mut self, to: u64) -> Result<Done> {
        let (found, ledger) = self.there()?;
        let files = down(&self.migrator.migrations, found.entries(), to)?;
        let steps: Vec<_> =
            files.into_iter().map(|migration| Step { migration, done: 0, because: Because::Pending }).collect();
        self.run(&ledger, &steps)?;
        Ok(Done { numbers: steps.iter().map(|step| step.migration.number).collect(), findings: Vec::new() })
    }

    /// Says that the database has everything up to a number already; the numbers that this changed.
    ///
    /// # Errors
    /// `not_found` when there is nothing up to it that is not applied.
    pub fn baseline(&mut self, number: u64, reason: &Reason) -> Result<Vec<u64>> {
        let (found, ledger) = self.open()?;
        let change = baseline(&self.migrator.migrations, found.entries(), number)?;
        let tx = begun(self.connection)?;
        let changed = write_baseline(&tx, &ledger, change, reason)?;
        commit(tx)?;
        Ok(changed)
    }

    /// Changes the ledger by hand, and writes down why.
    ///
    /// # Errors
    /// `not_found` when file or row is missing, `conflict` when the row is not what the repair is for.
    pub fn repair(&mut self, repair: Repair, reason: &Reason) -> Result<()> {
        let (found, ledger) = self.there()?;
        let Change { action, number, record } = repaired(&self.migrator.migrations, found.entries(), repair)?;
        let tx = begun(self.connection)?;
        ledger.remember(&tx, action, Some(number), Some(reason.as_str()))?;
        match &record {
            Some(record) => ledger.mark(&tx, record)?,
            None => ledger.remove(&tx, number)?,
        }
        commit(tx)
    }

    /// Takes over what the ledger of another tool says, and runs nothing.
    ///
    /// # Errors
    /// `not_found` when there is no such ledger, `conflict` when it is dirty or ours has rows already, of kind `schema` when a
    /// file is missing of what it says.
    pub fn import(&mut self, source: Source) -> Result<Imported> {
        let rows = crate::import::sqlite::read(self.connection, &self.migrator.migrations, source)?;
        let (found, _) = read(self.connection, &self.migrator.ledger)?;
        let (records, imported) = crate::import::matched(&self.migrator.migrations, found.entries(), source, &rows)?;
        let (_, ledger) = self.open()?;
        let tx = begun(self.connection)?;
        for record in &records {
            ledger.remember(&tx, Action::Imported, Some(record.migration.number), Some(source.table()))?;
            ledger.mark(&tx, record)?;
        }
        commit(tx)?;
        Ok(imported)
    }

    fn run(&mut self, ledger: &SqliteLedger, steps: &[Step<'_>]) -> Result<()> {
        let mut runner = Runner { ledger, options: &self.migrator.options, listener: self.listener };
        runner.run(self.connection, steps)
    }

    /// The ledger that is there.
    fn there(&mut self) -> Result<(Found, SqliteLedger)> {
        match read(self.connection, &self.migrator.ledger)? {
            (Found::Never, _) => Err(super::never()),
            (found, name) => Ok((found, SqliteLedger::new(name, self.migrator.runner.clone()))),
        }
    }

    /// The ledger, which is made when there is none.
    fn open(&mut self) -> Result<(Found, SqliteLedger)> {
        let (found, name) = read(self.connection, &self.migrator.ledger)?;
        let ledger = SqliteLedger::new(name, self.migrator.runner.clone());
        if found == Found::Never {
            let tx = begun(self.connection)?;
            ledger.create(&tx)?;
            commit(tx)?;
        }
        Ok((found, ledger))
    }
}

/// Writes a baseline; the numbers that this changes.
pub(super) fn write_baseline(
    tx: &Transaction<'_>,
    ledger: &SqliteLedger,
    change: Baseline<'_>,
    reason: &Reason,
) -> Result<Vec<u64>> {
    for record in &change.records {
        ledger.remember(tx, Action::Baselined, Some(record.migration.number), Some(reason.as_str()))?;
        ledger.mark(tx, record)?;
    }
    for number in &change.without_file {
        ledger.remember(tx, Action::Baselined, Some(*number), Some(reason.as_str()))?;
        ledger.keep(tx, *number)?;
    }
    Ok(change.numbers())
}

fn begun(connection: &mut Connection) -> Result<Transaction<'_>> {
    begin(connection).map_err(|error| failed("cannot begin", error))
}

fn commit(tx: Transaction<'_>) -> Result<()> {
    tx.commit().map_err(|error| failed("cannot commit", error))
}
