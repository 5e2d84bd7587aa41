//! Calls that may have nothing to write: a look outside the write lock decides, or says what to write under it.
//!
//! An idle writer looks itself: its page cache holds what was just written, where SQLite drops a reader's at every commit, and the
//! call does not change threads once more. While the writer works the readers look, beside it.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use fencepost_core::{Error, Kind, Result};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::driver_error;
use crate::state::Group;
use crate::store::SqliteStore;
use crate::writer::{Call, Ended, Pending, Undo, Writer, panicked};

/// The most messages that the writer reads in one look: calls that come meanwhile wait for it.
const SMALL: u32 = 128;

/// What a look found.
pub(crate) enum Look<T, F> {
    /// It decides: there is nothing to write.
    Done(T),
    /// This has to be written, unless it finds under the lock that things have changed.
    Write(F),
}

impl<T, F> Look<T, F>
where
    F: FnOnce(&mut Group<'_>) -> Result<T>,
{
    pub(crate) fn write(work: F) -> Self {
        Self::Write(work)
    }
}

impl SqliteStore {
    /// Looks in a snapshot, for up to `size` messages, and then runs what that found to be written, as [`SqliteStore::transact`] does.
    pub(crate) async fn look_and_transact<T, L, F>(&self, operation: &'static str, size: u32, look: L) -> Result<T>
    where
        T: Send + 'static,
        L: Fn(&Connection) -> Result<Look<T, F>> + Send + 'static,
        F: FnOnce(&mut Group<'_>) -> Result<T> + Send + 'static,
    {
        if size <= SMALL && self.writer().is_idle() {
            return self.writer().look_and_run(look).await.map_err(|error| error.during(operation));
        }
        match self.read(operation, move |snapshot| look(snapshot)).await? {
            Look::Done(value) => Ok(value),
            Look::Write(work) => self.transact(operation, work).await,
        }
    }
}

impl Writer {
    /// Looks on the writer's thread, and then runs what that found to be written, as [`Writer::run`] does. When a transaction is open
    /// by then, it looks in there.
    async fn look_and_run<T, L, F>(&self, look: L) -> Result<T>
    where
        T: Send + 'static,
        L: Fn(&Connection) -> Result<Look<T, F>> + Send + 'static,
        F: FnOnce(&mut Group<'_>) -> Result<T> + Send + 'static,
    {
        self.submit(|reply| Looking { look, call: Pending::new(Undo::Savepoint, None, reply) }).await
    }
}

/// A call before its look, or after one that found something to write.
struct Looking<T, L, F> {
    look: L,
    call: Pending<T, F>,
}

impl<T, L, F> Looking<T, L, F>
where
    L: Fn(&Connection) -> Result<Look<T, F>>,
{
    /// Looks. An error is the call's answer.
    fn see(&mut self, connection: &Connection) -> Result<()> {
        match std::panic::catch_unwind(AssertUnwindSafe(|| (self.look)(connection)))
            .unwrap_or_else(|_| Err(panicked()))?
        {
            Look::Done(value) => self.call.result = Some(Ok(value)),
            Look::Write(work) => self.call.work = Some(work),
        }
        Ok(())
    }
}

impl<T, L, F> Call for Looking<T, L, F>
where
    T: Send,
    L: Fn(&Connection) -> Result<Look<T, F>> + Send,
    F: FnOnce(&mut Group<'_>) -> Result<T> + Send,
{
    fn since(&self) -> Instant {
        self.call.since()
    }

    fn is_abandoned(&self) -> bool {
        self.call.is_abandoned()
    }

    fn undo(&self) -> Undo {
        self.call.undo()
    }

    fn look(&mut self, connection: &Connection) -> bool {
        let seen = Transaction::new_unchecked(connection, TransactionBehavior::Deferred)
            .map_err(driver_error)
            .and_then(|snapshot| self.see(&snapshot));
        match seen {
            Ok(()) => self.call.result.is_some(),
            // The file is being recovered, say. Whoever waits for the lock waits that out.
            Err(error) if error.kind() == Kind::Busy => false,
            Err(error) => {
                self.call.result = Some(Err(error));
                true
            }
        }
    }

    fn run(&mut self, group: &mut Group<'_>) -> Result<(), Error> {
        if self.call.work.is_none() {
            if let Err(error) = self.see(group.connection()) {
                return self.call.fail(error);
            }
            if self.call.result.is_some() {
                return Ok(());
            }
        }
        self.call.run(group)
    }

    fn answer(self: Box<Self>, ended: Ended<'_>) {
        Box::new(self.call).answer(ended);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};

    use fencepost_core::Store;

    use super::*;
    use crate::SqliteOptions;

    type Written = fn(&mut Group<'_>) -> Result<u8>;
    type Looks = fn(&Connection) -> Result<Look<u8, Written>>;

    /// What a look answers, whatever it sees.
    const DECIDES: Looks = |_| Ok(Look::Done(7));
    const FAILS: Looks = |_| Err(Error::new(Kind::NotFound, "nothing to look at"));
    const PANICS: Looks = |_| panic!("as asked");
    const WRITES: Looks = |_| {
        Ok(Look::Write(|group| {
            group.connection().execute("INSERT INTO effect VALUES (1)", []).map_err(driver_error).map(|_| 1)
        }))
    };

    fn run(test: impl AsyncFnOnce(SqliteStore)) {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            let options = SqliteOptions::default().create(true);
            let store = SqliteStore::open(folder.path().join("look.db"), options).await.unwrap();
            let table = "CREATE TABLE effect (id INTEGER)";
            store.write(|tx| tx.execute_batch(table).map_err(driver_error)).await.unwrap();
            test(store.clone()).await;
            store.close().await;
        });
    }

    async fn effects(store: &SqliteStore) -> u32 {
        let count =
            |snapshot: &Transaction<'_>| snapshot.query_row("SELECT count(*) FROM effect", [], |row| row.get(0));
        store.read("count", move |snapshot| count(snapshot).map_err(driver_error)).await.unwrap()
    }

    async fn check(store: &SqliteStore, answers: [Result<u8>; 4], before: u32) {
        let [decided, failed, panicked, written] = answers;
        assert_eq!(decided.unwrap(), 7);
        assert_eq!(failed.unwrap_err().kind(), Kind::NotFound);
        assert_eq!(panicked.unwrap_err().kind(), Kind::Internal);
        assert_eq!(written.unwrap(), 1);
        assert_eq!(effects(store).await, before + 1);
    }

    #[test]
    fn an_idle_writer_looks_outside_of_a_transaction() {
        run(async |store| {
            let writer = store.writer();
            let unlocked: fn(&Connection) -> _ = |connection| {
                let state = connection.transaction_state(Some(c"main")).map_err(driver_error)?;
                assert!(!matches!(state, rusqlite::TransactionState::Write));
                DECIDES(connection)
            };
            assert_eq!(writer.look_and_run(unlocked).await.unwrap(), 7);
            let answers = [
                writer.look_and_run(DECIDES).await,
                writer.look_and_run(FAILS).await,
                writer.look_and_run(PANICS).await,
                writer.look_and_run(WRITES).await,
            ];
            check(&store, answers, 0).await;
        });
    }

    #[test]
    fn in_an_open_transaction_each_look_hears_its_own() {
        run(async |store| {
            let (gate, opened) = mpsc::channel::<()>();
            let (enter, entered) = mpsc::channel();
            let open = store.write(move |tx| {
                let _ = enter.send(());
                let _ = opened.recv();
                tx.execute("INSERT INTO effect VALUES (0)", []).map_err(driver_error)
            });
            let mut open = Box::pin(open);
            assert!(queue(open.as_mut()).is_pending());
            entered.recv().unwrap();
            let mut calls: Vec<_> =
                [DECIDES, FAILS, PANICS, WRITES].map(|look| Box::pin(store.writer().look_and_run(look))).into();
            assert!(calls.iter_mut().all(|call| queue(call.as_mut()).is_pending()));
            drop(gate);
            open.await.unwrap();
            let mut answers = Vec::new();
            for call in calls {
                answers.push(call.await);
            }
            check(&store, answers.try_into().unwrap(), 1).await;
        });
    }

    /// Makes a call that cannot be answered yet.
    fn queue<F: Future + ?Sized>(call: Pin<&mut F>) -> Poll<F::Output> {
        call.poll(&mut Context::from_waker(Waker::noop()))
    }
}
