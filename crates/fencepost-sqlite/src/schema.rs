//! The schema of a file: installed in one transaction, numbered, checked at every open, and tied to the file it is in.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use fencepost_core::{Clock, Epoch, Error, Kind, Nonce, Reason, Result, Timestamp};
use fencepost_migrate::sql::Dialect;
use fencepost_migrate::{LedgerName, Migrations, Migrator};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::error::driver_error;

/// Every migration, without gaps. Released ones are never edited.
const FILES: [(&str, &str); 6] = [
    ("0001_initial.sql", include_str!("../sql/migrations/0001_initial.sql")),
    ("0002_operators.sql", include_str!("../sql/migrations/0002_operators.sql")),
    ("0003_failures.sql", include_str!("../sql/migrations/0003_failures.sql")),
    ("0004_notice.sql", include_str!("../sql/migrations/0004_notice.sql")),
    ("0005_schedules.sql", include_str!("../sql/migrations/0005_schedules.sql")),
    ("0006_ledger.sql", include_str!("../sql/migrations/0006_ledger.sql")),
];

/// Where it is written down which of them were applied.
const LEDGER: &str = "fencepost_installation";

/// Where it was before there was a ledger.
const EARLIER: &str = "fencepost_schema";

/// How far the epoch counter jumps when the file turns out to be another one than it was.
const JUMP: i64 = 1 << 20;

/// The version of the schema that this build reads and writes.
pub(crate) const VERSION: u32 = FILES.len() as u32;

/// The migrations with their ledger.
fn migrator() -> Result<&'static Migrator> {
    static MIGRATOR: OnceLock<Migrator> = OnceLock::new();
    if let Some(migrator) = MIGRATOR.get() {
        return Ok(migrator);
    }
    let made = Migrator::new(Migrations::of(FILES, Dialect::Sqlite)?).ledger(LedgerName::new(LEDGER)?);
    Ok(MIGRATOR.get_or_init(|| made))
}

/// Refuses what is no store, before anything is changed in the file.
pub(crate) fn inspect(connection: &Connection, path: &Path, create: bool) -> Result<()> {
    match installed(connection, path)? {
        Some(version) if version > VERSION => Err(newer(path, version)),
        Some(version) if version == VERSION => check(connection, path),
        Some(version) if !create => Err(older(path, version)),
        None if !create => Err(absent(path)),
        _ => Ok(()),
    }
}

/// Checks the schema, installs or upgrades it when `create` is set, and makes sure that tokens granted in another file of the
/// same content are void here. Runs no DDL and takes no write lock when the schema is current and the file the same.
pub(crate) fn prepare(connection: &mut Connection, path: &Path, create: bool, clock: &dyn Clock) -> Result<()> {
    inspect(connection, path, create)?;
    if installed(connection, path)? != Some(VERSION) {
        install(connection, path, clock)?;
    }
    adopt(connection, path, clock)
}

fn older(path: &Path, version: u32) -> Error {
    Error::new(
        Kind::Schema,
        format!("cannot use `{}`: its schema has version {version}, this program needs {VERSION}", path.display()),
    )
    .coded("schema_older")
    .with("version", version)
    .hinted("`fencepost init` upgrades it")
}

fn absent(path: &Path) -> Error {
    Error::new(Kind::NotFound, format!("cannot use `{}`: no fencepost schema is installed in it", path.display()))
        .coded("no_store")
        .hinted("`fencepost init` installs one beside the tables that are there")
}

