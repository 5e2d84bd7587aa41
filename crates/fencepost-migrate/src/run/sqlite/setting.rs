//! What a migration may change of a connection: what is set is given back after each file, and set again when a file goes on.

use fencepost_core::Result;
use rusqlite::Connection;

use super::failure::{Refused, Stopped};
use crate::file::Migration;
use crate::ledger::sqlite::failed;
use crate::sql::Statement;

/// Of a connection, not of the file, and dangerous for the next migration.
const NAMES: [&str; 6] = [
    "foreign_keys",
    "ignore_check_constraints",
    "legacy_alter_table",
    "recursive_triggers",
    "writable_schema",
    "busy_timeout",
];

/// How a connection was before anything was run on it.
#[derive(Debug)]
pub(super) struct Settings(Vec<(&'static str, i64)>);

impl Settings {
    pub(super) fn read(connection: &Connection) -> Result<Self> {
        let read = |name: &'static str| {
            let value = connection.pragma_query_value(None, name, |row| row.get(0));
            value.map(|value| (name, value)).map_err(|error| failed("cannot read the connection's settings", error))
        };
        NAMES.into_iter().map(read).collect::<Result<_>>().map(Self)
    }

    pub(super) fn restore(&self, connection: &Connection) -> Result<()> {
        self.0.iter().try_for_each(|(name, value)| {
            // Some answer with what they are now.
            let set = connection.pragma_update_and_check(None, name, value, |_| Ok(()));
            match set {
                Ok(()) | Err(rusqlite::Error::QueryReturnedNoRows) => Ok(()),
                Err(error) => Err(failed("cannot restore the connection's settings", error)),
            }
        })
    }
}

/// Whether a statement cannot be in a transaction, or does nothing in one.
pub(super) fn is_alone(statement: &Statement) -> bool {
    matches!(statement.words.first().map(String::as_str), Some("VACUUM" | "PRAGMA" | "ATTACH" | "DETACH"))
}

/// Makes again what the statements that are done have made of the connection.
pub(super) fn again(connection: &Connection, migration: &Migration, done: usize) -> Result<(), Stopped> {
    for (at, statement) in migration.statements.iter().enumerate().take(done) {
        if is_alone(statement) && statement.words[0] != "VACUUM" {
            let made = connection.execute_batch(migration.text_of(statement));
            made.map_err(|error| Refused::stop(at, error))?;
        }
    }
    Ok(())
}
