//! What the server and the driver report, as errors of the contract: by a table over SQLSTATEs and the code in DETAIL, never by text.

use std::error::Error as StdError;
use std::io;

use fencepost_core::refusal::{NO_CONSUMER_HINT, NO_QUEUE_HINT};
use fencepost_core::{Error, Kind, Retry};
use serde_json::Value;
use tokio_postgres::error::{DbError, SqlState};

use crate::connect::unreachable;

/// What a call does to the store, which decides what it means that its answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing: the call can be made again.
    Read,
    /// It may have happened or not.
    Write,
}

/// An error of the driver as an error of the contract; its message becomes the cause.
///
/// For callers' own transactions that fencepost's calls take part in.
pub fn driver_error(error: tokio_postgres::Error) -> Error {
    let Some(reported) = error.as_db_error() else {
        return if is_lost(&error) { lost().caused_by(error) } else { misread().caused_by(error) };
    };
    let (contract, ours) = of_server(reported);
    if ours { contract } else { caused(contract, error) }
}

/// Keeps what the server reported, or else what the driver did: of a report the driver itself says only that there is one.
fn caused(contract: Error, error: tokio_postgres::Error) -> Error {
    if error.as_db_error().is_none() {
        return contract.caused_by(error);
    }
    error.into_source().into_iter().fold(contract, Error::caused_by)
}

/// The error of one statement that was sent in a transaction of its own.
pub(crate) fn call_error(error: tokio_postgres::Error, effect: Effect) -> Error {
    // A backend that is told to go may be told so between its commit and its answer.
    let silent = match error.as_db_error() {
        Some(reported) => {
            matches!(reported.code().code(), "57P01" | "57P02") || reported.code().code().starts_with("08")
        }
        None => is_lost(&error),
    };
    match effect {
        Effect::Write if silent => caused(unknown(), error),
        _ => driver_error(error),
    }
}

/// The error of a call that was not answered in time, and of whose end nothing is known.
pub(crate) fn unanswered(effect: Effect) -> Error {
    match effect {
        Effect::Read => Error::new(Kind::Unavailable, "the server did not answer in time").coded("timeout"),
        Effect::Write => unknown(),
    }
}

/// Whether the server may report this state to a statement whose queue or consumer is being dropped: a table, function, row or
/// cached plan is gone that was there when the statement began. Nothing of the statement was stored.
pub(crate) fn met_a_drop(state: &str) -> bool {
    matches!(state, "42P01" | "42883" | "23503" | "XX000")
}

/// The error of a stored value that cannot be what it is.
pub(crate) fn damaged(what: &str, cause: Error) -> Error {
    Error::new(Kind::Corrupt, format!("cannot read `fencepost.{what}`: a stored value is not what it should be"))
        .hinted("something other than fencepost wrote to the schema; restore a backup")
        .caused_by(cause)
}

/// Whether the connection broke, so that nothing is known of what was sent on it.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    error.is_closed() || error.source().is_some_and(|cause| cause.is::<io::Error>())
}

fn lost() -> Error {
    Error::new(Kind::Unavailable, "the connection to the server was lost").coded("connection_lost")
}

fn misread() -> Error {
    Error::new(Kind::Internal, "cannot understand the server")
}

fn unknown() -> Error {
    Error::new(Kind::UnknownOutcome, "the connection was lost before the server answered: the call may have happened or not")
        .hinted("a call with a nonce or an idempotency key is resolved by making it again with the same one; otherwise read what is stored first")
}

/// What the server reported, and whether fencepost's own functions raised it.
fn of_server(reported: &DbError) -> (Error, bool) {
    let state = reported.code().code();
    let facts = reported.detail().and_then(|detail| serde_json::from_str::<Value>(detail).ok());
    let facts = facts.as_ref().and_then(Value::as_object);
    let ours = facts.and_then(|facts| facts.get("code")).and_then(Value::as_str);
    if let (Some(facts), Some(code)) = (facts, ours)
        && let Some((_, kind)) = RAISED.iter().find(|(known, _)| *known == state)
    {
        let mut error = Error::new(*kind, reported.message().to_owned());
        if let Some(narrow) = CODES.iter().find(|known| **known == code) {
            error = error.coded(narrow);
        }
        for name in FACTS {
            match facts.get(*name) {
                None | Some(Value::Null) => {}
                Some(Value::String(text)) => error = error.with(name, text),
                Some(other) => error = error.with(name, other),
            }
        }
        let hint = match *kind {
            // The server's own hint is for callers of SQL.
            Kind::NotFound if facts.contains_key("queue") => Some(NO_QUEUE_HINT.to_owned()),
            Kind::NotFound if facts.contains_key("consumer") && facts.len() == 2 => Some(NO_CONSUMER_HINT.to_owned()),
            _ => reported.hint().filter(|hint| !hint.is_empty()).map(str::to_owned),
        };
        return (hint.into_iter().fold(error, Error::hinted), true);
    }
    let found = STATES.iter().find(|(known, ..)| state.starts_with(known));
    let (_, kind, code, message, hint, retry) =
        found.unwrap_or(&("", Kind::Internal, "internal", "the server refused a statement", "", Retry::Never));
    let error = Error::new(*kind, *message).coded(code).retried(*retry).with("sqlstate", state);
    (if hint.is_empty() { error } else { error.hinted(*hint) }, false)
}

