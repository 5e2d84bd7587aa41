//! The ledger in a file of SQLite. Every statement is bound; names are qualified.

use fencepost_core::{Error, Kind, Result, Timestamp};
use rusqlite::{Connection, ErrorCode, Row, ToSql, named_params};

use super::{
    Action, Entry, FORMAT, FailedAt, Found, LedgerName, Record, State, TOOL, damaged, judge_format, taken_over,
};
use crate::hash::Hashes;

/// A ledger whose schema is known.
#[derive(Debug, Clone)]
pub(crate) struct SqliteLedger {
    name: LedgerName,
    runner: String,
}

/// An error of one of our own statements. `what` was attempted.
pub(crate) fn failed(what: &str, error: rusqlite::Error) -> Error {
    let contract = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::new(Kind::Busy, "somebody else writes to the file").hinted("try again when they are done")
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            Error::new(Kind::Unavailable, "the file cannot be written").coded("read_only")
        }
        Some(ErrorCode::DiskFull) => Error::new(Kind::Unavailable, "the disk is full").coded("storage_full"),
        Some(ErrorCode::SystemIoFailure) => Error::new(Kind::Unavailable, "the file cannot be used").coded("io_error"),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::new(Kind::Corrupt, "the file is damaged"),
        _ => Error::new(Kind::Internal, "SQLite refused a statement"),
    };
    contract.attempting(what).caused_by(error)
}

fn reading(error: rusqlite::Error) -> Error {
    failed("cannot read the ledger", error)
}

fn writing(error: rusqlite::Error) -> Error {
    failed("cannot write the ledger", error)
}

/// Reads the ledger of that name. Also the name with the schema in which it is, or would be.
pub(crate) fn read(connection: &Connection, name: &LedgerName) -> Result<(Found, LedgerName)> {
    let schema = name.schema().unwrap_or("main").to_owned();
    let is_attached: bool = connection
        .query_row("select count(*) from pragma_database_list where name = ?1", [&schema], |row| row.get(0))
        .map_err(reading)?;
    if !is_attached {
        return Err(Error::new(Kind::NotFound, format!("cannot read the ledger: no database `{schema}` is attached"))
            .coded("no_schema")
            .hinted("attach it first, or leave the schema out"));
    }
    let name = name.clone().within(schema)?;
    let tables = name.fill("select count(*) from pragma_table_list where schema = ?1 and name in (?2, ?3)");
    let history = format!("{}_history", name.table());
    let tables: i64 = connection
        .query_row(&tables, [name.schema().unwrap_or("main"), name.table(), &history], |row| row.get(0))
        .map_err(reading)?;
    match tables {
        0 => return Ok((Found::Never, name)),
        2 => {}
        _ => return Err(damaged("one of its two tables is missing".into())),
    }
    let format = connection.query_row(&name.fill("select max(format) from {history}"), [], |row| row.get(0));
    judge_format(format.map_err(|error| damaged("its history cannot be read".into()).caused_by(error))?)?;
    let mut statement = connection
        .prepare(&name.fill(include_str!("../../sql/sqlite/read.sql")))
        .map_err(|error| damaged("a column of it is missing".into()).caused_by(error))?;
    let mut rows = statement.query([]).map_err(reading)?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next().map_err(reading)? {
        if get::<Option<i64>>(row, "number")?.is_some() {
            entries.push(entry(row)?);
        }
    }
    drop(rows);
    drop(statement);
    Ok((Found::There(entries), name))
}

impl SqliteLedger {
    /// The ledger of a name that [`read`] has resolved.
    pub(crate) fn new(name: LedgerName, runner: String) -> Self {
        Self { name, runner }
    }

    /// Makes the tables, in the caller's transaction.
    pub(crate) fn create(&self, connection: &Connection) -> Result<()> {
        let tables = self.name.fill(include_str!("../../sql/sqlite/create.sql"));
        connection.execute_batch(&tables).map_err(|error| failed("cannot make the ledger", error))?;
        self.remember(connection, Action::Created, None, None)
    }

    /// Writes what became of a migration that was run.
    pub(crate) fn write(&self, connection: &Connection, record: &Record<'_>) -> Result<()> {
        self.put(connection, record, false)
    }

    /// Writes a row by hand, whatever was there.
    pub(crate) fn mark(&self, connection: &Connection, record: &Record<'_>) -> Result<()> {
        self.put(connection, record, true)
    }

