//! One attempt: a file or a statement in a transaction with what is recorded of it, or a statement that no transaction may hold.

use std::ops::Range;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use super::failure::{Refused, Stopped};
use super::index::{self, Prepared};
use super::server::failed;
use super::session::{Scope, Session, settle};
use super::watch::{look, pause};
use super::{Runner, begin};
use crate::file::{Direction, Migration};
use crate::ledger::{Action, Record, State};
use crate::progress::Event;

/// A file that is being run.
pub(super) struct Task<'t> {
    pub(super) migration: &'t Migration,
    pub(super) since: Instant,
    pub(super) session: &'t Session,
}

impl Task<'_> {
    pub(super) fn milliseconds(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// That so many statements are done, of a file that is run one by one.
    fn progress(&self, done: usize) -> Record<'_> {
        let state = if done == self.migration.statements.len() { State::Applied } else { State::Running };
        Record { done, milliseconds: self.milliseconds(), ..Record::new(self.migration, state) }
    }
}

/// What is undone as a whole.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unit {
    File,
    Statement {
        at: usize,
        /// Whether it may be done already: who ran it is gone.
        is_in_doubt: bool,
    },
}

impl Runner<'_> {
    pub(super) async fn once(&mut self, client: &mut Client, task: &Task<'_>, unit: Unit) -> Result<(), Stopped> {
        match unit {
            Unit::File => self.in_transaction(client, task, 0..task.migration.statements.len(), Scope::Session).await,
            Unit::Statement { at, is_in_doubt } => {
                // With its record, so that no crash leaves it in doubt; the server says which statements that cannot be done for.
                match self.in_transaction(client, task, at..at + 1, Scope::Transaction).await {
                    Err(Stopped::Statement(refused)) if refused.needs_no_transaction() => {
                        self.alone(client, task, at, is_in_doubt).await
                    }
                    other => other,
                }
            }
        }
    }

    /// Runs statements and records them, in one transaction. What they set for the session stays for it, or not, as `scope` of giving
    /// it back says.
    async fn in_transaction(
        &mut self,
        client: &mut Client,
        task: &Task<'_>,
        statements: Range<usize>,
        scope: Scope,
    ) -> Result<(), Stopped> {
        let attempted = |error| Stopped::Ours(failed("cannot begin", error));
        let (lock, time) = (self.options.lock_timeout_of(task.migration), self.options.statement_timeout);
        let tx = begin(client).await.map_err(attempted)?;
        let end = statements.end;
        let settled = settle(tx.client(), lock, time, Scope::Transaction);
        let mut statements = statements;
        let process = match (task.session.process(), statements.next()) {
            // ORDER: sent together, executed one after the other.
            (Some(process), Some(first)) => {
                let executed = self.execute(tx.client(), process, task.migration, first, lock);
                let (settled, executed) = tokio::join!(biased; settled, executed);
                settled.map_err(attempted)?;
                executed?;
                process
            }
            (_, first) => {
                let process = settled.await.map_err(attempted)?;
                if let Some(at) = first {
                    self.execute(tx.client(), process, task.migration, at, lock).await?;
                }
                process
            }
        };
        for at in statements {
            self.execute(tx.client(), process, task.migration, at, lock).await?;
        }
        // ORDER: sent together; what the migration has set is given back before ours are executed, and nothing is committed that the
        // fence refuses.
        let record = async {
            match (scope, task.migration.direction) {
                (Scope::Transaction, _) => self.ledger.advance(&tx, &task.progress(end)).await,
                (Scope::Session, Direction::Up) => {
                    let applied = Record::new(task.migration, State::Applied);
                    self.ledger.write(&tx, &Record { milliseconds: task.milliseconds(), ..applied }).await
                }
                (Scope::Session, Direction::Down) => {
                    self.ledger.remember(&tx, Action::Undone, Some(task.migration.number), None).await?;
                    self.ledger.remove(&tx, task.migration.number).await
                }
            }
        };
        let restore = task.session.restore_in(tx.client(), scope);
        let (restored, holds, recorded) = tokio::join!(biased; restore, self.fence.check(&tx), record);
        restored.and(holds).and(recorded)?;
        // A commit that is refused is the statement's own, or belongs to the file as a whole.
        let at = match scope {
            Scope::Transaction => end - 1,
            Scope::Session => task.migration.statements.len(),
        };
        tx.commit().await.map_err(|error| Refused::stop(at, error, Vec::new()))
    }

    /// Runs a statement that commits by itself, and records it afterwards. An index that a build has left behind is seen to first.
    async fn alone(
        &mut self,
        client: &mut Client,
        task: &Task<'_>,
        at: usize,
        is_in_doubt: bool,
    ) -> Result<(), Stopped> {
        let attempted = |error| Stopped::Ours(failed("cannot set timeouts", error));
        let (migration, number, statement) = (task.migration, task.migration.number, at + 1);
        let text = migration.text_of(&migration.statements[at]);
        let concurrent = index::Concurrent::of(text);
        // A build waits for every older snapshot: a timeout for locks would end it for being patient.
        let (lock, time) = match concurrent {
            Some(_) => (Duration::ZERO, self.options.index_timeout),
            None => (self.options.lock_timeout_of(migration), self.options.statement_timeout),
        };
        let scope = if self.is_pinned { Scope::Session } else { Scope::Transaction };
        let process = settle(client, lock, time, scope).await.map_err(attempted)?;
        let prepared = match &concurrent {
            Some(concurrent) => index::prepare(client, concurrent, is_in_doubt).await?,
            None => Prepared::Nothing,
        };
        if let Prepared::IsDone = prepared {
            self.tell(Event::AlreadyDone { number, statement });
        } else {
            if let Err(mut stopped) = self.execute(client, process, migration, at, lock).await {
                if let (Some(concurrent), Stopped::Statement(refused)) = (&concurrent, &mut stopped)
                    && !refused.is_lost()
                {
                    refused.left_behind = index::left_behind(client, concurrent).await;
                }
                return Err(stopped);
            }
            if let Prepared::Removed(index) = prepared {
                self.tell(Event::IndexRebuilt { number, statement, index });
            }
        }
        let tx = begin(client).await.map_err(attempted)?;
        task.session.restore_in(tx.client(), Scope::Transaction).await?;
        self.fence.check(&tx).await?;
        self.ledger.advance(&tx, &task.progress(statement)).await?;
        tx.commit().await.map_err(attempted)
    }

    /// Sends a statement and looks, while it waits, for what.
    async fn execute(
        &mut self,
        client: &Client,
        process: i32,
        migration: &Migration,
        at: usize,
        lock_timeout: Duration,
    ) -> Result<(), Stopped> {
        let (number, statement, since) = (migration.number, at + 1, Instant::now());
        let sent = &migration.statements[at];
        self.tell(Event::StatementStarted { number, statement, words: sent.words.join(" ") });
        // By itself and as text: some commands can be prepared in no way.
        let running = client.batch_execute(migration.text_of(sent));
        let pause = if lock_timeout.is_zero() { Duration::from_secs(1) } else { pause(lock_timeout) };
        let (mut running, mut blockers) = (std::pin::pin!(running), Vec::new());
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut running => break outcome,
                found = look(self.beside, process, pause) => {
                    if !found.is_empty() {
                        if found != blockers {
                            self.tell(Event::Blocked { number, statement, by: found.clone() });
                        }
                        blockers = found;
                    }
                }
            }
        };
        outcome.map_err(|error| Refused::stop(at, error, blockers))?;
        self.tell(Event::StatementDone { number, statement, took: since.elapsed() });
        Ok(())
    }
}
