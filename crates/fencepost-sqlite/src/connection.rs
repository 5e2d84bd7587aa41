//! Opening configured connections, and refusing what is no place for a store.

use std::path::Path;
use std::time::Duration;

use fencepost_core::{Error, Kind, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::driver_error;
use crate::options::{SqliteOptions, Synchronous};

/// Statements kept prepared per connection: more than this engine has.
const STATEMENTS: usize = 256;

/// The write-ahead log is cut back to this size when it was larger: 64 MiB.
pub(crate) const LOG_BYTES: i64 = 64 << 20;

/// The page cache of the writer and of each reader in KiB.
const CACHE_KIB: (i64, i64) = (16 << 10, 4 << 10);

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The one writer. It waits for the lock in a loop of its own.
    Write,
    /// One of the readers, or the watcher.
    Read,
}

/// Opens the file for `purpose`. The file must exist for [`Purpose::Read`].
pub(crate) fn connect(path: &Path, options: &SqliteOptions, purpose: Purpose) -> Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if options.create && purpose == Purpose::Write {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let connection = Connection::open_with_flags(path, flags).map_err(driver_error)?;
    // ORDER: the busy timeout stands before the first statement, also before the switch to the write-ahead log.
    connection.busy_timeout(options.busy_timeout).map_err(driver_error)?;
    configure(&connection, options, purpose).map_err(driver_error)?;
    Ok(connection)
}

fn configure(connection: &Connection, options: &SqliteOptions, purpose: Purpose) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Without this a statement is parsed and planned again whenever a value bound to it changes that might suit another plan:
    // most of what a receive of one message cost. There is one good plan for every statement here.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    let synchronous = match options.synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    connection.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // What a savepoint would restore goes to a temporary file otherwise, made anew for every transaction that changes more than a
    // few pages.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    let cache = if purpose == Purpose::Write { CACHE_KIB.0 } else { CACHE_KIB.1 };
    connection.pragma_update(None, "cache_size", -cache)?;
    if purpose == Purpose::Read {
        connection.pragma_update(None, "query_only", true)?;
    } else if let Some(pages) = options.max_pages {
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    Ok(())
}

/// Switches the file to the write-ahead log. Many processes may do so at once: SQLite then answers busy without waiting.
pub(crate) fn use_write_ahead_log(connection: &Connection, bound: Duration) -> Result<()> {
    let started = std::time::Instant::now();
    loop {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(()),
            Ok(mode) => {
                return Err(Error::new(
                    Kind::Unsupported,
                    format!("cannot switch the file to the write-ahead log: it stays in journal mode `{mode}`"),
                )
                .hinted("the file system must allow shared memory; a local disk does"));
            }
            Err(error) => {
                let error = driver_error(error);
                if error.kind() != Kind::Busy || started.elapsed() >= bound {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// Refuses paths that cannot hold a store, with what is wrong in words: SQLite only says that it cannot open them.
pub(crate) fn check_path(path: &Path, create: bool) -> Result<()> {
    let shown = path.display();
    let Ok(found) = std::fs::metadata(path) else {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !create {
            let why = if folder.is_dir() {
                "there is no such store".to_owned()
            } else {
                format!("the folder `{}` does not exist", folder.display())
            };
            return Err(Error::new(Kind::NotFound, format!("cannot open `{shown}`: {why}"))
                .coded("no_store")
                .hinted("`fencepost init` makes a store"));
        }
        if !folder.is_dir() {
            return Err(Error::invalid(
                format!("cannot make the store `{shown}`: the folder `{}` does not exist", folder.display()),
                "make the folder first, or name another place",
            ));
        }
        return check_file_system(folder);
    };
    if found.is_dir() {
        return Err(Error::invalid(
            format!("cannot open `{shown}` as a store: it is a directory"),
            "name a file in it",
        ));
    }
    if !found.is_file() {
        return Err(Error::invalid(
            format!("cannot open `{shown}` as a store: it is not a regular file"),
            "name a file",
        ));
    }
    check_file_system(path)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn check_file_system(place: &Path) -> Result<()> {
    /// Magic numbers of file systems whose locks or shared memory do not reach across hosts, from statfs(2).
    const NETWORK: [(u32, &str); 6] = [
        (0x6969, "NFS"),
        (0x517B, "SMB"),
        (0xFF53_4D42, "CIFS"),
        (0xFE53_4D42, "SMB2"),
        (0x0102_1997, "9P"),
        (0x00C3_6400, "Ceph"),
    ];
    let Ok(found) = rustix::fs::statfs(place) else { return Ok(()) };
    match NETWORK.iter().find(|(magic, _)| *magic == found.f_type as u32) {
        Some((_, name)) => Err(Error::new(
            Kind::Unsupported,
            format!("cannot keep a store at `{}`: it is on a network file system ({name})", place.display()),
        )
        .hinted("its locks do not hold across hosts; use a local disk, or one file per host")),
        None => Ok(()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn check_file_system(_place: &Path) -> Result<()> {
    Ok(())
}
