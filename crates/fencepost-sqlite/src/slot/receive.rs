//! Handing out messages. What waits is read outside the write lock as long as nothing was set aside: messages between a cursor and a
//! position never change. The transition then only has to find the slot as it was. Everything else is picked under the lock.

use fencepost_core::slot::{Call, Found, OpenBatch, Outcome, SlotState, step};
use fencepost_core::{
    AckReceived, Batch, BatchId, BatchSize, Error, Kind, Message, Position, Result, SlotIndex, SlotToken, Timestamp,
};
use rusqlite::Connection;

use super::finish::{ack_as, settle_open};
use super::pick::{Picked, pick};
use super::{judge, row, unexpected};
use crate::aside::{Extent, settle};
use crate::consumer::{self, ConsumerRow};
use crate::log;
use crate::state::Group;

/// How many times an ack with the next receive passes over what is not to be handed out. Each pass is bounded, and so is the sum.
const PASSES: usize = 16;

/// What a look outside the write lock found.
pub(super) enum Seen {
    /// It decides: nothing there, or the open batch again with nothing to write.
    Decided(Option<Batch>),
    /// Something has to be written.
    Slot(Option<Box<SeenSlot>>),
}

/// A slot as it was seen, with what a receive would hand out.
pub(super) struct SeenSlot {
    state: SlotState,
    messages: Vec<Message>,
    through: Position,
}

/// What a receive under the write lock did.
pub(super) enum Received {
    Batch(Option<Batch>),
    /// It passed over what is not to be handed out; there may be more.
    Passed,
}

/// Reads the slot and what waits in one snapshot.
pub(super) fn look(snapshot: &Connection, token: &SlotToken, max: BatchSize, now: Timestamp) -> Result<Seen> {
    let consumer = consumer::load(snapshot, &token.path)?;
    let state = row::load(snapshot, &consumer, &token.path, token.slot)?;
    if let Some(open) = state.batch.filter(|open| open.size > 0) {
        let judged = step(&state, &Call::Receive { epoch: token.epoch, found: Found::Nothing }, now);
        let Outcome::Reissued(_) = judged.outcome else { return Err(unexpected("receive", token, judged.outcome)) };
        let messages = open_messages(snapshot, &consumer, token.slot, &state, open)?;
        return Ok(match judged.next {
            None => Seen::Decided(Some(complete(messages, &open)?)),
            Some(_) => Seen::Slot(Some(Box::new(SeenSlot { state, messages, through: open.through }))),
        });
    }
    if !state.is_own(token.epoch) || state.batch.is_some() || state.isolated.is_some() {
        return Ok(Seen::Slot(None));
    }
    if consumer.paused {
        return Ok(Seen::Decided(None));
    }
    if consumer.has_aside(snapshot, token.slot)? {
        let due = consumer.next_due(snapshot, token.slot)?.is_some_and(|due| due <= now);
        let waits = !waiting(snapshot, &consumer, token.slot, state.cursor, BatchSize::ONE)?.is_empty();
        return Ok(if due || waits { Seen::Slot(None) } else { Seen::Decided(None) });
    }
    let positions = waiting(snapshot, &consumer, token.slot, state.cursor, max)?;
    let Some(through) = positions.last().copied().map(Position::from_storage) else { return Ok(Seen::Decided(None)) };
    Ok(Seen::Slot(
        plain(snapshot, &consumer, &positions, now)?.map(|messages| Box::new(SeenSlot { state, messages, through })),
    ))
}

fn waiting(
    connection: &Connection,
    consumer: &ConsumerRow,
    slot: SlotIndex,
    cursor: Position,
    max: BatchSize,
) -> Result<Vec<i64>> {
    let share = consumer.slots.share(slot, consumer.partitions);
    log::positions(connection, consumer.queue, share, cursor, log::END, max.get())
}

/// The messages at these positions, when all of them are to be handed out.
fn plain(
    connection: &Connection,
    consumer: &ConsumerRow,
    positions: &[i64],
    now: Timestamp,
) -> Result<Option<Vec<Message>>> {
    let logged = log::messages(connection, positions, 1)?;
    let out = logged.iter().any(|logged| logged.is_expired(now) || consumer.is_before_start(logged.message.id));
    Ok((!out).then(|| logged.into_iter().map(|logged| logged.message).collect()))
}

