//! What one write transaction carries: the engine's clock, the store's counters, and whom to wake.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use fencepost_core::refusal::no_queue;
use fencepost_core::{
    BootInstant, EngineClock, Epoch, Error, Kind, Partitions, Position, QueueName, Recorded, Result, RoundRobin,
    Timestamp, Topic, WakeHub,
};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::error::driver_error;
use crate::file::OpenedFile;
use crate::guard::Guard;
use crate::notice::Delivered;
use crate::writer::survived;

/// What every part of an open store shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: EngineClock,
    pub(crate) hub: WakeHub,
    pub(crate) round: RoundRobin,
    pub(crate) guard: Arc<Guard>,
    pub(crate) file: OpenedFile,
    /// The last position whose message this process's sleepers were woken for.
    pub(crate) seen: AtomicI64,
    pub(crate) delivered: Delivered,
}

/// A queue as a transaction knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueRow {
    pub(crate) id: i64,
    pub(crate) partitions: Partitions,
}

/// A write transaction under way: many callers' on the writer thread, or one caller's own.
///
/// INVARIANT: the write lock is held from before this is made until after it is flushed and committed, so what it has read of the
/// counters stays true.
pub(crate) struct Group<'c> {
    connection: &'c Connection,
    shared: &'c Shared,
    counters: Option<Counters>,
    queues: HashMap<QueueName, QueueRow>,
    wakes: Vec<Topic>,
    /// Whether notices were appended, some of which may have been undone.
    has_notices: bool,
}

#[derive(Debug, Clone, Copy)]
struct Counters {
    epoch: i64,
    /// The last position before this transaction, and the last one now.
    position: (i64, i64),
    clock: Recorded,
    changed: bool,
}

impl<'c> Group<'c> {
    pub(crate) fn new(connection: &'c Connection, shared: &'c Shared) -> Self {
        Self { connection, shared, counters: None, queues: HashMap::new(), wakes: Vec::new(), has_notices: false }
    }

    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    pub(crate) fn shared(&self) -> &'c Shared {
        self.shared
    }

    /// Runs one caller's work in a savepoint: an error undoes it alone. The error returned is the whole group's.
    pub(crate) fn savepoint(&mut self, work: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<()> {
        let wakes = self.wakes.len();
        self.run("SAVEPOINT fencepost_call")?;
        match work(self) {
            Ok(()) => {
                self.is_open()?;
                self.run("RELEASE fencepost_call")
            }
            Err(error) => {
                survived(self.connection, &error)?;
                self.run("ROLLBACK TO fencepost_call")?;
                self.run("RELEASE fencepost_call")?;
                // What was learned inside is undone with it; counters that rose meanwhile stay, as numbers may be skipped.
                self.queues.clear();
                self.wakes.truncate(wakes);
                Ok(())
            }
        }
    }

    /// Whether the transaction is still there: SQLite may have rolled it back under a closure that went on regardless.
    pub(crate) fn is_open(&self) -> Result<()> {
        if self.connection.is_autocommit() { Err(gone()) } else { Ok(()) }
    }

    /// Runs one caller's work that writes by one statement: SQLite undoes that by itself. The error returned is the whole group's.
    pub(crate) fn statement(&mut self, work: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<()> {
        work(self).or_else(|error| survived(self.connection, &error))
    }

    fn run(&self, sql: &'static str) -> Result<()> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map(drop)
            .map_err(driver_error)
    }

    fn counters(&mut self) -> Result<&mut Counters> {
        if self.counters.is_none() {
            let (epoch, position, clock) = self
                .connection
                .prepare_cached(include_str!("../sql/store/counters.sql"))
                .and_then(|mut statement| {
                    statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?, decode_recorded(row, 2)?)))
                })
                .map_err(driver_error)?;
            self.counters = Some(Counters { epoch, position: (position, position), clock, changed: false });
        }
        self.counters.as_mut().ok_or_else(|| Error::new(Kind::Internal, "cannot read the store's counters"))
    }

    /// The instant by the engine's clock.
    pub(crate) fn now(&mut self) -> Result<Timestamp> {
        let stored = self.counters()?.clock;
        Ok(self.shared.clock.now(stored))
    }

    /// Records an instant by which something was decided that is stored, so that no process decides by an earlier one.
    pub(crate) fn record(&mut self, now: Timestamp) -> Result<()> {
        let clock = &self.shared.clock;
        let counters = self.counters()?;
        if now > counters.clock.at {
            counters.clock = clock.record(now);
            counters.changed = true;
        }
        Ok(())
    }

    /// The epoch of the store's next grant. It is used up only by [`Group::granted`].
    pub(crate) fn next_epoch(&mut self, last: Option<Epoch>, now: Timestamp) -> Result<Epoch> {
        let counter = self.counters()?.epoch;
        Epoch::next(counter, last, now)
    }

    /// Records that `epoch` was granted.
    pub(crate) fn granted(&mut self, epoch: Epoch) -> Result<()> {
        let counters = self.counters()?;
        counters.epoch = counters.epoch.max(epoch.get());
        counters.changed = true;
        Ok(())
    }

    /// A queue, or `not_found`.
    pub(crate) fn queue(&mut self, name: &QueueName) -> Result<QueueRow> {
        self.find_queue(name)?.ok_or_else(|| no_queue(name))
    }

    /// A queue, if it exists.
    pub(crate) fn find_queue(&mut self, name: &QueueName) -> Result<Option<QueueRow>> {
        if let Some(row) = self.queues.get(name) {
            return Ok(Some(*row));
        }
        let found = load_queue(self.connection, name)?;
        if let Some(row) = found {
            self.queues.insert(name.clone(), row);
        }
        Ok(found)
    }

    /// Forgets what is known of a queue that was dropped.
    pub(crate) fn forget_queue(&mut self, name: &QueueName) {
        self.queues.remove(name);
    }

    /// The last position given so far.
    pub(crate) fn last_position(&mut self) -> Result<Position> {
        Ok(Position::from_storage(self.counters()?.position.1))
    }

    /// Takes the next position. One that is taken by a call which is undone is skipped.
    pub(crate) fn next_position(&mut self) -> Result<Position> {
        let counters = self.counters()?;
        counters.position.1 += 1;
        counters.changed = true;
        Ok(Position::from_storage(counters.position.1))
    }

    /// Wakes `topic` once this is committed.
    pub(crate) fn wake(&mut self, topic: Topic) {
        if !self.wakes.contains(&topic) {
            self.wakes.push(topic);
        }
    }

    /// Delivers the notices that were appended once this is committed.
    pub(crate) fn notified(&mut self) {
        self.has_notices = true;
    }

    /// Writes what the calls have changed in the counters: once for all of them.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if let Some(counters) = &mut self.counters
            && counters.changed
        {
            self.connection
                .prepare_cached(include_str!("../sql/store/set_counters.sql"))
                .and_then(|mut statement| {
                    let Recorded { at, boot, boot_id } = counters.clock;
                    let boot = boot.since_boot().as_micros() as i64;
                    let values = (counters.epoch, counters.position.1, at.as_micros(), boot, boot_id.cast_signed());
                    statement.execute(values)
                })
                .map_err(driver_error)?;
            counters.changed = false;
        }
        Ok(())
    }

    /// Wakes whom the committed calls concern.
    pub(crate) fn committed(self) {
        if let Some(Counters { position: (before, after), .. }) = self.counters {
            // When nothing of another process came in between, the watcher need not look at what is woken here.
            let _ = self.shared.seen.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed);
        }
        for topic in &self.wakes {
            self.shared.hub.wake(topic);
        }
        if self.has_notices
            && let Err(error) = self.shared.delivered.catch_up(self.connection, &self.shared.hub)
        {
            // They are committed, and the watcher tries again.
            tracing::debug!(%error, "cannot look for notices");
        }
    }
}

