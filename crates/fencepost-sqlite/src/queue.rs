//! Queues: making them, and appending to the log.

use std::time::Duration;

use async_trait::async_trait;
use fencepost_core::refusal::{other_message, other_partitions, position_gone, queue_in_use};
use fencepost_core::{
    Created, Dropped, Error, IdempotencyKey, Key, Kind, MessageId, NewMessage, OnceTtl, Partitions, Position,
    QueueName, QueueStatus, Queues, Result, Retention, Retry, SentOnce, Start, Timestamp, Topic, Window,
};
use rusqlite::{Connection, Row};

use crate::consumer;
use crate::error::driver_error;
use crate::state::{Group, damaged};
use crate::statement::{all, execute, find, one, value};
use crate::store::SqliteStore;

#[async_trait]
impl Queues for SqliteStore {
    async fn create_queue(&self, queue: &QueueName, partitions: Partitions) -> Result<Created> {
        let queue = queue.clone();
        self.transact("create_queue", move |group| create(group, &queue, partitions)).await
    }

    async fn drop_queue(&self, queue: &QueueName, force: bool) -> Result<Dropped> {
        let queue = queue.clone();
        let dropped = self.transact("drop_queue", move |group| drop_queue(group, &queue, force)).await?;
        let Some(id) = dropped else { return Ok(Dropped::Absent) };
        // The queue is gone; should this be interrupted, maintenance removes what is left of its messages.
        self.remove_dropped("drop_queue", id).await?;
        Ok(Dropped::Dropped)
    }

    async fn send(&self, queue: &QueueName, message: NewMessage) -> Result<MessageId> {
        let queue = queue.clone();
        self.transact_statement("send", move |group| append(group, &queue, &message)).await.map_err(unresolvable)
    }

    async fn send_batch(&self, queue: &QueueName, messages: Vec<NewMessage>) -> Result<Vec<MessageId>> {
        let queue = queue.clone();
        self.transact("send_batch", move |group| append_all(group, &queue, &messages)).await.map_err(unresolvable)
    }

    async fn send_once(
        &self,
        queue: &QueueName,
        message: NewMessage,
        key: &IdempotencyKey,
        ttl: OnceTtl,
    ) -> Result<SentOnce> {
        let (queue, key) = (queue.clone(), key.clone());
        self.transact("send_once", move |group| send_once(group, &queue, &message, &key, ttl)).await
    }

    async fn pause_queue(&self, queue: &QueueName) -> Result<bool> {
        let queue = queue.clone();
        self.transact("pause_queue", move |group| set_paused(group, &queue, true)).await
    }

    async fn resume_queue(&self, queue: &QueueName) -> Result<bool> {
        let queue = queue.clone();
        self.transact("resume_queue", move |group| set_paused(group, &queue, false)).await
    }

    async fn set_retention(&self, queue: &QueueName, retention: Retention) -> Result<()> {
        retention.check().map_err(|error| error.during("set_retention"))?;
        let queue = queue.clone();
        self.transact("set_retention", move |group| {
            let row = group.queue(&queue)?;
            let Retention { consumed, unread, unread_bytes } = retention;
            let values = (row.id, consumed.as_micros() as i64, unread.as_micros() as i64, unread_bytes as i64);
            execute(group.connection(), include_str!("../sql/queue/retain.sql"), values).map(drop)
        })
        .await
    }

    async fn queue_status(&self) -> Result<Vec<QueueStatus>> {
        self.read("queue_status", |snapshot| {
            let rows = all(snapshot, include_str!("../sql/queue/status.sql"), [], status_columns)?;
            rows.into_iter().map(|columns| status(columns).map_err(|cause| damaged("fencepost_queue", cause))).collect()
        })
        .await
    }

    async fn maintain(&self, queue: Option<&QueueName>) -> Result<u64> {
        self.maintain_all(queue).await
    }
}

