//! Leases: calls of the functions in `sql/functions/lease`, and what their answers mean.

use async_trait::async_trait;
use fencepost_core::lease::{Holding, LeaseState};
use fencepost_core::{
    AcquireLease, Acquired, Epoch, Error, Forced, HolderName, Kind, LeaseName, LeaseStatus, LeaseToken, Leases, Nonce,
    Reason, Release, Renewal, Result, Topic, Ttl,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::deliver::GiveBack;
use crate::error::damaged;
use crate::numbered::OfAny;
use crate::store::{PostgresStore, column, one};
use crate::time::At;

const ACQUIRE: OfAny = OfAny {
    any: "select * from fencepost._any_lease_acquire($1, $2, $3 * interval '1 microsecond', $4)",
    granted: "select * from fencepost.lease_acquire($1, $2, $3 * interval '1 microsecond', $4)",
};
const RENEW: OfAny = OfAny {
    any: "select fencepost._any_lease_renew($1, $2, $3 * interval '1 microsecond')",
    granted: "select fencepost.lease_renew($1, $2, $3 * interval '1 microsecond')",
};
const RELEASE: OfAny =
    OfAny { any: "select fencepost._any_lease_release($1, $2)", granted: "select fencepost.lease_release($1, $2)" };
const FORCE: &str = "select fencepost.lease_force_release($1, $2)";
const HISTORY: &str = "select * from fencepost._lease_history($1)";
const STATES: &str = "select * from fencepost._lease_states($1)";
pub(crate) const GUARD: &str = "select fencepost.lease_guard($1, $2)";

#[async_trait]
impl Leases for PostgresStore {
    async fn acquire_lease(&self, request: &AcquireLease) -> Result<Acquired> {
        let (store, request) = (self.clone(), request.clone());
        self.granting(async move { store.acquire(&request).await }).await.map_err(|error| error.during("acquire_lease"))
    }

    async fn renew_lease(&self, token: &LeaseToken, ttl: Option<Ttl>) -> Result<Renewal> {
        let (name, epoch, ttl) = (token.name.as_str(), token.epoch.get(), ttl.map(Ttl::as_micros));
        let values: [_; 3] = [(&name as _, Type::TEXT), (&epoch as _, Type::INT8), (&ttl as _, Type::INT8)];
        let rows = self.write_any("renew_lease", RENEW, &values).await?;
        Ok(if column(one(&rows)?, 0)? { Renewal::Held } else { Renewal::Lost })
    }

    async fn release_lease(&self, token: &LeaseToken) -> Result<Release> {
        let (name, epoch) = (token.name.as_str(), token.epoch.get());
        let values: [_; 2] = [(&name as _, Type::TEXT), (&epoch as _, Type::INT8)];
        let rows = self.write_any("release_lease", RELEASE, &values).await?;
        if !column::<bool>(one(&rows)?, 0)? {
            return Ok(Release::NotHeld);
        }
        self.watcher().wake(self.hub(), &Topic::Lease(token.name.clone()), Some(epoch));
        Ok(Release::Released)
    }

    async fn force_release_lease(&self, name: &LeaseName, reason: &Reason) -> Result<Epoch> {
        let (text, reason) = (name.as_str(), reason.as_str());
        let values: [_; 2] = [(&text as _, Type::TEXT), (&reason as _, Type::TEXT)];
        let rows = self.write("force_release_lease", FORCE, &values).await?;
        let epoch = column(one(&rows)?, 0)?;
        self.watcher().wake(self.hub(), &Topic::Lease(name.clone()), Some(epoch));
        Epoch::new(epoch).map_err(|cause| damaged("lease_grant", cause))
    }

    async fn lease_history(&self, name: &LeaseName) -> Result<Vec<Forced>> {
        let text = name.as_str();
        let rows = self.read("lease_history", HISTORY, &[(&text, Type::TEXT)]).await?;
        let decode = |row| {
            let (at, from) = (column::<At>(row, 0)?.0, column(row, 2)?);
            let decoded = || {
                Ok(Forced {
                    at,
                    epoch: Epoch::new(column(row, 1)?)?,
                    from,
                    reason: Reason::new(column::<String>(row, 3)?)?,
                })
            };
            decoded().map_err(|cause| damaged("lease_forced", cause))
        };
        rows.iter().map(decode).collect()
    }

    async fn lease(&self, name: &LeaseName) -> Result<Option<LeaseStatus>> {
        let text = name.as_str();
        let rows = self.read("lease", STATES, &[(&Some(text), Type::TEXT)]).await?;
        rows.first().map(status).transpose()
    }

    async fn lease_status(&self) -> Result<Vec<LeaseStatus>> {
        let rows = self.read("lease_status", STATES, &[(&None::<&str>, Type::TEXT)]).await?;
        rows.iter().map(status).collect()
    }
}

impl PostgresStore {
    /// Acquires a lease; with how a new grant is given back.
    async fn acquire(self, request: &AcquireLease) -> Result<(Acquired, Option<GiveBack>)> {
        let AcquireLease { name, holder, ttl, nonce } = request;
        let (text, holder, ttl, nonce) =
            (name.as_str(), holder.as_str(), ttl.as_micros(), nonce.as_ref().map(Nonce::as_str));
        let values: [_; 4] =
            [(&text as _, Type::TEXT), (&holder as _, Type::TEXT), (&ttl as _, Type::INT8), (&nonce as _, Type::TEXT)];
        let rows = self.write_any("acquire_lease", ACQUIRE, &values).await?;
        let row = one(&rows)?;
        let epoch = || Epoch::new(column(row, 2)?).map_err(|cause| damaged("lease_grant", cause));
        let expires_at = || Ok(column::<At>(row, 4)?.0);
        let acquired = match column::<&str>(row, 0)? {
            "contended" => return Ok((Acquired::Contended, None)),
            "held" => {
                let (since, at) = (column::<At>(row, 5)?.0, column::<At>(row, 6)?.0);
                let holder =
                    HolderName::new(column::<String>(row, 3)?).map_err(|cause| damaged("lease_grant", cause))?;
                Acquired::Held { holder, epoch: epoch()?, since, expires_in: expires_at()?.since(at) }
            }
            "granted" => {
                let token = LeaseToken { name: name.clone(), epoch: epoch()? };
                let granted = Acquired::Granted { token: token.clone(), expires_at: expires_at()? };
                let give_back: GiveBack = Box::pin(async move { self.give_back(&token).await });
                return Ok((granted, column::<bool>(row, 7)?.then_some(give_back)));
            }
            other => {
                return Err(Error::new(
                    Kind::Internal,
                    format!("cannot understand the outcome `{other}` of an acquire"),
                ));
            }
        };
        Ok((acquired, None))
    }

    /// Gives back a grant that nobody heard of. If that cannot be done it expires.
    async fn give_back(&self, token: &LeaseToken) {
        if let Err(error) = self.release_lease(token).await {
            tracing::warn!(lease = %token.name, %error, "a grant whose caller is gone was not given back, and will expire");
        }
    }
}

/// Columns: name, epoch, holder, nonce, ttl in microseconds, since, expires_at.
fn status(row: &Row) -> Result<LeaseStatus> {
    let (holder, nonce) = (column::<Option<String>>(row, 2)?, column::<Option<String>>(row, 3)?);
    let (ttl, since, expires_at) = (column(row, 4)?, column::<Option<At>>(row, 5)?, column::<Option<At>>(row, 6)?);
    let decoded = || {
        let holding = match (holder, ttl, since, expires_at) {
            (Some(holder), Some(ttl), Some(At(since)), Some(At(expires_at))) => Some(Holding {
                holder: HolderName::new(holder)?,
                nonce: nonce.map(Nonce::new).transpose()?,
                ttl: Ttl::from_micros(ttl)?,
                since,
                expires_at,
            }),
            _ => None,
        };
        let state = LeaseState { epoch: Some(Epoch::new(column(row, 1)?)?), holding };
        Ok(LeaseStatus { name: LeaseName::new(column::<String>(row, 0)?)?, state })
    };
    decoded().map_err(|cause| damaged("lease_grant", cause))
}
