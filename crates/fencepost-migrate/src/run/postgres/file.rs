//! One file: as one transaction with its row of the ledger in it, or statement by statement.

use std::time::Instant;

use fencepost_core::{Error, Kind, Result};
use tokio_postgres::Client;

use super::failure::{Refused, Stopped};
use super::server::failed;
use super::session::{Scope, Session, bounded};
use super::statement::{Task, Unit};
use super::{Runner, begin};
use crate::file::{Direction, Migration};
use crate::ledger::{Record, State};
use crate::plan::{Because, Step};
use crate::progress::Event;
use crate::run::jittered;
use crate::sql::Statement;

impl Runner<'_> {
    /// Runs what is not done of a file.
    pub(super) async fn file(&mut self, client: &mut Client, session: &Session, step: &Step<'_>) -> Result<()> {
        let migration = step.migration;
        let (number, statements) = (migration.number, migration.statements.len());
        let done = if migration.options.no_transaction { step.done } else { 0 };
        if !self.is_pinned && migration.options.no_transaction {
            sets_nothing(migration)?;
        }
        self.tell(Event::FileStarted { number, name: migration.name.clone(), statements, done });
        let task = Task { migration, since: Instant::now(), session };
        let outcome = if migration.options.no_transaction {
            self.by_statement(client, &task, done, step.because).await
        } else {
            self.tried(client, &task, Unit::File).await
        };
        match outcome {
            Ok(()) => {
                self.tell(Event::FileDone { number, took: task.since.elapsed() });
                Ok(())
            }
            Err(Stopped::Ours(error)) => Err(error.attempting(format_args!("cannot run migration {number}"))),
            Err(Stopped::Statement(refused)) => {
                // Who has no connection can record nothing; the ledger says what was recorded before.
                // A way back that failed is undone as a whole: the migration stays applied.
                let is_recorded = !refused.is_lost() && migration.direction == Direction::Up;
                let recorded =
                    if !is_recorded { Ok(()) } else { self.record_failure(client, &task, &refused, done).await };
                let error = refused.into_error(migration);
                Err(match recorded {
                    Ok(()) => error,
                    Err(second) => error.with("not_recorded", second),
                })
            }
        }
    }

    /// Each statement by itself, recorded after each. What the file set for its session is set until its end.
    async fn by_statement(
        &mut self,
        client: &mut Client,
        task: &Task<'_>,
        done: usize,
        because: Because,
    ) -> Result<(), Stopped> {
        let migration = task.migration;
        // What was left may have been taken out of the file.
        let state = if done == migration.statements.len() { State::Applied } else { State::Running };
        let begun = Record { done, ..Record::new(migration, state) };
        self.record(client, task, &begun).await?;
        let mut outcome = again(client, migration, done).await;
        for at in done..migration.statements.len() {
            if outcome.is_err() {
                break;
            }
            let is_in_doubt = at == done && because == Because::Interrupted;
            outcome = self.tried(client, task, Unit::Statement { at, is_in_doubt }).await;
        }
        // What ended the statements is what is told.
        match self.is_pinned && !client.is_closed() {
            true => outcome.and(task.session.restore(client).await.map_err(Stopped::from)),
            false => outcome,
        }
    }

    /// Tries until it succeeds or fails for good. What meets a lock is rolled back as a whole, so that nobody waits behind it meanwhile.
    async fn tried(&mut self, client: &mut Client, task: &Task<'_>, unit: Unit) -> Result<(), Stopped> {
        let mut attempt = 1;
        loop {
            match self.once(client, task, unit).await {
                Err(Stopped::Statement(refused)) if refused.is_transient() && attempt < self.options.attempts => {
                    let pause = jittered(self.options.lock_timeout_of(task.migration))?;
                    let (number, statement) = (task.migration.number, refused.statement(task.migration));
                    self.tell(Event::Retried { number, statement, attempt, pause, by: refused.blockers });
                    tokio::time::sleep(pause).await;
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    /// INVARIANT: what was done stays done, also when what it had set could not be set again.
    async fn record_failure(
        &mut self,
        client: &mut Client,
        task: &Task<'_>,
        refused: &Refused,
        done: usize,
    ) -> Result<()> {
        let done = if task.migration.options.no_transaction { refused.at.max(done) } else { 0 };
        let failed_at = Some(refused.recorded(task.migration));
        let record = Record { done, failed: failed_at, ..Record::new(task.migration, State::Failed) };
        self.record(client, task, &record).await
    }

    /// Writes a row in a transaction of its own.
    async fn record(&mut self, client: &mut Client, task: &Task<'_>, record: &Record<'_>) -> Result<()> {
        let attempted = |error| failed("cannot write the ledger", error);
        let record = Record { milliseconds: task.milliseconds(), ..record.clone() };
        let tx = begin(client).await.map_err(attempted)?;
        task.session.restore_in(tx.client(), Scope::Transaction).await?;
        // Somebody may have the ledger locked.
        bounded(&tx, self.options.lock_timeout_of(task.migration)).await.map_err(attempted)?;
        self.fence.check(&tx).await?;
        self.ledger.write(&tx, &record).await?;
        tx.commit().await.map_err(attempted)
    }
}

/// Refuses a file that needs a session of its own where there is none: what it sets would stay with a session of the pooler, or not be there
/// for its next statement.
fn sets_nothing(migration: &Migration) -> Result<()> {
    match migration.statements.iter().position(is_setting) {
        None => Ok(()),
        Some(at) => Err(Error::new(
            Kind::Unsupported,
            format!(
                "cannot run migration {} under a lease: its statement {} sets something for a session",
                migration.number,
                at + 1
            ),
        )
        .coded("session_setting")
        .with("number", migration.number)
        .hinted("qualify names instead, or run it by `--lock advisory` on a connection to the server itself")),
    }
}

/// Whether a statement changes what holds for the session.
fn is_setting(statement: &Statement) -> bool {
    let words: Vec<&str> = statement.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["SET", "LOCAL" | "CONSTRAINTS" | "TRANSACTION", ..] => false,
        ["SET" | "RESET", ..] => true,
        _ => false,
    }
}

/// Sets again what the statements that are done have set for the session.
async fn again(client: &Client, migration: &Migration, done: usize) -> Result<(), Stopped> {
    for (at, statement) in migration.statements.iter().enumerate().take(done) {
        if is_setting(statement) {
            let set = client.batch_execute(migration.text_of(statement)).await;
            set.map_err(|error| Refused::stop(at, error, Vec::new()))?;
        }
    }
    Ok(())
}
