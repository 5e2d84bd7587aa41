//! Runs migrations on a connection to a file of SQLite: each file in one immediate transaction with its row of the ledger in it, or
//! statement by statement.

mod failure;
mod setting;

use std::ops::Range;
use std::time::Instant;

use fencepost_core::Result;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use self::failure::{Refused, Stopped};
use self::setting::Settings;
use super::{RunOptions, jittered};
use crate::file::{Direction, Migration};
use crate::ledger::sqlite::{SqliteLedger, failed};
use crate::ledger::{Action, Record, State};
use crate::plan::Step;
use crate::progress::{Event, Listener};

/// What a run needs beside its connection.
pub(crate) struct Runner<'a> {
    pub(crate) ledger: &'a SqliteLedger,
    pub(crate) options: &'a RunOptions,
    pub(crate) listener: Listener<'a>,
}

/// A file that is being run.
struct Task<'t> {
    migration: &'t Migration,
    since: Instant,
}

impl Task<'_> {
    fn milliseconds(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn progress(&self, done: usize) -> Record<'_> {
        let state = if done == self.migration.statements.len() { State::Applied } else { State::Running };
        Record { done, milliseconds: self.milliseconds(), ..Record::new(self.migration, state) }
    }
}

/// What is undone as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    File,
    Statement(usize),
}

fn run_to_its_end(connection: &Connection, migration: &Migration, at: usize) -> Result<(), rusqlite::Error> {
    let mut prepared = connection.prepare(migration.text_of(&migration.statements[at]))?;
    let mut rows = prepared.raw_query();
    while rows.next()?.is_some() {}
    Ok(())
}

/// Runs every statement of a file within the transaction of somebody else, which is to be rolled back when one fails.
pub(crate) fn run_within(tx: &Transaction<'_>, migration: &Migration) -> Result<()> {
    for at in 0..migration.statements.len() {
        run_to_its_end(tx, migration, at).map_err(|error| Refused::new(at, error).into_error(migration))?;
    }
    Ok(())
}

/// Begins a transaction that has the write lock from its beginning: one that asked for it later could not wait for it.
pub(crate) fn begin(connection: &mut Connection) -> Result<Transaction<'_>, rusqlite::Error> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

