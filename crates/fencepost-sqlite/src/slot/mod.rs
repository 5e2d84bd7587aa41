//! Slots: load the row under the write lock, let the transition table judge, store what it returned.

mod finish;
mod pick;
mod receive;
mod row;

use std::time::Duration;

use async_trait::async_trait;
use fencepost_core::slot::{Call, Claimant, GrantOrigin, Outcome, SlotState, step};
use fencepost_core::{
    AckReceived, Batch, BatchId, BatchSize, ClaimSlot, ConsumerPath, DeadCause, Delay, Disposition, Epoch, Error,
    Failure, FailurePolicy, FailureText, Forced, Kind, MessageId, NackOutcome, Nacked, QueueName, Reason, Release,
    Renewal, Result, SlotGrant, SlotIndex, SlotStatus, SlotToken, Slots, Timestamp, random_u64,
};
use rusqlite::Connection;

use crate::aside;
use crate::consumer::{self, ConsumerRow};
use crate::forced::{self, Subject};
use crate::grant::GiveBack;
use crate::look::Look;
use crate::state::{Group, recorded};
use crate::statement::value;
use crate::store::SqliteStore;

pub(crate) use finish::ack;
use finish::{Decision, ack_through, dispose, suspect};
use receive::{Received, Seen, ack_receive, look, look_ahead, receive};
pub(crate) use row::{load, load_all, store};

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
        loop {
            let (token, shared) = (token.clone(), self.shared().clone());
            let look = move |snapshot: &Connection| {
                let now = shared.clock.now(recorded(snapshot)?);
                let (token, seen) = match look(snapshot, &token, max, now)? {
                    Seen::Decided(batch) => return Ok(Look::Done(Received::Batch(batch))),
                    Seen::Slot(seen) => (token.clone(), seen),
                };
                Ok(Look::write(move |group| receive(group, &token, max, seen)))
            };
            if let Received::Batch(batch) = self.look_and_transact("receive", max.get(), look).await? {
                return Ok(batch);
            }
            // What was passed over is bounded by transaction, so that other writers get their turn in between.
        }
    }

    async fn ack(&self, token: &SlotToken, batch: BatchId) -> Result<u32> {
        let token = token.clone();
        self.transact("ack", move |group| ack(group, &token, batch)).await
    }

    async fn ack_through(&self, token: &SlotToken, batch: BatchId, message: MessageId) -> Result<u32> {
        let token = token.clone();
        self.transact("ack_through", move |group| ack_through(group, &token, batch, message)).await
    }

    async fn nack(&self, token: &SlotToken, batch: BatchId, message: MessageId, failure: &Failure) -> Result<Nacked> {
        let (token, Failure { retry_after, reason }) = (token.clone(), failure.clone());
        let random = random_u64()?;
        let nack = move |group: &mut Group<'_>| {
            let judge = |policy: &FailurePolicy, failures, now| policy.judge(failures, retry_after, now, random);
            dispose(group, &token, Decision { operation: "nack", batch, message, reason: reason.as_ref(), judge })
        };
        let (disposition, withdrawn) = self.transact("nack", nack).await?;
        let outcome = match disposition {
            Disposition::Retry { due_at } => NackOutcome::Retry { due_at },
            _ => NackOutcome::Dead,
        };
        Ok(Nacked { outcome, withdrawn })
    }

    async fn snooze(
        &self,
        token: &SlotToken,
        batch: BatchId,
        message: MessageId,
        retry_after: Delay,
    ) -> Result<Vec<MessageId>> {
        let token = token.clone();
        let snooze = move |group: &mut Group<'_>| {
            let judge = |_: &FailurePolicy, _, now: Timestamp| Disposition::Snooze { due_at: now + retry_after.get() };
            dispose(group, &token, Decision { operation: "snooze", batch, message, reason: None, judge })
        };
        Ok(self.transact("snooze", snooze).await?.1)
    }

    async fn dead_letter(
        &self,
        token: &SlotToken,
        batch: BatchId,
        message: MessageId,
        reason: &FailureText,
    ) -> Result<()> {
        let (token, reason) = (token.clone(), reason.clone());
        let dead_letter = move |group: &mut Group<'_>| {
            let judge = |_: &FailurePolicy, _, _| Disposition::Dead(DeadCause::Rejected);
            dispose(group, &token, Decision { operation: "dead_letter", batch, message, reason: Some(&reason), judge })
        };
        self.transact("dead_letter", dead_letter).await.map(drop)
    }

    async fn next_due(&self, path: &ConsumerPath, slot: SlotIndex) -> Result<Option<Duration>> {
        let (path, shared) = (path.clone(), self.shared().clone());
        self.read("next_due", move |snapshot| {
            let consumer = consumer::load(snapshot, &path)?;
            load(snapshot, &consumer, &path, slot)?;
            let delayed: Option<i64> = value(snapshot, include_str!("../../sql/queue/next_due.sql"), [consumer.queue])?;
            let delayed = delayed.map(Timestamp::from_micros);
            let next = delayed.into_iter().chain(consumer.next_due(snapshot, slot)?).min();
            let now = shared.clock.now(recorded(snapshot)?);
            Ok(next.map(|due_at| due_at.since(now)))
        })
        .await
    }

    async fn ack_receive(&self, token: &SlotToken, batch: BatchId, max: BatchSize) -> Result<AckReceived> {
        let (token, shared) = (token.clone(), self.shared().clone());
        let look = move |snapshot: &Connection| {
            let now = shared.clock.now(recorded(snapshot)?);
            let (token, seen) = (token.clone(), look_ahead(snapshot, &token, batch, max, now)?);
            Ok(Look::write(move |group| ack_receive(group, &token, batch, max, seen)))
        };
        self.look_and_transact("ack_receive", max.get(), look).await
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
                let counts = aside::counts(snapshot, &row)?;
                for ((slot, state), counts) in load_all(snapshot, row.id)?.into_iter().zip(counts) {
                    let lag = aside::lag(snapshot, &row, slot, state.cursor, counts)?;
                    let (retrying, parked) = (counts.retrying, counts.parked);
                    let first_at = aside::first_at(snapshot, &row, slot, state.cursor)?;
                    let path = path.clone();
                    found.push(SlotStatus { path, slot, state, lag, retrying, parked, first_at, blocked_by: None });
                }
            }
            Ok(found)
        })
        .await
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
    let (worker, nonce) = (&request.worker, request.nonce.as_ref());
    let claimant = Claimant { worker, nonce, ttl: request.ttl, epoch, suspect: None };
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
    let suspect = suspect(group.connection(), consumer, slot, state, now)?;
    let (worker, nonce) = (&request.worker, request.nonce.as_ref());
    let through = suspect.as_ref().map(|suspect| suspect.through);
    let claimant = Claimant { worker, nonce, ttl: request.ttl, epoch, suspect: through };
    let judged = step(state, &Call::Claim(claimant), now);
    let Outcome::Granted(origin) = judged.outcome else { return Ok(None) };
    if let Some(next) = &judged.next {
        group.granted(epoch)?;
        group.record(now)?;
        store(group.connection(), consumer.id, slot, next)?;
    }
    match suspect {
        Some(suspect) if matches!(origin, GrantOrigin::Convicted { .. }) => {
            suspect.convict(group, consumer, &request.path, slot, state)?;
        }
        Some(suspect) => {
            let deliveries = state.batch.map_or(0, |open| open.deliveries);
            suspect.isolate(group.connection(), consumer, slot, deliveries)?;
        }
        None => {}
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
