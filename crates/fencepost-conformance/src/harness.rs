//! What the suite needs of an engine, beside the contract itself.

use std::sync::Arc;

use async_trait::async_trait;
use fencepost_core::{
    BatchId, ChannelName, IdempotencyKey, LeaseToken, ManualClock, MessageId, NewMessage, NoticePayload, OnceTtl,
    QueueName, Release, Result, SentOnce, SlotToken, Store,
};

/// One fresh, empty store of the engine under test. Every case gets a harness of its own.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// The store's first handle.
    fn store(&self) -> Arc<dyn Store>;

    /// A further handle on the same store, as independent of the first as another process would be where the engine allows it.
    async fn another(&self) -> Arc<dyn Store>;

    /// The clock that every handle of this store lives by. Only cases move it.
    fn clock(&self) -> Arc<ManualClock>;

    /// Returns once every hint of earlier commits has arrived, so that a sleeper who comes now hears of later ones only.
    async fn settle(&self);

    /// A number that differs from every earlier one once anything was written to the store, and stays the same otherwise.
    async fn write_mark(&self) -> u64;

    /// Runs `steps` in order in one caller's transaction of the first handle, and ends it as told.
    ///
    /// With [`End::Rollback`] it returns what the steps answered inside the transaction, and nothing of them is kept.
    ///
    /// # Errors
    /// That of the first step that fails, and nothing is kept; the steps after it run only when it is [`Step::Ignoring`].
    async fn transact(&self, steps: Vec<Step>, end: End) -> Result<Vec<StepOutcome>>;
}

/// A call that can be made inside a caller's transaction.
#[derive(Debug, Clone)]
pub enum Step {
    /// Send a message.
    Send {
        /// To which queue.
        queue: QueueName,
        /// What.
        message: NewMessage,
    },
    /// Send a message unless the queue remembers its idempotency key.
    SendOnce {
        /// To which queue.
        queue: QueueName,
        /// What.
        message: NewMessage,
        /// Under which key.
        key: IdempotencyKey,
        /// How long the key is remembered.
        ttl: OnceTtl,
    },
    /// Ack a batch.
    Ack {
        /// As whom.
        token: SlotToken,
        /// Which.
        batch: BatchId,
    },
    /// Guard the transaction by a lease.
    Guard {
        /// As whom.
        token: LeaseToken,
    },
    /// Guard the transaction by a slot.
    SlotGuard {
        /// As whom.
        token: SlotToken,
    },
    /// Notify.
    Notify {
        /// On which channel.
        channel: ChannelName,
        /// With what.
        payload: NoticePayload,
    },
    /// Make the call, and go on whatever it answers.
    Ignoring(Box<Step>),
    /// Give a slot back.
    Release {
        /// As whom.
        token: SlotToken,
    },
}

/// What a step answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepOutcome {
    /// The message's id.
    Sent(MessageId),
    /// What an idempotent send did.
    SentOnce(SentOnce),
    /// How many messages were acked.
    Acked(u32),
    /// What giving back did.
    Released(Release),
    /// The guard holds.
    Guarded,
    /// Listeners are told with the commit.
    Notified,
    /// It failed, and was ignored.
    Ignored,
}

/// How a caller's transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It commits.
    Commit,
    /// It rolls back.
    Rollback,
}
