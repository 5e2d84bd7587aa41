//! Whether a database is ready for a program that carries these migrations. Pure; asking takes no lock and changes nothing.

use crate::file::Migration;
use crate::ledger::{Entry, FailedAt, State};
use crate::set::Migrations;

/// How a database stands to a set of migrations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// Nothing was ever applied: there is no ledger.
    Never,
    /// Some are missing. A file that is one transaction shows only when it is done.
    Behind {
        /// How many.
        pending: usize,
        /// The first of them.
        next: u64,
        /// The one that is run just now, statement by statement; or was, when its runner is gone.
        running: Option<Running>,
    },
    /// A statement failed, and somebody has to look.
    Failed {
        /// Of which migration.
        number: u64,
        /// Where and why.
        at: FailedAt,
    },
    /// The database has a migration that is later than every file: a later version of the program was here.
    Ahead {
        /// Its number.
        number: u64,
    },
    /// All are applied.
    Ready {
        /// The latest.
        latest: Option<u64>,
    },
}

/// A migration that is run statement by statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Its number.
    pub number: u64,
    /// The statement that is run, from 1.
    pub statement: usize,
    /// How many there are.
    pub statements: usize,
    /// Who runs it.
    pub runner: String,
    /// Since when.
    pub since: fencepost_core::Timestamp,
}

impl Readiness {
    /// The stable name: `never`, `behind`, `failed`, `ahead` or `ready`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Behind { .. } => "behind",
            Self::Failed { .. } => "failed",
            Self::Ahead { .. } => "ahead",
            Self::Ready { .. } => "ready",
        }
    }

    /// Whether waiting may help.
    pub const fn may_become_ready(&self) -> bool {
        matches!(self, Self::Never | Self::Behind { .. })
    }

    /// Judges what a ledger says; `None`: there is none.
    pub(crate) fn of(migrations: &Migrations, entries: Option<&[Entry]>) -> Self {
        let entries = match entries {
            None if migrations.up().is_empty() => return Self::Ready { latest: None },
            None => return Self::Never,
            Some(entries) => entries,
        };
        if let Some(entry) = entries.iter().find(|entry| entry.state == State::Failed) {
            let unknown = FailedAt { statement: entry.done + 1, sqlstate: None, message: String::new() };
            return Self::Failed { number: entry.number, at: entry.failed.clone().unwrap_or(unknown) };
        }
        let newest = migrations.up().last().map_or(0, |migration| migration.number);
        if let Some(entry) = entries.iter().find(|entry| entry.number > newest) {
            return Self::Ahead { number: entry.number };
        }
        let is_done = |migration: &&Migration| {
            entries.iter().any(|entry| entry.number == migration.number && entry.state.is_done())
        };
        let pending: Vec<_> = migrations.up().iter().filter(|migration| !is_done(migration)).collect();
        let Some(next) = pending.first() else {
            return Self::Ready { latest: entries.last().map(|entry| entry.number) };
        };
        let running = entries.iter().find(|entry| entry.state == State::Running).map(|entry| Running {
            number: entry.number,
            statement: entry.done + 1,
            statements: entry.statements,
            runner: entry.runner.clone(),
            since: entry.started_at,
        });
        Self::Behind { pending: pending.len(), next: next.number, running }
    }
}
