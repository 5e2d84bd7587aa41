//! Indexes that are built or dropped concurrently. A build that failed leaves its index behind INVALID, which costs every write and which
//! `IF NOT EXISTS` takes for the index that was wanted: it is removed before it is built anew.

use fencepost_core::{Error, Kind, Result};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::server::failed;
use crate::sql::{Dialect, TokenKind, tokens};

/// A statement with `CONCURRENTLY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Concurrent {
    /// `CREATE INDEX`, with index and table as they are written.
    Create { index: String, table: String },
    /// `DROP INDEX`, with its one index.
    Drop { index: String },
    /// Anything else.
    Other,
}

/// What was found before a statement is sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Prepared {
    Nothing,
    /// The statement was done before who ran it could record it.
    IsDone,
    /// This index was INVALID and is removed.
    Removed(String),
}

impl Concurrent {
    /// Reads a statement; `None` when nothing in it is concurrent.
    pub(super) fn of(text: &str) -> Option<Self> {
        let tokens = tokens(text, Dialect::Postgres).ok()?;
        let counts = |kind| !matches!(kind, TokenKind::Space | TokenKind::Comment);
        let words: Vec<(&str, String)> = tokens
            .iter()
            .filter(|token| counts(token.kind))
            .map(|token| (&text[token.span.clone()], token.kind))
            .map(|(word, kind)| (word, if kind == TokenKind::Word { word.to_ascii_uppercase() } else { String::new() }))
            .collect();
        if !words.iter().any(|(_, word)| word == "CONCURRENTLY") {
            return None;
        }
        let upper: Vec<&str> = words.iter().map(|(_, word)| word.as_str()).collect();
        Some(match upper.as_slice() {
            ["CREATE", "INDEX", "CONCURRENTLY", ..] => Self::create(&words[3..]),
            ["CREATE", "UNIQUE", "INDEX", "CONCURRENTLY", ..] => Self::create(&words[4..]),
            ["DROP", "INDEX", "CONCURRENTLY", "IF", "EXISTS", ..] => Self::Other,
            ["DROP", "INDEX", "CONCURRENTLY", ..] => match path(&words[3..]) {
                (index, rest) if rest.is_empty() || rest[0].0 != "," => Self::Drop { index },
                _ => Self::Other,
            },
            _ => Self::Other,
        })
    }

    fn create(words: &[(&str, String)]) -> Self {
        let upper: Vec<&str> = words.iter().map(|(_, word)| word.as_str()).collect();
        let words = if upper.starts_with(&["IF", "NOT", "EXISTS"]) { &words[3..] } else { words };
        // One that the server names: no name is taken twice, and the next build finds none in its way.
        let (Some((index, _)), Some((_, on))) = (words.first(), words.get(1)) else { return Self::Other };
        if on != "ON" {
            return Self::Other;
        }
        let table = if words.get(2).is_some_and(|(_, word)| word == "ONLY") { &words[3..] } else { &words[2..] };
        Self::Create { index: (*index).into(), table: path(table).0 }
    }
}

/// A name with the schemas before it, and what comes after.
fn path<'w, 't>(words: &'w [(&'t str, String)]) -> (String, &'w [(&'t str, String)]) {
    let (mut text, mut at) = (String::new(), 0);
    while let Some((word, _)) = words.get(at) {
        text += word;
        match words.get(at + 1) {
            Some((".", _)) => text.push('.'),
            _ => return (text, &words[at + 1..]),
        }
        at += 2;
    }
    (text, &[])
}

/// An index as the server has it.
struct Found {
    path: String,
    is_valid: bool,
    /// The process that builds it just now.
    built_by: Option<i32>,
}

async fn find(client: &Client, index: &str, table: &str) -> Result<Option<Found>> {
    let values = [(&table as _, Type::TEXT), (&index as _, Type::TEXT)];
    let row = client.query_typed_opt(include_str!("../../../sql/postgres/index.sql"), &values).await;
    let row = row.map_err(|error| failed("cannot look for the index", error))?;
    Ok(row.map(|row| Found { path: row.get(0), is_valid: row.get(1), built_by: row.get(2) }))
}

/// Sees to what is there before the statement is sent. `is_in_doubt`: it may be done already.
pub(super) async fn prepare(client: &Client, concurrent: &Concurrent, is_in_doubt: bool) -> Result<Prepared> {
    match concurrent {
        Concurrent::Other => Ok(Prepared::Nothing),
        Concurrent::Drop { index } => {
            let sql = "select pg_catalog.to_regclass($1) is null";
            let is_gone = client.query_typed_one(sql, &[(index, Type::TEXT)]).await;
            let is_gone: bool = is_gone.map_err(|error| failed("cannot look for the index", error))?.get(0);
            Ok(if is_in_doubt && is_gone { Prepared::IsDone } else { Prepared::Nothing })
        }
        Concurrent::Create { index, table } => match find(client, index, table).await? {
            None => Ok(Prepared::Nothing),
            Some(found) if found.is_valid => Ok(if is_in_doubt { Prepared::IsDone } else { Prepared::Nothing }),
            Some(Found { path, built_by: Some(process), .. }) => {
                Err(Error::new(Kind::Busy, format!("process {process} of the server builds the index {path} just now"))
                    .coded("index_in_progress")
                    .with("pids", process)
                    .hinted("wait until it is done, or end that process; then run again"))
            }
            Some(Found { path, .. }) => {
                let removed = client.batch_execute(&format!("drop index concurrently {path}")).await;
                removed.map_err(|error| failed("cannot remove the index that is INVALID", error))?;
                Ok(Prepared::Removed(path))
            }
        },
    }
}

/// The index that a failed build has left behind.
pub(super) async fn left_behind(client: &Client, concurrent: &Concurrent) -> Option<String> {
    let Concurrent::Create { index, table } = concurrent else { return None };
    // Of what failed is told already.
    let found = find(client, index, table).await.ok().flatten()?;
    (!found.is_valid).then_some(found.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_statements() {
        let create = |index: &str, table: &str| Some(Concurrent::Create { index: index.into(), table: table.into() });
        for (text, wanted) in [
            ("create index i on t (a)", None),
            ("create index \"concurrently\" on t (a)", None),
            ("create index concurrently i on t (a)", create("i", "t")),
            (
                "Create Unique /* x */ Index Concurrently If Not Exists \"I \"\"\" On Only a . \"T\" (a)",
                create("\"I \"\"\"", "a.\"T\""),
            ),
            ("create index concurrently on t (a)", Some(Concurrent::Other)),
            ("drop index concurrently a.i cascade", Some(Concurrent::Drop { index: "a.i".into() })),
            ("drop index concurrently i, j", Some(Concurrent::Other)),
            ("drop index concurrently if exists i", Some(Concurrent::Other)),
            ("reindex table concurrently t", Some(Concurrent::Other)),
        ] {
            assert_eq!(Concurrent::of(text), wanted, "{text}");
        }
    }
}
