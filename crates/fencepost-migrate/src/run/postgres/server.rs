//! What the server reports of the runner's own statements, as errors of the contract: by SQLSTATE, never by text.

use std::error::Error as StdError;
use std::io;

use fencepost_connect::{State, driver_error};
use fencepost_core::{Error, Kind, Retry};

/// What states mean to a runner and to nobody else; the first that fits.
const STATES: &[State] = &[
    ("55P03", Kind::Busy, "lock_timeout", "somebody else holds a lock on the ledger", "", Retry::Backoff),
    ("40", Kind::Busy, "conflict", "the transaction met another one", "", Retry::Backoff),
    (
        "42501",
        Kind::Unavailable,
        "permission_denied",
        "the role may not do that",
        "the role needs CREATE on the schema, and SELECT, INSERT, UPDATE and DELETE on the ledger",
        Retry::Never,
    ),
    ("3F000", Kind::NotFound, "no_schema", "there is no such schema", "", Retry::Never),
];

/// An error of one of our own statements. `what` was attempted.
pub(crate) fn failed(what: &str, error: tokio_postgres::Error) -> Error {
    driver_error(error, STATES).attempting(what)
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
