//! The demo's own table, in the same file as the store: what makes effects and acks one transaction.

use std::collections::BTreeMap;

use fencepost::sqlite::rusqlite::{self, Connection, OpenFlags};
use fencepost::sqlite::{SqliteStore, WriteTransaction, driver_error};
use fencepost::{Batch, Result, SlotToken};

use super::input::RowKey;
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

/// A row as it is stored.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// What is kept of the key.
    pub tally: Tally,
    /// The message that was handled last.
    pub last_message: i64,
    /// Messages that came after a later one of their key.
    pub out_of_order: u64,
}

/// Makes the table, or empties it.
///
/// # Errors
/// `unavailable`.
pub async fn reset(store: &SqliteStore) -> Result<()> {
    store
        .write(|tx| {
            tx.execute_batch(CREATE)
                .and_then(|()| tx.execute_batch("DELETE FROM fencepost_demo_result"))
                .map_err(driver_error)
        })
        .await
}

/// Applies a batch and acks it: one transaction, in which the slot's epoch is checked.
///
/// # Errors
/// `fenced` when somebody else owns the slot, and then nothing is stored.
pub async fn apply_and_ack(store: &SqliteStore, batch: Batch, token: SlotToken, reading: Reading) -> Result<()> {
    store
        .write(move |tx| {
            apply(tx, &batch, reading)?;
            tx.ack_in(&token, batch.id).map(drop)
        })
        .await
}

fn apply(tx: &WriteTransaction<'_, '_>, batch: &Batch, reading: Reading) -> Result<()> {
    let mut rows: BTreeMap<RowKey, Row> = BTreeMap::new();
    for message in &batch.messages {
        let key = message.key.as_ref().map(|key| key.as_str().to_owned());
        let keyed = key.is_some();
        if !rows.contains_key(&key) {
            rows.insert(key.clone(), load(tx, &key)?);
        }
        let row = rows.get_mut(&key).expect("it was put there");
        if keyed && message.id.get() <= row.last_message {
            row.out_of_order += 1;
        }
        row.last_message = row.last_message.max(message.id.get());
        row.tally.add(&String::from_utf8_lossy(&message.payload), keyed, reading)?;
    }
    rows.iter().try_for_each(|(key, row)| store(tx, key, row))
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

/// Every row, read by a connection of the demo's own.
///
/// # Errors
/// `unavailable`.
pub fn rows(store: &SqliteStore) -> Result<BTreeMap<RowKey, Row>> {
    let connection =
        Connection::open_with_flags(store.path(), OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(driver_error)?;
    let mut statement = connection.prepare(ALL).map_err(driver_error)?;
    let rows = statement
        .query_map([], |row| {
            let key = if row.get(8)? { Some(row.get(9)?) } else { None };
            Ok((key, decode(row)?))
        })
        .map_err(driver_error)?;
    rows.collect::<rusqlite::Result<_>>().map_err(driver_error)
}
