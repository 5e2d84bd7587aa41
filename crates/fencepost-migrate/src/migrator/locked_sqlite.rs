//! The migrator with the lock that lets one runner through, on a file of SQLite: every change is made under it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost_core::{Error, Kind, Reason, Result};
use rusqlite::{Connection, OpenFlags};

use super::{Done, Migrator, OnSqlite, Repair, Status};
use crate::gate::Readiness;
use crate::import::{Imported, Source};
use crate::ledger::sqlite::failed;
use crate::lock::{FileLockHolder, SqliteMigrationLock};
use crate::plan::{Finding, Plan};
use crate::progress::{Listener, Told};
use crate::wait::Pauses;

/// Migrations of a file of SQLite, by one runner at a time. While one runs its thread is busy with it.
///
/// ```
/// use fencepost_migrate::{Migrations, Migrator, Readiness, SqliteMigrator, sql::Dialect};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("shop.db");
/// let files = [("0001_customer.sql", "create table customer (id integer primary key);")];
/// let migrations = Migrations::of(files, Dialect::Sqlite).unwrap();
/// let migrator = SqliteMigrator::at(&file, Migrator::new(migrations)).unwrap();
///
/// let done = migrator.up(None, &mut |event| println!("{event:?}")).await.unwrap();
/// assert_eq!(done.numbers, [1]);
/// assert_eq!(migrator.ready().unwrap(), Readiness::Ready { latest: Some(1) });
/// # });
/// ```
#[derive(Debug)]
pub struct SqliteMigrator {
    migrator: Migrator,
    file: PathBuf,
    lock: SqliteMigrationLock,
    wait: Option<Duration>,
}

impl SqliteMigrator {
    /// On a file, which the first change makes. The lock has the name of the ledger's table.
    ///
    /// # Errors
    /// As those of [`SqliteMigrationLock::new`].
    pub fn at(file: impl AsRef<Path>, migrator: Migrator) -> Result<Self> {
        let (file, name) = (file.as_ref().to_path_buf(), migrator.ledger.table());
        let lock = SqliteMigrationLock::new(&file, name)?;
        Ok(Self { migrator, file, lock, wait: None })
    }

    /// What is run, and how.
    pub fn migrator(&self) -> &Migrator {
        &self.migrator
    }

    /// How long another runner is waited for; unless told, until it is done.
    #[must_use]
    pub fn wait_for_lock(mut self, bound: Duration) -> Self {
        self.wait = Some(bound);
        self
    }

    /// Runs what is missing, up to a number or all of it.
    ///
    /// # Errors
    /// `locked` when another runner went on holding the lock; otherwise as [`OnSqlite::up`](crate::OnSqlite::up).
    pub async fn up(&self, to: Option<u64>, listener: Listener<'_>) -> Result<Done> {
        self.locked(true, listener, |mut on| on.up(to)).await
    }

    /// Undoes everything after a number.
    ///
    /// # Errors
    /// As [`Self::up`] and [`OnSqlite::down`](crate::OnSqlite::down).
    pub async fn down(&self, to: u64, listener: Listener<'_>) -> Result<Done> {
        self.locked(false, listener, |mut on| on.down(to)).await
    }

    /// Says that the database has everything up to a number already.
    ///
    /// # Errors
    /// As [`Self::up`] and [`OnSqlite::baseline`](crate::OnSqlite::baseline).
    pub async fn baseline(&self, number: u64, reason: &Reason, listener: Listener<'_>) -> Result<Vec<u64>> {
        self.locked(false, listener, |mut on| on.baseline(number, reason)).await
    }

    /// Changes the ledger by hand.
    ///
    /// # Errors
    /// As [`Self::up`] and [`OnSqlite::repair`](crate::OnSqlite::repair).
    pub async fn repair(&self, repair: Repair, reason: &Reason, listener: Listener<'_>) -> Result<()> {
        self.locked(false, listener, |mut on| on.repair(repair, reason)).await
    }

    /// Takes over what the ledger of another tool says.
    ///
    /// # Errors
    /// As [`Self::up`] and [`OnSqlite::import`](crate::OnSqlite::import).
    pub async fn import(&self, source: Source, listener: Listener<'_>) -> Result<Imported> {
        self.locked(false, listener, |mut on| on.import(source)).await
    }

    /// How the database stands. Changes nothing, as do those that follow.
    ///
    /// # Errors
    /// As [`Migrator::status_in`].
    pub fn status(&self) -> Result<Status> {
        self.migrator.status_in(&self.look()?)
    }

    /// Whether what was applied is what the files say.
    ///
    /// # Errors
    /// As [`Migrator::verify_in`].
    pub fn verify(&self) -> Result<Vec<Finding>> {
        self.migrator.verify_in(&self.look()?)
    }

    /// What a run would do.
    ///
    /// # Errors
    /// As [`Migrator::plan_in`].
    pub fn plan(&self, to: Option<u64>) -> Result<Plan<'_>> {
        self.migrator.plan_in(&self.look()?, to)
    }

    /// Whether the database is ready.
    ///
    /// # Errors
    /// As [`Migrator::ready_in`].
    pub fn ready(&self) -> Result<Readiness> {
        self.migrator.ready_in(&self.look()?)
    }

    /// Asks until the database is ready, somebody has to look, or `within` is over; the last answer. Zero asks once.
    ///
    /// # Errors
    /// The last error when none of the answers came.
    pub async fn wait(&self, within: Duration) -> Result<Readiness> {
        let mut pauses = Pauses::within(within);
        loop {
            let answer = self.ready();
            match pauses.after(&answer)? {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return answer,
            }
        }
    }

    /// Does the work under the lock. Only what runs migrations makes a file where there is none.
    async fn locked<T>(
        &self,
        makes: bool,
        listener: Listener<'_>,
        work: impl FnOnce(OnSqlite<'_>) -> Result<T>,
    ) -> Result<T> {
        if !makes && !self.file.exists() {
            return Err(Error::new(
                Kind::NotFound,
                format!("cannot use `{}`: there is no such file", self.file.display()),
            )
            .coded("no_store")
            .hinted("`fencepost migrate up` makes it; check the path otherwise"));
        }
        let mut told = Told::default();
        let go_on = |holder: Option<&FileLockHolder>| {
            if let Some(holder) = holder {
                told.tell(holder.to_string(), listener);
            }
            true
        };
        let is_taken = self.lock.acquire_while_within(self.wait.unwrap_or(Duration::MAX), go_on).await?;
        if !is_taken {
            let holder = self.lock.holder().ok().flatten();
            let who =
                holder.as_ref().map_or_else(|| "another runner".into(), |holder| format!("process {}", holder.pid));
            let error = Error::new(Kind::Busy, format!("cannot run the migrations: {who} holds the lock"))
                .coded("locked")
                .hinted("wait until it is done, or end it: the lock ends with its process");
            return Err(match holder {
                Some(holder) => error.with("pids", holder.pid),
                None => error,
            });
        }
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, makes);
        let opened =
            Connection::open_with_flags(&self.file, flags).map_err(|error| failed("cannot open the file", error));
        let outcome = opened.and_then(|mut connection| work(self.migrator.on_sqlite(&mut connection, listener)));
        let released = self.lock.release().await;
        outcome.and_then(|done| released.map(|_| done))
    }

    /// A connection that changes nothing. Where no file is, nothing was ever applied, and none is made.
    fn look(&self) -> Result<Connection> {
        let opened = if self.file.exists() {
            Connection::open_with_flags(&self.file, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        } else {
            Connection::open_in_memory()
        };
        opened.map_err(|error| failed("cannot open the file", error))
    }
}
