//! The one error type: what failed, how it may be retried, and a hint. It never decides an exit or HTTP status; faces do.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

/// The result of every call of the contract.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, coarsely. Stable; faces map it to exit and HTTP statuses by a table over [`Kind::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An argument is outside its documented range. Nothing reached storage.
    InvalidInput,
    /// The queue, consumer, lease or position named does not exist.
    NotFound,
    /// Something of that name exists already.
    AlreadyExists,
    /// The presented epoch is not the current owner's: somebody else was granted what the caller believes to own.
    Fenced,
    /// The slot cannot be given back while its batch is open.
    OpenBatch,
    /// A leader's lease went to somebody else.
    LeadershipLost,
    /// The call contradicts the stored state.
    Conflict,
    /// Messages that a reader or a new consumer asks for were removed already.
    PositionGone,
    /// Somebody holds the lock that the call needs; it was waited for up to a bound.
    Busy,
    /// A documented limit would be exceeded.
    LimitExceeded,
    /// This engine, file system or combination of options cannot do it.
    Unsupported,
    /// The store's schema is absent, newer, or not fencepost's.
    Schema,
    /// The storage cannot be reached or cannot take the write. Nothing of the call was stored.
    Unavailable,
    /// The storage failed while the call was being made durable: it may or may not have happened.
    UnknownOutcome,
    /// Stored data is damaged.
    Corrupt,
    /// A bug in fencepost.
    Internal,
}

impl Kind {
    /// Every kind, for tables that must be complete.
    pub const ALL: [Kind; 16] = [
        Kind::InvalidInput,
        Kind::NotFound,
        Kind::AlreadyExists,
        Kind::Fenced,
        Kind::OpenBatch,
        Kind::LeadershipLost,
        Kind::Conflict,
        Kind::PositionGone,
        Kind::Busy,
        Kind::LimitExceeded,
        Kind::Unsupported,
        Kind::Schema,
        Kind::Unavailable,
        Kind::UnknownOutcome,
        Kind::Corrupt,
        Kind::Internal,
    ];

    /// The stable snake_case code of the kind, which is also the code of an error that has no narrower one.
    pub const fn code(self) -> &'static str {
        match self {
            Kind::InvalidInput => "invalid_input",
            Kind::NotFound => "not_found",
            Kind::AlreadyExists => "already_exists",
            Kind::Fenced => "fenced",
            Kind::OpenBatch => "open_batch",
            Kind::LeadershipLost => "leadership_lost",
            Kind::Conflict => "conflict",
            Kind::PositionGone => "position_gone",
            Kind::Busy => "busy",
            Kind::LimitExceeded => "limit_exceeded",
            Kind::Unsupported => "unsupported",
            Kind::Schema => "schema",
            Kind::Unavailable => "unavailable",
            Kind::UnknownOutcome => "unknown_outcome",
            Kind::Corrupt => "corrupt",
            Kind::Internal => "internal",
        }
    }

    /// How a call that failed so may be retried, unless the error says otherwise.
    pub const fn retry(self) -> Retry {
        match self {
            Kind::Busy | Kind::Unavailable => Retry::Backoff,
            Kind::UnknownOutcome => Retry::SameNonceOnly,
            _ => Retry::Never,
        }
    }
}

/// Whether and how the same call may be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// The same call fails again, or would do harm.
    Never,
    /// At once.
    Now,
    /// After a jittered pause.
    Backoff,
    /// Only with the nonce or idempotency key of the first attempt, which resolves what happened to it.
    SameNonceOnly,
}

impl Retry {
    /// The stable name: `never`, `now`, `backoff` or `same_nonce_only`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Retry::Never => "never",
            Retry::Now => "now",
            Retry::Backoff => "backoff",
            Retry::SameNonceOnly => "same_nonce_only",
        }
    }
}

