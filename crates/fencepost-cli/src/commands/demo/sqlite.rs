//! The demo's own table in SQLite, in the same file as the store.

use async_trait::async_trait;
use fencepost::sqlite::rusqlite::{self, Connection, OpenFlags};
use fencepost::sqlite::{SqliteStore, WriteTransaction, driver_error};
use fencepost::{Batch, Result, SlotToken};

use super::input::RowKey;
use super::table::{Row, Rows, Table, fold, keys};
use super::tally::{Reading, Tally};

const CREATE: &str = "
CREATE TABLE IF NOT EXISTS fencepost_demo_result (
    keyed        INTEGER NOT NULL,
    key          TEXT    NOT NULL,
    legs         INTEGER NOT NULL,
    cancelled    INTEGER NOT NULL,
    delay_total  INTEGER NOT NULL,
    delay_worst  INTEGER,
    last_dest    TEXT,
    checksum     INTEGER NOT NULL,
    last_message INTEGER NOT NULL,
    out_of_order INTEGER NOT NULL,
    PRIMARY KEY (keyed, key)
) STRICT, WITHOUT ROWID";

const LOAD: &str = "
SELECT legs, cancelled, delay_total, delay_worst, last_dest, checksum, last_message, out_of_order
  FROM fencepost_demo_result WHERE keyed = ?1 AND key = ?2";

const STORE: &str = "
INSERT OR REPLACE INTO fencepost_demo_result
       (keyed, key, legs, cancelled, delay_total, delay_worst, last_dest, checksum, last_message, out_of_order)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

const ALL: &str = "
SELECT legs, cancelled, delay_total, delay_worst, last_dest, checksum, last_message, out_of_order, keyed, key
  FROM fencepost_demo_result";

/// The table in the store's file.
pub struct InFile(SqliteStore);

impl InFile {
    /// The one beside `store`.
    pub fn of(store: &SqliteStore) -> Self {
        Self(store.clone())
    }
}

#[async_trait]
impl Table for InFile {
    async fn reset(&self) -> Result<()> {
        self.0
            .write(|tx| {
                tx.execute_batch(CREATE)
                    .and_then(|()| tx.execute_batch("DELETE FROM fencepost_demo_result"))
                    .map_err(driver_error)
            })
            .await
    }

    async fn apply_and_ack(&self, batch: Batch, token: SlotToken, reading: Reading) -> Result<()> {
        self.0
            .write(move |tx| {
                let mut rows = Rows::new();
                for key in keys(&batch) {
                    let row = load(tx, &key)?;
                    rows.insert(key, row);
                }
                fold(&mut rows, &batch, reading)?;
                rows.iter().try_for_each(|(key, row)| store(tx, key, row))?;
                tx.ack_in(&token, batch.id).map(drop)
            })
            .await
    }

    /// Read by a connection of the demo's own.
    async fn rows(&self) -> Result<Rows> {
        let connection =
            Connection::open_with_flags(self.0.path(), OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(driver_error)?;
        let mut statement = connection.prepare(ALL).map_err(driver_error)?;
        let rows = statement
            .query_map([], |row| {
                let key = if row.get(8)? { Some(row.get(9)?) } else { None };
                Ok((key, decode(row)?))
            })
            .map_err(driver_error)?;
        rows.collect::<rusqlite::Result<_>>().map_err(driver_error)
    }

    /// On the writer's thread, where no transaction is open: a process that stops inside one stops every writer of the file.
    async fn stop_at(&self, stop: Box<dyn FnOnce() + Send>) -> Result<()> {
        self.0.between_transactions(stop).await
    }

    fn place(&self) -> &'static str {
        "in the file as `fencepost_demo_result`"
    }
}

fn load(tx: &WriteTransaction<'_, '_>, key: &RowKey) -> Result<Row> {
    let mut statement = tx.prepare_cached(LOAD).map_err(driver_error)?;
    let mut rows = statement.query((key.is_some(), key.as_deref().unwrap_or(""))).map_err(driver_error)?;
    rows.next().map_err(driver_error)?.map_or_else(|| Ok(Row::default()), |row| decode(row).map_err(driver_error))
}

fn store(tx: &WriteTransaction<'_, '_>, key: &RowKey, row: &Row) -> Result<()> {
    let Tally { legs, cancelled, delay_total, delay_worst, last_dest, checksum } = &row.tally;
    tx.prepare_cached(STORE)
        .and_then(|mut statement| {
            statement.execute((
                key.is_some(),
                key.as_deref().unwrap_or(""),
                legs,
                cancelled,
                delay_total,
                delay_worst,
                last_dest,
                checksum.cast_signed(),
                row.last_message,
                row.out_of_order,
            ))
        })
        .map(drop)
        .map_err(driver_error)
}

fn decode(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        tally: Tally {
            legs: row.get(0)?,
            cancelled: row.get(1)?,
            delay_total: row.get(2)?,
            delay_worst: row.get(3)?,
            last_dest: row.get(4)?,
            checksum: row.get::<_, i64>(5)?.cast_unsigned(),
        },
        last_message: row.get(6)?,
        out_of_order: row.get(7)?,
    })
}