/// The messages of an open batch that have no disposition, by position.
pub(super) fn open_messages(
    connection: &Connection,
    consumer: &ConsumerRow,
    slot: SlotIndex,
    state: &SlotState,
    open: OpenBatch,
) -> Result<Vec<Message>> {
    let positions = in_log(connection, consumer, slot, state, open)?;
    let logged = log::messages(connection, &positions, open.deliveries)?;
    let mut messages: Vec<Message> = logged.into_iter().map(|logged| logged.message).collect();
    if !open.plain {
        for again in consumer.in_batch(connection, slot)? {
            messages.extend(log::aside(connection, consumer.id, again.position.to_storage(), open.deliveries)?);
        }
        messages.sort_by_key(|message| message.position);
    }
    Ok(messages)
}

/// The positions of an open batch that are in the log and were not set aside since.
pub(super) fn in_log(
    connection: &Connection,
    consumer: &ConsumerRow,
    slot: SlotIndex,
    state: &SlotState,
    open: OpenBatch,
) -> Result<Vec<i64>> {
    // INVARIANT: a batch is exactly the range between the cursor and its end without what was set aside, whatever else is there.
    let share = consumer.slots.share(slot, consumer.partitions);
    if open.plain {
        return log::positions(connection, consumer.queue, share, state.cursor, open.through, open.size);
    }
    let mut left = Vec::new();
    for position in log::positions(connection, consumer.queue, share, state.cursor, open.through, u32::MAX)? {
        if !consumer.is_aside(connection, position)? {
            left.push(position);
        }
    }
    Ok(left)
}

fn complete(messages: Vec<Message>, open: &OpenBatch) -> Result<Batch> {
    if messages.len() != open.size as usize {
        return Err(Error::new(
            Kind::Corrupt,
            format!("cannot hand out batch `{}`: messages of it are missing", open.id),
        )
        .with("expected", open.size)
        .with("found", messages.len()));
    }
    Ok(Batch { id: open.id, deliveries: open.deliveries, crashes: open.crashes, messages })
}

/// Hands out a batch. What was seen is used when the slot is still as it was; else everything is read under the lock.
pub(super) fn receive(
    group: &mut Group<'_>,
    token: &SlotToken,
    max: BatchSize,
    seen: Option<Box<SeenSlot>>,
) -> Result<Received> {
    let consumer = consumer::load(group.connection(), &token.path)?;
    let state = row::load(group.connection(), &consumer, &token.path, token.slot)?;
    let still = |seen: &SeenSlot| -> Result<bool> {
        let plain = || Ok(!consumer.paused && !consumer.has_aside(group.connection(), token.slot)?);
        Ok(seen.state == state && (state.batch.is_some() || plain()?))
    };
    let Some(seen) = seen.map(|seen| Ok(still(&seen)?.then_some(seen))).transpose()?.flatten() else {
        return pass(group, &consumer, token, &state, max);
    };
    let found = match state.batch {
        Some(_) => Found::Nothing,
        None => Found::Messages { through: seen.through, size: seen.messages.len() as u32, plain: true },
    };
    match judge(group, &consumer, token.slot, &state, &Call::Receive { epoch: token.epoch, found })? {
        Outcome::Opened(open) | Outcome::Reissued(open) => {
            complete(seen.messages, &open).map(|batch| Received::Batch(Some(batch)))
        }
        other => Err(unexpected("receive", token, other)),
    }
}

/// One receive with everything read under the lock.
fn pass(
    group: &mut Group<'_>,
    consumer: &ConsumerRow,
    token: &SlotToken,
    state: &SlotState,
    max: BatchSize,
) -> Result<Received> {
    let now = group.now()?;
    let connection = group.connection();
    let picks = state.is_own(token.epoch) && state.batch.is_none() && !consumer.paused;
    let picked = if picks { pick(connection, consumer, token.slot, state, max, now)? } else { Picked::default() };
    let call = Call::Receive { epoch: token.epoch, found: picked.found };
    match judge(group, consumer, token.slot, state, &call)? {
        Outcome::Opened(open) => {
            let messages = picked.take(connection, consumer, open.deliveries)?;
            complete(messages, &open).map(|batch| Received::Batch(Some(batch)))
        }
        Outcome::Reissued(open) => {
            let messages = open_messages(connection, consumer, token.slot, state, open)?;
            complete(messages, &open).map(|batch| Received::Batch(Some(batch)))
        }
        Outcome::Skipped => {
            let Found::Skipped(through) = picked.found else {
                return Err(unexpected("receive", token, Outcome::Skipped));
            };
            picked.take(connection, consumer, 0)?;
            settle(connection, consumer, &token.path, token.slot, Extent::Through(through), 0, now)?;
            Ok(Received::Passed)
        }
        Outcome::Acked(_) => {
            settle_open(group, consumer, &token.path, token.slot, state)?;
            Ok(Received::Passed)
        }
        Outcome::Nothing => Ok(Received::Batch(None)),
        other => Err(unexpected("receive", token, other)),
    }
}