    fn put(&self, connection: &Connection, record: &Record<'_>, by_hand: bool) -> Result<()> {
        let (migration, failed) = (record.migration, record.failed.as_ref());
        let values = named_params! {
            ":number": migration.number,
            ":name": migration.name,
            ":state": record.state.as_str(),
            ":text_hash": migration.hashes.text,
            ":layout_hash": migration.hashes.layout,
            ":token_hash": migration.hashes.tokens,
            ":statements": migration.statements.len(),
            ":done": record.done,
            ":done_hash": migration.done_hash(record.done),
            ":failed_statement": failed.map(|failed| failed.statement),
            ":sqlstate": failed.and_then(|failed| failed.sqlstate.as_ref()),
            ":message": failed.map(|failed| &failed.message),
            ":role": self.role(),
            ":runner": self.runner,
            ":milliseconds": record.milliseconds,
            ":tool": TOOL,
            ":by_hand": by_hand,
        };
        self.one(connection, include_str!("../../sql/sqlite/write.sql"), values, migration.number)
    }

    /// Says that the first `done` statements are done.
    pub(crate) fn advance(&self, connection: &Connection, record: &Record<'_>) -> Result<()> {
        let values = named_params! {
            ":number": record.migration.number,
            ":done": record.done,
            ":done_hash": record.migration.done_hash(record.done),
            ":state": record.state.as_str(),
            ":milliseconds": record.milliseconds,
            ":runner": self.runner,
        };
        self.one(connection, include_str!("../../sql/sqlite/advance.sql"), values, record.migration.number)
    }

    /// Makes a row a baseline as it is.
    pub(crate) fn keep(&self, connection: &Connection, number: u64) -> Result<()> {
        let values = named_params! { ":number": number };
        self.one(connection, include_str!("../../sql/sqlite/keep.sql"), values, number)
    }

    /// Takes a row away.
    pub(crate) fn remove(&self, connection: &Connection, number: u64) -> Result<()> {
        let values = named_params! { ":number": number };
        self.one(connection, include_str!("../../sql/sqlite/remove.sql"), values, number)
    }

    /// Writes down what is about to be changed by hand.
    pub(crate) fn remember(
        &self,
        connection: &Connection,
        action: Action,
        number: Option<u64>,
        reason: Option<&str>,
    ) -> Result<()> {
        let values = named_params! {
            ":format": FORMAT,
            ":action": action.as_str(),
            ":number": number,
            ":reason": reason,
            ":role": self.role(),
            ":runner": self.runner,
            ":tool": TOOL,
        };
        let sql = self.name.fill(include_str!("../../sql/sqlite/history.sql"));
        connection.execute(&sql, values).map(drop).map_err(writing)
    }

    /// A file has no roles: whoever runs the process.
    fn role(&self) -> &str {
        self.runner.split('@').next().unwrap_or_default()
    }

    /// Runs a statement that writes exactly one row, or finds that it is another runner's.
    fn one(&self, connection: &Connection, sql: &str, values: &[(&str, &dyn ToSql)], number: u64) -> Result<()> {
        let mut statement = connection.prepare(&self.name.fill(sql)).map_err(writing)?;
        let rows = statement.query_map(values, |_| Ok(())).map_err(writing)?;
        let count = rows.collect::<Result<Vec<()>, _>>().map_err(writing)?.len();
        if count == 1 { Ok(()) } else { Err(taken_over(number)) }
    }
}

fn entry(row: &Row<'_>) -> Result<Entry> {
    let failed = match get::<Option<usize>>(row, "failed_statement")? {
        Some(statement) => Some(FailedAt {
            statement,
            sqlstate: get(row, "sqlstate")?,
            message: get::<Option<String>>(row, "message")?.unwrap_or_default(),
        }),
        None => None,
    };
    Ok(Entry {
        number: get(row, "number")?,
        name: get(row, "name")?,
        state: State::parse(&get::<String>(row, "state")?)?,
        hashes: Hashes {
            text: get(row, "text_hash")?,
            layout: get(row, "layout_hash")?,
            tokens: get(row, "token_hash")?,
        },
        statements: get(row, "statements")?,
        done: get(row, "done")?,
        done_hash: get(row, "done_hash")?,
        failed,
        role: get(row, "role")?,
        runner: get(row, "runner")?,
        started_at: Timestamp::from_micros(get(row, "started_at")?),
        finished_at: get::<Option<i64>>(row, "finished_at")?.map(Timestamp::from_micros),
        milliseconds: get(row, "milliseconds")?,
        tool: get(row, "tool")?,
    })
}

fn get<T: rusqlite::types::FromSql>(row: &Row<'_>, column: &str) -> Result<T> {
    row.get(column).map_err(|error| damaged(format!("its column `{column}` cannot be read")).caused_by(error))
}
