//! What users write: handlers of batches or of messages. They run outside the store's write transaction.

use std::sync::Weak;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_core::{Batch, Message, SlotToken};
use tokio_util::sync::CancellationToken;

use crate::deadline::Watched;

/// What a handler may fail with. One of fencepost's own errors of kind `fenced` that refused the very epoch the handler was given
/// means that the slot is lost; everything else is a failure, and the batch is handed out again.
pub type HandlerError = Box<dyn std::error::Error + Send + Sync>;

/// Where a batch is handled.
#[derive(Debug, Clone)]
pub struct SlotContext {
    /// What to present with calls on the slot, such as an ack in the caller's own transaction.
    pub token: SlotToken,
    /// Fires when the slot is lost or its deadline has passed: end as soon as possible, whatever is stored is fenced anyway.
    pub cancelled: CancellationToken,
    /// Gone when the slot is not kept any more.
    pub(crate) deadline: Weak<Watched>,
}

impl SlotContext {
    /// A context that no worker keeps, to call a handler with in its own tests. No time is left in it.
    pub fn unkept(token: SlotToken, cancelled: CancellationToken) -> Self {
        Self { token, cancelled, deadline: Weak::new() }
    }

    /// How long the slot surely stays with this owner: the time until its deadline, zero when that has passed or `cancelled` has
    /// fired. Check it before each effect outside the store, which no epoch fences: what takes longer than this is not begun.
    pub fn time_left(&self) -> Duration {
        if self.cancelled.is_cancelled() {
            return Duration::ZERO;
        }
        self.deadline.upgrade().map_or(Duration::ZERO, |deadline| deadline.left())
    }
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
