//! The ledgers of other tools on PostgreSQL, where the search path finds them.

use fencepost_core::Result;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::{Foreign, Source, absent, foreign, up_to};
use crate::run::postgres::server::failed;
use crate::set::Migrations;

pub(crate) async fn read(client: &Client, migrations: &Migrations, source: Source) -> Result<Vec<Foreign>> {
    let reading = |error| failed("cannot read the ledger of another tool", error);
    let exists = "select pg_catalog.to_regclass($1) is not null";
    if !client.query_typed_one(exists, &[(&source.table(), Type::TEXT)]).await.map_err(reading)?.get::<_, bool>(0) {
        return Err(absent(source));
    }
    let sql = match source {
        Source::Sqlx => include_str!("../../sql/postgres/import/sqlx.sql"),
        Source::Refinery => include_str!("../../sql/postgres/import/refinery.sql"),
        Source::GolangMigrate => include_str!("../../sql/postgres/import/golang_migrate.sql"),
    };
    let mut rows = Vec::new();
    let other_form = |error: tokio_postgres::Error| match error.code().map(SqlState::code) {
        Some("42703" | "42804" | "42883" | "22P02") => foreign(source).caused_by(error),
        _ => reading(error),
    };
    for row in client.query_typed(sql, &[]).await.map_err(other_form)? {
        let number = row.try_get(0).map_err(reading)?;
        let (name, is_clean): (_, bool) = (row.try_get(1).map_err(reading)?, row.try_get(2).map_err(reading)?);
        match source {
            Source::GolangMigrate => rows.extend(up_to(migrations, number, !is_clean)),
            _ => rows.push(Foreign { number, name, is_clean, checksum: row.try_get(3).map_err(reading)? }),
        }
    }
    Ok(rows)
}