/// A failed call: kind, stable code, retry advice, operation, context, hint and source.
///
/// The message is lower case and names what was attempted with which value. Match on [`Error::kind`] or [`Error::code`], never
/// on the text.
///
/// ```
/// use fencepost_core::{Kind, QueueName};
///
/// let error = QueueName::new(" ").unwrap_err();
/// assert_eq!(error.kind(), Kind::InvalidInput);
/// assert_eq!(error.code(), "invalid_input");
/// assert!(error.hint().is_some());
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    code: &'static str,
    retry: Retry,
    operation: Option<&'static str>,
    message: Cow<'static, str>,
    context: Vec<(&'static str, String)>,
    hint: Option<Cow<'static, str>>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` with the kind's own code and retry advice.
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        Error(Box::new(Inner {
            kind,
            code: kind.code(),
            retry: kind.retry(),
            operation: None,
            message: message.into(),
            context: Vec::new(),
            hint: None,
            source: None,
        }))
    }

    /// Shorthand for an argument that is out of range, with what is allowed as the hint.
    pub fn invalid(message: impl Into<Cow<'static, str>>, allowed: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::InvalidInput, message).hinted(allowed)
    }

    /// Narrows the code within the kind, such as `store_closed` of `unavailable`.
    #[must_use]
    pub fn coded(mut self, code: &'static str) -> Self {
        self.0.code = code;
        self
    }

    /// Replaces the kind's retry advice.
    #[must_use]
    pub fn retried(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    /// Names the call that failed. The innermost name stays.
    #[must_use]
    pub fn during(mut self, operation: &'static str) -> Self {
        self.0.operation.get_or_insert(operation);
        self
    }

    /// Adds a fact for programs, such as `presented_epoch`.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((name, value.to_string()));
        self
    }

    /// Sets what the caller can do about it.
    #[must_use]
    pub fn hinted(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Puts what was attempted before the message: `cannot open `app.db`: the file is damaged`.
    #[must_use]
    pub fn attempting(mut self, what: impl fmt::Display) -> Self {
        self.0.message = format!("{what}: {}", self.0.message).into();
        self
    }

    /// Keeps the error that caused this one.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What went wrong, coarsely.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The stable snake_case code; equals the kind's unless a narrower one exists.
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// Whether and how the same call may be made again.
    pub fn retry(&self) -> Retry {
        self.0.retry
    }

    /// The call of the contract that failed, such as `release_slot`.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// Facts for programs, in the order in which they were added.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// One fact of the context.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.context().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// What the caller can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The same failure for another caller who shared the failed transaction; the source is kept as its text.
    #[must_use]
    pub fn shared(&self) -> Self {
        let inner = &self.0;
        Error(Box::new(Inner {
            kind: inner.kind,
            code: inner.code,
            retry: inner.retry,
            operation: inner.operation,
            message: inner.message.clone(),
            context: inner.context.clone(),
            hint: inner.hint.clone(),
            source: inner.source.as_ref().map(|source| source.to_string().into()),
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("code", &self.0.code)
            .field("retry", &self.0.retry)
            .field("operation", &self.0.operation)
            .field("message", &self.0.message)
            .field("context", &self.0.context)
            .field("hint", &self.0.hint)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_kinds_are_distinct_and_snake_case() {
        let mut codes: Vec<_> = Kind::ALL.iter().map(|kind| kind.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Kind::ALL.len());
        assert!(codes.iter().all(|code| code.chars().all(|c| c.is_ascii_lowercase() || c == '_')));
    }

    #[test]
    fn innermost_operation_stays() {
        let error = Error::new(Kind::Busy, "x").during("inner").during("outer");
        assert_eq!(error.operation(), Some("inner"));
    }

    #[test]
    fn shared_keeps_everything_a_caller_can_ask() {
        let error = Error::new(Kind::Unavailable, "cannot write")
            .coded("storage_full")
            .with("limit", 7)
            .hinted("make room")
            .caused_by(std::io::Error::other("disk"));
        let copy = error.shared();
        assert_eq!((copy.kind(), copy.code(), copy.fact("limit")), (Kind::Unavailable, "storage_full", Some("7")));
        assert_eq!(copy.source().map(ToString::to_string).as_deref(), Some("disk"));
    }
}
