//! Dead letters: messages that a consumer gave up, kept until somebody looks.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    BatchSize, ConsumerPath, DeadCause, FailureText, Headers, Key, MessageId, MessageKind, Position, Result, Timestamp,
};

/// How long a dead letter is kept: 90 days.
pub const DEAD_KEPT: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// A message that a consumer gave up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The consumer that gave it up. It may have been dropped since.
    pub path: ConsumerPath,
    /// The message's id.
    pub id: MessageId,
    /// Where it sat in the log.
    pub position: Position,
    /// What orders it, if anything.
    pub key: Option<Key>,
    /// What sort of message it is.
    pub kind: MessageKind,
    /// The content.
    pub payload: Vec<u8>,
    /// Small facts beside the payload.
    pub headers: Headers,
    /// When it was sent.
    pub created_at: Timestamp,
    /// How often it failed.
    pub attempts: u32,
    /// Why it was given up.
    pub cause: DeadCause,
    /// What its last failure said.
    pub reason: Option<FailureText>,
    /// When it was given up.
    pub died_at: Timestamp,
}

/// Looking at dead letters, and deciding about them.
///
/// They belong to a consumer by its name and stay when it is dropped, for [`DEAD_KEPT`]; they go with their queue.
#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// The dead letters of a consumer by id, at most `max`, from the first id after `after`.
    ///
    /// # Errors
    /// `not_found` when the queue does not exist; `unavailable`.
    async fn dead_letters(
        &self,
        path: &ConsumerPath,
        after: Option<MessageId>,
        max: BatchSize,
    ) -> Result<Vec<DeadLetter>>;

    /// How many dead letters every consumer of a queue, or of all queues, has; consumers without are left out.
    ///
    /// # Errors
    /// `not_found` when the queue named does not exist; `unavailable`.
    async fn dead_counts(&self, queue: Option<&crate::QueueName>) -> Result<Vec<(ConsumerPath, u64)>>;

    /// Hands dead letters to their consumer once more, all or those named, as if they had never failed. Messages of one key come in
    /// their order. Returns how many; one that is not dead any more is not counted, so the call can be repeated. One that the consumer
    /// would pass over, because it has expired meanwhile or the consumer was made again to begin after it, stays dead.
    ///
    /// # Errors
    /// `not_found` when the consumer does not exist; `unavailable`.
    async fn replay_dead_letters(&self, path: &ConsumerPath, ids: Option<&[MessageId]>) -> Result<u64>;

    /// Removes dead letters for good, all or those named. Returns how many.
    ///
    /// # Errors
    /// `not_found` when the queue does not exist; `unavailable`.
    async fn purge_dead_letters(&self, path: &ConsumerPath, ids: Option<&[MessageId]>) -> Result<u64>;
}
