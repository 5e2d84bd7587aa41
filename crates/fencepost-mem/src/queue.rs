//! Queues in the model: appending to the log, and removing what every consumer has acked past.

use std::sync::Arc;

use async_trait::async_trait;
use fencepost_core::refusal::{other_message, other_partitions, queue_in_use};
use fencepost_core::{
    ConsumerName, ConsumerPath, Created, DEAD_KEPT, DeadLetter, Dropped, IdempotencyKey, MessageId, NewMessage,
    OnceTtl, Partition, Partitions, Position, QueueName, QueueStatus, Queues, Result, Retention, SentOnce, Timestamp,
    Topic,
};

use crate::state::{Once, Queue, Stored};
use crate::{MemStore, MemTransaction};

/// How many messages one step of maintenance removes at most.
const STEP: usize = 1_000;

impl Queue {
    fn new(partitions: Partitions) -> Self {
        Self {
            partitions,
            appended: 0,
            paused: false,
            retention: Retention::default(),
            gone: Position::START,
            delayed: Default::default(),
            once: Default::default(),
            dead: Default::default(),
            log: Default::default(),
            consumers: Default::default(),
        }
    }

    /// Up to where every consumer has acked the messages of `partition`; nothing is consumed in a queue without consumers.
    fn consumed(&self, partition: Partition) -> Position {
        let cursors = self.consumers.values().map(|consumer| {
            let slot = consumer.count.owner(partition);
            consumer.slots[usize::from(slot.get())].cursor
        });
        cursors.min().unwrap_or(Position::START)
    }

