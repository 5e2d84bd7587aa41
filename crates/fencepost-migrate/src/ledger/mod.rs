//! What a database says of the migrations that were run on it: one row each, and beside them a history of what was changed by hand.
//! The rows as values; `postgres.rs` and `sqlite.rs` read and write them.

mod name;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
mod who;

use fencepost_core::{Error, Kind, Result, Timestamp};

use crate::file::Migration;
use crate::hash::Hashes;

pub use name::LedgerName;
pub(crate) use who::this_process;

/// The form of the tables that this version writes. A ledger of a later one is refused.
pub(crate) const FORMAT: i32 = 1;

/// What writes, by name and version.
pub(crate) const TOOL: &str = concat!("fencepost ", env!("CARGO_PKG_VERSION"));

/// How a migration stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Begun, statement by statement. When nobody holds the lock, who ran it is gone.
    Running,
    /// Done.
    Applied,
    /// One of its statements failed.
    Failed,
    /// Never run here: what it makes was there already.
    Baselined,
    /// Applied by another tool, whose ledger said so.
    Imported,
}

impl State {
    const ALL: [Self; 5] = [Self::Running, Self::Applied, Self::Failed, Self::Baselined, Self::Imported];

    /// The stable name: `running`, `applied`, `failed`, `baselined` or `imported`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Applied => "applied",
            Self::Failed => "failed",
            Self::Baselined => "baselined",
            Self::Imported => "imported",
        }
    }

    /// Whether nothing is left to be done.
    pub const fn is_done(self) -> bool {
        matches!(self, Self::Applied | Self::Baselined | Self::Imported)
    }

    fn parse(text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|state| state.as_str() == text);
        known.ok_or_else(|| damaged(format!("`{}` is no state of a migration", text.escape_debug())))
    }
}

/// The statement that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedAt {
    /// From 1.
    pub statement: usize,
    /// The server's code of what went wrong; SQLite's extended code.
    pub sqlstate: Option<String>,
    /// What the server said.
    pub message: String,
}

/// A row of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The migration's number.
    pub number: u64,
    /// The name of its file, without the number.
    pub name: String,
    /// How it stands.
    pub state: State,
    /// What its file was known by.
    pub hashes: Hashes,
    /// How many statements the file had.
    pub statements: usize,
    /// How many of them are done and stay done. 0 for a failed file that is one transaction.
    pub done: usize,
    /// What the statements that are done were known by.
    pub done_hash: String,
    /// Where it failed.
    pub failed: Option<FailedAt>,
    /// The database's role that ran it.
    pub role: String,
    /// Who ran it: `user@host:process`.
    pub runner: String,
    /// When it began, by the database's clock.
    pub started_at: Timestamp,
    /// When it ended, by the database's clock.
    pub finished_at: Option<Timestamp>,
    /// How long it took.
    pub milliseconds: Option<u64>,
    /// What wrote the row, with its version.
    pub tool: String,
}

/// What is written of a migration; the database adds who and when.
#[derive(Debug, Clone)]
pub(crate) struct Record<'m> {
    pub(crate) migration: &'m Migration,
    pub(crate) state: State,
    pub(crate) done: usize,
    pub(crate) failed: Option<FailedAt>,
    pub(crate) milliseconds: u64,
}

impl<'m> Record<'m> {
    pub(crate) fn new(migration: &'m Migration, state: State) -> Self {
        let done = if state.is_done() { migration.statements.len() } else { 0 };
        Self { migration, state, done, failed: None, milliseconds: 0 }
    }
}

/// What was changed by hand, or made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Created,
    Baselined,
    Imported,
    Accepted,
    Forgotten,
    Marked,
    Undone,
}

impl Action {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Baselined => "baselined",
            Self::Imported => "imported",
            Self::Accepted => "accepted",
            Self::Forgotten => "forgotten",
            Self::Marked => "marked",
            Self::Undone => "undone",
        }
    }
}

/// What was found where a ledger would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// No ledger: nothing was ever applied.
    Never,
    /// Its rows, in the order of their numbers.
    There(Vec<Entry>),
}

impl Found {
    pub(crate) fn entries(&self) -> &[Entry] {
        match self {
            Self::Never => &[],
            Self::There(entries) => entries,
        }
    }
}

/// Refuses a ledger whose form this version does not know.
pub(crate) fn judge_format(format: Option<i32>) -> Result<()> {
    match format {
        Some(FORMAT) => Ok(()),
        Some(later) if later > FORMAT => Err(Error::new(
            Kind::Schema,
            format!("cannot read the ledger: a later version of fencepost made it, of format {later}"),
        )
        .coded("ledger_newer")
        .with("format", later)
        .with("known", FORMAT)
        .hinted("use that version, or a later one")),
        Some(other) => Err(damaged(format!("there is no format {other}"))),
        None => Err(damaged("its history does not say of what format it is".into())),
    }
}

/// The error of a ledger that cannot be what it is.
pub(crate) fn damaged(why: String) -> Error {
    Error::new(Kind::Corrupt, format!("cannot read the ledger: {why}"))
        .coded("ledger_damaged")
        .hinted("something other than fencepost wrote to it; restore its two tables from a backup")
}

/// The error of a row that another runner has changed.
pub(crate) fn taken_over(number: u64) -> Error {
    Error::new(Kind::Fenced, format!("cannot record migration {number}: another runner has changed its row meanwhile"))
        .coded("ledger_changed")
        .with("number", number)
        .hinted("the lock was lost; nothing of this was recorded. Look at the status, then run again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_as_they_are_written() {
        for state in State::ALL {
            assert_eq!(State::parse(state.as_str()).unwrap(), state);
        }
        assert_eq!(State::parse("Applied").unwrap_err().code(), "ledger_damaged");
    }

    #[test]
    fn a_ledger_of_a_later_format_is_refused() {
        assert!(judge_format(Some(FORMAT)).is_ok());
        let newer = judge_format(Some(FORMAT + 1)).unwrap_err();
        assert_eq!((newer.kind(), newer.code()), (Kind::Schema, "ledger_newer"));
        assert_eq!(judge_format(Some(0)).unwrap_err().code(), "ledger_damaged");
        assert_eq!(judge_format(None).unwrap_err().code(), "ledger_damaged");
    }
}
