//! Wake-ups across processes: while somebody sleeps, a thread polls whether another connection has committed, and wakes whom
//! that concerns. Nobody asleep, nothing polled.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread;
use std::time::Duration;

use fencepost_core::{ConsumerPath, Error, Kind, QueueName, Result, Topic};
use rusqlite::Connection;

use crate::connection::{Purpose, connect};
use crate::error::driver_error;
use crate::options::SqliteOptions;
use crate::state::Shared;

/// How often the file is looked at while somebody sleeps: a wake-up across processes takes half of it on average.
const INTERVAL: Duration = Duration::from_millis(5);

/// With more new messages than this, every sleeper is woken instead of looking up whose they are.
const MANY: i64 = 10_000;

/// The handle by which sleepers make themselves known.
#[derive(Debug)]
pub(crate) struct Watcher(Arc<Signal>);

#[derive(Debug, Default)]
struct Signal {
    came: Mutex<bool>,
    changed: Condvar,
    closed: AtomicBool,
}

impl Watcher {
    /// Opens the watcher's connection and starts its thread; it ends when the store is closed or dropped.
    pub(crate) fn start(path: &Path, options: &SqliteOptions, shared: Arc<Shared>) -> Result<Self> {
        let connection = connect(path, options, Purpose::Read)?;
        let signal = Arc::new(Signal::default());
        let watch = Watch {
            connection,
            shared: Arc::downgrade(&shared),
            signal: signal.clone(),
            version: 0,
            changes: HashMap::new(),
        };
        thread::Builder::new()
            .name("fencepost-watch".into())
            .spawn(move || watch.run())
            .map_err(|cause| Error::new(Kind::Unavailable, "cannot start the watcher thread").caused_by(cause))?;
        Ok(Self(signal))
    }

    /// Somebody begins to sleep.
    pub(crate) fn sleeper_came(&self) {
        *self.0.came.lock().expect("no panic while the signal is held") = true;
        self.0.changed.notify_one();
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.0.closed.store(true, Ordering::Relaxed);
        self.sleeper_came();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.close();
    }
}

struct Watch {
    connection: Connection,
    shared: Weak<Shared>,
    signal: Arc<Signal>,
    version: i64,
    /// The `changes` of each consumer when it was last looked at.
    changes: HashMap<Topic, i64>,
}

impl Watch {
    fn run(mut self) {
        while !self.signal.closed.load(Ordering::Relaxed) {
            let Some(shared) = self.shared.upgrade() else { return };
            if shared.hub.is_empty() {
                drop(shared);
                self.wait_for_sleepers();
                continue;
            }
            if let Err(error) = self.look(&shared) {
                // Polling stays the truth, so a look that failed costs time, not messages.
                tracing::debug!(%error, "cannot look for commits of other processes");
            }
            drop(shared);
            thread::sleep(INTERVAL);
        }
    }

    fn wait_for_sleepers(&self) {
        let came = self.signal.came.lock().expect("no panic while the signal is held");
        let mut came = self.signal.changed.wait_while(came, |came| !*came).expect("no panic while the signal is held");
        *came = false;
    }

    /// Wakes whom the commits of others since the last look concern.
    fn look(&mut self, shared: &Shared) -> Result<()> {
        let version = self
            .connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(driver_error)?;
        if version == self.version {
            return Ok(());
        }
        // ORDER: the version is taken first: a commit during the look is seen again by the next one.
        self.version = version;
        let topics = shared.hub.topics();
        self.wake_messages(shared, &topics)?;
        self.wake_slots(shared, &topics)
    }

    fn wake_messages(&self, shared: &Shared, topics: &[Topic]) -> Result<()> {
        let last: i64 = self
            .connection
            .prepare_cached("SELECT position FROM fencepost_store")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(driver_error)?;
        let seen = shared.seen.fetch_max(last, Ordering::Relaxed);
        if last <= seen {
            return Ok(());
        }
        if last - seen > MANY {
            topics.iter().filter(|topic| matches!(topic, Topic::Messages(_))).for_each(|topic| shared.hub.wake(topic));
            return Ok(());
        }
        let queues: Vec<String> = self
            .connection
            .prepare_cached(include_str!("../sql/queue/appended.sql"))
            .and_then(|mut statement| statement.query_map((seen, last), |row| row.get(0))?.collect())
            .map_err(driver_error)?;
        for queue in queues {
            shared.hub.wake(&Topic::Messages(QueueName::new(queue)?));
        }
        Ok(())
    }

    fn wake_slots(&mut self, shared: &Shared, topics: &[Topic]) -> Result<()> {
        self.changes.retain(|topic, _| topics.contains(topic));
        for topic in topics {
            let Topic::Slots(path) = topic else { continue };
            let changes = changes(&self.connection, path)?;
            if self.changes.insert(topic.clone(), changes).is_some_and(|before| before != changes) {
                shared.hub.wake(topic);
            }
        }
        Ok(())
    }
}

/// The `changes` of a consumer; one that is gone differs from every one that was there.
fn changes(connection: &Connection, path: &ConsumerPath) -> Result<i64> {
    use rusqlite::OptionalExtension;
    connection
        .prepare_cached(include_str!("../sql/consumer/changes.sql"))
        .and_then(|mut statement| {
            statement.query_row([path.queue.as_str(), path.consumer.as_str()], |row| row.get(0)).optional()
        })
        .map(|found| found.unwrap_or(-1))
        .map_err(driver_error)
}
