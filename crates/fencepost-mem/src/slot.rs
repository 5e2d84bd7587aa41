//! Slots in the model: load the state, run the table's step, store what it returns.

use async_trait::async_trait;
use fencepost_core::slot::{Call, Claimant, Found, OpenBatch, Outcome, Phase, step};
use fencepost_core::{
    AckReceived, Batch, BatchId, BatchSize, ClaimSlot, ConsumerPath, Epoch, Error, Forced, Kind, Message, QueueName,
    Reason, Release, Renewal, Result, SlotGrant, SlotIndex, SlotStatus, SlotToken, Slots, Topic,
};

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
        let next = self.next_epoch(self.state().slot(path, slot)?.epoch)?;
        let call = Call::Claim(Claimant { worker, nonce: nonce.as_ref(), ttl: *ttl, epoch: next });
        let Outcome::Granted(origin) = self.step_slot("claim_slot", path, slot, &call)? else { return Ok(None) };

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

    fn receive(&mut self, token: &SlotToken, max: BatchSize) -> Result<Option<Batch>> {
        let SlotToken { path, slot, epoch } = token;
        let found = self.found(token, max)?;
        match self.step_slot("receive", path, *slot, &Call::Receive { epoch: *epoch, found })? {
            Outcome::Opened(open) | Outcome::Reissued(open) => self.batch(token, open).map(Some),
            _ => Ok(None),
        }
    }

    /// What waits after the cursor, at most `max`.
    fn found(&self, token: &SlotToken, max: BatchSize) -> Result<Option<Found>> {
        let queue = self.state().queue(&token.path.queue)?;
        let count = self.state().consumer(&token.path)?.count;
        let cursor = self.state().slot(&token.path, token.slot)?.cursor;
        let waiting: Vec<_> = queue.waiting(count, token.slot, cursor).take(max.get() as usize).collect();
        Ok(waiting.last().map(|(through, _)| Found { through: *through, size: waiting.len() as u32 }))
    }

    /// The messages of an open batch: those of the slot's partitions after the cursor and up to its end.
    fn batch(&self, token: &SlotToken, open: OpenBatch) -> Result<Batch> {
        let queue = self.state().queue(&token.path.queue)?;
        let count = self.state().consumer(&token.path)?.count;
        let cursor = self.state().slot(&token.path, token.slot)?.cursor;
        let messages = queue
            .waiting(count, token.slot, cursor)
            .take_while(|(position, _)| *position <= open.through)
            .map(|(_, stored)| Message {
                id: stored.id,
                key: stored.key().cloned(),
                kind: stored.message.get_kind().clone(),
                payload: stored.message.payload().to_vec(),
                headers: stored.message.headers().clone(),
                attempt: 1,
                deliveries: open.deliveries,
                created_at: stored.created_at,
            });
        Ok(Batch { id: open.id, deliveries: open.deliveries, crashes: open.crashes, messages: messages.collect() })
    }

    pub(crate) fn ack(&mut self, token: &SlotToken, batch: BatchId) -> Result<u32> {
        let SlotToken { path, slot, epoch } = token;
        match self.step_slot("ack", path, *slot, &Call::Ack { epoch: *epoch, batch })? {
            Outcome::Acked(messages) => Ok(messages),
            _ => Ok(0),
        }
    }

    fn ack_receive(&mut self, token: &SlotToken, batch: BatchId, max: BatchSize) -> Result<AckReceived> {
        let acked = self.ack(token, batch)?;
        Ok(AckReceived { acked, next: self.receive(token, max)? })
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
    fn slot_status(&self, queue: Option<&QueueName>) -> Result<Vec<SlotStatus>> {
        let (state, _) = self.read()?;
        let mut statuses = Vec::new();
        for (name, queue) in state.selected(queue)? {
            for (consumer_name, consumer) in &queue.consumers {
                let path = ConsumerPath { queue: name.clone(), consumer: consumer_name.clone() };
                for (slot, state) in consumer.count.slots().zip(&consumer.slots) {
                    let lag = queue.waiting(consumer.count, slot, state.cursor).count() as u64;
                    statuses.push(SlotStatus { path: path.clone(), slot, state: state.clone(), lag });
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
