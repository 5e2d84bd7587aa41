//! Leases in the model: load the row, run the table's step, store what it returns. There is one lock, so no lease is `Contended`.

use async_trait::async_trait;
use fencepost_core::lease::{Call, LeaseState, Outcome, REMEMBERED, Request, step};
use fencepost_core::{
    AcquireLease, Acquired, Epoch, Error, Forced, Kind, LeaseName, LeaseStatus, LeaseToken, Leases, Reason, Release,
    Renewal, Result, Topic, Ttl,
};

use crate::state::keep;
use crate::{MemStore, MemTransaction};

impl MemTransaction<'_> {
    /// Runs `call` against a lease and returns the answer with the state that is stored now.
    fn step_lease(&mut self, name: &LeaseName, call: &Call<'_>) -> (Outcome, LeaseState) {
        let state = self.lease(name);
        let step = step(&state, call, self.now());
        let Some(next) = step.next else { return (step.outcome, state) };
        self.change().leases.insert(name.clone(), next.clone());
        if next.holding.is_none() {
            self.wake(Topic::Lease(name.clone()));
        }
        (step.outcome, next)
    }

    fn lease(&self, name: &LeaseName) -> LeaseState {
        self.state().leases.get(name).cloned().unwrap_or_default()
    }

    fn acquire_lease(&mut self, request: &AcquireLease) -> Result<Acquired> {
        let AcquireLease { name, holder, ttl, nonce } = request;
        let last = self.lease(name).epoch;
        let next = self.next_epoch(last)?;
        let call = Call::Acquire(Request { holder, nonce: nonce.as_ref(), ttl: *ttl, epoch: next });
        let (outcome, LeaseState { epoch: Some(epoch), holding: Some(holding) }) = self.step_lease(name, &call) else {
            return Err(Error::new(
                Kind::Internal,
                format!("cannot acquire the lease `{name}`: nobody holds it after"),
            ));
        };
        if outcome == Outcome::Held {
            let expires_in = holding.expires_at.since(self.now());
            return Ok(Acquired::Held { holder: holding.holder, epoch, since: holding.since, expires_in });
        }
        if epoch == next {
            self.granted(epoch);
        }
        Ok(Acquired::Granted { token: LeaseToken { name: name.clone(), epoch }, expires_at: holding.expires_at })
    }

    pub(crate) fn renew_lease(&mut self, token: &LeaseToken, ttl: Option<Ttl>) -> Renewal {
        match self.step_lease(&token.name, &Call::Renew { epoch: token.epoch, ttl }).0 {
            Outcome::Renewed => Renewal::Held,
            _ => Renewal::Lost,
        }
    }

    fn release_lease(&mut self, token: &LeaseToken) -> Release {
        match self.step_lease(&token.name, &Call::Release { epoch: token.epoch }).0 {
            Outcome::Released => Release::Released,
            _ => Release::NotHeld,
        }
    }
}

impl MemTransaction<'_> {
    pub(crate) fn guard_lease(&mut self, token: &LeaseToken) -> Result<()> {
        match self.step_lease(&token.name, &Call::Guard { epoch: token.epoch }) {
            (Outcome::Guarded, _) => Ok(()),
            (_, state) => Err(token.fenced(state.holding.and(state.epoch))),
        }
    }

    /// Forgets free leases that nobody was granted for long; whether there were any.
    pub(crate) fn forget_leases(&mut self) -> bool {
        // An epoch is not below the instant of its grant.
        let since = self.now().as_micros() - REMEMBERED.as_micros() as i64;
        let old = |state: &LeaseState| state.holding.is_none() && state.epoch.is_some_and(|epoch| epoch.get() < since);
        let names: Vec<LeaseName> =
            self.state().leases.iter().filter(|(_, state)| old(state)).map(|(name, _)| name.clone()).collect();
        for name in &names {
            let state = self.change();
            state.leases.remove(name);
            state.forced.remove(name);
        }
        !names.is_empty()
    }

    fn force_release_lease(&mut self, name: &LeaseName, reason: &Reason) -> Result<Epoch> {
        let LeaseState { epoch: last, holding } = self.lease(name);
        let epoch = self.next_epoch(last)?;
        self.step_lease(name, &Call::ForceRelease { epoch });
        self.granted(epoch);
        let from = holding.map(|holding| holding.holder.to_string());
        let forced = Forced { at: self.now(), epoch, from, reason: reason.clone() };
        keep(self.change().forced.entry(name.clone()).or_default(), forced);
        Ok(epoch)
    }
}

#[async_trait]
impl Leases for MemStore {
    async fn acquire_lease(&self, request: &AcquireLease) -> Result<Acquired> {
        self.write(|tx| tx.acquire_lease(request)).map_err(|error| error.during("acquire_lease"))
    }

    async fn renew_lease(&self, token: &LeaseToken, ttl: Option<Ttl>) -> Result<Renewal> {
        self.write(|tx| Ok(tx.renew_lease(token, ttl))).map_err(|error| error.during("renew_lease"))
    }

    async fn release_lease(&self, token: &LeaseToken) -> Result<Release> {
        self.write(|tx| Ok(tx.release_lease(token))).map_err(|error| error.during("release_lease"))
    }

    async fn force_release_lease(&self, name: &LeaseName, reason: &Reason) -> Result<Epoch> {
        self.write(|tx| tx.force_release_lease(name, reason)).map_err(|error| error.during("force_release_lease"))
    }

    async fn lease_history(&self, name: &LeaseName) -> Result<Vec<Forced>> {
        let (state, _) = self.read().map_err(|error| error.during("lease_history"))?;
        Ok(state.forced.get(name).cloned().unwrap_or_default())
    }

    async fn lease(&self, name: &LeaseName) -> Result<Option<LeaseStatus>> {
        let (state, _) = self.read().map_err(|error| error.during("lease"))?;
        let found = state.leases.get(name).cloned();
        Ok(found.map(|state| LeaseStatus { name: name.clone(), state }))
    }

    async fn lease_status(&self) -> Result<Vec<LeaseStatus>> {
        let (state, _) = self.read().map_err(|error| error.during("lease_status"))?;
        let statuses = state.leases.iter();
        Ok(statuses.map(|(name, state)| LeaseStatus { name: name.clone(), state: state.clone() }).collect())
    }
}
