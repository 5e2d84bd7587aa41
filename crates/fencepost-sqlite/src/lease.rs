//! Leases: load the row under the write lock, let the transition table judge, store what it returned. The lock is the whole file's,
//! so no lease is `Contended`: a file that stays locked is `busy`.

use async_trait::async_trait;
use fencepost_core::lease::{Call, Holding, LeaseState, Outcome, REMEMBERED, Request, step};
use fencepost_core::{
    AcquireLease, Acquired, Epoch, Error, Forced, HolderName, Kind, LeaseName, LeaseStatus, LeaseToken, Leases, Nonce,
    Reason, Release, Renewal, Result, Timestamp, Topic, Ttl,
};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::error::driver_error;
use crate::forced::{self, Subject};
use crate::grant::GiveBack;
use crate::state::{Group, damaged, recorded};
use crate::store::SqliteStore;

#[async_trait]
impl Leases for SqliteStore {
    async fn acquire_lease(&self, request: &AcquireLease) -> Result<Acquired> {
        let request = request.clone();
        let (acquired, _) =
            self.transact_granting("acquire_lease", undelivered, move |group| acquire(group, &request)).await?;
        Ok(acquired)
    }

    async fn renew_lease(&self, token: &LeaseToken, ttl: Option<Ttl>) -> Result<Renewal> {
        let token = token.clone();
        self.transact("renew_lease", move |group| renew(group, &token, ttl)).await
    }

    async fn release_lease(&self, token: &LeaseToken) -> Result<Release> {
        let token = token.clone();
        self.transact("release_lease", move |group| {
            let epoch = token.epoch;
            Ok(match judge(group, &token.name, &Call::Release { epoch })? {
                Outcome::Released => Release::Released,
                _ => Release::NotHeld,
            })
        })
        .await
    }

    async fn force_release_lease(&self, name: &LeaseName, reason: &Reason) -> Result<Epoch> {
        let (name, reason) = (name.clone(), reason.clone());
        self.transact("force_release_lease", move |group| force(group, &name, &reason)).await
    }

    async fn lease_history(&self, name: &LeaseName) -> Result<Vec<Forced>> {
        let name = name.clone();
        self.read("lease_history", move |snapshot| {
            let found = forced::list(snapshot, Subject::Lease(&name))?;
            Ok(found.into_iter().map(|(_, forced)| forced).collect())
        })
        .await
    }

    async fn lease(&self, name: &LeaseName) -> Result<Option<LeaseStatus>> {
        let name = name.clone();
        self.read("lease", move |snapshot| {
            let found = find(snapshot, &name)?;
            Ok(found.map(|state| LeaseStatus { name, state }))
        })
        .await
    }

    async fn lease_status(&self) -> Result<Vec<LeaseStatus>> {
        self.read("lease_status", |snapshot| {
            let mut statement = snapshot.prepare_cached(include_str!("../sql/lease/list.sql")).map_err(driver_error)?;
            let mut rows = statement.query([]).map_err(driver_error)?;
            let mut found = Vec::new();
            while let Some(row) = rows.next().map_err(driver_error)? {
                let name = row.get::<_, String>(6).map_err(driver_error)?;
                let name = LeaseName::new(name).map_err(|cause| damaged("fencepost_lease", cause))?;
                found.push(LeaseStatus { name, state: decode(row)? });
            }
            Ok(found)
        })
        .await
    }
}

/// How a grant is given back whose caller is gone. One that was stored before is somebody's already.
fn undelivered((acquired, is_new): (Acquired, bool)) -> Option<GiveBack> {
    let Acquired::Granted { token, .. } = acquired else { return None };
    let give_back =
        move |group: &mut Group<'_>| judge(group, &token.name, &Call::Release { epoch: token.epoch }).map(drop);
    is_new.then(|| Box::new(give_back) as GiveBack)
}

/// Acquires a lease; also whether the grant is a new one.
fn acquire(group: &mut Group<'_>, request: &AcquireLease) -> Result<(Acquired, bool)> {
    let now = group.now()?;
    let state = load(group.connection(), &request.name)?;
    let next = group.next_epoch(state.epoch, now)?;
    let AcquireLease { holder, ttl, nonce, .. } = request;
    let call = Call::Acquire(Request { holder, nonce: nonce.as_ref(), ttl: *ttl, epoch: next });
    let outcome = judge_loaded(group, &request.name, &state, &call, now)?;
    // What is answered is what is stored now: the new grant, the stored one, or somebody else's.
    let state = load(group.connection(), &request.name)?;
    let (Some(epoch), Some(holding)) = (state.epoch, state.holding) else {
        return Err(Error::new(
            Kind::Internal,
            format!("cannot answer for the lease `{}`: nobody holds it", request.name),
        ));
    };
    let acquired = match outcome {
        Outcome::Granted => Acquired::Granted {
            token: LeaseToken { name: request.name.clone(), epoch },
            expires_at: holding.expires_at,
        },
        _ => Acquired::Held {
            holder: holding.holder,
            epoch,
            since: holding.since,
            expires_in: holding.expires_at.since(now),
        },
    };
    Ok((acquired, epoch == next))
}

