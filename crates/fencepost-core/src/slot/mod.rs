//! Slots: the unit of ownership of an ordered consumer. Cursor, owner and open batch are ONE state with one transition table.

mod step;
mod table;

use async_trait::async_trait;

use crate::{
    BatchId, BatchSize, ConsumerPath, Epoch, Forced, Message, Nonce, QueueName, Reason, Result, SlotIndex, Timestamp,
    Ttl, WorkerName,
};

pub use step::{Call, Claimant, Found, GrantOrigin, OpenBatch, Outcome, Owner, Refusal, SlotState, Step, step};
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
    /// Messages of the slot's partitions that are not acked yet.
    pub lag: u64,
}

/// Owning slots and finishing batches.
///
/// A call whose epoch is not the current owner's changes nothing: `receive` and `ack` answer the error `fenced`, `renew_slot`
/// [`Renewal::Lost`], `release_slot` and `abandon_slot` [`Release::NotHeld`]. An owner whose TTL has passed is still the owner
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

    /// The open batch again, whatever `max` is; else a new batch of at most `max` messages; `None` when nothing is there. An
    /// empty receive writes nothing and does not renew.
    ///
    /// # Errors
    /// `fenced`, with `presented_epoch` and `current_epoch`; `not_found`; `unavailable`.
    async fn receive(&self, token: &SlotToken, max: BatchSize) -> Result<Option<Batch>>;

    /// Finishes the open batch and moves the cursor past exactly it. Returns how many messages were acked: 0, and no change, for
    /// the batch that was acked last.
    ///
    /// # Errors
    /// `fenced`; `conflict` for any other batch; `not_found`; `unavailable`, `unknown_outcome`.
    async fn ack(&self, token: &SlotToken, batch: BatchId) -> Result<u32>;

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
