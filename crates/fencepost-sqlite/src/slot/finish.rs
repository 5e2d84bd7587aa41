//! Finishing batches, whole or in part, and deciding about single messages of them.

use fencepost_core::slot::{Aside, Call, OpenBatch, Outcome, Part, Place, SlotState};
use fencepost_core::{
    BatchId, ConsumerPath, DeadCause, Disposition, FailurePolicy, FailureText, MessageId, Partition, Position, Result,
    SlotIndex, SlotToken, Timestamp,
};
use rusqlite::Connection;

use super::receive::in_log;
use super::{judge, row, unexpected};
use crate::aside::{AsideRow, Extent, settle};
use crate::consumer::{self, ConsumerRow};
use crate::state::{Group, damaged};
use crate::statement::{all, find};

/// Acks a batch; also for callers' transactions.
pub(crate) fn ack(group: &mut Group<'_>, token: &SlotToken, batch: BatchId) -> Result<u32> {
    ack_as("ack", group, token, batch)
}

/// Acks a batch for a call of this name.
pub(super) fn ack_as(operation: &'static str, group: &mut Group<'_>, token: &SlotToken, batch: BatchId) -> Result<u32> {
    let consumer = consumer::load(group.connection(), &token.path)?;
    let state = row::load(group.connection(), &consumer, &token.path, token.slot)?;
    match judge(group, &consumer, token.slot, &state, &Call::Ack { epoch: token.epoch, batch })? {
        Outcome::Acked(count) => {
            if state.has_open(batch) {
                settle_open(group, &consumer, &token.path, token.slot, &state)?;
            }
            Ok(count)
        }
        other => Err(unexpected(operation, token, other)),
    }
}

/// Makes true what was decided about the messages of the open batch of `state`, which has just been closed.
pub(super) fn settle_open(
    group: &mut Group<'_>,
    consumer: &ConsumerRow,
    path: &ConsumerPath,
    slot: SlotIndex,
    state: &SlotState,
) -> Result<()> {
    let Some(open) = state.batch.filter(|open| !open.plain) else { return Ok(()) };
    let extent = Extent::Whole(state, open.through);
    let now = group.now()?;
    settle(group.connection(), consumer, path, slot, extent, open.deliveries, now)
}

/// Acks a batch through one of its messages.
pub(super) fn ack_through(group: &mut Group<'_>, token: &SlotToken, batch: BatchId, message: MessageId) -> Result<u32> {
    let consumer = consumer::load(group.connection(), &token.path)?;
    let state = row::load(group.connection(), &consumer, &token.path, token.slot)?;
    let open = state.batch.filter(|open| open.id == batch && state.is_own(token.epoch));
    let (part, at) = match open {
        Some(open) => part(group.connection(), &consumer, token, &state, open, message)?,
        None => (Part::Foreign, state.cursor),
    };
    let call = Call::AckThrough { epoch: token.epoch, batch, message, part };
    let acked = match judge(group, &consumer, token.slot, &state, &call)? {
        Outcome::Acked(acked) => acked,
        other => return Err(unexpected("ack_through", token, other)),
    };
    match (open, part) {
        (Some(_), Part::Whole) => settle_open(group, &consumer, &token.path, token.slot, &state)?,
        (Some(open), Part::First { .. }) if !open.plain => {
            let now = group.now()?;
            let extent = Extent::Through(at);
            settle(group.connection(), &consumer, &token.path, token.slot, extent, open.deliveries, now)?;
        }
        _ => {}
    }
    Ok(acked)
}

/// What a message is to an open batch, and where it sits.
fn part(
    connection: &Connection,
    consumer: &ConsumerRow,
    token: &SlotToken,
    state: &SlotState,
    open: OpenBatch,
    message: MessageId,
) -> Result<(Part, Position)> {
    let Some(named) = locate(connection, consumer, token, state, open, message)? else {
        let behind = is_behind(connection, consumer, token, state, message)?;
        return Ok((if behind { Part::Acked } else { Part::Foreign }, state.cursor));
    };
    let at = named.position;
    let mut undecided: Vec<Position> =
        in_log(connection, consumer, token.slot, state, open)?.into_iter().map(Position::from_storage).collect();
    undecided.extend(consumer.in_batch(connection, token.slot)?.iter().map(|row| row.position));
    let decided_later = consumer.decided(connection, token.slot, state, open)?.iter().any(|row| row.position > at);
    if !decided_later && undecided.iter().all(|position| *position <= at) {
        return Ok((Part::Whole, at));
    }
    let acked = undecided.iter().filter(|position| **position <= at).count() as u32;
    Ok((Part::First { through: state.cursor_after(at), acked }, at))
}