/// What waits behind the open batch, read outside the write lock; nothing when it has to be picked under the lock, or when the ack
/// would be refused anyway.
pub(super) fn look_ahead(
    snapshot: &Connection,
    token: &SlotToken,
    batch: BatchId,
    max: BatchSize,
    now: Timestamp,
) -> Result<Option<Ahead>> {
    let consumer = consumer::load(snapshot, &token.path)?;
    let state = row::load(snapshot, &consumer, &token.path, token.slot)?;
    if !is_plain(snapshot, &consumer, token.slot, &state)? {
        return Ok(None);
    }
    let Some(open) = state.batch.filter(|open| open.id == batch && state.is_own(token.epoch)) else { return Ok(None) };
    let positions = waiting(snapshot, &consumer, token.slot, open.through, max)?;
    let through = positions.last().copied().map_or(open.through, Position::from_storage);
    let messages = plain(snapshot, &consumer, &positions, now)?;
    Ok(messages.map(|messages| Ahead { state, messages, through }))
}

/// Whether nothing but the log decides what comes next.
fn is_plain(connection: &Connection, consumer: &ConsumerRow, slot: SlotIndex, state: &SlotState) -> Result<bool> {
    Ok(!consumer.paused && state.isolated.is_none() && !consumer.has_aside(connection, slot)?)
}

/// A slot as it was seen, with the messages after its open batch.
pub(super) struct Ahead {
    state: SlotState,
    messages: Vec<Message>,
    through: Position,
}

/// Acks and receives in one transaction, which writes the slot once as long as nothing was set aside.
pub(super) fn ack_receive(
    group: &mut Group<'_>,
    token: &SlotToken,
    batch: BatchId,
    max: BatchSize,
    seen: Option<Ahead>,
) -> Result<AckReceived> {
    let consumer = consumer::load(group.connection(), &token.path)?;
    let state = row::load(group.connection(), &consumer, &token.path, token.slot)?;
    let Some(Ahead { messages, through, .. }) = seen.filter(|seen| seen.state == state) else {
        return ack_then_receive(group, token, batch, max);
    };
    if !is_plain(group.connection(), &consumer, token.slot, &state)? {
        return ack_then_receive(group, token, batch, max);
    }
    let now = group.now()?;
    let acking = step(&state, &Call::Ack { epoch: token.epoch, batch }, now);
    let Outcome::Acked(acked) = acking.outcome else { return Err(unexpected("ack_receive", token, acking.outcome)) };
    let closed = acking.next.as_ref().unwrap_or(&state);
    let found = match messages.len() as u32 {
        0 => Found::Nothing,
        size => Found::Messages { through, size, plain: true },
    };
    let receiving = step(closed, &Call::Receive { epoch: token.epoch, found }, now);
    if let Some(next) = receiving.next.as_ref().or(acking.next.as_ref()) {
        row::store(group.connection(), consumer.id, token.slot, next)?;
        group.record(now)?;
    }
    match receiving.outcome {
        Outcome::Nothing => Ok(AckReceived { acked, next: None }),
        Outcome::Opened(open) => Ok(AckReceived { acked, next: Some(complete(messages, &open)?) }),
        other => Err(unexpected("receive", token, other)),
    }
}

fn ack_then_receive(group: &mut Group<'_>, token: &SlotToken, batch: BatchId, max: BatchSize) -> Result<AckReceived> {
    let acked = ack_as("ack_receive", group, token, batch)?;
    for _ in 0..PASSES {
        if let Received::Batch(next) = receive(group, token, max, None)? {
            return Ok(AckReceived { acked, next });
        }
    }
    Ok(AckReceived { acked, next: None })
}
