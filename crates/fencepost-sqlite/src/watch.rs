//! Wake-ups across processes: while somebody sleeps, a thread looks whether another connection has committed, and wakes whom
//! that concerns. Nobody asleep, nobody looks.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use fencepost_core::{Error, Kind, QueueName, Result, Topic, WakeReceiver};
use rusqlite::{Connection, OptionalExtension};

use crate::connection::{Purpose, connect};
use crate::error::driver_error;
use crate::options::SqliteOptions;
use crate::pace::Pace;
use crate::state::Shared;

/// With more new messages than this, every sleeper is woken instead of looking up whose they are.
const MANY: i64 = 10_000;

/// The handle by which sleepers make themselves known.
#[derive(Debug)]
pub(crate) struct Watcher(Arc<Watched>);

#[derive(Debug)]
struct Watched {
    shared: Arc<Shared>,
    /// What was seen; nothing once the store is closed.
    view: Mutex<Option<View>>,
    /// Whether somebody came since the thread last looked, or the store was closed.
    came: Mutex<bool>,
    changed: Condvar,
}

/// The file as it was last seen.
#[derive(Debug)]
struct View {
    connection: Connection,
    version: i64,
    /// The mark of each consumer and lease that somebody sleeps on, from when the sleeper came on.
    marks: HashMap<Topic, i64>,
}

impl Watcher {
    /// Opens the watcher's connection and starts its thread; it ends when the store is closed or dropped.
    pub(crate) fn start(path: &Path, options: &SqliteOptions, shared: Arc<Shared>) -> Result<Self> {
        let view = View { connection: connect(path, options, Purpose::Read)?, version: 0, marks: HashMap::new() };
        let pace = Pace::new(&view.connection);
        let watched = Arc::new(Watched {
            shared,
            view: Mutex::new(Some(view)),
            came: Mutex::new(false),
            changed: Condvar::new(),
        });
        let watching = watched.clone();
        thread::Builder::new()
            .name("fencepost-watch".into())
            .spawn(move || watching.run(pace))
            .map_err(|cause| Error::new(Kind::Unavailable, "cannot start the watcher thread").caused_by(cause))?;
        Ok(Self(watched))
    }

    /// Registers a sleeper: what any process commits from now on wakes it.
    pub(crate) fn sleeper(&self, topic: &Topic) -> WakeReceiver {
        let hub = &self.0.shared.hub;
        let mut view = self.0.view();
        let company = hub.topics().contains(topic);
        let receiver = hub.receiver(topic);
        // ORDER: what has changed so far is read before the call returns, so that no change after it is taken for an old one.
        if let Some(view) = view.as_mut()
            && !(company && view.marks.contains_key(topic))
            && let Ok(Some(mark)) = mark(&view.connection, topic)
        {
            view.marks.insert(topic.clone(), mark);
        }
        drop(view);
        self.0.signal();
        receiver
    }

    /// Has the thread look, as somebody came who sleeps.
    pub(crate) fn signal(&self) {
        self.0.signal();
    }

    /// Closes the watcher's connection and ends its thread.
    pub(crate) fn close(&self) {
        self.0.view().take();
        self.0.signal();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.close();
    }
}

impl Watched {
    fn view(&self) -> MutexGuard<'_, Option<View>> {
        self.view.lock().expect("no panic while the file is looked at")
    }

    fn signal(&self) {
        *self.came.lock().expect("no panic while the signal is held") = true;
        self.changed.notify_one();
    }

    fn run(&self, mut pace: Pace) {
        loop {
            {
                let mut view = self.view();
                let Some(view) = view.as_mut() else { return };
                if !self.shared.hub.is_empty() {
                    match view.look(&self.shared) {
                        Ok(true) => pace.found(),
                        Ok(false) => {}
                        // Polling stays the truth, so a look that failed costs time, not messages.
                        Err(error) => tracing::debug!(%error, "cannot look for commits of other processes"),
                    }
                }
            }
            if self.shared.hub.is_empty() {
                self.wait_for_sleepers();
                pace.quicken();
            } else {
                pace.rest();
            }
        }
    }

    fn wait_for_sleepers(&self) {
        let came = self.came.lock().expect("no panic while the signal is held");
        let mut came = self.changed.wait_while(came, |came| !*came).expect("no panic while the signal is held");
        *came = false;
    }
}

