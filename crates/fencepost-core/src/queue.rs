//! Queues: durable append-only logs of messages.

use std::fmt;

use async_trait::async_trait;

use crate::{MessageId, NewMessage, Partitions, QueueName, Result, Timestamp};

/// Where a message sits in the log of its queue. Opaque: compare positions, do not compute with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(i64);

impl Position {
    /// Before the first message of any queue.
    pub const START: Position = Position(0);

    /// For engines: the position that their storage calls `number`.
    pub const fn from_storage(number: i64) -> Self {
        Self(number)
    }

    /// For engines: how their storage writes this position.
    pub const fn to_storage(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a create call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// It was made.
    Created,
    /// It was there with the same settings.
    Existed,
}

/// What a drop call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// It was there and is gone.
    Dropped,
    /// It was not there.
    Absent,
}

/// What one queue holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStatus {
    /// The queue.
    pub queue: QueueName,
    /// Its partitions.
    pub partitions: Partitions,
    /// Its consumers.
    pub consumers: u64,
    /// Messages in storage, consumed ones that were not removed yet included.
    pub stored: u64,
    /// When the oldest stored message was sent.
    pub oldest_at: Option<Timestamp>,
}

/// Queues and sending.
///
/// **Order of a key**: m1 comes before m2 if m1's send was acknowledged before m2's began, or both are in one call or
/// transaction in that order. Concurrent sends have no promised order.
#[async_trait]
pub trait Queues: Send + Sync {
    /// Makes a queue.
    ///
    /// # Errors
    /// `conflict` when it exists with another number of partitions.
    async fn create_queue(&self, queue: &QueueName, partitions: Partitions) -> Result<Created>;

    /// Drops a queue with its messages and consumers. With `force` also while it has consumers or unread messages.
    ///
    /// # Errors
    /// `conflict` when it has consumers or messages, only without `force`.
    async fn drop_queue(&self, queue: &QueueName, force: bool) -> Result<Dropped>;

    /// Appends one message and returns its id once it is durable.
    ///
    /// # Errors
    /// `not_found` when the queue does not exist; `unavailable`, or `unknown_outcome` when the storage failed while committing:
    /// then the message may or may not be there, and sending again may double it.
    async fn send(&self, queue: &QueueName, message: NewMessage) -> Result<MessageId>;

    /// Appends messages in order, all or none, and returns their ids once they are durable. No messages, no ids.
    ///
    /// # Errors
    /// As [`Queues::send`].
    async fn send_batch(&self, queue: &QueueName, messages: Vec<NewMessage>) -> Result<Vec<MessageId>>;

    /// What every queue holds, by name. Counts messages, so it costs time in proportion to what is stored.
    ///
    /// # Errors
    /// `unavailable`.
    async fn queue_status(&self) -> Result<Vec<QueueStatus>>;

    /// Removes consumed messages of one queue, or of all, in steps bounded in size, and returns how many steps did something. For
    /// all queues also what is left of dropped ones, and free leases that nobody was granted for 30 days.
    ///
    /// A message is consumed when the queue has a consumer and every consumer has acked past it. Any worker runs this from time
    /// to time; call it until it returns 0 to be sure that all consumed storage is reusable.
    ///
    /// # Errors
    /// `not_found` when the queue named does not exist; `unavailable`.
    async fn maintain(&self, queue: Option<&QueueName>) -> Result<u64>;
}
