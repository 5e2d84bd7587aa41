//! The record of what operators took by force.

use fencepost_core::{Epoch, Forced, LeaseName, Reason, Result, SlotIndex, Timestamp};
use rusqlite::Connection;

use crate::error::driver_error;
use crate::state::damaged;

/// Whose record it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// A lease.
    Lease(&'a LeaseName),
    /// A consumer and, when something is recorded, its slot.
    Slot(i64, Option<SlotIndex>),
}

impl Subject<'_> {
    fn columns(&self) -> (Option<&str>, Option<i64>, Option<u16>) {
        match self {
            Subject::Lease(name) => (Some(name.as_str()), None, None),
            Subject::Slot(consumer, slot) => (None, Some(*consumer), slot.map(SlotIndex::get)),
        }
    }
}

/// Adds to the record and keeps it short.
pub(crate) fn record(connection: &Connection, subject: Subject<'_>, forced: &Forced) -> Result<()> {
    let (lease, consumer, slot) = subject.columns();
    let Forced { at, epoch, from, reason } = forced;
    connection
        .prepare_cached(include_str!("../sql/forced/insert.sql"))
        .and_then(|mut insert| {
            insert.execute((at.as_micros(), lease, consumer, slot, epoch.get(), from, reason.as_str()))
        })
        .and_then(|_| connection.prepare_cached(include_str!("../sql/forced/trim.sql")))
        .and_then(|mut trim| trim.execute((lease, consumer)))
        .map(drop)
        .map_err(driver_error)
}

/// The record, oldest first, with the slot of each entry where there is one.
pub(crate) fn list(connection: &Connection, subject: Subject<'_>) -> Result<Vec<(Option<SlotIndex>, Forced)>> {
    type Columns = (i64, Option<i64>, i64, Option<String>, String);
    let (lease, consumer, _) = subject.columns();
    let rows: Vec<Columns> = connection
        .prepare_cached(include_str!("../sql/forced/list.sql"))
        .and_then(|mut list| {
            let columns =
                |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?));
            list.query_map((lease, consumer), columns)?.collect()
        })
        .map_err(driver_error)?;
    let decode = |(at, slot, epoch, from, reason): Columns| {
        let slot = slot.map(SlotIndex::new).transpose()?;
        let (epoch, reason) = (Epoch::new(epoch)?, Reason::new(reason)?);
        Ok((slot, Forced { at: Timestamp::from_micros(at), epoch, from, reason }))
    };
    rows.into_iter().map(|row| decode(row).map_err(|cause| damaged("fencepost_forced", cause))).collect()
}
