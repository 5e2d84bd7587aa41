//! An open store: the writer, the readers, the watcher, and what they share.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::thread;

use async_trait::async_trait;
use fencepost_core::{
    EngineClock, Error, Kind, Result, RoundRobin, Store, StoreInfo, Timestamp, Topic, WakeHub, WakeReceiver, Wakeups,
};
use rusqlite::Transaction;
use tokio::sync::oneshot;

use crate::connection::{Purpose, check_path, connect, use_write_ahead_log};
use crate::error::driver_error;
use crate::file::OpenedFile;
use crate::grant::GiveBack;
use crate::guard::Guard;
use crate::notice::Delivered;
use crate::options::SqliteOptions;
use crate::readers::Readers;
use crate::schema;
use crate::state::{Group, Shared, recorded};
use crate::transaction::WriteTransaction;
use crate::watch::Watcher;
use crate::writer::{Undo, Writer};

/// An open SQLite store. Clones share its threads; open a file once per process and clone the handle.
///
/// Two stores over one file, in one process or in many, are correct too: they share nothing but the file.
#[derive(Clone)]
pub struct SqliteStore(Arc<Inner>);

struct Inner {
    path: PathBuf,
    options: SqliteOptions,
    shared: Arc<Shared>,
    writer: Writer,
    readers: Readers,
    watcher: Watcher,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Sleepers may outlive the store; nobody would wake them any more.
        self.shared.hub.close();
    }
}

