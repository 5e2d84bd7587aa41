//! The migrator on a session of PostgreSQL.

use std::time::Duration;

use fencepost_connect::Notice;
use fencepost_core::{Reason, Result};
use tokio::sync::mpsc::Receiver;
use tokio_postgres::{Client, Transaction};

use super::{Baseline, Change, Done, Migrator, Repair, Status, baseline, down, repaired};
use crate::gate::Readiness;
use crate::import::{Imported, Source};
use crate::ledger::postgres::{PostgresLedger, read};
use crate::ledger::{Action, Found};
use crate::plan::{Because, Finding, Plan, Step};
use crate::progress::{Event, Listener};
use crate::run::postgres::server::failed;
use crate::run::postgres::{Beside, Fence, Runner, SessionIsTheLock, begin, bounded};
use crate::wait::Pauses;

/// A session on which migrations are run. Whoever has it holds the lock, or is alone with the database.
pub struct OnPostgres<'a> {
    migrator: &'a Migrator,
    client: &'a mut Client,
    fence: &'a dyn Fence,
    beside: Option<&'a dyn Beside>,
    notices: Option<&'a mut Receiver<Notice>>,
    is_pinned: bool,
    listener: Listener<'a>,
}

impl Migrator {
    /// Runs on this session. The caller sees to it that nobody else does meanwhile.
    pub fn on_postgres<'a>(&'a self, client: &'a mut Client, listener: Listener<'a>) -> OnPostgres<'a> {
        OnPostgres {
            migrator: self,
            client,
            fence: &SessionIsTheLock,
            beside: None,
            notices: None,
            is_pinned: true,
            listener,
        }
    }

    /// How the database stands. Takes no lock and changes nothing.
    ///
    /// # Errors
    /// When the ledger cannot be read: `ledger_newer`, `ledger_damaged`, or what the server says.
    pub async fn status_of(&self, client: &Client) -> Result<Status> {
        Ok(self.status(read(client, &self.ledger).await?.0))
    }

    /// Whether what was applied is what the files say; what is worth a look. Takes no lock and changes nothing.
    ///
    /// # Errors
    /// `never_applied` when there is no ledger; of kind `schema`, with the code of the first refusal, when something does not agree.
    pub async fn verify_of(&self, client: &Client) -> Result<Vec<Finding>> {
        self.verify(&read(client, &self.ledger).await?.0)
    }

    /// What a run would do. Takes no lock and changes nothing.
    ///
    /// # Errors
    /// As [`Migrator::status_of`]; `invalid_input` when no file has the number.
    pub async fn plan_of(&self, client: &Client, to: Option<u64>) -> Result<Plan<'_>> {
        let plan = Plan::of(&self.migrations, read(client, &self.ledger).await?.0.entries());
        match to {
            Some(number) => plan.up_to(&self.migrations, number),
            None => Ok(plan),
        }
    }

    /// Whether the database is ready, in one round trip when there is a ledger. Waits for no lock that a migration holds.
    ///
    /// # Errors
    /// As [`Migrator::status_of`].
    pub async fn ready_of(&self, client: &Client) -> Result<Readiness> {
        Ok(match read(client, &self.ledger).await?.0 {
            Found::Never => Readiness::of(&self.migrations, None),
            Found::There(entries) => Readiness::of(&self.migrations, Some(&entries)),
        })
    }

    /// Asks until the database is ready, somebody has to look, or `within` is over; the last answer. Zero asks once.
    ///
    /// # Errors
    /// The last error when none of the answers came.
    pub async fn wait_of(&self, client: &Client, within: Duration) -> Result<Readiness> {
        let mut pauses = Pauses::within(within);
        loop {
            let answer = self.ready_of(client).await;
            if client.is_closed() {
                return answer;
            }
            match pauses.after(&answer)? {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return answer,
            }
        }
    }
}

impl<'a> OnPostgres<'a> {
    /// Refuses every write of the ledger for which `fence` finds the lock lost.
    #[must_use]
    pub fn fenced(mut self, fence: &'a dyn Fence) -> Self {
        self.fence = fence;
        self
    }

    /// Behind a pooler that hands out a session a transaction: nothing is set for the session.
    #[must_use]
    pub fn unpinned(mut self) -> Self {
        self.is_pinned = false;
        self
    }

    /// Looks from another connection who blocks a statement that waits.
    #[must_use]
    pub fn watched(mut self, beside: &'a dyn Beside) -> Self {
        self.beside = Some(beside);
        self
    }

    /// Passes on what the server says beside its answers, which whoever drives the connection puts in there.
    #[must_use]
    pub fn hearing(mut self, notices: &'a mut Receiver<Notice>) -> Self {
        self.notices = Some(notices);
        self
    }

    /// Runs what is missing, up to a number or all of it.
    ///
    /// # Errors
    /// `migration_failed` when a statement fails: its source is a [`MigrationFailure`](crate::MigrationFailure); `lock_timeout` when
    /// a lock did not come; of kind `schema` when files and ledger do not agree, and nothing is run; what the server says.
    pub async fn up(&mut self, to: Option<u64>) -> Result<Done> {
        let (found, ledger) = self.open().await?;
        let plan = self.migrator.steps(&found, to)?;
        let left = |step: &Step<'_>| step.migration.statements.len() - step.done;
        let statements = plan.steps.iter().map(left).sum();
        (self.listener)(Event::Planned { files: plan.steps.len(), statements });
        self.run(&ledger, &plan.steps).await?;
        let numbers = plan.steps.iter().map(|step| step.migration.number).collect();
        Ok(Done { numbers, findings: plan.findings })
    }

