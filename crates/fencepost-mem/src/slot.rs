//! Slots in the model: load the state, run the table's step, store what it returns.

use std::time::Duration;

use async_trait::async_trait;
use fencepost_core::slot::{Call, Claimant, GrantOrigin, OpenBatch, Outcome, Part, Phase, Place, SlotState, step};
use fencepost_core::{
    AckReceived, Batch, BatchId, BatchSize, ClaimSlot, ConsumerPath, DeadCause, Delay, Disposition, Epoch, Error,
    Failure, FailurePolicy, FailureText, Forced, Kind, Message, MessageId, NackOutcome, Nacked, Position, QueueName,
    Reason, Release, Renewal, Result, SlotGrant, SlotIndex, SlotStatus, SlotToken, Slots, Timestamp, Topic, random_u64,
};

use crate::aside::{Extent, Kept, Picked, named};
use crate::state::keep;
use crate::{MemStore, MemTransaction};

impl MemTransaction<'_> {
    /// Runs `call` against a slot and returns the answer; a refusal is the error of the contract.
    fn step_slot(
        &mut self,
        name: &'static str,
        path: &ConsumerPath,
        slot: SlotIndex,
        call: &Call<'_>,
    ) -> Result<Outcome> {
        let step = step(self.state().slot(path, slot)?, call, self.now());
        if let Outcome::Refused(refusal) = step.outcome {
            return Err(refusal.into_error(name, path, slot));
        }
        if let Some(next) = step.next {
            *self.change().slot_mut(path, slot)? = next;
        }
        Ok(step.outcome)
    }

    /// Looks for a live slot that was granted to the nonce, then tries the slots in order.
    fn claim(&mut self, request: &ClaimSlot) -> Result<Option<SlotGrant>> {
        let count = self.state().consumer(&request.path)?.count;
        let stored = count.slots().find(|slot| self.is_stored_grant(request, *slot));
        for slot in stored.into_iter().chain(count.slots()) {
            let granted = self.claim_slot(request, slot)?;
            if granted.is_some() {
                return Ok(granted);
            }
        }
        Ok(None)
    }

    /// Whether the nonce of the claim has a live grant of this slot already.
    fn is_stored_grant(&self, request: &ClaimSlot, slot: SlotIndex) -> bool {
        let Ok(state) = self.state().slot(&request.path, slot) else { return false };
        let same = state.owner.as_ref().is_some_and(|owner| request.nonce.is_some() && owner.nonce == request.nonce);
        same && matches!(state.phase(self.now()), Phase::HeldLive | Phase::OpenLive)
    }

    fn claim_slot(&mut self, request: &ClaimSlot, slot: SlotIndex) -> Result<Option<SlotGrant>> {
        let ClaimSlot { path, worker, ttl, nonce } = request;
        let before = self.state().slot(path, slot)?.clone();
        let next = self.next_epoch(before.epoch)?;
        let suspect = self.suspect(path, slot, &before)?;
        let through = suspect.as_ref().map(|(position, _)| before.cursor_after(*position));
        let call = Call::Claim(Claimant { worker, nonce: nonce.as_ref(), ttl: *ttl, epoch: next, suspect: through });
        let Outcome::Granted(origin) = self.step_slot("claim_slot", path, slot, &call)? else { return Ok(None) };
        if let (Some((first, kept)), Some(open)) = (suspect, before.batch) {
            if matches!(origin, GrantOrigin::Convicted { .. }) {
                self.decide(path, first, &kept, Disposition::Dead(DeadCause::Crashes), None)?;
                self.settle(path, slot, Extent::Whole, open.deliveries)?;
            } else {
                self.isolate(path, slot, first, open.deliveries)?;
            }
        }

        let state = self.state().slot(path, slot)?;
        let (Some(epoch), Some(owner)) = (state.epoch, &state.owner) else {
            return Err(Error::new(
                Kind::Internal,
                format!("cannot claim slot {slot} of `{path}`: nobody owns it after"),
            ));
        };
        let token = SlotToken { path: path.clone(), slot, epoch };
        let grant = SlotGrant { token, expires_at: owner.expires_at, origin, batch: state.batch };
        if epoch == next {
            self.granted(epoch);
        }
        Ok(Some(grant))
    }

    /// The first message of an open batch without a disposition, when so many owners lost it that it is suspected.
    fn suspect(&self, path: &ConsumerPath, slot: SlotIndex, state: &SlotState) -> Result<Option<(Position, Kept)>> {
        let max_crashes = self.state().consumer(path)?.policy.get_max_crashes();
        match state.batch.filter(|_| state.is_suspected(max_crashes, self.now())) {
            Some(open) => Ok(self.undecided(path, slot, open)?.into_iter().next()),
            None => Ok(None),
        }
    }

    fn receive(&mut self, token: &SlotToken, max: BatchSize) -> Result<Option<Batch>> {
        let SlotToken { path, slot, epoch } = token;
        loop {
            let before = self.state().slot(path, *slot)?.clone();
            let looks = before.is_own(*epoch) && before.batch.is_none();
            let picked = if looks { self.pick(path, *slot, max)? } else { Picked::NOTHING };
            let found = picked.found;
            match self.step_slot("receive", path, *slot, &Call::Receive { epoch: *epoch, found })? {
                Outcome::Opened(open) => {
                    self.set_aside(path, picked)?;
                    return self.batch(token, open).map(Some);
                }
                Outcome::Reissued(open) => return self.batch(token, open).map(Some),
                Outcome::Skipped => {
                    let through = self.state().slot(path, *slot)?.cursor;
                    self.set_aside(path, picked)?;
                    self.settle(path, *slot, Extent::Through(through), 0)?;
                }
                // Every message of the open batch had a disposition.
                Outcome::Acked(_) => {
                    let deliveries = before.batch.map_or(0, |open| open.deliveries);
                    self.settle(path, *slot, Extent::Whole, deliveries)?;
                }
                _ => return Ok(None),
            }
        }
    }

    fn batch(&self, token: &SlotToken, open: OpenBatch) -> Result<Batch> {
        let messages = self.undecided(&token.path, token.slot, open)?.into_iter().map(|(position, kept)| {
            let stored = &kept.stored;
            Message {
                id: stored.id,
                position,
                key: stored.key().cloned(),
                kind: stored.message.get_kind().clone(),
                payload: stored.message.payload().to_vec(),
                headers: stored.message.headers().clone(),
                attempt: kept.aside.failures + 1,
                deliveries: kept.aside.deliveries + open.deliveries,
                created_at: stored.created_at,
            }
        });
        Ok(Batch { id: open.id, deliveries: open.deliveries, crashes: open.crashes, messages: messages.collect() })
    }

    /// Acks a batch for the call `name`.
    pub(crate) fn ack(&mut self, name: &'static str, token: &SlotToken, batch: BatchId) -> Result<u32> {
        let SlotToken { path, slot, epoch } = token;
        let open = self.state().slot(path, *slot)?.batch.filter(|open| open.id == batch);
        let Outcome::Acked(messages) = self.step_slot(name, path, *slot, &Call::Ack { epoch: *epoch, batch })? else {
            return Ok(0);
        };
        if let Some(open) = open {
            self.settle(path, *slot, Extent::Whole, open.deliveries)?;
        }
        Ok(messages)
    }

    pub(crate) fn ack_through(&mut self, token: &SlotToken, batch: BatchId, message: MessageId) -> Result<u32> {
        let SlotToken { path, slot, epoch } = token;
        let state = self.state().slot(path, *slot)?.clone();
        let open = state.batch.filter(|open| open.id == batch && state.is_own(*epoch));
        let (part, extent) = match open {
            Some(open) => self.part(path, *slot, &state, open, message)?,
            None => (Part::Foreign, Extent::Whole),
        };
        let call = Call::AckThrough { epoch: *epoch, batch, message, part };
        let Outcome::Acked(acked) = self.step_slot("ack_through", path, *slot, &call)? else { return Ok(0) };
        if let (Some(open), Part::First { .. } | Part::Whole) = (open, part) {
            self.settle(path, *slot, extent, open.deliveries)?;
        }
        Ok(acked)
    }

    /// What a message is to an open batch, and how much of the batch an ack through it covers.
    fn part(
        &self,
        path: &ConsumerPath,
        slot: SlotIndex,
        state: &SlotState,
        open: OpenBatch,
        message: MessageId,
    ) -> Result<(Part, Extent)> {
        let (undecided, decided) = (self.undecided(path, slot, open)?, self.decided(path, slot)?);
        let Some((position, _)) = named(&undecided, message).or_else(|| named(&decided, message)) else {
            let behind = self.is_behind(path, slot, state.cursor, message)?;
            return Ok((if behind { Part::Acked } else { Part::Foreign }, Extent::Whole));
        };
        let (position, more) = (*position, |(other, _): &(Position, Kept)| *other > *position);
        if !undecided.iter().any(more) && !decided.iter().any(more) {
            return Ok((Part::Whole, Extent::Whole));
        }
        let acked = undecided.iter().filter(|(other, _)| *other <= position).count() as u32;
        Ok((Part::First { through: state.cursor_after(position), acked }, Extent::Through(position)))
    }

    /// Whether a message is of the slot and behind its cursor: acked, or set aside by an earlier ack, of this batch perhaps.
    fn is_behind(&self, path: &ConsumerPath, slot: SlotIndex, cursor: Position, message: MessageId) -> Result<bool> {
        let (queue, consumer) = (self.state().queue(&path.queue)?, self.state().consumer(path)?);
        let aside = consumer.aside.iter().map(|(position, kept)| (position, &kept.stored));
        let mut found = queue.log.iter().chain(aside).filter(|(_, stored)| stored.id == message);
        Ok(found.any(|(position, stored)| *position <= cursor && consumer.count.owner(stored.partition) == slot))
    }

    fn ack_receive(&mut self, token: &SlotToken, batch: BatchId, max: BatchSize) -> Result<AckReceived> {
        let acked = self.ack("ack_receive", token, batch)?;
        Ok(AckReceived { acked, next: self.receive(token, max)? })
    }

    /// Records what `judge` makes of a message of the open batch, and withdraws the later ones of its key when it comes again first.
    fn dispose(
        &mut self,
        operation: &'static str,
        token: &SlotToken,
        batch: BatchId,
        message: MessageId,
        reason: Option<&FailureText>,
        judge: impl FnOnce(&FailurePolicy, u32, Timestamp) -> Disposition,
    ) -> Result<(Disposition, Vec<MessageId>)> {
        let SlotToken { path, slot, epoch } = token;
        let policy = self.state().consumer(path)?.policy;
        let state = self.state().slot(path, *slot)?;
        let open = state.batch.filter(|open| open.id == batch && state.is_own(*epoch));
        let (undecided, decided) = match open {
            Some(open) => (self.undecided(path, *slot, open)?, self.decided(path, *slot)?),
            None => Default::default(),
        };
        let target = named(&undecided, message).or_else(|| named(&decided, message)).cloned();
        let disposition = target.as_ref().map(|(_, kept)| judge(&policy, kept.aside.failures, self.now()));
        let comes_again = matches!(disposition, Some(Disposition::Retry { .. } | Disposition::Snooze { .. }));
        let later = |(position, kept): &&(Position, Kept)| {
            let Some((head, failed)) = &target else { return false };
            let same = kept.stored.key().is_some() && kept.stored.key() == failed.stored.key();
            policy.pauses() && comes_again && same && position > head
        };
        let withdrawn: Vec<_> = undecided.iter().filter(later).cloned().collect();
        let before =
            decided.iter().filter(later).filter(|(_, kept)| kept.aside.place == Place::Decided(Disposition::Withdrawn));
        let mut ids: Vec<_> =
            withdrawn.iter().chain(before).map(|(position, kept)| (*position, kept.stored.id)).collect();
        ids.sort();

        let fresh = target.as_ref().map(|(position, _)| {
            u32::from(undecided.iter().any(|(other, _)| other == position)) + withdrawn.len() as u32
        });
        self.step_slot(operation, path, *slot, &Call::Dispose { epoch: *epoch, batch, message, fresh })?;
        let (Some((position, kept)), Some(disposition)) = (target, disposition) else {
            return Err(Error::new(Kind::Internal, format!("cannot {operation}: the message is not there")));
        };
        self.decide(path, position, &kept, disposition, reason)?;
        for (position, kept) in &withdrawn {
            self.decide(path, *position, kept, Disposition::Withdrawn, None)?;
        }
        Ok((disposition, ids.into_iter().map(|(_, id)| id).collect()))
    }

    fn nack(&mut self, token: &SlotToken, batch: BatchId, message: MessageId, failure: &Failure) -> Result<Nacked> {
        let random = random_u64()?;
        let judge = |policy: &FailurePolicy, failures, now| policy.judge(failures, failure.retry_after, now, random);
        let (disposition, withdrawn) = self.dispose("nack", token, batch, message, failure.reason.as_ref(), judge)?;
        let outcome = match disposition {
            Disposition::Retry { due_at } => NackOutcome::Retry { due_at },
            _ => NackOutcome::Dead,
        };
        Ok(Nacked { outcome, withdrawn })
    }

    fn snooze(
        &mut self,
        token: &SlotToken,
        batch: BatchId,
        message: MessageId,
        delay: Delay,
    ) -> Result<Vec<MessageId>> {
        let judge = |_: &FailurePolicy, _, now: Timestamp| Disposition::Snooze { due_at: now + delay.get() };
        Ok(self.dispose("snooze", token, batch, message, None, judge)?.1)
    }

    fn dead_letter(
        &mut self,
        token: &SlotToken,
        batch: BatchId,
        message: MessageId,
        reason: &FailureText,
    ) -> Result<()> {
        let judge = |_: &FailurePolicy, _, _| Disposition::Dead(DeadCause::Rejected);
        self.dispose("dead_letter", token, batch, message, Some(reason), judge).map(drop)
    }

    pub(crate) fn guard_slot(&mut self, token: &SlotToken) -> Result<()> {
        self.step_slot("guard_slot", &token.path, token.slot, &Call::Guard { epoch: token.epoch }).map(drop)
    }

    fn force_release_slot(&mut self, path: &ConsumerPath, slot: SlotIndex, reason: &Reason) -> Result<Epoch> {
        let state = self.state().slot(path, slot)?;
        let from = state.owner.as_ref().map(|owner| owner.worker.to_string());
        let epoch = self.next_epoch(state.epoch)?;
        self.step_slot("force_release_slot", path, slot, &Call::ForceRelease { epoch })?;
        self.granted(epoch);
        let forced = Forced { at: self.now(), epoch, from, reason: reason.clone() };
        keep(&mut self.change().consumer_mut(path)?.forced, (slot, forced));
        self.wake(Topic::Slots(path.clone()));
        Ok(epoch)
    }

    pub(crate) fn renew_slot(&mut self, path: &ConsumerPath, slot: SlotIndex, epoch: Epoch) -> Result<Renewal> {
        match self.step_slot("renew_slot", path, slot, &Call::Renew { epoch })? {
            Outcome::Renewed => Ok(Renewal::Held),
            _ => Ok(Renewal::Lost),
        }
    }

    pub(crate) fn release_slot(&mut self, token: &SlotToken) -> Result<Release> {
        self.give_back("release_slot", token, &Call::Release { epoch: token.epoch })
    }

    fn abandon_slot(&mut self, token: &SlotToken) -> Result<Release> {
        self.give_back("abandon_slot", token, &Call::Abandon { epoch: token.epoch })
    }

    fn give_back(&mut self, name: &'static str, token: &SlotToken, call: &Call<'_>) -> Result<Release> {
        match self.step_slot(name, &token.path, token.slot, call)? {
            Outcome::Released => {
                self.wake(Topic::Slots(token.path.clone()));
                Ok(Release::Released)
            }
            _ => Ok(Release::NotHeld),
        }
    }
}

