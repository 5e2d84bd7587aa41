//! Why a statement failed, with its place in the file and all that the database said of it.

use std::error::Error as StdError;
use std::fmt;
use std::ops::Range;

use fencepost_core::{Error, Kind, harmless};

use crate::diagnostic::Diagnostic;
use crate::file::Migration;
use crate::progress::Blocker;

/// The number of a statement, from 1; of the last one for what is behind them all, the commit.
pub(crate) fn number_of(migration: &Migration, at: usize) -> usize {
    (at + 1).min(migration.statements.len())
}

/// What is wrong with the statement `at`, or with the commit behind them all. `part`: what of its text is meant.
pub(crate) fn diagnosed(
    migration: &Migration,
    at: usize,
    part: impl FnOnce(&str) -> Range<usize>,
    message: &str,
    hint: String,
) -> Diagnostic {
    match migration.statements.get(at) {
        Some(statement) => {
            let part = part(migration.text_of(statement));
            let span = statement.span.start + part.start..statement.span.start + part.end;
            Diagnostic::at("migration_failed", message, (&migration.file, &migration.text, span), hint)
        }
        None => {
            let message = format!("the commit was refused: {message}");
            Diagnostic::of_file("migration_failed", message, &migration.file, hint)
        }
    }
}

/// What can be done when nothing is known but what is done already.
pub(crate) fn what_to_do(migration: &Migration, at: usize) -> &'static str {
    if migration.options.no_transaction && at > 0 {
        "the statements before it are done; correct this one or what follows, and the next run goes on with it"
    } else {
        "nothing of the file was kept; correct it and run again"
    }
}

/// A statement that failed. The source of an error with code `migration_failed` or `lock_timeout`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationFailure {
    /// The migration's number.
    pub number: u64,
    /// Which statement, from 1. The last one when the commit failed.
    pub statement: usize,
    /// How many the file has.
    pub statements: usize,
    /// What went wrong, where, and what can be done.
    pub diagnostic: Diagnostic,
    /// The server's code of what went wrong; SQLite's extended code.
    pub sqlstate: Option<String>,
    /// What else the server said.
    pub detail: Option<String>,
    /// In which function, trigger or block it happened.
    pub context: Option<String>,
    /// Who was in the way, when it was a lock.
    pub blocked_by: Vec<Blocker>,
}

impl MigrationFailure {
    /// With the lines around it, as a compiler shows it. `colours`: with escape sequences of a terminal.
    pub fn render(&self, colours: bool) -> String {
        let mut text = self.diagnostic.render(colours);
        // SECURITY: rows and statements of others stand in what the server says.
        let mut line =
            |name: &str, value: &str| text += &format!("\n  = {name}: {}", harmless(value).replace('\n', "\n    "));
        line("statement", &format!("{} of {}", self.statement, self.statements));
        // SQLite has numbers of its own.
        let code = if self.sqlstate.as_ref().is_some_and(|code| code.len() == 5) { "SQLSTATE" } else { "code" };
        for (name, value) in [(code, &self.sqlstate), ("detail", &self.detail), ("context", &self.context)] {
            if let Some(value) = value {
                line(name, value);
            }
        }
        self.blocked_by.iter().for_each(|blocker| line("blocked by", &blocker.to_string()));
        text
    }

    /// As an error of the contract.
    pub(crate) fn into_error(self, kind: Kind, code: &'static str) -> Error {
        let mut error = Error::new(kind, format!("cannot run migration {}: {}", self.number, self.diagnostic))
            .coded(code)
            .with("number", self.number)
            .with("statement", self.statement)
            .with("file", &self.diagnostic.place.file)
            .with("line", self.diagnostic.place.line)
            .with("column", self.diagnostic.place.column)
            .hinted(self.diagnostic.hint.clone());
        if let Some(sqlstate) = &self.sqlstate {
            error = error.with("sqlstate", sqlstate);
        }
        if !self.blocked_by.is_empty() {
            let pids: Vec<_> = self.blocked_by.iter().map(|blocker| blocker.pid.to_string()).collect();
            error = error.with("pids", pids.join(","));
        }
        error.caused_by(self)
    }
}

impl fmt::Display for MigrationFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "statement {} of {}: {}", self.statement, self.statements, self.diagnostic)?;
        self.detail.iter().try_for_each(|detail| write!(f, " ({detail})"))
    }
}

impl StdError for MigrationFailure {}