impl Runner<'_> {
    /// Runs every step in order. What a migration changed of the connection's settings is undone after each.
    pub(crate) fn run(&mut self, connection: &mut Connection, steps: &[Step<'_>]) -> Result<()> {
        let settings = Settings::read(connection)?;
        for step in steps {
            let outcome = self.file(connection, step);
            settings.restore(connection)?;
            outcome?;
        }
        Ok(())
    }

    fn file(&mut self, connection: &mut Connection, step: &Step<'_>) -> Result<()> {
        let (migration, number) = (step.migration, step.migration.number);
        let done = if migration.options.no_transaction { step.done } else { 0 };
        let (name, statements) = (migration.name.clone(), migration.statements.len());
        (self.listener)(Event::FileStarted { number, name, statements, done });
        let task = Task { migration, since: Instant::now() };
        let lock_timeout = self.options.lock_timeout_of(migration);
        connection.busy_timeout(lock_timeout).map_err(|error| failed("cannot set a timeout", error))?;
        let outcome = if migration.options.no_transaction {
            self.by_statement(connection, &task, done)
        } else {
            self.tried(connection, &task, Unit::File)
        };
        match outcome {
            Ok(()) => {
                (self.listener)(Event::FileDone { number, took: task.since.elapsed() });
                Ok(())
            }
            Err(Stopped::Ours(error)) => Err(error.attempting(format_args!("cannot run migration {number}"))),
            Err(Stopped::Statement(refused)) => {
                // A way back that failed is undone as a whole: the migration stays applied.
                let recorded = match migration.direction {
                    Direction::Up => self.record_failure(connection, &task, &refused, done),
                    Direction::Down => Ok(()),
                };
                let error = refused.into_error(migration);
                Err(match recorded {
                    Ok(()) => error,
                    Err(second) => error.with("not_recorded", second),
                })
            }
        }
    }

    fn by_statement(&mut self, connection: &mut Connection, task: &Task<'_>, done: usize) -> Result<(), Stopped> {
        // What was left may have been taken out of the file.
        let state = if done == task.migration.statements.len() { State::Applied } else { State::Running };
        let begun = Record { done, ..Record::new(task.migration, state) };
        self.record(connection, task, begun)?;
        setting::again(connection, task.migration, done)?;
        for at in done..task.migration.statements.len() {
            self.tried(connection, task, Unit::Statement(at))?;
        }
        Ok(())
    }

    /// Tries until it succeeds or fails for good.
    fn tried(&mut self, connection: &mut Connection, task: &Task<'_>, unit: Unit) -> Result<(), Stopped> {
        let mut attempt = 1;
        loop {
            match self.once(connection, task, unit) {
                Err(Stopped::Statement(refused)) if refused.is_busy() && attempt < self.options.attempts => {
                    let pause = jittered(self.options.lock_timeout_of(task.migration))?;
                    let (number, statement) = (task.migration.number, refused.statement(task.migration));
                    (self.listener)(Event::Retried { number, statement, attempt, pause, by: Vec::new() });
                    std::thread::sleep(pause);
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    fn once(&mut self, connection: &mut Connection, task: &Task<'_>, unit: Unit) -> Result<(), Stopped> {
        match unit {
            Unit::File => self.in_transaction(connection, task, 0..task.migration.statements.len(), unit),
            Unit::Statement(at) if setting::is_alone(&task.migration.statements[at]) => {
                self.execute(connection, task.migration, at)?;
                let tx = begin(connection).map_err(|error| failed("cannot begin", error))?;
                self.ledger.advance(&tx, &task.progress(at + 1))?;
                Ok(tx.commit().map_err(|error| failed("cannot commit", error))?)
            }
            // With its record, so that no crash leaves it in doubt.
            Unit::Statement(at) => self.in_transaction(connection, task, at..at + 1, unit),
        }
    }

    fn in_transaction(
        &mut self,
        connection: &mut Connection,
        task: &Task<'_>,
        statements: Range<usize>,
        unit: Unit,
    ) -> Result<(), Stopped> {
        let (migration, end) = (task.migration, statements.end);
        let tx = begin(connection).map_err(|error| Refused::stop(statements.start, error))?;
        for at in statements {
            self.execute(&tx, migration, at)?;
        }
        match (unit, migration.direction) {
            (Unit::Statement(_), _) => self.ledger.advance(&tx, &task.progress(end))?,
            (Unit::File, Direction::Up) => self.ledger.write(&tx, &task.progress(end))?,
            (Unit::File, Direction::Down) => {
                self.ledger.remember(&tx, Action::Undone, Some(migration.number), None)?;
                self.ledger.remove(&tx, migration.number)?;
            }
        }
        // A commit that is refused is the statement's own, or belongs to the file as a whole.
        let at = match unit {
            Unit::Statement(at) => at,
            Unit::File => migration.statements.len(),
        };
        tx.commit().map_err(|error| Refused::stop(at, error))
    }

    /// Runs a statement to its last row.
    fn execute(&mut self, connection: &Connection, migration: &Migration, at: usize) -> Result<(), Stopped> {
        let (number, statement, since) = (migration.number, at + 1, Instant::now());
        let words = migration.statements[at].words.join(" ");
        (self.listener)(Event::StatementStarted { number, statement, words });
        run_to_its_end(connection, migration, at).map_err(|error| Refused::stop(at, error))?;
        (self.listener)(Event::StatementDone { number, statement, took: since.elapsed() });
        Ok(())
    }

    /// INVARIANT: what was done stays done, also when what it had set could not be set again.
    fn record_failure(
        &mut self,
        connection: &mut Connection,
        task: &Task<'_>,
        refused: &Refused,
        done: usize,
    ) -> Result<()> {
        let done = if task.migration.options.no_transaction { refused.at.max(done) } else { 0 };
        let failed_at = Some(refused.recorded(task.migration));
        self.record(connection, task, Record { done, failed: failed_at, ..Record::new(task.migration, State::Failed) })
    }

    /// Writes a row in a transaction of its own.
    fn record(&mut self, connection: &mut Connection, task: &Task<'_>, record: Record<'_>) -> Result<()> {
        let attempted = |error| failed("cannot write the ledger", error);
        let tx = begin(connection).map_err(attempted)?;
        self.ledger.write(&tx, &Record { milliseconds: task.milliseconds(), ..record })?;
        tx.commit().map_err(attempted)
    }
}
