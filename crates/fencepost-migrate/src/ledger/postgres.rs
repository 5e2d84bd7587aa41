//! The ledger on PostgreSQL. Every statement is typed, unnamed and bound; names are qualified, whatever a migration did to the session.

use fencepost_core::{Error, Kind, Result, Timestamp};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Transaction};

use super::{
    Action, Entry, FORMAT, FailedAt, Found, LedgerName, Record, State, TOOL, damaged, judge_format, taken_over,
};
use crate::hash::Hashes;
use crate::run::postgres::server::failed;

const READING: &str = "cannot read the ledger";
const WRITING: &str = "cannot write the ledger";

/// A ledger whose schema is known.
#[derive(Debug, Clone)]
pub(crate) struct PostgresLedger {
    name: LedgerName,
    runner: String,
}

/// Reads the ledger of that name, in one round trip when it is there. Also the name with the schema in which it is, or would be.
pub(crate) async fn read(client: &Client, name: &LedgerName) -> Result<(Found, LedgerName)> {
    let sql = name.fill(include_str!("../../sql/postgres/read.sql"));
    let mut tries = 0;
    let rows = loop {
        tries += 1;
        match client.query_typed(&sql, &[(&name.path(), Type::TEXT)]).await {
            Ok(rows) => break rows,
            Err(error) if error.code().is_some_and(|state| matches!(state.code(), "42P01" | "3F000" | "42703")) => {
                match absent(client, name).await? {
                    Some(absent) => return Ok(absent),
                    // RACE: another runner may have made it since.
                    None if tries < 3 => {}
                    None => return Err(damaged("a table or a column of it is missing".into()).caused_by(error)),
                }
            }
            Err(error) => return Err(failed(READING, error)),
        }
    };
    let first = rows.first().ok_or_else(|| damaged("it gives no answer".into()))?;
    let (found_in, current): (Option<String>, Option<String>) = (get(first, "found_in")?, get(first, "current")?);
    if name.schema().is_none() && found_in != current {
        // Another schema of the search path has one; it is not the one of this connection.
        return Ok((Found::Never, resolved(name, current)?));
    }
    judge_format(get(first, "format")?)?;
    let is_row = |row: &&Row| row.try_get::<_, Option<i64>>("number").ok().flatten().is_some();
    let entries = rows.iter().filter(is_row).map(entry).collect::<Result<_>>()?;
    Ok((Found::There(entries), resolved(name, found_in)?))
}

/// Where the ledger would be, when there is none; nothing when there is one, or half of one.
pub(crate) async fn absent(client: &Client, name: &LedgerName) -> Result<Option<(Found, LedgerName)>> {
    let question = "select current_schema()::text, to_regclass($1) is not null, to_regclass($2) is not null";
    let (ledger, history) = (name.path(), name.fill("{history}"));
    let answer = client.query_typed_one(question, &[(&ledger, Type::TEXT), (&history, Type::TEXT)]).await;
    let answer = answer.map_err(|error| failed(READING, error))?;
    let (current, has_ledger, has_history): (Option<String>, bool, bool) =
        (answer.get(0), answer.get(1), answer.get(2));
    if !has_ledger && !has_history {
        return resolved(name, name.schema().map(str::to_owned).or(current)).map(|name| Some((Found::Never, name)));
    }
    if has_history {
        let format = client.query_typed_one(&name.fill("select max(format) from {history}"), &[]).await;
        judge_format(format.map_err(|error| failed(READING, error))?.get(0))?;
    }
    Ok(None)
}

fn resolved(name: &LedgerName, schema: Option<String>) -> Result<LedgerName> {
    let Some(schema) = schema else {
        return Err(Error::new(
            Kind::NotFound,
            "cannot tell where the ledger is: the search path names no schema that is there",
        )
        .coded("no_schema")
        .hinted("name a schema for the ledger, or set search_path for the role or the database"));
    };
    name.clone().within(schema)
}

impl PostgresLedger {
    /// The ledger of a name that [`read`] has resolved.
    pub(crate) fn new(name: LedgerName, runner: String) -> Self {
        Self { name, runner }
    }

