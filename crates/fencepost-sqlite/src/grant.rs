//! Grants on their way to their callers. One that is dropped before it was delivered is given back at once: a caller that went away
//! must hold nothing.

use std::time::Instant;

use fencepost_core::{Error, Result};
use rusqlite::Connection;
use tokio::sync::mpsc;

use crate::state::Group;
use crate::writer::{Call, Ended, Order, Undo, Writer};

/// What gives a grant back.
pub(crate) type GiveBack = Box<dyn FnOnce(&mut Group<'_>) -> Result<()> + Send>;

/// What was granted, until its caller has it.
struct Undelivered<T> {
    granted: Option<T>,
    give_back: fn(T) -> Option<GiveBack>,
    queue: mpsc::WeakSender<Order>,
}

impl<T> Undelivered<T> {
    fn deliver(mut self) -> Option<T> {
        self.granted.take()
    }
}

impl<T> Drop for Undelivered<T> {
    fn drop(&mut self) {
        let Some(give_back) = self.granted.take().and_then(self.give_back) else { return };
        // Best effort: when the queue is full or the store is closed, it expires by itself.
        if let Some(queue) = self.queue.upgrade() {
            let _ = queue.try_send(Order::Call(Box::new(Errand { since: Instant::now(), work: Some(give_back) })));
        }
    }
}

impl Writer {
    /// Runs work that grants something. When its caller is gone before it has the answer, `give_back` says how to undo the grant;
    /// nothing for an answer that granted nothing.
    pub(crate) async fn run_granting<T, F>(&self, give_back: fn(T) -> Option<GiveBack>, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Group<'_>) -> Result<T> + Send + 'static,
    {
        let queue = self.queue()?.downgrade();
        // What is rolled back later is given back, too: its epoch is nobody's then, and nothing changes.
        let undelivered = self
            .run(Undo::Savepoint, move |group| Ok(Undelivered { granted: Some(work(group)?), give_back, queue }))
            .await?;
        undelivered.deliver().ok_or_else(|| Error::new(fencepost_core::Kind::Internal, "cannot deliver a grant twice"))
    }
}

/// A call that nobody waits for.
struct Errand {
    since: Instant,
    work: Option<GiveBack>,
}

impl Call for Errand {
    fn since(&self) -> Instant {
        self.since
    }

    fn is_abandoned(&self) -> bool {
        false
    }

    fn undo(&self) -> Undo {
        Undo::Savepoint
    }

    fn look(&mut self, _connection: &Connection) -> bool {
        false
    }

    fn run(&mut self, group: &mut Group<'_>) -> Result<(), Error> {
        self.work.take().map_or(Ok(()), |work| work(group))
    }

    fn answer(self: Box<Self>, _ended: Ended<'_>) {}
}