impl View {
    /// Wakes whom the commits of others since the last look concern. Returns whether there were any.
    fn look(&mut self, shared: &Shared) -> Result<bool> {
        let version = self
            .connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(driver_error)?;
        if version == self.version {
            return Ok(false);
        }
        self.wake_messages(shared)?;
        self.wake_marked(shared)?;
        shared.delivered.catch_up(&self.connection, &shared.hub)?;
        // ORDER: the version was taken before what was looked at: a commit during the look is seen again by the next one, and a
        // look that failed is made again.
        self.version = version;
        Ok(true)
    }

    fn wake_messages(&self, shared: &Shared) -> Result<()> {
        let last: i64 = self
            .connection
            .prepare_cached("SELECT position FROM fencepost_store")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(driver_error)?;
        let seen = shared.seen.load(Ordering::Relaxed);
        if last <= seen {
            return Ok(());
        }
        if last - seen > MANY {
            let topics = shared.hub.topics();
            topics.iter().filter(|topic| matches!(topic, Topic::Messages(_))).for_each(|topic| shared.hub.wake(topic));
        } else {
            let queues: Vec<String> = self
                .connection
                .prepare_cached(include_str!("../sql/queue/appended.sql"))
                .and_then(|mut statement| statement.query_map((seen, last), |row| row.get(0))?.collect())
                .map_err(driver_error)?;
            for queue in queues {
                shared.hub.wake(&Topic::Messages(QueueName::new(queue)?));
            }
        }
        shared.seen.fetch_max(last, Ordering::Relaxed);
        Ok(())
    }

    fn wake_marked(&mut self, shared: &Shared) -> Result<()> {
        let topics = shared.hub.topics();
        self.marks.retain(|topic, _| topics.contains(topic));
        for topic in topics {
            let Some(now) = mark(&self.connection, &topic)? else { continue };
            if self.marks.insert(topic.clone(), now).is_some_and(|before| concerns(&topic, before, now)) {
                shared.hub.wake(&topic);
            }
        }
        Ok(())
    }
}

/// A number that differs once something happened to a topic; none where rows tell.
fn mark(connection: &Connection, topic: &Topic) -> Result<Option<i64>> {
    // What is gone differs from everything that was there.
    const GONE: i64 = -2;
    let found = match topic {
        Topic::Messages(_) | Topic::Channel(_) => return Ok(None),
        Topic::Slots(path) => {
            connection.prepare_cached(include_str!("../sql/consumer/changes.sql")).and_then(|mut statement| {
                statement.query_row([path.queue.as_str(), path.consumer.as_str()], |row| row.get(0)).optional()
            })
        }
        Topic::Schedules => connection
            .prepare_cached(include_str!("../sql/schedule/mark.sql"))
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional()),
        Topic::Lease(name) => connection
            .prepare_cached(include_str!("../sql/lease/mark.sql"))
            .and_then(|mut statement| statement.query_row([name.as_str()], |row| row.get(0)).optional()),
    };
    found.map(|mark| Some(mark.unwrap_or(GONE))).map_err(driver_error)
}

/// Whether a sleeper wants to hear of a change. That a free lease was acquired is nothing to wait for.
fn concerns(topic: &Topic, before: i64, now: i64) -> bool {
    let is_held = |mark: i64| mark % 2 != 0;
    let acquired = matches!(topic, Topic::Lease(_)) && !is_held(before) && is_held(now);
    before != now && !acquired
}
