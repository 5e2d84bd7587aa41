//! Runs what a plan says. What is common to the databases is here; how each does it is below.

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::time::Duration;

use fencepost_core::{Result, random_u64};

use crate::file::Migration;

/// How statements are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOptions {
    /// How long a statement waits for locks, unless its file says otherwise. An index that is built concurrently waits for as long as
    /// it takes.
    pub lock_timeout: Duration,
    /// How often a transaction that met a lock is tried before that is a failure. Between two there is a pause of at most the lock
    /// timeout, jittered.
    pub attempts: u32,
    /// How long a statement may take.
    pub statement_timeout: Option<Duration>,
    /// How long the concurrent build of an index may take.
    pub index_timeout: Option<Duration>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { lock_timeout: Duration::from_secs(5), attempts: 10, statement_timeout: None, index_timeout: None }
    }
}

impl RunOptions {
    pub(crate) fn lock_timeout_of(&self, migration: &Migration) -> Duration {
        migration.options.lock_timeout.unwrap_or(self.lock_timeout)
    }
}

/// How long to wait before what met a lock is tried again: between a tenth of `most` and all of it.
pub(crate) fn jittered(most: Duration) -> Result<Duration> {
    let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
    let least = most / 10;
    Ok(Duration::from_micros(least + random_u64()? % (most - least).max(1)))
}
