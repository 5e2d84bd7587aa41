//! What is to be done, and what is wrong, when files and ledger are laid side by side. Pure: no database is asked, nothing changes.

use fencepost_core::{Error, Kind, Result};

use crate::diagnostic::{Diagnostic, Problems};
use crate::file::Migration;
use crate::hash::Changed;
use crate::ledger::{Entry, State};
use crate::set::Migrations;

/// Why a migration is to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Because {
    /// It never was.
    Pending,
    /// One of its statements failed.
    Failed,
    /// Who ran it is gone before its end.
    Interrupted,
}

/// A migration that is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<'m> {
    /// Which.
    pub migration: &'m Migration,
    /// How many of its statements are done already.
    pub done: usize,
    /// Why.
    pub because: Because,
}

/// Something that files and ledger do not agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// A file was edited since it was applied.
    Edited {
        /// Of which migration.
        number: u64,
        /// The file.
        file: String,
        /// What of it.
        changed: Changed,
    },
    /// Statements of a file that are done already were edited, and the file is not.
    DoneEdited {
        /// Of which migration.
        number: u64,
        /// The file.
        file: String,
        /// How many are done.
        done: usize,
    },
    /// A migration was applied whose file is not there.
    FileMissing {
        /// Its number.
        number: u64,
        /// Its name.
        name: String,
    },
    /// A file appeared after a later one was applied.
    Late {
        /// Its number.
        number: u64,
        /// The file.
        file: String,
        /// The latest that was applied.
        latest: u64,
    },
    /// The database has a migration that is later than every file.
    Ahead {
        /// Its number.
        number: u64,
        /// Its name.
        name: String,
    },
}

impl Finding {
    /// Whether nothing may be run before it is settled. The others are worth a look.
    pub fn is_refusal(&self) -> bool {
        !matches!(self, Self::Edited { changed: Changed::Nothing | Changed::Blanks | Changed::Comments, .. })
    }

    /// As a problem of a file.
    pub fn diagnostic(&self) -> Diagnostic {
        match self {
            Self::Edited { number, file, changed } => {
                let (message, hint) = match changed {
                    Changed::Statements => (
                        format!("migration {number} was edited since it was applied"),
                        "undo the edit and write a new migration; if the database has what the file says now, accept it with `repair`",
                    ),
                    Changed::Comments => (
                        format!("comments of migration {number} were edited since it was applied"),
                        "nothing has to be done",
                    ),
                    Changed::Blanks | Changed::Nothing => (
                        format!("blanks of migration {number} were edited since it was applied"),
                        "nothing has to be done",
                    ),
                };
                Diagnostic::of_file("migration_edited", message, file, hint)
            }
            Self::DoneEdited { number, file, done } => Diagnostic::of_file(
                "migration_edited",
                format!(
                    "the first {done} statements of migration {number} are done, and one of them, or `no-transaction`, was edited"
                ),
                file,
                "undo the edit of what is done; what comes after may be edited until it succeeds",
            ),
            Self::FileMissing { number, name } => Diagnostic::of_file(
                "file_missing",
                format!("the ledger has migration {number}, and its file is not there"),
                format!("{number:04}_{name}.sql"),
                "bring the file back; `repair forget` lets go one that failed, a baseline at this number or a later one any other",
            ),
            Self::Late { number, file, latest } => Diagnostic::of_file(
                "out_of_order",
                format!("migration {number} appeared after {latest} was applied"),
                file,
                "give it a number after the latest, or let it be late with `-- fencepost: out-of-order` at its beginning",
            ),
            Self::Ahead { number, name } => Diagnostic::of_file(
                "ahead",
                format!("the database has migration {number}, which is later than every file"),
                format!("{number:04}_{name}.sql"),
                "a later version of the program was here; use that one, or its files",
            ),
        }
    }
}

/// What is to be done on a database, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan<'m> {
    /// What is to be run, in order.
    pub steps: Vec<Step<'m>>,
    /// What does not agree, by number.
    pub findings: Vec<Finding>,
}

