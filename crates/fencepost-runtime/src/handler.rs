//! What users write: handlers of batches or of messages. They run outside the store's write transaction.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_core::{
    Batch, BatchId, BatchSize, Delay, Error, Failure, FailureText, Kind, Message, MessageId, Nacked, Result, Retry,
    SlotToken, Store,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::deadline::Watched;
use crate::failure::{Instead, kept, text_of};

/// How long one attempt to record a disposition may take.
const BOUND: Duration = Duration::from_secs(5);

/// How often a disposition is tried to be recorded, and the pause in between: recording it twice does no harm.
const ATTEMPTS: (u32, Duration) = (4, Duration::from_millis(100));

/// What a handler may fail with. One of fencepost's own errors of kind `fenced` that refused the very epoch the handler was given
/// means that the slot is lost; everything else is a failure. [`Instead`] says what becomes of the message when that is not the
/// consumer's policy.
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
    /// The open batch, while one is handled.
    pub(crate) open: Option<OpenedBatch>,
}

/// The batch that is handled, and where it is.
#[derive(Clone)]
pub(crate) struct OpenedBatch {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) batch: BatchId,
}

impl fmt::Debug for OpenedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedBatch").field("batch", &self.batch).finish_non_exhaustive()
    }
}

impl SlotContext {
    /// A context that no worker keeps, to call a handler with in its own tests. No time is left in it, and nothing can be decided
    /// about single messages.
    pub fn unkept(token: SlotToken, cancelled: CancellationToken) -> Self {
        Self { token, cancelled, deadline: Weak::new(), open: None }
    }

    /// The same with an open batch of a store.
    pub(crate) fn with(&self, store: &Arc<dyn Store>, batch: BatchId) -> Self {
        Self { open: Some(OpenedBatch { store: store.clone(), batch }), ..self.clone() }
    }

    /// The batch that is handled; none in a context that no worker keeps.
    pub fn batch(&self) -> Option<BatchId> {
        self.open.as_ref().map(|open| open.batch)
    }

    /// Records at once that a message of the batch failed; see [`fencepost_core::Slots::nack`]. The messages returned as withdrawn
    /// must not be run.
    ///
    /// # Errors
    /// As the store's call; `unsupported` in a context that no worker keeps.
    pub async fn nack(&self, message: MessageId, failure: &Failure) -> Result<Nacked> {
        let OpenedBatch { store, batch } = self.opened()?;
        store.nack(&self.token, *batch, message, failure).await
    }

    /// Puts a message of the batch off, without spending an attempt; see [`fencepost_core::Slots::snooze`].
    ///
    /// # Errors
    /// As [`SlotContext::nack`].
    pub async fn snooze(&self, message: MessageId, delay: Delay) -> Result<Vec<MessageId>> {
        let OpenedBatch { store, batch } = self.opened()?;
        store.snooze(&self.token, *batch, message, delay).await
    }

    /// Gives a message of the batch up; see [`fencepost_core::Slots::dead_letter`].
    ///
    /// # Errors
    /// As [`SlotContext::nack`].
    pub async fn dead_letter(&self, message: MessageId, reason: &FailureText) -> Result<()> {
        let OpenedBatch { store, batch } = self.opened()?;
        store.dead_letter(&self.token, *batch, message, reason).await
    }

    fn opened(&self) -> Result<&OpenedBatch> {
        self.open.as_ref().ok_or_else(|| {
            Error::new(Kind::Unsupported, "cannot decide about a message: no worker has handed out its batch")
                .hinted("let a worker, or `Inline`, call the handler")
        })
    }

