//! Slots: load the row under the write lock, let the transition table judge, store what it returned.

use async_trait::async_trait;
use fencepost_core::refusal::no_slot;
use fencepost_core::slot::{Call, Claimant, Found, GrantOrigin, OpenBatch, Outcome, Owner, SlotState, step};
use fencepost_core::{
    AckReceived, Batch, BatchId, BatchSize, ClaimSlot, ConsumerPath, Epoch, Error, Forced, Kind, Message, Nonce,
    Position, QueueName, Reason, Release, Renewal, Result, SlotGrant, SlotIndex, SlotStatus, SlotToken, Slots,
    Timestamp, Ttl, WorkerName,
};
use rusqlite::{Connection, Row};

use crate::consumer::{self, ConsumerRow};
use crate::error::driver_error;
use crate::forced::{self, Subject};
use crate::grant::GiveBack;
use crate::log;
use crate::state::{Group, damaged, recorded};
use crate::store::SqliteStore;

#[async_trait]
impl Slots for SqliteStore {
    async fn claim(&self, request: &ClaimSlot) -> Result<Option<SlotGrant>> {
        // Looking costs no lock; a claim that finds nothing claimable is the common one.
        let (looked, shared) = (request.clone(), self.shared().clone());
        let claimable = self
            .read("claim", move |snapshot| {
                let now = shared.clock.now(recorded(snapshot)?);
                let consumer = consumer::load(snapshot, &looked.path)?;
                Ok(load_all(snapshot, consumer.id)?.iter().any(|(_, state)| is_claimable(state, &looked, now)))
            })
            .await?;
        if !claimable {
            return Ok(None);
        }
        let request = request.clone();
        self.transact_granting("claim", undelivered, move |group| claim_any(group, &request)).await
    }

    async fn claim_slot(&self, request: &ClaimSlot, slot: SlotIndex) -> Result<Option<SlotGrant>> {
        let request = request.clone();
        self.transact_granting("claim_slot", undelivered, move |group| {
            let consumer = consumer::load(group.connection(), &request.path)?;
            let state = load(group.connection(), &consumer, &request.path, slot)?;
            claim(group, &consumer, &request, slot, &state)
        })
        .await
    }

    async fn receive(&self, token: &SlotToken, max: BatchSize) -> Result<Option<Batch>> {
        // What waits is read outside the write lock: messages between a cursor and a position never change. The transition that
        // hands them out then only has to find the slot as it was.
        let (looked, clock) = (token.clone(), self.shared().clone());
        let look = self
            .read("receive", move |snapshot| {
                let now = clock.clock.now(recorded(snapshot)?);
                look(snapshot, &looked, max, now)
            })
            .await?;
        match look {
            Look::Done(batch) => Ok(batch),
            Look::Transition(seen) => {
                let token = token.clone();
                self.transact("receive", move |group| receive(group, &token, max, *seen)).await
            }
        }
    }

    async fn ack(&self, token: &SlotToken, batch: BatchId) -> Result<u32> {
        let token = token.clone();
        self.transact("ack", move |group| ack(group, &token, batch)).await
    }

    async fn ack_receive(&self, token: &SlotToken, batch: BatchId, max: BatchSize) -> Result<AckReceived> {
        let looked = token.clone();
        let seen = self.read("ack_receive", move |snapshot| look_ahead(snapshot, &looked, batch, max)).await?;
        let token = token.clone();
        self.transact("ack_receive", move |group| ack_receive(group, &token, batch, max, seen)).await
    }

    async fn renew_slot(&self, token: &SlotToken) -> Result<Renewal> {
        let token = token.clone();
        self.transact("renew_slot", move |group| {
            let consumer = consumer::load(group.connection(), &token.path)?;
            renew(group, &consumer, &token.path, token.slot, token.epoch)
        })
        .await
    }

    async fn release_slot(&self, token: &SlotToken) -> Result<Release> {
        let token = token.clone();
        self.transact("release_slot", move |group| release(group, &token)).await
    }

