//! Keeping a lease: renewed on a task of its own, with a token that fires when it is lost or its deadline passes.

use std::ops::ControlFlow;
use std::sync::Arc;

use fencepost_core::{AcquireLease, Acquired, Clock, Deadline, HostClock, LeaseToken, Release, Renewal, Result, Store};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::deadline::DeadlineWatcher;
use crate::renewal::keep_renewing;

/// An acquired lease that is renewed until it is released, dropped or lost.
///
/// Dropping it stops the renewals; the lease then expires by itself.
pub struct KeptLease {
    store: Arc<dyn Store>,
    token: LeaseToken,
    lost: CancellationToken,
    keeping: JoinHandle<()>,
}

impl KeptLease {
    /// Acquires a lease and keeps it, or returns who holds it.
    ///
    /// # Errors
    /// `unavailable`; `unknown_outcome`.
    pub async fn acquire(store: Arc<dyn Store>, request: &AcquireLease) -> Result<std::result::Result<Self, Acquired>> {
        let clock: Arc<dyn Clock> = Arc::new(HostClock);
        let margin = request.ttl.get() / 10;
        // ORDER: the deadline is anchored before the request is sent.
        let sent = clock.boot();
        let token = match store.acquire_lease(request).await? {
            Acquired::Granted { token, .. } => token,
            held @ Acquired::Held { .. } => return Ok(Err(held)),
        };
        let lost = CancellationToken::new();
        let watched =
            DeadlineWatcher::start(clock.clone()).watch(Deadline::of_request(sent, request.ttl, margin), lost.clone());
        let keeping = tokio::spawn({
            let (store, token, lost, ttl) = (store.clone(), token.clone(), lost.clone(), request.ttl);
            async move {
                let attempt = || async {
                    // ORDER: anchored before the request is sent.
                    let deadline = Deadline::of_request(clock.boot(), ttl, margin);
                    store.renew_lease(&token, None).await.map(|renewal| (renewal, deadline))
                };
                let renewing = keep_renewing(ttl.get() / 3, attempt, |answer| match answer {
                    Ok((Renewal::Held, deadline)) => {
                        watched.move_to(deadline);
                        ControlFlow::Continue(())
                    }
                    Ok((Renewal::Lost, _)) => {
                        lost.cancel();
                        ControlFlow::Break(())
                    }
                    // Unknown is not lost: the old deadline stands, and another attempt fits before it.
                    Err(_) => ControlFlow::Continue(()),
                });
                tokio::select! {
                    () = lost.cancelled() => {}
                    () = renewing => {}
                }
            }
        });
        Ok(Ok(Self { store, token, lost, keeping }))
    }

    /// What to present with calls on the lease.
    pub fn token(&self) -> &LeaseToken {
        &self.token
    }

    /// Fires when the lease is lost or its deadline has passed.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Stops renewing and gives the lease back.
    ///
    /// # Errors
    /// `unavailable`: it expires by itself.
    pub async fn release(self) -> Result<Release> {
        self.keeping.abort();
        self.store.release_lease(&self.token).await
    }
}

impl std::fmt::Debug for KeptLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptLease").field("token", &self.token).field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl Drop for KeptLease {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}
