//! How a file is opened.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::{Clock, HostClock};

/// How durable a commit is before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// The commit survives a power cut. The default.
    #[default]
    Full,
    /// The commit survives the process, and the latest commits may be lost in a power cut. An epoch that is lost so cannot
    /// repeat unless the clock was also set back.
    Normal,
}

/// How a store's file is opened.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    pub(crate) create: bool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) synchronous: Synchronous,
    pub(crate) busy_timeout: Duration,
    pub(crate) write_bound: Duration,
    pub(crate) max_pages: Option<u32>,
}

impl Default for SqliteOptions {
    /// An existing file, the host's clocks, durable commits, 5 s for a lock, 1 s for a caller's closure.
    fn default() -> Self {
        Self {
            create: false,
            clock: Arc::new(HostClock),
            synchronous: Synchronous::default(),
            busy_timeout: Duration::from_secs(5),
            write_bound: Duration::from_secs(1),
            max_pages: None,
        }
    }
}

impl SqliteOptions {
    /// Whether to make the file and install or upgrade the schema.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Replaces the host's clocks, for tests that move time instead of waiting for it.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How durable a commit is before it is answered.
    #[must_use]
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// How long a call waits for the file's write lock before it answers `busy`.
    #[must_use]
    pub fn busy_timeout(mut self, bound: Duration) -> Self {
        self.busy_timeout = bound;
        self
    }

    /// How long a closure of [`SqliteStore::write`](crate::SqliteStore::write) may take before it is rolled back.
    #[must_use]
    pub fn write_bound(mut self, bound: Duration) -> Self {
        self.write_bound = bound;
        self
    }

    /// Limits the file to so many pages of 4 KiB: a write beyond answers `unavailable` with code `storage_full`.
    #[must_use]
    pub fn max_pages(mut self, pages: u32) -> Self {
        self.max_pages = Some(pages);
        self
    }
}
