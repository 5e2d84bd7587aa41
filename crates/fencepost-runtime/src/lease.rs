//! Keeping a lease: renewed on a task of its own, with a token that fires when it is lost or its deadline passes.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::{
    AcquireLease, Acquired, Clock, Deadline, Error, HostClock, Kind, LeaseToken, Release, Renewal, Result, Store, Ttl,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::deadline::{DeadlineWatcher, Watched};
use crate::loss::{Loss, LossReason};
use crate::renewal::keep_renewing;
use crate::waiting::{acquire_resolved, attempt_within};

/// An acquired lease that is renewed until it is released, dropped or lost.
///
/// Dropping it stops the renewals; the lease then expires by itself, because what works under it may not have ended yet.
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use fencepost_core::*;
/// use fencepost_runtime::{KeptLease, LossReason};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// # let store: Arc<dyn Store> = Arc::new(fencepost_mem::MemStore::new(Arc::new(HostClock)));
/// let request = AcquireLease::new(LeaseName::new("nightly")?, HolderName::new("host-1")?);
/// let lease = KeptLease::acquire(store.clone(), &request).await?.expect("nobody holds it");
///
/// // Somebody else does not get it, and is told by whom it is held.
/// let refused = KeptLease::acquire_within(store, &request, Duration::from_millis(10)).await?;
/// assert!(matches!(refused, Err(Acquired::Held { epoch, .. }) if epoch == lease.token().epoch));
///
/// // Before an effect outside the store: is there time for it?
/// assert!(lease.time_left() > Duration::from_secs(1));
///
/// let loss = lease.loss().clone();
/// assert_eq!(lease.release().await?, Release::Released);
/// assert_eq!(loss.reason(), Some(LossReason::Released));
/// # Ok(())
/// # }
/// ```
#[must_use = "a lease that is dropped is not renewed"]
pub struct KeptLease {
    store: Arc<dyn Store>,
    token: LeaseToken,
    ttl: Ttl,
    loss: Loss,
    watched: Arc<Watched>,
    keeping: JoinHandle<()>,
}

impl KeptLease {
    /// Acquires a lease and keeps it, or returns how that was refused: who holds it. A request with a nonce takes up the grant that
    /// the same nonce was given before, and renews it at once.
    ///
    /// Cancel-safe: a new grant whose caller has gone away is given back. One that was made to a nonce of the caller's own may stay
    /// for whoever asks with it again.
    ///
    /// # Errors
    /// `busy`; `unavailable`; `unknown_outcome` when a second attempt could not tell either.
    pub async fn acquire(store: Arc<dyn Store>, request: &AcquireLease) -> Result<std::result::Result<Self, Acquired>> {
        let may_be_old = request.nonce.is_some();
        let (token, deadline) = loop {
            // ORDER: the deadline is anchored before the request is sent.
            let deadline = of_request_sent_now(request.ttl);
            let token = match acquire_resolved(&*store, request).await? {
                Acquired::Granted { token, .. } => token,
                refused => return Ok(Err(refused)),
            };
            if !may_be_old {
                break (token, deadline);
            }
            // Of a grant that was made to this nonce before, only a part is left, of another TTL perhaps.
            let deadline = of_request_sent_now(request.ttl);
            if store.renew_lease(&token, Some(request.ttl)).await? == Renewal::Held {
                break (token, deadline);
            }
            // Lost just now: asking again tells to whom.
        };
        Ok(Ok(Self::keep(store, token, request.ttl, deadline)))
    }

    /// Acquires a lease and keeps it, and waits for it while somebody holds it, for `wait` at most:
    /// [`Waiting::acquire_within`](crate::Waiting::acquire_within) tells how.
    ///
    /// # Errors
    /// As [`KeptLease::acquire`]; `busy` only when the store was still locked at the end.
    pub async fn acquire_within(
        store: Arc<dyn Store>,
        request: &AcquireLease,
        wait: Duration,
    ) -> Result<std::result::Result<Self, Acquired>> {
        attempt_within(&*store, &request.name, wait, || Self::acquire(store.clone(), request)).await
    }

