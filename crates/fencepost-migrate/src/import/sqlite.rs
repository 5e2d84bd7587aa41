//! The ledgers of other tools in a file of SQLite.

use fencepost_core::Result;
use rusqlite::{Connection, ErrorCode};

use super::{Foreign, Source, absent, foreign, up_to};
use crate::ledger::sqlite::failed;
use crate::set::Migrations;

pub(crate) fn read(connection: &Connection, migrations: &Migrations, source: Source) -> Result<Vec<Foreign>> {
    let reading = |error| failed("cannot read the ledger of another tool", error);
    if !connection.table_exists(Some("main"), source.table()).map_err(reading)? {
        return Err(absent(source));
    }
    let sql = match source {
        Source::Sqlx => include_str!("../../sql/sqlite/import/sqlx.sql"),
        Source::Refinery => include_str!("../../sql/sqlite/import/refinery.sql"),
        Source::GolangMigrate => include_str!("../../sql/sqlite/import/golang_migrate.sql"),
    };
    let mut statement = connection.prepare(sql).map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::Unknown) => foreign(source).caused_by(error),
        _ => reading(error),
    })?;
    let mut found = statement.query([]).map_err(reading)?;
    let mut rows = Vec::new();
    while let Some(row) = found.next().map_err(reading)? {
        let number = row.get(0).map_err(reading)?;
        let (name, is_clean): (_, bool) = (row.get(1).map_err(reading)?, row.get(2).map_err(reading)?);
        match source {
            Source::GolangMigrate => rows.extend(up_to(migrations, number, !is_clean)),
            _ => rows.push(Foreign { number, name, is_clean, checksum: row.get(3).map_err(reading)? }),
        }
    }
    Ok(rows)
}
