//! Exit statuses: one table over every kind of error. Scripts depend on it; add to it, never renumber.

use std::process::ExitCode;

use fencepost::Kind;

/// What a program that runs `fencepost` learns from its exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It was done.
    Done = 0,
    /// The store refused: somebody holds it, it is not there, or it is there already.
    Refused = 1,
    /// The command line or the input is wrong.
    Usage = 2,
    /// The caller does not own what it believes to own.
    Lost = 3,
    /// The storage failed; a message says whether something may have happened.
    Unavailable = 4,
    /// What is stored is not what this version can read.
    Schema = 5,
    /// A bug in fencepost.
    Bug = 70,
}

impl Exit {
    /// The exit status of an error of `kind`.
    pub const fn of(kind: Kind) -> Exit {
        match kind {
            Kind::NotFound | Kind::AlreadyExists | Kind::OpenBatch | Kind::Conflict | Kind::Busy => Exit::Refused,
            Kind::InvalidInput | Kind::LimitExceeded | Kind::Unsupported => Exit::Usage,
            Kind::Fenced | Kind::LeadershipLost => Exit::Lost,
            Kind::Unavailable | Kind::UnknownOutcome => Exit::Unavailable,
            Kind::Schema | Kind::Corrupt => Exit::Schema,
            Kind::Internal => Exit::Bug,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_documented_exit_status() {
        let table = [
            (Kind::InvalidInput, 2),
            (Kind::NotFound, 1),
            (Kind::AlreadyExists, 1),
            (Kind::Fenced, 3),
            (Kind::OpenBatch, 1),
            (Kind::LeadershipLost, 3),
            (Kind::Conflict, 1),
            (Kind::Busy, 1),
            (Kind::LimitExceeded, 2),
            (Kind::Unsupported, 2),
            (Kind::Schema, 5),
            (Kind::Unavailable, 4),
            (Kind::UnknownOutcome, 4),
            (Kind::Corrupt, 5),
            (Kind::Internal, 70),
        ];
        assert_eq!(table.map(|(kind, _)| kind), Kind::ALL);
        for (kind, status) in table {
            assert_eq!(Exit::of(kind) as u8, status, "{kind:?}");
        }
    }
}