impl MemStore {
    fn next_due(&self, path: &ConsumerPath, slot: SlotIndex) -> Result<Option<Duration>> {
        let (state, now) = self.read()?;
        state.slot(path, slot)?;
        let delayed = state.queue(&path.queue)?.delayed.keys().next().map(|(due_at, _)| *due_at);
        Ok(delayed.into_iter().chain(state.consumer(path)?.next_due(slot)).min().map(|due_at| due_at.since(now)))
    }

    fn slot_status(&self, queue: Option<&QueueName>) -> Result<Vec<SlotStatus>> {
        let (state, _) = self.read()?;
        let mut statuses = Vec::new();
        for (name, queue) in state.selected(queue)? {
            for (consumer_name, consumer) in &queue.consumers {
                let path = ConsumerPath { queue: name.clone(), consumer: consumer_name.clone() };
                for (slot, state) in consumer.count.slots().zip(&consumer.slots) {
                    let lag = consumer.lag(queue, slot, state.cursor);
                    let (retrying, parked) = consumer.counts(slot);
                    let first_at = consumer.first_waiting(queue, slot, state.cursor).map(|(_, at)| at);
                    let (path, state) = (path.clone(), state.clone());
                    statuses.push(SlotStatus { path, slot, state, lag, retrying, parked, first_at, blocked_by: None });
                }
            }
        }
        Ok(statuses)
    }
}

