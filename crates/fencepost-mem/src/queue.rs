//! Queues in the model: appending to the log, and removing what every consumer has acked past.

use std::sync::Arc;

use async_trait::async_trait;
use fencepost_core::refusal::{other_partitions, queue_in_use};
use fencepost_core::{
    ConsumerName, ConsumerPath, Created, Dropped, MessageId, NewMessage, Partition, Partitions, Position, QueueName,
    QueueStatus, Queues, Result, Topic,
};

use crate::state::{Queue, Stored};
use crate::{MemStore, MemTransaction};

/// How many messages one step of maintenance removes at most.
const STEP: usize = 1_000;

impl Queue {
    fn new(partitions: Partitions) -> Self {
        Self { partitions, appended: 0, log: Default::default(), consumers: Default::default() }
    }

    /// Up to where every consumer has acked the messages of `partition`; nothing is consumed in a queue without consumers.
    fn consumed(&self, partition: Partition) -> Position {
        let cursors = self.consumers.values().map(|consumer| {
            let slot = consumer.count.owner(partition);
            consumer.slots[usize::from(slot.get())].cursor
        });
        cursors.min().unwrap_or(Position::START)
    }

    /// The positions that one step of maintenance removes.
    fn removable(&self) -> Vec<Position> {
        let stored = self.log.iter();
        let consumed = stored.filter(|(position, stored)| **position <= self.consumed(stored.partition));
        consumed.map(|(position, _)| *position).take(STEP).collect()
    }
}

impl MemTransaction<'_> {
    fn create_queue(&mut self, name: &QueueName, partitions: Partitions) -> Result<Created> {
        match self.state().queues.get(name).map(|queue| queue.partitions) {
            None => {
                self.change().queues.insert(name.clone(), Queue::new(partitions));
                Ok(Created::Created)
            }
            Some(present) if present == partitions => Ok(Created::Existed),
            Some(present) => Err(other_partitions(name, partitions, present)),
        }
    }

    fn drop_queue(&mut self, name: &QueueName, force: bool) -> Result<Dropped> {
        let Some(queue) = self.state().queues.get(name) else { return Ok(Dropped::Absent) };
        let (consumers, holds) = (queue.consumers.len() as u64, !queue.log.is_empty());
        if !force && (consumers > 0 || holds) {
            return Err(queue_in_use(name, consumers));
        }
        let consumers: Vec<ConsumerName> = queue.consumers.keys().cloned().collect();
        self.change().queues.remove(name);
        consumers
            .into_iter()
            .for_each(|consumer| self.wake(Topic::Slots(ConsumerPath { queue: name.clone(), consumer })));
        Ok(Dropped::Dropped)
    }

    /// Appends one message at the next position of its queue's own counter.
    pub(crate) fn append(&mut self, name: &QueueName, message: NewMessage) -> Result<MessageId> {
        let (now, round) = (self.now(), self.round());
        let Queue { partitions, appended, .. } = *self.state().queue(name)?;
        let id = MessageId::new(appended + 1)?;
        let partition = message.get_key().map_or_else(|| round.next(partitions), |key| partitions.of_key(key));
        let queue = self.change().queue_mut(name)?;
        queue.appended = id.get();
        let stored = Arc::new(Stored { id, partition, message, created_at: now });
        Arc::make_mut(&mut queue.log).insert(Position::from_storage(id.get()), stored);
        self.wake(Topic::Messages(name.clone()));
        Ok(id)
    }

    /// One step of maintenance; whether it removed something.
    fn maintain(&mut self, name: &QueueName) -> Result<bool> {
        let removable = self.state().queue(name)?.removable();
        if removable.is_empty() {
            return Ok(false);
        }
        let log = Arc::make_mut(&mut self.change().queue_mut(name)?.log);
        removable.iter().for_each(|position| drop(log.remove(position)));
        Ok(true)
    }
}

impl MemStore {
    fn maintain_all(&self, queue: Option<&QueueName>) -> Result<u64> {
        let names: Vec<QueueName> = match queue {
            Some(name) => vec![name.clone()],
            None => self.read()?.0.queues.keys().cloned().collect(),
        };
        let mut steps = if queue.is_none() { u64::from(self.write(|tx| Ok(tx.forget_leases()))?) } else { 0 };
        for name in &names {
            while self.write(|tx| tx.maintain(name))? {
                steps += 1;
            }
        }
        Ok(steps)
    }
}

#[async_trait]
impl Queues for MemStore {
    async fn create_queue(&self, queue: &QueueName, partitions: Partitions) -> Result<Created> {
        self.write(|tx| tx.create_queue(queue, partitions)).map_err(|error| error.during("create_queue"))
    }

    async fn drop_queue(&self, queue: &QueueName, force: bool) -> Result<Dropped> {
        self.write(|tx| tx.drop_queue(queue, force)).map_err(|error| error.during("drop_queue"))
    }

    async fn send(&self, queue: &QueueName, message: NewMessage) -> Result<MessageId> {
        self.write(|tx| tx.send_in(queue, message)).map_err(|error| error.during("send"))
    }

    async fn send_batch(&self, queue: &QueueName, messages: Vec<NewMessage>) -> Result<Vec<MessageId>> {
        self.write(|tx| tx.send_batch_in(queue, messages)).map_err(|error| error.during("send_batch"))
    }

    async fn queue_status(&self) -> Result<Vec<QueueStatus>> {
        let (state, _) = self.read().map_err(|error| error.during("queue_status"))?;
        let statuses = state.queues.iter().map(|(name, queue)| QueueStatus {
            queue: name.clone(),
            partitions: queue.partitions,
            consumers: queue.consumers.len() as u64,
            stored: queue.log.len() as u64,
            oldest_at: queue.log.values().next().map(|stored| stored.created_at),
        });
        Ok(statuses.collect())
    }

    async fn maintain(&self, queue: Option<&QueueName>) -> Result<u64> {
        self.maintain_all(queue).map_err(|error| error.during("maintain"))
    }
}
