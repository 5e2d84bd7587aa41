//! The schema of a file: installed in one transaction, numbered, checked at every open, and tied to the file it is in.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use fencepost_core::{Clock, Epoch, Error, Kind, Nonce, Result, Timestamp};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use sha2::{Digest, Sha256};

use crate::error::driver_error;

struct Migration {
    version: u32,
    name: &'static str,
    sql: &'static str,
}

/// Every migration, without gaps; the same number means the same change in every engine.
const MIGRATIONS: [Migration; 5] = [
    Migration { version: 1, name: "initial", sql: include_str!("../sql/migrations/0001_initial.sql") },
    Migration { version: 2, name: "operators", sql: include_str!("../sql/migrations/0002_operators.sql") },
    Migration { version: 3, name: "failures", sql: include_str!("../sql/migrations/0003_failures.sql") },
    Migration { version: 4, name: "notice", sql: include_str!("../sql/migrations/0004_notice.sql") },
    Migration { version: 5, name: "schedules", sql: include_str!("../sql/migrations/0005_schedules.sql") },
];

/// How far the epoch counter jumps when the file turns out to be another one than it was.
const JUMP: i64 = 1 << 20;

/// The version of the schema that this build reads and writes.
pub(crate) const VERSION: u32 = MIGRATIONS[MIGRATIONS.len() - 1].version;

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
    if !tables.iter().any(|table| table == "fencepost_schema") {
        return Err(foreign(&format!("it has a table `{}` that fencepost did not make", tables[0])));
    }
    let version = connection
        .query_row("SELECT max(version) FROM fencepost_schema WHERE typeof(version) = 'integer'", [], |row| {
            row.get::<_, Option<u32>>(0)
        })
        .map_err(|cause| match driver_error(cause) {
            error if matches!(error.kind(), Kind::Internal) => {
                foreign("its table `fencepost_schema` is not fencepost's").caused_by(error)
            }
            error => error,
        })?;
    // The table is made and filled in one transaction, so an empty one is somebody else's.
    version
        .filter(|version| *version > 0)
        .map(Some)
        .ok_or_else(|| foreign("its table `fencepost_schema` has no version"))
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

/// Checks that a schema of the current version is whole.
fn check(connection: &Connection, path: &Path) -> Result<()> {
    let damaged = |why: String| {
        Error::new(Kind::Schema, format!("cannot use `{}`: {why}", path.display()))
            .coded("schema_damaged")
            .hinted("restore a backup, or keep the store in another file")
    };
    for (name, sql) in expected()? {
        let found: Option<String> = connection
            .query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [name], |row| row.get(0))
            .optional()
            .map_err(driver_error)?;
        match found {
            Some(found) if found == *sql => {}
            Some(_) => return Err(damaged(format!("its `{name}` is not as fencepost made it"))),
            None => return Err(damaged(format!("its `{name}` is missing"))),
        }
    }
    let row: Option<i64> = connection
        .query_row("SELECT one FROM fencepost_store", [], |row| row.get(0))
        .optional()
        .map_err(driver_error)?;
    if row.is_none() {
        return Err(damaged("its table `fencepost_store` has lost its row".into()));
    }
    for migration in &MIGRATIONS {
        let stored: Option<String> = connection
            .query_row("SELECT checksum FROM fencepost_schema WHERE version = ?1", [migration.version], |row| {
                row.get(0)
            })
            .optional()
            .map_err(driver_error)?;
        if stored.as_deref() != Some(&checksum(migration.sql)) {
            return Err(damaged(format!(
                "its schema version {} is not the one that this program knows",
                migration.version
            )));
        }
    }
    Ok(())
}

/// What a current schema consists of, name by name: what the migrations make of an empty database.
fn expected() -> Result<&'static [(String, String)]> {
    static EXPECTED: OnceLock<Vec<(String, String)>> = OnceLock::new();
    if let Some(expected) = EXPECTED.get() {
        return Ok(expected);
    }
    let make = || -> rusqlite::Result<Vec<(String, String)>> {
        let empty = Connection::open_in_memory()?;
        MIGRATIONS.iter().try_for_each(|migration| empty.execute_batch(migration.sql))?;
        let mut made = empty.prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")?;
        let made = made.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        made.collect()
    };
    let made = make().map_err(driver_error)?;
    Ok(EXPECTED.get_or_init(|| made))
}

fn checksum(sql: &str) -> String {
    Sha256::digest(sql.replace("\r\n", "\n")).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn install(connection: &mut Connection, path: &Path, clock: &dyn Clock) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(driver_error)?;
    // Another process may have installed it while this one waited for the lock.
    let version = installed(&transaction, path)?.unwrap_or(0);
    if version > VERSION {
        return Err(newer(path, version));
    }
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > version) {
        apply(&transaction, migration, clock.wall()).map_err(driver_error)?;
    }
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

fn apply(transaction: &Transaction<'_>, migration: &Migration, now: Timestamp) -> rusqlite::Result<()> {
    transaction.execute_batch(migration.sql)?;
    transaction.execute(
        "INSERT INTO fencepost_schema (version, name, checksum, installed_at) VALUES (?1, ?2, ?3, ?4)",
        (migration.version, migration.name, checksum(migration.sql), now.as_micros()),
    )?;
    Ok(())
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
    fn migrations_are_numbered_without_gaps() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.version as usize, index + 1);
        }
    }
}
