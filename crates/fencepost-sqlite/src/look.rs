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
use crate::writer::{Call, Ended, Pending, Undo, panicked};

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
            let looked =
                self.writer().submit(|reply| Looking { look, call: Pending::new(Undo::Savepoint, None, reply) });
            return looked.await.map_err(|error| error.during(operation));
        }
        match self.read(operation, move |snapshot| look(snapshot)).await? {
            Look::Done(value) => Ok(value),
            Look::Write(work) => self.transact(operation, work).await,
        }
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
