//! Reading a queue without owning anything.

use async_trait::async_trait;

use crate::{BatchSize, Checkpoint, Message, QueueName, Result, Start};

/// A part of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The messages, in position order; none only at the end. Expired ones are left out, so there may be fewer than asked for.
    pub messages: Vec<Message>,
    /// Where to go on: give it as [`Start::After`] to the next read, or keep it as text.
    pub next: Checkpoint,
}

/// Reading a queue from any position, beside its consumers and without a trace.
#[async_trait]
pub trait Readers: Send + Sync {
    /// The messages of a queue from `from` on, at most `max`, whoever has handled them. Expired ones are left out, delayed ones
    /// come once they are due.
    ///
    /// # Errors
    /// `not_found` when the queue does not exist; `position_gone` with `first_position` when messages after `from` were removed
    /// already; `unavailable`.
    async fn read(&self, queue: &QueueName, from: Start, max: BatchSize) -> Result<Page>;
}
