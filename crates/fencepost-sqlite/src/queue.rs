//! Queues: making them, appending to the log, and removing what every consumer has acked.

use async_trait::async_trait;
use fencepost_core::refusal::{no_queue, other_partitions, queue_in_use};
use fencepost_core::{
    Created, Dropped, Error, Key, Kind, MessageId, NewMessage, Partitions, QueueName, QueueStatus, Queues, Result,
    Retry, Timestamp, Topic,
};
use rusqlite::{Connection, OptionalExtension};

use crate::consumer;
use crate::error::driver_error;
use crate::state::{Group, damaged, load_queue};
use crate::store::SqliteStore;

/// How many messages one step of maintenance removes at most: a few milliseconds of the write lock.
const STEP: i64 = 1_000;

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

    async fn queue_status(&self) -> Result<Vec<QueueStatus>> {
        self.read("queue_status", |snapshot| {
            let mut statement =
                snapshot.prepare_cached(include_str!("../sql/queue/status.sql")).map_err(driver_error)?;
            let rows = statement
                .query_map([], |row| {
                    Ok((
                        row.get::<_, String>(0)?,
                        row.get::<_, i64>(1)?,
                        row.get::<_, u64>(2)?,
                        row.get::<_, u64>(3)?,
                        row.get::<_, Option<i64>>(4)?,
                    ))
                })
                .map_err(driver_error)?;
            rows.map(|row| {
                let (queue, partitions, consumers, stored, oldest_at) = row.map_err(driver_error)?;
                let names = || Ok((QueueName::new(queue)?, Partitions::new(partitions)?));
                let (queue, partitions) = names().map_err(|cause: Error| damaged("fencepost_queue", cause))?;
                let oldest_at = oldest_at.map(Timestamp::from_micros);
                Ok(QueueStatus { queue, partitions, consumers, stored, oldest_at })
            })
            .collect()
        })
        .await
    }

    async fn maintain(&self, queue: Option<&QueueName>) -> Result<u64> {
        let named = queue.cloned();
        let queues = self
            .read("maintain", move |snapshot| match named {
                Some(name) => Ok(vec![load_queue(snapshot, &name)?.ok_or_else(|| no_queue(&name))?.id]),
                None => ids(snapshot, "SELECT id FROM fencepost_queue ORDER BY id"),
            })
            .await?;
        let mut steps = if queue.is_none() { self.forget_leases().await? } else { 0 };
        for dropped in self.read("maintain", |snapshot| ids(snapshot, "SELECT queue_id FROM fencepost_dropped")).await?
        {
            steps += self.remove_dropped("maintain", dropped).await?;
        }
        for queue in queues {
            let consumed = self.read("maintain", move |snapshot| consumed(snapshot, queue)).await?;
            for partition in consumed {
                // A step is a transaction of its own, so that other writers get their turn in between.
                while self.transact("maintain", move |group| remove(group, queue, partition)).await? > 0 {
                    steps += 1;
                }
            }
        }
        Ok(steps)
    }
}

impl SqliteStore {
    /// Removes the messages of a dropped queue, each step a transaction of its own.
    async fn remove_dropped(&self, operation: &'static str, queue: i64) -> Result<u64> {
        let mut steps = 0;
        loop {
            let removed = self
                .transact(operation, move |group| {
                    let connection = group.connection();
                    let removed = execute(connection, include_str!("../sql/queue/remove_dropped.sql"), (queue, STEP))?;
                    execute(connection, include_str!("../sql/queue/forget_dropped.sql"), [queue])?;
                    Ok(removed)
                })
                .await?;
            if removed == 0 {
                return Ok(steps);
            }
            steps += 1;
        }
    }
}

fn execute(connection: &Connection, sql: &'static str, values: impl rusqlite::Params) -> Result<usize> {
    connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values)).map_err(driver_error)
}

fn drop_queue(group: &mut Group<'_>, queue: &QueueName, force: bool) -> Result<Option<i64>> {
    let Some(row) = group.find_queue(queue)? else { return Ok(None) };
    let connection = group.connection();
    let (consumers, holds): (u64, bool) = connection
        .prepare_cached(include_str!("../sql/queue/in_use.sql"))
        .and_then(|mut statement| statement.query_row([row.id], |row| Ok((row.get(0)?, row.get(1)?))))
        .map_err(driver_error)?;
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

/// Appends messages in order, each at the next position, which is also its id.
pub(crate) fn append_all(group: &mut Group<'_>, queue: &QueueName, messages: &[NewMessage]) -> Result<Vec<MessageId>> {
    let row = group.queue(queue)?;
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    let created_at = group.now()?.as_micros();
    let mut insert =
        group.connection().prepare_cached(include_str!("../sql/queue/append.sql")).map_err(driver_error)?;
    let mut ids = Vec::with_capacity(messages.len());
    for message in messages {
        let partition = match message.get_key() {
            Some(key) => row.partitions.of_key(key),
            None => group.shared().round.next(row.partitions),
        };
        let position = group.next_position()?.to_storage();
        insert
            .execute((
                position,
                row.id,
                partition.get(),
                message.get_key().map(Key::as_str),
                message.get_kind().as_str(),
                message.payload(),
                encode_headers(message)?,
                created_at,
            ))
            .map_err(driver_error)?;
        ids.push(MessageId::new(position)?);
    }
    group.wake(Topic::Messages(queue.clone()));
    Ok(ids)
}

fn encode_headers(message: &NewMessage) -> Result<Option<String>> {
    if message.headers().is_empty() {
        return Ok(None);
    }
    serde_json::to_string(message.headers())
        .map(Some)
        .map_err(|cause| Error::new(Kind::Internal, "cannot write the headers of a message").caused_by(cause))
}

fn ids(snapshot: &Connection, query: &'static str) -> Result<Vec<i64>> {
    snapshot
        .prepare_cached(query)
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .map_err(driver_error)
}

/// The partitions of a queue that hold messages which every consumer has acked past.
fn consumed(snapshot: &Connection, queue: i64) -> Result<Vec<i64>> {
    let mut look = snapshot.prepare_cached(include_str!("../sql/queue/has_consumed.sql")).map_err(driver_error)?;
    let partitions: i64 = snapshot
        .query_row("SELECT partitions FROM fencepost_queue WHERE id = ?1", [queue], |row| row.get(0))
        .optional()
        .map_err(driver_error)?
        .unwrap_or(0);
    let mut found = Vec::new();
    for partition in 0..partitions {
        if look.query_row((queue, partition), |row| row.get(0)).map_err(driver_error)? {
            found.push(partition);
        }
    }
    Ok(found)
}

/// Removes the oldest consumed messages of a partition, at most [`STEP`]. Returns how many.
fn remove(group: &mut Group<'_>, queue: i64, partition: i64) -> Result<usize> {
    let values = (queue, partition, STEP);
    execute(group.connection(), include_str!("../sql/queue/remove.sql"), values)
}
