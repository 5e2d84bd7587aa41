//! Dead letters and reading without leases in the model.

use async_trait::async_trait;
use fencepost_core::slot::Place;
use fencepost_core::{
    BatchSize, ConsumerPath, DeadLetter, DeadLetters, Message, MessageId, Page, Position, QueueName, Readers, Result,
    Start, Timestamp, Topic,
};

use crate::aside::Kept;
use crate::{MemStore, MemTransaction};

impl MemTransaction<'_> {
    /// Hands dead letters to their consumer once more. One that is to come anyway is only forgotten as dead; one that the consumer is
    /// to pass over stays dead, and is not counted.
    fn replay_dead_letters(&mut self, path: &ConsumerPath, ids: Option<&[MessageId]>) -> Result<u64> {
        let count = self.state().consumer(path)?.count;
        let chosen = self.chosen(path, ids)?;
        let (now, mut replayed) = (self.now(), 0);
        for id in &chosen {
            let letter = (path.consumer.clone(), *id);
            let queue = self.state().queue(&path.queue)?;
            let (DeadLetter { position, .. }, stored) = queue.dead[&letter].clone();
            let cursor = self.state().slot(path, count.owner(stored.partition))?.cursor;
            let to_come = position > cursor && queue.log.contains_key(&position);
            let is_before_start = self.state().consumer(path)?.after_id.is_some_and(|least| id.get() <= least);
            if to_come && (is_before_start || stored.expires_at.is_some_and(|at| at <= now)) {
                continue;
            }
            replayed += 1;
            self.change().queue_mut(&path.queue)?.dead.remove(&letter);
            let consumer = self.change().consumer_mut(path)?;
            if to_come || consumer.aside.contains_key(&position) {
                continue;
            }
            let waits = consumer.waits(position, stored.key());
            let place = if waits { Place::Parked } else { Place::Due(Timestamp::default()) };
            consumer.aside.insert(position, Kept::new(stored, place));
        }
        if replayed > 0 {
            self.wake(Topic::Messages(path.queue.clone()));
        }
        Ok(replayed)
    }

    fn purge_dead_letters(&mut self, path: &ConsumerPath, ids: Option<&[MessageId]>) -> Result<u64> {
        let chosen = self.chosen(path, ids)?;
        for id in &chosen {
            self.change().queue_mut(&path.queue)?.dead.remove(&(path.consumer.clone(), *id));
        }
        Ok(chosen.len() as u64)
    }

    /// The ids of a consumer's dead letters, all or those named, in order.
    fn chosen(&self, path: &ConsumerPath, ids: Option<&[MessageId]>) -> Result<Vec<MessageId>> {
        let dead = self.state().queue(&path.queue)?.dead.keys();
        let own = dead.filter(|(consumer, id)| *consumer == path.consumer && ids.is_none_or(|ids| ids.contains(id)));
        Ok(own.map(|(_, id)| *id).collect())
    }
}

impl MemStore {
    fn dead_letters(&self, path: &ConsumerPath, after: Option<MessageId>, max: BatchSize) -> Result<Vec<DeadLetter>> {
        let (state, _) = self.read()?;
        let dead = state.queue(&path.queue)?.dead.iter();
        let own =
            dead.filter(|((consumer, id), _)| *consumer == path.consumer && after.is_none_or(|after| *id > after));
        Ok(own.map(|(_, (letter, _))| letter.clone()).take(max.get() as usize).collect())
    }

    fn dead_counts(&self, queue: Option<&QueueName>) -> Result<Vec<(ConsumerPath, u64)>> {
        let (state, _) = self.read()?;
        let mut counts: Vec<(ConsumerPath, u64)> = Vec::new();
        for (name, queue) in state.selected(queue)? {
            for (consumer, _) in queue.dead.keys() {
                let path = ConsumerPath { queue: name.clone(), consumer: consumer.clone() };
                match counts.last_mut().filter(|(last, _)| *last == path) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((path, 1)),
                }
            }
        }
        Ok(counts)
    }

    fn page(&self, name: &QueueName, from: Start, max: BatchSize) -> Result<Page> {
        let (state, now) = self.read()?;
        let queue = state.queue(name)?;
        let after = queue.start(name, &from)?;
        let least = match from {
            Start::AfterId(id) => id,
            _ => 0,
        };
        let mut page = Page { messages: Vec::new(), next: after.into() };
        for (position, stored) in queue.log.iter().filter(|(position, _)| **position > after) {
            if page.messages.len() == max.get() as usize {
                break;
            }
            page.next = (*position).into();
            if stored.id.get() <= least || stored.expires_at.is_some_and(|at| at <= now) {
                continue;
            }
            page.messages.push(read_once(*position, stored));
        }
        Ok(page)
    }
}

fn read_once(position: Position, stored: &crate::state::Stored) -> Message {
    Message {
        id: stored.id,
        position,
        key: stored.key().cloned(),
        kind: stored.message.get_kind().clone(),
        payload: stored.message.payload().to_vec(),
        headers: stored.message.headers().clone(),
        attempt: 1,
        deliveries: 1,
        created_at: stored.created_at,
    }
}

#[async_trait]
impl DeadLetters for MemStore {
    async fn dead_letters(
        &self,
        path: &ConsumerPath,
        after: Option<MessageId>,
        max: BatchSize,
    ) -> Result<Vec<DeadLetter>> {
        self.dead_letters(path, after, max).map_err(|error| error.during("dead_letters"))
    }

    async fn dead_counts(&self, queue: Option<&QueueName>) -> Result<Vec<(ConsumerPath, u64)>> {
        self.dead_counts(queue).map_err(|error| error.during("dead_counts"))
    }

    async fn replay_dead_letters(&self, path: &ConsumerPath, ids: Option<&[MessageId]>) -> Result<u64> {
        self.write(|tx| tx.replay_dead_letters(path, ids)).map_err(|error| error.during("replay_dead_letters"))
    }

    async fn purge_dead_letters(&self, path: &ConsumerPath, ids: Option<&[MessageId]>) -> Result<u64> {
        self.write(|tx| tx.purge_dead_letters(path, ids)).map_err(|error| error.during("purge_dead_letters"))
    }
}

#[async_trait]
impl Readers for MemStore {
    async fn read(&self, queue: &QueueName, from: Start, max: BatchSize) -> Result<Page> {
        self.page(queue, from, max).map_err(|error| error.during("read"))
    }
}
