//! A database to migrate, and what was heard meanwhile.

use fencepost_core::{Error, Reason, Result};
use fencepost_migrate::sql::Dialect;
use fencepost_migrate::{Done, Entry, Event, Finding, MigrationFailure, Migrations, Migrator, State};
use fencepost_test_support::{PgServer, TestDatabase, skip_or_fail};
use tokio_postgres::Client;

/// A database of its own, with a session to migrate on and one to look from.
pub struct Database {
    pub database: TestDatabase,
    pub client: Client,
    pub other: Client,
    pub heard: Vec<Event>,
}

impl Database {
    pub async fn new() -> Option<Self> {
        let server = skip_or_fail(PgServer::shared().await)?;
        let database = server.database().await.unwrap();
        let (client, other) = (database.connect().await.unwrap(), database.connect().await.unwrap());
        Some(Self { database, client, other, heard: Vec::new() })
    }

    /// Runs what is missing.
    pub async fn up(&mut self, migrator: &Migrator) -> Result<Done> {
        let heard = &mut self.heard;
        let mut listener = |event| heard.push(event);
        migrator.on_postgres(&mut self.client, &mut listener).watched(&self.other).up(None).await
    }

    /// Another session to migrate on, as after a crash.
    pub async fn reconnect(&mut self) {
        self.client = self.database.connect().await.unwrap();
    }

    /// One value.
    pub async fn value(&self, sql: &str) -> String {
        let rows = self.other.simple_query(sql).await.unwrap();
        let row = rows.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        row.unwrap_or("null").to_owned()
    }

    pub async fn run(&self, sql: &str) {
        self.other.batch_execute(sql).await.unwrap();
    }

    /// The row of a migration.
    pub async fn entry(&self, migrator: &Migrator, number: u64) -> Option<Entry> {
        let status = migrator.status_of(&self.other).await.unwrap();
        status.entries.into_iter().find(|entry| entry.number == number)
    }

    /// State, statements done and statement failed of a migration.
    pub async fn stand(&self, migrator: &Migrator, number: u64) -> Option<(State, usize, Option<usize>)> {
        let entry = self.entry(migrator, number).await?;
        Some((entry.state, entry.done, entry.failed.map(|failed| failed.statement)))
    }
}

pub fn migrator<const N: usize>(files: [(&str, &str); N]) -> Migrator {
    Migrator::new(Migrations::of(files, Dialect::Postgres).unwrap())
}

pub fn reason() -> Reason {
    Reason::new("a test wants it").unwrap()
}

/// What the error says of the statement that failed.
pub fn failure(error: &Error) -> &MigrationFailure {
    std::error::Error::source(error).unwrap().downcast_ref().unwrap()
}

/// The codes of findings.
pub fn codes(findings: &[Finding]) -> Vec<(&'static str, u64)> {
    findings.iter().map(|finding| (finding.diagnostic().code, finding.number())).collect()
}