    /// Makes the tables.
    pub(crate) async fn create(&self, tx: &Transaction<'_>) -> Result<()> {
        let tables = self.name.fill(include_str!("../../sql/postgres/create.sql"));
        tx.batch_execute(&tables).await.map_err(|error| failed("cannot make the ledger", error))?;
        self.remember(tx, Action::Created, None, None).await
    }

    /// Writes what became of a migration that was run.
    pub(crate) async fn write(&self, tx: &Transaction<'_>, record: &Record<'_>) -> Result<()> {
        let (number, statements) = (number_of(record.migration.number)?, count_of(record.migration.statements.len())?);
        let failed_statement = record.failed.as_ref().map(|failed| count_of(failed.statement)).transpose()?;
        let sqlstate = record.failed.as_ref().and_then(|failed| failed.sqlstate.clone());
        let message = record.failed.as_ref().map(|failed| &failed.message);
        let (done, done_hash) = (count_of(record.done)?, record.migration.done_hash(record.done));
        let milliseconds = i64::try_from(record.milliseconds).unwrap_or(i64::MAX);
        let (hashes, state) = (&record.migration.hashes, record.state.as_str());
        let values: [(&(dyn ToSql + Sync), Type); 15] = [
            (&number, Type::INT8),
            (&record.migration.name, Type::TEXT),
            (&state, Type::TEXT),
            (&hashes.text, Type::TEXT),
            (&hashes.layout, Type::TEXT),
            (&hashes.tokens, Type::TEXT),
            (&statements, Type::INT4),
            (&done, Type::INT4),
            (&done_hash, Type::TEXT),
            (&failed_statement, Type::INT4),
            (&sqlstate, Type::TEXT),
            (&message, Type::TEXT),
            (&self.runner, Type::TEXT),
            (&milliseconds, Type::INT8),
            (&TOOL, Type::TEXT),
        ];
        self.one(tx, include_str!("../../sql/postgres/write.sql"), &values, record.migration.number).await
    }

    /// Writes a row by hand.
    pub(crate) async fn mark(&self, tx: &Transaction<'_>, record: &Record<'_>) -> Result<()> {
        let (number, statements) = (number_of(record.migration.number)?, count_of(record.migration.statements.len())?);
        let (done, done_hash) = (count_of(record.done)?, record.migration.done_hash(record.done));
        let (hashes, state) = (&record.migration.hashes, record.state.as_str());
        let values: [(&(dyn ToSql + Sync), Type); 11] = [
            (&number, Type::INT8),
            (&record.migration.name, Type::TEXT),
            (&state, Type::TEXT),
            (&hashes.text, Type::TEXT),
            (&hashes.layout, Type::TEXT),
            (&hashes.tokens, Type::TEXT),
            (&statements, Type::INT4),
            (&done, Type::INT4),
            (&done_hash, Type::TEXT),
            (&self.runner, Type::TEXT),
            (&TOOL, Type::TEXT),
        ];
        self.one(tx, include_str!("../../sql/postgres/mark.sql"), &values, record.migration.number).await
    }

    /// Says that the first `done` statements are done.
    pub(crate) async fn advance(&self, tx: &Transaction<'_>, record: &Record<'_>) -> Result<()> {
        let (number, done) = (number_of(record.migration.number)?, count_of(record.done)?);
        let done_hash = record.migration.done_hash(record.done);
        let milliseconds = i64::try_from(record.milliseconds).unwrap_or(i64::MAX);
        let values: [(&(dyn ToSql + Sync), Type); 6] = [
            (&number, Type::INT8),
            (&done, Type::INT4),
            (&done_hash, Type::TEXT),
            (&record.state.as_str(), Type::TEXT),
            (&milliseconds, Type::INT8),
            (&self.runner, Type::TEXT),
        ];
        self.one(tx, include_str!("../../sql/postgres/advance.sql"), &values, record.migration.number).await
    }

