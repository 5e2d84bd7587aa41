//! Leases: named TTL ownership with a fencing epoch.

mod step;
mod table;

use std::time::Duration;

use async_trait::async_trait;

use crate::{Epoch, Error, HolderName, Kind, LeaseName, Nonce, Reason, Release, Renewal, Result, Timestamp, Ttl};

pub use step::{Call, Holding, LeaseState, Outcome, Request, Step, step};
pub use table::{Action, Event, Phase, TABLE};

/// How long a free lease is remembered after its last grant: 30 days. Epochs are the store's, so forgetting one repeats none.
pub const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A lease to acquire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcquireLease {
    /// Which lease.
    pub name: LeaseName,
    /// The caller's label.
    pub holder: HolderName,
    /// How long the grant lasts without renewal.
    pub ttl: Ttl,
    /// Identifies this attempt: the same call again returns the stored grant while it is live.
    pub nonce: Option<Nonce>,
}

impl AcquireLease {
    /// An attempt with the default TTL and no nonce.
    pub fn new(name: LeaseName, holder: HolderName) -> Self {
        Self { name, holder, ttl: Ttl::DEFAULT, nonce: None }
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

/// What a holder presents with every call on its lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseToken {
    /// Which lease.
    pub name: LeaseName,
    /// The epoch of the grant, which alone decides.
    pub epoch: Epoch,
}

/// What an acquire answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// Granted to the caller.
    Granted {
        /// What to present from now on.
        token: LeaseToken,
        /// When the grant expires by the engine's clock; the caller's own deadline is anchored before the request.
        expires_at: Timestamp,
    },
    /// Somebody holds it.
    Held {
        /// The holder's label.
        holder: HolderName,
        /// The holder's epoch.
        epoch: Epoch,
        /// Since when.
        since: Timestamp,
        /// How long until it expires unless renewed.
        expires_in: Duration,
    },
    /// Somebody's transaction has it locked, so nothing can be said of its holder; ask again after a jittered pause. Engines with
    /// one writer never answer it: there is no lock on one lease. SQLite answers the error `busy`, within its bound, when another
    /// process keeps the whole file locked.
    Contended,
}

impl LeaseToken {
    /// The error of a guard whose token is not the holder's.
    pub fn fenced(&self, current: Option<Epoch>) -> Error {
        let shown = current.map_or_else(|| "none".to_owned(), |epoch| epoch.to_string());
        Error::new(
            Kind::Fenced,
            format!(
                "cannot guard by the lease `{}`: epoch `{}` is not its holder's, the current one is `{shown}`",
                self.name, self.epoch
            ),
        )
        .during("guard_lease")
        .with("lease", &self.name)
        .with("presented_epoch", self.epoch)
        .with("current_epoch", shown)
        .hinted(
            "the lease was granted to somebody else or given back; drop what this holder was doing and acquire again",
        )
    }
}

/// How one lease stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseStatus {
    /// Which lease.
    pub name: LeaseName,
    /// The stored state.
    pub state: LeaseState,
}

/// Something that an operator took by force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forced {
    /// When.
    pub at: Timestamp,
    /// The epoch that it got.
    pub epoch: Epoch,
    /// The label of who held it, if somebody did.
    pub from: Option<String>,
    /// Why.
    pub reason: Reason,
}

/// Acquiring and giving back leases.
#[async_trait]
pub trait Leases: Send + Sync {
    /// Acquires a lease that is free or expired, or returns the live one that was granted to the same nonce.
    ///
    /// A holder's name identifies nothing: a live lease is granted to nobody else, also not to the same name. It never waits for
    /// a lock on the lease, see [`Acquired::Contended`]; the runtime's `acquire_within` waits for the lease.
    ///
    /// Cancel-safe: a new grant whose caller has gone away before it was answered is given back at once.
    ///
    /// # Errors
    /// `busy` when the store is locked by somebody for longer than its bound; `unavailable`; `unknown_outcome`, which the same
    /// nonce resolves.
    async fn acquire_lease(&self, request: &AcquireLease) -> Result<Acquired>;

    /// Extends a grant by `ttl`, or by the TTL it was acquired with, also after expiry as long as nobody took over.
    ///
    /// # Errors
    /// `unavailable`: unknown, the old deadline stands.
    async fn renew_lease(&self, token: &LeaseToken, ttl: Option<Ttl>) -> Result<Renewal>;

    /// Gives a lease back.
    ///
    /// # Errors
    /// `unavailable`.
    async fn release_lease(&self, token: &LeaseToken) -> Result<Release>;

    /// Takes a lease from whoever holds it, for an operator: the epoch rises, so the holder's calls are refused from now on, and
    /// the lease is free. A lease that nobody ever acquired gets its first epoch. Kept in the lease's history with the reason.
    ///
    /// # Errors
    /// `unavailable`.
    async fn force_release_lease(&self, name: &LeaseName, reason: &Reason) -> Result<Epoch>;

    /// What operators did to a lease, oldest first; at most the last 100.
    ///
    /// # Errors
    /// `unavailable`.
    async fn lease_history(&self, name: &LeaseName) -> Result<Vec<Forced>>;

    /// How one lease stands; `None` for one that nobody ever acquired, or that was forgotten.
    ///
    /// What it says may be over by the time it is read: it is for people and for reports. Whoever wants the lease acquires it,
    /// and whoever protects a write by it guards the transaction.
    ///
    /// # Errors
    /// `unavailable`.
    async fn lease(&self, name: &LeaseName) -> Result<Option<LeaseStatus>>;

    /// How every lease stands, by name.
    ///
    /// # Errors
    /// `unavailable`.
    async fn lease_status(&self) -> Result<Vec<LeaseStatus>>;
}
