//! Calls on a session: one statement each, bounded. An answer that does not come in time is an error, after which the session is in doubt.

use std::time::Duration;

use fencepost_connect::driver_error;
use fencepost_core::{Error, Kind, Result};
use tokio::time::timeout;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, Row};

/// How long a statement may take that waits for nobody.
pub(super) const ANSWER: Duration = Duration::from_secs(10);

pub(super) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// Waits for an answer of the driver, within a bound.
pub(super) async fn bounded<T>(
    bound: Duration,
    call: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T> {
    match timeout(bound, call).await {
        Ok(answer) => answer.map_err(|error| driver_error(error, &[])),
        Err(_) => Err(Error::new(Kind::Unavailable, "the server did not answer in time").coded("timeout")),
    }
}

pub(super) async fn rows(client: &Client, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
    bounded(ANSWER, client.query_typed(sql, values)).await
}

/// The row of a statement that has one.
pub(super) async fn row(client: &Client, sql: &str, values: &[Value<'_>]) -> Result<Row> {
    rows(client, sql, values).await?.into_iter().next().ok_or_else(|| unreadable("no row"))
}

pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T> {
    row.try_get(name).map_err(unreadable)
}

fn unreadable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(Kind::Internal, "cannot understand the server").caused_by(cause)
}
