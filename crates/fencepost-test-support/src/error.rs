//! Why a test gets no server: there is none of the kind, or it did not do what it should.

use std::fmt;

/// The answer when a test asks for something from outside and does not get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unavailable {
    /// It is not installed here. Such a test may be left out: [`crate::skip_or_fail`].
    Missing(String),
    /// It is not installed here, and nobody is asked to: such a test is left out wherever that is so.
    Optional(String),
    /// It is installed, and failed.
    Failed(String),
}

impl Unavailable {
    pub(crate) fn failed(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::Failed(format!("{what}: {why}"))
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) => write!(f, "{what} is not installed; `cargo xtask setup` installs it"),
            Self::Optional(what) => write!(f, "{what} is not installed"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Unavailable {}

/// The result of asking for something from outside.
pub(crate) type Result<T = ()> = std::result::Result<T, Unavailable>;