#[async_trait]
impl Slots for MemStore {
    async fn claim(&self, request: &ClaimSlot) -> Result<Option<SlotGrant>> {
        self.write(|tx| tx.claim(request)).map_err(|error| error.during("claim"))
    }

    async fn claim_slot(&self, request: &ClaimSlot, slot: SlotIndex) -> Result<Option<SlotGrant>> {
        self.write(|tx| tx.claim_slot(request, slot)).map_err(|error| error.during("claim_slot"))
    }

    async fn receive(&self, token: &SlotToken, max: BatchSize) -> Result<Option<Batch>> {
        self.write(|tx| tx.receive(token, max)).map_err(|error| error.during("receive"))
    }

    async fn ack(&self, token: &SlotToken, batch: BatchId) -> Result<u32> {
        self.write(|tx| tx.ack_in(token, batch)).map_err(|error| error.during("ack"))
    }

    async fn ack_through(&self, token: &SlotToken, batch: BatchId, message: MessageId) -> Result<u32> {
        self.write(|tx| tx.ack_through(token, batch, message)).map_err(|error| error.during("ack_through"))
    }

    async fn nack(&self, token: &SlotToken, batch: BatchId, message: MessageId, failure: &Failure) -> Result<Nacked> {
        self.write(|tx| tx.nack(token, batch, message, failure)).map_err(|error| error.during("nack"))
    }

