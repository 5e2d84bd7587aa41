//! The pure step function over the table: classify the call against the stored state, look the action up, apply it.

use super::table::{Action, Event, Phase};
use crate::{Epoch, HolderName, Nonce, Timestamp, Ttl};

/// The stored state of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseState {
    /// The highest epoch that was ever granted here; the holder's while there is one.
    pub epoch: Option<Epoch>,
    /// Who holds it.
    pub holding: Option<Holding>,
}

/// Who holds a lease, beside its epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The holder's label.
    pub holder: HolderName,
    /// The nonce of the call that was granted.
    pub nonce: Option<Nonce>,
    /// How far a renewal reaches.
    pub ttl: Ttl,
    /// Since when.
    pub since: Timestamp,
    /// When the grant expires.
    pub expires_at: Timestamp,
}

/// Who acquires.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The caller's label.
    pub holder: &'a HolderName,
    /// Identifies the attempt.
    pub nonce: Option<&'a Nonce>,
    /// How long the grant lasts.
    pub ttl: Ttl,
    /// The epoch that the store gives to its next grant.
    pub epoch: Epoch,
}

/// A call on one lease.
#[derive(Debug, Clone, Copy)]
pub enum Call<'a> {
    /// Acquire it.
    Acquire(Request<'a>),
    /// Renew the grant, by `ttl` or by what it was acquired with.
    Renew {
        /// The presented epoch.
        epoch: Epoch,
        /// The new TTL.
        ttl: Option<Ttl>,
    },
    /// Give it back.
    Release {
        /// The presented epoch.
        epoch: Epoch,
    },
    /// Make sure, inside a transaction of the caller's, that nobody else is granted it before that ends.
    Guard {
        /// The presented epoch.
        epoch: Epoch,
    },
    /// Take it from whoever holds it.
    ForceRelease {
        /// The epoch that the store gives to its next grant.
        epoch: Epoch,
    },
}

/// What a call answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Granted, now or before to the same nonce.
    Granted,
    /// Somebody else's.
    Held,
    /// Extended.
    Renewed,
    /// Not held by this epoch (renewal).
    Lost,
    /// Given back, or taken by force.
    Released,
    /// Held by this epoch.
    Guarded,
    /// The error `fenced`.
    Fenced,
    /// Not held by this epoch (release).
    NotHeld,
}

/// What a call does: the answer, and the new state when something changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The answer.
    pub outcome: Outcome,
    /// The state to store; `None` when nothing changes.
    pub next: Option<LeaseState>,
}

impl LeaseState {
    /// The column of the table that this state is in at `now`. A grant is live strictly before its expiry.
    pub fn phase(&self, now: Timestamp) -> Phase {
        match &self.holding {
            None => Phase::Free,
            Some(holding) if now < holding.expires_at => Phase::Live,
            Some(_) => Phase::Expired,
        }
    }

    /// Whether `epoch` is the current holder's.
    pub fn is_own(&self, epoch: Epoch) -> bool {
        self.holding.is_some() && self.epoch == Some(epoch)
    }

    /// The row of the table that `call` is against this state.
    pub fn classify(&self, call: &Call<'_>) -> Event {
        match *call {
            Call::Acquire(request) => {
                let granted = self.holding.as_ref().and_then(|holding| holding.nonce.as_ref());
                if request.nonce.is_some() && granted == request.nonce {
                    Event::AcquireSameNonce
                } else {
                    Event::Acquire
                }
            }
            Call::Renew { epoch, .. } if self.is_own(epoch) => Event::RenewOwn,
            Call::Renew { .. } => Event::RenewNotOwn,
            Call::Release { epoch } if self.is_own(epoch) => Event::ReleaseOwn,
            Call::Release { .. } => Event::ReleaseNotOwn,
            Call::Guard { epoch } if self.is_own(epoch) => Event::GuardOwn,
            Call::Guard { .. } => Event::GuardNotOwn,
            Call::ForceRelease { .. } => Event::ForceRelease,
        }
    }
}

/// Judges `call` against `state` at `now`. Pure: the engine loads the state under its lock and stores what is returned.
///
/// # Panics
/// When the table says that the situation cannot arise, which is a bug.
pub fn step(state: &LeaseState, call: &Call<'_>, now: Timestamp) -> Step {
    let action = state.classify(call).action(state.phase(now));
    let unchanged = |outcome| Step { outcome, next: None };
    let changed = |outcome, next| Step { outcome, next: Some(next) };

    match (action, *call) {
        (Action::Grant, Call::Acquire(request)) => {
            let holding = Holding {
                holder: request.holder.clone(),
                nonce: request.nonce.cloned(),
                ttl: request.ttl,
                since: now,
                expires_at: now + request.ttl.get(),
            };
            changed(Outcome::Granted, LeaseState { epoch: Some(request.epoch), holding: Some(holding) })
        }
        (Action::StoredGrant, _) => unchanged(Outcome::Granted),
        (Action::Held, _) => unchanged(Outcome::Held),
        (Action::Extend, Call::Renew { ttl, .. }) => {
            let mut next = state.clone();
            let holding = next.holding.as_mut().expect("a held lease has a holder");
            holding.ttl = ttl.unwrap_or(holding.ttl);
            holding.expires_at = now + holding.ttl.get();
            changed(Outcome::Renewed, next)
        }
        (Action::Lost, _) => unchanged(Outcome::Lost),
        (Action::Free, _) => changed(Outcome::Released, LeaseState { holding: None, ..state.clone() }),
        (Action::NotHeld, _) => unchanged(Outcome::NotHeld),
        (Action::Guarded, _) => unchanged(Outcome::Guarded),
        (Action::RefuseFenced, _) => unchanged(Outcome::Fenced),
        (Action::ForceOut, Call::ForceRelease { epoch }) => {
            changed(Outcome::Released, LeaseState { epoch: Some(epoch), holding: None })
        }
        (action, call) => unreachable!("the table has {action:?} for {call:?}, which it cannot answer"),
    }
}