    fn keep(store: Arc<dyn Store>, token: LeaseToken, ttl: Ttl, deadline: Deadline) -> Self {
        let loss = Loss::default();
        let watched = Arc::new(DeadlineWatcher::of_host().watch(deadline, loss.token().clone()));
        let keeping = tokio::spawn({
            let (store, token, loss, watched) = (store.clone(), token.clone(), loss.clone(), watched.clone());
            async move {
                let attempt = || async {
                    // ORDER: anchored before the request is sent.
                    let deadline = of_request_sent_now(ttl);
                    store.renew_lease(&token, Some(ttl)).await.map(|renewal| (renewal, deadline))
                };
                let renewing = keep_renewing(ttl.get() / 3, attempt, |answer| match answer {
                    Ok((Renewal::Held, deadline)) => {
                        watched.move_to(deadline);
                        ControlFlow::Continue(())
                    }
                    Ok((Renewal::Lost, _)) => {
                        loss.tell(LossReason::Taken);
                        ControlFlow::Break(())
                    }
                    // Unknown is not lost: the old deadline stands, and another attempt fits before it.
                    Err(_) => ControlFlow::Continue(()),
                });
                tokio::select! {
                    () = loss.token().cancelled() => {}
                    () = renewing => {}
                }
            }
        });
        Self { store, token, ttl, loss, watched, keeping }
    }

    /// What to present with calls on the lease.
    pub fn token(&self) -> &LeaseToken {
        &self.token
    }

    /// Fires when the lease is lost, its deadline has passed, or it is not kept any more: released or dropped.
    pub fn lost(&self) -> &CancellationToken {
        self.loss.token()
    }

    /// The end of the lease, with its reason, for whoever works under it.
    pub fn loss(&self) -> &Loss {
        &self.loss
    }

    /// How long the lease surely stays with this holder: the time until its deadline, zero when that has passed or the lease is
    /// lost. Check it before each effect outside the store, which no epoch fences: what takes longer than this is not begun.
    pub fn time_left(&self) -> Duration {
        if self.loss.token().is_cancelled() { Duration::ZERO } else { self.watched.left() }
    }

    /// Stops renewing and gives the lease back. End what works under it before.
    ///
    /// Cancel-safe: a release that has begun is made also when its caller goes away.
    ///
    /// # Errors
    /// `unavailable`, also when the store has not answered within the TTL: it expires by itself.
    pub async fn release(self) -> Result<Release> {
        self.end();
        let (store, token, bound) = (self.store.clone(), self.token.clone(), self.ttl.get());
        let releasing = tokio::spawn(async move {
            tokio::time::timeout(bound, store.release_lease(&token)).await.unwrap_or_else(|late| {
                Err(Error::new(Kind::Unavailable, "the store did not answer").during("release_lease").caused_by(late))
            })
        });
        releasing.await.unwrap_or_else(|cause| {
            Err(Error::new(Kind::Internal, "cannot give the lease back: the call panicked").caused_by(cause))
        })
    }

    /// ORDER: told before it is given back, so that nobody who believes in it goes on.
    fn end(&self) {
        self.keeping.abort();
        self.loss.tell(LossReason::Released);
    }
}

/// The deadline of a grant whose request is sent now: a tenth of the TTL early, in which to stop.
fn of_request_sent_now(ttl: Ttl) -> Deadline {
    Deadline::of_request(HostClock.boot(), ttl, ttl.get() / 10)
}

impl std::fmt::Debug for KeptLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptLease")
            .field("token", &self.token)
            .field("loss", &self.loss.reason())
            .finish_non_exhaustive()
    }
}

impl Drop for KeptLease {
    fn drop(&mut self) {
        self.end();
    }
}
