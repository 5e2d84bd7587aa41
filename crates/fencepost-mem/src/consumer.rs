//! Consumers in the model: made and dropped with all their slots at once.

use async_trait::async_trait;
use fencepost_core::refusal::other_slots;
use fencepost_core::slot::{Call, Outcome, SlotState, step};
use fencepost_core::{
    ConsumerPath, ConsumerStatus, Consumers, CreateConsumer, Created, Dropped, Position, QueueName, Result, Start,
    Topic,
};

use crate::state::Consumer;
use crate::{MemStore, MemTransaction};

impl MemTransaction<'_> {
    fn create_consumer(&mut self, request: &CreateConsumer) -> Result<Created> {
        let CreateConsumer { path, slots, start } = request;
        let queue = self.state().queue(&path.queue)?;
        slots.fits(queue.partitions)?;
        if let Some(present) = queue.consumers.get(&path.consumer).map(|consumer| consumer.count) {
            if present == *slots {
                return Ok(Created::Existed);
            }
            return Err(other_slots(path, *slots, present));
        }
        let cursor = match start {
            Start::Earliest => Position::START,
            Start::Latest => Position::from_storage(queue.appended),
        };
        let consumer = Consumer {
            slots: slots.slots().map(|_| SlotState::new(cursor)).collect(),
            count: *slots,
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
                let slots = consumer.count.slots().zip(&consumer.slots);
                let lag = slots.map(|(slot, state)| queue.waiting(consumer.count, slot, state.cursor).count() as u64);
                statuses.push(ConsumerStatus {
                    path: ConsumerPath { queue: name.clone(), consumer: consumer_name.clone() },
                    slots: consumer.count,
                    lag: lag.sum(),
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
