//! Runs what a plan says. What is common to the databases is here; how each does it is below.

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::time::Duration;

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
