//! The migrator with the lock that lets one runner through, on PostgreSQL: every change is made under it, on its own session.

use std::pin::Pin;
use std::time::Duration;

use deadpool_postgres::Pool;
use fencepost_connect::Notice;
use fencepost_core::{Error, Kind, Reason, Result};
use tokio::sync::OwnedMutexGuard;
use tokio::sync::mpsc::Receiver;

use super::{Done, Migrator, OnPostgres, Repair, Status};
use crate::gate::Readiness;
use crate::import::{Imported, Source};
use crate::lock::{
    LeaseFence, LeaseHolder, LeaseSession, LockHolder, LockedSession, MigrationLease, MigrationLock, Patience,
    SessionFence,
};
use crate::plan::{Finding, Plan};
use crate::progress::{Listener, Told};
use crate::run::postgres::Beside;
use crate::wait::Pauses;

/// How long a look at the ledger may take.
const ANSWER: Duration = Duration::from_secs(15);

/// How long somebody who holds the lock and does not get on is waited for, unless told.
const PATIENCE: Duration = Duration::from_secs(60);

/// What keeps a second runner out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LockMode {
    /// An advisory lock of a session, which dies with it.
    #[default]
    Advisory,
    /// A fenced lease, which works through poolers in transaction mode.
    Lease,
}

#[derive(Debug)]
enum Lock {
    Advisory(MigrationLock),
    Lease(MigrationLease),
}

/// Migrations of a database of PostgreSQL, by one runner at a time.
///
/// ```
/// use fencepost_migrate::{LockMode, Migrations, Migrator, PostgresMigrator, Readiness, sql::Dialect};
/// # use fencepost_test_support::{PgServer, skip_or_fail};
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
/// # let database = server.database().await.unwrap();
/// # let url = database.url();
///
/// let files = [("0001_customer.sql", "create table customer (id bigint primary key);")];
/// let migrations = Migrations::of(files, Dialect::Postgres).unwrap();
/// let migrator = PostgresMigrator::at(&url, Migrator::new(migrations), LockMode::Advisory).unwrap();
///
/// assert_eq!(migrator.ready().await.unwrap(), Readiness::Never);
/// let done = migrator.up(None, &mut |event| println!("{event:?}")).await.unwrap();
/// assert_eq!(done.numbers, [1]);
/// assert_eq!(migrator.ready().await.unwrap(), Readiness::Ready { latest: Some(1) });
/// # });
/// ```
#[derive(Debug)]
pub struct PostgresMigrator {
    migrator: Migrator,
    lock: Lock,
    wait: Option<Duration>,
}

/// Ends when the lock is lost.
type Lost = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What is worked with under the lock.
struct Held {
    session: HeldSession,
    /// None when another run hears them.
    notices: Option<OwnedMutexGuard<Receiver<Notice>>>,
}

/// A session on which the lock is held, or under it.
enum HeldSession {
    Advisory(LockedSession, SessionFence),
    Lease(Box<LeaseSession>, LeaseFence),
}

impl PostgresMigrator {
    /// In the database of a URL. The lock has the name of the ledger's table.
    ///
    /// # Errors
    /// `invalid_input` for a bad URL.
    pub fn at(url: &str, migrator: Migrator, mode: LockMode) -> Result<Self> {
        let name = migrator.ledger.table();
        let lock = match mode {
            LockMode::Advisory => Lock::Advisory(MigrationLock::at(url, name)?),
            LockMode::Lease => Lock::Lease(lease(MigrationLease::at(url, name)?, &migrator)),
        };
        Ok(Self { migrator, lock, wait: None })
    }

    /// In the database of a pool, which needs at least two connections.
    ///
    /// # Errors
    /// None that a ledger's name leaves possible.
    pub fn over(pool: Pool, migrator: Migrator, mode: LockMode) -> Result<Self> {
        let name = migrator.ledger.table();
        let lock = match mode {
            LockMode::Advisory => Lock::Advisory(MigrationLock::new(pool, name)?),
            LockMode::Lease => Lock::Lease(lease(MigrationLease::new(pool, name)?, &migrator)),
        };
        Ok(Self { migrator, lock, wait: None })
    }

    /// What is run, and how.
    pub fn migrator(&self) -> &Migrator {
        &self.migrator
    }

    /// How long another runner is waited for in all. Unless told, for as long as it gets on; a lease, for as long as it is renewed.
    #[must_use]
    pub fn wait_for_lock(mut self, bound: Duration) -> Self {
        self.wait = Some(bound);
        self
    }

