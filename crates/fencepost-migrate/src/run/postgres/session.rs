//! Settings of a session that a migration may change, and what a migration is run with.

use std::time::Duration;

use fencepost_core::Result;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};

use super::server::failed;

/// What is given back after a migration, in this order: a role is taken by the user that the session is.
const IN_TRANSACTION: [&str; 14] = [
    "session_authorization",
    "role",
    "search_path",
    "check_function_bodies",
    "client_encoding",
    "client_min_messages",
    "datestyle",
    "intervalstyle",
    "timezone",
    "default_table_access_method",
    "default_tablespace",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "row_security",
];

/// What is given back at the end, since every statement is run with its own.
const AT_THE_END: [&str; 6] = [
    "lock_timeout",
    "statement_timeout",
    "idle_in_transaction_session_timeout",
    "transaction_timeout",
    "standard_conforming_strings",
    "xmloption",
];

/// How a session was before anything was run on it.
#[derive(Debug)]
pub(super) struct Session {
    names: Vec<String>,
    values: Vec<String>,
    /// How many of them, from the first, are given back in a migration's own transaction.
    in_transaction: usize,
    /// The server's process, where it stays the same.
    process: Option<i32>,
}

/// For how long what is set is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Transaction,
    Session,
}

impl Session {
    /// `is_pinned`: no pooler gives it another process of the server.
    pub(super) async fn read(client: &Client, is_pinned: bool) -> Result<Self> {
        let names: Vec<&str> = IN_TRANSACTION.into_iter().chain(AT_THE_END).collect();
        let sql = include_str!("../../../sql/postgres/session.sql");
        let rows = client.query_typed(sql, &[(&names, Type::TEXT_ARRAY)]).await;
        let rows = rows.map_err(|error| failed("cannot read the settings of the session", error))?;
        let (names, values): (Vec<String>, Vec<String>) = rows.iter().map(|row| (row.get(0), row.get(1))).unzip();
        let in_transaction = names.iter().filter(|name| IN_TRANSACTION.contains(&name.as_str())).count();
        let process = rows.first().map(|row| row.get(2)).filter(|_| is_pinned);
        Ok(Self { names, values, in_transaction, process })
    }

    /// The server's process, where it is known before anything is sent.
    pub(super) fn process(&self) -> Option<i32> {
        self.process
    }

    /// Gives everything back.
    pub(super) async fn restore(&self, client: &Client) -> Result<()> {
        self.give_back(client, self.names.len(), Scope::Session).await
    }

    /// Gives back, in a migration's transaction, what our own statements and the next file depend on.
    pub(super) async fn restore_in(&self, client: &Client, scope: Scope) -> Result<()> {
        self.give_back(client, self.in_transaction, scope).await
    }

    async fn give_back(&self, client: &Client, count: usize, scope: Scope) -> Result<()> {
        let (names, values) = (&self.names[..count], &self.values[..count]);
        let sql = include_str!("../../../sql/postgres/restore.sql");
        let is_local = scope == Scope::Transaction;
        let values = [(&names as _, Type::TEXT_ARRAY), (&values as _, Type::TEXT_ARRAY), (&is_local as _, Type::BOOL)];
        let restored = client.query_typed(sql, &values).await;
        restored.map(drop).map_err(|error| failed("cannot restore the settings of the session", error))
    }
}

/// Sets what a statement is run with; returns the server's process.
pub(super) async fn settle(
    client: &Client,
    lock_timeout: Duration,
    statement_timeout: Option<Duration>,
    scope: Scope,
) -> Result<i32, tokio_postgres::Error> {
    // 0 is none to the server.
    let millis = |time: Duration| time.as_millis().to_string();
    let (lock, statement) = (millis(lock_timeout), statement_timeout.map_or_else(|| "0".into(), millis));
    let is_local = scope == Scope::Transaction;
    let sql = include_str!("../../../sql/postgres/settle.sql");
    let values = [(&lock as _, Type::TEXT), (&statement as _, Type::TEXT), (&is_local as _, Type::BOOL)];
    client.query_typed_one(sql, &values).await.map(|row| row.get(0))
}

/// Lets what follows in the transaction wait for locks for so long.
pub(crate) async fn bounded(tx: &Transaction<'_>, lock_timeout: Duration) -> Result<(), tokio_postgres::Error> {
    settle(tx.client(), lock_timeout, None, Scope::Transaction).await.map(drop)
}
