//! Dead letters: looking at them, handing them out once more, removing them.

use async_trait::async_trait;
use fencepost_core::refusal::no_queue;
use fencepost_core::slot::Place;
use fencepost_core::{
    BatchSize, ConsumerPath, DeadCause, DeadLetter, DeadLetters, Error, FailureText, Key, Kind, MessageId, MessageKind,
    Partition, Position, QueueName, Result, Timestamp, Topic,
};
use rusqlite::{Connection, Row};

use crate::consumer::{self, ConsumerRow};
use crate::log::{self, decode_headers};
use crate::slot;
use crate::state::{Group, damaged, load_queue};
use crate::statement::{all, execute, find};
use crate::store::SqliteStore;

/// How many dead letters one transaction moves or removes at most.
const STEP: i64 = 500;

#[async_trait]
impl DeadLetters for SqliteStore {
    async fn dead_letters(
        &self,
        path: &ConsumerPath,
        after: Option<MessageId>,
        max: BatchSize,
    ) -> Result<Vec<DeadLetter>> {
        let path = path.clone();
        self.read("dead_letters", move |snapshot| {
            let queue = queue_id(snapshot, &path.queue)?;
            let values = (queue, path.consumer.as_str(), after.map_or(0, MessageId::get), max.get());
            let rows = all(snapshot, include_str!("../sql/dead/list.sql"), values, columns)?;
            rows.into_iter().map(|row| decode(&path, row)).collect()
        })
        .await
    }

    async fn dead_counts(&self, queue: Option<&QueueName>) -> Result<Vec<(ConsumerPath, u64)>> {
        let queue = queue.cloned();
        self.read("dead_counts", move |snapshot| {
            if let Some(queue) = &queue {
                queue_id(snapshot, queue)?;
            }
            let values = [queue.as_ref().map(QueueName::as_str)];
            let rows: Vec<(String, String, u64)> =
                all(snapshot, include_str!("../sql/dead/counts.sql"), values, |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })?;
            let counts =
                rows.into_iter().map(|(queue, consumer, count)| Ok((ConsumerPath::new(queue, consumer)?, count)));
            counts.collect::<Result<_>>().map_err(|cause| damaged("fencepost_dead", cause))
        })
        .await
    }

    async fn replay_dead_letters(&self, path: &ConsumerPath, ids: Option<&[MessageId]>) -> Result<u64> {
        self.each_dead("replay_dead_letters", path, ids, |group, path, letters| {
            let consumer = consumer::load(group.connection(), path)?;
            let now = group.now()?;
            let mut replayed = 0;
            for letter in letters {
                replayed += u64::from(replay(group.connection(), &consumer, path, letter, now)?);
            }
            group.wake(Topic::Messages(path.queue.clone()));
            Ok(replayed)
        })
        .await
    }

    async fn purge_dead_letters(&self, path: &ConsumerPath, ids: Option<&[MessageId]>) -> Result<u64> {
        self.each_dead("purge_dead_letters", path, ids, |group, path, letters| {
            let queue = queue_id(group.connection(), &path.queue)?;
            letters.iter().try_for_each(|letter| forget(group.connection(), queue, path, letter.id))?;
            Ok(letters.len() as u64)
        })
        .await
    }
}

/// What moving a dead letter needs of it.
struct Letter {
    id: i64,
    position: i64,
    partition: i64,
    key: Option<String>,
}

