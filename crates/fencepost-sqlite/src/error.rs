//! SQLite's result codes as errors of the contract, by a table over codes, never by text.

use fencepost_core::{Error, Kind, Retry};
use rusqlite::ErrorCode;

/// An error of the driver as an error of the contract; its message becomes the cause.
///
/// For closures of [`SqliteStore::write`](crate::SqliteStore::write) whose error type is fencepost's own.
pub fn driver_error(error: rusqlite::Error) -> Error {
    let Some(code) = error.sqlite_error_code() else {
        let contract = if is_damage(&error) {
            Error::new(Kind::Corrupt, "a stored value is not of the type that it was read as").hinted(DAMAGED)
        } else {
            Error::new(Kind::Internal, "cannot run a statement")
        };
        return contract.caused_by(error);
    };
    let (kind, code, message, hint) = classify(code);
    let contract = Error::new(kind, message).coded(code);
    let contract = if hint.is_empty() { contract } else { contract.hinted(hint) };
    contract.caused_by(error)
}

/// Whether a value was read that is not what it should be, as in a file with flipped bits.
fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(error, FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..))
}

/// What stands for a failed COMMIT: an I/O error there leaves open whether the transaction will be found after a restart.
pub(crate) fn commit_error(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::SystemIoFailure) => {
            Error::new(Kind::UnknownOutcome, "cannot tell whether the transaction was committed")
                .hinted("the storage failed while it was made durable; read what is stored before sending again")
                .caused_by(error)
        }
        // A deferred constraint that some caller's closure left violated: nobody's fault but that closure's.
        Some(ErrorCode::ConstraintViolation) => rolled_back(&driver_error(error)),
        _ => driver_error(error),
    }
}

/// What callers hear whose work was undone with somebody else's, when SQLite rolled the whole group back.
pub(crate) fn rolled_back(cause: &Error) -> Error {
    let mut error = cause.shared();
    if !matches!(error.kind(), Kind::Unavailable | Kind::Busy) {
        error = Error::new(Kind::Unavailable, "cannot commit: SQLite rolled the shared transaction back")
            .coded("rolled_back")
            .caused_by(cause.to_string());
    }
    error.retried(Retry::Backoff)
}

const SPACE: &str = "nothing of the call was stored; make room on the disk, or raise the page limit of the file";
const RIGHTS: &str = "the file, its `-wal` and `-shm` beside it and their folder must be writable for this process";
const DAMAGED: &str =
    "keep the file as it is, and restore a backup or recover it with the `.recover` command of the sqlite3 shell";

fn classify(code: ErrorCode) -> (Kind, &'static str, &'static str, &'static str) {
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => (
            Kind::Busy,
            "busy",
            "cannot get the file's write lock in time",
            "another process holds it; a process that is stopped inside a write transaction holds it until it goes on or dies",
        ),
        ErrorCode::DiskFull => (Kind::Unavailable, "storage_full", "cannot write: the storage is full", SPACE),
        ErrorCode::ReadOnly => (Kind::Unavailable, "read_only", "cannot write: the file is read-only", RIGHTS),
        ErrorCode::PermissionDenied => {
            (Kind::Unavailable, "permission_denied", "cannot use the file: no permission", RIGHTS)
        }
        ErrorCode::CannotOpen => (Kind::Unavailable, "cannot_open", "cannot open the file", RIGHTS),
        ErrorCode::SystemIoFailure => (Kind::Unavailable, "io_error", "cannot read or write the file", ""),
        ErrorCode::OutOfMemory => (Kind::Unavailable, "out_of_memory", "cannot allocate memory", ""),
        ErrorCode::FileLockingProtocolFailed => (Kind::Busy, "busy", "cannot lock the file", ""),
        ErrorCode::NoLargeFileSupport => {
            (Kind::Unsupported, "unsupported", "this host cannot hold files of that size", "")
        }
        ErrorCode::DatabaseCorrupt => (Kind::Corrupt, "corrupt", "the file is damaged", DAMAGED),
        ErrorCode::NotADatabase => (
            Kind::Corrupt,
            "not_a_database",
            "the file is not an SQLite database, or is encrypted or damaged",
            "name another file; this one was not touched",
        ),
        ErrorCode::OperationInterrupted => (
            Kind::LimitExceeded,
            "write_bound",
            "the transaction took longer than its bound and was rolled back",
            "keep what runs inside a write transaction short: it stops every writer of the file",
        ),
        ErrorCode::AuthorizationForStatementDenied => (
            Kind::Unsupported,
            "unsupported",
            "cannot begin, commit or roll back inside a write transaction",
            "it is committed when the closure returns `Ok` and rolled back when it returns an error; a savepoint undoes a part of it",
        ),
        ErrorCode::TooBig => (Kind::LimitExceeded, "limit_exceeded", "a value is larger than SQLite can hold", ""),
        _ => (Kind::Internal, "internal", "cannot run a statement", ""),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn of(code: i32) -> Error {
        driver_error(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
    }

    #[test]
    fn native_codes_map_to_kinds() {
        for (code, kind, name) in [
            (ffi::SQLITE_BUSY, Kind::Busy, "busy"),
            (ffi::SQLITE_BUSY_SNAPSHOT, Kind::Busy, "busy"),
            (ffi::SQLITE_FULL, Kind::Unavailable, "storage_full"),
            (ffi::SQLITE_READONLY, Kind::Unavailable, "read_only"),
            (ffi::SQLITE_IOERR_FSYNC, Kind::Unavailable, "io_error"),
            (ffi::SQLITE_CORRUPT, Kind::Corrupt, "corrupt"),
            (ffi::SQLITE_NOTADB, Kind::Corrupt, "not_a_database"),
            (ffi::SQLITE_INTERRUPT, Kind::LimitExceeded, "write_bound"),
            (ffi::SQLITE_AUTH, Kind::Unsupported, "unsupported"),
            (ffi::SQLITE_CONSTRAINT, Kind::Internal, "internal"),
        ] {
            assert_eq!((of(code).kind(), of(code).code()), (kind, name), "{code}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_corrupt() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let text = "SELECT CAST(x'FFFE' AS TEXT)";
        let failures = [
            connection.query_row(text, [], |row| row.get::<_, String>(0)).map(drop),
            connection.query_row(text, [], |row| row.get::<_, i64>(0)).map(drop),
            connection.query_row("SELECT -1", [], |row| row.get::<_, u32>(0)).map(drop),
        ];
        for failure in failures {
            assert_eq!(driver_error(failure.unwrap_err()).kind(), Kind::Corrupt);
        }
    }

    #[test]
    fn an_io_error_at_commit_is_unknown_and_a_full_disk_is_not() {
        let failure = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        assert_eq!(commit_error(failure(ffi::SQLITE_IOERR_FSYNC)).kind(), Kind::UnknownOutcome);
        assert_eq!(commit_error(failure(ffi::SQLITE_FULL)).code(), "storage_full");
    }
}
