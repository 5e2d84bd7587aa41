//! Reading a slot's part of the log: the positions of its partitions, merged in order, then the messages.
//!
//! Each partition's positions come from one index range; the merge reads small pages of them, so a receive costs the same
//! whatever the number of slots or the depth of the queue.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fencepost_core::{
    Error, Headers, Key, Kind, Message, MessageId, MessageKind, Partition, Position, Result, Timestamp,
};
use rusqlite::{Connection, Row};

use crate::error::driver_error;
use crate::state::damaged;

/// The position after every other.
pub(crate) const END: Position = Position::from_storage(i64::MAX);

/// The most positions that one page has.
const PAGE: usize = 1_000;

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
    let page = (max as usize / stretches.len().max(1) + 4).min(max as usize).min(PAGE) as i64;

    let mut heads = BinaryHeap::with_capacity(stretches.len());
    for (index, stretch) in stretches.iter_mut().enumerate() {
        heads.extend(stretch.next(connection, queue, through, page)?.map(|position| Reverse((position, index))));
    }
    let mut merged = Vec::with_capacity((max as usize).min(PAGE));
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

/// A message of the log with what decides whether it is handed out.
pub(crate) struct Logged {
    pub(crate) message: Message,
    pub(crate) expires_at: Option<Timestamp>,
}

impl Logged {
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// The messages at `positions`, in that order. One that is not there is left out; none is, while a batch holds them.
pub(crate) fn messages(connection: &Connection, positions: &[i64], deliveries: u32) -> Result<Vec<Logged>> {
    let mut statement = connection.prepare_cached(include_str!("../sql/queue/message.sql")).map_err(driver_error)?;
    let mut found = Vec::with_capacity(positions.len());
    for position in positions {
        let mut rows = statement.query([position]).map_err(driver_error)?;
        if let Some(row) = rows.next().map_err(driver_error)? {
            let expires_at = row.get::<_, Option<i64>>(7).map_err(driver_error)?.map(Timestamp::from_micros);
            found.push(Logged { message: decode(row, 1, deliveries)?, expires_at });
        }
    }
    Ok(found)
}

/// A message that a consumer set aside; `deliveries` are those of the batch that it is in.
pub(crate) fn aside(connection: &Connection, consumer: i64, position: i64, deliveries: u32) -> Result<Option<Message>> {
    let mut statement = connection.prepare_cached(include_str!("../sql/aside/message.sql")).map_err(driver_error)?;
    let mut rows = statement.query((consumer, position)).map_err(driver_error)?;
    let Some(row) = rows.next().map_err(driver_error)? else { return Ok(None) };
    let counts = || Ok((row.get::<_, u32>(7)?, row.get::<_, u32>(8)?));
    let (failures, before) = counts().map_err(driver_error)?;
    decode(row, failures.saturating_add(1), before.saturating_add(deliveries)).map(Some)
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

/// Columns: position, id, key, kind, payload, headers, created_at.
fn decode(row: &Row<'_>, attempt: u32, deliveries: u32) -> Result<Message> {
    type Columns = (i64, i64, Option<String>, String, Vec<u8>, Option<String>, i64);
    let columns: rusqlite::Result<Columns> =
        (|| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?)))();
    let (position, id, key, kind, payload, headers, created_at) = columns.map_err(driver_error)?;
    let decoded = || {
        Ok(Message {
            id: MessageId::new(id)?,
            position: Position::from_storage(position),
            key: key.map(Key::new).transpose()?,
            kind: MessageKind::new(kind)?,
            payload,
            headers: decode_headers(headers, position)?,
            attempt,
            deliveries,
            created_at: Timestamp::from_micros(created_at),
        })
    };
    decoded().map_err(|cause| damaged("fencepost_message", cause))
}

/// Headers as they are stored, of the message at `position`.
pub(crate) fn decode_headers(headers: Option<String>, position: i64) -> Result<Headers> {
    let Some(json) = headers else { return Ok(Headers::new()) };
    serde_json::from_str(&json).map_err(|cause| {
        Error::new(Kind::Corrupt, "cannot read the headers of a message").with("position", position).caused_by(cause)
    })
}
