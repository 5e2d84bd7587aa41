//! Slots: the unit of ownership of an ordered consumer. Cursor, owner and open batch are ONE state with one transition table.

mod aside;
mod step;
mod table;

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    BatchId, BatchSize, ConsumerPath, Delay, Epoch, Failure, FailureText, Forced, Message, MessageId, Nacked, Nonce,
    QueueName, Reason, Result, SlotIndex, Timestamp, Ttl, WorkerName,
};

pub use aside::{Aside, Place, Settled, share_of_again};
pub use step::{Call, Claimant, Found, GrantOrigin, OpenBatch, Outcome, Owner, Part, Refusal, SlotState, Step, step};
pub use table::{Action, Event, Phase, TABLE};

/// A claim of any slot, or of a given one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimSlot {
    /// The consumer.
    pub path: ConsumerPath,
    /// The claimant's label.
    pub worker: WorkerName,
    /// How long the grant lasts without renewal.
    pub ttl: Ttl,
    /// Identifies this attempt: the same call again returns the stored grant while it is live.
    pub nonce: Option<Nonce>,
}

impl ClaimSlot {
    /// A claim with the default TTL and no nonce.
    pub fn new(path: ConsumerPath, worker: WorkerName) -> Self {
        Self { path, worker, ttl: Ttl::DEFAULT, nonce: None }
    }

    /// Sets how long the grant lasts without renewal.
    #[must_use]
    pub fn ttl(mut self, ttl: Ttl) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the nonce.
    #[must_use]
    pub fn nonce(mut self, nonce: Nonce) -> Self {
        self.nonce = Some(nonce);
        self
    }
}

/// What an owner presents with every call on its slot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SlotToken {
    /// The consumer.
    pub path: ConsumerPath,
    /// The slot.
    pub slot: SlotIndex,
    /// The epoch of the grant, which alone decides.
    pub epoch: Epoch,
}

/// A granted slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotGrant {
    /// What to present from now on.
    pub token: SlotToken,
    /// When the grant expires by the engine's clock; the caller's own deadline is anchored before the request.
    pub expires_at: Timestamp,
    /// How the grant came about.
    pub origin: GrantOrigin,
    /// The open batch that came with the slot, if one did.
    pub batch: Option<OpenBatch>,
}

/// An open batch: messages of one slot in position order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Identifies the batch within its slot.
    pub id: BatchId,
    /// How often it was handed to an owner, this one included.
    pub deliveries: u32,
    /// Owners that lost it by expiry.
    pub crashes: u32,
    /// The messages, at least one, in position order.
    pub messages: Vec<Message>,
}

/// What an ack with the next receive did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckReceived {
    /// Messages acked; 0 for the batch that was acked before.
    pub acked: u32,
    /// The next batch, when messages wait.
    pub next: Option<Batch>,
}

/// Whether what was presented is still held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Renewal {
    /// Held, and extended.
    Held,
    /// Lost: somebody else was granted it, or it was given back. Only this means lost; an error means unknown.
    Lost,
}

/// What giving back did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Release {
    /// It was held by this epoch and is not any more.
    Released,
    /// It was not held by this epoch. Nothing changed.
    NotHeld,
}

/// How one slot stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotStatus {
    /// The consumer.
    pub path: ConsumerPath,
    /// The slot.
    pub slot: SlotIndex,
    /// The stored state.
    pub state: SlotState,
    /// Messages of the slot's partitions that are neither acked nor dead, those set aside included.
    pub lag: u64,
    /// Those of them that failed or were snoozed and come again.
    pub retrying: u64,
    /// Those of them that wait for an earlier message of their key.
    pub parked: u64,
    /// When the first of them in the log's order was sent: since then the slot is behind.
    pub first_at: Option<Timestamp>,
    /// The server's process whose open transaction has the slot locked, where the engine can tell: until that ends nobody can claim the
    /// slot, receive from it or ack.
    pub blocked_by: Option<i32>,
}

/// Owning slots and finishing batches.
///
/// A call whose epoch is not the current owner's changes nothing: `receive`, the acks and the dispositions answer the error `fenced`,
/// `renew_slot` [`Renewal::Lost`], `release_slot` and `abandon_slot` [`Release::NotHeld`]. An owner whose TTL has passed is still the owner
/// until somebody else is granted the slot.
#[async_trait]
pub trait Slots: Send + Sync {
    /// Claims any claimable slot, or returns the live one that was granted to the same nonce. `None` when there is none.
    ///
    /// # Errors
    /// `not_found` when the consumer does not exist; `unavailable`.
    async fn claim(&self, request: &ClaimSlot) -> Result<Option<SlotGrant>>;

    /// Claims the given slot. `None` while it is live, also for a worker of the same name.
    ///
    /// # Errors
    /// `not_found` when the consumer or the slot does not exist; `unavailable`.
    async fn claim_slot(&self, request: &ClaimSlot, slot: SlotIndex) -> Result<Option<SlotGrant>>;

