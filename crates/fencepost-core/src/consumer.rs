//! Ordered consumers: named positions on a queue, divided into slots.

use std::fmt;

use async_trait::async_trait;

use crate::{
    Checkpoint, ConsumerName, Created, Dropped, Error, FailurePolicy, QueueName, Result, SlotCount, Timestamp,
};

/// A consumer's full name: its queue and its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerPath {
    /// The queue it reads.
    pub queue: QueueName,
    /// Its name within the queue.
    pub consumer: ConsumerName,
}

impl ConsumerPath {
    /// Checks and joins the two names.
    ///
    /// # Errors
    /// `invalid_input` when one of them is not a name.
    pub fn new(queue: impl Into<String>, consumer: impl Into<String>) -> Result<Self> {
        Ok(Self { queue: QueueName::new(queue)?, consumer: ConsumerName::new(consumer)? })
    }
}

impl fmt::Display for ConsumerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.queue, self.consumer)
    }
}

/// Where a new consumer begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Start {
    /// With the oldest message that is stored.
    #[default]
    Earliest,
    /// With what commits after the consumer was made.
    Latest,
    /// With the first stored message that was sent at this instant or later.
    At(Timestamp),
    /// With the messages of a higher id: nothing with this one or a lower one is delivered, also not when it becomes due later.
    AfterId(i64),
    /// After a position that a message told, or from a checkpoint that a page told.
    After(Checkpoint),
}

impl std::str::FromStr for Start {
    type Err = Error;

    /// `earliest`, `latest`, an RFC 3339 time in UTC, `id:N`, or a position as messages show it.
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "earliest" => return Ok(Start::Earliest),
            "latest" => return Ok(Start::Latest),
            _ => {}
        }
        if let Some(id) = text.strip_prefix("id:").and_then(|id| id.parse().ok()).filter(|id| *id >= 0) {
            return Ok(Start::AfterId(id));
        }
        if let Ok(checkpoint) = text.parse() {
            return Ok(Start::After(checkpoint));
        }
        if let Ok(time) = text.parse() {
            return Ok(Start::At(time));
        }
        Err(Error::invalid(
            format!("cannot start at `{}`", text.escape_debug()),
            "allowed are `earliest`, `latest`, `id:N`, a time such as 2026-01-31T08:00:00Z, or a message's position",
        )
        .with("argument", "start"))
    }
}

/// A consumer to make: `ordered(n)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateConsumer {
    /// Its full name.
    pub path: ConsumerPath,
    /// How many slots divide its queue's partitions.
    pub slots: SlotCount,
    /// Where it begins.
    pub start: Start,
    /// How it treats failures.
    pub policy: FailurePolicy,
}

impl CreateConsumer {
    /// An ordered consumer with `slots` slots that begins at the earliest message.
    pub fn ordered(path: ConsumerPath, slots: SlotCount) -> Self {
        Self { path, slots, start: Start::default(), policy: FailurePolicy::default() }
    }

    /// Sets where it begins.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Sets how it treats failures.
    #[must_use]
    pub fn policy(mut self, policy: FailurePolicy) -> Self {
        self.policy = policy;
        self
    }
}

/// How one consumer stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerStatus {
    /// Its full name.
    pub path: ConsumerPath,
    /// How many slots it has.
    pub slots: SlotCount,
    /// How it treats failures.
    pub policy: FailurePolicy,
    /// Messages that are neither acked nor dead, those set aside included.
    pub lag: u64,
    /// Those of them that failed or were snoozed and come again.
    pub retrying: u64,
    /// Those of them that wait for an earlier message of their key.
    pub parked: u64,
    /// When the first of them was sent: since then the consumer is behind, and its queue keeps what it has not acked.
    pub first_at: Option<Timestamp>,
    /// Its dead letters.
    pub dead: u64,
    /// Members whose membership is live.
    pub workers: u32,
}

/// Making and dropping consumers.
#[async_trait]
pub trait Consumers: Send + Sync {
    /// Makes a consumer with all its slots at one position.
    ///
    /// # Errors
    /// `not_found` when the queue does not exist; `invalid_input` for more slots than partitions; `conflict` when the consumer
    /// exists with another number of slots or another policy; `position_gone` when it would start before messages that were removed.
    async fn create_consumer(&self, request: &CreateConsumer) -> Result<Created>;

    /// Drops a consumer with all its slots. With `force` also while slots are held or batches open: their owners' calls then
    /// answer `not_found`.
    ///
    /// # Errors
    /// `open_batch` when a batch is open, `conflict` when a slot is held, both only without `force`.
    async fn drop_consumer(&self, path: &ConsumerPath, force: bool) -> Result<Dropped>;

    /// How every consumer of a queue, or of all queues, stands.
    ///
    /// # Errors
    /// `not_found` when the queue named does not exist; `unavailable`.
    async fn consumer_status(&self, queue: Option<&QueueName>) -> Result<Vec<ConsumerStatus>>;
}