    async fn abandon_slot(&self, token: &SlotToken) -> Result<Release> {
        let token = token.clone();
        self.transact("abandon_slot", move |group| {
            give_back(group, "abandon_slot", &token, &Call::Abandon { epoch: token.epoch })
        })
        .await
    }

    async fn force_release_slot(&self, path: &ConsumerPath, slot: SlotIndex, reason: &Reason) -> Result<Epoch> {
        let (path, reason) = (path.clone(), reason.clone());
        self.transact("force_release_slot", move |group| force(group, &path, slot, &reason)).await
    }

    async fn slot_history(&self, path: &ConsumerPath) -> Result<Vec<(SlotIndex, Forced)>> {
        let path = path.clone();
        self.read("slot_history", move |snapshot| {
            let consumer = consumer::load(snapshot, &path)?;
            let found = forced::list(snapshot, Subject::Slot(consumer.id, None))?;
            Ok(found.into_iter().filter_map(|(slot, forced)| slot.map(|slot| (slot, forced))).collect())
        })
        .await
    }

    async fn slot_status(&self, queue: Option<&QueueName>) -> Result<Vec<SlotStatus>> {
        let queue = queue.cloned();
        self.read("slot_status", move |snapshot| {
            let mut found = Vec::new();
            for path in consumer::paths(snapshot, queue.as_ref())? {
                let row = consumer::load(snapshot, &path)?;
                for (slot, state) in load_all(snapshot, row.id)? {
                    let lag = log::count(snapshot, row.queue, row.slots.share(slot, row.partitions), state.cursor)?;
                    found.push(SlotStatus { path: path.clone(), slot, state, lag });
                }
            }
            Ok(found)
        })
        .await
    }
}

/// What a look outside the write lock found.
enum Look {
    /// It decides: nothing there, or the open batch again with nothing to write.
    Done(Option<Batch>),
    /// Something has to be written, if the slot is still as it was seen.
    Transition(Box<Seen>),
}

/// A slot as it was seen, with the messages that a receive would hand out.
struct Seen {
    state: SlotState,
    batch: Batch,
    through: Position,
}

/// Reads the slot and what waits in one snapshot.
fn look(snapshot: &Connection, token: &SlotToken, max: BatchSize, now: Timestamp) -> Result<Look> {
    let consumer = consumer::load(snapshot, &token.path)?;
    let state = load(snapshot, &consumer, &token.path, token.slot)?;
    let (found, positions) = waiting(snapshot, &consumer, token.slot, &state, max)?;
    let judged = step(&state, &Call::Receive { epoch: token.epoch, found }, now);
    let open = match judged.outcome {
        Outcome::Nothing => return Ok(Look::Done(None)),
        Outcome::Opened(open) | Outcome::Reissued(open) => open,
        other => return Err(unexpected("receive", token, other)),
    };
    let batch = hand_out(snapshot, &positions, &open)?;
    Ok(match judged.next {
        None => Look::Done(Some(batch)),
        Some(_) => Look::Transition(Box::new(Seen { state, batch, through: open.through })),
    })
}

/// The messages of the open batch, or those that a new one would have.
fn waiting(
    connection: &Connection,
    consumer: &ConsumerRow,
    slot: SlotIndex,
    state: &SlotState,
    max: BatchSize,
) -> Result<(Option<Found>, Vec<i64>)> {
    let share = consumer.slots.share(slot, consumer.partitions);
    // INVARIANT: a batch is exactly the range between the cursor and its end, whatever else is there.
    let (through, size) = state.batch.map_or((log::END, max.get()), |open| (open.through, open.size));
    let positions = log::positions(connection, consumer.queue, share, state.cursor, through, size)?;
    Ok((found(&positions), positions))
}

fn found(positions: &[i64]) -> Option<Found> {
    let last = positions.last()?;
    Some(Found { through: Position::from_storage(*last), size: positions.len() as u32 })
}

