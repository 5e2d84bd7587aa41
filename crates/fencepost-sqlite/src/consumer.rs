//! Ordered consumers: making and dropping them with all their slots.

use std::time::Duration;

use async_trait::async_trait;
use fencepost_core::refusal::{no_consumer, no_queue, other_consumer};
use fencepost_core::slot::{Call, Outcome, SlotState, step};
use fencepost_core::{
    ConsumerPath, ConsumerStatus, Consumers, CreateConsumer, Created, Dropped, FailurePolicy, MessageId, Partitions,
    Position, QueueName, Result, SlotCount, Start, Topic,
};
use rusqlite::{Connection, Row};

use crate::state::{Group, damaged, load_queue, recorded};
use crate::statement::{all, execute, find as find_row, value};
use crate::store::SqliteStore;
use crate::{aside, member, queue, slot};

/// A consumer as a transaction knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConsumerRow {
    pub(crate) id: i64,
    pub(crate) queue: i64,
    pub(crate) slots: SlotCount,
    pub(crate) partitions: Partitions,
    /// Whether its queue is.
    pub(crate) paused: bool,
    pub(crate) policy: FailurePolicy,
    after_id: Option<i64>,
}

impl ConsumerRow {
    /// Whether the consumer was made to begin after this message, whenever that comes.
    pub(crate) fn is_before_start(&self, message: MessageId) -> bool {
        self.after_id.is_some_and(|id| message.get() <= id)
    }
}

#[async_trait]
impl Consumers for SqliteStore {
    async fn create_consumer(&self, request: &CreateConsumer) -> Result<Created> {
        let request = request.clone();
        // Finding an instant reads the whole queue, so that is done outside the write lock: positions only rise.
        let named = request.clone();
        let since = self
            .read("create_consumer", move |snapshot| match (named.start, load_queue(snapshot, &named.path.queue)?) {
                (Start::At(at), Some(row)) => queue::before(snapshot, row.id, at).map(Some),
                _ => Ok(None),
            })
            .await?;
        self.transact("create_consumer", move |group| create(group, &request, since)).await
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
                    let (mut lag, mut retrying, mut parked, mut first_at) = (0, 0, 0, None);
                    let counts = aside::counts(snapshot, &row)?;
                    for ((slot, state), counts) in slot::load_all(snapshot, row.id)?.into_iter().zip(counts) {
                        lag += aside::lag(snapshot, &row, slot, state.cursor, counts)?;
                        (retrying, parked) = (retrying + counts.retrying, parked + counts.parked);
                        let first = aside::first_at(snapshot, &row, slot, state.cursor)?;
                        first_at = [first_at, first].into_iter().flatten().min();
                    }
                    let values = (row.queue, path.consumer.as_str());
                    let dead = value(snapshot, include_str!("../sql/dead/count.sql"), values)?;
                    let workers = member::live(snapshot, row.id, now)?.len() as u32;
                    let ConsumerRow { slots, policy, .. } = row;
                    Ok(ConsumerStatus { path, slots, policy, lag, retrying, parked, first_at, dead, workers })
                })
                .collect()
        })
        .await
    }
}

/// Makes a consumer; `since` is the position before the first message of the instant that it begins with.
fn create(group: &mut Group<'_>, request: &CreateConsumer, since: Option<Position>) -> Result<Created> {
    let CreateConsumer { path, slots, start, policy } = request;
    let queue = group.queue(&path.queue)?;
    slots.fits(queue.partitions)?;
    if let Some(found) = find(group.connection(), path)? {
        return match other_consumer(request, found.slots, &found.policy) {
            None => Ok(Created::Existed),
            Some(conflict) => Err(conflict),
        };
    }
    let last = group.last_position()?;
    let cursor = queue::start(group.connection(), &path.queue, queue.id, start, since, last)?;
    let after_id = match start {
        Start::AfterId(id) => Some(*id),
        _ => None,
    };
    let connection = group.connection();
    let values = (
        queue.id,
        path.consumer.as_str(),
        slots.get(),
        policy.get_on_failure().as_str(),
        policy.get_max_attempts(),
        policy.get_max_crashes(),
        policy.get_backoff().as_micros() as i64,
        after_id,
    );
    execute(connection, include_str!("../sql/consumer/insert.sql"), values)?;
    execute(connection, include_str!("../sql/consumer/read_by_one.sql"), [queue.id])?;
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
    execute(group.connection(), include_str!("../sql/consumer/delete.sql"), [consumer.id])?;
    group.record(now)?;
    group.wake(Topic::Slots(path.clone()));
    Ok(Dropped::Dropped)
}

/// Tells sleeping workers of other processes that something about the consumer's slots or members changed; wakes this one's.
pub(crate) fn touch(group: &mut Group<'_>, path: &ConsumerPath, consumer: i64) -> Result<()> {
    execute(group.connection(), include_str!("../sql/consumer/touch.sql"), [consumer])?;
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
    let values = [path.queue.as_str(), path.consumer.as_str()];
    let found = find_row(connection, include_str!("../sql/consumer/load.sql"), values, columns)?;
    found.map(|columns| decode(columns).map_err(|cause| damaged("fencepost_consumer", cause))).transpose()
}

type Columns = ((i64, i64, i64, i64, bool), (String, i64, i64, i64, Option<i64>));

/// Columns: id, queue id, slots, partitions, paused, on_failure, max_attempts, max_crashes, backoff, after_id.
fn columns(row: &Row<'_>) -> rusqlite::Result<Columns> {
    Ok((
        (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?),
        (row.get(5)?, row.get(6)?, row.get(7)?, row.get(8)?, row.get(9)?),
    ))
}

fn decode(((id, queue, slots, partitions, paused), rest): Columns) -> Result<ConsumerRow> {
    let (on_failure, max_attempts, max_crashes, backoff, after_id) = rest;
    let policy = FailurePolicy::default()
        .on_failure(on_failure.parse()?)
        .max_attempts(max_attempts)?
        .max_crashes(max_crashes)?
        .backoff(Duration::from_micros(backoff.unsigned_abs()))?;
    let (slots, partitions) = (SlotCount::new(slots)?, Partitions::new(partitions)?);
    Ok(ConsumerRow { id, queue, slots, partitions, paused, policy, after_id })
}

/// The consumers of one queue, or of all, by name.
pub(crate) fn paths(connection: &Connection, queue: Option<&QueueName>) -> Result<Vec<ConsumerPath>> {
    if let Some(queue) = queue
        && load_queue(connection, queue)?.is_none()
    {
        return Err(no_queue(queue));
    }
    let values = [queue.map(QueueName::as_str)];
    let found: Vec<(String, String)> =
        all(connection, include_str!("../sql/consumer/list.sql"), values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    found
        .into_iter()
        .map(|(queue, consumer)| {
            ConsumerPath::new(queue, consumer).map_err(|cause| damaged("fencepost_consumer", cause))
        })
        .collect()
}