impl SqliteStore {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// `not_found` (code `no_store`) when there is no store and [`SqliteOptions::create`] is off; `schema` when it is of a newer
    /// version or not fencepost's; `corrupt` when it is damaged or no SQLite file; `unsupported` on a network file system;
    /// `busy`, `unavailable`.
    pub async fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let (reply, answer) = oneshot::channel();
        // Opening may wait for a lock, so it has a thread of its own and needs no particular async runtime.
        thread::Builder::new()
            .name("fencepost-open".into())
            .spawn(move || {
                let _ = reply.send(Self::open_blocking(path, options).map_err(|error| error.during("open")));
            })
            .map_err(|cause| Error::new(Kind::Unavailable, "cannot start a thread").caused_by(cause))?;
        answer.await.unwrap_or_else(|_| Err(Error::new(Kind::Internal, "cannot open the store: the thread panicked")))
    }

    fn open_blocking(path: PathBuf, options: SqliteOptions) -> Result<Self> {
        check_path(&path, options.create)?;
        let place = |error: Error| {
            // What the schema's checks say names the file; what SQLite says does not.
            let error = match error.kind() {
                Kind::Schema | Kind::NotFound => error,
                _ => error.attempting(format_args!("cannot open `{}`", path.display())),
            };
            error.with("path", path.display())
        };
        let mut connection = connect(&path, &options, Purpose::Write).map_err(place)?;
        // ORDER: what the file is, before anything is changed in it, the journal mode included.
        schema::inspect(&connection, &path, options.create).map_err(place)?;
        use_write_ahead_log(&connection, options.busy_timeout).map_err(place)?;
        schema::prepare(&mut connection, &path, options.create, &*options.clock).map_err(place)?;

        let guard = Arc::new(Guard::default());
        guard.install(&mut connection)?;
        let position =
            connection.query_row("SELECT position FROM fencepost_store", [], |row| row.get(0)).map_err(driver_error)?;
        let shared = Arc::new(Shared {
            clock: EngineClock::new(options.clock.clone()),
            hub: WakeHub::default(),
            round: RoundRobin::new(),
            guard,
            file: OpenedFile::new(&path)?,
            seen: AtomicI64::new(position),
            delivered: Delivered::default(),
        });
        let (readers, reading) = Readers::start(&path, &options)?;
        let watcher = Watcher::start(&path, &options, shared.clone())?;
        let writer = Writer::start(connection, shared.clone(), &options, reading)?;
        Ok(Self(Arc::new(Inner { path, options, shared, writer, readers, watcher })))
    }

    /// Runs `work` in a write transaction on the store's writer thread and returns what it returned once that is committed.
    ///
    /// The closure works on fencepost's tables through [`WriteTransaction`]'s methods and on the application's own tables in
    /// the same file through SQL; both commit together or not at all. Its transaction may be shared with other callers', each in
    /// a savepoint of its own. It must not begin, commit or roll back by itself, and must end within
    /// [`SqliteOptions::write_bound`] (1 s unless said): meanwhile no other process can write to the file. Savepoints are its own
    /// to use. It must not wait for a call on the store: that would wait for the closure to end.
    ///
    /// # Errors
    /// What the closure returned, or what it ignored of fencepost's calls, and then nothing of it is stored; `limit_exceeded` with code `write_bound` when it took too
    /// long; `busy`, `unavailable`, or `unknown_outcome` when the storage failed while committing. A statement that would begin,
    /// commit or roll back fails with the driver's `authorization denied`, which [`driver_error`] makes `unsupported`.
    ///
    /// ```
    /// # use fencepost_core::*;
    /// # use fencepost_sqlite::{SqliteOptions, SqliteStore, driver_error};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// let store = SqliteStore::open(folder.path().join("app.db"), SqliteOptions::default().create(true)).await?;
    /// let orders = QueueName::new("orders")?;
    /// store.create_queue(&orders, Partitions::default()).await?;
    ///
    /// store
    ///     .write(move |tx| {
    ///         tx.execute_batch("CREATE TABLE paid (id INTEGER); INSERT INTO paid VALUES (7)").map_err(driver_error)?;
    ///         tx.send_in(&orders, NewMessage::new("paid 7")?)
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
        F: FnOnce(&WriteTransaction<'_, '_>) -> Result<T, E> + Send + 'static,
    {
        let bound = self.0.options.write_bound;
        // The closure's own error type is kept beside the contract's, which only carries the rollback.
        let (keep, kept) = std::sync::mpsc::sync_channel(1);
        let result = self
            .0
            .writer
            .run(Undo::Savepoint, move |group| {
                let started = std::time::Instant::now();
                let guard = group.shared().guard.clone();
                let transaction = WriteTransaction::shared(group);
                let result = guard.within(bound, || work(&transaction));
                if let (Ok(_), Some(ignored)) = (&result, transaction.failure()) {
                    return Err(ignored);
                }
                if started.elapsed() > bound {
                    return Err(overran(bound));
                }
                result.map_err(|error| {
                    let _ = keep.send(error);
                    Error::new(Kind::Conflict, "the caller's closure failed").coded(CLOSURE)
                })
            })
            .await;
        result.map_err(|error| match kept.try_recv() {
            Ok(own) if error.code() == CLOSURE => own,
            _ => E::from(error.during("write")),
        })
    }

    /// Takes part in a transaction of the caller's own connection to the same file.
    ///
    /// # Errors
    /// `unsupported` unless the transaction is IMMEDIATE (or has written already): a deferred one could read what a grant has
    /// since changed; `invalid_input` when the connection is to another file.
    pub fn join<'t>(&'t self, transaction: &'t Transaction<'_>) -> Result<WriteTransaction<'t, 't>> {
        WriteTransaction::joined(transaction, &self.0.shared, &self.0.path).map_err(|error| error.during("join"))
    }

    /// Runs `work` on the writer thread while no transaction of this store is open.
    ///
    /// For programs that stop or copy themselves, such as demonstrations and tests of a paused process: one that stops inside
    /// a write transaction would stop every writer of the file.
    ///
    /// # Errors
    /// `unavailable` with code `store_closed`.
    pub async fn between_transactions<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.0.writer.between(work).await
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) async fn transact<T, F>(&self, operation: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Group<'_>) -> Result<T> + Send + 'static,
    {
        self.0.writer.run(Undo::Savepoint, work).await.map_err(|error| error.during(operation))
    }

    /// As [`SqliteStore::transact`], for work that grants something, which is given back when the caller is gone by then.
    pub(crate) async fn transact_granting<T, F>(
        &self,
        operation: &'static str,
        give_back: fn(T) -> Option<GiveBack>,
        work: F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Group<'_>) -> Result<T> + Send + 'static,
    {
        self.0.writer.run_granting(give_back, work).await.map_err(|error| error.during(operation))
    }

    /// As [`SqliteStore::transact`], for work that writes by one statement at most.
    pub(crate) async fn transact_statement<T, F>(&self, operation: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Group<'_>) -> Result<T> + Send + 'static,
    {
        self.0.writer.run(Undo::Statement, work).await.map_err(|error| error.during(operation))
    }

    pub(crate) async fn read<T, F>(&self, operation: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T> + Send + 'static,
    {
        self.0.readers.run(work).await.map_err(|error| error.during(operation))
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.0.writer
    }

    pub(crate) fn watcher(&self) -> &Watcher {
        &self.0.watcher
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }
}

const CLOSURE: &str = "closure_failed";

fn overran(bound: std::time::Duration) -> Error {
    Error::new(Kind::LimitExceeded, format!("cannot commit: the closure took longer than its bound of `{bound:?}`"))
        .coded("write_bound")
        .hinted("keep what runs inside a write transaction short: it stops every writer of the file")
}

impl Wakeups for SqliteStore {
    fn wakes(&self, topic: &Topic) -> WakeReceiver {
        self.0.watcher.sleeper(topic)
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn info(&self) -> StoreInfo {
        StoreInfo {
            engine: "sqlite",
            location: printable(&self.0.path),
            schema_version: schema::VERSION,
            engine_version: rusqlite::version().to_owned(),
        }
    }

    async fn now(&self) -> Result<Timestamp> {
        let shared = self.0.shared.clone();
        self.read("now", move |snapshot| Ok(shared.clock.now(recorded(snapshot)?))).await
    }

    async fn close(&self) {
        self.0.watcher.close();
        self.0.readers.close();
        self.0.writer.close().await;
        // ORDER: accepted sends wake their sleepers before these hear of the end.
        self.0.shared.hub.close();
    }
}

/// A path as it may be printed: a file's name may hold control characters, which must not reach a terminal.
fn printable(path: &Path) -> String {
    let shown = path.display().to_string();
    shown.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.0.path).finish_non_exhaustive()
    }
}
