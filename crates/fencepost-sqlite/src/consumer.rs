//! Ordered consumers: making and dropping them with all their slots.

use async_trait::async_trait;
use fencepost_core::refusal::{no_consumer, no_queue, other_slots};
use fencepost_core::slot::{Call, Outcome, SlotState, step};
use fencepost_core::{
    ConsumerPath, ConsumerStatus, Consumers, CreateConsumer, Created, Dropped, Partitions, Position, QueueName, Result,
    SlotCount, Start, Topic,
};
use rusqlite::{Connection, OptionalExtension};

use crate::error::driver_error;
use crate::state::{Group, damaged, load_queue, recorded};
use crate::store::SqliteStore;
use crate::{log, member, slot};

/// A consumer as a transaction knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConsumerRow {
    pub(crate) id: i64,
    pub(crate) queue: i64,
    pub(crate) slots: SlotCount,
    pub(crate) partitions: Partitions,
}

#[async_trait]
impl Consumers for SqliteStore {
    async fn create_consumer(&self, request: &CreateConsumer) -> Result<Created> {
        let request = request.clone();
        self.transact("create_consumer", move |group| create(group, &request)).await
    }

    async fn drop_consumer(&self, path: &ConsumerPath, force: bool) -> Result<Dropped> {
        let path = path.clone();
        self.transact("drop_consumer", move |group| drop_consumer(group, &path, force)).await
    }

    async fn consumer_status(&self, queue: Option<&QueueName>) -> Result<Vec<ConsumerStatus>> {
        let queue = queue.cloned();
        let clock = self.shared().clone();
        self.read("consumer_status", move |snapshot| {
            let now = clock.clock.now(recorded(snapshot)?);
            paths(snapshot, queue.as_ref())?
                .into_iter()
                .map(|path| {
                    let row = load(snapshot, &path)?;
                    let mut lag = 0;
                    for (slot, state) in slot::load_all(snapshot, row.id)? {
                        lag += log::count(snapshot, row.queue, row.slots.share(slot, row.partitions), state.cursor)?;
                    }
                    let workers = member::live(snapshot, row.id, now)?.len() as u32;
                    Ok(ConsumerStatus { path, slots: row.slots, lag, workers })
                })
                .collect()
        })
        .await
    }
}

fn create(group: &mut Group<'_>, request: &CreateConsumer) -> Result<Created> {
    let CreateConsumer { path, slots, start } = request;
    let queue = group.queue(&path.queue)?;
    slots.fits(queue.partitions)?;
    if let Some(found) = find(group.connection(), path)? {
        if found.slots == *slots {
            return Ok(Created::Existed);
        }
        return Err(other_slots(path, *slots, found.slots));
    }
    let cursor = match start {
        Start::Earliest => Position::START,
        Start::Latest => group.last_position()?,
    };
    let connection = group.connection();
    connection
        .prepare_cached(include_str!("../sql/consumer/insert.sql"))
        .and_then(|mut statement| statement.execute((queue.id, path.consumer.as_str(), slots.get())))
        .map_err(driver_error)?;
    let id = connection.last_insert_rowid();
    for slot in slots.slots() {
        slot::store(connection, id, slot, &SlotState::new(cursor))?;
    }
    Ok(Created::Created)
}

fn drop_consumer(group: &mut Group<'_>, path: &ConsumerPath, force: bool) -> Result<Dropped> {
    let Some(consumer) = find(group.connection(), path)? else {
        return Ok(Dropped::Absent);
    };
    let now = group.now()?;
    for (slot, state) in slot::load_all(group.connection(), consumer.id)? {
        if let Outcome::Refused(refusal) = step(&state, &Call::Drop { force }, now).outcome {
            return Err(refusal.into_error("drop_consumer", path, slot));
        }
    }
    group
        .connection()
        .prepare_cached(include_str!("../sql/consumer/delete.sql"))
        .and_then(|mut statement| statement.execute([consumer.id]))
        .map_err(driver_error)?;
    group.record(now)?;
    group.wake(Topic::Slots(path.clone()));
    Ok(Dropped::Dropped)
}

/// Tells sleeping workers of other processes that something about the consumer's slots or members changed; wakes this one's.
pub(crate) fn touch(group: &mut Group<'_>, path: &ConsumerPath, consumer: i64) -> Result<()> {
    group
        .connection()
        .prepare_cached(include_str!("../sql/consumer/touch.sql"))
        .and_then(|mut statement| statement.execute([consumer]))
        .map_err(driver_error)?;
    group.wake(Topic::Slots(path.clone()));
    Ok(())
}

/// A consumer, or `not_found`.
pub(crate) fn load(connection: &Connection, path: &ConsumerPath) -> Result<ConsumerRow> {
    if let Some(row) = find(connection, path)? {
        return Ok(row);
    }
    if load_queue(connection, &path.queue)?.is_none() {
        return Err(no_queue(&path.queue));
    }
    Err(no_consumer(path))
}

fn find(connection: &Connection, path: &ConsumerPath) -> Result<Option<ConsumerRow>> {
    let found = connection
        .prepare_cached(include_str!("../sql/consumer/load.sql"))
        .and_then(|mut statement| {
            statement
                .query_row([path.queue.as_str(), path.consumer.as_str()], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?, row.get::<_, i64>(3)?))
                })
                .optional()
        })
        .map_err(driver_error)?;
    let Some((id, queue, slots, partitions)) = found else { return Ok(None) };
    let decoded =
        || Ok(ConsumerRow { id, queue, slots: SlotCount::new(slots)?, partitions: Partitions::new(partitions)? });
    decoded().map(Some).map_err(|cause| damaged("fencepost_consumer", cause))
}

/// The consumers of one queue, or of all, by name.
pub(crate) fn paths(connection: &Connection, queue: Option<&QueueName>) -> Result<Vec<ConsumerPath>> {
    if let Some(queue) = queue
        && load_queue(connection, queue)?.is_none()
    {
        return Err(no_queue(queue));
    }
    let found: Vec<(String, String)> = connection
        .prepare_cached(include_str!("../sql/consumer/list.sql"))
        .and_then(|mut statement| {
            statement.query_map([queue.map(QueueName::as_str)], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
        .map_err(driver_error)?;
    found
        .into_iter()
        .map(|(queue, consumer)| {
            ConsumerPath::new(queue, consumer).map_err(|cause| damaged("fencepost_consumer", cause))
        })
        .collect()
}
