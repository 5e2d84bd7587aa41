//! A statement that the server refused, as an error with its place in the file. By SQLSTATE, never by text.

use fencepost_core::{Error, Kind, Retry};
use tokio_postgres::error::{DbError, ErrorPosition};

use super::server::{failed, is_lost, unknown};
use crate::diagnostic::{Place, word_at};
use crate::failure::{MigrationFailure, diagnosed, number_of, what_to_do};
use crate::file::Migration;
use crate::ledger::FailedAt;
use crate::progress::Blocker;

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

/// What of a migration the server refused.
#[derive(Debug)]
pub(super) struct Refused {
    /// The statement, from 0; all of them: the commit.
    pub(super) at: usize,
    pub(super) error: tokio_postgres::Error,
    pub(super) blockers: Vec<Blocker>,
    /// An index that the statement left behind INVALID.
    pub(super) left_behind: Option<String>,
}

impl Refused {
    pub(super) fn new(at: usize, error: tokio_postgres::Error, blockers: Vec<Blocker>) -> Self {
        Self { at, error, blockers, left_behind: None }
    }

    pub(super) fn stop(at: usize, error: tokio_postgres::Error, blockers: Vec<Blocker>) -> Stopped {
        Stopped::Statement(Box::new(Self::new(at, error, blockers)))
    }

    /// From 1; the last one when the commit was refused.
    pub(super) fn statement(&self, migration: &Migration) -> usize {
        number_of(migration, self.at)
    }

    fn state(&self) -> &str {
        self.error.code().map_or("", |state| state.code())
    }

    /// Whether the same may succeed later: a lock that did not come, a deadlock, a conflict with another transaction.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self.state(), "55P03" | "40P01" | "40001")
    }

    /// Whether the statement can run in no transaction that others share.
    pub(super) fn needs_no_transaction(&self) -> bool {
        matches!(self.state(), "25001" | "2D000")
    }

    pub(super) fn is_lost(&self) -> bool {
        is_lost(&self.error)
    }

    /// What is written down of it.
    pub(super) fn recorded(&self, migration: &Migration) -> FailedAt {
        let message =
            self.error.as_db_error().map_or_else(|| self.error.to_string(), |reported| reported.message().into());
        let statement = self.statement(migration);
        FailedAt { statement, sqlstate: self.error.code().map(|state| state.code().into()), message }
    }

    /// The error for the caller.
    pub(super) fn into_error(self, migration: &Migration) -> Error {
        if self.at == migration.statements.len() && self.is_lost() {
            return unknown(self.error).attempting(format_args!("cannot run migration {}", migration.number));
        }
        let (kind, code) = match self.state() {
            _ if self.is_lost() => (Kind::Unavailable, "connection_lost"),
            "55P03" => (Kind::Busy, "lock_timeout"),
            _ => (Kind::Schema, "migration_failed"),
        };
        match self.error.as_db_error() {
            Some(reported) => {
                let retry =
                    if self.is_transient() || kind == Kind::Unavailable { Retry::Backoff } else { Retry::Never };
                self.failure(migration, reported).into_error(kind, code).retried(retry)
            }
            None => {
                let place = migration.statements.get(self.at).map_or_else(
                    || migration.file.clone(),
                    |statement| Place::of(&migration.file, &migration.text, statement.span.start).to_string(),
                );
                failed("the statement was not answered", self.error)
                    .attempting(format_args!("cannot run migration {}: {place}", migration.number))
                    .with("number", migration.number)
                    .hinted("the ledger says how far it came; run again, and what is missing is done")
            }
        }
    }

    fn failure(&self, migration: &Migration, reported: &DbError) -> MigrationFailure {
        let hint = self.hint(migration, reported);
        let part = |text: &str| span_of(text, reported.position());
        let diagnostic = diagnosed(migration, self.at, part, reported.message(), hint);
        let inner = match reported.position() {
            Some(ErrorPosition::Internal { position, query }) => Some(format!("at character {position} of: {query}")),
            _ => None,
        };
        let context = [inner, reported.where_().map(str::to_owned)].into_iter().flatten().collect::<Vec<_>>();
        MigrationFailure {
            number: migration.number,
            statement: self.statement(migration),
            statements: migration.statements.len(),
            diagnostic,
            sqlstate: Some(self.state().into()),
            detail: reported.detail().map(str::to_owned),
            context: (!context.is_empty()).then(|| context.join("\n")),
            blocked_by: self.blockers.clone(),
        }
    }

    fn hint(&self, migration: &Migration, reported: &DbError) -> String {
        if let Some(index) = &self.left_behind {
            return format!("the index {index} was left behind INVALID; the next run removes it and builds it anew");
        }
        if let Some(hint) = reported.hint() {
            return hint.into();
        }
        let hint = match self.state() {
            _ if self.is_lost() => "the ledger says how far it came; run again, and what is missing is done",
            "25001" => "put it into a file of its own that begins with `-- fencepost: no-transaction`",
            "55P03" => {
                "wait until those who block it are done, or let it wait longer with `-- fencepost: lock-timeout 30s`"
            }
            _ => what_to_do(migration, self.at),
        };
        hint.into()
    }
}

/// What of a statement is wrong: the word at the position that the server tells, in characters from 1, or else how it begins.
fn span_of(text: &str, position: Option<&ErrorPosition>) -> std::ops::Range<usize> {
    let at = match position {
        Some(ErrorPosition::Original(position)) => {
            let before = usize::try_from(*position).unwrap_or(1).saturating_sub(1);
            text.char_indices().nth(before).map_or(text.len(), |(at, _)| at)
        }
        _ => 0,
    };
    word_at(text, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_characters() {
        let at = |position| span_of("select 'ä', nö + 1", Some(&ErrorPosition::Original(position)));
        assert_eq!((at(1), at(13), at(16)), (0..6, 13..16, 17..18));
        assert_eq!(at(99), 20..20);
        assert_eq!(span_of("do $$", None), 0..2);
    }
}
