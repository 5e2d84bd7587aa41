//! What consumers set aside, as it is stored. What a place means is decided in core.

use fencepost_core::slot::{Aside, OpenBatch, Place, Settled, SlotState};
use fencepost_core::{
    ConsumerPath, DeadCause, Disposition, Error, FailureText, Kind, MessageId, Partition, Position, Result, SlotIndex,
    Timestamp, UNPARKED,
};
use rusqlite::{Connection, Row};

use crate::consumer::ConsumerRow;
use crate::state::damaged;
use crate::statement::{all, execute, find, value};

/// A message that was set aside, without its content.
#[derive(Debug, Clone)]
pub(crate) struct AsideRow {
    pub(crate) position: Position,
    pub(crate) id: MessageId,
    pub(crate) partition: Partition,
    pub(crate) key: Option<String>,
    pub(crate) aside: Aside,
}

/// How many rows of one partition and place are read at most: all of them.
const ALL: i64 = i64::MAX;

/// A place as it is stored: its name, its time, its cause.
fn encode(place: Place) -> (&'static str, Option<i64>, Option<&'static str>) {
    match place {
        Place::Due(at) => ("due", Some(at.as_micros()), None),
        Place::Parked => ("parked", None, None),
        Place::Alone => ("alone", None, None),
        Place::Batch => ("batch", None, None),
        Place::Void => ("void", None, None),
        Place::Decided(Disposition::Retry { due_at }) => ("retry", Some(due_at.as_micros()), None),
        Place::Decided(Disposition::Snooze { due_at }) => ("snooze", Some(due_at.as_micros()), None),
        Place::Decided(Disposition::Withdrawn) => ("withdrawn", None, None),
        Place::Decided(Disposition::Dead(cause)) => ("dead", None, Some(cause.as_str())),
    }
}

/// A place that needs no cause, as it is stored: its name and its time.
pub(crate) fn encode_waiting(place: Place) -> (&'static str, Option<i64>) {
    let (name, due_at, _) = encode(place);
    (name, due_at)
}

fn decode_place(place: &str, due_at: Option<i64>, cause: Option<&str>) -> Option<Place> {
    let due_at = due_at.map(Timestamp::from_micros);
    Some(match place {
        "due" => Place::Due(due_at?),
        "parked" => Place::Parked,
        "alone" => Place::Alone,
        "batch" => Place::Batch,
        "void" => Place::Void,
        "retry" => Place::Decided(Disposition::Retry { due_at: due_at? }),
        "snooze" => Place::Decided(Disposition::Snooze { due_at: due_at? }),
        "withdrawn" => Place::Decided(Disposition::Withdrawn),
        "dead" => {
            Place::Decided(Disposition::Dead(DeadCause::ALL.into_iter().find(|known| Some(known.as_str()) == cause)?))
        }
        _ => return None,
    })
}

type Columns = (i64, i64, i64, Option<String>, String, Option<i64>, Option<String>, u32, u32);

/// Columns: position, id, partition, key, place, due_at, cause, failures, deliveries.
fn columns(row: &Row<'_>) -> rusqlite::Result<Columns> {
    Ok((
        row.get(0)?,
        row.get(1)?,
        row.get(2)?,
        row.get(3)?,
        row.get(4)?,
        row.get(5)?,
        row.get(6)?,
        row.get(7)?,
        row.get(8)?,
    ))
}

fn decode((position, id, partition, key, place, due_at, cause, failures, deliveries): Columns) -> Result<AsideRow> {
    let place = decode_place(&place, due_at, cause.as_deref()).ok_or_else(|| {
        Error::new(Kind::Corrupt, format!("cannot read where message `{id}` stands: `{place}` is no place"))
    })?;
    let decoded = || {
        Ok(AsideRow {
            position: Position::from_storage(position),
            id: MessageId::new(id)?,
            partition: Partition::from_storage(partition)?,
            key,
            aside: Aside { place, failures, deliveries },
        })
    };
    decoded().map_err(|cause| damaged("fencepost_aside", cause))
}

