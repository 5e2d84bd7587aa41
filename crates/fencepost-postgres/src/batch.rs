//! Messages as the functions hand them out: rows of the type `fencepost.handed`.

use fencepost_core::{Batch, BatchId, Error, Headers, Key, Message, MessageId, MessageKind, Position, Result};
use tokio_postgres::Row;

use crate::error::damaged;
use crate::store::column;
use crate::time::At;

/// How many messages an ack with a receive acked: every row says it.
pub(crate) fn acked(rows: &[Row]) -> Result<u32> {
    let Some(row) = rows.first() else { return Ok(0) };
    Ok(column::<i32>(row, 0)?.unsigned_abs())
}

/// The batch that the rows are, if they are one.
pub(crate) fn batch(rows: &[Row]) -> Result<Option<Batch>> {
    let Some(row) = rows.first() else { return Ok(None) };
    let Some(id) = column::<Option<i64>>(row, 1)? else { return Ok(None) };
    let mut messages = rows.iter().map(message).collect::<Result<Vec<_>>>()?;
    // Here, as the server would have to write them down once more to sort them.
    messages.sort_unstable_by_key(|message| message.position);
    Ok(Some(Batch {
        id: BatchId::new(id).map_err(damaged_log)?,
        deliveries: column::<i32>(row, 2)?.unsigned_abs(),
        crashes: column::<i32>(row, 3)?.unsigned_abs(),
        messages,
    }))
}

fn message(row: &Row) -> Result<Message> {
    Ok(Message {
        attempt: column::<i32>(row, 10)?.unsigned_abs(),
        deliveries: column::<i32>(row, 11)?.unsigned_abs(),
        created_at: column::<At>(row, 12)?.0,
        ..content(row, 4)?
    })
}

/// Six columns from `index` on: position, id, key, kind, payload, headers as text or NULL.
pub(crate) fn content(row: &Row, index: usize) -> Result<Message> {
    let (key, kind) = (column::<Option<String>>(row, index + 2)?, column::<String>(row, index + 3)?);
    let text: Option<String> = column(row, index + 5)?;
    let decoded = || -> Result<Message> {
        Ok(Message {
            id: MessageId::new(column(row, index + 1)?)?,
            position: Position::from_storage(column(row, index)?),
            key: key.map(Key::new).transpose()?,
            kind: MessageKind::new(kind)?,
            payload: column(row, index + 4)?,
            headers: headers(text.as_deref())?,
            attempt: 1,
            deliveries: 1,
            created_at: Default::default(),
        })
    };
    decoded().map_err(damaged_log)
}

fn headers(text: Option<&str>) -> Result<Headers> {
    let Some(text) = text else { return Ok(Headers::new()) };
    serde_json::from_str(text)
        .map_err(|cause| Error::invalid("cannot read the headers", "a map of texts").caused_by(cause))
}

fn damaged_log(cause: Error) -> Error {
    damaged("message", cause)
}