    async fn snooze(
        &self,
        token: &SlotToken,
        batch: BatchId,
        message: MessageId,
        retry_after: Delay,
    ) -> Result<Vec<MessageId>> {
        self.write(|tx| tx.snooze(token, batch, message, retry_after)).map_err(|error| error.during("snooze"))
    }

    async fn dead_letter(
        &self,
        token: &SlotToken,
        batch: BatchId,
        message: MessageId,
        reason: &FailureText,
    ) -> Result<()> {
        self.write(|tx| tx.dead_letter(token, batch, message, reason)).map_err(|error| error.during("dead_letter"))
    }

    async fn next_due(&self, path: &ConsumerPath, slot: SlotIndex) -> Result<Option<Duration>> {
        self.next_due(path, slot).map_err(|error| error.during("next_due"))
    }

    async fn ack_receive(&self, token: &SlotToken, batch: BatchId, max: BatchSize) -> Result<AckReceived> {
        self.write(|tx| tx.ack_receive(token, batch, max)).map_err(|error| error.during("ack_receive"))
    }

    async fn renew_slot(&self, token: &SlotToken) -> Result<Renewal> {
        let SlotToken { path, slot, epoch } = token;
        self.write(|tx| tx.renew_slot(path, *slot, *epoch)).map_err(|error| error.during("renew_slot"))
    }

    async fn release_slot(&self, token: &SlotToken) -> Result<Release> {
        self.write(|tx| tx.release_in(token)).map_err(|error| error.during("release_slot"))
    }

    async fn abandon_slot(&self, token: &SlotToken) -> Result<Release> {
        self.write(|tx| tx.abandon_slot(token)).map_err(|error| error.during("abandon_slot"))
    }

    async fn force_release_slot(&self, path: &ConsumerPath, slot: SlotIndex, reason: &Reason) -> Result<Epoch> {
        self.write(|tx| tx.force_release_slot(path, slot, reason)).map_err(|error| error.during("force_release_slot"))
    }

    async fn slot_history(&self, path: &ConsumerPath) -> Result<Vec<(SlotIndex, Forced)>> {
        let history = || Ok(self.read()?.0.consumer(path)?.forced.clone());
        history().map_err(|error: Error| error.during("slot_history"))
    }

    async fn slot_status(&self, queue: Option<&QueueName>) -> Result<Vec<SlotStatus>> {
        self.slot_status(queue).map_err(|error| error.during("slot_status"))
    }
}