impl SqliteStore {
    /// Does something with dead letters, all or those named, by id, a bounded number a transaction. Returns with how many it was done.
    async fn each_dead(
        &self,
        operation: &'static str,
        path: &ConsumerPath,
        ids: Option<&[MessageId]>,
        work: fn(&mut Group<'_>, &ConsumerPath, &[Letter]) -> Result<u64>,
    ) -> Result<u64> {
        let (mut done, mut after) = (0, 0);
        let mut named: Option<Vec<i64>> = ids.map(|ids| ids.iter().map(|id| id.get()).collect());
        if let Some(ids) = &mut named {
            ids.sort_unstable();
            ids.dedup();
        }
        let mut named = named.map(|ids| ids.into_iter().peekable());
        loop {
            let (path, some) = (path.clone(), named.as_mut().map(|ids| ids.take(STEP as usize).collect::<Vec<i64>>()));
            let is_last = named.as_mut().map(|ids| ids.peek().is_none());
            let (worked, found, last) = self
                .transact(operation, move |group| {
                    let letters = letters(group.connection(), &path, some.as_deref(), after)?;
                    // Without any, what is named is still checked.
                    let worked = work(group, &path, &letters)?;
                    Ok((worked, letters.len() as i64, letters.last().map(|letter| letter.id)))
                })
                .await?;
            done += worked;
            match (is_last, last) {
                (Some(false), _) => {}
                (None, Some(last)) if found == STEP => after = last,
                _ => return Ok(done),
            }
        }
    }
}

/// The dead letters named, or the first after an id.
fn letters(connection: &Connection, path: &ConsumerPath, named: Option<&[i64]>, after: i64) -> Result<Vec<Letter>> {
    let queue = queue_id(connection, &path.queue)?;
    let name = path.consumer.as_str();
    let letter =
        |row: &Row<'_>| Ok(Letter { id: row.get(0)?, position: row.get(1)?, partition: row.get(2)?, key: row.get(3)? });
    let Some(named) = named else {
        return all(connection, include_str!("../sql/dead/some.sql"), (queue, name, after, STEP), letter);
    };
    let mut found = Vec::new();
    for id in named {
        found.extend(find(connection, include_str!("../sql/dead/one.sql"), (queue, name, id), letter)?);
    }
    Ok(found)
}

/// Hands one to its consumer once more, unless it is to come anyway: then it is only forgotten as dead. One that the consumer is to pass
/// over stays dead. Returns whether it comes.
fn replay(
    connection: &Connection,
    consumer: &ConsumerRow,
    path: &ConsumerPath,
    letter: &Letter,
    now: Timestamp,
) -> Result<bool> {
    let Letter { id, position, partition, key } = letter;
    let partition = Partition::from_storage(*partition).map_err(|cause| damaged("fencepost_dead", cause))?;
    let cursor = slot::load(connection, consumer, path, consumer.slots.owner(partition))?.cursor;
    let in_log = log::messages(connection, &[*position], 1)?.pop();
    let to_come = in_log.filter(|_| Position::from_storage(*position) > cursor);
    if let Some(to_come) = &to_come
        && (to_come.is_expired(now) || consumer.is_before_start(to_come.message.id))
    {
        return Ok(false);
    }
    if to_come.is_none() && !consumer.is_aside(connection, *position)? {
        let waits = consumer.waits(connection, *position, key.as_deref())?;
        let (place, due_at) =
            crate::aside::encode_waiting(if waits { Place::Parked } else { Place::Due(Timestamp::default()) });
        let values = (consumer.id, consumer.queue, path.consumer.as_str(), id, place, due_at);
        execute(connection, include_str!("../sql/dead/replay.sql"), values)?;
    }
    forget(connection, consumer.queue, path, *id).map(|()| true)
}

fn forget(connection: &Connection, queue: i64, path: &ConsumerPath, id: i64) -> Result<()> {
    execute(connection, include_str!("../sql/dead/delete.sql"), (queue, path.consumer.as_str(), id)).map(drop)
}

fn queue_id(connection: &Connection, queue: &QueueName) -> Result<i64> {
    Ok(load_queue(connection, queue)?.ok_or_else(|| no_queue(queue))?.id)
}

type Columns = ((i64, i64, Option<String>, String, Vec<u8>, Option<String>), (i64, u32, String, Option<String>, i64));

/// Columns: id, position, key, kind, payload, headers, created_at, attempts, cause, reason, died_at.
fn columns(row: &Row<'_>) -> rusqlite::Result<Columns> {
    Ok((
        (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?),
        (row.get(6)?, row.get(7)?, row.get(8)?, row.get(9)?, row.get(10)?),
    ))
}

fn decode(path: &ConsumerPath, (message, death): Columns) -> Result<DeadLetter> {
    let (id, position, key, kind, payload, headers) = message;
    let (created_at, attempts, cause, reason, died_at) = death;
    let known = DeadCause::ALL.into_iter().find(|known| known.as_str() == cause);
    let cause =
        known.ok_or_else(|| Error::new(Kind::Corrupt, format!("cannot read why message `{id}` died: `{cause}`")))?;
    let decoded = || {
        Ok(DeadLetter {
            path: path.clone(),
            id: MessageId::new(id)?,
            position: Position::from_storage(position),
            key: key.map(Key::new).transpose()?,
            kind: MessageKind::new(kind)?,
            payload,
            headers: decode_headers(headers, position)?,
            created_at: Timestamp::from_micros(created_at),
            attempts,
            cause,
            reason: reason.map(FailureText::new).transpose()?,
            died_at: Timestamp::from_micros(died_at),
        })
    };
    decoded().map_err(|cause| damaged("fencepost_dead", cause))
}
