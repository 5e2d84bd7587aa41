//! The demo's own table in PostgreSQL, in the same database as the store, in a schema of its own: who may install the store may make it.

use async_trait::async_trait;
use fencepost::postgres::tokio_postgres::types::{ToSql, Type};
use fencepost::postgres::tokio_postgres::{self, Client, Transaction};
use fencepost::postgres::{PostgresStore, TransactionCalls, driver_error};
use fencepost::{Batch, Error, Kind, Result, SlotToken};
use tokio::sync::Mutex;

use super::input::RowKey;
use super::table::{Row, Rows, Table, fold, keys};
use super::tally::{Reading, Tally};

const CREATE: &str = "
CREATE SCHEMA IF NOT EXISTS fencepost_demo;
CREATE TABLE IF NOT EXISTS fencepost_demo.result (
    keyed        boolean NOT NULL,
    key          text    NOT NULL,
    legs         bigint  NOT NULL DEFAULT 0,
    cancelled    bigint  NOT NULL DEFAULT 0,
    delay_total  bigint  NOT NULL DEFAULT 0,
    delay_worst  bigint,
    last_dest    text,
    checksum     bigint  NOT NULL,
    last_message bigint  NOT NULL DEFAULT 0,
    out_of_order bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (keyed, key)
)";

/// Whoever made the table once needs no right to make it again.
const IS_THERE: &str = "SELECT to_regclass('fencepost_demo.result') IS NOT NULL";

const EMPTY: &str = "TRUNCATE fencepost_demo.result";

/// Makes the rows that are not there yet, so that the next statement can lock them all.
const TOUCH: &str = "
INSERT INTO fencepost_demo.result (keyed, key, checksum)
SELECT keyed, key, $3 FROM unnest($1::boolean[], $2::text[]) AS touched (keyed, key)
    ON CONFLICT DO NOTHING";

/// Records without a key are of every slot, so their row is locked before it is read.
const LOAD: &str = "
SELECT legs, cancelled, delay_total, delay_worst, last_dest, checksum, last_message, out_of_order, keyed, key
  FROM fencepost_demo.result
 WHERE (keyed, key) IN (SELECT * FROM unnest($1::boolean[], $2::text[]))
 ORDER BY keyed, key COLLATE \"C\" FOR UPDATE";

const STORE: &str = "
UPDATE fencepost_demo.result AS r
   SET legs = n.legs, cancelled = n.cancelled, delay_total = n.delay_total, delay_worst = n.delay_worst, last_dest = n.last_dest,
       checksum = n.checksum, last_message = n.last_message, out_of_order = n.out_of_order
  FROM unnest($1::boolean[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[],
              $9::bigint[], $10::bigint[])
    AS n (keyed, key, legs, cancelled, delay_total, delay_worst, last_dest, checksum, last_message, out_of_order)
 WHERE r.keyed = n.keyed AND r.key = n.key";

const ALL: &str = "
SELECT legs, cancelled, delay_total, delay_worst, last_dest, checksum, last_message, out_of_order, keyed, key
  FROM fencepost_demo.result";

/// A value of a statement.
type Value<'a> = &'a (dyn ToSql + Sync);

/// The table in the store's database.
pub struct InDatabase {
    store: PostgresStore,
    /// The connections of this process that no transaction uses at this moment.
    idle: Mutex<Vec<Client>>,
}

impl InDatabase {
    /// The one beside `store`.
    pub fn of(store: &PostgresStore) -> Self {
        Self { store: store.clone(), idle: Mutex::default() }
    }

    async fn client(&self) -> Result<Client> {
        loop {
            match self.idle.lock().await.pop() {
                Some(client) if client.is_closed() => {}
                Some(client) => return Ok(client),
                None => return self.store.client().await,
            }
        }
    }
}

#[async_trait]
impl Table for InDatabase {
    async fn reset(&self) -> Result<()> {
        let client = self.client().await?;
        let made = async {
            let is_there: bool = client.query_typed_one(IS_THERE, &[]).await?.try_get(0)?;
            client.batch_execute(if is_there { EMPTY } else { CREATE }).await
        };
        made.await.map_err(|error| match driver_error(error) {
            error if error.code() == "permission_denied" => {
                Error::new(Kind::Unavailable, "cannot run the demo: the user may not make its table")
                    .coded("permission_denied")
                    .hinted(
                        "it is `fencepost_demo.result`, in a schema of its own: grant the user CREATE on the database",
                    )
                    .caused_by(error)
            }
            error => error,
        })
    }

    async fn apply_and_ack(&self, batch: Batch, token: SlotToken, reading: Reading) -> Result<()> {
        let mut client = self.client().await?;
        let transaction = client.transaction().await.map_err(driver_error)?;
        apply(&transaction, &batch, reading).await?;
        transaction.ack_in(&token, batch.id).await?;
        transaction.commit_whole().await?;
        self.idle.lock().await.push(client);
        Ok(())
    }

    async fn rows(&self) -> Result<Rows> {
        let rows = self.client().await?.query_typed(ALL, &[]).await.map_err(driver_error)?;
        rows.iter().map(decode).collect::<std::result::Result<_, _>>().map_err(driver_error)
    }

    /// Anywhere: what a stopped process has open on the server is not the server's to wait for.
    async fn stop_at(&self, stop: Box<dyn FnOnce() + Send>) -> Result<()> {
        let stopped = tokio::task::spawn_blocking(stop).await;
        stopped.map_err(|cause| Error::new(Kind::Internal, "cannot stop the process").caused_by(cause))
    }

    fn place(&self) -> &'static str {
        "in the database as `fencepost_demo.result`"
    }
}

