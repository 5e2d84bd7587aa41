//! What the server reports of the runner's own statements, as errors of the contract: by SQLSTATE, never by text.

use std::error::Error as StdError;
use std::io;

use fencepost_core::{Error, Kind, Retry};
use tokio_postgres::error::DbError;

/// What the server itself reports, by the beginning of an SQLSTATE; the first that fits.
const STATES: [(&str, Kind, &str, &str); 9] = [
    ("55P03", Kind::Busy, "lock_timeout", "somebody else holds a lock on the ledger"),
    ("40", Kind::Busy, "conflict", "the transaction met another one"),
    ("25006", Kind::Unavailable, "read_only", "the server takes no writes"),
    ("57P", Kind::Unavailable, "connection_lost", "the server ended the connection"),
    ("57014", Kind::Unavailable, "timeout", "the statement was cancelled"),
    ("08", Kind::Unavailable, "connection_lost", "the connection to the server was lost"),
    ("53", Kind::Unavailable, "unavailable", "the server lacks a resource"),
    ("42501", Kind::Unavailable, "permission_denied", "the role may not do that"),
    ("3F000", Kind::NotFound, "no_schema", "there is no such schema"),
];

/// An error of one of our own statements. `what` was attempted.
pub(crate) fn failed(what: &str, error: tokio_postgres::Error) -> Error {
    let contract = match error.as_db_error() {
        Some(reported) => of_server(reported),
        None if is_lost(&error) => {
            Error::new(Kind::Unavailable, "the connection to the server was lost").coded("connection_lost")
        }
        None => Error::new(Kind::Internal, "cannot understand the server"),
    };
    let contract = contract.attempting(what);
    if error.as_db_error().is_none() {
        return contract.caused_by(error);
    }
    error.into_source().into_iter().fold(contract, Error::caused_by)
}

/// The error of a commit that was not answered.
pub(crate) fn unknown(error: tokio_postgres::Error) -> Error {
    Error::new(Kind::UnknownOutcome, "the connection was lost before the server answered the commit")
        .retried(Retry::Backoff)
        .hinted("the ledger says whether it happened; run again, and what is missing is done")
        .caused_by(error)
}

/// Whether the connection broke, or the server said that it ends it.
pub(crate) fn is_lost(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(state) => state.code().starts_with("57P") || state.code().starts_with("08"),
        None => error.is_closed() || error.source().is_some_and(|cause| cause.is::<io::Error>()),
    }
}

fn of_server(reported: &DbError) -> Error {
    let state = reported.code().code();
    let error = match STATES.iter().find(|(known, ..)| state.starts_with(known)) {
        Some((_, kind, code, message)) => Error::new(*kind, *message).coded(code),
        None => Error::new(Kind::Internal, "the server refused a statement"),
    };
    let error = if state == "42501" {
        error
            .retried(Retry::Never)
            .hinted("the role needs CREATE on the schema, and SELECT, INSERT, UPDATE and DELETE on the ledger")
    } else {
        error
    };
    error.with("sqlstate", state)
}
