//! What the server and the driver report, as errors of the contract: by a table over SQLSTATEs and the code in DETAIL, never by text.

use fencepost_connect::{State, caused, is_lost, lost, misread, of_state};
use fencepost_core::refusal::{NO_CONSUMER_HINT, NO_QUEUE_HINT, NO_SCHEDULE_HINT};
use fencepost_core::{Error, Kind, Retry};
use serde_json::Value;
use tokio_postgres::error::DbError;

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
            Kind::NotFound if facts.contains_key("schedule") => Some(NO_SCHEDULE_HINT.to_owned()),
            Kind::NotFound if facts.contains_key("consumer") && facts.len() == 2 => Some(NO_CONSUMER_HINT.to_owned()),
            _ => reported.hint().filter(|hint| !hint.is_empty()).map(str::to_owned),
        };
        return (hint.into_iter().fold(error, Error::hinted), true);
    }
    (of_state(state, STATES), false)
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
    "schedule",
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

const INIT: &str = "`fencepost init` installs or upgrades the schema";

/// What the server itself reports that means something else here than to anybody, by SQLSTATE.
const STATES: &[State] = &[
    (
        "55P03",
        Kind::Busy,
        "busy",
        "somebody else's transaction has the row locked",
        "keep transactions that guard or ack short",
        Retry::Backoff,
    ),
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
        "42501",
        Kind::Unavailable,
        "permission_denied",
        "the user may not do that",
        "a role gets rights by fencepost.grant_queue and fencepost.grant_lease, or as a member of fencepost_producer, fencepost_consumer or \
            fencepost_admin, which schedules take; to install it needs CREATE on the database",
        Retry::Never,
    ),
    ("42P01", Kind::Schema, "schema_damaged", "a table of the schema is missing", INIT, Retry::Never),
    ("42883", Kind::Schema, "schema_damaged", "a function of the schema is missing", INIT, Retry::Never),
    ("3F000", Kind::Schema, "schema_damaged", "the schema is missing", INIT, Retry::Never),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_nobody_answered_is_unknown_only_when_it_may_have_written() {
        assert_eq!(unanswered(Effect::Read).kind(), Kind::Unavailable);
        let unknown = unanswered(Effect::Write);
        assert_eq!((unknown.kind(), unknown.retry()), (Kind::UnknownOutcome, Retry::SameNonceOnly));
    }
}
