//! From `--store` and the place of the files to a migrator of either engine.

use std::path::PathBuf;
use std::time::Duration;

use fencepost::migrate::sql::Dialect;
use fencepost::migrate::{
    Done, Imported, LedgerName, Listener, LockMode, Migrations, Migrator, PostgresMigrator, Readiness, Repair,
    RunOptions, Source, SqliteMigrator, Status,
};
use fencepost::migrate::{Finding, Plan};
use fencepost::{Error, Kind, Reason, Result};

use crate::cli::{LockChoice, MigrateLockArgs, MigratePlaceArgs};
use crate::text::parse_duration;

const SPANS: &str = "such as `30s`, `5m` or `0`";

/// A database to migrate, whatever it is.
#[derive(Debug)]
pub enum Target {
    Postgres(Box<PostgresMigrator>),
    Sqlite(Box<SqliteMigrator>),
}

/// What a URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    Postgres,
    Sqlite(PathBuf),
}

impl Database {
    /// # Errors
    /// `invalid_input` for what is neither, `unsupported` for a store in memory.
    pub fn of(url: &str) -> Result<Self> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Ok(Self::Postgres);
        }
        if url == "mem:" {
            return Err(Error::new(Kind::Unsupported, "cannot migrate a store in memory: it ends with this process")
                .with("argument", "store")
                .hinted("name a database by `--store sqlite:FILE` or `--store postgres://…`"));
        }
        match url.strip_prefix("sqlite:").filter(|path| !path.is_empty()) {
            Some(path) => Ok(Self::Sqlite(path.into())),
            // SECURITY: it is not shown, since it may hold a password.
            None => Err(Error::invalid(
                "cannot use the url of the database: it is of no kind that is known",
                "use `sqlite:FILE` or `postgres://USER@HOST/DATABASE`",
            )
            .with("argument", "store")),
        }
    }

    /// How its SQL is read.
    pub fn dialect(&self) -> Dialect {
        match self {
            Self::Postgres => Dialect::Postgres,
            Self::Sqlite(_) => Dialect::Sqlite,
        }
    }
}

impl Target {
    /// For what takes no lock.
    pub fn reading(url: &str, place: &MigratePlaceArgs) -> Result<Self> {
        Self::new(url, place, LockMode::Advisory, None, RunOptions::default())
    }

    /// For what changes something.
    pub fn locking(url: &str, place: &MigratePlaceArgs, lock: &MigrateLockArgs, options: RunOptions) -> Result<Self> {
        let mode = match lock.lock {
            LockChoice::Advisory => LockMode::Advisory,
            LockChoice::Lease => LockMode::Lease,
        };
        let wait = lock.wait.as_deref().map(|text| parse_duration(text, "wait", "a bound for waiting", SPANS));
        Self::new(url, place, mode, wait.transpose()?, options)
    }

    fn new(
        url: &str,
        place: &MigratePlaceArgs,
        mode: LockMode,
        wait: Option<Duration>,
        options: RunOptions,
    ) -> Result<Self> {
        let database = Database::of(url)?;
        let mut ledger = place.ledger.as_deref().map(LedgerName::new).transpose()?.unwrap_or_default();
        if let Some(schema) = &place.schema {
            ledger = ledger.within(schema.as_str())?;
        }
        let migrations = Migrations::read(&place.dir, database.dialect())?;
        let migrator = Migrator::new(migrations).ledger(ledger).options(options);
        Ok(match database {
            Database::Postgres => {
                let migrator = PostgresMigrator::at(url, migrator, mode)?;
                Self::Postgres(Box::new(match wait {
                    Some(bound) => migrator.wait_for_lock(bound),
                    None => migrator,
                }))
            }
            Database::Sqlite(path) => {
                let migrator = SqliteMigrator::at(path, migrator)?;
                Self::Sqlite(Box::new(match wait {
                    Some(bound) => migrator.wait_for_lock(bound),
                    None => migrator,
                }))
            }
        })
    }

    pub async fn up(&self, to: Option<u64>, listener: Listener<'_>) -> Result<Done> {
        match self {
            Self::Postgres(migrator) => migrator.up(to, listener).await,
            Self::Sqlite(migrator) => migrator.up(to, listener).await,
        }
    }

    pub async fn down(&self, to: u64, listener: Listener<'_>) -> Result<Done> {
        match self {
            Self::Postgres(migrator) => migrator.down(to, listener).await,
            Self::Sqlite(migrator) => migrator.down(to, listener).await,
        }
    }

    pub async fn baseline(&self, number: u64, reason: &Reason, listener: Listener<'_>) -> Result<Vec<u64>> {
        match self {
            Self::Postgres(migrator) => migrator.baseline(number, reason, listener).await,
            Self::Sqlite(migrator) => migrator.baseline(number, reason, listener).await,
        }
    }

    pub async fn repair(&self, repair: Repair, reason: &Reason, listener: Listener<'_>) -> Result<()> {
        match self {
            Self::Postgres(migrator) => migrator.repair(repair, reason, listener).await,
            Self::Sqlite(migrator) => migrator.repair(repair, reason, listener).await,
        }
    }

    pub async fn import(&self, source: Source, listener: Listener<'_>) -> Result<Imported> {
        match self {
            Self::Postgres(migrator) => migrator.import(source, listener).await,
            Self::Sqlite(migrator) => migrator.import(source, listener).await,
        }
    }

    pub async fn status(&self) -> Result<Status> {
        match self {
            Self::Postgres(migrator) => migrator.status().await,
            Self::Sqlite(migrator) => migrator.status(),
        }
    }

    /// What a way back would undo, or why it would not.
    pub async fn way_back(&self, to: u64) -> Result<Vec<u64>> {
        let migrator = match self {
            Self::Postgres(migrator) => migrator.migrator(),
            Self::Sqlite(migrator) => migrator.migrator(),
        };
        migrator.way_back(&self.status().await?, to)
    }

    pub async fn verify(&self) -> Result<Vec<Finding>> {
        match self {
            Self::Postgres(migrator) => migrator.verify().await,
            Self::Sqlite(migrator) => migrator.verify(),
        }
    }

    pub async fn plan(&self, to: Option<u64>) -> Result<Plan<'_>> {
        match self {
            Self::Postgres(migrator) => migrator.plan(to).await,
            Self::Sqlite(migrator) => migrator.plan(to),
        }
    }

    pub async fn wait(&self, within: Duration) -> Result<Readiness> {
        match self {
            Self::Postgres(migrator) => migrator.wait(within).await,
            Self::Sqlite(migrator) => migrator.wait(within).await,
        }
    }
}

/// A span as it was written on the command line.
pub fn span(text: &str, argument: &'static str, what: &str) -> Result<Duration> {
    parse_duration(text, argument, what, SPANS)
}
