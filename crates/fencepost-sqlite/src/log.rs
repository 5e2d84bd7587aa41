//! Reading a slot's part of the log: the positions of its partitions, merged in order, then the messages.
//!
//! Each partition's positions come from one index range; the merge reads small pages of them, so a receive costs the same
//! whatever the number of slots or the depth of the queue.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fencepost_core::{Headers, Key, Message, MessageId, MessageKind, Partition, Position, Result, Timestamp};
use rusqlite::{Connection, Row};

use crate::error::driver_error;
use crate::state::damaged;

/// The position after every other.
pub(crate) const END: Position = Position::from_storage(i64::MAX);

/// One partition's positions, read a page at a time.
struct Stretch {
    partition: Partition,
    page: VecDeque<i64>,
    after: i64,
    exhausted: bool,
}

/// The first `max` positions after `cursor` and up to `through` in the partitions given, in order.
pub(crate) fn positions(
    connection: &Connection,
    queue: i64,
    partitions: impl Iterator<Item = Partition>,
    cursor: Position,
    through: Position,
    max: u32,
) -> Result<Vec<i64>> {
    let mut stretches: Vec<Stretch> = partitions
        .map(|partition| Stretch { partition, page: VecDeque::new(), after: cursor.to_storage(), exhausted: false })
        .collect();
    let through = through.to_storage();
    let page = (max as usize / stretches.len().max(1) + 4).min(max as usize) as i64;

    let mut heads = BinaryHeap::with_capacity(stretches.len());
    for (index, stretch) in stretches.iter_mut().enumerate() {
        heads.extend(stretch.next(connection, queue, through, page)?.map(|position| Reverse((position, index))));
    }
    let mut merged = Vec::with_capacity(max as usize);
    while let Some(Reverse((position, index))) = heads.pop() {
        merged.push(position);
        if merged.len() == max as usize {
            break;
        }
        heads.extend(stretches[index].next(connection, queue, through, page)?.map(|next| Reverse((next, index))));
    }
    Ok(merged)
}

impl Stretch {
    fn next(&mut self, connection: &Connection, queue: i64, through: i64, size: i64) -> Result<Option<i64>> {
        if self.page.is_empty() && !self.exhausted {
            self.page = connection
                .prepare_cached(include_str!("../sql/queue/positions.sql"))
                .and_then(|mut statement| {
                    statement
                        .query_map((queue, self.partition.get(), self.after, through, size), |row| row.get(0))?
                        .collect::<rusqlite::Result<_>>()
                })
                .map_err(driver_error)?;
            self.exhausted = (self.page.len() as i64) < size;
            self.after = self.page.back().copied().unwrap_or(self.after);
        }
        Ok(self.page.pop_front())
    }
}

/// The messages at `positions`, in that order. One that is not there is left out; none is, while a batch holds them.
pub(crate) fn messages(connection: &Connection, positions: &[i64], deliveries: u32) -> Result<Vec<Message>> {
    let mut statement = connection.prepare_cached(include_str!("../sql/queue/message.sql")).map_err(driver_error)?;
    let mut found = Vec::with_capacity(positions.len());
    for position in positions {
        let mut rows = statement.query([position]).map_err(driver_error)?;
        if let Some(row) = rows.next().map_err(driver_error)? {
            found.push(decode(row, deliveries)?);
        }
    }
    Ok(found)
}

/// How many messages of the partitions given are after `cursor`.
pub(crate) fn count(
    connection: &Connection,
    queue: i64,
    partitions: impl Iterator<Item = Partition>,
    cursor: Position,
) -> Result<u64> {
    let mut statement = connection.prepare_cached(include_str!("../sql/queue/count.sql")).map_err(driver_error)?;
    let mut total = 0;
    for partition in partitions {
        total += statement
            .query_row((queue, partition.get(), cursor.to_storage()), |row| row.get::<_, u64>(0))
            .map_err(driver_error)?;
    }
    Ok(total)
}

/// Columns: position, key, kind, payload, headers, created_at.
fn decode(row: &Row<'_>, deliveries: u32) -> Result<Message> {
    type Columns = (i64, Option<String>, String, Vec<u8>, Option<String>, i64);
    let columns: rusqlite::Result<Columns> =
        (|| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)))();
    let (position, key, kind, payload, headers, created_at) = columns.map_err(driver_error)?;
    let headers = match headers {
        Some(json) => serde_json::from_str(&json).map_err(|cause| {
            fencepost_core::Error::new(fencepost_core::Kind::Corrupt, "cannot read the headers of a message")
                .with("position", position)
                .caused_by(cause)
        })?,
        None => Headers::new(),
    };
    let decoded = || {
        Ok(Message {
            id: MessageId::new(position)?,
            key: key.map(Key::new).transpose()?,
            kind: MessageKind::new(kind)?,
            payload,
            headers,
            attempt: 1,
            deliveries,
            created_at: Timestamp::from_micros(created_at),
        })
    };
    decoded().map_err(|cause| damaged("fencepost_message", cause))
}