    /// Records at once what an error means for a message of the batch, as the worker does for a handler of messages: an [`Instead`], or
    /// a failure. Returns the messages that must not be run any more. What may pass is tried again, as recording it twice does no
    /// harm.
    ///
    /// # Errors
    /// As [`SlotContext::nack`].
    pub async fn record(&self, message: MessageId, error: &HandlerError) -> Result<Vec<MessageId>> {
        let (most, pause) = ATTEMPTS;
        let mut attempt = 1;
        loop {
            let answer = timeout(BOUND, self.record_once(message, error)).await.unwrap_or_else(|late| {
                Err(Error::new(Kind::UnknownOutcome, "cannot tell whether the failure was recorded: no answer in time")
                    .coded("call_timeout")
                    .caused_by(late))
            });
            match answer {
                Err(error) if attempt < most && error.retry() != Retry::Never => {
                    attempt += 1;
                    tokio::time::sleep(pause).await;
                }
                answer => return answer,
            }
        }
    }

    /// Records what the error of a batch's handler means for every message about which it has decided nothing.
    pub(crate) async fn record_batch(&self, max: BatchSize, error: &HandlerError) -> Result<()> {
        let OpenedBatch { store, batch } = self.opened()?;
        // The open batch again, without the messages that were decided about.
        let left = store.receive(&self.token, max).await?.filter(|left| left.id == *batch);
        let mut withdrawn = Vec::new();
        for message in left.map(|left| left.messages).unwrap_or_default() {
            if self.cancelled.is_cancelled() {
                return Err(Error::new(
                    Kind::Unavailable,
                    "cannot record the failure of a batch: its slot is being lost",
                ));
            }
            if !withdrawn.contains(&message.id) {
                withdrawn.extend(self.record(message.id, error).await?);
            }
        }
        Ok(())
    }

    async fn record_once(&self, message: MessageId, error: &HandlerError) -> Result<Vec<MessageId>> {
        match error.downcast_ref() {
            Some(Instead::Snooze(delay)) => self.snooze(message, *delay).await,
            Some(Instead::Dead(reason)) => {
                let reason = kept(reason).or_else(|| kept("rejected by its handler"));
                let Some(reason) = reason else { return Ok(Vec::new()) };
                self.dead_letter(message, &reason).await.map(|()| Vec::new())
            }
            Some(Instead::RetryAfter { delay, reason }) => {
                let failure = Failure { retry_after: Some(*delay), reason: kept(reason) };
                Ok(self.nack(message, &failure).await?.withdrawn)
            }
            None => {
                let failure = Failure { retry_after: None, reason: text_of(error) };
                Ok(self.nack(message, &failure).await?.withdrawn)
            }
        }
    }

    /// The refusal in a handler's error, when it refused the epoch of this very grant. Handlers make calls on other slots, queues and
    /// leases too, and what these answer says nothing of this one.
    pub(crate) fn refusal<'e>(&self, error: &'e HandlerError) -> Option<&'e Error> {
        let error: &Error = error.downcast_ref()?;
        let is = |fact, value: String| error.fact(fact) == Some(value.as_str());
        let this = error.kind() == Kind::Fenced
            && is("consumer", self.token.path.to_string())
            && is("slot", self.token.slot.to_string())
            && is("presented_epoch", self.token.epoch.to_string());
        this.then_some(error)
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
    /// About single messages it decides by the calls of `slot`; the worker acks the others.
    ///
    /// # Errors
    /// Whatever kept it from finishing: every message of the batch about which nothing was decided has failed then, and comes again by
    /// the consumer's policy. An error of fencepost's own that says that the store could not take a call (`busy`, `unavailable`,
    /// `unknown_outcome`) blames no message: what is left of the batch is handed out again.
    async fn handle(&self, batch: &Batch, slot: &SlotContext) -> Result<Done, HandlerError>;
}

/// Handles single messages; [`PerMessage`](crate::PerMessage) makes a batch handler of it.
#[async_trait]
pub trait MessageHandler: Send + Sync + 'static {
    /// Handles one message; no other message of its key is handled meanwhile.
    ///
    /// # Errors
    /// Whatever kept it from finishing: the message has failed, and comes again by the consumer's policy, unless the error is an
    /// [`Instead`]. A panic is a failure too.
    async fn handle(&self, message: &Message, slot: &SlotContext) -> Result<(), HandlerError>;
}