    /// Makes a row a baseline as it is.
    pub(crate) async fn keep(&self, tx: &Transaction<'_>, number: u64) -> Result<()> {
        let values: [(&(dyn ToSql + Sync), Type); 1] = [(&number_of(number)?, Type::INT8)];
        self.one(tx, include_str!("../../sql/postgres/keep.sql"), &values, number).await
    }

    /// Takes a row away.
    pub(crate) async fn remove(&self, tx: &Transaction<'_>, number: u64) -> Result<()> {
        let values: [(&(dyn ToSql + Sync), Type); 1] = [(&number_of(number)?, Type::INT8)];
        self.one(tx, include_str!("../../sql/postgres/remove.sql"), &values, number).await
    }

    /// Writes down what is about to be changed by hand.
    pub(crate) async fn remember(
        &self,
        tx: &Transaction<'_>,
        action: Action,
        number: Option<u64>,
        reason: Option<&str>,
    ) -> Result<()> {
        let number = number.map(number_of).transpose()?;
        let values: [(&(dyn ToSql + Sync), Type); 6] = [
            (&FORMAT, Type::INT4),
            (&action.as_str(), Type::TEXT),
            (&number, Type::INT8),
            (&reason, Type::TEXT),
            (&self.runner, Type::TEXT),
            (&TOOL, Type::TEXT),
        ];
        let statement = self.name.fill(include_str!("../../sql/postgres/history.sql"));
        tx.execute_typed(&statement, &values).await.map(drop).map_err(|error| failed(WRITING, error))
    }

    /// Runs a statement that writes exactly one row, or finds that it is another runner's.
    async fn one(
        &self,
        tx: &Transaction<'_>,
        sql: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
        number: u64,
    ) -> Result<()> {
        let rows = tx.query_typed(&self.name.fill(sql), values).await.map_err(|error| failed(WRITING, error))?;
        if rows.len() == 1 { Ok(()) } else { Err(taken_over(number)) }
    }
}

fn entry(row: &Row) -> Result<Entry> {
    let failed = match get::<Option<i32>>(row, "failed_statement")? {
        Some(statement) => Some(FailedAt {
            statement: size(statement)?,
            sqlstate: get(row, "sqlstate")?,
            message: get::<Option<String>>(row, "message")?.unwrap_or_default(),
        }),
        None => None,
    };
    Ok(Entry {
        number: size(get::<i64>(row, "number")?)?,
        name: get(row, "name")?,
        state: State::parse(&get::<String>(row, "state")?)?,
        hashes: Hashes {
            text: get(row, "text_hash")?,
            layout: get(row, "layout_hash")?,
            tokens: get(row, "token_hash")?,
        },
        statements: size(get::<i32>(row, "statements")?)?,
        done: size(get::<i32>(row, "done")?)?,
        done_hash: get(row, "done_hash")?,
        failed,
        role: get(row, "role")?,
        runner: get(row, "runner")?,
        started_at: Timestamp::from_micros(get(row, "started_at")?),
        finished_at: get::<Option<i64>>(row, "finished_at")?.map(Timestamp::from_micros),
        milliseconds: get::<Option<i64>>(row, "milliseconds")?.map(size).transpose()?,
        tool: get(row, "tool")?,
    })
}

fn get<'r, T: tokio_postgres::types::FromSql<'r>>(row: &'r Row, column: &str) -> Result<T> {
    row.try_get(column).map_err(|error| damaged(format!("its column `{column}` cannot be read")).caused_by(error))
}

fn size<T: TryInto<U>, U>(value: T) -> Result<U> {
    value.try_into().map_err(|_| damaged("a count is negative".into()))
}

fn number_of(number: u64) -> Result<i64> {
    i64::try_from(number)
        .map_err(|_| Error::invalid(format!("cannot use {number} as a number of a migration"), "at most 18 digits"))
}

fn count_of(count: usize) -> Result<i32> {
    i32::try_from(count)
        .map_err(|_| Error::invalid(format!("cannot run {count} statements of one file"), "at most 2147483647"))
}
