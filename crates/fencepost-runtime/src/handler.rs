//! What users write: handlers of batches or of messages. They run outside the store's write transaction.

use async_trait::async_trait;
use fencepost_core::{Batch, Message, SlotToken};
use tokio_util::sync::CancellationToken;

/// What a handler may fail with. One of fencepost's own errors of kind `fenced` means that the slot is lost.
pub type HandlerError = Box<dyn std::error::Error + Send + Sync>;

/// Where a batch is handled.
#[derive(Debug, Clone)]
pub struct SlotContext {
    /// What to present with calls on the slot, such as an ack in the caller's own transaction.
    pub token: SlotToken,
    /// Fires when the slot is lost or its deadline has passed: end as soon as possible, whatever is stored is fenced anyway.
    pub cancelled: CancellationToken,
}

/// What the worker still has to do for a batch that was handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// Ack it.
    Ack,
    /// Nothing: the handler acked it in the transaction of its effects.
    Acked,
}

/// Handles whole batches.
#[async_trait]
pub trait BatchHandler: Send + Sync + 'static {
    /// Handles one batch; no other batch of the slot is handled meanwhile.
    ///
    /// # Errors
    /// Whatever kept it from finishing: the batch is handed out again after a pause.
    async fn handle(&self, batch: &Batch, slot: &SlotContext) -> Result<Done, HandlerError>;
}

/// Handles single messages; [`PerMessage`](crate::PerMessage) makes a batch handler of it.
#[async_trait]
pub trait MessageHandler: Send + Sync + 'static {
    /// Handles one message; no other message of its key is handled meanwhile.
    ///
    /// # Errors
    /// Whatever kept it from finishing: the batch is handed out again after a pause.
    async fn handle(&self, message: &Message, slot: &SlotContext) -> Result<(), HandlerError>;
}
