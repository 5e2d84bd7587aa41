//! Running the engine's own statements: prepared once per connection, their errors the contract's.

use fencepost_core::Result;
use rusqlite::{Connection, OptionalExtension, Params, Row};

use crate::error::driver_error;

/// Runs a statement and returns how many rows it changed.
pub(crate) fn execute(connection: &Connection, sql: &'static str, values: impl Params) -> Result<usize> {
    connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values)).map_err(driver_error)
}

/// The one row of a query.
pub(crate) fn one<T>(
    connection: &Connection,
    sql: &'static str,
    values: impl Params,
    decode: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<T> {
    connection.prepare_cached(sql).and_then(|mut statement| statement.query_row(values, decode)).map_err(driver_error)
}

/// The one value of a query of one row and column.
pub(crate) fn value<T: rusqlite::types::FromSql>(
    connection: &Connection,
    sql: &'static str,
    values: impl Params,
) -> Result<T> {
    one(connection, sql, values, |row| row.get(0))
}

/// The row of a query, if there is one.
pub(crate) fn find<T>(
    connection: &Connection,
    sql: &'static str,
    values: impl Params,
    decode: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row(values, decode).optional())
        .map_err(driver_error)
}

/// All rows of a query.
pub(crate) fn all<T>(
    connection: &Connection,
    sql: &'static str,
    values: impl Params,
    decode: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_map(values, decode)?.collect())
        .map_err(driver_error)
}
