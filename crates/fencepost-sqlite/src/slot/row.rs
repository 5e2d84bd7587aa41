//! A slot's row: its whole state, loaded and stored as one.

use fencepost_core::refusal::no_slot;
use fencepost_core::slot::{OpenBatch, Owner, SlotState};
use fencepost_core::{BatchId, ConsumerPath, Epoch, Nonce, Position, Result, SlotIndex, Timestamp, Ttl, WorkerName};
use rusqlite::{Connection, Row, params};

use crate::consumer::ConsumerRow;
use crate::error::driver_error;
use crate::state::damaged;
use crate::statement::execute;

pub(crate) fn load(
    connection: &Connection,
    consumer: &ConsumerRow,
    path: &ConsumerPath,
    slot: SlotIndex,
) -> Result<SlotState> {
    let mut statement = connection.prepare_cached(include_str!("../../sql/slot/load.sql")).map_err(driver_error)?;
    let mut rows = statement.query((consumer.id, slot.get())).map_err(driver_error)?;
    match rows.next().map_err(driver_error)? {
        Some(row) => decode(row),
        None => Err(no_slot(path, slot, consumer.slots)),
    }
}

/// Every slot of a consumer, in order.
pub(crate) fn load_all(connection: &Connection, consumer: i64) -> Result<Vec<(SlotIndex, SlotState)>> {
    let mut statement = connection.prepare_cached(include_str!("../../sql/slot/list.sql")).map_err(driver_error)?;
    let mut rows = statement.query([consumer]).map_err(driver_error)?;
    let mut slots = Vec::new();
    while let Some(row) = rows.next().map_err(driver_error)? {
        let slot =
            SlotIndex::new(row.get(15).map_err(driver_error)?).map_err(|cause| damaged("fencepost_slot", cause))?;
        slots.push((slot, decode(row)?));
    }
    Ok(slots)
}

/// Stores a slot's state whole: cursor, owner and open batch are one.
pub(crate) fn store(connection: &Connection, consumer: i64, slot: SlotIndex, state: &SlotState) -> Result<()> {
    let (owner, batch) = (state.owner.as_ref(), state.batch);
    execute(
        connection,
        include_str!("../../sql/slot/store.sql"),
        params![
            consumer,
            slot.get(),
            state.cursor.to_storage(),
            state.epoch.map(Epoch::get),
            owner.map(|owner| owner.worker.as_str()),
            owner.and_then(|owner| owner.nonce.as_ref()).map(Nonce::as_str),
            owner.map(|owner| owner.ttl.as_micros()),
            owner.map(|owner| owner.expires_at.as_micros()),
            batch.map(|batch| batch.id.get()),
            batch.map(|batch| batch.through.to_storage()),
            batch.map(|batch| batch.size),
            batch.map(|batch| batch.deliveries),
            batch.map(|batch| batch.crashes),
            state.last_acked.map(BatchId::get),
            batch.map(|batch| batch.plain),
            batch.map(|batch| batch.alone),
            state.isolated.map(Position::to_storage),
        ],
    )
    .map(drop)
}

/// Columns: cursor, epoch, worker, nonce, ttl, expires_at, batch, batch_through, batch_size, deliveries, crashes, last_acked,
/// plain, alone, isolated.
fn decode(row: &Row<'_>) -> Result<SlotState> {
    type Ownership = (i64, Option<i64>, Option<String>, Option<String>, Option<i64>, Option<i64>);
    type Open = (Option<i64>, Option<i64>, Option<u32>, Option<u32>, Option<u32>, Option<i64>);
    type Apart = (Option<bool>, Option<bool>, Option<i64>);
    let columns: rusqlite::Result<(Ownership, Open, Apart)> = (|| {
        Ok((
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?),
            (row.get(6)?, row.get(7)?, row.get(8)?, row.get(9)?, row.get(10)?, row.get(11)?),
            (row.get(12)?, row.get(13)?, row.get(14)?),
        ))
    })();
    let (ownership, open, (plain, alone, isolated)) = columns.map_err(driver_error)?;
    let (cursor, epoch, worker, nonce, ttl, expires_at) = ownership;
    let (batch, through, size, deliveries, crashes, last_acked) = open;
    let decoded = || {
        let owner = match (worker, ttl, expires_at) {
            (Some(worker), Some(ttl), Some(expires_at)) => Some(Owner {
                worker: WorkerName::new(worker)?,
                nonce: nonce.map(Nonce::new).transpose()?,
                ttl: Ttl::from_micros(ttl)?,
                expires_at: Timestamp::from_micros(expires_at),
            }),
            _ => None,
        };
        let batch = match (batch, through, size, deliveries, crashes, plain, alone) {
            (Some(id), Some(through), Some(size), Some(deliveries), Some(crashes), Some(plain), Some(alone)) => {
                Some(OpenBatch {
                    id: BatchId::new(id)?,
                    through: Position::from_storage(through),
                    size,
                    deliveries,
                    crashes,
                    plain,
                    alone,
                })
            }
            _ => None,
        };
        Ok(SlotState {
            cursor: Position::from_storage(cursor),
            epoch: epoch.map(Epoch::new).transpose()?,
            owner,
            batch,
            last_acked: last_acked.map(BatchId::new).transpose()?,
            isolated: isolated.map(Position::from_storage),
        })
    };
    decoded().map_err(|cause| damaged("fencepost_slot", cause))
}
