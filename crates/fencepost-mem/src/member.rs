//! Membership in the model: who works for a consumer, and how many slots each held at its last sign of life.

use async_trait::async_trait;
use fencepost_core::{ConsumerPath, Heartbeat, MemberStatus, Members, Nonce, Pulse, Renewal, Result, Topic};

use crate::state::Member;
use crate::{MemStore, MemTransaction};

impl MemTransaction<'_> {
    fn heartbeat(&mut self, beat: &Heartbeat) -> Result<Pulse> {
        let Heartbeat { path, member, worker, ttl, held } = beat;
        let now = self.now();
        let count = self.state().consumer(path)?.count;
        let slots = held.iter().map(|(slot, epoch)| {
            // A slot that the consumer does not have any more is nobody's, so it is lost like any other.
            if slot.get() < count.get() { self.renew_slot(path, *slot, *epoch) } else { Ok(Renewal::Lost) }
        });
        let renewals = slots.collect::<Result<Vec<_>>>()?;
        let still_held = renewals.iter().filter(|renewal| **renewal == Renewal::Held).count() as u32;

        let consumer = self.change().consumer_mut(path)?;
        consumer.members.retain(|_, member| now < member.expires_at);
        let row = Member { worker: worker.clone(), held: still_held, expires_at: now + ttl.get() };
        let is_new = consumer.members.insert(member.clone(), row).is_none();
        let pulse = Pulse {
            workers: consumer.members.len() as u32,
            fewest: consumer.members.values().map(|member| member.held).min().unwrap_or(still_held),
            slots: count,
            held: renewals,
        };
        if is_new {
            self.wake(Topic::Slots(path.clone()));
        }
        Ok(pulse)
    }

    fn leave(&mut self, path: &ConsumerPath, member: &Nonce) -> Result<()> {
        if self.state().consumer(path).is_ok_and(|consumer| consumer.members.contains_key(member)) {
            self.change().consumer_mut(path)?.members.remove(member);
            self.wake(Topic::Slots(path.clone()));
        }
        Ok(())
    }
}

impl MemStore {
    fn members(&self, path: &ConsumerPath) -> Result<Vec<MemberStatus>> {
        let (state, now) = self.read()?;
        let mut members: Vec<_> = state
            .consumer(path)?
            .live_members(now)
            .map(|Member { worker, held, expires_at }| MemberStatus {
                worker: worker.clone(),
                held: *held,
                expires_at: *expires_at,
            })
            .collect();
        members.sort_by(|one, other| one.worker.cmp(&other.worker));
        Ok(members)
    }
}

#[async_trait]
impl Members for MemStore {
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Pulse> {
        self.write(|tx| tx.heartbeat(heartbeat)).map_err(|error| error.during("heartbeat"))
    }

    async fn leave(&self, path: &ConsumerPath, member: &Nonce) -> Result<()> {
        self.write(|tx| tx.leave(path, member)).map_err(|error| error.during("leave"))
    }

    async fn members(&self, path: &ConsumerPath) -> Result<Vec<MemberStatus>> {
        self.members(path).map_err(|error| error.during("members"))
    }
}