/// A message of an open batch, in the log or set aside.
struct Named {
    position: Position,
    partition: Partition,
    key: Option<String>,
    /// Where it stands, when it was set aside.
    aside: Option<Aside>,
}

impl Named {
    fn is_undecided(&self) -> bool {
        self.aside.is_none_or(|aside| aside.place == Place::Batch)
    }
}

/// Looks a message of the open batch up by its id.
fn locate(
    connection: &Connection,
    consumer: &ConsumerRow,
    token: &SlotToken,
    state: &SlotState,
    open: OpenBatch,
    message: MessageId,
) -> Result<Option<Named>> {
    if let Some(AsideRow { position, partition, key, aside, .. }) = consumer.aside_named(connection, message)? {
        let covered = aside.place == Place::Batch || (aside.is_in_batch() && state.settles(position, open.through));
        let own = consumer.slots.owner(partition) == token.slot;
        return Ok((own && covered).then_some(Named { position, partition, key, aside: Some(aside) }));
    }
    let named = in_queue(connection, consumer, message)?;
    Ok(named.filter(|named| {
        let own = consumer.slots.owner(named.partition) == token.slot;
        own && named.position > state.cursor && named.position <= open.through
    }))
}

/// Looks a message of the log up by its id.
fn in_queue(connection: &Connection, consumer: &ConsumerRow, message: MessageId) -> Result<Option<Named>> {
    type Columns = (i64, i64, Option<String>);
    let values = (consumer.queue, message.get());
    let found: Option<Columns> = find(connection, include_str!("../../sql/aside/locate.sql"), values, |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    let named = |(position, partition, key)| {
        let partition = Partition::from_storage(partition).map_err(|cause| damaged("fencepost_message", cause))?;
        Ok(Named { position: Position::from_storage(position), partition, key, aside: None })
    };
    found.map(named).transpose()
}

/// Whether a message is of the slot and behind its cursor: acked, or set aside by an earlier ack, of this batch perhaps.
fn is_behind(
    connection: &Connection,
    consumer: &ConsumerRow,
    token: &SlotToken,
    state: &SlotState,
    message: MessageId,
) -> Result<bool> {
    let found = match consumer.aside_named(connection, message)? {
        Some(row) => Some((row.position, row.partition)),
        None => in_queue(connection, consumer, message)?.map(|named| (named.position, named.partition)),
    };
    Ok(found
        .is_some_and(|(position, partition)| position <= state.cursor && consumer.slots.owner(partition) == token.slot))
}

/// What a call decides about a message of the open batch.
pub(super) struct Decision<'a, J> {
    pub(super) operation: &'static str,
    pub(super) batch: BatchId,
    pub(super) message: MessageId,
    pub(super) reason: Option<&'a FailureText>,
    /// What becomes of it, by the policy, its failures so far and the instant.
    pub(super) judge: J,
}

/// Records what was decided, and withdraws the later messages of the key when this one comes again first. Returns those.
pub(super) fn dispose<J>(
    group: &mut Group<'_>,
    token: &SlotToken,
    decision: Decision<'_, J>,
) -> Result<(Disposition, Vec<MessageId>)>
where
    J: FnOnce(&FailurePolicy, u32, Timestamp) -> Disposition,
{
    let Decision { operation, batch, message, reason, judge: decide } = decision;
    let consumer = consumer::load(group.connection(), &token.path)?;
    let connection = group.connection();
    let state = row::load(connection, &consumer, &token.path, token.slot)?;
    let open = state.batch.filter(|open| open.id == batch && state.is_own(token.epoch));
    let named = match open {
        Some(open) => locate(connection, &consumer, token, &state, open, message)?.map(|named| (open, named)),
        None => None,
    };
    let Some((open, named)) = named else {
        // The table says what is wrong.
        let call = Call::Dispose { epoch: token.epoch, batch, message, fresh: None };
        return Err(unexpected(operation, token, judge(group, &consumer, token.slot, &state, &call)?));
    };
    let now = group.now()?;
    let aside = named.aside.unwrap_or(Aside::new(Place::Batch));
    let disposition = decide(&consumer.policy, aside.failures, now);
    let comes_again = matches!(disposition, Disposition::Retry { .. } | Disposition::Snooze { .. });
    let later = match &named.key {
        Some(key) if comes_again && consumer.policy.pauses() => {
            later(connection, &consumer, &state, open, &named, key)?
        }
        _ => Vec::new(),
    };
    let fresh = u32::from(named.is_undecided()) + later.iter().filter(|(named, _)| named.is_undecided()).count() as u32;
    let call = Call::Dispose { epoch: token.epoch, batch, message, fresh: Some(fresh) };
    match judge(group, &consumer, token.slot, &state, &call)? {
        Outcome::Disposed => {}
        other => return Err(unexpected(operation, token, other)),
    }
    put(connection, &consumer, named.position, named.aside, disposition, reason)?;
    for (named, _) in later.iter().filter(|(named, _)| named.is_undecided()) {
        put(connection, &consumer, named.position, named.aside, Disposition::Withdrawn, None)?;
    }
    Ok((disposition, later.into_iter().map(|(_, id)| id).collect()))
}