fn hand_out(connection: &Connection, positions: &[i64], open: &OpenBatch) -> Result<Batch> {
    complete(log::messages(connection, positions, open.deliveries)?, open)
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

/// Hands out a batch. What was seen is used when the slot is still as it was; else everything is read again under the lock.
fn receive(group: &mut Group<'_>, token: &SlotToken, max: BatchSize, seen: Seen) -> Result<Option<Batch>> {
    let consumer = consumer::load(group.connection(), &token.path)?;
    let state = load(group.connection(), &consumer, &token.path, token.slot)?;
    let (found, positions) = if state == seen.state {
        (Some(Found { through: seen.through, size: seen.batch.messages.len() as u32 }), None)
    } else {
        let (found, positions) = waiting(group.connection(), &consumer, token.slot, &state, max)?;
        (found, Some(positions))
    };
    let call = Call::Receive { epoch: token.epoch, found };
    match judge(group, &consumer, token.slot, &state, &call)? {
        Outcome::Nothing => Ok(None),
        Outcome::Opened(open) | Outcome::Reissued(open) => match positions {
            Some(positions) => hand_out(group.connection(), &positions, &open).map(Some),
            None => Ok(Some(seen.batch)),
        },
        other => Err(unexpected("receive", token, other)),
    }
}

/// How a grant is given back whose caller is gone. One that was stored before is somebody's already.
fn undelivered(granted: Option<SlotGrant>) -> Option<GiveBack> {
    let token = granted.filter(|grant| grant.origin != GrantOrigin::Stored)?.token;
    Some(Box::new(move |group| {
        give_back(group, "abandon_slot", &token, &Call::Abandon { epoch: token.epoch }).map(drop)
    }))
}

/// Whether a claim would be granted, whatever epoch it gets.
fn is_claimable(state: &SlotState, request: &ClaimSlot, now: Timestamp) -> bool {
    let Ok(epoch) = Epoch::next(0, state.epoch, now) else { return true };
    let claimant = Claimant { worker: &request.worker, nonce: request.nonce.as_ref(), ttl: request.ttl, epoch };
    matches!(step(state, &Call::Claim(claimant), now).outcome, Outcome::Granted(_))
}

fn claim_any(group: &mut Group<'_>, request: &ClaimSlot) -> Result<Option<SlotGrant>> {
    let consumer = consumer::load(group.connection(), &request.path)?;
    let mut slots = load_all(group.connection(), consumer.id)?;
    if let Some(nonce) = &request.nonce {
        // The slot that this attempt was granted comes first; when that grant has expired the nonce counts for nothing.
        let granted = |state: &SlotState| state.owner.as_ref().and_then(|owner| owner.nonce.as_ref()) == Some(nonce);
        slots.sort_by_key(|(slot, state)| (!granted(state), *slot));
    }
    for (slot, state) in slots {
        if let Some(grant) = claim(group, &consumer, request, slot, &state)? {
            return Ok(Some(grant));
        }
    }
    Ok(None)
}

fn claim(
    group: &mut Group<'_>,
    consumer: &ConsumerRow,
    request: &ClaimSlot,
    slot: SlotIndex,
    state: &SlotState,
) -> Result<Option<SlotGrant>> {
    let now = group.now()?;
    let epoch = group.next_epoch(state.epoch, now)?;
    let claimant = Claimant { worker: &request.worker, nonce: request.nonce.as_ref(), ttl: request.ttl, epoch };
    let judged = step(state, &Call::Claim(claimant), now);
    let Outcome::Granted(origin) = judged.outcome else { return Ok(None) };
    if let Some(next) = &judged.next {
        group.granted(epoch)?;
        group.record(now)?;
        store(group.connection(), consumer.id, slot, next)?;
    }
    let granted = judged.next.as_ref().unwrap_or(state);
    grant(&request.path, slot, granted, origin).map(Some).ok_or_else(|| {
        Error::new(Kind::Internal, format!("cannot grant slot {slot} of `{}`: it has no owner", request.path))
    })
}

fn grant(path: &ConsumerPath, slot: SlotIndex, state: &SlotState, origin: GrantOrigin) -> Option<SlotGrant> {
    let (epoch, owner) = (state.epoch?, state.owner.as_ref()?);
    let token = SlotToken { path: path.clone(), slot, epoch };
    Some(SlotGrant { token, expires_at: owner.expires_at, origin, batch: state.batch })
}

/// Acks a batch; also for callers' transactions.
pub(crate) fn ack(group: &mut Group<'_>, token: &SlotToken, batch: BatchId) -> Result<u32> {
    let consumer = consumer::load(group.connection(), &token.path)?;
    let state = load(group.connection(), &consumer, &token.path, token.slot)?;
    match judge(group, &consumer, token.slot, &state, &Call::Ack { epoch: token.epoch, batch })? {
        Outcome::Acked(count) => Ok(count),
        other => Err(unexpected("ack", token, other)),
    }
}

/// What waits behind the open batch, read outside the write lock; nothing when the ack would be refused anyway.
fn look_ahead(snapshot: &Connection, token: &SlotToken, batch: BatchId, max: BatchSize) -> Result<Option<Ahead>> {
    let consumer = consumer::load(snapshot, &token.path)?;
    let state = load(snapshot, &consumer, &token.path, token.slot)?;
    let Some(open) = state.batch.filter(|open| open.id == batch && state.is_own(token.epoch)) else { return Ok(None) };
    let share = consumer.slots.share(token.slot, consumer.partitions);
    let positions = log::positions(snapshot, consumer.queue, share, open.through, log::END, max.get())?;
    let messages = log::messages(snapshot, &positions, 1)?;
    Ok(Some(Ahead { state, positions, messages }))
}

/// A slot as it was seen, with the messages after its open batch.
struct Ahead {
    state: SlotState,
    positions: Vec<i64>,
    messages: Vec<Message>,
}

/// Acks and receives in one transaction, which writes the slot once.
fn ack_receive(
    group: &mut Group<'_>,
    token: &SlotToken,
    batch: BatchId,
    max: BatchSize,
    seen: Option<Ahead>,
) -> Result<AckReceived> {
    let consumer = consumer::load(group.connection(), &token.path)?;
    let state = load(group.connection(), &consumer, &token.path, token.slot)?;
    let now = group.now()?;
    let acking = step(&state, &Call::Ack { epoch: token.epoch, batch }, now);
    let Outcome::Acked(acked) = acking.outcome else { return Err(unexpected("ack", token, acking.outcome)) };
    let closed = acking.next.as_ref().unwrap_or(&state);

    let seen = seen.filter(|seen| seen.state == state);
    let (found, positions) = match &seen {
        Some(Ahead { positions, .. }) => (found(positions), positions.clone()),
        None => waiting(group.connection(), &consumer, token.slot, closed, max)?,
    };
    let receiving = step(closed, &Call::Receive { epoch: token.epoch, found }, now);
    if let Some(next) = receiving.next.as_ref().or(acking.next.as_ref()) {
        store(group.connection(), consumer.id, token.slot, next)?;
        group.record(now)?;
    }
    let next = match (receiving.outcome, seen) {
        (Outcome::Nothing, _) => None,
        (Outcome::Opened(open), Some(Ahead { messages, .. })) => Some(complete(messages, &open)?),
        (Outcome::Opened(open) | Outcome::Reissued(open), _) => Some(hand_out(group.connection(), &positions, &open)?),
        (other, _) => return Err(unexpected("receive", token, other)),
    };
    Ok(AckReceived { acked, next })
}

/// Guards a caller's transaction: under the write lock nobody else is granted the slot before it ends.
pub(crate) fn guard(group: &mut Group<'_>, token: &SlotToken) -> Result<()> {
    let consumer = consumer::load(group.connection(), &token.path)?;
    let state = load(group.connection(), &consumer, &token.path, token.slot)?;
    match judge(group, &consumer, token.slot, &state, &Call::Guard { epoch: token.epoch })? {
        Outcome::Guarded => Ok(()),
        other => Err(unexpected("guard_slot", token, other)),
    }
}

/// Takes a slot from whoever owns it.
fn force(group: &mut Group<'_>, path: &ConsumerPath, slot: SlotIndex, reason: &Reason) -> Result<Epoch> {
    let consumer = consumer::load(group.connection(), path)?;
    let state = load(group.connection(), &consumer, path, slot)?;
    let at = group.now()?;
    let epoch = group.next_epoch(state.epoch, at)?;
    judge(group, &consumer, slot, &state, &Call::ForceRelease { epoch })?;
    group.granted(epoch)?;
    let from = state.owner.map(|owner| owner.worker.to_string());
    let forced = Forced { at, epoch, from, reason: reason.clone() };
    forced::record(group.connection(), Subject::Slot(consumer.id, Some(slot)), &forced)?;
    consumer::touch(group, path, consumer.id)?;
    Ok(epoch)
}

/// Renews one slot; also for heartbeats. A slot that the consumer does not have is lost.
pub(crate) fn renew(
    group: &mut Group<'_>,
    consumer: &ConsumerRow,
    path: &ConsumerPath,
    slot: SlotIndex,
    epoch: Epoch,
) -> Result<Renewal> {
    let state = load(group.connection(), consumer, path, slot)?;
    Ok(match judge(group, consumer, slot, &state, &Call::Renew { epoch })? {
        Outcome::Renewed => Renewal::Held,
        _ => Renewal::Lost,
    })
}

/// Gives a slot back between batches; also for callers' transactions.
pub(crate) fn release(group: &mut Group<'_>, token: &SlotToken) -> Result<Release> {
    give_back(group, "release_slot", token, &Call::Release { epoch: token.epoch })
}

fn give_back(group: &mut Group<'_>, operation: &'static str, token: &SlotToken, call: &Call<'_>) -> Result<Release> {
    let consumer = consumer::load(group.connection(), &token.path)?;
    let state = load(group.connection(), &consumer, &token.path, token.slot)?;
    match judge(group, &consumer, token.slot, &state, call)? {
        Outcome::Released => {
            consumer::touch(group, &token.path, consumer.id)?;
            Ok(Release::Released)
        }
        Outcome::NotHeld => Ok(Release::NotHeld),
        other => Err(unexpected(operation, token, other)),
    }
}

/// Judges a call on state that was read under the write lock, and stores what it changes.
fn judge(
    group: &mut Group<'_>,
    consumer: &ConsumerRow,
    slot: SlotIndex,
    state: &SlotState,
    call: &Call<'_>,
) -> Result<Outcome> {
    let now = group.now()?;
    let judged = step(state, call, now);
    if let Some(next) = &judged.next {
        store(group.connection(), consumer.id, slot, next)?;
        group.record(now)?;
    }
    Ok(judged.outcome)
}

fn unexpected(operation: &'static str, token: &SlotToken, outcome: Outcome) -> Error {
    match outcome {
        Outcome::Refused(refusal) => refusal.into_error(operation, &token.path, token.slot),
        other => Error::new(Kind::Internal, format!("cannot {operation}: the transition table answered {other:?}")),
    }
}

fn load(connection: &Connection, consumer: &ConsumerRow, path: &ConsumerPath, slot: SlotIndex) -> Result<SlotState> {
    let mut statement = connection.prepare_cached(include_str!("../sql/slot/load.sql")).map_err(driver_error)?;
    let mut rows = statement.query((consumer.id, slot.get())).map_err(driver_error)?;
    match rows.next().map_err(driver_error)? {
        Some(row) => decode(row),
        None => Err(no_slot(path, slot, consumer.slots)),
    }
}

/// Every slot of a consumer, in order.
pub(crate) fn load_all(connection: &Connection, consumer: i64) -> Result<Vec<(SlotIndex, SlotState)>> {
    let mut statement = connection.prepare_cached(include_str!("../sql/slot/list.sql")).map_err(driver_error)?;
    let mut rows = statement.query([consumer]).map_err(driver_error)?;
    let mut slots = Vec::new();
    while let Some(row) = rows.next().map_err(driver_error)? {
        let slot =
            SlotIndex::new(row.get(12).map_err(driver_error)?).map_err(|cause| damaged("fencepost_slot", cause))?;
        slots.push((slot, decode(row)?));
    }
    Ok(slots)
}

/// Stores a slot's state whole: cursor, owner and open batch are one.
pub(crate) fn store(connection: &Connection, consumer: i64, slot: SlotIndex, state: &SlotState) -> Result<()> {
    let (owner, batch) = (state.owner.as_ref(), state.batch);
    connection
        .prepare_cached(include_str!("../sql/slot/store.sql"))
        .and_then(|mut statement| {
            statement.execute((
                consumer,
                slot.get(),
                state.cursor.to_storage(),
                state.epoch.map(Epoch::get),
                owner.map(|owner| owner.worker.as_str()),
                owner.and_then(|owner| owner.nonce.as_ref()).map(Nonce::as_str),
                owner.map(|owner| owner.ttl.as_micros()),
                owner.map(|owner| owner.expires_at.as_micros()),
                batch.map(|batch| batch.id.get()),
                batch.map(|batch| batch.through.to_storage()),
                batch.map(|batch| batch.size),
                batch.map(|batch| batch.deliveries),
                batch.map(|batch| batch.crashes),
                state.last_acked.map(BatchId::get),
            ))
        })
        .map(drop)
        .map_err(driver_error)
}

/// Columns: cursor, epoch, worker, nonce, ttl, expires_at, batch, batch_through, batch_size, deliveries, crashes, last_acked.
fn decode(row: &Row<'_>) -> Result<SlotState> {
    type Ownership = (i64, Option<i64>, Option<String>, Option<String>, Option<i64>, Option<i64>);
    type Open = (Option<i64>, Option<i64>, Option<u32>, Option<u32>, Option<u32>, Option<i64>);
    let columns: rusqlite::Result<(Ownership, Open)> = (|| {
        Ok((
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?),
            (row.get(6)?, row.get(7)?, row.get(8)?, row.get(9)?, row.get(10)?, row.get(11)?),
        ))
    })();
    let (ownership, open) = columns.map_err(driver_error)?;
    let (cursor, epoch, worker, nonce, ttl, expires_at) = ownership;
    let (batch, through, size, deliveries, crashes, last_acked) = open;
    let decoded = || {
        let owner = match (worker, ttl, expires_at) {
            (Some(worker), Some(ttl), Some(expires_at)) => Some(Owner {
                worker: WorkerName::new(worker)?,
                nonce: nonce.map(Nonce::new).transpose()?,
                ttl: Ttl::from_micros(ttl)?,
                expires_at: Timestamp::from_micros(expires_at),
            }),
            _ => None,
        };
        let batch = match (batch, through, size, deliveries, crashes) {
            (Some(id), Some(through), Some(size), Some(deliveries), Some(crashes)) => Some(OpenBatch {
                id: BatchId::new(id)?,
                through: Position::from_storage(through),
                size,
                deliveries,
                crashes,
            }),
            _ => None,
        };
        Ok(SlotState {
            cursor: Position::from_storage(cursor),
            epoch: epoch.map(Epoch::new).transpose()?,
            owner,
            batch,
            last_acked: last_acked.map(BatchId::new).transpose()?,
        })
    };
    decoded().map_err(|cause| damaged("fencepost_slot", cause))
}
