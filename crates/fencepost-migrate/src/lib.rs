//! Migrations: numbered SQL files, checked before anything is executed, run by one runner at a time, recorded in a ledger.
//!
//! A folder holds files named `NNNN_name.sql`, and `NNNN_name.down.sql` where a way back is wanted. [`Migrations::read`] reads all of
//! them and refuses the whole folder when one of them cannot be right, with every problem and its place:
//!
//! ```
//! use fencepost_migrate::{Migrations, sql::Dialect};
//!
//! let files = [("0001_customer.sql", "create table customer (id bigint);\ninsert into customer values ('1);\n")];
//! let error = Migrations::of(files, Dialect::Postgres).unwrap_err();
//! assert_eq!(error.code(), "migration_invalid");
//! assert_eq!(error.to_string(), "cannot use the migrations: 0001_customer.sql:2:30: this string has no end");
//! ```
//!
//! [`PostgresMigrator`] runs them on PostgreSQL under a lock. A file is one transaction with its row of the ledger in it; one that begins with
//! `-- fencepost: no-transaction` is run statement by statement and gone on with where it failed. [`SqliteMigrator`] does the same on a file of
//! SQLite. Who has a lock of his own runs on his own connection ([`Migrator::on_sqlite`], [`Migrator::on_postgres`]):
//!
//! ```
//! use fencepost_migrate::{Migrations, Migrator, Readiness, rusqlite::Connection, sql::Dialect};
//!
//! let files = [("0001_customer.sql", "create table customer (id integer primary key);")];
//! let migrator = Migrator::new(Migrations::of(files, Dialect::Sqlite).unwrap());
//! let mut connection = Connection::open_in_memory().unwrap();
//! assert_eq!(migrator.ready_in(&connection).unwrap(), Readiness::Never);
//!
//! let done = migrator.on_sqlite(&mut connection, &mut |event| println!("{event:?}")).up(None).unwrap();
//! assert_eq!(done.numbers, [1]);
//! assert_eq!(migrator.ready_in(&connection).unwrap(), Readiness::Ready { latest: Some(1) });
//! ```
//!
//! A library whose tables live in the databases of others runs its set within one transaction of its own
//! ([`Migrator::within_postgres`], [`Migrator::within_sqlite`]): all of it is there with the commit, or nothing.

pub mod sql;

mod diagnostic;
mod failure;
mod file;
mod gate;
mod hash;
mod import;
mod ledger;
mod lock;
mod migrator;
mod plan;
mod progress;
mod run;
mod set;
mod wait;

#[cfg(feature = "postgres")]
pub use deadpool_postgres;
pub use diagnostic::{Diagnostic, Place, Problems};
pub use failure::MigrationFailure;
#[cfg(feature = "postgres")]
pub use fencepost_connect::Notice;
pub use file::{Direction, Migration, MigrationOptions};
pub use gate::{Readiness, Running};
pub use hash::{Changed, Hashes};
pub use import::{Imported, Source};
pub use ledger::{Entry, FailedAt, LedgerName, State};
pub use lock::LockKey;
#[cfg(feature = "sqlite")]
pub use lock::{FileLockHolder, SqliteMigrationLock};
#[cfg(feature = "postgres")]
pub use lock::{
    LeaseFence, LeaseHolder, LeaseSession, LockHolder, LockedSession, MigrationLease, MigrationLock, Patience,
};
pub use migrator::{Done, Migrator, Repair, Status};
#[cfg(feature = "postgres")]
pub use migrator::{LockMode, OnPostgres, PostgresMigrator, WithinPostgres};
#[cfg(feature = "sqlite")]
pub use migrator::{OnSqlite, SqliteMigrator, WithinSqlite};
pub use plan::{Because, Finding, Plan, Step};
pub use progress::{Blocker, Event, Listener};
pub use run::RunOptions;
#[cfg(feature = "postgres")]
pub use run::postgres::{Beside, Fence};
#[cfg(feature = "sqlite")]
pub use rusqlite;
pub use set::Migrations;
#[cfg(feature = "postgres")]
pub use tokio_postgres;
