//! A statement that SQLite refused, as an error with its place in the file. By its codes, never by text.

use fencepost_core::{Error, Kind, Retry};
use rusqlite::ErrorCode;

use crate::diagnostic::word_at;
use crate::failure::{MigrationFailure, diagnosed, number_of, what_to_do};
use crate::file::Migration;
use crate::ledger::FailedAt;

/// What ended an attempt.
#[derive(Debug)]
pub(super) enum Stopped {
    /// A statement of the migration, or its commit.
    Statement(Box<Refused>),
    /// Something of our own.
    Ours(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

/// What of a migration was refused.
#[derive(Debug)]
pub(super) struct Refused {
    /// The statement, from 0; all of them: the commit.
    pub(super) at: usize,
    error: rusqlite::Error,
}

impl Refused {
    pub(super) fn new(at: usize, error: rusqlite::Error) -> Self {
        Self { at, error }
    }

    pub(super) fn stop(at: usize, error: rusqlite::Error) -> Stopped {
        Stopped::Statement(Box::new(Self::new(at, error)))
    }

    /// Whether somebody else has the lock.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// From 1; the last one when the commit was refused.
    pub(super) fn statement(&self, migration: &Migration) -> usize {
        number_of(migration, self.at)
    }

    fn code(&self) -> Option<String> {
        let code = match &self.error {
            rusqlite::Error::SqlInputError { error, .. } => Some(error.extended_code),
            other => other.sqlite_extended_error_code(),
        };
        code.map(|code| code.to_string())
    }

    fn message(&self) -> String {
        match &self.error {
            rusqlite::Error::SqlInputError { msg, .. } | rusqlite::Error::SqliteFailure(_, Some(msg)) => msg.clone(),
            other => other.to_string(),
        }
    }

    /// What is written down of it.
    pub(super) fn recorded(&self, migration: &Migration) -> FailedAt {
        FailedAt { statement: self.statement(migration), sqlstate: self.code(), message: self.message() }
    }

    /// The error for the caller.
    pub(super) fn into_error(self, migration: &Migration) -> Error {
        let is_busy = self.is_busy();
        let hint = if is_busy {
            "wait until whoever writes to the file is done, or let it wait longer with `-- fencepost: lock-timeout 30s`"
        } else {
            what_to_do(migration, self.at)
        };
        let diagnostic = diagnosed(migration, self.at, |text| self.span_of(text), &self.message(), hint.into());
        let failure = MigrationFailure {
            number: migration.number,
            statement: self.statement(migration),
            statements: migration.statements.len(),
            diagnostic,
            sqlstate: self.code(),
            detail: None,
            context: None,
            blocked_by: Vec::new(),
        };
        if is_busy {
            failure.into_error(Kind::Busy, "lock_timeout").retried(Retry::Backoff)
        } else {
            failure.into_error(Kind::Schema, "migration_failed")
        }
    }

    /// What of a statement is wrong: the word at the offset that SQLite tells, in bytes, or else how it begins.
    fn span_of(&self, text: &str) -> std::ops::Range<usize> {
        let at = match &self.error {
            rusqlite::Error::SqlInputError { offset, .. } => {
                usize::try_from(*offset).ok().filter(|at| text.is_char_boundary(*at)).unwrap_or(0)
            }
            _ => 0,
        };
        word_at(text, at)
    }
}