/// The highest instant that the store has recorded.
pub(crate) fn recorded(connection: &Connection) -> Result<Recorded> {
    connection
        .prepare_cached(include_str!("../sql/store/recorded.sql"))
        .and_then(|mut statement| statement.query_row([], |row| decode_recorded(row, 0)))
        .map_err(driver_error)
}

/// Columns from `first` on: clock, boot, boot_id.
fn decode_recorded(row: &Row<'_>, first: usize) -> rusqlite::Result<Recorded> {
    let boot = Duration::from_micros(row.get(first + 1)?);
    Ok(Recorded {
        at: Timestamp::from_micros(row.get(first)?),
        boot: BootInstant::from_boot(boot),
        boot_id: row.get::<_, i64>(first + 2)?.cast_unsigned(),
    })
}

/// Reads a queue's row.
pub(crate) fn load_queue(connection: &Connection, name: &QueueName) -> Result<Option<QueueRow>> {
    let found = connection
        .prepare_cached(include_str!("../sql/queue/load.sql"))
        .and_then(|mut statement| {
            statement.query_row([name.as_str()], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))).optional()
        })
        .map_err(driver_error)?;
    let Some((id, partitions)) = found else { return Ok(None) };
    let partitions = Partitions::new(partitions).map_err(|error| damaged("fencepost_queue", error))?;
    Ok(Some(QueueRow { id, partitions }))
}

/// What is answered when a statement rolled its whole transaction back and its error was not returned.
fn gone() -> Error {
    Error::new(Kind::Unavailable, "cannot go on: a statement that failed has rolled the whole transaction back")
        .coded("rolled_back")
        .hinted("return the error of a failed statement instead of going on; nothing of the transaction is stored")
}

/// A stored value that the types of the contract refuse.
pub(crate) fn damaged(table: &'static str, cause: Error) -> Error {
    Error::new(Kind::Corrupt, format!("cannot read the table `{table}`: a stored value is not valid"))
        .with("table", table)
        .caused_by(cause)
}
