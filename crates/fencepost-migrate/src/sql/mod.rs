//! SQL text as far as a migration needs it: its tokens, and where one statement ends and the next begins. Nothing here knows what a
//! statement means, and nothing is executed.

mod split;
mod token;

pub use split::{Statement, split};
pub use token::{Token, TokenKind, tokens};

/// Whose SQL a text is.
///
/// PostgreSQL's follows its manual's chapter on lexical structure with `standard_conforming_strings` on, and what `psql` does where a
/// statement ends. SQLite's follows its tokenizer and `sqlite3_complete`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
}

/// Something in a text that has a beginning and no end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unterminated {
    /// What: `string`, `quoted name`, `dollar-quoted string` or `comment`.
    pub what: &'static str,
    /// What would end it.
    pub end: String,
    /// Where it begins, in bytes.
    pub at: usize,
}
