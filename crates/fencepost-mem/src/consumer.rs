//! Consumers in the model: made and dropped with all their slots at once.

use async_trait::async_trait;
use fencepost_core::refusal::{other_consumer, position_gone};
use fencepost_core::slot::{Call, Outcome, SlotState, step};
use fencepost_core::{
    ConsumerPath, ConsumerStatus, Consumers, CreateConsumer, Created, Dropped, Position, QueueName, Result, Start,
    Topic,
};

use crate::state::{Consumer, Queue};
use crate::{MemStore, MemTransaction};

impl Queue {
    /// The position after which a consumer or a reader begins.
    pub(crate) fn start(&self, name: &QueueName, start: &Start) -> Result<Position> {
        let after = match start {
            Start::Earliest => return Ok(self.gone),
            Start::Latest => return Ok(Position::from_storage(self.appended)),
            Start::At(at) => {
                let first = self.log.iter().find(|(_, stored)| stored.created_at >= *at).map(|(position, _)| *position);
                let last = Position::from_storage(self.appended);
                return Ok(first.map_or(last, |first| Position::from_storage(first.to_storage() - 1)));
            }
            Start::AfterId(id) => Position::from_storage(*id),
            Start::After(checkpoint) => checkpoint.position(),
        };
        if after < self.gone {
            return Err(position_gone(name, after, self.log.keys().next().copied()));
        }
        Ok(after)
    }
}

impl MemTransaction<'_> {
    fn create_consumer(&mut self, request: &CreateConsumer) -> Result<Created> {
        let CreateConsumer { path, slots, start, policy } = request;
        let queue = self.state().queue(&path.queue)?;
        slots.fits(queue.partitions)?;
        if let Some(present) = queue.consumers.get(&path.consumer) {
            return match other_consumer(request, present.count, &present.policy) {
                None => Ok(Created::Existed),
                Some(conflict) => Err(conflict),
            };
        }
        let cursor = queue.start(&path.queue, start)?;
        let after_id = match start {
            Start::AfterId(id) => Some(*id),
            _ => None,
        };
        let consumer = Consumer {
            slots: slots.slots().map(|_| SlotState::new(cursor)).collect(),
            count: *slots,
            policy: *policy,
            after_id,
            aside: Default::default(),
            members: Default::default(),
            forced: Vec::new(),
        };
        self.change().queue_mut(&path.queue)?.consumers.insert(path.consumer.clone(), consumer);
        Ok(Created::Created)
    }

    /// Drops all slots or none. Every slot is judged by the table; the first one in order that refuses is the answer.
    fn drop_consumer(&mut self, path: &ConsumerPath, force: bool) -> Result<Dropped> {
        let Ok(consumer) = self.state().consumer(path) else { return Ok(Dropped::Absent) };
        for (slot, state) in consumer.count.slots().zip(&consumer.slots) {
            if let Outcome::Refused(refusal) = step(state, &Call::Drop { force }, self.now()).outcome {
                return Err(refusal.into_error("drop_consumer", path, slot));
            }
        }
        self.change().queue_mut(&path.queue)?.consumers.remove(&path.consumer);
        self.wake(Topic::Slots(path.clone()));
        Ok(Dropped::Dropped)
    }
}

impl MemStore {
    fn consumer_status(&self, queue: Option<&QueueName>) -> Result<Vec<ConsumerStatus>> {
        let (state, now) = self.read()?;
        let mut statuses = Vec::new();
        for (name, queue) in state.selected(queue)? {
            for (consumer_name, consumer) in &queue.consumers {
                let slots = || consumer.count.slots().zip(&consumer.slots);
                let lag = slots().map(|(slot, state)| consumer.lag(queue, slot, state.cursor)).sum();
                let counts = slots().map(|(slot, _)| consumer.counts(slot));
                let (retrying, parked) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
                let dead = queue.dead.keys().filter(|(name, _)| name == consumer_name).count() as u64;
                statuses.push(ConsumerStatus {
                    path: ConsumerPath { queue: name.clone(), consumer: consumer_name.clone() },
                    slots: consumer.count,
                    policy: consumer.policy,
                    lag,
                    retrying,
                    parked,
                    first_at: slots()
                        .filter_map(|(slot, state)| consumer.first_waiting(queue, slot, state.cursor))
                        .map(|(_, at)| at)
                        .min(),
                    dead,
                    workers: consumer.live_members(now).count() as u32,
                });
            }
        }
        Ok(statuses)
    }
}

#[async_trait]
impl Consumers for MemStore {
    async fn create_consumer(&self, request: &CreateConsumer) -> Result<Created> {
        self.write(|tx| tx.create_consumer(request)).map_err(|error| error.during("create_consumer"))
    }

    async fn drop_consumer(&self, path: &ConsumerPath, force: bool) -> Result<Dropped> {
        self.write(|tx| tx.drop_consumer(path, force)).map_err(|error| error.during("drop_consumer"))
    }

    async fn consumer_status(&self, queue: Option<&QueueName>) -> Result<Vec<ConsumerStatus>> {
        self.consumer_status(queue).map_err(|error| error.during("consumer_status"))
    }
}