impl SqliteStore {
    /// Forgets free leases that nobody was granted for long. Returns how many steps that took: 0 or 1.
    pub(crate) async fn forget_leases(&self) -> Result<u64> {
        let shared = self.shared().clone();
        let since = move |now: Timestamp| now.as_micros() - REMEMBERED.as_micros() as i64;
        let any: bool = self
            .read("maintain", move |snapshot| {
                let now = shared.clock.now(recorded(snapshot)?);
                snapshot
                    .prepare_cached(include_str!("../sql/lease/forgettable.sql"))
                    .and_then(|mut statement| statement.query_row([since(now)], |row| row.get(0)))
                    .map_err(driver_error)
            })
            .await?;
        if !any {
            return Ok(0);
        }
        self.transact("maintain", move |group| {
            let since = since(group.now()?);
            for sql in [include_str!("../sql/lease/forget_record.sql"), include_str!("../sql/lease/forget.sql")] {
                group
                    .connection()
                    .prepare_cached(sql)
                    .and_then(|mut statement| statement.execute([since]))
                    .map_err(driver_error)?;
            }
            Ok(1)
        })
        .await
    }
}

fn force(group: &mut Group<'_>, name: &LeaseName, reason: &Reason) -> Result<Epoch> {
    let at = group.now()?;
    let state = load(group.connection(), name)?;
    let epoch = group.next_epoch(state.epoch, at)?;
    judge_loaded(group, name, &state, &Call::ForceRelease { epoch }, at)?;
    let from = state.holding.map(|holding| holding.holder.to_string());
    let forced = Forced { at, epoch, from, reason: reason.clone() };
    forced::record(group.connection(), Subject::Lease(name), &forced)?;
    Ok(epoch)
}

/// Guards a caller's transaction: under the write lock nobody else is granted the lease before it ends.
pub(crate) fn guard(group: &mut Group<'_>, token: &LeaseToken) -> Result<()> {
    let now = group.now()?;
    let state = load(group.connection(), &token.name)?;
    match step(&state, &Call::Guard { epoch: token.epoch }, now).outcome {
        Outcome::Guarded => Ok(()),
        _ => Err(token.fenced(state.holding.and(state.epoch))),
    }
}

pub(crate) fn renew(group: &mut Group<'_>, token: &LeaseToken, ttl: Option<Ttl>) -> Result<Renewal> {
    Ok(match judge(group, &token.name, &Call::Renew { epoch: token.epoch, ttl })? {
        Outcome::Renewed => Renewal::Held,
        _ => Renewal::Lost,
    })
}

fn judge(group: &mut Group<'_>, name: &LeaseName, call: &Call<'_>) -> Result<Outcome> {
    let now = group.now()?;
    let state = load(group.connection(), name)?;
    judge_loaded(group, name, &state, call, now)
}

fn judge_loaded(
    group: &mut Group<'_>,
    name: &LeaseName,
    state: &LeaseState,
    call: &Call<'_>,
    now: Timestamp,
) -> Result<Outcome> {
    let judged = step(state, call, now);
    if let Some(next) = &judged.next {
        store(group.connection(), name, next)?;
        group.record(now)?;
        if let (Call::Acquire(_) | Call::ForceRelease { .. }, Some(epoch)) = (call, next.epoch) {
            group.granted(epoch)?;
        }
        if next.holding.is_none() {
            group.wake(Topic::Lease(name.clone()));
        }
    }
    Ok(judged.outcome)
}

/// A lease's state; one that nobody ever acquired is free.
fn load(connection: &Connection, name: &LeaseName) -> Result<LeaseState> {
    find(connection, name).map(Option::unwrap_or_default)
}

fn find(connection: &Connection, name: &LeaseName) -> Result<Option<LeaseState>> {
    let mut statement = connection.prepare_cached(include_str!("../sql/lease/load.sql")).map_err(driver_error)?;
    let found = statement.query_row([name.as_str()], |row| Ok(decode(row))).optional().map_err(driver_error)?;
    found.transpose()
}

fn store(connection: &Connection, name: &LeaseName, state: &LeaseState) -> Result<()> {
    let holding = state.holding.as_ref();
    connection
        .prepare_cached(include_str!("../sql/lease/store.sql"))
        .and_then(|mut statement| {
            statement.execute((
                name.as_str(),
                state.epoch.map(Epoch::get),
                holding.map(|holding| holding.holder.as_str()),
                holding.and_then(|holding| holding.nonce.as_ref()).map(Nonce::as_str),
                holding.map(|holding| holding.ttl.as_micros()),
                holding.map(|holding| holding.since.as_micros()),
                holding.map(|holding| holding.expires_at.as_micros()),
            ))
        })
        .map(drop)
        .map_err(driver_error)
}

/// Columns: epoch, holder, nonce, ttl, since, expires_at.
fn decode(row: &Row<'_>) -> Result<LeaseState> {
    type Columns = (i64, Option<String>, Option<String>, Option<i64>, Option<i64>, Option<i64>);
    let columns: rusqlite::Result<Columns> =
        (|| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)))();
    let (epoch, holder, nonce, ttl, since, expires_at) = columns.map_err(driver_error)?;
    let decoded = || {
        let holding = match (holder, ttl, since, expires_at) {
            (Some(holder), Some(ttl), Some(since), Some(expires_at)) => Some(Holding {
                holder: HolderName::new(holder)?,
                nonce: nonce.map(Nonce::new).transpose()?,
                ttl: Ttl::from_micros(ttl)?,
                since: Timestamp::from_micros(since),
                expires_at: Timestamp::from_micros(expires_at),
            }),
            _ => None,
        };
        Ok(LeaseState { epoch: Some(Epoch::new(epoch)?), holding })
    };
    decoded().map_err(|cause| damaged("fencepost_lease", cause))
}