    /// Undoes everything after a number, the latest first, by the files that lead back.
    ///
    /// # Errors
    /// `no_way_back` when a file is missing, and nothing is undone; otherwise as [`Self::up`].
    pub async fn down(&mut self, to: u64) -> Result<Done> {
        let (found, ledger) = self.there().await?;
        let files = down(&self.migrator.migrations, found.entries(), to)?;
        let steps: Vec<_> =
            files.into_iter().map(|migration| Step { migration, done: 0, because: Because::Pending }).collect();
        self.run(&ledger, &steps).await?;
        Ok(Done { numbers: steps.iter().map(|step| step.migration.number).collect(), findings: Vec::new() })
    }

    /// Says that the database has everything up to a number already; the numbers that this changed.
    ///
    /// # Errors
    /// `not_found` when there is nothing up to it that is not applied.
    pub async fn baseline(&mut self, number: u64, reason: &Reason) -> Result<Vec<u64>> {
        let (found, ledger) = self.open().await?;
        let change = baseline(&self.migrator.migrations, found.entries(), number)?;
        let tx = begun(self.client, self.migrator.options.lock_timeout).await?;
        let changed = write_baseline(&tx, &ledger, change, reason).await?;
        commit(self.fence, tx).await?;
        Ok(changed)
    }

    /// Changes the ledger by hand, and writes down why.
    ///
    /// # Errors
    /// `not_found` when file or row is missing, `conflict` when the row is not what the repair is for.
    pub async fn repair(&mut self, repair: Repair, reason: &Reason) -> Result<()> {
        let (found, ledger) = self.there().await?;
        let Change { action, number, record } = repaired(&self.migrator.migrations, found.entries(), repair)?;
        let tx = begun(self.client, self.migrator.options.lock_timeout).await?;
        ledger.remember(&tx, action, Some(number), Some(reason.as_str())).await?;
        match &record {
            Some(record) => ledger.mark(&tx, record).await?,
            None => ledger.remove(&tx, number).await?,
        }
        commit(self.fence, tx).await
    }

    /// Takes over what the ledger of another tool says, and runs nothing.
    ///
    /// # Errors
    /// `not_found` when there is no such ledger, `conflict` when it is dirty or ours has rows already, of kind `schema` when a
    /// file is missing of what it says.
    pub async fn import(&mut self, source: Source) -> Result<Imported> {
        let rows = crate::import::postgres::read(self.client, &self.migrator.migrations, source).await?;
        let (found, _) = read(self.client, &self.migrator.ledger).await?;
        let (records, imported) = crate::import::matched(&self.migrator.migrations, found.entries(), source, &rows)?;
        let (_, ledger) = self.open().await?;
        let tx = begun(self.client, self.migrator.options.lock_timeout).await?;
        for record in &records {
            ledger.remember(&tx, Action::Imported, Some(record.migration.number), Some(source.table())).await?;
            ledger.mark(&tx, record).await?;
        }
        commit(self.fence, tx).await?;
        Ok(imported)
    }

    async fn run(&mut self, ledger: &PostgresLedger, steps: &[Step<'_>]) -> Result<()> {
        let mut runner = Runner {
            ledger,
            fence: self.fence,
            beside: self.beside,
            notices: self.notices.as_deref_mut(),
            options: &self.migrator.options,
            listener: self.listener,
            is_pinned: self.is_pinned,
        };
        runner.run(self.client, steps).await
    }

    /// The ledger that is there.
    async fn there(&mut self) -> Result<(Found, PostgresLedger)> {
        match read(self.client, &self.migrator.ledger).await? {
            (Found::Never, _) => Err(super::never()),
            (found, name) => Ok((found, PostgresLedger::new(name, self.migrator.runner.clone()))),
        }
    }

    /// The ledger, which is made when there is none.
    async fn open(&mut self) -> Result<(Found, PostgresLedger)> {
        let (found, name) = read(self.client, &self.migrator.ledger).await?;
        let ledger = PostgresLedger::new(name, self.migrator.runner.clone());
        if found == Found::Never {
            let tx = begun(self.client, self.migrator.options.lock_timeout).await?;
            ledger.create(&tx).await?;
            commit(self.fence, tx).await?;
        }
        Ok((found, ledger))
    }
}

/// Writes a baseline; the numbers that this changes.
pub(super) async fn write_baseline(
    tx: &Transaction<'_>,
    ledger: &PostgresLedger,
    change: Baseline<'_>,
    reason: &Reason,
) -> Result<Vec<u64>> {
    for record in &change.records {
        ledger.remember(tx, Action::Baselined, Some(record.migration.number), Some(reason.as_str())).await?;
        ledger.mark(tx, record).await?;
    }
    for number in &change.without_file {
        ledger.remember(tx, Action::Baselined, Some(*number), Some(reason.as_str())).await?;
        ledger.keep(tx, *number).await?;
    }
    Ok(change.numbers())
}

/// Begins a change by hand. It waits no longer for somebody who has the ledger locked than a statement would.
async fn begun(client: &mut Client, lock_timeout: Duration) -> Result<Transaction<'_>> {
    let attempted = |error| failed("cannot begin", error);
    let tx = begin(client).await.map_err(attempted)?;
    bounded(&tx, lock_timeout).await.map_err(attempted)?;
    Ok(tx)
}

/// Commits a change by hand, if the lock is still held.
async fn commit(fence: &dyn Fence, tx: Transaction<'_>) -> Result<()> {
    fence.check(&tx).await?;
    tx.commit().await.map_err(|error| failed("cannot commit", error))
}