/// The installed version, if there is one.
fn installed(connection: &Connection, path: &Path) -> Result<Option<u32>> {
    let foreign = |why: &str| {
        Error::new(Kind::Schema, format!("cannot use `{}`: {why}", path.display()))
            .coded("schema_foreign")
            .hinted("the names that begin with `fencepost_` are this program's; keep the store in another file")
    };
    // The ledger of somebody's own migrations may lie beside the store.
    let tables: Vec<String> = connection
        .prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'fencepost\\_%' ESCAPE '\\' \
                AND name NOT LIKE 'fencepost\\_migrations%' ESCAPE '\\'",
        )
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .map_err(driver_error)?;
    if tables.is_empty() {
        return Ok(None);
    }
    let has = |name: &str| tables.iter().any(|table| table == name);
    let version = if has(LEDGER) {
        let status = migrator()?.status_in(connection).map_err(|error| match error.kind() {
            Kind::Corrupt => foreign(&format!("its table `{LEDGER}` is not fencepost's")).caused_by(error),
            _ => error,
        })?;
        status.entries.last().map(|entry| u32::try_from(entry.number).unwrap_or(u32::MAX))
    } else if has(EARLIER) {
        earlier(connection).map_err(|cause| match driver_error(cause) {
            error if matches!(error.kind(), Kind::Internal) => {
                foreign(&format!("its table `{EARLIER}` is not fencepost's")).caused_by(error)
            }
            error => error,
        })?
    } else {
        return Err(foreign(&format!("it has a table `{}` that fencepost did not make", tables[0])));
    };
    // The tables are made and filled in one transaction, so an empty one is somebody else's.
    version.filter(|version| *version > 0).map(Some).ok_or_else(|| foreign("its schema has no version"))
}

/// The version that a program from before the ledger installed.
fn earlier(connection: &Connection) -> rusqlite::Result<Option<u32>> {
    let sql = format!("SELECT max(version) FROM {EARLIER} WHERE typeof(version) = 'integer'");
    connection.query_row(&sql, [], |row| row.get(0))
}

fn newer(path: &Path, version: u32) -> Error {
    Error::new(
        Kind::Schema,
        format!(
            "cannot use `{}`: its schema has version {version}, this program knows up to {VERSION}",
            path.display()
        ),
    )
    .coded("schema_newer")
    .with("version", version)
    .hinted("a newer fencepost made or upgraded this store; use that version or a later one")
}

fn damaged(path: &Path, why: &str) -> Error {
    Error::new(Kind::Schema, format!("cannot use `{}`: {why}", path.display()))
        .coded("schema_damaged")
        .hinted("restore a backup, or keep the store in another file")
}

fn other_version(path: &Path, version: impl std::fmt::Display) -> Error {
    damaged(path, &format!("its schema version {version} is not the one that this program knows"))
}

/// Checks that a schema of the current version is whole.
fn check(connection: &Connection, path: &Path) -> Result<()> {
    for (name, sql) in expected()? {
        let found: Option<String> = connection
            .query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [name], |row| row.get(0))
            .optional()
            .map_err(driver_error)?;
        match found {
            Some(found) if found == *sql => {}
            Some(_) => return Err(damaged(path, &format!("its `{name}` is not as fencepost made it"))),
            None => return Err(damaged(path, &format!("its `{name}` is missing"))),
        }
    }
    let row: Option<i64> = connection
        .query_row("SELECT one FROM fencepost_store", [], |row| row.get(0))
        .optional()
        .map_err(driver_error)?;
    if row.is_none() {
        return Err(damaged(path, "its table `fencepost_store` has lost its row"));
    }
    let status = migrator()?.status_in(connection)?;
    match status.findings.iter().find(|finding| finding.is_refusal()) {
        Some(finding) => Err(other_version(path, finding.number())),
        None => Ok(()),
    }
}

/// What a current schema consists of, name by name: what the migrations make of an empty database.
fn expected() -> Result<&'static [(String, String)]> {
    static EXPECTED: OnceLock<Vec<(String, String)>> = OnceLock::new();
    if let Some(expected) = EXPECTED.get() {
        return Ok(expected);
    }
    let make = || -> rusqlite::Result<Vec<(String, String)>> {
        let empty = Connection::open_in_memory()?;
        FILES.iter().try_for_each(|(_, sql)| empty.execute_batch(sql))?;
        let mut made = empty.prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")?;
        let made = made.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        made.collect()
    };
    let made = make().map_err(driver_error)?;
    Ok(EXPECTED.get_or_init(|| made))
}