    /// The open batch again, whatever `max` is, without the messages that have a disposition by now; else a new batch of at most
    /// `max` messages; `None` when nothing is there, or nothing new while the queue is paused. An empty receive writes nothing and
    /// does not renew.
    ///
    /// Messages that come again go first, by position. While new ones wait too they take at most half of `max`, rounded up; with a
    /// `max` of 1 both take turns.
    ///
    /// # Errors
    /// `fenced`, with `presented_epoch` and `current_epoch`; `not_found`; `unavailable`.
    async fn receive(&self, token: &SlotToken, max: BatchSize) -> Result<Option<Batch>>;

    /// Finishes the open batch and moves the cursor past exactly it; what was decided about single messages takes effect. Returns
    /// how many messages were acked, those with a disposition left out: 0, and no change, for the batch that was acked last.
    ///
    /// # Errors
    /// `fenced`; `conflict` for any other batch; `not_found`; `unavailable`, `unknown_outcome`.
    async fn ack(&self, token: &SlotToken, batch: BatchId) -> Result<u32>;

    /// Acks the open batch up to and with one of its messages. The rest stays open as the same batch, with the dispositions of its
    /// messages; through the last message this is an ack. Returns how many messages were acked: 0, and no
    /// change, when the cursor is past the message, so that the call can be repeated.
    ///
    /// # Errors
    /// As [`Slots::ack`]; `not_found` when the message is not of the batch.
    async fn ack_through(&self, token: &SlotToken, batch: BatchId, message: MessageId) -> Result<u32>;

    /// Records that a message of the open batch failed. It takes effect when the batch is acked: the message comes again, by the
    /// policy's backoff unless the failure says when, or is a dead letter when it is out of attempts. An heir of the batch does not
    /// run it. What was decided last about a message counts.
    ///
    /// Under [`crate::OnFailure::Pause`] the later messages of its key in the batch are withdrawn, and must not be run.
    ///
    /// # Errors
    /// `fenced`; `conflict` for any other batch than the open one; `not_found` when the message is not of it; `unavailable`.
    async fn nack(&self, token: &SlotToken, batch: BatchId, message: MessageId, failure: &Failure) -> Result<Nacked>;

    /// Puts a message of the open batch off. As [`Slots::nack`], but it spends no attempt. Returns the withdrawn messages.
    ///
    /// # Errors
    /// As [`Slots::nack`].
    async fn snooze(
        &self,
        token: &SlotToken,
        batch: BatchId,
        message: MessageId,
        retry_after: Delay,
    ) -> Result<Vec<MessageId>>;

    /// Gives a message of the open batch up: it becomes a dead letter when the batch is acked.
    ///
    /// # Errors
    /// As [`Slots::nack`].
    async fn dead_letter(
        &self,
        token: &SlotToken,
        batch: BatchId,
        message: MessageId,
        reason: &FailureText,
    ) -> Result<()>;

    /// In how long the next message becomes due that is not: a delayed one of the queue, or one of the slot's that comes again. Zero
    /// means that one is due. Without any, only what is sent brings messages.
    ///
    /// # Errors
    /// `not_found`; `unavailable`.
    async fn next_due(&self, path: &ConsumerPath, slot: SlotIndex) -> Result<Option<Duration>>;

    /// Acks the open batch and receives the next one, in one call and one commit.
    ///
    /// # Errors
    /// As [`Slots::ack`] and [`Slots::receive`], and then neither has happened.
    async fn ack_receive(&self, token: &SlotToken, batch: BatchId, max: BatchSize) -> Result<AckReceived>;

    /// Extends the grant by the TTL it was claimed with, also after expiry as long as nobody took over.
    ///
    /// # Errors
    /// `not_found`; `unavailable`: unknown, the old deadline stands.
    async fn renew_slot(&self, token: &SlotToken) -> Result<Renewal>;

    /// Gives the slot back between batches.
    ///
    /// # Errors
    /// `open_batch` when a batch is open, and nothing changes; `not_found`; `unavailable`.
    async fn release_slot(&self, token: &SlotToken) -> Result<Release>;

    /// Gives the slot back with its open batch, which the next claimant inherits without waiting. This epoch is void at once.
    ///
    /// # Errors
    /// `not_found`; `unavailable`.
    async fn abandon_slot(&self, token: &SlotToken) -> Result<Release>;

    /// Takes a slot from whoever owns it, for an operator: the epoch rises, so the owner's calls are refused from now on, and an
    /// open batch stays for the next claimant, without counting as a crash. Kept in the slot's history with the reason.
    ///
    /// # Errors
    /// `not_found` when the consumer or the slot does not exist; `unavailable`.
    async fn force_release_slot(&self, path: &ConsumerPath, slot: SlotIndex, reason: &Reason) -> Result<Epoch>;

    /// What operators did to a consumer's slots, oldest first; at most the last 100.
    ///
    /// # Errors
    /// `not_found` when the consumer does not exist; `unavailable`.
    async fn slot_history(&self, path: &ConsumerPath) -> Result<Vec<(SlotIndex, Forced)>>;

    /// How every slot of a queue's consumers, or of all, stands. Counts messages, so it costs time in proportion to the lag.
    ///
    /// # Errors
    /// `not_found` when the queue named does not exist; `unavailable`.
    async fn slot_status(&self, queue: Option<&QueueName>) -> Result<Vec<SlotStatus>>;
}