async fn apply(transaction: &Transaction<'_>, batch: &Batch, reading: Reading) -> Result<()> {
    let keys = keys(batch);
    let (keyed, names): (Vec<bool>, Vec<&str>) =
        keys.iter().map(|key| (key.is_some(), key.as_deref().unwrap_or(""))).unzip();
    let empty = Tally::default().checksum.cast_signed();
    // With their types, so that no statement is prepared by name: behind a pooler the session is others' too.
    let touched = [(&keyed as Value<'_>, Type::BOOL_ARRAY), (&names, Type::TEXT_ARRAY), (&empty, Type::INT8)];
    transaction.execute_typed(TOUCH, &touched).await.map_err(driver_error)?;
    let found = transaction.query_typed(LOAD, &touched[..2]).await.map_err(driver_error)?;
    let mut rows: Rows = found.iter().map(decode).collect::<std::result::Result<_, _>>().map_err(driver_error)?;
    fold(&mut rows, batch, reading)?;
    store(transaction, &rows).await.map_err(driver_error)
}

async fn store(transaction: &Transaction<'_>, rows: &Rows) -> std::result::Result<(), tokio_postgres::Error> {
    let number = |number: u64| number.cast_signed();
    let keyed: Vec<bool> = rows.keys().map(Option::is_some).collect();
    let key: Vec<&str> = rows.keys().map(|key| key.as_deref().unwrap_or("")).collect();
    let legs: Vec<i64> = rows.values().map(|row| number(row.tally.legs)).collect();
    let cancelled: Vec<i64> = rows.values().map(|row| number(row.tally.cancelled)).collect();
    let total: Vec<i64> = rows.values().map(|row| row.tally.delay_total).collect();
    let worst: Vec<Option<i64>> = rows.values().map(|row| row.tally.delay_worst).collect();
    let dest: Vec<Option<&str>> = rows.values().map(|row| row.tally.last_dest.as_deref()).collect();
    let checksum: Vec<i64> = rows.values().map(|row| number(row.tally.checksum)).collect();
    let last: Vec<i64> = rows.values().map(|row| row.last_message).collect();
    let disorder: Vec<i64> = rows.values().map(|row| number(row.out_of_order)).collect();
    let values: [(Value<'_>, Type); 10] = [
        (&keyed, Type::BOOL_ARRAY),
        (&key, Type::TEXT_ARRAY),
        (&legs, Type::INT8_ARRAY),
        (&cancelled, Type::INT8_ARRAY),
        (&total, Type::INT8_ARRAY),
        (&worst, Type::INT8_ARRAY),
        (&dest, Type::TEXT_ARRAY),
        (&checksum, Type::INT8_ARRAY),
        (&last, Type::INT8_ARRAY),
        (&disorder, Type::INT8_ARRAY),
    ];
    transaction.execute_typed(STORE, &values).await.map(drop)
}

fn decode(row: &tokio_postgres::Row) -> std::result::Result<(RowKey, Row), tokio_postgres::Error> {
    let number = |at| row.try_get::<_, i64>(at).map(i64::cast_unsigned);
    let key: Option<String> = if row.try_get(8)? { Some(row.try_get(9)?) } else { None };
    let tally = Tally {
        legs: number(0)?,
        cancelled: number(1)?,
        delay_total: row.try_get(2)?,
        delay_worst: row.try_get(3)?,
        last_dest: row.try_get(4)?,
        checksum: number(5)?,
    };
    Ok((key, Row { tally, last_message: row.try_get(6)?, out_of_order: number(7)? }))
}
