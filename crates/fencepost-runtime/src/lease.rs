//! Keeping a lease: renewed on a task of its own, with a token that fires when it is lost or its deadline passes.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::{
    AcquireLease, Acquired, Clock, Deadline, HostClock, Kind, LeaseToken, Nonce, Release, Renewal, Result, Store,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::deadline::{DeadlineWatcher, Watched};
use crate::renewal::keep_renewing;

/// An acquired lease that is renewed until it is released, dropped or lost.
///
/// Dropping it stops the renewals; the lease then expires by itself.
pub struct KeptLease {
    store: Arc<dyn Store>,
    token: LeaseToken,
    lost: CancellationToken,
    watched: Arc<Watched>,
    keeping: JoinHandle<()>,
}

impl KeptLease {
    /// Acquires a lease and keeps it, or returns who holds it. A request with a nonce takes up the grant that the same nonce was
    /// given before, and renews it at once.
    ///
    /// # Errors
    /// `unavailable`; `unknown_outcome` when a second attempt could not tell either.
    pub async fn acquire(store: Arc<dyn Store>, request: &AcquireLease) -> Result<std::result::Result<Self, Acquired>> {
        let clock: Arc<dyn Clock> = Arc::new(HostClock);
        let (ttl, margin) = (request.ttl, request.ttl.get() / 10);
        let of_request_sent_now = {
            let clock = clock.clone();
            move || Deadline::of_request(clock.boot(), ttl, margin)
        };
        let may_be_old = request.nonce.is_some();
        let mut request = request.clone();
        if request.nonce.is_none() {
            request.nonce = Some(Nonce::random()?);
        }
        let (token, deadline) = loop {
            // ORDER: the deadline is anchored before the request is sent.
            let deadline = of_request_sent_now();
            let mut answer = store.acquire_lease(&request).await;
            if answer.as_ref().is_err_and(|error| error.kind() == Kind::UnknownOutcome) {
                // The nonce tells whether the first attempt was granted.
                answer = store.acquire_lease(&request).await;
            }
            let token = match answer? {
                Acquired::Granted { token, .. } => token,
                held @ Acquired::Held { .. } => return Ok(Err(held)),
            };
            if !may_be_old {
                break (token, deadline);
            }
            // Of a grant that was made to this nonce before, only a part is left, of another TTL perhaps.
            let deadline = of_request_sent_now();
            if store.renew_lease(&token, Some(ttl)).await? == Renewal::Held {
                break (token, deadline);
            }
            // Lost just now: asking again tells to whom.
        };

        let lost = CancellationToken::new();
        let watched = Arc::new(DeadlineWatcher::start(clock).watch(deadline, lost.clone()));
        let keeping = tokio::spawn({
            let (store, token, lost, watched) = (store.clone(), token.clone(), lost.clone(), watched.clone());
            async move {
                let attempt = || async {
                    // ORDER: anchored before the request is sent.
                    let deadline = of_request_sent_now();
                    store.renew_lease(&token, Some(ttl)).await.map(|renewal| (renewal, deadline))
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
        Ok(Ok(Self { store, token, lost, watched, keeping }))
    }

    /// What to present with calls on the lease.
    pub fn token(&self) -> &LeaseToken {
        &self.token
    }

    /// Fires when the lease is lost, its deadline has passed, or it is not kept any more: released or dropped.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// How long the lease surely stays with this holder: the time until its deadline, zero when that has passed or the lease is
    /// lost. Check it before each effect outside the store, which no epoch fences: what takes longer than this is not begun.
    pub fn time_left(&self) -> Duration {
        if self.lost.is_cancelled() { Duration::ZERO } else { self.watched.left() }
    }

    /// Stops renewing and gives the lease back.
    ///
    /// # Errors
    /// `unavailable`: it expires by itself.
    pub async fn release(self) -> Result<Release> {
        self.end();
        self.store.release_lease(&self.token).await
    }

    /// ORDER: cancelled before it is given back, so that nobody who believes in it goes on.
    fn end(&self) {
        self.keeping.abort();
        self.lost.cancel();
    }
}

impl std::fmt::Debug for KeptLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptLease").field("token", &self.token).field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl Drop for KeptLease {
    fn drop(&mut self) {
        self.end();
    }
}