    /// Runs what is missing, up to a number or all of it.
    ///
    /// # Errors
    /// `locked` when another runner went on holding the lock; otherwise as [`OnPostgres::up`].
    pub async fn up(&self, to: Option<u64>, listener: Listener<'_>) -> Result<Done> {
        let (mut held, lost) = self.take(listener).await?;
        let outcome = unless(lost, self.on(&mut held, listener).up(to)).await;
        self.give_back(held, outcome).await
    }

    /// Undoes everything after a number.
    ///
    /// # Errors
    /// As [`Self::up`] and [`OnPostgres::down`].
    pub async fn down(&self, to: u64, listener: Listener<'_>) -> Result<Done> {
        let (mut held, lost) = self.take(listener).await?;
        let outcome = unless(lost, self.on(&mut held, listener).down(to)).await;
        self.give_back(held, outcome).await
    }

    /// Says that the database has everything up to a number already.
    ///
    /// # Errors
    /// As [`Self::up`] and [`OnPostgres::baseline`].
    pub async fn baseline(&self, number: u64, reason: &Reason, listener: Listener<'_>) -> Result<Vec<u64>> {
        let (mut held, lost) = self.take(listener).await?;
        let outcome = unless(lost, self.on(&mut held, listener).baseline(number, reason)).await;
        self.give_back(held, outcome).await
    }

    /// Changes the ledger by hand.
    ///
    /// # Errors
    /// As [`Self::up`] and [`OnPostgres::repair`].
    pub async fn repair(&self, repair: Repair, reason: &Reason, listener: Listener<'_>) -> Result<()> {
        let (mut held, lost) = self.take(listener).await?;
        let outcome = unless(lost, self.on(&mut held, listener).repair(repair, reason)).await;
        self.give_back(held, outcome).await
    }

    /// Takes over what the ledger of another tool says.
    ///
    /// # Errors
    /// As [`Self::up`] and [`OnPostgres::import`].
    pub async fn import(&self, source: Source, listener: Listener<'_>) -> Result<Imported> {
        let (mut held, lost) = self.take(listener).await?;
        let outcome = unless(lost, self.on(&mut held, listener).import(source)).await;
        self.give_back(held, outcome).await
    }

    /// How the database stands. Takes no lock and changes nothing.
    ///
    /// # Errors
    /// As [`Migrator::status_of`].
    pub async fn status(&self) -> Result<Status> {
        self.within(async {
            let session = self.another().await?;
            let status = self.migrator.status_of(&session).await?;
            session.give_back();
            Ok(status)
        })
        .await
    }

    /// Whether what was applied is what the files say. Takes no lock and changes nothing.
    ///
    /// # Errors
    /// As [`Migrator::verify_of`].
    pub async fn verify(&self) -> Result<Vec<Finding>> {
        self.within(async {
            let session = self.another().await?;
            let findings = self.migrator.verify_of(&session).await?;
            session.give_back();
            Ok(findings)
        })
        .await
    }

