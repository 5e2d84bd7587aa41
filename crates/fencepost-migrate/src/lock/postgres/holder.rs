//! Who holds the lock and what it does, for those who wait, and how long to wait for somebody who gets on.

use std::time::Duration;

use fencepost_core::{Result, Timestamp};
use tokio::time::Instant;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::super::LockKey;
use super::call::{self, column};

/// Who holds a lock. The times are the server's. What the role that asks may not see of others is none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// The server's process.
    pub pid: i32,
    /// The role that it logged in with.
    pub user: Option<String>,
    /// What it calls itself: `migrate NAME since TIME`, if it is one of ours, with a name that may be cut short.
    pub application: Option<String>,
    /// Where it is; none when it came through the server's socket.
    pub client_address: Option<String>,
    /// Since when it has been connected.
    pub connected_at: Option<Timestamp>,
    /// Since when it has held the lock, if it is one of ours.
    pub since: Option<Timestamp>,
    /// What its session does: `active`, `idle`, `idle in transaction` and others.
    pub state: Option<String>,
    /// The statement that it executes, or did last.
    pub query: Option<String>,
    /// When that began.
    pub query_at: Option<Timestamp>,
    /// What it waits for, as the server says: the kind and the name, as `Lock` and `relation`.
    pub wait: Option<(String, String)>,
    /// Processes that it waits for.
    pub blocked_by: Vec<i32>,
    progress: String,
}

impl std::fmt::Display for LockHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {}", self.pid)?;
        self.user.iter().try_for_each(|user| write!(f, " of `{user}`"))?;
        self.application.iter().filter(|name| !name.is_empty()).try_for_each(|name| write!(f, ", {name}"))?;
        if !self.blocked_by.is_empty() {
            let pids: Vec<_> = self.blocked_by.iter().map(ToString::to_string).collect();
            write!(f, ", itself blocked by {}", pids.join(", "))?;
        }
        let query: String = self.query.iter().flat_map(|query| query.split_whitespace()).collect::<Vec<_>>().join(" ");
        if query.is_empty() { Ok(()) } else { write!(f, ": {}", query.chars().take(120).collect::<String>()) }
    }
}

impl LockHolder {
    /// A text that is another one whenever the holder has begun or ended something, or has got on with building an index.
    pub fn progress(&self) -> &str {
        &self.progress
    }

    /// Whether it works right now: it executes something, and waits for no lock and no client.
    pub fn is_working(&self) -> bool {
        let waits = self.wait.as_ref().is_some_and(|(kind, _)| matches!(kind.as_str(), "Lock" | "Client"));
        self.state.as_deref() == Some("active") && !waits
    }

    pub(super) async fn read(client: &Client, key: LockKey) -> Result<Option<Self>> {
        let sql = include_str!("../../../sql/lock/holder.sql");
        let found = call::rows(client, sql, &[(&key.as_i64(), Type::INT8)]).await?;
        found.first().map(Self::of).transpose()
    }

    fn of(row: &Row) -> Result<Self> {
        let time = |name| Ok(column::<Option<i64>>(row, name)?.map(Timestamp::from_micros));
        let kind: Option<String> = column(row, "wait_event_type")?;
        Ok(Self {
            pid: column(row, "pid")?,
            user: column(row, "user_name")?,
            application: column(row, "application")?,
            client_address: column(row, "client_address")?,
            connected_at: time("connected_at")?,
            since: time("since")?,
            state: column(row, "state")?,
            query: column(row, "query")?,
            query_at: time("query_at")?,
            wait: kind.zip(column(row, "wait_event")?),
            blocked_by: column(row, "blocked_by")?,
            progress: column(row, "progress")?,
        })
    }
}

/// Patience with a holder: it lasts for as long as he gets on, whoever he is, and then for a bound.
///
/// ```
/// # use std::time::Duration;
/// # use fencepost_migrate::{Patience, MigrationLock};
/// # async fn a_wait(lock: MigrationLock) -> fencepost_core::Result<bool> {
/// let mut patience = Patience::new(Duration::from_secs(60));
/// lock.acquire_while(|holder| patience.lasts(holder)).await
/// # }
/// ```
#[derive(Debug)]
pub struct Patience {
    bound: Duration,
    seen: Option<String>,
    since: Instant,
}

impl Patience {
    /// One that lasts for `bound` with somebody who does not get on.
    pub fn new(bound: Duration) -> Self {
        Self { bound, seen: None, since: Instant::now() }
    }

    /// Whether it lasts, after what was seen of the holder now.
    pub fn lasts(&mut self, holder: Option<&LockHolder>) -> bool {
        let seen = holder.map(|holder| holder.progress.clone());
        if seen != self.seen || holder.is_none_or(LockHolder::is_working) {
            self.seen = seen;
            self.since = Instant::now();
        }
        self.since.elapsed() < self.bound
    }
}