    /// The positions that one step of maintenance removes, from the beginning of the log, so that what is left has no holes.
    fn removable(&self, now: Timestamp) -> Vec<Position> {
        let Retention { consumed, unread, unread_bytes } = self.retention;
        if !self.consumers.is_empty() {
            let is_done = |(position, stored): &(&Position, &Arc<Stored>)| {
                **position <= self.consumed(stored.partition) && stored.created_at + consumed <= now
            };
            return self.log.iter().take_while(is_done).map(|(position, _)| *position).take(STEP).collect();
        }
        // Nobody reads the queue: the latest are kept, as far as they fit.
        let mut bytes = 0;
        let mut kept_from = Position::START;
        for (position, stored) in self.log.iter().rev() {
            bytes += stored.message.payload().len() as u64;
            if bytes > unread_bytes {
                kept_from = *position;
                break;
            }
        }
        // One that was held back goes with the next ordinary one: its own age counts from long before it came.
        let was_held_back = |position: Position, stored: &Stored| stored.id.get() != position.to_storage();
        let is_past = |position: Position, stored: &Stored| {
            position <= kept_from || (!was_held_back(position, stored) && stored.created_at + unread <= now)
        };
        let first = self
            .log
            .iter()
            .take_while(|(position, stored)| is_past(**position, stored) || was_held_back(**position, stored));
        let first: Vec<_> = first.take(STEP).collect();
        let last = first.iter().rposition(|(position, stored)| is_past(**position, stored)).map_or(0, |last| last + 1);
        first[..last].iter().map(|(position, _)| **position).collect()
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
        let holds = !queue.log.is_empty() || !queue.delayed.is_empty() || !queue.dead.is_empty();
        let consumers = queue.consumers.len() as u64;
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

    /// Appends one message at the next position of its queue's own counter, or holds it back until it is due.
    pub(crate) fn append(&mut self, name: &QueueName, message: NewMessage) -> Result<MessageId> {
        let (now, round) = (self.now(), self.round());
        let window = message.window(now)?;
        let Queue { partitions, appended, .. } = *self.state().queue(name)?;
        let id = MessageId::new(appended + 1)?;
        let partition = message.get_key().map_or_else(|| round.next(partitions), |key| partitions.of_key(key));
        let stored = Arc::new(Stored { id, partition, message, created_at: now, expires_at: window.expires_at });
        let queue = self.change().queue_mut(name)?;
        queue.appended = id.get();
        match window.due_at {
            Some(due_at) => drop(queue.delayed.insert((due_at, id), stored)),
            None => drop(Arc::make_mut(&mut queue.log).insert(Position::from_storage(id.get()), stored)),
        }
        self.wake(Topic::Messages(name.clone()));
        Ok(id)
    }

    pub(crate) fn send_once(
        &mut self,
        name: &QueueName,
        message: NewMessage,
        key: &IdempotencyKey,
        ttl: OnceTtl,
    ) -> Result<SentOnce> {
        let (now, digest) = (self.now(), message.digest());
        if let Some(first) = self.state().queue(name)?.once.get(key).filter(|first| now < first.expires_at) {
            if first.digest != digest {
                return Err(other_message(name, key, first.id));
            }
            return Ok(SentOnce { id: first.id, deduplicated: true });
        }
        let id = self.append(name, message)?;
        let once = Once { id, digest, expires_at: now + ttl.get() };
        self.change().queue_mut(name)?.once.insert(key.clone(), once);
        Ok(SentOnce { id, deduplicated: false })
    }

    fn set_paused(&mut self, name: &QueueName, paused: bool) -> Result<bool> {
        if self.state().queue(name)?.paused == paused {
            return Ok(false);
        }
        self.change().queue_mut(name)?.paused = paused;
        self.wake(Topic::Messages(name.clone()));
        Ok(true)
    }

    fn set_retention(&mut self, name: &QueueName, retention: Retention) -> Result<()> {
        retention.check()?;
        if self.state().queue(name)?.retention != retention {
            self.change().queue_mut(name)?.retention = retention;
        }
        Ok(())
    }

    /// One step of maintenance; whether it did something.
    fn maintain(&mut self, name: &QueueName) -> Result<bool> {
        Ok(self.append_due(name)? || self.remove(name)? || self.forget(name)?)
    }

    /// Gives messages that became due their place in the log.
    fn append_due(&mut self, name: &QueueName) -> Result<bool> {
        let now = self.now();
        let due: Vec<_> = self.state().queue(name)?.delayed.range(..=(now, MessageId::MAX)).take(STEP).collect();
        let due: Vec<_> = due.into_iter().map(|(when, stored)| (*when, stored.clone())).collect();
        if due.is_empty() {
            return Ok(false);
        }
        let queue = self.change().queue_mut(name)?;
        for (when, stored) in due {
            queue.delayed.remove(&when);
            queue.appended += 1;
            Arc::make_mut(&mut queue.log).insert(Position::from_storage(queue.appended), stored);
        }
        self.wake(Topic::Messages(name.clone()));
        Ok(true)
    }

    fn remove(&mut self, name: &QueueName) -> Result<bool> {
        let removable = self.state().queue(name)?.removable(self.now());
        let Some(last) = removable.last().copied() else { return Ok(false) };
        let queue = self.change().queue_mut(name)?;
        queue.gone = queue.gone.max(last);
        let log = Arc::make_mut(&mut queue.log);
        removable.iter().for_each(|position| drop(log.remove(position)));
        Ok(true)
    }

    /// Forgets idempotency keys and dead letters after their time.
    fn forget(&mut self, name: &QueueName) -> Result<bool> {
        let now = self.now();
        let is_past = |once: &Once| once.expires_at <= now;
        let is_old = |(letter, _): &(DeadLetter, Arc<Stored>)| letter.died_at + DEAD_KEPT <= now;
        let queue = self.state().queue(name)?;
        if !queue.once.values().any(is_past) && !queue.dead.values().any(is_old) {
            return Ok(false);
        }
        let queue = self.change().queue_mut(name)?;
        queue.once.retain(|_, once| !is_past(once));
        queue.dead.retain(|_, kept| !is_old(kept));
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

    async fn send_once(
        &self,
        queue: &QueueName,
        message: NewMessage,
        key: &IdempotencyKey,
        ttl: OnceTtl,
    ) -> Result<SentOnce> {
        self.write(|tx| tx.send_once_in(queue, message, key, ttl)).map_err(|error| error.during("send_once"))
    }

    async fn pause_queue(&self, queue: &QueueName) -> Result<bool> {
        self.write(|tx| tx.set_paused(queue, true)).map_err(|error| error.during("pause_queue"))
    }

    async fn resume_queue(&self, queue: &QueueName) -> Result<bool> {
        self.write(|tx| tx.set_paused(queue, false)).map_err(|error| error.during("resume_queue"))
    }

    async fn set_retention(&self, queue: &QueueName, retention: Retention) -> Result<()> {
        self.write(|tx| tx.set_retention(queue, retention)).map_err(|error| error.during("set_retention"))
    }

    async fn queue_status(&self) -> Result<Vec<QueueStatus>> {
        let (state, _) = self.read().map_err(|error| error.during("queue_status"))?;
        let statuses = state.queues.iter().map(|(name, queue)| QueueStatus {
            queue: name.clone(),
            partitions: queue.partitions,
            consumers: queue.consumers.len() as u64,
            paused: queue.paused,
            retention: queue.retention,
            delayed: queue.delayed.len() as u64,
            stored: queue.log.len() as u64,
            oldest_at: queue.log.values().next().map(|stored| stored.created_at),
        });
        Ok(statuses.collect())
    }

    async fn maintain(&self, queue: Option<&QueueName>) -> Result<u64> {
        self.maintain_all(queue).map_err(|error| error.during("maintain"))
    }
}
