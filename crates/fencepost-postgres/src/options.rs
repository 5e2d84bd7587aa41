//! How a store is opened.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How a store in a PostgreSQL database is opened.
#[derive(Clone)]
pub struct PostgresOptions {
    pub(crate) create: bool,
    pub(crate) pool_size: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) pool_timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) listen_url: Option<String>,
    pub(crate) sql_folder: Option<PathBuf>,
}

impl Default for PostgresOptions {
    /// An existing schema, 8 connections, 5 s to connect to an address, 5 s to wait for a connection, 15 s for a call.
    fn default() -> Self {
        Self {
            create: false,
            pool_size: 8,
            connect_timeout: Duration::from_secs(5),
            pool_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(15),
            listen_url: None,
            sql_folder: None,
        }
    }
}

impl PostgresOptions {
    /// Whether to install or upgrade the schema. The database has to be there; no superuser is needed, only the right to create a
    /// schema in it.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// How many connections the store uses at most, beside one that listens while somebody sleeps. At least 1.
    #[must_use]
    pub fn pool_size(mut self, connections: usize) -> Self {
        self.pool_size = connections.max(1);
        self
    }

    /// How long it may take to connect to one address, the login included; then the next one is tried. `connect_timeout` in the URL, in
    /// seconds, goes before it.
    #[must_use]
    pub fn connect_timeout(mut self, bound: Duration) -> Self {
        self.connect_timeout = bound;
        self
    }

    /// How long a call waits for a free connection before it answers `unavailable` with code `pool_exhausted`.
    #[must_use]
    pub fn pool_timeout(mut self, bound: Duration) -> Self {
        self.pool_timeout = bound;
        self
    }

    /// How long a call may take on the server before it is cancelled there. It answers `unavailable` with code `timeout` when the
    /// server says that it was undone, and `unknown_outcome` when it says nothing.
    #[must_use]
    pub fn call_timeout(mut self, bound: Duration) -> Self {
        self.call_timeout = bound;
        self
    }

    /// Where the store listens for notifications, if not at its own URL: the same database without the pooler in between, which delivers none.
    /// Nothing else is done there, and nothing depends on it: where it cannot be reached, or leads elsewhere, wakes come by looking.
    #[must_use]
    pub fn listen_url(mut self, url: impl Into<String>) -> Self {
        self.listen_url = Some(url.into());
        self
    }

    /// For tests of the SQL itself: installs the files of a folder in place of those that the program carries.
    #[doc(hidden)]
    #[must_use]
    pub fn sql_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.sql_folder = Some(folder.into());
        self
    }
}

impl fmt::Debug for PostgresOptions {
    /// SECURITY: the URL may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("create", &self.create)
            .field("pool_size", &self.pool_size)
            .field("connect_timeout", &self.connect_timeout)
            .field("pool_timeout", &self.pool_timeout)
            .field("call_timeout", &self.call_timeout)
            .field("listens_elsewhere", &self.listen_url.is_some())
            .finish_non_exhaustive()
    }
}