fn decode_all(rows: Vec<Columns>) -> Result<Vec<AsideRow>> {
    rows.into_iter().map(decode).collect()
}

impl ConsumerRow {
    /// Whether anything was set aside of a slot's partitions.
    pub(crate) fn has_aside(&self, connection: &Connection, slot: SlotIndex) -> Result<bool> {
        // One look is enough as long as nothing fails.
        if !value(connection, include_str!("../sql/aside/any.sql"), [self.id])? {
            return Ok(false);
        }
        for partition in self.slots.share(slot, self.partitions) {
            let sql = include_str!("../sql/aside/any_in_partition.sql");
            if value(connection, sql, (self.id, partition.get()))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What stands at one place of a slot's partitions, by position.
    pub(crate) fn in_place(
        &self,
        connection: &Connection,
        slot: SlotIndex,
        place: &'static str,
    ) -> Result<Vec<AsideRow>> {
        self.of_share(slot, ALL, |partition| {
            let values = (self.id, partition.get(), place);
            decode_all(all(connection, include_str!("../sql/aside/in_place.sql"), values, columns)?)
        })
    }

    /// All that is in a slot's open batch and was not decided about, among what was set aside.
    pub(crate) fn in_batch(&self, connection: &Connection, slot: SlotIndex) -> Result<Vec<AsideRow>> {
        self.in_place(connection, slot, "batch")
    }

    /// What the ack of a batch settles in one partition: what is in the batch, decided about or not, and what is void.
    pub(crate) fn settling(&self, connection: &Connection, partition: Partition) -> Result<Vec<AsideRow>> {
        let sql = include_str!("../sql/aside/settled.sql");
        decode_all(all(connection, sql, (self.id, partition.get()), columns)?)
    }

    /// The same of all partitions of a slot, by position.
    fn all_settling(&self, connection: &Connection, slot: SlotIndex) -> Result<Vec<AsideRow>> {
        self.of_share(slot, ALL, |partition| self.settling(connection, partition))
    }

    /// What was decided about messages of a slot's open batch.
    pub(crate) fn decided(
        &self,
        connection: &Connection,
        slot: SlotIndex,
        state: &SlotState,
        open: OpenBatch,
    ) -> Result<Vec<AsideRow>> {
        let mut rows = self.all_settling(connection, slot)?;
        rows.retain(|row| matches!(row.aside.place, Place::Decided(_)) && state.settles(row.position, open.through));
        Ok(rows)
    }

    /// What comes again now in a slot, by position, at most `max`.
    pub(crate) fn ready(
        &self,
        connection: &Connection,
        slot: SlotIndex,
        max: i64,
        now: Timestamp,
    ) -> Result<Vec<AsideRow>> {
        for partition in self.slots.share(slot, self.partitions) {
            let values = (self.id, partition.get(), now.as_micros());
            execute(connection, include_str!("../sql/aside/ripen.sql"), values)?;
        }
        self.of_share(slot, max, |partition| {
            let values = (self.id, partition.get(), max);
            decode_all(all(connection, include_str!("../sql/aside/ready.sql"), values, columns)?)
        })
    }

    fn of_share(
        &self,
        slot: SlotIndex,
        max: i64,
        mut read: impl FnMut(Partition) -> Result<Vec<AsideRow>>,
    ) -> Result<Vec<AsideRow>> {
        let mut found = Vec::new();
        for partition in self.slots.share(slot, self.partitions) {
            found.extend(read(partition)?);
        }
        found.sort_by_key(|row| row.position);
        found.truncate(usize::try_from(max).unwrap_or(usize::MAX));
        Ok(found)
    }

    /// A message set aside, by its id.
    pub(crate) fn aside_named(&self, connection: &Connection, id: MessageId) -> Result<Option<AsideRow>> {
        let found = find(connection, include_str!("../sql/aside/find.sql"), (self.id, id.get()), columns)?;
        found.map(decode).transpose()
    }

    /// Whether a message of the log was set aside.
    pub(crate) fn is_aside(&self, connection: &Connection, position: i64) -> Result<bool> {
        value(connection, include_str!("../sql/aside/excluded.sql"), (self.id, position))
    }

    /// Whether a message must wait: an earlier one of its key was set aside and comes again.
    pub(crate) fn waits(&self, connection: &Connection, position: i64, key: Option<&str>) -> Result<bool> {
        match key {
            Some(key) if self.policy.pauses() => {
                value(connection, include_str!("../sql/aside/waits.sql"), (self.id, key, position))
            }
            _ => Ok(false),
        }
    }

    /// Sets a message of the log aside.
    pub(crate) fn set_aside(
        &self,
        connection: &Connection,
        position: i64,
        place: Place,
        reason: Option<&FailureText>,
    ) -> Result<()> {
        if place == Place::Void {
            return execute(connection, include_str!("../sql/aside/void.sql"), (self.id, position)).map(drop);
        }
        let (name, due_at, cause) = encode(place);
        let values = (self.id, position, name, due_at, cause, reason.map(FailureText::as_str));
        execute(connection, include_str!("../sql/aside/set.sql"), values).map(drop)
    }

    /// Moves a message that was set aside.
    pub(crate) fn place(
        &self,
        connection: &Connection,
        position: Position,
        aside: Aside,
        reason: Option<&FailureText>,
    ) -> Result<()> {
        let (name, due_at, cause) = encode(aside.place);
        let Aside { failures, deliveries, .. } = aside;
        let reason = reason.map(FailureText::as_str);
        let values = (self.id, position.to_storage(), name, due_at, cause, failures, deliveries, reason);
        execute(connection, include_str!("../sql/aside/place.sql"), values).map(drop)
    }

    /// When the next message of a slot comes again.
    pub(crate) fn next_due(&self, connection: &Connection, slot: SlotIndex) -> Result<Option<Timestamp>> {
        let mut next: Option<i64> = None;
        for partition in self.slots.share(slot, self.partitions) {
            let due: Option<i64> =
                value(connection, include_str!("../sql/aside/next_due.sql"), (self.id, partition.get()))?;
            next = next.into_iter().chain(due).min();
        }
        Ok(next.map(Timestamp::from_micros))
    }
}

/// What an ack covers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Extent<'s> {
    /// All of a batch that ends here, of a slot in this state.
    Whole(&'s SlotState, Position),
    /// Up to a message.
    Through(Position),
}

/// Makes true what was decided about the messages that an ack covers, and lets go what waited for them.
pub(crate) fn settle(
    connection: &Connection,
    consumer: &ConsumerRow,
    path: &ConsumerPath,
    slot: SlotIndex,
    extent: Extent<'_>,
    deliveries: u32,
    now: Timestamp,
) -> Result<()> {
    let covered = |row: &AsideRow| match extent {
        Extent::Through(end) => row.position <= end,
        Extent::Whole(state, end) => row.aside.place == Place::Batch || state.settles(row.position, end),
    };
    let settled = consumer.all_settling(connection, slot)?;
    let mut touched: Vec<String> = Vec::new();
    for row in settled.into_iter().filter(covered) {
        let position = row.position.to_storage();
        let finish = || execute(connection, include_str!("../sql/aside/delete.sql"), (consumer.id, position));
        match row.aside.settle(deliveries) {
            Settled::Gone => drop(finish()?),
            Settled::Dead { cause, attempts } => {
                let name = path.consumer.as_str();
                let values = (consumer.id, position, consumer.queue, name, attempts, cause.as_str(), now.as_micros());
                execute(connection, include_str!("../sql/dead/bury.sql"), values)?;
                finish()?;
            }
            Settled::Stays(aside) => {
                let comes_again = matches!(aside.place, Place::Due(_));
                let behind = consumer.waits(connection, position, row.key.as_deref())?;
                let place = if behind { Place::Parked } else { aside.place };
                consumer.place(connection, row.position, Aside { place, ..aside }, None)?;
                // Also of one that is behind another itself: a replay puts a head before what was let go already.
                if let (Some(key), true, true) = (&row.key, consumer.policy.pauses(), comes_again) {
                    let values = (consumer.id, key, position, UNPARKED as i64);
                    execute(connection, include_str!("../sql/aside/park_behind.sql"), values)?;
                }
            }
        }
        touched.extend(row.key);
    }
    if consumer.policy.pauses() {
        touched.sort_unstable();
        touched.dedup();
        touched.iter().try_for_each(|key| unpark(connection, consumer, key))?;
    }
    Ok(())
}

/// Lets the parked messages of a key come again when the first of them waits for nothing any more.
fn unpark(connection: &Connection, consumer: &ConsumerRow, key: &str) -> Result<()> {
    let values = (consumer.id, key, UNPARKED as i64);
    let first: Vec<(i64, String)> =
        all(connection, include_str!("../sql/aside/of_key.sql"), values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let parked = first.iter().take_while(|(_, place)| place == "parked");
    if let Some((last, _)) = parked.last() {
        execute(connection, include_str!("../sql/aside/unpark.sql"), (consumer.id, key, last))?;
    }
    Ok(())
}

/// How many messages a consumer set aside in one slot: all that are to come, those that failed, those that wait for another one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) all: u64,
    pub(crate) retrying: u64,
    pub(crate) parked: u64,
}

/// The counts of each slot, by index.
pub(crate) fn counts(connection: &Connection, consumer: &ConsumerRow) -> Result<Vec<Counts>> {
    let rows: Vec<(i64, String, u64)> =
        all(connection, include_str!("../sql/aside/counts.sql"), [consumer.id], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    let mut counts = vec![Counts::default(); usize::from(consumer.slots.get())];
    for (partition, place, count) in rows {
        let partition = Partition::from_storage(partition).map_err(|cause| damaged("fencepost_aside", cause))?;
        let slot = &mut counts[usize::from(consumer.slots.owner(partition).get())];
        match place.as_str() {
            "void" => continue,
            "due" | "retry" | "snooze" => slot.retrying += count,
            "parked" | "withdrawn" => slot.parked += count,
            _ => {}
        }
        slot.all += count;
    }
    Ok(counts)
}

/// Messages of a slot that are neither acked nor dead.
pub(crate) fn lag(
    connection: &Connection,
    consumer: &ConsumerRow,
    slot: SlotIndex,
    cursor: Position,
    counts: Counts,
) -> Result<u64> {
    let share = || consumer.slots.share(slot, consumer.partitions);
    let mut fresh = crate::log::count(connection, consumer.queue, share(), cursor)?;
    for partition in share() {
        let values = (consumer.id, partition.get(), cursor.to_storage(), consumer.queue);
        fresh -= value::<u64>(connection, include_str!("../sql/aside/ahead.sql"), values)?;
    }
    Ok(fresh + counts.all)
}

/// When the first message of a slot was sent that is neither acked nor dead.
pub(crate) fn first_at(
    connection: &Connection,
    consumer: &ConsumerRow,
    slot: SlotIndex,
    cursor: Position,
) -> Result<Option<Timestamp>> {
    let mut first: Option<(i64, i64)> = None;
    for partition in consumer.slots.share(slot, consumer.partitions) {
        let values = (consumer.id, partition.get(), cursor.to_storage(), consumer.queue);
        let found = all(connection, include_str!("../sql/aside/first.sql"), values, |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        })?;
        first = first.into_iter().chain(found).min();
    }
    Ok(first.map(|(_, at)| Timestamp::from_micros(at)))
}