/// What fencepost's own functions raise, with the code in DETAIL: the kinds of SQLSTATEs.
const RAISED: [(&str, Kind); 15] = [
    ("ZF001", Kind::Fenced),
    ("ZF002", Kind::PositionGone),
    ("ZF003", Kind::LeadershipLost),
    ("ZF004", Kind::Conflict),
    ("ZF005", Kind::LimitExceeded),
    ("ZF006", Kind::Schema),
    ("55006", Kind::OpenBatch),
    ("55P03", Kind::Busy),
    ("0A000", Kind::Unsupported),
    ("42704", Kind::NotFound),
    ("42710", Kind::AlreadyExists),
    ("22023", Kind::InvalidInput),
    ("25006", Kind::Unavailable),
    ("XX001", Kind::Corrupt),
    ("XX000", Kind::Internal),
];

/// The codes in DETAIL that are narrower than their kind's own.
const CODES: &[&str] = &["read_only"];

/// The facts in DETAIL that become an error's context.
const FACTS: &[&str] = &[
    "argument",
    "lease",
    "queue",
    "consumer",
    "slot",
    "presented_epoch",
    "current_epoch",
    "holder",
    "expires_at",
    "batch_id",
    "open_batch_id",
    "message_id",
    "first_id",
    "first_position",
    "partitions",
    "slots",
    "consumers",
    "on_failure",
    "max_attempts",
    "max_crashes",
    "backoff",
    "isolation",
    "limit",
    "pid",
    "pids",
];

type State = (&'static str, Kind, &'static str, &'static str, &'static str, Retry);

const LOGIN: &str = "user and password are those of the url, or of the server's rules for this host in pg_hba.conf";
const INIT: &str = "`fencepost init` installs or upgrades the schema";

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
        "somebody else's transaction has the row locked",
        "keep transactions that guard or ack short",
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
        "25P03",
        Kind::Unavailable,
        "transaction_timeout",
        "the server ended a transaction that idled for longer than its bound",
        "a transaction that guards or acks lives at most as long as its owner's grant",
        Retry::Backoff,
    ),
    (
        "25P04",
        Kind::Unavailable,
        "transaction_timeout",
        "the server ended a transaction that took longer than its bound",
        "a transaction that guards or acks lives at most as long as its owner's grant",
        Retry::Backoff,
    ),
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
    (
        "42501",
        Kind::Unavailable,
        "permission_denied",
        "the user may not do that",
        "the owner of the schema grants it: EXECUTE on the functions, or CREATE on the database to install",
        Retry::Never,
    ),
    ("42P01", Kind::Schema, "schema_damaged", "a table of the schema is missing", INIT, Retry::Never),
    ("42883", Kind::Schema, "schema_damaged", "a function of the schema is missing", INIT, Retry::Never),
    ("3F000", Kind::Schema, "schema_damaged", "the schema is missing", INIT, Retry::Never),
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

/// The error of a connection that could not be made.
pub(crate) fn connect_error(error: tokio_postgres::Error, has_password: bool) -> Error {
    if error.code() == Some(&SqlState::INVALID_PASSWORD) && !has_password {
        let asked = Error::new(Kind::Unavailable, "the server asks for a password and the url has none");
        return caused(asked.coded("access_denied").hinted(LOGIN).retried(Retry::Never), error);
    }
    if error.as_db_error().is_some() {
        return driver_error(error);
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

    #[test]
    fn a_call_that_nobody_answered_is_unknown_only_when_it_may_have_written() {
        assert_eq!(unanswered(Effect::Read).kind(), Kind::Unavailable);
        let unknown = unanswered(Effect::Write);
        assert_eq!((unknown.kind(), unknown.retry()), (Kind::UnknownOutcome, Retry::SameNonceOnly));
    }
}
