//! What the server and the driver report, as errors of the contract: by a table over SQLSTATEs, never by text. Who knows more of what a
//! state means in his calls says it in a table of his own.

use std::error::Error as StdError;
use std::io;

use fencepost_core::{Error, Kind, Retry};
use tokio_postgres::error::SqlState;

/// Keeps what the server reported, or else what the driver did: of a report the driver itself says only that there is one.
pub fn caused(contract: Error, error: tokio_postgres::Error) -> Error {
    if error.as_db_error().is_none() {
        return contract.caused_by(error);
    }
    error.into_source().into_iter().fold(contract, Error::caused_by)
}

/// Whether the connection broke, so that nothing is known of what was sent on it.
pub fn is_lost(error: &tokio_postgres::Error) -> bool {
    error.is_closed() || error.source().is_some_and(|cause| cause.is::<io::Error>())
}

/// The error of a connection that broke.
pub fn lost() -> Error {
    Error::new(Kind::Unavailable, "the connection to the server was lost").coded("connection_lost")
}

/// The error of an answer that makes no sense.
pub fn misread() -> Error {
    Error::new(Kind::Internal, "cannot understand the server")
}

/// The error of a state that the server reports, with the state as a fact: by the first row that fits in `first`, or else in the table
/// of what states mean to anybody.
pub fn of_state(state: &str, first: &[State]) -> Error {
    let found = first.iter().chain(STATES).find(|(known, ..)| state.starts_with(known));
    let (_, kind, code, message, hint, retry) =
        found.unwrap_or(&("", Kind::Internal, "internal", "the server refused a statement", "", Retry::Never));
    let error = Error::new(*kind, *message).coded(code).retried(*retry).with("sqlstate", state);
    if hint.is_empty() { error } else { error.hinted(*hint) }
}

/// What a SQLSTATE, or the beginning of one, means: kind, code, message, hint, and whether to try again.
pub type State = (&'static str, Kind, &'static str, &'static str, &'static str, Retry);

const LOGIN: &str = "user and password are those of the url, or of the server's rules for this host in pg_hba.conf";

/// What the server itself reports, by SQLSTATE or the beginning of one; the first that fits.
const STATES: &[State] = &[
    (
        "40001",
        Kind::Busy,
        "serialization_failure",
        "the transaction met another one that was committed since it began",
        "run the whole transaction again",
        Retry::Now,
    ),
    (
        "40P01",
        Kind::Busy,
        "deadlock",
        "the transaction waited for one that waited for it",
        "run the whole transaction again",
        Retry::Backoff,
    ),
    (
        "55P03",
        Kind::Busy,
        "busy",
        "somebody else's transaction holds a lock that the statement needs",
        "",
        Retry::Backoff,
    ),
    (
        "57014",
        Kind::Unavailable,
        "timeout",
        "the call was cancelled, as it took longer than its bound",
        "",
        Retry::Backoff,
    ),
    ("57P03", Kind::Unavailable, "starting", "the server is starting or stopping", "", Retry::Backoff),
    ("57P", Kind::Unavailable, "connection_lost", "the server ended the connection", "", Retry::Backoff),
    (
        "25006",
        Kind::Unavailable,
        "read_only",
        "the server takes no writes: it follows another one, or is set to be read-only",
        "connect to the primary; with several hosts in the url the one that takes writes is found",
        Retry::Backoff,
    ),
    (
        "25P02",
        Kind::Conflict,
        "transaction_aborted",
        "an earlier statement of the transaction failed",
        "roll it back; its first error says why",
        Retry::Never,
    ),
    ("28", Kind::Unavailable, "access_denied", "the server refused the user or the password", LOGIN, Retry::Never),
    (
        "3D000",
        Kind::Unavailable,
        "no_database",
        "the server has no database of that name",
        "create it first, or name another one at the end of the url",
        Retry::Never,
    ),
    ("42501", Kind::Unavailable, "permission_denied", "the user may not do that", "its owner grants it", Retry::Never),
    (
        "53100",
        Kind::Unavailable,
        "storage_full",
        "the server's storage is full",
        "nothing of the call was stored; make room on the server",
        Retry::Backoff,
    ),
    ("53200", Kind::Unavailable, "out_of_memory", "the server is out of memory", "", Retry::Backoff),
    (
        "53300",
        Kind::Unavailable,
        "too_many_connections",
        "the server takes no more connections",
        "use a smaller pool, a pooler in between, or raise max_connections",
        Retry::Backoff,
    ),
    ("53", Kind::Unavailable, "unavailable", "the server lacks a resource", "", Retry::Backoff),
    ("58", Kind::Unavailable, "io_error", "the server cannot read or write its storage", "", Retry::Backoff),
    ("08", Kind::Unavailable, "connection_lost", "the connection to the server was lost", "", Retry::Backoff),
    ("XX001", Kind::Corrupt, "corrupt", "the server found damaged data", "restore a backup", Retry::Never),
    ("XX002", Kind::Corrupt, "corrupt", "the server found a damaged index", "rebuild it with REINDEX", Retry::Never),
];

/// An error of the driver as an error of the contract; its message becomes the cause. `first` is as in [`of_state`].
pub fn driver_error(error: tokio_postgres::Error, first: &[State]) -> Error {
    match error.as_db_error() {
        Some(reported) => {
            let contract = of_state(reported.code().code(), first);
            caused(contract, error)
        }
        None if is_lost(&error) => lost().caused_by(error),
        None => misread().caused_by(error),
    }
}

/// The error of a connection that could not be made.
pub fn connect_error(error: tokio_postgres::Error, has_password: bool) -> Error {
    if error.code() == Some(&SqlState::INVALID_PASSWORD) && !has_password {
        let asked = Error::new(Kind::Unavailable, "the server asks for a password and the url has none");
        return caused(asked.coded("access_denied").hinted(LOGIN).retried(Retry::Never), error);
    }
    if error.as_db_error().is_some() {
        return driver_error(error, &[]);
    }
    let unavailable = |code, message: &'static str, hint: &'static str| {
        Error::new(Kind::Unavailable, message).coded(code).hinted(hint)
    };
    let contract = match error.source().and_then(|cause| cause.downcast_ref::<io::Error>()) {
        // The driver's own word for a server that is not what target_session_attrs asks for; the system's has a number.
        Some(cause) if cause.kind() == io::ErrorKind::PermissionDenied && cause.raw_os_error().is_none() => {
            unavailable(
                "read_only",
                "the server takes no writes: it follows another one, or is set to be read-only",
                "connect to the primary; with several hosts in the url the one that takes writes is found",
            )
        }
        Some(cause) if crate::tls::is_refusal(cause) => unavailable(
            "untrusted_server",
            "the server's certificate cannot be trusted",
            "name the authority that signed it with sslrootcert=FILE in the url",
        ),
        Some(cause) if !crate::tls::is_of_tls(cause) => unreachable(),
        None if error.is_closed() => unreachable(),
        _ => unavailable("cannot_connect", "the server answered, and no connection came of it", "the cause says why"),
    };
    contract.caused_by(error)
}

/// The error of a place where nobody is.
pub(crate) fn unreachable() -> Error {
    Error::new(Kind::Unavailable, "nothing answers there")
        .coded("unreachable")
        .hinted("check host and port of the url, and that the server runs and listens there")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_stands_before_those_it_would_hide_behind() {
        for (index, (state, ..)) in STATES.iter().enumerate() {
            let hidden = STATES[..index].iter().find(|(earlier, ..)| state.starts_with(earlier));
            assert!(hidden.is_none(), "`{state}` hides behind {hidden:?}");
        }
    }
}