fn drop_queue(group: &mut Group<'_>, queue: &QueueName, force: bool) -> Result<Option<i64>> {
    let Some(row) = group.find_queue(queue)? else { return Ok(None) };
    let connection = group.connection();
    let in_use = include_str!("../sql/queue/in_use.sql");
    let (consumers, holds): (u64, bool) = one(connection, in_use, [row.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if !force && (consumers > 0 || holds) {
        return Err(queue_in_use(queue, consumers));
    }
    for path in consumer::paths(connection, Some(queue))? {
        group.wake(Topic::Slots(path));
    }
    execute(connection, include_str!("../sql/queue/drop_consumers.sql"), [row.id])?;
    execute(connection, include_str!("../sql/queue/mark_dropped.sql"), [row.id])?;
    execute(connection, include_str!("../sql/queue/drop.sql"), [row.id])?;
    group.forget_queue(queue);
    Ok(Some(row.id))
}

fn create(group: &mut Group<'_>, queue: &QueueName, partitions: Partitions) -> Result<Created> {
    if let Some(found) = group.find_queue(queue)? {
        if found.partitions == partitions {
            return Ok(Created::Existed);
        }
        return Err(other_partitions(queue, partitions, found.partitions));
    }
    let values = (queue.as_str(), partitions.get());
    execute(group.connection(), include_str!("../sql/queue/insert.sql"), values)?;
    Ok(Created::Created)
}

/// A plain send has nothing by which an unknown outcome could be asked for again: made again it may double the message.
fn unresolvable(error: Error) -> Error {
    if error.kind() == Kind::UnknownOutcome { error.retried(Retry::Never) } else { error }
}

/// Appends one message.
pub(crate) fn append(group: &mut Group<'_>, queue: &QueueName, message: &NewMessage) -> Result<MessageId> {
    let ids = append_all(group, queue, std::slice::from_ref(message))?;
    ids.first().copied().ok_or_else(|| Error::new(Kind::Internal, "cannot tell the id of a message that was appended"))
}

/// Appends messages in order, each at the next position, which is also its id. One that is held back takes the position for its id.
pub(crate) fn append_all(group: &mut Group<'_>, queue: &QueueName, messages: &[NewMessage]) -> Result<Vec<MessageId>> {
    let row = group.queue(queue)?;
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    let now = group.now()?;
    let created_at = now.as_micros();
    let mut insert =
        group.connection().prepare_cached(include_str!("../sql/queue/append.sql")).map_err(driver_error)?;
    let mut ids = Vec::with_capacity(messages.len());
    for message in messages {
        let Window { due_at, expires_at } = message.window(now)?;
        let partition = match message.get_key() {
            Some(key) => row.partitions.of_key(key),
            None => group.shared().round.next(row.partitions),
        };
        let position = group.next_position()?.to_storage();
        let (key, kind) = (message.get_key().map(Key::as_str), message.get_kind().as_str());
        let (payload, headers) = (message.payload(), encode_headers(message)?);
        let expires_at = expires_at.map(Timestamp::as_micros);
        if let Some(due_at) = due_at {
            let due_at = due_at.as_micros();
            let partition = partition.get();
            let values = (position, row.id, partition, key, kind, payload, headers, created_at, expires_at, due_at);
            execute(group.connection(), include_str!("../sql/queue/delay.sql"), values)?;
        } else {
            let values = (position, row.id, partition.get(), key, kind, payload, headers, created_at, expires_at);
            insert.execute(values).map_err(driver_error)?;
        }
        ids.push(MessageId::new(position)?);
    }
    group.wake(Topic::Messages(queue.clone()));
    Ok(ids)
}

/// Appends one message unless its key is remembered; also for callers' transactions.
pub(crate) fn send_once(
    group: &mut Group<'_>,
    queue: &QueueName,
    message: &NewMessage,
    key: &IdempotencyKey,
    ttl: OnceTtl,
) -> Result<SentOnce> {
    let (row, now, digest) = (group.queue(queue)?, group.now()?, message.digest());
    let values = (row.id, key.as_str(), now.as_micros());
    let first: Option<(i64, Vec<u8>)> =
        find(group.connection(), include_str!("../sql/queue/once.sql"), values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    if let Some((id, known)) = first {
        let id = MessageId::new(id).map_err(|cause| damaged("fencepost_once", cause))?;
        if known != digest {
            return Err(other_message(queue, key, id));
        }
        return Ok(SentOnce { id, deduplicated: true });
    }
    let id = append(group, queue, message)?;
    let values = (row.id, key.as_str(), id.get(), digest, (now + ttl.get()).as_micros());
    execute(group.connection(), include_str!("../sql/queue/remember_once.sql"), values)?;
    group.record(now)?;
    Ok(SentOnce { id, deduplicated: false })
}

fn set_paused(group: &mut Group<'_>, queue: &QueueName, paused: bool) -> Result<bool> {
    let row = group.queue(queue)?;
    let changed = execute(group.connection(), include_str!("../sql/queue/pause.sql"), (row.id, paused))? > 0;
    if changed {
        group.wake(Topic::Messages(queue.clone()));
    }
    Ok(changed)
}

/// The position after which a consumer or a reader begins. `since` is the one before the first message of an instant, `last` that
/// of the last message there is.
pub(crate) fn start(
    connection: &Connection,
    name: &QueueName,
    queue: i64,
    start: &Start,
    since: Option<Position>,
    last: Position,
) -> Result<Position> {
    let after = match start {
        Start::Earliest => Position::START,
        Start::Latest => return Ok(last),
        Start::At(_) => return Ok(since.unwrap_or(last)),
        Start::AfterId(id) => Position::from_storage(*id),
        Start::After(checkpoint) => checkpoint.position(),
    };
    let (gone, first): (i64, Option<i64>) =
        one(connection, include_str!("../sql/queue/bounds.sql"), [queue], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if *start == Start::Earliest {
        return Ok(Position::from_storage(gone));
    }
    if after.to_storage() < gone {
        return Err(position_gone(name, after, first.map(Position::from_storage)));
    }
    Ok(after)
}

/// The position before the first stored message that was sent at an instant or later: that of the last one if there is none.
pub(crate) fn before(connection: &Connection, queue: i64, at: Timestamp) -> Result<Position> {
    let values = (queue, at.as_micros());
    let first: Option<i64> = value(connection, include_str!("../sql/queue/first_since.sql"), values)?;
    // INVARIANT: both in one snapshot, so that what is sent afterwards comes after it.
    first.map_or_else(|| last_position(connection), |first| Ok(Position::from_storage(first - 1)))
}

/// The last position that was given.
pub(crate) fn last_position(connection: &Connection) -> Result<Position> {
    value(connection, "SELECT position FROM fencepost_store", []).map(Position::from_storage)
}

fn encode_headers(message: &NewMessage) -> Result<Option<String>> {
    if message.headers().is_empty() {
        return Ok(None);
    }
    serde_json::to_string(message.headers())
        .map(Some)
        .map_err(|cause| Error::new(Kind::Internal, "cannot write the headers of a message").caused_by(cause))
}

type StatusColumns = ((String, i64, u64, u64, Option<i64>), (bool, i64, i64, i64, u64));

fn status_columns(row: &Row<'_>) -> rusqlite::Result<StatusColumns> {
    Ok((
        (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?),
        (row.get(5)?, row.get(6)?, row.get(7)?, row.get(8)?, row.get(9)?),
    ))
}

fn status(((queue, partitions, consumers, stored, oldest_at), rest): StatusColumns) -> Result<QueueStatus> {
    let (paused, consumed, unread, unread_bytes, delayed) = rest;
    let retention = Retention {
        consumed: Duration::from_micros(consumed.unsigned_abs()),
        unread: Duration::from_micros(unread.unsigned_abs()),
        unread_bytes: unread_bytes.unsigned_abs(),
    };
    let (queue, partitions) = (QueueName::new(queue)?, Partitions::new(partitions)?);
    let oldest_at = oldest_at.map(Timestamp::from_micros);
    Ok(QueueStatus { queue, partitions, consumers, paused, retention, delayed, stored, oldest_at })
}