/// The later messages of a key in the open batch, those that were withdrawn before included.
fn later(
    connection: &Connection,
    consumer: &ConsumerRow,
    state: &SlotState,
    open: OpenBatch,
    head: &Named,
    key: &str,
) -> Result<Vec<(Named, MessageId)>> {
    let partition = head.partition;
    let after = head.position.max(state.cursor).to_storage();
    let values = (consumer.queue, partition.get(), after, open.through.to_storage(), key, consumer.id);
    let sql = include_str!("../../sql/aside/of_key_in_log.sql");
    let in_log: Vec<(i64, i64)> = all(connection, sql, values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut found = Vec::new();
    for (position, id) in in_log {
        let id = MessageId::new(id).map_err(|cause| damaged("fencepost_message", cause))?;
        let position = Position::from_storage(position);
        found.push((Named { position, partition, key: Some(key.to_owned()), aside: None }, id));
    }
    let withdrawn = Place::Decided(Disposition::Withdrawn);
    for row in consumer.settling(connection, partition)? {
        let same = row.key.as_deref() == Some(key) && row.position > head.position;
        if same
            && (row.aside.place == Place::Batch
                || (row.aside.place == withdrawn && state.settles(row.position, open.through)))
        {
            let AsideRow { position, id, key, aside, .. } = row;
            found.push((Named { position, partition, key, aside: Some(aside) }, id));
        }
    }
    found.sort_by_key(|(named, _)| named.position);
    Ok(found)
}

/// Writes down what was decided about one message.
fn put(
    connection: &Connection,
    consumer: &ConsumerRow,
    position: Position,
    aside: Option<Aside>,
    disposition: Disposition,
    reason: Option<&FailureText>,
) -> Result<()> {
    let place = Place::Decided(disposition);
    match aside {
        Some(aside) => consumer.place(connection, position, Aside { place, ..aside }, reason),
        None => consumer.set_aside(connection, position.to_storage(), place, reason),
    }
}

/// The first message of an open batch without a disposition, when so many owners lost it that it is suspected.
pub(super) struct Suspect {
    position: Position,
    /// Where it stands, when it was set aside.
    aside: Option<Aside>,
    /// How far the cursor goes with it.
    pub(super) through: Position,
}

pub(super) fn suspect(
    connection: &Connection,
    consumer: &ConsumerRow,
    slot: SlotIndex,
    state: &SlotState,
    now: Timestamp,
) -> Result<Option<Suspect>> {
    let suspected = state.is_suspected(consumer.policy.get_max_crashes(), now);
    let Some(open) = state.batch.filter(|_| suspected) else { return Ok(None) };
    let again = consumer.in_batch(connection, slot)?.into_iter().next();
    let fresh = in_log(connection, consumer, slot, state, open)?.into_iter().next().map(Position::from_storage);
    let again = again.filter(|row| fresh.is_none_or(|fresh| row.position < fresh));
    let first = again.map(|row| (row.position, Some(row.aside))).or(fresh.map(|position| (position, None)));
    Ok(first.map(|(position, aside)| Suspect { position, aside, through: state.cursor_after(position) }))
}

impl Suspect {
    /// Gives the message up, which ended two owners alone.
    pub(super) fn convict(
        &self,
        group: &mut Group<'_>,
        consumer: &ConsumerRow,
        path: &ConsumerPath,
        slot: SlotIndex,
        state: &SlotState,
    ) -> Result<()> {
        put(group.connection(), consumer, self.position, self.aside, Disposition::Dead(DeadCause::Crashes), None)?;
        settle_open(group, consumer, path, slot, state)
    }

    /// Puts the other messages of the batch that had come again behind this one.
    pub(super) fn isolate(
        &self,
        connection: &Connection,
        consumer: &ConsumerRow,
        slot: SlotIndex,
        deliveries: u32,
    ) -> Result<()> {
        for AsideRow { position, aside, .. } in consumer.in_batch(connection, slot)? {
            if position != self.position {
                let deliveries = aside.deliveries.saturating_add(deliveries);
                consumer.place(connection, position, Aside { place: Place::Alone, deliveries, ..aside }, None)?;
            }
        }
        Ok(())
    }
}
