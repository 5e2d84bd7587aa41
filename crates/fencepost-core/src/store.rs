//! The whole contract in one trait object, for the runtime and the faces.

use async_trait::async_trait;

use crate::{
    Consumers, DeadLetters, Leases, Members, Notices, Queues, Readers, Result, Schedules, Slots, Timestamp, Wakeups,
};

/// What a store says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreInfo {
    /// The engine's name, for people; nothing may branch on it.
    pub engine: &'static str,
    /// Where the data is, without secrets.
    pub location: String,
    /// The version of the installed schema.
    pub schema_version: u32,
    /// The version of the storage engine beneath, such as SQLite's.
    pub engine_version: String,
}

/// Everything an engine answers. No method of the contract has a default body: a new operation makes every engine answer.
#[async_trait]
pub trait Store:
    Leases + Queues + Consumers + Slots + DeadLetters + Readers + Members + Notices + Schedules + Wakeups
{
    /// What the store says of itself.
    fn info(&self) -> StoreInfo;

    /// The instant by the engine's clock.
    ///
    /// # Errors
    /// `unavailable`.
    async fn now(&self) -> Result<Timestamp>;

    /// Finishes what was accepted and closes. Later calls answer `unavailable` with code `store_closed`, receivers
    /// of wake-ups and notices [`crate::Closed`].
    async fn close(&self);
}
