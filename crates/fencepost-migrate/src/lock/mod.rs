//! Locks that let one runner of migrations through. They know no ledger and no migration; what is done under a lock is others' business.

mod key;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use key::LockKey;
#[cfg(feature = "postgres")]
pub(crate) use postgres::SessionFence;
#[cfg(feature = "postgres")]
pub use postgres::{
    LeaseFence, LeaseHolder, LeaseSession, LockHolder, LockedSession, MigrationLease, MigrationLock, Patience,
};
#[cfg(feature = "sqlite")]
pub use sqlite::{FileLockHolder, SqliteMigrationLock};
