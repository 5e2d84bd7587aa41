//! Membership of workers in a consumer: what fair share is computed from. It grants nothing; slots do.

use async_trait::async_trait;

use crate::{ConsumerPath, Epoch, Nonce, Renewal, Result, SlotCount, SlotIndex, Timestamp, Ttl, WorkerName};

/// A sign of life of one worker: joins it or renews its membership, and renews the slots it holds, in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The consumer it works for.
    pub path: ConsumerPath,
    /// Identifies the member; made once per worker by [`Nonce::random`].
    pub member: Nonce,
    /// Its label.
    pub worker: WorkerName,
    /// How long the membership lasts without another heartbeat. Slots keep the TTL they were claimed with.
    pub ttl: Ttl,
    /// The slots to renew, each judged by its own epoch.
    pub held: Vec<(SlotIndex, Epoch)>,
}

/// What a heartbeat learns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulse {
    /// Live members of the consumer, this one included.
    pub workers: u32,
    /// The fewest slots that any live member held at its last heartbeat, this one included.
    pub fewest: u32,
    /// Slots of the consumer.
    pub slots: SlotCount,
    /// Whether each slot presented is still held, in the order presented.
    pub held: Vec<Renewal>,
}

/// One live or lapsed member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its label.
    pub worker: WorkerName,
    /// Slots it held at its last heartbeat.
    pub held: u32,
    /// When its membership lapses.
    pub expires_at: Timestamp,
}

/// Membership of workers.
#[async_trait]
pub trait Members: Send + Sync {
    /// Joins or renews, and renews the slots presented.
    ///
    /// # Errors
    /// `not_found` when the consumer does not exist; `unavailable`.
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Pulse>;

    /// Ends a membership; one that is not there is no error. Slots are not touched.
    ///
    /// # Errors
    /// `unavailable`.
    async fn leave(&self, path: &ConsumerPath, member: &Nonce) -> Result<()>;

    /// The members of a consumer whose membership has not lapsed, by label.
    ///
    /// # Errors
    /// `not_found` when the consumer does not exist; `unavailable`.
    async fn members(&self, path: &ConsumerPath) -> Result<Vec<MemberStatus>>;
}
