//! What is changed in a ledger by hand, decided from files and rows alone; the databases only write it.

use fencepost_core::{Error, Kind, Result};

use crate::file::Migration;
use crate::ledger::{Action, Entry, Record, State};
use crate::set::Migrations;

/// A change of a ledger that nothing but a person can decide. It is written down with its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repair {
    /// The database has what the edited file says: the file as it is now becomes what was applied.
    Accept {
        /// The migration.
        number: u64,
    },
    /// What a failed or interrupted file has left was removed by hand: it counts as never run.
    Forget {
        /// The migration.
        number: u64,
    },
    /// What a file would make was made by hand: it counts as applied.
    MarkDone {
        /// The migration.
        number: u64,
    },
}

/// What is written.
#[derive(Debug)]
pub(crate) struct Change<'m> {
    pub(crate) action: Action,
    pub(crate) number: u64,
    /// The row as it is to be; none: it goes.
    pub(crate) record: Option<Record<'m>>,
}

/// Decides a repair.
pub(crate) fn repaired<'m>(migrations: &'m Migrations, entries: &[Entry], repair: Repair) -> Result<Change<'m>> {
    let entry = |number| entries.iter().find(|entry| entry.number == number);
    match repair {
        Repair::Accept { number } => {
            let migration = file(migrations, number)?;
            let entry = entry(number).ok_or_else(|| no_row(number))?;
            if !entry.state.is_done() && entry.done > migration.statements.len() {
                return Err(refused(
                    number,
                    "more statements of it are done than the file has",
                    "forget it, or mark it done",
                ));
            }
            let done = if entry.state.is_done() { migration.statements.len() } else { entry.done };
            let record = Record { done, failed: entry.failed.clone(), ..Record::new(migration, entry.state) };
            Ok(Change { action: Action::Accepted, number, record: Some(record) })
        }
        Repair::Forget { number } => match entry(number) {
            None => Err(no_row(number)),
            Some(entry) if entry.state.is_done() => {
                Err(refused(number, "it is applied", "its way back is a file `NNNN_name.down.sql`"))
            }
            Some(_) => Ok(Change { action: Action::Forgotten, number, record: None }),
        },
        Repair::MarkDone { number } => {
            let migration = file(migrations, number)?;
            if entry(number).is_some_and(|entry| entry.state.is_done()) {
                return Err(refused(number, "it is applied", "accept the file, if it was edited"));
            }
            let record = Record::new(migration, State::Applied);
            Ok(Change { action: Action::Marked, number, record: Some(record) })
        }
    }
}

/// Decides a baseline: everything up to `number` was there before. Rows whose files are gone stay, and miss no file any more.
pub(crate) fn baseline<'m>(migrations: &'m Migrations, entries: &'m [Entry], number: u64) -> Result<Baseline<'m>> {
    let row = |number| entries.iter().find(|entry| entry.number == number);
    let files = migrations.up().iter().filter(|migration| migration.number <= number);
    let kept = |migration: &&Migration| {
        row(migration.number).is_some_and(|entry| matches!(entry.state, State::Applied | State::Imported))
    };
    let baselined: Vec<_> = files.filter(|migration| !kept(migration)).collect();
    let without_file: Vec<_> = entries
        .iter()
        .filter(|entry| entry.number <= number && migrations.up_of(entry.number).is_none())
        .map(|entry| entry.number)
        .collect();
    if baselined.is_empty() && without_file.is_empty() {
        return Err(Error::new(
            Kind::NotFound,
            format!("cannot baseline at {number}: there is nothing up to it that is not applied"),
        )
        .with("number", number)
        .hinted("name the number of the last file whose work the database has already"));
    }
    let records = baselined.into_iter().map(|migration| Record::new(migration, State::Baselined)).collect();
    Ok(Baseline { records, without_file })
}

/// What a baseline writes.
#[derive(Debug)]
pub(crate) struct Baseline<'m> {
    pub(crate) records: Vec<Record<'m>>,
    /// Rows that become baselined as they are.
    pub(crate) without_file: Vec<u64>,
}

impl Baseline<'_> {
    /// What it changes.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.records.iter().map(|record| record.migration.number).chain(self.without_file.iter().copied()).collect()
    }
}

/// Decides a way back: the files that lead below everything after `to`, the latest first.
pub(crate) fn down<'m>(migrations: &'m Migrations, entries: &[Entry], to: u64) -> Result<Vec<&'m Migration>> {
    let mut files = Vec::new();
    for entry in entries.iter().rev().filter(|entry| entry.number > to) {
        let number = entry.number;
        if !entry.state.is_done() {
            return Err(refused(
                number,
                "it is not applied as a whole",
                "run it to its end, or forget it, before anything is undone",
            ));
        }
        let file = migrations.down(number).ok_or_else(|| {
            Error::new(Kind::NotFound, format!("cannot undo migration {number}: no file leads back from it"))
                .coded("no_way_back")
                .with("number", number)
                .hinted(format!("write `{number:04}_{}.down.sql`", entry.name))
        })?;
        if file.options.no_transaction {
            return Err(Error::new(Kind::Unsupported, format!("cannot undo migration {number}: its way back is no transaction"))
                .with("number", number)
                .hinted("remove `no-transaction` from the file; what cannot be undone in a transaction is undone by a new migration"));
        }
        files.push(file);
    }
    Ok(files)
}

fn file(migrations: &Migrations, number: u64) -> Result<&Migration> {
    migrations.up_of(number).ok_or_else(|| {
        Error::new(Kind::NotFound, format!("cannot repair migration {number}: no file has that number"))
            .with("number", number)
    })
}

fn no_row(number: u64) -> Error {
    Error::new(Kind::NotFound, format!("cannot repair migration {number}: the ledger does not have it"))
        .with("number", number)
}

fn refused(number: u64, why: &str, hint: &'static str) -> Error {
    Error::new(Kind::Conflict, format!("cannot change migration {number}: {why}")).with("number", number).hinted(hint)
}