impl<'m> Plan<'m> {
    /// Lays files and ledger side by side.
    pub fn of(migrations: &'m Migrations, entries: &[Entry]) -> Self {
        let latest = entries.iter().map(|entry| entry.number).max();
        let newest = migrations.up().last().map_or(0, |migration| migration.number);
        let (mut steps, mut findings) = (Vec::new(), Vec::new());
        for migration in migrations.up() {
            match entries.iter().find(|entry| entry.number == migration.number) {
                Some(entry) if entry.state.is_done() => findings.extend(edited(migration, entry)),
                Some(entry) => {
                    findings.extend(done_edited(migration, entry));
                    let because = if entry.state == State::Failed { Because::Failed } else { Because::Interrupted };
                    steps.push(Step { migration, done: entry.done, because });
                }
                None => {
                    if let Some(latest) = latest.filter(|latest| *latest > migration.number)
                        && !migration.options.out_of_order
                    {
                        let (number, file) = (migration.number, migration.file.clone());
                        findings.push(Finding::Late { number, file, latest });
                    }
                    steps.push(Step { migration, done: 0, because: Because::Pending });
                }
            }
        }
        for entry in entries.iter().filter(|entry| migrations.up_of(entry.number).is_none()) {
            let (number, name) = (entry.number, entry.name.clone());
            match entry.state {
                _ if number > newest && entry.state.is_done() => findings.push(Finding::Ahead { number, name }),
                State::Baselined => {}
                _ => findings.push(Finding::FileMissing { number, name }),
            }
        }
        findings.sort_by_key(Finding::number);
        Self { steps, findings }
    }

    /// The same without what comes after `number`.
    ///
    /// # Errors
    /// `invalid_input` when no file has it.
    pub fn up_to(mut self, migrations: &Migrations, number: u64) -> Result<Self> {
        if migrations.up_of(number).is_none() {
            return Err(Error::invalid(
                format!("cannot go up to migration {number}: no file has that number"),
                "name the number of a file",
            )
            .with("argument", "to"));
        }
        self.steps.retain(|step| step.migration.number <= number);
        Ok(self)
    }

    /// Whether everything may be run that is to be.
    ///
    /// # Errors
    /// Of kind `schema`, with the code of the first finding that forbids it; its source is [`Problems`], with all of them.
    pub fn judge(&self) -> Result<()> {
        self.judge_for("cannot run the migrations")
    }

    pub(crate) fn judge_for(&self, attempted: &str) -> Result<()> {
        let refusals = self.findings.iter().filter(|finding| finding.is_refusal());
        let Some(problems) = Problems::new(refusals.map(Finding::diagnostic).collect()) else { return Ok(()) };
        Err(problems.refuse(Kind::Schema, attempted))
    }
}

impl Finding {
    /// The number of the migration that it is about.
    pub fn number(&self) -> u64 {
        match self {
            Self::Edited { number, .. }
            | Self::DoneEdited { number, .. }
            | Self::FileMissing { number, .. }
            | Self::Late { number, .. }
            | Self::Ahead { number, .. } => *number,
        }
    }
}

fn edited(migration: &Migration, entry: &Entry) -> Option<Finding> {
    let changed = migration.hashes.since(&entry.hashes);
    let (number, file) = (migration.number, migration.file.clone());
    (changed != Changed::Nothing).then_some(Finding::Edited { number, file, changed })
}

fn done_edited(migration: &Migration, entry: &Entry) -> Option<Finding> {
    let goes_on = entry.done == 0 || migration.options.no_transaction;
    let is_same =
        goes_on && entry.done <= migration.statements.len() && migration.done_hash(entry.done) == entry.done_hash;
    let (number, file, done) = (migration.number, migration.file.clone(), entry.done);
    (!is_same).then_some(Finding::DoneEdited { number, file, done })
}

#[cfg(test)]
mod tests;