    /// What a run would do. Takes no lock and changes nothing.
    ///
    /// # Errors
    /// As [`Migrator::plan_of`].
    pub async fn plan(&self, to: Option<u64>) -> Result<Plan<'_>> {
        self.within(async {
            let session = self.another().await?;
            let plan = self.migrator.plan_of(&session, to).await?;
            session.give_back();
            Ok(plan)
        })
        .await
    }

    /// Whether the database is ready. Takes no lock and changes nothing.
    ///
    /// # Errors
    /// As [`Migrator::ready_of`].
    pub async fn ready(&self) -> Result<Readiness> {
        self.within(async {
            let session = self.another().await?;
            let readiness = self.migrator.ready_of(&session).await?;
            session.give_back();
            Ok(readiness)
        })
        .await
    }

    /// Asks until the database is ready, somebody has to look, or `within` is over; the last answer. Zero asks once. A server that cannot
    /// be reached may come back within the bound.
    ///
    /// # Errors
    /// The last error when none of the answers came.
    pub async fn wait(&self, within: Duration) -> Result<Readiness> {
        let mut pauses = Pauses::within(within);
        loop {
            let answer = self.ready().await;
            match pauses.after(&answer)? {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return answer,
            }
        }
    }

    /// Takes the lock, and a session under it; and what ends when the lock is lost.
    async fn take(&self, listener: Listener<'_>) -> Result<(Held, Lost)> {
        let mut told = Told::default();
        let is_taken = match &self.lock {
            Lock::Advisory(lock) => {
                let mut patience = Patience::new(PATIENCE);
                let go_on = |holder: Option<&LockHolder>| {
                    if let Some(holder) = holder {
                        told.tell(holder.to_string(), listener);
                    }
                    self.wait.is_some() || patience.lasts(holder)
                };
                lock.acquire_while_within(self.wait.unwrap_or(Duration::MAX), go_on).await?
            }
            Lock::Lease(lock) => {
                let go_on = |holder: Option<&LeaseHolder>| {
                    if let Some(holder) = holder {
                        told.tell(format!("{} has the lease", holder.holder), listener);
                    }
                    true
                };
                lock.acquire_while_within(self.wait.unwrap_or(Duration::MAX), go_on).await?
            }
        };
        if !is_taken {
            return Err(self.locked().await);
        }
        let (session, notices, lost): (_, _, Lost) = match &self.lock {
            Lock::Advisory(lock) => {
                let session = HeldSession::Advisory(lock.session().await?, lock.fence());
                (session, lock.notices(), Box::pin(lock.lost()))
            }
            Lock::Lease(lock) => {
                let fence = lock.fence().ok_or_else(lost_lock)?;
                let session = HeldSession::Lease(Box::new(lock.session().await?), fence);
                (session, lock.notices(), Box::pin(lock.lost()))
            }
        };
        let mut notices = notices.and_then(|notices| notices.try_lock_owned().ok());
        // What was said before is about the lock.
        while notices.as_mut().is_some_and(|notices| notices.try_recv().is_ok()) {}
        Ok((Held { session, notices }, lost))
    }

    fn on<'a>(&'a self, held: &'a mut Held, listener: Listener<'a>) -> OnPostgres<'a> {
        let beside: &dyn Beside = match &self.lock {
            Lock::Advisory(lock) => lock,
            Lock::Lease(lock) => lock,
        };
        let on = match &mut held.session {
            HeldSession::Advisory(session, fence) => self.migrator.on_postgres(session, listener).fenced(fence),
            HeldSession::Lease(session, fence) => self.migrator.on_postgres(session, listener).unpinned().fenced(fence),
        };
        match &mut held.notices {
            Some(notices) => on.watched(beside).hearing(notices),
            None => on.watched(beside),
        }
    }

    /// Gives the lock back, whatever came of the work. What cannot be given back ends by itself.
    async fn give_back<T>(&self, held: Held, outcome: Result<T>) -> Result<T> {
        drop(held);
        let released = match &self.lock {
            Lock::Advisory(lock) => lock.release().await,
            Lock::Lease(lock) => lock.release().await,
        };
        if let Err(error) = released {
            tracing::warn!(%error, "the migration lock was not given back, and its session was ended");
        }
        outcome
    }

    /// A look, in bounded time: a pooler may let in and not answer, and somebody may have the ledger locked.
    async fn within<T>(&self, look: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::time::timeout(ANSWER, look).await.unwrap_or_else(|_| {
            Err(Error::new(Kind::Unavailable, "cannot read the ledger: the server did not answer in time")
                .coded("timeout")
                .hinted("see whether a pooler has connections left, and whether somebody has the ledger locked"))
        })
    }

    async fn another(&self) -> Result<LeaseSession> {
        match &self.lock {
            Lock::Advisory(lock) => lock.another().await,
            Lock::Lease(lock) => lock.session().await,
        }
    }

    async fn locked(&self) -> Error {
        let refused = |who: &str| {
            Error::new(Kind::Busy, format!("cannot run the migrations: another runner holds the lock{who}"))
                .coded("locked")
        };
        match &self.lock {
            Lock::Advisory(lock) => match lock.holder().await.ok().flatten() {
                Some(holder) => refused(&format!(": {holder}"))
                    .with("pids", holder.pid)
                    .with("query", holder.query.clone().unwrap_or_default())
                    .hinted(
                        "wait until it is done; `pg_terminate_backend` of its process ends it, and the lock with it",
                    ),
                None => refused("").hinted("wait until it is done"),
            },
            Lock::Lease(lock) => match lock.holder().await.ok().flatten() {
                Some(holder) => {
                    refused(&format!(": {}", holder.holder)).hinted("wait until it is done, or until its lease ends")
                }
                None => refused("").hinted("wait until it is done"),
            },
        }
    }
}

/// The lease is kept where the ledger is.
fn lease(lease: MigrationLease, migrator: &Migrator) -> MigrationLease {
    match migrator.ledger.schema() {
        Some(schema) => lease.in_schema(schema),
        None => lease,
    }
}

/// Does the work, unless the lock is lost before its end.
async fn unless<T>(lost: impl Future<Output = ()>, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        biased;
        outcome = work => outcome,
        () = lost => Err(lost_lock()),
    }
}

fn lost_lock() -> Error {
    Error::new(Kind::Fenced, "cannot go on with the migrations: the lock was lost")
        .coded("lock_lost")
        .hinted("the ledger says how far it came; run again, and what is missing is done")
}
