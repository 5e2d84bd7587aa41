//! One file: its name, its options, its statements. What cannot be right is refused with its place.

mod name;
mod option;
mod refused;

use std::time::Duration;

use crate::diagnostic::Diagnostic;
use crate::hash::Hashes;
use crate::sql::{Dialect, Statement, Unterminated, split, tokens};

pub(crate) use name::FileName;

/// How a file wants to be run. Written in comments before its first statement, one a line: `-- fencepost: no-transaction`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MigrationOptions {
    /// `no-transaction`: each statement commits by itself, as for an index that is built concurrently.
    pub no_transaction: bool,
    /// `out-of-order`: it may be applied though a later one was.
    pub out_of_order: bool,
    /// `lock-timeout 3s`: how long each statement waits for a lock.
    pub lock_timeout: Option<Duration>,
}

/// Which way a file leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// `NNNN_name.sql`
    Up,
    /// `NNNN_name.down.sql`
    Down,
}

/// A file that was read and found to be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// Its number.
    pub number: u64,
    /// What stands between the number and `.sql`.
    pub name: String,
    /// Which way it leads.
    pub direction: Direction,
    /// The file, as it was named.
    pub file: String,
    /// All of it.
    pub text: String,
    /// What its comments ask for.
    pub options: MigrationOptions,
    /// What is executed, one by one, in order; never empty.
    pub statements: Vec<Statement>,
    /// What it is known by.
    pub hashes: Hashes,
}

impl Migration {
    /// The text of one of its statements.
    pub fn text_of(&self, statement: &Statement) -> &str {
        &self.text[statement.span.clone()]
    }

    /// What its first `done` statements are known by, so that those after them may be edited until they succeed.
    pub(crate) fn done_hash(&self, done: usize) -> String {
        Hashes::of_pieces(self.statements.iter().take(done).map(|statement| self.text_of(statement)))
    }

    /// Reads `bytes` of the file `file`, whose name was understood.
    pub(crate) fn read(name: FileName, file: &str, bytes: &[u8], dialect: Dialect) -> Result<Self, Vec<Diagnostic>> {
        let text = refused::decoded(file, bytes).map_err(|problem| vec![*problem])?;
        let unterminated = |open: Unterminated| vec![refused::unterminated(file, text, &open)];
        let tokens = tokens(text, dialect).map_err(unterminated)?;
        let statements = split(text, dialect).map_err(unterminated)?;
        let (options, mut problems) = option::read(file, text, &tokens);
        problems.extend(refused::statements(file, text, &tokens, &statements, dialect, &options));
        if !problems.is_empty() {
            problems.sort_by_key(|problem| (problem.place.line, problem.place.column));
            return Err(problems);
        }
        let FileName { number, name, direction } = name;
        let hashes = Hashes::of(text, &tokens);
        Ok(Self { number, name, direction, file: file.into(), text: text.into(), options, statements, hashes })
    }
}