fn install(connection: &mut Connection, path: &Path, clock: &dyn Clock) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(driver_error)?;
    // Another process may have installed it while this one waited for the lock.
    let version = installed(&transaction, path)?.unwrap_or(0);
    if version > VERSION {
        return Err(newer(path, version));
    }
    take_over(&transaction, path)?;
    migrator()?.within_sqlite(&transaction).up()?;
    if version == 0 {
        let incarnation = Nonce::random()?;
        let (device, inode) = identity(path)?;
        transaction
            .execute(
                include_str!("../sql/store/insert.sql"),
                (incarnation.as_str(), device, inode, clock.wall().as_micros()),
            )
            .map_err(driver_error)?;
    }
    check(&transaction, path)?;
    transaction.commit().map_err(driver_error)
}

/// Takes what a program from before the ledger wrote down into it.
fn take_over(transaction: &Transaction<'_>, path: &Path) -> Result<()> {
    let has_earlier = "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    if !transaction.query_row(has_earlier, [EARLIER], |row| row.get(0)).map_err(driver_error)? {
        return Ok(());
    }
    let rows: Vec<(u64, String)> = transaction
        .prepare(&format!("SELECT version, checksum FROM {EARLIER} ORDER BY version"))
        .and_then(|mut statement| statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .map_err(driver_error)?;
    let known = migrator()?;
    for (version, checksum) in &rows {
        if known.migrations().up_of(*version).is_none_or(|migration| migration.hashes.text != *checksum) {
            return Err(other_version(path, version));
        }
    }
    let Some((version, _)) = rows.last() else { return Ok(()) };
    let reason = Reason::new(format!("a program from before the ledger wrote it to `{EARLIER}`"))?;
    known.within_sqlite(transaction).baseline(*version, &reason).map(drop)
}

/// The file itself: a copy or a restored backup has another inode, or was born at another time where the number is used again.
fn identity(path: &Path) -> Result<(i64, i64)> {
    let found = std::fs::metadata(path).map_err(|cause| {
        Error::new(Kind::Unavailable, format!("cannot look at the file `{}`", path.display())).caused_by(cause)
    })?;
    // Not every file system knows when a file was born.
    let born = found.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let born = born.map_or(0, |since| since.as_nanos() as u64);
    Ok((found.dev().cast_signed(), found.ino().wrapping_add(born).cast_signed()))
}

/// Makes the file a new incarnation when it is another file than the one that its content remembers: the counter jumps, tokens
/// granted before are void, and what was held stays closed for one TTL, as its owner may still work on the other file.
fn adopt(connection: &mut Connection, path: &Path, clock: &dyn Clock) -> Result<()> {
    let here = identity(path)?;
    if stored_identity(connection)? == here {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(driver_error)?;
    if stored_identity(&transaction)? != here {
        let (counter, stored): (i64, i64) = transaction
            .query_row("SELECT epoch, clock FROM fencepost_store", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .map_err(driver_error)?;
        let now = clock.wall().max(Timestamp::from_micros(stored));
        let epoch = Epoch::next(counter.saturating_add(JUMP), None, now)?;
        let incarnation = Nonce::random()?;
        transaction
            .execute(
                include_str!("../sql/store/adopt.sql"),
                (incarnation.as_str(), here.0, here.1, epoch.get(), now.as_micros()),
            )
            .and_then(|_| transaction.execute(include_str!("../sql/slot/void.sql"), (epoch.get(), now.as_micros())))
            .and_then(|_| transaction.execute(include_str!("../sql/lease/void.sql"), (epoch.get(), now.as_micros())))
            .map_err(driver_error)?;
        tracing::warn!(path = %path.display(), "the store is in another file than before: tokens granted earlier are void");
    }
    transaction.commit().map_err(driver_error)
}

fn stored_identity(connection: &Connection) -> Result<(i64, i64)> {
    connection
        .query_row("SELECT device, inode FROM fencepost_store", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(driver_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_right_and_numbered_without_gaps() {
        let numbers: Vec<_> = migrator().unwrap().migrations().up().iter().map(|migration| migration.number).collect();
        assert_eq!(numbers, (1..=u64::from(VERSION)).collect::<Vec<_>>());
    }
}
