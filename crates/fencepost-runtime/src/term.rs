//! Leader election: a campaign for a lease, and the term of whoever won it.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::{AcquireLease, LeaseToken, Release, Result, Store};
use tokio_util::sync::CancellationToken;

use crate::lease::KeptLease;
use crate::loss::Loss;

/// Campaigns for a lease: waits for its turn, without bound, and leads from then on.
///
/// A turn comes when the leader resigns or its lease expires, and goes to any of those who wait. Every process that may lead calls
/// this with the same name. Stop by dropping the future: that is safe at any await, and leaves nobody leading.
///
/// # Guarantees
/// Terms follow each other in the store: their epochs rise, and no two hold the lease at once. In the minds of two processes they
/// may overlap: one that was paused believes in its term until it looks at a clock. In guarded writes they never do: a transaction
/// guarded by [`Term::token`] commits only while nobody else has been granted the lease.
///
/// # Errors
/// `unavailable`; `unknown_outcome` when a second attempt could not tell either. Waiting ends with it, so that the caller decides.
///
/// ```
/// # use std::sync::Arc;
/// # use fencepost_core::*;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// # let mem = fencepost_mem::MemStore::new(Arc::new(HostClock));
/// # let store: Arc<dyn Store> = Arc::new(mem.clone());
/// # let reports = QueueName::new("reports")?;
/// # store.create_queue(&reports, Partitions::default()).await?;
/// let request = AcquireLease::new(LeaseName::new("leader")?, HolderName::new("host-1")?);
/// let term = fencepost_runtime::campaign(store, &request).await?;
/// mem.write(|tx| {
///     tx.guard_in(term.token())?;
///     tx.send_in(&reports, NewMessage::new("by the leader")?)
/// })?;
/// assert_eq!(term.resign().await?, Release::Released);
/// # Ok(())
/// # }
/// ```
pub async fn campaign(store: Arc<dyn Store>, request: &AcquireLease) -> Result<Term> {
    loop {
        if let Ok(lease) = KeptLease::acquire_within(store.clone(), request, Duration::MAX).await? {
            return Ok(Term { lease });
        }
    }
}

/// The time in which a process leads: a lease that is kept until it is resigned, dropped or lost.
#[derive(Debug)]
#[must_use = "a term that is dropped is over"]
pub struct Term {
    lease: KeptLease,
}

impl Term {
    /// What guards every write that the leader makes.
    pub fn token(&self) -> &LeaseToken {
        self.lease.token()
    }

    /// Fires when the term is over: see [`KeptLease::lost`].
    pub fn lost(&self) -> &CancellationToken {
        self.lease.lost()
    }

    /// The end of the term, with its reason, for whoever works under it.
    pub fn loss(&self) -> &Loss {
        self.lease.loss()
    }

    /// How long nobody else surely leads: see [`KeptLease::time_left`].
    pub fn time_left(&self) -> Duration {
        self.lease.time_left()
    }

    /// Ends the term, so that the next one can begin at once: see [`KeptLease::release`]. End what works under it before.
    ///
    /// # Errors
    /// `unavailable`: it expires by itself.
    pub async fn resign(self) -> Result<Release> {
        self.lease.release().await
    }
}
