//! What the model stores: plain maps, and how things are found in them. It changes nothing by itself.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use fencepost_core::lease::LeaseState;
use fencepost_core::refusal::{no_consumer, no_queue, no_slot};
use fencepost_core::slot::SlotState;
use fencepost_core::{
    ConsumerName, ConsumerPath, DeadLetter, FailurePolicy, Fired, Forced, IdempotencyKey, Key, LeaseName, MessageId,
    NewMessage, Nonce, Partition, Partitions, Position, QueueName, Result, Retention, ScheduleName, ScheduleStatus,
    SlotCount, SlotIndex, Timestamp, WorkerName,
};

use crate::aside::Kept;

/// Everything that a store holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    /// The highest epoch ever granted. It outlives every lease and consumer.
    pub(crate) epoch: i64,
    pub(crate) leases: BTreeMap<LeaseName, LeaseState>,
    /// What operators took by force, by lease.
    pub(crate) forced: BTreeMap<LeaseName, Vec<Forced>>,
    pub(crate) queues: BTreeMap<QueueName, Queue>,
    pub(crate) schedules: BTreeMap<ScheduleName, Scheduled>,
}

/// A schedule with what it has fired, oldest first.
#[derive(Debug, Clone)]
pub(crate) struct Scheduled {
    pub(crate) status: ScheduleStatus,
    pub(crate) history: Vec<Fired>,
}

/// A queue with its log and its consumers.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) partitions: Partitions,
    /// The last position given; a message held back takes one for its id and another one when it is due.
    pub(crate) appended: i64,
    pub(crate) paused: bool,
    pub(crate) retention: Retention,
    /// The highest position that was removed.
    pub(crate) gone: Position,
    /// Messages that are not due yet, by when they are.
    pub(crate) delayed: BTreeMap<(Timestamp, MessageId), Arc<Stored>>,
    /// What idempotent sends left.
    pub(crate) once: BTreeMap<IdempotencyKey, Once>,
    /// Dead letters by consumer, which may be gone, and id.
    pub(crate) dead: BTreeMap<(ConsumerName, MessageId), (DeadLetter, Arc<Stored>)>,
    /// What is stored, by position. Shared, so that a transaction copies the log only when it changes the log.
    pub(crate) log: Arc<BTreeMap<Position, Arc<Stored>>>,
    pub(crate) consumers: BTreeMap<ConsumerName, Consumer>,
}

/// What an idempotent send left.
#[derive(Debug, Clone)]
pub(crate) struct Once {
    pub(crate) id: MessageId,
    pub(crate) digest: [u8; 32],
    pub(crate) expires_at: Timestamp,
}

/// A message in the log.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) id: MessageId,
    pub(crate) partition: Partition,
    pub(crate) message: NewMessage,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
}

/// A consumer with its slots, by index, and its members.
#[derive(Debug, Clone)]
pub(crate) struct Consumer {
    pub(crate) slots: Vec<SlotState>,
    pub(crate) count: SlotCount,
    pub(crate) policy: FailurePolicy,
    /// Nothing with this id or a lower one is delivered.
    pub(crate) after_id: Option<i64>,
    /// What is not, or not only, in the log for this consumer, by position.
    pub(crate) aside: BTreeMap<Position, Kept>,
    pub(crate) members: BTreeMap<Nonce, Member>,
    /// What operators took by force.
    pub(crate) forced: Vec<(SlotIndex, Forced)>,
}

/// A worker's membership.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) worker: WorkerName,
    pub(crate) held: u32,
    pub(crate) expires_at: Timestamp,
}

/// How long a record of what was taken by force gets.
const KEPT: usize = 100;

/// Adds to a record and keeps it short.
pub(crate) fn keep<T>(record: &mut Vec<T>, entry: T) {
    record.push(entry);
    record.drain(..record.len().saturating_sub(KEPT));
}

impl State {
    pub(crate) fn queue(&self, name: &QueueName) -> Result<&Queue> {
        self.queues.get(name).ok_or_else(|| no_queue(name))
    }

    pub(crate) fn queue_mut(&mut self, name: &QueueName) -> Result<&mut Queue> {
        self.queues.get_mut(name).ok_or_else(|| no_queue(name))
    }

    pub(crate) fn consumer(&self, path: &ConsumerPath) -> Result<&Consumer> {
        self.queue(&path.queue)?.consumers.get(&path.consumer).ok_or_else(|| no_consumer(path))
    }

    pub(crate) fn consumer_mut(&mut self, path: &ConsumerPath) -> Result<&mut Consumer> {
        self.queue_mut(&path.queue)?.consumers.get_mut(&path.consumer).ok_or_else(|| no_consumer(path))
    }

    pub(crate) fn slot(&self, path: &ConsumerPath, slot: SlotIndex) -> Result<&SlotState> {
        let consumer = self.consumer(path)?;
        consumer.slots.get(usize::from(slot.get())).ok_or_else(|| no_slot(path, slot, consumer.count))
    }

    pub(crate) fn slot_mut(&mut self, path: &ConsumerPath, slot: SlotIndex) -> Result<&mut SlotState> {
        let consumer = self.consumer_mut(path)?;
        consumer.slots.get_mut(usize::from(slot.get())).ok_or_else(|| no_slot(path, slot, consumer.count))
    }

    /// The queue named, or all of them, by name.
    pub(crate) fn selected(&self, name: Option<&QueueName>) -> Result<Vec<(&QueueName, &Queue)>> {
        match name {
            None => Ok(self.queues.iter().collect()),
            Some(name) => self.queues.get_key_value(name).map(|queue| vec![queue]).ok_or_else(|| no_queue(name)),
        }
    }
}

impl Queue {
    /// What is stored of a slot's partitions after its cursor, in position order.
    pub(crate) fn waiting(
        &self,
        count: SlotCount,
        slot: SlotIndex,
        cursor: Position,
    ) -> impl Iterator<Item = (Position, &Stored)> {
        self.log
            .range((Bound::Excluded(cursor), Bound::Unbounded))
            .filter(move |(_, stored)| count.owner(stored.partition) == slot)
            .map(|(position, stored)| (*position, &**stored))
    }
}

impl Consumer {
    /// Members whose membership has not lapsed.
    pub(crate) fn live_members(&self, now: Timestamp) -> impl Iterator<Item = &Member> {
        self.members.values().filter(move |member| now < member.expires_at)
    }
}

impl Stored {
    pub(crate) fn key(&self) -> Option<&Key> {
        self.message.get_key()
    }
}
