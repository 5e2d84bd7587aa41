//! Maintenance: what any worker does for all from time to time, in transactions of bounded size.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost_core::refusal::no_queue;
use fencepost_core::{DEAD_KEPT, Partition, Partitions, Position, QueueName, Result, SlotCount, Timestamp, Topic};
use rusqlite::Connection;

use crate::log;
use crate::state::{Group, load_queue, recorded};
use crate::statement::{all, execute, find, value};
use crate::store::SqliteStore;

/// How many rows one step changes at most: a few milliseconds of the write lock.
const STEP: i64 = 2_000;

/// How many messages one step measures at most.
const MEASURED: u32 = 10_000;

impl SqliteStore {
    pub(crate) async fn maintain_all(&self, queue: Option<&QueueName>) -> Result<u64> {
        let named = queue.cloned();
        let queues: Vec<(i64, String)> = self
            .read("maintain", move |snapshot| match named {
                Some(name) => {
                    let row = load_queue(snapshot, &name)?.ok_or_else(|| no_queue(&name))?;
                    Ok(vec![(row.id, name.as_str().to_owned())])
                }
                None => all(snapshot, "SELECT id, name FROM fencepost_queue ORDER BY id", [], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                }),
            })
            .await?;
        let mut steps = match queue {
            None => self.forget_leases().await? + self.forget_notices(STEP).await?,
            Some(_) => 0,
        };
        let dropped: Vec<i64> = self
            .read("maintain", |snapshot| all(snapshot, "SELECT queue_id FROM fencepost_dropped", [], |row| row.get(0)))
            .await?;
        for dropped in dropped {
            steps += self.remove_dropped("maintain", dropped).await?;
        }
        for (id, name) in queues {
            steps += self.append_due(id, QueueName::new(name)?).await?;
            steps += self.remove_consumed(id).await?;
            steps += self.remove_unread(id).await?;
            steps += self.forget(id).await?;
        }
        Ok(steps)
    }

    /// Gives messages that became due their place in the log.
    async fn append_due(&self, queue: i64, name: QueueName) -> Result<u64> {
        self.steps(
            queue,
            |snapshot, queue, now| Ok(!due(snapshot, queue, now, 1)?.is_empty()),
            move |group, queue, now| {
                let ids = due(group.connection(), queue, now, STEP)?;
                for id in &ids {
                    let position = group.next_position()?.to_storage();
                    execute(group.connection(), include_str!("../sql/queue/append_due.sql"), (*id, position))?;
                    execute(group.connection(), include_str!("../sql/queue/undelay.sql"), [*id])?;
                }
                group.record(now)?;
                group.wake(Topic::Messages(name.clone()));
                Ok(ids.len())
            },
        )
        .await
    }

    /// Removes what all consumers have acked past and what was sent long enough ago, from the beginning of the log: what is left has no
    /// holes, and few pages are written.
    async fn remove_consumed(&self, queue: i64) -> Result<u64> {
        let old = |snapshot: &Connection, queue, now| {
            let Some(keeping) = Keeping::load(snapshot, queue)? else { return Ok(false) };
            let first =
                consumed(snapshot, queue, &keeping, 1)?.first().map(|first| kept(snapshot, *first)).transpose()?;
            Ok(first.flatten().is_some_and(|kept| kept.created_at.as_micros() <= keeping.sent_until(now)))
        };
        self.steps(queue, old, remove_consumed).await
    }

    /// Removes the oldest messages of a queue that nobody reads: those beyond its time, and those beyond its size.
    async fn remove_unread(&self, queue: i64) -> Result<u64> {
        let unread = |snapshot: &Connection, queue, now| {
            let Some(keeping) = Keeping::load(snapshot, queue)?.filter(|keeping| !keeping.has_consumer) else {
                return Ok(false);
            };
            let share = || keeping.partitions.all();
            let first = log::positions(snapshot, queue, share(), Position::START, log::END, 1)?;
            let unmeasured = log::positions(snapshot, queue, share(), keeping.measured, log::END, 1)?;
            let old = first.first().map(|position| kept(snapshot, *position)).transpose()?.flatten();
            Ok(!unmeasured.is_empty()
                || keeping.bytes > keeping.most_bytes
                || old.is_some_and(|kept| keeping.is_past(kept.created_at, now)))
        };
        // A step that only measures is none that anybody would notice.
        let removed = Arc::new(AtomicU64::new(0));
        let counter = removed.clone();
        self.steps(queue, unread, move |group, queue, now| {
            let (measured, removed) = trim_unread(group, queue, now)?;
            counter.fetch_add(u64::from(removed > 0), Ordering::Relaxed);
            Ok(measured + removed)
        })
        .await?;
        Ok(removed.load(Ordering::Relaxed))
    }

    /// Forgets idempotency keys and dead letters after their time.
    async fn forget(&self, queue: i64) -> Result<u64> {
        let old = |snapshot: &Connection, queue: i64, now: Timestamp| {
            let (now, died) = (now.as_micros(), now.as_micros() - DEAD_KEPT.as_micros() as i64);
            value(snapshot, include_str!("../sql/queue/has_forgettable.sql"), (queue, now, died))
        };
        self.steps(queue, old, |group, queue, now| {
            let (now, died) = (now.as_micros(), now.as_micros() - DEAD_KEPT.as_micros() as i64);
            let once = execute(group.connection(), include_str!("../sql/queue/forget_once.sql"), (queue, now, STEP))?;
            let dead = execute(group.connection(), include_str!("../sql/dead/forget.sql"), (queue, died, STEP))?;
            Ok(once + dead)
        })
        .await
    }

    /// Repeats a step of work on a queue until it finds nothing to do. A look without the lock decides whether it begins.
    async fn steps(
        &self,
        queue: i64,
        look: impl FnOnce(&Connection, i64, Timestamp) -> Result<bool> + Send + 'static,
        work: impl Fn(&mut Group<'_>, i64, Timestamp) -> Result<usize> + Clone + Send + 'static,
    ) -> Result<u64> {
        let shared = self.shared().clone();
        let found = self
            .read("maintain", move |snapshot| {
                let now = shared.clock.now(recorded(snapshot)?);
                look(snapshot, queue, now)
            })
            .await?;
        let mut steps = 0;
        if !found {
            return Ok(0);
        }
        loop {
            let work = work.clone();
            let done = self
                .transact("maintain", move |group| {
                    let now = group.now()?;
                    work(group, queue, now)
                })
                .await?;
            if done == 0 {
                return Ok(steps);
            }
            steps += 1;
        }
    }

    /// Removes what is left of a dropped queue, each step a transaction of its own.
    pub(crate) async fn remove_dropped(&self, operation: &'static str, queue: i64) -> Result<u64> {
        let mut steps = 0;
        loop {
            let removed = self
                .transact(operation, move |group| {
                    let connection = group.connection();
                    let removed = execute(connection, include_str!("../sql/queue/remove_dropped.sql"), (queue, STEP))?
                        + execute(connection, include_str!("../sql/queue/remove_dropped_delayed.sql"), (queue, STEP))?
                        + execute(connection, include_str!("../sql/queue/remove_dropped_dead.sql"), (queue, STEP))?
                        + execute(connection, include_str!("../sql/queue/remove_dropped_once.sql"), (queue, STEP))?;
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

fn due(connection: &Connection, queue: i64, now: Timestamp, most: i64) -> Result<Vec<i64>> {
    all(connection, include_str!("../sql/queue/due.sql"), (queue, now.as_micros(), most), |row| row.get(0))
}

/// How a queue keeps its messages, and how much of it nobody has read.
struct Keeping {
    partitions: Partitions,
    has_consumer: bool,
    consumed: Duration,
    unread: Duration,
    most_bytes: i64,
    measured: Position,
    bytes: i64,
}

impl Keeping {
    fn load(connection: &Connection, queue: i64) -> Result<Option<Self>> {
        type Columns = (i64, bool, i64, i64, i64, i64, i64);
        let found: Option<Columns> = find(connection, include_str!("../sql/queue/keeping.sql"), [queue], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
        })?;
        let Some((partitions, has_consumer, consumed, unread, most_bytes, measured, bytes)) = found else {
            return Ok(None);
        };
        Ok(Some(Self {
            partitions: Partitions::new(partitions)?,
            has_consumer,
            consumed: Duration::from_micros(consumed.unsigned_abs()),
            unread: Duration::from_micros(unread.unsigned_abs()),
            most_bytes,
            measured: Position::from_storage(measured),
            bytes,
        }))
    }

    /// Consumed messages go that were sent until then.
    fn sent_until(&self, now: Timestamp) -> i64 {
        now.as_micros() - self.consumed.as_micros() as i64
    }

    fn is_past(&self, created_at: Timestamp, now: Timestamp) -> bool {
        created_at + self.unread <= now
    }
}

/// What decides how long one message is kept.
struct Kept {
    bytes: i64,
    created_at: Timestamp,
    was_held_back: bool,
}

fn kept(connection: &Connection, position: i64) -> Result<Option<Kept>> {
    find(connection, include_str!("../sql/queue/bytes.sql"), [position], |row| {
        let created_at = Timestamp::from_micros(row.get(1)?);
        Ok(Kept { bytes: row.get(0)?, created_at, was_held_back: row.get(2)? })
    })
}

/// The messages at the beginning of the log that all consumers have acked past, up to the first that one has not, at most so many.
fn consumed(connection: &Connection, queue: i64, keeping: &Keeping, most: u32) -> Result<Vec<i64>> {
    if !keeping.has_consumer {
        return Ok(Vec::new());
    }
    let mut first_left = log::END;
    for (partition, floor) in floors(connection, queue, keeping)? {
        let left = log::positions(connection, queue, std::iter::once(partition), floor, log::END, 1)?;
        first_left = left.first().map_or(first_left, |left| first_left.min(Position::from_storage(*left)));
    }
    let end = Position::from_storage(first_left.to_storage() - 1);
    log::positions(connection, queue, keeping.partitions.all(), Position::START, end, most)
}

/// Up to where all consumers have acked, by partition. A slot for which nothing has come is still at the beginning.
fn floors(connection: &Connection, queue: i64, keeping: &Keeping) -> Result<Vec<(Partition, Position)>> {
    let cursors: Vec<(i64, i64, i64)> = all(connection, include_str!("../sql/queue/cursors.sql"), [queue], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    let mut floors: Vec<(Partition, Position)> =
        keeping.partitions.all().map(|partition| (partition, log::END)).collect();
    for (slots, slot, cursor) in cursors {
        let (slots, cursor) = (SlotCount::new(slots)?, Position::from_storage(cursor));
        for (partition, floor) in &mut floors {
            if i64::from(slots.owner(*partition).get()) == slot {
                *floor = cursor.min(*floor);
            }
        }
    }
    Ok(floors)
}

/// Removes consumed messages that were sent long enough ago, at most [`STEP`]. Returns how many.
fn remove_consumed(group: &mut Group<'_>, queue: i64, now: Timestamp) -> Result<usize> {
    let connection = group.connection();
    let Some(keeping) = Keeping::load(connection, queue)? else { return Ok(0) };
    let sent_until = keeping.sent_until(now);
    let (mut removed, mut last) = (0, None);
    for position in consumed(connection, queue, &keeping, STEP as u32)? {
        if execute(connection, include_str!("../sql/queue/delete.sql"), (position, sent_until))? == 0 {
            // The first one that is too young ends the step, whatever follows.
            break;
        }
        (removed, last) = (removed + 1, Some(position));
    }
    gone(connection, queue, last)?;
    Ok(removed)
}

fn gone(connection: &Connection, queue: i64, last: Option<i64>) -> Result<()> {
    match last {
        Some(last) => execute(connection, include_str!("../sql/queue/gone.sql"), (queue, last)).map(drop),
        None => Ok(()),
    }
}

/// One step on a queue without consumers: measures what was not measured, then removes the oldest messages that are beyond its time or
/// its size. Returns how many it measured and removed.
fn trim_unread(group: &mut Group<'_>, queue: i64, now: Timestamp) -> Result<(usize, usize)> {
    let connection = group.connection();
    let Some(keeping) = Keeping::load(connection, queue)?.filter(|keeping| !keeping.has_consumer) else {
        return Ok((0, 0));
    };
    let (mut bytes, mut measured) = (keeping.bytes, keeping.measured);
    let unmeasured = log::positions(connection, queue, keeping.partitions.all(), measured, log::END, MEASURED)?;
    for position in &unmeasured {
        bytes += kept(connection, *position)?.map_or(0, |kept| kept.bytes);
        measured = Position::from_storage(*position);
    }
    let oldest = log::positions(connection, queue, keeping.partitions.all(), Position::START, measured, STEP as u32)?;
    let (mut removed, mut last, mut waiting) = (0, None, Vec::new());
    for position in oldest {
        let Some(Kept { bytes: own, created_at, was_held_back }) = kept(connection, position)? else { continue };
        waiting.push((position, own));
        // One that was held back goes with the next ordinary one: its own age counts from long before it came.
        let is_past = !was_held_back && keeping.is_past(created_at, now);
        if !is_past && bytes <= keeping.most_bytes {
            if was_held_back {
                continue;
            }
            break;
        }
        for (position, own) in waiting.drain(..) {
            execute(connection, include_str!("../sql/queue/delete.sql"), (position, i64::MAX))?;
            (bytes, removed, last) = (bytes - own, removed + 1, Some(position));
        }
    }
    if measured != keeping.measured || bytes != keeping.bytes {
        let values = (queue, measured.to_storage(), bytes);
        execute(connection, include_str!("../sql/queue/measured.sql"), values)?;
    }
    gone(connection, queue, last)?;
    Ok((unmeasured.len(), removed))
}
