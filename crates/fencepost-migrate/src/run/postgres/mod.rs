//! Runs migrations on a session of PostgreSQL that the caller owns: its lock is that session's, so that losing the one ends both.

mod failure;
mod file;
mod index;
pub(crate) mod server;
mod session;
mod statement;
mod watch;
mod within;

use async_trait::async_trait;
use fencepost_connect::Notice;
use fencepost_core::Result;
use tokio::sync::mpsc::Receiver;
use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::ledger::postgres::PostgresLedger;
use crate::plan::Step;
use crate::progress::{Event, Listener};
use crate::run::RunOptions;

use session::Session;
pub(crate) use session::bounded;

pub use watch::Beside;
pub(crate) use within::run_within;

/// Refuses what a runner writes that has lost its lock. Asked in every transaction that writes the ledger, right before the write.
#[async_trait]
pub trait Fence: Send + Sync {
    /// Fails when the lock is lost, and keeps it from being taken over until the transaction ends.
    ///
    /// # Errors
    /// `fenced`, or what the server says.
    async fn check(&self, tx: &Transaction<'_>) -> Result<()>;
}

/// Of a lock that dies with the session: who lost it can write nothing.
#[derive(Debug)]
pub(crate) struct SessionIsTheLock;

#[async_trait]
impl Fence for SessionIsTheLock {
    async fn check(&self, _: &Transaction<'_>) -> Result<()> {
        Ok(())
    }
}

/// What a run needs beside its session.
pub(crate) struct Runner<'a> {
    pub(crate) ledger: &'a PostgresLedger,
    pub(crate) fence: &'a dyn Fence,
    pub(crate) beside: Option<&'a dyn Beside>,
    pub(crate) notices: Option<&'a mut Receiver<Notice>>,
    pub(crate) options: &'a RunOptions,
    pub(crate) listener: Listener<'a>,
    /// Whether what is set for the session stays with it; not so behind a pooler that hands out a session a transaction.
    pub(crate) is_pinned: bool,
}

impl Runner<'_> {
    /// Runs every step in order. What a migration changed of the session's settings is undone after each.
    pub(crate) async fn run(&mut self, client: &mut Client, steps: &[Step<'_>]) -> Result<()> {
        let session = Session::read(client, self.is_pinned).await?;
        let mut outcome = Ok(());
        for step in steps {
            outcome = self.file(client, &session, step).await;
            if outcome.is_err() {
                break;
            }
        }
        let restored = if self.is_pinned && !client.is_closed() { session.restore(client).await } else { Ok(()) };
        outcome.and(restored)
    }

    fn tell(&mut self, event: Event) {
        if let Some(notices) = &mut self.notices {
            while let Ok(Notice { severity, message }) = notices.try_recv() {
                (self.listener)(Event::Notice { severity, message });
            }
        }
        (self.listener)(event);
    }
}

/// Begins a transaction that is what a migration expects, whatever the role's or the database's defaults are.
pub(crate) async fn begin(client: &mut Client) -> Result<Transaction<'_>, tokio_postgres::Error> {
    client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).read_only(false).start().await
}
